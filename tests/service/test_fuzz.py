"""Requests that were made from the OpenAPI document, and malformed ones: no failure, and nothing is repeated."""

from __future__ import annotations

import os
import random
import re
import subprocess
import sys
import threading
from collections import Counter
from itertools import islice
from pathlib import Path

import fuzz
import pytest
from httpx import Client
from served import serve_here

from vestige.store.tokens import SERVICE, create_token

MANY = 8_000


def test_a_few_hundred_requests(caplog: pytest.LogCaptureFixture) -> None:
    coins, outcome, packed = random.Random(0), fuzz.Outcome(), list[bytes]()  # noqa: S311
    with serve_here("memory:") as client:
        address = str(client.base_url)
        fuzz.fill(client)

        def use(case: fuzz.AnyCase) -> None:
            packed.append(fuzz.pack(case, address, "none"))
            response = case.call()
            outcome.add(response.status_code, response.content, f"{case.method} {case.path}")
            case.validate_response(response, checks=fuzz.CHECKS)

        fuzz.generate(fuzz.read_document(client), address, 6, use)
        made = [fuzz.change(each, coins) for each in packed if each]
        place = client.base_url.host, int(client.base_url.port or 0)
        changed = fuzz.send_all(place, iter(made), 4)
        fuzz.fill(client)
        assert client.get("/health").json() == {"status": "ok"}
    assert sum(outcome.statuses.values()) > 100
    assert {200, 404, 422} <= {*outcome.statuses}
    for each in (outcome, changed):
        assert (each.failures, each.leaks) == ([], [])
    assert not any(secret.decode() in caplog.text for secret in fuzz.SECRETS)


@pytest.mark.slow(60)
def test_many_malformed_requests(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tokens, coins, packed = tmp_path / "tokens", random.Random(1), list[bytes]()  # noqa: S311
    token = create_token(tokens, "all", *SERVICE.scopes, kind=SERVICE)
    line = [sys.executable, "-m", "vestige", "serve", str(tmp_path / "visits.db"), "--tokens", str(tokens)]
    with (
        (tmp_path / "log").open("w") as log,
        subprocess.Popen(
            [*line, "--port", "0", "--rate", "1000000"], stdout=subprocess.PIPE, stderr=log, text=True, env=os.environ
        ) as process,
    ):
        limit = threading.Timer(600, process.kill)
        limit.start()
        try:
            assert process.stdout is not None
            address = process.stdout.readline().strip().rpartition(" at ")[2]
            with Client(base_url=address, headers={"Authorization": f"Bearer {token}"}, timeout=60) as client:
                fuzz.fill(client)
                document = fuzz.read_document(client)
                fuzz.generate(document, address, 60, lambda case: packed.append(fuzz.pack(case, address, token)))
                kept = [each for each in packed if each]
                made = (fuzz.change(coins.choice(kept), coins) for _ in range(MANY))
                place = client.base_url.host, int(client.base_url.port or 0)
                outcome = fuzz.Outcome()
                while some := list(islice(made, 1_000)):
                    done = fuzz.send_all(place, iter(some), 48)  # most of them wait for an answer that does not come
                    outcome.statuses += done.statuses
                    outcome.leaks += done.leaks
                    outcome.failures += done.failures
                    fuzz.fill(client)
                assert client.get("/health").json() == {"status": "ok"}
                assert client.post("/v1/verify").json() == {"ok": True, "findings": []}
        finally:
            process.terminate()
            process.wait(timeout=60)
            limit.cancel()
    logged = (tmp_path / "log").read_text()
    lines = Counter(re.sub(r"^[-0-9:, ]+", "", each) for each in logged.splitlines())
    with capsys.disabled():
        print(f"\n{len(kept)} requests, changed {MANY:,} times: {dict(sorted(outcome.statuses.items()))}")
        print(f"the log: {dict(lines.most_common(5))}")
    assert (outcome.failures[:5], outcome.leaks[:5]) == ([], [])
    assert sum(outcome.statuses.values()) == MANY
    assert not any(secret.decode() in logged for secret in (*fuzz.SECRETS, fuzz.KEY.encode()))
