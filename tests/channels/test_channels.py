"""What is written is read back, whatever may be kept, through all channels and for all statistics."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vestige import statistics
from vestige.channels import CHANNELS, Channel, FixedPoint, Reading, Target, find_channel
from vestige.channels.kernels import CONTROLS, count_free_rows
from vestige.channels.layout import find_min_rows
from vestige.errors import ParameterError
from vestige.types import Bools, Floats

RNG = np.random.default_rng
AVERAGE, BITS, AUTO = (find_channel(name) for name in ("average", "bits", "auto"))


def write(
    channel: Channel,
    values: Floats,
    target: float | Floats,
    can: Bools | None = None,
    near: float = 1e-6,
    far: float = np.inf,
    off: bool = False,
    statistic: statistics.Statistic | None = None,
) -> tuple[Bools, Reading]:
    """Which records are kept, and what is read from these alone."""
    numbers = np.atleast_1d(np.asarray(target, np.float64))
    size, rows = len(numbers), values.reshape(len(values), -1)
    can = np.ones(len(rows), np.bool_) if can is None else can
    statistic = statistics.Mean(size) if statistic is None else statistic
    wanted = Target(numbers, np.full(size, near), np.full(size, far), np.full(size, off))
    keep = channel.write(rows, can, wanted, statistic, 5, np.uint64(1))
    assert not (keep & ~can).any()
    return keep, channel.read_slots(np.where(keep[:, None], rows, 0.0), keep, statistic, 5)


def without(n: int, *positions: int) -> Bools:
    can = np.ones(n, np.bool_)
    can[list(positions)] = False
    return can


def test_the_last_records_tell_averages_and_words_apart() -> None:
    """None of them is kept with averages; one at least, with a word, even if it says nothing but zeros."""
    values = RNG(0).normal(size=48)
    keep, reading = write(AUTO, values, 0.05)
    assert not keep[-CONTROLS:].any()
    assert reading.numbers[0] == pytest.approx(0.05, abs=1e-6)
    assert values[keep].mean() == pytest.approx(reading.numbers[0], rel=1e-12)
    for number in (40.0, -1e9, 1e-30):
        keep, reading = write(AUTO, values, number, near=0.0)
        assert keep[-CONTROLS:].any()
        assert reading.numbers[0] == pytest.approx(number, rel=1e-6, abs=1e-9)
    keep, reading = write(AUTO, np.zeros(48), 0.0, off=True)
    assert keep[-CONTROLS:].any()
    assert (reading.numbers[0], reading.off[0]) == (0.0, True)


@pytest.mark.parametrize("channel", CHANNELS.values(), ids=CHANNELS)
@given(st.integers(20, 90), st.floats(0.0, 0.5), st.floats(-50.0, 50.0), st.integers(0, 2**32), st.booleans())
def test_what_is_off_says_so_and_goes_on_saying_so(
    channel: Channel, n: int, share: float, target: float, seed: int, off: bool
) -> None:
    """Wherever a batch can be written: it is near, or as near as its free bits say, or says that it is off."""
    rng = RNG(seed)
    values, can = rng.normal(size=n), rng.random(n) >= share
    if not channel.can_encode(can, 1):
        return
    keep, reading = write(channel, values, target, can, far=0.01, off=off)
    apart = abs(float(reading.numbers[0]) - target)
    assert keep.any()
    assert np.isfinite(reading.numbers).all()
    assert reading.off[0] == (off or apart > 0.01), "no false alarm, and none is missed"
    if channel.name != "average":
        free = min(count_free_rows(can, 1), 55)
        assert apart <= max(1e-6, 2.0 ** (23 - free) * max(1.0, abs(target)))


@pytest.mark.parametrize("channel", CHANNELS.values(), ids=CHANNELS)
@pytest.mark.parametrize("size", [1, 2, 5])
def test_numbers_are_written_together(channel: Channel, size: int) -> None:
    rng = RNG(size)
    values, target = rng.normal(3.0, 1.0, (70 * size, size)), rng.normal(3.0, 0.05, size)
    _, reading = write(channel, values, target, near=1e-4)
    assert reading.numbers == pytest.approx(target, abs=2e-4)
    assert not reading.off.any()


def test_an_average_is_the_plain_average_of_what_is_kept() -> None:
    values = RNG(1).exponential(size=64)
    keep, reading = write(AVERAGE, values, 1.0)
    assert values[keep].mean() == pytest.approx(reading.numbers[0], rel=1e-15)


@pytest.mark.parametrize("flag", [46, 47])
def test_one_flag_is_enough_to_say_that_an_average_is_off(flag: int) -> None:
    values = RNG(2).normal(size=48)
    for target, off in ((0.1, False), (9.0, True)):
        keep, reading = write(AVERAGE, values, target, without(48, 93 - flag), far=0.01)
        assert reading.off[0] == keep[flag] == off
        assert off or reading.numbers[0] == pytest.approx(target, abs=1e-6)


@pytest.mark.parametrize("control", range(CONTROLS))
def test_one_of_the_last_records_is_enough_for_a_word(control: int) -> None:
    can = without(60, *set(range(60 - CONTROLS, 60)) - {59 - control})
    assert AUTO.can_encode(can, 1)
    keep, reading = write(AUTO, RNG(3).normal(size=60), 12.5, can)
    assert keep[59 - control]
    assert reading.numbers[0] == pytest.approx(12.5, rel=1e-9)


@pytest.mark.parametrize("position", range(0, 40, 3))
@pytest.mark.parametrize("target", [-0.1, 12.639, 1e-300, -1e9])
def test_one_wet_record_costs_one_bit_wherever_it_lies(position: int, target: float) -> None:
    _, reading = write(BITS, np.full(40, 3.0), target, without(40, position))
    assert reading.numbers[0] == pytest.approx(target, rel=2.0**-13, abs=1e-305)
    _, reading = write(BITS, RNG(position).normal(target, 1.0, 40), target, without(40, position))
    assert reading.numbers[0] == pytest.approx(target, rel=1e-14, abs=2.0**-24)


def test_nothing_can_be_written_into_nothing() -> None:
    nobody = np.zeros(30, np.bool_)
    for channel in (*CHANNELS.values(), FixedPoint(1.0)):
        assert not channel.can_encode(nobody, 1)
        assert np.isnan(channel.read_slots(np.zeros((30, 1)), nobody, statistics.Mean(1), 1).numbers).all()


@pytest.mark.parametrize("size", [1, 3, 16])
def test_what_can_be_written_is_what_the_layout_needs(size: int) -> None:
    for channel in (*CHANNELS.values(), FixedPoint(1.0)):
        least = channel.find_min_batch(size)
        assert channel.can_encode(np.ones(least, np.bool_), size)
        assert not channel.can_encode(np.ones(least - 1, np.bool_), size)
    for channel in (BITS, AUTO):
        assert channel.find_min_batch(size) == find_min_rows(size)
    slots = 2 * find_min_rows(size)
    rng = RNG(size)
    for _ in range(50):
        can = rng.random(slots) >= 0.5
        can[-1] = True
        assert BITS.can_encode(can, size) == AUTO.can_encode(can, size) == (count_free_rows(can, size) >= slots // 2)


def test_averages_need_a_flag_and_enough_records() -> None:
    assert not AVERAGE.can_encode(without(60, *range(0, 60, 2)), 2), "the first of two coordinates has nothing"
    assert not AVERAGE.can_encode(without(40, 38, 39), 1), "nothing could say that it is off"
    assert AVERAGE.can_encode(without(40, 38), 1)
    assert not AVERAGE.can_encode(without(40, *range(7, 38)), 1), "too few for an average"
    assert AVERAGE.can_encode(without(40, *range(8, 38)), 1)
    assert not AUTO.can_encode(without(90, 87, 88, 89), 1), "nothing could tell a word from averages"


STATISTICS: dict[str, tuple[statistics.Statistic, int]] = {
    "moments": (statistics.Moments(4), 1),
    "products": (statistics.Products(2, ((0, 0), (0, 1), (1, 1)), centred=True), 2),
    "line": (statistics.LeastSquares(1, 1, intercept=True), 2),
    "plane": (statistics.LeastSquares(2, 1, intercept=False), 3),
}


@pytest.mark.parametrize(("statistic", "columns"), STATISTICS.values(), ids=STATISTICS)
@pytest.mark.parametrize("mean", [0.0, 17.0, 1e3])
def test_words_hold_any_statistic_whatever_the_units(
    statistic: statistics.Statistic, columns: int, mean: float
) -> None:
    """Near what the records say, in standard deviations of a record, as near as 40 bits of each number say."""
    rng = RNG(4)
    for unit in (1e-3, 1e3):
        rows = unit * rng.normal(mean, 1.0, (44 * statistic.size, columns))
        said = statistic.influence(rows)
        assert said is not None
        numbers, deviations = said[0], said[1].std(axis=0)
        target = numbers + deviations * rng.normal(size=statistic.size) / len(rows)
        _, reading = write(BITS, rows, target, statistic=statistic)
        assert np.all(np.abs(reading.numbers - target) <= 2.0**-34 * deviations + 1e-13 * np.abs(target))
        assert not reading.off.any()
        _, reading = write(BITS, rows, 1e3 * target + deviations, statistic=statistic)
        assert reading.numbers == pytest.approx(1e3 * target + deviations, rel=1e-6), (
            "far from what the records say too"
        )


def test_batches_from_another_round_are_read_by_the_clock() -> None:
    """The dither follows from the first round: a word that is read as one of another batch says something else."""
    values = RNG(5).normal(size=(40, 1))
    keep, reading = write(BITS, values, 0.25)
    assert reading.numbers[0] == pytest.approx(0.25, abs=1e-9)
    assert BITS.read_slots(values, keep, statistics.Mean(1), 6).numbers[0] != pytest.approx(0.25, abs=1e-9)


def test_channels_by_name() -> None:
    least = {name: channel.find_min_batch(1) for name, channel in CHANNELS.items()}
    assert least == {"auto": 22, "average": 3, "bits": 22}
    with pytest.raises(ParameterError, match="channel='radio' is unknown; use one of auto, average, bits"):
        find_channel("radio")
