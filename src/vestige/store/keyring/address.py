"""Keyrings by address: the path of a file, or the address of a server.

Guarantee: an unknown scheme is refused with a list of those that exist; held by tests/store/test_keyring_client.py.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from vestige.errors import ParameterError, StoreError
from vestige.store.keyring.file import PATIENCE, KeyringFile
from vestige.store.keyring.keyring import Keyring

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")


def open_keyring(address: str | Path | Keyring, *, create: bool = False, patience: float = PATIENCE) -> Keyring:
    """Open a keyring.

    Args:
        address: the path of a file; `https://HOST:PORT` for a server, whose token is in the environment (see
            `vestige.store.keyring.client.KeyringClient`); or a keyring, which is returned.
        create: whether to create the file if there is none; a server has its own.
        patience: seconds to wait for other processes that hold the file.

    Returns:
        The keyring.

    Raises:
        MissingExtraError: the address is that of a server, and httpx is not installed.
        ParameterError: there is no such kind of keyring.
        StoreError: there is no such keyring, or it cannot be read.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     print(len(open_keyring(folder + "/visits.keyring", create=True).id))
        16
        >>> open_keyring("ftp://keys.example.org")
        Traceback (most recent call last):
        vestige.errors.ParameterError: keyring: there is no scheme ftp://; give the path of a file, or https://HOST:PORT
    """
    if isinstance(address, Keyring):
        return address
    scheme = _SCHEME.match(str(address)) if isinstance(address, str) else None
    if scheme is None:
        return KeyringFile(address, create=create, patience=patience)
    if scheme[1].lower() not in ("https", "http"):
        raise ParameterError(
            f"keyring: there is no scheme {scheme[1]}://; give {KeyringFile.address_form}, or https://HOST:PORT"
        )
    from vestige.store.keyring.client import KeyringClient  # noqa: PLC0415  # an extra

    return KeyringClient(str(address))


def open_own_keyring(
    address: str | Path | Keyring, where: str, find_name: Callable[[], str | None], patience: float
) -> Keyring:
    """Open the keyring of a store; if there is none, say which one the store needs.

    Args:
        address: see `open_keyring`.
        where: where the store is.
        find_name: finds the name of the keyring that the store is sealed with; None if it is not sealed.
        patience: seconds to wait for other processes that hold the file.

    Returns:
        The keyring.

    Raises:
        StoreError: there is no such keyring, or it cannot be read.
    """
    try:
        return open_keyring(address, patience=patience)
    except StoreError:
        is_file = not isinstance(address, Keyring) and _SCHEME.match(str(address)) is None
        name = None if not is_file or Path(str(address)).exists() else find_name()
        if name is None:
            raise
    raise StoreError(
        f"{address}: there is no such keyring, and {where} is sealed with the keyring {name}; give its path, or put it "
        "back there: nothing else opens the store"
    )
