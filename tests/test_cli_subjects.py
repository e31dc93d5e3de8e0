"""Lists of subjects: carried out whole, over the whole store, and what is not understood is an error."""

from __future__ import annotations

import csv
import io
import json
import re
import shutil
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st

from reading import read_streams
from vestige import Mean, SqliteStore, Stream
from vestige.cli import command
from vestige.cli.subjects import parse_lines
from vestige.errors import ParameterError

PEOPLE = ("ada", "bob", " lead", "trail ", "\ttab", "zoë", "eve\u2028x", "a,b", '"q"', "-dash")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("subjects") / "s.db"
    with SqliteStore(path) as store:
        for name in ("north", "south"):
            stream = Stream(Mean(), retention=200, seed=0, store=store.stream(name))
            stream.extend(range(len(PEOPLE)), subjects=PEOPLE)
            stream.push(1.0, subject="lead" if name == "north" else None)
    return path


@pytest.fixture
def store(made: Path, tmp_path: Path) -> Path:
    for file in made.parent.iterdir():
        shutil.copy(file, tmp_path / file.name)
    return tmp_path / "s.db"


def vestige(*arguments: object, stdin: bytes | str | None = None) -> Result:
    return CliRunner().invoke(command, [str(a) for a in arguments], input=stdin)


def said(*arguments: object, stdin: bytes | str | None = None) -> Any:
    form = ("--format", "json") if arguments[0] == "receipts" else ("--json",)
    result = vestige(*arguments, *form, stdin=stdin)
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def left(store: Path) -> dict[str, set[str]]:
    with SqliteStore(store) as opened:
        marks = {opened.pseudonym(person): person for person in (*PEOPLE, "lead")}
    return {
        name: {marks[mark] for mark in state.retained.subjects if mark is not None}
        for name, (_, state) in read_streams(store).items()
    }


@pytest.mark.parametrize("ending", ["\n", "\r\n"])
@pytest.mark.parametrize("by", ["--subject -", "--subjects-from -", "--subjects-from FILE"])
def test_a_list_is_carried_out_whole(store: Path, tmp_path: Path, by: str, ending: str) -> None:
    lines = ending.join(["ada", "nobody", "", " lead", "trail ", "ada", "eve\u2028x"]).encode() + ending.encode()
    (tmp_path / "ids.txt").write_bytes(lines)
    option, where = by.replace("FILE", str(tmp_path / "ids.txt")).split(" ", 1)
    done = said("forget", store, option, where, "--now", stdin=lines)
    name = where if where != "-" else "standard input"
    assert done["subjects"] == 6
    assert done["unknown"] == [f"line 2 of {name}"]
    assert done["empty_lines"] == 1
    assert [r["subject"] for r in done["receipts"]] == [f"line {number} of {name}" for number in (1, 2, 4, 5, 6, 7)]
    gone = {"ada", " lead", "trail ", "eve\u2028x"}
    assert left(store) == {"north": {*PEOPLE, "lead"} - gone, "south": set(PEOPLE) - gone}


def test_options_may_be_repeated_and_mixed(store: Path, tmp_path: Path) -> None:
    (tmp_path / "ids.txt").write_text("bob")
    done = said("forget", store, "--subject", "ada", "--subject", "lead", "--subjects-from", tmp_path / "ids.txt")
    assert [r["subject"] for r in done["receipts"]] == [
        "--subject number 1",
        "--subject number 2",
        f"line 1 of {tmp_path / 'ids.txt'}",
    ]


def test_references_come_with_options_or_in_a_second_column(store: Path, tmp_path: Path) -> None:
    (tmp_path / "ids.txt").write_text("bob\tT-2\nnobody\tT-3\n")
    lists = ("--subjects-from", tmp_path / "ids.txt", "--with-references")
    said("forget", store, "--subject", "ada", "--reference", "T-1", *lists, "--now")
    made = said("receipts", store)
    assert [(receipt["reference"], receipt["erased"] is None) for receipt in made] == [
        ("T-1", False),
        ("T-2", False),
        ("T-3", False),
    ]
    assert said("receipts", store, "--reference", "T-2") == made[1:2]
    rows = list(csv.DictReader(io.StringIO(vestige("receipts", store, "--format", "csv").stdout)))
    assert [{k: v or None for k, v in row.items()} for row in rows] == [
        {k: None if v is None else str(v) for k, v in receipt.items()} for receipt in made
    ]
    for form, read in (("csv", lambda text: list(csv.DictReader(io.StringIO(text)))), ("json", json.loads)):
        out = tmp_path / f"r.{form}"
        for _ in range(2):
            assert vestige("receipts", store, "--format", form, "--out", out).stdout == ""
        assert read(out.read_text()) == (rows if form == "csv" else made)
    before = store.read_bytes()
    for wrong in (store, f"{store}.key", "-"):
        assert vestige("receipts", store, "--format", "csv", "--out", wrong).exit_code == 2
    told = vestige("receipts", store, "--out", tmp_path / "r.txt").stderr
    assert "r.txt needs --format json or csv, or --sign; give one of them" in told
    assert store.read_bytes() == before
    result = vestige("receipts", store, "--reference", "T-9")
    assert (result.exit_code, "no receipt has the reference 'T-9'" in result.stderr) == (2, True)


