"""The channel `auto`: averages where they meet the tolerance, a word where they do not.

The last three records of a batch say which; see `vestige.channels.kernels`.
Guarantee: held by tests/channels/test_channels.py.
"""

from __future__ import annotations

from typing import ClassVar

from vestige.channels.compiled import Compiled
from vestige.channels.layout import find_min_rows


class Auto(Compiled):
    """Averages where all of them meet the tolerance, a word where they do not.

    Example:
        >>> Auto().find_min_batch(1)
        22
    """

    name: ClassVar[str] = "auto"
    mode: ClassVar[int] = 2
    is_searched: ClassVar[bool] = True

    def find_min_batch(self, size: int) -> int:
        """Find the smallest batch: that of a word."""
        return find_min_rows(size)
