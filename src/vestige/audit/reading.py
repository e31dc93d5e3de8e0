"""Many patterns of presence read at once, with the very kernel that Vestige's channels read with."""

from __future__ import annotations

from vestige.channels.kernels import FLAGS, SPELLED_TURNS, TURNS, read_word
from vestige.compiling import kernel
from vestige.records import Bools, Floats


@kernel
def read_patterns(patterns: Bools, size: int, flagged: bool, words: Floats) -> None:
    """The numbers that each pattern would spell if every size-th record carried one; zero where no flag is kept.

    Args:
        patterns: one a row, each long enough for words of that size; shape (patterns, slots).
        size: how many numbers a batch would hold.
        flagged: whether segments end with flags, as where averages are written too, or hold nothing but presence bits.
        words: where the first of them go; shape (patterns, numbers wanted).
    """
    for row in range(len(patterns)):
        for i in range(words.shape[1]):
            mine = patterns[row, i::size]
            n = len(mine)
            if not flagged:
                words[row, i] = read_word(mine, n - SPELLED_TURNS - 1, SPELLED_TURNS, 1)
            elif mine[n - 1] or mine[n - 2]:
                words[row, i] = read_word(mine, n - FLAGS - TURNS, TURNS, 0)
            else:
                words[row, i] = 0.0
