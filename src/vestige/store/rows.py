"""The rows of a store: what a backend must keep, whatever it is made of.

A table is a set of numbered rows, and a row a few strings of bytes. All else (streams, positions, requests, subjects)
is `vestige.store.tables`, the same for each backend.
Guarantee: a row that has vanished, or whose bits were changed outside Vestige, is reported and never used; held by
tests/store/test_damage.py.
"""

from __future__ import annotations

import struct
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace

from vestige.errors import StoreError
from vestige.store.bucket import HEAD
from vestige.store.keyring.seal import SealError
from vestige.store.keys import PSEUDONYM
from vestige.store.layout import DamagedError, compute_checksum, seal, unseal

TABLES = {
    "about": ("body",),
    "terms": ("head", "body"),
    "sources": ("body",),
    "ledger": ("head", "body"),
    "subjects": ("head", "body"),
    "buckets": ("head", "names", "body"),
    "definitions": ("head", "body"),
    "requests": ("head", "body"),
}
"""The tables of a store, and what their rows consist of besides their numbers; new ones come last, since the keys of
sealed rows go by the place of their table."""
DAMAGED = "restore a copy that is younger than the limits"
_ABOUT = struct.Struct(f"<QQQQQQQ{PSEUDONYM}s?7xQQ")
_HEAD = struct.Struct("<IQ")
_CHECKSUM = struct.Struct("<I")


@dataclass(frozen=True, slots=True)
class About:
    """What a store says of itself.

    Attributes:
        streams: how many there are.
        buckets: how many buckets there are, a power of two.
        weight: of all streams; see `vestige.store.bucket`.
        terms: the last row that terms were given.
        sources: the last row that a source was given.
        requests: the number of the newest request in the ledger.
        entries: how many entries the ledger has.
        fingerprint: of the key that subjects are hashed with; zero while there is none.
        untidy: whether something was written since the store had its canonical form.
        definitions: the last row that a definition of a service was given.
        pages: the last row that requests to a service were given.
    """

    streams: int = 0
    buckets: int = 1
    weight: int = 0
    terms: int = 0
    sources: int = 0
    requests: int = 0
    entries: int = 0
    fingerprint: bytes = bytes(PSEUDONYM)
    untidy: bool = False
    definitions: int = 0
    pages: int = 0

    def pack(self) -> bytes:
        """Pack it into bytes, always the same number of them.

        Returns:
            The bytes, sealed.
        """
        counts = self.streams, self.buckets, self.weight, self.terms, self.sources, self.requests, self.entries
        plain = _ABOUT.pack(*counts, self.fingerprint, self.untidy, self.definitions, self.pages)
        return seal(plain, "about", 1)

    @classmethod
    def unpack(cls, body: object) -> About:
        """Unpack what was packed.

        Args:
            body: the bytes.

        Returns:
            What the store says of itself.

        Raises:
            DamagedError: they are not what was packed.
        """
        return cls(*_ABOUT.unpack(unseal(body, "about", 1)))


def pack_row_head(table: str, row: int, count: int, body: bytes) -> bytes:
    """Pack the head of a row that is a list.

    Args:
        table: the table.
        row: the number of the row.
        count: number of what is in the list.
        body: the list.

    Returns:
        A checksum that covers all of it, the count, the length of the list, and zeros.
    """
    plain = _HEAD.pack(count, len(body))
    plain += bytes(HEAD - _CHECKSUM.size - len(plain))
    return _CHECKSUM.pack(compute_checksum(body, (table, row, plain))) + plain


def check_row(table: str, row: int, head: object, body: object) -> tuple[int, bytes]:
    """Read a row that is a list, after checking it.

    Args:
        table: the table.
        row: the number of the row.
        head: its head.
        body: the list, and what comes after it.

    Returns:
        The count and the list.

    Raises:
        DamagedError: they are not what was written.
    """
    if not isinstance(head, bytes) or not isinstance(body, bytes) or len(head) != HEAD:
        raise DamagedError(f"row {row} of the table {table} is damaged")
    count, length = _HEAD.unpack_from(head, _CHECKSUM.size)
    plain = body[:length]
    if pack_row_head(table, row, count, plain) != head:
        raise DamagedError(f"row {row} of the table {table} is damaged")
    return count, plain


