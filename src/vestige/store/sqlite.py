"""The embedded store: one SQLite file, many named streams.

Each state is one row of fixed size that an update overwrites in place, in one transaction with the positions and the
receipts; rows are only ever added at the end of a table, so that no page is split and no copy stays behind.
Guarantee: after a crash at any moment the file holds the state before or after an update; after a commit nothing of an
erased record is in any file of the store; held by tests/store/test_crashes.py and tests/store/test_erasure.py. After
an error the store can go on; held by tests/store/test_faults.py.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from vestige.errors import StoreBusyError, StoreError
from vestige.store import version1, version2
from vestige.store.connection import (
    VERSION,
    ask,
    check_kind,
    check_patience,
    connected,
    empty_store,
    explained,
    explained_opening,
    make_store,
    writer_lock,
)
from vestige.store.inbox import Inbox
from vestige.store.keys import EARLIER, NO_KEY, fingerprint, hash_subject, make_key, read_key
from vestige.store.paths import beside, clear_drafts, resolve_path
from vestige.store.state import State, Terms
from vestige.store.store import Place, Store, check_name
from vestige.store.tables import Tables

PATIENCE = 5.0
"""Seconds for which a commit waits for others who read the file."""


class SqliteStore(Store):
    """Named streams in one file that really forgets.

    Args:
        path: the file; made if it is not there. Links are followed. Beside it lie PATH.lock, which is empty, and, once
            a subject has been named, PATH.key.
        key: where the key lies that subjects are hashed with; default: PATH.key. Keep it apart from the store: who
            has both can test guesses of who is in it. If it is lost, see `new_key`.
        patience: seconds for which a commit waits for others who read the file.

    Threads may share a store: what one of them writes, the others wait for. A process that was forked may not.

    >>> import tempfile
    >>> from vestige import Mean, Stream
    >>> folder = tempfile.TemporaryDirectory()
    >>> with SqliteStore(folder.name + "/delays.db") as store:
    ...     stream = Stream(Mean(), retention=96, seed=0, store=store.stream("delays"))
    ...     _ = stream.extend(range(1, 1_001))
    >>> with SqliteStore(folder.name + "/delays.db") as store:
    ...     again = Stream(Mean(), retention=96, seed=0, store=store.stream("delays"))
    ...     print(again.t, round(again.estimate().value, 6))
    1000 500.5
    >>> folder.cleanup()
    """

    def __init__(self, path: str | Path, *, key: str | Path | None = None, patience: float = PATIENCE) -> None:
        super().__init__()
        check_patience(patience)
        self.path = resolve_path(path)
        self._key_path = beside(self.path, ".key") if key is None else resolve_path(key)
        self._key: bytes | None = None
        self._depth = 0
        self._version: int | None = None
        with explained_opening(self.path):
            self._lock = writer_lock(self.path)
            try:
                clear_drafts(self.path)
                self._check_one_name()
                if not self.path.exists():
                    make_store(self.path)
                self._connection = connected(self.path, patience)
                self._tables = Tables(self._connection, self.path)
                if ask(self._connection, "user_version") != VERSION:
                    self._modernise()
                self._version = self._seen()
                with suppress(StoreBusyError):  # a reader is in the way: after the next commit, then
                    self._vacuum()
            except BaseException:
                self._let_go()
                raise

    def _check_one_name(self) -> None:
        if self.path.exists() and self.path.stat().st_nlink > 1:
            raise StoreError(
                f"{self.path}: has {self.path.stat().st_nlink} names (hard links), and its lock and journal go by one "
                "of them; remove the others, or copy the file"
            )

    def names(self) -> tuple[str, ...]:
        """The streams that are there, sorted."""
        with self._using() as tables:
            return tables.names()

    def survey(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The streams whose names can be read, sorted; and what is wrong with the others, a sentence each."""
        with self._using() as tables:
            sound, wrong = tables.survey()
            return tuple(sorted(sound)), tuple(wrong)

    def sources(self) -> tuple[str, ...]:
        """The sources that were read into any stream, sorted."""
        with self._using() as tables:
            return tables.sources()

    def _states(self) -> Iterator[tuple[str, Terms, State]]:
        for name in self.survey()[0]:
            with suppress(StoreError), self._using() as tables:
                yield from tables.states([name])

    def terms(self, name: str) -> Terms:
        """The terms of a stream that is there."""
        check_name("name", name)
        with self._using() as tables:
            terms = tables.terms(name)
        if terms is None:
            known = ", ".join(self.names()[:5]) or "none"
            raise StoreError(f"{self.path}: there is no stream {name!r}; there is {known}")
        return terms

    def pseudonym(self, subject: str) -> str:
        """A keyed hash; the key is made when it is first needed."""
        with self._turn:
            if self._key is None:
                self._key = self._found_key()
            return hash_subject(subject, self._key)

    def new_key(self) -> None:
        """Begin with a new key where the old one is lost for good.

        The statistics go on, and subjects can be named again. The records that are held now cannot be found by subject
        any more: one mark takes the place of their pseudonyms, so that a request can say that they are there, and they
        go when their limits say so. Streams that are open here have to be opened again. A damaged stream stays as it
        is.

        Raises:
            StoreError: there is a file where the key is to lie; or requests wait in the inbox, which name subjects by
                the key that they would lose: `vestige.operations.attend` carries them out.
        """
        with self._turn:
            self._check_no_key()
            waiting, _ = Inbox(self.path).requests()
            if waiting:
                raise StoreError(
                    f"{self.path}: {_waiting(len(waiting))} in its inbox would be annulled, since a new key makes "
                    "other pseudonyms; have them carried out first: vestige sweep, vestige.operations.attend(store)"
                )
            self.release()
            self._key = None
            with self.transaction():  # from here on any key will do: a crash leaves a store that makes one
                for name, terms, state in tuple(self._states()):
                    held = state.retained
                    marked = [None if who is None else EARLIER for who in held.subjects]
                    if any(marked):
                        self._tables.put(name, terms, replace(state, retained=held.with_subjects(marked)))
                self._remember(NO_KEY)
            key = make_key(self._key_path)
            self._remember(fingerprint(key))
            self._key = key

    def _check_no_key(self) -> None:
        """An error if there is a key already."""
        key = read_key(self._key_path)
        with self._using() as tables:
            known = tables.about.fingerprint
        if key is not None and known in (NO_KEY, fingerprint(key)):
            raise StoreError(
                f"{self._key_path}: is there and fits this store, so there is nothing to do: subjects can be named; to "
                "begin with another key all the same, move this one away first"
            )
        if key is not None:
            raise StoreError(
                f"{self._key_path}: is there, and a new key would overwrite it; move it away first, or pass "
                "key=... with another path"
            )

    def _found_key(self) -> bytes:
        """The key that the store was used with; a new one if there was none, or nothing is left that it would find."""
        with self._using() as tables:
            known = tables.about.fingerprint
        key = read_key(self._key_path)
        fits = known == NO_KEY or (key is not None and fingerprint(key) == known)
        if not fits and self._subjects_held():
            raise StoreError(
                f"{self._key_path}: {'is missing' if key is None else 'is not the key of this store'}, so the subjects "
                f"of the records in {self.path} cannot be recognised; put the right key there or pass key=... (--key); "
                "if it is lost for good, begin with a new one by vestige rekey or SqliteStore.new_key(): the records "
                "that are held now can then be removed by round, or go when their limits say so"
            )
        if key is None:
            key = make_key(self._key_path)
        self._remember(fingerprint(key))
        return key

    def _subjects_held(self) -> bool:
        """Whether a record has a subject that the key would find, as a damaged stream may have one."""
        names, wrong = self.survey()
        states = tuple(self._states())
        unread = bool(wrong) or len(states) < len(names)
        return unread or any(who not in (None, EARLIER) for _, _, state in states for who in state.retained.subjects)

    def _remember(self, mark: bytes) -> None:
        """Note of which key the pseudonyms are."""
        with self._using() as tables:
            if tables.about.fingerprint != mark:
                with self.transaction():
                    tables.about = replace(tables.about, fingerprint=mark)

    def _place(self, name: str, about: Mapping[str, object]) -> Place:
        return _Place(self, name, about)

    @contextmanager
    def _using(self) -> Iterator[Tables]:
        """The tables, for one thread at a time, of a store that is open here."""
        if os.getpid() != self._process:
            raise StoreError(f"{self.path}: was opened before this process was forked; open it again in this process")
        with self._turn:
            if self._connection is None:
                raise StoreError(f"{self.path}: this store is closed; open it again")
            yield self._tables

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """One transaction around all that is written inside."""
        with self._using() as tables:
            if self._depth:
                yield
                return
            with explained(self.path):
                self._connection.execute("BEGIN IMMEDIATE")
                self._depth = 1
                try:
                    self._check_unchanged()
                    yield
                    tables.save()
                    self._connection.execute("COMMIT")
                except BaseException:
                    self._roll_back()
                    raise
                finally:
                    self._depth = 0
            with suppress(StoreError):  # it is made up for after the next commit, or at the end
                self._vacuum()

    def _roll_back(self) -> None:
        """Return to what is in the file, as far as the disk lets us; the next transaction rolls the rest back."""
        with suppress(sqlite3.Error):
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
        self._tables.forget()
        self._lose()
        self._version = None  # see `_vacuum`

    def _vacuum(self) -> None:
        """Write the pages again if rows were deleted, since SQLite leaves bytes in gaps."""
        with explained(self.path):
            if self._tables.about.untidy:
                self._version = None  # SQLite counts a failure of its own as a change
                self._connection.execute("VACUUM")
                self._tables.about = replace(self._tables.about, untidy=False)
                self._tables.save()

    def _check_unchanged(self) -> None:
        seen = self._seen()
        if self._version is None:
            self._version = seen
        if seen != self._version:
            raise StoreError(
                f"{self.path}: was changed by another program while it was open; open it again: what was not flushed "
                "is lost"
            )

    def _seen(self) -> int:
        """A number that changes when somebody else writes to the file."""
        return int(str(ask(self._connection, "data_version")))

    def write(self, name: str, terms: Terms, state: State) -> None:
        """Put `state` in the place of what was there."""
        with self.transaction():
            self._tables.put(name, terms, state)

    def tidy(self) -> None:
        """Bring the file into its canonical form, in which it says nothing of how it came about.

        Streams, sources and receipts are put in order, and all pages are written again.
        """
        with self._using() as tables:
            self._rewrite(tables.states(self.names()), tables.about.fingerprint)

    def _erase(self, name: str) -> None:
        with self._using() as tables:
            try:
                self._rewrite(tables.states(tables.names(besides=name)), tables.about.fingerprint)
            except StoreBusyError:
                raise
            except StoreError:  # another stream is damaged, and stays as it is
                self._check_apart()
                with self.transaction():
                    tables.blank(name)
                self._vacuum()  # if that failed in the commit, it is said here

    def _modernise(self) -> None:
        """Write a store of an earlier version in the present one: all of it or nothing."""
        if ask(self._connection, "user_version") == 1:
            with self._tables.intact():
                version1.check_sound(self._connection)
                mark = version1.read_fingerprint(self._connection)
                self._rewrite(version1.read_streams(self._connection), mark)
        else:
            old = version2.Tables(self._connection, self.path)
            self._rewrite(old.states(old.names()), old.about.fingerprint)
        check_kind(self._connection, self.path)

    def _rewrite(self, streams: Iterable[tuple[str, Terms, State]], mark: bytes) -> None:
        """Let the file hold these streams and nothing else, in this order, in one transaction."""
        self._check_apart()
        with closing(empty_store()) as made:
            tables = Tables(made, self.path)
            made.execute("BEGIN")
            for name, terms, state in streams:
                positions = dict(sorted(state.positions.items()))
                receipts = tuple(sorted(state.receipts, key=lambda receipt: (receipt.requested, receipt.id)))
                tables.put(name, terms, replace(state, positions=positions, receipts=receipts))
            tables.about = replace(tables.about, fingerprint=mark)
            tables.save()
            made.execute("COMMIT")
            made.execute("VACUUM")
            with explained(self.path):
                self._connection.execute("BEGIN IMMEDIATE")
                try:
                    self._check_unchanged()
                finally:
                    self._roll_back()
                made.backup(self._connection, progress=_stop_if_busy)

    def _check_apart(self) -> None:
        if self._depth:
            raise StoreError(f"{self.path}: cannot be written as a whole within together(); leave that block first")

    def release(self) -> None:
        """Write what the streams hold back, and let go of them; they can be opened again."""
        super().release()
        if self._connection is not None and not self._depth:
            self._tables.forget()

    def close(self) -> None:
        """Write what streams hold back, and let go of the file; the second time nothing happens."""
        if self._connection is not None:
            try:
                super().close()
                with self._using():
                    self._vacuum()
                    clear_drafts(self.path)
            finally:
                self._let_go()

    def _let_go(self) -> None:
        for name in ("_connection", "_lock"):
            connection = getattr(self, name, None)
            if connection is not None:
                connection.close()
            setattr(self, name, None)


def _waiting(count: int) -> str:
    return "1 request" if count == 1 else f"{count:,} requests"


def _stop_if_busy(status: int, _left: int, _total: int) -> None:
    if status in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        problem = sqlite3.OperationalError("database is locked")
        problem.sqlite_errorname = "SQLITE_BUSY"
        raise problem


class _Place(Place):
    store: SqliteStore

    def read(self, terms: Terms) -> State:
        with self.store._using() as tables:
            known = tables.terms(self.name)
            if known is None:
                return State.empty(terms.columns)
            known.check(self.name, terms)
            state = tables.state(self.name)
        assert state is not None  # noqa: S101  # it has terms
        return state

    def write(self, terms: Terms, state: State) -> None:
        self.store.write(self.name, terms, state)
