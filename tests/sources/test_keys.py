"""Keys of several columns: joined and split again, and read so from files."""

from __future__ import annotations

import csv
from itertools import product
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vestige.errors import ParameterError
from vestige.sources import FileSource
from vestige.sources.keys import join_key, split_key

ODD = ["DE", "a/b", "%2F", "50%", "/", "%", "%25", "a, b", "é"]


@given(st.lists(st.text("ab/%25F"), min_size=1, max_size=4))
def test_what_is_joined_is_split_again(parts: list[str]) -> None:
    assert split_key(join_key(parts)) == tuple(parts)


def test_a_file_joins_keys_as_they_are_split(tmp_path: Path) -> None:
    rows = [*product(ODD, ODD), ("", "x"), ("x", "")]
    with (tmp_path / "rows.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("v", "a", "b"), *((i, *pair) for i, pair in enumerate(rows))])
    (block,) = FileSource(str(tmp_path / "rows.csv"), ["v"], by=("a", "b")).blocks()
    assert block.keys is not None
    assert block.codes is not None
    assert [split_key(key) for key in block.keys[block.codes]] == rows[:-2]
    assert [join_key(pair) for pair in rows[:-2]] == list(block.keys)
    assert block.skipped == 2
    (single,) = FileSource(str(tmp_path / "rows.csv"), ["v"], by="a").blocks()
    assert single.keys is not None
    assert set(single.keys) == {*ODD, "x"}, "the key of one column is its text"


@pytest.mark.parametrize("wrong", [(), ("a", "a"), ("a", 1), 5])
def test_what_does_not_name_columns_is_refused(wrong: object) -> None:
    with pytest.raises(ParameterError, match="by="):
        FileSource("rows.csv", ["v"], by=wrong)  # type: ignore[arg-type]
