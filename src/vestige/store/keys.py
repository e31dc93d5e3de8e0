"""Subjects as keyed hashes: whoever has the store but not the key cannot test guesses about who is in it.

BLAKE2b with a key of 32 random bytes in a file of its own (Aumasson, Neves, Wilcox-O'Hearn and Winnerlein 2013,
doi:10.1007/978-3-642-38980-1_8); the store keeps a fingerprint of the key, so that a wrong key is noticed before it
makes pseudonyms that nobody could find.
Guarantee: a process killed at any moment leaves a store that opens and accepts subjects again; held by
tests/store/test_keys.py.
"""

from __future__ import annotations

import hashlib
import os
import secrets
from collections.abc import Callable
from pathlib import Path

from vestige.errors import ParameterError, StoreError
from vestige.records import Records
from vestige.store.paths import append_ending, resolve_path, write_private
from vestige.store.text import encode_text

PSEUDONYM = 16
"""Bytes of a pseudonym."""
NO_KEY = bytes(PSEUDONYM)
"""The fingerprint in a store in which no subject has been named yet."""
EARLIER = "f" * (2 * PSEUDONYM)
"""The pseudonym of every subject that was named with a key which is lost: nobody can tell them apart any more."""
SIZE = 32
"""Bytes of a key."""


def hash_subject(subject: str, key: bytes) -> str:
    """Compute the pseudonym of a subject.

    Args:
        subject: any text.
        key: the key, 32 bytes.

    Returns:
        32 hexadecimal digits.

    Raises:
        ParameterError: the subject is not a text.

    Example:
        >>> hash_subject("ada", bytes(32))
        'ca65689ec46c4b7c0bc701e0f1642e9e'
    """
    if not isinstance(subject, str):
        raise ParameterError(f"a subject is a {type(subject).__name__}; pass a text")
    return hashlib.blake2b(encode_text(subject), key=key, digest_size=PSEUDONYM).hexdigest()


def fingerprint(key: bytes) -> bytes:
    """Compute what a store keeps of its key.

    Args:
        key: the key, 32 bytes.

    Returns:
        16 bytes that identify the key and do not reveal it.

    Example:
        >>> len(fingerprint(bytes(32)))
        16
    """
    return hashlib.blake2b(b"vestige", key=key, digest_size=PSEUDONYM).digest()


def hide_subjects(records: Records) -> Records:
    """Replace all pseudonyms by the mark for subjects that were named with a lost key.

    Args:
        records: the records.

    Returns:
        The same records; those without a subject stay without one.

    Example:
        >>> hide_subjects(Records([1, 2], [[0.5], [0.25]], subjects=["0" * 32, None])).subjects.tolist()
        ['ffffffffffffffffffffffffffffffff', None]
    """
    return records.with_subjects([None if who is None else EARLIER for who in records.subjects])


def has_subjects(records: Records) -> bool:
    """Tell whether a record has a subject that the key of its store would find.

    Args:
        records: the records.

    Returns:
        False if no record has a subject, or all subjects were named with a lost key.

    Example:
        >>> has_subjects(Records([1], [[0.5]], subjects=[EARLIER]))
        False
    """
    return any(who not in (None, EARLIER) for who in records.subjects)


class KeyFile:
    """The file that holds the key of a store.

    Args:
        path: the file, which is created when a key is first needed; default: beside the store.
        store: the store, or another file that the key lies beside.
        where: where the store is, for error messages; default: `store`.

    Raises:
        ParameterError: `path` is not a path.
        StoreError: there is no folder for it.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     file = KeyFile(None, store=Path(folder, "visits.db"))
        ...     key = file.obtain(NO_KEY, is_needed=lambda: False)
        ...     print(file.obtain(fingerprint(key), is_needed=lambda: True) == key)
        True
    """

    def __init__(self, path: str | Path | None, *, store: Path, where: str = "") -> None:
        self.path = append_ending(store, ".key") if path is None else resolve_path(path, "key")
        self._store = where or str(store)

    def read(self) -> bytes | None:
        """Read the key.

        Returns:
            The key; None if there is no file, or an empty one.

        Raises:
            StoreError: the file is not a key, or cannot be read.
        """
        try:
            key = self.path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as problem:
            raise StoreError(
                f"{self.path}: the key cannot be read ({problem.strerror}); ask for permission to read it"
            ) from None
        if key and len(key) != SIZE:
            raise StoreError(
                f"{self.path}: has {len(key)} bytes, and a key has {SIZE}; put the right key there or pass key=..."
            )
        return key or None

    def create(self) -> bytes:
        """Create a new key, durable in its file.

        Returns:
            The key.

        Raises:
            StoreError: the file cannot be written.
        """
        key = os.urandom(SIZE)
        write_private(self.path, key)
        return key

    def obtain(self, known: bytes, *, is_needed: Callable[[], bool]) -> bytes:
        """Read the key that a store was used with, or create one if any key will do.

        Args:
            known: the fingerprint that the store keeps.
            is_needed: tells whether the store holds subjects that only the known key can find.

        Returns:
            The key.

        Raises:
            StoreError: the key is missing or is another one, and the store holds subjects.
        """
        key = self.read()
        if not _fits(key, known) and is_needed():
            raise StoreError(
                f"{self._explain_misfit(key)}; if it is lost for good, start with a new one by vestige rekey or "
                "Store.rekey(): the records that are held now can then be removed by round, or are erased when their "
                "limits say so"
            )
        return self.create() if key is None else key

    def open(self, known: bytes) -> Callable[[str], str]:
        """Return the function from subjects to pseudonyms, for a reader.

        Args:
            known: the fingerprint that the store keeps.

        Returns:
            The function; if no subject was ever named in the store, it gives random pseudonyms that find nobody.

        Raises:
            StoreError: the key is missing or is another one.
        """
        if known == NO_KEY:
            return lambda _: secrets.token_hex(PSEUDONYM)
        key = self.read()
        if key is None or fingerprint(key) != known:
            raise StoreError(self._explain_misfit(key))
        return lambda subject: hash_subject(subject, key)

    def check_replaceable(self, known: bytes) -> None:
        """Check that a new key would not overwrite one that is there.

        Args:
            known: the fingerprint that the store keeps.

        Raises:
            StoreError: the file holds a key.
        """
        key = self.read()
        if key is not None and _fits(key, known):
            raise StoreError(
                f"{self.path}: exists and fits this store, so there is nothing to do: subjects can be named; to start "
                "with another key all the same, move this one away first"
            )
        if key is not None:
            raise StoreError(
                f"{self.path}: exists, and a new key would overwrite it; move it away first, or pass key=... with "
                "another path"
            )

    def _explain_misfit(self, key: bytes | None) -> str:
        return (
            f"{self.path}: {'is missing' if key is None else 'is not the key of this store'}, so the subjects of the "
            f"records in {self._store} cannot be recognised; put the right key there or pass key=... (--key)"
        )


def _fits(key: bytes | None, known: bytes) -> bool:
    return known == NO_KEY or (key is not None and fingerprint(key) == known)