def test_a_reference_that_is_on_a_receipt_already_is_named(store: Path) -> None:
    """As from a list that is read again every night."""
    asked, lines = ("forget", store, "--subject", "-", "--with-references"), "ada\tT-1\nbob\tT-2\nnobody\tT-3\n"
    assert "earlier receipt" not in vestige(*asked, stdin="ada\tT-1\nada\tT-1\n").stderr
    for options in (("--dry-run",), ()):
        (line,) = vestige(*asked, *options, stdin="ada\tT-1\nbob\tT-4\n").stderr.splitlines()
        assert line.startswith("T-1 is on an earlier receipt; such a request is made again")
    vestige(*asked, stdin=lines)
    told = vestige(*asked, stdin=lines)
    assert "T-1 is on an earlier receipt, and so are 2 other references; such" in told.stderr
    assert told.exit_code == 0


@pytest.mark.parametrize(
    ("arguments", "stdin", "text"),
    [
        (
            ["--subject", "ada", "--reference", "T-1", "--reference", "T-2"],
            "",
            "the number of --reference is 2 and that of --subject 1; give one",
        ),
        (["--subject", "ada", "--with-references"], "", "--with-references needs a list"),
        (["--subject", "-", "--reference", "T-1"], "ada", "use --with-references"),
        (["--subject", "-", "--with-references"], "bob\tT-1\nada\n", "line 2 does not have a subject, a tab and a"),
        (["--subject", "-", "--with-references"], "ada\tT-1\tx\n", "line 1 does not have a subject, a tab and a"),
        (["--subject", "-", "--with-references"], "ada\tthe ada\n", "reference number 1 contains its subject"),
        (["--subject", "ada", "--reference", ""], "", "reference is not a text of printable characters"),
        (["--subject", "ada", "--keep-receipts", "3"], "", "'3' is not a duration; write a number and a unit, such as"),
        (["--subject", "ada", "--keep-receipts", "x"], "", "90m, 2w or 3y"),
    ],
)
def test_references_that_are_not_understood(store: Path, arguments: list[str], stdin: str, text: str) -> None:
    before = store.read_bytes()
    result = vestige("forget", store, *arguments, stdin=stdin)
    assert result.exit_code != 0
    assert text in " ".join(result.stderr.split())
    assert store.read_bytes() == before


def test_the_summary_names_lines_and_nobody(store: Path) -> None:
    result = vestige("forget", store, "--subject", "-", stdin="ada\nmallory\n\nbob\ntrudy\n")
    assert result.exit_code == 0
    text = " ".join(result.output.split())
    assert "4 subjects; of 2 no record is held in" in text
    assert "(line 2 of standard input, line 5 of standard input)" in text
    assert "Skipped: 1 empty line." in text
    for name in ("ada", "mallory", "trudy"):
        assert not re.search(rf"\b{name}\b", text)  # whole, since ids of receipts are random digits of base 16


def test_the_summary_says_what_it_knows(store: Path) -> None:
    text = " ".join(vestige("forget", store, "--subject", "ada", "--subject", "bob", "--dry-run").stdout.split())
    assert "2 subjects." in text
    assert "no record" not in text
    table = " ".join(vestige("forget", store, "--subjects-from", "-", stdin="ada,Berlin\n").stdout.split())
    assert "No record of this subject is held in" in table
    assert (
        "Each line is read as one subject: of a table, such as a CSV file, give the column of the subjects only."
        in table
    )
    assert "Berlin" not in table
    assert "taken whole" not in vestige("forget", store, "--subject", "Curie, Marie").stdout


