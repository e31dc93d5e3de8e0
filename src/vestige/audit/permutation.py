"""How improbable a pattern is where chance alone decides: the pattern ranked among re-dealt copies of itself.

Permutation tests in the manner of Fisher (1935), by Monte Carlo (Dwass 1957): the pattern itself is the first row of a
table, copies that chance makes just as likely are the others, and each row gets a score. Where several scores are
taken, a row counts by its best rank in any of them (Westfall and Young 1993), so that looking many ways costs nothing
beyond the ranking.
Guarantee: under the null each p-value is at most x with a chance of at most x, exactly, for any number of copies; held
by tests/audit/test_detector.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from vestige import channels
from vestige.types import Bools, Floats, Ints

_AT_ONCE = 1 << 22
"""Records dealt at a time."""
_NEAR = 1e-3
"""Averages nearer than a thirtieth of what chance allows count no more, so that ties and rounding do not decide."""
_BORROWED = 0.01
"""Each batch's variance is its own but for so much of a record's share, so that one of single records has one too."""


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """A batch as an auditor sees it.

    Attributes:
        first: its first round.
        present: which of its rounds are held; shape (length,).
        free: which of them could be kept or dropped at will; shape (length,).
        slots: where the records that are held and free lie; shape (kept,).
        values: theirs; shape (kept, columns).
    """

    first: int
    present: Bools
    free: Bools
    slots: Ints
    values: Floats

    @property
    def chosen(self) -> bool:
        """Whether some were kept and some were not, so that there was a choice."""
        return 0 < len(self.slots) < int(self.free.sum())

    def share_dropped(self, start: int, step: int) -> float:
        """The share of the free records that was dropped, of every step-th from `start` on."""
        free = self.free[start::step]
        return 1.0 - float((self.present[start::step] & free).sum()) / max(1, int(free.sum()))


def p_value(scores: Floats) -> float:
    """The p-value of the first row, by its best rank in any column; a high score is improbable; shape (rows, ways).

    >>> p_value(np.array([[9.0], [1.0], [9.0], [2.0]]))
    0.5
    """
    best = np.ones(len(scores))
    for score in scores.T:
        not_below = len(score) - np.searchsorted(np.sort(score), score)
        best = np.minimum(best, not_below / len(score))
    return float(np.mean(best <= best[0]))


def reshuffled(batch: Batch, draws: int, rng: np.random.Generator) -> Bools:
    """The batch's presence, then copies with the kept ones anywhere among the free; shape (1 + draws, length)."""
    patterns = np.tile(batch.present, (draws + 1, 1))
    patterns[1:, batch.free] = rng.permuted(patterns[1:, batch.free], axis=1)
    return patterns


class Slots:
    """How often each slot is kept over many batches of one length, beside re-shuffled ones."""

    def __init__(self, draws: int, length: int) -> None:
        self.batches = 0
        self._counts = np.zeros((draws + 1, length), np.int32)
        self._expected, self._variance = np.zeros(length), np.zeros(length)

    def add(self, batch: Batch, patterns: Bools) -> None:
        """Count one batch, and its copies."""
        rate = 1.0 - batch.share_dropped(0, 1)
        self.batches += 1
        self._counts += patterns & batch.free
        self._expected += batch.free * rate
        self._variance += batch.free * (rate * (1.0 - rate))

    def scores(self) -> Floats:
        """The squares of what is too often or too rarely kept, summed; and the most extreme one; shape (rows, 2)."""
        squares = (self._counts - self._expected) ** 2
        least = np.where(self._variance > 0.0, self._variance, np.inf)
        return np.column_stack((squares.sum(axis=1), (squares / least).max(axis=1)))


def slot_p_value(tables: Sequence[Slots]) -> float | None:
    """Over batches of any lengths, of which only those of the same length are compared; None if no two are."""
    asked = [table.scores() for table in tables if table.batches > 1]
    if not asked:
        return None
    return p_value(np.column_stack((sum(made[:, 0] for made in asked), np.max([m[:, 1] for m in asked], axis=0))))


def word_p_value(patterns: Bools, centre: Floats, spread: Floats) -> float | None:
    """Of one batch: whether its presence spells a likely mean, in any way that Vestige spells; None if it is too short.

    A number is scored by its chance as a mean near the kept records' centre over its chance as a random word: floats
    lie the closer together the smaller they are, so that near zero a random word is no surprise.
    """
    columns, length = len(centre), patterns.shape[1]
    scores = [
        _likely_mean(_read(patterns, size, flagged, columns), centre, spread)
        for size, flagged in _ways(columns)
        if length // size >= channels.PresenceWords.min_batch
    ]
    return p_value(np.column_stack(scores)) if scores else None


