"""One batch of one shard: its streams are read from bytes, take their rows, and become bytes again.

Millions of keys are a few hundred shards, and nothing is done per key in Python.
Guarantee: each stream is as one `vestige.Stream` with the same seed would be, bit for bit, whatever the batches and the
number of shards; held by tests/spark/test_shard.py.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vestige.errors import StreamsError
from vestige.keyed import KeyedEstimates, KeyedStreams
from vestige.keyed.arrivals import find_unfit
from vestige.keyed.names import KeyNames, read_keys
from vestige.spark.definition import Definition
from vestige.store import MemoryStore
from vestige.store.event import NEVER
from vestige.store.memory_rows import MemoryRows, pack_rows, unpack_rows
from vestige.store.names import LONGEST_NAME, explain_name, show_name
from vestige.stream.arrivals import find_fine, read_table
from vestige.stream.deadlines import find_ahead
from vestige.times import find_beyond_calendar, to_ticks, wall_clock
from vestige.types import Bools, Ints

_NO_KEY = f"rows without a key cannot be counted; give each 1 to {LONGEST_NAME:,} bytes of UTF-8, not NUL first"
_NO_VALUE = (
    "{:,} of its rows were refused: a value is missing, infinite, too large, too near to zero or a whole number beyond "
    "2^53 that no float holds, or the time is missing, ahead or beyond the calendar"
)
_UNFIT = "{:,} of its rows were refused: the policy does not take such values"
_LATE = (
    "{:,} of its rows were refused: they are dated before rows that came earlier, by more than lateness=... allows, "
    "which is nothing by default"
)


@dataclass(frozen=True)
class Rows:
    """Rows of one shard in one batch.

    Attributes:
        keys: the key of each row, a text or a whole number; None if it has none; shape (n,).
        values: floats or, with whole numbers beyond 2^53 among them, objects; shape (n, columns).
        times: microseconds since 1970; None if rows have no times; shape (n,).
        subjects: texts or None; None if rows have no subjects; shape (n,).
        order: columns by which the rows of a key are ordered, the most important first; each of shape (n,).
    """

    keys: NDArray[Any]
    values: NDArray[Any]
    times: Ints | None = None
    subjects: NDArray[np.object_] | None = None
    order: Sequence[NDArray[Any]] = ()

    def where(self, chosen: Ints | Bools) -> Rows:
        """Select rows.

        Args:
            chosen: which of them, in this order.

        Returns:
            These rows.
        """
        return Rows(
            self.keys[chosen],
            self.values[chosen],
            None if self.times is None else self.times[chosen],
            None if self.subjects is None else self.subjects[chosen],
            [column[chosen] for column in self.order],
        )

    def arrange(self) -> Rows:
        """Bring the rows into their order, as far as columns say it.

        Returns:
            The same rows.
        """
        return self.where(np.lexsort(list(self.order)[::-1])) if len(self.order) else self


@dataclass(frozen=True)
class Change:
    """What a batch makes of a shard.

    Attributes:
        packed: the streams as bytes; None if they are as they were.
        answers: the answers that have changed.
        refused: number of rows that were refused, by key; None is the key of rows without one.
        problems: why they were, or what failed in the stream, by key.
        due: when a sweep has something to do next, in microseconds since 1970; None if it never has.
    """

    packed: bytes | None
    answers: KeyedEstimates
    refused: dict[str | None, int] = field(default_factory=dict)
    problems: dict[str | None, str] = field(default_factory=dict)
    due: int | None = None


def change_shard(
    definition: Definition,
    packed: bytes | None,
    rows: Rows | None,
    *,
    subjects: Sequence[str] = (),
    now: int | None = None,
    secret: bytes | None = None,
) -> Change:
    """Let the streams of a shard take rows, meet requests, and erase what is due.

    Args:
        definition: what the streams are.
        packed: the streams as bytes; None if there are none yet.
        rows: the rows; None if there are none.
        subjects: whose records are to be removed, those among `rows` included.
        now: the time for which records are erased, in microseconds since 1970; None erases none by time.
        secret: the key that subjects are hashed with.

    Returns:
        What has changed.
    """
    stored = MemoryRows() if packed is None else unpack_rows(packed)
    streams, store = definition.open(stored, secret)
    before = _read_clocks(streams)
    refused, problems = dict[str | None, int](), dict[str | None, str]()
    if rows is not None:
        _take(definition, streams, rows, now, before, refused, problems)
    for subject in subjects:
        with _note_troubles(problems):
            streams.forget(subject=subject, keep_receipt=timedelta(0))
    if now is not None and definition.limits.max_age is not None:
        with _note_troubles(problems):
            streams.sweep(np.datetime64(now, "us"))
    streams.flush()
    made = pack_rows(stored)
    answers = streams.estimates(_find_changed(streams, before))
    return Change(None if made == packed else made, answers, refused, problems, _find_due(store))


@contextmanager
def _note_troubles(problems: dict[str | None, str]) -> Iterator[None]:
    """Note what failed in some streams, whose records were erased all the same; it must not stop the others."""
    try:
        yield
    except StreamsError as troubled:
        for key, problem in troubled.troubles.items():
            problems[key] = " ".join(filter(None, [problems.get(key), str(problem)]))


def _take(
    definition: Definition,
    streams: KeyedStreams[Any],
    rows: Rows,
    now: int | None,
    before: Ints,
    refused: dict[str | None, int],
    problems: dict[str | None, str],
) -> None:
    """Take rows; one that cannot be taken is left out, and counted."""

    def leave_out(rows: Rows, wrong: Bools, why: str) -> Rows:
        if not wrong.any():
            return rows
        for name, count in Counter(map(str, rows.keys[wrong])).items():
            _refuse(name, count, why.format(count), refused, problems)
        return rows.where(~wrong)

    nameless, why = _find_nameless(rows.keys)
    if nameless.any():
        refused[None], problems[None] = int(nameless.sum()), f"{_NO_KEY}{why}"
        rows = rows.where(~nameless)
    rows = leave_out(rows, _find_wrong(definition, rows, now), _NO_VALUE)
    table = read_table(rows.values, definition.policy)
    rows = leave_out(rows, find_unfit(definition.policy, table), _UNFIT).arrange()
    if rows.times is not None:
        rows = leave_out(rows, streams._find_late(rows.keys, rows.times), _LATE)
    if not len(rows.keys):
        return
    times = None if rows.times is None else rows.times.view("M8[us]")
    taken = streams.take(rows.keys, rows.values, times=times, subjects=rows.subjects)
    if taken.taken < len(rows.keys):
        for name, count in _count_left(streams, rows, before).items():
            trouble = taken.troubles.get(name)
            why = _LATE.format(count) if trouble is None else str(trouble.problem)
            _refuse(name, count, why, refused, problems)


def _refuse(name: str, count: int, why: str, refused: dict[str | None, int], problems: dict[str | None, str]) -> None:
    """Note rows of a key that were refused."""
    refused[name] = refused.get(name, 0) + count
    problems[name] = " ".join(filter(None, [problems.get(name), why]))


def _count_left(streams: KeyedStreams[Any], rows: Rows, before: Ints) -> dict[str, int]:
    """The number of rows that were not taken, by key, from the clocks of the streams before and after."""
    given, texts = KeyNames(), read_keys(rows.keys)
    counts = np.bincount(given.number(texts))
    numbers, after = streams.names.find_each(given.texts), _read_clocks(streams)[:, 0]
    was = np.zeros_like(after)
    np.maximum(before[:, 0], 0, out=was[: len(before)])
    left = counts - np.append(after - was, 0)[numbers]  # the last where there is no stream, of number -1
    offsets, content = given.texts.offsets, given.texts.content
    return {
        content[offsets[place] : offsets[place + 1]].tobytes().decode(): int(left[place])
        for place in np.flatnonzero(left)
    }


def _find_nameless(keys: NDArray[Any]) -> tuple[Bools, str]:
    """Which rows have no key that can name a stream; and what is wrong with the first such text, if there is one."""
    if keys.dtype.kind in "iu":
        return np.zeros(len(keys), np.bool_), ""
    nameless = np.array([not isinstance(key, str) or explain_name(key) != "" for key in keys], np.bool_)
    texts = (key for key in keys[nameless] if isinstance(key, str) and key)
    return nameless, next((f"; the key {show_name(key)} {explain_name(key)}" for key in texts), "")


def _find_wrong(definition: Definition, rows: Rows, now: int | None) -> Bools:
    """Which rows cannot be taken, as far as that depends on each of them alone."""
    wrong = np.zeros(len(rows.values), np.bool_)
    np.any(~find_fine(read_table(rows.values, definition.policy), definition.policy), axis=1, out=wrong)
    if rows.times is not None:
        times = rows.times.view("M8[us]")
        wrong |= find_beyond_calendar(times)
        if definition.limits.max_age is not None:
            wrong |= np.isnat(times)
            wrong |= find_ahead(definition.limits, times, to_ticks(wall_clock()) if now is None else now)
    return wrong


def _read_clocks(streams: KeyedStreams[Any]) -> Ints:
    """What an answer depends on, by the number of the stream; shape (streams, 4)."""
    there = np.flatnonzero(streams.names.is_there)
    counts, found = streams.counts(), np.full((streams.names.count, 4), -1)
    for column, name in enumerate(("t", "since", "counted", "held")):
        found[there, column] = getattr(counts, name)
    return found


def _find_changed(streams: KeyedStreams[Any], before: Ints) -> Any:
    """The keys of the streams that have changed, as a column; None if all have."""
    after = _read_clocks(streams)
    there, changed = np.flatnonzero(streams.names.is_there), np.ones(len(after), np.bool_)
    np.any(after[: len(before)] != before, axis=1, out=changed[: len(before)])
    if changed[there].all():
        return None
    return streams.counts().streams.select(there[changed[there]]).to_arrow()


def _find_due(store: MemoryStore) -> int | None:
    with store._use() as tables:
        heads, _ = tables.buckets.read_heads()
    due = int(heads.due.min(initial=NEVER))
    return None if due == NEVER else due
