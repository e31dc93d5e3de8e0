"""The influence of one record on each number that a policy encodes and on each number of its answer.

Averages are linear in the records, and with enough records the answer is as good as linear in the averages (the delta
method). So the error of an answer from n records is the spread of the influence over sqrt(n): in units of that spread,
1 / sqrt(n). Hampel (1974), "The influence curve and its role in robust estimation",
https://doi.org/10.1080/01621459.1974.10482962.
Guarantee: held by tests/planning/test_honesty.py.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from vestige.errors import ParameterError
from vestige.policies import Encoded
from vestige.statistics import Averages, Clipped, LeastSquares, Mean
from vestige.types import Floats

_NUDGE = 1e-4
_MANY = 1e9  # records; what a policy concludes from its numbers here does not depend on how many


@dataclass(frozen=True, slots=True, eq=False)
class Linearization:
    """The numbers that a policy encodes of some records, its answer, and how both depend on each record.

    Attributes:
        encoded: the encoded numbers; shape (size,).
        influence: derivative of the encoded numbers with respect to the weight of each record; shape (n, size).
        value: the answer; shape (numbers,).
        jacobian: derivative of the answer with respect to the encoded numbers; shape (numbers, size), None if the
            answer is the encoded numbers.
        conclude: from encoded numbers to the answer.
    """

    encoded: Floats
    influence: Floats
    value: Floats
    jacobian: Floats | None
    conclude: Callable[[Floats], Floats]

    def propagate(self, changes: Floats) -> Floats:
        """Propagate changes of the encoded numbers to the answer.

        Args:
            changes: one change in each row; shape (n, size).

        Returns:
            The changes of the answer; shape (n, numbers).
        """
        return changes if self.jacobian is None else changes @ self.jacobian.T

    def propagate_variances(self, variances: Floats) -> Floats:
        """Propagate independent errors of the encoded numbers to the answer.

        Args:
            variances: variance of each encoded number; shape (size,).

        Returns:
            The variance of each number of the answer; shape (numbers,).
        """
        return variances if self.jacobian is None else self.jacobian**2 @ variances


def linearize(policy: Encoded, rows: Floats) -> Linearization:
    """Compute what a policy encodes of some records, and the influence of each of them.

    Args:
        policy: policy of running averages; may be `Private`.
        rows: the records; shape (n, columns).

    Returns:
        The encoded numbers, the answer, and their dependence on the records.

    Raises:
        ParameterError: the statistic of the policy cannot be predicted.

    Example:
        >>> from vestige import Mean
        >>> linearize(Mean(), np.array([[1.0], [3.0]])).influence.ravel()
        array([-1.,  1.])
    """
    from vestige.statistics.kernels import clipped  # noqa: PLC0415

    statistic = policy.statistic
    if isinstance(statistic, Clipped):
        atoms = clipped(statistic.of.atoms(rows), statistic.bound)
        encoded: Floats = atoms.mean(axis=0)
        influence: Floats = atoms - encoded
    elif isinstance(statistic, Averages):
        encoded = statistic.step(None, rows, np.ones(len(rows)), 1.0)
        about_zero = isinstance(statistic, LeastSquares) and not statistic.intercept
        atoms = statistic.atoms(rows if about_zero else rows - rows.mean(axis=0))  # the offset has no influence
        averages: Floats = atoms.mean(axis=0)
        influence = atoms - averages
        if not isinstance(statistic, Mean):
            influence = influence @ _differentiate(statistic.from_averages, averages, influence).T
    else:
        raise ParameterError(
            f"policy={policy} cannot be predicted: how fast it learns depends on its loss; plan Mean, Moments, "
            "Covariance or LinearRegression, or try it on a sample with vestige run"
        )

    def conclude(numbers: Floats) -> Floats:
        answer = policy.conclude(numbers, _MANY, float(np.finfo(np.float64).eps))
        return np.ravel(answer.value)

    value = conclude(encoded)
    plain = isinstance(statistic, Mean) or (isinstance(statistic, Clipped) and isinstance(statistic.of, Mean))
    jacobian = None if plain else _differentiate(conclude, encoded, influence)
    return Linearization(encoded, influence, value, jacobian, conclude)


def _differentiate(function: Callable[[Floats], Floats], at: Floats, influence: Floats) -> Floats:
    """The derivative of each result with respect to each entry of `at`, by differences; shape (results, entries)."""
    steps = _NUDGE * np.sqrt((influence**2).mean(axis=0))
    steps = np.where(steps > 0.0, steps, _NUDGE)
    columns = []
    for i, step in enumerate(steps):
        offset = np.zeros(len(at))
        offset[i] = step
        columns.append((function(at + offset) - function(at - offset)) / (2.0 * step))
    return np.array(columns).T
