"""Runs into streams by key that are stopped, killed and refused rows: each row is counted once."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vestige import KeyedStreams, Mean, MemoryStore, Stream
from vestige.errors import SourceError
from vestige.ingest import Ingest, StreamNames
from vestige.sources import Block, Source

RETENTION = 96


class Rows(Source):
    """Rows in memory: the key and the value of each; a value that is not finite is refused by its stream."""

    name = "rows:"

    def __init__(self, rows: list[tuple[str, float]], size: int = 7, stop: int | None = None) -> None:
        self.rows, self.step, self.stop = rows, size, stop
        self.started: list[bytes] = []

    def order(self, position: bytes) -> int:
        return int(position or b"0")

    def blocks(self, position: bytes = b"") -> Iterator[Block]:
        self.started.append(position)
        for first in range(self.order(position), len(self.rows), self.step):
            if self.stop is not None and first >= self.stop:
                raise SourceError("rows: the connection was lost; run this again")
            part = self.rows[first : first + self.step]
            keys, codes = np.unique([key for key, _ in part], return_inverse=True)
            numbers = np.arange(first + 1, first + len(part) + 1)
            yield Block(
                np.array([[value] for _, value in part]),
                numbers,
                [b"%d" % number for number in numbers],
                read=int(numbers[-1]),
                keys=keys.astype(np.object_),
                codes=codes,
            )


class SavedStreams(KeyedStreams):
    """Streams whose store is a pickle: a run that is killed leaves what was flushed last."""

    saved: bytes = b""

    def flush(self) -> None:
        SavedStreams.saved = pickle.dumps(self)

    @classmethod
    def load(cls) -> SavedStreams:
        if cls.saved:
            streams: SavedStreams = pickle.loads(cls.saved)
            return streams
        return cls(Mean(), retention=RETENTION, seed=1)


@pytest.fixture(autouse=True)
def empty() -> None:
    SavedStreams.saved = b""


def run(source: Rows, prefix: str | None = None, **options: object) -> Ingest:
    ingest = Ingest(source, SavedStreams.load(), StreamNames("key", prefix), store=MemoryStore(), **options)  # type: ignore[arg-type]
    ingest.run()
    return ingest


def check(rows: list[tuple[str, float]]) -> None:
    """Each stream is as if it had taken its rows alone, one after the other."""
    streams = SavedStreams.load()
    assert set(streams) == {key for key, _ in rows}
    for key in streams:
        alone = Stream(Mean(), retention=RETENTION, seed=1)
        alone.extend([value for k, value in rows if k == key])
        assert streams.clock(key) == alone.clock
        assert streams.retained(key).values.tolist() == alone.retained.values.tolist()


def make_rows(keys: str, values: list[float] | None = None) -> list[tuple[str, float]]:
    return [(key, float(i)) for i, key in enumerate(keys)] if values is None else list(zip(keys, values, strict=True))


def refuse(rows: list[tuple[str, float]], *bad: int) -> list[tuple[str, float]]:
    return [(key, np.inf if i in bad else value) for i, (key, value) in enumerate(rows, 1)]


@dataclass
class Attempt:
    """One run: how long its blocks are, where the source is lost, which rows are refused, whether it is killed."""

    size: int
    stop: int | None
    bad: set[int] = field(default_factory=set)
    is_killed: bool = False


attempts = st.lists(
    st.builds(
        Attempt,
        st.integers(1, 9),
        st.none() | st.integers(0, 40),
        st.sets(st.integers(1, 40), max_size=4),
        st.booleans(),
    ),
    max_size=5,
)


@given(st.text(st.sampled_from("abcde"), min_size=1, max_size=40), attempts)
@settings(max_examples=40)
def test_each_row_is_counted_once_whatever_happens_on_the_way(keys: str, attempts: list[Attempt]) -> None:
    SavedStreams.saved, rows = b"", make_rows(keys)
    for attempt in attempts:
        before = SavedStreams.saved
        with suppress(SourceError):
            run(Rows(refuse(rows, *attempt.bad), attempt.size, attempt.stop))
        if attempt.is_killed:
            SavedStreams.saved = before
    assert not run(Rows(rows, 6)).troubles
    check(rows)
    again = Rows(rows)
    assert run(again).taken == 0
    assert again.started == [b"%d" % len(rows)], "nothing is read again"


def test_a_stream_in_trouble_waits_and_is_taken_later() -> None:
    rows = make_rows("abcabcabcabc")
    ingest = run(Rows(refuse(rows, 5), size=3))
    assert ingest.taken == 9
    trouble = ingest.troubles["b"]
    assert (trouble.row, trouble.rows, trouble.of_row, trouble.source) == (5, 3, True, "rows:")
    assert trouble.reason.startswith("row 5")
    positions = SavedStreams.load().positions
    assert positions.own == {"rows:": {"b": b"4"}}, "before the first row that was not taken"
    later = Rows(rows, size=3)
    assert run(later).taken == 3
    assert later.started == [b"4"]
    check(rows)
    assert SavedStreams.load().positions.own == {"rows:": {}}


def test_a_new_key_that_is_refused_holds_back_only_new_keys() -> None:
    rows = make_rows("aabab" + "a" * 20)
    assert run(Rows(refuse(rows, 3), size=4)).taken == 23
    assert set(SavedStreams.load()) == {"a"}
    shared = SavedStreams.load().positions.shared["rows:"]
    assert (shared.value, shared.newcomers) == (b"25", b"2")
    rows += make_rows("abc")
    assert run(Rows(rows, size=4)).taken == 5
    check(rows)


def test_of_several_new_keys_that_are_refused_the_first_counts() -> None:
    rows = make_rows("abcbc" + "a" * 9)
    run(Rows(refuse(refuse(rows, 2), 3), size=6))
    assert SavedStreams.load().positions.shared["rows:"].newcomers == b"1"
    run(Rows(rows, size=6))
    check(rows)


def test_a_stream_that_is_refused_again_waits_again() -> None:
    rows = make_rows("ab" * 10)
    for _ in range(2):
        run(Rows(refuse(rows, 5), size=3))
        assert SavedStreams.load().positions.own == {"rows:": {"a": b"4"}}
    run(Rows(rows, size=3))
    check(rows)


def test_a_key_that_was_in_trouble_in_one_source_waits_in_the_next() -> None:
    one, two = make_rows("abab"), make_rows("abab")
    ingest = Ingest(Rows(refuse(one, 2)), SavedStreams.load(), StreamNames("key"), store=MemoryStore())
    ingest.run()
    second = Rows(two)
    second.name = "more:"
    ingest.follow(second)
    ingest.run()
    assert (ingest.taken, ingest.troubles["b"].rows) == (4, 4)
    shared = SavedStreams.load().positions.shared
    assert (shared["rows:"].newcomers, shared["more:"].newcomers) == (b"1", b"1")


def test_keys_that_no_stream_can_have_are_their_own_trouble() -> None:
    rows = [("a", 1.0), ("\0b", 2.0), ("c\ud800", 3.0), ("a", 4.0)]
    ingest = run(Rows(rows, size=3))
    assert ingest.taken == 2
    assert {key: trouble.rows for key, trouble in ingest.troubles.items()} == {"\0b": 1, "c\ud800": 1}
    assert set(SavedStreams.load()) == {"a"}


def test_names_have_the_prefix_of_the_run() -> None:
    run(Rows([("x/y", 1.0), ("z", 2.0)]), prefix="p")
    assert set(SavedStreams.load()) == {"p/x%2Fy", "p/z"}
    assert run(Rows([("x/y", 1.0), ("z", 2.0)]), prefix="p").taken == 0


def test_a_removed_stream_does_not_come_back() -> None:
    """The position of the family says that its rows were read; new rows of its key begin a new stream."""
    rows = make_rows("ababab")
    run(Rows(rows))
    streams = SavedStreams.load()
    streams.remove("b")
    streams.flush()
    assert run(Rows(rows)).taken == 0
    run(Rows([*rows, ("b", 9.0)]))
    assert SavedStreams.load().clock("b").t == 1


def test_without_a_store_all_is_taken_and_no_position_kept() -> None:
    streams, rows = KeyedStreams(Mean(), retention=RETENTION, seed=1), make_rows("abcab")
    ingest = Ingest(Rows(rows, size=2), streams, StreamNames("key"))
    ingest.run()
    assert ingest.taken == 5
    assert not streams.positions.shared
    with pytest.raises(Exception, match="one stream for each key"):
        _ = ingest.stream


def test_streams_that_were_read_one_by_one_go_on_together() -> None:
    """As in a store of an earlier format: each has its own position, and knows its sources by slots of its own."""
    store, rows = MemoryStore(), make_rows("abcabbcaabcd")
    for key, before, sources in (("a", 5, ("rows:",)), ("b", 2, ("other:", "rows:")), ("c", 9, ("rows:", "other:"))):
        stream = Stream(Mean(), retention=RETENTION, seed=1, store=store.stream(key))
        for source in sources:
            numbers = [i for i, (k, _) in enumerate(rows, 1) if k == key and i <= before] if source == "rows:" else [1]
            values = [rows[number - 1][1] for number in numbers]
            positions = [b"%d" % number for number in numbers]
            stream.extend(values, source=source, numbers=np.array(numbers), positions=positions)
    store.release()
    for taken in (12 - 2 - 1 - 2, 0):
        streams = KeyedStreams(Mean(), retention=RETENTION, seed=1, store=store.family())
        ingest = Ingest(Rows(rows, size=5), streams, StreamNames("key"), store=store)
        ingest.run()
        assert ingest.taken == taken
        assert {key: streams.clock(key).t for key in streams} == {"a": 4, "b": 4 + 1, "c": 3 + 1, "d": 1}
        held, _, _, _, _, owners = streams.find_records(streams.positions.shared["rows:"].slot)
        keys = {int(number): key for key, number in zip("abcd", streams.find_numbers([*"abcd"]), strict=True)}
        assert sorted((int(row), keys[int(n)]) for row, n in zip(held, owners, strict=True)) == [
            (row, key) for row, (key, _) in enumerate(rows, 1)
        ]
        assert not streams.positions.own.get("rows:")
        store.release()
