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
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import partial
from heapq import merge
from typing import TypeVar

import numpy as np

from vestige.errors import StoreError
from vestige.store.claim import clear_unused, make_claim
from vestige.store.keyring.keyring import KEY, Key, Keyring, KeyTable
from vestige.store.keyring.seal import SealError, find_end, seal_parts
from vestige.store.ledger_rows import read_ledger
from vestige.store.opener import ABOUT, OWNER, ROWS, SECRET, Opener, find_slot
from vestige.store.rows import TABLES, Rows
from vestige.types import Ints

Row = tuple[bytes, ...]
_Name = TypeVar("_Name")
_Value = TypeVar("_Value")
_ORDER = list(TABLES)


class SealedRows(Rows):
    """The rows of a store, sealed; whoever writes holds a transaction, and calls `refresh` when it begins.

    Args:
        inner: where the sealed rows are kept.
        keyring: the keys.
        is_shared: whether other processes may write while this one has the store open.
        keys: the keys as they were when the rows were copied; default: they are read when they are needed.
    """

    def __init__(self, inner: Rows, keyring: Keyring, *, is_shared: bool, keys: KeyTable | None = None) -> None:
        super().__init__(inner.where)
        self.inner, self.keyring = inner, keyring
        self._is_shared, self._copied = is_shared, keys
        self._opener = Opener(keyring)
        self._is_settled = False
        self._changed: dict[tuple[str, int], Row] = {}
        self._cut: dict[str, int] = {}
        self._undo: list[Callable[[], None]] | None = None
        """How to take back what was written in the outermost savepoint; None outside of one."""
        self._prepared: dict[int, Key] = {}
        self._emptied: list[int] = []
        self._draws_secret = False

    # The order of a transaction.

    @property
    def is_new(self) -> bool:
        """Whether the store was in clear until now: nothing of it was settled yet; after `refresh`."""
        return not self._opener.keys.is_used

    def refresh(self, *, is_writer: bool) -> bool:
        """Find out whether somebody else has written; first of all in a transaction, or before something is read.

        Args:
            is_writer: whether the caller holds a transaction; then keys that a crash has left are settled, by which
                version of the row `about` there is.

        Returns:
            Whether something was written since the last call; the caller then forgets what it has read.

        Raises:
            SealError: the rows are older than the keyring, or newer, or belong to another one.
        """
        before = self._opener.newest
        if before and not self._is_shared and (self._is_settled or not is_writer):
            return False
        stored = self.inner.read(*ABOUT)
        if stored is None:
            raise SealError("row 1 of the table about has vanished; restore a copy that is younger than the limits")
        self._read_keys()
        has_changed = self._opener.check_about(stored[0]) != before
        if is_writer and (has_changed or self._opener.keys.is_open or not self._is_settled):
            self._recover()
        return has_changed

    def _read_keys(self) -> None:
        """Read what is new in the keyring."""
        keys = self._opener.keys
        after = 0 if keys.is_open else keys.newest
        found = self.keyring.read(after) if self._copied is None else self._copied
        if after:
            keys.update(found)
        else:
            self._opener.keys = found

    def _recover(self) -> None:
        """Settle what a crash has left: keys of writings that are not valid, and of rows that are not there."""
        opener, keys, versions = self._opener, self._opener.keys, dict[int, int]()
        for slot in keys.find_unsettled(opener.newest).tolist():
            live = opener.find_live(slot)
            versions[slot] = 0 if live is None else live.version
        if not self._is_settled:
            with suppress(StoreError):  # a row that should be there may be put back, and needs its key then
                self._check_ends(self.about)
                read_ledger(self)
                versions |= dict.fromkeys(self._find_lost().tolist(), 0)
        if versions or self.is_new:
            self.keyring.settle(versions | {find_slot(*ABOUT): opener.newest})
            keys.keep(versions)
            keys.is_used = True
        self._is_settled = True

    def _find_lost(self) -> Ints:
        """The slots of rows that are not there, but for gaps in tables without any: such a row may be put back."""
        slots, lost = self._opener.keys.list_slots(), [np.empty(0, np.int64)]
        for table in TABLES:
            own = slots[(slots >= find_slot(table, 0)) & (slots < find_slot(table, 0) + ROWS) & (slots != SECRET)]
            rows = np.arange(1, self.inner.find_end(table) + 1)
            if table == "ledger":  # the only one whose rows have gaps
                rows = np.array([row for row, _ in self.inner.iterate(table, ("head",))], np.int64)
            lost.append(own[~np.isin(own, find_slot(table, 0) + rows)])
        return np.concatenate(lost)

    def adopt(self, rows: Rows) -> None:
        """Take over all rows of a store in clear, in place of `refresh`.

        Args:
            rows: the rows.

        Raises:
            StoreError: the keyring has the keys of another store, or may have.
        """
        self._opener.keys = clear_unused(self.keyring, self.where)
        for table in TABLES:
            for row, parts in rows.iterate(table):
                self.write(table, row, *_strip_padding(parts))

    def use_keyring(self, keyring: Keyring) -> None:
        """Go on with another keyring, with whose keys the rows were sealed meanwhile.

        Args:
            keyring: the other keyring.
        """
        self.keyring, self._opener, self._is_settled = keyring, Opener(keyring), False
        self.forget()

    @property
    def has_changes(self) -> bool:
        """Whether something was written in this transaction."""
        return bool(self._changed or self._cut)

    def seal(self) -> None:
        """Seal the rows that were changed, and prepare their keys; last of all before the transaction is committed.

        Raises:
            StoreError: the keyring cannot be written.
        """
        if not self.has_changes:
            return
        if ABOUT not in self._changed:
            self.write(*ABOUT, self.about.pack())
        for table, row in self._cut.items():
            slots = self._opener.keys.list_slots(find_slot(table, row), find_slot(table, 0) + ROWS)
            self._emptied += slots.tolist()
            self.inner.cut(table, row)
        places = sorted(self._changed, key=lambda place: (place == ABOUT, _ORDER.index(place[0]), place[1]))
        first = [OWNER] * self.is_new + [SECRET] * self._draws_secret
        keys = draw_keys([*first, *(find_slot(*place) for place in places)], self._opener.keys.newest)
        if self.is_new:
            keys[OWNER] = keys[OWNER]._replace(secret=make_claim(self.keyring, self.where))
        sealed: dict[str, dict[int, Row]] = {}
        for table, row in places:
            slot = find_slot(table, row)
            parts = seal_parts(self._changed[table, row], self.keyring.id, slot, keys[slot])
            sealed.setdefault(table, {})[row] = parts
        for table, rows in sealed.items():
            self.inner.write_many(table, rows)
        self.keyring.prepare(keys)  # if this fails, the next refresh settles what is there of them
        self._prepared = keys

    def settle(self) -> None:
        """Destroy the keys of what was replaced; first of all after the transaction was committed.

        Raises:
            StoreError: the keyring cannot be written; what was replaced can still be read with it.
        """
        if not self._prepared:
            return
        versions = dict.fromkeys(self._emptied, 0) | {slot: key.version for slot, key in self._prepared.items()}
        if OWNER in versions:  # the store is committed: the keyring is in use from now on, which says enough
            versions[OWNER] = 0
        try:
            self.keyring.settle(versions)
        except StoreError as problem:
            self.roll_back(is_certain=False)
            raise StoreError(
                f"{self.where}: was written, but the keys of what it replaced could not be destroyed, so that this is "
                f"overdue; try again: {problem}"
            ) from None
        self._opener.keys.add(self._prepared)
        self._opener.keys.keep(versions)
        self._opener.newest = versions[find_slot(*ABOUT)]
        self._clear()

    def roll_back(self, *, is_certain: bool) -> None:
        """Forget what was written; if it is not known whether it was committed, the next `refresh` finds out."""
        opener, prepared = self._opener, self._prepared
        self._clear()
        self.forget()
        before = {slot: max((key.version for key in opener.keys.find(slot)), default=0) for slot in prepared}
        if prepared and is_certain:
            with suppress(StoreError):  # the next refresh settles them
                self.keyring.settle(before)
        if prepared:
            opener.keys = KeyTable()  # all is read again
        opener.newest, self._is_settled = 0, False

    def _clear(self) -> None:
        self._changed, self._cut, self._prepared = {}, {}, {}
        self._emptied, self._draws_secret = [], False

    # The secret.

    @property
    def secret(self) -> bytes:
        """What only the keyring knows of the store, and what seals no row; empty if there is none; after `refresh`."""
        key = self._opener.find_live(SECRET)
        return b"" if key is None else key.secret

    def draw_secret(self) -> None:
        """Draw another secret, which is there once the transaction is committed."""
        self._draws_secret = True
        self.write(*ABOUT, self.about.pack())

    # Rows.

    def read(self, table: str, row: int, columns: Sequence[str] = ()) -> Row | None:
        """Read a row."""
        names = columns or TABLES[table]
        if (table, row) in self._changed:
            return _select(table, self._changed[table, row], names)
        stored = None if self._is_cut(table, row) else self.inner.read(table, row, columns)
        if stored is None:
            return None
        if not self._opener.newest:
            self.refresh(is_writer=False)
        return self._opener.open_parts(table, row, dict(zip(names, stored, strict=True)))

    def read_ahead(self, table: str, rows: Iterable[int]) -> None:
        """Have rows ready that are read next."""
        self.inner.read_ahead(table, [row for row in rows if (table, row) not in self._changed])

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
        self._note(self._changed, (table, row))
        self._changed[table, row] = parts

    def cut(self, table: str, row: int) -> None:
        """Delete all rows from a number on, at the end of the transaction."""
        for place in [place for place in self._changed if place[0] == table and place[1] >= row]:
            self._note(self._changed, place)
            del self._changed[place]
        self._note(self._cut, table)
        self._cut[table] = min(row, self._cut.get(table, row))

    def _note(self, known: dict[_Name, _Value], name: _Name) -> None:
        """Note what is there, for the savepoint; there may be none."""
        if self._undo is not None:
            self._undo.append(partial(_restore, known, name, known.get(name)))

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

    @contextmanager
    def savepoint(self) -> Iterator[None]:
        """Undo what is written inside if an error leaves the block."""
        is_outermost, self._undo = self._undo is None, self._undo or []
        start = len(self._undo)
        try:
            yield
        except BaseException:
            while len(self._undo) > start:
                self._undo.pop()()
            raise
        finally:
            if is_outermost:
                self._undo = None

    def translate_errors(self) -> AbstractContextManager[None]:
        """Turn errors of the backend into ours."""
        return self.inner.translate_errors()

    # Seals.

    def find_damage(self) -> dict[tuple[str, int], str]:
        """Find the rows that cannot be opened; the rest is the business of who reads them."""
        found: dict[tuple[str, int], str] = {}
        for table, columns in TABLES.items():
            for row, parts in self.inner.iterate(table):
                try:
                    for column, part in zip(columns, parts, strict=True):
                        self._open(table, row, column, part)
                        if part[find_end(part) :].strip(b"\0"):
                            found[table, row] = f"row {row} of the table {table} is not zero behind its seal"
                except SealError as problem:
                    found[table, row] = str(problem)
        return found

    def _open(self, table: str, row: int, column: str, part: bytes) -> bytes:
        if not self._opener.newest:
            self.refresh(is_writer=False)
        return self._opener.open(table, row, column, part)

    def _try_open(self, table: str, row: int, column: str, part: bytes) -> bytes:
        try:
            return self._open(table, row, column, part)
        except SealError:
            return b""


def draw_keys(slots: Iterable[int], newest: int) -> dict[int, Key]:
    """Draw fresh keys.

    Args:
        slots: their slots, in the order of their versions.
        newest: the version before the first one.

    Returns:
        The keys by slot.

    Example:
        >>> [key.version for key in draw_keys([3, 1], 7).values()]
        [8, 9]
    """
    return {slot: Key(version, os.urandom(KEY)) for version, slot in enumerate(slots, newest + 1)}


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
