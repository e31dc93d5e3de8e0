"""The state of a stream as a store keeps it: clock and records, positions and receipts, as one immutable value.

Guarantee: a stream that continues from it goes on as if it had never stopped; held by tests/store/test_machine.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from vestige.clock import Clock
from vestige.records import Records
from vestige.store.position import Position
from vestige.store.receipt import Receipt


@dataclass(frozen=True, slots=True)
class State:
    """All that is kept of a stream.

    Attributes:
        clock: the public clock.
        retained: the records that are held.
        positions: position in each source that was read, by its name.
        receipts: those of the removal requests, in the order of the requests.
        settled: number of the newest request in the ledger of the store that has been met here.
        event: when a sweep has something to do here next, in microseconds since 1970, or before; None if whoever made
            the state does not know it. It follows from the rest, so states that differ in it only are equal.
    """

    clock: Clock
    retained: Records
    positions: Mapping[str, Position] = field(default_factory=dict)
    receipts: tuple[Receipt, ...] = ()
    settled: int = 0
    event: int | None = field(default=None, compare=False)

    def find_records(self, source: str) -> Records:
        """Find the retained records that are rows of a source.

        Args:
            source: name of the source.

        Returns:
            The records, with their row numbers as `numbers`.

        Example:
            >>> len(State.empty(1).find_records("visits.csv"))
            0
        """
        return self.retained.from_source(self.positions.get(source, Position()).slot)

    @classmethod
    def empty(cls, columns: int) -> State:
        """Return the state before the first record.

        Args:
            columns: number of values per record.

        Returns:
            The state.
        """
        return cls(Clock(), Records.empty(columns))
