"""`vestige nightly`, part by part: what fails keeps nothing back, and each line of a list is carried out once."""

from __future__ import annotations

import csv
import json
import os
import re
import shutil
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from troubled import damage
from vestige.cli import command
from vestige.cli.run import run
from vestige.errors import SourceError
from vestige.operations import process_inbox
from vestige.store import open_reader, open_store

PARTS = ("requests", "sweep", "rows", "requests again", "sweep again", "verify", "answers")
TERMS = """
source = "exports"
column = "spent"
subject = "email"
max-age = "30d"
retention = 4096
store = "visits.db"
requests = "requests.tsv"
answers = "answers.csv"
seed = 1
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A shop whose first export waits."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "vestige.toml").write_text(TERMS)
    (tmp_path / "exports").mkdir()
    export(1)
    return tmp_path


def export(night: int, header: str = "email,spent") -> None:
    """Ten visits of each of five people; no two nights are alike."""
    rows = [f"user{i % 5}@example.org,{i}" for i in range(50 * (night - 1), 50 * night)]
    Path("exports", f"{night}.csv").write_text("\n".join([header, *rows]) + "\n")


def ask(*lines: str) -> None:
    Path("requests.tsv").write_text("".join(f"user{line.replace(' ', '@example.org' + chr(9))}\n" for line in lines))


def call(*words: object) -> Result:
    return CliRunner().invoke(command, [str(word) for word in words], prog_name="vestige")


def read_results(result: Result) -> dict[str, str]:
    """What the last table says of each part."""
    table = result.stdout[result.stdout.rindex("┏") :]
    rows = re.findall(r"^│ (.*?) +│ (.*?) +│$", table, flags=re.M)
    return {name: text for name, text in rows if name}


def list_receipts() -> dict[str, Any]:
    listed = json.loads(call("receipts", "visits.db", "--format", "json").stdout)
    found = {receipt["reference"]: receipt for receipt in listed}
    assert len(found) == len(listed)
    return found


def count_leaving(person: int) -> tuple[int, int]:
    """How many records of a person are leaving and how many are not."""
    reader = open_reader("visits.db")
    ((_, state),) = reader.snapshot().streams.values()
    leaving = state.retained.leaving[state.retained.subjects == reader.pseudonym(f"user{person}@example.org")]
    return int(leaving.sum()), int((~leaving).sum())


def test_a_night_names_its_parts(folder: Path) -> None:  # noqa: ARG001
    result = call("nightly")
    assert result.exit_code == 0, result.output
    found = read_results(result)
    assert tuple(found) == PARTS
    assert found["requests"] == "nothing to do: requests.tsv does not exist"
    assert found["sweep"] == "nothing to do: there is no store yet"
    assert result.stdout.endswith("All went well.\n")
    (row,) = csv.DictReader(Path("answers.csv").read_text().splitlines())
    assert (float(row["value"]), row["counted"]) == (24.5, "50")
    Path("requests.tsv").write_text("")
    assert read_results(call("nightly"))["requests"] == "nothing to do: no request"


def test_a_line_covers_what_arrives_until_the_end_of_its_night_and_nothing_later(folder: Path) -> None:  # noqa: ARG001
    ask("1 T-1")
    first = read_results(call("nightly"))
    assert (first["requests"], first["requests again"]) == ("nothing to do: there is no store yet", "1 carried out")
    assert count_leaving(1) == (10, 0), "of the first night, before there was a store"
    export(2)
    ask("1 T-1", "2 T-2")
    second = read_results(call("nightly"))
    assert second["requests"] == second["requests again"] == "1 carried out, 1 on earlier nights"
    assert count_leaving(1) == (10, 10)
    assert count_leaving(2) == (20, 0), "what has come in after the first part too"
    before = Path("visits.db").read_bytes()
    assert read_results(call("nightly"))["requests"] == "0 carried out, 2 on earlier nights"
    assert Path("visits.db").read_bytes() == before
    ask("1 T-1", "2 T-2", "1 T-3", "1 T-3")
    assert call("nightly").exit_code == 0
    assert count_leaving(1) == (20, 0)
    assert list(list_receipts()) == ["T-1", "T-2", "T-3"]


def test_a_request_of_a_first_night_without_rows_has_its_receipt_and_covers_the_first_rows(folder: Path) -> None:  # noqa: ARG001
    export(1, "email,paid")
    ask("1 T-1")
    for _ in range(2):
        result = call("nightly")
        assert result.exit_code == 2
        assert result.stdout.endswith("1 of 7 parts failed: rows.\n")
        assert list(list_receipts()) == ["T-1"]
    export(1)
    assert call("nightly").exit_code == 0
    assert count_leaving(1) == (10, 0)
    export(2)
    assert read_results(call("nightly"))["requests"] == "0 carried out, 1 on earlier nights"
    assert count_leaving(1) == (10, 10)
    assert list(list_receipts()) == ["T-1"]


def test_after_a_restore_a_line_covers_the_rows_that_are_read_again(folder: Path) -> None:
    ask("2 T-0")
    assert call("nightly").exit_code == 0
    shutil.copy(folder / "visits.db", folder / "backup")
    export(2)
    ask("2 T-0", "1 T-1")
    assert call("nightly").exit_code == 0
    assert count_leaving(1) == (20, 0)
    shutil.copy(folder / "backup", folder / "visits.db")
    for _ in range(2):
        refused = call("nightly")
        assert refused.exit_code == 2
        assert refused.stdout.endswith("2 of 7 parts failed: rows, verify.\n")
        assert count_leaving(1) == (10, 0)
    assert call("accept", "visits.db").exit_code == 0
    assert call("nightly").exit_code == 0
    assert count_leaving(1) == (20, 0), "the rows that the store had forgotten too"
    export(3)
    assert read_results(call("nightly"))["requests"] == "0 carried out, 2 on earlier nights"
    assert count_leaving(1) == (20, 10)
    assert list(list_receipts()) == ["T-0", "T-1"]


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")  # nothing of the other threads is used
def test_after_a_night_that_was_killed_the_next_one_takes_its_place(
    folder: Path,  # noqa: ARG001
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    call("nightly")
    ask("1 T-1")
    export(2)
    with monkeypatch.context() as patched:
        patched.setattr(run, "invoke", lambda _: os._exit(9))
        child = os.fork()
        if not child:
            call("nightly")
        assert os.waitpid(child, 0)[1] == 9 << 8
    (begun,) = list_receipts().values()
    assert count_leaving(1) == (10, 0)
    assert call("nightly").exit_code == 0
    assert count_leaving(1) == (20, 0), "the rows that the night before should have read"
    (done,) = list_receipts().values()
    assert done["requested"] == begun["requested"]
    export(3)
    call("nightly")
    assert count_leaving(1) == (20, 10)


def test_a_stream_that_could_not_be_asked_is_asked_later_and_no_other_with_it(folder: Path) -> None:  # noqa: ARG001
    with Path("vestige.toml").open("a") as file:
        file.write('by = "shop"\n')

    def write(night: int) -> None:
        rows = [f"user1@example.org,{i},{shop}" for i in range(10 * (night - 1), 10 * night) for shop in "ab"]
        Path("exports", f"{night}.csv").write_text("\n".join(["email,spent,shop", *rows]) + "\n")

    def count() -> dict[str, tuple[int, int]]:
        streams = open_reader("visits.db").snapshot().streams
        leaving = {name: state.retained.leaving for name, (_, state) in streams.items()}
        return {name: (int(each.sum()), int((~each).sum())) for name, each in leaving.items()}

    write(1)
    assert call("nightly").exit_code == 0
    damage(Path("visits.db"), "a")
    ask("1 T-1")
    result = call("nightly")
    assert result.exit_code == 2
    assert "stream 'a': " in result.stderr
    assert count() == {"b": (10, 0)}
    assert call("nightly").exit_code == 2, "it is still damaged"
    damage(Path("visits.db"), "a")  # the same bit again
    write(2)
    again = call("nightly")
    assert again.exit_code == 0, again.output
    assert count() == {"a": (10, 10), "b": (10, 10)}
    assert list(list_receipts()) == ["T-1"]
    assert read_results(call("nightly"))["requests"] == "0 carried out, 1 on earlier nights"


def test_a_line_that_cannot_be_read_keeps_no_other_back(folder: Path) -> None:  # noqa: ARG001
    call("nightly")
    Path("requests.tsv").write_bytes(b"nobody\nuser1@example.org\tT-1\nb\xff\tT-2\nada\tof ada\n")
    result = call("nightly")
    assert result.exit_code == 2
    assert read_results(result)["requests"] == "failed: 3 lines of requests.tsv cannot be read; 1 carried out"
    for text in ("line 1 does not have a subject", "line 3 is not UTF-8", "line 4 cannot be used: reference number 1"):
        assert f"requests.tsv: {text}" in result.stderr
    assert count_leaving(1) == (10, 0)


def fail(_: object) -> None:
    raise KeyError("a secret")


@pytest.mark.parametrize("broken", ["export", "key of the file", "mistake", "folder of the list", "answers"])
def test_a_part_that_fails_keeps_no_other_back(folder: Path, monkeypatch: pytest.MonkeyPatch, broken: str) -> None:
    call("nightly")
    ask("1 T-1")
    export(2)
    words: list[object] = []
    if broken == "export":
        export(2, "email,paid")
    elif broken == "key of the file":
        with Path("vestige.toml").open("a") as file:
            file.write('culumn = "x"\n')
    elif broken == "mistake":
        monkeypatch.setattr(run, "invoke", fail)
    elif broken == "folder of the list":
        words = ["--requests", folder / "elsewhere" / "requests.tsv"]
    else:
        words = ["--answers", "requests.tsv"]
    failing = {"folder of the list": ["requests", "requests again"], "answers": ["answers"]}.get(broken, ["rows"])
    result = call("nightly", *words)
    assert result.exit_code == 2
    assert result.stdout.endswith(f"{len(failing)} of 7 parts failed: {', '.join(failing)}.\n"), result.output
    assert [name for name, text in read_results(result).items() if text.startswith("failed: ")] == failing
    assert "secret" not in result.output
    if failing != ["requests", "requests again"]:
        assert count_leaving(1)[0] >= 10
        assert Path("requests.tsv").read_text() == "user1@example.org\tT-1\n"


def test_a_finding_alone_is_status_1(folder: Path) -> None:
    with Path("vestige.toml").open("a") as file:
        file.write("strict = true\n")
    assert call("nightly").exit_code == 0
    (folder / "exports" / "1.csv").write_text("email,spent\nsomebody else,5\n")
    found = call("nightly")
    assert read_results(found)["verify"].startswith("found: ")


def test_a_night_goes_on_if_nobody_can_be_told(folder: Path) -> None:
    ask("1 T-1")
    with open("/dev/full", "w") as full:
        done = subprocess.run([sys.executable, "-m", "vestige", "nightly"], check=False, stdout=full, stderr=full)
    assert done.returncode == 2
    assert list(list_receipts()) == ["T-1"]
    assert (folder / "answers.csv").exists()


def hold(path: Path, is_held: threading.Event, is_done: threading.Event) -> None:
    """Hold a store, and do what others ask."""
    with open_store(path) as store:
        is_held.set()
        while not is_done.wait(0.01):
            process_inbox(store)


def test_whoever_holds_the_store_is_asked(folder: Path) -> None:
    call("nightly")
    ask("1 T-1")
    for _ in range(2):
        is_held, is_done = threading.Event(), threading.Event()
        holder = threading.Thread(target=hold, args=(folder / "visits.db", is_held, is_done))
        holder.start()
        is_held.wait()
        result = call("nightly")
        is_done.set()
        holder.join()
        assert result.stdout.endswith("1 of 7 parts failed: rows.\n"), result.output
    assert read_results(result)["requests"] == "0 carried out, 1 on earlier nights"
    assert count_leaving(1) == (10, 0)
    assert list(list_receipts()) == ["T-1"]


def test_what_all_parts_need_is_asked_for_first(folder: Path) -> None:
    (folder / "vestige.toml").write_text('source = "exports"\ncolumn = "spent"\nretention = 96\n')
    result = call("nightly")
    assert (result.exit_code, "vestige.toml does not name a store" in result.stderr) == (2, True)
    (folder / "vestige.toml").unlink()
    assert call("nightly").exit_code == 2
    (folder / "vestige.toml").write_text(TERMS.replace("answers.csv", "answers.xlsx"))
    wrong = call("nightly")
    assert read_results(wrong)["answers"].endswith("does not end in .csv, .json or .parquet; give such a name")


def test_a_night_beside_any_file(folder: Path) -> None:
    """The order of README as it stands: one stream, a limit in records, no subject."""
    (folder / "vestige.toml").write_text(
        'source = "exports/1.csv"\ncolumn = ["spent"]\nretention = 96\nstore = "other.db"\n'
    )
    assert call("nightly", "--requests", "requests.tsv", "--answers", "answers.csv").exit_code == 0


def test_errors_of_one_part_are_those_of_its_command(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: object) -> None:
        raise SourceError("the moon is full")

    monkeypatch.setattr(run, "invoke", refuse)
    result = call("nightly", "--config", folder / "vestige.toml")
    assert "Error: the moon is full\n" in result.stderr
    assert read_results(result)["rows"] == "failed: the moon is full"
