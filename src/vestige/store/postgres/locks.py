"""Locks of a store in PostgreSQL: transactions one after the other, one writer for each stream, and fences.

All locks are advisory ones of a session, so they end with it, however it ends. Then somebody else may open a stream,
erase records of it, and close it again; what was in memory here must not be written over that. So each transaction that
writes under a right that was acquired since marks the fences of that right with a random token, in the same
transaction; whoever acquires a right again compares the tokens with those that it knows. The numbers of locks and
fences are digests of names, keyed by a secret that only the keyring has.
Guarantee: a stream is written by one process at a time, and never from a state that is older than what another has
written; held by tests/store/test_postgres_locks.py and tests/store/test_postgres_lost.py. Whoever has the database
alone cannot test guesses of names; held by tests/store/test_postgres_secret.py.
"""

from __future__ import annotations

import hashlib
import secrets
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import NamedTuple

from vestige.errors import StoreBusyError, StoreError
from vestige.store.postgres.connection import Connection
from vestige.store.postgres.schema import quote_schema
from vestige.store.text import encode_text

FENCES = 65_536
"""Number of fences; two rights that share one are only taken for changed more often."""


class Lock(NamedTuple):
    """A lock on the server.

    Attributes:
        id: its number there.
        is_shared: whether others may hold it as well, if they share it too.
    """

    id: int
    is_shared: bool = False


@dataclass(eq=False, slots=True)
class Right:
    """The right to write something: the locks that give it, and the fences that tell who wrote last.

    Attributes:
        name: the stream, or an empty text.
        family: the fixed text of the terms of the stream or the streams; None if that is not known.
        locks: the locks.
        marked: the fences that are marked when something is written by this right.
        watched: the fences that others mark when they write the same.
        known: tokens in watched fences that are no news, by fence; more than one while the outcome of a commit is not
            known.
    """

    name: str
    family: str | None
    locks: tuple[Lock, ...]
    marked: frozenset[int] = frozenset()
    watched: frozenset[int] = frozenset()
    known: dict[int, frozenset[int]] = field(default_factory=dict)


