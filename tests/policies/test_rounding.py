"""No answer is silently off by more than a standard error because words keep so many bits of each number."""

from __future__ import annotations

from datetime import timedelta

import numpy as np
import pytest

from vestige import (
    Bundle,
    Covariance,
    CustomLoss,
    LinearRegression,
    LogisticRegression,
    Mean,
    Moments,
    Private,
    Stream,
    Sum,
)
from vestige.channels.layout import find_precision
from vestige.clock import Clock
from vestige.policies.rounding import note_rounding
from vestige.policies.sum import SumEstimate
from vestige.policy import Policy
from vestige.random.keys import AuditSeed
from vestige.statistics.kernels import find_far_limit

START = np.datetime64("2024-01-01T00:00:00", "us")


def noted(notes: tuple[str, ...]) -> bool:
    return any(note.startswith("Rounding may have put") for note in notes)


def far(mean: float, seed: int = 0, columns: int = 1, n: int = 100_000) -> np.ndarray:
    return mean + np.random.default_rng(seed).normal(size=(n, columns))


@pytest.mark.parametrize("mean", [0.0, 1000.0])
def test_what_is_off_through_rounding_says_so_and_by_how_much(mean: float) -> None:
    """Two means in 38 records, the fewest: after four million records, rounding is about a standard error.

    Then it is marked, in a header that takes a bit more of each number, and 6.5 bits more in the one word of 300 whose
    range is too small, which adds most: the error is about 2^6.5 / sqrt(300), or five to six times as large.
    """
    off, n = [], 4_000_000
    for seed in range(4):
        rows = far(mean, seed, 2, n)
        stream = Stream(Mean(2, channel="bits"), retention=76, seed=seed)
        stream.extend(rows)
        made = stream.estimate()
        off.extend((np.asarray(made.value) - rows.mean(axis=0)) * np.sqrt(n))
        assert noted(made.notes)
        assert made.missed
    said = stream.policy._find_rounding(stream.clock) * np.sqrt(n)  # type: ignore[attr-defined]
    # eight squares, whose mean has a standard error of a half of itself
    assert 0.4 < np.sqrt(np.mean(np.square(off))) / said < 2.0 * 2.0**6.5 / np.sqrt(300.0)


@pytest.mark.parametrize("mean", [0.0, -3.0, 1000.0, 1e6])
@pytest.mark.parametrize("policy", [Mean(spread=True), Moments(2), Moments(4), Covariance(2)])
def test_at_the_usual_retention_there_is_nothing_to_say(policy: Policy, mean: float) -> None:
    stream = Stream(policy, retention=policy.default_retention, seed=0)  # type: ignore[attr-defined]
    rows = far(mean, columns=policy.columns, n=20_000)
    stream.extend(rows)
    made = stream.estimate()
    assert made.notes == ()
    means = np.atleast_1d(getattr(made, "mean", made.value))[: policy.columns]
    assert np.abs(means - rows.mean(axis=0)).max() <= 1e-3 / np.sqrt(len(rows))


@pytest.mark.parametrize(("rounding", "said"), [(0.049, False), (0.051, True), (0.0999, True)])
def test_rounding_is_said_from_half_a_standard_error_on(rounding: float, said: bool) -> None:
    assert noted(note_rounding(rounding, 100.0)) == said


def test_rounding_is_that_of_one_word_and_of_a_third_of_all_before_it() -> None:
    clock = Clock(19_200, first=19_137, last=19_200, updates=300)
    assert Moments(2)._find_rounding(clock) == pytest.approx(find_precision(64, 2) * np.sqrt(1.0 + 100.0))


@pytest.mark.parametrize("policy", [Mean(spread=True), Moments(2), Covariance(1)])
def test_ten_billion_deviations_from_zero_cost_no_digits(policy: Policy) -> None:
    rows = np.random.default_rng(0).normal(size=20_000)
    stream = Stream(policy, retention=244, seed=0)
    stream.extend(1e10 + rows)
    made = stream.estimate()
    mean = float(np.ravel(getattr(made, "mean", made.value))[0])
    assert abs(mean - 1e10 - rows.mean()) * np.sqrt(len(rows)) <= 0.05
    assert made.notes == ()
    stream = Stream(policy, retention=244, seed=0)
    stream.extend(np.full(20_000, 1e10 / 3.0))
    made = stream.estimate()
    assert not made.missed, "a constant is exact"
    assert np.ravel(getattr(made, "mean", made.value))[0] == 1e10 / 3.0


