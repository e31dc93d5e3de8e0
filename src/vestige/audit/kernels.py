"""Many patterns of presence read at once, with the very kernel that Vestige's channels read with."""

from __future__ import annotations

import numpy as np

from vestige._numba import kernel
from vestige.channels.kernels import AUTO, has_bits, read_segment, read_word_alone
from vestige.types import Bools, Floats


@kernel
def read_patterns(patterns: Bools, size: int, flagged: bool, words: Floats) -> None:
    """The numbers that each pattern would spell if every size-th record carried one; zero where it is an average.

    Args:
        patterns: one a row, each long enough for words of that size; shape (patterns, slots).
        size: how many numbers a batch would hold.
        flagged: whether segments say how to read them, because averages are written too, or are all presence bits.
        words: where the first of them go; shape (patterns, numbers wanted).
    """
    nothing = np.zeros(patterns.shape[1])
    for row in range(len(patterns)):
        for i in range(words.shape[1]):
            mine = patterns[row, i::size]
            if not flagged:
                words[row, i] = read_word_alone(mine)
            elif has_bits(mine):
                words[row, i] = read_segment(nothing[i::size], mine, AUTO)
            else:
                words[row, i] = 0.0
