"""Both clients against a service in this process: each route, answers that are lost, and what is refused."""

from __future__ import annotations

import asyncio
import inspect
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import date
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pyarrow as pa
import pytest
from served import serve_here

from limits import join
from vestige.client import AsyncClient, Client, RowsTaken, StreamEstimate, calls
from vestige.client.routes import Routes
from vestige.errors import ParameterError, ServiceError

SPENT = ((1, "DE"), (3, "DE"), (5, "FR"))
ROWS = [{"spent": spent, "country": country, "person": f"p{i}"} for i, (spent, country) in enumerate(SPENT)]
VISITS = {"name": "visits", "columns": ["spent"], "by": "country", "retention": 96, "seed": 0, "subject": "person"}


class Awaited:
    """An `AsyncClient` whose calls are waited for, so that one test does for both."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._loop = asyncio.new_event_loop()
        self._client = AsyncClient(*args, **kwargs)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            made = getattr(self._client, name)(*args, **kwargs)
            return self._iterate(made) if hasattr(made, "__anext__") else self._loop.run_until_complete(made)

        return call

    def _iterate(self, items: Any) -> Iterator[Any]:
        try:
            while True:
                yield self._loop.run_until_complete(items.__anext__())
        except StopAsyncIteration:
            return
        finally:
            self._loop.run_until_complete(items.aclose())

    def end(self) -> None:
        self._loop.run_until_complete(self._client.close())
        self._loop.close()


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    with serve_here(tmp_path / "visits.db") as plain:
        yield str(plain.base_url)


@pytest.fixture(params=[Client, Awaited])
def client(url: str, request: pytest.FixtureRequest) -> Iterator[Any]:
    made = request.param(url, patience=200.0, timeout=200.0)  # kernels may have to be compiled
    made.create_stream(VISITS)
    yield made
    made.close() if isinstance(made, Client) else made.end()


def test_both_clients_have_every_route() -> None:
    routes = {name for name in vars(Routes) if not name.startswith("_")}
    for kind in (Client, AsyncClient):
        assert {name for name in vars(kind) if not name.startswith("_")} == routes | {"close", "listen"}
    assert inspect.signature(Client.send_rows).return_annotation is RowsTaken
    assert inspect.signature(AsyncClient.list_estimates).return_annotation == AsyncIterator[StreamEstimate]


def test_each_route_answers(client: Any) -> None:
    assert client.check_health() == "ok"
    assert client.send_rows("visits", ROWS) == RowsTaken(3, 0, 0, 0)
    assert client.create_stream(VISITS).t == 3
    assert [each.name for each in client.list_streams()] == ["visits"]
    shown = client.show_stream("visits")
    assert (shown.keys, shown.held, shown.definition["columns"]) == (2, 3, ["spent"])
    assert [(each.key, each.value) for each in client.list_estimates("visits")] == [("DE", 2.0), ("FR", 5.0)]
    assert [each.key for each in client.list_estimates("visits", after="DE")] == ["FR"]
    assert client.show_estimate("visits", "FR").answers[0].quantity == "spent"
    assert client.show_records("visits", "DE").values is None
    assert client.show_records("visits", "DE", values=True).values == ([1.0], [3.0])
    assert client.remove_key("visits", "DE") == 1
    assert client.remove_stream("visits") == 1
    with pytest.raises(ServiceError, match="no stream of this name") as error:
        client.show_stream("visits")
    assert (error.value.status, error.value.is_uncertain, error.value.key) == (404, False, None)


def test_people_are_erased_and_the_store_is_checked(client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    client.send_rows("visits", ROWS)
    keys = lose_answers(monkeypatch, 1)
    removal = client.request_removals(["p0", "nobody"], now=True, reference="ticket-7")
    assert len(set(keys)) == 1
    assert [receipt.reference for receipt in removal.receipts] == ["ticket-7"] * 2
    assert (removal.receipts[0].erased is not None, removal.troubles) == (True, 0)
    assert client.show_stream("visits").held == 2
    monkeypatch.setattr("vestige.client.routes.PAGE", 1)
    assert [each.id for each in client.list_receipts()] == [each.id for each in removal.receipts]
    assert [each.id for each in client.list_receipts(newest=True)] == [each.id for each in removal.receipts[::-1]]
    assert (client.sweep().erased, client.sweep(dry_run=True).troubles) == (0, 0)
    assert (client.verify().ok, client.verify().findings) == (True, ())


def test_answers_are_asked_for_in_pages(client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vestige.client.routes.PAGE", 3)
    client.send_rows("visits", [{"spent": i, "country": f"{i:02}", "person": ""} for i in range(10)])
    assert [each.key for each in client.list_estimates("visits")] == [f"{i:02}" for i in range(10)]


@pytest.mark.parametrize(
    "rows",
    [
        ROWS,
        iter(ROWS),
        pa.Table.from_pylist(ROWS),
        pa.RecordBatch.from_pylist(ROWS),
        pa.Table.from_pylist(ROWS).to_reader(),
        [row | {"spent": np.float64(str(row["spent"])), "day": date(2024, 1, 1)} for row in ROWS],
    ],
    ids=["list", "iterator", "table", "batch", "reader", "scalars"],
)
def test_rows_of_each_kind_are_sent_in_requests_of_a_size(url: str, rows: Any) -> None:
    with Client(url) as client:
        client.create_stream(VISITS)
        assert client.send_rows("visits", rows, size=2) == RowsTaken(3, 0, 0, 0, requests=2)
        assert client.show_estimate("visits", "DE").value == 2.0


def lose_answers(monkeypatch: pytest.MonkeyPatch, number: int) -> list[str]:
    """Have the answers to the first requests arrive nowhere; the keys that are sent from now on."""
    keys: list[str] = []

    def note(request: httpx.Request) -> bool:
        keys.append(request.headers.get("idempotency-key", ""))
        return len(keys) <= number

    plain, plain_async = httpx.HTTPTransport.handle_request, httpx.AsyncHTTPTransport.handle_async_request

    def handle(self: httpx.HTTPTransport, request: httpx.Request) -> httpx.Response:
        is_lost, response = note(request), plain(self, request)
        if is_lost:
            response.close()
            raise httpx.ReadError("lost")
        return response

    async def handle_async(self: httpx.AsyncHTTPTransport, request: httpx.Request) -> httpx.Response:
        is_lost, response = note(request), await plain_async(self, request)
        if is_lost:
            await response.aclose()
            raise httpx.ReadError("lost")
        return response

    monkeypatch.setattr(httpx.HTTPTransport, "handle_request", handle)
    monkeypatch.setattr(httpx.AsyncHTTPTransport, "handle_async_request", handle_async)
    return keys


def test_rows_whose_answer_was_lost_count_once(client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    keys = lose_answers(monkeypatch, 3)
    assert client.send_rows("visits", ROWS, size=2) == RowsTaken(3, 0, 0, 0, requests=2, replayed=1)
    assert len(set(keys[:4])) == 1
    assert keys[4] == f"{keys[0]}.1"
    assert client.show_stream("visits").t == 3


def test_an_error_has_the_key_with_which_the_rows_count_once(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with Client(url, patience=200.0, timeout=200.0) as client:
        client.create_stream(VISITS)
        client.send_rows("visits", ROWS[:1], key="first")
        with monkeypatch.context() as broken:
            lose_answers(broken, 10**9)
            broken.setattr(calls, "_draw_pause", lambda _outcome, _tries: 1e9)  # its patience ends with the first try
            with pytest.raises(ServiceError, match="may have been carried out") as error:
                client.send_rows("visits", ROWS, size=2)
        assert error.value.is_uncertain
        again = client.send_rows("visits", ROWS, size=2, key=error.value.key)
        assert again == RowsTaken(3, 0, 0, 0, requests=2, replayed=1)
        assert client.show_stream("visits").t == 4
        with pytest.raises(ServiceError, match="another body") as error:
            client.send_rows("visits", ROWS[1:], key="first")
        assert (error.value.status, error.value.is_uncertain) == (409, False)


def test_events_arrive(client: Any) -> None:
    def send() -> None:
        with Client(url_of(client)) as other:
            other.send_rows("visits", ROWS)

    events, sender = client.listen(), threading.Timer(0.3, send)
    sender.start()
    event = next(each for each in events if each.kind == "commit")
    join(sender)
    assert (event.facts["stream"], event.facts["taken"]) == ("visits", 3)
    events.close()


def url_of(client: Any) -> str:
    inner: Client | AsyncClient = client if isinstance(client, Client) else client._client
    return inner._settings.where


def test_nothing_listens() -> None:
    with Client("http://127.0.0.1:9", patience=0.2) as client:
        with pytest.raises(ServiceError, match=r"cannot be reached .*nothing of this request was carried out") as error:
            client.send_rows("visits", ROWS)
        assert (error.value.status, error.value.is_uncertain, bool(error.value.key)) == (None, False, True)
        with pytest.raises(ServiceError, match="cannot be reached"):
            next(iter(client.listen()))


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([{"spent": float("nan")}], "no form"),
        ([{"spent": {1, 2}}], "no form"),
        (["canary"], "a row is a str"),
        ("canary", "not rows"),
        ({"spent": 1}, "not rows"),
        (7, "not rows"),
    ],
)
def test_rows_that_are_none_are_refused_without_their_values(rows: Any, words: str) -> None:
    with Client("http://127.0.0.1:9") as client, pytest.raises(ParameterError, match=words) as error:
        client.send_rows("visits", rows)
    assert "canary" not in str(error.value)
    assert "nan" not in str(error.value)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"url": "streams.example"}, "not of the form"),
        ({"url": "https://user:canary@streams.example"}, "not of the form"),
        ({"url": "http://streams.example", "token": "canary"}, "in clear"),
        ({"url": "https://streams.example", "token": "can ary"}, "is not a token"),
        ({"url": "https://streams.example", "ca": "/nowhere/ca.pem"}, "cannot be read"),
        ({"url": "https://streams.example", "patience": 0.0}, "patience=0.0"),
        ({"url": "https://streams.example", "timeout": float("nan")}, "timeout=nan"),
        ({}, "VESTIGE_URL"),
    ],
)
def test_settings_that_cannot_be_used_are_refused(
    settings: dict[str, Any], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("VESTIGE_URL", raising=False)
    for kind in (Client, AsyncClient):
        with pytest.raises(ParameterError, match=words) as error:
            kind(**settings)
        assert "canary" not in str(error.value)


def test_address_and_token_come_from_the_environment(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VESTIGE_URL", url)
    monkeypatch.setenv("VESTIGE_TOKEN", "secret")
    with Client() as client:
        assert client.check_health() == "ok"
        assert client._http.headers["authorization"] == "Bearer secret"
        assert "secret" not in repr(client)


def test_the_client_needs_neither_the_service_nor_kernels() -> None:
    program = (
        "import sys, vestige.client; "
        "print(*{'numba', 'scipy', 'pyarrow', 'fastapi', 'starlette', 'vestige.service'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == ""
