"""Words: an independent reader, in plain Python and with exact sums, reads the numbers that kernels read and wrote.

On all kinds of data, with wet records or without; errors have mean 0, do not depend on units, and are as large as the
layout says; and a word is read alike if its side information moves a little.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from decoder import LONG_BITS, NORMAL, Decoded, Number, decode, decode_fixed, measure, read_syndrome
from vestige import channels, statistics
from vestige.channels import Channel, FixedPoint, Reading, Target, word
from vestige.channels.bits import LONG, find_side_information
from vestige.channels.kernels import count_free_rows
from vestige.channels.layout import (
    LONG_HEADER,
    MAX_BITS,
    find_min_rows,
    find_precision,
    find_relative_precision,
    find_width,
)
from vestige.channels.residues import ALIKE, decode_pattern, encode_pattern, find_exponent, find_factor, find_step
from vestige.types import Bools, Floats

BITS = channels.find_channel("bits")
RNG = np.random.default_rng
Kind = Callable[[np.random.Generator, int], Floats]


KINDS: dict[str, Kind] = {
    "normal": lambda rng, n: rng.normal(size=n),
    "far": lambda rng, n: rng.normal(1e6, 1.0, n),
    "farther": lambda rng, n: rng.normal(6e10, 1.0, n),
    "tiny": lambda rng, n: 1e-290 * rng.normal(3.0, 1.0, n),
    "huge": lambda rng, n: 1e290 * rng.normal(3.0, 1.0, n),
    "huge and tiny": lambda rng, n: 10.0 ** rng.choice([-150.0, 150.0], n),
    "whole": lambda rng, n: np.rint(rng.exponential(10.0, n)),
    "two values": lambda rng, n: np.where(rng.random(n) < 0.5, 0.1, 0.0),
    "rare": lambda rng, n: np.where(rng.random(n) < 0.001, 1.0, 0.0),
    "one in thirty": lambda rng, n: np.where(rng.random(n) < 0.03, 1.0, 0.0),
    "sorted": lambda rng, n: 40.0 + np.sort(rng.normal(size=n)),
    "drifting": lambda rng, n: np.cumsum(rng.normal(size=n)),
    "alternating": lambda _, n: np.tile([1.0, -1.0], n)[:n],
    "constant": lambda _, n: np.full(n, 7.3),
    "zero": lambda _, n: np.zeros(n),
    "lognormal": lambda rng, n: rng.lognormal(size=n),
    "cauchy": lambda rng, n: rng.standard_cauchy(n),
}


def draw_values(kind: str, rng: np.random.Generator, slots: int, size: int) -> Floats:
    """One column of the kind; of several, every third, the others ordinary."""
    columns = [KINDS[kind](rng, slots) if i % 3 == 0 else rng.normal(5.0, 2.0, slots) for i in range(size)]
    return np.column_stack(columns)


def draw_target(rng: np.random.Generator, values: Floats) -> Floats:
    """Numbers where averages of many batches like this one lie, or where no record says that they are."""
    deviation = np.abs(values - values.mean(axis=0)).mean(axis=0) + np.abs(values.mean(axis=0)) * 1e-3
    return np.asarray(values.mean(axis=0) + deviation * rng.normal(size=values.shape[1]) * rng.choice([0.1, 0.5, 30.0]))


def write(
    values: Floats, target: Floats, can: Bools | None = None, first: int = 1, far: float = np.inf, off: bool = False
) -> tuple[Bools, Reading]:
    """Which records are kept, and what is read."""
    can, size = np.ones(len(values), np.bool_) if can is None else can, len(target)
    wanted = Target(target, np.zeros(size), np.full(size, far), np.full(size, off))
    keep = BITS.write(values, can, wanted, statistics.Mean(size), first, np.uint64(0))
    assert not (keep & ~can).any()
    return keep, BITS.read_slots(np.where(keep[:, None], values, 0.0), keep, statistics.Mean(size), first)


def check(values: Floats, keep: Bools, reading: Reading, first: int) -> Decoded:
    """The independent reader says the same floats; with exact sums the same up to what floats round off.

    A number is a + ((residue - dither + 1/2) + turns * modulus) * step, where a is the first record: roundings, each of
    at most 2^-53 of a modulus, of the number or of its distance from that record.
    """
    size, kept = values.shape[1], np.flatnonzero(keep).tolist()
    rows: list[list[float]] = values.tolist()
    found = decode(rows, kept, len(keep), size, first)
    alike = np.array(found.spans) == 0.0
    numbers = np.array(found.numbers, np.float64)
    assert np.array_equal(numbers[~alike], reading.numbers[~alike])
    assert np.allclose(numbers[alike], reading.numbers[alike], rtol=2.0**-50, atol=0.0)
    assert reading.off.tolist() == [found.off] * size
    exact = decode(rows, kept, len(keep), size, first, Fraction)
    columns = zip(rows[kept[0]], reading.numbers.tolist(), exact.numbers, exact.spans, strict=True)
    for anchor, number, truth, span in columns:
        apart = abs(Fraction(anchor) - truth)
        assert abs(Fraction(number) - truth) <= (abs(truth) + span + apart) / 2**50 + Fraction(5, 10**324)
    return found


CASES = [(kind, size) for kind in KINDS for size in (1, 2, 4, 16)]


@pytest.mark.parametrize("trials", [8, pytest.param(80, marks=pytest.mark.slow)])
@pytest.mark.parametrize(("kind", "size"), CASES)
def test_an_independent_reader_reads_what_was_written(kind: str, size: int, trials: int) -> None:
    """From the fewest records to more than can be used, with up to 60% of them wet."""
    rng = RNG([size, list(KINDS).index(kind)])
    for trial in range(trials if size < 16 else trials // 4):
        slots = find_min_rows(size) + int(rng.integers(0, 40 * size + 20))
        can = rng.random(slots) >= rng.choice([0.0, 0.0, 0.02, 0.2, 0.6])
        if not BITS.can_encode(can, size):
            continue
        values = draw_values(kind, rng, slots, size)
        target = draw_target(rng, values)
        far, off = float(rng.choice([np.inf, 1e-3])), bool(rng.random() < 0.1)
        keep, reading = write(values, target, can, 1 + 97 * trial, far, off)
        check(values, keep, reading, 1 + 97 * trial)
        missed = np.abs(reading.numbers - target) > far
        assert reading.off.all() or not (off or missed.any()), "what is far off says so"


def find_unit(values: Floats, can: Bools, size: int) -> Floats:
    """The distance of the numbers that can be written: what the layout says, times two for each bit that is lost."""
    free = count_free_rows(can, size)
    lost = len(can) - free
    return np.asarray(values.std(axis=0) * find_width(size, len(can)) * 2.0 ** (1.0 - (len(can) - 1 - lost) // size))


@pytest.mark.parametrize("share", [0.0, 0.2, 0.4])
@pytest.mark.parametrize("size", [1, 4])
def test_errors_have_mean_zero_with_and_without_wet_records(size: int, share: float) -> None:
    """A fixed number, far from the middle of a step, in many batches: the errors cancel."""
    rng, slots, errors = RNG([size, int(10 * share)]), 24 * size + round(share * 48 * size), []
    for trial in range(1_200):
        values = rng.normal(17.0, 1.0, (slots, size))
        can = np.ones(slots, np.bool_)
        can[rng.choice(slots, round(share * slots), replace=False)] = False
        if BITS.can_encode(can, size):
            target = np.full(size, 17.0 + 1.0 / 3.0 / np.sqrt(slots))
            _, reading = write(values, target, can, 1 + trial * slots)
            errors.append((reading.numbers - target) / find_unit(values, can, size))
    found = np.array(errors)
    assert len(found) > 1_000
    assert np.all(np.abs(found.mean(axis=0)) <= 4.0 * found.std(axis=0) / np.sqrt(len(found)))


@pytest.mark.parametrize("mean", [3.0, 17.0])
def test_errors_have_mean_zero_where_steps_are_as_fine_as_float64(mean: float) -> None:
    """In 48 bits a step is about the distance of neighbouring floats; the dither leaves a mean of 2^-6 of a step."""
    rng, values = RNG(4), np.empty((64, 1))
    errors = []
    for trial in range(1_500):
        values[:, 0] = rng.normal(mean, 1.0, 64)
        target = mean + rng.normal(0.0, 0.05, 1)
        errors.append(float((write(values, target, first=1 + 64 * trial)[1].numbers - target)[0]))
    step = find_width(1, LONG_HEADER + MAX_BITS) * 2.0**-48
    assert abs(np.mean(errors)) <= 4.0 * np.std(errors) / np.sqrt(len(errors)) + step * 2.0**-6
    assert abs(np.mean(errors)) < step / 8.0


@pytest.mark.parametrize("share", [0.0, 0.3])
def test_the_final_error_is_that_of_errors_that_do_not_add_up(share: float) -> None:
    """Each number is written again 400 times: a bias would add up to 400 errors, chance adds up to 20."""
    rng, slots, steps, ends, squares = RNG(int(10 * share)), 36, 400, [], []
    for walk in range(40):
        number, total = np.array([3.0]), 0.0
        for step in range(steps):
            can = np.ones(slots, np.bool_)
            can[rng.choice(slots, round(share * slots), replace=False)] = False
            if not BITS.can_encode(can, 1):
                continue
            _, reading = write(rng.normal(3.0, 1.0, (slots, 1)), number, can, 1 + (walk * steps + step) * slots)
            total += float((reading.numbers - number)[0]) ** 2
            number = reading.numbers
        ends.append(float(number[0]) - 3.0)
        squares.append(total)
    # 40 squares of normals: the ratio of their sum to its expectation has a standard error of sqrt(2 / 40)
    ratio = np.mean(np.square(ends)) / np.mean(squares)
    assert abs(ratio - 1.0) <= 4.0 * np.sqrt(2.0 / len(ends))


@pytest.mark.parametrize(("slots", "size"), [(22, 1), (48, 1), (64, 1), (72, 4), (300, 16)])
def test_errors_are_as_large_as_the_layout_says(slots: int, size: int) -> None:
    """For normal data; more only where the nearest numbers did not come out, less where a number has a bit more."""
    rng, errors = RNG(slots), []
    for trial in range(400):
        values = rng.normal(size=(slots, size))
        target = rng.normal(size=size) / np.sqrt(3.0 * slots)
        _, reading = write(values, target, first=1 + trial * slots)
        errors.append(reading.numbers - target)
    assert 0.4 < np.sqrt(np.mean(np.square(errors))) / find_precision(slots, size) < 2.5


def find_miss(reading: Reading, target: Floats, low: Floats) -> Floats:
    """How far numbers are from what was to be written, both being sums of two floats."""
    columns = zip(reading.numbers.tolist(), reading.low.tolist(), target.tolist(), low.tolist(), strict=True)
    return np.array([float(Fraction(a) - Fraction(c) + Fraction(b) - Fraction(d)) for a, b, c, d in columns])


@pytest.mark.parametrize(("channel", "slots"), [(BITS, 40), (BITS, 55), (LONG, 40), (LONG, 58), (LONG, 64), (LONG, 90)])
def test_numbers_that_records_say_nothing_of_are_as_near_as_the_layout_says(channel: Channel, slots: int) -> None:
    silent, rng, off = _Silent(statistics.Mean(1), 1.0), RNG(slots), []
    for trial in range(300):
        target, values = np.exp(rng.normal(size=1) * 5.0), rng.normal(size=(slots, 1))
        low = np.spacing(target) * rng.uniform(-0.5, 0.5, 1)
        wanted = Target.exactly(target)._replace(rest=low)
        keep = channel.write(values, np.ones(slots, np.bool_), wanted, silent, 1 + trial, np.uint64(0))
        off.append(find_miss(channel.read_slots(values, keep, silent, 1 + trial), target, low)[0] / target[0])
    assert 0.25 < np.sqrt(np.mean(np.square(off))) / find_relative_precision(slots, 1) < 2.0
    assert abs(np.mean(off)) <= 4.0 * np.std(off) / np.sqrt(len(off))


PRESENT = statistics.Present(statistics.Products(1, ((0, 0),), centred=True))
"""The share of the records that have a column, and its mean and variance."""


@pytest.mark.parametrize("lacking", [(0,), (0, 1)], ids=str)
def test_longer_words_by_an_independent_reader_where_a_column_is_missing(lacking: tuple[int, ...]) -> None:
    """A number that no kept record locates is the sum of two floats, as near as its further bits say."""
    statistic, rng, fine = statistics.Joint((((0,), PRESENT), ((1,), PRESENT))), RNG(len(lacking)), 0
    for trial in range(120):
        slots = find_min_rows(6) + int(rng.integers(0, 350))
        can = rng.random(slots) >= rng.choice([0.0, 0.0, 0.05, 0.2, 0.6])
        if not LONG.can_encode(can, 6):
            continue
        values = rng.normal([1e13, 5.0], 1.0, (slots, 2))
        values[:, lacking] = np.nan
        target = np.array([0.4, rng.choice([1e13, -3.7, 2.0**40]), 1.1, 0.99, 5.01, 1e-290]) * rng.uniform(0.99, 1.01)
        low = np.spacing(target) * rng.uniform(-0.5, 0.5, 6)
        wanted = Target.exactly(target)._replace(rest=low)
        keep = LONG.write(values, can, wanted, statistic, 1 + trial, np.uint64(0))
        assert not (keep & ~can).any()
        reading = LONG.read_slots(np.where(keep[:, None], values, 0.0), keep, statistic, 1 + trial)
        side = find_side_information(statistic, values[keep])[:3]
        exact = decode(
            values.tolist(),
            np.flatnonzero(keep).tolist(),
            slots,
            6,
            1 + trial,
            Fraction,
            lambda _, of, side=side: tuple([of(number) for number in numbers.tolist()] for numbers in side),  # type: ignore[arg-type, misc]
            LONG_BITS,
        )
        columns = zip(reading.numbers.tolist(), reading.low.tolist(), exact.numbers, exact.spans, strict=True)
        for number, rest, truth, span in columns:
            assert abs(Fraction(number) + Fraction(rest) - truth) <= span / 2**50 + abs(truth) / 2**85
        free = LONG.count_bits(slots, can, 6)
        silent = [3 * column + number for column in lacking for number in (0, 1, 2)]
        floats = [i for i in silent if abs(target[i]) > 1e-200]
        miss = np.abs(find_miss(reading, target, low) / target)[floats]
        assert np.all(miss <= 16.0 * max(find_relative_precision(free, 6), 2.0**-61))
        fine += bool(np.all(miss <= 2.0**-46))
    assert fine > 10


class _Silent(statistics.Clipped):
    """A mean of which records say nothing."""

    def influence(self, values: Floats) -> None:  # type: ignore[override]  # noqa: ARG002
        return None


@pytest.mark.parametrize("offset", [0.0, 1.0, 17.0, 1e3, 1e6])
@pytest.mark.parametrize("unit", [1e-6, 0.1, 1.0, 1e6])
def test_errors_do_not_depend_on_units(unit: float, offset: float) -> None:
    """In standard deviations: mean squares agree within four of their standard errors."""
    errors = {}
    for name, (a, c) in {"plain": (1.0, 0.0), "moved": (unit, unit * offset)}.items():
        rng, found = RNG(7), []
        for trial in range(600):
            values, number = rng.normal(size=(28, 1)), rng.normal(size=1) / 28.0
            _, reading = write(a * values + c, a * number + c, first=1 + trial * 28)
            found.append(float((reading.numbers[0] - (a * number[0] + c)) / a))
        errors[name] = np.square(found)
    plain, moved = errors["plain"], errors["moved"]
    error = np.hypot(plain.std(), moved.std()) / np.sqrt(len(plain))
    assert abs(moved.mean() - plain.mean()) <= 4.0 * error


def test_powers_of_two_scale_words_exactly() -> None:
    """The same records are kept, but for the parity of the scale's exponent: powers of four leave that too."""
    rng = RNG(8)
    for trial in range(50):
        values, number = rng.normal(5.0, 1.0, (40, 2)), rng.normal(5.0, 0.1, 2)
        keep, reading = write(values, number, first=1 + trial)
        for power in (4.0**-60, 0.25, 4.0, 4.0**50):
            again, moved = write(values * power, number * power, first=1 + trial)
            assert np.array_equal(keep, again)
            assert np.array_equal(moved.numbers, reading.numbers * power)


