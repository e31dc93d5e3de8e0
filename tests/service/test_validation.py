"""Sentences about what is wrong with a request never have what was sent."""

from __future__ import annotations

from typing import Any

import pytest
from httpx import Client
from pydantic import ValidationError
from served import serve_here

from vestige.service import models
from vestige.service.validation import explain

CANARY = "canary-7391"


@pytest.fixture(scope="module")
def client() -> Any:
    with serve_here("memory:") as made:
        yield made


@pytest.mark.parametrize(
    "value", [CANARY, [CANARY], {CANARY: CANARY}, [[CANARY]], True, -1, float("inf"), None, {}, [{}], ""]
)
@pytest.mark.parametrize("member", [*models.Definition.model_fields, CANARY])
def test_no_member_of_a_definition_is_repeated(member: str, value: object) -> None:
    try:
        models.Definition.model_validate({"name": "a", member: value})
    except ValidationError as problem:
        refusal = explain(problem.errors())
        assert CANARY not in refusal.detail
        assert refusal.status == 422


@pytest.mark.parametrize(
    ("path", "said"),
    [
        (f"/v1/receipts?limit={CANARY}", "query limit: Input should be a valid integer"),
        (f"/v1/receipts?after={CANARY}", "query after: String should match pattern"),
        ("/v1/receipts?limit=0", "query limit: Input should be greater than or equal to 1"),
        (f"/v1/streams/a/records?values={CANARY}", "query values: Input should be a valid boolean"),
    ],
)
def test_parameters_are_named_and_not_repeated(client: Client, path: str, said: str) -> None:
    detail = client.get(path).json()["detail"]
    assert said in detail
    assert CANARY not in detail


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (CANARY, "not JSON"),
        (f'"{CANARY}"', "body: it is not of its kind"),
        (f'{{"name": "a", "{CANARY}": 1}}', "body: it has a member that is not known"),
        ('{"columns": ["a"]}', "body name: Field required"),
        ("[" * 100_000, ""),
        ("9" * 10_000, ""),
        (b"\xff\xfe" + CANARY.encode(), ""),
        (f'{{"name": "\\ud800{CANARY}"}}', "body name"),
    ],
)
def test_bodies_are_not_repeated(client: Client, content: str | bytes, said: str) -> None:
    answer = client.post("/v1/streams", content=content, headers={"Content-Type": "application/json"})
    assert answer.status_code in (400, 422)
    assert answer.headers["content-type"] == "application/problem+json"
    assert said in answer.json()["detail"]
    assert CANARY not in answer.text
