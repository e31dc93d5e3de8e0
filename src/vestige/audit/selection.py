"""Whether the records that left had other values than those that stayed, among records that were seen before.

A record that is in one snapshot and not in the next, while older ones stay, was chosen to leave. Its value is known
from the snapshot before, so that those who left and those who stayed can be compared. Values and fates are permuted
among twenty records in a row (Fisher 1935), so that neither trends nor deletion by age matter. Each record counts once,
in the first pair in which it could leave before an older one: a record that stays for years is not evidence each day.
Guarantee: exact if those who leave are chosen without regard to values and to what goes with them in so short a time;
held by tests/audit/test_selection.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from vestige.audit.permutation import p_value
from vestige.types import Bools, Floats, Ints

_CHUNK_RECORDS = 1 << 22
_NEIGHBOURS = 20
"""Number of records in a row that are compared with each other."""
_MOST_LATE = 0.25
"""If more of the new records lie before others that were seen earlier, positions are not those of their arrival."""


@dataclass(frozen=True, slots=True, eq=False)
class Cohort:
    """Records in a row of one snapshot of which some are in the next one, although they are not the newest.

    Attributes:
        stays: which of them are in the next snapshot; shape (n,).
        values: their values; shape (n, columns).
    """

    stays: Bools
    values: Floats


@dataclass(frozen=True, slots=True, eq=False)
class Comparison:
    """What snapshots show when each is compared with those before it.

    Attributes:
        cohorts: records in a row of which some left and some stayed, from one snapshot to the next.
        outlived: number of records that were gone while older ones stayed, without those that are left out.
        returned: number of records that were gone in one snapshot and there in a later one.
        late: number of records that were seen for the first time although newer ones were seen before.
        fresh: number of records that were seen for the first time after the first snapshot.
    """

    cohorts: tuple[Cohort, ...]
    outlived: int
    returned: int
    late: int
    fresh: int

    @property
    def weight(self) -> float:
        """How much is compared: the squared difference in values that can be found is inversely proportional to it."""
        return sum(_weigh(cohort) for cohort in self.cohorts)

    @property
    def is_ordered(self) -> bool:
        """Whether records are mostly seen in the order of their positions, which are those of their arrival then."""
        return self.late <= _MOST_LATE * self.fresh


def compare_snapshots(
    snapshots: Sequence[Ints], values: Sequence[Floats], without: Ints, leavers: Ints | None = None
) -> Comparison:
    """Compare each snapshot with the one before.

    Args:
        snapshots: sorted positions of the records of each snapshot, in order of time.
        values: their values; each of shape (n, columns).
        without: positions that are left out.
        leavers: positions of those that left that are compared with those that stayed; default: all.

    Returns:
        What is seen.

    Example:
        >>> days = [np.array([1, 2, 3, 4]), np.array([2, 4, 5])]
        >>> compare_snapshots(days, [np.ones((4, 1)), np.ones((3, 1))], np.array([], np.int64)).outlived
        1
    """
    cohorts: list[Cohort] = []
    outlived, returned, late, fresh = 0, 0, 0, 0
    seen, gone, counted = (np.zeros(0, np.int64) for _ in range(3))
    for i, now in enumerate(snapshots):
        returned += len(np.intersect1d(now, gone))
        if len(seen):
            unseen = now[~np.isin(now, seen)]
            late, fresh = late + int((unseen < seen.max()).sum()), fresh + len(unseen)
        if i:
            before = snapshots[i - 1]
            stays = np.isin(before, now)
            contested = (before >= before[stays].min()) if stays.any() else np.zeros(len(before), np.bool_)
            contested &= ~np.isin(before, without)
            if leavers is not None:
                contested &= stays | np.isin(before, leavers)
            outlived += int((contested & ~stays).sum())
            uncounted = contested & ~np.isin(before, counted)
            counted = np.union1d(counted, before[contested])
            cohorts += _divide(stays[uncounted], values[i - 1][uncounted])
            gone = np.setdiff1d(np.union1d(gone, before[~stays]), now)
        seen = np.union1d(seen, now)
    return Comparison(tuple(cohorts), outlived, returned, late, fresh)


def _divide(stays: Bools, values: Floats) -> Iterator[Cohort]:
    """Yield records in a row, where some left and some stayed."""
    for start in range(0, len(stays), _NEIGHBOURS):
        each = slice(start, start + _NEIGHBOURS)
        if 0 < stays[each].sum() < len(stays[each]):
            yield Cohort(stays[each], values[each])


def selection_p_value(cohorts: Sequence[Cohort], trials: int, rng: np.random.Generator) -> float | None:
    """Test whether those who left had other values than those who stayed: in their average, or in their spread.

    Args:
        cohorts: records that left or stayed.
        trials: number of permutations.
        rng: generator to draw with.

    Returns:
        The p-value; None if there is nothing to compare.

    Example:
        >>> stays = np.arange(40) < 20
        >>> cohort = Cohort(stays, np.where(stays, 1.0, 9.0)[:, None])
        >>> selection_p_value([cohort], 199, np.random.default_rng(0))
        0.005
    """
    scores = [np.zeros((trials + 1, 2)) for _ in range(cohorts[0].values.shape[1])] if cohorts else []
    for cohort in cohorts:
        n, stay = len(cohort.stays), int(cohort.stays.sum())
        size = max(1, _CHUNK_RECORDS // n)
        for start in range(0, trials + 1, size):
            fates = np.tile(cohort.stays, (min(size, trials + 1 - start), 1))
            fates[start == 0 :] = rng.permuted(fates[start == 0 :], axis=1)
            for column, score in enumerate(scores):
                score[start : start + size] += _compare_fates(cohort.values[:, column], fates, stay)
    return p_value(np.abs(np.column_stack(scores))) if any(map(_weigh, cohorts)) else None


def _weigh(cohort: Cohort) -> float:
    stay = int(cohort.stays.sum())
    return stay * (len(cohort.stays) - stay) / len(cohort.stays)


def _compare_fates(values: Floats, fates: Bools, stay: int) -> Floats:
    """The difference of ranks, and of distances from the middle rank, in units of their sums; shape (rows, 2)."""
    order = np.argsort(np.argsort(values, kind="stable"), kind="stable").astype(np.float64)
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    ranks = (np.bincount(inverse, order) / counts)[inverse]
    ranks = (ranks - ranks.mean()) / len(values)
    spread = np.abs(ranks) - np.abs(ranks).mean()
    share = stay / len(values)
    table = np.column_stack((ranks, spread))
    result: Floats = fates @ table - share * table.sum(axis=0)
    return result
