"""What is written is read back, whatever may be kept."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from vestige.channels import CHANNELS, named
from vestige.channels.kernels import (
    AUTO,
    AVERAGE,
    BITS,
    FLAGS,
    TURNS,
    largest_within,
    read_segment,
    round_to_word,
    smallest_beyond,
    write_bits,
    write_segment,
)
from vestige.errors import ParameterError
from vestige.records import Bools, Floats
from vestige.subset.desk import make_desk

words = st.integers(0, 2**64 - 1)
reals = st.floats(-1e300, 1e300, allow_nan=False)


def spelled(can: Bools, target: float, coin: float = 0.5) -> tuple[float, Bools]:
    keep = np.zeros(len(can), np.bool_)
    value = write_bits(can, target, coin, keep)
    assert read_segment(np.zeros(len(can)), keep) == value
    assert not (keep & ~can).any()
    return value, keep


@given(reals)
def test_64_bits_hold_any_float64(target: float) -> None:
    assert spelled(np.ones(FLAGS + TURNS + 64, np.bool_), target)[0] == target


@given(reals, st.integers(28, 200), st.floats(0, 1, exclude_max=True))
def test_fewer_bits_hold_the_leading_ones(target: float, n: int, coin: float) -> None:
    value, _ = spelled(np.ones(n, np.bool_), target, coin)
    step = 2.0 ** -min(52, n - FLAGS - TURNS - 12)
    assert abs(value - target) <= max(step * abs(target), 2.0**-1022)


def test_rounding_adds_no_bias() -> None:
    target, trials = 1.0 + 1.0 / 3.0 * 2.0**-11, 3_000
    values = [spelled(np.ones(28, np.bool_), target, (i + 0.5) / trials)[0] for i in range(trials)]
    # coins spread evenly: the share that goes up is exact to one trial
    assert abs(np.mean(values) - target) <= 2.0**-11 / trials


@given(words, words)
def test_words_with_forbidden_bits(word: int, allowed: int) -> None:
    assume(allowed)
    low = int(largest_within(np.uint64(word), np.uint64(allowed)))
    high = int(smallest_beyond(np.uint64(word), np.uint64(allowed)))
    assert low <= word
    assert low & ~allowed == 0
    assert high >= word
    assert high & ~allowed == 0 or high == 2**64 - 1


def test_words_with_forbidden_bits_are_the_nearest() -> None:
    """All words of six bits under all masks, shifted to the top, against a list."""
    for allowed in range(64):
        fits = [w for w in range(64) if w & ~allowed == 0]
        for word in range(64):
            low = int(largest_within(np.uint64(word << 58), np.uint64(allowed << 58)))
            high = int(smallest_beyond(np.uint64(word << 58), np.uint64(allowed << 58)))
            assert low >> 58 == max(w for w in fits if w <= word)
            above = [w for w in fits if w >= word]
            assert high == (min(above) << 58 if above else 2**64 - 1)


def test_never_infinite() -> None:
    word = round_to_word(np.finfo(np.float64).max, ~np.uint64(0) << np.uint64(30), 0.0)
    assert np.isfinite(np.uint64(word).view(np.float64))


def test_copies_beyond_64_bits_mend_what_may_not_be_kept() -> None:
    can = np.ones(FLAGS + TURNS + 128, np.bool_)
    can[:64] = False
    assert spelled(can, -12.5)[0] == -12.5


def written(
    values: Floats, target: float, mode: int, tolerance: float = 1e-6, can: Bools | None = None
) -> tuple[Bools, float]:
    keep = np.zeros(len(values), np.bool_)
    can = np.ones(len(values), np.bool_) if can is None else can
    write_segment(values, can, target, tolerance, np.uint64(1), mode, make_desk(len(values)), keep)
    assert not (keep & ~can).any()
    return keep, read_segment(values, keep)


def test_the_flag_tells_averages_and_bits_apart() -> None:
    values = np.random.default_rng(0).normal(size=48)
    for mode, flag in ((AVERAGE, False), (BITS, True), (AUTO, False)):
        keep, read = written(values, 0.05, mode)
        assert keep[-1] == keep[-2] == flag
        assert read == pytest.approx(0.05, abs=1e-6)
    keep, read = written(values, 40.0, AUTO)  # out of reach of any average
    assert keep[-1]
    assert read == pytest.approx(40.0)


def test_an_average_is_the_plain_average_of_what_is_kept() -> None:
    values = np.random.default_rng(1).exponential(size=64)
    keep, read = written(values, 1.0, AVERAGE)
    assert values[keep].mean() == pytest.approx(read, rel=1e-15)


def without(n: int, *positions: int) -> Bools:
    can = np.ones(n, np.bool_)
    can[list(positions)] = False
    return can


@pytest.mark.parametrize("position", range(40))
@pytest.mark.parametrize("target", [-0.1, 12.639, 1e-300, -1e12])
def test_one_forbidden_record_does_little_harm(position: int, target: float) -> None:
    """Of 40 records 35 spell the word; turned so that the forbidden one comes late, 18 bits of mantissa are left."""
    keep, read = written(np.full(40, 3.0), target, BITS, can=without(40, position))
    assert keep[-1] or keep[-2]
    assert read == pytest.approx(target, rel=2.0**-17)


def test_two_forbidden_flags_leave_the_average() -> None:
    values = np.random.default_rng(2).normal(size=48)
    for mode in (BITS, AUTO):
        keep, read = written(values, 0.1, mode, can=without(48, 46, 47))
        assert keep.any()
        assert read == pytest.approx(0.1, abs=1e-6)


def test_nothing_can_be_written_into_nothing() -> None:
    nobody = np.zeros(30, np.bool_)
    for channel in CHANNELS.values():
        keep, read = written(np.ones(30), 1.0, channel.mode, can=nobody)
        assert not keep.any()
        assert np.isnan(read)
        assert not channel.writable(nobody, 1)
        assert channel.writable(without(30, *range(1, 30)), 1)
        assert not channel.writable(without(60, *range(0, 60, 2)), 2), "the first of two coordinates has nothing"


def test_channels_by_name() -> None:
    assert {name: channel.minimum for name, channel in CHANNELS.items()} == {"auto": 28, "average": 3, "bits": 28}
    with pytest.raises(ParameterError, match="channel='radio' is unknown; use one of auto, average, bits"):
        named("radio")
