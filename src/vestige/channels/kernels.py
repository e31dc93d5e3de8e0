"""A vector in a choice of records: how a segment of a batch is read and written.

A segment is the records of a batch that carry one coordinate. Its last five records are its controls; how many of them
are kept says how the others are to be read:

| kept | the others |
|---|---|
| none | their plain average is the number |
| one, whichever | the same, but it is known to be off: farther from its target than the answer can bear |
| two | presence bits; which two says by how much the word is turned |
| three | the same, but the number is known to be off; the two that are missing say the turn |

So no segment that was written is ever empty, a reader needs nothing but rounds, values and the clock, and there are
many ways to say each of these if some records cannot be kept. The channel `average` never writes bits: there the last
two records are controls, and either says that the average is off. `write_words` writes nothing but presence bits, with
four records for the turn and one that says that kept means zero.

A record that cannot be kept can only say zero, so a turn leaves some leading bits free to be said. If these are sign,
exponent and 11 bits of the mantissa, any number can be said; that is asked without values.
Guarantee: what `can_write` and `can_write_words` promise is written near its target, or said to be off; held by
tests/channels/test_channels.py, tests/channels/test_spelled.py and tests/policies/test_removal.py.
"""

from __future__ import annotations

import numpy as np

from vestige._numba import kernel
from vestige.channels.presence import count_bits, find_miss, read_word, write_word
from vestige.random.kernels import draw_uniform
from vestige.subset.search import compute_average, find_near_average
from vestige.subset.workspace import Workspace
from vestige.types import Bools, Floats, Ints

AVERAGE, BITS, AUTO = 0, 1, 2
FLAGS = 2
"""Number of records at the end of a segment that can mark an average as off, if only averages are written."""
CONTROLS = 5
"""Number of control records if bits are written too: they say which, whether it is off, and the turn of a word."""
TURNS = 3
"""A word can be turned by 2^TURNS different shares of its length."""
WORD_TURNS = 4
"""Number of records that say the turn if there are only presence bits; one more says whether kept means zero."""
WHOLE = 23
"""Number of leading bits that can hold any number: sign, exponent and the shortest mantissa."""
FEWEST = 8
"""Smallest number of records that an average is chosen from, unless the segment has fewer."""

MARK_DRAW = 1 << 20
"""Draw of a key that decides whether a miss is marked; no search draws as many."""


def _list_turns() -> Ints:
    """The turn that each code of the controls says, the i-th of which counts 2^i; -1 where it says an average.

    There are ten pairs for eight turns, so that two ways remain to say each of the first two.
    """
    turns = np.full(1 << CONTROLS, -1)
    pairs = [code for code in range((1 << CONTROLS) - 1, -1, -1) if code.bit_count() == 2]
    for k, code in enumerate(pairs):
        turns[code] = turns[((1 << CONTROLS) - 1) ^ code] = k % (1 << TURNS)
    return turns


_COUNTS = np.array([code.bit_count() for code in range(1 << CONTROLS)])
_TURN_OF = _list_turns()


@kernel
def _read_code(present: Bools) -> int:
    """The controls of a segment as a number."""
    code = 0
    for i in range(CONTROLS):
        if present[len(present) - CONTROLS + i]:
            code |= 1 << i
    return code


@kernel
def count_free_bits(can: Bools, off: bool) -> int:
    """How many leading bits can be said, whatever they are, at the best of the turns that can."""
    n, usable, most = len(can), _read_code(can), 0
    if can.all():
        return min(n - CONTROLS, 64)
    for code in range((1 << CONTROLS) - 1, 0, -1):
        if most < min(n - CONTROLS, 64) and _COUNTS[code] == (3 if off else 2) and code & ~usable == 0:
            most = max(most, count_bits(can, n - CONTROLS, _TURN_OF[code], TURNS, False))
    return most


@kernel
def can_write(can: Bools, dim: int, mode: int) -> bool:
    """Whether each of `dim` segments can say a number near any other, or that it is off; asked without values."""
    controls = FLAGS if mode == AVERAGE else CONTROLS
    for i in range(dim):
        mine = can[i::dim]
        others = len(mine) - controls
        if others < 1 or not mine[others:].any() or mine[:others].sum() < min(FEWEST, others):
            return False
    return True


