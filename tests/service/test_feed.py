"""A queue that feeds a service: rows and position are written together, beside requests, also after a failure."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from test_serve import start

from redis_server import RedisServer
from vestige import open_store
from vestige.errors import ParameterError, StoreError
from vestige.ingest.definition import Definition
from vestige.service.engine import Engine, count_records
from vestige.service.feed import Feed, FeedOptions

PATIENCE = 60.0


def rows(start: int, stop: int) -> list[dict[str, object]]:
    return [{"v": i, "k": f"key {i % 3}"} for i in range(start, stop)]


def wait(is_done: Callable[[], bool]) -> None:
    until = time.monotonic() + PATIENCE
    while not is_done():
        assert time.monotonic() < until, "nothing has come of it"
        time.sleep(0.02)


class Service:
    """An engine with feeds from one queue."""

    def __init__(self, server: RedisServer, path: Path, *definitions: Definition) -> None:
        self.server, self.engine, self.feeds = server, Engine(open_store(path)), list[Feed]()
        self.engine.start()
        for each in definitions:
            self.create(each)

    def create(self, definition: Definition) -> None:
        self.engine.submit(lambda: self.engine.catalog.create(definition)).result(PATIENCE)

    def feed(self, name: str, **options: Any) -> None:
        self.feeds.append(Feed(self.engine, FeedOptions.parse(f"{name}={self.server.address('s')}", **options)))
        self.feeds[-1].start()

    def count(self, name: str) -> int:
        return count_records(self.engine.catalog.find(name))[0]

    def stop(self) -> None:
        for feed in self.feeds:
            feed.stop()
        self.engine.stop()


@contextmanager
def serving(server: RedisServer, path: Path, *definitions: Definition) -> Iterator[Service]:
    made = Service(server, path, *definitions)
    try:
        yield made
    finally:
        made.stop()


SINGLE = Definition(name="a", columns=("v",), retention=96, seed=1)
BY_KEY = Definition(name="c", columns=("v",), by=("k",), retention=96, seed=1)


def test_definitions_of_one_family_and_by_key_each_count_all_entries_once(
    redis_server: RedisServer, tmp_path: Path
) -> None:
    other = Definition(name="b", columns=("v",), retention=96, seed=1)  # which shares the terms of a
    redis_server.add("s", [*rows(0, 100), {"v": "x", "k": "key 1"}])
    with serving(redis_server, tmp_path / "s.db", SINGLE, BY_KEY) as service:
        service.feed("a")
        service.feed("c")
        wait(lambda: service.count("a") == service.count("c") == 100)
    redis_server.add("s", rows(100, 150))
    with serving(redis_server, tmp_path / "s.db", other) as service:
        for name in ("a", "b", "c"):
            service.feed(name)
        wait(lambda: [service.count(name) for name in ("a", "b", "c")] == [150, 150, 150])
        time.sleep(0.2)
        assert [service.count(name) for name in ("a", "b", "c")] == [150, 150, 150]
        wait(lambda: not _count_pending(redis_server))


def _count_pending(server: RedisServer) -> int:
    groups = [dict(zip(reply[::2], reply[1::2], strict=True)) for reply in server.call("XINFO", "GROUPS", "s")]
    return sum(group[b"pending"] for group in groups)


@pytest.mark.parametrize("definition", [SINGLE, BY_KEY], ids=["single", "by key"])
def test_a_block_that_cannot_be_written_is_taken_again_and_counted_once(
    redis_server: RedisServer, tmp_path: Path, definition: Definition, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = definition.name or ""
    with serving(redis_server, tmp_path / "s.db", definition) as service:
        redis_server.add("s", rows(0, 50))
        service.feed(name)
        wait(lambda: service.count(name) == 50)
        streams, failures = service.engine.catalog.find(name).streams, list[int]()
        flush = streams.flush

        def fail() -> None:
            failures.append(1)
            flush()
            if len(failures) < 3:
                raise StoreError("the disk is full")

        monkeypatch.setattr(streams, "flush", fail)
        redis_server.add("s", rows(50, 80))
        wait(lambda: len(failures) >= 3 and service.count(name) == 80)
        wait(lambda: not _count_pending(redis_server))
    with serving(redis_server, tmp_path / "s.db") as service:
        assert service.count(name) == 80


def test_a_feed_waits_for_its_definition_and_for_the_server(
    redis_server: RedisServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    redis_server.add("s", rows(0, 5))
    redis_server.stop()
    with caplog.at_level(logging.WARNING, "vestige.service"), serving(redis_server, tmp_path / "s.db") as service:
        service.feed("a")
        wait(lambda: "there is no stream of this name" in caplog.text)
        assert f"{service.feeds[0]._options.address.name}: there is no stream" in caplog.text
        service.create(SINGLE)
        wait(lambda: "no server answers there" in caplog.text)
        wait(lambda: service.feeds[0].is_failing)
        redis_server.start()
        redis_server.add("s", rows(0, 5))
        wait(lambda: service.count("a") == 5)
        wait(lambda: not service.feeds[0].is_failing)
        assert service.feeds[0].taken == 5


def test_a_definition_that_is_created_again_meanwhile_has_all_entries_and_the_earlier_one_none(
    redis_server: RedisServer, tmp_path: Path
) -> None:
    sibling = Definition(name="b", columns=("v",), retention=96, seed=1)  # which keeps the family of a open
    with serving(redis_server, tmp_path / "s.db", SINGLE, sibling) as service:
        redis_server.add("s", rows(0, 20))
        service.feed("a")
        wait(lambda: service.count("a") == 20)
        catalog = service.engine.catalog
        earlier = catalog.find("a").streams

        def create_again() -> None:
            catalog.remove("a")
            catalog.create(Definition(name="a", columns=("v",), retention=128, seed=1))

        service.engine.submit(create_again).result(PATIENCE)
        redis_server.add("s", rows(20, 25))
        wait(lambda: service.count("a") == 25)
        assert "a" not in earlier


def test_a_queue_that_lost_data_is_logged_and_not_read(
    redis_server: RedisServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "vestige.service"):
        with serving(redis_server, tmp_path / "s.db", SINGLE) as service:
            redis_server.add("s", rows(0, 20))
            service.feed("a")
            wait(lambda: service.count("a") == 20)
            redis_server.call("FLUSHALL")
            redis_server.add("s", rows(0, 3))
            wait(lambda: "The server may have lost its data" in caplog.text)
            assert service.count("a") == 20
        with serving(redis_server, tmp_path / "s.db") as service:
            service.feed("a", if_replaced="restart")
            wait(lambda: service.count("a") == 23)


def test_an_entry_that_is_refused_stops_its_stream_with_a_remedy_and_without_its_value(
    redis_server: RedisServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    timed = Definition.from_data({"name": "a", "columns": "v", "time": "at", "max_age": "30000d"})
    ids = redis_server.add(
        "s", [{"v": 1, "at": "2024-05-31"}, {"v": 2, "at": "2987-01-01"}, {"v": 3, "at": "2024-06-01"}]
    )
    with (
        caplog.at_level(logging.WARNING, "vestige.service"),
        serving(redis_server, tmp_path / "s.db", timed) as service,
    ):
        service.feed("a")
        wait(lambda: "(XDEL)" in caplog.text)
        assert "2987" not in caplog.text
        assert "the time of row 2 lies" in caplog.text
        redis_server.call("XDEL", "s", ids[1])
        wait(lambda: service.count("a") == 2)


def test_the_command_feeds_beside_requests(redis_server: RedisServer, tmp_path: Path) -> None:
    redis_server.add("visits", [{"spent": i, "country": "DE"} for i in range(40)])
    definition = {"name": "visits", "columns": ["spent"], "by": "country", "retention": 96, "seed": 0}
    words = (tmp_path / "s.db", "--open", "--from", redis_server.address("visits"), "--trim")
    with start(*words) as (client, process):
        assert client.post("/v1/streams", json=definition).status_code == 201
        sent = client.post(
            "/v1/streams/visits/rows", json=[{"spent": 1, "country": "FR"}], headers={"Idempotency-Key": "k"}
        )
        assert sent.status_code == 200
        wait(lambda: client.get("/v1/streams/visits").json()["t"] == 41)
        wait(lambda: redis_server.call("XLEN", "visits") == 0)
        assert client.get("/health").json() == {"status": "ok", "feeds_failing": 0}
        assert "vestige_feed_rows_total 40.0" in client.get("/metrics").text
        redis_server.stop()
        wait(lambda: client.get("/health").json() == {"status": "ok", "feeds_failing": 1})
        assert "vestige_feeds_failing 1.0" in client.get("/metrics").text
        process.terminate()
        assert process.wait(PATIENCE) in (0, -15, 143)


@pytest.mark.parametrize("text", ["visits", "a=postgresql://h/d", "redis://h", "=x"])
def test_what_is_not_a_queue_is_refused(text: str) -> None:
    with pytest.raises(ParameterError, match="is not one of the form redis://"):
        FeedOptions.parse(text)
