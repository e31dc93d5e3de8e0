"""Records that are erased while they wait never count: the answer is that of the records that stayed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from vestige import Covariance, CustomLoss, LinearRegression, Mean, Moments, Policy, Stream
from vestige.audit import AuditSeed
from vestige.channels.layout import find_precision
from vestige.estimate import E
from vestige.paper import CoordinateMean, SimpleMean
from vestige.types import Bools, Floats


def with_gaps(policy: Policy[E], rows: Floats, batch: int, share: float, seed: int = 0) -> tuple[Stream[E], Bools]:
    """A stream in which about this share of each batch is erased while it waits, and which rows stayed.

    What is asked for is few enough each time that the batch is not closed early.
    """
    rng = np.random.default_rng(seed)
    stream = Stream(policy, retention=2 * batch, seed=AuditSeed(seed) if policy.requires_secret_coins else seed)
    stayed = np.ones(len(rows), np.bool_)
    while stream.t < len(rows):
        waiting = int((stream.retained.rounds > stream.clock.last).sum())
        few = min(policy.min_early_batch - 1 - waiting, batch - stream.clock.pending - 1)
        n = int(rng.integers(1, few + 1)) if few > 0 and stream.clock.pending < share * batch else 0
        if not n:
            stream.extend(rows[stream.t : stream.t + batch - stream.clock.pending])
            continue
        stream.extend(rows[stream.t : stream.t + n])
        going = np.arange(stream.t - n + 1, stream.t + 1)[rng.random(n) < 0.95]
        stream.forget(rounds=going, now=True)
        stayed[going - 1] = False
    assert stream.clock.since == 1
    assert not stream.clock.pending
    return stream, stayed


def drifting(n: int, columns: int = 1, seed: int = 0) -> Floats:
    """What is erased differs from what stays by much more than a standard error."""
    made: Floats = np.linspace(0.0, 10.0, n)[:, None] + np.random.default_rng(seed).normal(size=(n, columns))
    return made


def square_loss(parameters: Floats, rows: Floats) -> tuple[Floats, Floats]:
    gap = parameters[0] - rows[:, 0]
    return gap**2 / 2.0, gap[:, None]


Truth = Callable[[Floats], Any]
CASES: dict[str, tuple[Policy, Truth, float]] = {
    "auto": (Mean(), np.mean, 0.01),
    "bits": (Mean(channel="bits"), np.mean, 0.01),
    "two": (Mean(dim=2), lambda rows: rows.mean(axis=0), 0.01),
    "spread": (Mean(spread=True), np.mean, 0.01),
    "moments": (Moments(order=2), lambda rows: [rows.mean(), rows.var()], 0.01),
    "covariance": (Covariance(2), lambda rows: np.cov(rows.T, bias=True), 0.01),
    "linear": (LinearRegression(1), lambda rows: np.polyfit(rows[:, 0], rows[:, 1], 1)[:1], 0.01),
    "gradient": (CustomLoss(square_loss, (0.0,), columns=1), np.mean, 0.01),
    "simple": (SimpleMean(), np.mean, 1.0),
    "coordinate": (CoordinateMean(), np.mean, 1.0),
}


@pytest.mark.parametrize("share", [0.3, 0.8])
@pytest.mark.parametrize(("policy", "truth", "near"), CASES.values(), ids=CASES)
def test_the_answer_is_that_of_the_records_that_stayed(policy: Policy, truth: Truth, near: float, share: float) -> None:
    batch = 40 if policy.max_batch else 12 * policy.min_early_batch
    rows = drifting(16 * batch, policy.columns)
    stream, stayed = with_gaps(policy, rows, batch, share)
    assert stream.counted == stayed.sum() < len(rows)
    assert (stream.clock.encoded, stream.clock.gaps) == (stayed.sum(), (~stayed).sum())
    assert np.ravel(stream.estimate().value) == pytest.approx(np.ravel(truth(rows[stayed])), abs=near, rel=near)


@pytest.mark.parametrize("share", [pytest.param(0.3, marks=pytest.mark.slow), 0.8])
def test_an_average_is_that_of_the_records_that_stayed(share: float) -> None:
    """It cannot follow a drift; what was erased would pull it by several standard errors even so."""
    rows = np.random.default_rng(0).normal(size=(20_000, 1))
    stream, stayed = with_gaps(Mean(channel="average"), rows, 250, share)
    (note,) = stream.estimate().notes
    assert "erased on request or by deadline before an update could count them" in note
    assert stream.estimate().value == pytest.approx(rows[stayed].mean(), abs=0.3 / np.sqrt(stayed.sum()))


@pytest.mark.parametrize("policy", [Mean(half_life=500.0), Mean(half_life=500.0, spread=True)], ids=["auto", "spread"])
def test_with_a_half_life_each_record_that_stayed_makes_those_before_it_count_less(policy: Mean) -> None:
    batch = 8 * policy.min_early_batch
    rows = drifting(12 * batch)
    stream, stayed = with_gaps(policy, rows, batch, 0.8)
    left = rows[stayed, 0]
    weights = policy.decay ** np.arange(len(left))[::-1]
    assert stream.estimate().value == pytest.approx(weights @ left / weights.sum(), abs=1e-3)


@pytest.mark.parametrize("half_life", [None, pytest.param(500.0, marks=pytest.mark.slow)])
def test_standard_errors_are_those_of_the_records_that_stayed(half_life: float | None) -> None:
    off = []
    for seed in range(40):
        rows = np.random.default_rng(seed).normal(size=(2_560, 1))
        policy = Mean(spread=True, half_life=half_life)
        stream, stayed = with_gaps(policy, rows, 256, 0.7, seed)
        estimate = stream.estimate()
        assert estimate.standard_error is not None
        off.append(float(estimate.value) / float(estimate.standard_error))
    weights = policy.decay ** np.arange(stayed.sum())
    error = float(np.sqrt((weights**2).sum()) / weights.sum())
    assert stream.estimate().standard_error == pytest.approx(error, rel=0.15)
    assert 0.6 < np.sqrt(np.mean(np.square(off))) < 1.4


@pytest.mark.parametrize(
    "policy", [Mean(), Mean(spread=True, half_life=200.0), SimpleMean()], ids=["mean", "old", "paper"]
)
def test_gaps_are_the_same_however_the_records_come(policy: Policy) -> None:
    rows = drifting(40 * policy.min_early_batch)[:, 0] if policy.max_batch is None else drifting(400)[:, 0]
    batch = 4 * policy.min_early_batch if policy.max_batch is None else 40
    few = policy.min_early_batch - 1
    streams = [Stream(policy, retention=2 * batch, seed=0) for _ in range(2)]
    at_once, one_by_one = streams
    at_once.extend(rows[:few])
    for row in rows[:few]:
        one_by_one.push(row)
    for stream in streams:
        stream.forget(rounds=np.arange(1, few + 1), now=True)
    at_once.extend(rows[few:])
    for row in rows[few:]:
        one_by_one.push(row)
    assert at_once.clock == one_by_one.clock
    assert at_once.clock.gaps == few
    assert at_once.retained == one_by_one.retained
    again = Stream(policy, retention=2 * batch, seed=0, retained=at_once.retained, clock=at_once.clock)
    assert again.estimate().value == at_once.estimate().value
    assert again.counted == at_once.counted == len(rows) - few


def test_gaps_do_not_survive_a_restart_of_the_statistic() -> None:
    stream, _ = with_gaps(Mean(), drifting(2_000), 200, 0.5)
    assert stream.clock.gaps > 0
    stream.forget(rounds=stream.retained.rounds, now=True)
    assert (stream.clock.gaps, stream.clock.encoded, stream.counted) == (0, 0, 0)


def test_what_waits_counts_if_it_is_there() -> None:
    stream = Stream(Mean(), retention=128, seed=0)
    stream.extend(np.r_[np.full(64, 1.0), np.full(20, 3.0)])
    stream.forget(rounds=np.arange(65, 81), now=True)
    assert stream.counted == 68
    assert stream.estimate().value == pytest.approx((64 * 1.0 + 4 * 3.0) / 68)


def test_what_waits_is_weighed_against_the_records_that_stayed() -> None:
    """Of the batch that is encoded, 20 of 64 records never count."""
    stream = Stream(Mean(), retention=128, seed=0)
    stream.extend(np.full(20, 9.0))
    stream.forget(rounds=np.arange(1, 21), now=True)
    stream.extend(np.r_[np.full(44, 1.0), np.full(20, 3.0)])
    assert (stream.clock.last, stream.clock.gaps, stream.counted) == (64, 20, 64)
    assert stream.estimate().value == pytest.approx((44 * 1.0 + 20 * 3.0) / 64)


def test_rounding_is_carried_on_as_far_as_a_half_life_lets_it() -> None:
    """Each batch of 56 carries all but 1 - decay^56 of the rounding before it on."""
    rows = np.random.default_rng(0).normal(1.0, 1.0, 100_000)
    fading, lasting = Moments(2, half_life=1_000.0), Moments(2)
    rounding = []
    for policy in (fading, lasting):
        stream = Stream(policy, retention=112, seed=0)
        stream.extend(rows)
        rounding.append(policy._find_rounding(stream.clock))
    each, carried = find_precision(56, 2), fading.decay**56
    assert rounding[0] == pytest.approx(each * np.sqrt(1.0 + 1.0 / (1.0 - carried**2)), rel=1e-3)
    assert rounding[0] < rounding[1] / 4.0
