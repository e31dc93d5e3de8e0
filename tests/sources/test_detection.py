"""The dialect of a file, guessed: files of usual dialects are recognised and read, and others are not made up."""

from __future__ import annotations

import csv
import gzip
from pathlib import Path

import pytest

from vestige.errors import SourceError
from vestige.sources.detection import detect_dialect
from vestige.sources.dialect import Dialect
from vestige.sources.profile import profile_file

ROWS = [
    (i, f"{i * 1.25:.2f}", "Köln, Altstadt" if i % 3 else "Gent; Süd", f"2024-05-{1 + i // 10:02d}") for i in range(120)
]


def write(path: Path, separator: str, decimal: str, encoding: str, *, packed: bool = False) -> str:
    with open(path, "w", newline="", encoding=encoding) as file:
        writer = csv.writer(file, delimiter=separator)
        writer.writerow(["no", "spent", "city", "at"])
        writer.writerows([no, spent.replace(".", decimal), city, at] for no, spent, city, at in ROWS)
    if packed:
        path.write_bytes(gzip.compress(path.read_bytes()))
    return str(path)


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
@pytest.mark.parametrize("decimal", [".", ","])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "cp1252", "utf-16"])
def test_usual_dialects_are_recognised_and_read(separator: str, decimal: str, encoding: str, tmp_path: Path) -> None:
    path = write(tmp_path / "v.csv", separator, decimal, encoding)
    found = detect_dialect(path)
    assert found == Dialect(separator, decimal, encoding.removesuffix("-sig"))
    kinds = {column.name: column.kind for column in profile_file(path, found).columns}
    assert kinds == {"no": "identifiers", "spent": "numbers", "city": "categories", "at": "times"}


def test_a_packed_file_has_a_dialect_too(tmp_path: Path) -> None:
    assert detect_dialect(write(tmp_path / "v.csv.gz", ";", ",", "cp1252", packed=True)) == Dialect(";", ",", "cp1252")


@pytest.mark.parametrize(
    "text",
    [
        "a\n1\n2\n",
        "a;b,c\n1;2,3\n4,5;6\n",
        "note,n\none; two; three,1\nfour,2\n",
        'text,n\n"1,5",1\n"soon",2\n',
        "",
        '{"a": 1}\n',
        'a,b\n"1,2\n',
    ],
)
def test_nothing_is_made_up(text: str, tmp_path: Path) -> None:
    path = tmp_path / "v.dat"
    path.write_text(text)
    assert detect_dialect(str(path)) == Dialect()


def test_a_file_that_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"v\.csv: does not exist"):
        detect_dialect(str(tmp_path / "v.csv"))


@pytest.mark.parametrize("missing", ["", "NA", "NaN", "null", "NULL"])
def test_a_missing_value_does_not_hide_a_decimal_comma(missing: str, tmp_path: Path) -> None:
    path = tmp_path / "v.csv"
    path.write_text(f"a;b\n1,5;x\n{missing};y\n2,5;z\n")
    assert detect_dialect(str(path)) == Dialect(";", ",")
