"""A copy of a whole store, taken at one moment; a stream that is damaged is named beside the others.

Guarantee: one bad row never hides the streams around it; held by tests/test_cli_troubles.py.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from vestige.errors import StoreError
from vestige.store.files import beside, copied, reading
from vestige.store.layout import SUBJECT
from vestige.store.sqlite import PATIENCE, _fingerprint
from vestige.store.state import State, Terms
from vestige.store.tables import NO_KEY, Tables


@dataclass(frozen=True, slots=True)
class Copy:
    """All streams of a store.

    Attributes:
        streams: those that can be read, by name.
        troubles: what is wrong with the others, a sentence each.
        fingerprint: that of the key of the subjects.
    """

    streams: Mapping[str, tuple[Terms, State]]
    troubles: Mapping[str, str] = field(default_factory=dict)
    fingerprint: bytes = NO_KEY

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all streams, sorted."""
        return tuple(sorted({*self.streams, *self.troubles}))


def copy_store(path: str | Path, *, patience: float = PATIENCE) -> Copy:
    """A copy of all streams in a store; the file is free again when this returns."""
    path = Path(path)
    streams: dict[str, tuple[Terms, State]] = {}
    troubles: dict[str, str] = {}
    with reading(copied(path, patience), path) as connection:
        tables = Tables(connection, path)
        for name, number in sorted(tables.ids.items()):
            try:
                streams[name] = tables.terms[number], tables.state(name)
            except StoreError as problem:
                troubles[name] = str(problem)
        return Copy(streams, troubles, tables.fingerprint)


def hash_subjects(
    path: str | Path, subjects: Sequence[str], *, fingerprint: bytes, key: str | Path | None = None
) -> tuple[str, ...]:
    """What stands for subjects in a store, without opening it for writing.

    Args:
        path: the store.
        subjects: the texts.
        fingerprint: what the store remembers of its key, as a copy of it says.
        key: where the key lies; default: PATH.key.

    Raises:
        StoreError: the key is missing or is not that of the store.
    """
    place = beside(Path(path).resolve(), ".key") if key is None else Path(key)
    if fingerprint == NO_KEY:  # no subject was ever named there, so nobody is found
        return tuple(secrets.token_hex(SUBJECT) for _ in subjects)
    found = place.read_bytes() if place.exists() else b""
    if not found or _fingerprint(found) != fingerprint:
        raise StoreError(
            f"{place}: {'is not the key of this store' if found else 'is missing'}, so the subjects of the records in "
            f"{path} cannot be recognised; put the right key there or pass key=..."
        )
    return tuple(hashlib.blake2b(s.encode(), key=found, digest_size=SUBJECT).hexdigest() for s in subjects)
