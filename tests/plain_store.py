"""The contract of a store in its plainest form: a dictionary, which the others are compared with."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import ClassVar, NoReturn

from vestige.errors import ParameterError, StoreError
from vestige.store.canaries import CanarySearch
from vestige.store.keyring import Keyring
from vestige.store.keys import SIZE, hash_subject, hide_subjects
from vestige.store.ledger import Ledger
from vestige.store.overdue import find_overdue, find_overdue_receipts
from vestige.store.place import Place, check_name
from vestige.store.snapshot import StoreSnapshot
from vestige.store.state import State
from vestige.store.store import PATIENCE, Store
from vestige.store.terms import Terms
from vestige.store.text import encode_text
from vestige.times import to_utc, wall_clock


class PlainStore(Store):
    """Named streams, as long as this object lives.

    Example:
        >>> from vestige import Mean, Stream
        >>> store = PlainStore()
        >>> stream = Stream(Mean(), retention=96, seed=0, store=store.stream("delays"))
        >>> _ = stream.extend(range(1, 1_001))
        >>> stream.flush()
        >>> again = Stream(Mean(), retention=96, seed=0, store=store.stream("delays"))
        >>> again.t, round(again.estimate().value, 6)
        (1000, 500.5)
    """

    address_form: ClassVar = "memory:"

    def __init__(self) -> None:
        super().__init__()
        self._kept: dict[str, tuple[Terms, State]] = {}
        self._ledger = Ledger()
        self._key = secrets.token_bytes(SIZE)

    @classmethod
    def open(
        cls,
        address: str | Path,
        *,
        key: str | Path | None = None,
        keyring: str | Path | Keyring | None = None,  # noqa: ARG003
        patience: float = PATIENCE,  # noqa: ARG003  # nobody else can read it
        create: bool = True,
    ) -> PlainStore:
        """Create an empty store; see `vestige.open_store`."""
        if str(address) != cls.address_form:
            raise ParameterError(f"a store in memory has the address {cls.address_form} and nothing after it")
        if key is not None:
            raise ParameterError("key has no use for a store in memory, whose key lives as long as it; leave it out")
        return cls() if create else cls._refuse()

    @classmethod
    def open_reader(
        cls,
        address: str | Path,  # noqa: ARG003
        *,
        key: str | Path | None = None,  # noqa: ARG003
        keyring: str | Path | Keyring | None = None,  # noqa: ARG003
        patience: float = PATIENCE,  # noqa: ARG003
    ) -> NoReturn:
        """Refuse: a store in memory can only be read through the object itself."""
        cls._refuse()

    @classmethod
    def _refuse(cls) -> NoReturn:
        raise StoreError(
            f"{cls.address_form} there is no such store: one in memory ends with its process; give the path of a file"
        )

    def names(self) -> tuple[str, ...]:
        """The streams that are there, sorted."""
        return tuple(sorted(self._kept))

    def terms(self, name: str) -> Terms:
        """The terms of a stream that is there."""
        if check_name("name", name) not in self._kept:
            raise StoreError(f"there is no stream {name!r}")
        return self._kept[name][0]

    def snapshot(self) -> StoreSnapshot:
        """Copy all streams as they were last written."""
        return StoreSnapshot({name: self._kept[name] for name in self.names()}, ledger=self._ledger)

    def read_ledger(self) -> Ledger:
        """The requests to streams of the store, with their receipts."""
        return self._ledger

    def write_ledger(self, ledger: Ledger) -> None:
        """Replace the ledger."""
        self._ledger = ledger

    def verify(self, *, at: datetime | None = None, canaries: Sequence[bytes] = ()) -> tuple[str, ...]:
        """Check the limits of all streams, and look for canaries in names, values and sources."""
        search = CanarySearch(canaries)
        moment = to_utc(wall_clock() if at is None else at)
        overdue = [
            text for name, (terms, state) in self._kept.items() for text in find_overdue(name, terms, state, moment)
        ]
        overdue += find_overdue_receipts("the ledger", self._ledger.receipts, moment)
        held = [_to_bytes(name, terms, state) for name, (terms, state) in self._kept.items()]
        planted = [search.describe(hit, "the store") for body in held for hit in search.find(body)]
        return tuple(overdue + planted)

    def pseudonym(self, subject: str) -> str:
        """A hash under a key that lives as long as this object."""
        return hash_subject(subject, self._key)

    def rekey(self) -> None:
        """Start with a new key; records that are held now cannot be found by subject any more."""
        self.release()
        for name, (terms, state) in self._kept.items():
            self._kept[name] = terms, replace(state, retained=hide_subjects(state.retained))
        self._key = secrets.token_bytes(SIZE)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Return to what there was if something goes wrong inside."""
        before = dict(self._kept), self._ledger
        try:
            yield
        except BaseException:
            self._kept, self._ledger = before
            self._mark_lost()
            raise

    def tidy(self) -> None:
        """Put the streams in order."""
        self._kept = {name: self._kept[name] for name in self.names()}

    def _erase(self, name: str) -> None:
        del self._kept[name]

    def _place(self, name: str, about: Mapping[str, object]) -> Place:
        return _Place(self, name, about)


def _to_bytes(name: str, terms: Terms, state: State) -> bytes:
    """All that can say something about a record, as bytes."""
    held = state.retained
    texts = [name, terms.text, *state.positions, *(who for who in held.subjects if who is not None)]
    return b"\0".join([*map(encode_text, texts), held.values.tobytes(), held.times.tobytes()])


class _Place(Place):
    store: PlainStore

    def read(self, terms: Terms) -> State:
        if self.name not in self.store._kept:
            return State.empty(terms.columns)
        known, state = self.store._kept[self.name]
        known.check(self.name, terms)
        return state

    def write(self, terms: Terms, state: State) -> None:
        self.store._kept[self.name] = (terms, state)
