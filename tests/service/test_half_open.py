"""A client that opens connections and sends nothing keeps nobody from being answered."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx
import pytest
from served import serve_here

from store.served import HOST, Served
from vestige.service import listener as limits
from vestige.store import listener

VISITS = {"name": "visits", "columns": ["spent"], "retention": 96}


@contextmanager
def open_half(port: int, number: int, sent: bytes, source: str) -> Iterator[list[socket.socket]]:
    """Connections on which the head of a request does not end."""
    with ExitStack() as stack:
        made = []
        for _ in range(number):
            peer = socket.create_connection(("127.0.0.1", port), timeout=30, source_address=(source, 0))
            made.append(stack.enter_context(peer))
            peer.sendall(sent)
        yield made


@pytest.mark.parametrize("source", ["127.0.0.1", "127.0.0.2"])
@pytest.mark.parametrize("sent", [b"", b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\nX: "])
def test_half_open_connections_keep_nobody_from_being_answered(source: str, sent: bytes, tmp_path: Path) -> None:
    with serve_here(tmp_path / "visits.db") as client:
        assert client.post("/v1/streams", json=VISITS).status_code == 201
        port = client.base_url.port
        assert port is not None
        with open_half(port, 1_100, sent, source) as peers:
            for number in range(5):
                assert httpx.get(f"http://127.0.0.1:{port}/health", timeout=5.0).json() == {"status": "ok"}
                headers = {"Idempotency-Key": str(number)}
                answer = client.post("/v1/streams/visits/rows", json=[{"spent": 1}], headers=headers)
                assert answer.status_code == 200
            left = 0
            for peer in peers:
                peer.setblocking(False)
                try:
                    peer.recv(1)
                except BlockingIOError:
                    left += 1
                except ConnectionError:
                    pass
            assert limits.CLIENT_CONNECTIONS - 10 <= left <= limits.CLIENT_CONNECTIONS


def test_a_client_all_of_whose_connections_are_busy_is_refused_and_others_are_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(limits, "CLIENT_CONNECTIONS", 5)
    head = b"POST /v1/sweep HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 9\r\n"
    head += b"Expect: 100-continue\r\n\r\n"
    with serve_here("memory:") as client:
        port = client.base_url.port
        assert port is not None
        with open_half(port, 5, head, "127.0.0.2") as busy:
            assert all(peer.recv(100).startswith(b"HTTP/1.1 100 ") for peer in busy)
            with open_half(port, 1, b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", "127.0.0.2") as refused:
                assert refused[0].recv(100).startswith(b"HTTP/1.1 503 ")
            assert client.get("/health").status_code == 200


def test_a_head_that_follows_an_answer_has_as_much_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener, "HEAD_SECONDS", 0.3)
    request = b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    with serve_here("memory:") as client:
        address = (client.base_url.host, client.base_url.port or 0)
        with socket.create_connection(address, timeout=10) as peer:
            peer.sendall(request)
            answer = b""
            while not answer.endswith(b"}"):
                answer += peer.recv(10_000)
            peer.sendall(request[:20])
            assert peer.recv(10_000) == b""


def test_the_beginning_of_tls_has_as_much_time_too(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(listener, "HEAD_SECONDS", 0.5)
    served = Served(tmp_path)
    context = listener.load_certificate(served.certificate, None)
    with serve_here("memory:", context=context) as client:
        address = (client.base_url.host, client.base_url.port or 0)
        with socket.create_connection(address, timeout=10) as peer:
            assert peer.recv(10) == b""
        trust = ssl.create_default_context(cafile=served.certificate)
        assert httpx.get(f"https://{HOST}:{address[1]}/health", verify=trust, trust_env=False).status_code == 200