class Rows(ABC):
    """The rows of a store; whoever writes holds a transaction.

    Args:
        where: where the store is, for error messages.
    """

    def __init__(self, where: str) -> None:
        self.where = where
        self._about: About | None = None
        self._stored: About | None = None

    @abstractmethod
    def read(self, table: str, row: int, columns: Sequence[str] = ()) -> tuple[bytes, ...] | None:
        """Read a row.

        Args:
            table: the table.
            row: the number of the row.
            columns: the parts to read; default: all.

        Returns:
            The parts; None if there is no such row.
        """

    @abstractmethod
    def iterate(self, table: str, columns: Sequence[str] = ()) -> Iterator[tuple[int, tuple[bytes, ...]]]:
        """Iterate over the rows of a table, in the order of their numbers; it must not be written meanwhile.

        Args:
            table: the table.
            columns: the parts to read; default: all.

        Yields:
            The number of a row, and its parts.
        """

    def read_ahead(self, table: str, rows: Iterable[int]) -> None:  # noqa: B027  # only some rows are far away
        """Have rows ready that are read next, so that a server is not asked for each; only a hint.

        Args:
            table: the table.
            rows: the numbers of the rows, as many as there is memory for.
        """

    def read_column(self, table: str, column: str) -> list[tuple[int, bytes]]:
        """Read one part of all rows of a table, which is faster than `iterate`.

        Args:
            table: the table.
            column: the part.

        Returns:
            The number of each row, in order, and the part.
        """
        return [(row, part) for row, (part,) in self.iterate(table, (column,))]

    @abstractmethod
    def write(self, table: str, row: int, *parts: bytes) -> None:
        """Write a row, which replaces the one that is there; nothing of that one is left.

        Args:
            table: the table.
            row: the number of the row.
            parts: all of its parts.
        """

    def write_many(self, table: str, rows: Mapping[int, Sequence[bytes]]) -> None:
        """Write several rows of a table.

        Args:
            table: the table.
            rows: all parts of each row, by its number.
        """
        for row, parts in rows.items():
            self.write(table, row, *parts)

    @abstractmethod
    def cut(self, table: str, row: int) -> None:
        """Delete all rows from a number on.

        Args:
            table: the table.
            row: the number.
        """

    @abstractmethod
    def find_end(self, table: str) -> int:
        """Find the number of the last row.

        Args:
            table: the table.

        Returns:
            The number; 0 if there is no row.
        """

    @abstractmethod
    def savepoint(self) -> AbstractContextManager[None]:
        """Undo what is written inside if an error leaves the block.

        Returns:
            A context manager.
        """

    @abstractmethod
    def translate_errors(self) -> AbstractContextManager[None]:
        """Turn errors of the backend into ours.

        Returns:
            A context manager.
        """

    def refresh(self, *, is_writer: bool) -> bool:  # noqa: ARG002
        """Find out whether somebody else has written; first of all in a transaction, or before something is read.

        Args:
            is_writer: whether the caller holds a transaction.

        Returns:
            Whether something was written since the last call; False for rows that only one process can write.
        """
        return False

    def find_damage(self) -> dict[tuple[str, int], str]:
        """Find the rows that cannot be opened.

        Returns:
            Why each of them cannot be opened, by table and number; empty for rows in clear.
        """
        return {}

    def seal(self) -> None:  # noqa: B027  # only some rows have something to do here
        """Make what was written ready to be committed; last of all before that. Rows in clear are."""

    def settle(self) -> None:  # noqa: B027
        """Erase what was replaced; first of all after a transaction was committed. Rows in clear overwrite it."""

    def roll_back(self, *, is_certain: bool) -> None:  # noqa: ARG002
        """Forget what was written in a transaction.

        Args:
            is_certain: whether it was not committed; False if that is not known.
        """
        self.forget()

    @property
    def about(self) -> About:
        """What the store says of itself."""
        if self._about is None:
            with self.report_damage():
                found = self.read("about", 1)
                if found is None:
                    raise DamagedError("row 1 of the table about has vanished")
                about = About.unpack(found[0])
                self._check_ends(about)
                self._about = self._stored = about
        return self._about

    @about.setter
    def about(self, about: About) -> None:
        self._about = about

    def mark_untidy(self) -> None:
        """Note that something was written."""
        if not self.about.untidy:
            self.about = replace(self.about, untidy=True)

    def _check_ends(self, about: About) -> None:
        """Check that the last rows are those that there must be."""
        ends = [self.find_end(table) for table in ("buckets", "terms", "sources", "definitions", "requests")]
        expected = [about.buckets, about.terms, about.sources, about.definitions, about.pages]
        if ends != expected or self.find_end("subjects") not in (0, about.buckets):
            raise DamagedError("the last rows of a table are not those that were written")

    def save_about(self) -> None:
        """Write what the store says of itself, if that has changed."""
        if self._about is not None and self._about != self._stored:
            self.write("about", 1, self._about.pack())
            self._stored = self._about

    def forget(self) -> None:
        """Read again what the store says of itself when it is needed next."""
        self._about = self._stored = None

    @contextmanager
    def report_damage(self, name: str | None = None) -> Iterator[None]:
        """Report a row that cannot be read, with the stream that it belongs to.

        Args:
            name: the name of the stream; None if it belongs to none.

        Yields:
            Nothing.
        """
        where = self.where if name is None else f"{self.where}, stream {name!r}"
        with name_damage(where), self.translate_errors():
            yield


@contextmanager
def name_damage(where: str) -> Iterator[None]:
    """Report bytes that cannot be read, with the place where they are and what to do.

    Args:
        where: the store, and the stream if they belong to one.

    Yields:
        Nothing.

    Raises:
        StoreError: they are damaged, or cannot be opened.
    """
    try:
        yield
    except SealError as problem:
        raise StoreError(f"{where}: {problem}") from None
    except (DamagedError, ValueError, KeyError, TypeError, IndexError, struct.error) as problem:
        found = problem if isinstance(problem, DamagedError) else DamagedError("a stored row cannot be read")
        raise StoreError(f"{where}: {found}{found.cause}; {DAMAGED}") from None