def shake(by: float) -> Callable[..., tuple[list[Number], list[Number], list[Number]]]:
    """Side information that is off by this share of itself."""

    def side(kept: list[list[float]], of: Callable[[float], Number]) -> tuple[list[Number], list[Number], list[Number]]:
        anchors, centres, scales = measure(kept, of)
        moved = [c + of(by) * (abs(c) + s) for c, s in zip(centres, scales, strict=True)]
        return anchors, moved, [s * (1 + of(by)) for s in scales]

    return side


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in ("constant", "zero")])
def test_a_word_is_read_alike_if_its_side_information_moves(kind: str) -> None:
    rng = RNG(list(KINDS).index(kind))
    for trial in range(60):
        slots, size = int(rng.integers(40, 90)), int(rng.integers(1, 3))
        values = draw_values(kind, rng, slots, size)
        keep, _ = write(values, draw_target(rng, values), first=1 + trial)
        rows, kept = values.tolist(), np.flatnonzero(keep).tolist()
        plain = decode(rows, kept, slots, size, 1 + trial, Fraction)
        for by in (-(2.0**-40), 2.0**-40):
            shaken = decode(rows, kept, slots, size, 1 + trial, Fraction, shake(by))
            for was, now, span in zip(plain.numbers, shaken.numbers, plain.spans, strict=True):
                assert was == now or (not span and abs(was - now) <= abs(was) * Fraction(2.0**-39))


