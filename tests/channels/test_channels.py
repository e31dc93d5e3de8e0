"""What is written is read back, whatever may be kept."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from vestige.channels import CHANNELS, find_channel
from vestige.channels.kernels import (
    AUTO,
    AVERAGE,
    BITS,
    CONTROLS,
    WHOLE,
    count_free_bits,
    has_bits,
    is_off,
    read_segment,
    write_segment,
)
from vestige.channels.presence import find_largest_within, find_smallest_beyond, round_to_word
from vestige.channels.segments import Segments
from vestige.errors import ParameterError
from vestige.subset.workspace import make_workspace
from vestige.types import Bools, Floats

words = st.integers(0, 2**64 - 1)
reals = st.floats(-1e300, 1e300, allow_nan=False)


def spelled(can: Bools, target: float, key: int = 1) -> tuple[float, Bools]:
    """What presence bits say, however far from any record; and which records are kept."""
    keep, read = written(np.zeros(len(can)), target, BITS, can=can, key=key)
    assert has_bits(keep) or read == target == 0.0
    return read, keep


@given(reals)
def test_64_bits_hold_any_float64(target: float) -> None:
    assert spelled(np.ones(CONTROLS + 64, np.bool_), target)[0] == target


@given(reals, st.integers(28, 200), st.integers(0, 2**32))
def test_fewer_bits_hold_the_leading_ones(target: float, n: int, key: int) -> None:
    value, _ = spelled(np.ones(n, np.bool_), target, key)
    step = 2.0 ** -min(52, n - CONTROLS - 12)
    assert abs(value - target) <= max(step * abs(target), 2.0**-1022)


def test_rounding_adds_no_bias() -> None:
    target, trials = 1.0 + 1.0 / 3.0 * 2.0**-11, 3_000
    word = np.uint64(0xFFFFFE0000000000)  # sign, exponent and 11 bits of the mantissa
    rounded = [round_to_word(target, word, (i + 0.5) / trials) for i in range(trials)]
    values = np.array(rounded, np.uint64).view(np.float64)
    # coins spread evenly: the share that goes up is exact to one trial
    assert abs(np.mean(values) - target) <= 2.0**-11 / trials


@given(words, words)
def test_words_with_forbidden_bits(word: int, allowed: int) -> None:
    assume(allowed)
    low = int(find_largest_within(np.uint64(word), np.uint64(allowed)))
    high = int(find_smallest_beyond(np.uint64(word), np.uint64(allowed)))
    assert low <= word
    assert low & ~allowed == 0
    assert high >= word
    assert high & ~allowed == 0 or high == 2**64 - 1


def test_words_with_forbidden_bits_are_the_nearest() -> None:
    """All words of six bits under all masks, shifted to the top, against a list."""
    for allowed in range(64):
        fits = [w for w in range(64) if w & ~allowed == 0]
        for word in range(64):
            low = int(find_largest_within(np.uint64(word << 58), np.uint64(allowed << 58)))
            high = int(find_smallest_beyond(np.uint64(word << 58), np.uint64(allowed << 58)))
            assert low >> 58 == max(w for w in fits if w <= word)
            above = [w for w in fits if w >= word]
            assert high == (min(above) << 58 if above else 2**64 - 1)


def test_never_infinite() -> None:
    word = round_to_word(np.finfo(np.float64).max, ~np.uint64(0) << np.uint64(30), 0.0)
    assert np.isfinite(np.uint64(word).view(np.float64))


def test_copies_beyond_64_bits_mend_what_may_not_be_kept() -> None:
    can = np.ones(CONTROLS + 128, np.bool_)
    can[:64] = False
    assert spelled(can, -12.5)[0] == -12.5


def written(
    values: Floats,
    target: float,
    mode: int,
    tolerance: float = 1e-6,
    can: Bools | None = None,
    far: float = np.inf,
    off: bool = False,
    key: int = 1,
) -> tuple[Bools, float]:
    """Write and read one segment, whose records lie apart as in a batch: the kernels are compiled for that."""
    values = np.repeat(values, 2)[::2]
    can = np.ones(2 * len(values), np.bool_)[::2] if can is None else np.repeat(can, 2)[::2]
    keep = np.zeros(2 * len(values), np.bool_)[::2]
    write_segment(values, can, target, tolerance, far, off, np.uint64(key), mode, make_workspace(len(values)), keep)
    assert not (keep & ~can).any()
    return keep, read_segment(values, keep, mode)


def test_controls_tell_averages_and_bits_apart() -> None:
    values = np.random.default_rng(0).normal(size=48)
    for mode, bits in ((AVERAGE, False), (BITS, True), (AUTO, False)):
        keep, read = written(values, 0.05, mode)
        assert mode == AVERAGE or has_bits(keep) == bits
        assert read == pytest.approx(0.05, abs=1e-6)
    keep, read = written(values, 40.0, AUTO)  # out of reach of any average
    assert keep[-CONTROLS:].tolist() == [False, False, False, True, True]
    assert read == pytest.approx(40.0)


@pytest.mark.parametrize("channel", CHANNELS.values(), ids=CHANNELS)
@given(st.integers(28, 90), st.floats(0.0, 0.5), st.floats(-50.0, 50.0), st.integers(0, 2**32), st.booleans())
def test_what_is_off_says_so_and_goes_on_saying_so(
    channel: Segments, n: int, share: float, target: float, seed: int, off: bool
) -> None:
    """Wherever a segment can be written: it is near, or within 2^-11 of the number, or says that it is off."""
    rng = np.random.default_rng(seed)
    values, can = rng.normal(size=n), rng.random(n) >= share
    keep, read = written(values, target, channel.mode, can=can, far=0.01, off=off)
    if not channel.can_encode(can, 1):
        return
    assert np.isfinite(read)
    assert is_off(keep, channel.mode) or not (off or abs(read - target) > 0.01)
    assert off or not can.all() or is_off(keep, channel.mode) == (abs(read - target) > 0.01), "no false alarm"
    if channel.name != "average" and count_free_bits(can, off) >= WHOLE:
        assert abs(read - target) <= max(1e-6, 2.0**-11 * abs(target))


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
    assert has_bits(keep)
    assert read == pytest.approx(target, rel=2.0**-17)


def test_one_control_is_enough_for_an_average_that_may_be_off() -> None:
    values = np.random.default_rng(2).normal(size=48)
    for mode in (BITS, AUTO):
        for control in range(43, 48):
            can = without(48, *set(range(43, 48)) - {control})
            for target, off in ((0.1, False), (9.0, True)):
                keep, read = written(values, target, mode, can=can, far=0.01)
                assert not has_bits(keep)
                assert is_off(keep, mode) == off
                assert off or read == pytest.approx(target, abs=1e-6)


@pytest.mark.parametrize("dropped", range(CONTROLS))
def test_three_controls_say_that_bits_are_off(dropped: int) -> None:
    can = without(80, 75 + dropped)
    for off in (False, True):
        keep, read = written(np.zeros(80), 12.5, AUTO, can=can, off=off)
        assert has_bits(keep)
        assert is_off(keep, AUTO) == off
        assert read == 12.5


def test_nothing_can_be_written_into_nothing() -> None:
    nobody = np.zeros(30, np.bool_)
    for channel in CHANNELS.values():
        assert isinstance(channel, Segments)
        keep, read = written(np.ones(30), 1.0, channel.mode, can=nobody)
        assert not keep.any()
        assert np.isnan(read)
        assert not channel.can_encode(nobody, 1)


@pytest.mark.parametrize("channel", CHANNELS.values(), ids=CHANNELS)
def test_what_can_be_written_is_what_the_layout_needs(channel: Segments) -> None:
    assert channel.can_encode(np.ones(channel.min_batch, np.bool_), 1)
    assert not channel.can_encode(np.ones(2, np.bool_), 1)
    assert not channel.can_encode(without(60, *range(0, 60, 2)), 2), "the first of two coordinates has nothing"
    controls = 2 if channel.name == "average" else CONTROLS
    others = 40 - controls
    assert not channel.can_encode(without(40, *range(others, 40)), 1), "nothing could say that it is off"
    assert channel.can_encode(without(40, *range(others, 39)), 1)
    assert not channel.can_encode(without(40, *range(7, others)), 1), "too few for an average"
    assert channel.can_encode(without(40, *range(8, others)), 1)


def test_channels_by_name() -> None:
    assert {name: channel.min_batch for name, channel in CHANNELS.items()} == {"auto": 28, "average": 3, "bits": 28}
    with pytest.raises(ParameterError, match="channel='radio' is unknown; use one of auto, average, bits"):
        find_channel("radio")