def test_records_that_vary_by_less_than_can_be_told_are_said_to_be_off_or_are_not() -> None:
    """Beyond 2^36 deviations from zero, records count as alike and numbers are floats of a few digits."""
    rows = np.random.default_rng(0).normal(size=20_000)
    for channel in ("bits", "auto"):
        stream = Stream(Mean(channel=channel), retention=64, seed=0)
        stream.extend(1e11 + rows)
        made = stream.estimate()
        off = abs(float(made.value) - 1e11 - rows.mean()) * np.sqrt(len(rows))
        assert made.missed or off <= 1.0


@pytest.mark.parametrize("mean", [0.0, 1e6])
def test_a_batch_that_is_closed_early_costs_little(mean: float) -> None:
    rows = mean + np.random.default_rng(0).normal(size=20_000)
    times = START + np.arange(20_000) * np.timedelta64(1, "s")
    times[2_600:] += np.timedelta64(31, "h")
    stream = Stream(Moments(2), retention=256, max_age=timedelta(hours=32), seed=0)
    stream.extend(rows[:2_600], times=times[:2_600])
    stream.sweep(times[2_599] + np.timedelta64(30, "h"))
    assert (stream.clock.first, stream.clock.last) == (2_561, 2_600), "closed with 40 records"
    stream.extend(rows[2_600:], times=times[2_600:])
    made = stream.estimate()
    assert made.since == 1
    assert abs(made.mean - rows.mean()) <= 0.05 * made.standard_error
    assert made.notes == ()


def test_a_batch_of_which_many_leave_costs_little_too() -> None:
    stream = Stream(Mean(spread=True), retention=256, seed=0)
    rows = far(1e6)[:2_000]
    stream.extend(rows[:1_000])
    stream.forget(rounds=np.arange(921, 1_001))
    stream.extend(rows[1_000:])
    made = stream.estimate()
    assert stream.clock.since == 1
    assert made.standard_error is not None
    assert abs(float(made.value) - rows.mean()) <= 0.05 * float(made.standard_error)
    assert made.notes == ()


def missed(channel: str, retention: int, rows: np.ndarray, seed: int) -> tuple[bool, float]:
    """Whether a mean says that it missed its target, and how far it is off, in standard errors."""
    stream = Stream(Mean(channel=channel), retention=retention, seed=seed)
    stream.extend(rows)
    made = stream.estimate()
    off = abs(float(made.value) - rows.mean()) / max(rows.std() / np.sqrt(len(rows)), 1e-12 * abs(rows.mean()))
    return made.missed, off


@pytest.mark.parametrize("kind", ["exponential", "lognormal", "normal"])
def test_at_the_fewest_records_a_miss_is_said_where_there_is_one_not_before(kind: str) -> None:
    for seed in range(6):
        rows = getattr(np.random.default_rng(seed), kind)(size=100_000)
        for n in (2_000, 100_000):
            said, off = missed("bits", 44, rows[:n], seed)
            assert off <= 0.5
            assert not said


@pytest.mark.parametrize("channel", ["auto", "bits", "average"])
@pytest.mark.parametrize(("value", "unit"), [(7.3, 0.0), (1.0, 1e-200), (1.0, 1e200), (1_000.0, 1.0)])
def test_with_enough_digits_no_miss_is_said(channel: str, value: float, unit: float) -> None:
    rows = value + np.random.default_rng(0).normal(size=9_600) if unit else np.full(9_600, value)
    stream = Stream(Mean(channel=channel), retention=128, seed=0)
    stream.extend(rows * (unit or 1.0))
    assert stream.estimate().notes == ()
    error = rows.std() / np.sqrt(len(rows)) + 1e-12 * value
    assert abs(float(stream.estimate().value) / (unit or 1.0) - rows.mean()) < 0.1 * error


