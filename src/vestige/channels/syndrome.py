"""A message in the choice of records, some of which cannot be kept, and the reader does not know which.

A wet paper code (Fridrich, Goljan, Lisonek, Soukal 2005, https://doi.org/10.1109/TSP.2005.855393; for memories with
defects, Kuznetsov and Tsybakov 1974). The presence of the records is a vector x of bits, the message is its syndrome
H x mod 2. H is public: the column of slot j has random bits above row j, a one in row j, and zeros below. Records that
cannot be kept are wet. Without them, back-substitution finds x. With them, rows are solved in order as far as they can
be: each wet record costs the last row that is left, wherever it lies, and all of them together cost one or two more.
Long messages are split into blocks of at most 1,024 rows with the same H, slot j and row i in block j or i modulo their
number, so that time and memory are linear in the length.
Guarantee: the rows that `prepare` counts are read back as they were written, whatever the message; held by
tests/channels/test_syndrome.py.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from vestige._numba import kernel
from vestige.random.kernels import draw
from vestige.types import Bools, Ints, Words

MAX_ROWS = 1_024
_WORD = 64
_ONE = np.uint64(1)
_KEY = np.uint64(0x76657374696765)


class Code(NamedTuple):
    """What is prepared for writing messages into one batch; made by `make_code`.

    Attributes:
        columns: the first columns of H, as many as a block has rows; shape (rows of a block, words).
        basis: for each row the combination of columns whose first one is there; shape (rows, words).
        sources: which of `members` that combination is of; shape (rows, words).
        members: the slots that are combined, by block and in order; shape (rows,).
        pivots: for each row whether a combination has its first one there; shape (rows,).
        is_wet: for each block whether it has wet records where a dry one is needed; shape (blocks,).
        buffers: two vectors to compute with; shape (2, words).
    """

    columns: Words
    basis: Words
    sources: Words
    members: Ints
    pivots: Bools
    is_wet: Bools
    buffers: Words


@kernel
def count_blocks(rows: int) -> int:
    """Count the blocks of a message of so many rows."""
    return (rows + MAX_ROWS - 1) // MAX_ROWS


@kernel
def fill_column(slot: int, rows: int, column: Words) -> None:
    """Write the column of a slot, counted within its block, as bits of words; row 0 is the first bit of the first."""
    column[:] = 0
    for w in range(len(column)):
        start = w * _WORD
        above = min(slot, rows) - start  # random bits
        if above >= _WORD:
            column[w] = draw(_KEY, slot * MAX_ROWS + w)
        elif above > 0:
            drop = np.uint64(_WORD - above)
            column[w] = (draw(_KEY, slot * MAX_ROWS + w) >> drop) << drop
        if 0 <= slot - start < _WORD and slot < rows:
            column[w] |= _ONE << np.uint64(_WORD - 1 - (slot - start))


@kernel
def make_code(rows: int) -> Code:
    """Make room for messages of so many rows."""
    blocks = count_blocks(rows)
    longest = (rows + blocks - 1) // blocks
    words = (longest + _WORD - 1) // _WORD
    columns = np.zeros((longest, words), np.uint64)
    for slot in range(longest):
        fill_column(slot, longest, columns[slot])
    return Code(
        columns,
        np.zeros((rows, words), np.uint64),
        np.zeros((rows, words), np.uint64),
        np.zeros(rows, np.int64),
        np.zeros(rows, np.bool_),
        np.zeros(blocks, np.bool_),
        np.zeros((2, words), np.uint64),
    )


@kernel
def _get(words: Words, row: int) -> bool:
    return bool((words[row // _WORD] >> np.uint64(_WORD - 1 - row % _WORD)) & _ONE == _ONE)


@kernel
def prepare(can: Bools, rows: int, code: Code) -> int:
    """Prepare to write into the records that can be kept.

    Args:
        can: which slots hold a record that may be kept; shape (slots,), at least `rows` of them.
        rows: the number of rows of a message.
        code: from `make_code(rows)`; changed.

    Returns:
        the number of leading rows that can be written, whatever the message is; `rows` if no record is wet.
    """
    blocks, free = len(code.is_wet), rows
    for block in range(blocks):
        here = (rows - block + blocks - 1) // blocks
        wet = False
        for j in range(here):
            wet |= not can[block + j * blocks]
        code.is_wet[block] = wet
        if wet:
            free = min(free, block + blocks * _eliminate(can, block, blocks, here, code))
    return free


@kernel
def _eliminate(can: Bools, block: int, blocks: int, rows: int, code: Code) -> int:
    """Combine the columns of a block so that each has its first one in another row; return the rows before a gap."""
    found, slots = 0, (len(can) - block + blocks - 1) // blocks
    column, source = code.buffers[0], code.buffers[1]
    for i in range(rows):
        code.pivots[block + i * blocks] = False
    for j in range(slots):
        if found == rows:
            break
        if not can[block + j * blocks]:
            continue
        if j < rows and rows == len(code.columns):
            column[:] = code.columns[j]
        else:
            fill_column(j, rows, column)
        source[:] = 0
        source[found // _WORD] |= _ONE << np.uint64(_WORD - 1 - found % _WORD)
        for i in range(rows):
            if not _get(column, i):
                continue
            row = block + i * blocks
            if not code.pivots[row]:
                code.pivots[row] = True
                code.basis[row], code.sources[row] = column, source
                code.members[block + found * blocks] = block + j * blocks
                found += 1
                break
            for w in range(len(column)):
                column[w] ^= code.basis[row, w]
                source[w] ^= code.sources[row, w]
    for i in range(rows):
        if not code.pivots[block + i * blocks]:
            return i
    return rows


@kernel
def write_message(message: Bools, free: int, code: Code, keep: Bools) -> None:
    """Mark in `keep` the records whose syndrome begins with the first `free` bits of the message.

    Args:
        message: shape (rows,).
        free: what `prepare` returned.
        code: as `prepare` left it; its buffers are changed.
        keep: which slots to keep; shape (slots,).
    """
    keep[:] = False
    rows, blocks = len(message), len(code.is_wet)
    left, source = code.buffers[0], code.buffers[1]
    for block in range(blocks):
        here = (rows - block + blocks - 1) // blocks
        left[:] = 0
        for i in range(here):
            if message[block + i * blocks]:
                left[i // _WORD] |= _ONE << np.uint64(_WORD - 1 - i % _WORD)
        if not code.is_wet[block]:
            for i in range(here - 1, -1, -1):
                if _get(left, i):
                    keep[block + i * blocks] = True
                    for w in range(i // _WORD + 1):
                        left[w] ^= code.columns[i, w]
            continue
        source[:] = 0
        for i in range((free - block + blocks - 1) // blocks):
            if _get(left, i):
                row = block + i * blocks
                for w in range(len(left)):
                    left[w] ^= code.basis[row, w]
                    source[w] ^= code.sources[row, w]
        for k in range(here):
            if _get(source, k):
                keep[code.members[block + k * blocks]] = True


@kernel
def read_message(present: Bools, message: Bools) -> None:
    """Write into `message` the syndrome of the records that are present.

    Args:
        present: which slots hold a record; shape (slots,).
        message: shape (rows,).
    """
    rows = len(message)
    blocks = count_blocks(rows)
    words = ((rows + blocks - 1) // blocks + _WORD - 1) // _WORD
    column, total = np.empty(words, np.uint64), np.empty(words, np.uint64)
    for block in range(blocks):
        here = (rows - block + blocks - 1) // blocks
        total[:] = 0
        for j in range((len(present) - block + blocks - 1) // blocks):
            if present[block + j * blocks]:
                fill_column(j, here, column)
                for w in range(words):
                    total[w] ^= column[w]
        for i in range(here):
            message[block + i * blocks] = _get(total, i)
