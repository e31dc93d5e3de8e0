"""No answer is silently off by more than a standard error because presence bits keep leading digits only."""

from __future__ import annotations

from datetime import timedelta

import numpy as np
import pytest

from vestige import Covariance, CustomLoss, LinearRegression, LogisticRegression, Mean, Moments, Private, Stream
from vestige.channels import PresenceWords
from vestige.channels.kernels import can_write_words, write_words
from vestige.channels.precision import add_rounding
from vestige.clock import Clock
from vestige.policies.rounding import note_rounding
from vestige.policy import Policy
from vestige.random.keys import AuditSeed
from vestige.statistics.kernels import find_far_limit

START = np.datetime64("2024-01-01T00:00:00", "us")


def noted(notes: tuple[str, ...]) -> bool:
    return any(note.startswith("Rounding may have put") for note in notes)


def far(mean: float, seed: int = 0, columns: int = 1) -> np.ndarray:
    return mean + np.random.default_rng(seed).normal(size=(100_000, columns))


@pytest.mark.parametrize(
    ("policy", "retention", "seed", "rows"),
    [
        (Mean(spread=True), 112, 0, far(17.0)),
        (Mean(spread=True), 112, 0, far(1000.0)),
        (Mean(spread=True), 128, 0, far(1000.0)),
        (Mean(spread=True), 112, 0, np.full((100_000, 1), 7.3)),
        (Moments(2), 128, 2, far(1000.0, 2)),
        (Covariance(4), 896, 2, far(1000.0, 2, 4)),
    ],
)
def test_what_is_off_through_rounding_says_so(policy: Policy, retention: int, seed: int, rows: np.ndarray) -> None:
    stream = Stream(policy, retention=retention, seed=seed)
    stream.extend(rows)
    made = stream.estimate()
    means = np.atleast_1d(getattr(made, "mean", made.value))[: rows.shape[1]]
    off = np.abs(means - rows.mean(axis=0))
    assert (off > np.atleast_1d(getattr(made, "standard_error", np.inf))).any(), "else there is nothing to say"
    assert noted(made.notes)
    assert made.missed
    assert (off < 4.0 * stream.clock.rounding * np.abs(means)).all()


@pytest.mark.parametrize("mean", [0.0, 1.0, -3.0, 100.0, 1000.0])
@pytest.mark.parametrize("policy", [Mean(spread=True), Moments(2), Moments(4), Covariance(2)])
def test_at_the_usual_retention_there_is_nothing_to_say(policy: Policy, mean: float) -> None:
    stream = Stream(policy, retention=policy.default_retention, seed=0)  # type: ignore[attr-defined]
    stream.extend(far(mean, columns=policy.columns)[:20_000])
    assert stream.estimate().notes == ()


@pytest.mark.parametrize(("rounding", "said"), [(0.049, False), (0.051, True), (0.0999, True)])
def test_rounding_is_said_from_half_a_standard_error_on(rounding: float, said: bool) -> None:
    assert noted(note_rounding(np.array([0.0, -10.0]), np.array([1.0, 1.0]), rounding, 100.0)) == said
    assert noted(note_rounding(np.array([-10.0, 1e-9]), np.array([1.0, 0.0]), rounding, 100.0)), "of any of the numbers"


@pytest.mark.parametrize(("rounding", "said"), [(0.9e-12, False), (1.1e-12, True)])
def test_a_number_without_a_standard_error_is_exact_to_twelve_digits_or_not(rounding: float, said: bool) -> None:
    notes = note_rounding(np.array([7.3]), np.zeros(1), rounding, 100.0)
    assert noted(notes) == said
    assert not said or "far more than their standard errors" in notes[0]


