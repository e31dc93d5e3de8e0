"""A store that was put back from an old backup: what the commands say, and the order that accepts it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from click.testing import CliRunner, Result

from vestige.cli import command


def vestige(*arguments: object) -> Result:
    return CliRunner().invoke(command, [str(a) for a in arguments], prog_name="vestige")


def test_run_and_verify_refuse_it_until_it_is_accepted(tmp_path: Path) -> None:
    path, store, key = tmp_path / "a.csv", tmp_path / "a.db", tmp_path / "a.key"
    path.write_text("who,spent\n" + "".join(f"u{i % 7},{i}\n" for i in range(60)))
    on = (store, "--key", key)
    run = ("run", path, "--column", "spent", "--subject", "who", "--retention", 96, "--store", *on)
    assert vestige(*run).exit_code == 0
    shutil.copy(store, tmp_path / "backup")
    assert vestige("forget", *on, "--subject", "u1", "--reference", "T-1").exit_code == 0
    assert vestige("verify", *on).exit_code == 0
    shutil.copy(tmp_path / "backup", store)
    verified = vestige("verify", *on, "--json")
    assert verified.exit_code == 2
    (said,) = json.loads(verified.stdout)["findings"]
    assert "put back from an old backup" in said
    assert "must be filed again: T-1;" in said
    with path.open("a") as file:
        file.write("u1,5\n")
    result = vestige(*run)
    assert (result.exit_code, "nothing was taken" in result.stderr) == (2, True)
    assert "must be filed again: T-1;" in result.stderr
    assert vestige("sweep", *on).exit_code == 0, "erasure does not wait"
    assert vestige("verify", *on).exit_code == 2
    again = tmp_path / "again.tsv"
    again.write_text("u1\tT-1\n")
    assert vestige("forget", *on, "--subjects-from", again, "--with-references").exit_code == 0
    assert "no request is missing" in " ".join(vestige("verify", *on).stdout.split())
    assert "is accepted as it is" in " ".join(vestige("accept", *on).stdout.split())
    assert vestige("verify", *on).exit_code == 0
    assert vestige(*run).exit_code == 0
    assert "nothing was done" in vestige("accept", *on).stdout
