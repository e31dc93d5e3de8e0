"""Stores by address: the path of a file, or a scheme that names another kind of store.

A kind of store is one module with a subclass of `vestige.store.Store`, and one line in `BACKENDS`.
Guarantee: an unknown scheme is refused with a list of those that exist, and nothing is created; held by
tests/store/test_address.py. An address is shown without its password; held by tests/store/test_address.py.
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
_PASSWORD = re.compile(r"(\b[A-Za-z][A-Za-z0-9+.-]*://?[^\s:/?#]*:)(\S*)(@[^&\s]*)")  # one slash: taken for a path
_SECRET = re.compile(r"(?i)([?&][^=&\s]*(?:password|secret|token)[^=&\s]*=)[^&\s]*")


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
        NoStoreError: there is no such store, and `create` is false.
        StoreError: it is damaged, or cannot be written.

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
        NoStoreError: there is no such store.

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
        >>> find_backend("redis://localhost")  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        vestige.errors.ParameterError: the address has the unknown scheme 'redis:'; use the path of a file, or ...
    """
    scheme = _find_scheme(address)
    if scheme not in BACKENDS:
        known = ", or ".join(dict.fromkeys(backend.address_form for backend in BACKENDS.values()))
        raise ParameterError(f"the address has the unknown scheme '{scheme}:'; use {known}")  # it may hold a password
    return BACKENDS[scheme]


def find_file(address: str | Path) -> Path | None:
    """Find the file that an address leads to.

    Args:
        address: the address of a store or of a keyring.

    Returns:
        The path, which need not exist; None if the address has a scheme, so that it is not the path of a file.

    Example:
        >>> find_file("visits.db").name, find_file("postgresql://db.example.org/visits")
        ('visits.db', None)
    """
    return Path(address) if not _find_scheme(address) else None


def show_address(address: str | Path) -> str:
    """Replace the password of an address by asterisks, so that it can be printed.

    Args:
        address: the address of a store or of a keyring.

    Returns:
        The address. If a password has an at sign of its own, everything up to the last one is hidden.

    Example:
        >>> show_address("postgresql://ada:secret@db.example.org/visits")
        'postgresql://ada:***@db.example.org/visits'
        >>> show_address("postgresql://db.example.org/visits?user=ada&password=secret")
        'postgresql://db.example.org/visits?user=ada&password=***'
    """
    return hide_passwords(re.sub(r"\s", "+", str(address))) if _find_scheme(address) else str(address)


def hide_passwords(text: str) -> str:
    """Replace the passwords of the addresses in a text by asterisks.

    Args:
        text: any text, such as that of an error.

    Returns:
        The text.

    Example:
        >>> hide_passwords("Got unexpected extra argument (postgresql://ada:secret@db.example.org/visits)")
        'Got unexpected extra argument (postgresql://ada:***@db.example.org/visits)'
    """
    return _SECRET.sub(r"\1***", _PASSWORD.sub(_hide_password, text))


def _hide_password(match: re.Match[str]) -> str:
    """What is shown of an address with a password: nothing after its last at sign if that may stand in a password."""
    return f"{match[1]}***{'' if _SECRET.search(match[2]) else match[3]}"


def _find_scheme(address: str | Path) -> str:
    """The scheme of an address, in small letters; empty for the path of a file."""
    match = _SCHEME.fullmatch(address) if isinstance(address, str) else None
    return "" if match is None else match[1].lower()
