"""Requests that are made from the OpenAPI document, as they should be or not, and the same with bytes changed."""

from __future__ import annotations

import random
import re
import socket
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import requests
import schemathesis
from httpx import Client
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import Case, GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.core.result import Ok
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

SUBJECT, KEY, VALUE = "canary-subject-5417", "canary-key-8203", 739173.9173
STORED = [{"spent": VALUE + i, "country": KEY, "email": SUBJECT, "at": "2020-01-01T00:00:00Z"} for i in range(5)]
SENT = "canary-sent-6620"
VISITS = {"name": "visits", "columns": ["spent"], "by": "country", "subject": "email", "retention": 96, "seed": 0}
SINGLE = {"name": "single", "columns": ["spent"], "subject": "email", "max_age": "20000d", "time": "at"}
CHECKS = [not_a_server_error, content_type_conformance, response_schema_conformance, status_code_conformance]
SECRETS = (SUBJECT.encode(), SENT.encode(), str(VALUE)[:6].encode())
"""What no refusal and no line of the log may have."""
AnyCase = Case[Any]
"""A request of an operation."""
_STATUS = re.compile(rb"HTTP/1\.1 (\d{3}) ")


@dataclass
class Outcome:
    """What became of many requests."""

    statuses: Counter[int] = field(default_factory=Counter)
    leaks: list[str] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)

    def add(self, status: int, content: bytes, what: str) -> None:
        """Count an answer, and look at it."""
        self.statuses[status] += 1
        if status == 500:
            self.failures.append(what)
        shown = content.replace(b"739173.", b"") if status == 200 else content  # answers and states may have values
        if any(secret in shown for secret in SECRETS) and (status >= 400 or SUBJECT.encode() in shown):
            self.leaks.append(what)


def fill(client: Client) -> None:
    """Store rows with canaries."""
    for definition in (VISITS, SINGLE):
        client.post("/v1/streams", json=definition)
        client.post(f"/v1/streams/{definition['name']}/rows", json=STORED, headers={"Idempotency-Key": "stored"})


def read_document(client: Client) -> dict[str, Any]:
    """The document, in which names of streams are likely; without tokens, which are sent always, and events."""
    document: dict[str, Any] = client.get("/openapi.json").json()
    del document["paths"]["/v1/events"], document["components"]["securitySchemes"]
    for operations in document["paths"].values():
        for operation in operations.values():
            operation.pop("security", None)
            for parameter in operation.get("parameters", ()):
                if parameter["name"] == "name":
                    parameter["schema"] = {"enum": ["visits", "single", "none", SENT]}
                if parameter["name"] == "key":
                    parameter["schema"] = {"anyOf": [{"enum": [KEY, SENT]}, {"type": "string"}]}
    return document


def generate(document: dict[str, Any], address: str, examples: int, use: Callable[[AnyCase], None]) -> None:
    """Use so many requests of each kind of each operation."""
    schema = schemathesis.openapi.from_dict(document)
    schema.config.update(base_url=address)
    for result in schema.get_all_operations():
        assert isinstance(result, Ok)
        for mode in GenerationMode:

            @seed(0)
            @settings(
                max_examples=examples,
                deadline=None,
                database=None,
                phases=[Phase.generate],
                suppress_health_check=list(HealthCheck),
            )
            @given(case=result.ok().as_strategy(generation_mode=mode))
            def run(case: AnyCase) -> None:
                use(case)

            with suppress(Unsatisfiable), warnings.catch_warnings():
                warnings.simplefilter("ignore")  # where nothing can be wrong
                run()


def pack(case: AnyCase, address: str, token: str) -> bytes:
    """A request as bytes; some that cannot be are left out."""
    with suppress(Exception):
        made = requests.Request(**case.as_transport_kwargs(base_url=address)).prepare()
        body = made.body.encode() if isinstance(made.body, str) else made.body or b""
        assert isinstance(body, bytes)
        return _join(str(made.method), str(made.path_url), dict(made.headers), body, token)
    return b""


def _join(method: str, path: str, headers: dict[str, Any], body: bytes, token: str) -> bytes:
    given = {
        str(name): value.decode("latin-1") if isinstance(value, bytes) else str(value)
        for name, value in headers.items()
    }
    given |= {"Host": "127.0.0.1", "Authorization": f"Bearer {token}", "Connection": "close"}
    given.setdefault("Idempotency-Key", SENT)
    given["Content-Length"] = str(len(body))
    lines = "".join(f"{name}: {value}\r\n" for name, value in given.items())
    return f"{method} {path} HTTP/1.1\r\n{lines}\r\n".encode("latin-1", "replace") + body


def change(request: bytes, coins: random.Random) -> bytes:
    """A request with bytes changed, mostly in its body, whose length is then true again; or with a canary in it."""
    head, _, body = request.partition(b"\r\n\r\n")
    kind = coins.random()
    if body and kind < 0.75:
        body = _change_bytes(body, coins)
        head = re.sub(rb"(?i)content-length: \d+", b"content-length: %d" % len(body), head)
    elif kind < 0.97:
        first, _, rest = head.partition(b"\r\n")
        first = _change_bytes(first, coins) if coins.random() < 0.5 else first
        rest = rest if coins.random() < 0.5 else _change_bytes(rest, coins)
        head = first + b"\r\n" + rest
    else:
        return request[: coins.randrange(len(request))]
    return head + b"\r\n\r\n" + body


def _change_bytes(content: bytes, coins: random.Random) -> bytes:
    made = bytearray(content)
    for _ in range(coins.choice((1, 1, 2, 5))):
        at = coins.randrange(len(made) + 1)
        match coins.randrange(6):
            case 0:
                made[at : at + 1] = bytes([coins.randrange(256)])
            case 1:
                made[at:at] = SENT.encode()
            case 2:
                del made[at : at + coins.randrange(1, 20)]
            case 3:
                made[at:at] = made[at : at + coins.randrange(1, 50)]
            case 4:
                made[at:at] = coins.choice(
                    (b"[" * 50, b'{"rows":', b"\\ud800", b"1e999", b"null", b"\x00", b'"', b"%00")
                )
            case _:
                made[at : at + 4] = coins.choice((b"\xff\xff\xff\x7f", b"\x00\x00\x00\x00", b"9999", b"-1", b"NaN"))
    return bytes(made)


def send(address: tuple[str, int], request: bytes) -> tuple[int, bytes]:
    """Send bytes; the status of the answer, 0 if there is none, and the answer."""
    got = b""
    with suppress(OSError), socket.create_connection(address, timeout=5) as peer:
        peer.sendall(request)
        peer.settimeout(0.3)  # a request may be unfinished
        while not _is_whole(got) and (part := peer.recv(1 << 16)):
            got += part
            peer.settimeout(5)
    found = _STATUS.match(got)
    return (int(found[1]) if found else 0), got


def _is_whole(got: bytes) -> bool:
    """Whether an answer has all its bytes; events never end."""
    head, end, body = got.partition(b"\r\n\r\n")
    length = re.search(rb"(?i)\r\ncontent-length: (\d+)", head)
    return bool(end) and (b"text/event-stream" in head or (length is not None and len(body) >= int(length[1])))


def send_all(address: tuple[str, int], made: Iterator[bytes], workers: int) -> Outcome:
    """Send many requests, some at the same time."""
    outcome = Outcome()
    with ThreadPoolExecutor(workers) as pool:
        for request, (status, got) in pool.map(lambda each: (each, send(address, each)), made):
            outcome.add(status, got, repr(request[:300]))
    return outcome
