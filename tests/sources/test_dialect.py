"""CSV in other dialects: the rows of Python's csv module and of pandas, or an error that suggests the option."""

from __future__ import annotations

import csv
import gzip
import io
import json
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import parquet

from vestige.errors import ParameterError, SourceError
from vestige.sources import Dialect, FileSource, chunks, delimited
from vestige.sources.identity import FileIdentity

RNG = np.random.default_rng(4)
N = 300
NAMES = ["Zoë", "Ørsted; A/S", 'said "no"', "a,b", "two\nlines", "tab\there", "pipe|", "Ünal", "plain"]
VALUES = np.round(RNG.normal(0.0, 1_000.0, N), 3)
WHO = [NAMES[i] for i in RNG.integers(0, len(NAMES), N)]
DIALECTS = [
    Dialect(separator, decimal, encoding)
    for separator, decimal, encoding in product(
        ",;\t|", ".,", ["utf-8", "cp1252", "latin-1", "utf-16", "utf-16-be", "utf-32"]
    )
]


def write(path: Path, dialect: Dialect) -> str:
    text = io.StringIO(newline="")
    writer = csv.writer(text, delimiter=dialect.separator, lineterminator="\r\n")
    writer.writerow(["betrag", "größe"])
    writer.writerows((str(value).replace(".", dialect.decimal), who) for value, who in zip(VALUES, WHO, strict=True))
    data = text.getvalue().encode(dialect.encoding)
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return str(path)