@kernel
def find_turn(can: Bools) -> tuple[int, int]:
    """Where nothing but presence bits is written: the turn with the most leading bits free, and how many."""
    length = len(can) - WORD_TURNS - 1
    best, most = 0, -1
    for turn in range(1 << WORD_TURNS):
        if most >= min(length, 64):
            break
        said = True
        for i in range(WORD_TURNS):
            said &= can[length + i] or not (turn >> i) & 1
        if said:
            bits = count_bits(can, length, turn, WORD_TURNS, can[len(can) - 1])
            if bits > most:
                best, most = turn, bits
    return best, most


@kernel
def can_write_words(can: Bools, size: int) -> bool:
    """Whether each of `size` words can say any number; asked without values. Zero needs a turn record to be seen by."""
    seen = False
    for i in range(size):
        mine = can[i::size]
        length = len(mine) - WORD_TURNS - 1
        if length < WHOLE or find_turn(mine)[1] < WHOLE:
            return False
        for k in range(length, length + WORD_TURNS):
            seen |= mine[k]
    return seen


@kernel
def count_mantissa_bits(can: Bools, size: int) -> int:
    """How many bits of the mantissa each of `size` spelled words keeps at least, as a root mean square.

    Where the way of writing has to make up for a bit that cannot be said, a carry over that bit is drawn by chance, up
    to 2^-11 away: its mean square is that gap times the last step.
    """
    fewest = 52
    for i in range(size):
        mine = can[i::size]
        turn, most = find_turn(mine)
        bits = min(most - 12, 52)
        if count_bits(mine, len(mine) - WORD_TURNS - 1, turn, WORD_TURNS, False) < most:
            bits = (bits + WHOLE - 12) // 2
        fewest = min(fewest, bits)
    return fewest


@kernel
def has_bits(present: Bools) -> bool:
    """Whether the controls of a segment say that the others are presence bits."""
    return len(present) > CONTROLS and _TURN_OF[_read_code(present)] >= 0


@kernel
def read_segment(values: Floats, present: Bools, mode: int) -> float:
    """The number that a segment holds, by presence bits or as an average; nan if it is empty."""
    n = len(values)
    if mode == AVERAGE:
        return compute_average(values[: n - FLAGS], present[: n - FLAGS])
    if has_bits(present):
        return read_word(present, n - CONTROLS, _TURN_OF[_read_code(present)], TURNS, False)
    return compute_average(values[: n - CONTROLS], present[: n - CONTROLS])


@kernel
def is_off(present: Bools, mode: int) -> bool:
    """Whether a segment says that its number is off."""
    n = len(present)
    if mode == AVERAGE:
        return n > FLAGS and bool(present[n - 1] or present[n - 2])
    return n > CONTROLS and _COUNTS[_read_code(present)] in (1, 3)


@kernel
def _write_average(
    values: Floats,
    can: Bools,
    target: float,
    near: float,
    key: np.uint64,
    persist: bool,
    workspace: Workspace,
    keep: Bools,
) -> float:
    """Keep records whose average is near `target`; returns how far it is off."""
    usable = 0
    for i in range(len(values)):
        keep[i] = False
        if can[i]:
            workspace.values[usable], workspace.places[usable] = values[i], i
            usable += 1
    if not usable:
        return np.inf
    find_near_average(workspace.values, usable, target, near, key, persist, workspace, workspace.chosen)
    for i in range(usable):
        keep[workspace.places[i]] = workspace.chosen[i]
    return abs(compute_average(values, keep) - target)


@kernel
def _write_bits(can: Bools, target: float, coin: float, off: bool, keep: Bools) -> None:
    """Keep records that spell `target` as nearly as any turn allows that can be said."""
    length, usable = len(can) - CONTROLS, _read_code(can)
    best, least, everyone = 0, np.inf, can.all()
    for code in range((1 << CONTROLS) - 1, 0, -1):
        if _COUNTS[code] == (3 if off else 2) and code & ~usable == 0 and not (everyone and best):
            missed = 0.0 if everyone else find_miss(can, length, _TURN_OF[code], TURNS, target, coin)
            if missed < least:
                best, least = code, missed
    write_word(can, length, _TURN_OF[best], TURNS, False, target, coin, keep)
    for i in range(CONTROLS):
        keep[length + i] = (best >> i) & 1 == 1


