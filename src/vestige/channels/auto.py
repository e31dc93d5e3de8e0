"""The channel `auto`: an average where that meets the tolerance, presence bits where it does not.

Five controls at the end of a segment say which; see `vestige.channels.kernels`.
Guarantee: held by tests/channels/test_channels.py.
"""

from __future__ import annotations

from typing import ClassVar

from vestige.channels.precision import MIN_BATCH
from vestige.channels.segments import Segments


class Auto(Segments):
    """An average where that meets the tolerance, presence bits where it does not.

    Example:
        >>> Auto().min_batch
        28
    """

    name: ClassVar[str] = "auto"
    mode: ClassVar[int] = 2
    min_batch: ClassVar[int] = MIN_BATCH
    is_searched: ClassVar[bool] = True
