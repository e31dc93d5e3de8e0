"""The error of a policy, predicted from four parts: statistical error, encoding error, noise and clipping.

The parts are independent, and their squares add up; docs/plan.md derives each.
Guarantee: the measured error is within 20% of the prediction, or a note says why it may not be; held by
tests/planning/test_honesty.py.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from vestige.channels.layout import find_precision
from vestige.planning.data_model import DataModel, check_policy, unwrap_policy
from vestige.planning.encoding_error import TRIALS, find_encoding_variance
from vestige.planning.influence import Linearization
from vestige.policies import BundleEstimate, Encoded
from vestige.policy import Policy
from vestige.types import Floats
from vestige.validation import check_int

MAX_RECORDS = 10**15
"""Largest number of records that a prediction is for."""
_MAX_NONLINEARITY = 0.1
_LARGE_SHARE, _DOMINANT_SHARE = 0.1, 0.5
_RELEVANT = 1.1
MAX_MISSED = 0.02
"""A plan lets at most this share of streams say that they have missed their target."""


@dataclass(frozen=True, slots=True, eq=False)
class Prediction:
    """The expected root mean squared error, and its parts.

    Errors are in standard deviations of one record's influence: for a mean, the standard deviation of a record; for any
    number, the standard deviation of its estimate from n records times sqrt(n). The mean square is over all numbers of
    the answer.

    Attributes:
        error: the whole error.
        statistical: error of any policy that learns from all these records.
        encoding: error that encoding numbers in the choice of records adds.
        noise: error from the noise of `Private`.
        clipping: error from the clipping of `Private`.
        errors: error of each number of the answer, in the units of the data; shape (numbers,).
        worst: the error, if coarse words are as frequent as the simulation leaves possible.
        missed: the share of answers that say that they have missed their target.
        notes: reasons why the prediction may be off, in sentences.
    """

    error: float
    statistical: float
    encoding: float
    noise: float
    clipping: float
    errors: Floats
    worst: float
    missed: float = 0.0
    notes: tuple[str, ...] = ()

    @property
    def price(self) -> float:
        """Mean squared error as a multiple of that without noise."""
        return 1.0 + (self.noise / self.statistical) ** 2


def predict(
    policy: Policy, *, retention: int, records: int, sample: ArrayLike | None = None, mean: float | None = None
) -> Prediction:
    """Predict the error of a policy's answer.

    Args:
        policy: Mean, Moments, Covariance or LinearRegression; or Private or Window of one of them; or a policy of your
            own that says how its answer depends on a record.
        retention: retention of the stream, in records.
        records: number of records that will have arrived.
        sample: some records, in order of arrival; shape (n, columns). Default: records are assumed to be normal with
            standard deviation 1 in each column.
        mean: without a sample, the distance of the mean from zero, in standard deviations of a record. It matters where
            `Private` clips records. Default: 1.

    Returns:
        The expected error, its parts, and notes.

    Raises:
        ParameterError: the policy cannot be predicted, or a number is out of range.
        DataError: the sample is too small, or does not vary.

    Example:
        >>> from vestige import Mean, Window
        >>> [f"{predict(policy, retention=96, records=10_000).error:.3f}" for policy in (Mean(), Window())]
        ['0.010', '0.102']
    """
    model = DataModel(unwrap_policy(policy), sample, mean, check_int("records", records, 1, MAX_RECORDS))
    return predict_with(model, policy, retention, records)


def predict_with(
    model: DataModel, policy: Policy, retention: int, records: int, *, with_notes: bool = True, steady: bool = False
) -> Prediction:
    """Predict the error of a policy's answer on modelled data; see `predict`.

    Args:
        model: the records.
        policy: the policy.
        retention: retention of the stream, in records.
        records: number of records that will have arrived.
        with_notes: whether to find notes, which takes most of the time.
        steady: whether all records have noise, as right after an update; else those that wait for the next do not.

    Returns:
        The expected error, its parts, and notes.

    Raises:
        ParameterError: a number is out of range.
    """
    count = check_int("records", records, 1, MAX_RECORDS)
    limit = check_int("retention", retention, 2 * policy.min_batch, MAX_RECORDS)
    if policy.is_window:
        return _predict_window(model, min(count, limit), with_notes=with_notes)
    policy = check_policy(policy)
    linearization = model.linearize(policy)
    batch = limit // 2
    batches = count // batch
    batch_noise = policy.batch_noise(batch)
    expected = upper = np.zeros(len(linearization.encoded))
    missed = 0.0
    if batches:
        *variances, missed = find_encoding_variance(model, policy, batch, batches, batch_noise)
        expected, upper = (each * (batches * batch / count) ** 2 for each in variances)
    noise = batch_noise * batch * math.sqrt(count / batch if steady and batches else batches) / count
    worst = _combine(model, linearization, count, noise, upper).error
    prediction = replace(_combine(model, linearization, count, noise, expected), worst=worst, missed=missed)
    if not with_notes:
        return prediction
    doubts = _find_doubts(model, linearization, prediction, count, noise)
    return replace(prediction, notes=(*_find_risks(policy, batches), *doubts))


def is_rounded_off(model: DataModel, policy: Encoded, batch: int, records: int) -> bool:
    """Tell whether an answer would say that rounding has put it off, as a correlation near 1 does at a short retention.

    Args:
        model: the records.
        policy: the policy.
        batch: number of records in a batch.
        records: number of records that will have arrived.

    Returns:
        True where it would.
    """
    if policy.requires_secret_coins or not policy.encoding.has_bits or not records // batch:
        return False
    encoded = model.linearize(policy).encoded
    each = find_precision(policy.encoding.find_room(batch), len(encoded))
    made = policy.conclude(encoded, float(records), each * math.sqrt(1.0 + records // batch / 3.0))
    parts = made.answers.values() if isinstance(made, BundleEstimate) else (made,)
    return any(part is not None and part.missed for part in parts)


def _predict_window(model: DataModel, held: int, *, with_notes: bool) -> Prediction:
    """The error of a window, which has all the records that it holds and no others."""
    linearization = model.linearization
    prediction = _combine(model, linearization, held, 0.0, np.zeros(len(linearization.encoded)))
    notes = tuple(_find_doubts(model, linearization, prediction, held, 0.0)) if with_notes else ()
    return replace(prediction, notes=notes)


def _find_risks(policy: Encoded, batches: int) -> tuple[str, ...]:
    """What the simulation cannot show: without words, one bad batch in thousands decides the error."""
    if policy.encoding.has_bits or not batches:
        return ()
    return (
        f"A batch without an average near its target adds a large error. {TRIALS:,} updates were simulated, so rarer "
        f"failures, among {batches:,} batches, are not counted here; the channel auto writes words instead.",
    )


def _combine(model: DataModel, linearization: Linearization, records: int, noise: float, lost: Floats) -> Prediction:
    """Add up the parts."""
    statistical: Floats = (linearization.propagate(linearization.influence) ** 2).mean(axis=0) / records
    encoding = linearization.propagate_variances(lost)
    noised = linearization.propagate_variances(np.full(len(lost), noise**2))
    clipped: Floats = (linearization.value - model.linearization.value) ** 2
    total: Floats = statistical + encoding + noised + clipped
    return Prediction(
        error=math.sqrt(model.average_relative(total)),
        statistical=math.sqrt(model.average_relative(statistical)),
        encoding=math.sqrt(model.average_relative(encoding)),
        noise=math.sqrt(model.average_relative(noised)),
        clipping=math.sqrt(model.average_relative(clipped)),
        errors=np.sqrt(total),
        worst=math.sqrt(model.average_relative(total)),
    )


def _find_doubts(
    model: DataModel, linearization: Linearization, prediction: Prediction, records: int, noise: float
) -> Iterator[str]:
    """Reasons why the prediction may be off."""
    share = (prediction.encoding / prediction.error) ** 2
    if share > _LARGE_SHARE:
        consequence = "the prediction cannot be trusted" if share > _DOMINANT_SHARE else "which is known less precisely"
        yield (
            f"Batches are short for this number of records: {share:.0%} of the squared error comes from encoding, "
            f"{consequence}; a longer retention reduces it."
        )
    if prediction.worst > _RELEVANT * prediction.error:
        yield (
            "The prediction cannot be trusted: the simulation leaves open how often a number is written coarsely; the "
            f"error may be up to {prediction.worst:.3g}. A longer retention reduces it."
        )
    if prediction.missed > MAX_MISSED:
        yield (
            f"About {prediction.missed:.0%} of such streams will say that their answers have missed their target, "
            "since words are coarse beside the standard error; a longer retention makes them finer."
        )
    ratio, unanswered = model.simulate_answers(linearization, records, noise)
    if unanswered > 0.0:
        yield f"In about {unanswered:.0%} of cases there will be no answer: there are too few records for one."
    if abs(ratio - 1.0) > _MAX_NONLINEARITY:
        yield (
            "With errors this large, the answer is not linear in its averages: its error may be "
            f"{ratio:.2g} times the prediction."
        )
    yield from model.notes
