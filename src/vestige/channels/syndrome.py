"""A message in the choice of records, some of which cannot be kept, and the reader does not know which.

A wet paper code (Fridrich, Goljan, Lisonek, Soukal 2005, https://doi.org/10.1109/TSP.2005.855393; for memories with
defects, Kuznetsov and Tsybakov 1974). The presence of the records is a vector x of bits, the message is its syndrome
H x mod 2. H is public: the column of slot j, counted from the newest record back, has random bits above row j, a one in
row j, and zeros below, so that back-substitution finds x. Records that cannot be kept are wet. A wet record has a row
in the inverse of H: it says which bits of the message must add up to an even number, so that the record is not kept.
These rows are added to each other until no two of them end at the same bit. Then the last bit of each is given up: it
is set so that the sum is even. So each wet record costs one bit at the end of the message, wherever the record lies,
and all of them together cost one or two more. Where there are more records than bits, those left over take the place
of bits that would be given up.
Long messages are split into blocks of at most 1,024 rows with the same H, slot j and row i in block j or i modulo their
number, so that time and memory are linear in the length.
Guarantee: the rows that `prepare` counts are read back as they were written, whatever the message; held by
tests/channels/test_syndrome.py.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from vestige._numba import inner_kernel, kernel
from vestige.channels.layout import MAX_ROWS
from vestige.random.kernels import draw
from vestige.types import Bools, Ints, Words

_SPARE = 64
"""Records beyond the last row that are used, in addition to one for each wet record.

