"""Keyrings by address: the path of a file, or the address of a server.

Guarantee: an unknown scheme is refused with a list of those that exist; held by tests/store/test_keyring.py.
"""

from __future__ import annotations

from pathlib import Path

from vestige.store.keyring.file import KeyringFile
from vestige.store.keyring.keyring import Keyring


def open_keyring(address: str | Path | Keyring, *, create: bool = False) -> Keyring:
    """Open a keyring.

    Args:
        address: the path of a file; or a keyring, which is returned.
        create: whether to create the file if there is none.

    Returns:
        The keyring.

    Raises:
        StoreError: there is no such keyring, or it cannot be read.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     print(len(open_keyring(folder + "/visits.keyring", create=True).id))
        16
    """
    return address if isinstance(address, Keyring) else KeyringFile(address, create=create)
