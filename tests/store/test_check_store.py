"""The check of stores: ours pass, and each way of being wrong is found."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import pytest

from plain_store import PlainStore
from vestige import MemoryStore, SqliteStore
from vestige.checks import check_store
from vestige.errors import CheckError
from vestige.records import Records
from vestige.store import KeyringFile, Ledger, LedgerEntry, Place, State, StoreSnapshot, Terms


def test_ours_pass(tmp_path: Path) -> None:
    check_store(lambda: SqliteStore(tmp_path / "a.db"))
    keyring = KeyringFile(tmp_path / "keyring", create=True)
    check_store(lambda: SqliteStore(tmp_path / "b.db", keyring=keyring))
    for store in (MemoryStore(), PlainStore()):
        check_store(lambda store=store: store)  # type: ignore[misc]


class Broken(PlainStore):
    """A store with one fault."""

    def __init__(self, fault: str) -> None:
        super().__init__()
        self.fault = fault

    def pseudonym(self, subject: str) -> str:
        if self.fault == "clear subjects":
            return subject
        return super().pseudonym(subject) if self.fault != "new key" else PlainStore().pseudonym(subject)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        if self.fault == "half a transaction":
            yield
        else:
            with super().transaction():
                yield

    def snapshot(self) -> StoreSnapshot:
        return StoreSnapshot({}) if self.fault == "empty snapshot" else super().snapshot()

    def verify(self, *, at: datetime | None = None, canaries: Sequence[bytes] = ()) -> tuple[str, ...]:
        if self.fault == "no canaries":
            return super().verify(at=at)
        return () if self.fault == "blind" else super().verify(at=at, canaries=canaries)

    def write_ledger(self, ledger: Ledger) -> None:
        if self.fault == "no references":
            plain = {n: LedgerEntry(replace(e.receipt, reference=None)) for n, e in ledger.entries.items()}
            ledger = Ledger(ledger.newest, plain)
        super().write_ledger(ledger)

    def tidy(self) -> None:
        if self.fault == "tidied away":
            self._kept.popitem()

    def rekey(self) -> None:
        if self.fault != "old key":
            super().rekey()

    def _erase(self, name: str) -> None:
        if self.fault != "keeps what was removed":
            super()._erase(name)

    def _place(self, name: str, about: object) -> Place:  # noqa: ARG002
        return _BrokenPlace(self, name.lower() if self.fault != "mixed up" else "a", {})


class _BrokenPlace(Place):
    store: Broken

    def read(self, terms: Terms) -> State:
        kept = self.store._kept.get(self.name)
        if kept is None:
            return State.empty(terms.columns)
        if self.store.fault != "any terms":
            kept[0].check(self.name, terms)
        return kept[1]

    def write(self, terms: Terms, state: State) -> None:
        fault, held = self.store.fault, state.retained
        if fault == "no times":
            state = replace(
                state, retained=Records(held.rounds, held.values, held.leaving, None, held.subjects, held.numbers)
            )
        if fault == "no marks":
            state = replace(
                state, retained=Records(held.rounds, held.values, None, held.times, held.subjects, held.numbers)
            )
        if fault == "rounded":
            values = held.values.astype("f4").astype("f8")
            state = replace(
                state, retained=Records(held.rounds, values, held.leaving, held.times, held.subjects, held.numbers)
            )
        if fault == "no sign of zero":
            state = replace(
                state,
                retained=Records(held.rounds, held.values + 0.0, held.leaving, held.times, held.subjects, held.numbers),
            )
        if fault == "no positions":
            state = replace(state, positions={})
        if fault == "no numbers":
            state = replace(state, retained=held.without_numbers())
        if fault == "no slots":
            state = replace(state, positions={name: replace(p, slot=0) for name, p in state.positions.items()})
        if fault == "no receipts":
            state = replace(state, receipts=())
        if fault == "not settled":
            state = replace(state, settled=0)
        if fault == "keeps the old" and self.name in self.store._kept:
            return
        self.store._kept[self.name] = (terms, state)


@pytest.mark.parametrize(
    ("fault", "text"),
    [
        ("clear subjects", "has no proper pseudonyms"),
        ("new key", "changes its pseudonyms"),
        ("half a transaction", "does not have the streams that were written, after one stream was written again"),
        ("mixed up", "does not have the streams that were written"),
        ("any terms", "opens a stream with other terms"),
        ("no times", "returns other retained than were written"),
        ("no marks", "returns other retained than were written"),
        ("rounded", "returns other retained than were written"),
        ("no sign of zero", "changes bits of values"),
        ("no positions", "returns other positions than were written"),
        ("no numbers", "returns other retained than were written"),
        ("no slots", "returns other positions than were written"),
        ("no receipts", "returns other receipts than were written"),
        ("not settled", "returns other settled than were written"),
        ("no references", "returns another ledger than was written"),
        ("keeps what was removed", "does not have the streams that were written, after a stream was removed"),
        ("empty snapshot", "gives a snapshot of something else"),
        ("blind", "does not find a record that is overdue"),
        ("no canaries", "does not find bytes that it holds"),
        ("tidied away", "changes when it is tidied"),
        ("old key", "keeps its key"),
        ("keeps the old", "returns other clock than were written, after one stream was written again"),
    ],
)
def test_a_broken_one_is_found(fault: str, text: str) -> None:
    store = Broken(fault)
    with pytest.raises(CheckError, match=text):
        check_store(lambda: store)


def test_one_that_is_not_empty_is_not_touched() -> None:
    store = MemoryStore()
    store.stream("a").write(Terms({}, 1, 10), State.empty(1))
    with pytest.raises(CheckError, match="is not empty at first"):
        check_store(lambda: store)
