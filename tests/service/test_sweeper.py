"""What is due is erased from all streams together, whatever is wrong with one of them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

from vestige import KeyedStreams, open_store
from vestige.errors import StreamsError
from vestige.ingest.definition import Definition
from vestige.operations.entry import Entry
from vestige.service.bodies import NDJSON, read_body
from vestige.service.engine import Engine
from vestige.service.sweeper import Sweeper

VISITS = {"name": "visits", "columns": ["spent"], "by": "country", "max_age": "1s", "seed": 0}
KEYS = 300


@pytest.fixture
def engine() -> Iterator[Engine]:
    """An engine whose streams hold one record each, which is due."""
    made = Engine(open_store("memory:"))
    made.start()
    made.submit(lambda: made.catalog.create(Definition.from_data(VISITS))).result()
    content = "\n".join(f'{{"spent": 1, "country": "k{i}"}}' for i in range(KEYS)).encode()
    block = read_body(content, NDJSON, made.catalog.find("visits").columns).block
    assert made.take_rows("visits", block, "a", b"1" * 8).result()[0].taken == KEYS
    time.sleep(1.1)
    yield made
    made.stop()


def sweep(engine: Engine) -> Sweeper:
    """A sweeper that has run once."""
    made = Sweeper(engine.store, lambda *_: None)
    engine.submit(made.run).result()
    assert engine.catalog.find("visits").streams.count_all() == (KEYS, 0)
    assert (made.erased, made.troubles) == (KEYS, 0)
    return made


def test_streams_are_swept_together(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    found, find = list[str](), Entry.find

    def note(store: Any, name: str) -> Entry:
        found.append(name)
        return find(store, name)

    monkeypatch.setattr(Entry, "find", note)
    sweep(engine)
    assert found == []


def test_the_sweep_of_the_store_erases_what_is_left(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: KeyedStreams[Any]) -> int:
        raise StreamsError("some failed", {})

    monkeypatch.setattr(KeyedStreams, "sweep", fail)
    sweep(engine)
