"""The channel `average`: the plain average of the kept records is the number.

Section 3.3 of Immorlica et al. (2024): each coordinate has records of its own. Two controls at the end of a segment
tell where the average missed its target.
Guarantee: held by tests/channels/test_channels.py.
"""

from __future__ import annotations

from typing import ClassVar

from vestige.channels.segments import Segments


class Average(Segments):
    """The plain average of the kept records is the number.

    Example:
        >>> Average().min_batch
        3
    """

    name: ClassVar[str] = "average"
    mode: ClassVar[int] = 0
    min_batch: ClassVar[int] = 3  # two controls, and one record to choose
    is_searched: ClassVar[bool] = True
    has_bits: ClassVar[bool] = False
