"""The answers of all streams: means by a kernel on all cores, all others and what is unusual one by one.

Guarantee: the same as `make_estimate` of each stream; held by tests/keyed/test_estimates.py.
"""

from __future__ import annotations

from bisect import bisect_left
from concurrent.futures import Executor
from typing import Any

import numpy as np

from vestige.clock import Clock
from vestige.errors import NoAnswerError, NoRecordsError, RuleError
from vestige.keyed.counts import KeyedCounts
from vestige.keyed.estimates import KeyedEstimates
from vestige.keyed.layout import STREAMS
from vestige.keyed.names import KeyNames, Texts, read_keys
from vestige.keyed.shards import Shards
from vestige.keyed.tables import CodedTexts, LazyColumns, SparseTexts
from vestige.keyed.terms import find_mode
from vestige.keyed.workers import run_tasks
from vestige.policies import Mean
from vestige.policies.rounding import note_rounding
from vestige.stream.estimate import find_notes, make_estimate
from vestige.types import Bools, Floats, Ints

_COUNTS = ("since", "counted", "held", "t")
_KIND = 32
"""Number of bits after which the length of a batch stands beside the bits of its word."""


def count_streams(shards: Shards, names: KeyNames, numbers: Ints) -> KeyedCounts:
    """Count the records of streams.

    Args:
        shards: the streams.
        names: their names.
        numbers: which streams; shape (n,).

    Returns:
        The numbers of records.
    """
    found = {name: np.zeros(len(numbers), np.int64) for name in _COUNTS}
    places = numbers // STREAMS
    for place, shard in enumerate(shards):
        rows = np.flatnonzero(places == place)
        keys, hides_waiting = numbers[rows] - place * STREAMS, shards.rules.policy.hides_waiting
        for name, column in shard.count_records(keys, hides_waiting=hides_waiting).items():
            found[name][rows] = column
    texts = names.texts
    copied = Texts(texts.offsets.copy(), texts.content.copy())  # a name that is erased later does not stay half there
    return KeyedCounts(CodedTexts(copied, numbers), **found)


def make_estimates(
    shards: Shards, names: KeyNames, numbers: Ints, workers: Executor, *, waiting: bool = False
) -> KeyedEstimates:
    """Compute the answers of streams.

    Args:
        shards: the streams.
        names: their names.
        numbers: which streams; shape (n,).
        workers: compute means.
        waiting: see `Stream.estimate`.

    Returns:
        One row for each stream and number; a stream without an answer has one row that says why.
    """
    policy = shards.rules.policy
    if find_mode(policy) < 0 or not isinstance(policy, Mean):
        listed = (_ask(shards, names, number, waiting=waiting) for number in numbers.tolist())
        return KeyedEstimates.from_rows([row for rows in listed for row in rows])
    values, answered = _compute_means(shards, numbers, workers)
    counts = count_streams(shards, names, numbers)
    answered &= ~_find_rounded(shards, policy, numbers, counts.counted, answered)
    others = {int(row): _ask(shards, names, int(numbers[row])) for row in np.flatnonzero(~answered)}
    notes = {}
    for row in np.flatnonzero(answered & _find_unusual(shards, numbers)):
        clock = shards.read_clock(int(numbers[row]))
        notes[int(row)] = " ".join(find_notes(policy, shards.rules.batch, clock, int(counts.counted[row])))
    return _Table(counts, values, others, notes).make()


def _ask(shards: Shards, names: KeyNames, number: int, *, waiting: bool = False) -> list[dict[str, Any]]:
    """The rows of one stream."""
    if number in shards.blocked:
        return [{"stream": names[number], "problem": str(shards.blocked[number])}]
    clock, retained = shards.read(number)
    try:
        made = make_estimate(shards.rules.policy, shards.rules.batch, clock, retained, waiting=waiting)
    except (NoAnswerError, NoRecordsError, RuleError) as problem:
        return [{"stream": names[number], "t": clock.t, "since": clock.since, "problem": str(problem)}]
    return [{"stream": names[number], **row} for row in made.to_rows()]


def _compute_means(shards: Shards, numbers: Ints, workers: Executor) -> tuple[Floats, Bools]:
    """The means of streams, and which of these are as they should be."""
    from vestige.keyed.answer_kernels import answer_each  # noqa: PLC0415
    from vestige.keyed.batch_kernels import make_batch  # noqa: PLC0415
    from vestige.statistics.kernels import find_weights  # noqa: PLC0415

    rules, terms = shards.rules, shards.make_terms()
    columns, places = rules.policy.columns, numbers // STREAMS
    weights = np.array(find_weights(np.ones(rules.batch, np.bool_), terms.decay))
    values, answered = np.full((len(numbers), columns), np.nan), np.zeros(len(numbers), np.bool_)

    def work(place: int) -> None:
        shard, rows = shards[place], np.flatnonzero(places == place)
        batch = make_batch(rules.batch, max(rules.batch, shard.longest), columns, *shard.labels)
        made, fine = np.empty((len(rows), columns)), np.empty(len(rows), np.bool_)
        keys = numbers[rows] - place * STREAMS
        answer_each(shard.columns, shard.arena, keys, terms, batch, weights, made, fine)
        values[rows], answered[rows] = made, fine

    run_tasks(workers, work, np.unique(places).tolist())
    return values, answered


