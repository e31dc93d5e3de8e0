"""The rows of a sealed store against the keys of its keyring: each row has its key, and each key its row.

Guarantee: finds each key that opens another writing of a row than the store holds; held by
tests/store/test_rotation.py.
"""

from __future__ import annotations

from collections.abc import Iterator

from vestige.errors import StoreError
from vestige.store.keyring.keyring import MARKER
from vestige.store.keyring.seal import Prefix
from vestige.store.opener import SECRET, find_row, find_slot
from vestige.store.rows import TABLES, Rows
from vestige.store.sealed_rows import SealedRows


def check_sealed(rows: Rows) -> SealedRows:
    """Check that rows are sealed.

    Args:
        rows: the rows of a store.

    Returns:
        The same rows.

    Raises:
        StoreError: they are in clear.
    """
    if not isinstance(rows, SealedRows):
        raise StoreError(f"{rows.where}: is not sealed with a keyring; open it for writing with one, which seals it")
    return rows


def list_places(rows: Rows) -> list[tuple[str, int]]:
    """List where the rows of a store are, without opening them.

    Args:
        rows: the rows.

    Returns:
        The table and the number of each, in order.

    Example:
        >>> from vestige.store.memory_rows import MemoryRows
        >>> list_places(MemoryRows())
        [('about', 1), ('buckets', 1)]
    """
    kept = rows.inner if isinstance(rows, SealedRows) else rows
    return [(table, row) for table, columns in TABLES.items() for row, _ in kept.iterate(table, columns[:1])]


def list_versions(rows: SealedRows) -> dict[int, int]:
    """List which writing of each row is there, without opening it.

    Args:
        rows: the rows.

    Returns:
        The version of its key by slot; a row without a prefix is left out.
    """
    found = {}
    for table, columns in TABLES.items():
        for row, (part,) in rows.inner.iterate(table, columns[:1]):
            if (prefix := Prefix.read(part)) is not None:
                found[find_slot(table, row)] = prefix.version
    return found


def find_orphans(rows: SealedRows) -> Iterator[str]:
    """Find the keys that belong to no row as it is; with them, a copy of an earlier writing can be opened.

    While the keys of a transaction are not settled there are such keys, and `Keyring.verify` says so. If the only key
    of a row does not fit, the row was changed outside Vestige, and not the key: `SealedRows.find_damage` says so.

    Args:
        rows: the rows.

    Yields:
        What is wrong with each, and what to do.
    """
    versions, keys = list_versions(rows), rows.keyring.read()
    last, there = versions.get(MARKER, 0), {SECRET, *(find_slot(*place) for place in list_places(rows))}
    for slot in () if keys.is_open else keys.list_slots().tolist():
        others = [key for key in keys.find(slot) if versions.get(slot) != key.version <= last]
        if others and (slot not in there or len(keys.find(slot)) > 1):
            yield (
                f"{rows.keyring.where}: has a key of another writing of {name_row(slot)} than the store holds, with "
                "which a copy of that can be opened; open the store for writing, which destroys it: vestige sweep"
            )


def name_row(slot: int) -> str:
    """Name the row whose key a slot holds.

    Args:
        slot: the slot.

    Returns:
        The number of the row, and its table.

    Example:
        >>> name_row(find_slot("buckets", 7))
        'row 7 of the table buckets'
    """
    place = find_row(slot)
    return f"slot {slot}, which belongs to no table" if place is None else f"row {place[1]} of the table {place[0]}"