def test_a_dry_run_shows_all_of_them(store: Path) -> None:
    going = said("forget", store, "--subject", "-", "--dry-run", stdin="ada\nlead\nbob\n")["records"]
    assert {name: [record["round"] for record in records] for name, records in going.items()} == {
        "north": [1, 2, 11],
        "south": [1, 2],
    }
    assert said("receipts", store) == []


def test_a_dry_run_says_all_that_the_run_says(store: Path) -> None:
    with SqliteStore(store) as opened:
        stream = Stream(Mean(), retention=256, max_age=timedelta(days=1), seed=0, store=opened.stream("west"))
        stream.extend(
            range(60), times=[datetime(2024, 1, 1, 0, i, tzinfo=UTC) for i in range(60)], subjects=["ada"] * 60
        )
        stream.sweep(datetime(2024, 1, 1, 23, tzinfo=UTC))
        assert stream.clock.last == 60, "its batch was closed, all of it ada's"
    asked, before = ("forget", store, "--subjects-from", "-", "--now"), store.read_bytes()
    lines = "ada\nmallory\n\n"
    text = " ".join(vestige(*asked, "--dry-run", stdin=lines).stdout.split())
    assert "2 subjects; of 1 no record is held in" in text
    assert "(line 2 of standard input)" in text
    assert "Skipped: 1 empty line." in text
    assert "Statistics that would restart: 1 (west)." in text
    shown = said(*asked, "--dry-run", stdin=lines)
    assert store.read_bytes() == before
    done = said(*asked, stdin=lines)
    assert shown["restarted"] == ["west"]
    assert shown.keys() - {"records"} == done.keys() - {"receipts"}
    assert all(shown[key] == done[key] for key in shown.keys() - {"records"})


def test_an_empty_list_holds_all_others_back(store: Path, tmp_path: Path) -> None:
    (tmp_path / "leavers.txt").write_text("ada\n")
    before = read_streams(store)
    result = vestige("forget", store, "--subject", "-", "--subjects-from", tmp_path / "leavers.txt", stdin="")
    assert result.exit_code == 2
    assert "standard input: has no subject" in result.stderr
    assert "Nothing was changed for any subject, including those of other lists and options" in result.stderr
    assert read_streams(store) == before


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"ada\nb\xff\n", "line 2 is not UTF-8"),
        (b"ada\rbob\r", "line 1 holds a carriage return or a zero byte"),
        ("ada\nbob\n".encode("utf-16"), "line 1 is not UTF-8"),
        ("ada\nbob\n".encode("utf-16-le"), "line 1 holds a carriage return or a zero byte"),
        (b"", "has no subject"),
        (b"\n\n\n", "has no subject"),
    ],
)
def test_what_is_not_understood_is_an_error(store: Path, content: bytes, text: str) -> None:
    before = read_streams(store)
    result = vestige("forget", store, "--subjects-from", "-", stdin=content)
    assert result.exit_code == 2
    assert text in result.stderr
    assert "Nothing was changed" in result.stderr
    assert "ada" not in result.output
    assert read_streams(store) == before


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("--subject", "ada", "--round", 1, "--stream", "north"), "give either --subject or --subjects-from"),
        (("--subject", "-", "--subjects-from", "-"), "standard input (-) is given twice"),
        (("--subject", ""), "--subject number 1 is empty"),
        (("--subjects-from", "no.txt"), "no.txt: No such file"),
    ],
)
def test_bad_lists_are_refused(store: Path, arguments: tuple[object, ...], text: str) -> None:
    result = vestige("forget", store, *arguments)
    assert result.exit_code == 2
    assert text in result.stderr


lines = st.lists(st.text(st.characters(exclude_characters="\r\n\0", exclude_categories=["Cs"]), min_size=1), min_size=1)


@given(lines, st.sampled_from(["\n", "\r\n"]), st.booleans(), st.booleans())
def test_lines_are_exact(texts: list[str], ending: str, last: bool, marked: bool) -> None:
    """All that Python would strip or split at stays: blanks, tabs, other line breaks of Unicode."""
    content = ending.join(texts).encode() + (ending.encode() if last else b"")
    if not marked and texts[0].startswith("\ufeff"):
        return
    assert parse_lines((b"\xef\xbb\xbf" if marked else b"") + content, "x").texts == tuple(texts)


@given(st.binary())
def test_any_bytes_are_a_list_or_an_error(content: bytes) -> None:
    with suppress(ParameterError):
        found = parse_lines(content, "x")
        assert len(found.texts) + found.empty == content.count(b"\n") + (not content.endswith(b"\n"))
