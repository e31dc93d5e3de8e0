"""A keyring over TLS: the same as the file, for those who may, through kills, floods and nonsense."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import socket
import ssl
import struct
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx
import numpy as np
import pytest
from click.testing import CliRunner
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from limits import join
from postgres import Database
from store.served import HOST, Nursery, Served, host_server, make_key
from vestige import Mean, SqliteStore, Stream, open_store
from vestige.cli import command
from vestige.errors import StoreError
from vestige.store import listener as shared_listener
from vestige.store.keyring import Key, KeyringFile, listener, protocol, server
from vestige.store.keyring.client import KeyringClient
from vestige.store.keyring.keyring import MARKER, SLOTS, compute_mark
from vestige.store.tokens import create_token, revoke_token

CANARY = b"CANARY-7f3a"


@pytest.fixture(scope="module")
def nursery() -> Iterator[Nursery]:
    with Nursery() as started:
        yield started


@pytest.fixture
def served(tmp_path: Path, nursery: Nursery) -> Iterator[Served]:
    with Served(tmp_path, nursery) as started:
        yield started


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server for tests that neither stop it nor care what it holds."""
    with Served(tmp_path_factory.mktemp("shared")) as started:
        yield started


@contextmanager
def connected(served: Served, token: str | None = None, **options: float) -> Iterator[KeyringClient]:
    client = served.connect(token, **options)
    try:
        yield client
    finally:
        client.close()


# The same as the file.


def test_a_round_trip_is_that_of_the_file(served: Served, tmp_path: Path) -> None:
    rng, file = random.Random(0), KeyringFile(tmp_path / "alone", create=True)  # noqa: S311
    client = served.connect()
    assert client.id == served.file.id
    newest, after = 0, 0
    for _ in range(30):
        slots = [*rng.sample(range(2, 20 * SLOTS), 12), MARKER]
        keys = {slot: make_key(newest + i) for i, slot in enumerate(slots, 1)}
        newest += len(keys)
        versions = {slot: key.version if slot == MARKER or rng.random() < 0.8 else 0 for slot, key in keys.items()}
        for change in ("prepare", "settle"):
            for keyring in (client, file):
                getattr(keyring, change)(keys if change == "prepare" else versions)
            assert served.file.path.read_bytes()[4096:] == file.path.read_bytes()[4096:]
            got, expected = client.read(after), file.read(after)
            assert (got.is_open, got.is_used) == (expected.is_open, expected.is_used)
            assert [page.content for page in got.list_pages()] == [page.content for page in expected.list_pages()]
        after = newest if rng.random() < 0.5 else 0
    assert client.verify() == ()
    served.file.path.chmod(0o640)
    (found,) = client.verify()
    assert found.startswith(f"{served.address}: {served.file.path}: others than its owner may use it")
    client.close()


