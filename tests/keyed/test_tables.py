"""Columns of texts: as objects and as Arrow."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from vestige.keyed.names import read_keys
from vestige.keyed.tables import CodedTexts, LazyColumns, SparseTexts

TEXTS = read_keys(["DE", "ü", "FR"])


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        (CodedTexts(TEXTS, np.array([2, 0, -1, 1, 2])), ["FR", "DE", None, "ü", "FR"]),
        (CodedTexts(TEXTS, np.arange(3)), ["DE", "ü", "FR"]),
        (CodedTexts(TEXTS, np.array([1, 2, -1])).select(np.array([2, 0])), [None, "ü"]),
        (CodedTexts(TEXTS, np.zeros(0, np.int64)), []),
        (SparseTexts(3, {1: "late"}), [None, "late", None]),
        (SparseTexts(2, {}), [None, None]),
    ],
)
def test_both_forms_say_the_same(column: CodedTexts | SparseTexts, expected: list[str | None]) -> None:
    assert column.to_numpy().tolist() == expected
    made = column.to_arrow()
    assert made.type == pa.large_string()
    assert made.to_pylist() == expected
    made.validate(full=True)
    assert len(column) == len(expected)


def test_texts_are_made_once_and_when_they_are_asked_for() -> None:
    columns = LazyColumns({"notes": SparseTexts(2, {0: "x"}), "t": np.arange(2)})
    assert list(columns) == ["notes", "t"]
    assert columns["notes"] is columns["notes"]
    assert columns["t"] is columns["t"]
    assert len(columns) == 2
