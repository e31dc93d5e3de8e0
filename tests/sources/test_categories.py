"""Columns of categories and booleans, against pandas and Python's own readers, in every format."""

from __future__ import annotations

import csv
import hashlib
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import parquet

from vestige.errors import ParameterError, SourceError
from vestige.sources import FileSource, delimited
from vestige.sources.categories import MAX_CATEGORIES, MIN_ROWS, find_categories
from vestige.sources.columns import number_categories
from vestige.types import Floats

RNG = np.random.default_rng(0)
N = 2_000
TEXTS = RNG.choice(
    np.array(["ok", "failed", "on hold, paid", "other", "lost", "NA"]), N, p=[0.5, 0.3, 0.1, 0.05, 0.03, 0.02]
)
MISSING = RNG.random(N) < 0.1
FLAGS = RNG.integers(0, 2, N).astype(bool)
NAMES = ("ok", "failed", "on hold, paid")


def write(path: Path) -> str:
    """The columns `status`, with missing values, and `flag`, in the format of the path."""
    status = [None if gone else str(text) for text, gone in zip(TEXTS, MISSING, strict=True)]
    if path.suffix == ".csv":
        with path.open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["status", "flag"])
            words = np.array(["False", "TRUE", "false", "true"])[FLAGS + 2 * (np.arange(N) % 2)]
            writer.writerows(
                (f" {text}" if text == "ok" else text or "", flag) for text, flag in zip(status, words, strict=True)
            )
    elif path.suffix == ".ndjson":
        rows = ({"status": text, "flag": bool(flag)} for text, flag in zip(status, FLAGS, strict=True))
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    else:
        parquet.write_table(pa.table({"status": pa.array(status).dictionary_encode(), "flag": FLAGS}), path)
    return str(path)


def expected() -> Floats:
    """What pandas makes of the texts: the number of each category, one more for others, nan where it is missing."""
    texts = pd.Series(TEXTS).mask(MISSING | (TEXTS == "NA"))
    known = texts.map({name: float(code) for code, name in enumerate(NAMES)})
    return np.asarray(known.where(texts.isna() | known.notna(), len(NAMES)), np.float64)


@pytest.mark.parametrize("ending", ["csv", "ndjson", "parquet"])
def test_texts_become_numbers_of_categories_and_booleans_numbers(
    tmp_path: Path, ending: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delimited, "BLOCK", 4_096)
    path = write(tmp_path / f"rows.{ending}")
    source = FileSource(path, ["status", "flag"], keep_missing=True, categories={"status": NAMES})
    rows = np.concatenate([block.rows for block in source.blocks()])
    np.testing.assert_array_equal(rows, np.column_stack([expected(), FLAGS]))
    only = FileSource(path, ["status"], categories={"status": NAMES})
    blocks = list(only.blocks())
    assert sum(block.skipped for block in blocks) == np.isnan(expected()).sum()
    texts = FileSource(path, ["flag"], by="flag", categories={"flag": ("false", "true")}).blocks()
    assert [row for block in texts for row in block.rows[:, 0]] == FLAGS.tolist()


@pytest.mark.parametrize("ending", ["csv", "ndjson", "parquet"])
def test_categories_are_the_frequent_texts_of_pandas(tmp_path: Path, ending: str) -> None:
    source = FileSource(write(tmp_path / f"rows.{ending}"), ["flag"], keep_missing=True)
    counts = pd.Series(TEXTS)[~MISSING & (TEXTS != "NA") & (TEXTS != "other")].value_counts()
    assert find_categories(source, "status") == tuple(sorted(counts.index[counts >= MIN_ROWS]))
    assert find_categories(source, "flag") == ("false", "true")


def test_what_few_rows_have_is_not_found(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("a\n" + "often\n" * MIN_ROWS + "canary\n" * (MIN_ROWS - 1))
    assert find_categories(FileSource(str(path), ["a"]), "a") == ("often",)
    path.write_text("a\n" + "canary\n" * (MIN_ROWS - 1))
    with pytest.raises(SourceError, match="no text in column 'a' has 20 rows") as caught:
        find_categories(FileSource(str(path), ["a"]), "a")
    assert "canary" not in str(caught.value)
    names = [f"c{i:02}" for i in range(60)]
    path.write_text("a\n" + "".join(f"{name}\n" * (MIN_ROWS + i) for i, name in enumerate(names)))
    assert find_categories(FileSource(str(path), ["a"]), "a") == tuple(names[60 - MAX_CATEGORIES :])


def test_a_missing_value_may_be_declared_as_a_category(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("a\nNA\nEU\n\nnull\nUS\n")
    source = FileSource(str(tmp_path / "rows.csv"), ["a"], keep_missing=True, categories={"a": ("EU", "NA")})
    (block,) = source.blocks()
    np.testing.assert_array_equal(block.rows[:, 0], [1.0, 0.0, np.nan, np.nan, 2.0])


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        ("rows.csv", "a,b\ntrue,1\nperhaps,2\n", "row 2 has a value that is not a number in column a"),
        (
            "rows.ndjson",
            '{"a": true}\n{"a": "perhaps"}\n',
            "rows that cannot be parsed: they are not JSON, or column a is not a number",
        ),
        (
            "rows.ndjson",
            '{"a": 1}\n{"a": "true"}\n',
            "rows that cannot be parsed: they are not JSON, or column a is not a number",
        ),
    ],
)
def test_other_words_are_not_numbers(tmp_path: Path, name: str, text: str, problem: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(SourceError, match=problem) as caught:
        list(FileSource(str(tmp_path / name), ["a"]).blocks())
    assert "perhaps" not in str(caught.value)


@pytest.mark.parametrize("wrong", [{"b": ("x",)}, {"a": "x"}, {"a": (1,)}, {"a": ("",)}, ["a"]])
def test_what_is_not_categories_is_refused(wrong: object) -> None:
    with pytest.raises(ParameterError, match="does not name categories of columns that are read"):
        FileSource("rows.csv", ["a"], categories=wrong)  # type: ignore[arg-type]


def test_texts_without_categories_are_hashes(tmp_path: Path) -> None:
    """The same in all formats; a number among them is hashed by its text."""
    (tmp_path / "rows.csv").write_text("a,b\nada,1\n bob ,2\nNA,3\n,4\n007,5\n7,6\nada,7\n")
    lines = [{"a": text} for text in ("ada", "bob", None, "", "007", "7", "ada")]
    (tmp_path / "rows.ndjson").write_text("".join(json.dumps(line) + "\n" for line in lines))
    expected = [
        np.nan if text is None else float(int(hashlib.blake2b(text, digest_size=8).hexdigest(), 16) // 2**11)
        for text in (b"ada", b"bob", None, None, b"007", b"7", b"ada")
    ]
    for name in ("rows.csv", "rows.ndjson"):
        (block,) = FileSource(str(tmp_path / name), ["a"], keep_missing=True, categories={"a": ()}).blocks()
        assert np.array_equal(block.rows[:, 0], expected, equal_nan=True)
        assert np.nanmax(block.rows) < 2**53


def test_categories_that_are_numbers_are_compared_as_numbers() -> None:
    texts = pa.array(["1.0", "2", "3.00", "x", "NA", None, " 1e0", "1_0"])
    found = number_categories(texts, ("1", "2", "3"))
    assert np.array_equal(found, [0.0, 1.0, 2.0, 3.0, np.nan, np.nan, 0.0, 3.0], equal_nan=True)
    assert number_categories(texts, ("1", "x"))[:4].tolist() == [2.0, 2.0, 2.0, 1.0]  # texts, since one is not a number
