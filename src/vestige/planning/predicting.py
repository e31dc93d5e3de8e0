"""The error of a policy, foretold: what all records leave open, what writing loses, what noise and clipping cost.

The parts are independent, and their squares add up; docs/plan.md derives each.
Guarantee: within 20% of what is measured, or the prediction says why not; held by tests/planning/test_honesty.py.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from vestige.errors import ParameterError, whole_number
from vestige.planning.knowing import Known, Numbers
from vestige.planning.writing import TRIED, lost_in_writing
from vestige.policies import Encoded, Private, Window
from vestige.policy import Policy
from vestige.records import Floats

_BENT = 0.1
_LARGE = 0.1


@dataclass(frozen=True, slots=True, eq=False)
class Prediction:
    """The root mean squared error that is expected, and of what it is made.

    In units of what one record says: of a mean, the standard deviation of a record; of any number, the standard
    deviation of its estimate from n records times sqrt(n). The mean square is over all numbers of the answer.

    Attributes:
        error: all of it.
        statistical: what as many records leave open, whoever keeps them.
        writing: what is lost where numbers are written in a choice of records.
        noise: what `Private` adds.
        clipping: what it cuts off.
        errors: the error of each number of the answer, in the units of the data; shape (numbers,).
        notes: why it may be off, in sentences.
    """

    error: float
    statistical: float
    writing: float
    noise: float
    clipping: float
    errors: Floats
    notes: tuple[str, ...] = ()

    @property
    def price(self) -> float:
        """How many times as large the mean squared error is as without noise."""
        return 1.0 + (self.noise / self.statistical) ** 2


def predict(policy: Policy, *, retention: int, records: int, sample: ArrayLike | None = None) -> Prediction:
    """The error of a policy's answer, expected after so many records.

    Args:
        policy: Mean, Moments, Covariance or LinearRegression; Private or Window of one of them.
        retention: a record is gone this many rounds after it arrived.
        records: how many will have arrived.
        sample: some records, in their order; shape (n, columns). Without, they are taken to be normal with mean and
            standard deviation 1 in each column.

    >>> from vestige import Mean, Window
    >>> [f"{predict(policy, retention=96, records=10_000).error:.3f}" for policy in (Mean(), Window())]
    ['0.010', '0.102']
    """
    return foretold(Known(_plain(policy), sample), policy, retention, records)


def _plain(policy: Policy) -> Encoded:
    inner = policy.policy if isinstance(policy, Window | Private) else policy
    if not isinstance(inner, Encoded):
        raise ParameterError(
            f"policy={policy!r} cannot be planned; use Mean, Moments, Covariance or LinearRegression, or Window or "
            "Private of one of them"
        )
    return inner


def foretold(
    known: Known, policy: Policy, retention: int, records: int, *, noted: bool = True, steady: bool = False
) -> Prediction:
    """The same, from what is known.

    Args:
        known: of the records.
        policy: see `predict`.
        retention: see `predict`.
        records: see `predict`.
        noted: whether notes are wanted, which take most of the time.
        steady: whether all records are taken to be noised, as just after an update; not those that wait for the next.
    """
    count, limit = whole_number("records", records, 1), whole_number("retention", retention, 2 * policy.minimum)
    if isinstance(policy, Window):
        numbers = known.numbers
        made = _made(known, numbers, min(count, limit), 0.0, np.zeros(len(numbers.encoded)))
        return replace(made, notes=tuple(_doubts(known, numbers, made, min(count, limit), 0.0))) if noted else made
    assert isinstance(policy, Encoded)  # noqa: S101  # see `_plain`
    numbers = known.numbers_for(policy)
    batch = limit // 2
    batches = count // batch
    each = 2.0 * policy.scale * policy.bound / batch if isinstance(policy, Private) else 0.0
    lost = np.zeros(len(numbers.encoded))
    if batches:
        written = lost_in_writing(policy, numbers.encoded, numbers.moves, known.rows, batch, batches, each)
        lost = written * (batches * batch / count) ** 2
    noise = each * batch * math.sqrt(count / batch if steady and batches else batches) / count
    made = _made(known, numbers, count, noise, lost)
    if not noted:
        return made
    return replace(made, notes=(*_risks(policy, batches), *_doubts(known, numbers, made, count, noise)))


def _risks(policy: Encoded, batches: int) -> tuple[str, ...]:
    """What so few tries cannot show: one bad batch in thousands decides the error, where nothing else steps in."""
    if policy.written.name != "average" or not batches:
        return ()
    return (
        f"A batch that has no average near its target is a loss. {TRIED:,} updates were tried, so that rarer losses, "
        f"among {batches:,} batches, are not counted here; the channel auto writes bits instead.",
    )


def _made(known: Known, numbers: Numbers, records: int, noise: float, lost: Floats) -> Prediction:
    """The parts put together."""
    statistical: Floats = (numbers.answered(numbers.moves) ** 2).mean(axis=0) / records
    writing, noised = numbers.carried(lost), numbers.carried(np.full(len(lost), noise**2))
    cut: Floats = (numbers.value - known.numbers.value) ** 2
    whole: Floats = statistical + writing + noised + cut
    return Prediction(
        error=math.sqrt(known.relative(whole)),
        statistical=math.sqrt(known.relative(statistical)),
        writing=math.sqrt(known.relative(writing)),
        noise=math.sqrt(known.relative(noised)),
        clipping=math.sqrt(known.relative(cut)),
        errors=np.sqrt(whole),
    )


def _doubts(known: Known, numbers: Numbers, made: Prediction, records: int, noise: float) -> Iterator[str]:
    """Why the prediction may be off."""
    share = (made.writing / made.error) ** 2
    if share > _LARGE:
        yield (
            f"Batches are short for so many records: {share:.0%} of the squared error are lost in writing, which is "
            "known less well than the rest; a longer retention loses less."
        )
    ratio, unanswered = known.bends(numbers, records, noise)
    if unanswered > 0.0:
        yield f"In about {unanswered:.0%} of cases there will be no answer, so little is known by then."
    if abs(ratio - 1.0) > _BENT:
        yield (
            "So far from the truth, the answer does not follow its averages in a straight line: its error may be "
            f"{ratio:.2g} times what is said."
        )
    yield from known.notes
