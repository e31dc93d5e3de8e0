"""Families: streams with equal terms, which are stored once, with the positions that all of them share.

Whoever writes all streams of a family in one transaction notes one position for each source; a stream that was left
behind has its own. Own positions are rows too, bound to their stream.
Guarantee: positions are read back as they were written, and a row of one owner is never taken for that of another; held
by tests/store/test_families.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from vestige.store.keyring.seal import SealError
from vestige.store.layout import DamagedError, pack_position, seal, unpack_position, unseal
from vestige.store.position import Position
from vestige.store.rows import Rows, check_row, pack_row_head
from vestige.store.terms import Terms
from vestige.store.text import decode_text, encode_text

_OF_STREAM, _OF_FAMILY = b"s", b"f"
_NEWCOMERS = len(pack_position("", Position()))
_MOST = 4096
"""Number of terms that are remembered."""


@dataclass(frozen=True, slots=True)
class SharedPosition:
    """Position up to which a family has read a source.

    Attributes:
        value: what its streams continue from; see `vestige.store.Position`.
        newcomers: what keys without a stream are read from: the same, or before it where rows of new keys were refused.
        slot: number by which the records of its streams refer to this source, from 1 up; 0 if they do not.

    Raises:
        ParameterError: a position is not bytes or is too long, or the slot is out of range.

    Example:
        >>> SharedPosition(b"row 7", b"row 7", slot=1).newcomers
        b'row 7'
    """

    value: bytes = b""
    newcomers: bytes = b""
    slot: int = 0

    def __post_init__(self) -> None:
        for value in (self.value, self.newcomers):
            Position(value, self.slot)

    @property
    def position(self) -> Position:
        """The position of a stream that has none of its own."""
        return Position(self.value, self.slot)


@dataclass(frozen=True, slots=True)
class Family:
    """The terms of streams, and the rows of the positions that they share.

    Attributes:
        terms: the terms.
        sources: the rows.
    """

    terms: Terms
    sources: tuple[int, ...]


class Families:
    """The terms and the positions in a store.

    Args:
        rows: the rows of the store.
    """

    def __init__(self, rows: Rows) -> None:
        self._rows = rows
        self._known: dict[int, Family] = {}
        self._numbers: dict[str, int] | None = None

    def forget(self) -> None:
        """Read everything again when it is needed next."""
        self._known.clear()
        self._numbers = None

    def read(self, number: int) -> Family:
        """Read a family.

        Args:
            number: its number.

        Returns:
            The family.

        Raises:
            DamagedError: the row is damaged, or is not there.
        """
        found = self._known.get(number)
        if found is None:
            stored = self._rows.read("terms", number)
            if stored is None:
                raise DamagedError(f"row {number} of the table terms has vanished")
            found = unpack_family(number, *stored)
            if found is None:
                raise DamagedError(f"row {number} of the table terms is empty")
            if len(self._known) >= _MOST:
                self._known.clear()
            self._known[number] = found
        return found

    def terms(self, number: int) -> Terms:
        """Read the terms of a family.

        Args:
            number: its number.

        Returns:
            The terms.
        """
        return self.read(number).terms

    def find(self, terms: Terms) -> int | None:
        """Find the number of terms.

        Args:
            terms: the terms.

        Returns:
            The number; None if no stream has them.
        """
        return self._load_numbers().get(terms.text)

    def find_alike(self, terms: Terms) -> list[int]:
        """Find the numbers of terms that differ only in what may change.

        Args:
            terms: the terms.

        Returns:
            The numbers; that of equal terms first.
        """
        wanted, exact = terms.fixed_text, self.find(terms)
        alike = [number for number, known in self.list_terms().items() if known.fixed_text == wanted]
        return sorted(alike, key=lambda number: (number != exact, number))

    def list_terms(self) -> dict[int, Terms]:
        """List all terms that can be read.

        Returns:
            The terms, by number.
        """
        return {number: self.terms(number) for number in sorted(self._load_numbers().values())}

    def add(self, terms: Terms) -> int:
        """Add terms.

        Args:
            terms: the terms, which are not there yet.

        Returns:
            Their number.
        """
        rows, numbers = self._rows, self._load_numbers()
        number = rows.about.terms + 1
        rows.about = replace(rows.about, terms=number)
        self._write(number, Family(terms, ()))
        numbers[terms.text] = number
        return number

    def blank(self, number: int) -> None:
        """Erase terms that no stream has any more, with their positions; their number stays.

        Args:
            number: their number.
        """
        self.blank_sources(self.read(number).sources)
        self._rows.write("terms", number, pack_row_head("terms", number, 0, b""), b"")
        self._rows.mark_untidy()
        self.forget()

    def read_shared(self, number: int) -> dict[str, SharedPosition]:
        """Read the positions that the streams of a family share.

        Args:
            number: the number of the family.

        Returns:
            The positions, by source.
        """
        found = {}
        for row in self.read(number).sources:
            plain = self.read_source(row, name_family(number))
            (_, newcomers), (source, at) = unpack_position(plain[:_NEWCOMERS]), unpack_position(plain[_NEWCOMERS:])
            found[source] = SharedPosition(at.value, newcomers.value, at.slot)
        return found

    def write_shared(self, number: int, source: str, position: SharedPosition | None) -> None:
        """Write a position that the streams of a family share.

        Args:
            number: the number of the family.
            source: the name of the source.
            position: the position; None to erase it.
        """
        family, owner = self.read(number), name_family(number)
        known = dict(zip(self.read_shared(number), family.sources, strict=True))
        if position is None:
            if source in known:
                rows = tuple(row for row in family.sources if row != known[source])
                self._write(number, replace(family, sources=rows))
                self.blank_sources([known[source]])
            return
        plain = pack_position("", Position(position.newcomers)) + pack_position(source, position.position)
        row = known.get(source) or self._allocate()
        self.write_source(row, owner, plain)
        if source not in known:
            self._write(number, replace(family, sources=(*family.sources, row)))

    def read_own(self, name: bytes, sources: Iterable[int]) -> dict[int, tuple[str, Position]]:
        """Read the own positions of a stream.

        Args:
            name: its name, encoded.
            sources: their rows.

        Returns:
            Source and position, by row.
        """
        owner = name_stream(name)
        return {row: unpack_position(self.read_source(row, owner)) for row in sources}

    def write_own(
        self, name: bytes, known: Mapping[int, tuple[str, Position]], wanted: Mapping[str, Position]
    ) -> tuple[int, ...]:
        """Write the own positions of a stream; rows that are as they were are not written.

        Args:
            name: its name, encoded.
            known: what `read_own` returned.
            wanted: the positions, by source.

        Returns:
            Their rows, ascending.
        """
        rows = {source: row for row, (source, _) in known.items()}
        for source, position in wanted.items():
            row = rows.get(source) or self._allocate()
            if known.get(row) != (source, position):
                self.write_source(row, name_stream(name), pack_position(source, position))
            rows[source] = row
        self.blank_sources([row for source, row in rows.items() if source not in wanted])
        return tuple(sorted(rows[source] for source in wanted))

    def blank_sources(self, sources: Iterable[int]) -> None:
        """Overwrite positions with zeros, in place.

        Args:
            sources: their rows.
        """
        for row in sources:
            try:
                stored = self._rows.read("sources", row)
            except SealError:  # its key is lost, so that any bytes will do
                stored = (b"",)
            if stored is not None:
                self._rows.write("sources", row, bytes(len(stored[0])))
                self._rows.mark_untidy()

    def find_owned(self, name: bytes) -> list[int]:
        """Find all positions of a stream that cannot say itself which they are.

        Args:
            name: its name, encoded.

        Returns:
            Their rows.
        """
        return [row for row, (body,) in self._rows.iterate("sources") if is_owned(row, body, name_stream(name))]

    def iterate_sources(self) -> Iterable[str]:
        """Iterate over the names of all sources; unchecked, since a row is only checked with its owner.

        Yields:
            The names; a source comes once for each owner.
        """
        for _, (body,) in self._rows.iterate("sources"):
            kind, at = body[8:9], 9 + _NEWCOMERS
            if kind in (_OF_STREAM, _OF_FAMILY):
                try:
                    yield decode_text(body[at + (_NEWCOMERS if kind == _OF_FAMILY else 0) :])
                except ValueError:  # reading its stream reports the damage
                    continue

    def write_source(self, row: int, owner: bytes, plain: bytes) -> None:
        """Write the row of a position.

        Args:
            row: the number of the row.
            owner: `name_stream` or `name_family`.
            plain: the packed position.
        """
        self._rows.write("sources", row, seal(owner[:1] + plain, "sources", row, owner))
        self._rows.mark_untidy()

    def read_source(self, row: int, owner: bytes) -> bytes:
        """Read the row of a position.

        Args:
            row: the number of the row.
            owner: `name_stream` or `name_family`.

        Returns:
            The packed position.

        Raises:
            DamagedError: the row is damaged, or belongs to another owner.
        """
        stored = self._rows.read("sources", row)
        if stored is None:
            raise DamagedError(f"row {row} of the table sources has vanished")
        return unseal(stored[0], "sources", row, owner)[1:]

    def name_source(self, owner: bytes, plain: bytes) -> str:
        """Find the source of a packed position.

        Args:
            owner: `name_stream` or `name_family`.
            plain: the packed position.

        Returns:
            The name of the source.
        """
        return unpack_position(plain[_NEWCOMERS:] if owner[:1] == _OF_FAMILY else plain)[0]

    def _allocate(self) -> int:
        about = self._rows.about
        self._rows.about = replace(about, sources=about.sources + 1)
        return self._rows.about.sources

    def _write(self, number: int, family: Family) -> None:
        self._rows.write("terms", number, *pack_family(number, family))
        self._rows.mark_untidy()
        self._known[number] = family

    def _load_numbers(self) -> dict[str, int]:
        if self._numbers is None:
            self._numbers = {}
            for number, stored in self._rows.iterate("terms"):
                try:
                    found = unpack_family(number, *stored)
                except (DamagedError, ValueError, KeyError, TypeError):  # reading its streams reports the damage
                    continue
                if found is not None:
                    self._numbers.setdefault(found.terms.text, number)
        return self._numbers


def name_stream(name: bytes) -> bytes:
    """Name a stream as the owner of positions.

    Args:
        name: its name, encoded.

    Returns:
        The owner.
    """
    return _OF_STREAM + name


def name_family(number: int) -> bytes:
    """Name a family as the owner of positions.

    Args:
        number: its number.

    Returns:
        The owner.
    """
    return _OF_FAMILY + str(number).encode()


def is_owned(row: int, body: bytes, owner: bytes) -> bool:
    """Tell whether the row of a position belongs to an owner.

    Args:
        row: the number of the row.
        body: what is stored there.
        owner: the owner.

    Returns:
        True if its checksum fits.
    """
    try:
        unseal(body, "sources", row, owner)
    except DamagedError:
        return False
    return True


def pack_family(number: int, family: Family) -> tuple[bytes, bytes]:
    """Pack a family.

    Args:
        number: its number.
        family: the family.

    Returns:
        The head and the body of its row.
    """
    body = np.array(family.sources, "<u4").tobytes() + encode_text(family.terms.text)
    return pack_row_head("terms", number, len(family.sources), body), body


def unpack_family(number: int, head: object, body: object) -> Family | None:
    """Unpack a family.

    Args:
        number: its number.
        head: the head of its row.
        body: the body of its row.

    Returns:
        The family; None for one that was erased.

    Raises:
        DamagedError: the row is damaged.
    """
    count, plain = check_row("terms", number, head, body)
    if not plain:
        return None
    rows = np.frombuffer(plain, "<u4", count)
    return Family(Terms.parse(decode_text(plain[4 * count :])), tuple(rows.tolist()))
