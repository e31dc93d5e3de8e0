"""What the columns of a file hold: the same for each format, and readable as what they are called."""

from __future__ import annotations

import gzip
import json
from datetime import timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from vestige.errors import SourceError
from vestige.sources import FileSource, profile
from vestige.sources.profile import ColumnProfile, profile_file

N = 400
RNG = np.random.default_rng(4)
TABLE = pa.table(
    {
        "id": np.arange(N),
        "at": [f"2024-05-{1 + i // 20:02d}T12:00:{i % 20:02d}" for i in range(N)],
        "created_at": 1_700_000_000 + 60 * np.arange(N) - np.where(np.arange(N) % 9, 0, 150),
        "spent": np.round(RNG.gamma(2.0, 10.0, N), 2),
        "rating": pa.array(np.where(RNG.random(N) < 0.3, np.nan, RNG.integers(1, 6, N)), from_pandas=True),
        "paid": RNG.random(N) < 0.5,
        "status": np.where(RNG.random(N) < 0.9, "ok", "failed"),
        "email": [f"user{i % 50}@example.org" for i in range(N)],
        "note": [f"note {i}" for i in range(N)],
        "empty": pa.nulls(N, pa.string()),
    }
)
WANTED = {
    "id": "identifiers",
    "at": "times",
    "created_at": "times",
    "spent": "numbers",
    "rating": "numbers",
    "paid": "categories",
    "status": "categories",
    "email": "text",
    "note": "text",
    "empty": "nothing",
}


def write(table: pa.Table, path: Path) -> str:
    rows = table.to_pylist()
    if path.suffix == ".parquet":
        pq.write_table(table, path)
    elif path.suffix == ".ndjson":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    else:
        cells = [["" if value is None else str(value) for value in row.values()] for row in rows]
        text = "\n".join(",".join(line) for line in [table.column_names, *cells]) + "\n"
        path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return str(path)


@pytest.mark.parametrize("name", ["v.csv", "v.csv.gz", "v.ndjson", "v.parquet"])
def test_each_format_holds_the_same(name: str, tmp_path: Path) -> None:
    found = profile_file(write(TABLE, tmp_path / name))
    assert (found.rows, found.whole) == (N, True)
    assert {column.name: column.kind for column in found.columns} == WANTED
    columns = {column.name: column for column in found.columns}
    assert columns["created_at"].lateness == timedelta(seconds=90)
    assert columns["at"].lateness == timedelta(0)
    assert columns["paid"].categories == ("false", "true")
    assert columns["status"].categories == ("failed", "ok")
    assert columns["rating"].missing == TABLE.column("rating").null_count
    assert found.keys == ("status",)
    assert found.subjects == ("email",), "notes and ids are different in each row"


def test_only_the_first_rows_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(profile, "ROWS", 100)
    for name in ("v.csv", "v.ndjson", "v.parquet"):
        found = profile_file(write(TABLE, tmp_path / name))
        assert (found.rows, found.whole) == (100, False)


@pytest.mark.parametrize(
    ("column", "values", "kind"),
    [
        ("x", ["1", "2"] * 30, "text"),
        ("x", [1e308 * 10, 1.0] * 30, "text"),
        ("x", ["a"] * 19 + ["b"] * 41, "text"),
        ("x", ["a"] * 20 + ["b"] * 40, "categories"),
        ("x", ["ok"] * 30 + ["other"] * 30, "categories"),
        ("surname", ["ada"] * 30 + ["bob"] * 30, "text"),
        ("customer", ["ada"] * 30 + ["bob"] * 30, "text"),
        ("zip", [10115, 80331] * 30, "identifiers"),
        ("day", [20240531, 20240601] * 30, "times"),
        ("x", [20240531, 20240601] * 30, "numbers"),
        ("x", [str(i) for i in range(60)], "identifiers"),
        ("tags", [["a"]] * 60, None),
    ],
)
def test_a_kind_is_what_a_source_can_read(column: str, values: list[object], kind: str | None, tmp_path: Path) -> None:
    path = write(pa.table({column: pa.array(values), "n": pa.array([2.5] * 60)}), tmp_path / "v.parquet")
    found = {each.name: each.kind for each in profile_file(path).columns}
    assert found.get(column) == kind
    for name in (name for name, each in found.items() if each == "numbers"):
        assert sum(len(block.rows) for block in FileSource(path, [name]).blocks()) == 60


def test_keys_are_not_answers(tmp_path: Path) -> None:
    table = {"country": ["AT"] * 60, "new": ["Y", "N"] * 30, "shop": ["a", "b", "c"] * 20, "kind": ["x", "y"] * 30}
    assert profile_file(write(pa.table(table), tmp_path / "v.parquet")).keys == ("shop", "kind", "country")


def test_columns_of_one_name_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "v.csv"
    path.write_text("a,b,a,\n" + "1,2,3,4\n" * 3)
    assert profile_file(str(path)).columns == (ColumnProfile("b", "numbers", different=1),)


@pytest.mark.parametrize("text", ["", "spent\n", "a,b\n1\n"])
def test_a_file_without_rows_is_refused(text: str, tmp_path: Path) -> None:
    path = tmp_path / "v.csv"
    path.write_text(text)
    with pytest.raises(SourceError, match=r"v\.csv: "):
        profile_file(str(path))
