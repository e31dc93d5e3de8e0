"""Limits in time: the deadline beats accuracy, and the estimate says so."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vestige import Clock, Mean, Moments, Policy, Records, Stream, Window, paper
from vestige.errors import DataError, NoRecordsError, ParameterError
from vestige.estimate import E

START = datetime(2024, 1, 1, tzinfo=UTC)
MONTH = timedelta(days=30)
DAY = timedelta(days=1)
POLICIES: list[Policy] = [Mean(), Mean(channel="bits"), Mean(channel="average"), Window(), paper.SimpleMean()]

gaps = st.lists(st.sampled_from([0.0, 0.01, 0.1, 0.4, 1.0, 5.0, 20.0, 40.0]), min_size=1, max_size=120)


def timed(policy: Policy[E], **options: Any) -> Stream[E]:
    given: dict[str, Any] = {"retention": 60, "max_age": MONTH, "seed": 0} | options
    return Stream(policy, **given)


def moments(days: list[float] | np.ndarray[Any, Any]) -> list[datetime]:
    return [START + timedelta(days=float(day)) for day in np.cumsum(days)]


def too_old(stream: Stream, now: datetime) -> bool:
    limit = np.datetime64((now - MONTH).replace(tzinfo=None), "us")
    return bool((stream.retained.times <= limit).any())


@settings(max_examples=40)
@given(gaps, st.sampled_from(POLICIES), st.integers(0, 3), st.booleans())
def test_no_record_outlives_its_time(days: list[float], policy: Policy, seed: int, sweeps: bool) -> None:
    stream, rng = timed(policy), np.random.default_rng(seed)
    for time in moments(days):
        if sweeps:
            stream.sweep(time)
            assert not too_old(stream, time)
        stream.push(rng.normal(), time=time)
        assert not too_old(stream, time)
        assert all(stream.t - r < 60 for r in stream.retained.rounds)
        estimate = stream.estimate()
        assert bool(estimate.notes) == (stream.clock.since > 1) or "closed early" in estimate.notes[-1]


@settings(max_examples=40)
@given(gaps, st.lists(st.integers(1, 40), min_size=1, max_size=30), st.sampled_from(POLICIES))
def test_extending_is_pushing_one_by_one_in_time_too(days: list[float], sizes: list[int], policy: Policy) -> None:
    times, rows = moments(days * 4), np.random.default_rng(0).normal(size=4 * len(days))
    chunked, single, start = timed(policy), timed(policy), 0
    for size in sizes * len(rows):
        chunked.extend(rows[start : start + size], times=times[start : start + size])
        for row, time in zip(rows[start : start + size], times[start : start + size], strict=True):
            single.push(row, time=time)
        assert chunked.clock == single.clock
        assert chunked.retained == single.retained
        start += size
        if start >= len(rows):
            break


@settings(max_examples=40)
@given(gaps, st.sampled_from(POLICIES), st.integers(0, 2))
def test_the_clock_does_not_depend_on_values(days: list[float], policy: Policy, seed: int) -> None:
    times, rng = moments(days * 3), np.random.default_rng(seed)
    one, other = timed(policy), timed(policy)
    for time in times:
        one.push(rng.normal(), time=time)
        other.push(rng.lognormal(), time=time)
        assert one.clock == other.clock


@settings(max_examples=40)
@given(gaps, st.sampled_from(POLICIES))
def test_a_restart_in_the_middle_changes_nothing(days: list[float], policy: Policy) -> None:
    times, rows = moments(days * 2), np.random.default_rng(0).normal(size=2 * len(days))
    whole = timed(policy)
    for row, time in zip(rows, times, strict=True):
        again = timed(policy, retained=whole.retained, clock=whole.clock)
        whole.push(row, time=time)
        again.push(row, time=time)
        assert (again.clock, again.retained) == (whole.clock, whole.retained)


@pytest.mark.parametrize("policy", POLICIES, ids=str)
def test_the_clock_keeps_no_time_of_a_record(policy: Policy) -> None:
    """Of the oldest record of a batch only in which 32nd of the limit it lies; and never later than it is due."""
    stream, step = timed(policy), MONTH / 32
    times = moments(np.random.default_rng(0).exponential(0.3, 200))
    dues = set()
    for time in times:
        stream.push(1.5, time=time)
        if stream.clock.due is not None:
            due = datetime.fromtimestamp(0, UTC) + timedelta(microseconds=stream.clock.due)
            assert (due - datetime.fromtimestamp(0, UTC)) % step == timedelta(0)
            oldest = times[stream.clock.first - 1] + MONTH
            assert oldest - step < due <= oldest
            dues.add(due)
    assert len(dues) > 1, "else this tests nothing"
    stream.sweep(time + 2 * MONTH)
    assert stream.clock.due is None


@pytest.mark.parametrize("before", [timedelta(0), timedelta(microseconds=1)])
def test_what_is_due_goes_at_the_very_moment(before: timedelta) -> None:
    stream = timed(Mean(channel="bits"), retention=56)
    stream.extend(np.arange(28.0), times=[START + i * DAY / 4 for i in range(28)])
    assert stream.clock.due is not None
    held = len(stream.retained)
    due = datetime.fromtimestamp(0, UTC) + timedelta(microseconds=stream.clock.due)
    assert stream.sweep(due - before) == (0 if before else held)
    window = timed(Window())
    window.extend(np.arange(40.0), times=[START + i * DAY / 4 for i in range(40)])
    for number in (3, 4, 37, 38):  # once the batch is due, record by record; the last of these wait
        window.sweep(START + number * DAY / 4 + MONTH - before)
        assert window.retained.values[0, 0] == number + (0 if before else 1)
        assert (window.estimate().notes, window.clock.since, window.clock.first) == ((), 1, 1)


def test_a_kept_record_that_is_too_old_takes_the_others_along_whatever_the_clock_says() -> None:
    """A stream that had no limit in time does not know when its batch is due."""
    plain = Stream(Mean(channel="bits"), retention=56, seed=0)
    plain.extend(np.arange(30.0), times=[START + i * DAY for i in range(30)])
    stream = timed(plain.policy, retention=56, retained=plain.retained, clock=plain.clock)
    oldest = stream.retained.times[0].astype(datetime).replace(tzinfo=UTC)
    assert stream.sweep(oldest + MONTH) == len(plain.retained) - 2
    assert stream.clock == Clock(t=30, first=29, last=28, since=29)


def test_a_slow_stream_is_closed_early_and_stays_exact() -> None:
    rng, slow = np.random.default_rng(0), timed(Mean(), retention=400)  # batches of 200 records, of which 90 a month
    rows = rng.normal(5.0, 1.0, 2_000)
    for i, row in enumerate(rows):
        slow.push(row, time=START + i * DAY / 3)
    estimate = slow.estimate()
    assert slow.clock.since == 1
    assert "The last batch was closed early, with" in estimate.notes[0]
    assert abs(estimate.value - rows.mean()) < 0.1 / np.sqrt(len(rows)), "a tenth of its standard error"


def test_a_batch_that_is_full_in_time_is_not_closed_early() -> None:
    quick, plain = timed(Mean()), Stream(Mean(), retention=60, seed=0)
    rows = np.random.default_rng(0).normal(size=1_000)
    quick.extend(rows, times=[START + i * DAY / 4 for i in range(1_000)])  # batches of 30 records, in 7.5 days
    plain.extend(rows)
    assert quick.estimate().value == plain.estimate().value
    assert quick.estimate().notes == ()


def test_too_slow_a_stream_starts_anew_and_says_since_when() -> None:
    lazy = timed(Mean())
    for i in range(60):
        lazy.push(float(i), time=START + i * 2 * DAY)  # 15 a month; 28 are needed to carry an answer on
    estimate = lazy.estimate()
    assert lazy.clock.since == 46
    assert estimate.value == pytest.approx(np.arange(45.0, 60.0).mean())
    assert estimate.notes[0].startswith("Counts from round 46 on: earlier information had to be erased")


def test_a_sweep_erases_without_an_arrival() -> None:
    stream = timed(Mean())
    stream.extend(np.arange(100.0), times=[START + i * DAY / 24 for i in range(100)])
    held = len(stream.retained)
    assert stream.sweep(START + 20 * DAY) < held, "what can be saved is moved to younger records"
    assert len(stream.retained) > 0
    left = len(stream.retained)
    assert stream.sweep(START + 40 * DAY) == left
    assert stream.clock == Clock(t=100, first=101, last=100, since=101)
    with pytest.raises(NoRecordsError, match="no record is held after round 100"):
        stream.estimate()
    stream.push(7.0, time=START + 41 * DAY)
    assert stream.estimate().value == 7.0


def test_sweeps_at_every_eighth_save_what_can_be_saved() -> None:
    stream, time, t = timed(Mean()), START, 0
    rng = np.random.default_rng(1)
    for _ in range(40):  # 30 records at once, then silence for 3/4 of a month
        rows = rng.normal(size=30)
        stream.extend(rows, times=[time] * 30)
        t += 30
        for _ in range(6):
            time += MONTH / 8
            stream.sweep(time)
    assert stream.clock.since == 1
    assert stream.t == t


def test_without_a_time_limit_a_sweep_finds_nothing_due() -> None:
    stream = Stream(Mean(), retention=60)
    stream.extend(np.arange(10.0))
    assert stream.sweep() == 0
    assert len(stream.retained) == 10


def test_arrival_counts_where_records_have_no_time() -> None:
    stream = timed(Mean())
    stream.push(1.0)
    assert not np.isnat(stream.retained.times).any()
    assert stream.sweep(datetime.now(UTC) + 31 * DAY) == 1


def test_window_erases_one_by_one() -> None:
    stream = timed(Window())
    for i in range(40):
        stream.push(float(i), time=START + i * 2 * DAY)
    assert stream.retained.values[:, 0].tolist() == list(range(25, 40))
    assert stream.clock.since == 1


def test_spelled_policies_too() -> None:
    stream, rng = timed(Moments(order=2), retention=400), np.random.default_rng(0)
    rows = rng.normal(2.0, 3.0, 3_000)
    for i, row in enumerate(rows):
        stream.push(row, time=START + i * DAY / 5)
    assert stream.clock.since == 1
    assert stream.estimate().mean == pytest.approx(rows.mean(), abs=0.1 * rows.std() / np.sqrt(len(rows)))


@pytest.mark.parametrize(
    ("action", "problem", "text"),
    [
        (
            lambda s: s.push(1.0, time=START - DAY),
            DataError,
            "the time of row 0 of 1 .* lies before .* sort the records",
        ),
        (lambda s: s.extend([1.0, 2.0], times=[START + 2 * DAY, START + DAY]), DataError, "the time of row 1 of 2"),
        (lambda s: s.extend([1.0, 2.0], times=[START + DAY, None]), DataError, "times has none for row 1"),
        (lambda s: s.sweep(START - 2 * DAY), DataError, "at lies more than max_ahead=1 day, 0:00:00 before the time"),
        (lambda s: s.push(1.0, time="today"), DataError, "time is a str; pass a datetime"),
        (
            lambda _: timed(Mean(), max_age=30),
            ParameterError,
            "max_age=30 is not a duration; pass a datetime.timedelta",
        ),
        (
            lambda _: timed(Mean(), max_age=timedelta(0)),
            ParameterError,
            "max_age=0 seconds is out of range; use a milli",
        ),
        (
            lambda _: Stream(Window(), max_age=MONTH),
            ParameterError,
            "a stream of Window needs a limit in rounds.*for example retention=",
        ),
        (
            lambda _: timed(Mean(), retained=Records([1], [[1.0]]), clock=Clock(t=1)),
            ParameterError,
            "holds records without a time, but max_age is set",
        ),
    ],
)
def test_bad_times_are_refused_and_nothing_is_lost(action: Any, problem: type[Exception], text: str) -> None:
    stream = timed(Mean())
    stream.extend(np.arange(40.0), times=[START] * 40)
    before = stream.clock, stream.retained
    with pytest.raises(problem, match=text):
        action(stream)
    assert (stream.clock, stream.retained) == before


@pytest.mark.parametrize("per_day", [3, 40])
def test_under_a_limit_in_time_alone_the_batch_follows_from_arrivals(per_day: int) -> None:
    """Few arrivals: a batch is closed when it is due; many: when it is full. Nothing is held for longer."""
    rows = np.random.default_rng(0).normal(5.0, 1.0, 100 * per_day)
    stream = Stream(Mean(channel="bits"), max_age=MONTH, seed=0)
    assert (stream.retention, stream.batch) == (None, 64)
    lengths = set()
    for i, row in enumerate(rows.tolist()):
        now = START + i * DAY / per_day
        stream.push(row, time=now)
        assert now - stream.retained.times.min().item().replace(tzinfo=UTC) < MONTH
        lengths.add(stream.clock.last - stream.clock.first + 1)
    assert max(lengths) == min(64, 15 * per_day)
    assert stream.clock.since == 1
    assert stream.estimate().value == pytest.approx(rows.mean(), abs=0.05 / np.sqrt(len(rows)))