@kernel
def write_segment(
    values: Floats,
    can: Bools,
    target: float,
    near: float,
    far: float,
    off: bool,
    key: np.uint64,
    mode: int,
    workspace: Workspace,
    keep: Bools,
) -> None:
    """Mark in `keep` the records of a segment that say `target`, of those that `can` be kept.

    `average` takes the nearest average. `auto` takes it where it is within `near`. Otherwise presence bits are written,
    unless records that cannot be kept spoil them so much that the average is nearer. What was written is read back:
    where it is farther off than `far`, or was `off` before, the segment says so.
    """
    n = len(values)
    others = n - (FLAGS if mode == AVERAGE else CONTROLS)
    while True:
        keep[:] = False
        bits = 0 if mode == AVERAGE else count_free_bits(can, off)
        residual = np.inf
        if mode != BITS or bits < WHOLE:
            residual = _write_average(
                values[:others], can[:others], target, near, key, bits < WHOLE, workspace, keep[:others]
            )
        if bits and residual > near:
            presence = workspace.presence[:n]
            _write_bits(can, target, draw_uniform(key, 0), off, presence)
            missed = abs(read_segment(values, presence, mode) - target)
            if missed < residual:
                residual = missed
                keep[:] = presence
        if off or residual <= far:
            break
        off = True
    for i in range(others, n):
        if off and not keep[others:].any():
            keep[i] = can[i]


@kernel
def read_batch(values: Floats, present: Bools, mode: int, vector: Floats, off: Bools) -> None:
    """Write into `vector` what a batch holds, coordinate i in every dim-th record; into `off` which are known to be."""
    dim = values.shape[1]
    for i in range(dim):
        vector[i] = read_segment(values[i::dim, i], present[i::dim], mode)
        off[i] = is_off(present[i::dim], mode)


@kernel
def read_kept(rounds: Ints, atoms: Floats, first: int, length: int, mode: int) -> tuple[Floats, Bools]:
    """What the kept records of a batch of `length` rounds, from `first` on, hold, and which of it is off.

    Each record goes to its round's slot.
    """
    dim = atoms.shape[1]
    values, present = np.zeros((length, dim)), np.zeros(length, np.bool_)
    vector, off = np.empty(dim), np.zeros(dim, np.bool_)
    for k in range(len(rounds)):
        slot = rounds[k] - first
        if 0 <= slot < length:
            present[slot] = True
            for i in range(dim):
                values[slot, i] = atoms[k, i]
    read_batch(values, present, mode, vector, off)
    return vector, off


@kernel
def read_single_word(present: Bools) -> float:
    """The number of one word that is nothing but presence bits."""
    length, turn = len(present) - WORD_TURNS - 1, 0
    for i in range(WORD_TURNS):
        if present[length + i]:
            turn |= 1 << i
    return read_word(present, length, turn, WORD_TURNS, present[len(present) - 1])


@kernel
def write_words(can: Bools, target: Floats, key: np.uint64, keep: Bools, spelled: Floats) -> None:
    """Mark in `keep` the records that spell `target`, coordinate i in every size-th record; what is read off them.

    For policies that know nothing but presence bits. A zero that no bits spell is written with the last turn, so that
    no batch is ever empty.
    """
    size = len(target)
    for i in range(size):
        mine, kept = can[i::size], keep[i::size]
        n, coin = len(mine), draw_uniform(key + np.uint64(i), 0)
        length, turn = n - WORD_TURNS - 1, find_turn(mine)[0]
        kept[n - 1] = write_word(mine, length, turn, WORD_TURNS, mine[n - 1], target[i], coin, kept)
        for k in range(WORD_TURNS):
            kept[length + k] = (turn >> k) & 1 == 1
        spelled[i] = read_single_word(kept)
        if spelled[i] == 0.0 and not kept[n - 1]:
            for k in range(length, n - 1):
                kept[k] = mine[k]


@kernel
def read_words(rounds: Ints, first: int, length: int, size: int) -> Floats:
    """What the kept records of a batch that was spelled say; nan if none is left."""
    present, vector = np.zeros(length, np.bool_), np.zeros(size)
    for k in rounds:
        if first <= k < first + length:
            present[k - first] = True
    if not present.any():
        vector[:] = np.nan
        return vector
    for i in range(size):
        vector[i] = read_single_word(present[i::size])
    return vector


@kernel
def write_batch(
    values: Floats,
    can: Bools,
    target: Floats,
    near: Floats,
    far: Floats,
    off: Bools,
    key: np.uint64,
    mode: int,
    workspace: Workspace,
    keep: Bools,
) -> None:
    """Mark in `keep` the records of a batch that say `target`."""
    dim = values.shape[1]
    for i in range(dim):
        mine, mark = values[i::dim, i], keep[i::dim]
        write_segment(mine, can[i::dim], target[i], near[i], far[i], off[i], key + np.uint64(i), mode, workspace, mark)
