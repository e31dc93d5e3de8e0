"""Fresh keys for all rows of a store, of the same keyring or of another one: for a keyring that may have been copied.

Of the same keyring: rows are written again as they are, some hundred in one transaction. Of another one: all of them in
one transaction, so that they never have keys of both; the old keyring is destroyed when that was committed.
Guarantee: a process that is killed at any moment leaves a store that its keyring, or one of the two, opens whole; held
by tests/store/test_rotation.py and tests/store/test_faults.py.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

from vestige.errors import StoreError
from vestige.store.claim import clear_unused, make_claim
from vestige.store.keyring import Keyring
from vestige.store.keyring.seal import SealError, seal_parts
from vestige.store.opener import ABOUT, OWNER, SECRET, find_slot
from vestige.store.row_keys import list_places
from vestige.store.sealed_rows import SealedRows, draw_keys

_BATCH = 256
"""Number of rows that are sealed at once."""
Begin = Callable[[], AbstractContextManager[SealedRows]]
"""Begins a transaction of a store, and gives its rows."""


def renew_keys(begin: Begin, tell: Callable[[float], object]) -> int:
    """Write all rows again with fresh keys; those that others write meanwhile have fresh keys, too.

    Args:
        begin: begins a transaction of the store.
        tell: called with the share of the rows that have fresh keys.

    Returns:
        The number of rows.

    Raises:
        StoreError: a row cannot be opened; all others have fresh keys.
    """
    with begin() as rows:
        places, wrong = list_places(rows), list[str]()
    for start in range(0, len(places), _BATCH):
        with begin() as rows:
            for table, row in places[start : start + _BATCH]:
                try:
                    if (parts := rows.read(table, row)) is not None:
                        rows.write(table, row, *parts)
                except SealError as problem:
                    wrong.append(str(problem))
        tell(min(start + _BATCH, len(places)) / len(places))
    if wrong:
        raise StoreError(
            f"{rows.where}: {len(wrong):,} of {len(places):,} rows cannot be opened, and keep the keys that they have; "
            f"all others have new keys. The first one: {wrong[0]}"
        )
    return len(places)


def change_keyring(
    begin: Begin, keyring: Keyring, note: Callable[[Keyring], object], tell: Callable[[float], object]
) -> int:
    """Seal all rows with the keys of another keyring, in one transaction; the old keyring is left as it is.

    Args:
        begin: begins a transaction of the store.
        keyring: the other keyring, which was never used.
        note: called within the transaction, to note in the store which keyring it has.
        tell: called with the share of the rows that are sealed.

    Returns:
        The number of rows.

    Raises:
        StoreError: a row cannot be opened, or the other keyring is in use; nothing was changed.
    """
    with begin() as rows:
        if keyring.id == rows.keyring.id:
            raise StoreError(f"{keyring.where}: is the keyring that {rows.where} has; give another, or leave it out")
        clear_unused(keyring, rows.where)
        note(keyring)
        with rows.report_damage():
            return _seal_rows(rows, keyring, tell)


def _seal_rows(rows: SealedRows, keyring: Keyring, tell: Callable[[float], object]) -> int:
    """Seal rows where they lie; the row `about` has the highest version."""
    places = sorted(list_places(rows), key=lambda place: place == ABOUT)
    keys = draw_keys([OWNER] + [SECRET] * bool(rows.secret) + [find_slot(*place) for place in places], 0)
    keys[OWNER] = keys[OWNER]._replace(secret=make_claim(keyring, rows.where))
    keyring.prepare(keys)
    for start in range(0, len(places), _BATCH):
        sealed = dict[str, dict[int, tuple[bytes, ...]]]()
        for table, row in places[start : start + _BATCH]:
            slot, parts = find_slot(table, row), rows.read(table, row) or ()
            sealed.setdefault(table, {})[row] = seal_parts(parts, keyring.id, slot, keys[slot])
        for table, written in sealed.items():
            rows.inner.write_many(table, written)
        tell(min(start + _BATCH, len(places)) / len(places))
    return len(places)


def destroy_replaced(old: Keyring, new: Keyring, where: str) -> None:
    """Destroy the keyring that a store had before.

    Args:
        old: the keyring.
        new: the one that the store has now.
        where: where the store is, for the error message.

    Raises:
        StoreError: it cannot be destroyed from here.
    """
    try:
        old.destroy()
    except StoreError as problem:
        raise StoreError(
            f"{where}: is sealed with {new.where} now, but {old.where} could not be destroyed, so that earlier copies "
            f"can still be opened with it; destroy it where it lies, by vestige keyring destroy: {problem}"
        ) from None
