"""What is known of records before they arrive: a sample of them, or a stated assumption.

Everything else in a plan follows from the influence of one record (`vestige.planning.influence`), and its spread is the
unit of all errors.
Guarantee: held by tests/planning/test_honesty.py.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import TypeVar, cast

import numpy as np
from numpy.typing import ArrayLike

from vestige.errors import DataError, NoAnswerError, ParameterError
from vestige.planning.influence import MANY, Linearization, linearize
from vestige.policies import Encoded
from vestige.policy import Policy
from vestige.random.generators import make_generator
from vestige.stream.arrivals import read_sample
from vestige.types import Floats
from vestige.validation import check_float, show_value

T = TypeVar("T")

DEFAULT_MEAN = 1.0
"""Assumed distance of the mean from zero, in standard deviations."""
_MAX_ROWS, _MAX_CELLS, _MIN_ROWS = 50_000, 4_000_000, 100
_MAX_NUMBERS = 2_000
_BLOCKS, _MAX_BLOCK_RATIO = 32, 2.2  # of chi2 with 31 degrees of freedom over 31, one in ten thousand is above 2.2
_MAX_UNCERTAINTY = 0.15
_TRIALS = 200
_MAX_MEAN = 1e9  # standard deviations from zero; farther, floats have few digits left for the spread


class DataModel:
    """The records that a policy will receive, as far as they are known.

    Args:
        policy: policy of running averages, without noise.
        sample: some records, in order of arrival; shape (n, columns). Default: records are assumed to be independent
            normals with standard deviation 1 in each column; outputs of a regression are the sum of the predictors plus
            noise of deviation 1.
        mean: without a sample, the distance of each column's mean from zero, in its standard deviations. Default: 1.
        records: number of records that answers are from, on which the size of a sum depends.

    Attributes:
        policy: the policy.
        has_sample: whether there is a sample.
        mean: the assumed distance; None with a sample.
        is_mean_assumed: whether neither a sample nor a mean was given.
        rows: the records; shape (n, columns).
        linearization: of the policy on these records.
        spread: standard deviation of one record's influence on each number of the answer: the unit of all errors.
        notes: doubts about the sample, in sentences.

    Raises:
        ParameterError: the policy cannot be predicted, or the mean is out of range.
        DataError: the sample is too small, or does not vary.

    Example:
        >>> from vestige import Mean
        >>> DataModel(Mean(), sample=[0.0, 2.0] * 50).spread
        array([1.])
    """

    def __init__(
        self, policy: Encoded, sample: ArrayLike | None = None, mean: float | None = None, records: float = MANY
    ) -> None:
        _check_plain(policy)
        self.policy = policy
        self._records = records
        self.has_sample = sample is not None
        self.mean = _check_mean(mean, has_sample=self.has_sample)
        self.is_mean_assumed = not self.has_sample and mean is None
        self.rows = _check_sample(policy, sample) if sample is not None else _assume_rows(policy, self.mean or 0.0)
        self._remembered: dict[Hashable, object] = {}
        self.linearization = self.linearize(policy)
        influence = self.linearization.propagate(self.linearization.influence)
        self.spread: Floats = np.sqrt((influence**2).mean(axis=0))
        if not (self.spread > 0.0).any():
            raise DataError("all records of the sample have the same influence; give a sample that varies")
        self.notes = _find_doubts(influence, self.spread) if self.has_sample else ()

    def linearize(self, policy: Encoded) -> Linearization:
        """Linearize a policy of the same statistic on these records.

        Args:
            policy: the policy.

        Returns:
            Its linearization, computed once.
        """
        return self.remember(("linearization", policy), lambda: linearize(policy, self.rows, self._records))

    def remember(self, key: Hashable, compute: Callable[[], T]) -> T:
        """Compute what depends on these records alone, once.

        Args:
            key: what it is.
            compute: computes it.

        Returns:
            What was computed.
        """
        if key not in self._remembered:
            self._remembered[key] = compute()
        return cast(T, self._remembered[key])

    def average_relative(self, variances: Floats) -> float:
        """Average variances of the answer in units of the squared spread, over the numbers that vary.

        Args:
            variances: variance of each number of the answer; shape (numbers,).

        Returns:
            The average.
        """
        varies = self.spread > 0.0
        return float((variances[varies] / self.spread[varies] ** 2).mean())

    def simulate_answers(self, linearization: Linearization, records: float, noise: float) -> tuple[float, float]:
        """Simulate answers, to see how far they are from linear in the encoded numbers.

        Args:
            linearization: of the policy.
            records: number of records that the answer is from.
            noise: standard deviation of noise in each encoded number.

        Returns:
            The error as a multiple of that of a linear answer, and the share of trials without an answer.
        """
        if linearization.jacobian is None:
            return 1.0, 0.0
        rng, size = make_generator(0), len(linearization.encoded)
        unit = np.sqrt((linearization.influence**2).mean(axis=0))
        unit = np.where(unit > 0.0, unit, 1.0)  # columns in different units would drown in one another's rounding
        influence = linearization.influence / unit
        eigenvalues, axes = np.linalg.eigh(influence.T @ influence / len(influence))
        root = unit[:, None] * axes * np.sqrt(np.maximum(eigenvalues, 0.0) / records)
        changes = rng.normal(size=(_TRIALS, size)) @ root.T + noise * rng.normal(size=(_TRIALS, size))
        errors = [error for error in (_find_error(linearization, change) for change in changes) if error is not None]
        if not errors:
            return np.inf, 1.0
        linear = self.average_relative((linearization.propagate(changes) ** 2).mean(axis=0))
        ratio = self.average_relative((np.array(errors) ** 2).mean(axis=0)) / linear
        return float(np.sqrt(ratio)), 1.0 - len(errors) / _TRIALS


def _find_error(linearization: Linearization, change: Floats) -> Floats | None:
    """The error of the answer where the encoded numbers are off by a change; None where there is no answer."""
    try:
        answer = linearization.conclude(linearization.encoded + change)
    except NoAnswerError:
        return None
    valid = answer.shape == linearization.value.shape and np.isfinite(answer).all()
    return answer - linearization.value if valid else None


def check_policy(policy: Policy) -> Encoded:
    """Check that a policy says what a prediction needs: its statistic, its channel and its answer.

    Args:
        policy: the policy.

    Returns:
        The same policy.

    Raises:
        ParameterError: the policy cannot be predicted.

    Example:
        >>> from vestige import Mean
        >>> check_policy(Mean()).columns
        1
    """
    if not isinstance(policy, Encoded):
        raise ParameterError(
            f"policy={show_value(policy)} cannot be predicted: it does not say how its answer depends on a record; use "
            "Mean, Moments, Covariance, LinearRegression, or a policy derived from vestige.policies.Encoded"
        )
    return policy


def unwrap_policy(policy: Policy) -> Encoded:
    """Find the policy whose error can be predicted: that of a window, that without noise, or the policy itself.

    Args:
        policy: the policy.

    Returns:
        The policy that it wraps, or itself.

    Raises:
        ParameterError: it cannot be predicted.

    Example:
        >>> from vestige import Mean, Window
        >>> unwrap_policy(Window(Mean(2))).columns
        2
    """
    return check_policy(policy.unwrap() if isinstance(policy, Policy) else policy)


def _check_plain(policy: Encoded) -> None:
    """Refuse a policy that cannot be predicted, whatever the records are."""
    if check_policy(policy).unwrap() is not policy:
        raise ParameterError(f"policy={show_value(policy)} wraps another policy; plan that one, such as Mean()")
    if policy.half_life is not None:
        raise ParameterError(
            f"half_life={policy.half_life} cannot be predicted: the error then depends on how the stream drifts; leave "
            "it out"
        )
    size = policy.statistic.size
    if size > _MAX_NUMBERS and not policy.is_identity:
        raise ParameterError(
            f"{policy} encodes {size:,} numbers, above the {_MAX_NUMBERS:,} that a plan allows; use fewer columns"
        )


def _check_mean(mean: float | None, *, has_sample: bool) -> float | None:
    """The distance of the mean from zero; None where there is a sample."""
    if has_sample:
        if mean is not None:
            raise ParameterError(f"mean={mean} cannot be combined with a sample, which has its own mean; leave it out")
        return None
    if mean is None:
        return DEFAULT_MEAN
    remedy = f"a number of standard deviations from {-_MAX_MEAN:g} to {_MAX_MEAN:g}"
    return check_float("mean", mean, lambda m: abs(m) <= _MAX_MEAN, remedy)


def _assume_rows(policy: Encoded, mean: float) -> Floats:
    """Records as they are assumed to be without a sample."""
    count = int(np.clip(_MAX_CELLS // policy.statistic.size, _MIN_ROWS, _MAX_ROWS))
    return policy.draw_rows(make_generator(0), count, mean)


def _check_sample(policy: Encoded, sample: ArrayLike) -> Floats:
    """The sample, if the policy accepts it and it is large enough to estimate a spread."""
    rows = read_sample(sample, policy)
    if len(rows) < _MIN_ROWS:
        raise DataError(f"the sample has {len(rows)} records; give at least {_MIN_ROWS}, to show how records vary")
    return rows[: max(_MIN_ROWS, _MAX_CELLS // policy.statistic.size)]


def _find_doubts(influence: Floats, spread: Floats) -> tuple[str, ...]:
    """Reasons why the sample may not tell the error."""
    notes = []
    varies = spread > 0.0
    shares = influence[:, varies] ** 2 / (influence[:, varies] ** 2).sum(axis=0)
    uncertainty = float(np.sqrt((shares**2).sum(axis=0)).max())
    if uncertainty > _MAX_UNCERTAINTY:
        notes.append(
            f"The tails are heavy: a few of {len(influence):,} records make up much of the variance, which is known "
            f"only to within about {uncertainty:.0%}, and so are errors; use a larger sample."
        )
    length = len(influence) // _BLOCKS
    blocks = influence[: _BLOCKS * length, varies].reshape(_BLOCKS, length, -1).mean(axis=1)
    ratio = float((blocks.var(axis=0, ddof=1) * length / spread[varies] ** 2).max())
    if ratio > _MAX_BLOCK_RATIO * (1.0 + np.log(varies.sum()) / 4.0):  # the largest of several is larger
        notes.append(
            f"Neighbouring records are correlated: averages of {length:,} of them vary {ratio:.3g} times as much as "
            "those of independent records, for which the errors are computed. Answers still follow those of all "
            "records, but these are worth fewer independent ones, and a window is worth less still."
        )
    return tuple(notes)