def _find_unusual(shards: Shards, numbers: Ints) -> Bools:
    """Which streams have something to say of how their answers came about, of those that are kept in the arrays."""
    since, gaps, length = (
        shards.gather(name, numbers, blank) for name, blank in (("since", 1), ("gaps", 0), ("length", 0))
    )
    unusual: Bools = (since > 1) | (gaps > 0) | ((length > 0) & (length != shards.rules.batch))
    return unusual


def _find_rounded(shards: Shards, policy: Mean, numbers: Ints, counted: Ints, answered: Bools) -> Bools:
    """Which streams may have been rounded so often that it matters: the more updates and records, the more it does."""
    from vestige.statistics.kernels import find_worth  # noqa: PLC0415

    length, updates = shards.gather("length", numbers, 0), shards.gather("updates", numbers, 0)
    kinds = (length << _KIND) | shards.gather("bits", numbers, shards.bits)
    rounded = np.zeros(len(numbers), np.bool_)
    for kind in np.unique(kinds[answered & (length > 0)]).tolist():
        size, width = kind >> _KIND, kind & ((1 << _KIND) - 1)
        group = np.flatnonzero(answered & (kinds == kind))
        group = group[np.argsort(counted[group], kind="stable")]
        most = np.maximum.accumulate(updates[group])

        def is_rounded(row: int, size: int = size, width: int = width, group: Ints = group, most: Ints = most) -> bool:
            records = max(int(counted[group[row]]), size)
            clock = Clock(records, records - size + 1, records, updates=int(most[row]), bits=width)
            worth = float(find_worth(int(counted[group[row]]), policy.decay))
            return bool(note_rounding(policy._find_rounding(clock), worth))

        rounded[group[bisect_left(range(len(group)), True, key=is_rounded) :]] = True
    return rounded


class _Table:
    """Makes columns of the means of streams, and of the rows of those that are unlike the others."""

    def __init__(
        self, counts: KeyedCounts, values: Floats, others: dict[int, list[dict[str, Any]]], notes: dict[int, str]
    ) -> None:
        self._counts, self._values, self._others, self._notes = counts, values, others, notes
        sizes = np.full(len(counts), values.shape[1])
        for row, made in others.items():
            sizes[row] = len(made)
        self._first = np.cumsum(sizes) - sizes
        self._stream = np.repeat(np.arange(len(counts)), sizes)

    def make(self) -> KeyedEstimates:
        """The columns."""
        n, columns = len(self._stream), self._values.shape[1]
        metric = np.arange(n) - self._first[self._stream]
        nothing, unknown = np.full(n, np.nan), np.zeros(n, np.bool_)
        made: dict[str, Any] = {
            "stream": self._counts.streams.select(self._stream),
            "metric": CodedTexts(read_keys([str(i + 1) for i in range(columns)]), metric),
            "value": self._values[self._stream, np.minimum(metric, columns - 1)],
            **{name: nothing.copy() for name in ("standard_error", "lower", "upper")},
            **{name: getattr(self._counts, name)[self._stream] for name in _COUNTS},
            "missed": unknown,
        }
        made["as_of"] = made["t"].copy()
        notes = {int(self._first[row]) + i: text for row, text in self._notes.items() for i in range(columns)}
        problems: dict[int, str] = {}
        for row, rows in self._others.items():
            for here, each in enumerate(rows, int(self._first[row])):
                self._put(made, here, each, notes, problems)
        return KeyedEstimates(
            LazyColumns({**made, "notes": SparseTexts(n, notes), "problem": SparseTexts(n, problems)})
        )

    def _put(
        self, made: dict[str, Any], row: int, each: dict[str, Any], notes: dict[int, str], problems: dict[int, str]
    ) -> None:
        """Put a row of a stream that was asked by itself in its place."""
        for name in ("value", "standard_error", "lower", "upper"):
            made[name][row] = np.nan if each.get(name) is None else each[name]
        for name in (*_COUNTS, "as_of"):
            made[name][row] = each.get(name) or 0
        made["missed"][row] = bool(each.get("missed"))
        if each.get("metric") is None:
            made["metric"].codes[row] = -1
        if each.get("notes"):
            notes[row] = each["notes"]
        if each.get("problem"):
            problems[row] = each["problem"]
