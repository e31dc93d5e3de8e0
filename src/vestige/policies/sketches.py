"""The states of several sketches of a bundle as one: each of the records that have its columns, with their number.

Guarantee: each state is that of a sketch that saw the records with its columns alone, bit for bit; held by
tests/policies/test_bundle_sketches.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from vestige import channels
from vestige.channels.states import count_message_rows, find_state_slots, prepare_state, read_state, write_state
from vestige.clock import Clock
from vestige.policies.stateful import Stateful
from vestige.policy import make_lost_error
from vestige.records import Records
from vestige.statistics import find_present
from vestige.types import Bools, Floats

_COUNT_BYTES = 6
"""Bytes of a number of records, or of a round."""
Places = tuple[int, ...]
"""Columns of a record, counted from 0."""


@dataclass(frozen=True)
class Sketches:
    """Sketches of groups of columns, whose states are written as one.

    Attributes:
        groups: the different sketches of each group of columns.
    """

    groups: tuple[tuple[Places, tuple[Stateful, ...]], ...]

    @cached_property
    def bits(self) -> int:
        """The number of bits of all states and of the round since which they count: whole bytes for each."""
        states = sum(_COUNT_BYTES + sum(map(_count_bytes, sketches)) for _, sketches in self.groups)
        return 8 * (_COUNT_BYTES + states)

    @property
    def rows(self) -> int:
        """The fewest slots that hold the states."""
        return count_message_rows(self.bits)

    @cached_property
    def slots(self) -> int:
        """The slots that hold them although the reserve of the sketches is spent."""
        return find_state_slots(self.bits, max(sketch.reserve for _, sketches in self.groups for sketch in sketches))

    def write(self, state: bytes, can: Bools) -> Bools:
        """Choose the slots to keep.

        Args:
            state: the states.
            can: which slots hold a record that may be kept.

        Returns:
            which slots to keep; none of them if they cannot hold every state, so that the sketches start over.
        """
        code = prepare_state(can, self.bits)
        return np.zeros(len(can), np.bool_) if code is None else write_state(state, self.bits, code, len(can))

    def read(self, clock: Clock, retained: Records, room: int) -> bytes:
        """Read the states that the encoded batch holds.

        Args:
            clock: the public clock.
            retained: all records that are held.
            room: the first slot that the states may be in.

        Returns:
            the states; the first ones if none is encoded, also because the batch had no room for them.

        Raises:
            NoRecordsError: records of the batch are missing.
        """
        present = channels.lay_out_encoded(retained, clock)[1][room:]
        if not present.any():  # a state begins with a one, so that some record is kept for it
            first = (b"\0" * _COUNT_BYTES + b"".join(sketch.first_state for sketch in each) for _, each in self.groups)
            return (clock.last + 1).to_bytes(_COUNT_BYTES, "little") + b"".join(first)
        state = read_state(present, self.bits)
        if state is None:
            raise make_lost_error(clock)
        return state

    def move(self, state: bytes, rows: Floats) -> bytes:
        """Move each state by the records that have its columns.

        Args:
            state: the states before them.
            rows: the records in the order of their arrival, nan where a value is missing; shape (n, columns).

        Returns:
            the next states.
        """
        moved = [state[:_COUNT_BYTES]]
        for places, count, states in self._split(state):
            values = rows[:, list(places)]
            values = values[find_present(values)]
            moved.append((count + len(values)).to_bytes(_COUNT_BYTES, "little"))
            for sketch, before in states.items():
                moved.append(sketch.check_state(sketch.move(before, values)) if len(values) else before)
        return b"".join(moved)

    def find_states(self, state: bytes) -> dict[Places, tuple[int, Mapping[Stateful, bytes]]]:
        """Find the states of each group.

        Args:
            state: the states.

        Returns:
            the number of records that have the columns, and the state of each sketch, by columns.
        """
        return {places: (count, states) for places, count, states in self._split(state)}

    def find_since(self, state: bytes) -> int:
        """Find the round since which the sketches count.

        Args:
            state: the states.

        Returns:
            the round.
        """
        return int.from_bytes(state[:_COUNT_BYTES], "little")

    def _split(self, state: bytes) -> Iterator[tuple[Places, int, dict[Stateful, bytes]]]:
        end = _COUNT_BYTES
        for places, sketches in self.groups:
            start, end = end, end + _COUNT_BYTES
            count, states = int.from_bytes(state[start:end], "little"), {}
            for sketch in sketches:
                start, end = end, end + _count_bytes(sketch)
                states[sketch] = state[start:end]
            yield places, count, states


def _count_bytes(sketch: Stateful) -> int:
    return len(sketch.first_state)
