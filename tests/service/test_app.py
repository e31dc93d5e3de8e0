"""The service over HTTP, in a thread of this process: each route, and what it refuses."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from io import BytesIO
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from httpx import Client
from served import serve_here

from vestige.service.engine import Engine

CANARY = "canary-7391"
ROWS = [{"spent": 1, "country": "DE"}, {"spent": 3, "country": "DE"}, {"spent": 5, "country": "FR"}]
VISITS = {"name": "visits", "columns": ["spent"], "by": "country", "retention": 96, "seed": 0}


@pytest.fixture
def client(tmp_path: Path) -> Iterator[Client]:
    with serve_here(tmp_path / "visits.db") as made:
        assert made.post("/v1/streams", json=VISITS).status_code == 201
        yield made


def send(client: Client, content: bytes, kind: str, key: str = "a") -> Any:
    headers = {"Content-Type": kind, "Idempotency-Key": key}
    return client.post("/v1/streams/visits/rows", content=content, headers=headers)


def pack_arrow(rows: list[dict[str, object]]) -> bytes:
    table, out = pa.Table.from_pylist(rows), BytesIO()
    with pa.ipc.new_stream(out, table.schema) as writer:
        writer.write_table(table)
    return out.getvalue()


BODIES = {
    "application/json": json.dumps(ROWS).encode(),
    "application/json; charset=utf-8": json.dumps({"rows": ROWS}).encode(),
    "application/x-ndjson": "\n".join(map(json.dumps, ROWS)).encode(),
    "application/vnd.apache.arrow.stream": pack_arrow([dict(row) for row in ROWS]),
}


def test_a_value_that_does_not_fit_is_told_by_its_row_in_the_body_and_its_column(client: Client) -> None:
    rows = [{"country": "DE", "spent": None}, {"country": "DE", "spent": 2}, {"country": None, "spent": 3}]
    answer = send(client, json.dumps([*rows, {"country": "DE", "spent": 1e305}]).encode(), "application/json")
    assert answer.json()["detail"] == (
        "row 4, column 'spent', is missing, infinite or beyond 1e+300 in magnitude; drop or fill such records; nothing "
        "was taken"
    )


@pytest.mark.parametrize("name", ["a/b", "/", ".", ".."])
def test_a_name_to_which_no_path_leads_is_refused(client: Client, name: str) -> None:
    assert client.post("/v1/streams", json=VISITS | {"name": name}).status_code == 422
    assert [each["name"] for each in client.get("/v1/streams").json()["streams"]] == ["visits"]


@pytest.mark.parametrize("kind", BODIES)
def test_rows_of_each_kind_are_taken_and_answered(client: Client, kind: str) -> None:
    answer = send(client, BODIES[kind], kind)
    assert answer.json() == {"taken": 3, "late": 0, "skipped": 0, "failed": 0, "replayed": False, "absent": []}
    assert send(client, BODIES[kind], kind).json()["replayed"]
    page = client.get("/v1/streams/visits/estimates", params={"limit": 1}).json()
    assert (page["total"], page["next"], page["estimates"][0]["key"]) == (2, "DE", "DE")
    assert page["estimates"][0]["answers"][0] == {
        "quantity": "spent",
        "value": 2.0,
        "standard_error": None,
        "lower": None,
        "upper": None,
    }
    rest = client.get("/v1/streams/visits/estimates", params={"after": "DE"}).json()
    assert [each["key"] for each in rest["estimates"]] == ["FR"]
    assert client.get("/v1/streams/visits/estimate", params={"key": "FR"}).json()["answers"][0]["value"] == 5.0
    shown = client.get("/v1/streams/visits").json()
    assert (shown["keys"], shown["t"], shown["held"]) == (2, 3, 3)


def test_a_restarted_service_goes_on_from_its_store(tmp_path: Path) -> None:
    single = {"name": "all", "columns": ["spent"], "retention": 96}
    with serve_here(tmp_path / "visits.db") as client:
        for definition in (VISITS, single):
            client.post("/v1/streams", json=definition)
            client.post(f"/v1/streams/{definition['name']}/rows", json=ROWS, headers={"Idempotency-Key": "a"})
    with serve_here(tmp_path / "visits.db") as client:
        assert [each["name"] for each in client.get("/v1/streams").json()["streams"]] == ["all", "visits"]
        assert client.post("/v1/streams", json=single).status_code == 200
        answer = client.post("/v1/streams/all/rows", json=ROWS, headers={"Idempotency-Key": "b"})
        assert answer.json()["taken"] == 3
        assert client.get("/v1/streams/all/estimate").json()["t"] == 6


def test_state_and_removal_of_one_key_and_of_all(client: Client) -> None:
    send(client, BODIES["application/json"], "application/json")
    shown = client.get("/v1/streams/visits/records", params={"key": "DE"}).json()
    assert shown["rounds"] == [1, 2]
    assert "values" not in shown
    shown = client.get("/v1/streams/visits/records", params={"key": "DE", "values": True}).json()
    assert shown["values"] == [[1.0], [3.0]]
    assert client.delete("/v1/streams/visits/key", params={"key": "DE"}).json() == {"removed": 1}
    assert client.delete("/v1/streams/visits/key", params={"key": "DE"}).status_code == 404
    assert client.delete("/v1/streams/visits").json() == {"removed": 1}
    assert client.get("/v1/streams/visits").status_code == 404


@pytest.mark.parametrize(
    ("content", "kind", "status"),
    [
        (f'[{{"spent": "{CANARY}", "country": "DE"}}]', "application/json", 422),
        (f'[{{"spent": 1, "country": "{CANARY}"', "application/json", 422),
        (f'["{CANARY}"]', "application/json", 422),
        (f'{{"spent": "{CANARY}"}}', "application/x-ndjson", 422),
        (f"{CANARY}", "application/x-ndjson", 422),
        (f"{CANARY}", "application/vnd.apache.arrow.stream", 422),
        (f"{CANARY}", f"text/{CANARY}", 415),
        (f'[{{"spent": 1e999, "country": "{CANARY}"}}]', "application/json", 422),
    ],
)
def test_rows_that_cannot_be_read_are_refused_without_their_values(
    client: Client, caplog: pytest.LogCaptureFixture, content: str, kind: str, status: int
) -> None:
    answer = send(client, content.encode(), kind)
    assert (answer.status_code, answer.headers["content-type"]) == (status, "application/problem+json")
    assert CANARY not in answer.text + caplog.text
    assert client.get("/v1/streams/visits").json()["t"] == 0


def test_a_request_that_is_sent_again_with_its_type_spelled_otherwise_is_the_same(client: Client) -> None:
    content = json.dumps(ROWS).encode()
    for number, kind in enumerate(("application/json", "application/json; charset=utf-8", "Application/JSON")):
        answer = send(client, content, kind)
        assert (answer.status_code, answer.json()["replayed"]) == (200, number > 0)
    assert send(client, content, "application/x-ndjson").status_code == 422
    assert client.get("/v1/streams/visits").json()["t"] == 3


def test_a_key_is_given_where_a_stream_has_keys_and_only_there(client: Client) -> None:
    client.post("/v1/streams", json={"name": "all", "columns": ["spent"], "retention": 96})
    client.post("/v1/streams/all/rows", json=ROWS, headers={"Idempotency-Key": "a"})
    for path in ("estimate", "records"):
        refused = client.get(f"/v1/streams/visits/{path}")
        assert (refused.status_code, "key is missing" in refused.json()["detail"]) == (422, True)
        refused = client.get(f"/v1/streams/all/{path}", params={"key": CANARY})
        assert (refused.status_code, "has no keys" in refused.json()["detail"]) == (422, True)
        assert CANARY not in refused.text
        assert client.get(f"/v1/streams/all/{path}").status_code == 200
    assert client.get("/v1/streams/visits/estimate", params={"key": "XX"}).status_code == 404


def test_definitions_that_are_not_valid_or_not_the_same_are_refused(client: Client) -> None:
    assert client.post("/v1/streams", json=VISITS).status_code == 200
    assert client.post("/v1/streams", json=VISITS | {"retention": 128}).status_code == 409
    answer = client.post("/v1/streams", json={"name": "b", "columns": ["spent"]})
    assert answer.status_code == 422
    assert "give retention 512" in answer.json()["detail"]
    assert client.post("/v1/streams", json={"name": "b", "retention": ["many"]}).status_code == 422
    for wrong in ([CANARY], CANARY):
        answer = client.post("/v1/streams", json=wrong)
        assert (answer.status_code, CANARY in answer.text) == (422, False)


@pytest.mark.parametrize("key", [None, "x" * 256, "a b"])
def test_a_key_that_is_not_one_is_refused(client: Client, key: str | None) -> None:
    headers = {} if key is None else {"Idempotency-Key": key}
    answer = client.post("/v1/streams/visits/rows", json=ROWS, headers=headers)
    assert answer.status_code == 422
    assert "idempotency-key" in answer.json()["detail"]


def test_other_hosts_and_origins_are_refused_and_each_answer_has_a_content_policy(client: Client) -> None:
    assert client.get("/health", headers={"Host": "evil.example"}).status_code == 421
    assert client.get("/health", headers={"Origin": "https://evil.example"}).status_code == 403
    assert client.get("/health", headers={"Origin": str(client.base_url).rstrip("/")}).json() == {"status": "ok"}
    for path in ("/", "/health", "/v1/streams", "/nowhere", "/static/main.js"):
        assert "default-src 'none'" in client.get(path).headers["content-security-policy"]


def test_others_are_answered_while_a_commit_takes_long(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    began, may_end, take = threading.Event(), threading.Event(), Engine._take_all

    def take_slowly(*args: Any) -> Any:
        began.set()
        assert may_end.wait(20.0)
        return take(*args)

    monkeypatch.setattr(Engine, "_take_all", take_slowly)
    with ThreadPoolExecutor(2) as pool:
        try:
            first = pool.submit(send, client, BODIES["application/json"], "application/json", "a")
            assert began.wait(10.0)
            second = pool.submit(send, client, BODIES["application/json"], "application/json", "b")
            time.sleep(0.2)
            assert client.get("/health", timeout=5.0).is_success
        finally:
            may_end.set()
        assert first.result().json()["taken"] == second.result().json()["taken"] == 3
