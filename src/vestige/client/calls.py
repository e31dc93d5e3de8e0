"""One call of the service, tried until it is answered: what to send next, apart from how it is sent.

A call is a generator: it yields what to do, and is sent what came of it, so that a client that waits and one that does
not share it. Pauses double, with full jitter, and heed Retry-After.
Guarantee: only what may pass is tried again, with the same key, and an error says whether the call may have been
carried out; held by tests/client/test_calls.py.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from itertools import count
from typing import Generic, TypeAlias, TypeVar

from vestige.errors import ServiceError

FIRST_PAUSE, LONGEST_PAUSE = 0.1, 5.0
"""Seconds: the first pause is drawn from 0 to one, no pause from more than the other."""
_SHORTEST_TIMEOUT = 0.5
_RETRIED = (
    HTTPStatus.TOO_MANY_REQUESTS,
    HTTPStatus.BAD_GATEWAY,
    HTTPStatus.SERVICE_UNAVAILABLE,
    HTTPStatus.GATEWAY_TIMEOUT,
)
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Call:
    """A request to the service.

    Attributes:
        method: the method of HTTP.
        path: the path, quoted.
        params: the query.
        content: the body.
        kind: media type of the body.
        key: the idempotency key; None for a call that may be carried out twice without harm.
    """

    method: str
    path: str
    params: Mapping[str, str | int | bool] = field(default_factory=dict)
    content: bytes | None = field(default=None, repr=False)
    kind: str = "application/json"
    key: str | None = None

    @property
    def headers(self) -> dict[str, str]:
        """The headers that belong to it."""
        headers = {} if self.content is None else {"content-type": self.kind}
        return headers if self.key is None else headers | {"idempotency-key": self.key}


@dataclass(frozen=True, slots=True)
class Send:
    """The step that sends a call; its outcome is a `Reply` or a `Failure`.

    Attributes:
        call: the call.
        timeout: seconds to wait for the answer.
    """

    call: Call
    timeout: float


@dataclass(frozen=True, slots=True)
class Pause:
    """The step that waits; its outcome is None.

    Attributes:
        seconds: how long.
    """

    seconds: float


@dataclass(frozen=True, slots=True)
class Found(Generic[_T]):
    """The step that hands over one of many results; its outcome is None.

    Attributes:
        value: the result.
    """

    value: _T


@dataclass(frozen=True, slots=True)
class Reply:
    """What a server answered.

    Attributes:
        status: the status of HTTP.
        headers: the headers; their names are small.
        content: the body.
    """

    status: int
    headers: Mapping[str, str] = field(default_factory=dict)
    content: bytes = field(default=b"", repr=False)

    @property
    def detail(self) -> str:
        """What the service says about a refusal; another server's text is not shown."""
        if self.headers.get("content-type", "").startswith("application/problem+json"):
            try:
                said = json.loads(self.content)["detail"]
            except (ValueError, TypeError, KeyError):
                said = None
            if isinstance(said, str):
                return "".join(c if c.isprintable() else "?" for c in said[:1_000])
        return "the answer is not that of a Vestige service; check the address"

    @property
    def is_uncertain(self) -> bool:
        """Whether the call may have been carried out although this is not an answer to it."""
        return self.status >= HTTPStatus.INTERNAL_SERVER_ERROR

    @property
    def retry_after(self) -> float:
        """Seconds after which to try again."""
        said = self.headers.get("retry-after", "")
        if said.isdecimal():
            return float(said[:9])
        try:
            return max(0.0, parsedate_to_datetime(said).timestamp() - time.time())
        except (ValueError, TypeError):
            return 0.0


@dataclass(frozen=True, slots=True)
class Failure:
    """A server that did not answer.

    Attributes:
        reason: why, without what was sent.
        is_uncertain: whether the server may have received the call.
        is_final: whether to try again would not help.
    """

    reason: str
    is_uncertain: bool
    is_final: bool = False


Step: TypeAlias = Send | Pause
Outcome: TypeAlias = Reply | Failure | None
Steps: TypeAlias = Generator[Step, Outcome, _T]
"""A call, or several: yields steps, is sent their outcomes, and returns its result."""
Items: TypeAlias = Generator[Step | Found[_T], Outcome, None]
"""Calls with many results: the same, and yields each result as it is found."""


def attempt(call: Call, patience: float, timeout: float) -> Generator[Step, Outcome, Reply]:
    """Send a call until it is answered: yields what to do, and is sent what came of it.

    Args:
        call: the call.
        patience: seconds after which it is not tried again.
        timeout: seconds to wait for one answer.

    Returns:
        The answer, which is not a refusal.

    Raises:
        ServiceError: it was refused, or not answered in time.

    Example:
        >>> steps = attempt(Call("GET", "/health"), patience=10.0, timeout=5.0)
        >>> next(steps).call.path
        '/health'
        >>> steps.send(Failure("connection refused", is_uncertain=False)).seconds < 0.1
        True
    """
    end, is_uncertain = time.monotonic() + patience, False
    for tries in count():
        outcome = yield Send(call, max(_SHORTEST_TIMEOUT, min(timeout, end - time.monotonic())))
        if isinstance(outcome, Reply) and outcome.status < HTTPStatus.MULTIPLE_CHOICES:
            return outcome
        assert isinstance(outcome, (Reply, Failure))  # noqa: S101  # that is what the step is answered with
        is_uncertain |= outcome.is_uncertain
        pause = _draw_pause(outcome, tries)
        if not _may_pass(outcome) or time.monotonic() + pause > end:
            raise make_error(call, outcome, is_uncertain=is_uncertain)
        yield Pause(pause)
    raise AssertionError  # the count has no end


def _may_pass(outcome: Reply | Failure) -> bool:
    return not outcome.is_final if isinstance(outcome, Failure) else outcome.status in _RETRIED


def _draw_pause(outcome: Reply | Failure, tries: int) -> float:
    drawn = random.uniform(0.0, min(LONGEST_PAUSE, FIRST_PAUSE * 2.0 ** min(tries, 30)))  # noqa: S311  # no secret
    return drawn + (outcome.retry_after if isinstance(outcome, Reply) else 0.0)


def make_error(call: Call, outcome: Reply | Failure, *, is_uncertain: bool) -> ServiceError:
    """Make the error of a call that is not tried again.

    Args:
        call: the call.
        outcome: what came of the last try.
        is_uncertain: whether any try may have been carried out.

    Returns:
        The error.

    Example:
        >>> print(make_error(Call("POST", "/v1/sweep"), Failure("closed", is_uncertain=True), is_uncertain=True))
        the service did not answer: closed; this may have been carried out: look, then repeat
    """
    changes = call.method != "GET"
    if isinstance(outcome, Reply):
        status, detail = outcome.status, outcome.detail
        text = f"status {status}: {detail}"
    else:
        status, detail = None, outcome.reason
        text = f"the service did not answer: {detail}"
    if changes and is_uncertain:
        remedy = "send the same again with the same key, which counts it once" if call.key else "look, then repeat"
        text += f"; this may have been carried out: {remedy}"
    elif changes:
        text += "; nothing of this request was carried out"
    return ServiceError(text, status=status, detail=detail, key=call.key, is_uncertain=changes and is_uncertain)
