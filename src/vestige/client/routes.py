"""What can be asked of the service: each route as steps, which a client carries out.

Guarantee: every route of the service has its method, and `Client` and `AsyncClient` differ in nothing but how they
wait; held by tests/client/test_client.py.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar
from urllib.parse import quote

from vestige.client.answers import (
    HeldRecords,
    Removal,
    RemovalReceipt,
    RowsTaken,
    ServedStream,
    StreamEstimate,
    Sweep,
    Value,
    Verification,
    read_json,
)
from vestige.client.bodies import make_bodies
from vestige.client.calls import Call, Found, Items, Steps, attempt
from vestige.errors import ServiceError

ROWS = 5_000
"""Number of rows that are sent in one request by default."""
PAGE = 1_000
"""Number of answers that are asked for in one request."""
PATIENCE, TIMEOUT = 60.0, 30.0
"""Seconds for which a call is tried again, and to wait for one answer, by default."""
_V = TypeVar("_V", bound=Value)


class Routes:
    """The routes of a service.

    Args:
        patience: seconds for which a call is tried again.
        timeout: seconds to wait for one answer.
    """

    def __init__(self, patience: float = PATIENCE, timeout: float = TIMEOUT) -> None:
        self._patience, self._timeout = patience, timeout

    def create_stream(self, definition: Mapping[str, Any]) -> Steps[ServedStream]:
        """Create a stream; nothing happens if there is the same.

        Args:
            definition: what it is, such as
                `{"name": "visits", "columns": ["spent"], "by": "country", "retention": 96}`.

        Returns:
            The stream.

        Raises:
            ServiceError: the definition is not valid, or there is another of its name.
        """
        data = yield from self._post("/v1/streams", dict(definition))
        return ServedStream.from_data(data)

    def list_streams(self) -> Steps[tuple[ServedStream, ...]]:
        """List the streams.

        Returns:
            The streams, sorted by name.

        Raises:
            ServiceError: the service refuses, or does not answer.
        """
        data = yield from self._get("/v1/streams")
        return _read_list(data, "streams", ServedStream)

    def show_stream(self, name: str) -> Steps[ServedStream]:
        """Show a stream.

        Args:
            name: its name.

        Returns:
            The stream.

        Raises:
            ServiceError: there is none of this name, or the service does not answer.
        """
        data = yield from self._get(_find_path(name))
        return ServedStream.from_data(data)

    def remove_stream(self, name: str) -> Steps[int]:
        """Remove a stream, with those of all its keys.

        Args:
            name: its name.

        Returns:
            The number of keys that were removed.

        Raises:
            ServiceError: there is none of this name, or the service does not answer.
        """
        return (yield from self._delete(_find_path(name)))

    def remove_key(self, name: str, key: str = "") -> Steps[int]:
        """Remove the stream of one key.

        Args:
            name: name of the stream.
            key: the key; empty without keys.

        Returns:
            The number of keys that were removed, which is 1.

        Raises:
            ServiceError: there is no such key, or the service does not answer.
        """
        return (yield from self._delete(f"{_find_path(name)}/key", key=key))

    def send_rows(self, name: str, rows: Any, *, key: str | None = None, size: int = ROWS) -> Steps[RowsTaken]:
        """Send rows; once this returns they are flushed, and each counts once however often it had to be sent.

        If it fails, call it again with the same rows, the same size and the key of the error: requests that the
        service has taken before are not counted again.

        Args:
            name: name of the stream.
            rows: mappings from columns to values, of any iterable; or a table or record batch of pyarrow, or what else
                has the interface of Arrow.
            key: the idempotency key of the first request, of visible ASCII characters; the others add their number.
                Default: a random one.
            size: largest number of rows of a request.

        Returns:
            What became of the rows.

        Raises:
            ServiceError: a request was refused, or was not answered in time; requests before it were taken. Its `key`
                is the one to call this with again, and `is_uncertain` says whether the rows may have been taken.
            ParameterError: a row is not a mapping, or has a value that JSON has no form for; those before it may have
                been taken.
        """
        total, first = RowsTaken(0, 0, 0, 0, 0), key or secrets.token_urlsafe(18)
        for number, (content, kind) in enumerate(make_bodies(rows, size)):
            own = f"{first}.{number}" if number else first
            try:
                call = Call("POST", f"{_find_path(name)}/rows", content=content, kind=kind, key=own)
                reply = yield from attempt(call, self._patience, self._timeout)
            except ServiceError as problem:
                problem.key = first
                raise
            total += RowsTaken.from_data(read_json(reply))
        return total

    def list_estimates(self, name: str, *, after: str | None = None) -> Items[StreamEstimate]:
        """List the answers of all keys, one after the other; pages are asked for as they are needed.

        Args:
            name: name of the stream.
            after: the key before the first.

        Yields:
            The answers of each key, sorted by key.

        Raises:
            ServiceError: there is no stream of this name, or the service does not answer.
        """
        while True:
            params = {"limit": PAGE} | ({} if after is None else {"after": after})
            data = yield from self._get(f"{_find_path(name)}/estimates", **params)
            for estimate in _read_list(data, "estimates", StreamEstimate):
                yield Found(estimate)
            after = data.get("next")
            if after is None:
                return

    def show_estimate(self, name: str, key: str = "") -> Steps[StreamEstimate]:
        """Show the answers of one key.

        Args:
            name: name of the stream.
            key: the key; empty without keys.

        Returns:
            The answers.

        Raises:
            ServiceError: the key has had no rows, or the service does not answer.
        """
        data = yield from self._get(f"{_find_path(name)}/estimate", key=key)
        return StreamEstimate.from_data(data)

    def show_records(self, name: str, key: str = "", *, values: bool = False) -> Steps[HeldRecords]:
        """Show the whole state of one key; needs the scope audit.

        Args:
            name: name of the stream.
            key: the key; empty without keys.
            values: whether to show the values of the records.

        Returns:
            The records.

        Raises:
            ServiceError: the key has had no rows, or the service does not answer.
        """
        data = yield from self._get(f"{_find_path(name)}/records", key=key, values=values)
        return HeldRecords.from_data(data)

    def request_removals(
        self, subjects: Iterable[str], *, now: bool = False, reference: str | None = None
    ) -> Steps[Removal]:
        """Request that all records of people are erased, from all streams.

        A request that may have arrived is not sent again; to ask twice does no harm, and gives two receipts.

        Args:
            subjects: the people, as rows name them.
            now: whether to erase at once, not by the end of the notice.
            reference: what you call the request, such as the number of a ticket.

        Returns:
            The receipts.

        Raises:
            ServiceError: the service refuses, or does not answer.
        """
        body = {"subjects": list(subjects), "now": now, "reference": reference}
        data = yield from self._post("/v1/removals", body, may_repeat=False)
        return Removal.from_data(data)

    def list_receipts(self) -> Steps[tuple[RemovalReceipt, ...]]:
        """List the receipts of removal requests.

        Returns:
            The receipts.

        Raises:
            ServiceError: the service refuses, or does not answer.
        """
        data = yield from self._get("/v1/receipts")
        return _read_list(data, "receipts", RemovalReceipt)

    def sweep(self) -> Steps[Sweep]:
        """Erase what is due; the service does so by itself every second.

        Returns:
            What was erased.

        Raises:
            ServiceError: the service refuses, or does not answer.
        """
        data = yield from self._post("/v1/sweep", None)
        return Sweep.from_data(data)

    def verify(self) -> Steps[Verification]:
        """Check the store.

        Returns:
            What was found.

        Raises:
            ServiceError: the service refuses, or does not answer.
        """
        data = yield from self._post("/v1/verify", None)
        return Verification.from_data(data)

    def check_health(self) -> Steps[str]:
        """Ask whether the service can write.

        Returns:
            Its status, such as ok.

        Raises:
            ServiceError: it cannot, or does not answer.
        """
        data = yield from self._get("/health")
        return str(data["status"])

    def _get(self, path: str, **params: str | int | bool) -> Steps[Any]:
        return read_json((yield from attempt(Call("GET", path, params), self._patience, self._timeout)))

    def _delete(self, path: str, **params: str | int | bool) -> Steps[int]:
        reply = yield from attempt(Call("DELETE", path, params), self._patience, self._timeout)
        return int(read_json(reply)["removed"])

    def _post(self, path: str, body: Mapping[str, Any] | None, *, may_repeat: bool = True) -> Steps[Any]:
        content = None if body is None else json.dumps(body).encode()
        call = Call("POST", path, content=content, may_repeat=may_repeat)
        return read_json((yield from attempt(call, self._patience, self._timeout)))


def _find_path(name: str) -> str:
    return f"/v1/streams/{quote(name, safe='')}"


def _read_list(data: Any, name: str, kind: type[_V]) -> tuple[_V, ...]:
    found: Sequence[Any] | None = data.get(name) if isinstance(data, Mapping) else None
    if not isinstance(found, list):
        raise ServiceError(f"the answer has no {name}; use the same Vestige on both sides")
    return tuple(map(kind.from_data, found))
