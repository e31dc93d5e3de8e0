"""What a process holds of a store in PostgreSQL: the rights to write its open streams, and those that it has borrowed.

Whoever waits for a lock is seen by its holder, which looks every second (`vestige.operations.process_inbox`): it writes
what it has not written yet, lets go of everything, and waits behind those who wait. The queue of a lock is first in,
first out, so these come first; what they have changed is read again.
Guarantee: a request of another process reaches a stream that a run holds open, and what that process writes is not
overwritten; held by tests/store/test_postgres_lent.py and tests/store/test_postgres_lost.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from vestige.errors import StoreBusyError, StoreError
from vestige.store.keyring.protocol import LARGEST
from vestige.store.opener import SECRET
from vestige.store.place import FamilyPlace, OpenFamily, OpenStream, Place
from vestige.store.postgres.locks import Lock, Right
from vestige.store.postgres.place import PostgresFamilyPlace, PostgresPlace
from vestige.store.postgres.session import Session

if TYPE_CHECKING:
    from vestige.store.postgres.store import PostgresStore

_LENT = 60.0
"""Seconds for which streams that were lent are waited for."""
_STOLEN = "opened by another process while the connection was lost; open it again: what was not flushed is lost"
_KEPT = "lent to another process, which has not given it back; open it again"
_UNREAD = "lent to another process, and could not be read again; open it again"
_CHANGED = "changed by another process, and cannot be read any more"
_Place = PostgresPlace | PostgresFamilyPlace


@dataclass(frozen=True, slots=True)
class Loan:
    """What was borrowed.

    Attributes:
        rights: the rights that were not held before.
        missing: why streams could not be had, by name.
    """

    rights: list[Right] = field(default_factory=list)
    missing: dict[str, str] = field(default_factory=dict)


class Holdings:
    """What a process holds of a store.

    Args:
        store: the store.
        session: its session, which is open.
    """

    def __init__(self, store: PostgresStore, session: Session) -> None:
        self._store, self._session, self._locks = store, session, session.locks
        self._where, self._patience = session.connection.where, session.connection.patience
        self._writer, self._owner = self._locks.make_writer(), self._locks.make_writer(is_only=True)
        self._leaving: list[Right] = []
        self._borrowed: dict[Right, None] = {}

    # Rights.

    def acquire_stream(self, name: str, family: str) -> Right:
        """Acquire the right to write a stream, at once or not at all.

        Args:
            name: the name of the stream.
            family: the fixed text of its terms.

        Returns:
            The right.

        Raises:
            StoreBusyError: the stream, or the family as a whole, is open elsewhere.
        """
        return self._acquire(self._locks.make_stream(name, family), f"stream {name!r} is", name)

    def acquire_family(self, family: str) -> Right:
        """Acquire the right to write all streams of a family, at once or not at all.

        Args:
            family: the fixed text of their terms.

        Returns:
            The right.

        Raises:
            StoreBusyError: one of them, or all, are open elsewhere.
        """
        return self._acquire(self._locks.make_family(family), "streams with these terms are")

    def acquire_for_now(self, name: str, family: str | None) -> None:
        """Acquire the right to write a stream in this transaction.

        Args:
            name: the name of the stream.
            family: the fixed text of its terms; None if it cannot be read.

        Raises:
            StoreBusyError: the stream is open elsewhere.
        """
        right = self._locks.make_stream(name, family)
        if self._owner in self._borrowed:
            right = replace(right, locks=())  # all others have let go of everything
        elif self._locks.has(name, family):
            return
        self._leaving.append(self._acquire(right, f"stream {name!r} is", name))

    def acquire_all_for_now(self) -> None:
        """Acquire the right to be the only one who has the store open for writing, in this transaction.

        Raises:
            StoreBusyError: another process has it open.
        """
        right = self._locks.make_writer(is_only=True)
        if self._locks.acquire([right])[0]:
            raise StoreBusyError(
                f"{self._where}: is open for writing elsewhere, with the keyring that it has; close it there"
            )
        self._leaving.append(right)

    def _acquire(self, right: Right, subject: str, name: str | None = None) -> Right:
        with self._store._guard(), self.let_go():
            if self._session.attempt(lambda: self._locks.acquire([right]))[0]:
                raise StoreBusyError(
                    f"{self._where}: {subject} open for writing elsewhere; a stream has one writer: close the other "
                    "one first",
                    name,
                )
        return right

    def give_up(self, right: Right) -> None:
        """Give a right back, as soon as nothing is being read or written.

        Args:
            right: the right.
        """
        with self._store.lock, self.let_go():
            self._leaving.append(right)

    @contextmanager
    def let_go(self) -> Iterator[None]:
        """Give back, at the end of the block, the rights that are not needed any more.

        Yields:
            Nothing.
        """
        try:
            yield
        finally:
            if self._leaving and not self._session.is_busy:
                leaving, self._leaving = self._leaving, []
                self._locks.release(leaving)

    def _list(self) -> dict[Right, tuple[_Place, OpenStream | OpenFamily] | None]:
        """All rights that have to be held, each with what is open by it."""
        held: dict[Right, tuple[_Place, OpenStream | OpenFamily] | None] = {self._writer: None}
        held |= dict.fromkeys(self._borrowed)
        open_here: list[tuple[Place | FamilyPlace, OpenStream | OpenFamily]] = [*self._store._open.values()]
        for place, opened in (*open_here, *self._store._families.values()):
            assert isinstance(place, PostgresPlace | PostgresFamilyPlace)  # noqa: S101  # the store has no others
            if place.right is not None:
                held[place.right] = place, opened
        return held

    # The session on the server.

    def join(self) -> None:
        """Be one of those who write to the store.

        Raises:
            StoreBusyError: another process holds the whole store for longer than this waits.
        """
        if self._locks.exchange([self._writer], self._writer.locks, self._patience)[0]:
            raise StoreBusyError(
                f"{self._where}: another process holds the whole store; try again: nothing was changed"
            )

    def ensure_secret(self) -> None:
        """Find the secret that the numbers of streams are keyed by, in a transaction; if there is none, draw one.

        A store whose keyring is damaged in that place has none.

        Raises:
            StoreBusyError: there is none, and another process has the store open, with numbers of its own.
        """
        rows = self._session.rows
        with self._store.transaction():  # settles what a crash has left
            if not rows.secret:
                self.acquire_all_for_now()
                rows.draw_secret()
        self._locks.secret = rows.secret

    def rejoin(self) -> None:
        """Take up in a new session what was held in the one that was lost; what others have used is closed here.

        Raises:
            StoreBusyError: another process holds the whole store for longer than this waits.
            StoreError: streams that were borrowed are among what was lost; or the secret is another one.
        """
        rights = self._list()
        self._locks.forget()
        self._leaving = []
        self.join()
        self._check_secret()
        failed, moved = self._locks.acquire([right for right in rights if right is not self._writer])
        for right in (*failed, *moved):
            self._close(rights[right], _STOLEN)
        if not self._borrowed.keys().isdisjoint((*failed, *moved)):
            raise StoreError(f"{self._where}: streams that were borrowed were lost with the connection; try again")

    def _check_secret(self) -> None:
        """Check that the numbers of locks still are what others use; while this process has joined they stay so."""
        found = [key.secret for key in self._session.keyring.read(LARGEST).find(SECRET)]
        if self._locks.secret not in (b"", *found):
            raise StoreError(
                f"{self._where}: the keyring has another secret than when the store was opened; open it again: what "
                "was not flushed is lost"
            )

    def _close(self, opened: tuple[_Place, object] | None, what: str) -> None:
        """Close a stream, or a family, because of what another process did."""
        if opened is None:
            return
        place = opened[0]
        if isinstance(place, PostgresPlace):
            place.fate = f"was {what}"
            self._store._drop(place.name)
        else:
            place.fate = f"were {what}"
            self._store._drop_family(place.terms)

    # Borrowing and lending.

    def borrow(self, names: Sequence[str] | None) -> Loan:
        """Acquire the rights to write streams; those who hold them are waited for, unless a transaction is under way.

        Args:
            names: the names of the streams; None for all.

        Returns:
            What has to be given back.

        Raises:
            StoreBusyError: all were asked for, and another process keeps some.
        """
        if self._owner in self._borrowed:
            return Loan()
        wanted = [self._owner] if names is None else self._find_rights(names)
        if not wanted:
            return Loan()
        failed, _ = self._session.attempt(lambda: self._locks.acquire(wanted))
        loan = Loan([right for right in wanted if right not in failed])
        self._borrowed |= dict.fromkeys(loan.rights)
        if failed and not self._session.is_busy:
            try:
                left = self._exchange(failed, [lock for right in failed for lock in right.locks], self._patience)
            except BaseException:
                self.give_back(loan)
                raise
            loan.rights.extend(right for right in failed if right not in left)
            self._borrowed |= dict.fromkeys(loan.rights)
            failed = left
        for right in failed:
            problem = (
                "open for writing in another process, which has not lent it within "
                f"{self._patience:g} s; a process that holds streams has to call "
                "vestige.operations.process_inbox(store) every second"
            )
            if right is self._owner:
                raise StoreBusyError(f"{self._where}: streams are {problem}: nothing was changed")
            loan.missing[right.name] = f"is {problem}"
        return loan

    def _find_rights(self, names: Sequence[str]) -> list[Right]:
        """The rights to write streams that are not open here."""
        rights = []
        with self._store._use() as tables:
            for name in names:
                if self._store.live(name) is None and not any(name in family for family in self._store.families):
                    terms = None
                    with suppress(StoreError):  # a damaged stream may be removed
                        terms = tables.terms(name)
                    rights.append(self._locks.make_stream(name, None if terms is None else terms.fixed_text))
        return rights

    def give_back(self, loan: Loan) -> None:
        """Give back what was borrowed.

        Args:
            loan: what `borrow` returned.
        """
        for right in loan.rights:
            self._borrowed.pop(right, None)
        with self.let_go():
            self._leaving += loan.rights

    def lend(self) -> None:
        """Let others have what they wait for, and read again what they have changed."""
        if self._session.is_busy or self._borrowed:
            return
        wanted = self._session.attempt(self._locks.find_wanted)
        if wanted:
            self._exchange([], wanted, _LENT)

    def _exchange(self, others: Sequence[Right], locks: Sequence[Lock], seconds: float) -> list[Right]:
        """Let others have what is held here, and acquire other rights with it; returns those that could not be had."""
        self._store.flush()
        held = self._list()
        try:
            return self._exchange_held(held, others, locks, seconds)
        except BaseException:  # what others have written is not read here: it must not be overwritten
            for opened in held.values():
                self._close(opened, _UNREAD)
            raise

    def _exchange_held(
        self,
        held: Mapping[Right, tuple[_Place, OpenStream | OpenFamily] | None],
        others: Sequence[Right],
        locks: Sequence[Lock],
        seconds: float,
    ) -> list[Right]:
        failed, moved = self._locks.exchange([*held, *others], locks, seconds)
        if self._writer in failed:
            self._session.connection.drop()
            raise StoreBusyError(
                f"{self._where}: another process holds the whole store; try again: nothing was changed"
            )
        for right in failed:
            self._close(held.get(right), _KEPT)
        with self._store._use():
            for right in moved:
                self._reload(held.get(right))
        return [right for right in failed if right in others]

    def check_held(self, right: Right | None) -> None:
        """Check that a right is still held: a session that was lost while streams were read has lost it.

        Args:
            right: the right.

        Raises:
            StoreError: it is not.
        """
        if right is not None and right not in self._locks.held:
            raise StoreError(f"{self._where}: the connection was lost while streams were opened; open them again")

    def _reload(self, opened: tuple[_Place, OpenStream | OpenFamily] | None) -> None:
        """Read a stream, or a family, again; one that was removed is closed."""
        if opened is None:
            return
        place, streams = opened
        try:
            if isinstance(place, PostgresPlace) and place.is_stored and not self._store.has(place.name):
                self._store._drop(place.name)
            else:
                streams.reload()
        except StoreError as problem:
            self._close(opened, f"{_CHANGED}: {problem}")