The chance that so many random columns do not suffice is 2^-64."""
_WORD = 64
_ONE = np.uint64(1)
_LAST = np.uint64(63)
PUBLIC_KEY = np.uint64(0x76657374696765)
"""The key of H."""


class Code(NamedTuple):
    """What is prepared for writing messages into one batch; made by `make_code`.

    A place is a row of a block or, after these, an extra: a slot beyond the last row that can be kept.

    Attributes:
        columns: the first columns of H, as many as a block has rows; shape (rows of a block, words).
        wet: for each block the number of wet records among as many slots as it has rows; shape (blocks,).
        extras: the extras of each block, counted within it; shape (blocks, rows of a block + 64).
        counts: the number of them; shape (blocks,).
        checks: for each wet record, at its row, places that must sum to zero; shape (rows, wide words).
        given_up: for each place the row of the check whose last one is there; -1 if none is; shape (blocks, places).
        more: the columns of the extras of one block; shape (rows of a block + 64, words).
        left: a vector to compute with; shape (wide words,).
    """

    columns: Words
    wet: Ints
    extras: Ints
    counts: Ints
    checks: Words
    given_up: Ints
    more: Words
    left: Words


@kernel
def count_blocks(rows: int) -> int:
    """Count the blocks of a message of so many rows."""
    return (rows + MAX_ROWS - 1) // MAX_ROWS


@kernel
def _get(words: Words, place: int) -> bool:
    return bool((words[place // _WORD] >> np.uint64(_WORD - 1 - place % _WORD)) & _ONE == _ONE)


@kernel
def _flip(words: Words, place: int) -> None:
    words[place // _WORD] ^= _ONE << np.uint64(_WORD - 1 - place % _WORD)


@kernel
def fill_column(slot: int, rows: int, column: Words) -> None:
    """Write the column of a slot, counted within its block, as bits of words; row 0 is the first bit of the first."""
    fill_keyed_column(PUBLIC_KEY, slot, rows, column)


@kernel
def fill_keyed_column(key: np.uint64, slot: int, rows: int, column: Words) -> None:
    """Write the column of a slot in the code of any key: `vestige.audit` compares the public code with others."""
    for w in range(len(column)):
        above, word = min(slot, rows) - w * _WORD, np.uint64(0)  # random bits
        if above > 0:
            drop = np.uint64(max(_WORD - above, 0))
            word = (draw(key, slot * MAX_ROWS + w) >> drop) << drop
        column[w] = word
    if slot < rows:
        _flip(column, slot)


@kernel
def make_code(rows: int) -> Code:
    """Make room for messages of so many rows; ready for use where no record is wet."""
    blocks = count_blocks(rows)
    longest = (rows + blocks - 1) // blocks
    words, places = (longest + _WORD - 1) // _WORD, 2 * longest + _SPARE
    wide = (places + _WORD - 1) // _WORD
    columns = np.empty((longest, words), np.uint64)
    for slot in range(longest):
        fill_column(slot, longest, columns[slot])
    return Code(
        columns,
        np.zeros(blocks, np.int64),
        np.empty((blocks, longest + _SPARE), np.int64),  # empty, as most records are dry: zeros would take more time
        np.empty(blocks, np.int64),
        np.empty((rows, wide), np.uint64),
        np.empty((blocks, places), np.int64),
        np.empty((longest + _SPARE, words), np.uint64),
        np.empty(wide, np.uint64),
    )


@kernel
def _is_odd(first: Words, second: Words, words: int) -> bool:
    """Tell whether an odd number of places is one in both vectors, as far as the first `words` words."""
    total = np.uint64(0)
    for w in range(words):
        total ^= first[w] & second[w]
    for width in (32, 16, 8, 4, 2, 1):
        total ^= total >> np.uint64(width)
    return bool(total & _ONE == _ONE)


@kernel
def _find_last(words: Words) -> int:
    """Find the last place that is one."""
    w = len(words) - 1
    while words[w] == 0:
        w -= 1
    zeros = 0
    while not (words[w] >> np.uint64(zeros)) & _ONE:
        zeros += 1
    return (w + 1) * _WORD - 1 - zeros


@inner_kernel
def prepare(can: Bools, rows: int, code: Code) -> int:
    """Prepare to write into the records that can be kept.

    Args:
        can: which slots hold a record that may be kept; shape (slots,), at least `rows` of them.
        rows: the number of rows of a message.
        code: from `make_code(rows)`; changed.

    Returns:
        the number of leading rows that can be written, whatever the message is; `rows` if no record is wet.
    """
    blocks, free, newest_first = len(code.wet), rows, can[::-1]
    for block in range(blocks):
        here = (rows - block + blocks - 1) // blocks
        code.wet[block] = 0
        for j in range(here):
            code.wet[block] += not newest_first[block + j * blocks]
        if code.wet[block]:
            free = min(free, block + blocks * _prepare_block(newest_first, block, here, code))
    return free


@inner_kernel
def _prepare_block(can: Bools, block: int, rows: int, code: Code) -> int:
    """Find the checks of a block, and the places that are given up; return the rows before the first of these."""
    blocks, given_up = len(code.wet), code.given_up[block]
    count = _find_extras(can, block, rows, code)
    free, given_up[:] = rows, -1
    for i in range(rows):
        row = block + i * blocks
        if can[row]:
            continue
        check = code.checks[row]
        check[:] = 0
        _flip(check, i)
        for j in range(i + 1, rows):  # row i of the inverse of H, from the left
            if _is_odd(check, code.columns[j], j // _WORD + 1):
                _flip(check, j)
        for k in range(count):
            if _is_odd(check, code.more[k], (rows + _WORD - 1) // _WORD):
                _flip(check, rows + k)
        last = _find_last(check)
        while given_up[last] >= 0:  # ends: rows of an inverse are independent
            for w in range(last // _WORD + 1):
                check[w] ^= code.checks[given_up[last], w]
            last = _find_last(check)
        given_up[last] = row
        free = min(free, last)
    return free


@inner_kernel
def _find_extras(can: Bools, block: int, rows: int, code: Code) -> int:
    """Find as many extras of a block as are of use, and their columns; return their number."""
    blocks, count = len(code.wet), 0
    for j in range(rows, (len(can) - block + blocks - 1) // blocks):
        if count == code.wet[block] + _SPARE:
            break
        if can[block + j * blocks]:
            fill_column(j, rows, code.more[count])
            code.extras[block, count] = j
            count += 1
    code.counts[block] = count
    return count


@kernel
def pack_message(message: Bools) -> Words:
    """Write a message as bits of words, with zeros after its last row."""
    words = np.zeros((len(message) + _WORD - 1) // _WORD, np.uint64)
    for i in range(len(message)):
        if message[i]:
            _flip(words, i)
    return words


@kernel
def write_message(message: Bools, free: int, code: Code, keep: Bools) -> None:
    """Mark in `keep` the records whose syndrome begins with the first `free` bits of the message.

    The other bits come out at random, so that those who read them are not biased.

    Args:
        message: shape (rows,).
        free: what `prepare` returned.
        code: as `prepare` left it; its vector is changed.
        keep: which slots to keep; shape (slots,).
    """
    write_words(pack_message(message), free, code, keep)


@inner_kernel
def write_words(message: Words, free: int, code: Code, keep: Bools) -> None:
    """Mark in `keep` the records of a message that is given as bits of words, with zeros after its last row."""
    rows, blocks, left, newest_first = len(code.checks), len(code.wet), code.left, keep[::-1]
    for j in range(rows, len(keep)):
        newest_first[j] = False
    for block in range(blocks):
        here, sure = (rows - block + blocks - 1) // blocks, (free - block + blocks - 1) // blocks
        _take_block(message, block, blocks, sure, left)
        if sure < here:
            key = PUBLIC_KEY
            for w in range(sure // _WORD + 1):
                key = draw(key ^ left[w], w)
            for i in range(sure, here):
                if draw(key, i) & _ONE:
                    _flip(left, i)
        if code.wet[block]:
            _give_up(block, here, sure, code, newest_first)
        _substitute(left, here, code.columns, newest_first[block::blocks])


@inner_kernel
def _take_block(message: Words, block: int, blocks: int, count: int, left: Words) -> None:
    """Write the first bits of a block into words, and zeros after them."""
    for w in range(len(left)):
        word = np.uint64(0)
        start, end = w * _WORD, min(count, w * _WORD + _WORD)
        if blocks == 1 and end > start:
            drop = np.uint64(start + _WORD - end)
            word = (message[w] >> drop) << drop
        else:
            for i in range(start, end):
                if _get(message, block + i * blocks):
                    word |= _ONE << np.uint64(_WORD - 1 - (i - start))
        left[w] = word


@inner_kernel
def _substitute(left: Words, rows: int, columns: Words, keep: Bools) -> None:
    """Keep the records whose columns add up to what is left, by back-substitution."""
    for w in range((rows - 1) // _WORD, -1, -1):
        word = left[w]
        for i in range(min(rows, w * _WORD + _WORD) - 1, w * _WORD - 1, -1):
            bit = (word << np.uint64(i - w * _WORD)) >> _LAST
            keep[i], mask = bit, ~bit + _ONE  # all ones or zeros: there is no branch to mispredict
            word ^= columns[i, w] & mask
            for v in range(w):
                left[v] ^= columns[i, v] & mask


@inner_kernel
def _give_up(block: int, rows: int, sure: int, code: Code, keep: Bools) -> None:
    """Choose the bits that are given up so that no wet record is asked for, and keep the extras among them."""
    left, blocks, count = code.left, len(code.wet), code.counts[block]
    for place in range(sure, rows + count):
        row = code.given_up[block, place]
        if row >= 0 and _is_odd(left, code.checks[row], place // _WORD + 1):
            _flip(left, place)
    for k in range(count):
        if _get(left, rows + k):
            _flip(left, rows + k)
            slot = code.extras[block, k]
            keep[block + slot * blocks] = True
            fill_column(slot, rows, code.more[0])
            for w in range((rows + _WORD - 1) // _WORD):
                left[w] ^= code.more[0, w]


@kernel
def read_message(present: Bools, message: Bools) -> None:
    """Write into `message` the syndrome of the records that are present.

    Args:
        present: which slots hold a record; shape (slots,).
        message: shape (rows,).
    """
    words = np.empty((len(message) + _WORD - 1) // _WORD, np.uint64)
    read_words(present, len(message), words)
    for i in range(len(message)):
        message[i] = _get(words, i)


@kernel
def read_words(present: Bools, rows: int, message: Words) -> None:
    """Write into `message` the syndrome of so many rows as bits of words, with zeros after them."""
    newest_first = present[::-1]
    blocks = count_blocks(rows)
    words = ((rows + blocks - 1) // blocks + _WORD - 1) // _WORD
    for w in range(len(message)):
        message[w] = 0
    column, total = np.empty(words, np.uint64), np.empty(words, np.uint64)
    for block in range(blocks):
        here = (rows - block + blocks - 1) // blocks
        for w in range(words):
            total[w] = 0
        for j in range((len(present) - block + blocks - 1) // blocks):
            if newest_first[block + j * blocks]:
                fill_column(j, here, column)
                for w in range(words):
                    total[w] ^= column[w]
        for i in range(here):
            if _get(total, i):
                _flip(message, block + i * blocks)
