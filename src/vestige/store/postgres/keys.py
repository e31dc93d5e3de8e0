"""Which keys a store in PostgreSQL needs: a keyring for its rows, and the key of its subjects beside it.

Guarantee: a store without a keyring is refused with the reason; held by tests/store/test_postgres.py.
"""

from __future__ import annotations

from pathlib import Path

from vestige.errors import ParameterError, StoreError
from vestige.store.keyring import Keyring, KeyringFile, open_keyring
from vestige.store.keys import KeyFile


def check_keyring(keyring: str | Path | Keyring | None) -> Keyring:
    """Open the keyring of a store in PostgreSQL.

    Args:
        keyring: the keyring, or its address.

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
    return open_keyring(keyring)


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
