"""Bit operations against Python's own."""

from __future__ import annotations

import numpy as np

from vestige.subset.bits import count_ones


def test_ones_are_counted() -> None:
    for word in (0, 1, 2**64 - 1, 0xF0F0, 1 << 63):
        assert count_ones(np.uint64(word)) == word.bit_count()
