"""An opener of sealed rows: with the keys that a keyring has, or a sentence that says why a row cannot be opened.

Of each row one writing is valid: that with the newest key that is not newer than the row `about`, which the last
transaction has written. So no part of another writing is accepted, also while a slot holds two keys.
Guarantee: a row that was rolled back, swapped, mixed or changed is refused with the sentence that fits; held by
tests/store/test_sealed_rows.py.
"""

from __future__ import annotations

from collections.abc import Mapping

from vestige.store.keyring.keyring import SHORT_ID, Key, Keyring, KeyTable, name_keyring
from vestige.store.keyring.seal import Prefix, SealError, open_part
from vestige.store.rows import TABLES

ABOUT = ("about", 1)
"""The row that each transaction writes, with the highest version."""
_NUMBERS = {table: number for number, table in enumerate(TABLES)}
ROWS = 1 << 40
"""Number of slots for the rows of a table."""
SECRET = 0
"""The slot of a secret that seals no row: what the database shows of names is keyed by it."""
OWNER = 2
"""The slot of a digest that says which store a new keyring is for, until its first transaction is settled."""
_TOGETHER = "restore store and keyring from one moment that is younger than the limits"


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
    return _NUMBERS[table] * ROWS + row


def find_row(slot: int) -> tuple[str, int] | None:
    """Find the row whose key a slot holds.

    Args:
        slot: the slot.

    Returns:
        The table and the number of the row; None if no table has such a slot.
    """
    number, row = divmod(slot, ROWS)
    return (list(TABLES)[number], row) if number < len(_NUMBERS) else None


class Opener:
    """An opener of the rows of one store.

    Args:
        keyring: the keyring.

    Attributes:
        keyring: the keyring.
        keys: its keys as they were last read.
        newest: the version of the row `about`; 0 if that is not known.
    """

    def __init__(self, keyring: Keyring) -> None:
        self.keyring = keyring
        self.keys = KeyTable()
        self.newest = 0

    def check_about(self, sealed: object) -> int:
        """Check the row `about`, and note its version.

        Args:
            sealed: its only part.

        Returns:
            Its version.

        Raises:
            SealError: it cannot be opened.
        """
        self.newest = 0
        prefix = self._check_prefix(*ABOUT, "body", sealed)
        self.newest = prefix.version
        try:
            self.open(*ABOUT, "body", sealed)
        except SealError:
            self.newest = 0
            raise
        return self.newest

    def open(self, table: str, row: int, column: str, sealed: object) -> bytes:
        """Open a part of a row.

        Args:
            table: the table.
            row: the number of the row.
            column: the part.
            sealed: what is stored.

        Returns:
            What was written.

        Raises:
            SealError: it cannot be opened; the text says why, and what to do.
        """
        (part,) = self.open_parts(table, row, {column: sealed})
        return part

    def open_parts(self, table: str, row: int, sealed: Mapping[str, object]) -> tuple[bytes, ...]:
        """Open parts of a row.

        Args:
            table: the table.
            row: the number of the row.
            sealed: what is stored, by part.

        Returns:
            What was written.

        Raises:
            SealError: one of them cannot be opened; the text says why, and what to do.
        """
        key = self.find_live(find_slot(table, row))
        return tuple(self._open_with(key, table, row, column, part) for column, part in sealed.items())

    def _open_with(self, key: Key | None, table: str, row: int, column: str, sealed: object) -> bytes:
        prefix = self._check_prefix(table, row, column, sealed)
        if key is None or key.version != prefix.version:
            raise SealError(f"{_name(table, row, column)} {self._explain(table, row, prefix, key)}")
        try:
            return open_part(sealed, prefix, key)  # type: ignore[arg-type]  # what has a prefix is bytes
        except SealError as problem:
            raise SealError(f"{_name(table, row, column)}: {problem}; {_advise(table, row)}") from None

    def find_live(self, slot: int) -> Key | None:
        """Find the key of the writing of a row that is valid.

        Args:
            slot: its slot.

        Returns:
            The key; None if there is none, or it is damaged.
        """
        keys = [key for key in self.keys.find(slot) if key.version <= self.newest]
        return keys[-1] if keys else None

    def _check_prefix(self, table: str, row: int, column: str, sealed: object) -> Prefix:
        """The prefix of a part, which says that it is this part of this row."""
        name, prefix = _name(table, row, column), Prefix.read(sealed)
        if prefix is None:
            raise SealError(f"{name} is not sealed, or was cut off; {_advise(table, row)}")
        own, other = self.keyring.id[:SHORT_ID], prefix.keyring
        if own != other and (table, row) == ABOUT:
            raise SealError(
                f"{name} was sealed with the keyring {name_keyring(other)}, and {self.keyring.where} is "
                f"{self.keyring.name}; give the keyring that belongs to it"
            )
        if own != other:
            raise SealError(
                f"{name} was sealed with the keyring {name_keyring(other)}, and not with {self.keyring.where}: it "
                f"comes from another store, or bits were changed; {_advise(table, row)}"
            )
        if prefix.slot != find_slot(table, row):
            found = find_row(prefix.slot)
            what = "what no store has written" if found is None else f"what was written as {_name(*found)}"
            raise SealError(f"{name} holds {what}: rows were swapped, or bits were changed; {_advise(table, row)}")
        if prefix.part != TABLES[table].index(column):
            raise SealError(
                f"{name} holds another part: parts were swapped, or bits were changed; {_advise(table, row)}"
            )
        return prefix

    def _explain(self, table: str, row: int, prefix: Prefix, live: Key | None) -> str:
        """Why there is no key for a writing."""
        where, is_about = self.keyring.where, (table, row) == ABOUT
        newest = self.keys.newest if is_about else self.newest
        if live is None and not self.keys.find(prefix.slot) and self.keys.has_slot(prefix.slot):
            return f"has a key in {where} that is damaged; {_advise(table, row)}"
        if is_about and not self.keys.newest:
            return f"has no key in {where}: all of its keys were destroyed, or are missing; {_TOGETHER}"
        if is_about and prefix.version > newest:
            return (
                f"is newer than {where}: this is a keyring of an earlier time (a restored copy), and the keys of what "
                "was written since are not in it; give the present keyring"
            )
        if prefix.version > newest:
            return (
                f"is newer than the last transaction: rows of two moments were mixed, or bits were changed; "
                f"{_advise(table, row)}"
            )
        if (live is not None and prefix.version < live.version) or is_about:
            return (
                f"is older than {where} says: it was rolled back, or comes from a backup, and its key was destroyed; "
                "give the present store. What the backup holds cannot be opened any more"
            )
        return f"has no key in {where}: the key was destroyed, or is missing; {_advise(table, row)}"


def _name(table: str, row: int, column: str = "") -> str:
    part = f" ({column})" if column and len(TABLES[table]) > 1 else ""
    return f"row {row} of the table {table}{part}"


def _advise(table: str, row: int) -> str:
    if table != "buckets":
        return _TOGETHER
    return f'{_TOGETHER}, or remove its streams: vestige remove --stream "row {row} of the table buckets is damaged"'
