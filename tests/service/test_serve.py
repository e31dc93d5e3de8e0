"""The command: what it refuses, that it says where it listens, and that it ends as it should."""

from __future__ import annotations

import json
import os
import signal
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from click.testing import CliRunner

from postgres import Database
from store.served import Served
from vestige import open_store
from vestige.cli import command
from vestige.client import Client
from vestige.errors import ServiceError
from vestige.store.keyring import KeyringFile
from vestige.store.tokens import SERVICE, create_token

VISITS = {"name": "visits", "columns": ["spent"], "by": "country", "retention": 96, "seed": 0}
ROWS = [{"spent": i, "country": "DE"} for i in range(10)]


@contextmanager
def start(*words: object, verify: str | bool = True) -> Iterator[tuple[httpx.Client, subprocess.Popen[str]]]:
    """A service in a process of its own, and a client for it; the process is gone at the end."""
    line = [sys.executable, "-m", "vestige", "serve", *map(str, words), "--port", "0"]
    with subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ) as process:
        limit = threading.Timer(100, process.kill)
        limit.start()
        try:
            assert process.stdout is not None
            said = process.stdout.readline()
            assert " at http" in said, process.communicate()
            context = ssl.create_default_context(cafile=str(verify)) if verify is not True else True
            address = said.strip().rpartition(" at ")[2]
            with httpx.Client(base_url=address, timeout=60, verify=context) as client:
                yield client, process
        finally:
            process.kill()
            limit.cancel()


def send(client: httpx.Client, key: str, rows: list[dict[str, Any]] = ROWS) -> httpx.Response:
    return client.post("/v1/streams/visits/rows", json=rows, headers={"Idempotency-Key": key})


def run(*words: object) -> tuple[int, str]:
    done = CliRunner().invoke(command, ["serve", *map(str, words)], prog_name="vestige")
    return done.exit_code, " ".join(done.stderr.split())


def test_what_it_refuses(tmp_path: Path) -> None:
    store, tokens = tmp_path / "visits.db", tmp_path / "visits.tokens"
    create_token(tokens, "a", "admin", kind=SERVICE)
    for words, said in (
        ((store,), "give either --tokens FILE, or --open"),
        ((store, "--open", "--tokens", tokens), "give either --tokens FILE, or --open"),
        ((store, "--open", "--host", "0.0.0.0"), "without tokens it serves this host alone"),  # noqa: S104
        ((store, "--tokens", tokens, "--host", "0.0.0.0"), "would cross the network in clear"),  # noqa: S104
        ((store, "--tokens", tokens, "--private-key", tokens), "--private-key belongs to --certificate"),
        ((store, "--tokens", tokens, "--certificate", tokens), "not a certificate and its private key"),
        ((store, "--tokens", tokens, "--certificate", tokens, "--behind-proxy"), "give one"),
        ((store, "--tokens", tmp_path / "none"), "make it: vestige token"),
        ((store, "--open", "--host", "nowhere.invalid"), "is not an address of this host"),
    ):
        assert (run(*words)[0], said in run(*words)[1]) == (2, True), run(*words)
    assert not store.exists()


def test_it_answers_what_it_has_begun_and_then_ends(tmp_path: Path) -> None:
    store = tmp_path / "visits.db"
    with start(store, "--open") as (client, process):
        assert client.post("/v1/streams", json=VISITS).status_code == 201
        assert send(client, "first").status_code == 200
        with client.stream("GET", "/v1/events") as events, ThreadPoolExecutor(8) as pool:
            waiting = [pool.submit(send, client, f"k{i}") for i in range(40)]
            time.sleep(0.05)
            process.send_signal(signal.SIGTERM)
            assert process.wait(timeout=9) == -signal.SIGTERM  # before those who listen are cut off
            taken = 10 + sum(10 for each in waiting if each.exception() is None and each.result().status_code == 200)
            assert events.is_closed or list(events.iter_lines())
        assert process.stderr is not None
        assert process.stderr.read() == ""
    with open_store(store) as opened:
        state = opened.read_stream("visits/DE")
        assert state is not None
        assert state[1].clock.t >= taken
        assert (state[1].clock.t - taken) % 10 == 0  # what was written and could not be answered any more
        assert opened.verify() == ()


def test_it_listens_over_tls_and_asks_for_tokens(tmp_path: Path) -> None:
    served = Served(tmp_path)
    tokens = tmp_path / "service.tokens"
    token = create_token(tokens, "a", "admin", kind=SERVICE)
    words = (tmp_path / "other.db", "--tokens", tokens, "--certificate", served.certificate)
    with start(*words, verify=str(served.certificate)) as (client, _):
        assert client.get("/v1/streams").status_code == 401
        assert client.get("/v1/streams", headers={"Authorization": f"Bearer {token}"}).status_code == 200
        url = str(client.base_url)
        with Client(url, token=token, ca=served.certificate) as ours:
            assert ours.list_streams() == ()
        with Client(url, token=f"{token[:-1]}-", ca=served.certificate) as ours:
            with pytest.raises(ServiceError) as refused:
                ours.list_streams()
            assert (refused.value.status, token in str(refused.value)) == (401, False)
        with Client(url, token=token) as ours, pytest.raises(ServiceError, match="is not trusted") as refused:
            ours.list_streams()
        assert refused.value.status is None


@pytest.mark.parametrize("kind", ["memory", "sealed", "postgresql"])
def test_it_serves_every_kind_of_store(kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    words: list[object] = ["memory:"]
    if kind == "sealed":
        KeyringFile(tmp_path / "visits.keyring", create=True)
        words = [tmp_path / "visits.db", "--keyring", tmp_path / "visits.keyring"]
    if kind == "postgresql":
        database: Database = request.getfixturevalue("database")
        words = [database.address, "--keyring", database.keyring]
    with start(*words, "--open") as (client, _):
        assert client.post("/v1/streams", json=VISITS).status_code == 201
        assert send(client, "a").json()["taken"] == 10
        assert client.get("/v1/streams/visits/estimate", params={"key": "DE"}).json()["answers"][0]["value"] == 4.5
        assert client.post("/v1/removals", json={"subjects": ["ada"], "now": True}).json()["receipts"][0]["erased"]
        assert client.post("/v1/verify").json()["ok"]


def test_limits_in_time_hold_while_nothing_arrives(tmp_path: Path) -> None:
    store = tmp_path / "visits.db"
    visits = VISITS | {"retention": None, "max_age": "4s", "time": "at"}
    with start(store, "--open") as (client, _):
        assert client.post("/v1/streams", json=visits).status_code == 201
        at = (datetime.now(UTC) - timedelta(seconds=1)).isoformat()
        assert send(client, "a", [row | {"at": at} for row in ROWS]).json()["taken"] == 10
        assert client.get("/v1/streams/visits").json()["held"] > 0
        end = time.monotonic() + 20
        while client.get("/v1/streams/visits").json()["held"]:
            assert time.monotonic() < end
            time.sleep(0.2)
        assert "vestige_swept_records_total 10.0" in client.get("/metrics").text
        assert client.post("/v1/verify").json() == {"ok": True, "findings": []}
        assert json.loads(client.get("/v1/streams/visits").text)["t"] == 10