def _ways(columns: int) -> Iterator[tuple[int, bool]]:
    """How many numbers a batch may hold with the means first, and whether segments have flags."""
    yield columns, True
    several = {columns, 2 * columns, columns * (columns + 3) // 2} | ({3, 4} if columns == 1 else set())
    for size in sorted(several):
        yield size, False


def _read(patterns: Bools, size: int, flagged: bool, columns: int) -> Floats:
    from vestige.audit.kernels import read_patterns  # noqa: PLC0415

    words = np.empty((len(patterns), columns))
    read_patterns(patterns, size, flagged, words)
    return words


def _likely_mean(words: Floats, centre: Floats, spread: Floats) -> Floats:
    """The log of the ratio of the two chances, over all columns, with tails for a mean that has drifted away."""
    scale = np.maximum(np.maximum(spread, 1e-9 * np.abs(centre)), 1e-300)
    with np.errstate(all="ignore"):
        score = np.log(np.abs(words)) - 2.0 * np.log(np.hypot(1.0, (words - centre) / scale))
    made: Floats = np.where(np.isfinite(score), score, -np.inf).sum(axis=1)
    return made


def average_p_value(
    batches: Sequence[Batch], draws: int, rng: np.random.Generator
) -> tuple[float | None, list[float | None]]:
    """Whether kept averages move too little from batch to batch, in any column; over all, and for each batch.

    The kept records are dealt anew among the places where they are kept. Only the first row, the real one, is measured
    by what re-sampling within its batch leaves to chance, which is less: so the test stays exact for exchangeable
    records, and records that vary within batches more than between them (days, say) do not raise false alarms.
    """
    pooled = np.concatenate([batch.values for batch in batches])
    pooled = pooled - pooled.mean(axis=0)
    spread = np.sqrt(np.mean(pooled**2, axis=0))
    ways = [_Way(batches, *way) for way in _segments(pooled.shape[1]) if spread[way[0]] > 0.0]
    ways = [way for way in ways if len(way.groups) > 1]
    for way in ways:
        way.start(pooled[:, way.column] / spread[way.column], draws)
    if ways:
        for rows, order in _dealt(len(pooled), draws, rng):
            for way in ways:
                way.deal(rows, order)
    each: list[float | None] = []
    for i in range(len(batches)):
        nearness = [way.nearness(i) for way in ways if i in way.groups[1:]]
        each.append(p_value(np.column_stack(nearness)) if nearness else None)
    return (p_value(_most_extreme([way.score() for way in ways])) if ways else None), each


def _most_extreme(scores: Sequence[Floats]) -> Floats:
    """The score furthest out in deviations of its own way: for many ways, where best ranks would tie; one column."""
    table = np.column_stack(scores)
    spread = table.std(axis=0)
    made: Floats = ((table - table.mean(axis=0)) / np.where(spread > 0.0, spread, 1.0)).max(axis=1, keepdims=True)
    return made


def _segments(columns: int) -> Iterator[tuple[int, int, int]]:
    """A column, and of which records: all of them, and every columns-th."""
    for column in range(columns):
        yield column, 0, 1
        if columns > 1:
            yield column, column, columns


def _dealt(records: int, draws: int, rng: np.random.Generator) -> Iterator[tuple[slice, Ints]]:
    """Orders of the records, the real one first, some rows at a time."""
    many = max(2, _AT_ONCE // max(1, records))
    for start in range(0, draws + 1, many):
        rows = slice(start, min(start + many, draws + 1))
        order = np.tile(np.arange(records), (rows.stop - start, 1))
        order[start == 0 :] = rng.permuted(order[start == 0 :], axis=1)
        yield rows, order


class _Way:
    """One column's averages over the batches, of all kept records or of one segment, beside re-dealt ones."""

    def __init__(self, batches: Sequence[Batch], column: int, start: int, step: int) -> None:
        self.column = column
        mine = [batch.slots % step == start for batch in batches]
        dropped = [batch.share_dropped(start, step) for batch in batches]
        self.groups = [i for i, kept in enumerate(mine) if kept.any() and dropped[i] > 0.0]
        asked = np.concatenate([kept & (i in self.groups) for i, kept in enumerate(mine)])
        self._places = np.flatnonzero(asked)
        self._sizes = np.array([int(mine[i].sum()) for i in self.groups])
        self._dropped = np.array([dropped[i] for i in self.groups])

    def start(self, values: Floats, draws: int) -> None:
        """With the pooled values, of mean 0 and deviation 1."""
        self._values = values
        self._gaps = np.empty((draws + 1, len(self.groups) - 1))

    def deal(self, rows: slice, order: Ints) -> None:
        """Measure some rows: the squared step of each average, over its variance."""
        dealt = self._values[order[:, self._places]]
        starts = np.cumsum(self._sizes) - self._sizes
        averages = np.add.reduceat(dealt, starts, axis=1) / self._sizes
        within = np.maximum(np.add.reduceat(dealt**2, starts, axis=1) - self._sizes * averages**2, 0.0)
        usual = within.sum(axis=1, keepdims=True) / max(1, int((self._sizes - 1).sum()))
        usual[usual == 0.0] = 1.0
        variances = (within + _BORROWED * usual) / (self._sizes - 1 + _BORROWED) / self._sizes
        if rows.start == 0:
            variances[0] *= self._dropped
        self._gaps[rows] = np.diff(averages, axis=1) ** 2 / (variances[:, 1:] + variances[:, :-1])

    def score(self) -> Floats:
        """How much nearer than that the averages follow one another, over all batches."""
        made: Floats = -np.log(self._gaps + _NEAR).sum(axis=1)
        return made

    def nearness(self, batch: int) -> Floats:
        """How near the batch's average is to the one before."""
        made: Floats = -self._gaps[:, self.groups.index(batch) - 1]
        return made
