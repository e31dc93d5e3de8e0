"""What trials can show: every check of a verdict is a test at one level, which was fixed before there were results.

A bound or an equality of theory stands unless it is refuted. A difference, and that something is as good as all data,
must be shown. Answers are taken to be normal about what they tell, so that their squared errors are those of normals.
Guarantee: a test that holds is refuted as seldom as the level says; held by tests/lab/test_significance.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from vestige.types import Floats

LEVEL = 1e-3
"""The chance that one comparison goes wrong, where what it asks about is on the limit."""
PROMISED = 1.05
"""As good as all data: at most so many times its error, which is what `Mean` and `LinearRegression` guarantee."""


@dataclass(frozen=True, slots=True)
class Interval:
    """An average, and between which limits it is, each with a confidence of 1 - LEVEL."""

    low: float
    mid: float
    high: float


def interval(values: Floats) -> Interval:
    """Student's, for the mean.

    >>> interval(np.array([1.0, 1.0, 1.0]))
    Interval(low=1.0, mid=1.0, high=1.0)
    """
    from scipy.special import stdtrit  # noqa: PLC0415

    mid = float(np.mean(values))
    wide = float(stdtrit(len(values) - 1, 1.0 - LEVEL) * np.std(values, ddof=1) / math.sqrt(len(values)))
    return Interval(mid - wide, mid, mid + wide)


def as_good(ratios: Floats) -> bool:
    """Whether errors, as multiples of that of all data, are shown to be what is promised at most."""
    return interval(ratios).high < PROMISED


def above(errors: Floats, expected: float, dim: int = 1) -> bool:
    """Whether squared lengths of normals show that their mean is above `expected`, by the law of chi squared.

    Args:
        errors: squared lengths, one for each trial.
        expected: the mean that theory says, at most.
        dim: of the normals.
    """
    from scipy.special import chdtrc  # noqa: PLC0415

    return bool(chdtrc(dim * len(errors), dim * float(np.sum(errors)) / expected) < LEVEL)


def below(errors: Floats, expected: float, dim: int = 1) -> bool:
    """The same for a mean below `expected`."""
    from scipy.special import chdtr  # noqa: PLC0415

    return bool(chdtr(dim * len(errors), dim * float(np.sum(errors)) / expected) < LEVEL)


def smaller(errors: Floats, others: Floats, times: float = 1.0, dim: int = 1) -> bool:
    """Whether squared errors are shown to be more than so many times smaller than others on average, by Fisher's F."""
    from scipy.special import fdtrc  # noqa: PLC0415

    ratio = float(np.mean(others) / np.mean(errors)) / times
    return bool(fdtrc(dim * len(others), dim * len(errors), ratio) < LEVEL)


def more_often(hits: float, draws: int, chance: float) -> bool:
    """Whether so many hits show that they come with more than this chance, by the binomial law."""
    from scipy.special import bdtrc  # noqa: PLC0415

    return hits > 0 and bool(bdtrc(round(hits) - 1, draws, chance) < LEVEL)


def less_often(hits: float, draws: int, chance: float) -> bool:
    """Whether so few hits show that they come with less than this chance."""
    from scipy.special import bdtr  # noqa: PLC0415

    return bool(bdtr(round(hits), draws, chance) < LEVEL)


def promised(
    dim: int, retention: int, length: int, needed: Callable[[int, float], int], rounds: Callable[[int, float], int]
) -> float:
    """The least error that a theorem promises with this retention after so many records; infinite if it has none.

    Args:
        dim: of the records.
        retention: that there is.
        length: how many records have arrived.
        needed: the retention that an error takes, such as `vestige.theory.mean_retention`.
        rounds: the records that it takes, such as `vestige.theory.mean_rounds`.

    >>> from vestige import theory
    >>> round(promised(1, 64, 4_096, theory.mean_retention, theory.mean_rounds), 6)
    0.000986
    """
    errors = dim / 2.0 * 10.0 ** -np.arange(0.0, 8.0, 0.005)
    kept = [e for e in map(float, errors) if needed(dim, e) <= retention and rounds(dim, e) <= length]
    return min(kept, default=math.inf)
