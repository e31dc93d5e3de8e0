"""How many requests each token may make: a bucket that fills steadily and holds one second's worth.

Guarantee: over any time, no more than the rate and one bucket; held by tests/service/test_access.py.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable

from vestige.service.problems import RefusalError

RATE = 1_000.0
"""Requests a second that one token may make, unless told otherwise."""


class Rates:
    """Counts requests by token.

    Args:
        rate: requests a second for each token.
        clock: seconds that never go back.

    Example:
        >>> rates = Rates(1.0, lambda: 0.0)
        >>> rates.count("collector-1")
        >>> rates.count("collector-1")
        Traceback (most recent call last):
        vestige.service.problems.RefusalError: more than 1 request a second with this token; send it again later
    """

    def __init__(self, rate: float = RATE, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate, self._clock, self._size = rate, clock, max(1.0, rate)
        self._left: dict[str, tuple[float, float]] = {}

    def count(self, label: str) -> None:
        """Count a request.

        Args:
            label: the label of its token.

        Raises:
            RefusalError: the token has made too many.
        """
        now = self._clock()
        left, at = self._left.get(label, (self._size, now))
        left = min(self._size, left + self._rate * (now - at))
        if left < 1.0:
            self._left[label] = left, now
            wait = math.ceil((1.0 - left) / self._rate)
            many = "request" if self._rate == 1.0 else "requests"
            raise RefusalError(
                429,
                f"more than {self._rate:,g} {many} a second with this token; send it again later",
                {"Retry-After": str(max(1, wait))},
            )
        self._left[label] = left - 1.0, now