def test_a_word_is_read_alike_if_its_centre_is_between_two_numbers() -> None:
    """Half zeros and half ones, and a number half a range away from their average: as many of both are not kept."""
    values = np.tile([0.0, 1.0], 32)[:, None]
    for first in range(1, 1 + 60 * 64, 64):
        factor = find_factor(np.uint64(word.find_key(first, 64)), 0)
        span = find_step(find_exponent(NORMAL / 2.0, factor), factor, find_width(1, LONG_HEADER + MAX_BITS), 0, 0)
        keep, _ = write(values, np.array([(1.0 + span) / 2.0]), first=first)
        rows, kept = values.tolist(), np.flatnonzero(keep).tolist()
        plain = decode(rows, kept, 64, 1, first, Fraction)
        for by in (-(2.0**-40), 2.0**-40):
            assert decode(rows, kept, 64, 1, first, Fraction, shake(by)).numbers == plain.numbers


def measure_products(
    kept: Sequence[Sequence[float]], of: Callable[[float], Number]
) -> tuple[list[Number], list[Number], list[Number]]:
    """What records say of the product of two columns, which does not move with them: about zero."""
    products = [of(x) * of(y) for x, y in kept]
    centre = sum(products) / len(products)
    scale = of(NORMAL) * sum(abs(product - centre) for product in products) / len(products)
    return [of(0)], [centre], [of(0) if scale <= of(2.0**-36) * max(map(abs, products)) else scale]


