"""Bit operations that the kernels share.

Guarantee: the same as Python's `int.bit_count`; held by tests/subset/test_bits.py.
"""

from __future__ import annotations

import numpy as np

from vestige._numba import kernel


@kernel
def count_ones(word: np.uint64) -> np.int64:
    """Return the number of bits of `word` that are one (population count)."""
    word = word - ((word >> np.uint64(1)) & np.uint64(0x5555555555555555))
    word = (word & np.uint64(0x3333333333333333)) + ((word >> np.uint64(2)) & np.uint64(0x3333333333333333))
    word = (word + (word >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return np.int64((word * np.uint64(0x0101010101010101)) >> np.uint64(56))
