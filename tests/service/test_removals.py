"""Removal requests, receipts, sweeps and verification over HTTP."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from httpx import Client
from served import serve_here

from vestige.store.inspection import inspect_tables
from vestige.store.sqlite import verify

VISITS = {"name": "visits", "columns": ["spent"], "by": "country", "subject": "email", "retention": 96, "seed": 0}
ADA, BOB = "ada@example.org", "bob@example.org"
ROWS = [{"spent": i, "country": "DE" if i % 2 else "FR", "email": ADA if i < 3 else BOB} for i in range(6)]


@pytest.fixture
def client(tmp_path: Path) -> Iterator[Client]:
    with serve_here(tmp_path / "visits.db") as made:
        assert made.post("/v1/streams", json=VISITS).status_code == 201
        assert send(made, ROWS)["taken"] == 6
        yield made


def send(client: Client, rows: list[dict[str, Any]], key: str = "a") -> Any:
    return client.post("/v1/streams/visits/rows", json=rows, headers={"Idempotency-Key": key}).json()


def count_held(client: Client) -> int:
    held: int = client.get("/v1/streams/visits").json()["held"]
    return held


def test_people_leave_at_once_or_with_the_next_update(client: Client) -> None:
    answer = client.post("/v1/removals", json={"subjects": [ADA, "eve"], "now": True, "reference": "T-1"}).json()
    assert [each["reference"] for each in answer["receipts"]] == ["T-1", "T-1"]
    assert all(each["erased"] for each in answer["receipts"])
    assert (answer["unknown"], answer["restarted"], answer["troubles"]) == ([1], 0, 0)
    assert count_held(client) == 3
    answer = client.post("/v1/removals", json={"subjects": [BOB]}).json()
    assert (answer["receipts"][0]["erased"], count_held(client)) == (None, 3)
    assert ADA not in str(client.get("/v1/receipts").json())


def test_a_removal_that_is_sent_again_has_the_same_receipts(client: Client) -> None:
    body, headers = {"subjects": [ADA], "references": ["T-1"]}, {"Idempotency-Key": "r-1"}
    first, again = (client.post("/v1/removals", json=body, headers=headers).json() for _ in range(2))
    assert first["receipts"] == again["receipts"]
    assert client.get("/v1/receipts").json()["total"] == 1


@pytest.mark.parametrize("other", [{"subjects": [BOB]}, {"now": True}, {"references": ["T-2"]}])
def test_another_removal_with_the_same_key_is_carried_out_and_has_its_own_receipt(
    client: Client, other: dict[str, Any]
) -> None:
    body, headers = {"subjects": [ADA], "references": ["T-1"]}, {"Idempotency-Key": "r-1"}
    first = client.post("/v1/removals", json=body, headers=headers).json()
    second = client.post("/v1/removals", json=body | other, headers=headers).json()
    assert first["receipts"][0]["id"] != second["receipts"][0]["id"]
    assert second["unknown"] == []
    assert bool(second["receipts"][0]["erased"]) == ("now" in other)
    assert client.get("/v1/receipts").json()["total"] == 2


def test_receipts_are_paged(client: Client) -> None:
    made = client.post("/v1/removals", json={"subjects": [f"p{i}" for i in range(5)], "now": True}).json()["receipts"]
    seen: list[Any] = []
    after = None
    while True:
        page = client.get("/v1/receipts", params={"limit": 2} | ({"after": after} if after else {})).json()
        assert page["total"] == 5
        seen += page["receipts"]
        after = page["next"]
        if after is None:
            break
    assert sorted(each["id"] for each in seen) == sorted(each["id"] for each in made)
    newest = client.get("/v1/receipts", params={"newest": True, "limit": 3}).json()
    assert (newest["receipts"], newest["next"]) == (seen[:1:-1], seen[2]["id"])
    assert client.get("/v1/receipts", params={"after": "0" * 16}).status_code == 404


@pytest.mark.parametrize(
    "body",
    [
        {"subjects": []},
        {"subjects": [""]},
        {"subjects": ADA},
        {"subjects": [ADA], "reference": "T-1", "references": ["T-1"]},
        {"subjects": [ADA], "references": ["T-1", "T-2"]},
        {"subjects": [ADA], "reference": f"of {ADA}"},
        {"subjects": [ADA], "people": [ADA]},
        {"subjects": [ADA], ADA: 1},
        {"subjects": [ADA], "now": ADA},
        {"subjects": ["\ud800", ADA]},
    ],
)
def test_requests_that_are_not_valid_are_refused_without_their_subjects(client: Client, body: dict[str, Any]) -> None:
    answer = client.post("/v1/removals", content=json.dumps(body), headers={"Content-Type": "application/json"})
    assert answer.status_code == 422
    assert ADA not in answer.text
    assert client.get("/v1/receipts").json()["total"] == 0


def test_whoever_is_in_a_row_can_be_named(client: Client) -> None:
    long = 200_000 * "x"
    assert send(client, [{"spent": 1, "country": "DE", "email": long}], "b")["taken"] == 1
    answer = client.post("/v1/removals", json={"subjects": [long], "now": True}).json()
    assert answer["unknown"] == []
    assert count_held(client) == 6


def test_a_sweep_and_a_verification(client: Client) -> None:
    done = client.post("/v1/sweep", params={"dry_run": True}).json()
    assert (done["dry_run"], done["erased"], done["tidy"]) == (True, 0, False)
    assert client.post("/v1/sweep").json()["tidy"]
    assert client.post("/v1/verify").json() == {"ok": True, "findings": []}


def test_rows_are_taken_while_the_store_is_verified(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, goes_on, found = threading.Event(), threading.Event(), list[Any]()
    inspect = inspect_tables

    def wait(*arguments: Any) -> Iterator[str]:
        begun.set()
        assert goes_on.wait(30)
        return inspect(*arguments)

    monkeypatch.setattr(verify, "inspect_tables", wait)
    verifying = threading.Thread(target=lambda: found.append(client.post("/v1/verify").json()))
    verifying.start()
    try:
        assert begun.wait(30)
        assert send(client, ROWS, "b")["taken"] == 6
        assert client.get("/v1/streams/visits").json()["t"] == 12
    finally:
        goes_on.set()
        verifying.join(30)
    assert found == [{"ok": True, "findings": []}]
