"""The rows of an export: what a snapshot of a store holds, and when it is due.

A stream whose policy cannot be made again has no answer, but its records are copied; one that cannot be read is named.
Guarantee: the answers and the records are those of the store; held by tests/test_cli_export.py.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import islice
from typing import TypeVar

from vestige.cli.export.layout import ABOUT, ESTIMATES, RECEIPTS, RECORDS, STREAMS, list_comments
from vestige.cli.receipts import receipt_facts
from vestige.cli.store import find_values, list_labels
from vestige.cli.store_answers import StoreAnswers
from vestige.store import State, StoreSnapshot, Terms
from vestige.times import add_duration

Row = tuple[object, ...]
Part = tuple[str, list[Row]]
"""The name of a table, and some of its rows."""
T = TypeVar("T")
_STREAMS, _ROWS = 500, 10_000
"""Number of streams, and of estimates, that are copied at a time."""
_TIMES = [column.name for column in RECEIPTS.columns if column.kind == "time"]


@dataclass(frozen=True, slots=True)
class Deadline:
    """When a copy of records must be deleted: as soon as the store may not hold one of them any longer.

    Attributes:
        time: the time at which the oldest record is due, in UTC; None if there is no limit in time.
        t: number of arrivals at which the oldest record, or one that was asked to leave, is due; None if there is no
            limit in records.
    """

    time: datetime | None = None
    t: int | None = None

    @classmethod
    def from_stream(cls, terms: Terms, state: State) -> Deadline:
        """Find the deadline of the records of a stream.

        Args:
            terms: its limits.
            state: what it holds.

        Returns:
            The deadline; of nothing if no record is held.

        Example:
            >>> Deadline.from_stream(Terms({}, 1, 8, retention=8), State.empty(1))
            Deadline(time=None, t=None)
        """
        held = state.retained
        if not len(held):
            return cls()
        rounds = [] if terms.retention is None else [int(held.rounds[0]) + terms.retention]
        if held.leaving.any():
            rounds += [each.due_round for each in state.receipts if each.erased is None and each.due_round is not None]
        times = [time.replace(tzinfo=UTC) for time in held.times.tolist() if time is not None]
        due = None if terms.max_age is None or not times else add_duration(min(times), terms.max_age)
        return cls(due, min(rounds, default=None))


class Contents:
    """What an export holds, made while it is written, so that a store of a million streams fits.

    Args:
        copy: the store.
        now: the present time.

    Attributes:
        counts: number of rows of each table that were made, by its name.
        records: number of records.
        delete_by: the time by which the copy must be deleted; None if no stream in it has a limit in time.
        arrivals_left: the stream in which a record is due next by its limit in records, and the arrivals until then.
        troubles: what is wrong with streams, one sentence each.
    """

    def __init__(self, copy: StoreSnapshot, now: datetime) -> None:
        self._copy, self._now = copy, now
        self._answers = StoreAnswers.ask(copy)
        self.counts: Counter[str] = Counter()
        self.records = 0
        self.delete_by: datetime | None = None
        self.arrivals_left: tuple[str, int] | None = None
        self.troubles: Mapping[str, str] = self._answers.troubles

    def iterate(self, tell: Callable[[float], None]) -> Iterator[Part]:
        """Make the rows of all tables; may be called again for another database.

        Args:
            tell: called with the share that is done.

        Yields:
            The name of a table, and some of its rows.
        """
        self.counts.clear()
        self.records = 0
        for name, rows in self._iterate(tell):
            self.counts[name] += len(rows)
            yield name, rows

    def _iterate(self, tell: Callable[[float], None]) -> Iterator[Part]:
        yield ABOUT.name, list(list_comments())
        for estimates in _split(self._answers.iterate_rows(), _ROWS):
            yield ESTIMATES.name, [tuple(row[column.name] for column in ESTIMATES.columns) for row in estimates]
        given: dict[str, tuple[Terms, State]] = {}
        names = self._copy.names
        for done, part in enumerate(_split(names, _STREAMS)):
            streams, records = list[Row](), list[Row]()
            for name in part:
                known = self._copy.streams.get(name)
                streams.append((name, *self._describe(name, known), _to_utc(self._now)))
                if known is not None:
                    records += _list_records(name, *known)
                    given |= {name: known} if known[1].receipts else {}
            yield STREAMS.name, streams
            yield RECORDS.name, records
            tell((done + 1) * _STREAMS / max(len(names), _STREAMS))
        yield RECEIPTS.name, list(_list_receipts(replace(self._copy, streams=given), self._now))

    def _describe(self, name: str, known: tuple[Terms, State] | None) -> Row:
        """The terms, the public clock and the deadline of a stream, which are added up."""
        if known is None:
            return (None,) * (len(STREAMS.columns) - 2)
        due, (_, state) = Deadline.from_stream(*known), known
        self.records += len(state.retained)
        if due.time is not None:
            self.delete_by = due.time if self.delete_by is None else min(self.delete_by, due.time)
        left = None if due.t is None else max(due.t - state.clock.t, 0)
        if left is not None and (self.arrivals_left is None or left < self.arrivals_left[1]):
            self.arrivals_left = name, left
        return *_describe_stream(*known), _to_utc(due.time), due.t


def _split(rows: Iterable[T], size: int) -> Iterator[list[T]]:
    """Some at a time."""
    left = iter(rows)
    while part := list(islice(left, size)):
        yield part


def _describe_stream(terms: Terms, state: State) -> Row:
    """The terms and the public clock of a stream."""
    age = None if terms.max_age is None else terms.max_age.total_seconds()
    parameters = json.dumps(terms.policy["parameters"])
    clock, held = state.clock, len(state.retained)
    return terms.policy["name"], parameters, terms.retention, age, clock.t, clock.since, held


def _list_receipts(copy: StoreSnapshot, now: datetime) -> Iterator[Row]:
    for given in replace(copy, ledger_trouble="").find_receipts(now):  # those that can be read; the command says so
        facts = receipt_facts(*given)
        times = {name: datetime.fromisoformat(str(facts[name])) for name in _TIMES if facts[name] is not None}
        facts |= {name: _to_utc(time) for name, time in times.items()}
        yield tuple(facts[column.name] for column in RECEIPTS.columns)


def _list_records(name: str, terms: Terms, state: State) -> Iterator[Row]:
    held, labels = state.retained, list_labels(terms)
    columns = (held.rounds, held.times, held.subjects, held.leaving, held.rounds > state.clock.last)
    listed = (*(column.tolist() for column in columns), find_values(terms, held))
    for *labelled, values in zip(*listed, strict=True):
        for label, value in zip(labels, values, strict=True):
            yield (name, *labelled, label, *_write_value(value))


def _write_value(value: float | str) -> tuple[float | None, str | None]:
    """A value as a float, and its text where that is not the same."""
    if isinstance(value, float):
        return None if math.isnan(value) else value, None
    return None if isinstance(value, str) else float(value), str(value)


def _to_utc(moment: datetime | None) -> datetime | None:
    """A time in UTC without a zone, as databases keep it."""
    return None if moment is None else moment.astimezone(UTC).replace(tzinfo=None)
