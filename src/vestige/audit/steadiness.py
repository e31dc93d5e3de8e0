"""Whether the averages of kept records are steadier than whole batches are: then they say something of earlier ones.

However good a sample is of its own batch, random, regular, by quota or stratified, its average moves at least as much
as the average of that whole batch does. Records that are all held because they came after a batch say how much that
is. Only whoever remembers earlier batches, as a mean of all records does, can do better.
Guarantee: false alarms at most at the level for samples that represent their own batch, if what cannot be foretold of a
value from the order of arrival is independent from batch to batch; held by tests/audit/test_steadiness.py.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from vestige.audit.permutation import Batch, list_segments
from vestige.types import Floats, Ints

_LEAST_STRETCH = 16
"""Number of records in a row that show whether values even out by themselves."""
_LEAST_ORDINATES = 12
_LEAST_EVENNESS = 0.1
"""Where values even out more than this by themselves, steady averages say nothing."""
_NEAR = 2.0
"""Kept averages count only within so many standard deviations of the averages of later records."""
_MOVED = 1e-9
"""Averages that move less, in standard deviations of a record, are equal by a rule: a mean of all records moves."""
_MOST_DRAWN = 64
"""Number of records that stand for a batch in a draw; fewer than there are make a draw less steady, if anything."""
_MIN_GAP = 1e-3
"""Averages closer than a thirtieth of the expected gap count as equally close: rounding must not decide."""
_MOST_LEFT_OUT = 0.5
"""At most this share of the later records is left out for the sake of declared rules."""
_CHANCE = 3.0
"""So many standard deviations of their number more are left out, since fewer may be listed than came later."""
_CHUNK = 1 << 22


def steadiness_p_value(
    batches: Sequence[Batch],
    later: Sequence[Floats],
    trials: int,
    rng: np.random.Generator,
    *,
    listed: float = 0.0,
) -> float | None:
    """Test whether the averages of kept records move less than those of whole batches would, in any column.

    Where a rule removes or corrects some records, some of those that came later are not like those that are kept. Those
    that lie farthest from the kept ones are left out, twice as many as lists of the rule name, and as many more as may
    come by chance: draws become steadier, and the test more cautious, as far as the rule can explain it and no further.

    Args:
        batches: batches in order.
        later: values of the records that came after each batch, in the same snapshot; each of shape (n, columns).
        trials: number of draws for each part.
        rng: generator to draw with.
        listed: share of the records that lists of rules and corrections name.

    Returns:
        The p-value; None if too few records are held that came after their batch, or if values even out by themselves.

    Example:
        >>> rng, batches = np.random.default_rng(0), []
        >>> for k in range(12):  # nearly the same average from ten of a hundred records each time
        ...     slots, values = np.arange(0, 100, 10), rng.normal(size=(10, 1))
        ...     present = np.isin(np.arange(100), slots)
        ...     batches.append(Batch(1 + 100 * k, present, np.ones(100, bool), slots, values - values.mean() + k / 100))
        >>> steadiness_p_value(batches, [rng.normal(size=(50, 1)) for _ in batches], 999, rng)
        0.001
    """
    columns = later[0].shape[1] if later else 0
    parts = list(list_segments(columns))
    p_values = []
    for column, start, step in parts:
        shown = [(batch, batch.values[batch.slots % step == start, column]) for batch in batches]
        p = _test_part(
            [(batch, values) for batch, values in shown if batch.has_choice and len(values)],
            [values[:, column] for values in later],
            trials * len(parts),
            rng,
            listed,
        )
        p_values += [] if p is None else [p]
    return min(1.0, len(p_values) * min(p_values)) if p_values else None


def _test_part(
    shown: Sequence[tuple[Batch, Floats]],
    later: Sequence[Floats],
    trials: int,
    rng: np.random.Generator,
    listed: float,
) -> float | None:
    """Test one column, or the records of it that one number is averaged over."""
    whole = later
    if listed and shown and any(map(len, later)):
        doubled = 2.0 * listed
        share = doubled + _CHANCE * math.sqrt(doubled / sum(map(len, later)))
        later = _leave_out(later, min(share, _MOST_LEFT_OUT), np.concatenate([values for _, values in shown]))
    pool = np.concatenate(later)
    even = measure_evenness(later)
    if len(shown) < 2 or even is None or even < _LEAST_EVENNESS:
        return None
    averages = np.array([values.mean() for _, values in shown])
    kept = np.array([len(values) for _, values in shown])
    lengths = np.array([len(batch.present) for batch, _ in shown])
    variance = float(pool.var())
    if not _may_remember(averages, later, whole, variance, float(lengths.mean())):
        return 1.0
    gaps = np.maximum(np.abs(np.diff(averages)), _find_resolution(pool) / np.minimum(kept[1:], kept[:-1]) / 2.0)
    own_batch = _rank(gaps**2 / (variance * even), lengths, pool, trials, rng)
    random = _rank(gaps**2 / variance, kept, pool, trials, rng)
    return max(own_batch, random)


def _leave_out(later: Sequence[Floats], share: float, kept: Floats) -> list[Floats]:
    """The later records without the share that lies farthest from the kept ones."""
    centre = np.median(kept)
    farthest = np.quantile(np.abs(np.concatenate(later) - centre), 1.0 - share)
    return [values[np.abs(values - centre) <= farthest] for values in later]


def measure_evenness(stretches: Sequence[Floats]) -> float | None:
    """Measure how far values even out by themselves, in cycles or as entries on both sides of a book do.

    The variance of averages of many records in a row is the spectrum at low frequencies (Priestley 1981, 6.2). Its
    median is taken, so that a cycle among them does not count, and a taper keeps cycles from leaking.

    Args:
        stretches: values of records in a row, in the order of arrival.

    Returns:
        The variance of such averages relative to what it is if order says nothing; at most 1. None if stretches are
        too short or too few, or all values are equal.

    Example:
        >>> measure_evenness([np.tile([1.0, -1.0], 200)]) < 0.001, measure_evenness([np.ones(400)]) is None
        (True, True)
    """
    variance = float(np.concatenate(stretches).var()) if any(map(len, stretches)) else 0.0
    ordinates: list[Floats] = []
    for values in stretches:
        if len(values) >= _LEAST_STRETCH:
            taper = np.hanning(len(values) + 2)[1:-1]
            squares = np.abs(np.fft.rfft((values - values.mean()) * taper)) ** 2 / (taper**2).sum()
            ordinates.append(squares[2 : max(min(4, len(values) // 8), len(values) // 16) + 1])
    if variance == 0.0 or sum(map(len, ordinates)) < _LEAST_ORDINATES:
        return None
    return min(1.0, float(np.median(np.concatenate(ordinates))) / math.log(2.0) / variance)


def _may_remember(
    averages: Floats, later: Sequence[Floats], whole: Sequence[Floats], variance: float, length: float
) -> bool:
    """Whether averages move at all, and are about those of later records, with or without those that are left out."""
    means, others = (np.array([each.mean() for each in one if len(each) >= _LEAST_STRETCH]) for one in (later, whole))
    spread = max(float(means.std()), math.sqrt(variance / length))
    low, high = sorted((float(means.mean()), float(others.mean())))
    is_near = low - _NEAR * spread <= averages.mean() <= high + _NEAR * spread
    return bool(is_near and np.median(np.abs(np.diff(averages))) > _MOVED * math.sqrt(variance))


def _find_resolution(pool: Floats) -> float:
    """The least difference between values, below which averages of whole numbers are equal by chance."""
    apart = np.diff(np.unique(pool))
    return float(apart.min()) if len(apart) else 0.0


def _rank(gaps: Floats, sizes: Ints, pool: Floats, trials: int, rng: np.random.Generator) -> float:
    """Rank squared gaps between successive averages among those of random records, in units of what is expected."""
    observed = _score(gaps / (1.0 / sizes[1:] + 1.0 / sizes[:-1]))
    drawn = np.minimum(sizes, _MOST_DRAWN)
    starts, expected = np.cumsum(drawn) - drawn, pool.var() * (1.0 / drawn[1:] + 1.0 / drawn[:-1])
    total, better = int(drawn.sum()), 0
    for start in range(0, trials, max(1, _CHUNK // total)):
        count = min(max(1, _CHUNK // total), trials - start)
        means = np.add.reduceat(pool[rng.integers(0, len(pool), (count, total))], starts, axis=1) / drawn
        better += int((_score(np.diff(means, axis=1) ** 2 / expected) >= observed).sum())
    return (1.0 + better) / (1.0 + trials)


def _score(gaps: Floats) -> Floats:
    """Score how close successive averages are."""
    score: Floats = -np.log(gaps + _MIN_GAP).sum(axis=-1)
    return score
