"""A snapshot of a store: all streams as they were at one moment; a damaged stream is named beside the others.

Guarantee: one damaged row never hides the streams around it; held by tests/test_cli_troubles.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from vestige.errors import StoreError
from vestige.store.ledger import Ledger
from vestige.store.receipt import Receipt
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

    def find_receipts(self, at: datetime) -> list[tuple[str | None, Receipt]]:
        """Find the receipts of the store and of its streams that have not expired, in the order of the requests.

        Args:
            at: the present time, in UTC.

        Returns:
            For each receipt the stream that has given it, None for one of the ledger; and the receipt.

        Raises:
            StoreError: the ledger is damaged.

        Example:
            >>> from vestige.times import wall_clock
            >>> StoreSnapshot({}).find_receipts(wall_clock())
            []
        """
        if self.ledger_trouble:
            raise StoreError(self.ledger_trouble)
        given: list[tuple[str | None, Receipt]] = [(None, receipt) for receipt in self.ledger.receipts]
        given += [
            (name, receipt)
            for name, (_, state) in self.streams.items()
            for receipt in state.receipts
            if receipt.keep  # the others are parts of requests in the ledger
        ]
        return sorted((entry for entry in given if not entry[1].is_expired(at)), key=lambda entry: entry[1].requested)

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
