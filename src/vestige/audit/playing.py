"""One trial of the game: a stream with one record's value replaced, and what an auditor sees of it later.

He sees the retained records and the clock at some rounds after the record was erased, and what the policy answers from
them; nothing else. Each trial is a function of its number, so that it does not matter where it is played.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from vestige.errors import NoAnswerError, NoRecordsError
from vestige.policy import Policy
from vestige.records import Bools, Floats
from vestige.stream import Stream

Data = Callable[[np.random.Generator, int], Floats]


@dataclass(frozen=True, slots=True)
class Game:
    """What is fixed before the first trial.

    Attributes:
        policy: what is audited.
        retention: of its stream.
        round: in which the record arrives whose value is replaced.
        looks: the rounds after which the auditor looks, increasing; the record is gone at all of them.
        others: all records, if the adversary knows them; None if they are drawn anew for each trial.
        data: where records are drawn from.
        seed: of the coins and the draws.
    """

    policy: Policy
    retention: int
    round: int
    looks: tuple[int, ...]
    others: Floats | None
    data: Data
    seed: int

    def played(self, number: int, value: Floats) -> tuple[Floats, Bools]:
        """What is seen in trial `number` if the record has this value.

        Returns:
            the answers, of shape (looks, numbers), nan where there is none; and which of the last rounds are retained,
            of shape (looks, retention), the newest last.
        """
        draw = np.random.default_rng([self.seed, 1, number])
        rows = self.data(draw, self.looks[-1]) if self.others is None else self.others
        rows = np.array(rows, np.float64).reshape(-1, self.policy.columns)
        rows[self.round - 1] = value
        coins = int(np.random.default_rng([self.seed, 2, number]).integers(2**63))
        stream = Stream(self.policy, retention=self.retention, seed=coins)
        answers, present = [], np.zeros((len(self.looks), self.retention), np.bool_)
        for i, look in enumerate(self.looks):
            stream.extend(rows[stream.t : look])
            present[i, stream.retained.rounds - look + self.retention - 1] = True
            answers.append(_answer(stream))
        width = max(map(len, answers))
        return np.array([np.pad(a, (0, width - len(a)), constant_values=np.nan) for a in answers]), present


def _answer(stream: Stream) -> Floats:
    """All numbers that the policy answers with."""
    try:
        return np.ravel(np.asarray(stream.estimate().value, np.float64))
    except (NoRecordsError, NoAnswerError):
        return np.full(1, np.nan)


@dataclass(frozen=True, slots=True, eq=False)
class Seen:
    """What was seen in many trials.

    Attributes:
        answers: shape (trials, looks, numbers).
        present: which rounds were retained; shape (trials, looks, retention).
        values: of the replaced record; shape (trials, columns).
    """

    answers: Floats
    present: Bools
    values: Floats


def play(game: Game, numbers: range, values: Floats) -> Seen:
    """Play trials; `values` has one row, or one for each of them."""
    values = np.broadcast_to(values, (len(numbers), game.policy.columns))
    seen = [game.played(number, value) for number, value in zip(numbers, values, strict=True)]
    return Seen(np.array([answers for answers, _ in seen]), np.array([present for _, present in seen]), values.copy())
