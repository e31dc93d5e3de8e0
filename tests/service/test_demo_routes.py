"""The demo over HTTP: the replay, what is watched, and rows that are taken once."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest
from served import serve_here

from vestige import open_store
from vestige.flights import read_flights
from vestige.service.demo import BATCH, DEFINITIONS, STREAMS
from vestige.service.demo_routes import EngineFeed
from vestige.service.engine import Engine, Outcome, RowsRequest
from vestige.service.problems import RefusalError

WARM = 64 * BATCH


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    with serve_here(tmp_path_factory.mktemp("demo") / "flights.db", demo_rate=0) as made:
        end = time.monotonic() + 120
        while made.get("/v1/demo", timeout=120).json()["watched"] is None:
            assert time.monotonic() < end
            time.sleep(0.1)
        yield made


def change(client: httpx.Client, **body: Any) -> Any:
    return client.post("/v1/demo", json=body).raise_for_status().json()


def test_a_paused_replay_has_taken_the_first_flights_into_each_stream(client: httpx.Client) -> None:
    assert client.get("/health").json() == {"status": "ok", "demo": True}
    shown = client.get("/v1/demo").json()
    assert (shown["t"], shown["rate"]) == (WARM, 0)
    for stream in client.get("/v1/streams").json()["streams"]:
        assert stream["t"] == WARM
    assert [each["policy"] for each in shown["leak"]] == ["mean", "window", "private"]
    assert not any(each["held"] for each in shown["leak"])
    assert shown["leak"][0]["guess"] == pytest.approx(shown["watched"]["value"], abs=1.0)


def test_a_step_fills_one_batch_and_a_rate_goes_on(client: httpx.Client) -> None:
    before = client.get("/v1/demo").json()["t"]
    assert change(client, step=True)["t"] == before + BATCH - before % BATCH
    change(client, rate=2_000)
    end = time.monotonic() + 30
    while client.get("/v1/demo").json()["t"] < before + 4 * BATCH:
        assert time.monotonic() < end
        time.sleep(0.05)
    change(client, rate=0)


def test_the_watched_record_is_chosen_by_round_or_by_tail_number(client: httpx.Client) -> None:
    tails = read_flights("tailnum", "origin", "dep_delay")["tailnum"].to_pylist()
    assert change(client, watch=7)["watched"]["subject"] == tails[6]
    t = client.get("/v1/demo").json()["t"]
    watched = change(client, subject=tails[6])["watched"]
    assert watched["round"] == max(i for i, tail in enumerate(tails[:t], 1) if tail == tails[6])


@pytest.mark.parametrize(
    "body", [{}, {"rate": -1}, {"rate": True}, {"rate": 1, "step": True}, {"watch": 0}, {"subject": "nobody"}]
)
def test_what_is_not_a_change_is_refused(client: httpx.Client, body: dict[str, Any]) -> None:
    assert client.post("/v1/demo", json=body).status_code == 422


def test_rows_that_are_refused_for_a_while_are_taken_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = Engine(open_store(tmp_path / "flights.db"))
    engine.start()
    feed, name = EngineFeed(engine), STREAMS["mean"]
    feed.define(DEFINITIONS[0])
    rows, taken = read_flights("tailnum", "origin", "dep_delay").slice(0, 10), engine._take_all
    refusals = iter([503, 503, 429])

    def take(requests: Sequence[RowsRequest], keys: Sequence[bytes]) -> list[Outcome]:
        answers = taken(requests, keys)
        status = next(refusals, None)
        return answers if status is None else [RefusalError(status, "the answer is lost") for _ in answers]

    monkeypatch.setattr(engine, "_take_all", take)
    feed.take([name], rows)
    found = feed.estimate(name)
    engine.stop()
    assert found is not None
    assert found["t"] == 10