@pytest.mark.parametrize("factor", [1.0 - 2.0**-12, 1.0, 1.0 + 2.0**-12])
def test_where_it_is_not_clear_whether_records_are_alike_no_word_counts(factor: float) -> None:
    """Halves that differ by about as much as counts as alike: the deviation of as many of both is at the border."""
    statistic, everyone = statistics.Products(2, ((0, 1),), centred=False), np.ones(64, np.bool_)
    for trial in range(60):
        values = np.ones((64, 2))
        values[::2, 0] = 1.0 + factor * 2.0**-35 / NORMAL
        target = Target.exactly(np.array([1.0 + 2.0**-37]))
        keep = BITS.write(values, everyone, target, statistic, 1 + trial, np.uint64(0))
        kept = np.flatnonzero(keep).tolist()
        found = decode(values.tolist(), kept, 64, 1, 1 + trial, Fraction, measure_products)
        apart = NORMAL * np.abs(values[keep, 0] - values[keep, 0].mean()).mean() * 2.0**36
        assert abs(apart - 1.0) > 2.0**-9 or (apart > 0.0 and not any(found.spans))


@pytest.mark.parametrize("mean", [1.0, -1e6, 1e13, -1e15])
@pytest.mark.parametrize("digits", [1, 3, 500])
def test_records_that_differ_in_their_last_digits_say_numbers_between_them(mean: float, digits: int) -> None:
    """Steps are relative to what records vary by, not to the records, however little that is."""
    rng, unit = RNG(digits), np.spacing(abs(mean))
    for trial in range(40):
        values = mean + unit * rng.integers(0, digits + 1, (64, 1))
        rest = unit * rng.uniform(-0.5, 0.5, 1)
        wanted = Target.exactly(np.array([mean]))._replace(rest=rest)
        keep = BITS.write(values, np.ones(64, np.bool_), wanted, statistics.Mean(1), 1 + trial, np.uint64(0))
        reading = BITS.read_slots(values, keep, statistics.Mean(1), 1 + trial)
        check(values, keep, reading, 1 + trial)
        off = (Fraction(reading.numbers[0]) + Fraction(reading.low[0])) - Fraction(mean) - Fraction(rest[0])
        assert abs(off) <= unit * (digits + 1) * 2.0**-30


