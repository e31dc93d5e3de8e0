"""Records and clocks are immutable, canonical values."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from vestige import Clock, Records
from vestige.errors import ParameterError


def test_order_says_nothing() -> None:
    one = Records([3, 1, 2], [[0.3], [0.1], [0.2]], leaving=[True, False, False], subjects=["c", "a", "b"])
    other = Records([1, 2, 3], [[0.1], [0.2], [0.3]], leaving=[False, False, True], subjects=["a", "b", "c"])
    assert one == other
    assert one.rounds.tolist() == [1, 2, 3]
    assert one.subjects.tolist() == ["a", "b", "c"]


def test_nothing_can_be_changed_in_place() -> None:
    values = np.array([[0.5]])
    records = Records([1], values)
    values[0, 0] = 7.0
    assert records.values[0, 0] == 0.5
    with pytest.raises(ValueError, match="read-only"):
        records.values[0, 0] = 1.0
    with pytest.raises(AttributeError):
        records.values = values  # type: ignore[misc]
    assert all(not getattr(records.where(slice(0, 1)), name).flags.writeable for name in Records.__slots__)


def test_pickle_round_trip() -> None:
    records = Records([4, 9], [[1.0, 2.0], [3.0, 4.0]], times=["2024-01-01", "NaT"], subjects=["a", None])
    assert pickle.loads(pickle.dumps(records)) == records


def test_a_policy_is_shown_neither_times_nor_subjects() -> None:
    shown = Records([4], [[1.0]], times=["2024-01-01"], subjects=["someone"]).without_labels()
    assert np.isnat(shown.times).all()
    assert shown.subjects.tolist() == [None]


@pytest.mark.parametrize(
    ("rounds", "values", "text"),
    [
        ([1, 1], [[0.0], [0.0]], "rounds repeat or lie below 1"),
        ([0], [[0.0]], "rounds repeat or lie below 1"),
        ([1, 2], [[0.0]], "values has 1 entries for 2 rounds"),
        ([1, 2], [0.0, 0.0], r"values has shape \(2,\)"),
    ],
)
def test_what_is_no_set_of_records_is_refused(rounds: list[int], values: list[object], text: str) -> None:
    with pytest.raises(ParameterError, match=text):
        Records(rounds, values)  # type: ignore[arg-type]


def test_a_printed_record_shows_no_value() -> None:
    assert "0.123456" not in repr(Records([1], [[0.123456]]))


def test_the_clock_refuses_what_cannot_be() -> None:
    with pytest.raises(ParameterError, match="is not a valid clock"):
        Clock(t=5, first=1, last=6)
    with pytest.raises(ParameterError, match="no more gaps than rounds"):
        Clock(t=5, first=1, last=5, gaps=6)


def test_the_clock_counts() -> None:
    clock = Clock(t=100, first=49, last=96, since=11, gaps=6)
    assert (clock.encoded, clock.pending) == (80, 4)
    assert clock.weight(3) == 3 / 83
