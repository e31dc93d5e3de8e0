"""The state of a stream: the clock, the records that are held and that wait, positions and receipts.

Section 2 of Immorlica et al. (2024): records and the clock are all that may be remembered. Positions and receipts say
nothing of a record's values.
Guarantee: after `restore`, a stream is as it was at `snapshot`; held by tests/stream/test_state.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

from vestige.clock import Clock
from vestige.records import Records
from vestige.row_numbers import drop_rows, find_rows, number_rows
from vestige.store import Position, Receipt, State
from vestige.stream.pending import Pending
from vestige.types import Bools, Ints


class Snapshot(NamedTuple):
    """A state to return to.

    Attributes:
        updated: the clock at the last update.
        held: what that update kept.
        pending: the records since; None if they are a prefix of those that wait when it is restored.
        size: number of rounds since.
        positions: for each source how far it was read.
        receipts: of the removal requests.
        settled: number of the newest request to the store that has been met.
    """

    updated: Clock
    held: Records
    pending: Records | None
    size: int
    positions: Mapping[str, Position]
    receipts: tuple[Receipt, ...]
    settled: int


class StreamState:
    """The state of a stream; the only part of it that changes.

    Args:
        saved: the state to start from.
        pending: an empty buffer for the records until the next update.

    Attributes:
        updated: the clock at the last update, whose `t` is its `last`.
        held: what that update kept.
        pending: the records since.
        positions: for each source how far it was read.
        receipts: of the removal requests, in the order in which they were made.
        settled: number of the newest request to the store that has been met here; see `vestige.store.ledger`.
    """

    __slots__ = ("held", "pending", "positions", "receipts", "settled", "updated")

    def __init__(self, saved: State, pending: Pending) -> None:
        self.pending = pending
        self.positions, self.receipts, self.settled = saved.positions, saved.receipts, saved.settled
        self.resume(saved.clock, saved.retained)

    @property
    def t(self) -> int:
        """Number of records that have arrived."""
        return self.updated.last + self.pending.size

    @property
    def clock(self) -> Clock:
        """The public clock."""
        return replace(self.updated, t=self.t)

    @property
    def retained(self) -> Records:
        """All records that are held, those that wait among them."""
        return self.held.concat(self.waiting)

    @property
    def waiting(self) -> Records:
        """A copy of the records since the last update."""
        return self.pending.to_records(self.updated.last)

    def to_saved(self) -> State:
        """Gather what a store keeps of it.

        Returns:
            The state as an immutable value.
        """
        return State(self.clock, self.retained, self.positions, self.receipts, self.settled)

    def advance(self, clock: Clock, kept: Records, receipts: tuple[Receipt, ...], settled: int) -> None:
        """Move on after an update; no records wait any more.

        Args:
            clock: the clock after it.
            kept: what it keeps.
            receipts: of the removal requests.
            settled: number of the newest request to the store that has been met.
        """
        self.receipts, self.settled, self.updated = receipts, settled, clock
        self.pending.clear()
        self.held = kept

    def resume(self, clock: Clock, retained: Records) -> None:
        """Put another clock and other records in place; those after `clock.last` wait for the next update.

        Args:
            clock: the public clock.
            retained: all records that are held.
        """
        waits = retained.rounds > clock.last
        self.updated = replace(clock, t=clock.last)
        self.pending.replace(retained.where(waits), clock.last, clock.pending)
        self.held = retained.where(~waits)

    def mark_leaving(self, held: Bools, waiting: Bools) -> None:
        """Mark records whose removal was requested.

        Args:
            held: one flag per record that is held.
            waiting: one flag per round since the last update.
        """
        self.pending.mark(waiting)
        self.held = self.held.with_leaving(self.held.leaving | held)

    def assign_numbers(self, slot: int, rows: Ints | None) -> Ints | None:
        """Number records that are rows of a source; where it is read from its start again, others lose their numbers.

        Args:
            slot: the slot of the source; 0 if it has none.
            rows: number of each row in the source, increasing; None if they are not known.

        Returns:
            The numbers of the records; None if they have none.
        """
        if not slot or rows is None:
            return None
        waiting = self.pending.numbers[: self.pending.size]
        if any(rows[0] <= find_rows(numbers, slot).max(initial=0) for numbers in (self.held.numbers, waiting)):
            self.drop_numbers(slot)
        return number_rows(rows, slot)

    def drop_numbers(self, slot: int) -> None:
        """Forget which records are rows of a source.

        Args:
            slot: the slot of the source.
        """
        self.held = self.held.without_numbers(slot)
        waiting = self.pending.numbers[: self.pending.size]
        waiting[:] = drop_rows(waiting, slot)

    def snapshot(self, *, copy_pending: bool = True) -> Snapshot:
        """Remember the state.

        Args:
            copy_pending: False if records are only added until it is restored; they are cut off then.

        Returns:
            What `restore` takes.
        """
        waiting = self.waiting if copy_pending else None
        size, known = self.pending.size, (self.positions, self.receipts, self.settled)
        return Snapshot(self.updated, self.held, waiting, size, *known)

    def restore(self, snapshot: Snapshot) -> None:
        """Return to a state, and overwrite what came after it.

        Args:
            snapshot: what `snapshot` returned.
        """
        self.updated, self.held = snapshot.updated, snapshot.held
        self.positions, self.receipts, self.settled = snapshot.positions, snapshot.receipts, snapshot.settled
        if snapshot.pending is None:
            self.pending.cut(snapshot.size)
        else:
            self.pending.replace(snapshot.pending, self.updated.last, snapshot.size)
