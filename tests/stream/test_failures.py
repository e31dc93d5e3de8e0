"""Whatever fails, what was erased stays erased, and what has to be erased is."""

from __future__ import annotations

import math
import pickle
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pytest

from vestige import Clock, Mean, Records, Stream
from vestige.errors import DataError, StoreBusyError
from vestige.store import MemoryStore, Place, State, Terms

START, DAY, MONTH = datetime(2024, 1, 1, tzinfo=UTC), timedelta(days=1), timedelta(days=30)
FAULTS: dict[str, bool] = {}


class FaultyError(Exception):
    """What a faulty policy raises."""


@dataclass(frozen=True)
class Faulty(Mean):
    """A mean that fails where it is told to."""

    def update(self, clock: Clock, retained: Records, arrivals: Records, coins: int) -> Any:
        if FAULTS.get("update"):
            raise FaultyError
        return super().update(clock, retained, arrivals, coins)

    def rewrite(self, clock: Clock, retained: Records, coins: int) -> Any:
        if FAULTS.get("update"):
            raise FaultyError
        return super().rewrite(clock, retained, coins)


@pytest.fixture(autouse=True)
def sound() -> None:
    FAULTS.clear()


def stored(store: MemoryStore, **options: Any) -> Stream:
    given: dict[str, Any] = {"retention": 120, "max_age": MONTH, "seed": 0} | options
    return Stream(Faulty(), **given, store=store.stream("a"))


def in_file(store: MemoryStore) -> set[int]:
    found = store.read_stream("a")
    return set() if found is None else set(found[1].retained.rounds.tolist())


@pytest.mark.parametrize("by", ["extend", "push", "sweep"])
@pytest.mark.parametrize("durable", [True, False])
def test_a_failing_update_at_a_deadline_revives_nothing(by: str, durable: bool) -> None:
    store = MemoryStore()
    stream = stored(store) if durable else Stream(Faulty(), retention=120, max_age=MONTH, seed=0)
    stream.extend(np.arange(30.0), times=[START] * 30)
    stream.extend(np.arange(40.0), times=[START + 14.5 * DAY] * 40)  # 70 records: the first 60 were closed
    stream.extend(np.arange(45.0), times=[START + 14.6 * DAY] * 45)
    stream.flush()
    FAULTS["update"] = True
    now = START + 30 * DAY
    actions: dict[str, Callable[[], object]] = {
        "extend": lambda: stream.extend([1.0, 2.0], times=[now, now]),
        "push": lambda: stream.push(1.0, time=now),
        "sweep": lambda: stream.sweep(now),
    }
    with pytest.raises(FaultyError):
        actions[by]()
    limit = np.datetime64((now - MONTH).replace(tzinfo=None), "us")
    assert stream.clock.due is None, "the batch that was encoded is gone"
    assert stream.clock.since == stream.retained.rounds[0] > 1
    assert (stream.retained.times > limit).all()
    held = set(stream.retained.rounds.tolist())
    assert held
    stream.forget(rounds=[stream.t])
    assert set(stream.retained.rounds.tolist()) == held
    assert not durable or in_file(store) == held, "nothing is written back"
    with pytest.raises(FaultyError):
        stream.sweep(now + 10 * DAY)
    assert stream.sweep(now + 15 * DAY) == len(held), "the deadline does not wait for the policy"
    assert not len(stream.retained)
    assert not durable or not in_file(store)


def test_what_cannot_be_written_is_not_brought_back() -> None:
    class Busy(MemoryStore):
        """A store that is in use while it is told so."""

        busy = False

        def _place(self, name: str, about: Any) -> Place:
            place = super()._place(name, about)
            write = place.write

            def blocked(terms: Terms, state: State) -> None:
                if self.busy:
                    raise StoreBusyError("in use")
                write(terms, state)

            place.write = blocked  # type: ignore[method-assign]
            return place

    store = Busy()
    stream = stored(store)
    stream.extend(np.arange(50.0), times=[START] * 50)
    stream.flush()
    store.busy = True
    with pytest.raises(StoreBusyError):
        stream.extend([1.0], times=[START + MONTH])
    assert not len(stream.retained), "it stays erased here"
    store.busy = False
    stream.flush()
    assert not in_file(store)
    assert stream.t == 50


@pytest.mark.parametrize("pending", [5, 40])
def test_what_is_asked_to_go_at_once_goes_whatever_the_policy_does(pending: int) -> None:
    store = MemoryStore()
    stream = stored(store, max_age=None)
    stream.extend(np.arange(60.0 + pending))
    kept = stream.retained.rounds[:3].tolist()
    FAULTS["update"] = True
    with pytest.raises(FaultyError) as problem:
        stream.forget(rounds=kept, now=True)
    assert problem.value.__notes__ == ["The requested records were erased anyway."]
    assert not set(stream.retained.rounds.tolist()) & set(kept)
    assert in_file(store) == set(stream.retained.rounds.tolist())
    assert stream.clock.since == 61
    assert stream.receipts[0].erased_round == stream.t
    FAULTS.clear()
    assert "Counts from round 61 on" in stream.estimate().notes[0]
    assert stream.estimate().since == 61


