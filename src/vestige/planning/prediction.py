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

from vestige.errors import ParameterError
from vestige.planning.encoding_error import TRIED, lost_in_writing
from vestige.planning.influence import FARTHEST, NEAREST, Known, Numbers
from vestige.policies import Encoded, Private, Window
from vestige.policy import Policy
from vestige.types import Floats
from vestige.validation import check_int

MOST_PLANNED = 10**15
"""Nobody waits for so many records."""
_BENT = 0.1
_LARGE, _WRONG = 0.1, 0.5
_MATTERS = 1.1


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
        worst: the error, if a search for an average is in vain as often as the tries leave possible.
        notes: why it may be off, in sentences.
    """

    error: float
    statistical: float
    writing: float
    noise: float
    clipping: float
    errors: Floats
    worst: float
    notes: tuple[str, ...] = ()

    @property
    def price(self) -> float:
        """How many times as large the mean squared error is as without noise."""
        return 1.0 + (self.noise / self.statistical) ** 2


def predict(
    policy: Policy, *, retention: int, records: int, sample: ArrayLike | None = None, mean: float | None = None
) -> Prediction:
    """The error of a policy's answer, expected after so many records.

    Args:
        policy: Mean, Moments, Covariance or LinearRegression; Private or Window of one of them.
        retention: a record is gone this many rounds after it arrived.
        records: how many will have arrived.
        sample: some records, in their order; shape (n, columns). Without, they are taken to be normal with standard
            deviation 1 in each column.
        mean: without a sample, how far from zero the mean lies, in standard deviations of a record: bits are relative
            to zero, so that a mean far from it costs digits. Default: 1, and a note says where that matters.

    >>> from vestige import Mean, Window
    >>> [f"{predict(policy, retention=96, records=10_000).error:.3f}" for policy in (Mean(), Window())]
    ['0.010', '0.102']
    >>> [f"{predict(Mean(channel='bits'), retention=56, records=10_000, mean=m).error:.3f}" for m in (1.0, 100.0)]
    ['0.010', '0.049']
    """
    known = Known(_plain(policy), sample, mean)
    found = foretold(known, policy, retention, records)
    if known.far is None or isinstance(policy, Private):
        return found
    far = foretold(known.far, policy, retention, records, noted=False).worst
    if far <= _MATTERS * found.error:
        return found
    return replace(found, notes=(*found.notes, far_from_zero(f"the error would be {far:.3g} with this retention")))


def far_from_zero(then: str) -> str:
    """That a prediction cannot be trusted where the mean lies far from zero."""
    return (
        f"This is for a mean at most {NEAREST:g} standard deviation from zero, since nobody said where it lies, and "
        f"cannot be trusted beyond: at {FARTHEST:,.0f} standard deviations {then}. Say the mean, or give a sample."
    )


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
    count = check_int("records", records, 1, MOST_PLANNED)
    limit = check_int("retention", retention, 2 * policy.min_batch, MOST_PLANNED)
    if isinstance(policy, Window):
        numbers = known.numbers
        made = _made(known, numbers, min(count, limit), 0.0, np.zeros(len(numbers.encoded)))
        return replace(made, notes=tuple(_doubts(known, numbers, made, min(count, limit), 0.0))) if noted else made
    assert isinstance(policy, Encoded)  # noqa: S101  # see `_plain`
    numbers = known.numbers_for(policy)
    batch = limit // 2
    batches = count // batch
    each = 2.0 * policy.scale * policy.bound / batch if isinstance(policy, Private) else 0.0
    lost = most = np.zeros(len(numbers.encoded))
    if batches:
        written = lost_in_writing(policy, numbers.encoded, numbers.moves, known.rows, batch, batches, each)
        lost, most = (each * (batches * batch / count) ** 2 for each in written)
    noise = each * batch * math.sqrt(count / batch if steady and batches else batches) / count
    made = replace(_made(known, numbers, count, noise, lost), worst=_made(known, numbers, count, noise, most).error)
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
        worst=math.sqrt(known.relative(whole)),
    )


def _doubts(known: Known, numbers: Numbers, made: Prediction, records: int, noise: float) -> Iterator[str]:
    """Why the prediction may be off."""
    share = (made.writing / made.error) ** 2
    if share > _LARGE:
        known_so = "the prediction cannot be trusted" if share > _WRONG else "which is known less well than the rest"
        yield (
            f"Batches are short for so many records, or numbers far from zero: {share:.0%} of the squared error are "
            f"lost in writing, {known_so}; a longer retention loses less."
        )
    if made.worst > _MATTERS * made.error:
        yield (
            f"The prediction cannot be trusted: {TRIED:,} tries leave open how often a batch has no average near its "
            f"target and bits are written instead; the error may be up to {made.worst:.3g}. A longer retention loses "
            "less."
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
