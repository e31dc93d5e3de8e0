"""A copy of a whole store, taken at one moment; a stream that is damaged is named beside the others.

Guarantee: one bad row never hides the streams around it; held by tests/test_cli_troubles.py.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from vestige.errors import StoreError
from vestige.store.connection import DAMAGED, copied, reading
from vestige.store.keys import NO_KEY, fingerprint, hash_subject, read_key
from vestige.store.layout import SUBJECT
from vestige.store.paths import beside, resolve_path
from vestige.store.sqlite import PATIENCE
from vestige.store.state import State, Terms
from vestige.store.tables import Tables

UNNAMED = (
    "its name cannot be read, so nothing of it can be shown; vestige remove erases it, with the words in quotes as "
    "--stream; or restore a copy younger than the limits"
)


@dataclass(frozen=True, slots=True)
class Copy:
    """All streams of a store.

    Attributes:
        streams: those that can be read, by name.
        troubles: what is wrong with the others, a sentence each; a row whose name cannot be read goes by its number.
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
    path = resolve_path(path)
    streams: dict[str, tuple[Terms, State]] = {}
    with reading(copied(path, patience), path) as connection:
        tables = Tables(connection, path)
        names, wrong = tables.survey()
        troubles = dict.fromkeys(wrong, UNNAMED)
        for name in sorted(names):
            try:
                ((_, terms, state),) = tables.states([name])
                streams[name] = terms, state
            except StoreError as problem:
                troubles[name] = str(problem)
        return Copy(streams, troubles, tables.about.fingerprint)


def read_store(path: str | Path, *, patience: float = PATIENCE) -> dict[str, tuple[Terms, State]]:
    """The same of a store in which every stream can be read.

    Raises:
        StoreError: a stream is damaged.
    """
    copy = copy_store(path, patience=patience)
    for name, text in copy.troubles.items():
        raise StoreError(f"{path}: {name} (bits changed outside Vestige); {DAMAGED}" if text == UNNAMED else text)
    return dict(copy.streams)


def hash_subjects(
    path: str | Path, subjects: Sequence[str], *, known: bytes, key: str | Path | None = None
) -> tuple[str, ...]:
    """What stands for subjects in a store, without opening it for writing.

    Args:
        path: the store.
        subjects: the texts.
        known: what the store remembers of its key, as a copy of it says.
        key: where the key lies; default: PATH.key.

    Raises:
        StoreError: the key is missing or is not that of the store.
    """
    pseudonym = open_key(path, known=known, key=key)
    return tuple(pseudonym(subject) for subject in subjects)


def open_key(path: str | Path, *, known: bytes, key: str | Path | None = None) -> Callable[[str], str]:
    """From a subject to what stands for it in a store, without opening that for writing; see `hash_subjects`."""
    if known == NO_KEY:  # no subject was ever named there, so nobody is found
        return lambda _: secrets.token_hex(SUBJECT)
    place = beside(resolve_path(path), ".key") if key is None else Path(key)
    found = read_key(place)
    if found is None or fingerprint(found) != known:
        raise StoreError(
            f"{place}: {'is missing' if found is None else 'is not the key of this store'}, so the subjects of the "
            f"records in {path} cannot be recognised; put the right key there or pass key=... (--key)"
        )
    return lambda subject: hash_subject(subject, found)
