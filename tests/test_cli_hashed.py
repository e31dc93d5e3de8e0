"""Keys that are kept as hashes: no file and no message has a key, and streams are found by it all the same."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from vestige import open_reader
from vestige.cli import command

KEYS = ["canary-ada@example.org", "canary/bob", "c%"]


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    rows = [f"{i},{KEYS[i % 3]}" for i in range(60)]
    (tmp_path / "visits.csv").write_text("\n".join(["spent,customer", *rows]) + "\n")
    return tmp_path / "visits.csv"


def vestige(*arguments: object) -> Result:
    return CliRunner().invoke(command, [str(a) for a in arguments], prog_name="vestige")


def run(*options: object) -> Result:
    terms = ("--column", "spent", "--retention", 96, "--by", "customer", "--store", "s.db", "--seed", 1)
    return vestige("run", "visits.csv", *terms, *options)


@pytest.mark.parametrize("prefix", [(), ("--stream", "eu/west")])
def test_streams_are_found_by_keys_that_no_file_has(source: Path, prefix: tuple[str, ...]) -> None:
    made = [run("--hash-keys", *prefix, "--json"), run("--hash-keys", *prefix)]
    said = json.loads(made[0].stdout)
    assert len(said["streams"]) == 3
    assert all(re.fullmatch("[0-9a-f]{32}", key) for key in said["streams"])
    with source.open("a") as file:
        file.write(f"60,{KEYS[0]}\n")
    assert json.loads(run("--hash-keys", *prefix, "--json").stdout)["taken"] == 1, "it goes on where it was"
    names = open_reader("s.db").snapshot().names
    for place, key in enumerate(KEYS):
        asked = [key] + ([f"{prefix[1]}/{key}"] if prefix else []) + [names[place]]
        for name in asked:
            made.append(vestige("estimate", "s.db", "--stream", name, "--format", "json"))
            assert made[-1].exit_code == 0, made[-1].output
        means = [json.loads(shown.stdout) for shown in made[-len(asked) :]]
        assert all(len(mean) == 1 for mean in means)
        if key != KEYS[0]:
            assert means[0][0]["value"] == 28.5 + place
    made += [
        vestige("list", "s.db", "--json"),
        vestige("retained", "s.db", "--stream", KEYS[1]),
        vestige("forget", "s.db", "--stream", KEYS[1], "--round", 3, "--now"),
        vestige("verify", "s.db", "--canary", "canary", "--canary", "example.org"),
        vestige("remove", "s.db", "--stream", KEYS[0], "--json"),
    ]
    assert [shown.exit_code for shown in made] == [0] * len(made), [shown.output for shown in made]
    assert len(open_reader("s.db").snapshot().names) == 2
    assert not any("canary" in shown.output for shown in made)


def test_errors_do_not_show_keys(source: Path) -> None:
    assert run("--hash-keys").exit_code == 0
    result = vestige("estimate", "s.db", "--stream", "canary-eve")
    assert (result.exit_code, "there is no stream of this key" in result.stderr) == (2, True)
    assert "canary" not in result.output
    Path("s.db.key").rename("away.key")
    assert "is missing" in run("--hash-keys").stderr, "another key would make other names"
    assert not Path("s.db.key").exists()
    (note,) = json.loads(vestige("verify", "s.db", "--json").stdout)["notes"]
    assert "its rows were not compared, since the key of its hashes is missing" in note
    Path("away.key").rename("s.db.key")
    source.write_text(source.read_text().replace("\n57,", "\n58,"))
    found = vestige("verify", "s.db")
    assert found.exit_code == 1, "rows are compared though keys are hashed"
    assert "canary" not in found.output


def test_a_store_has_keys_of_one_kind(source: Path) -> None:
    assert source.exists()
    assert run("--hash-keys").exit_code == 0
    names = open_reader("s.db").snapshot().names
    assert "as hashes; give --hash-keys" in run().stderr
    assert open_reader("s.db").snapshot().names == names
    for wrong in (("--hash-keys",), ("--hash-keys", "--by", "customer"), ("--hash-keys", "--store", "s.db")):
        result = vestige("run", "visits.csv", "--column", "spent", "--retention", 96, *wrong)
        assert "--hash-keys needs --by, the column of keys, and --store" in result.stderr


def test_a_key_and_a_subject_of_the_same_text_have_other_hashes(source: Path) -> None:
    assert source.exists()
    assert run("--hash-keys", "--subject", "customer").exit_code == 0
    snapshot = open_reader("s.db").snapshot()
    subjects = {who for _, state in snapshot.streams.values() for who in state.retained.subjects}
    assert len(subjects) == 3
    assert not subjects & set(snapshot.names)
