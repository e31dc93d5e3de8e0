"""Kernels over texts: hash tables of names, and whole numbers as their digits.

Guarantee: held by tests/keyed/test_names.py.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from vestige._numba import kernel
from vestige.types import Ints

Bytes = NDArray[np.uint8]
_PRIME = np.uint64(0x100000001B3)
_BASIS = np.uint64(0xCBF29CE484222325)
_ZERO, _MINUS = 48, 45
_MOST_DIGITS = 20
_GROUP = 64
"""Number of names that are looked up step by step."""


@kernel
def hash_bytes(content: Bytes, start: int, stop: int) -> np.uint64:
    """Hash bytes: FNV-1a of 64 bits, whose upper bits are mixed into the lower ones."""
    word = _BASIS
    for i in range(start, stop):
        word = (word ^ np.uint64(content[i])) * _PRIME
    return word ^ (word >> np.uint64(29))


@kernel
def find_entry(
    slots: NDArray[np.int32], offsets: Ints, content: Bytes, other: Bytes, start: int, stop: int
) -> tuple[int, int]:
    """Find the number of a name, or -1, and the slot where it is or would be."""
    mask, length = len(slots) - 1, stop - start
    slot = int(np.int64(hash_bytes(other, start, stop) & np.uint64(mask)))
    while slots[slot] >= 0:
        number = slots[slot]
        begin = offsets[number]
        if offsets[number + 1] - begin == length:
            same = True
            for i in range(length):
                if content[begin + i] != other[start + i]:
                    same = False
                    break
            if same:
                return number, slot
        slot = (slot + 1) & mask
    return -1, slot


@kernel
def look_up(
    slots: NDArray[np.int32],
    offsets: Ints,
    content: Bytes,
    other_offsets: Ints,
    other: Bytes,
    first: int,
    last: int,
    numbers: Ints,
) -> None:
    """Write the number of each name from `first` to before `last`, or -1.

    Names are looked up in groups, step by step, so that a machine waits for the memory of many at a time.
    """
    mask = np.uint64(len(slots) - 1)
    homes, begins = np.empty(_GROUP, np.int64), np.empty(_GROUP, np.int64)
    for start in range(first, last, _GROUP):
        n = min(_GROUP, last - start)
        for i in range(n):
            row = start + i
            homes[i] = np.int64(hash_bytes(other, other_offsets[row], other_offsets[row + 1]) & mask)
        for i in range(n):
            numbers[start + i] = slots[homes[i]]
        for i in range(n):
            begins[i] = offsets[max(numbers[start + i], 0)]
        for i in range(n):
            row = start + i
            begin, length = other_offsets[row], other_offsets[row + 1] - other_offsets[row]
            if numbers[row] < 0:
                continue
            same = offsets[numbers[row] + 1] - begins[i] == length
            for k in range(length if same else 0):
                if content[begins[i] + k] != other[begin + k]:
                    same = False
                    break
            if not same:
                numbers[row] = find_entry(slots, offsets, content, other, begin, begin + length)[0]


@kernel
def add_names(
    slots: NDArray[np.int32],
    offsets: Ints,
    content: Bytes,
    count: int,
    other_offsets: Ints,
    other: Bytes,
    missing: Ints,
    place: int,
    numbers: Ints,
    most_full: float,
) -> tuple[int, int]:
    """Add the names of the rows `missing` from `place` on, as far as there is room; how many there are, where to go on.

    Some of these rows may have the same name. `count` names are in the table, of which at most `most_full` is used.
    """
    for here in range(place, len(missing)):
        row = missing[here]
        start, stop = other_offsets[row], other_offsets[row + 1]
        number, slot = find_entry(slots, offsets, content, other, start, stop)
        if number < 0:
            number, begin = count, offsets[count]
            full = count + 1 > most_full * len(slots) or count + 2 > len(offsets)
            if full or begin + stop - start > len(content):
                return count, here
            for i in range(stop - start):
                content[begin + i] = other[start + i]
            offsets[count + 1] = begin + stop - start
            slots[slot] = number
            count += 1
        numbers[row] = number
    return count, len(missing)


@kernel
def remove_entry(slots: NDArray[np.int32], offsets: Ints, content: Bytes, number: int) -> None:
    """Take a name, which must be in the table, out of it; names after it move up, so that each is still found."""
    mask = len(slots) - 1
    hole = find_entry(slots, offsets, content, content, offsets[number], offsets[number + 1])[1]
    slots[hole] = -1
    slot = (hole + 1) & mask
    while slots[slot] >= 0:
        other = slots[slot]
        home = int(np.int64(hash_bytes(content, offsets[other], offsets[other + 1]) & np.uint64(mask)))
        if (slot - home) & mask >= (slot - hole) & mask:  # the hole is not before its home
            slots[hole] = other
            slots[slot] = -1
            hole = slot
        slot = (slot + 1) & mask


@kernel
def fill_table(slots: NDArray[np.int32], offsets: Ints, content: Bytes, count: int) -> None:
    """Enter so many names into an empty table, but for those that were erased, whose bytes are zero."""
    for number in range(count):
        if content[offsets[number]] == 0:
            continue
        slots[find_entry(slots, offsets, content, content, offsets[number], offsets[number + 1])[1]] = number


@kernel
def format_numbers(numbers: Ints) -> tuple[Ints, Bytes]:
    """Write whole numbers as their digits: where each text begins, and all bytes."""
    offsets, content = np.zeros(len(numbers) + 1, np.int64), np.empty(len(numbers) * _MOST_DIGITS, np.uint8)
    digits, place = np.empty(_MOST_DIGITS, np.uint8), 0
    for row in range(len(numbers)):
        left, count = numbers[row], 0
        negative = left < 0
        while count == 0 or left != 0:
            digit = left % 10
            if negative and digit:
                digit = 10 - digit
                left += 10
            digits[count] = _ZERO + digit
            left //= 10
            count += 1
        if negative:
            content[place] = _MINUS
            place += 1
        for i in range(count):
            content[place + i] = digits[count - 1 - i]
        place += count
        offsets[row + 1] = place
    return offsets, content[:place].copy()
