"""Files of patterns and folders, in the natural order of their names or of their first times."""

from __future__ import annotations

from pathlib import Path

import pytest

from vestige.errors import ParameterError, SourceError
from vestige.sources import FileSource
from vestige.sources.listing import list_files, order_by_time

NAMES = ["2-a.csv", "10-a.csv", "b1.ndjson", "b01.csv", "b2.csv.gz", "b10.parquet", "C.JSONL"]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in").mkdir()
    for name in (*NAMES, ".hidden.csv", "notes.txt", "s.db"):
        (tmp_path / "in" / name).write_text("a\n1\n")
    (tmp_path / "in" / "deep.csv").mkdir()
    (tmp_path / "in" / "deep.csv" / "d.csv").write_text("a\n1\n")
    return tmp_path / "in"


def test_numbers_in_names_count_as_numbers(folder: Path) -> None:
    ordered = [
        f"{folder}/{name}"
        for name in ("2-a.csv", "10-a.csv", "C.JSONL", "b01.csv", "b1.ndjson", "b2.csv.gz", "b10.parquet")
    ]
    assert list_files([str(folder)]) == tuple(ordered)
    for given in (ordered[::-1], ordered[3:] + ordered[:3]):
        assert list_files([*given, *given[:2]]) == tuple(ordered), "each once, however they are given"


def test_patterns_and_folders_are_files(folder: Path) -> None:
    assert list_files(["in/b*.csv*", "in/2-a.csv"]) == ("in/2-a.csv", "in/b01.csv", "in/b2.csv.gz")
    assert list_files(["in/**/d.csv"]) == ("in/deep.csv/d.csv",)
    assert list_files(["in/deep.csv", "in/2-a.csv"]) == ("in/2-a.csv", "in/deep.csv/d.csv")
    (folder / "x[1].csv").write_text("a\n1\n")
    assert list_files(["in/x[1].csv"]) == ("in/x[1].csv",), "a file that has the name of a pattern"
    (folder / "link.csv").symlink_to(folder / "2-a.csv")
    assert list_files(["in/2-a.csv", "in/link.csv"]) == ("in/2-a.csv",)
    assert list_files(["-"]) == ("-",)
    assert list_files(["nowhere.csv"]) == ("nowhere.csv",), "whoever reads it says what is wrong"


@pytest.mark.parametrize(
    ("sources", "problem"),
    [
        (["no*.csv"], "no\\*.csv: matches no file; correct the pattern"),
        (["empty"], "empty: is a folder without files that end in .csv,"),
        (["in/2-a.csv", "gone.csv"], "gone.csv: does not exist"),
    ],
)
@pytest.mark.usefixtures("folder")
def test_what_is_not_there_is_named(sources: list[str], problem: str) -> None:
    Path("empty").mkdir()
    with pytest.raises(SourceError, match=problem):
        list_files(sources)
    with pytest.raises(ParameterError, match="standard input"):
        list_files(["-", "in"])


def test_files_are_ordered_by_their_first_times(tmp_path: Path) -> None:
    first = {"a.csv": "2024-03-01", "b.csv": "2024-01-01", "c.csv": "", "d10.csv": "2024-02-01", "d9.csv": "2024-02-01"}
    for name, time in first.items():
        (tmp_path / name).write_text(f"at,word\n{f'{time},x' if time else ''}\n")
    (tmp_path / "b.csv").write_text("at,word\n,x\n2024-01-01,x\n2023-01-01,x\n")
    sources = [FileSource(str(tmp_path / name), ["word"], "at", "word", "word") for name in first]
    assert [Path(source.path).name for source in order_by_time(sources)] == [
        "b.csv",
        "d9.csv",
        "d10.csv",
        "a.csv",
        "c.csv",
    ]
    (tmp_path / "c.csv").write_text("at,word\nsoon,x\n")
    with pytest.raises(SourceError, match=r"c.csv: column 'at' has a time that cannot be read in row 1"):
        order_by_time(sources)
