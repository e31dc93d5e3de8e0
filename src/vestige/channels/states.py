"""A state of some bits in the choice of records: a message of a one, so that no batch is empty, and then the bits.

Theorem. Slots that hold M + 1 records that may be kept hold any state of M bits if every row of the message can be
written (`vestige.channels.syndrome`). If k more records than rows can be kept in each block, the chance that a block
has a row that cannot be written is at most 2^-k. docs/theorems.md has the proof.
Guarantee: what is written is read, bit for bit; held by tests/policies/test_memory.py.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from vestige.channels.layout import MAX_ROWS
from vestige.types import Bools

if TYPE_CHECKING:
    from vestige.channels.syndrome import Code

_HEADER = 1
_SPARE = 20
"""Records that a message has beyond its rows where the reserve is spent: all rows are free but one time in 2^20."""
_DEVIATIONS = 6.0
"""How many standard deviations more wet records than its share a block has room for."""


def count_message_rows(bits: int) -> int:
    """Count the rows of the message of a state, the fewest records that hold it.

    Args:
        bits: the number of bits of the state.

    Returns:
        the number of rows.

    Example:
        >>> count_message_rows(128)
        129
    """
    return bits + _HEADER


def find_state_slots(bits: int, reserve: float) -> int:
    """Find how many records hold a state although a share of them, at random places, cannot be kept.

    Args:
        bits: the number of bits of the state.
        reserve: the share.

    Returns:
        the number of records.

    Example:
        >>> find_state_slots(2_000, 0.1)
        2372
    """
    rows = count_message_rows(bits)
    if not reserve:
        return rows
    blocks = math.ceil(rows / MAX_ROWS)
    needed = math.ceil(rows / blocks) + _SPARE + blocks.bit_length()
    spread = _DEVIATIONS * math.sqrt(reserve * (1.0 - reserve) * (1.0 - 1.0 / blocks))
    dry = 1.0 - reserve  # a block of n slots has n dry - spread sqrt(n) dry ones or more
    root = (spread + math.sqrt(spread**2 + 4.0 * dry * needed)) / (2.0 * dry)
    return blocks * math.ceil(root**2)


def prepare_state(can: Bools, bits: int) -> Code | None:
    """Prepare what it takes to write a state into slots.

    Args:
        can: which slots hold a record that may be kept; shape (slots,).
        bits: the number of bits of the state.

    Returns:
        what `write_state` takes; None if the slots cannot hold every state.
    """
    from vestige.channels.syndrome import make_code, prepare  # noqa: PLC0415

    rows = count_message_rows(bits)
    if can.sum() < rows:
        return None
    code = make_code(rows)
    return code if prepare(can, rows, code) == rows else None


def write_state(state: bytes, bits: int, code: Code, slots: int) -> Bools:
    """Choose the slots to keep.

    Args:
        state: the state.
        bits: its number of bits.
        code: what was prepared for these slots.
        slots: the number of slots.

    Returns:
        which slots to keep; shape (slots,).
    """
    from vestige.channels.syndrome import write_message  # noqa: PLC0415

    message, keep = np.ones(count_message_rows(bits), np.bool_), np.zeros(slots, np.bool_)
    message[_HEADER:] = np.unpackbits(np.frombuffer(state, np.uint8), count=bits, bitorder="little")
    write_message(message, len(message), code, keep)
    return keep


def read_state(present: Bools, bits: int) -> bytes | None:
    """Read the state that slots hold.

    Args:
        present: which slots hold a record; shape (slots,).
        bits: the number of bits of the state.

    Returns:
        the state; None if the first bit shows that a record is missing.
    """
    from vestige.channels.syndrome import read_message  # noqa: PLC0415

    message = np.empty(count_message_rows(bits), np.bool_)
    read_message(present, message)
    return np.packbits(message[_HEADER:], bitorder="little").tobytes() if message[0] else None
