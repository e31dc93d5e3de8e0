"""Numbers for Prometheus: what they count, and what they never name."""

from __future__ import annotations

import re

from httpx import Client
from prometheus_client.parser import text_string_to_metric_families
from served import serve_here

VISITS = {"name": "visits", "columns": ["spent"], "by": "country", "subject": "email", "retention": 48, "seed": 0}
CANARY = "canary-7391"


def read_metrics(client: Client) -> dict[tuple[str, str], float]:
    """All numbers, by name and the values of labels."""
    answer = client.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=")
    return {
        (sample.name, " ".join(sample.labels.values())): sample.value
        for family in text_string_to_metric_families(answer.text)
        for sample in family.samples
    }


def test_requests_rows_and_records_are_counted() -> None:
    rows = [{"spent": i, "country": "DE", "email": CANARY} for i in range(200)] + [{"country": "DE"}]
    with serve_here("memory:") as client:
        client.post("/v1/streams", json=VISITS)
        for _ in range(2):
            client.post("/v1/streams/visits/rows", json=rows, headers={"Idempotency-Key": "a"})
        client.get("/v1/streams/nothing")
        client.get(f"/{CANARY}")
        client.request(CANARY.upper(), "/")
        client.post("/v1/removals", json={"subjects": [CANARY]})
        found = read_metrics(client)
        shown = client.get("/v1/streams/visits").json()
        text = client.get("/metrics").text
    route = "/v1/streams/{name}/rows"
    assert found["vestige_requests_total", f"POST {route} 200"] == 2
    assert found["vestige_requests_total", "GET /v1/streams/{name} 404"] == 1
    assert found["vestige_request_seconds_count", route] == 2
    rows_of = {outcome: found["vestige_rows_total", outcome] for outcome in ("taken", "skipped", "replayed", "late")}
    assert rows_of == {"taken": 200, "skipped": 1, "replayed": 200, "late": 0}
    assert found["vestige_records_held", ""] == shown["held"]
    assert found["vestige_records_gone", ""] == 200 - shown["held"] > 0
    assert (found["vestige_up", ""], found["vestige_queue_length", ""], found["vestige_listeners", ""]) == (1, 0, 0)
    assert (found["vestige_removals_open", ""], found["vestige_removals_overdue", ""]) == (1, 0)
    assert not re.search(f"{CANARY}|visits|DE", text)


def test_a_stream_that_is_deleted_takes_its_records_out_of_gauges_only() -> None:
    with serve_here("memory:") as client:
        client.post("/v1/streams", json=VISITS)
        rows = [{"spent": i, "country": "DE"} for i in range(200)]
        client.post("/v1/streams/visits/rows", json=rows, headers={"Idempotency-Key": "a"})
        before = text_string_to_metric_families(client.get("/metrics").text)
        counted = {family.name: family for family in before}
        client.delete("/v1/streams/visits")
        for family in text_string_to_metric_families(client.get("/metrics").text):
            known = {(s.name, tuple(s.labels.items())): s.value for s in counted[family.name].samples}
            fell = [s.name for s in family.samples if s.value < known.get((s.name, tuple(s.labels.items())), 0.0)]
            assert family.type == "gauge" or not fell


def test_each_service_has_numbers_of_its_own() -> None:
    for _ in range(2):
        with serve_here("memory:") as client:
            client.get("/health")
            assert read_metrics(client)["vestige_requests_total", "GET /health 200"] == 1
