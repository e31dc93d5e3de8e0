"""Entries of a queue are read as the cells of CSV are; what cannot be read is skipped and counted."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from vestige.sources import FileSource
from vestige.sources.columns import Columns
from vestige.sources.entries import read_entries

COLUMNS = Columns(("v", "w"), "at", "who", ("shop",), None, keep_missing=True, categories={"w": ("ok", "failed")})
NUMBERS = st.sampled_from(["1", " 2.5", "-3e2", "true", "FALSE", "", "NA", "0.1", "1e300"])
TIMES = st.sampled_from(["2024-05-31", "2024-05-31T12:30:00Z", "1717155000", ""])
TEXTS = st.sampled_from(["a", "b/c", "é", "", " d"])
WORDS = st.sampled_from(["ok", " failed", "lost", "NA", ""])
ROWS = st.lists(st.tuples(NUMBERS, WORDS, TIMES, TEXTS, TEXTS), min_size=1, max_size=12)


@given(ROWS)
def test_entries_are_read_as_cells_of_csv(rows: list[tuple[str, ...]]) -> None:
    path = Path("/dev/shm" if Path("/dev/shm").is_dir() else "/tmp", "vestige-entries.csv")  # noqa: S108
    names = ("v", "w", "at", "who", "shop")
    try:
        with path.open("w", encoding="utf-8", newline="") as file:
            csv.writer(file).writerows([names, *rows])
        (expected,) = FileSource(
            str(path), ("v", "w"), "at", "who", "shop", keep_missing=True, categories={"w": ("ok", "failed")}
        ).blocks()
    finally:
        path.unlink()
    fields = [[word.encode() for pair in zip(names, row, strict=True) for word in pair] for row in rows]
    block, bad = read_entries(fields, COLUMNS, 0)
    assert bad == ()
    np.testing.assert_array_equal(block.rows, expected.rows)
    assert block.numbers.tolist() == expected.numbers.tolist()
    assert (block.skipped, block.keyless) == (expected.skipped, expected.keyless)
    assert block.times is not None
    assert expected.times is not None
    np.testing.assert_array_equal(block.times, expected.times)
    assert block.subjects is not None
    assert expected.subjects is not None
    assert block.subjects.tolist() == expected.subjects.tolist()
    assert [(key, index.tolist()) for key, index in block.by_key()] == [
        (key, index.tolist()) for key, index in expected.by_key()
    ]


def test_what_cannot_be_read_is_skipped_and_does_not_stop_the_others() -> None:
    plain = Columns(("v",), "at", None, (), None)
    good = [b"v", b"1", b"at", b"2024-05-31"]
    bad = [[b"v", value, b"at", b"2024-05-31"] for value in (b"x", b"inf", b"\xff", b"1,5")]
    bad += [[b"v", b"1", b"at", b"soon"], [b"v", b"1"], [], [b"at", b"2024-05-31"]]
    block, fields = read_entries([good, *bad, good], plain, 10)
    assert block.numbers.tolist() == [11, 11 + len(bad) + 1]
    assert block.skipped == len(bad)
    assert fields == ("v", "at")


def test_no_entries_make_a_block_without_rows() -> None:
    block, fields = read_entries([], COLUMNS, 3)
    assert (len(block.rows), block.read, fields) == (0, 3, ())