def test_records_that_are_alike_say_their_value_or_any_other() -> None:
    for value in (7.3, 0.0, -1e-300, 1e300):
        values = np.full((64, 1), value)
        assert write(values, np.array([value]))[1].numbers.tolist() == [value]
        for other in (0.0, -12.5, 1e-200, 1e299):
            _, reading = write(values, np.array([other]))
            assert reading.numbers[0] == pytest.approx(other, rel=2.0**-34, abs=1e-307)


@given(st.floats(-1e300, 1e300), st.integers(20, 70), st.integers(0, 2**32))
def test_any_number_is_written_near_or_marked_as_off(target: float, slots: int, seed: int) -> None:
    """However far from the records: it goes out as a float with at least a bit or two of its mantissa."""
    values = RNG(seed).normal(size=(slots, 1))
    keep, reading = write(values, np.array([target]), first=1 + seed, far=1e-9)
    assert np.isfinite(reading.numbers).all()
    assert abs(reading.numbers[0] - target) <= max(2.0 ** (20 - min(slots, 55)), 2.0**-30) * max(abs(target), 1.0)
    assert reading.off[0] == (abs(reading.numbers[0] - target) > 1e-9)
    check(values, keep, reading, 1 + seed)


def test_what_is_marked_as_off_stays_so_and_is_as_near_as_it_can_be() -> None:
    rng = RNG(9)
    for trial in range(100):
        values = rng.normal(size=(40, 1))
        keep, reading = write(values, np.array([0.02]), first=1 + trial, off=True)
        assert reading.off.all()
        assert abs(reading.numbers[0] - 0.02) <= 2.0**-25
        check(values, keep, reading, 1 + trial)


