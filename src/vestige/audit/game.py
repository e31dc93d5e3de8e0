"""One trial of the game: a stream with one record's value replaced, and what an auditor sees of it later.

He sees the retained records and the clock at some rounds, and what the policy answers from them; nothing else, and
nothing but that where the record itself is still held. Each trial is a function of its number, so that it does not
matter where it is played.
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


@dataclass(frozen=True, slots=True)
class Game:
    """What is fixed before the first trial.

    Attributes:
        policy: what is audited.
        retention: of its stream.
        round: in which the record arrives whose value is replaced.
        looks: the rounds after which the auditor looks, increasing.
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

    def played(self, number: int, value: Floats) -> Seen:
        """What is seen in trial `number` if the record has this value."""
        draw = make_generator(self.seed, 1, number)
        rows = self.data(draw, self.looks[-1]) if self.others is None else self.others
        rows = np.array(rows, np.float64).reshape(-1, self.policy.columns)
        rows[self.round - 1] = value
        coins = int(make_generator(self.seed, 2, number).integers(2**63))
        stream = Stream(self.policy, retention=self.retention, seed=AuditSeed(coins))
        answers, present = [], np.zeros((len(self.looks), self.retention), np.bool_)
        held, overdue = np.zeros(len(self.looks), np.bool_), np.zeros(len(self.looks), np.bool_)
        for i, look in enumerate(self.looks):
            stream.extend(rows[stream.t : look])
            retained = stream.retained
            slots = retained.rounds - look + self.retention - 1
            held[i], overdue[i] = self.round in retained.rounds, bool((slots < 0).any())
            if not held[i]:
                present[i, slots[slots >= 0]] = True
            answers.append(np.full(1, np.nan) if held[i] else _answer(self.policy, stream.clock, retained))
        padded = np.full((len(answers), max(map(len, answers))), np.nan)
        for row, answer in zip(padded, answers, strict=True):
            row[: len(answer)] = answer
        return Seen(padded[None], np.packbits(present, axis=1)[None], held[None], overdue[None], value[None])


def _answer(policy: Policy, clock: Clock, retained: Records) -> Floats:
    """All numbers that the policy answers with."""
    try:
        answer = policy.answer(clock, retained) if len(retained) else np.nan
    except (NoRecordsError, NoAnswerError):
        answer = np.nan
    return np.ravel(np.asarray(answer.value if isinstance(answer, Estimate) else answer, np.float64))


@dataclass(frozen=True, slots=True, eq=False)
class Seen:
    """What was seen in many trials.

    Attributes:
        answers: nan where there is none; shape (trials, looks, numbers).
        present: which of the last rounds were retained, the newest last, eight to a byte; shape (trials, looks, bytes).
        held: where the record was still held and nothing could be seen; shape (trials, looks).
        overdue: where a record was held too long; shape (trials, looks).
        values: of the replaced record; shape (trials, columns).
    """

    answers: Floats
    present: Bytes
    held: Bools
    overdue: Bools
    values: Floats

    def __len__(self) -> int:
        return len(self.values)

    def where(self, which: slice) -> Seen:
        """Some of the trials."""
        return Seen(self.answers[which], self.present[which], self.held[which], self.overdue[which], self.values[which])

    @classmethod
    def joined(cls, parts: Sequence[Seen]) -> Seen:
        """The trials of all parts, one after the other."""
        answers = np.full(
            (sum(map(len, parts)), parts[0].answers.shape[1], max(part.answers.shape[2] for part in parts)), np.nan
        )
        start = 0
        for part in parts:
            answers[start : start + len(part), :, : part.answers.shape[2]] = part.answers
            start += len(part)
        others = zip(*((part.present, part.held, part.overdue, part.values) for part in parts), strict=True)
        return cls(answers, *(np.concatenate(column) for column in others))


def play(game: Game, numbers: range, values: Floats) -> Seen:
    """Play trials; `values` has one row, or one for each of them."""
    values = np.broadcast_to(values, (len(numbers), game.policy.columns))
    return Seen.joined([game.played(number, value) for number, value in zip(numbers, values, strict=True)])
