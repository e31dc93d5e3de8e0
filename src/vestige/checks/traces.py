"""What a policy was asked and what it said, so that it can be asked again elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np

from vestige.coins import Rehearsal
from vestige.errors import CheckError, NoAnswerError, NoRecordsError, RuleError
from vestige.policy import Answer, Policy
from vestige.records import Bools, Clock, Floats, Ints, Records
from vestige.stream import Stream

Reply = Bools | float | Floats


def _copied(reply: Reply) -> Reply:
    return reply.copy() if isinstance(reply, np.ndarray) else reply


def _numbers(answer: float | Floats | Answer) -> Reply:
    """All numbers of an answer."""
    if not isinstance(answer, Answer):
        return _copied(answer)
    parts = [getattr(answer, field.name) for field in fields(answer) if field.name != "notes"]
    return np.concatenate([np.ravel(part).astype(np.float64) for part in parts if part is not None])


@dataclass(frozen=True, slots=True)
class Question:
    """One call of `update` (with arrivals) or of `answer` (without)."""

    clock: Clock
    retained: Records
    arrivals: Records | None
    coins: int

    @property
    def name(self) -> str:
        """What was called, and when; no values."""
        return f"{'answer' if self.arrivals is None else 'update'} at t={self.clock.t}"

    def ask(self, policy: Policy) -> Reply:
        """Put it to `policy`."""
        if self.arrivals is None:
            return _numbers(policy.answer(self.clock, self.retained))
        return policy.update(self.clock, self.retained, self.arrivals, self.coins)


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
    def minimum(self) -> int:
        return self.policy.minimum

    @property
    def maximum(self) -> int | None:
        return self.policy.maximum

    @property
    def every_round(self) -> bool:  # type: ignore[override]
        return self.policy.every_round

    @property
    def together(self) -> bool:  # type: ignore[override]
        return self.policy.together

    @property
    def secret(self) -> bool:  # type: ignore[override]
        return self.policy.secret

    @property
    def largest(self) -> float:
        return self.policy.largest

    def check_rows(self, rows: Floats) -> None:
        self.policy.check_rows(rows)

    def can_encode(self, clock: Clock, rounds: Ints, leaving: Bools) -> bool:
        return self.policy.can_encode(clock, rounds, leaving)

    def update(self, clock: Clock, retained: Records, arrivals: Records, coins: int) -> Bools:
        keep = self.policy.update(clock, retained, arrivals, coins)
        self.exchanges.append(Exchange(Question(clock, retained, arrivals, coins), _copied(keep)))
        return keep

    def answer(self, clock: Clock, retained: Records) -> float | Floats | Answer:
        answer = self.policy.answer(clock, retained)
        self.exchanges.append(Exchange(Question(clock, retained, None, 0), _numbers(answer)))
        return answer


def trace(policy: Policy, batch: int, rows: Floats, seed: int) -> list[Exchange]:
    """Run `policy` over `rows`, with requests in between: every question that it was asked, and its replies."""
    rng = np.random.default_rng(seed)
    recorder = _Recorder(policy, [])
    stream = Stream(recorder, retention=2 * batch, seed=Rehearsal(seed))
    step = max(1, batch // 3)
    for start in range(0, len(rows), step):
        try:
            stream.extend(rows[start : start + step])
            stream.estimate()
        except RuleError as broken:
            said = str(broken).replace(_Recorder.__name__, type(policy).__name__)
            raise CheckError(f"{type(policy).__name__} breaks a rule: {said}") from broken
        except (NoRecordsError, NoAnswerError):
            continue
        except Exception as failed:
            raise CheckError(
                f"{type(policy).__name__} failed at t={stream.t} with {type(failed).__name__}: {failed}"
            ) from failed
        if rng.random() < 0.3:
            stream.forget(rounds=rng.integers(1, stream.t + 1, size=2))
    return recorder.exchanges


def same_at_once(policy: Policy, batch: int, rows: Floats, seed: int) -> bool:
    """Whether taking all batches at once comes to the same as `update` for each; the recorder knows no other way."""
    at_once, each = (Stream(one, retention=2 * batch, seed=Rehearsal(seed)) for one in (policy, _Recorder(policy, [])))
    at_once.extend(rows)
    each.extend(rows)
    return at_once.clock == each.clock and at_once.retained == each.retained


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
    exact = isinstance(first, np.ndarray) and first.dtype == np.bool_
    return type(first) is type(second) and np.array_equal(first, second, equal_nan=not exact)
