"""What every request passes and every answer has; and errors that nobody has caught."""

from __future__ import annotations

import gzip
import select
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from httpx import Client
from served import serve_here

from vestige.service import engine, guard
from vestige.service.routes import streams
from vestige.store import listener
from vestige.store.tokens import SERVICE, create_token

CANARY = "canary-7391"
VISITS = {"name": "visits", "columns": ["spent"], "retention": 96}


@pytest.fixture
def client() -> Iterator[Client]:
    with serve_here("memory:") as made:
        assert made.post("/v1/streams", json=VISITS).status_code == 201
        yield made


def talk(client: Client, sent: bytes) -> bytes:
    with socket.create_connection((client.base_url.host, client.base_url.port or 0), timeout=10) as peer:
        peer.sendall(sent)
        got = b""
        while part := peer.recv(65_536):
            got += part
        return got


def make_head(length: object, more: str = "") -> bytes:
    return (
        "POST /v1/streams/visits/rows HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        f"Idempotency-Key: a\r\nContent-Length: {length}\r\n{more}\r\n"
    ).encode()


def test_an_error_that_nobody_caught_is_answered_and_logged_without_its_text(
    client: Client, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: Any) -> None:
        raise LookupError(CANARY)

    monkeypatch.setattr(streams, "read_body", fail)
    answer = client.post("/v1/streams/visits/rows", json=[{"spent": CANARY}], headers={"Idempotency-Key": "a"})
    assert (answer.status_code, answer.headers["content-type"]) == (500, "application/problem+json")
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    assert CANARY not in answer.text + caplog.text
    assert "LookupError at test_guard.py:" in caplog.text


def test_a_body_that_is_too_long_is_refused_before_it_is_sent_or_while_it_is(client: Client) -> None:
    assert b" 413 " in talk(client, make_head(guard.BODY + 1))
    assert b" 413 " in talk(client, make_head(10**14))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(guard, "BODY", 100_000)
        answer = client.post(
            "/v1/streams/visits/rows", content=iter([b"[" + b" " * 90_000] * 2), headers={"Idempotency-Key": "a"}
        )
        assert answer.status_code == 413
    assert client.post("/v1/removals", content=b" " * (guard.SMALL_BODY + 1)).status_code == 413


def test_bodies_that_are_held_together_have_a_limit(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "BODIES", 10)
    answer = client.post("/v1/streams/visits/rows", json=[{"spent": 1}], headers={"Idempotency-Key": "a"})
    assert (answer.status_code, answer.headers["retry-after"]) == (429, "1")
    monkeypatch.setattr(guard, "BODIES", 2_000)
    for i in range(100):
        answer = client.post("/v1/streams/visits/rows", json=[{"spent": 1}], headers={"Idempotency-Key": f"b{i}"})
        assert answer.status_code == 200


