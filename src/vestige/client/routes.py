"""What can be asked of the service: each route as steps, which a client carries out.

Guarantee: every route of the service has its method, and `Client` and `AsyncClient` differ in nothing but how they
wait; held by tests/client/test_client.py.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterable, Mapping, Sequence
from http import HTTPStatus
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
from vestige.client.calls import Call, Failure, Found, Items, Reply, Send, Steps, attempt, make_error
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

        Returns:
            The answers of each key, sorted by key.

        Raises:
            ServiceError: there is no stream of this name, or the service does not answer.
        """
        return self._list_pages(f"{_find_path(name)}/estimates", "estimates", StreamEstimate, after)

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
        self, subjects: Iterable[str], *, now: bool = False, reference: str | None = None, key: str | None = None
    ) -> Steps[Removal]:
        """Request that all records of people are erased, from all streams; needs the scope erase.

        Args:
            subjects: the people, as rows name them.
            now: whether to erase at once, not with the next update; answers may get worse.
            reference: what you call the request, such as the number of a ticket.
            key: the idempotency key, of visible ASCII characters; a request that is sent again with it has the same
                receipts. Default: a random one.

        Returns:
            The receipts.

        Raises:
            ServiceError: the service refuses, or does not answer; its `key` is the one to call this with again.
        """
        body = {"subjects": list(subjects), "now": now, "reference": reference}
        data = yield from self._post("/v1/removals", body, key=key or secrets.token_urlsafe(18))
        return Removal.from_data(data)

    def list_receipts(self, *, after: str | None = None, newest: bool = False) -> Items[RemovalReceipt]:
        """List the receipts of removal requests, one after the other; pages are asked for as they are needed.

        Args:
            after: the id of the receipt before the first.
            newest: whether the newest request comes first, not the oldest.

        Returns:
            The receipts.

        Raises:
            ServiceError: the service refuses, or does not answer.
        """
        return self._list_pages("/v1/receipts", "receipts", RemovalReceipt, after, newest=newest)

    def sweep(self, *, dry_run: bool = False) -> Steps[Sweep]:
        """Erase what is due; the service does so by itself every second.

        Args:
            dry_run: whether to say only what would be erased.

        Returns:
            What was erased.

        Raises:
            ServiceError: the service refuses, or does not answer.
        """
        data = yield from self._post("/v1/sweep", None, dry_run=dry_run)
        return Sweep.from_data(data)

    def verify(self) -> Steps[Verification]:
        """Check the store; needs the scope audit.

        Returns:
            What was found.

        Raises:
            ServiceError: the service refuses, or does not answer.
        """
        data = yield from self._post("/v1/verify", None)
        return Verification.from_data(data)

    def check_health(self) -> Steps[str]:
        """Ask once whether the service can take rows.

        Returns:
            `ok`; `waiting` if streams are open in another process, `failing` if the store cannot be written,
            `stopping` if the service ends.

        Raises:
            ServiceError: the service does not answer.
        """
        call = Call("GET", "/health")
        outcome = yield Send(call, self._timeout)
        assert isinstance(outcome, (Reply, Failure))  # noqa: S101  # that is what the step is answered with
        if isinstance(outcome, Reply) and outcome.status in (HTTPStatus.OK, HTTPStatus.SERVICE_UNAVAILABLE):
            data = read_json(outcome)
            if isinstance(data, Mapping) and "status" in data:
                return str(data["status"])
        raise make_error(call, outcome, is_uncertain=False)

    def _get(self, path: str, **params: str | int | bool) -> Steps[Any]:
        return read_json((yield from attempt(Call("GET", path, params), self._patience, self._timeout)))

    def _delete(self, path: str, **params: str | int | bool) -> Steps[int]:
        reply = yield from attempt(Call("DELETE", path, params), self._patience, self._timeout)
        return int(read_json(reply)["removed"])

    def _post(
        self, path: str, body: Mapping[str, Any] | None, key: str | None = None, **params: str | int | bool
    ) -> Steps[Any]:
        content = None if body is None else json.dumps(body).encode()
        call = Call("POST", path, params, content, key=key)
        return read_json((yield from attempt(call, self._patience, self._timeout)))

    def _list_pages(
        self, path: str, name: str, kind: type[_V], after: str | None, **params: str | int | bool
    ) -> Items[_V]:
        while True:
            given = params | {"limit": PAGE} | ({} if after is None else {"after": after})
            data = yield from self._get(path, **given)
            for value in _read_list(data, name, kind):
                yield Found(value)
            after = data.get("next")
            if after is None:
                return


def _find_path(name: str) -> str:
    return f"/v1/streams/{quote(name, safe='')}"


def _read_list(data: Any, name: str, kind: type[_V]) -> tuple[_V, ...]:
    found: Sequence[Any] | None = data.get(name) if isinstance(data, Mapping) else None
    if not isinstance(found, list):
        raise ServiceError(f"the answer has no {name}; use the same Vestige on both sides")
    return tuple(map(kind.from_data, found))
