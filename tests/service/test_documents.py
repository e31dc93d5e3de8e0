"""The OpenAPI document and the page that is written from it."""

from __future__ import annotations

import re
from typing import Any

import pytest
from served import serve_here

_PUBLIC = ("/health", "/ready")


@pytest.fixture(scope="module")
def client() -> Any:
    with serve_here("memory:") as made:
        yield made


def test_each_route_has_a_model_its_scopes_and_its_refusals(client: Any) -> None:
    document = client.get("/openapi.json").json()
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            content = operation["responses"]["200"]["content"]
            kind, body = next(iter(content.items()))
            assert len(content) == 1, (path, method)
            assert (kind != "application/json") or "$ref" in body["schema"], (path, method)
            assert path in _PUBLIC or (operation["x-scopes"] and operation["security"] == [{"token": []}])
            refused = {status: each for status, each in operation["responses"].items() if status >= "400"}
            assert {"403", "421"} <= {*refused}
            for status, each in refused.items():
                assert (path in _PUBLIC and status == "503") or [*each["content"]] == ["application/problem+json"]
    assert "HTTPValidationError" not in document["components"]["schemas"]
    kinds = document["paths"]["/v1/streams/{name}/rows"]["post"]["requestBody"]["content"]
    assert [*kinds] == ["application/json", "application/x-ndjson", "application/vnd.apache.arrow.stream"]


def test_the_page_names_every_route_and_loads_nothing_from_elsewhere(client: Any) -> None:
    text = client.get("/docs").text
    for path in client.get("/openapi.json").json()["paths"]:
        assert f"<code>{path}</code>" in text
    assert "<script" not in text
    assert text.count("<table>") == text.count("<thead><tr><th scope=col>") > 10
    assert not re.search(r"//|style=", text.replace("text/", ""))
    for target in re.findall(r"(?:href|src)=([\w./]+)", text):
        assert client.get(f"/{target}").status_code == 200