def test_a_store_is_sealed_over_the_network(served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Through a restart: the second half is written with the connections of before."""
    monkeypatch.setenv("VESTIGE_KEYRING_TOKEN", served.writer)
    monkeypatch.setenv("VESTIGE_KEYRING_CA", str(served.certificate))
    rows = np.random.default_rng(0).normal(size=400)
    with SqliteStore(tmp_path / "s.db", keyring=served.address) as store:
        stream = Stream(Mean(), retention=96, seed=0, store=store.stream("a"))
        stream.extend(rows[:200])
        served.stop()
        served.start()
        stream.extend(rows[200:])
    alone = Stream(Mean(), retention=96, seed=0)
    for half in (rows[:200], rows[200:]):
        alone.extend(half)
    with SqliteStore(tmp_path / "s.db", keyring=served.file) as store:
        again = Stream(Mean(), retention=96, seed=0, store=store.stream("a"))
        assert again.estimate().value == alone.estimate().value
        assert again.t == alone.t == 400
        assert store.verify() == ()


def test_hosts_share_a_store_in_postgres(served: Served, database: Database) -> None:
    """Two that write at the same time, each with a connection of its own, while the server is killed and restarted."""

    def write(name: str) -> float:
        rows = np.random.default_rng(len(name)).normal(size=600)
        with connected(served) as client, open_store(database.address, keyring=client) as store:
            stream = Stream(Mean(), retention=96, seed=0, store=store.stream(name))
            for part in np.split(rows, 6):
                barrier.wait(60.0)
                stream.extend(part)
        return float(rows.mean())

    barrier = threading.Barrier(3)
    with ThreadPoolExecutor(2) as pool:
        means = pool.map(write, ("a", "bb"))
        for _ in range(6):
            barrier.wait(60.0)
            served.stop()
            served.start()
        expected = dict(zip(("a", "bb"), means, strict=True))
    with open_store(database.address, keyring=served.file) as store:
        for name, mean in expected.items():
            stream = Stream(Mean(), retention=96, seed=0, store=store.stream(name))
            assert stream.t == 600
            assert stream.estimate().value == pytest.approx(mean, abs=0.05)
        assert store.verify() == ()


def test_pages_that_take_many_chunks_arrive_whole(served: Served) -> None:
    keys = {slot: make_key(slot + 1) for slot in range(0, 700 * SLOTS, SLOTS)}
    with connected(served) as client:
        client.prepare(keys)
        table = client.read()
    assert len(table.list_pages()) == 700
    assert all(table.find(slot) == (key,) for slot, key in keys.items())


def test_it_is_not_destroyed_over_the_network(shared: Served) -> None:
    with connected(shared) as client, pytest.raises(StoreError, match="run vestige keyring destroy where its file is"):
        client.destroy()
    for path in ("/v1/destroy", "/v1/keyring"):
        for method in ("POST", "DELETE"):
            assert ask(shared, method, path).status_code == 404


# Who may.


def ask(
    served: Served, method: str, path: str, *, token: str | None = None, content: bytes | None = None
) -> httpx.Response:
    context = ssl.create_default_context(cafile=served.certificate)
    headers = {"authorization": f"Bearer {token or served.writer}"}
    with httpx.Client(verify=context, trust_env=False) as http:
        return http.request(method, served.address + path, headers=headers, content=content)


PROTECTED = [("GET", "identity"), ("GET", "pages"), ("GET", "problems"), ("POST", "prepare"), ("POST", "settle")]


@pytest.mark.parametrize(("method", "name"), PROTECTED)
@pytest.mark.parametrize("credential", [None, "Bearer", f"Bearer {'x' * 43}", "Basic dTpw", "Bearer ä"])
def test_without_a_token_there_is_nothing(shared: Served, method: str, name: str, credential: str | None) -> None:
    context = ssl.create_default_context(cafile=shared.certificate)
    headers = {} if credential is None else {b"authorization": credential.encode()}
    with httpx.Client(verify=context, trust_env=False) as http:
        answer = http.request(method, f"{shared.address}/v1/{name}", headers=headers)
    assert answer.status_code == 401
    assert answer.text == "the token is missing, unknown or revoked"


def test_an_unknown_token_is_refused(shared: Served) -> None:
    with pytest.raises(StoreError, match=r"the token was refused: it is unknown or revoked; make one .*TOKEN"):
        shared.connect("x" * 43)


def test_a_token_to_read_does_not_write(served: Served) -> None:
    with connected(served) as client:
        client.prepare({0: make_key(1)})
    before = served.file.path.read_bytes()
    with connected(served, served.reader) as client:
        assert client.read().find(0)
        assert client.verify() == ()
        refused = "the token may only read; use one that was made with --scope write"
        with pytest.raises(StoreError, match=refused):
            client.prepare({1: make_key(2)})
        with pytest.raises(StoreError, match=refused):
            client.settle({0: 0})
    assert served.file.path.read_bytes() == before


def test_a_revoked_token_is_refused_at_once(served: Served) -> None:
    token = create_token(served.tokens, "short", "write")
    with connected(served, token) as client:
        client.read()
        revoke_token(served.tokens, "short")
        for use in (client.read, client.verify, lambda: client.prepare({0: make_key(1)})):
            with pytest.raises(StoreError, match="the token was refused"):
                use()
    assert served.file.read().find(0) == ()


def test_without_its_file_of_tokens_it_lets_nobody_in(served: Served) -> None:
    with connected(served) as client:
        served.tokens.rename(served.tokens.with_suffix(".away"))
        with pytest.raises(StoreError, match="there is no such file of tokens"):
            client.read()


def test_health_needs_no_token_and_says_nothing(served: Served) -> None:
    assert ask(served, "GET", "/v1/health", token="x").text == "the keyring can be read"  # noqa: S106
    served.file.path.rename(served.file.path.with_suffix(".away"))
    answer = ask(served, "GET", "/v1/health", token="x")  # noqa: S106
    assert (answer.status_code, answer.text) == (503, "the keyring cannot be read")


def test_a_stopped_server_finishes_what_is_under_way(served: Served) -> None:
    body = protocol.pack_keys(served.file.id, compute_mark(()), {3: make_key(1)})
    context = ssl.create_default_context(cafile=served.certificate)
    with socket.create_connection((HOST, served.port)) as raw, context.wrap_socket(raw, server_hostname=HOST) as peer:
        peer.sendall(make_head(served, body) + body[:30])
        time.sleep(0.2)
        stopped = ThreadPoolExecutor(1).submit(served.stop, signal.SIGTERM)
        time.sleep(0.3)
        peer.sendall(body[30:])
        assert peer.recv(1_000).startswith(b"HTTP/1.1 200 ")
    assert stopped.result() == -signal.SIGTERM
    assert served.file.read().find(3)


def make_head(served: Served, body: bytes, path: str = protocol.PREPARE) -> bytes:
    lines = [f"POST {path} HTTP/1.1", f"host: {HOST}", f"authorization: Bearer {served.writer}"]
    return "\r\n".join([*lines, f"content-length: {len(body)}", "", ""]).encode()


# Nonsense and floods.


def read_mark(served: Served) -> bytes:
    return compute_mark(served.file.read().find(MARKER))


def make_nonsense(served: Served) -> Iterator[tuple[str, str, bytes]]:
    """Requests that are not ones, each with something that must not come back."""
    rng, secret = random.Random(1), CANARY.ljust(32)  # noqa: S311
    basis = served.file.id + read_mark(served)
    for path in (protocol.PREPARE, protocol.SETTLE):
        for length in (0, 1, 47, 48, 49, 64, 95, 97, 500):
            yield "POST", path, (CANARY + rng.randbytes(length))[:length]
        yield "POST", path, basis + 2 * struct.pack("<QQ32s", 1, 1, secret)
        yield "POST", path, basis + struct.pack("<QQ32s", 1, 1 << 63, secret)
        yield "POST", path, basis + struct.pack("<QQ32s", 1 << 63, 1, secret)
        yield "POST", path, bytes(48) + struct.pack("<QQ32s", 1, 1, secret)
        yield "PUT", path, CANARY
    yield "POST", protocol.PREPARE, basis + struct.pack("<QQ32s", 1, 0, secret)
    for after in ("-1", "x", "1e3", "9" * 19, "9" * 5_000, "%00", "٣", "1&after=CANARY-7f3a", ""):
        yield "GET", f"{protocol.PAGES}?after={after}{CANARY.decode() if after else ''}", b""
    for path in (
        "/",
        "/v1",
        "/v1/",
        "/v2/pages",
        "/v1/pages/",
        "/v1//pages",
        "/%ff",
        "/" + "x" * 9_000,
    ):
        yield "GET", f"{path}?{CANARY.decode()}", b""


def test_nonsense_is_refused_and_not_repeated(served: Served) -> None:
    with connected(served) as client:
        client.prepare({0: make_key(1)})
        client.settle({0: 1})
    before, asked = served.file.path.read_bytes(), 0
    context = ssl.create_default_context(cafile=served.certificate)
    with httpx.Client(verify=context, trust_env=False, base_url=served.address) as http:
        for method, path, body in make_nonsense(served):
            answer = http.request(
                method, path, content=body, headers={"authorization": f"Bearer {served.writer}", "x": CANARY.decode()}
            )
            assert 400 <= answer.status_code < 500, (method, path, body, answer.text)
            assert CANARY not in answer.content + str(answer.headers).encode()
            asked += 1
    assert served.file.path.read_bytes() == before
    served.stop(signal.SIGTERM)
    log = served.log.read_text()
    assert log.count("\n") == asked + 4
    assert not re.search(f"CANARY|{served.writer}|Traceback|after|x{{9}}", log), log


def test_random_bodies_never_break_it(served: Served) -> None:
    """Bodies of the right length: whatever they say, they are carried out or refused, and the keyring stays whole."""
    rng = random.Random(2)  # noqa: S311
    context = ssl.create_default_context(cafile=served.certificate)
    headers = {"authorization": f"Bearer {served.writer}"}
    with httpx.Client(verify=context, trust_env=False, base_url=served.address, headers=headers) as http:
        for i in range(200):
            basis = served.file.id + read_mark(served)
            count, size = rng.randrange(4), 48 if i % 2 else 16
            small = b"".join(struct.pack("<Q", rng.randrange(40)) * 2 + rng.randbytes(size - 16) for _ in range(count))
            body = basis + (small if i % 3 else rng.randbytes(size * count))
            answer = http.post(protocol.PREPARE if i % 2 else protocol.SETTLE, content=body)
            assert answer.status_code in (200, 400, 409), answer.text
    assert [text for text in served.file.verify() if "damaged" in text] == []
    served.stop(signal.SIGTERM)
    assert "Traceback" not in served.log.read_text()


@pytest.mark.parametrize(
    "sent",
    [b"\x16\x03\x01", b"GET / HTTP/9.9\r\n\r\n", b"\x00" * 100, b"GET /\xff HTTP/1.1\r\nhost: x\r\n\r\n", b"\r\n" * 99],
)
def test_what_is_not_http_is_refused(shared: Served, sent: bytes) -> None:
    context = ssl.create_default_context(cafile=shared.certificate)
    with socket.create_connection((HOST, shared.port)) as raw, context.wrap_socket(raw, server_hostname=HOST) as peer:
        peer.settimeout(5.0)
        with suppress(OSError):
            peer.sendall(sent + b"x" * 70_000)
            assert re.match(rb"HTTP/1.1 4\d\d |$", peer.recv(1_000))
    assert ask(shared, "GET", protocol.PAGES).status_code == 200


def test_plain_http_is_not_answered(shared: Served) -> None:
    with pytest.raises(httpx.RemoteProtocolError), httpx.Client(trust_env=False) as http:
        http.get(f"http://{HOST}:{shared.port}{protocol.HEALTH}")


@pytest.mark.parametrize(("token", "status"), [("writer", b"413"), ("reader", b"403"), ("nobody", b"401")])
def test_a_body_that_is_too_long_is_refused_before_it_is_sent(shared: Served, token: str, status: bytes) -> None:
    context = ssl.create_default_context(cafile=shared.certificate)
    head = make_head(shared, b"").replace(b"content-length: 0", b"content-length: %d" % (protocol.BODY_LIMIT + 1))
    head = head.replace(shared.writer.encode(), getattr(shared, token, "x" * 43).encode())
    with socket.create_connection((HOST, shared.port)) as raw, context.wrap_socket(raw, server_hostname=HOST) as peer:
        peer.sendall(head)
        assert peer.recv(1_000).startswith(b"HTTP/1.1 " + status)


def test_a_body_without_a_length_is_refused(shared: Served) -> None:
    context = ssl.create_default_context(cafile=shared.certificate)
    with httpx.Client(verify=context, trust_env=False) as http:
        answer = http.post(
            shared.address + protocol.PREPARE,
            headers={"authorization": f"Bearer {shared.writer}"},
            content=iter([CANARY]),
        )
    assert answer.status_code == 411


@pytest.mark.parametrize(
    ("patched", "sent", "answered"),
    [
        ((shared_listener, "HEAD_SECONDS"), b"", b""),
        ((shared_listener, "HEAD_SECONDS"), b"GET /v1/health HTTP/1.1\r\nx: ", b""),
        ((server, "BODY_SECONDS"), None, b"HTTP/1.1 408 "),
    ],
)
def test_who_sends_nothing_more_is_cut_off(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    patched: tuple[object, str],
    sent: bytes | None,
    answered: bytes,
) -> None:
    """However slowly the head of a request drips in."""
    monkeypatch.setattr(*patched, 0.3)
    served = Served(tmp_path)
    with host_server(served.file, served.tokens) as port, socket.create_connection((HOST, port)) as peer:
        peer.settimeout(5.0)
        peer.sendall(make_head(served, bytes(72)) + bytes(10) if sent is None else sent)
        for _ in range(4 if sent else 0):
            time.sleep(0.06)
            peer.sendall(b"y")
        got = peer.recv(1_000)
        assert got.startswith(answered)
        assert got or not answered


def test_there_is_a_limit_of_connections(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener, "CONNECTIONS", 3)
    monkeypatch.setattr(shared_listener.Protocol, "is_waiting", False)  # else one of them would be closed
    served = Served(tmp_path)
    with host_server(served.file, served.tokens) as port:
        address = f"http://{HOST}:{port}"
        held = [KeyringClient(address, token=served.writer) for _ in range(2)]
        with pytest.raises(StoreError, match="has too much to do; try again later"):
            KeyringClient(address, token=served.writer, patience=0.2)
        held.pop().close()
        KeyringClient(address, token=served.writer).close()
        held.pop().close()


# Many at once, and kills.


def test_many_clients_lose_nothing(served: Served) -> None:
    """Eight that do not even hold the lock of a store: each is refused until the others are done."""
    refusals, end = list[str](), time.monotonic() + 60.0

    def work(number: int) -> dict[int, Key]:
        written = {}
        with connected(served) as client:
            for i in range(6):
                slot, is_done = 2 + number + 8 * i, False
                while not is_done:
                    newest = client.read(protocol.LARGEST).newest
                    keys = {slot: Key(newest + i, os.urandom(32)) for i, slot in enumerate((slot, MARKER), 1)}
                    assert time.monotonic() < end
                    with note_refusal(refusals):
                        client.prepare(keys)
                        is_done = True
                client.settle({slot: key.version for slot, key in keys.items()})
                written[slot] = keys[slot]
        return written

    served.file.prepare({MARKER: make_key(1)})
    served.file.settle({MARKER: 1})
    with ThreadPoolExecutor(8) as pool:
        done = list(pool.map(work, range(8)))
    table = served.file.read()
    for written in done:
        assert all(table.find(slot) == (key,) for slot, key in written.items())
    assert {key.version for written in done for key in written.values()} == set(range(2, 98, 2))
    assert refusals, "they did not meet"
    assert all(re.search("was used by another process since|not settled", text) for text in refusals)
    assert served.file.verify() == ()


def test_a_change_that_arrives_late_is_refused(served: Served) -> None:
    """One that was on its way for so long that another host has taken over the store and written."""
    with connected(served) as client:
        client.prepare({4: make_key(1), MARKER: make_key(2)})
        mark = read_mark(served)
        client.settle({4: 1, MARKER: 2})
        client.prepare({4: make_key(3), MARKER: make_key(4)})
        for path, late in (
            (protocol.SETTLE, protocol.pack_versions(served.file.id, mark, {4: 1, MARKER: 2})),
            (protocol.PREPARE, protocol.pack_keys(served.file.id, mark, {5: make_key(3)})),
        ):
            answer = ask(served, "POST", path, content=late)
            assert answer.status_code == 409
            assert "was used by another process since this one has read it" in answer.text
        client.settle({4: 3, MARKER: 4})
    assert served.file.read().find(4) == (make_key(3),)
    assert served.file.read().find(5) == ()


@contextmanager
def note_refusal(refusals: list[str]) -> Iterator[None]:
    try:
        yield
    except StoreError as problem:
        refusals.append(str(problem))


Held = dict[int, tuple[Key, ...]]


class Load:
    """Transactions until the server is gone: what was confirmed, and what may have been carried out besides."""

    def __init__(self, rng: random.Random) -> None:
        self.confirmed: Held = {}
        self.possible: Held = {}
        self.done = self.cut = 0
        self._rng = rng

    def run(self, client: KeyringClient) -> None:
        """Settle what was left, then write, until an error."""
        with suppress(StoreError):
            found = client.read()
            self.settle(client, {slot: max(found.find(slot), default=Key(0, b"")).version for slot in self.possible})
            newest = found.newest
            while True:
                slots = [*self._rng.sample(range(2, 40 * SLOTS), self._rng.randrange(1, 120)), MARKER]
                keys = {slot: make_key(newest + i) for i, slot in enumerate(slots, 1)}
                newest += len(keys)
                self.possible = {slot: (*self.confirmed.get(slot, ()), key) for slot, key in keys.items()}
                client.prepare(keys)
                self.confirm()
                kept = {slot for slot in keys if slot == MARKER or self._rng.random() < 0.9}
                self.settle(client, {slot: key.version if slot in kept else 0 for slot, key in keys.items()})

    def settle(self, client: KeyringClient, versions: dict[int, int]) -> None:
        before = {slot: self.confirmed.get(slot, ()) for slot in versions}
        self.possible = {slot: tuple(key for key in before[slot] if key.version == versions[slot]) for slot in versions}
        client.settle(versions)
        self.confirm()

    def confirm(self) -> None:
        self.confirmed |= self.possible
        self.possible = {}
        self.done += 1

    def check(self, file: KeyringFile) -> None:
        """Each slot holds what was confirmed, or what the change that was under way makes of it; nothing else."""
        table = file.read()
        held = {slot: table.find(slot) for slot in {*table.list_slots().tolist(), *self.confirmed, *self.possible}}
        changed = {slot for slot, keys in held.items() if keys != self.confirmed.get(slot, ())}
        missing = {slot for slot, keys in self.possible.items() if held[slot] != keys}
        assert all(held[slot] == self.possible.get(slot) for slot in changed)
        assert table.is_open or not changed or not missing, "what is cut off is known"
        assert not any(page.is_mended or page.find_damage() for page in table.list_pages())
        self.confirmed |= {slot: held[slot] for slot in self.possible}
        self.cut += bool(changed and missing)


def kill_many_times(tmp_path: Path, nursery: Nursery, times: int) -> None:
    rng = random.Random(3)  # noqa: S311
    load, under_way = Load(rng), 0
    with Served(tmp_path, nursery) as served:
        for _ in range(times):
            client = served.connect(patience=0.0)
            timer = threading.Timer(rng.uniform(0.0, 0.06), served.stop)
            timer.start()
            load.run(client)
            join(timer)
            client.close()
            under_way += bool(load.possible)
            load.check(served.file)
            served.start()
    assert load.done > times
    assert under_way > times / 4


def test_a_server_that_is_killed_has_what_it_has_confirmed(tmp_path: Path, nursery: Nursery) -> None:
    kill_many_times(tmp_path, nursery, 40)


def test_a_client_works_on_while_the_server_is_killed(tmp_path: Path, nursery: Nursery) -> None:
    """It is told of nothing: what was cut off is completed by the next try."""
    rng, end = random.Random(4), threading.Event()  # noqa: S311

    def work(served: Served) -> tuple[Held, int]:
        held, newest = Held(), 0
        with connected(served, patience=60.0) as client:
            while not end.is_set():
                slots = [*random.Random(newest).sample(range(2, 40 * SLOTS), 60), MARKER]  # noqa: S311
                keys = {slot: make_key(newest + i) for i, slot in enumerate(slots, 1)}
                newest += len(keys)
                client.prepare(keys)
                client.settle({slot: key.version for slot, key in keys.items()})
                held |= {slot: (key,) for slot, key in keys.items()}
        return held, newest // 61

    with Served(tmp_path, nursery) as started, ThreadPoolExecutor(1) as pool:
        written = pool.submit(work, started)
        for _ in range(20):
            time.sleep(rng.uniform(0.0, 0.3))
            started.stop()
            started.start()
        end.set()
        held, transactions = written.result()
    assert transactions > 20
    table = started.file.read()
    assert {slot: table.find(slot) for slot in table.list_slots().tolist()} == held


@pytest.mark.slow(40)
def test_a_server_that_is_killed_often_has_what_it_has_confirmed(tmp_path: Path, nursery: Nursery) -> None:
    kill_many_times(tmp_path, nursery, 500)


# The commands.


def vestige(*words: object) -> tuple[int, str, str]:
    done = CliRunner().invoke(command, [str(word) for word in words], prog_name="vestige")
    return done.exit_code, done.stdout, done.stderr


def test_the_command_for_tokens(tmp_path: Path) -> None:
    file = tmp_path / "tokens"
    status, token, said = vestige("keyring", "token", file, "--add", "host-1", "--scope", "read")
    assert status == 0
    assert re.fullmatch(r"[\w-]{43}\n", token)
    assert "shown this once" in said
    assert token.strip() not in said
    assert json.loads(vestige("keyring", "token", file, "--add", "b", "--json")[1])["scope"] == "write"
    listed = vestige("keyring", "token", file)[1]
    assert "host-1" in listed
    assert token.strip() not in listed
    assert [each["label"] for each in json.loads(vestige("keyring", "token", file, "--json")[1])] == ["host-1", "b"]
    assert vestige("keyring", "token", file, "--revoke", "b")[1].split()[-4:] == ["is", "revoked;", "1", "left."]
    assert vestige("keyring", "token", file, "--revoke", "b")[0] == 2
    for words in (("--add", "a", "--revoke", "b"), ("--scope", "read")):
        assert vestige("keyring", "token", file, *words)[0] == 2


def test_what_the_command_to_serve_refuses(tmp_path: Path) -> None:
    served = Served(tmp_path)
    file, tokens, certificate = served.file.path, served.tokens, served.certificate
    key = ec.generate_private_key(ec.SECP256R1())
    form = serialization.PrivateFormat.PKCS8, serialization.BestAvailableEncryption(b"x")
    (tmp_path / "closed.key").write_bytes(key.private_bytes(serialization.Encoding.PEM, *form))
    (tmp_path / "other.key").write_bytes(
        key.private_bytes(serialization.Encoding.PEM, form[0], serialization.NoEncryption())
    )
    cases = [
        ((file, "--tokens", tokens), "give --certificate, or --without-tls"),
        (
            (file, "--tokens", tokens, "--certificate", certificate, "--without-tls"),
            "give --certificate, or --without",
        ),
        ((file, "--tokens", tokens, "--private-key", certificate, "--without-tls"), "--private-key belongs to"),
        ((file, "--tokens", tokens, "--without-tls", "--host", "0.0.0.0"), "keys would cross the network in clear"),  # noqa: S104
        ((file, "--tokens", tokens, "--without-tls", "--host", "::"), "keys would cross the network in clear"),
        ((file, "--tokens", tokens, "--certificate", tokens), "not a certificate and its private key"),
        ((file, "--tokens", tokens, "--certificate", tmp_path / "none"), "cannot be read (No such file"),
        (
            (file, "--tokens", tokens, "--certificate", certificate, "--private-key", tmp_path / "other.key"),
            "belong to",
        ),
        (
            (file, "--tokens", tokens, "--certificate", certificate, "--private-key", tmp_path / "closed.key"),
            "passphrase",
        ),
        ((file, "--tokens", tmp_path / "none", "--certificate", certificate), "there is no such file of tokens"),
        ((tmp_path / "none", "--tokens", tokens, "--certificate", certificate), "there is no such keyring"),
        (
            (file, "--tokens", tokens, "--certificate", certificate, "--host", "nowhere.invalid"),
            "is not an address of",
        ),
    ]
    for words, message in cases:
        got = vestige("keyring", "serve", *words)
        assert got[0] == 2, got
        assert message in got[2]
    with socket.create_server((HOST, 0)) as taken:
        words = (file, "--tokens", tokens, "--without-tls", "--port", taken.getsockname()[1])
        assert (
            "cannot be listened on (Address already in use); use another port" in vestige("keyring", "serve", *words)[2]
        )
