"""Many presence patterns are decoded at once, by the kernel that Vestige's channels use.

Guarantee: decodes what the channels decode; held by tests/audit/test_detector.py.
"""

from __future__ import annotations

import numpy as np

from vestige._numba import kernel
from vestige.channels.kernels import AUTO, has_bits, read_segment, read_single_word
from vestige.types import Bools, Floats


@kernel
def read_patterns(patterns: Bools, size: int, flagged: bool, words: Floats) -> None:
    """Decode the numbers that each pattern encodes if every `size`-th record carries one; zero for an average.

    Args:
        patterns: one pattern in each row, long enough for words of that size; shape (patterns, slots).
        size: number of numbers that a batch encodes.
        flagged: whether segments have a flag that tells averages from presence bits; else all are presence bits.
        words: output, the first numbers of each pattern; shape (patterns, numbers).
    """
    nothing = np.zeros(patterns.shape[1])
    for row in range(len(patterns)):
        for i in range(words.shape[1]):
            segment = patterns[row, i::size]
            if not flagged:
                words[row, i] = read_single_word(segment)
            elif has_bits(segment):
                words[row, i] = read_segment(nothing[i::size], segment, AUTO)
            else:
                words[row, i] = 0.0
