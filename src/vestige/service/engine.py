"""The one writer of a served store: what waits is taken together, written in one transaction, and then answered.

Guarantee: a request is answered with counts only after its rows and its key are flushed, together; if they cannot be,
the streams are read from the store again, so that nothing of it is left in memory either, and sending it again counts
it once, also where the process was killed before it could answer. Held by tests/service/test_engine.py.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from vestige.errors import DataError, ParameterError, StoreError, VestigeError
from vestige.ingest.definition import Definition, name_fields
from vestige.ingest.messages import translate_error
from vestige.ingest.names import find_bad_keys, hash_key
from vestige.keyed.rehearsal import rehearse
from vestige.policy import Policy
from vestige.service.catalog import Catalog, Served
from vestige.service.logs import describe
from vestige.service.name_index import sort_names
from vestige.service.problems import RefusalError
from vestige.service.requests import Counts, check_known, hash_request, make_taken
from vestige.sources.block import Block
from vestige.sources.columns import Columns
from vestige.store import Store
from vestige.store.names import show_name
from vestige.store.service_notes import ServiceNotes
from vestige.store.taken_requests import TakenRequest
from vestige.times import wall_clock

GROUP = 256
"""Number of requests that are written together."""
WAITING = 1_024
"""Number of requests that may wait; more are refused for a while."""
WAITING_ROWS = 1_000_000
"""Number of rows that may wait, but for those of one request."""
GROUP_ROWS = 50_000
"""Number of rows after which no more requests are written together, so that none of them waits long."""
EVERY = 1.0
"""Seconds between two rounds of maintenance."""
TAKE_OVER = 0.25
"""Seconds between two attempts to open streams that another process has open."""
EXPIRY = 10.0
"""Seconds between two looks for requests that have expired; see `vestige.store.taken_requests.GRACE`."""
_RECENT = 3.0
"""Seconds for which a write that failed says how the store is, unless rows are written before: a full disk has room for
the few bytes that `probe` writes."""
_NOT_WRITTEN = "the store could not be written; send the request again with the same Idempotency-Key"
_REPLACED = "the stream was created anew while the rows were read; send the request again with the same Idempotency-Key"
_NOT_DONE = "the store could not be read or written; try again"
_log = logging.getLogger("vestige.service")
_Result = TypeVar("_Result")
Outcome = tuple[Counts, bool] | RefusalError
"""What became of a request's rows, and whether that is of an earlier request; or why they were refused."""


@dataclass(frozen=True, slots=True, eq=False)
class RowsRequest:
    """Rows that wait to be taken.

    Attributes:
        stream: name of the definition.
        block: the rows.
        key: the idempotency key.
        fingerprint: that of the body.
        columns: the columns that the rows were read with.
        answer: what became of them, and whether that is of an earlier request.
    """

    stream: str
    block: Block
    key: str
    fingerprint: bytes
    columns: Columns
    answer: Future[tuple[Counts, bool]]


@dataclass(frozen=True, slots=True, eq=False)
class Job:
    """Anything else that the writer does.

    Attributes:
        action: what to do.
        answer: its result.
    """

    action: Callable[[], Any]
    answer: Future[Any]