class Locks:
    """The locks of one session on a store.

    Args:
        connection: the session.
        keyring: the id of the keyring.
        store: the id of the store.

    Attributes:
        held: the rights that are held.
        secret: what the numbers of streams and families are keyed by, to be set before there are rights on them. Only
            the keyring has it, so that whoever has the database cannot test guesses of names.
    """

    def __init__(self, connection: Connection, keyring: bytes, store: bytes) -> None:
        self._connection, self.secret = connection, b""
        self._fences = f"{quote_schema(connection)}.fences"
        self._whole = _compute_number(keyring, store + b"store\0")
        self._writers = _compute_number(keyring, store + b"writers\0")
        self._unmarked: dict[Right, None] = {}
        """Rights whose fences were not marked since they were acquired."""
        self._marking: list[Right] = []
        self.held: dict[Right, None] = {}
        self._by_name: dict[str, list[Right]] = {}

    def _number(self, kind: str, name: str) -> int:
        return _compute_number(self.secret, kind.encode() + b"\0" + encode_text(name))

    # Rights.

    def make_stream(self, name: str, family: str | None) -> Right:
        """Make the right to write one stream.

        Args:
            name: the name of the stream.
            family: the fixed text of its terms; None if they are not known.

        Returns:
            The right, which is not held yet.
        """
        own = self._number("stream", name)
        if family is None:
            return Right(name, None, (Lock(own),), frozenset({own % FENCES}), frozenset({own % FENCES}))
        whole, single = self._number("family", family), self._number("member", family)
        return Right(
            name,
            family,
            (Lock(own), Lock(whole, is_shared=True)),
            marked=frozenset({own % FENCES, single % FENCES}),
            watched=frozenset({own % FENCES, whole % FENCES}),
        )

    def make_family(self, family: str) -> Right:
        """Make the right to write all streams of a family.

        Args:
            family: the fixed text of their terms.

        Returns:
            The right, which is not held yet.
        """
        whole, single = self._number("family", family), self._number("member", family)
        fences = frozenset({whole % FENCES, single % FENCES})
        return Right("", family, (Lock(whole),), marked=frozenset({whole % FENCES}), watched=fences)

    def make_writer(self, *, is_only: bool = False) -> Right:
        """Make the right to be one of those who write to the store.

        Args:
            is_only: whether to be the only one, who may write all streams.

        Returns:
            The right, which is not held yet.
        """
        return Right("", None, (Lock(self._writers, is_shared=not is_only),))

    def acquire(self, rights: Sequence[Right]) -> tuple[list[Right], list[Right]]:
        """Acquire rights without waiting, those that can be had.

        Args:
            rights: the rights; those that were lost with an earlier session may be among them.

        Returns:
            Those that could not be had; and those that others have used since they were held here.
        """
        try:
            taken = iter(self._try([lock for right in rights for lock in right.locks]))
        except StoreError:
            self._connection.drop()  # nobody can say which of them are held
            raise
        failed, left = list[Right](), list[Lock]()
        for right in rights:
            mine = [next(taken) for _ in right.locks]
            if all(mine):
                self._hold(right)
            else:
                failed.append(right)
                left += [lock for lock, has in zip(right.locks, mine, strict=True) if has]
        self._unlock(left)
        gained = [right for right in rights if right in self.held]
        return failed, self._compare(gained)

    def _hold(self, right: Right) -> None:
        self.held[right] = None
        self._unmarked[right] = None
        self._by_name.setdefault(right.name, []).append(right)

    def has(self, name: str, family: str | None) -> bool:
        """Tell whether the right to write a stream is held.

        Args:
            name: the name of the stream.
            family: the fixed text of its terms; None if it does not matter.

        Returns:
            Whether it is.
        """
        return any(family in (None, right.family) for right in self._by_name.get(name, ()))

    def forget(self) -> None:
        """Note that nothing is held any more, since the session was lost."""
        self.held, self._by_name, self._unmarked, self._marking = {}, {}, {}, []

    def _try(self, locks: Sequence[Lock]) -> list[bool]:
        return self._for_each(locks, "pg_try_advisory_lock_shared(id)", "pg_try_advisory_lock(id)")

    def _unlock(self, locks: Sequence[Lock]) -> None:
        self._for_each(locks, "pg_advisory_unlock_shared(id)", "pg_advisory_unlock(id)")

    def _for_each(self, locks: Sequence[Lock], shared: str, alone: str) -> list[bool]:
        """What a function says of each lock: that for shared locks, or that for the others."""
        if not locks:
            return []
        found = self._connection.execute(
            f"SELECT CASE WHEN is_shared THEN {shared} ELSE {alone} END "  # noqa: S608
            "FROM unnest(%s::bigint[], %s::bool[]) AS each (id, is_shared)",
            [lock.id for lock in locks],
            [lock.is_shared for lock in locks],
        )
        return [has for (has,) in found]

    def _compare(self, rights: Iterable[Right]) -> list[Right]:
        """The rights whose fences others have marked; from now on, what was found is known."""
        watched = sorted({fence for right in rights for fence in right.watched})
        if not watched:
            return []
        found = dict(self._connection.execute(f"SELECT id, epoch FROM {self._fences} WHERE id = ANY(%s)", watched))  # noqa: S608
        moved = []
        for right in rights:
            now = {fence: found.get(fence, 0) for fence in right.watched}
            if any(token not in right.known.get(fence, {token}) for fence, token in now.items()):
                moved.append(right)
            right.known = {fence: frozenset({token}) for fence, token in now.items()}
        return moved

    def release(self, rights: Iterable[Right]) -> None:
        """Give rights back, if they are held.

        Args:
            rights: the rights.
        """
        given = [right for right in rights if right in self.held]
        for right in given:
            del self.held[right]
            self._unmarked.pop(right, None)
            self._by_name[right.name].remove(right)
            if not self._by_name[right.name]:
                del self._by_name[right.name]
        if self._connection.is_open:
            self._unlock([lock for right in given for lock in right.locks])

    def find_wanted(self) -> list[Lock]:
        """Find the locks of rights that are held here and that others wait for.

        Returns:
            The locks.
        """
        waiting = {
            number
            for (number,) in self._connection.execute(
                "SELECT (classid::bigint << 32) | objid::bigint FROM pg_locks WHERE locktype = 'advisory' "
                "AND NOT granted AND objsubid = 1 "
                "AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
            )
        }
        return [lock for right in self.held for lock in right.locks if lock.id in waiting]

    def exchange(
        self, rights: Sequence[Right], locks: Sequence[Lock], seconds: float
    ) -> tuple[list[Right], list[Right]]:
        """Let others have what is held here until they give it back, and acquire it again, with other rights.

        While this waits, it holds nothing but what it has waited for, in the order of the locks' numbers, so that no
        two processes wait for each other.

        Args:
            rights: the rights to hold in the end: those that are held, and others.
            locks: the locks to wait for, since others wait for them or hold them.
            seconds: how long to wait.

        Returns:
            The rights that could not be had; and those that others have used meanwhile.
        """
        until, moved = time.monotonic() + seconds, dict[Right, None]()
        while True:
            self.release(rights)
            with self._wait(locks, until) as in_time:
                failed, changed = self.acquire(rights)
            moved |= dict.fromkeys(changed)
            if not failed or not in_time:
                return failed, [right for right in moved if right in self.held]
            locks = [lock for right in failed for lock in right.locks]

    @contextmanager
    def _wait(self, locks: Iterable[Lock], until: float) -> Iterator[bool]:
        """Hold locks within the block, as many as can be had in time; whether these are all."""
        got, wanted = list[Lock](), sorted(set(locks))
        try:
            with suppress(StoreBusyError):
                for lock in wanted:
                    self._limit(until - time.monotonic())
                    self._lock(lock)
                    got.append(lock)
            yield len(got) == len(wanted)
        finally:
            if self._connection.is_open:
                self._limit(self._connection.patience)
                self._unlock(got)

    def _limit(self, seconds: float) -> None:
        """Let locks be waited for so long."""
        self._connection.execute("SELECT set_config('lock_timeout', %s, false)", str(max(1, round(seconds * 1000))))

    # The whole store.

    @contextmanager
    def hold_store(self, *, is_writer: bool) -> Iterator[None]:
        """Hold the store: nobody else writes it meanwhile, and for a writer nobody reads it either.

        Args:
            is_writer: whether to hold it alone.

        Yields:
            Nothing.

        Raises:
            StoreBusyError: others hold it for longer than this waits.
        """
        lock = Lock(self._whole, is_shared=not is_writer)
        is_read_only = self._lock(lock)
        try:
            if is_writer:
                self._connection.check_writable(is_read_only)
            yield
        finally:
            if self._connection.is_open:
                try:
                    self._unlock([lock])
                except StoreError:  # what was done is done; the end of the session lets go of the lock
                    self._connection.drop()

    def _lock(self, lock: Lock) -> str:
        """Wait for a lock; what the server says of `default_transaction_read_only`."""
        name = "pg_advisory_lock_shared" if lock.is_shared else "pg_advisory_lock"
        about = "pg_backend_pid(), current_setting('default_transaction_read_only')"
        found = self._connection.execute(f"SELECT {about}, {name}(%s)", lock.id)
        self._connection.check_session(found[0][0])
        return str(found[0][1])

    # Fences.

    def mark(self) -> None:
        """Mark the fences of rights that were acquired since they were last marked; within a transaction that writes.

        A token is never used twice. So it does no harm to know one that was rolled back; and if the outcome of a commit
        is not known, neither the token before it nor the new one is news.
        """
        self._marking = list(self._unmarked)
        fences = frozenset[int]().union(*(right.marked for right in self._marking))
        if not fences:
            return
        token = secrets.randbits(63)
        self._connection.execute(
            f"INSERT INTO {self._fences} SELECT id, %s FROM unnest(%s::int[]) AS id "  # noqa: S608
            "ON CONFLICT (id) DO UPDATE SET epoch = excluded.epoch",
            token,
            sorted(fences),
        )
        for right in self.held:
            for fence in right.watched & fences:
                right.known[fence] |= {token}

    def note_commit(self) -> None:
        """Note that the transaction in which fences were marked was committed."""
        for right in self._marking:
            self._unmarked.pop(right, None)
        self._marking = []


def _compute_number(key: bytes, text: bytes) -> int:
    """The number of a lock: a keyed digest of what it is for."""
    return int.from_bytes(hashlib.blake2b(text, key=key, digest_size=8).digest(), "little", signed=True)
