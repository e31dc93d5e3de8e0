"""Subjects as keyed hashes: who has the store but not the key cannot test guesses of who is in it.

BLAKE2b with a key of 32 random bytes, which lies in a file of its own; the store keeps a fingerprint of it, so that a
wrong key is noticed before it makes pseudonyms that nobody would find.
Guarantee: killed at any moment, a store opens, and takes subjects again; held by tests/store/test_keys.py.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from vestige.errors import ParameterError, StoreError
from vestige.store.layout import SUBJECT, encode_text
from vestige.store.paths import write_private

NO_KEY = bytes(SUBJECT)
"""The fingerprint of a store in which no subject was named yet."""
EARLIER = "f" * (2 * SUBJECT)
"""What stands for every subject that was named with a key which is lost: nobody can tell them apart any more."""
SIZE = 32


def hash_subject(subject: str, key: bytes) -> str:
    """What stands for a subject: 32 hexadecimal digits."""
    if not isinstance(subject, str):
        raise ParameterError(f"a subject is a {type(subject).__name__}; pass a text")
    return hashlib.blake2b(encode_text(subject), key=key, digest_size=SUBJECT).hexdigest()


def fingerprint(key: bytes) -> bytes:
    """What a store remembers of its key."""
    return hashlib.blake2b(b"vestige", key=key, digest_size=SUBJECT).digest()


def read_key(path: Path) -> bytes | None:
    """The key that lies there; None where there is no file, or an empty one.

    Raises:
        StoreError: the file is not a key, or cannot be read.
    """
    try:
        key = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as problem:
        raise StoreError(f"{path}: the key cannot be read ({problem.strerror}); ask for the right to read it") from None
    if key and len(key) != SIZE:
        raise StoreError(f"{path}: has {len(key)} bytes, and a key has {SIZE}; put the right key there or pass key=...")
    return key or None


def make_key(path: Path) -> bytes:
    """A new key, durable in its file."""
    key = os.urandom(SIZE)
    write_private(path, key)
    return key
