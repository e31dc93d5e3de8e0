"""The ledger of a store: receipts of requests to its streams, kept apart from them for as long as the user says.

Requests are numbered. A stream notes, whenever it has met all requests, the number of the newest one
(`State.settled`); so a request has been met once each stream that was asked has noted its number, and that depends on
the public clocks alone, not on who was in which stream.
Guarantee: a person of whom nothing is held gets the same entry as anybody else, and an erased stream leaves no name
here; held by tests/operations/test_receipts.py.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from vestige.store.receipt import Receipt

LEDGER_KEPT = timedelta(days=3 * 365)
"""How long receipts are kept here after the erasure, by default."""


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    """A request to streams of a store.

    Attributes:
        receipt: its receipt.
        streams: the streams that were asked and may not have met it yet; None for all. Empty once it has been met.
        failed: the streams that could not be asked, such as damaged ones. Empty once it has been met.
    """

    receipt: Receipt
    streams: tuple[str, ...] | None = None
    failed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Ledger:
    """The requests to streams of a store.

    Attributes:
        newest: the number of the newest request; 0 if there was none.
        entries: the requests that are open or whose receipts are kept, by number.

    Example:
        >>> from datetime import UTC
        >>> receipt = Receipt("0123456789abcdef", datetime(2024, 1, 1, tzinfo=UTC), 7, None)
        >>> ledger = Ledger().file([receipt], None)
        >>> ledger.newest, ledger.open
        (1, (1,))
        >>> ledger.settle(lambda *_: True, 9, datetime(2024, 1, 2, tzinfo=UTC)).entries[1].receipt.erased_round
        9
    """

    newest: int = 0
    entries: Mapping[int, LedgerEntry] = field(default_factory=dict)

    @property
    def open(self) -> tuple[int, ...]:
        """The numbers of the requests that are open."""
        return tuple(number for number, entry in self.entries.items() if entry.receipt.erased is None)

    @property
    def receipts(self) -> tuple[Receipt, ...]:
        """The receipts, in the order of the requests."""
        return tuple(entry.receipt for entry in self.entries.values())

    def file(self, receipts: Sequence[Receipt], streams: Sequence[str] | None, failed: Sequence[str] = ()) -> Ledger:
        """Add requests.

        Args:
            receipts: their receipts.
            streams: the streams that were asked; None for all.
            failed: the streams that could not be asked.

        Returns:
            The ledger with these requests.
        """
        asked = None if streams is None else tuple(streams)
        new = {
            number: LedgerEntry(receipt, asked, tuple(failed)) if receipt.erased is None else LedgerEntry(receipt, ())
            for number, receipt in enumerate(receipts, self.newest + 1)
        }
        return Ledger(self.newest + len(receipts), {**self.entries, **new})

    def settle(self, is_met: Callable[[int, LedgerEntry], bool], t: int, now: datetime) -> Ledger:
        """Mark open requests as met.

        Args:
            is_met: tells whether a request has been met.
            t: the round.
            now: the time.

        Returns:
            The ledger; an entry that has been met names no stream any more.
        """
        met = {n: self.entries[n] for n in self.open if is_met(n, self.entries[n])}
        done = {n: LedgerEntry(entry.receipt.mark_erased(t, now), ()) for n, entry in met.items()}
        return replace(self, entries={**self.entries, **done}) if done else self

    def drop(self, ids: Collection[str]) -> Ledger:
        """Drop requests, whatever became of them.

        Args:
            ids: the ids of their receipts.

        Returns:
            The ledger without them.
        """
        return replace(self, entries={n: entry for n, entry in self.entries.items() if entry.receipt.id not in ids})

    def drop_expired(self, now: datetime) -> Ledger:
        """Drop the receipts that need not be kept any longer.

        Args:
            now: the present time.

        Returns:
            The ledger without them.
        """
        kept = {n: entry for n, entry in self.entries.items() if not entry.receipt.is_expired(now)}
        return self if len(kept) == len(self.entries) else replace(self, entries=kept)

    def without_streams(self, gone: Collection[str]) -> Ledger:
        """Drop the names of streams that are erased.

        Args:
            gone: the names.

        Returns:
            The ledger without them; itself if it has none of them.
        """

        def drop(names: Sequence[str]) -> tuple[str, ...]:
            return tuple(name for name in names if name not in gone)

        left = {
            n: replace(entry, streams=entry.streams and drop(entry.streams), failed=drop(entry.failed))
            for n, entry in self.entries.items()
        }
        return self if left == self.entries else replace(self, entries=left)
