"""Recorded calls of a policy and its replies, so that the same calls can be repeated elsewhere.

A policy is called as a stream calls it: `update`, `update_many`, `can_encode`, `rewrite` and `answer`, over thousands
of rounds, with requests, immediate requests, and batches that are closed early by a limit in time.
Guarantee: every method is called; held by tests/test_patient.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import timedelta
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from vestige.clock import Clock
from vestige.errors import CheckError, DataError, NoAnswerError, NoRecordsError, ParameterError, RuleError
from vestige.estimate import Estimate
from vestige.policy import Policy
from vestige.random.generators import make_generator
from vestige.random.keys import AuditSeed
from vestige.records import Records
from vestige.stream import Stream
from vestige.types import Bools, Floats, Ints

Reply = Bools | float | Floats | bool | tuple[int, Bools] | None
TOLERANCE = 1e-9
"""What an answer may differ by if float64 adds up the same numbers in another order."""
LATER, LATE = 10**5, 10**7
"""Some streams begin after these rounds, to find a policy that waits for fewer records before it cheats."""
_START_TIME = np.datetime64("2020-01-01", "us")


def _freeze(reply: object) -> Reply:
    """Copy the reply of any method, in a form that can be compared."""
    if isinstance(reply, Estimate):
        return _flatten(reply)
    if isinstance(reply, tuple):
        return (reply[0], reply[1].copy())
    return reply.copy() if isinstance(reply, np.ndarray) else reply  # type: ignore[return-value]


def _flatten(part: object) -> Floats:
    """All numbers in a part of an estimate, those of texts and of other estimates in it too."""
    if isinstance(part, str | bytes):
        return np.frombuffer(part.encode() if isinstance(part, str) else part, np.uint8).astype(np.float64)
    if isinstance(part, Estimate):
        part = [getattr(part, field.name) for field in fields(part) if field.name not in ("notes", "policy")]
    if isinstance(part, Mapping):
        part = [*part, *part.values()]
    if isinstance(part, tuple | list):
        return np.concatenate([np.empty(0), *(_flatten(each) for each in part)])
    return np.empty(0) if part is None else np.ravel(np.asarray(part, np.float64))


def _call(policy: Policy, method: str, clock: Clock, *arguments: object) -> object:
    """Call a method; raise a CheckError without any record if it fails or changes the clock."""
    shown, name = clock.copy(), f"{type(policy).__name__}.{method}"
    try:
        reply = getattr(policy, method)(shown, *arguments)
    except (NoRecordsError, NoAnswerError):
        raise
    except Exception as failed:
        raise CheckError(
            f"{name} failed at t={clock.t} with {type(failed).__name__}; its message may contain a record's value and "
            "is not shown: call the method with your own records to see it"
        ) from None
    if shown != clock:
        raise CheckError(f"{name} changed the clock at t={clock.t}; do not change arguments")
    return reply


@dataclass(frozen=True, slots=True)
class Question:
    """One call of a method of a policy.

    Attributes:
        method: name of the method.
        clock: clock that was passed.
        arguments: other arguments.
    """

    method: str
    clock: Clock
    arguments: tuple[object, ...]

    @property
    def name(self) -> str:
        """Method and round, without any value."""
        return f"{self.method} at t={self.clock.t}"

    def ask(self, policy: Policy) -> Reply:
        """Call the method of a policy.

        Args:
            policy: policy to call.

        Returns:
            Its reply.

        Raises:
            CheckError: if the call fails or changes the clock.
        """
        return _freeze(_call(policy, self.method, self.clock, *self.arguments))


@dataclass(frozen=True, slots=True)
class Exchange:
    """A question and the first reply to it.

    Attributes:
        question: call of a method.
        reply: what it returned.
    """

    question: Question
    reply: Reply


@dataclass(frozen=True)
class _Recorder(Policy):
    """Passes every call on to `policy` and records it."""

    policy: Policy
    record: Callable[[Exchange], None]  # a list would be spelled out at the start of each stream

    def can_encode(self, clock: Clock, rounds: Ints, leaving: Bools) -> bool:
        return bool(self._ask("can_encode", clock, rounds, leaving))

    def update(self, clock: Clock, retained: Records, arrivals: Records, coins: int) -> Bools:
        return self._ask("update", clock, retained, arrivals, coins)  # type: ignore[return-value]

    def rewrite(self, clock: Clock, retained: Records, coins: int) -> tuple[int, Bools] | None:
        return self._ask("rewrite", clock, retained, coins)  # type: ignore[return-value]

    def answer(self, clock: Clock, retained: Records) -> float | Floats | Estimate:
        return self._ask("answer", clock, retained)  # type: ignore[return-value]

    def _ask(self, method: str, clock: Clock, *arguments: object) -> object:
        reply = _call(self.policy, method, clock, *arguments)
        self.record(Exchange(Question(method, clock, arguments), _freeze(reply)))
        return reply


def _pass_on(name: str) -> property:
    return property(lambda recorder: getattr(recorder.policy, name))


for _attribute in set(vars(Policy)) - set(vars(object)) - set(vars(_Recorder)) - {"update_many"}:
    if not _attribute.startswith("_"):
        setattr(_Recorder, _attribute, _pass_on(_attribute))


class _RecorderOfMany(_Recorder):
    """Does the same for a policy with `update_many`."""

    def update_many(self, clock: Clock, retained: Records, values: Floats, keys: NDArray[np.uint64]) -> Bools:
        return self._ask("update_many", clock, retained, values.copy(), keys)  # type: ignore[return-value]


def record_exchanges(policy: Policy, batch: int, rows: Floats, seed: int) -> list[Exchange]:
    """Run a policy over records in several streams, and record all calls.

    Args:
        policy: policy to call.
        batch: number of records in a batch.
        rows: records; long streams take all of them, the others as many as fill six batches.
        seed: seed of the coins and requests.

    Returns:
        Every question and its reply, in order.

    Raises:
        CheckError: if the policy breaks a rule, fails, or stores something in the stream that calls it.
    """
    exchanges: list[Exchange] = []
    record, few = exchanges.append, rows[: 6 * batch + batch // 3]
    recorder, wide = _Recorder(policy, record), min(2 * batch, policy.max_batch or 2 * batch)
    starts = ((0, rows), (LATER, few), (LATE, few))
    for start, some in starts:
        _drive_stream(_start_stream(recorder, batch, seed, start), some, seed, steps=max(1, batch // 3))
    _drive_stream(
        _start_stream(recorder, wide, seed, max_age=timedelta(seconds=3 * wide)), few, seed, steps=max(1, batch // 3)
    )
    if has_update_many(policy):
        many = _RecorderOfMany(policy, record)
        for start, some in starts:
            _drive_stream(_start_stream(many, batch, seed, start), some, seed, steps=3 * batch)
    return exchanges


def has_update_many(policy: Policy) -> bool:
    """Return whether a stream would call `update_many` of a policy.

    Args:
        policy: policy to look at.

    Returns:
        Whether `update_many` is defined at or below the class that defines `update`.
    """
    many, each = (next(cls for cls in type(policy).__mro__ if name in vars(cls)) for name in ("update_many", "update"))
    return issubclass(many, each)


def _start_stream(policy: Policy, batch: int, seed: int, t: int = 0, max_age: timedelta | None = None) -> Stream:
    """Return a stream in which nothing has arrived yet, or nothing is left after `t` rounds."""
    clock = Clock(t, first=t + 1, last=t, since=t + 1)
    nothing = Records.empty(policy.columns)
    return Stream(policy, retention=2 * batch, max_age=max_age, seed=AuditSeed(seed), retained=nothing, clock=clock)


def _drive_stream(stream: Stream, rows: Floats, seed: int, steps: int) -> None:
    """Extend a stream by records, with pauses if it has a limit in time; ask for answers and removals."""
    rng, before = make_generator(seed), set(vars(stream))
    policy: Policy = stream.policy.policy  # type: ignore[attr-defined]
    name = type(policy).__name__
    moments = _START_TIME + np.cumsum(rng.exponential(1e6, len(rows))).astype("timedelta64[us]")
    cuts = sorted({*range(0, len(rows), steps), *range(0, len(rows), max(steps, stream.batch)), len(rows)})
    for start, stop in pairwise(cuts):  # some of them right after an update, when nothing waits
        here = slice(start, stop)
        try:
            stream.extend(rows[here], times=None if stream.max_age is None else moments[here])
            stream.estimate()
            if rng.random() < 0.4:
                newest, at_once = max(1, stream.t - stream.batch), not stream.clock.pending or rng.random() < 0.3
                stream.forget(rounds=rng.integers(newest, stream.t + 1, size=2), now=bool(at_once))
        except CheckError:
            raise
        except RuleError as broken:
            said = str(broken).replace(type(stream.policy).__name__, name)
            raise CheckError(f"{name} breaks a rule: {said}") from None
        except (NoRecordsError, NoAnswerError):
            continue
        except DataError:
            raise ParameterError(
                f"{name} does not take the records that it is checked with; pass rows, a function rows(rng, n) that "
                "draws such as it takes"
            ) from None
        except Exception as failed:
            raise CheckError(f"{name} failed at t={stream.t} with {type(failed).__name__}") from None
    if set(vars(stream)) != before:
        raise CheckError(f"{name} keeps something in the stream that calls it; a policy must not store anything")


def updates_agree(policy: Policy, batch: int, rows: Floats, seed: int) -> bool:
    """Return whether `update_many` gives the same state as `update` for each batch.

    Args:
        policy: policy with both methods.
        batch: number of records in a batch.
        rows: records; shape (n, columns).
        seed: seed of the coins.

    Returns:
        Whether clock and records agree after each call.
    """
    recorders = (kind(policy, lambda _: None) for kind in (_RecorderOfMany, _Recorder))
    at_once, each = (_start_stream(recorder, batch, seed) for recorder in recorders)
    for start in range(0, len(rows), 3 * batch):
        at_once.extend(rows[start : start + 3 * batch])
        each.extend(rows[start : start + 3 * batch])
        if at_once.clock != each.clock or at_once.retained != each.retained:
            return False
    return True


def answers_agree(policy: Policy, batch: int, rows: Floats, seed: int) -> bool:
    """Return whether the answer is the same if batches end elsewhere.

    Args:
        policy: policy that rounds nothing.
        batch: number of records in a batch; one more in the other stream.
        rows: records; shape (n, columns).
        seed: seed of the coins.

    Returns:
        Whether the answers agree, up to what float64 rounds off.
    """
    sizes = [size for size in (batch, batch + 1) if policy.max_batch is None or size <= policy.max_batch]
    streams = [_start_stream(policy, size, seed) for size in sizes]
    for stream in streams:
        stream.extend(rows)
    first, *others = (stream.estimate().value for stream in streams)
    return all(np.allclose(first, other, rtol=TOLERANCE, atol=TOLERANCE, equal_nan=True) for other in others)


def replay(policy: Policy, exchanges: Sequence[Exchange], blame: str, when: str) -> None:
    """Ask all questions again.

    Args:
        policy: policy to ask.
        exchanges: questions, with the replies to expect.
        blame: beginning of the error message.
        when: circumstances, for the error message.

    Raises:
        CheckError: if a reply differs.
    """
    for exchange in exchanges:
        if not replies_equal(exchange.question.ask(policy), exchange.reply):
            raise CheckError(
                f"{blame}: {exchange.question.name} gave another result when asked again {when}, with the same clock, "
                "records and coins; use nothing else"
            )


def replies_equal(first: Reply, second: Reply) -> bool:
    """Return whether two replies are equal to the last bit.

    Args:
        first: one reply.
        second: the other reply.

    Returns:
        Whether they have the same type and value; NaN equals NaN.

    Example:
        >>> replies_equal(float("nan"), float("nan")), replies_equal(1.0, 1)
        (True, False)
    """
    if isinstance(first, tuple) and isinstance(second, tuple):
        return first[0] == second[0] and replies_equal(first[1], second[1])
    numbers = np.asarray(first).dtype.kind == "f"
    return type(first) is type(second) and np.array_equal(first, second, equal_nan=numbers)  # type: ignore[arg-type]
