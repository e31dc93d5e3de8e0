"""A limit in time alone: batches, restarts and errors of streams are as planned."""

from __future__ import annotations

from datetime import timedelta

import numpy as np
import pytest
from numpy.typing import NDArray

from vestige import Count, Distinct, Mean, Moments, ParameterError, Private, Stream, Window
from vestige.planning import plan_max_age
from vestige.planning.max_age import find_schedule
from vestige.policies import NamedPolicy

AGE = timedelta(days=30)
DAY = 86_400_000_000


def run(policy: NamedPolicy, times: NDArray[np.datetime64]) -> tuple[list[int], int, int]:
    """The lengths of the batches, the most records that are held, and the number of restarts of a stream."""
    stream = Stream(policy, max_age=AGE, seed=0)
    rows = np.random.default_rng(0).normal(size=(len(times), policy.columns))
    lengths, held, restarts = [], 0, 0
    before = stream.clock
    for i in range(len(times)):
        stream.extend(rows[i : i + 1], times=times[i : i + 1])
        clock = stream.clock
        if clock.updates > before.updates and clock.last > before.last:
            lengths.append(clock.last - clock.first + 1)
        restarts += clock.since > before.since
        before, held = clock, max(held, len(stream.retained))
    return lengths, held, restarts


def arrive(rate: float, count: int) -> NDArray[np.datetime64]:
    """Times at even distances."""
    return (np.arange(count) * (DAY / rate)).astype(np.int64).view("datetime64[us]")


@pytest.mark.parametrize(("policy", "rates"), [(Mean(), (1.6, 4.0, 6.3)), (Moments(2), (3.3, 6.0))])
def test_batches_are_as_long_as_planned_and_no_shorter(policy: NamedPolicy, rates: tuple[float, ...]) -> None:
    for rate in rates:
        schedule = find_schedule(policy, AGE, rate)
        lengths, held, restarts = run(policy, arrive(rate, 400))
        assert schedule.batch is not None
        assert (min(lengths) >= schedule.batch, held <= schedule.held, restarts) == (True, True, 0)
        assert min(lengths) <= 1.15 * schedule.batch + 1  # the deadline is rounded to a 32nd: 12/32 in place of 11/32


def test_a_statistic_restarts_below_the_least_rate_and_not_above_it() -> None:
    for policy in (Mean(), Moments(2)):
        least = find_schedule(policy, AGE, 1.0).least_rate
        assert run(policy, arrive(1.001 * least, 500))[2] == 0
        assert run(policy, arrive(0.9 * least, 500))[2] > 2
        assert find_schedule(policy, AGE, 0.999 * least).batch is None


@pytest.mark.slow
def test_independent_arrivals_restart_it_about_as_often_as_stated() -> None:
    """Fifty restarts are expected; the stated chance is a sum of two, and so at most twice what it is."""
    rate, count = 2.1, 8_000
    gaps = np.random.default_rng(3).exponential(DAY / rate, count)
    restarts = run(Mean(), np.cumsum(gaps).astype(np.int64).view("datetime64[us]"))[2]
    schedule = find_schedule(Mean(), AGE, rate)
    assert schedule.batch is not None
    stated = schedule.risk * count / schedule.batch
    assert 15 < stated < 80
    assert stated / 2 - 3 * stated**0.5 < restarts < stated + 3 * stated**0.5


def test_the_error_of_short_batches_is_as_planned() -> None:
    """What encoding adds where each batch has as few records as possible; 40 streams know it to about a fifth."""
    rate, records = 1.55, 400
    ours = plan_max_age(Mean(channel="bits"), max_age=AGE, rate=rate, records=records).rows[0]
    assert ours.batch == 22
    assert ours.error is not None
    off = []
    for trial in range(40):
        rows = np.random.default_rng(trial).normal(1.0, 1.0, records)
        stream = Stream(Mean(channel="bits"), max_age=AGE, seed=trial)
        stream.extend(rows, times=arrive(rate, records))
        assert (stream.clock.since, stream.clock.last - stream.clock.first + 1) == (1, 22)
        off.append(float(stream.estimate().value - rows.mean()))
    added = float(np.sqrt(ours.error**2 - 1.0 / records))
    assert 0.5 * added < np.sqrt(np.mean(np.square(off))) < 2.0 * added


def test_each_row_and_the_rates() -> None:
    found = plan_max_age(Mean(), max_age=AGE, rate=1_000.0)
    ours, window = found.rows[0], found.row("window")
    assert (found.records, window.held, found.row("all records").held) == (365_000, 30_000, 365_000)
    assert (ours.batch, ours.held, ours.every) == (64, 128, timedelta(days=0.064))
    assert window.error is not None
    assert ours.error is not None
    assert ours.error < window.error / 3
    assert found.enough_rate is not None
    slow = plan_max_age(Mean(), max_age=AGE, rate=found.enough_rate, records=found.records)
    assert slow.rows[0].error == pytest.approx(found.records**-0.5, rel=0.1)
    private = found.row("Private, epsilon 1")
    assert private.batch == 643, "noise asks for larger batches"
    assert 2.0 < (private.price or 0.0) < 10.0
    least = plan_max_age(Mean(), max_age=AGE, rate=1.0)
    assert (least.rows[0].batch, least.rows[0].error, least.rows[0].restarts, len(least.errors)) == (
        None,
        None,
        None,
        0,
    )
    assert "Too few records arrive" in least.rows[0].notes[0]


def test_policies_that_are_exact() -> None:
    count = plan_max_age(Count(), max_age=AGE, rate=0.1).rows[0]
    assert (count.error, count.restarts, count.notes) == (0.0, 0.0, ())
    run(Count(), arrive(0.1, 20))  # a limit in time alone is enough for it
    sketch = plan_max_age(Distinct(), max_age=AGE, rate=1_000.0)
    assert sketch.rows[0].error is None
    assert sketch.rows[0].batch == Distinct().min_batch


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"rate": 0.0}, "rate=0.0 is out of range; use a number of records a day"),
        ({"rate": float("nan")}, "rate=nan is out of range"),
        ({"max_age": 30}, "max_age=30 is not a duration"),
        ({"records": 100, "error": 0.1}, "give either error"),
        ({"policy": Window(Mean())}, "policy="),
        ({"policy": Private(Mean(), bound=1.0, epsilon=1.0, delta=1e-6)}, "policy="),
    ],
)
def test_errors_name_what_is_wrong(change: dict[str, object], problem: str) -> None:
    given: dict[str, object] = {"policy": Mean(), "max_age": AGE, "rate": 10.0}
    given |= change
    policy = given.pop("policy")
    with pytest.raises(ParameterError, match=problem):
        plan_max_age(policy, **given)  # type: ignore[arg-type]


def test_at_the_least_rate_half_of_the_batches_and_half_of_the_pairs_are_too_short() -> None:
    """As many records are expected as are needed, which is the median of a Poisson number; the risks add up."""
    least = find_schedule(Mean(), AGE, 1.0).least_rate
    assert find_schedule(Mean(), AGE, 1.0001 * least).risk > 0.9
    assert find_schedule(Mean(), AGE, 4.0 * least).risk < 1e-6
