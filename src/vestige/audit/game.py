"""One trial of the audit game: a stream in which the value of one record is replaced, observed after its erasure.

The adversary observes the retained records and the clock after some rounds, and what the policy answers from them;
nothing else, and nothing at all while the record itself is retained. With a strategy, the adversary also chooses what
arrives. A trial is a function of its number, so it does not matter in which process it runs.
Guarantee: the same observations from any number of processes; held by tests/audit/test_leakage.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vestige.audit.strategy import State, Strategy, Turn, answer_numbers, choose_rows, rehearse
from vestige.policy import Policy
from vestige.random.generators import make_generator
from vestige.random.keys import AuditSeed
from vestige.records import Records
from vestige.stream import Stream
from vestige.types import Bools, Floats

Bytes = NDArray[np.uint8]
Data = Callable[[np.random.Generator, int], Floats]
"""A function `data(rng, n)` that draws n records; shape (n, columns)."""


@dataclass(frozen=True, slots=True, eq=False)
class Observations:
    """What the adversary observes in many trials; a look is the state after one round.

    Attributes:
        answers: numbers that the policy answers with; NaN where there is none; shape (trials, looks, numbers).
        present: which of the last rounds are retained, the newest last, eight to a byte; shape (trials, looks, bytes).
        contents: values of the records in these rounds, NaN where none is retained; empty if nobody learns from them;
            shape (trials, looks, rounds * columns).
        forecasts: answer halfway between those that the adversary expects under the hypotheses after the batch of the
            record; empty unless they choose what arrives; shape (trials, numbers).
        retained: where the record is still retained, so that nothing is observed; shape (trials, looks).
        overdue: where some record is retained for too long; shape (trials, looks).
        values: values of the replaced record; shape (trials, columns).
    """

    answers: Floats
    present: Bytes
    contents: Floats
    forecasts: Floats
    retained: Bools
    overdue: Bools
    values: Floats

    def __len__(self) -> int:
        return len(self.values)

    def select(self, trials: slice) -> Observations:
        """Select some of the trials.

        Args:
            trials: which ones.

        Returns:
            The observations of these trials.

        Example:
            >>> one = Observations(*np.zeros((7, 3, 1, 1)))
            >>> len(one.select(slice(2)))
            2
        """
        return Observations(*(getattr(self, field.name)[trials] for field in fields(self)))

    @classmethod
    def concatenate(cls, parts: Sequence[Observations]) -> Observations:
        """Join trials one after the other; answers of fewer numbers are filled up with NaN.

        Args:
            parts: at least one.

        Returns:
            The observations of all trials.

        Example:
            >>> one = Observations(*np.zeros((7, 3, 1, 1)))
            >>> len(Observations.concatenate([one, one]))
            6
        """
        return cls(*(_stack([getattr(part, field.name) for part in parts]) for field in fields(cls)))


def _stack(parts: list[NDArray[Any]]) -> NDArray[Any]:
    """Join arrays along their first axis; where the last one differs, fill it up with NaN."""
    width = max(part.shape[-1] for part in parts)
    if all(part.shape[-1] == width for part in parts):
        return np.concatenate(parts)
    padded = [np.full((*part.shape[:-1], width), np.nan) for part in parts]
    for whole, part in zip(padded, parts, strict=True):
        whole[..., : part.shape[-1]] = part
    return np.concatenate(padded)


@dataclass(frozen=True, slots=True)
class Game:
    """What is fixed before the first trial.

    Attributes:
        policy: policy under audit.
        retention: retention of its stream, in records.
        target: round in which the replaced record arrives.
        looks: rounds after which the adversary observes the stream, in increasing order.
        others: all records, if the adversary knows them; None if each trial draws its own.
        data: function that draws records.
        seed: seed of the coins and of the records.
        strategy: what chooses the other records from the states before, batch by batch; None if nobody does.
        hypotheses: values of the record under the two hypotheses, for the strategy; shape (2, columns).
        learned: whether a classifier learns from the values that are retained.
    """

    policy: Policy
    retention: int
    target: int
    looks: tuple[int, ...]
    others: Floats | None
    data: Data
    seed: int
    strategy: Strategy | None = None
    hypotheses: Floats | None = None
    learned: bool = False

    @property
    def batch(self) -> int:
        """Number of records in a batch."""
        return max(1, self.retention // 2)

    def play_trial(self, number: int, value: Floats) -> Observations:
        """Run one trial.

        Args:
            number: number of the trial, which determines its coins and its records.
            value: value of the replaced record; shape (columns,).

        Returns:
            The observations of this trial.
        """
        rng = make_generator(self.seed, 1, number)
        rows = self.data(rng, self.looks[-1]) if self.others is None else self.others
        rows = np.array(rows, np.float64).reshape(-1, self.policy.columns)
        rows[self.target - 1] = value
        coins = int(make_generator(self.seed, 2, number).integers(2**63))
        stream = Stream(self.policy, retention=self.retention, seed=AuditSeed(coins))
        states: list[State] = []
        seen, forecast = [], np.empty(0)
        for t in self._list_stops():
            if t > stream.t:
                stream.extend(rows[stream.t : t])
            records = stream.retained
            state = None if self.target in records.rounds else (stream.clock, records)
            if t in self.looks:
                seen.append(self._observe(t, state, records))
            if self.strategy is not None and t % self.batch == 0 and t < self.looks[-1]:
                states.append(state)
                turn = self._make_turn(rows[t : t + self.batch], t, tuple(states), number)
                chosen = choose_rows(self.strategy, turn)
                if turn.position is not None:
                    forecast = rehearse(turn, chosen).mean(axis=(0, 1))
                rows[t : t + self.batch] = chosen
                rows[self.target - 1] = value
        answers, present, contents, retained, overdue = zip(*seen, strict=True)
        return Observations(
            _stack([answer[None] for answer in answers])[None],
            np.packbits(present, axis=1)[None],
            np.array(contents)[None],
            forecast[None],
            np.array(retained)[None],
            np.array(overdue)[None],
            value[None],
        )

    def _list_stops(self) -> list[int]:
        """The rounds after which something is observed or chosen."""
        turns = [] if self.strategy is None else range(0, self.looks[-1], self.batch)
        return sorted({*self.looks, *turns})

    def _make_turn(self, rows: Floats, t: int, states: tuple[State, ...], number: int) -> Turn:
        """What the strategy knows; the record has its value under the null hypothesis, whichever is true."""
        hypotheses = np.zeros((2, self.policy.columns)) if self.hypotheses is None else self.hypotheses
        position = self.target - 1 - t if t < self.target <= t + len(rows) else None
        rows = rows.copy()
        if position is not None:
            rows[position] = hypotheses[0]
        rng = make_generator(self.seed, 5, number, t)
        return Turn(self.policy, self.retention, states, rows, position, hypotheses, rng)

    def _observe(self, t: int, state: State, records: Records) -> tuple[Floats, Bools, NDArray[Any], bool, bool]:
        """The answer, which rounds are present, their values, and whether the record or an overdue one is retained."""
        slots = records.rounds - t + self.retention - 1
        there = slots >= 0
        present: Bools = np.zeros(self.retention, np.bool_)
        contents = np.full((self.retention if self.learned else 0, records.columns), np.nan, np.float32)
        if state is not None:
            present[slots[there]] = True
            if self.learned:
                with np.errstate(over="ignore"):
                    contents[slots[there]] = records.values[there]
        answer: Floats = np.full(1, np.nan) if state is None else answer_numbers(self.policy, *state)
        return answer, present, contents.ravel(), state is None, not bool(there.all())


def play_trials(game: Game, numbers: range, values: Floats) -> Observations:
    """Run several trials.

    Args:
        game: what to play.
        numbers: numbers of the trials.
        values: value of the replaced record, in one row for all trials or one row for each; shape (1 or n, columns).

    Returns:
        The observations of all trials.

    Example:
        >>> from vestige import Window
        >>> game = Game(Window(), 8, 1, (16,), None, lambda rng, n: rng.normal(size=(n, 1)), seed=0)
        >>> play_trials(game, range(3), np.zeros((1, 1))).answers.shape
        (3, 1, 1)
    """
    values = np.broadcast_to(values, (len(numbers), game.policy.columns))
    return Observations.concatenate(
        [game.play_trial(number, value) for number, value in zip(numbers, values, strict=True)]
    )