def test_one_column_that_is_rare_does_not_drag_the_others_along() -> None:
    rng, errors = RNG(10), []
    for trial in range(300):
        values = np.column_stack([rng.random(80) < 0.001, rng.normal(5.0, 1.0, (80, 3))])
        target = np.array([0.001, 5.01, 4.99, 5.0])
        _, reading = write(values, target, first=1 + trial * 80)
        errors.append(reading.numbers - target)
    # the long header costs a bit or two, and an indicator that is zero in all kept records is written as a float
    assert np.sqrt(np.mean(np.square(errors), axis=0))[1:].max() <= 8.0 * find_precision(80, 4)
    assert np.abs(np.array(errors)[:, 0]).max() <= 0.001 * 2.0**-5


def test_columns_that_are_constant_do_not_widen_the_range() -> None:
    """Where a word does not come out, another number is moved: as often as if all of them varied, within chance."""
    wide = {}
    for constant in (0, 2):
        rng, headers = RNG(12), []
        for trial in range(200):
            values = rng.lognormal(size=(200, 6))
            target = values.mean(axis=0)
            values[:, :constant] = target[:constant] = 7.0
            keep, _ = write(values, target, first=1 + trial * 200)
            headers.append(read_syndrome(np.flatnonzero(keep).tolist(), 200, 200)[0])
        wide[constant] = sum(headers)
    assert wide[2] <= wide[0] + 4.0 * np.sqrt(wide[0])


