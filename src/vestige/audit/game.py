"""One trial of the audit game: a stream in which the value of one record is replaced, observed after its erasure.

The adversary observes the retained records and the clock at some checkpoints, and what the policy answers from them;
nothing else, and nothing at all while the record itself is retained. A trial is a function of its number, so it does
not matter in which process it runs.
Guarantee: the same observations from any number of processes; held by tests/audit/test_leakage.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vestige.clock import Clock
from vestige.errors import NoAnswerError, NoRecordsError
from vestige.estimate import Estimate
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
    """What the adversary observes in many trials.

    Attributes:
        answers: numbers that the policy answers with; NaN where there is none; shape (trials, checkpoints, numbers).
        present: which of the last rounds are retained, the newest last, eight to a byte; shape (trials, checkpoints,
            bytes).
        retained: where the record is still retained, so that nothing is observed; shape (trials, checkpoints).
        overdue: where some record is retained for too long; shape (trials, checkpoints).
        values: values of the replaced record; shape (trials, columns).
    """

    answers: Floats
    present: Bytes
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
            >>> one = Observations(*np.zeros((5, 3, 1, 1)))
            >>> len(one.select(slice(2)))
            2
        """
        return Observations(
            self.answers[trials],
            self.present[trials],
            self.retained[trials],
            self.overdue[trials],
            self.values[trials],
        )

    @classmethod
    def concatenate(cls, parts: Sequence[Observations]) -> Observations:
        """Join trials one after the other; answers of fewer numbers are filled up with NaN.

        Args:
            parts: at least one.

        Returns:
            The observations of all trials.

        Example:
            >>> one = Observations(*np.zeros((5, 3, 1, 1)))
            >>> len(Observations.concatenate([one, one]))
            6
        """
        answers = np.full(
            (sum(map(len, parts)), parts[0].answers.shape[1], max(part.answers.shape[2] for part in parts)), np.nan
        )
        start = 0
        for part in parts:
            answers[start : start + len(part), :, : part.answers.shape[2]] = part.answers
            start += len(part)
        others = zip(*((part.present, part.retained, part.overdue, part.values) for part in parts), strict=True)
        return cls(answers, *(np.concatenate(column) for column in others))


@dataclass(frozen=True, slots=True)
class Game:
    """What is fixed before the first trial.

    Attributes:
        policy: policy under audit.
        retention: retention of its stream, in records.
        target: round in which the replaced record arrives.
        checkpoints: rounds after which the adversary observes the stream, in increasing order.
        others: all records, if the adversary knows them; None if each trial draws its own.
        data: function that draws records.
        seed: seed of the coins and of the records.
    """

    policy: Policy
    retention: int
    target: int
    checkpoints: tuple[int, ...]
    others: Floats | None
    data: Data
    seed: int

    def play_trial(self, number: int, value: Floats) -> Observations:
        """Run one trial.

        Args:
            number: number of the trial, which determines its coins and its records.
            value: value of the replaced record; shape (columns,).

        Returns:
            The observations of this trial.
        """
        rng = make_generator(self.seed, 1, number)
        rows = self.data(rng, self.checkpoints[-1]) if self.others is None else self.others
        rows = np.array(rows, np.float64).reshape(-1, self.policy.columns)
        rows[self.target - 1] = value
        coins = int(make_generator(self.seed, 2, number).integers(2**63))
        stream = Stream(self.policy, retention=self.retention, seed=AuditSeed(coins))
        count = len(self.checkpoints)
        answers, present = [], np.zeros((count, self.retention), np.bool_)
        retained, overdue = np.zeros(count, np.bool_), np.zeros(count, np.bool_)
        for i, t in enumerate(self.checkpoints):
            stream.extend(rows[stream.t : t])
            records = stream.retained
            slots = records.rounds - t + self.retention - 1
            retained[i], overdue[i] = self.target in records.rounds, bool((slots < 0).any())
            if not retained[i]:
                present[i, slots[slots >= 0]] = True
            answers.append(np.full(1, np.nan) if retained[i] else _answer(self.policy, stream.clock, records))
        padded = np.full((count, max(map(len, answers))), np.nan)
        for row, answer in zip(padded, answers, strict=True):
            row[: len(answer)] = answer
        present_bytes = np.packbits(present, axis=1)
        return Observations(padded[None], present_bytes[None], retained[None], overdue[None], value[None])


def _answer(policy: Policy, clock: Clock, records: Records) -> Floats:
    """Return all numbers that the policy answers with."""
    try:
        answer = policy.answer(clock, records) if len(records) else np.nan
    except (NoRecordsError, NoAnswerError):
        answer = np.nan
    return np.ravel(np.asarray(answer.value if isinstance(answer, Estimate) else answer, np.float64))


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
