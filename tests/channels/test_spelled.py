"""Numbers in presence bits alone: what is spelled is read, and where records must leave, any number is said or none."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vestige.channels.kernels import can_write_words, find_turn, read_words, write_words
from vestige.types import Bools, Floats

RNG = np.random.default_rng
numbers = st.one_of(
    st.floats(-1e150, 1e150, allow_nan=False, allow_subnormal=False), st.sampled_from([0.0, 1.0, 1.0 - 2.0**-53, -2.5])
)


def spelled(can: Bools, target: Floats, key: int) -> tuple[Bools, Floats, Floats]:
    """Which records are kept, what they are said to spell, and what is read."""
    keep, said = np.zeros(len(can), np.bool_), np.empty(len(target))
    write_words(can, target, np.uint64(key), keep, said)
    return keep, said, read_words(np.flatnonzero(keep) + 11, 11, len(can), len(target))


@given(st.lists(numbers, min_size=1, max_size=3), st.integers(28, 90), st.floats(0.0, 0.6), st.integers(0, 2**32))
def test_what_can_be_spelled_is_within_2_to_the_minus_11_whatever_it_is(
    target: list[float], each: int, share: float, key: int
) -> None:
    can = RNG(key).random(each * len(target)) >= share
    keep, said, read = spelled(can, np.array(target), key)
    assert not (keep & ~can).any()
    assert np.isfinite(said).all()
    if can_write_words(can, len(target)):
        assert np.array_equal(read, said)
        assert np.all(np.abs(read - target) <= 2.0**-11 * np.abs(target))


@given(numbers, st.integers(28, 90), st.integers(0, 2**32))
def test_with_all_records_it_is_off_by_one_step_at_most(target: float, each: int, key: int) -> None:
    _, said, _ = spelled(np.ones(each, np.bool_), np.array([target]), key)
    assert said[0] == pytest.approx(target, rel=2.0 ** -min(each - 17, 52))


@given(numbers, st.integers(0, 58), st.integers(0, 2**32))
def test_one_record_that_must_leave_costs_nothing_but_a_turn(target: float, place: int, key: int) -> None:
    """Its bit is a zero in one way of writing, and a one in the other."""
    can = np.ones(64, np.bool_)
    can[place] = False
    _, said, _ = spelled(can, np.array([target]), key)
    assert said[0] == pytest.approx(target, rel=2.0**-47)


def test_many_updates_with_records_that_must_leave_add_no_bias() -> None:
    """Each spelled once more, a thousand times: the errors cancel, and do not add up to a thousand steps."""
    number, walked, steps = 17.0 * (1.0 + 1.0 / 3.0), [], []
    for key in range(400):
        can = RNG(key).random(64) >= 0.1
        if can_write_words(can, 1):
            _, said, _ = spelled(can, np.array([number]), key)
            walked.append(said[0] - number)
            steps.append(2.0 ** (4 + 12 - find_turn(can)[1]))
    assert len(walked) > 100
    assert abs(np.sum(walked)) <= 4.0 * np.sqrt(np.sum(np.square(steps)))


def test_a_zero_leaves_a_trace() -> None:
    keep, said, read = spelled(np.ones(60, np.bool_), np.zeros(2), 0)
    assert keep.any()
    assert said.tolist() == read.tolist() == [0.0, 0.0]
