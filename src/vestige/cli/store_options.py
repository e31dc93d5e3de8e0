"""What opens a store: its address, its keyring and its key, as one value that every command on a store is given.

A command prints this value where it names its store, so that no password of an address is printed.
Guarantee: each command that opens a store takes --keyring, and none prints a password; held by
tests/test_cli_keyring.py.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from functools import partial, wraps
from pathlib import Path
from typing import Any

import click

from vestige.cli.config import config_option
from vestige.cli.memory import lock_memory
from vestige.cli.output import warn
from vestige.errors import ParameterError
from vestige.store import Reader, Store, open_reader, open_store
from vestige.store.address import find_file, show_address
from vestige.store.file_system import explain_copies
from vestige.store.paths import append_ending

_ENDINGS = (".key", ".key.count", ".key.requests", ".lock")
VARIABLE = "VESTIGE_KEYRING"
"""The environment variable with the default of --keyring."""
keyring_option = click.option(
    "--keyring",
    metavar="ADDRESS",
    envvar=VARIABLE,
    show_envvar=True,
    help="Keyring that STORE is sealed with: a file, or the address of a keyring server.",
)
key_option = click.option(
    "--key",
    metavar="FILE",
    help="File with the key that subjects are hashed with.  [default: STORE.key; of a store on a server, KEYRING.key]",
)


@dataclass(frozen=True, slots=True)
class StoreOptions:
    """What opens a store; as a text, its address without a password.

    Attributes:
        address: its address.
        key: the file with the key of its subjects; None for the one beside it.
        keyring: the address of its keyring; None if it is not sealed.
    """

    address: str
    key: str | None = None
    keyring: str | None = None

    def __str__(self) -> str:
        return show_address(self.address)

    @property
    def file(self) -> Path | None:
        """The file of the store; None if it is not in a file."""
        return find_file(self.address)

    @property
    def files(self) -> tuple[str, ...]:
        """The files that belong to the store, which must not be overwritten; they need not exist."""
        given = [find_file(each) for each in (self.address, self.keyring, self.key) if each is not None]
        files = [file for file in given if file is not None]
        return tuple(str(file) for file in (*files, *(append_ending(file, end) for file in files for end in _ENDINGS)))

    def open(self, *, create: bool = False, wait: timedelta | None = None) -> Store:
        """Open it for writing; one whose streams other processes lend waits so long for them."""
        self._lock_keys()
        opener = open_store if wait is None or self.file else partial(open_store, patience=wait.total_seconds())
        return opener(self.address, key=self.key, keyring=self.keyring, create=create)

    def open_reader(self) -> Reader:
        """Open it for reading."""
        self._lock_keys()
        return open_reader(self.address, key=self.key, keyring=self.keyring)

    def _lock_keys(self) -> None:
        if self.keyring is not None:
            lock_memory()

    def require_keyring(self, what: str) -> str:
        """The address of its keyring, without which this cannot be done."""
        if self.keyring is None:
            raise ParameterError(f"{what} needs the keyring of {self}; give it by --keyring ADDRESS, or {VARIABLE}")
        return self.keyring


def warn_of_copies(*addresses: str | None) -> None:
    """Warn of files on a file system that leaves what was overwritten on the device."""
    for file in (find_file(each) for each in addresses if each is not None):
        if file is not None and (why := explain_copies(file)):
            warn(f"Warning: {why}.")


def store_argument(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add STORE and --keyring to a command, and --config, whose file names the store if STORE is left out.

    The command is given a `StoreOptions` as `store`; the value of --key, if it has that option, is in it.
    """
    return click.argument("store", required=False)(config_option(_join_options(function)))


def required_store_argument(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same for commands that cannot be undone, so that nobody calls them without naming STORE."""
    return click.argument("store")(_join_options(function))


def _join_options(function: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(function)
    def call(*arguments: Any, store: str, keyring: str | None, key: str | None = None, **given: Any) -> Any:
        return function(*arguments, store=StoreOptions(store, key, keyring), **given)

    return keyring_option(call)