def test_one_token_holds_half_of_the_room_for_bodies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever sends bodies and does not end them leaves room for those of others."""
    monkeypatch.setattr(guard, "BODIES", 100_000)
    path = tmp_path / "tokens"
    slow, other = create_token(path, "slow", "ingest", kind=SERVICE), create_token(path, "other", "admin", kind=SERVICE)
    with serve_here("memory:", tokens=path) as client, ExitStack() as peers:
        client.headers["Authorization"] = f"Bearer {other}"
        assert client.post("/v1/streams", json=VISITS).status_code == 201
        address = (client.base_url.host, client.base_url.port or 0)
        sent = [peers.enter_context(socket.create_connection(address, timeout=10)) for _ in range(2)]
        for peer in sent:
            peer.sendall(make_head(45_000, f"Authorization: Bearer {slow}\r\n") + b" " * 40_000)
        refused, _, _ = select.select(sent, [], [], 10)
        assert refused
        assert all(b" 429 " in peer.recv(65_536) for peer in refused)
        rows = [{"spent": 1}] * 2_000
        answer = client.post("/v1/streams/visits/rows", json=rows, headers={"Idempotency-Key": "a"})
        assert answer.status_code == 200


def test_a_path_without_a_token_waits_for_no_body(client: Client) -> None:
    """Bodies that are not wanted took up the room of those that are, whoever sent them."""
    for path in ("/health", "/", "/static/app.js"):
        head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\nContent-Length: 9\r\n\r\n"
        assert b" 405 " in talk(client, head.encode())


@pytest.mark.parametrize(
    ("patched", "sent", "answered"),
    [((listener, "HEAD_SECONDS"), b"GET / HTTP/1.1\r\n", b""), ((guard, "BODY_SECONDS"), make_head(9), b" 408 ")],
)
def test_who_sends_nothing_more_is_cut_off(
    monkeypatch: pytest.MonkeyPatch, patched: tuple[object, str], sent: bytes, answered: bytes
) -> None:
    monkeypatch.setattr(*patched, 0.3)
    with serve_here("memory:") as client:
        assert answered in talk(client, sent)


@pytest.mark.parametrize(
    "sent",
    [
        CANARY.encode() + b"\r\n\r\n",
        f"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n{CANARY}\r\n\r\n".encode(),
        f"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\nX: {CANARY * 10_000}\r\n\r\n".encode(),
        make_head(CANARY),
        make_head(3, f"Content-Length: {len(CANARY)}\r\n") + CANARY.encode(),
        b"\x16\x03\x01" + CANARY.encode() + b"\r\n\r\n",
    ],
)
def test_what_is_not_http_is_refused_and_not_repeated(
    client: Client, caplog: pytest.LogCaptureFixture, sent: bytes
) -> None:
    got = talk(client, sent)
    assert b" 400 " in got or b" 431 " in got
    assert CANARY.encode() not in got
    assert CANARY not in caplog.text


@pytest.mark.parametrize("encoding", ["gzip", "GZIP", "br, gzip", "nonsense"])
def test_a_body_that_is_encoded_is_of_a_type_that_is_not_known(client: Client, encoding: str) -> None:
    headers = {"Idempotency-Key": "a", "Content-Encoding": encoding}
    content = gzip.compress(b'[{"spent": 1}]')
    answer = client.post("/v1/streams/visits/rows", content=content, headers=headers)
    assert (answer.status_code, answer.headers["accept-encoding"]) == (415, "identity")
    headers["Content-Encoding"] = "identity"
    assert client.post("/v1/streams/visits/rows", json=[{"spent": 1}], headers=headers).status_code == 200


@pytest.mark.parametrize(
    ("path", "content"),
    [
        ("/v1/removals", '{"subjects": ["ada"], "subjects": ["bob"]}'),
        ("/v1/streams", '{"name": "b", "columns": ["x"], "retention": 96, "retention": 9600}'),
        ("/v1/streams/visits/rows", '[{"spent": 1, "spent": 5}]'),
        ("/v1/streams/visits/rows", '{"rows": [{"spent": 1}], "rows": [{"spent": 5}]}'),
        ("/v1/streams/visits/rows", '{"rows": [{"spent": 1}], "\\u0072ows": [{"spent": 5}]}'),
    ],
)
def test_a_member_that_is_there_twice_is_refused(client: Client, path: str, content: str) -> None:
    headers = {"Idempotency-Key": "a", "Content-Type": "application/json"}
    answer = client.post(path, content=content, headers=headers)
    assert (answer.status_code, "twice" in answer.text or "two values" in answer.text) == (422, True)
    assert "ada" not in answer.text
    answer = client.post(path, content=content.replace("spent", "\\u0073pent"), headers=headers)
    assert answer.status_code == 422


def test_numbers_that_would_take_long_are_refused_before_they_are_read(client: Client) -> None:
    """A megabyte of numbers of 4,000 digits kept everybody waiting for a quarter of a second, and then for as long."""
    for path in ("/v1/removals", "/v1/streams"):
        answer = client.post(
            path, content=b'{"subjects": [-%s]}' % (b"9" * 400), headers={"Content-Type": "application/json"}
        )
        assert (answer.status_code, "more than 400 digits" in answer.text) == (422, True)
        answer = client.post(
            path, content=b'{"subjects": [%s]}' % (b"9" * 400), headers={"Content-Type": "application/json"}
        )
        assert (answer.status_code, "more than 400 digits" in answer.text) == (422, False)


def test_rows_of_lines_have_each_column_once(client: Client) -> None:
    headers = {"Idempotency-Key": "a", "Content-Type": "application/x-ndjson"}
    answer = client.post("/v1/streams/visits/rows", content='{"spent": 1, "spent": 5}', headers=headers)
    assert answer.status_code == 422


def test_hosts_and_origins(client: Client) -> None:
    host = f"{client.base_url.host}:{client.base_url.port}"
    for headers, status in (
        ({"Host": "evil.example"}, 421),
        ({"Host": ""}, 421),
        ({"Origin": "null"}, 403),
        ({"Origin": "https://evil.example"}, 403),
        ({"Origin": f"http://{host}.evil.example"}, 403),
        ({"Origin": f"http://{host}"}, 200),
    ):
        assert client.get("/health", headers=headers).status_code == status, headers


def test_a_queue_that_is_full_asks_to_come_back(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "WAITING", 0)
    answer = client.post("/v1/streams/visits/rows", json=[{"spent": 1}], headers={"Idempotency-Key": "a"})
    assert (answer.status_code, answer.headers["retry-after"]) == (429, "1")
    monkeypatch.undo()
    answer = client.post("/v1/streams/visits/rows", json=[{"spent": 1}], headers={"Idempotency-Key": "a"})
    assert answer.json()["taken"] == 1
