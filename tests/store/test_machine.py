"""Whatever happens in whatever order, stores of each kind are at every step what a dictionary is."""

from __future__ import annotations

import copy
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from plain_store import PlainStore
from postgres import Database, Server
from vestige import Clock, Mean, Policy, Records, Stream, Window
from vestige.errors import NoRecordsError, ParameterError, StoreError
from vestige.store import (
    KeyringFile,
    MemoryStore,
    Place,
    Position,
    PostgresStore,
    Reader,
    Receipt,
    SqliteStore,
    State,
    Store,
    Terms,
    open_reader,
)
from vestige.store.position import decode_count

POLICIES: dict[str, tuple[Policy, int]] = {
    "mean": (Mean(), 64),
    "bits": (Mean(channel="bits"), 128),
    "window": (Window(), 20),
}
PEOPLE = ("Ada", "Bo", "Cy")
FILES = ("one.csv", "two.csv")
START = datetime(2020, 1, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)
MAX_AGE = 24 * HOUR

names = st.sampled_from(sorted(POLICIES))
any_stream = st.sampled_from([*sorted(POLICIES), "the timed one", "the timed one"])
hours = st.sampled_from([0.0, 0.25, 1.0, 5.0, 11.0, 23.0, 24.0, 30.0])
numbers = st.integers(0, 2**32)


def plain(records: Records) -> tuple[object, ...]:
    """All that is the same in two stores: their pseudonyms differ, since their keys do."""
    known = [subject is not None for subject in records.subjects]
    times = records.times.astype(np.int64)
    return (
        records.rounds.tolist(),
        records.values.tolist(),
        records.leaving.tolist(),
        times.tolist(),
        known,
        records.numbers.tolist(),
    )


def rounds_of(receipts: tuple[Receipt, ...]) -> list[tuple[int, int | None, int | None]]:
    return [(receipt.requested_round, receipt.due_round, receipt.erased_round) for receipt in receipts]


def as_stored(state: State) -> tuple[object, ...]:
    return state.clock, plain(state.retained), dict(state.positions), rounds_of(state.receipts)


def answer(stream: Stream) -> object:
    try:
        return stream.estimate().value
    except NoRecordsError as problem:
        return str(problem)


