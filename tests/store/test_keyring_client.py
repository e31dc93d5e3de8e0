"""The client of a keyring server: whom it trusts, what it says, and how it goes on after kills and losses."""

from __future__ import annotations

import socket
import ssl
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from limits import join
from store.served import HOST, Nursery, Served, host_server, make_certificate, make_key
from vestige.errors import MissingExtraError, ParameterError, StoreError
from vestige.store.keyring import KeyringFile, open_keyring, protocol
from vestige.store.keyring.client import KeyringClient
from vestige.store.keyring.keyring import MARKER


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server for tests that neither stop it nor care what it holds."""
    with Served(tmp_path_factory.mktemp("shared")) as started:
        yield started


@pytest.fixture(scope="module")
def nursery() -> Iterator[Nursery]:
    with Nursery() as started:
        yield started


@pytest.fixture
def served(tmp_path: Path, nursery: Nursery) -> Iterator[Served]:
    with Served(tmp_path, nursery) as started:
        yield started


# Whom a client trusts.


def test_a_certificate_that_is_not_trusted(shared: Served, tmp_path: Path) -> None:
    other = make_certificate(tmp_path / "other.pem")
    for ca in (other, None):
        with pytest.raises(
            StoreError, match=r"its certificate is not trusted .self-signed certificate.*VESTIGE_KEYRING_CA"
        ):
            KeyringClient(shared.address, token=shared.writer, ca=ca)


def test_a_certificate_of_another_host(tmp_path: Path) -> None:
    served = Served(tmp_path)
    make_certificate(served.certificate, "127.0.0.2")
    with served, pytest.raises(StoreError, match=r"not trusted \(IP address mismatch.*or use the name that it has"):
        served.connect()


def test_an_untrusted_server_does_not_see_the_token(tmp_path: Path) -> None:
    """Nothing is decrypted at the other end: the handshake is refused first."""
    seen = list[bytes]()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(make_certificate(tmp_path / "impostor.pem"))
    with socket.create_server((HOST, 0)) as listening:

        def accept() -> None:
            with listening.accept()[0] as raw, suppress(OSError), context.wrap_socket(raw, server_side=True) as peer:
                seen.append(peer.recv(1_000))

        thread = threading.Thread(target=accept, daemon=True)
        thread.start()
        with pytest.raises(StoreError, match="not trusted"):
            KeyringClient(
                f"https://{HOST}:{listening.getsockname()[1]}",
                token="x" * 43,
                ca=make_certificate(tmp_path / "trusted.pem"),
            )
        join(thread)
    assert b"".join(seen) == b""


@contextmanager
def answering(status: int, headers: dict[str, str], body: bytes = b"") -> Iterator[str]:
    """A server of something else, in clear; its address."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            for name, value in ({"content-length": str(len(body))} | headers).items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with HTTPServer((HOST, 0), Handler) as http:
        thread = threading.Thread(target=http.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        try:
            yield f"http://{HOST}:{http.server_port}"
        finally:
            http.shutdown()
            join(thread)


@pytest.mark.parametrize(
    ("status", "headers", "message"),
    [
        (200, {}, r"is not a keyring server \(it answers with status 200\); check the address"),
        (404, {"location": "/"}, r"is not a keyring server \(it answers with status 404\)"),
        (
            404,
            {"vestige-keyring": "2"},
            "speaks version '2' of the protocol, and this Vestige speaks version 1; use the",
        ),
        (200, {"vestige-keyring": "1"}, "the answer is not that of a keyring server"),
        (503, {}, "has too much to do; try again later"),
        (302, {"location": "https://elsewhere.example"}, r"is not a keyring server \(it answers with status 302\)"),
    ],
)
def test_another_server_than_one_for_keyrings(status: int, headers: dict[str, str], message: str) -> None:
    with answering(status, headers, b"hello") as address, pytest.raises(StoreError, match=message):
        KeyringClient(address, token="x" * 43, patience=0.1)
    with answering(status, headers) as address, pytest.raises(StoreError, match="does not speak TLS as this host does"):
        KeyringClient(address.replace("http", "https"), token="x" * 43)


def test_a_server_that_cannot_be_reached() -> None:
    with socket.create_server((HOST, 0)) as listening:
        port = listening.getsockname()[1]
    start = time.monotonic()
    with pytest.raises(StoreError, match=r"cannot be reached \(Connection refused\); start it, or check the address"):
        KeyringClient(f"https://{HOST}:{port}", token="x" * 43, patience=0.3)
    assert time.monotonic() - start < 5.0
    with pytest.raises(StoreError, match=r"cannot be reached \(Name or service not known|Temporary failure"):
        KeyringClient("https://nowhere.invalid", token="x" * 43, patience=0.0)


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("http://keys.example.org:1", "http://keys.example.org:1: keys would cross the network in clear; use https://"),
        ("http://127.0.0.1.example.org", "in clear"),
        ("http://keys.example.org", "in clear"),
        ("https://", "not of the form https://HOST:PORT"),
        ("https://\udc80keys.example.org", "not of the form https://HOST:PORT"),
        ("https://user:hidden@host", "not of the form"),
        ("https://host/hidden", "not of the form"),
        ("https://host?hidden", "not of the form"),
        ("https://host:hidden", "not of the form"),
        ("HTTPS://host#hidden", "not of the form"),
        ("https://[::1", "not of the form"),
        ("ftp://hidden", "there is no scheme ftp://; give the path of a file, or https://HOST:PORT"),
        ("postgres+x://hidden", r"there is no scheme postgres\+x://; give"),
    ],
)
def test_addresses_that_are_refused(address: str, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VESTIGE_KEYRING_TOKEN", "x" * 43)
    with pytest.raises(ParameterError, match=message) as refused:
        open_keyring(address)
    assert "hidden" not in str(refused.value)


def test_where_the_token_comes_from(shared: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VESTIGE_KEYRING_CA", str(shared.certificate))
    with pytest.raises(ParameterError, match="wants a token; set VESTIGE_KEYRING_TOKEN, or VESTIGE_KEYRING_TOKEN_FILE"):
        open_keyring(shared.address)
    file = tmp_path / "token"
    monkeypatch.setenv("VESTIGE_KEYRING_TOKEN_FILE", str(file))
    with pytest.raises(ParameterError, match=r"TOKEN_FILE names cannot be read .No such file"):
        open_keyring(shared.address)
    file.write_text(f"{shared.writer}\n")
    assert open_keyring(shared.address).id == shared.file.id
    file.write_text("hidden\n\x00")
    with pytest.raises(
        ParameterError, match=r"^the file that VESTIGE_KEYRING_TOKEN_FILE names is not a token"
    ) as refused:
        open_keyring(shared.address)
    assert "hidden" not in str(refused.value)
    monkeypatch.setenv("VESTIGE_KEYRING_TOKEN", shared.reader)
    assert open_keyring(shared.address).id == shared.file.id
    for ca, message in ((tmp_path / "none", "No such file"), (file, "not a file of certificates in PEM")):
        with pytest.raises(ParameterError, match=message):
            KeyringClient(shared.address, ca=ca)


# Kills and losses.


def test_a_client_goes_on_after_a_kill(served: Served) -> None:
    client = served.connect()
    client.prepare({0: make_key(1)})
    served.stop()
    served.start()
    client.settle({0: 1})
    served.stop()
    restart = threading.Timer(0.5, served.start)
    restart.start()
    client.prepare({0: make_key(2)})  # while nobody listens
    join(restart)
    client.settle({0: 2})
    assert [key.version for key in client.read().find(0)] == [2]
    assert served.file.verify() == ()
    client.close()


def test_another_keyring_is_noticed(served: Served, tmp_path: Path) -> None:
    other = KeyringFile(tmp_path / "other", create=True)
    client = served.connect()
    client.read()
    served.stop()
    served.start(other.path)
    before = other.path.read_bytes()
    for use in (client.read, lambda: client.prepare({0: make_key(1)}), lambda: client.settle({0: 0})):
        with pytest.raises(StoreError, match=f"serves another keyring than when it was opened .{served.file.name}"):
            use()
    assert other.path.read_bytes() == before
    client.close()


class Relay:
    """A relay to a server in clear, which may lose answers; or the first byte of them, and all that comes after.

    Attributes:
        lost: number of answers that are lost from now on.
        seen: number of answers that were not.
    """

    def __init__(self, port: int) -> None:
        self.lost = self.seen = 0
        self.delay = 0.0
        self._port = port
        self._listening = socket.create_server((HOST, 0))
        self.address = f"http://{HOST}:{self._listening.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self._listening.accept()
                far = socket.create_connection((HOST, self._port))
                threading.Thread(target=self._send, args=(near, far), daemon=True).start()
                threading.Thread(target=self._answer, args=(near, far), daemon=True).start()

    def _send(self, near: socket.socket, far: socket.socket) -> None:
        with suppress(OSError):
            while data := near.recv(65_536):
                far.sendall(data)

    def _answer(self, near: socket.socket, far: socket.socket) -> None:
        with near, far, suppress(OSError):
            while data := far.recv(65_536):
                if self.lost:
                    self.lost -= 1
                    time.sleep(self.delay)
                    near.shutdown(socket.SHUT_RDWR)
                    return
                self.seen += 1
                near.sendall(data)


@pytest.fixture
def relay(tmp_path: Path) -> Iterator[tuple[Relay, Served]]:
    """A server in clear, and a relay to it."""
    served = Served(tmp_path)
    with host_server(served.file, served.tokens) as port:
        found = Relay(port)
        yield found, served
        found.close()


def test_a_change_whose_answer_is_lost_is_made_once(relay: tuple[Relay, Served]) -> None:
    between, served = relay
    client = KeyringClient(between.address, token=served.writer)
    for version in (1, 2, 3):
        between.lost = 2
        client.prepare({5: make_key(version), MARKER: make_key(version)})
        assert between.lost == 0
        between.lost = 1
        client.settle({5: version, MARKER: version})
    assert served.file.read().find(5) == (make_key(3),)
    assert served.file.verify() == ()
    client.close()


@pytest.mark.parametrize("change", ["prepare", "settle"])
def test_it_says_when_it_is_not_known_whether_a_change_was_made(relay: tuple[Relay, Served], change: str) -> None:
    """The change was made, and the client cannot know; what it does next is refused until it has read."""
    between, served = relay
    client = KeyringClient(between.address, token=served.writer, patience=0.2)
    client.prepare({MARKER: make_key(1)})
    client.settle({MARKER: 1})
    if change == "settle":
        client.prepare({MARKER: make_key(2)})
    between.lost = 1_000
    with pytest.raises(
        StoreError, match=r"cannot be reached \(the connection was closed.*is not known: the next trans"
    ):
        client.prepare({MARKER: make_key(2)}) if change == "prepare" else client.settle({MARKER: 2})
    between.lost = 0
    assert served.file.read().find(MARKER) == ((make_key(1), make_key(2)) if change == "prepare" else (make_key(2),))
    if change == "prepare":
        with pytest.raises(StoreError, match="was used by another process since this one has read it"):
            client.settle({MARKER: 1})
    assert client.read().newest == 2
    client.settle({MARKER: 1} if change == "prepare" else {MARKER: 2})
    assert served.file.verify() == ()
    client.close()


def test_reads_that_are_lost_say_nothing_of_changes(relay: tuple[Relay, Served]) -> None:
    between, served = relay
    client = KeyringClient(between.address, token=served.writer, patience=0.1)
    between.lost = 1_000
    with pytest.raises(StoreError, match="cannot be reached") as lost:
        client.read()
    assert "not known" not in str(lost.value)
    client.close()


def test_a_server_that_does_not_answer(relay: tuple[Relay, Served]) -> None:
    between, served = relay
    client = KeyringClient(between.address, token=served.writer, timeout=1.0, patience=0.1)
    client.read()
    between.lost, between.delay = 1_000, 5.0
    with pytest.raises(StoreError, match=r"cannot be reached \(no answer in time\).*is not known"):
        client.prepare({5: make_key(1)})
    assert between.lost == 999, "it was not tried again once patience was over"
    client.close()


def test_a_change_that_is_too_large_is_not_sent(shared: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    client = shared.connect()
    monkeypatch.setattr(protocol, "BODY_LIMIT", 100)
    with pytest.raises(StoreError, match=r"a change of 144 bytes is longer than the 100 .*nothing was changed"):
        client.prepare({slot: make_key(1) for slot in range(2)})
    client.close()


def test_missing_extras_say_how_to_install_them(monkeypatch: pytest.MonkeyPatch) -> None:
    for library, module in (("httpx", "client"), ("starlette.applications", "server"), ("uvicorn", "listener")):
        with monkeypatch.context() as patched:
            patched.setitem(sys.modules, library, None)
            patched.delitem(sys.modules, f"vestige.store.keyring.{module}")
            with pytest.raises(MissingExtraError, match=r"needs the 'serve' extra.*pip install 'vestige\[serve\]'"):
                __import__(f"vestige.store.keyring.{module}")
    with monkeypatch.context() as patched:
        patched.setitem(sys.modules, "httpx", None)
        patched.delitem(sys.modules, "vestige.store.keyring.client")
        with pytest.raises(MissingExtraError, match=r"pip install 'vestige\[serve\]'"):
            open_keyring("https://keys.example.org")


def test_a_settlement_spares_keys_that_are_not_older(served: Served) -> None:
    client = served.connect()
    client.prepare({0: make_key(5), 3: make_key(5)})
    client.prepare({0: make_key(7), 3: make_key(9)})
    client.settle({0: 6, 3: 6}, before=7)
    assert [[key.version for key in client.read().find(slot)] for slot in (0, 3)] == [[7], [9]]
    client.close()