class Engine:
    """Owns a store: takes rows, and does all else that writes, in one thread.

    Args:
        store: the store, open for writing; it is closed by `stop`.
        tell: called in the writer's thread with the kind of an event and its facts.

    Example:
        >>> from vestige import open_store
        >>> engine = Engine(open_store("memory:"))
        >>> engine.start()
        >>> engine.submit(lambda: len(engine.catalog.served)).result()
        0
        >>> engine.stop()
    """

    def __init__(
        self, store: Store, tell: Callable[[str, dict[str, object]], None] = lambda _kind, _facts: None
    ) -> None:
        self.store, self._tell = store, tell
        self.notes = ServiceNotes(store)
        self.catalog = Catalog(store, self.notes)
        self._queue: deque[RowsRequest | Job] = deque()
        self._rows = 0
        self._ready, self._turn = threading.Condition(), threading.Lock()
        self._holder: int | None = None
        self._is_stopping = self._is_failing = self._is_stale = False
        """The last one: whether memory may hold what the store does not. Others see it only if that is so."""
        self._expires = self._failing_until = 0.0
        self._prepared: dict[tuple[str, bool], Future[None]] = {}
        self._kernels = ThreadPoolExecutor(1, "vestige-kernels")
        self._is_prepared = threading.Event()
        self._thread = threading.Thread(target=self._run, name="vestige-writer", daemon=True)
        self.maintain: Callable[[], None] = lambda: None
        """Called by the writer every second."""

    @property
    def status(self) -> str:
        """Whether the engine is ok, stopping, failing to write, or waiting for streams to be free."""
        if self._is_stopping:
            return "stopping"
        is_failing = self._is_failing or time.monotonic() < self._failing_until
        return "failing" if is_failing else "waiting" if self.catalog.unavailable else "ok"

    @property
    def waiting(self) -> int:
        """Number of requests that wait."""
        return len(self._queue)

    def start(self) -> None:
        """Start the writer, and wait until it has loaded the kernels of all definitions."""
        self._thread.start()
        self._is_prepared.wait()

    def prepare(self, definition: Definition) -> Future[None]:
        """Load the kernels of a definition before rows have to wait for them, without the lock of the store.

        Args:
            definition: the definition, checked; those that are alike are prepared once.

        Returns:
            When that is done; whoever comes while it is being done waits too.
        """
        policy = definition.make_policy()
        kind = repr(policy), definition.max_age is not None
        with self._ready:
            if kind not in self._prepared:
                self._prepared[kind] = self._kernels.submit(
                    self._rehearse, policy, definition.retention, is_timed=kind[1]
                )
            return self._prepared[kind]

    def _rehearse(self, policy: Policy, retention: int | None, *, is_timed: bool) -> None:
        try:
            rehearse(policy, retention, is_timed=is_timed)
        except Exception as problem:  # rows then wait longer; without a writer, all would wait for ever
            _log.error("the kernels could not be loaded: %s", describe(problem))

    def stop(self) -> None:
        """Do what waits, refuse what comes, and close the store; all that was answered is in it already."""
        with self._ready:
            self._is_stopping = True
            self._ready.notify()
        if self._thread.ident is not None:
            self._thread.join()
        self._kernels.shutdown(wait=False, cancel_futures=True)
        try:
            self.store.close()
        except VestigeError as problem:
            _log.error("the store could not be closed: %s", describe(problem))

    def take_rows(
        self, stream: str, block: Block, key: str, fingerprint: bytes, columns: Columns | None = None
    ) -> Future[tuple[Counts, bool]]:
        """Take the rows of a request; one whose future is cancelled while it waits is not taken.

        Args:
            stream: name of the definition.
            block: the rows.
            key: the idempotency key.
            fingerprint: that of the body.
            columns: the columns that the rows were read with; default: those that the definition has now.

        Returns:
            What became of the rows, once they are flushed, and whether that is of an earlier request.

        Raises:
            RefusalError: too many requests wait, or the service stops; or there is no such definition.
        """
        request = RowsRequest(stream, block, key, fingerprint, columns or self.find(stream).columns, Future())
        self._put(request)
        return request.answer

    def submit(self, action: Callable[[], _Result]) -> Future[_Result]:
        """Have the writer do something; what it changes is flushed before its result is there.

        Args:
            action: what to do.

        Returns:
            Its result.

        Raises:
            RefusalError: too many requests wait, or the service stops.
        """
        job = Job(action, Future())
        self._put(job)
        return job.answer

    def tell(self, kind: str, facts: dict[str, object]) -> None:
        """Tell those who listen what has happened.

        Args:
            kind: the kind of the event.
            facts: what it is about, without values.
        """
        self._tell(kind, facts)

    @contextmanager
    def read(self) -> Iterator[Catalog]:
        """Look at the streams as they were last written; the writer waits meanwhile.

        Yields:
            The definitions.

        Raises:
            RefusalError: the store could not be read again after it could not be written.
        """
        with self._hold():
            if self._is_stale:
                raise RefusalError(503, "the store cannot be written or read at present; try again")
            yield self.catalog

    def find(self, stream: str) -> Served:
        """Find a definition; the lock is waited for only if it is not known.

        Args:
            stream: its name.

        Returns:
            The definition with its streams.

        Raises:
            RefusalError: there is none, or its streams are not open here.
        """
        found = self.catalog.served.get(stream)
        if found is None:
            self.catalog.check_served(stream)
            with self.read() as catalog:
                return catalog.find(stream)
        return found

    def verify(self) -> tuple[str, ...]:
        """Check a copy of the store; the writer waits for the copy alone.

        Returns:
            What is wrong, one sentence each.

        Raises:
            RefusalError: the store cannot be read.
        """
        try:
            return self.store.verify()
        except StoreError as problem:
            _log_failure(problem)
            raise RefusalError(503, _NOT_DONE) from None

    def prepare_page(self, stream: str) -> None:
        """Sort the names of a definition's streams if many have come since; the writer goes on meanwhile.

        Args:
            stream: name of the definition.

        Raises:
            RefusalError: there is no such definition, or the store cannot be read.
        """
        with self.read() as catalog:
            served = catalog.find(stream)
            copied = served.index.copy_unsorted(served.streams.names) if served.definition.by else None
        if copied is not None:
            order = sort_names(copied.texts)
            with self._hold():
                served.index.install(copied, order)

    @contextmanager
    def _hold(self) -> Iterator[None]:
        """Hold the lock of the store; who waits for it comes before who has just had it, such as a busy writer."""
        if self._holder == threading.get_ident():
            yield
            return
        asked = time.monotonic()
        with self._turn:
            self.store.lock.acquire()
        self._holder, self.catalog.asked = threading.get_ident(), asked
        try:
            yield
        finally:
            self._holder = None
            self.store.lock.release()

    def _put(self, item: RowsRequest | Job) -> None:
        rows = len(item.block.rows) if isinstance(item, RowsRequest) else 0
        with self._ready:
            if self._is_stopping:
                raise RefusalError(503, "the service is stopping; send the request again, to the next one")
            if len(self._queue) >= WAITING or (self._rows and self._rows + rows > WAITING_ROWS):
                raise RefusalError(429, "too many requests are waiting; send this one again later")
            self._queue.append(item)
            self._rows += rows
            self._ready.notify()

    # The writer's thread.

    def _run(self) -> None:
        for definition in [*self._list_missing(), *(served.definition for served in self.catalog.served.values())]:
            self.prepare(definition).result()
        self._is_prepared.set()
        due = look = time.monotonic() + EVERY
        while True:
            with self._ready:
                pause = max(0.0, min(due, look) - time.monotonic())
                self._ready.wait_for(lambda: self._queue or self._is_stopping, pause)
                items = self._drain()
            if items:
                self._work(items)
            elif self._is_stopping:
                return
            if time.monotonic() >= due:
                self._attempt_maintenance()
                due = time.monotonic() + EVERY
            if time.monotonic() >= look:
                self._attempt(self._take_over)
                look = time.monotonic() + (TAKE_OVER if self.catalog.unavailable else EVERY)

    def _list_missing(self) -> list[Definition]:
        return [each.definition for each in self.catalog.missing.values() if each.definition is not None]

    def _take_over(self) -> None:
        """Serve what has become free; kernels are loaded meanwhile."""
        for definition in self._list_missing():
            self.prepare(definition)
        self.catalog.take_over()

    def _drain(self) -> list[RowsRequest | Job]:
        """The requests that are written together; anything else is alone."""
        items: list[RowsRequest | Job] = []
        rows = 0
        while self._queue and len(items) < GROUP and rows < GROUP_ROWS:
            if items and not (isinstance(self._queue[0], RowsRequest) and isinstance(items[0], RowsRequest)):
                break
            item = self._queue.popleft()
            rows += len(item.block.rows) if isinstance(item, RowsRequest) else 0
            items.append(item)
        self._rows -= rows
        return items

    def _work(self, items: Sequence[RowsRequest | Job]) -> None:
        waiting = [item for item in items if item.answer.set_running_or_notify_cancel()]
        if waiting and isinstance(waiting[0], Job):
            self._do(waiting[0])
        elif waiting:
            self._take([item for item in waiting if isinstance(item, RowsRequest)])

    def _do(self, job: Job) -> None:
        refusal: Exception | None = RefusalError(503, _NOT_DONE)
        result = None
        with self._hold():
            if self._is_usable():
                try:
                    self._is_stale = True
                    try:
                        result, refusal = job.action(), None
                    except (RefusalError, ParameterError, DataError) as problem:
                        refusal = problem
                    self._flush()
                    self._is_stale = False
                except Exception as problem:
                    refusal = RefusalError(503, _NOT_DONE)
                    self._fail(problem)
        if refusal is None:
            job.answer.set_result(result)
        else:
            job.answer.set_exception(refusal)

    def _take(self, requests: Sequence[RowsRequest]) -> None:
        """Take requests; where they fail together although the store can be written, smaller parts of them."""
        outcomes: list[Outcome] = [RefusalError(503, _NOT_WRITTEN) for _ in requests]
        facts, parts = list[dict[str, object]](), list[list[RowsRequest]]()
        with self._hold():
            if self._is_usable():
                try:
                    outcomes = self._commit(requests)
                    facts = list(self._summarize(requests, outcomes))
                    self._failing_until = 0.0 if facts else self._failing_until
                except Exception as problem:
                    self._fail(problem)
                    parts = [] if self._is_failing else self._split(requests, problem)
        for part in parts:
            self._take(part)
        for request, outcome in zip(requests, outcomes, strict=True) if not parts else ():
            if isinstance(outcome, RefusalError):
                request.answer.set_exception(outcome)
            else:
                request.answer.set_result(outcome)
        for fact in facts:
            self._report("commit", fact)

    def _commit(self, requests: Sequence[RowsRequest]) -> list[Outcome]:
        """Take requests in one transaction."""
        keys = [self._hash(request) for request in requests]
        with self.store.transaction():
            self._is_stale = True
            outcomes = self._take_all(requests, keys)
            self._flush()
        self._is_stale = False
        return outcomes

    def _hash(self, request: RowsRequest) -> bytes:
        served = self.catalog.served.get(request.stream)
        return hash_request(self.store, request.stream, "" if served is None else served.created, request.key)

    def _split(self, requests: Sequence[RowsRequest], problem: Exception) -> list[list[RowsRequest]]:
        """Parts of a group that failed: those of each family, at last each request; none if that would not help."""
        families: dict[str, list[RowsRequest]] = {}
        for request in requests:
            served = self.catalog.served.get(request.stream)
            families.setdefault("" if served is None else served.terms, []).append(request)
        if len(families) > 1:
            return list(families.values())
        is_alone = len(requests) == 1 or isinstance(problem, StoreError)
        return [] if is_alone else [[request] for request in requests]

    def _flush(self) -> None:
        for streams in self.catalog.families:
            streams.flush()

    def _take_all(self, requests: Sequence[RowsRequest], keys: Sequence[bytes]) -> list[Outcome]:
        """Take requests in memory, and note those that were taken; the caller holds a transaction."""
        known, new, outcomes = self.notes.find_requests(keys), dict[bytes, TakenRequest](), list[Outcome]()
        for request, key in zip(requests, keys, strict=True):
            try:
                served = self._find_served(request)
                if (earlier := new.get(key) or known.get(key)) is not None:
                    outcomes.append((check_known(earlier, request.fingerprint), True))
                    continue
                counts = self._take_block(served, request.block)
            except RefusalError as refusal:
                outcomes.append(refusal)
            except DataError as problem:
                outcomes.append(RefusalError(422, f"{_explain(problem, request)}; nothing was taken"))
            else:
                new[key] = make_taken(key, request.fingerprint, wall_clock(), counts)
                outcomes.append((counts, False))
        self.notes.note_requests(list(new.values()))
        return outcomes

    def _find_served(self, request: RowsRequest) -> Served:
        """The definition of a request, if it is still the one that its rows were read for."""
        served = self.catalog.find(request.stream)
        if not self.catalog.is_open(served):  # nothing may be flushed, which would find that out
            raise RefusalError(503, _NOT_WRITTEN)
        if served.columns != request.columns:
            raise RefusalError(503, _REPLACED)
        return served

    def _take_block(self, served: Served, block: Block) -> Counts:
        if not len(block.rows):
            return Counts(0, 0, block.skipped)
        made = served.streams.take(
            self._find_names(served, block),
            block.select_rows(np.arange(len(block.rows))),
            times=block.times,
            subjects=block.subjects,
            whole=True,
        )
        failed = len(block.rows) - made.taken - made.late
        return Counts(made.taken, made.late, block.skipped, failed)

    def _find_names(self, served: Served, block: Block) -> object:
        if block.keys is None or block.codes is None:
            return np.full(len(block.rows), served.name, np.object_)
        keys = block.keys
        if served.definition.hash_keys:
            keys = np.array([hash_key(self.store.pseudonym, key) for key in keys], np.object_)
        names = served.names.find_names(keys)
        for key, why in find_bad_keys(keys, names).items():
            raise RefusalError(422, f"the key {show_name(key)} {why}; nothing was taken")
        return names[block.codes]

    def _summarize(self, requests: Sequence[RowsRequest], outcomes: Sequence[Outcome]) -> Iterator[dict[str, object]]:
        """What was committed, by definition."""
        taken: dict[str, int] = {}
        for request, outcome in zip(requests, outcomes, strict=True):
            if not isinstance(outcome, RefusalError) and not outcome[1]:
                taken[request.stream] = taken.get(request.stream, 0) + outcome[0].taken
        for name, rows in taken.items():
            t, held = count_records(self.catalog.served[name])
            yield {"stream": name, "taken": rows, "t": t, "held": held}

    def _attempt_maintenance(self) -> None:
        self._attempt(self.maintain)
        if time.monotonic() >= self._expires:
            self._attempt(lambda: self.notes.expire_requests(wall_clock()))
            self._expires = time.monotonic() + EXPIRY

    def _attempt(self, action: Callable[[], object]) -> None:
        """Do something that nobody waits for."""
        with self._hold():
            if self._is_usable():
                try:
                    self._is_stale = True
                    action()
                    self._flush()
                    self._is_stale = False
                except Exception as problem:
                    self._fail(problem)

    def _is_usable(self) -> bool:
        """Whether the store can be used; after a failure, streams are read again, and something is written."""
        try:
            if self._is_stale:
                self.catalog.reload()
                self._is_stale = False
            if self._is_failing:
                self.notes.probe()
        except Exception as problem:
            self._is_failing = True
            _log_failure(problem)
            return False
        self._is_failing = False
        return True

    def _fail(self, problem: Exception) -> None:
        """Trust the store alone from now on, since what is in memory may not be in it."""
        _log_failure(problem)
        if isinstance(problem, StoreError):
            self._failing_until = time.monotonic() + _RECENT
        self._is_failing = True
        self._is_usable()

    def _report(self, kind: str, facts: dict[str, object]) -> None:
        """Tell what happened; who listens cannot stop the writer."""
        try:
            self._tell(kind, facts)
        except Exception as problem:
            _log.error("an event could not be told: %s", describe(problem))


def _log_failure(problem: Exception) -> None:
    _log.error("the store could not be used: %s", describe(problem))  # its text may quote a row or name a stream


def _explain(problem: DataError, request: RowsRequest) -> str:
    """Say what is wrong with a row by its number in the body, which also has rows that are left out."""
    return name_fields(translate_error(str(problem), request.block.numbers, request.columns.numbers))


def count_records(served: Served) -> tuple[int, int]:
    """Count the records that have arrived in the streams of a definition, and those that are held.

    Args:
        served: the definition.

    Returns:
        The two numbers.
    """
    if served.definition.by:
        return served.streams.count_all()
    names = served.list_names()
    counts = served.streams.counts(names) if names else None
    return (0, 0) if counts is None else (int(counts.t.sum()), int(counts.held.sum()))
