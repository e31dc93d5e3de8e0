"""A call without a network: what is tried again, how long, and what an error says."""

from __future__ import annotations

import json
from collections.abc import Iterable

import pytest

from vestige.client import calls
from vestige.client.calls import Call, Failure, Outcome, Pause, Reply, Send, Steps, attempt
from vestige.errors import ServiceError

ROWS = Call("POST", "/v1/streams/visits/rows", content=b"{}", key="k")
REFUSED, LOST = Failure("refused", is_uncertain=False), Failure("closed", is_uncertain=True)
OK = Reply(200, {}, b"{}")


def refuse(status: int, detail: str = "no", **headers: str) -> Reply:
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    return Reply(status, given | {"content-type": "application/problem+json"}, json.dumps({"detail": detail}).encode())


class Clock:
    """A clock that only pauses and answers move."""

    def __init__(self) -> None:
        self.now, self.pauses, self.sent = 0.0, list[float](), list[Call]()

    def monotonic(self) -> float:
        return self.now

    def time(self) -> float:
        return self.now

    def drive(self, steps: Steps[Reply], outcomes: Iterable[Outcome], seconds: float = 0.0) -> Reply:
        """Answer each call with the next outcome, which takes so long."""
        step, remaining = next(steps), iter(outcomes)
        try:
            while True:
                if isinstance(step, Pause):
                    self.pauses.append(step.seconds)
                    self.now += step.seconds
                    step = steps.send(None)
                else:
                    assert isinstance(step, Send)
                    self.sent.append(step.call)
                    self.now += seconds
                    step = steps.send(next(remaining))
        except StopIteration as done:
            answer: Reply = done.value
            return answer


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(calls, "time", made)
    return made


@pytest.mark.parametrize("outcome", [REFUSED, LOST, refuse(429), refuse(502), refuse(503), refuse(504)])
def test_what_passes_is_tried_again_with_the_same_key(clock: Clock, outcome: Outcome) -> None:
    assert clock.drive(attempt(ROWS, 60.0, 5.0), [outcome] * 3 + [OK]) is OK
    assert clock.sent == [ROWS] * 4


@pytest.mark.parametrize("status", [301, 400, 401, 403, 404, 409, 413, 415, 421, 422, 500, 501])
def test_what_does_not_pass_is_not_tried_again(clock: Clock, status: int) -> None:
    with pytest.raises(ServiceError, match="nothing of this" if status < 500 else "may have been") as error:
        clock.drive(attempt(ROWS, 60.0, 5.0), [refuse(status, "why")])
    assert (error.value.status, error.value.detail, error.value.key) == (status, "why", "k")
    assert len(clock.sent) == 1


def test_pauses_grow_to_a_limit_and_heed_the_service(clock: Clock) -> None:
    clock.drive(attempt(ROWS, 1_000.0, 5.0), [REFUSED] * 60 + [OK])
    limits = [min(5.0, 0.1 * 2.0**tries) for tries in range(60)]
    assert all(0.0 <= pause <= limit for pause, limit in zip(clock.pauses, limits, strict=True))
    assert 1.5 < sum(clock.pauses[10:]) / 50 < 3.5  # full jitter: half of the limit on average
    clock.pauses.clear()
    clock.drive(attempt(ROWS, 60.0, 5.0), [refuse(429, retry_after="7"), OK])
    assert 7.0 <= clock.pauses[0] <= 7.1
    clock.now = 0.0
    clock.drive(attempt(ROWS, 60.0, 5.0), [refuse(503, retry_after="Thu, 01 Jan 1970 00:00:09 GMT"), OK])
    assert 9.0 <= clock.pauses[1] <= 9.1


def test_patience_ends_before_a_pause_that_would_be_too_long(clock: Clock) -> None:
    with pytest.raises(ServiceError):
        clock.drive(attempt(ROWS, 60.0, 5.0), [refuse(429, retry_after="61")])
    with pytest.raises(ServiceError):
        clock.drive(attempt(ROWS, 60.0, 5.0), iter(lambda: REFUSED, None), seconds=1.0)
    assert 50.0 < clock.now < 66.0


@pytest.mark.parametrize(
    ("outcomes", "is_uncertain"),
    [
        ([REFUSED] * 9, False),
        ([refuse(429)] * 9, False),
        ([REFUSED, LOST, REFUSED, REFUSED], True),
        ([refuse(503), refuse(429), refuse(429)], True),
        ([LOST, refuse(401)], True),
    ],
)
def test_an_error_says_whether_rows_may_have_been_taken(
    clock: Clock, outcomes: list[Outcome], *, is_uncertain: bool
) -> None:
    with pytest.raises(ServiceError) as error:
        clock.drive(attempt(ROWS, 9.0, 5.0), outcomes, seconds=3.0)
    assert (error.value.is_uncertain, error.value.key) == (is_uncertain, "k")
    assert ("may have been carried out" in str(error.value)) == is_uncertain


def test_a_server_that_is_not_trusted_is_not_tried_again(clock: Clock) -> None:
    with pytest.raises(ServiceError, match="certificate"):
        clock.drive(attempt(ROWS, 60.0, 5.0), [Failure("certificate", is_uncertain=False, is_final=True), OK])


def test_a_call_that_only_reads_is_never_uncertain(clock: Clock) -> None:
    with pytest.raises(ServiceError) as error:
        clock.drive(attempt(Call("GET", "/v1/streams"), 60.0, 5.0), [LOST, refuse(404)])
    assert not error.value.is_uncertain
    assert "carried out" not in str(error.value)


def test_the_text_of_another_server_is_not_shown(clock: Clock) -> None:
    for reply in (Reply(404, {"content-type": "text/html"}, b"canary"), Reply(404, {}, b'{"detail": "canary"}')):
        with pytest.raises(ServiceError, match="not that of a Vestige service") as error:
            clock.drive(attempt(ROWS, 60.0, 5.0), [reply])
        assert "canary" not in str(error.value)
