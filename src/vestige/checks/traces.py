"""What a policy was asked and what it said, so that it can be asked again elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

import numpy as np

from vestige.policy import Policy
from vestige.records import Bools, Clock, Floats, Records
from vestige.stream import Stream

Rows = Callable[[np.random.Generator, int], Floats]


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

    def ask(self, policy: Policy) -> Bools | float | Floats:
        """Put it to `policy`."""
        if self.arrivals is None:
            return policy.answer(self.clock, self.retained)
        return policy.update(self.clock, self.retained, self.arrivals, self.coins)


@dataclass(frozen=True, slots=True)
class Exchange:
    """A question and the reply that the first run got."""

    question: Question
    reply: Bools | float | Floats


@dataclass(frozen=True)
class _Recorder(Policy):
    """Passes every call on to `policy` and notes it."""

    policy: Policy
    exchanges: list[Exchange]

    @property
    def columns(self) -> int:
        return self.policy.columns

    @property
    def every_round(self) -> bool:  # type: ignore[override]
        return self.policy.every_round

    def update(self, clock: Clock, retained: Records, arrivals: Records, coins: int) -> Bools:
        return cast(Bools, self._noted(Question(clock, retained, arrivals, coins)))

    def answer(self, clock: Clock, retained: Records) -> float | Floats:
        return cast("float | Floats", self._noted(Question(clock, retained, None, 0)))

    def _noted(self, question: Question) -> Bools | float | Floats:
        reply = question.ask(self.policy)
        self.exchanges.append(Exchange(question, reply.copy() if isinstance(reply, np.ndarray) else reply))
        return reply


def trace(policy: Policy, batch: int, rows: Rows, seed: int) -> tuple[list[Exchange], Floats]:
    """Run `policy` over a short stream with requests in it: every exchange, and the values erased by the end."""
    rng = np.random.default_rng(seed)
    recorder = _Recorder(policy, [])
    stream = Stream(recorder, retention=2 * batch, seed=seed)
    seen = rows(rng, 6 * batch + batch // 3)
    for start in range(0, len(seen), max(1, batch // 3)):
        stream.extend(seen[start : start + max(1, batch // 3)])
        stream.estimate()
        if rng.random() < 0.3:
            stream.forget(rounds=rng.integers(1, stream.t + 1, size=2))
    erased = np.ones(len(seen), np.bool_)
    erased[stream.retained.rounds - 1] = False
    return recorder.exchanges, seen[erased]
