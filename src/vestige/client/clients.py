"""The clients: how steps are carried out, with and without waiting; what they are is in `vestige.client.routes`.

Guarantee: a token goes to no other host in clear, and to no server whose certificate is not trusted; held by
tests/client/test_client.py.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import os
import re
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from pathlib import Path
from types import GenericAlias
from typing import Any, Concatenate, ParamSpec, Self, TypeVar, get_args, get_origin, get_type_hints

from vestige.client.answers import Event
from vestige.client.calls import Failure, Found, Items, Outcome, Pause, Reply, Send, Step, Steps
from vestige.client.events import EventReader
from vestige.client.routes import PATIENCE, TIMEOUT, Routes
from vestige.errors import MissingExtraError, ParameterError, ServiceError

try:
    import httpx

    from vestige._http import UNSENT, explain, find_mistrust, is_loopback, make_context, split_address
except ModuleNotFoundError:
    raise MissingExtraError("vestige.client", "client") from None

URL, TOKEN, CA = "VESTIGE_URL", "VESTIGE_TOKEN", "VESTIGE_CA"
"""Environment variables with the address, the token, and the file with the certificates to trust."""
_CONNECT_SECONDS = 5.0
_KEEP_SECONDS = 4.0
"""Seconds for which a connection is kept for the next call; less than the service keeps it."""
_EVENTS_SECONDS = 60.0
"""Seconds without a sign of life after which events have ended; the service sends one every fifteen."""
_VISIBLE = re.compile("[!-~]+")
_P = ParamSpec("_P")
_T = TypeVar("_T")
_C = TypeVar("_C", bound=Callable[..., Any])


def _wait(route: Callable[Concatenate[Routes, _P], Steps[_T]]) -> Callable[Concatenate[Client, _P], _T]:
    """The method that carries out a route, and waits for it."""

    @functools.wraps(route)
    def call(self: Client, /, *args: _P.args, **kwargs: _P.kwargs) -> _T:
        return self._run(route(self._routes, *args, **kwargs))

    return _declare(call, lambda arguments: arguments[2])


def _iterate(route: Callable[Concatenate[Routes, _P], Items[_T]]) -> Callable[Concatenate[Client, _P], Iterator[_T]]:
    """The method that iterates over the results of a route, and waits for each."""

    @functools.wraps(route)
    def call(self: Client, /, *args: _P.args, **kwargs: _P.kwargs) -> Iterator[_T]:
        return self._find_items(route(self._routes, *args, **kwargs))

    return _declare(call, lambda arguments: GenericAlias(Iterator, (_find_item(arguments),)))


def _await(
    route: Callable[Concatenate[Routes, _P], Steps[_T]],
) -> Callable[Concatenate[AsyncClient, _P], Coroutine[Any, Any, _T]]:
    """The coroutine that carries out a route."""

    @functools.wraps(route)
    async def call(self: AsyncClient, /, *args: _P.args, **kwargs: _P.kwargs) -> _T:
        return await self._run(route(self._routes, *args, **kwargs))

    return _declare(call, lambda arguments: arguments[2])


def _iterate_async(
    route: Callable[Concatenate[Routes, _P], Items[_T]],
) -> Callable[Concatenate[AsyncClient, _P], AsyncIterator[_T]]:
    """The method that iterates over the results of a route asynchronously."""

    @functools.wraps(route)
    def call(self: AsyncClient, /, *args: _P.args, **kwargs: _P.kwargs) -> AsyncIterator[_T]:
        return self._find_items(route(self._routes, *args, **kwargs))

    return _declare(call, lambda arguments: GenericAlias(AsyncIterator, (_find_item(arguments),)))


def _declare(call: _C, find_result: Callable[[Any], Any]) -> _C:
    """Have documentation show what the method returns, not its steps."""
    hints = get_type_hints(inspect.unwrap(call))
    hints["return"] = find_result(get_args(hints["return"]))
    made = inspect.signature(call)
    shown = [each.replace(annotation=hints.get(each.name, each.annotation)) for each in made.parameters.values()]
    call.__annotations__ = hints
    call.__signature__ = made.replace(parameters=shown, return_annotation=hints["return"])  # type: ignore[attr-defined]
    return call


def _find_item(arguments: tuple[Any, ...]) -> Any:
    """The type of what `Items` yields."""
    return next(get_args(each)[0] for each in get_args(arguments[0]) if get_origin(each) is Found)


class _Settings:
    """What both clients are made with."""

    def __init__(
        self, url: str | None, token: str | None, ca: str | Path | None, patience: float, timeout: float
    ) -> None:
        address = url if url is not None else os.environ.get(URL)
        if address is None:
            raise ParameterError(f"the service has no address; give url, or set {URL}")
        parts = split_address(address)
        if parts is None:
            raise ParameterError("the address of a service is not of the form https://HOST:PORT; write it like this")
        self.where = f"{parts.scheme}://{parts.netloc}"
        token = token if token is not None else os.environ.get(TOKEN)
        if token is not None and _VISIBLE.fullmatch(token.strip()) is None:
            raise ParameterError("token is not a token; copy it again, without spaces and line ends")
        if token is not None and parts.scheme == "http" and not is_loopback(parts.hostname or ""):
            raise ParameterError(f"{self.where}: the token would cross the network in clear; use https://")
        for name, value in (("patience", patience), ("timeout", timeout)):
            if not value > 0.0:
                raise ParameterError(f"{name}={value} is not above 0; give seconds")
        self.routes = Routes(patience, timeout)
        self.options: dict[str, Any] = {
            "base_url": self.where,
            "headers": {} if token is None else {"authorization": f"Bearer {token.strip()}"},
            "verify": parts.scheme == "https" and make_context(ca if ca is not None else os.environ.get(CA)),
            "limits": httpx.Limits(keepalive_expiry=_KEEP_SECONDS),
            "trust_env": False,  # a token does not pass through a proxy
        }

    def find_request(self, step: Send) -> dict[str, Any]:
        """The arguments of the request of a step."""
        call = step.call
        return {
            "method": call.method,
            "url": call.path,
            "params": {name: _write_param(value) for name, value in call.params.items()} or None,
            "content": call.content,
            "headers": call.headers,
            "timeout": httpx.Timeout(step.timeout, connect=min(step.timeout, _CONNECT_SECONDS)),
        }

    def explain(self, problem: httpx.RequestError) -> Failure:
        """Why a request failed."""
        mistrust = find_mistrust(problem, CA)
        if mistrust is not None:
            return Failure(f"{self.where}: {mistrust}", is_uncertain=False, is_final=True)
        reason = f"{self.where} cannot be reached ({explain(problem)}); start it, or check the address"
        return Failure(reason, is_uncertain=not isinstance(problem, UNSENT))


def _write_param(value: str | int | bool) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _read_reply(response: httpx.Response) -> Reply:
    return Reply(response.status_code, dict(response.headers), response.content)


def _refuse_events(response: httpx.Response, content: bytes) -> ServiceError:
    reply = Reply(response.status_code, dict(response.headers), content)
    return ServiceError(f"status {reply.status}: {reply.detail}", status=reply.status, detail=reply.detail)


class Client:
    """A client of `vestige serve`; threads may share it.

    Calls are tried again if the service cannot be reached, has too much to do (429, when it says so) or cannot write
    for a while (502, 503, 504), with pauses that grow; other refusals are raised at once.

    Args:
        url: `https://HOST:PORT`; with a token, `http://` only for this host. Default: that of VESTIGE_URL.
        token: the token; default: that of VESTIGE_TOKEN, or none.
        ca: file with the certificates to trust, in PEM; default: that of VESTIGE_CA, or those of this host.
        patience: seconds for which a call is tried again.
        timeout: seconds to wait for one answer.

    Raises:
        ParameterError: the address is not one, or would send the token in clear.

    Example:
        >>> with Client("http://127.0.0.1:8080") as client:
        ...     print(client)
        Client('http://127.0.0.1:8080')
        >>> Client("http://db.example", token="secret")
        Traceback (most recent call last):
        vestige.errors.ParameterError: http://db.example: the token would cross the network in clear; use https://
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        token: str | None = None,
        ca: str | Path | None = None,
        patience: float = PATIENCE,
        timeout: float = TIMEOUT,
    ) -> None:
        self._settings = _Settings(url, token, ca, patience, timeout)
        self._routes, self._http = self._settings.routes, httpx.Client(**self._settings.options)

    def __repr__(self) -> str:
        return f"Client({self._settings.where!r})"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    create_stream = _wait(Routes.create_stream)
    list_streams = _wait(Routes.list_streams)
    show_stream = _wait(Routes.show_stream)
    remove_stream = _wait(Routes.remove_stream)
    remove_key = _wait(Routes.remove_key)
    send_rows = _wait(Routes.send_rows)
    list_estimates = _iterate(Routes.list_estimates)
    show_estimate = _wait(Routes.show_estimate)
    show_records = _wait(Routes.show_records)
    request_removals = _wait(Routes.request_removals)
    list_receipts = _iterate(Routes.list_receipts)
    sweep = _wait(Routes.sweep)
    verify = _wait(Routes.verify)
    check_health = _wait(Routes.check_health)

    def listen(self) -> Iterator[Event]:
        """Receive events as they happen, until the service ends.

        Yields:
            The events; those before the call are not among them.

        Raises:
            ServiceError: the service refuses, or the connection ended.
        """
        reader = EventReader()
        try:
            with self._http.stream("GET", "/v1/events", timeout=_EVENTS_SECONDS) as response:
                if response.status_code != httpx.codes.OK:
                    raise _refuse_events(response, response.read())
                for line in response.iter_lines():
                    event = reader.read(line)
                    if event is not None:
                        yield event
        except httpx.RequestError as problem:
            raise ServiceError(self._settings.explain(problem).reason) from None

    def _run(self, steps: Steps[_T]) -> _T:
        outcome: Outcome = None
        while True:
            try:
                step = steps.send(outcome)
            except StopIteration as done:
                result: _T = done.value
                return result
            outcome = self._carry_out(step)

    def _find_items(self, steps: Items[_T]) -> Iterator[_T]:
        outcome: Outcome = None
        while True:
            try:
                step = steps.send(outcome)
            except StopIteration:
                return
            if isinstance(step, Found):
                outcome = None
                yield step.value
            else:
                outcome = self._carry_out(step)

    def _carry_out(self, step: Step) -> Outcome:
        if isinstance(step, Pause):
            time.sleep(step.seconds)
            return None
        try:
            return _read_reply(self._http.request(**self._settings.find_request(step)))
        except httpx.RequestError as problem:
            return self._settings.explain(problem)


