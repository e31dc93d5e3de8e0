"""Where batches may have ended, from presence alone: an auditor knows neither borders nor clocks.

A system that chooses among the records of a batch holds some of the last batch, and all records since. So the records
of a snapshot are sparse up to a border and dense after it, and on a regular schedule the borders of all snapshots lie
on one grid. All grids are ranked by how well they fit; the tests take the best ones, or search them, and account for
the search.
Guarantee: the grid of a stream is among those that are found; held by tests/audit/test_schedule.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from vestige.types import Floats, Ints

_MIN_LENGTH = 8
_MAX_LENGTH = 20_000
_CANDIDATES, _ANCHORS = 24, 3
"""Number of borders that are tried in each of the snapshots that show their border most clearly."""
_KNOWN = 3.0
"""What is added to the score of a grid that starts where records may have started."""
_SPARSEST = 8
"""The longest batch has at most so many positions for each record of the largest snapshot, or ends between two."""
_AHEAD = 40
"""How many positions beyond its newest record the batch of a snapshot is supposed to end, at most."""
_RATES = tuple((kept, later) for kept in (0.8, 0.5, 0.1, 0.02) for later in (0.995, 0.85))
"""Chances that a record of the last batch is kept, and one that came later is."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """A grid of batches.

    Attributes:
        length: number of positions of a batch.
        origin: position before the first record of all; None if unknown.
        lasts: last position of the batch that each snapshot holds.
        score: how well it fits; a logarithm.
    """

    length: int
    origin: int | None
    lasts: tuple[int, ...]
    score: float


def find_schedules(snapshots: Sequence[Ints], origins: Sequence[int], most: int) -> list[Schedule]:
    """Find the schedules that fit best.

    Args:
        snapshots: sorted positions of the records of each snapshot, with those whose removal is documented.
        origins: positions before the first record of all, as far as they can be guessed.
        most: number of schedules to return.

    Returns:
        The schedules, the best first.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> def take(t):  # batches of 50, of which half is kept
        ...     last = t // 50 * 50
        ...     held = np.arange(last - 49, t + 1)
        ...     return held[(held > last) | (rng.random(len(held)) < 0.5)]
        >>> found = find_schedules([take(t) for t in range(130, 700, 37)], origins=[0], most=1)[0]
        >>> found.length, found.lasts[:3]
        (50, (100, 150, 200))
    """
    from vestige.audit.schedule_kernels import fit_schedules  # noqa: PLC0415

    lows = np.array([int(each[0]) for each in snapshots])
    counts = [_accumulate(each) for each in snapshots]
    starts = np.concatenate(([0], np.cumsum([len(each) for each in counts]))).astype(np.int64)
    rates = np.log([(kept, 1.0 - kept, later, 1.0 - later) for kept, later in _RATES])
    borders = _find_borders(counts, lows, rates)
    tops = np.array([int(each[-1]) for each in snapshots])
    sums, found, least = np.concatenate(counts), list[Schedule](), -np.inf
    for length in range(_MIN_LENGTH, _find_longest(lows, tops, max(map(len, snapshots))) + 1):
        known = {origin % length for origin in origins}
        offsets = np.array(sorted({border % length for border in borders} | known), np.int64)
        scores, lasts = np.empty(len(offsets)), np.empty((len(offsets), len(lows)), np.int64)
        fit_schedules(sums, starts, lows, length, offsets, rates, scores, lasts)
        ranked = np.argsort(-scores, kind="stable")[:most]
        for i in ranked[scores[ranked] + _KNOWN >= least]:
            score, ends = float(scores[i]), tuple(map(int, lasts[i]))
            fitting = [origin for origin in origins if (origin - int(offsets[i])) % length == 0]
            found += [Schedule(length, origin, ends, score + _KNOWN) for origin in fitting]
            found += [Schedule(length, None, ends, score)] if not fitting else []
        found = sorted(found, key=lambda each: (-each.score, each.length))[:most]
        least = found[-1].score if len(found) == most else least
    return found


def _accumulate(positions: Ints) -> Ints:
    present = np.zeros(int(positions[-1] - positions[0]) + 1, np.int64)
    present[positions - positions[0]] = 1
    return np.cumsum(present)


def _find_longest(lows: Ints, tops: Ints, records: int) -> int:
    """The longest batch that is tried: twice the longest snapshot, or as long as two snapshots are apart."""
    apart = np.diff(np.unique(tops))
    widest = min(2 * int((tops - lows).max() + 1), _SPARSEST * records)
    return min(_MAX_LENGTH, max(widest, int(apart.max()) if len(apart) else 0, _MIN_LENGTH) + _AHEAD)


def _find_borders(counts: Sequence[Ints], lows: Ints, rates: Floats) -> list[int]:
    """Borders that fit best in those snapshots that show theirs most clearly."""
    clear: list[tuple[float, list[int]]] = []
    for sums, low in zip(counts, lows, strict=True):
        total, size = sums[-1], len(sums)
        places = np.arange(-1, size + _AHEAD)
        kept = np.where(places < 0, 0, sums[np.minimum(places, size - 1)])
        slots, later, fresh = places + 1, total - kept, np.maximum(size - 1 - places, 0)
        each = np.max([kept * a + (slots - kept) * b + later * c + (fresh - later) * d for a, b, c, d in rates], axis=0)
        best = np.argsort(-each, kind="stable")[:_CANDIDATES]
        clear.append((float(each[best[0]] - np.median(each)), [int(low) + int(places[i]) for i in best]))
    clear.sort(key=lambda each: -each[0])
    return [border for _, borders in clear[:_ANCHORS] for border in borders]
