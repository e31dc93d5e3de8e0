"""Numbers in presence bits alone: what is spelled is read, and records that must leave do little harm."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vestige.channels.kernels import read_spelled, spell_batch
from vestige.records import Bools, Floats

RNG = np.random.default_rng
numbers = st.one_of(
    st.floats(-1e150, 1e150, allow_nan=False, allow_subnormal=False), st.sampled_from([0.0, 1.0, 1.0 - 2.0**-53, -2.5])
)


def spelled(can: Bools, target: Floats, key: int) -> tuple[Bools, Floats, Floats]:
    """Which records are kept, what they are said to spell, and what is read."""
    keep, said = np.zeros(len(can), np.bool_), np.empty(len(target))
    spell_batch(can, target, np.uint64(key), keep, said)
    return keep, said, read_spelled(np.flatnonzero(keep) + 11, 11, len(can), len(target))


@given(st.lists(numbers, min_size=1, max_size=3), st.integers(28, 90), st.floats(0.0, 0.6), st.integers(0, 2**32))
def test_what_is_spelled_is_read_and_nothing_else_is_kept(
    target: list[float], each: int, share: float, key: int
) -> None:
    can = RNG(key).random(each * len(target)) >= share
    keep, said, read = spelled(can, np.array(target), key)
    assert not (keep & ~can).any()
    assert np.isfinite(said).all()
    if keep.any():
        assert np.array_equal(read, said)


@given(numbers, st.integers(28, 90), st.integers(0, 2**32))
def test_with_all_records_it_is_off_by_one_step_at_most(target: float, each: int, key: int) -> None:
    _, said, _ = spelled(np.ones(each, np.bool_), np.array([target]), key)
    assert said[0] == pytest.approx(target, rel=2.0 ** -min(each - 17, 52))


@pytest.mark.parametrize("target", [1.0 - 2.0**-53, 1.0, 0.1, -1e9 / 7.0, 3e-300])
@pytest.mark.parametrize(("share", "off"), [(0.02, 1e-5), (0.05, 1e-4)])
def test_records_that_must_leave_do_little_harm(target: float, share: float, off: float) -> None:
    """Of 64 records one to six must leave: the median error, and that of all but one in a hundred."""
    errors = []
    for key in range(500):
        _, said, _ = spelled(RNG(key).random(64) >= share, np.array([target]), key)
        errors.append(abs(said[0] / target - 1.0))
    assert np.median(errors) <= 1e-12
    assert np.quantile(errors, 0.99) <= off


def test_a_zero_leaves_a_trace() -> None:
    keep, said, read = spelled(np.ones(60, np.bool_), np.zeros(2), 0)
    assert keep.any()
    assert said.tolist() == read.tolist() == [0.0, 0.0]