class AllStores(RuleBasedStateMachine):
    """The same is done to all; one of the streams has a time limit too."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.path = Path(self.folder.name, "streams.db")
        self.file = self.open_store()
        self.memory, self.plain = MemoryStore(), PlainStore()
        self.timed = ""
        self.now = START  # by the clock of the stream with a time limit
        self.streams: dict[str, tuple[Stream, Stream, Stream]] = {}

    def open_store(self) -> Store:
        """Open the store that is durable."""
        return SqliteStore(self.path)

    def open_reader(self) -> Reader:
        """Read the store that is durable."""
        return open_reader(self.path)

    def abandon(self) -> None:
        """Let go of the store that is durable, as a crash does."""
        assert isinstance(self.file, SqliteStore)
        self.file._disconnect()

    @initialize(timed=names)
    def begin(self, timed: str) -> None:
        self.timed = timed
        self.open_streams()

    def opened(self, store: Store, name: str) -> Stream:
        policy, retention = POLICIES[name]
        max_age = MAX_AGE if name == self.timed else None
        return Stream(policy, retention=retention, max_age=max_age, seed=1, store=store.stream(name))

    def open_streams(self) -> None:
        file, memory, plain = self.file, self.memory, self.plain
        self.streams = {
            name: (self.opened(file, name), self.opened(memory, name), self.opened(plain, name)) for name in POLICIES
        }

    def same(self, name: str) -> tuple[Stream, Stream, Stream]:
        return self.streams[name if name in POLICIES else self.timed]

    def arriving(self, name: str, n: int, wait: float, hurry: float) -> list[datetime] | None:
        """When the next records arrive; of streams without time limit nobody knows."""
        if name not in ("the timed one", self.timed):
            return None
        times = [self.now + wait * HOUR + i * HOUR / hurry for i in range(n)]
        self.now = times[-1]
        return times

    @rule(
        name=any_stream,
        n=st.integers(1, 90),
        seed=numbers,
        wait=hours,
        hurry=st.sampled_from([1.0, 4.0, 40.0]),
        who=st.lists(st.sampled_from([None, *PEOPLE]), max_size=4),
        source=st.sampled_from([None, *FILES]),
    )
    def extend(
        self, name: str, n: int, seed: int, wait: float, hurry: float, who: list[str | None], source: str | None
    ) -> None:
        values = np.random.default_rng(seed).normal(size=n)
        times = self.arriving(name, n, wait, hurry)
        subjects = [who[i % len(who)] for i in range(n)] if who else None
        for stream in self.same(name):
            stream.extend(values, times=times, subjects=subjects, source=source)

    @rule(name=any_stream, n=st.integers(1, 12), seed=numbers, subject=st.sampled_from([None, *PEOPLE]))
    def push(self, name: str, n: int, seed: int, subject: str | None) -> None:
        for value in np.random.default_rng(seed).lognormal(size=n).tolist():
            times = self.arriving(name, 1, 0.0, 1.0)
            for stream in self.same(name):
                stream.push(value, time=times[0] if times else None, subject=subject)

    @rule(name=any_stream, ages=st.lists(st.integers(0, 130), max_size=20), now=st.booleans())
    def forget_rounds(self, name: str, ages: list[int], now: bool) -> None:
        for stream in self.same(name):
            stream.forget(rounds=[stream.t - age for age in ages if age < stream.t], now=now)

    @rule(name=any_stream, subject=st.sampled_from(PEOPLE), now=st.booleans())
    def forget_subject(self, name: str, subject: str, now: bool) -> None:
        for stream in self.same(name):
            stream.forget(subject=subject, now=now)
        if now:
            assert self.memory.pseudonym(subject) not in self.same(name)[1].retained.subjects
            assert self.file.pseudonym(subject) not in self.same(name)[0].retained.subjects

    @rule(name=any_stream, wait=hours)
    def sweep(self, name: str, wait: float) -> None:
        if name in ("the timed one", self.timed):
            self.now += wait * HOUR
        assert len({stream.sweep(self.now) for stream in self.same(name)}) == 1

    @rule(name=st.none() | any_stream)
    def flush(self, name: str | None) -> None:
        for part in (self.file, self.memory, self.plain) if name is None else self.same(name):
            part.flush()

    @rule()
    def reopen(self) -> None:
        self.file.close()
        self.memory.release()
        self.plain.release()
        self.file = self.open_store()
        self.open_streams()

    @rule()
    def crash(self) -> None:
        """Let go of all that is not durable."""
        self.abandon()
        survived, plain = MemoryStore(), PlainStore()
        survived._rows._tables, survived._key = copy.deepcopy(self.memory._rows._tables), self.memory._key
        plain._kept, plain._key = dict(self.plain._kept), self.plain._key
        self.memory, self.plain, self.file = survived, plain, self.open_store()
        self.open_streams()

    @rule()
    def tidy(self) -> None:
        self.file.tidy()
        self.memory.tidy()

    @rule()
    def read(self) -> None:
        """What a reader sees is what was last made durable."""
        seen = self.open_reader().snapshot().all_streams()
        assert self.file.names() == self.memory.names() == self.plain.names() == tuple(seen)
        for name, (terms, state) in seen.items():
            readers: tuple[Reader, ...] = (self.plain, self.memory, self.open_reader())
            for durable in (reader.read_stream(name) for reader in readers):
                assert durable is not None
                assert terms.text == durable[0].text
                assert as_stored(state) == as_stored(durable[1])

    @rule()
    def search(self) -> None:
        """The indexes find what reading everything finds."""
        for store in (self.file, self.memory):
            assert store.count() == len(self.plain.names())
            assert store.page(limit=2) == list(self.plain.names()[:2])
            assert store.count_arrived() == self.plain.count_arrived()
            for person in PEOPLE:
                (found,) = store.find_subjects([store.pseudonym(person)]).values()
                (wanted,) = self.plain.find_subjects([self.plain.pseudonym(person)]).values()
                assert found == wanted

    @invariant()
    def all_are_the_same(self) -> None:
        for one, other in [(a, b) for a, *others in self.streams.values() for b in others]:
            assert one.clock == other.clock
            assert plain(one.retained) == plain(other.retained)
            assert rounds_of(one.receipts) == rounds_of(other.receipts)
            assert [one.position(name) for name in FILES] == [other.position(name) for name in FILES]
            assert answer(one) == answer(other)
            assert sum(decode_count(one.position(name).value) for name in FILES) <= one.t, (
                "each row that was read has its round"
            )

    @invariant()
    def limits_hold(self) -> None:
        for name, (stream, *_) in self.streams.items():
            retained = stream.retained
            assert (stream.t - retained.rounds < POLICIES[name][1]).all()
            for receipt in stream.receipts:
                assert receipt.due_round is not None
                assert (stream.t if receipt.erased_round is None else receipt.erased_round - 1) < receipt.due_round

    @precondition(lambda self: self.timed)
    @invariant()
    def time_limits_hold(self) -> None:
        times = self.streams[self.timed][0].retained.times
        assert (times > np.datetime64((self.now - MAX_AGE).replace(tzinfo=None), "us")).all()

    def teardown(self) -> None:
        try:
            self.file.close()
            assert self.open_reader().verify(at=self.now) == ()
        finally:
            self.folder.cleanup()


SETTINGS = settings(
    max_examples=25,
    stateful_step_count=30,
    deadline=None,
    phases=[Phase.reuse, Phase.generate],  # with Phase.shrink a failure is short, and takes minutes
    suppress_health_check=[HealthCheck.too_slow],
)
TestAllStores = AllStores.TestCase
TestAllStores.settings = SETTINGS


class Sealed(AllStores):
    """The same with a file that is sealed, whose keyring may fail to be written."""

    @property
    def keyring(self) -> KeyringFile:
        return KeyringFile(self.path.with_suffix(".keyring"), create=True)

    def open_store(self) -> Store:
        return SqliteStore(self.path, keyring=self.keyring)

    def open_reader(self) -> Reader:
        return open_reader(self.path, keyring=self.keyring)

    @rule(name=any_stream, step=st.sampled_from(["prepare", "settle"]))
    def fail(self, name: str, step: str) -> None:
        """Let the keyring fail once: streams and store go on, and nothing is lost or erased twice."""
        stream = self.same(name)[0]
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(KeyringFile, step, lambda *_: self._refuse())
            with suppress(StoreError):
                stream.flush()
        self.flush(None)

    def _refuse(self) -> None:
        raise StoreError("the keyring cannot be written")


TestSealed = Sealed.TestCase
TestSealed.settings = settings(SETTINGS, max_examples=12)


class OnServer(AllStores):
    """The same with a store in PostgreSQL, whose sessions are lost now and then."""

    server: ClassVar[Server]

    @property
    def database(self) -> Database:
        return Database(self.server, f"machine_{Path(self.folder.name).name.lower()}", self.path)

    def open_store(self) -> Store:
        KeyringFile(self.path, create=True)
        return self.database.open()

    def open_reader(self) -> Reader:
        return self.database.read()

    def abandon(self) -> None:
        assert isinstance(self.file, PostgresStore)
        self.file._session.close()

    @rule()
    def lose_sessions(self) -> None:
        """Have the server end all sessions; nothing is lost by that, since nobody else writes."""
        self.database.end_sessions()


def test_a_store_in_postgresql_is_the_same(server: Server) -> None:
    OnServer.server = server
    run_state_machine_as_test(OnServer, settings=settings(SETTINGS, max_examples=8))


def day_old(policy: Policy, retention: int, store: MemoryStore) -> Stream:
    return Stream(policy, retention=retention, max_age=MAX_AGE, seed=1, store=store.stream("a"))


def test_a_window_of_which_records_were_too_old_can_be_opened_again() -> None:
    store = MemoryStore()
    stream = day_old(Window(), 20, store)
    stream.extend(np.arange(18.0), times=[START] * 18)  # an update after 10
    stream.sweep(START + 25 * HOUR)
    stream.extend(np.arange(8.0), times=[START + 26 * HOUR] * 8)
    stream.flush()
    assert day_old(Window(), 20, store).clock == stream.clock


@pytest.mark.parametrize("now", [False, True])
def test_a_request_is_met_when_it_is_due_though_records_were_too_old_meanwhile(now: bool) -> None:
    stream = day_old(Window(), 20, MemoryStore())
    stream.extend(np.arange(5.0), times=[START] * 5)
    stream.extend(np.arange(4.0), times=[START + 20 * HOUR] * 4)
    due = stream.forget(rounds=9, now=now).due_round or 0
    stream.sweep(START + 25 * HOUR)  # the first five have to go
    while stream.t < due:
        stream.push(1.0, time=START + 26 * HOUR)
    assert 9 not in stream.retained.rounds
    assert stream.receipts[0].erased_round is not None


def test_a_stream_that_cannot_be_opened_does_not_keep_others_from_being_written() -> None:
    store = MemoryStore()
    good = Stream(Mean(), retention=64, store=store.stream("good"))
    good.push(1.0)
    store.stream("bad").write(good._terms, State(Clock(t=100), Records.empty(1)))
    with pytest.raises(ParameterError, match="does not fit updates every 32 rounds"):
        Stream(Mean(), retention=64, store=store.stream("bad"))
    store.flush()
    assert store.snapshot().streams["good"][1].clock.t == 1


@pytest.mark.parametrize("policy", [Mean(), Window()])
def test_after_a_removal_at_once_the_batch_goes_on(policy: Policy) -> None:
    stream = Stream(policy, retention=64, seed=1)
    stream.extend(np.arange(40.0))  # an update after 32
    stream.forget(rounds=40, now=True)
    due = stream.forget(rounds=39).due_round or 0
    assert 40 < due <= 40 + stream.batch
    for t in range(41, 200):
        stream.push(float(t))
        assert all((receipt.erased is not None) == (t >= due) for receipt in stream.receipts[1:])
        assert t - stream.clock.last < stream.batch


@pytest.mark.parametrize("policy", [Mean(), Window()])
def test_no_state_that_was_ever_durable_says_that_more_was_read_than_arrived(policy: Policy) -> None:
    written: list[tuple[int, int]] = []

    class Watched(MemoryStore):
        def _place(self, name: str, about: Mapping[str, object]) -> Place:
            place = super()._place(name, about)
            write = place.write

            def watched(terms: Terms, state: State) -> None:
                written.append((state.clock.t, decode_count(state.positions.get(FILES[0], Position()).value)))
                write(terms, state)

            place.write = watched  # type: ignore[method-assign]
            return place

    stream = Stream(policy, retention=64, seed=1, store=Watched().stream("a"))
    for size in (40, 60, 31, 1, 90):
        stream.extend(np.arange(float(size)), source=FILES[0])
        stream.forget(rounds=stream.t, now=True)
    assert [position for _, position in written] == [t for t, _ in written]
