"""The rows of an export: what a snapshot of a store holds, and when it is due.

A stream whose policy cannot be made again has no answer, but its records are copied; one that cannot be read is named.
Guarantee: the answers and the records are those of the store; held by tests/test_cli_export.py.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from vestige.cli.answers import StreamAnswer
from vestige.cli.export.layout import ABOUT, ESTIMATES, RECEIPTS, RECORDS, STREAMS, TABLES, list_comments
from vestige.cli.receipts import receipt_facts
from vestige.cli.rows import list_rows
from vestige.cli.store import list_labels
from vestige.store import State, StoreSnapshot, Terms
from vestige.times import add_duration

Row = tuple[object, ...]
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


@dataclass(frozen=True, slots=True)
class Contents:
    """What an export holds.

    Attributes:
        rows: the rows of each table, by its name.
        records: number of records.
        deadlines: the deadline of each stream that holds records.
        arrived: number of records that have arrived in each of these streams.
        troubles: what is wrong with streams, one sentence each.
    """

    rows: Mapping[str, list[Row]]
    records: int
    deadlines: Mapping[str, Deadline]
    arrived: Mapping[str, int]
    troubles: Mapping[str, str]

    @classmethod
    def from_snapshot(cls, copy: StoreSnapshot, now: datetime) -> Contents:
        """Collect what a snapshot holds.

        Args:
            copy: the snapshot.
            now: the present time.

        Returns:
            The contents.
        """
        made, unanswered = answer_streams(copy)
        answers = made | unanswered
        rows: dict[str, list[Row]] = {table.name: [] for table in TABLES}
        rows[ABOUT.name] += list_comments()
        rows[ESTIMATES.name] += _list_estimates({name: answers[name] for name in copy.names})
        rows[RECEIPTS.name] += _list_receipts(copy, now)
        holding = {name: known for name, known in copy.streams.items() if len(known[1].retained)}
        deadlines = {name: Deadline.from_stream(*known) for name, known in holding.items()}
        for name in copy.names:
            if name not in copy.streams:
                rows[STREAMS.name].append((name, *(None,) * (len(STREAMS.columns) - 2), _to_utc(now)))
                continue
            terms, state = copy.streams[name]
            due = deadlines.get(name, Deadline())
            rows[STREAMS.name].append((name, *_describe_stream(terms, state), _to_utc(due.time), due.t, _to_utc(now)))
            rows[RECORDS.name] += _list_records(name, terms, state)
        held = sum(len(state.retained) for _, state in holding.values())
        arrived = {name: state.clock.t for name, (_, state) in holding.items()}
        return cls(rows, held, deadlines, arrived, {name: answer.problem for name, answer in unanswered.items()})

    @property
    def delete_by(self) -> datetime | None:
        """The time by which the copy must be deleted; None if no stream in it has a limit in time."""
        return min((due.time for due in self.deadlines.values() if due.time is not None), default=None)

    @property
    def arrivals_left(self) -> tuple[str, int] | None:
        """The stream in which a record is due next by its limit in records, and the arrivals until then."""
        left = {name: due.t - self.arrived[name] for name, due in self.deadlines.items() if due.t is not None}
        name = min(left, key=left.__getitem__, default=None)
        return None if name is None else (name, max(left[name], 0))


def _describe_stream(terms: Terms, state: State) -> Row:
    """The terms and the public clock of a stream."""
    age = None if terms.max_age is None else terms.max_age.total_seconds()
    parameters = json.dumps(terms.policy["parameters"])
    clock, held = state.clock, len(state.retained)
    return terms.policy["name"], parameters, terms.retention, age, clock.t, clock.since, held


def _list_estimates(answers: Mapping[str, StreamAnswer]) -> Iterator[Row]:
    for row in list_rows(answers):
        yield tuple(row[column.name] for column in ESTIMATES.columns)


def _list_receipts(copy: StoreSnapshot, now: datetime) -> Iterator[Row]:
    for given in replace(copy, ledger_trouble="").find_receipts(now):  # those that can be read; the command says so
        facts = receipt_facts(*given)
        times = {name: datetime.fromisoformat(str(facts[name])) for name in _TIMES if facts[name] is not None}
        facts |= {name: _to_utc(time) for name, time in times.items()}
        yield tuple(facts[column.name] for column in RECEIPTS.columns)


def _list_records(name: str, terms: Terms, state: State) -> Iterator[Row]:
    held, labels = state.retained, list_labels(terms)
    columns = (held.rounds, held.times, held.subjects, held.leaving, held.rounds > state.clock.last, held.values)
    for *labelled, values in zip(*(column.tolist() for column in columns), strict=True):
        for label, value in zip(labels, values, strict=True):
            yield (name, *labelled, label, None if math.isnan(value) else value)


def _to_utc(moment: datetime | None) -> datetime | None:
    """A time in UTC without a zone, as databases keep it."""
    return None if moment is None else moment.astimezone(UTC).replace(tzinfo=None)
