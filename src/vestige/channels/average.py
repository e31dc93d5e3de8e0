"""The channel `average`: the plain average of the kept records is the number.

Section 3.3 of Immorlica et al. (2024): each coordinate has records of its own, and anybody's average
of them is the answer; see `vestige.channels.segments`.
Guarantee: held by tests/channels/test_channels.py.
"""

from __future__ import annotations

from typing import ClassVar

from vestige.channels.compiled import Compiled


class Average(Compiled):
    """The plain average of the kept records is the number.

    Example:
        >>> Average().find_min_batch(1)
        3
    """

    name: ClassVar[str] = "average"
    mode: ClassVar[int] = 0
    is_searched: ClassVar[bool] = True
    has_bits: ClassVar[bool] = False

    def find_min_batch(self, size: int) -> int:
        """Find the smallest batch: two flags and one record to choose for each number."""
        return 3 * size
