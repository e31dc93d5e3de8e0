"""What a policy was asked and what it said, so that it can be asked again elsewhere.

A policy is driven as a stream drives it: through `update`, `update_many`, `can_encode`, `rewrite` and `answer`, over
thousands of rounds, with requests, requests that are met at once, and batches that a limit in time closes early.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from datetime import timedelta
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from vestige.clock import Clock
from vestige.errors import CheckError, NoAnswerError, NoRecordsError, RuleError
from vestige.estimate import Estimate
from vestige.policy import Policy
from vestige.random.generators import make_generator
from vestige.random.keys import AuditSeed
from vestige.records import Records
from vestige.stream import Stream
from vestige.types import Bools, Floats, Ints

Reply = Bools | float | Floats | bool | tuple[int, Bools] | None
LATE = 10**7
"""Some streams begin after this round, so that a policy that waits for fewer records before it cheats is found too."""
_DAYBREAK = np.datetime64("2020-01-01", "us")


def _settle(reply: object) -> Reply:
    """A reply of any method, as something that does not change any more and can be compared."""
    if isinstance(reply, Estimate):
        parts = [getattr(reply, field.name) for field in fields(reply) if field.name != "notes"]
        return np.concatenate([np.ravel(part).astype(np.float64) for part in parts if part is not None])
    if isinstance(reply, tuple):
        return (reply[0], reply[1].copy())
    return reply.copy() if isinstance(reply, np.ndarray) else reply  # type: ignore[return-value]


def _call(policy: Policy, method: str, clock: Clock, *arguments: object) -> object:
    """What a method says; a CheckError, which repeats nothing of what it was shown, if it fails or sets the clock."""
    shown, name = clock.copy(), f"{type(policy).__name__}.{method}"
    try:
        reply = getattr(policy, method)(shown, *arguments)
    except (NoRecordsError, NoAnswerError):
        raise
    except Exception as failed:
        raise CheckError(
            f"{name} failed at t={clock.t} with {type(failed).__name__}; what that says may hold a record's value and "
            "is not shown: call it with records of your own to see it"
        ) from None
    if shown != clock:
        raise CheckError(f"{name} changed the clock that it was shown, at t={clock.t}; change nothing")
    return reply


@dataclass(frozen=True, slots=True)
class Question:
    """One call of a policy's method: the clock, and what else was passed."""

    method: str
    clock: Clock
    arguments: tuple[object, ...]

    @property
    def name(self) -> str:
        """What was called, and when; no values."""
        return f"{self.method} at t={self.clock.t}"

    def ask(self, policy: Policy) -> Reply:
        """Put it to `policy`."""
        return _settle(_call(policy, self.method, self.clock, *self.arguments))


@dataclass(frozen=True, slots=True)
class Exchange:
    """A question and the reply that the first run got."""

    question: Question
    reply: Reply


@dataclass(frozen=True)
class _Recorder(Policy):
    """Passes every call on to `policy` and notes it."""

    policy: Policy
    exchanges: list[Exchange]

    @property
    def columns(self) -> int:
        return self.policy.columns

    @property
    def min_batch(self) -> int:
        return self.policy.min_batch

    @property
    def min_early_batch(self) -> int:
        return self.policy.min_early_batch

    @property
    def max_batch(self) -> int | None:
        return self.policy.max_batch

    @property
    def every_round(self) -> bool:  # type: ignore[override]
        return self.policy.every_round

    @property
    def all_or_nothing(self) -> bool:  # type: ignore[override]
        return self.policy.all_or_nothing

    @property
    def requires_secret_coins(self) -> bool:  # type: ignore[override]
        return self.policy.requires_secret_coins

    @property
    def values_in_bits(self) -> int:
        return self.policy.values_in_bits

    @property
    def max_magnitude(self) -> float:
        return self.policy.max_magnitude

    def check_rows(self, rows: Floats) -> None:
        self.policy.check_rows(rows)

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
        self.exchanges.append(Exchange(Question(method, clock, arguments), _settle(reply)))
        return reply


class _RecorderOfMany(_Recorder):
    """The same for a policy that takes many batches at once."""

    def update_many(self, clock: Clock, retained: Records, values: Floats, keys: NDArray[np.uint64]) -> Bools:
        return self._ask("update_many", clock, retained, values.copy(), keys)  # type: ignore[return-value]


