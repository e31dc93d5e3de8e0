"""Tokens and scopes over HTTP: who may do what, and from when on no more."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from itertools import count
from pathlib import Path

import pytest
from click.testing import CliRunner
from httpx import Client
from served import serve_here

from vestige.cli import command
from vestige.service.problems import RefusalError
from vestige.service.rates import Rates
from vestige.store.tokens import SERVICE, create_token, revoke_token

VISITS = {"name": "visits", "columns": ["spent"], "retention": 96}
ROUTES = {
    ("GET", "/v1/streams"): "read",
    ("POST", "/v1/streams"): "admin",
    ("GET", "/v1/streams/visits"): "read",
    ("DELETE", "/v1/streams/nothing"): "admin",
    ("POST", "/v1/streams/visits/rows"): "ingest",
    ("GET", "/v1/streams/visits/estimates"): "read",
    ("GET", "/v1/streams/visits/estimate"): "read",
    ("DELETE", "/v1/streams/nothing/key"): "erase",
    ("GET", "/v1/streams/visits/records"): "audit",
    ("POST", "/v1/removals"): "erase",
    ("GET", "/v1/receipts"): "read erase audit",
    ("POST", "/v1/sweep"): "erase",
    ("POST", "/v1/verify"): "audit",
    ("GET", "/metrics"): "read",
}
PUBLIC = ("/", "/health", "/ready", "/docs", "/openapi.json", "/static/main.js")


@pytest.fixture(scope="module")
def tokens(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("tokens") / "visits.tokens"


@pytest.fixture(scope="module")
def made(tokens: Path) -> dict[str, str]:
    return {scope: create_token(tokens, scope, scope, kind=SERVICE) for scope in SERVICE.scopes}


@pytest.fixture(scope="module")
def client(tokens: Path, made: dict[str, str]) -> Iterator[Client]:
    with serve_here("memory:", tokens=tokens) as client:
        assert client.post("/v1/streams", json=VISITS, headers=use(made["admin"])).status_code == 201
        yield client


def use(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


@pytest.mark.parametrize(("method", "path"), ROUTES)
def test_each_route_needs_a_token_of_its_scope(client: Client, made: dict[str, str], method: str, path: str) -> None:
    for wrong in ({}, use("x" * 43), {"Authorization": f"Basic {made['admin']}"}, {"Authorization": "Bearer"}):
        answer = client.request(method, path, headers=wrong)
        assert answer.status_code == 401
        assert answer.headers["www-authenticate"] == "Bearer"
    allowed = {*ROUTES[method, path].split(), "admin"}
    for scope, token in made.items():
        assert (client.request(method, path, headers=use(token)).status_code == 403) == (scope not in allowed), scope


def test_public_paths_need_none_and_all_others_do(client: Client) -> None:
    for path in PUBLIC:
        assert client.get(path).status_code == 200
    for path in ("/v1/events", "/v1/nothing", "/nothing", "/static", "/docs/"):
        assert client.get(path).status_code == 401
    listed = {(m.upper(), p) for p, each in client.get("/openapi.json").json()["paths"].items() for m in each}
    routes = {(m, p.replace("visits", "{name}").replace("nothing", "{name}")) for m, p in ROUTES}
    assert listed == routes | {("GET", "/health"), ("GET", "/ready"), ("GET", "/v1/events")}


def test_a_revoked_token_is_refused_at_once_also_where_it_listens(client: Client, tokens: Path) -> None:
    token = create_token(tokens, "short", "read", "ingest", kind=SERVICE)
    assert client.get("/v1/streams", headers=use(token)).status_code == 200
    with client.stream("GET", "/v1/events", headers=use(token)) as events:
        lines = events.iter_lines()
        assert next(lines) == ": connected"
        revoke_token(tokens, "short", kind=SERVICE)
        assert client.get("/v1/streams", headers=use(token)).status_code == 401
        admin = create_token(tokens, "other", "admin", kind=SERVICE)
        client.post("/v1/streams/visits/rows", json=[{"spent": 1}], headers=use(admin) | {"Idempotency-Key": "a"})
        assert [line for line in lines if line] == []


def test_without_its_file_nobody_is_let_in(tmp_path: Path) -> None:
    file = tmp_path / "tokens"
    token = create_token(file, "a", "admin", kind=SERVICE)
    with serve_here("memory:", tokens=file) as client:
        assert client.get("/v1/streams", headers=use(token)).status_code == 200
        file.chmod(0o622)
        assert client.get("/v1/streams", headers=use(token)).status_code == 503
        file.unlink()
        assert client.get("/v1/streams", headers=use(token)).status_code == 503


def test_who_may_only_erase_is_not_told_who_is_held(client: Client, made: dict[str, str]) -> None:
    body = {"subjects": ["ada"]}
    told = {
        scope: client.post("/v1/removals", json=body, headers=use(made[scope])).json()["unknown"]
        for scope in ("erase", "admin")
    }
    assert told == {"erase": None, "admin": [0]}


def test_a_token_may_make_so_many_requests() -> None:
    with serve_here("memory:", rate=3.0) as client:
        answers = [client.get("/v1/streams") for _ in range(8)]
        refused = [answer for answer in answers if answer.status_code == 429]
        assert len(refused) >= 4
        assert refused[0].headers["retry-after"] == "1"
        assert client.get("/health").status_code == 200


def test_over_any_time_no_more_than_the_rate_and_one_bucket() -> None:
    now = count()
    rates = Rates(10.0, lambda: next(now) / 100)
    taken = 0
    for _ in range(1_000):
        with suppress(RefusalError):
            rates.count("a")
            taken += 1
    assert taken == pytest.approx(10 + 10 * 9.99, abs=1)


def run(*words: object) -> tuple[int, str, str]:
    done = CliRunner().invoke(command, [str(word) for word in words], prog_name="vestige")
    return done.exit_code, done.stdout, done.stderr


def test_the_command_for_tokens(tmp_path: Path) -> None:
    file = tmp_path / "visits.tokens"
    status, token, said = run("token", file, "--add", "a", "--scope", "ingest", "--scope", "read")
    assert status == 0
    assert len(token.strip()) == 43
    assert token.strip() not in said + file.read_text()
    assert json.loads(run("token", file, "--json")[1])[0]["scope"] == "ingest,read"
    assert "ingest,read" in run("token", file)[1]
    assert "0 left" in run("token", file, "--revoke", "a")[1]
    assert "needs --scope" in run("token", file, "--add", "a")[2]
    assert "is not a file of tokens of a keyring" in run("keyring", "token", file)[2]
