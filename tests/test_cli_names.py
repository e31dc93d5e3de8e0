"""Names as they come: control characters never reach a terminal, and JSON has every name exactly."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from vestige import Mean, SqliteStore, Stream
from vestige.cli import command

NAMES = ("red\x1b[31m", "title\x1b]0;mine\x07", "back\x08\x08", "two\nlines", "c1\x9b2J", "turned\u202eemit", " lead ")


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("names") / "a.db"
    with SqliteStore(path) as opened:
        for name in NAMES:
            stream = Stream(Mean(), retention=96, seed=0, store=opened.stream(name, about={"columns": [name]}))
            stream.extend(range(10), subjects=["ada"] * 10)
            stream.forget(subject="bob")
    return path


def vestige(*arguments: object) -> Result:
    return CliRunner().invoke(command, [str(a) for a in arguments])


@pytest.mark.parametrize(
    "arguments",
    [
        ("list",),
        ("estimate",),
        ("estimate", "--stream", NAMES[0]),
        ("receipts",),
        ("forget", "--subject", "ada", "--dry-run"),
        ("estimate", "--stream", "no\x1b[2J"),
        ("verify",),
        ("sweep",),
        ("audit", "store"),
    ],
    ids=" ".join,
)
def test_nothing_that_steers_a_terminal_is_printed(store: Path, arguments: tuple[str, ...]) -> None:
    place = 2 if arguments[0] == "audit" else 1
    output = vestige(*arguments[:place], store, *arguments[place:]).output
    assert output
    assert all(character.isprintable() or character == "\n" for character in output)
    assert not any(line.startswith("lines") for line in output.splitlines())


def test_machines_get_the_names_as_they_are(store: Path) -> None:
    assert set(json.loads(vestige("list", store, "--json").stdout)["streams"]) == set(NAMES)
    assert {receipt["stream"] for receipt in json.loads(vestige("receipts", store, "--format", "json").stdout)} == set(
        NAMES
    )
    assert vestige("list", store, "--json").stdout.isascii()
