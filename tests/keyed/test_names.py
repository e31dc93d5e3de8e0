"""Names of streams against a dictionary."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vestige import KeyedStreams, Mean
from vestige.errors import DataError
from vestige.keyed.names import KeyNames, read_keys

TEXTS = st.text(min_size=1, max_size=12).filter(
    lambda text: text[0] != "\0" and not any("\ud800" <= c <= "\udfff" for c in text)
)


@given(blocks=st.lists(st.lists(TEXTS, max_size=40), max_size=6))
def test_numbers_are_those_of_a_dictionary(blocks: list[list[str]]) -> None:
    names, known = KeyNames(), dict[str, int]()
    for block in blocks:
        expected = [known.setdefault(name, len(known)) for name in block]
        assert names.number(read_keys(block)).tolist() == expected
    assert list(names) == list(known)
    assert all(names.find(name) == number for name, number in known.items())
    assert len(names) == len(known)


def test_many_names_and_numbers_as_names() -> None:
    names, rng = KeyNames(), np.random.default_rng(0)
    numbers = rng.integers(-(10**18), 10**18, 50_000)
    numbers[:4] = [-(2**63), 2**63 - 1, 0, -1]
    made = names.number(read_keys(numbers))
    assert [names[i] for i in made[:200]] == [str(n) for n in numbers[:200]]
    assert len(names) == len(set(numbers.tolist()))
    assert np.array_equal(names.number(read_keys([str(n) for n in numbers])), made)


@pytest.mark.parametrize(
    "column",
    [
        ["DE", "FR", "DE", "ü"],
        ("DE", "FR", "DE", "ü"),
        np.array(["DE", "FR", "DE", "ü"]),
        np.array(["DE", "FR", "DE", "ü"], object),
        pd.Series(["DE", "FR", "DE", "ü"]),
        pd.Series(["DE", "FR", "DE", "ü"], dtype="category"),
        pa.array(["DE", "FR", "DE", "ü"]),
        pa.array(["x", "DE", "FR", "DE", "ü"])[1:],
        pa.chunked_array([["DE", "FR"], ["DE", "ü"]]),
        pa.array(["DE", "FR", "DE", "ü"]).dictionary_encode(),
    ],
    ids=lambda column: f"{type(column).__module__}.{type(column).__name__}",
)
def test_columns_of_any_kind(column: object) -> None:
    names = KeyNames()
    assert names.number(read_keys(column)).tolist() == [0, 1, 0, 2]
    assert list(names) == ["DE", "FR", "ü"]


def test_whole_numbers_of_any_kind() -> None:
    for column in (
        [7, 8, 7],
        np.array([7, 8, 7], np.uint8),
        pd.Series([7, 8, 7]),
        pa.array([7, 8, 7]),
    ):
        names = KeyNames()
        assert names.number(read_keys(column)).tolist() == [0, 1, 0]
        assert list(names) == ["7", "8"]


@pytest.mark.parametrize("numbers", [[2**63 + 1, 2**64 - 1, 5], [-(2**63), -(2**63) + 1, 5], [2**63, 2**70, 5]])
def test_large_numbers_are_their_digits(numbers: list[int]) -> None:
    kinds: list[Any] = [np.int64, np.uint64, object]
    for kind in (kind for kind in kinds if kind is object or np.can_cast(np.min_scalar_type(numbers), kind)):
        pack = [np.array, pd.Series, *([] if kind is object else [pa.array])]
        for column in (each(np.array(numbers, kind)) for each in pack):
            names = KeyNames()
            names.number(read_keys(column))
            assert list(names) == list(map(str, numbers))


def test_a_number_of_an_array_finds_its_stream() -> None:
    streams = KeyedStreams(Mean(), retention=96, seed=0)
    streams.extend(np.array([2**60 + 1, 2**60 + 2]), [1.0, 2.0])
    assert [streams.estimate(key).value for key in np.array([2**60 + 1, 2**60 + 2])] == [1.0, 2.0]
    assert np.int64(2**60 + 2) in streams
    assert np.int64(2**60) not in streams


@pytest.mark.parametrize(
    "column",
    [
        pa.array([1.5]),
        pa.array([2.0**60]).dictionary_encode(),
        pd.Series([1.0], dtype="Float64"),
        [""],
        [None],
        [1.5],
        "DE",
        7,
        ["\ud800"],
        ["\0x"],
        pa.array(["DE", None]),
        pd.Series(["DE", None]),
        [b"x"],
    ],
)
def test_what_is_not_a_key_is_refused(column: object) -> None:
    with pytest.raises(DataError, match="key"):
        read_keys(column)


def test_texts_that_no_row_has_are_no_keys() -> None:
    """A column with codes may list texts that none of its rows has."""
    texts = pa.array(["DE", "", "\0x", "x" * 1_025])
    assert read_keys(pa.DictionaryArray.from_arrays([0, 0], texts)).rows == 2
    for code, said in ((1, "is empty"), (2, "begins with NUL"), (3, "has 1,025 bytes of UTF-8")):
        with pytest.raises(DataError, match=rf"key 1 of 2 \(counted from 0\), .*, {said}"):
            read_keys(pa.DictionaryArray.from_arrays([0, code], texts))


def test_a_name_that_was_removed_is_gone() -> None:
    names = KeyNames()
    names.number(read_keys(["secret", "FR", "hidden"]))
    names.remove(0)
    assert list(names) == ["FR", "hidden"]
    assert (names.find("secret"), names.find("FR"), len(names)) == (None, 1, 2)
    assert b"secret" not in names._content.tobytes()
    assert names.number(read_keys(["secret"])).tolist() == [3]