def square(parameters: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    apart = parameters - rows
    return apart[:, 0] ** 2 / 2.0, apart


@pytest.mark.parametrize("policy", [Mean(spread=True), Moments(2), Covariance(1)])
def test_twelve_digits_are_not_enough_ten_billion_deviations_from_zero(policy: Policy) -> None:
    """They count as exact only where records vary by no more than that."""
    rows, off = np.random.default_rng(0).normal(size=100_000), []
    for seed in range(8):
        stream = Stream(policy, retention=244, seed=seed)
        stream.extend(1e10 + rows)
        made = stream.estimate()
        mean = float(np.ravel(getattr(made, "mean", made.value))[0])
        off.append(abs(mean - 1e10 - rows.mean()) * np.sqrt(len(rows)))
        assert stream.clock.rounding < 1e-12
        assert noted(made.notes)
        assert made.missed
    assert max(off) > 1.0, "else there is nothing to say"
    stream = Stream(policy, retention=244, seed=0)
    stream.extend(np.full(20_000, 1e10 / 3.0))
    assert not stream.estimate().missed, "a constant is exact"


@pytest.mark.parametrize(("spread", "said"), [(1.0, True), (0.0, False)])
def test_neither_are_they_for_a_loss_of_ones_own(spread: float, said: bool) -> None:
    stream = Stream(CustomLoss(square, (1e11,)), retention=122, seed=0)
    stream.extend(1e11 + spread * np.random.default_rng(0).normal(size=6_000))
    assert stream.clock.rounding < 1e-12
    assert stream.estimate().missed == noted(stream.estimate().notes) == said


def test_a_coarse_word_is_remembered_as_long_as_it_counts() -> None:
    """One batch is closed early with few digits; the batches after it carry its error on."""
    rows = 1e6 + np.random.default_rng(0).normal(size=20_000)
    times = START + np.arange(20_000) * np.timedelta64(1, "s")
    times[2_624:] += np.timedelta64(31, "h")
    stream = Stream(Moments(2), retention=256, max_age=timedelta(hours=32), seed=0)
    stream.extend(rows[:2_624], times=times[:2_624])
    stream.sweep(times[2_623] + np.timedelta64(30, "h"))
    coarse = stream.clock.rounding
    stream.extend(rows[2_624:], times=times[2_624:])
    made = stream.estimate()
    assert made.since == 1
    assert abs(made.mean - rows.mean()) > 10.0 * made.standard_error
    assert noted(made.notes)
    assert stream.clock.rounding > 2_000 / 20_000 * coarse


def test_a_batch_of_which_many_leave_is_coarse_too() -> None:
    stream = Stream(Mean(spread=True), retention=256, seed=0)
    rows = far(1e6)
    stream.extend(rows[:1_000])
    fine = stream.clock.rounding
    stream.forget(rounds=np.arange(961, 1_001))
    stream.extend(rows[1_000:1_100])
    assert stream.clock.since == 1, "a stretch of each word can be missed, as long as the others say sign and exponent"
    assert stream.clock.rounding > 100.0 * fine
    assert noted(stream.estimate().notes)


def missed(channel: str, retention: int, rows: np.ndarray, seed: int) -> tuple[bool, float]:
    """Whether a mean says that it missed its target, and how far it is off, in standard errors."""
    stream = Stream(Mean(channel=channel), retention=retention, seed=seed)
    stream.extend(rows)
    made = stream.estimate()
    assert made.missed == any("missed its target" in note for note in made.notes)
    off = abs(float(made.value) - rows.mean()) / max(rows.std() / np.sqrt(len(rows)), 1e-12 * abs(rows.mean()))
    return made.missed, off


@pytest.mark.parametrize("kind", ["exponential", "lognormal"])
def test_a_miss_is_said_where_misses_come_to_half_a_standard_error_not_before(kind: str) -> None:
    """Rounding to 11 bits in each batch: it comes to a fifth of a standard error at first, and to several later."""
    draws = [getattr(np.random.default_rng(seed), kind)(size=200_000) for seed in range(12)]
    early = [missed("bits", 56, rows[:24_000], seed) for seed, rows in enumerate(draws)]
    assert sum(said for said, _ in early) < 6
    assert all(off < 1.0 for _, off in early), "there is nothing to say"
    late = [missed("bits", 56, rows, seed) for seed, rows in enumerate(draws)]
    assert max(off for _, off in late) > 2.0
    assert all(said for said, _ in late)


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


@pytest.mark.parametrize("share", [0.02, 0.1, 0.3])
def test_words_are_as_fine_as_the_bits_that_are_said(share: float) -> None:
    """The root mean square of what words are off is within half a step of the bits that they are said to keep."""
    rng, tried = np.random.default_rng(int(100 * share)), 0
    while tried < 20:
        can = rng.random(64) >= share
        if can.all() or not can_write_words(can, 1):
            continue
        tried += 1
        bits, off = PresenceWords().count_mantissa_bits(can, 1), []
        for target in np.exp(rng.normal(size=200)):
            spelled, keep = np.empty(1), np.empty(64, np.bool_)
            write_words(can, np.array([target]), np.uint64(rng.integers(2**63)), keep, spelled)
            off.append(spelled[0] / target - 1.0)
        assert np.sqrt(np.mean(np.square(off))) <= add_rounding(0.0, 0.0, bits) * 1.2


def test_rounding_is_the_same_however_records_come_and_never_depends_on_values() -> None:
    whole, single = (Stream(Moments(2), retention=128, seed=0) for _ in range(2))
    rows = far(3.0)[:1_000]
    whole.extend(rows)
    for row in far(-8.0)[:1_000]:
        single.push(row)
    assert whole.clock == single.clock
    again = Stream(Moments(2), retention=128, seed=0, retained=whole.retained, clock=whole.clock)
    assert again.estimate().notes == whole.estimate().notes


def test_a_new_start_begins_without_rounding() -> None:
    stream = Stream(Mean(spread=True), retention=112, seed=0)
    stream.extend(far(3.0)[:560])
    assert stream.clock.rounding > 0.0
    stream.forget(rounds=np.arange(1, 561), now=True)
    assert stream.clock == Clock(560, 561, 560, 561)


def test_noise_and_rounding_are_both_named() -> None:
    """The noise falls with the number of records, rounding to a few digits does not."""
    policy = Private(bound=3.0, epsilon=1.0, delta=1e-6)
    rows = 2.0 + 0.1 * np.random.default_rng(0).normal(size=200_000)
    said = []
    for retention in (56, 256):
        stream = Stream(policy, retention=retention, seed=AuditSeed(0))
        stream.extend(rows)
        said.append([note for note in stream.estimate().notes if note.startswith("Rounding may")])
    assert (len(said[0]), said[1]) == (1, [])


@pytest.mark.parametrize(("mean", "flat"), [(0.0, False), (30.0, False), (200.0, True), (1000.0, True)])
def test_a_classifier_with_predictors_far_from_zero_is_not_trusted(mean: float, flat: bool) -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=20_000)
    y = rng.random(20_000) < 1.0 / (1.0 + np.exp(-2.0 * x))
    stream = Stream(LogisticRegression(1), retention=256, seed=0)
    stream.extend(np.column_stack([x + mean, y]))
    made = stream.estimate()
    assert any(note.startswith("The fit cannot be trusted") for note in made.notes) == flat
    assert flat or abs(float(np.ravel(made.value)[0]) - 2.0) < 0.15