def test_a_miss_is_told_by_the_square_of_its_share_in_half_a_standard_error() -> None:
    coins, batches, size = np.random.default_rng(0).random(100_000), 100, 64
    half = 0.5 * 2.0 / np.sqrt(size * batches)
    borders = np.array([find_far_limit(2.0, size, 1.0 / batches, 3.0, coin) for coin in coins])
    assert borders.max() <= half, "one as large is told for certain"
    assert borders.min() == pytest.approx(half / np.sqrt(batches)), "one that could come with every batch never is"
    for part in (0.25, 0.5, 0.75):
        told = np.mean(borders < part * half)
        assert told == pytest.approx(part**2, abs=5.0 * np.sqrt(part**2 * (1.0 - part**2) / len(coins)))


def test_rounding_is_the_same_however_records_come_and_never_depends_on_values() -> None:
    whole, single = (Stream(Moments(2), retention=128, seed=0) for _ in range(2))
    whole.extend(far(3.0)[:1_000])
    for row in far(-8.0)[:1_000]:
        single.push(row)
    assert whole.clock == single.clock
    again = Stream(Moments(2), retention=128, seed=0, retained=whole.retained, clock=whole.clock)
    assert again.estimate().notes == whole.estimate().notes


def test_a_new_start_begins_without_rounding() -> None:
    policy = Mean(spread=True)
    stream = Stream(policy, retention=112, seed=0)
    stream.extend(far(3.0)[:560])
    assert policy._find_rounding(stream.clock) > find_precision(56, 2)
    stream.forget(rounds=np.arange(1, 561), now=True)
    assert policy._find_rounding(stream.clock) < 1e-15


def test_noise_is_named_and_fixed_points_are_fine_beside_it() -> None:
    policy = Private(bound=3.0, epsilon=1.0, delta=1e-6)
    rows = 2.0 + 0.1 * np.random.default_rng(0).normal(size=20_000)
    for retention in (56, 256):
        stream = Stream(policy, retention=retention, seed=AuditSeed(0))
        stream.extend(rows)
        noise, moment = stream.estimate().notes
        assert noise.startswith("Each average carries noise")
        assert moment.startswith("As of round")


@pytest.mark.parametrize("mean", [0.0, 30.0, 1000.0, -1e6, 1e11])
def test_a_classifier_with_predictors_far_from_zero_is_as_good_as_near_it(mean: float) -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=20_000)
    y = rng.random(20_000) < 1.0 / (1.0 + np.exp(-2.0 * x))
    stream = Stream(LogisticRegression(1), retention=256, seed=0)
    stream.extend(np.column_stack([x + mean, y]))
    made = stream.estimate()
    assert made.notes == ()
    assert abs(float(made.value[0]) - 2.0) <= 4.0 * float(made.standard_errors[0]) <= 0.15


def test_a_classifier_says_that_it_cannot_tell_two_equal_columns_apart() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=20_000)
    y = rng.random(20_000) < 1.0 / (1.0 + np.exp(-2.0 * x))
    stream = Stream(LogisticRegression(2), retention=576, seed=0)
    stream.extend(np.column_stack([x, x, y]))
    assert any("follows from the others" in note for note in stream.estimate().notes)


@pytest.mark.parametrize("mean", [0.0, 1000.0])
def test_a_regression_far_from_zero_is_as_good_as_near_it(mean: float) -> None:
    rng, n = np.random.default_rng(1), 50_000
    x = mean + rng.normal(size=n)
    y = 2.0 * x + rng.normal(size=n)
    stream = Stream(LinearRegression(1), retention=280, seed=1)
    stream.extend(np.column_stack([x, y]))
    made = stream.estimate()
    apart = x - x.mean()
    slope = float(apart @ y / (apart @ apart))
    assert abs(float(made.value[0]) - slope) * np.sqrt(n) <= 0.05
    assert made.notes == ()


