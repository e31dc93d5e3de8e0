"""Two services on one store: a stream that it has is served, or refused for a while, and is never created anew."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from served import serve_here

from postgres import Database
from vestige import open_store
from vestige.errors import StoreError
from vestige.ingest.definition import Definition
from vestige.service.bodies import NDJSON, read_body
from vestige.service.catalog import Catalog
from vestige.service.engine import Engine
from vestige.service.problems import RefusalError
from vestige.service.requests import Counts
from vestige.store.service_notes import ServiceNotes

VISITS: dict[str, Any] = {"name": "visits", "columns": ["spent"], "by": "country", "retention": 96, "seed": 0}
BODY = b"12345678"
SECONDS = 20.0


@pytest.fixture
def begin(database: Database) -> Iterator[Callable[[], Engine]]:
    """Starts a service on the same store, besides those that there are."""
    made = list[Engine]()

    def start() -> Engine:
        engine = Engine(database.open())
        engine.start()
        engine.prepare(Definition.from_data(VISITS)).result()  # so that no answer waits for kernels
        made.append(engine)
        return engine

    yield start
    for engine in made:
        if engine.status != "stopping":
            engine.stop()


def create(engine: Engine, **change: object) -> bool:
    definition = Definition.from_data(VISITS | change)
    return engine.submit(lambda: engine.catalog.create(definition)).result(SECONDS)


def refuse(action: Callable[..., object], *arguments: object, **more: object) -> int:
    with pytest.raises(RefusalError) as refused:
        action(*arguments, **more)
    return refused.value.status


def send(engine: Engine, key: str, name: str = "visits") -> tuple[Counts, bool]:
    rows = read_body(b'{"spent": 1, "country": "DE"}\n{"spent": 2, "country": "FR"}', NDJSON, engine.find(name).columns)
    return engine.take_rows(name, rows.block, key, BODY).result(SECONDS)


def count(engine: Engine, name: str = "visits") -> list[int]:
    with engine.read() as catalog:
        return list(catalog.find(name).streams.counts().t.tolist())


def wait_for(engine: Engine, status: str = "ok") -> None:
    until = time.monotonic() + SECONDS
    while engine.status != status:
        assert time.monotonic() < until, engine.status
        time.sleep(0.02)


def test_what_another_service_holds_is_refused_for_a_while_and_taken_over_with_its_requests(
    begin: Callable[[], Engine],
) -> None:
    first = begin()
    assert create(first)
    assert send(first, "a") == (Counts(2, 0, 0), False)
    second = begin()
    assert second.status == "waiting"
    assert (refuse(send, second, "a"), refuse(create, second), refuse(second.catalog.remove, "visits")) == (503,) * 3
    assert refuse(create, second, retention=128) == 409
    assert send(first, "b") == (Counts(2, 0, 0), False)
    first.stop()
    wait_for(second)
    assert not create(second)
    assert refuse(create, second, retention=128) == 409
    assert [send(second, key)[1] for key in "abc"] == [True, True, False]
    assert count(second) == [3, 3]


def test_a_stream_that_another_service_creates_later_is_not_unknown(begin: Callable[[], Engine]) -> None:
    first, second = begin(), begin()
    assert create(first)
    send(first, "a")
    assert refuse(send, second, "a") == 503
    assert refuse(send, second, "a", "nowhere") == 404
    assert refuse(create, second) == 503
    first.stop()
    wait_for(second)
    assert send(second, "a") == (Counts(2, 0, 0), True)


def test_a_definition_is_read_again_when_its_streams_are_taken_over(begin: Callable[[], Engine]) -> None:
    first = begin()
    create(first)
    send(first, "a")
    second = begin()
    first.submit(lambda: first.catalog.remove("visits")).result()
    create(first)
    assert send(first, "a") == (Counts(2, 0, 0), False)
    first.stop()
    wait_for(second)
    assert send(second, "a") == (Counts(2, 0, 0), True)
    assert count(second) == [1, 1]


def test_whoever_was_cut_off_and_comes_back_writes_nothing_and_takes_over_what_was_noted_meanwhile(
    begin: Callable[[], Engine], database: Database
) -> None:
    first = begin()
    create(first)
    send(first, "a")
    second = begin()
    with first.store.lock:  # it hangs, and the server ends its session
        backend = first.store._session.connection._pid  # type: ignore[attr-defined]
        database.ask("SELECT pg_terminate_backend(%s, 5000)", backend)
        wait_for(second)
        assert send(second, "b") == (Counts(2, 0, 0), False)
    with pytest.raises(RefusalError) as refused:
        send(first, "c")
    assert refused.value.status == 503
    wait_for(first, "waiting")
    assert refuse(send, first, "b") == 503
    second.stop()
    wait_for(first)
    assert [send(first, key)[1] for key in "abc"] == [True, True, False]
    assert count(first) == [3, 3]


@pytest.mark.parametrize("by", [None, "country"])
def test_streams_that_a_run_holds_are_taken_over_too(
    begin: Callable[[], Engine], database: Database, by: str | None
) -> None:
    definition = Definition.from_data(VISITS | {"by": by, "name": None if by else "all"})
    name = "main" if by else "all"
    store = database.open()
    run = definition.make_streams(definition.make_policy(), store)
    run.extend(["all"], [1.0])
    engine = begin()
    assert engine.status == "waiting"
    assert refuse(send, engine, "a", name) == 503
    assert refuse(create, engine, name=name, retention=128, by=by) == 409
    assert refuse(create, engine, name=name, by=by) == (409 if by else 503)  # whose prefix is another one
    if by is None:
        assert refuse(send, engine, "a", "nowhere") == 404
    store.close()
    wait_for(engine)
    assert send(engine, "a", name)[0].taken == 2


def test_a_definition_that_cannot_be_opened_keeps_no_other_from_being_served_and_is_not_replaced(
    begin: Callable[[], Engine],
) -> None:
    first = begin()
    create(first)
    send(first, "a")
    first.notes.write_definition("strange", {"columns": ["spent"], "unheard_of": 1, "created": "x"})
    before = first.notes.read_definitions()
    first.stop()
    second = begin()
    assert send(second, "a")[1]
    assert second.status == "waiting"
    assert refuse(send, second, "a", "strange") == 503
    assert refuse(create, second, name="strange") == 503
    assert second.notes.read_definitions() == before


def test_definitions_that_cannot_be_read_are_not_unknown(
    begin: Callable[[], Engine], monkeypatch: pytest.MonkeyPatch
) -> None:
    first = begin()
    create(first)
    first.stop()

    def fail(_: ServiceNotes) -> None:
        raise StoreError("the server does not answer")

    with monkeypatch.context() as broken:
        broken.setattr(ServiceNotes, "read_definitions", fail)
        second = begin()
        assert second.status != "ok"
        assert (refuse(send, second, "a"), refuse(create, second)) == (503, 503)
    wait_for(second)
    assert send(second, "a")[0].taken == 2


def test_definitions_that_cannot_be_read_any_more_keep_nothing_from_being_written(
    begin: Callable[[], Engine], monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = begin()
    create(engine)

    def fail(_: ServiceNotes) -> None:
        raise StoreError("row 1 of the table definitions is damaged")

    with monkeypatch.context() as broken:
        broken.setattr(ServiceNotes, "read_definitions", fail)
        wait_for(engine, "waiting")
        assert send(engine, "a")[0].taken == 2
        assert refuse(send, engine, "a", "nowhere") == 503
        engine.submit(engine.store.release)
        wait_for(engine, "waiting")
        assert refuse(send, engine, "b") == 503
    wait_for(engine)
    assert send(engine, "b")[0].taken == 2


def test_a_definition_that_could_not_be_written_is_left_to_others(
    begin: Callable[[], Engine], monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = begin(), begin()

    def fail(*_: object) -> None:
        raise StoreError("the disk is full")

    with monkeypatch.context() as broken:
        broken.setattr(first.notes, "write_definition", fail)
        assert refuse(create, first) == 503
    assert create(second)


def test_of_two_that_create_a_stream_at_the_same_time_one_does(begin: Callable[[], Engine]) -> None:
    first, second = begin(), begin()
    answers = list[bool | int]()
    definitions = [Definition.from_data(VISITS | {"retention": retention}) for retention in (96, 128)]
    waiting = [
        engine.submit(lambda engine=engine, definition=definition: engine.catalog.create(definition))  # type: ignore[misc]
        for engine, definition in zip((first, second), definitions, strict=True)
    ]
    for each in waiting:
        try:
            answers.append(each.result(SECONDS))
        except RefusalError as refusal:
            answers.append(refusal.status)
    assert sorted(answers) in ([True, 409], [True, 503])
    winner = first if answers[0] is True else second
    loser = second if winner is first else first
    wait_for(winner)
    assert refuse(create, loser, retention=128 if winner is first else 96) == 409
    assert send(winner, "a")[0].taken == 2


def test_health_and_every_route_say_so_over_http(database: Database) -> None:
    with serve_here(database.address, keyring=database.keyring) as first:
        assert first.post("/v1/streams", json=VISITS).status_code == 201
        with serve_here(database.address, keyring=database.keyring) as second:
            for path in ("/health", "/ready"):
                answer = second.get(path)
                assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
                assert answer.json() == {"status": "waiting", "streams_unavailable": 1}
                assert first.get(path).json() == {"status": "ok"}
            headers = {"Idempotency-Key": "a"}
            for answer in (
                second.post("/v1/streams/visits/rows", json=[{"spent": 1, "country": "DE"}], headers=headers),
                second.post("/v1/streams", json=VISITS),
                second.get("/v1/streams/visits"),
                second.get("/v1/streams/visits/estimates"),
                second.get("/v1/streams/visits/estimate", params={"key": "DE"}),
                second.delete("/v1/streams/visits"),
                second.delete("/v1/streams/visits/key", params={"key": "DE"}),
            ):
                assert (answer.status_code, answer.headers["retry-after"]) == (503, "1"), answer.request.url
            assert "vestige_streams_unavailable 1.0" in second.get("/metrics").text
            assert "vestige_up 1.0" in second.get("/metrics").text


def test_a_catalog_that_is_looked_at_again_parses_nothing_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    with open_store("memory:") as store:
        catalog = Catalog(store, ServiceNotes(store))
        catalog.create(Definition.from_data(VISITS))
        catalog.look()
        served = catalog.served["visits"]
        monkeypatch.setattr(Definition, "from_data", None)
        catalog.take_over()
        assert catalog.served["visits"] is served
