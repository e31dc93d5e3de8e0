"""A source from outside the package: one class, with positions of its own, run, stopped and resumed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vestige import Clock, KeyedStreams, Mean, MemoryStore, Records, SqliteStore, Stream
from vestige.errors import SourceError
from vestige.ingest import Ingest, StreamNames
from vestige.sources import Block, Source
from vestige.store import Store

Message = tuple[float, str]
MESSAGES: list[Message] = [(float(i % 17), "abc"[i % 3]) for i in range(400)]


class Queue(Source):
    """A list of messages, each known by a text that is not a count, as in a queue."""

    def __init__(self, messages: list[Message], *, keyed: bool, fails_after: int | None = None) -> None:
        self.messages, self.keyed, self.fails_after = messages, keyed, fails_after
        self.started: list[bytes] = []

    @property
    def name(self) -> str:
        return "queue:visits"

    def find_id(self, index: int) -> bytes:
        return f"{index * 7 + 3:x}-{index % 5}".encode()

    def order(self, position: bytes) -> int:
        return int(position.split(b"-")[0], 16) if position else -1

    def blocks(self, position: bytes = b"") -> Iterator[Block]:
        self.started.append(position)
        indices = [i for i in range(len(self.messages)) if self.order(self.find_id(i)) > self.order(position)]
        for start in range(0, len(indices), 60):
            part = indices[start : start + 60]
            if self.fails_after is not None and part[-1] >= self.fails_after:
                raise SourceError(f"{self.name}: the connection was lost; run this again")
            keys, codes = np.unique([self.messages[i][1] for i in part], return_inverse=True)
            yield Block(
                np.array([[self.messages[i][0]] for i in part]),
                np.array(part) + 1,
                [self.find_id(i) for i in part],
                read=part[-1] + 1,
                keys=keys.astype(np.object_) if self.keyed else None,
                codes=codes if self.keyed else None,
            )


def run(source: Queue, store: Store) -> Ingest:
    ingest = Ingest(
        source,
        KeyedStreams(Mean(), retention=96, seed=1, store=store.family())
        if source.keyed
        else lambda name: Stream(Mean(), retention=96, seed=1, store=store.stream(name)),
        StreamNames("key") if source.keyed else StreamNames(),
        store=store,
    )
    ingest.run()
    return ingest


@pytest.fixture(params=["memory", "file"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    with MemoryStore() if request.param == "memory" else SqliteStore(tmp_path / "a.db") as opened:
        yield opened


@pytest.mark.parametrize("keyed", [False, True])
def test_a_source_from_outside_is_stopped_and_resumed(store: Store, keyed: bool) -> None:
    with pytest.raises(SourceError, match=r"the connection was lost; .*; 180 records of the rows before were taken"):
        run(Queue(MESSAGES[:300], keyed=keyed, fails_after=200), store)
    store.release()
    resumed = Queue(MESSAGES, keyed=keyed)
    ingest = run(resumed, store)
    assert ingest.taken == 220
    assert not ingest.troubles
    assert resumed.started == [resumed.find_id(179)]
    last = resumed.find_id(len(MESSAGES) - 1)
    if not isinstance(ingest.streams, KeyedStreams):
        assert ingest.stream.position("queue:visits").value == last
        check("", ingest.stream.clock, ingest.stream.retained)
        return
    shared = ingest.streams.positions.shared["queue:visits"]
    assert (shared.value, shared.newcomers) == (last, last)
    assert sorted(ingest.streams) == ["a", "b", "c"]
    for key in ingest.streams:
        check(key, ingest.streams.clock(key), ingest.streams.retained(key))


@pytest.mark.parametrize("keyed", [False, True])
def test_nothing_of_a_source_that_was_read_is_taken_again(store: Store, keyed: bool) -> None:
    assert run(Queue(MESSAGES, keyed=keyed), store).taken == 400
    store.release()
    assert run(Queue(MESSAGES, keyed=keyed), store).taken == 0


def check(key: str, clock: Clock, retained: Records) -> None:
    """A stream has taken all messages of its key, and nothing twice."""
    plain = Stream(Mean(), retention=96, seed=1)
    plain.extend([value for value, k in MESSAGES if key in ("", k)])
    assert (clock, retained.values.tolist()) == (plain.clock, plain.retained.values.tolist())


@given(st.lists(st.integers(0, 4), max_size=30))
def test_each_row_of_a_block_goes_to_its_key_in_order(codes: list[int]) -> None:
    n = len(codes)
    keys = np.array(list("abcde"), np.object_)
    block = Block(
        np.arange(float(n))[:, None], np.arange(1, n + 1), [b""] * n, n, keys=keys, codes=np.array(codes, np.int64)
    )
    rows = {key: indices.tolist() for key, indices in block.by_key()}
    assert rows == ({key: [i for i in range(n) if keys[codes[i]] == key] for key in keys} if n else {})
