"""The channel `bits`: which rounds of a segment are present spells the number.

The number is rounded without bias to the leading bits of a float64: sign, exponent and mantissa. Where records that
cannot be kept spoil the word, an average takes its place if that is nearer.
Guarantee: held by tests/channels/test_channels.py.
"""

from __future__ import annotations

from typing import ClassVar

from vestige.channels.precision import MIN_BATCH
from vestige.channels.segments import Segments


class Bits(Segments):
    """Which rounds are present spells the number.

    Example:
        >>> Bits().min_batch
        28
    """

    name: ClassVar[str] = "bits"
    mode: ClassVar[int] = 1
    min_batch: ClassVar[int] = MIN_BATCH
