"""Positions of a family of streams: how far each source was read into all of them, and who was left behind.

All streams of a family are written together, so one position says for all of them how far a source was read. A stream
that could not take a row keeps a position of its own until it has caught up. A key that has no stream yet, because its
first row could not be taken, holds back the position from which new keys are read.
Guarantee: each row is taken once, as with a position for every stream, wherever a run stops and whichever streams are
left behind; held by tests/keyed/test_positions.py.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from vestige.row_numbers import LARGEST_SLOT
from vestige.store.families import SharedPosition
from vestige.store.position import Position

Order = Callable[[bytes], Any]
"""Function from a position to a value by which positions of its source compare; see `vestige.sources.Source.order`."""
Renumbering = dict[str, dict[int, int]]
"""Slots of the family in place of those by which the records of a stream know sources, by the name of the stream."""


@dataclass(slots=True)
class KeyedPositions:
    """How far each source was read into a family of streams.

    Attributes:
        shared: position of each source, by its name.
        own: positions of streams that differ from it, by the name of the source and by that of the stream.
        changed_sources: sources whose shared position is not saved yet, or is gone and still saved.
        changed_streams: names of streams whose own positions are not saved yet.

    Example:
        >>> positions = KeyedPositions()
        >>> reading = positions.read("visits.csv", len)
        >>> reading.note(b"..", behind={"DE": b"."})
        >>> positions.find("visits.csv", "DE"), positions.find("visits.csv", "FR")
        (b'.', b'..')
    """

    shared: dict[str, SharedPosition] = field(default_factory=dict)
    own: dict[str, dict[str, bytes]] = field(default_factory=dict)
    changed_sources: set[str] = field(default_factory=set)
    changed_streams: set[str] = field(default_factory=set)

    @classmethod
    def load(
        cls, shared: Mapping[str, SharedPosition], own: Iterable[tuple[str, Mapping[str, Position]]]
    ) -> tuple[KeyedPositions, Renumbering]:
        """Gather what a store knows.

        Args:
            shared: position of each source that the family shares, by its name.
            own: name and own positions of each stream that has some.

        Returns:
            The positions; and the streams whose records have to be numbered by the slots of the family, since they were
            read alone.

        Example:
            >>> own = [("DE", {"a": Position(b"1", 1)}), ("FR", {"a": Position(b"1", 2)})]
            >>> KeyedPositions.load({}, own)[1]
            {'FR': {2: 1}}
        """
        made, renumbering = cls(dict(shared)), Renumbering()
        for name, positions in own:
            for source, position in positions.items():
                if source not in made.shared:
                    made._add(source, position.slot)
                made.own.setdefault(source, {})[name] = position.value
                slot = made.shared[source].slot
                if position.slot and position.slot != slot:
                    renumbering.setdefault(name, {})[position.slot] = slot
        made.changed_streams.update(renumbering)
        return made, renumbering

    def find(self, source: str, name: str, *, is_there: bool = True) -> bytes:
        """Find the position that counts for a stream.

        Args:
            source: name of the source.
            name: name of the stream.
            is_there: whether there is a stream of that name.

        Returns:
            The position; empty if it has read nothing.
        """
        shared = self.shared.get(source, SharedPosition())
        if not is_there:
            return shared.newcomers
        return self.own.get(source, {}).get(name, shared.value)

    def find_own(self, name: str) -> dict[str, Position]:
        """Find the own positions of a stream, to be saved with it.

        Args:
            name: name of the stream.

        Returns:
            Its positions that differ from those of the family, by the name of the source.
        """
        return {
            source: Position(own[name], self.shared[source].slot) for source, own in self.own.items() if name in own
        }

    def find_start(self, source: str, order: Order) -> bytes:
        """Find where to begin to read, so that no stream misses a row.

        Args:
            source: name of the source.
            order: order of its positions.

        Returns:
            The smallest position that counts for a stream or for a key without one.
        """
        newcomers = self.shared.get(source, SharedPosition()).newcomers
        return min((newcomers, *self.own.get(source, {}).values()), key=order)

    def read(self, source: str, order: Order) -> SourceReading:
        """Begin to read a source into the family, from `find_start` on.

        Args:
            source: name of the source.
            order: order of its positions.

        Returns:
            What notes the blocks that were taken.
        """
        if source not in self.shared:
            self._add(source, 0)
        return SourceReading(self, source, order)

    def move(self, source: str, renew: Callable[[bytes], bytes]) -> None:
        """Write all positions of a source anew, such as for a file that has moved.

        Args:
            source: name of the source, which was read before.
            renew: function from a position that is not empty to what takes its place.
        """
        before = self.shared[source]
        value, newcomers = (renew(position) if position else position for position in (before.value, before.newcomers))
        self._share(source, replace(before, value=value, newcomers=newcomers))
        for name, position in self.own.get(source, {}).items():
            self.set_own(source, name, renew(position) if position else position)

    def rename(self, names: Mapping[str, str]) -> None:
        """Give sources other names; what was read under a new name is forgotten.

        Args:
            names: the new names, by the names that the sources were read under.

        Example:
            >>> positions = KeyedPositions()
            >>> positions.read("visits.csv", len).note(b"..")
            >>> positions.rename({"visits.csv": "old/visits.csv"})
            >>> positions.find("old/visits.csv", "DE"), sorted(positions.changed_sources)
            (b'..', ['old/visits.csv', 'visits.csv'])
        """
        before = self.shared
        kept = [source for source in before if source in names or source not in names.values()]
        for source in self.own.keys() & (names.keys() | set(names.values())):
            self.changed_streams.update(self.own[source])
        self.shared = {names.get(source, source): before[source] for source in kept}
        self.own = {names.get(source, source): self.own[source] for source in kept if source in self.own}
        changed = before.keys() | self.shared.keys()
        self.changed_sources |= {source for source in changed if before.get(source) != self.shared.get(source)}

    def set_own(self, source: str, name: str, position: bytes) -> None:
        """Give a stream a position of its own.

        Args:
            source: name of the source.
            name: name of the stream.
            position: the position.
        """
        own = self.own.setdefault(source, {})
        if own.get(name) != position:
            own[name] = position
            self.changed_streams.add(name)

    def restart(self, source: str) -> None:
        """Let a source count as not read, because another one took its place; records of it are then known to none.

        Args:
            source: name of the source.
        """
        self.changed_streams.update(self.own.pop(source, {}))
        self._add(source, 0)

    def drop(self, name: str) -> None:
        """Forget the own positions of a stream, which was removed.

        Args:
            name: name of the stream.
        """
        for own in self.own.values():
            own.pop(name, None)
        self.changed_streams.discard(name)

    def replace(self, stored: KeyedPositions) -> None:
        """Take over what a store knows; a source that only this object knows still has to be saved.

        Args:
            stored: what was read from the store.
        """
        unknown = {source: at for source, at in self.shared.items() if source not in stored.shared}
        gone = self.changed_sources - self.shared.keys()
        stored.changed_sources |= gone & stored.shared.keys()
        known = {source: at for source, at in stored.shared.items() if source not in gone}
        self.shared, self.own = {**known, **unknown}, stored.own
        self.changed_sources, self.changed_streams = stored.changed_sources | unknown.keys(), stored.changed_streams

    def mark_saved(self) -> None:
        """Note that all positions were saved."""
        self.changed_sources.clear()
        self.changed_streams.clear()

    def _add(self, source: str, slot: int) -> None:
        """Add a source, or begin it anew; its slot is the given one if no other source has it."""
        taken = {position.slot for position in self.shared.values()}
        if not slot or slot in taken:
            slot = max(taken, default=0) + 1  # never one that a record may still have from a source that was replaced
        self._share(source, SharedPosition(slot=slot if slot <= LARGEST_SLOT else 0))

    def _share(self, source: str, position: SharedPosition) -> None:
        if self.shared.get(source) != position:
            self.shared[source] = position
            self.changed_sources.add(source)

    def _drop_own(self, source: str, name: str) -> None:
        if self.own.get(source, {}).pop(name, None) is not None:
            self.changed_streams.add(name)


class SourceReading:
    """A pass over a source, which notes block by block how far the streams of a family have come.

    Args:
        positions: those of the family; they are changed.
        source: name of the source.
        order: order of its positions.

    Attributes:
        source: name of the source.
        stuck: names of the streams that were left behind in this pass, which take no more rows in it.
    """

    def __init__(self, positions: KeyedPositions, source: str, order: Order) -> None:
        self._positions, self.source, self._order = positions, source, order
        self.stuck: set[str] = set()
        self._is_held_back = False
        self._waiting = [(order(position), name) for name, position in self.own.items()]
        heapq.heapify(self._waiting)

    @property
    def shared(self) -> SharedPosition:
        """The position of the family."""
        return self._positions.shared[self.source]

    @property
    def own(self) -> Mapping[str, bytes]:
        """Own positions, by the names of the streams."""
        return self._positions.own.get(self.source, {})

    def is_behind(self, end: bytes) -> bool:
        """Tell whether a position comes before the one that the family has reached, so that few streams take rows.

        Args:
            end: position after a block.

        Returns:
            Whether it does; `note` then has to know which streams took rows.
        """
        return bool(self._order(end) < self._order(self.shared.value))

    def note(
        self,
        end: bytes,
        *,
        took: Collection[str] = (),
        behind: Mapping[str, bytes] | None = None,
        refused: bytes | None = None,
    ) -> None:
        """Note that a block was taken by all streams but some.

        Args:
            end: position after its last row.
            took: names of the streams that took rows of it, new ones among them; needed if `is_behind`.
            behind: position before the first row that was not taken, by the name of the stream that is left behind.
            refused: position before the first row that was not taken of a key without a stream.
        """
        for name, position in (behind or {}).items():
            self.stuck.add(name)
            self._positions.set_own(self.source, name, position)
        if self.is_behind(end):
            for name in took:
                if name not in self.stuck:
                    self._positions.set_own(self.source, name, end)
                    heapq.heappush(self._waiting, (self._order(end), name))
        self._advance(end, refused)
        self._drop_caught_up(end)

    def _advance(self, end: bytes, refused: bytes | None) -> None:
        before = self.shared
        value = max(before.value, end, key=self._order)
        newcomers = before.newcomers
        if refused is not None and not self._is_held_back:
            newcomers, self._is_held_back = refused, True
        elif not self._is_held_back:
            newcomers = max(newcomers, end, key=self._order)
        self._positions._share(self.source, replace(before, value=value, newcomers=newcomers))

    def _drop_caught_up(self, end: bytes) -> None:
        """Drop own positions up to which the family has come, once this pass has come as far as the family."""
        reached, value = self._order(end), self._order(self.shared.value)
        while reached >= value and self._waiting and self._waiting[0][0] <= reached:
            _, name = heapq.heappop(self._waiting)
            if name not in self.stuck:
                self._positions._drop_own(self.source, name)
