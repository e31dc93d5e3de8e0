"""Which keys a store in PostgreSQL needs: a keyring for its rows, and the key of its subjects beside it.

Guarantee: a store without a keyring is refused with the reason; held by tests/store/test_postgres.py.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from vestige.errors import ParameterError, StoreError
from vestige.store.keyring import Keyring, KeyringFile
from vestige.store.keyring.address import open_own_keyring
from vestige.store.keyring.keyring import name_keyring
from vestige.store.keys import KeyFile
from vestige.store.postgres.address import Address
from vestige.store.postgres.connection import Connection
from vestige.store.postgres.schema import read_store


def check_keyring(keyring: str | Path | Keyring | None, address: Address, patience: float) -> Keyring:
    """Open the keyring of a store in PostgreSQL.

    Args:
        keyring: the keyring, or its address.
        address: where the store is.
        patience: seconds to wait for others who hold the keyring.

    Returns:
        The keyring.

    Raises:
        ParameterError: there is none.
        StoreError: it cannot be opened.
    """
    if keyring is None:
        raise ParameterError(
            "keyring is missing: PostgreSQL keeps what is deleted in its write-ahead log, in replicas and in dumps, so "
            "a store there is sealed, and erases by destroying keys; pass the one that the store has, keyring=PATH "
            "(--keyring), or for a new store make one with vestige keyring init PATH"
        )
    return open_own_keyring(keyring, address.where, lambda: _find_keyring(address, patience), patience)


def _find_keyring(address: Address, patience: float) -> str | None:
    """The name of the keyring that a store is sealed with; None if there is no store, or it cannot be reached."""
    connection = Connection(address, patience)
    try:
        with suppress(StoreError):
            connection.open()
            found = read_store(connection)
            return None if found is None else name_keyring(found.keyring)
    finally:
        connection.close()
    return None


def find_key_file(key: str | Path | None, keyring: Keyring, where: str) -> KeyFile | None:
    """Find the file with the key of the subjects.

    Args:
        key: the file; None for the one beside the keyring.
        keyring: the keyring.
        where: where the store is, for error messages.

    Returns:
        The file; None if none is given, and the keyring is not a file that it could lie beside.
    """
    if isinstance(keyring, KeyringFile):
        return KeyFile(key, store=keyring.path, where=where)
    return None if key is None else KeyFile(key, store=Path(key), where=where)


def check_key_file(file: KeyFile | None, where: str) -> KeyFile:
    """Check that there is a place for the key of the subjects.

    Args:
        file: what `find_key_file` returned.
        where: where the store is, for the error message.

    Returns:
        The file.

    Raises:
        StoreError: there is none.
    """
    if file is None:
        raise StoreError(
            f"{where}: the key of the subjects has no place, since the keyring is on a server; pass key=PATH (--key), "
            "the same file for all processes"
        )
    return file
