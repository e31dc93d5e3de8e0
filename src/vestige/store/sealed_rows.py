"""The rows of a store that are sealed with the keys of a keyring: whatever keeps them keeps noise once a key is gone.

Rows that a transaction changes are kept in memory until its end, then sealed, each with a fresh key. The keys are
durable before the transaction commits, and those that they replace are destroyed before it returns. The row `about` is
written by each transaction, with the highest version, so that it says which transaction was the last.
Guarantee: a row that was rolled back, swapped or changed is refused with a sentence that says which; held by
tests/store/test_sealed_rows.py. A crash at any moment leaves rows that the keyring opens; held by
tests/store/test_sealed_crashes.py.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import partial
from heapq import merge
from typing import TypeVar

from vestige.errors import StoreError
from vestige.store.keyring.keyring import KEY, Key, Keyring, KeyTable
from vestige.store.keyring.seal import SHORT_ID, Prefix, SealError, open_part, seal_parts
from vestige.store.rows import TABLES, Rows

Row = tuple[bytes, ...]
_Name = TypeVar("_Name")
_Value = TypeVar("_Value")
_NUMBERS = {table: number for number, table in enumerate(TABLES)}
_TABLE_BITS = 40
_ABOUT = ("about", 1)


def find_slot(table: str, row: int) -> int:
    """Find the slot of a row's key.

    Args:
        table: the table.
        row: the number of the row.

    Returns:
        The slot.

    Example:
        >>> find_slot("about", 1), find_row(find_slot("buckets", 7))
        (1, ('buckets', 7))
    """
    return (_NUMBERS[table] << _TABLE_BITS) + row


def find_row(slot: int) -> tuple[str, int]:
    """Find the row whose key a slot holds.

    Args:
        slot: the slot.

    Returns:
        The table and the number of the row.

    Raises:
        SealError: no table has such a slot.
    """
    number, row = divmod(slot, 1 << _TABLE_BITS)
    if number >= len(_NUMBERS):
        raise SealError(f"slot {slot} belongs to no table")
    return list(TABLES)[number], row


class SealedRows(Rows):
    """The rows of a store, sealed; whoever writes holds a transaction, and calls `refresh` when it begins.

    Args:
        inner: where the sealed rows are kept.
        keyring: the keys.
        is_shared: whether other processes may write while this one has the store open.
    """

    def __init__(self, inner: Rows, keyring: Keyring, *, is_shared: bool) -> None:
        super().__init__(inner.where)
        self.inner, self.keyring = inner, keyring
        self._is_shared = is_shared
        self._keys = KeyTable()
        self._seen = 0
        self._changed: dict[tuple[str, int], Row] = {}
        self._cut: dict[str, int] = {}
        self._undo: list[Callable[[], None]] = []
        self._prepared: dict[int, Key] = {}
        self._emptied: list[int] = []

    # The order of a transaction.

    def refresh(self, *, is_writer: bool) -> bool:
        """Find out whether somebody else has written; first of all in a transaction, or before something is read.

        Args:
            is_writer: whether the caller holds a transaction; then keys that a crashed one has left are settled, by
                which version of the row `about` there is.

        Returns:
            Whether something was written since the last call.

        Raises:
            SealError: the rows are older than the keyring, or newer, or belong to another one.
        """
        if self._seen and not self._is_shared:
            return False
        stored = self.inner.read(*_ABOUT)
        if stored is None:
            raise SealError("row 1 of the table about has vanished; restore a copy that is younger than the limits")
        prefix = self._check_prefix(*_ABOUT, 0, stored[0])
        self._keys.update(self.keyring.read(0 if self._keys.is_open else self._keys.newest))
        self._check_version(*_ABOUT, prefix)
        if self._keys.is_open and is_writer:
            self._recover(prefix.version)
        has_changed = prefix.version != self._seen
        if has_changed:
            self.forget()
        self._seen = prefix.version
        return has_changed

    def adopt(self, rows: Rows) -> None:
        """Take over all rows of a store in clear, in place of `refresh`.

        Args:
            rows: the rows.

        Raises:
            StoreError: the keyring has the keys of another store.
        """
        self._keys = self.keyring.read()
        slots = list(self._keys.iterate_slots())
        if slots and not self._keys.is_used:  # a crash while rows were taken over
            self.keyring.settle(dict.fromkeys(slots, 0))
            self._keys = self.keyring.read()
        elif slots or self._keys.is_used:
            raise StoreError(
                f"{self.keyring.where}: holds the keys of another store; make one for each store: vestige keyring init"
            )
        for table in TABLES:
            for row, parts in rows.iterate(table):
                self.write(table, row, *_strip_padding(parts))

    def _recover(self, version: int) -> None:
        """Settle keys after a crash: the transaction whose row `about` is there was the last that was committed."""
        there = {table: {row for row, _ in self.inner.iterate(table, columns[:1])} for table, columns in TABLES.items()}
        versions = {}
        for slot in self._keys.iterate_slots():
            table, row = find_row(slot)
            held = [key.version for key in self._keys.find(slot)]
            live = max((key for key in held if key <= version), default=0) if row in there[table] else 0
            if held != [live]:
                versions[slot] = live
        self.keyring.settle(versions)
        self._keys.keep(versions)

    def seal(self) -> None:
        """Seal the rows that were changed, and prepare their keys; last of all before the transaction is committed.

        Raises:
            StoreError: the keyring cannot be written.
        """
        if not self._changed and not self._cut:
            return
        if _ABOUT not in self._changed:
            self.write(*_ABOUT, self.about.pack())
        for table, row in self._cut.items():
            self._emptied += self._list_slots(table, row)
            self.inner.cut(table, row)
        places = sorted(self._changed, key=lambda place: (place == _ABOUT, _NUMBERS[place[0]], place[1]))
        versions = enumerate(places, self._keys.newest + 1)
        self._prepared = {find_slot(*place): Key(version, os.urandom(KEY)) for version, place in versions}
        sealed: dict[str, dict[int, Row]] = {}
        for table, row in places:
            slot = find_slot(table, row)
            parts = seal_parts(self._changed[table, row], self.keyring.id, slot, self._prepared[slot])
            sealed.setdefault(table, {})[row] = parts
        for table, rows in sealed.items():
            self.inner.write_many(table, rows)
        self.keyring.prepare(self._prepared)

    def settle(self) -> None:
        """Destroy the keys of what was replaced; first of all after the transaction was committed.

        Raises:
            StoreError: the keyring cannot be written; what was replaced can still be read with it.
        """
        if not self._prepared:
            return
        versions = dict.fromkeys(self._emptied, 0) | {slot: key.version for slot, key in self._prepared.items()}
        try:
            self.keyring.settle(versions)
        except StoreError as problem:
            self.roll_back(is_certain=False)
            raise StoreError(
                f"{self.where}: was written, but the keys of what it replaced could not be destroyed, so that this is "
                f"overdue; try again: {problem}"
            ) from None
        self._keys.add(self._prepared)
        self._keys.keep(versions)
        self._seen = self._prepared[find_slot(*_ABOUT)].version
        self._clear()

    def roll_back(self, *, is_certain: bool) -> None:
        """Forget what was written; if it is not known whether it was committed, the next `refresh` finds out."""
        prepared = self._prepared
        self._clear()
        self.forget()
        self._seen = 0
        before = {slot: max((key.version for key in self._keys.find(slot)), default=0) for slot in prepared}
        if prepared and is_certain:
            with suppress(StoreError):  # the next refresh settles them
                self.keyring.settle(before)
        if prepared:
            self._keys = KeyTable()  # all is read again

    def _clear(self) -> None:
        self._changed, self._cut, self._prepared = {}, {}, {}
        self._undo.clear()
        self._emptied = []

    # Rows.

    def read(self, table: str, row: int, columns: Sequence[str] = ()) -> Row | None:
        """Read a row."""
        names = columns or TABLES[table]
        if (table, row) in self._changed:
            return _select(table, self._changed[table, row], names)
        stored = None if self._is_cut(table, row) else self.inner.read(table, row, columns)
        if stored is None:
            return None
        return tuple(self._open(table, row, name, part) for name, part in zip(names, stored, strict=True))

    def iterate(self, table: str, columns: Sequence[str] = ()) -> Iterator[tuple[int, Row]]:
        """Iterate over the rows of a table; a part that cannot be opened is empty, so that it counts as damaged."""
        names = columns or TABLES[table]
        changed = sorted(
            (row, _select(table, parts, names)) for (of, row), parts in self._changed.items() if of == table
        )
        stored = (
            (row, tuple(self._try_open(table, row, name, part) for name, part in zip(names, parts, strict=True)))
            for row, parts in self.inner.iterate(table, columns)
            if (table, row) not in self._changed and not self._is_cut(table, row)
        )
        return merge(changed, stored, key=lambda each: each[0])

    def read_column(self, table: str, column: str) -> list[tuple[int, bytes]]:
        """Read one part of all rows of a table."""
        if self._changed or self._cut:
            return super().read_column(table, column)
        found = self.inner.read_column(table, column)
        return [(row, self._try_open(table, row, column, part)) for row, part in found]

    def write(self, table: str, row: int, *parts: bytes) -> None:
        """Write a row at the end of the transaction."""
        self._undo.append(partial(_restore, self._changed, (table, row), self._changed.get((table, row))))
        self._changed[table, row] = parts

    def cut(self, table: str, row: int) -> None:
        """Delete all rows from a number on, at the end of the transaction."""
        for place in [place for place in self._changed if place[0] == table and place[1] >= row]:
            self._undo.append(partial(_restore, self._changed, place, self._changed.pop(place)))
        self._undo.append(partial(_restore, self._cut, table, self._cut.get(table)))
        self._cut[table] = min(row, self._cut.get(table, row))

    def find_end(self, table: str) -> int:
        """Find the number of the last row."""
        end = self.inner.find_end(table)
        if self._is_cut(table, end):
            end = max(
                (row for row, _ in self.inner.iterate(table, TABLES[table][:1]) if not self._is_cut(table, row)),
                default=0,
            )
        return max([end, *(row for of, row in self._changed if of == table)])

    def _is_cut(self, table: str, row: int) -> bool:
        return table in self._cut and row >= self._cut[table]

    def _list_slots(self, table: str, row: int) -> list[int]:
        """The slots of the rows of a table from a number on."""
        first, end = find_slot(table, row), (_NUMBERS[table] + 1) << _TABLE_BITS
        return [slot for slot in self._keys.iterate_slots() if first <= slot < end]

    @contextmanager
    def savepoint(self) -> Iterator[None]:
        """Undo what is written inside if an error leaves the block."""
        start = len(self._undo)
        try:
            yield
        except BaseException:
            while len(self._undo) > start:
                self._undo.pop()()
            raise

    def translate_errors(self) -> AbstractContextManager[None]:
        """Turn errors of the backend into ours."""
        return self.inner.translate_errors()

    # Seals.

    def _try_open(self, table: str, row: int, column: str, part: bytes) -> bytes:
        try:
            return self._open(table, row, column, part)
        except SealError:
            return b""

    def _open(self, table: str, row: int, column: str, part: bytes) -> bytes:
        prefix = self._check_prefix(table, row, TABLES[table].index(column), part)
        key = self._check_version(table, row, prefix)
        try:
            return open_part(part, prefix, key)
        except SealError as problem:
            raise SealError(f"row {row} of the table {table}: {problem}; {_RESTORE}") from None

    def _check_prefix(self, table: str, row: int, part: int, sealed: object) -> Prefix:
        """The prefix of a part, which says that it is this part of this row."""
        name, prefix = f"row {row} of the table {table}", Prefix.read(sealed)
        if prefix is None:
            raise SealError(f"{name} is not sealed, or was cut off; {_RESTORE}")
        if prefix.keyring != self.keyring.id[:SHORT_ID]:
            raise SealError(
                f"{name} was sealed with the keyring {prefix.keyring.hex()}, and {self.keyring.where} is "
                f"{self.keyring.id[:SHORT_ID].hex()}; give the keyring that belongs to it"
            )
        if prefix.slot != find_slot(table, row):
            table, row = find_row(prefix.slot)
            raise SealError(
                f"{name} holds what was written as row {row} of the table {table}: rows were swapped; {_RESTORE}"
            )
        if prefix.part != part:
            raise SealError(f"{name} has its parts in another order; {_RESTORE}")
        return prefix

    def _check_version(self, table: str, row: int, prefix: Prefix) -> Key:
        """The key of a part."""
        keys, name = self._keys.find(prefix.slot), f"row {row} of the table {table}"
        for key in keys:
            if key.version == prefix.version:
                return key
        if prefix.version > self._keys.newest:
            raise SealError(
                f"{name} is newer than {self.keyring.where}: this is a keyring of an earlier time (a restored copy), "
                "and the keys of what was written since are not in it; give the present keyring"
            )
        if keys and prefix.version < keys[0].version:
            raise SealError(
                f"{name} is older than {self.keyring.where} says: it was rolled back, or comes from a backup, and its "
                "key was destroyed; give the present store. What the backup holds cannot be opened any more"
            )
        raise SealError(f"{name} has no key in {self.keyring.where}: the key was destroyed, or is damaged; {_RESTORE}")


_RESTORE = "restore store and keyring from one moment that is younger than the limits, or remove what cannot be opened"


def _select(table: str, row: Row, columns: Sequence[str]) -> Row:
    return tuple(row[TABLES[table].index(column)] for column in columns)


def _strip_padding(parts: Row) -> Row:
    """A row without what comes after its body, whose length its head says."""
    if len(parts) == 1:
        return parts
    *others, body = parts
    return (*others, body[: int.from_bytes(others[0][8:16], "little")])


def _restore(known: dict[_Name, _Value], name: _Name, before: _Value | None) -> None:
    """Take one step back."""
    if before is None:
        del known[name]
    else:
        known[name] = before