def test_plain_layout_is_that_of_the_kernels() -> None:
    for size in (1, 2, 3, 4, 7, 16, 100):
        assert word.count_least_rows(size) == find_min_rows(size)
        for rows in (30, 100, 4_000):
            assert word._find_width(size, rows) == find_width(size, rows)
            assert word.count_rows(rows, size) == min(rows, LONG_HEADER + MAX_BITS * size)


@pytest.mark.parametrize("size", [1, 3, 16])
def test_fixed_point_numbers_by_an_independent_reader(size: int) -> None:
    """Within one step of what could be written, two at the limits; the last float operations may differ."""
    rng, channel, statistic = RNG(size), FixedPoint(5.0), statistics.Mean(size)
    for trial in range(100 if size < 16 else 30):
        slots = channel.find_min_batch(size) + int(rng.integers(0, 60 * size))
        can = rng.random(slots) >= rng.choice([0.0, 0.1, 0.5])
        if not channel.can_encode(can, size):
            continue
        target = rng.uniform(-5.5, 5.5, size)
        wanted = Target(target, np.zeros(size), np.full(size, 1e-6), np.zeros(size, np.bool_))
        keep = channel.write(np.zeros((slots, 1)), can, wanted, statistic, 1 + trial, np.uint64(0))
        assert not (keep & ~can).any()
        reading = channel.read_slots(rng.normal(size=(slots, 1)), keep, statistic, 1 + trial)
        numbers, off = decode_fixed(np.flatnonzero(keep).tolist(), slots, size, 1 + trial, 5.0)
        assert np.allclose(reading.numbers, numbers, rtol=0.0, atol=5.0 * 2.0**-50)
        step = channel.find_step(can, size)
        assert reading.off.tolist() == [off] * size == [step > 1e-6] * size
        assert np.all(np.abs(reading.numbers - np.clip(target, -5.0, 5.0)) <= 2.0 * step)


@pytest.mark.parametrize("share", [0.0, 0.3])
def test_fixed_point_errors_have_mean_zero(share: float) -> None:
    rng, channel, errors = RNG(3), FixedPoint(1.0), []
    for trial in range(2_000):
        can = np.ones(40, np.bool_)
        can[rng.choice(40, round(40 * share), replace=False)] = False
        if channel.can_encode(can, 1):
            wanted = Target.exactly(np.array([1.0 / 3.0]))
            keep = channel.write(np.zeros((40, 1)), can, wanted, statistics.Mean(1), 1 + trial, np.uint64(0))
            read = channel.read_slots(np.zeros((40, 1)), keep, statistics.Mean(1), 1 + trial).numbers[0]
            errors.append((read - 1.0 / 3.0) / channel.find_step(can, 1))
    assert len(errors) > 1_000
    assert np.abs(np.mean(errors)) <= 4.0 * np.std(errors) / np.sqrt(len(errors))


