"""A snapshot of a store: all streams as they were at one moment; a damaged stream is named beside the others.

Guarantee: one damaged row never hides the streams around it; held by tests/test_cli_troubles.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from vestige.errors import StoreError
from vestige.store.ledger import Ledger
from vestige.store.state import State
from vestige.store.terms import Terms

UNNAMED = (
    "its name cannot be read, so nothing of it can be shown; vestige remove erases it, with the quoted text as "
    "--stream; or restore a copy younger than the limits"
)
"""What is reported of a row whose name cannot be read."""


@dataclass(frozen=True, slots=True)
class StoreSnapshot:
    """All streams of a store at one moment.

    Attributes:
        streams: the terms and the state of each stream that can be read, by name.
        troubles: what is wrong with each of the others, one sentence each; a row whose name cannot be read is listed
            under a text with its number.
        ledger: the requests to streams of the store, with their receipts.
        ledger_trouble: what is wrong with the ledger, which is empty then; empty if nothing is.

    Example:
        >>> from vestige import Mean, Stream, open_store
        >>> store = open_store("memory:")
        >>> stream = Stream(Mean(), retention=96, seed=0, store=store.stream("delays"))
        >>> _ = stream.extend(range(10))
        >>> store.flush()
        >>> store.snapshot().names
        ('delays',)
    """

    streams: Mapping[str, tuple[Terms, State]]
    troubles: Mapping[str, str] = field(default_factory=dict)
    ledger: Ledger = field(default_factory=Ledger)
    ledger_trouble: str = ""

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all streams, sorted."""
        return tuple(sorted({*self.streams, *self.troubles}))

    @property
    def unnamed(self) -> tuple[str, ...]:
        """The rows whose names cannot be read."""
        return tuple(name for name, text in self.troubles.items() if text == UNNAMED)

    def select(self, names: tuple[str, ...]) -> StoreSnapshot:
        """Return the same snapshot with these streams only.

        Args:
            names: the names of the streams.

        Returns:
            The part of the snapshot that concerns them.

        Example:
            >>> StoreSnapshot({}, {"a": "is damaged"}).select(("b",)).names
            ()
        """
        return StoreSnapshot(
            {name: self.streams[name] for name in names if name in self.streams},
            {name: text for name, text in self.troubles.items() if name in names},
            self.ledger,
            self.ledger_trouble,
        )

    def all_streams(self) -> dict[str, tuple[Terms, State]]:
        """Return all streams, provided that each of them can be read.

        Returns:
            The terms and the state of each stream, by name.

        Raises:
            StoreError: a stream is damaged.

        Example:
            >>> StoreSnapshot({}).all_streams()
            {}
        """
        for name, text in self.troubles.items():
            raise StoreError(f"{name}: {text}" if text == UNNAMED else text)
        return dict(self.streams)