@pytest.mark.parametrize("size", [7, 1 << 20])
def test_the_rows_are_those_of_the_csv_module_and_of_pandas(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    monkeypatch.setattr(chunks, "CHUNK", size)
    monkeypatch.setattr(delimited, "BLOCK", 500)
    for i, dialect in enumerate(DIALECTS if size > 7 else DIALECTS[5::11]):
        path = write(tmp_path / f"{i}.csv{'.gz' if i % 2 else ''}", dialect)
        blocks = list(FileSource(path, ["betrag"], subject="größe", dialect=dialect).blocks())
        found = np.concatenate([block.rows[:, 0] for block in blocks])
        np.testing.assert_array_equal(found, VALUES)
        assert [who for block in blocks for who in (() if block.subjects is None else block.subjects)] == WHO
        if i % 5 == 0:
            options = {"sep": dialect.separator, "decimal": dialect.decimal, "encoding": dialect.encoding}
            table = pd.read_csv(path, **options)
            np.testing.assert_array_equal(found, table.betrag)


def test_ndjson_has_an_encoding_and_parquet_none(tmp_path: Path) -> None:
    rows = "".join(json.dumps({"a": i, "who": "Zoë"}, ensure_ascii=False) + "\n" for i in range(3))
    (tmp_path / "r.ndjson").write_bytes(rows.encode("utf-16"))
    parquet.write_table(pa.table({"a": [0, 1, 2], "who": ["Zoë"] * 3}), tmp_path / "r.parquet")
    for name in ("r.ndjson", "r.parquet"):
        dialect = Dialect(";", ",", "utf-16")
        (block,) = FileSource(str(tmp_path / name), ["a"], subject="who", dialect=dialect).blocks()
        assert block.rows[:, 0].tolist() == [0.0, 1.0, 2.0]
        assert block.subjects is not None
        assert set(block.subjects) == {"Zoë"}


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32", "latin-1"])
def test_no_digest_of_a_record_is_stored_in_any_encoding(tmp_path: Path, encoding: str) -> None:
    path = tmp_path / "r.ndjson"
    headers = set()
    for canary in ("1", "2"):
        path.write_bytes(f'{{"a": {canary}}}\n'.encode(encoding))
        headers.add(FileIdentity.read(str(path)).header)
    assert len(headers) == 1


def test_a_character_that_is_half_written_waits(tmp_path: Path) -> None:
    path = tmp_path / "r.csv"
    whole = "a\n1\n2\n".encode("utf-16")
    path.write_bytes(whole + "é".encode("utf-16-le")[:1])
    source = FileSource(str(path), ["a"], growing=True, dialect=Dialect(encoding="utf-16"))
    assert sum(len(block.rows) for block in source.blocks()) == 2
    with pytest.raises(SourceError, match="contains text that is not utf-16; give another --encoding"):
        list(FileSource(str(path), ["a"], dialect=Dialect(encoding="utf-16")).blocks())


@pytest.mark.parametrize(
    ("text", "dialect", "problem"),
    [
        (b"a;b\n1;2\n", Dialect(), "no comma, but ';' in it: if that separates the columns, give --separator ';'"),
        (b"a\tb\n1\t2\n", Dialect(), "a tab in it: if that separates the columns, give --separator tab"),
        (b"a|b\n1|2\n", Dialect(), r"give --separator '\|'"),
        (b'a,b\n"77,25",1\n', Dialect(), "row 1 .* if its numbers have decimal commas, give --decimal ,"),
        (b"a;b\n1;2\n77,25;3\n", Dialect(";"), "row 2 .* if its numbers have decimal commas, give --decimal ,"),
        (
            b"a;b\n77.25;1\n",
            Dialect(";", ","),
            "separate thousands, write it without them; if they are decimal points, give --decimal \\.$",
        ),
        (b"a;b\n1.077,25;1\n", Dialect(";", ","), "if its points separate thousands, write it without them"),
        ("a,b\n1,caf\u00e9\n".encode("cp1252"), Dialect(), "not UTF-8; give --encoding .*, such as cp1252"),
        ("a,caf\u00e9\n1,2\n".encode("cp1252"), Dialect(), "not UTF-8; give --encoding .*, such as cp1252"),
        (b"a,b\n1,\x81caf\n", Dialect(encoding="cp1252"), "contains text that is not cp1252; give another --encoding"),
        (b"a,b\n1,hello\n", Dialect(encoding="utf-16"), "contains text that is not utf-16"),
    ],
)
def test_an_error_suggests_the_dialect(tmp_path: Path, text: bytes, dialect: Dialect, problem: str) -> None:
    (tmp_path / "r.csv").write_bytes(text)
    with pytest.raises(SourceError, match=problem) as caught:
        list(FileSource(str(tmp_path / "r.csv"), ["a"], subject="b", dialect=dialect).blocks())
    assert not any(value in str(caught.value) for value in ("77", "caf", "hello"))


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"separator": ""}, "separator='' cannot separate fields"),
        ({"separator": ";;"}, "separator=';;'"),
        ({"separator": '"'}, "separator="),
        ({"separator": "\n"}, "separator="),
        ({"separator": "1"}, "separator='1'"),
        ({"separator": "\u00a7"}, "separator="),
        ({"separator": 5}, "separator=5"),
        ({"decimal": ";"}, "decimal=';' is not a decimal point; use . or ,"),
        ({"encoding": "klingon"}, "encoding='klingon' is not an encoding"),
        ({"encoding": ""}, "encoding=''"),
        ({"encoding": "base64"}, "encoding='base64'"),
        ({"encoding": "zlib"}, "encoding='zlib' is not an encoding"),
        ({"encoding": "bz2"}, "encoding='bz2' is not an encoding"),
        ({"encoding": "rot13"}, "encoding='rot13' is not an encoding"),
        ({"encoding": "idna"}, "encoding='idna' is not an encoding"),
        ({"encoding": "unicode_escape"}, "encoding='unicode_escape' is not an encoding"),
        ({"encoding": "cp037"}, "encoding='cp037'"),
        ({"encoding": None}, "encoding=None"),
    ],
)
def test_what_is_not_a_dialect_is_refused(options: dict[str, object], problem: str) -> None:
    with pytest.raises(ParameterError, match=problem):
        Dialect(**options)  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="is not a dialect"):
        FileSource("r.csv", ["a"], dialect=";")  # type: ignore[arg-type]
