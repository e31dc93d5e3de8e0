"""The leak meter knows what no store holds: the sums of all records of the demo, to show what is left of an erased one.

The adversary is that of differential privacy (`docs/audit.md`): somebody who knows all records but one, and sees the
kept records. The answer of these counts n records, so the one that is missing is n times the answer less the sum of the
others, up to n times the error of the answer.
Guarantee: the guesses are what a computation over the whole file gives, and the spread covers their error; held by
tests/service/test_demo_service.py.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from vestige.types import Floats


@dataclass(frozen=True, slots=True)
class Guess:
    """What somebody who knows all other records learns about one.

    Attributes:
        raw: the value that solves for the record; None where the answer does not depend on it.
        guess: the best guess, from `raw` and from the spread of all records.
        spread: the standard deviation of its error.
        bits: by how many powers of two it is narrower than a guess without the store.
    """

    raw: float | None
    guess: float
    spread: float
    bits: float


class Shadow:
    """All records of a replay that begins anew at its end: the truth, which no store has.

    Args:
        values: the records of one pass; shape (n,).

    Example:
        >>> shadow = Shadow(np.array([1.0, 2.0, 6.0]))
        >>> shadow.sum(4), shadow.mean(3), shadow.value(4)
        (10.0, 3.0, 1.0)
    """

    def __init__(self, values: Floats) -> None:
        self._values = values
        self._sums = np.concatenate(([0.0], np.cumsum(values)))
        self._squares = np.concatenate(([0.0], np.cumsum(values**2)))

    def __len__(self) -> int:
        return len(self._values)

    def value(self, round_: int) -> float:
        """Give the value of a record.

        Args:
            round_: its round, counted from 1.

        Returns:
            The value.
        """
        return float(self._values[(round_ - 1) % len(self)])

    def sum(self, t: int) -> float:
        """Add up the first records.

        Args:
            t: how many.

        Returns:
            Their sum.
        """
        return self._total(self._sums, t)

    def mean(self, t: int) -> float:
        """Average the first records.

        Args:
            t: how many.

        Returns:
            Their mean.
        """
        return self.sum(t) / t

    def deviation(self, t: int) -> float:
        """Measure how far the first records spread.

        Args:
            t: how many.

        Returns:
            Their standard deviation, divided by n.
        """
        return math.sqrt(max(self._total(self._squares, t) / t - self.mean(t) ** 2, 0.0))

    def _total(self, sums: Floats, t: int) -> float:
        passes, rest = divmod(t, len(self))
        return float(passes * sums[-1] + sums[rest])


class Error:
    """The error of a sum that a stream holds, n times that of its answer, followed over its updates.

    Each update rounds or adds noise anew, so the error is a walk; its variance is the sum of the squares of its steps.

    Example:
        >>> error = Error()
        >>> for since, off in ((1, 3.0), (1, 7.0), (9, 2.0)):
        ...     error.follow(since, off)
        ...     print(error.spread)
        3.0
        5.0
        2.0
    """

    def __init__(self) -> None:
        self._since = 0
        self._last = self._variance = 0.0

    def follow(self, since: int, off: float) -> None:
        """Take the error after an update.

        Args:
            since: the round since which the stream counts; a new one begins the walk anew.
            off: n times the answer less the sum of the n records.
        """
        if since != self._since:
            self._since, self._last, self._variance = since, 0.0, 0.0
        self._variance += (off - self._last) ** 2
        self._last = off

    @property
    def spread(self) -> float:
        """The standard deviation of the error."""
        return math.sqrt(self._variance)


def combine(raw: float | None, spread: float, mean: float, deviation: float) -> Guess:
    """Weigh what solves for a record against what is known of all, as for normal errors.

    Args:
        raw: the value that solves for the record; None where nothing is left of it.
        spread: the standard deviation of its error; 0 where the record itself can be read.
        mean: mean of all records.
        deviation: standard deviation of all records, above 0.

    Returns:
        The best guess.

    Example:
        >>> combine(10.0, 1.0, 2.0, 1.0)
        Guess(raw=10.0, guess=6.0, spread=0.7071067811865476, bits=0.5)
        >>> combine(None, 0.0, 2.0, 1.0)
        Guess(raw=None, guess=2.0, spread=1.0, bits=0.0)
    """
    if raw is None:
        return Guess(None, mean, deviation, 0.0)
    trust = deviation**2 / (deviation**2 + spread**2)
    left = max(deviation * math.sqrt(1.0 - trust), math.ulp(abs(raw) + deviation))
    return Guess(raw, mean + trust * (raw - mean), left, round(math.log2(deviation / left), 12))
