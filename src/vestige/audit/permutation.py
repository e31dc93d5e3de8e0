"""P-values of a pattern under pure chance: the pattern is ranked among random permutations of itself.

Permutation tests as in Fisher (1935), by Monte Carlo (Dwass 1957, https://doi.org/10.1214/aoms/1177707045): the
observed pattern is the first row of a table, permutations that are equally likely under the null hypothesis are the
others, and each row gets a score. With several scores a row is ranked by its best rank in any of them (Westfall and
Young 1993), so several scores need no further correction.
Guarantee: under the null hypothesis each p-value is at most x with a probability of at most x, exactly, for any number
of permutations; held by tests/audit/test_detector.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from vestige.types import Bools, Floats, Ints

_CHUNK_RECORDS = 1 << 22
"""Number of records that are permuted at a time."""
_MIN_GAP = 1e-3
"""Averages closer than a thirtieth of the expected gap count as equally close: ties and rounding must not decide."""
_SHRINKAGE = 0.01
"""Weight of the pooled variance, in records, in the variance of each batch: a batch of one record needs one too."""
_PARTS = (2, 3, 4)
"""Numbers of parts of a batch whose averages are compared."""


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """A batch as an auditor sees it.

    Attributes:
        first: its first round.
        present: which of its rounds are retained; shape (length,).
        free: which of them could be kept or dropped freely; shape (length,).
        slots: positions of the records that are retained and free; shape (kept,).
        values: values of these records; shape (kept, columns).
    """

    first: int
    present: Bools
    free: Bools
    slots: Ints
    values: Floats

    @property
    def has_choice(self) -> bool:
        """Whether some records were kept and some were not."""
        return 0 < len(self.slots) < int(self.free.sum())

    def drop_rate(self, start: int = 0, step: int = 1) -> float:
        """Compute the share of the free records that were dropped, among every `step`-th from `start` on.

        Args:
            start: position of the first record.
            step: distance between records.

        Returns:
            The share, from 0 to 1.

        Example:
            >>> present, free = np.array([True, False, True, False]), np.ones(4, bool)
            >>> Batch(1, present, free, np.array([0, 2]), np.zeros((2, 1))).drop_rate()
            0.5
        """
        free = self.free[start::step]
        return 1.0 - float((self.present[start::step] & free).sum()) / max(1, int(free.sum()))


def p_value(scores: Floats) -> float:
    """Compute the p-value of the first row, by its best rank in any column; a high score is improbable.

    Each column has a row that is its best, so best ranks tie: then the largest standardized score decides.

    Args:
        scores: one row for the observed pattern, then one for each permutation; shape (rows, scores). What is not a
            number, where values are too large or too small to compute with, counts as the lowest score.

    Returns:
        The share of rows that are at least as good as the first one.

    Example:
        >>> p_value(np.array([[9.0], [1.0], [9.0], [2.0]]))
        0.5
    """
    best, largest = np.ones(len(scores)), np.full(len(scores), -np.inf)
    for score in map(_make_finite, scores.T):
        not_below = len(score) - np.searchsorted(np.sort(score), score)
        best = np.minimum(best, not_below / len(score))
        spread = score.std()
        largest = np.maximum(largest, (score - score.mean()) / (spread if spread > 0.0 else 1.0))
    return float(np.mean((best < best[0]) | ((best == best[0]) & (largest >= largest[0]))))


def _make_finite(score: Floats) -> Floats:
    """The scores of all rows with finite numbers in place of others, so that ranks and spreads can be computed."""
    finite = score[np.isfinite(score)]
    low, high = (finite.min(), finite.max()) if len(finite) else (0.0, 0.0)
    result: Floats = np.nan_to_num(score, nan=low, posinf=high, neginf=low)
    return result


def permute_presence(batch: Batch, trials: int, rng: np.random.Generator) -> Bools:
    """Permute which of the free records of a batch are kept.

    Args:
        batch: observed batch.
        trials: number of permutations.
        rng: generator to draw with.

    Returns:
        The observed presence, then the permutations; shape (1 + trials, length).

    Example:
        >>> batch = Batch(1, np.array([True, False]), np.ones(2, bool), np.array([0]), np.zeros((1, 1)))
        >>> permute_presence(batch, 3, np.random.default_rng(0)).sum(axis=1)
        array([1, 1, 1, 1])
    """
    patterns = np.tile(batch.present, (trials + 1, 1))
    patterns[1:, batch.free] = rng.permuted(patterns[1:, batch.free], axis=1)
    return patterns


class SlotCounts:
    """How often each slot is kept over many batches of one length, for the observed batches and their permutations.

    Args:
        trials: number of permutations.
        length: number of slots in a batch.

    Attributes:
        batches: number of batches counted so far.
    """

    def __init__(self, trials: int, length: int) -> None:
        self.batches = 0
        self._counts = np.zeros((trials + 1, length), np.int32)
        self._expected, self._variance = np.zeros(length), np.zeros(length)

    def add(self, batch: Batch, patterns: Bools) -> None:
        """Count one batch and its permutations.

        Args:
            batch: observed batch.
            patterns: result of `permute_presence`; shape (1 + trials, length).
        """
        rate = 1.0 - batch.drop_rate()
        self.batches += 1
        self._counts += patterns & batch.free
        self._expected += batch.free * rate
        self._variance += batch.free * (rate * (1.0 - rate))

    def score(self) -> Floats:
        """Score how far the counts are from their expectation.

        Returns:
            The sum of squared deviations, and the largest standardized one; shape (1 + trials, 2).
        """
        squares = (self._counts - self._expected) ** 2
        variance = np.where(self._variance > 0.0, self._variance, np.inf)
        return np.column_stack((squares.sum(axis=1), (squares / variance).max(axis=1)))


def slot_p_value(tables: Sequence[SlotCounts]) -> float | None:
    """Test whether the same slots are kept again and again; batches are compared with others of the same length.

    Args:
        tables: one table for each length.

    Returns:
        The p-value; None if no two batches have the same length.
    """
    scores = [table.score() for table in tables if table.batches > 1]
    if not scores:
        return None
    total, largest = sum(score[:, 0] for score in scores), np.max([score[:, 1] for score in scores], axis=0)
    return p_value(np.column_stack((total, largest)))


def average_p_value(
    batches: Sequence[Batch], trials: int, rng: np.random.Generator
) -> tuple[float | None, list[float | None]]:
    """Test whether the averages of the kept records move too little from batch to batch, in any column.

    The kept records are permuted among the slots where records are kept. Only the observed row is scaled by the
    variance that sampling within its batch leaves, which is smaller, and by how even the records are by nature, see
    `measure_evenness`: so the test stays exact for exchangeable records, and records that vary more within
    batches than between them do not raise false alarms.

    Args:
        batches: batches with a choice, in order.
        trials: number of permutations.
        rng: generator to draw with.

    Returns:
        The p-value over all batches, and one for each batch; None where there is nothing to compare with.
    """
    pooled = np.concatenate([batch.values for batch in batches])
    pooled = pooled - pooled.mean(axis=0)
    spread = np.sqrt(np.mean(pooled**2, axis=0))
    tests = [_AverageTest(batches, *part) for part in list_segments(pooled.shape[1]) if spread[part[0]] > 0.0]
    tests = [test for test in tests if len(test.groups) > 1]
    for test in tests:
        test.start(pooled[:, test.column] / spread[test.column], trials)
    if tests:
        for rows, order in _permute_records(len(pooled), trials, rng):
            for test in tests:
                test.measure(rows, order)
    each: list[float | None] = []
    for i in range(len(batches)):
        scores = [test.score_batch(i) for test in tests if i in test.groups[1:]]
        each.append(p_value(np.column_stack(scores)) if scores else None)
    return (p_value(np.column_stack([test.score() for test in tests])) if tests else None), each


def measure_evenness(values: Floats, sizes: Ints, variance: float) -> float:
    """Measure how evenly nature spreads values over parts of a batch.

    Cycles, double entries and lists that were dealt out make averages steady without anybody's choice, and those of
    parts of a batch too; a choice makes steady only what it aims at, the average of the whole batch. Parts are runs of
    records, or every second, third or fourth one.

    Args:
        values: the values of all batches, one batch after the other.
        sizes: number of values of each batch.
        variance: variance of values within batches.

    Returns:
        The variance of the averages of parts, relative to what chance expects; at most 1.

    Example:
        >>> measure_evenness(np.tile([1.0, -1.0], 50), np.array([50, 50]), 1.0) < 0.1
        True
    """
    squares, expected = np.zeros(2), 0.0
    for batch in np.split(values, np.cumsum(sizes)[:-1]):
        for count in (parts for parts in _PARTS if parts <= len(batch)):
            each = len(batch) // count
            used = batch[: each * count]
            for kind, parts in enumerate(
                (used.reshape(count, each).mean(axis=1), used.reshape(each, count).mean(axis=0))
            ):
                squares[kind] += each * ((parts - parts.mean()) ** 2).sum()
            expected += (count - 1) * variance
    return float(min(1.0, squares.min() / expected)) if expected else 1.0


def list_segments(columns: int) -> Iterator[tuple[int, int, int]]:
    """List each column with the records to average: all of them, or every columns-th, as in `average` and `auto`.

    Args:
        columns: number of columns.

    Yields:
        The column, the position of the first record, and the distance between records.

    Example:
        >>> list(list_segments(1))
        [(0, 0, 1)]
    """
    for column in range(columns):
        yield column, 0, 1
        if columns > 1:
            yield column, column, columns


def _permute_records(records: int, trials: int, rng: np.random.Generator) -> Iterator[tuple[slice, Ints]]:
    """Yield orders of the records, the observed one first, some rows at a time."""
    size = max(2, _CHUNK_RECORDS // max(1, records))
    for start in range(0, trials + 1, size):
        rows = slice(start, min(start + size, trials + 1))
        order = np.tile(np.arange(records), (rows.stop - start, 1))
        order[start == 0 :] = rng.permuted(order[start == 0 :], axis=1)
        yield rows, order


class _AverageTest:
    """The averages of one column over the batches, of all kept records or of one segment."""

    def __init__(self, batches: Sequence[Batch], column: int, start: int, step: int) -> None:
        self.column = column
        masks = [batch.slots % step == start for batch in batches]
        drop_rates = [batch.drop_rate(start, step) for batch in batches]
        self.groups = [i for i, mask in enumerate(masks) if mask.any() and drop_rates[i] > 0.0]
        used = np.concatenate([mask & (i in self.groups) for i, mask in enumerate(masks)])
        self._places = np.flatnonzero(used)
        self._sizes = np.array([int(masks[i].sum()) for i in self.groups])
        self._drop_rates = np.array([drop_rates[i] for i in self.groups])

    def start(self, values: Floats, trials: int) -> None:
        """Take the pooled values, standardized."""
        self._values = values
        self._gaps = np.empty((trials + 1, len(self.groups) - 1))

    def measure(self, rows: slice, order: Ints) -> None:
        """Measure some rows: the squared difference of successive averages, over its variance."""
        values = self._values[order[:, self._places]]
        starts = np.cumsum(self._sizes) - self._sizes
        averages = np.add.reduceat(values, starts, axis=1) / self._sizes
        within = np.maximum(np.add.reduceat(values**2, starts, axis=1) - self._sizes * averages**2, 0.0)
        pooled = within.sum(axis=1, keepdims=True) / max(1, int((self._sizes - 1).sum()))
        pooled[pooled == 0.0] = 1.0
        variances = (within + _SHRINKAGE * pooled) / (self._sizes - 1 + _SHRINKAGE) / self._sizes
        if rows.start == 0:
            variances[0] *= self._drop_rates * measure_evenness(values[0], self._sizes, float(pooled[0, 0]))
        self._gaps[rows] = np.diff(averages, axis=1) ** 2 / (variances[:, 1:] + variances[:, :-1])

    def score(self) -> Floats:
        """Score how close successive averages are, over all batches."""
        score: Floats = -np.log(self._gaps + _MIN_GAP).sum(axis=1)
        return score

    def score_batch(self, batch: int) -> Floats:
        """Score how close the average of a batch is to that of the batch before."""
        score: Floats = -self._gaps[:, self.groups.index(batch) - 1]
        return score