def trace(policy: Policy, batch: int, rows: Floats, seed: int) -> list[Exchange]:
    """Run `policy` over `rows` in several streams, and record every call.

    Args:
        policy: the policy to run.
        batch: the size of its batches.
        rows: records; long streams use all of them, the others as many as fill six batches.
        seed: seed of coins and requests.

    Returns:
        Each call of the policy with its reply, in order.

    Raises:
        CheckError: the policy breaks a rule, fails, or leaves something in the stream that calls it.
    """
    exchanges: list[Exchange] = []
    recorder, few = _Recorder(policy, exchanges), rows[: 6 * batch + batch // 3]
    wide = min(2 * batch, policy.max_batch or 2 * batch)
    _drive(_begin(recorder, batch, seed), rows, seed, steps=max(1, batch // 3))
    _drive(_begin(recorder, batch, seed, LATE), few, seed, steps=max(1, batch // 3))
    _drive(_begin(recorder, wide, seed, max_age=timedelta(seconds=3 * wide)), few, seed, steps=max(1, batch // 3))
    if takes_many(policy):
        for start, some in ((0, rows), (LATE, few)):
            _drive(_begin(_RecorderOfMany(policy, exchanges), batch, seed, start), some, seed, steps=3 * batch)
    return exchanges


def takes_many(policy: Policy) -> bool:
    """Whether a stream would ask it for many batches at once."""
    many, each = (next(cls for cls in type(policy).__mro__ if name in vars(cls)) for name in ("update_many", "update"))
    return issubclass(many, each)


def _begin(policy: Policy, batch: int, seed: int, t: int = 0, max_age: timedelta | None = None) -> Stream:
    """A stream to which nothing has arrived yet, or of which nothing is left after `t` rounds."""
    clock = Clock(t, first=t + 1, last=t, since=t + 1)
    nothing = Records.empty(policy.columns)
    return Stream(policy, retention=2 * batch, max_age=max_age, seed=AuditSeed(seed), retained=nothing, clock=clock)


def _drive(stream: Stream, rows: Floats, seed: int, steps: int) -> None:
    """Let `rows` arrive, with pauses where a limit in time is set; ask for the answer, and for removals."""
    rng, before = make_generator(seed), set(vars(stream))
    policy: Policy = stream.policy.policy  # type: ignore[attr-defined]
    name = type(policy).__name__
    moments = _DAYBREAK + np.cumsum(rng.exponential(1e6, len(rows))).astype("timedelta64[us]")
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
        except Exception as failed:
            raise CheckError(f"{name} failed at t={stream.t} with {type(failed).__name__}") from None
    if set(vars(stream)) != before:
        raise CheckError(f"{name} keeps something in the stream that calls it; a policy may keep nothing anywhere")


def same_at_once(policy: Policy, batch: int, rows: Floats, seed: int) -> bool:
    """Whether taking several batches at once comes to the same as `update` for each, after each such call."""
    at_once, each = (_begin(kind(policy, []), batch, seed) for kind in (_RecorderOfMany, _Recorder))
    for start in range(0, len(rows), 3 * batch):
        at_once.extend(rows[start : start + 3 * batch])
        each.extend(rows[start : start + 3 * batch])
        if at_once.clock != each.clock or at_once.retained != each.retained:
            return False
    return True


def ask_again(policy: Policy, exchanges: Sequence[Exchange], blame: str, when: str) -> None:
    """Put all questions once more, and complain if a reply differs."""
    for exchange in exchanges:
        if not same(exchange.question.ask(policy), exchange.reply):
            raise CheckError(
                f"{blame}: {exchange.question.name} gave another result when asked again {when}, with the same clock, "
                "records and coins; use nothing else"
            )


def same(first: Reply, second: Reply) -> bool:
    """Whether two replies are equal to the last bit."""
    if isinstance(first, tuple) and isinstance(second, tuple):
        return first[0] == second[0] and same(first[1], second[1])
    numbers = np.asarray(first).dtype.kind == "f"
    return type(first) is type(second) and np.array_equal(first, second, equal_nan=numbers)  # type: ignore[arg-type]
