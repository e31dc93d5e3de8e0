"""Late rows and rows from the future: decided by times alone, alike however rows are cut into calls."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vestige import Mean, Policy, Records, Stream, Window
from vestige.errors import DataError, ParameterError
from vestige.row_numbers import find_rows
from vestige.store import MemoryStore, Position
from vestige.store.position import encode_count
from vestige.stream.deadlines import NEVER, find_ahead
from vestige.stream.lateness import ArrivalWindow
from vestige.stream.limits import Limits

START, HOUR, DAY = datetime(2024, 1, 1, tzinfo=UTC), timedelta(hours=1), timedelta(days=1)
MONTH = timedelta(days=30)
POLICIES: list[Policy] = [Mean(), Mean(channel="bits"), Mean(channel="average"), Window()]


def late(policy: Policy | None = None, **options: Any) -> Stream:
    given: dict[str, Any] = {"retention": 60, "max_age": MONTH, "lateness": 2 * DAY, "seed": 0} | options
    return Stream(policy or Mean(), **given)


def known(stream: Stream) -> tuple[object, Records]:
    return stream.clock, stream.retained


steps = st.lists(
    st.tuples(
        st.sampled_from([0.0, 0.02, 0.3, 1.0, 6.0, 17.0, 40.0]),  # days since the newest row so far
        st.sampled_from([0.0, 0.0, 0.0, 0.01, 1.9, 2.1, 3.0, 20.0]),  # by how many days this one is late
    ),
    min_size=1,
    max_size=60,
)
ACTIONS = ["push", "extend", "restart", "sweep", "forget", "forget now"]
cuts = st.lists(st.sampled_from(ACTIONS), min_size=1, max_size=25)


def rows_at(plan: list[tuple[float, float]]) -> list[datetime]:
    newest, times = START, []
    for ahead, behind in plan * 3:
        newest += timedelta(days=ahead)
        times.append(newest - timedelta(days=behind))
    return times


@given(st.lists(st.integers(0, 9), min_size=1, max_size=9), st.integers(1, 9), st.none() | st.integers(0, 9))
def test_rows_in_order_are_as_many_whether_or_not_they_may_be_late(
    times: list[int], patience: int, due: int | None
) -> None:
    """Before something has to be done, which is at the very moment, not after it."""
    ordered = np.sort(np.array(times, np.int64))
    punctual = ArrivalWindow(0, None, oldest=NEVER, patience=patience, event=NEVER if due is None else due)
    late = replace(punctual, lateness=5)
    assert late.count_quiet(ordered) == punctual.count_quiet(ordered)


@settings(max_examples=40)
@given(steps, cuts, st.sampled_from(POLICIES), st.integers(0, 2**16), st.booleans())
def test_the_way_rows_are_cut_changes_nothing(
    plan: list[tuple[float, float]], actions: list[str], policy: Policy, seed: int, stored: bool
) -> None:
    """Against pushing one by one, and against the rules said in plain Python."""
    times, rng = rows_at(plan), np.random.default_rng(seed)
    rows, limits = rng.normal(size=len(times)), {"retention": 60, "max_age": MONTH, "lateness": 2 * DAY, "seed": 0}
    store = MemoryStore() if stored else None
    single = late(policy)
    cut = late(policy, **({} if store is None else {"store": store.stream("a")}))
    newest = told = times[0]
    excused: set[int] = set()
    start = 0
    for action in actions * len(times):
        if start == len(times):
            break
        if action == "restart":
            more = {"retained": cut.retained, "clock": cut.clock} if store is None else {"store": store.stream("a")}
            cut = Stream(policy, **limits, **more)  # type: ignore[arg-type]
        elif action == "sweep":
            told = max(told, newest + 3 * HOUR)
            single.sweep(told)
            cut.sweep(told)
        elif action.startswith("forget") and single.t:
            asked = rng.integers(max(1, single.t - 40), single.t + 1, 3)
            single.forget(rounds=asked, now=action == "forget now")
            cut.forget(rounds=asked, now=action == "forget now")
        else:
            size = int(rng.integers(1, 50)) if action == "extend" else 1
            here = slice(start, start + size)
            taken = []
            for row, time in zip(rows[here], times[here], strict=True):
                allowed = time >= newest - 2 * DAY
                told, newest = max(told, time), max(newest, time)
                taken.append(single.push(float(row), time=time))
                assert taken[-1] or not allowed, "what is within its allowance is taken"
                if taken[-1]:
                    assert single.retained.times[-1] == np.datetime64(time.replace(tzinfo=None), "us"), "its own date"
                    excused |= {single.t} if time <= told - MONTH else set()
            assert cut.extend(rows[here], times=times[here]) == sum(taken)
            start += size
        assert known(cut) == known(single)
        limit = np.datetime64((told - MONTH).replace(tzinfo=None), "us")
        old = set(single.retained.rounds[single.retained.times <= limit].tolist())
        assert old <= excused, "no record outlives its time, but one that had when it came"
        assert all(single.t - r < 60 for r in single.retained.rounds)


def test_which_late_rows_are_taken_does_not_depend_on_values() -> None:
    rng, streams = np.random.default_rng(5), [late(Mean(channel="bits")) for _ in range(2)]
    time = START
    for _ in range(600):
        time += timedelta(hours=float(rng.exponential(4.0)))
        when = time - DAY * float(rng.exponential(1.0))
        one, other = (stream.push(float(rng.normal()), time=when) for stream in streams)
        assert one == other
        assert streams[0].clock == streams[1].clock
    assert 0 < streams[0].t < 600


def test_a_row_that_comes_later_still_is_counted_and_its_number_is_read() -> None:
    store = MemoryStore()
    stream = late(store=store.stream("a"))
    times = [START, START - 3 * DAY, START - DAY, START + DAY]
    assert stream.extend([1.0, 2.0, 3.0, 4.0], times=times, source="x") == 3
    assert stream.retained.values[:, 0].tolist() == [1.0, 3.0, 4.0]
    assert find_rows(stream.retained.numbers, 1).tolist() == [1, 3, 4]
    assert stream.extend([5.0], times=[START - 3 * DAY], source="x") == 0
    assert not stream.push(5.0, time=START - 3 * DAY)
    stream.flush()
    again = late(store=store.stream("a"))
    assert (again.t, again.position("x")) == (3, Position(encode_count(5), slot=1))


def test_a_late_record_goes_when_it_is_too_old_not_when_its_neighbours_are() -> None:
    stream = late(Window())
    stream.extend([1.0, 2.0, 3.0], times=[START, START - 2 * DAY, START + DAY])
    stream.sweep(START + 28 * DAY)
    assert stream.retained.values[:, 0].tolist() == [1.0, 3.0]


def test_a_late_record_that_is_erased_while_it_waits_takes_nothing_along() -> None:
    """It leaves a gap: what is known was written before, and is held by other records."""
    rows = np.random.default_rng(0).normal(5.0, 1.0, 180)
    stream = late(lateness=28 * DAY)
    stream.extend(rows, times=[START + i * HOUR for i in range(180)])
    newest = START + 180 * HOUR
    stream.extend([99.0, 5.0, 5.0], times=[newest - 28 * DAY, newest, newest])
    clock, retained = known(stream)
    assert stream.sweep(newest + 2.5 * DAY) == 1
    assert stream.clock == clock
    assert stream.retained == retained.where(retained.rounds != 181)
    estimate = stream.estimate()
    note = "1 of the 183 records since round 1 is not counted: it was erased on request or by deadline before an update"
    assert (estimate.since, [each.startswith(note) for each in estimate.notes]) == (1, [True])
    assert estimate.value == pytest.approx(rows.mean(), abs=0.03)


def test_a_window_keeps_its_clock_when_a_late_record_goes() -> None:
    stream = late(Window(), lateness=28 * DAY)
    stream.extend(np.ones(30), times=[START] * 30)
    stream.extend([1.0, 2.0], times=[START - 28 * DAY, START + HOUR])
    clock = stream.clock
    assert clock.due is not None
    assert stream.sweep(START + 3 * DAY) == 1
    assert stream.clock == clock


def test_just_as_far_ahead_as_is_allowed_is_not_too_far() -> None:
    now = 10**15
    times = np.array([now + 86_400 * 10**6, now + 86_400 * 10**6 + 1], "datetime64[us]")
    assert find_ahead(Limits(retention=60, max_age=MONTH), times, now).tolist() == [False, True]


@pytest.mark.parametrize(("hours", "fine"), [(23.0, True), (25.0, False), (24 * 365 * 50.0, False)])
def test_a_record_from_the_future_is_refused_before_anything_is_erased(hours: float, fine: bool) -> None:
    now = datetime.now(UTC)
    stream = Stream(Mean(), retention=60, max_age=MONTH, seed=0)
    stream.extend(np.arange(50.0), times=[now - 29 * DAY] * 50)
    before = known(stream)
    times = [now, now + timedelta(hours=hours)]
    if fine:
        assert stream.extend([1.0, 2.0], times=times) == 2
        stream.sweep()
        return
    with pytest.raises(DataError, match=r"the time of row 1 of 2 .* more than max_ahead=1 day, 0:00:00 ahead"):
        stream.extend([1.0, 2.0], times=times)
    with pytest.raises(DataError, match="the time of row 0 of 1"):
        stream.push(1.0, time=times[1])
    assert known(stream) == before
    allowed = timedelta(hours=hours + 1)
    assert Stream(Mean(), retention=60, max_age=2 * allowed, max_ahead=allowed, seed=0).push(1.0, time=times[1])


@pytest.mark.parametrize(("hours", "allowed"), [(12, 1.2), (240, 24.0), (2_400, 24.0)])
def test_one_wrong_date_erases_little_before_its_time(hours: float, allowed: float) -> None:
    """By default a record may be dated ahead by a day at most, and never by more than a tenth of the limit."""
    now, max_age = datetime.now(UTC), timedelta(hours=hours)
    stream = Stream(Mean(), retention=400, max_age=max_age, seed=0)
    stream.extend(np.arange(100.0), times=[now - 0.5 * max_age] * 100)
    with pytest.raises(DataError, match="max_ahead="):
        stream.push(1.0, time=now + timedelta(hours=allowed + 0.1))
    assert stream.max_ahead == timedelta(hours=allowed)
    assert stream.push(1.0, time=now + timedelta(hours=allowed - 0.1))
    assert len(stream.retained) > 1, "what is held is carried on"
    assert stream.clock.since == 1


def test_a_record_that_was_dated_too_far_ahead_is_named_with_its_remedy() -> None:
    now = datetime.now(UTC)
    stream = Stream(Mean(), retention=60, max_age=MONTH, max_ahead=29 * DAY, seed=0)
    stream.push(1.0, time=now + 28 * DAY)
    again = Stream(Mean(), retention=60, max_age=MONTH, seed=0, retained=stream.retained, clock=stream.clock)
    with pytest.raises(DataError, match=r"at lies more than max_ahead=.* forget\(rounds=...\): nothing was erased"):
        again.sweep()
    again.forget(rounds=1, now=True)
    assert again.sweep() == 0
    assert again.push(2.0, time=now)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"lateness": DAY}, "lateness=1 day is for a stream with max_age"),
        ({"lateness": MONTH, "max_age": MONTH}, "lateness=30 days is not below max_age=30 days"),
        ({"lateness": -DAY, "max_age": MONTH}, "lateness=-1 day, 0:00:00 is out of range"),
        ({"lateness": 5, "max_age": MONTH}, "lateness=5 is not a duration"),
        ({"max_ahead": 5, "max_age": MONTH}, "max_ahead=5 is not a duration"),
        ({"max_ahead": MONTH, "max_age": MONTH}, "max_ahead=30 days is not below max_age=30 days"),
        ({"max_ahead": -DAY, "max_age": MONTH}, "max_ahead=-1 day, 0:00:00 is out of range"),
    ],
)
def test_bad_allowances_are_refused(options: dict[str, Any], text: str) -> None:
    with pytest.raises(ParameterError, match=text):
        Stream(Mean(), retention=60, **options)


def test_without_lateness_a_late_row_is_refused_and_nothing_was_taken() -> None:
    stream = Stream(Mean(), retention=60, max_age=MONTH, seed=0)
    stream.extend([1.0], times=[START])
    times = [START + i * HOUR for i in range(100)]
    times[70] = START
    with pytest.raises(DataError, match=r"row 70 of 100 .* lateness=...: nothing of this call was taken"):
        stream.extend(np.arange(100.0), times=times)
    assert stream.t == 1


@pytest.mark.parametrize("lateness", [29 * DAY, None])
def test_what_is_taken_after_an_update_does_not_depend_on_which_records_were_kept(lateness: timedelta | None) -> None:
    """A row that is dated before records that some values keep and others do not."""
    back = -22 * DAY if lateness else 8 * DAY
    clocks, newest = set(), set()
    for seed in range(12):
        stream = late(retention=96, lateness=lateness)
        stream.extend(np.random.default_rng(seed).normal(size=48), times=[START + i * DAY / 4 for i in range(48)])
        newest.add(stream.retained.times.max())
        assert stream.push(1.0, time=START + back)
        clocks.add(stream.clock)
    assert len(clocks) == 1
    assert len(newest) > 1, "else this tests nothing"


def test_without_lateness_a_row_before_the_batch_before_is_refused() -> None:
    stream = late(retention=96, lateness=None)
    stream.extend(np.arange(48.0), times=[START + i * DAY / 4 for i in range(48)])
    with pytest.raises(DataError, match="lies before that of a record that came earlier"):
        stream.push(1.0, time=START - DAY)
    assert stream.push(1.0, time=START + DAY)
    with pytest.raises(DataError, match="lies before that of a record that came earlier"):
        stream.push(1.0, time=START + DAY - HOUR)