@pytest.mark.parametrize(("mean", "retention", "said"), [(1000.0, 280, True), (1000.0, 320, True), (0.0, 320, False)])
def test_a_regression_names_rounding_not_collinearity(mean: float, retention: int, said: bool) -> None:
    rng = np.random.default_rng(1)
    x = mean + rng.normal(size=100_000)
    stream = Stream(LinearRegression(1), retention=retention, seed=1)
    stream.extend(np.column_stack([x, 2.0 * x + rng.normal(size=100_000)]))
    notes = stream.estimate().notes
    assert noted(notes) == said
    assert not any("collinear" in note for note in notes)


def stepped(n: int, size: float, seed: int) -> np.ndarray:
    """Records that jump from one mean to its opposite halfway, so that the mean of all is near zero at the end."""
    return np.where(np.arange(n) < n // 2, size, -size) + 0.1 * np.random.default_rng(seed).normal(size=n)


def test_a_regression_names_the_rounding_of_its_noise_and_of_means_that_drifted() -> None:
    n = 300_000
    x, y = np.random.default_rng(1).normal(size=n), stepped(n, 1.0, 2)
    stream = Stream(LinearRegression(1), retention=280, seed=2)
    stream.extend(np.column_stack([x, y]))
    made, noise = stream.estimate(), y.var() - np.cov(x, y)[0, 1] ** 2 / x.var()
    assert abs(made.noise / noise - 1.0) > 1.5 * np.sqrt(2.0 / n), "else there is nothing to say"
    assert noted(made.notes)


def test_a_regression_names_the_rounding_of_its_intercept() -> None:
    """Where predictors say nearly all of an output, its mean counts to within the noise, not to within its spread."""
    n = 45_000
    rng = np.random.default_rng(0)
    x = rng.normal(size=n)
    y = 3.0 + x + 0.1 * rng.normal(size=n)
    said = []
    for retention in (320, 640):
        stream = Stream(LinearRegression(1), retention=retention, seed=0)
        stream.extend(np.column_stack([x, y]))
        said.append(noted(stream.estimate().notes))
    assert said == [True, False]


def squares(parameters: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return (rows[:, 0] - parameters[0]) ** 2 / 2.0, parameters - rows


@pytest.mark.parametrize(
    ("retention", "rows", "said"),
    [
        (56, far(17.0), True),
        (64, far(1000.0), True),
        (56, stepped(200_000, 10.0, 0)[:, None], True),
        (64, far(0.0), False),
        (128, far(1000.0), False),
    ],
)
def test_a_loss_of_ones_own_names_rounding(retention: int, rows: np.ndarray, said: bool) -> None:
    stream = Stream(CustomLoss(squares, (0.0,)), retention=retention, seed=0)
    stream.extend(rows)
    made = stream.estimate()
    off = abs(float(np.ravel(made.value)[0]) - rows.mean()) / rows.std() * np.sqrt(len(rows))
    assert (off > 1.0) == said
    assert noted(made.notes) == said
    assert (made.missed) == said


@pytest.mark.parametrize(("mean", "retention", "said"), [(0.0, 112, True), (60.0, 112, True), (0.0, 256, False)])
def test_a_classifier_names_rounding(mean: float, retention: int, said: bool) -> None:
    """Far from zero, intercept and slope are rounded apart though only their sum is known well."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=50_000)
    y = rng.random(50_000) < 1.0 / (1.0 + np.exp(-2.0 * x))
    stream = Stream(LogisticRegression(1), retention=retention, seed=0)
    stream.extend(np.column_stack([x + mean, y]))
    made = stream.estimate()
    assert noted(made.notes) == said
    assert made.missed == said


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
def test_deviations_of_parameters_are_those_of_repeated_fits(scale: float) -> None:
    """A slope through the origin: its deviation is that of the noise over that of the predictor."""

    def line(parameters: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        gap = rows[:, 0] * parameters[0] - rows[:, 1]
        return gap**2, 2.0 * (gap * rows[:, 0])[:, None]

    rng = np.random.default_rng(0)
    x = scale * rng.normal(size=100_000)
    rows = np.column_stack([x, 3.0 * x + 0.2 * rng.normal(size=len(x))])
    statistic = CustomLoss(line, (0.0,), columns=2).statistic
    assert statistic.count_deviations(np.array([3.0]), rows) == pytest.approx(3.0 * scale / 0.2, rel=0.02)
    assert statistic.count_deviations(np.zeros(1), rows) == 0.0