class AsyncClient:
    """The same as `Client`, for asyncio: its calls are awaited, and its iterators are asynchronous.

    Args:
        url: `https://HOST:PORT`; with a token, `http://` only for this host. Default: that of VESTIGE_URL.
        token: the token; default: that of VESTIGE_TOKEN, or none.
        ca: file with the certificates to trust, in PEM; default: that of VESTIGE_CA, or those of this host.
        patience: seconds for which a call is tried again.
        timeout: seconds to wait for one answer.

    Raises:
        ParameterError: the address is not one, or would send the token in clear.

    Example:
        >>> async def show() -> None:
        ...     async with AsyncClient("http://127.0.0.1:8080") as client:
        ...         print(client)
        >>> asyncio.run(show())
        AsyncClient('http://127.0.0.1:8080')
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        token: str | None = None,
        ca: str | Path | None = None,
        patience: float = PATIENCE,
        timeout: float = TIMEOUT,
    ) -> None:
        self._settings = _Settings(url, token, ca, patience, timeout)
        self._routes, self._http = self._settings.routes, httpx.AsyncClient(**self._settings.options)

    def __repr__(self) -> str:
        return f"AsyncClient({self._settings.where!r})"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    create_stream = _await(Routes.create_stream)
    list_streams = _await(Routes.list_streams)
    show_stream = _await(Routes.show_stream)
    remove_stream = _await(Routes.remove_stream)
    remove_key = _await(Routes.remove_key)
    send_rows = _await(Routes.send_rows)
    list_estimates = _iterate_async(Routes.list_estimates)
    show_estimate = _await(Routes.show_estimate)
    show_records = _await(Routes.show_records)
    request_removals = _await(Routes.request_removals)
    list_receipts = _iterate_async(Routes.list_receipts)
    sweep = _await(Routes.sweep)
    verify = _await(Routes.verify)
    check_health = _await(Routes.check_health)

    async def listen(self) -> AsyncIterator[Event]:
        """Receive events as they happen, until the service ends.

        Yields:
            The events; those before the call are not among them.

        Raises:
            ServiceError: the service refuses, or the connection ended.
        """
        reader = EventReader()
        try:
            async with self._http.stream("GET", "/v1/events", timeout=_EVENTS_SECONDS) as response:
                if response.status_code != httpx.codes.OK:
                    raise _refuse_events(response, await response.aread())
                async for line in response.aiter_lines():
                    event = reader.read(line)
                    if event is not None:
                        yield event
        except httpx.RequestError as problem:
            raise ServiceError(self._settings.explain(problem).reason) from None

    async def _run(self, steps: Steps[_T]) -> _T:
        outcome: Outcome = None
        while True:
            try:
                step = steps.send(outcome)
            except StopIteration as done:
                result: _T = done.value
                return result
            outcome = await self._carry_out(step)

    async def _find_items(self, steps: Items[_T]) -> AsyncIterator[_T]:
        outcome: Outcome = None
        while True:
            try:
                step = steps.send(outcome)
            except StopIteration:
                return
            if isinstance(step, Found):
                outcome = None
                yield step.value
            else:
                outcome = await self._carry_out(step)

    async def _carry_out(self, step: Step) -> Outcome:
        if isinstance(step, Pause):
            await asyncio.sleep(step.seconds)
            return None
        try:
            return _read_reply(await self._http.request(**self._settings.find_request(step)))
        except httpx.RequestError as problem:
            return self._settings.explain(problem)