@pytest.mark.parametrize("share", [0.0, 0.1, 0.2, 0.4, 0.6])
def test_with_wet_records_errors_are_those_that_the_free_bits_predict(share: float) -> None:
    """Each lost bit doubles the step; bits that cannot be chosen add as much error as rounding does."""
    rng, slots, ratios = RNG(int(10 * share)), 64, []
    for trial in range(400):
        values, number = rng.normal(size=(slots, 1)), rng.normal(0.0, 0.05, 1)
        can = np.ones(slots, np.bool_)
        can[rng.choice(slots, round(share * slots), replace=False)] = False
        if BITS.can_encode(can, 1):
            _, reading = write(values, number, can, 1 + trial * slots)
            lost = max(0, min(slots, 1 + MAX_BITS) - count_free_rows(can, 1))
            predicted = find_precision(slots, 1) * 2.0**lost * (np.sqrt(2.0) if lost else 1.0)
            ratios.append(float(reading.numbers[0] - number[0]) / predicted)
    assert len(ratios) > 300
    assert 0.5 < np.sqrt(np.mean(np.square(ratios))) < 2.5


def test_a_long_header_is_the_last_resort() -> None:
    """It costs four bits more than the one before, hence 16 times the error; many tries cost far less."""
    attempt, levels = word.make_attempt(22, 1), []
    attempt.counters[word.LEVEL], attempt.numbers[0], attempt.unit[0] = 1, 1e3, 1e-3
    for _ in range(12):
        word.judge(attempt, True, True, np.array([np.inf]), np.ones(22, np.bool_), np.uint64(1))
        levels.append(attempt.counters[word.LEVEL])
    assert levels[:-1] == [1] * 11
    assert levels[-1] > 1


@pytest.mark.parametrize(("steps", "may_stay"), [(1.5, True), (5.0, False), (-5.0, False)])
def test_a_number_stays_only_if_it_is_within_two_steps_of_its_target(steps: float, may_stay: bool) -> None:
    """Where few bits are free, the next number with the same residue is only some steps away."""
    attempt = word.make_attempt(22, 1)
    attempt.unit[0], attempt.numbers[0] = 1.0, steps
    assert word.judge(attempt, True, True, np.array([np.inf]), np.ones(22, np.bool_), np.uint64(1)) == may_stay


def test_a_word_that_would_keep_nobody_has_a_longer_header_at_once() -> None:
    """Where the number is the common value of the records all bits are zero, and no offset changes that."""
    attempt = word.make_attempt(22, 1)
    attempt.guess[0] = attempt.exponents[0] = ALIKE
    for _ in range(3):
        assert not word.judge(attempt, True, True, np.array([np.inf]), np.zeros(22, np.bool_), np.uint64(1))
    assert attempt.counters[word.LEVEL] == 1


def test_a_word_that_is_marked_takes_no_narrower_range() -> None:
    powers, escape = word._POWERS, word._POWERS.min()
    for level in range(len(powers)):
        wider = word._find_next_level(level, True)
        assert wider in (word._OFF_LEVEL, *range(word._FIRST_LONG_OFF, word._LAST_OFF_LEVEL + 1))
        assert powers[wider] == escape or level <= 1 or powers[wider] >= powers[level] != escape


def test_a_record_far_from_all_others_that_no_last_bit_moves_is_kept_or_not() -> None:
    """Slot 33 of 74 does not depend on the last eight bits of four numbers; whether it is kept decides the scale."""
    rng, off = RNG(0), 0
    for trial in range(300):
        values = rng.normal(17.0, 1.0, (74, 4))
        values[33, 0] += 40.0
        target = values.mean(axis=0) + 1e-2 * rng.normal(size=4)
        _, reading = write(values, target, np.ones(74, np.bool_), 1 + 74 * trial, 1e-2, False)
        off += int(reading.off.any())
    assert off == 0


@pytest.mark.parametrize("offset", [0, 1, 2])
def test_floats_have_errors_of_mean_zero_whichever_choice_comes_out(offset: int) -> None:
    """The second nearest float lies as often above the number as below it."""
    rng, number, bits = RNG(offset), 1.3, 20
    unit = 2.0 ** (11 - bits)
    dithers = rng.random(4_000)
    found = [decode_pattern(encode_pattern(number, dither, bits, 0, offset), dither, bits) for dither in dithers]
    errors = (np.array(found) - number) / unit
    assert abs(errors.mean()) <= 4.0 * errors.std() / np.sqrt(len(errors))