def stepped(n: int, size: float, seed: int) -> np.ndarray:
    """Records that jump from one mean to its opposite halfway, so that the mean of all is near zero at the end."""
    return np.where(np.arange(n) < n // 2, size, -size) + 0.1 * np.random.default_rng(seed).normal(size=n)


def test_a_regression_keeps_noise_and_means_that_drift() -> None:
    n = 60_000
    x, y = np.random.default_rng(1).normal(size=n), stepped(n, 1.0, 2)
    stream = Stream(LinearRegression(1), retention=280, seed=2)
    stream.extend(np.column_stack([x, y]))
    made, noise = stream.estimate(), y.var() - np.cov(x, y)[0, 1] ** 2 / x.var()
    assert noted(made.notes) or made.missed or abs(made.noise / noise - 1.0) <= 0.1 * np.sqrt(2.0 / n)


def squares(parameters: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return (rows[:, 0] - parameters[0]) ** 2 / 2.0, parameters - rows


@pytest.mark.parametrize(
    ("retention", "rows", "said"),
    [
        (124, far(1e9, n=20_000), True),
        (124, stepped(20_000, 10.0, 0)[:, None], False),
        (128, far(0.0, n=20_000), False),
        pytest.param(192, far(1e6, n=20_000), False, marks=pytest.mark.slow),
    ],
)
def test_a_loss_of_ones_own_names_rounding(retention: int, rows: np.ndarray, said: bool) -> None:
    """Records say nothing of the parameters of any loss, so that those far from where they start take more bits."""
    stream = Stream(CustomLoss(squares, (0.0,)), retention=retention, seed=0)
    stream.extend(rows)
    made = stream.estimate()
    off = abs(float(np.ravel(made.value)[0]) - rows.mean()) / rows.std() * np.sqrt(len(rows))
    assert any(note.startswith("Rounding") for note in made.notes) == said
    assert said or off <= 1.0


@pytest.mark.parametrize(("mean", "retention"), [(0.0, 160), (60.0, 160), (0.0, 256)])
def test_a_classifier_is_fine_at_its_smallest_retention(mean: float, retention: int) -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=50_000)
    y = rng.random(50_000) < 1.0 / (1.0 + np.exp(-2.0 * x))
    stream = Stream(LogisticRegression(1), retention=retention, seed=0)
    stream.extend(np.column_stack([x + mean, y]))
    made = stream.estimate()
    assert made.missed or abs(float(made.value[0]) - 2.0) <= 4.0 * float(made.standard_errors[0])


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
def test_errors_of_parameters_are_those_of_repeated_fits(scale: float) -> None:
    """A slope through the origin: its error is that of the noise over that of the predictor."""

    def line(parameters: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        gap = rows[:, 0] * parameters[0] - rows[:, 1]
        return gap**2, 2.0 * (gap * rows[:, 0])[:, None]

    rng = np.random.default_rng(0)
    x = scale * rng.normal(size=20_000)
    stream = Stream(CustomLoss(line, (0.0,), columns=2), retention=192, seed=0)
    stream.extend(np.column_stack([x, 3.0 * x + 0.2 * rng.normal(size=len(x))]))
    made = stream.estimate()
    assert made.standard_error[0] == pytest.approx(0.2 / scale / np.sqrt(len(x)), rel=0.1)
    assert made.notes == ()


def find_unmarked(stream: Stream, rows: np.ndarray) -> float:
    """How far a mean is off, in standard errors of all data; 0 if it says that it may be."""
    stream.extend(rows)
    made = stream.estimate()
    return 0.0 if made.missed else float(abs(made.value - rows.mean()) / rows.std() * np.sqrt(len(rows)))


@pytest.mark.parametrize("share", [1e-3, 1e-4])
def test_averages_that_drop_each_rare_event_are_marked(share: float) -> None:
    """A batch with an event is far wilder than all data, and must not excuse that the event is dropped."""
    for seed in range(3):
        rows = (np.random.default_rng(seed).random(100_000) < share).astype(np.float64)
        assert find_unmarked(Stream(Mean(channel="average"), retention=96, seed=seed), rows) <= 1.0


@pytest.mark.parametrize(("channel", "batch", "shift"), [("bits", 22, 1e4), ("auto", 26, 1e3), ("bits", 48, 1e9)])
def test_one_batch_unlike_the_others_is_marked_where_it_spoils_the_answer(
    channel: str, batch: int, shift: float
) -> None:
    for seed in range(3):
        rows = np.random.default_rng(seed).normal(size=100_000 // batch * batch)
        rows[-batch:] += shift
        assert find_unmarked(Stream(Mean(channel=channel), retention=2 * batch, seed=seed), rows) <= 1.0


@pytest.mark.parametrize("jump", [1e4, 1e6])
def test_a_regression_after_a_change_of_level_is_right_or_marked(jump: float) -> None:
    """The batch alone knows the slope thousands of times worse than all data do."""
    for seed in range(2):
        rng = np.random.default_rng(seed)
        x = rng.normal(size=20_000) + np.where(np.arange(20_000) < 10_000, jump, 0.0)
        y = 2.0 * x + rng.normal(size=len(x))
        stream = Stream(LinearRegression(1), retention=260, seed=seed)
        stream.extend(np.column_stack((x, y)))
        made = stream.estimate()
        away = x - x.mean()
        error = 1.0 / np.sqrt(away @ away)
        assert made.missed or abs(float(made.value[0]) - away @ y / (away @ away)) <= error


def test_rounding_of_short_batches_is_not_forgotten_after_long_ones() -> None:
    """Of a stream with few records in its time limit, and then many: the last batch is full, those before were not."""
    x, n = np.random.default_rng(0).normal(size=30_000), 30_000
    days = np.concatenate([np.arange(n - 1_000) / 3.0, (n - 1_000) / 3.0 + np.arange(1_000) / 1e5])
    times = np.datetime64("1900-01-01", "us") + (days * 86_400e6).astype("timedelta64[us]")
    stream = Stream(Sum(), max_age=timedelta(days=30), seed=0)
    stream.extend(x[:-1_000], times=times[:-1_000])
    before = stream.estimate().encoding_error
    stream.extend(x[-1_000:], times=times[-1_000:])
    clock, estimate = stream.clock, stream.estimate()
    assert clock.last - clock.first + 1 == stream.batch > clock.bits > 0
    assert abs(estimate.value - x.sum()) <= estimate.encoding_error
    assert estimate.encoding_error >= 0.9 * before > 1.0


def test_the_clock_counts_the_bits_that_requests_leave() -> None:
    stream = Stream(Mean(channel="bits"), retention=128, seed=0)
    stream.extend(np.zeros(64))
    assert stream.clock.bits == 49 + 6  # what one number can use
    rng = np.random.default_rng(0)
    stream.extend(rng.normal(size=60), subjects=["a", "b"] * 30)
    stream.forget(subject="a")
    stream.extend(rng.normal(size=4))
    assert 22 <= stream.clock.bits <= 64 - 30
    stream.extend(rng.normal(size=640))
    assert stream.clock.bits <= 64 - 30


def test_totals_of_a_rare_column_far_from_zero_state_how_it_is_written() -> None:
    rng = np.random.default_rng(1)
    x = np.where(rng.random(20_000) < 0.01, 1e7 + rng.normal(size=20_000), np.nan)[:, None]
    bundle = Bundle({"x": Sum()})
    stream = Stream(bundle, retention=bundle.default_retention, seed=0)
    stream.extend(x)
    total = stream.estimate()["x:sum"]
    assert isinstance(total, SumEstimate)
    assert 1e-6 < abs(total.value - np.nansum(x)) <= total.encoding_error < 1.0


def test_totals_of_sorted_columns_that_some_records_lack_are_within_their_stated_errors() -> None:
    for seed in range(6):
        rng = np.random.default_rng(seed)
        x = np.sort(rng.normal(size=50_000))
        bundle = Bundle({"a": Sum(), "b": Sum()})
        stream = Stream(bundle, retention=bundle.default_retention, seed=seed)
        rows = np.column_stack([x, np.where(rng.random(len(x)) < 0.3, x, np.nan)])
        stream.extend(rows)
        for column, name in enumerate(("a:sum", "b:sum")):
            total = stream.estimate()[name]
            assert isinstance(total, SumEstimate)
            assert total.missed or abs(total.value - np.nansum(rows[:, column])) <= total.encoding_error