def test_a_request_is_met_in_time_also_by_a_clock_of_the_records_own() -> None:
    """The records' times may come from another clock than the receipt's."""
    stream = Stream(
        Mean(), retention=120, max_age=timedelta(milliseconds=50), max_ahead=timedelta(milliseconds=49), seed=0
    )
    ahead = datetime.now(UTC) + timedelta(milliseconds=45)
    stream.extend(np.arange(10.0), times=[ahead] * 10)
    stream.forget(rounds=[3, 4])
    due = stream.receipts[0].due
    assert due is not None
    while datetime.now(UTC) <= due:
        pass
    stream.sweep()
    assert stream.receipts[0].erased is not None
    assert not {3, 4} & set(stream.retained.rounds.tolist()), "a receipt that says erased is true"


@dataclass
class Mixed:
    """Not a record."""

    at: list[int] = field(default_factory=list)


@pytest.mark.parametrize("row", [[], [[]], 10**400, [10**400], "1", None, Mixed(), [1.0, 2.0], np.ones((2, 1, 1))])
def test_what_is_no_row_is_refused_in_a_sentence(row: Any) -> None:
    for stream in (Stream(Mean(), retention=96), Stream(Mean(), retention=96, max_age=MONTH)):
        with pytest.raises(ValueError, match=r"row|rows"):
            stream.push(row)
        assert stream.t == 0
        with pytest.raises(ValueError, match="row"):
            stream.extend([1.0, row])
        assert stream.t == 0


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"times": np.array([2**60, 1], "datetime64[Y]")}, "time 0 of 2 .* outside the years 1 to 9999"),
        ({"times": np.array([0, 300_000], "datetime64[Y]")}, "time 1 of 2 .* outside the years 1 to 9999"),
        ({"times": [np.datetime64(2**40, "h"), None]}, "outside the years 1 to 9999"),
        ({"times": [datetime.max.replace(tzinfo=UTC) - DAY, "x"]}, "time is a str"),
        ({"times": 5}, "times is a int; pass one datetime"),
        ({"times": "ab"}, "times is a str"),
        ({"subjects": "ab"}, "subjects is a str; pass one text"),
        ({"subjects": 5}, "subjects is a int"),
        ({"subjects": ["ada", "\ud800"]}, "not a valid text"),
        ({"subjects": ["ada", 5]}, "a subject is a int"),
        ({"subjects": (name for name in ["ada"])}, "subjects has 1 entries for 2 rows"),
        ({"times": (time for time in [START] * 3)}, "times has 3 entries for 2 rows"),
    ],
)
def test_labels_that_are_none_are_refused_in_a_sentence(options: dict[str, Any], text: str) -> None:
    stream = Stream(Mean(), retention=96)
    with pytest.raises(ValueError, match=text):
        stream.extend([1.0, 2.0], **options)
    assert stream.t == 0


def test_labels_may_come_one_by_one() -> None:
    stream = Stream(Mean(), retention=96)
    stream.extend([1.0, 2.0], times=(START + i * DAY for i in range(2)), subjects=(name for name in ("ada", "bob")))
    assert stream.retained.subjects.tolist() == ["ada", "bob"]
    assert stream.retained.times.tolist() == [datetime(2024, 1, 1), datetime(2024, 1, 2)]


@pytest.mark.parametrize(
    "refused",
    [
        lambda stream: stream.push(123.456789, subject=7),
        lambda stream: stream.push(123.456789, time="today", subject="ada"),
        lambda stream: stream.push(math.nan, subject="ada"),
        lambda stream: stream.push("text", time=datetime(2024, 1, 1, tzinfo=UTC), subject="ada"),
        lambda stream: stream.extend([123.456789], subjects=[7]),
    ],
)
def test_a_record_that_is_refused_leaves_nothing_in_memory(refused: Callable[[Stream], object]) -> None:
    stream = Stream(Mean(), retention=96, seed=0)
    stream.push(1.0)
    before = pickle.dumps(stream)
    with pytest.raises(DataError):
        refused(stream)
    assert pickle.dumps(stream) == before


def test_an_interrupt_leaves_nothing_of_a_record_that_was_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    stream = Stream(Mean(), retention=96, seed=0)
    monkeypatch.setattr(stream._state.pending, "label_next", interrupt)
    with pytest.raises(KeyboardInterrupt):
        stream.push(123.456789, subject="ada")
    assert not stream._state.pending.values.any()
