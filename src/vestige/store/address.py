"""Stores by address: the path of a file, or a scheme that names another kind of store.

A kind of store is one module with a subclass of `vestige.store.Store`, and one line in `BACKENDS`.
Guarantee: an unknown scheme is refused with a list of those that exist, and nothing is created; held by
tests/store/test_address.py.
"""

from __future__ import annotations

import re
from pathlib import Path

from vestige.errors import ParameterError
from vestige.store.keyring import Keyring
from vestige.store.memory import MemoryStore
from vestige.store.postgres import PostgresStore
from vestige.store.reader import Reader
from vestige.store.sqlite import SqliteStore
from vestige.store.store import PATIENCE, Store
from vestige.validation import check_bool

BACKENDS: dict[str, type[Store]] = {
    "": SqliteStore,
    "memory": MemoryStore,
    "postgres": PostgresStore,
    "postgresql": PostgresStore,
}
"""The kinds of store by the scheme of their addresses; without a scheme an address is the path of a file."""
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(?://.*)?", re.DOTALL)


def open_store(
    address: str | Path,
    *,
    key: str | Path | None = None,
    keyring: str | Path | Keyring | None = None,
    patience: float = PATIENCE,
    create: bool = True,
) -> Store:
    """Open a store for writing; use it in a `with` statement, or close it.

    Args:
        address: the path of a file, or "memory:" for a store that ends with its process.
        key: the file with the key that subjects are hashed with; default: beside the store.
        keyring: the keyring that the store is sealed with, or its address; default: none.
        patience: seconds for which a commit waits for others who read the store.
        create: whether to create the store if there is none.

    Returns:
        The store.

    Raises:
        ParameterError: the address has a scheme that is not known.
        StoreBusyError: another process has the store open for writing.
        StoreError: there is no such store and `create` is false; or it is damaged, or cannot be written.

    Example:
        >>> from vestige import Mean, Stream
        >>> with open_store("memory:") as store:
        ...     stream = Stream(Mean(), retention=96, seed=0, store=store.stream("delays"))
        ...     _ = stream.extend(range(1, 1_001))
        ...     print(round(stream.estimate().value, 6))
        500.5
    """
    check_bool("create", create)
    return find_backend(address).open(address, key=key, keyring=keyring, patience=patience, create=create)


def open_reader(
    address: str | Path,
    *,
    key: str | Path | None = None,
    keyring: str | Path | Keyring | None = None,
    patience: float = PATIENCE,
) -> Reader:
    """Open a store for reading, also while another process writes to it; nothing has to be closed.

    Args:
        address: the path of a file.
        key: the file with the key that subjects are hashed with; default: beside the store.
        keyring: the keyring that the store is sealed with, or its address; default: none.
        patience: seconds to wait for a writer to release the store.

    Returns:
        The reader: it takes snapshots and verifies.

    Raises:
        ParameterError: the address has a scheme that is not known.
        StoreError: there is no such store.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     open_store(folder + "/visits.db").close()
        ...     print(open_reader(folder + "/visits.db").snapshot().names)
        ()
    """
    return find_backend(address).open_reader(address, key=key, keyring=keyring, patience=patience)


def find_backend(address: str | Path) -> type[Store]:
    """Find the kind of store that an address means.

    Args:
        address: the path of a file, or a scheme, a colon, and what that kind of store needs after it.

    Returns:
        The class.

    Raises:
        ParameterError: the scheme is not known.

    Example:
        >>> find_backend("memory:").__name__
        'MemoryStore'
        >>> find_backend("redis://localhost")
        Traceback (most recent call last):
        vestige.errors.ParameterError: the address has the unknown scheme 'redis:'; use the path of a file, or memory:
    """
    match = _SCHEME.fullmatch(address) if isinstance(address, str) else None
    scheme = "" if match is None else match[1].lower()
    if scheme not in BACKENDS:
        known = ", or ".join(dict.fromkeys(backend.address_form for backend in BACKENDS.values()))
        raise ParameterError(f"the address has the unknown scheme '{scheme}:'; use {known}")  # it may hold a password
    return BACKENDS[scheme]
