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

from vestige.policies import Encoded
from vestige.statistics import differentiate
from vestige.types import Floats

MANY = 1e9
"""The number of records to conclude from, where the answer does not depend on it; that of a sum does."""


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


def linearize(policy: Encoded, rows: Floats, records: float = MANY) -> Linearization:
    """Compute what a policy encodes of some records, and the influence of each of them.

    Args:
        policy: policy of running averages; may be `Private`.
        rows: the records; shape (n, columns).
        records: number of records that the answer is from.

    Returns:
        The encoded numbers, the answer, and their dependence on the records.

    Raises:
        ParameterError: the statistic of the policy cannot be predicted.

    Example:
        >>> from vestige import Mean
        >>> linearize(Mean(), np.array([[1.0], [3.0]])).influence.ravel()
        array([-1.,  1.])
    """
    encoded, influence = policy.influence(rows)

    def conclude(numbers: Floats) -> Floats:
        answer = policy.conclude(numbers, records, float(np.finfo(np.float64).eps))
        return np.ravel(answer.value)

    value = conclude(encoded)
    jacobian = None if policy.is_identity else _differentiate(policy, encoded, influence, records)
    return Linearization(encoded, influence, value, jacobian, conclude)


def _differentiate(policy: Encoded, encoded: Floats, influence: Floats, records: float) -> Floats:
    """The derivative of the answer, by differences of two lengths.

    Derivatives that cancel, such as those of a correlation near 1, need more digits than one length gives: what is left
    of its error, a share of the square of the length, cancels between the two (Richardson 1911,
    https://doi.org/10.1098/rsta.1911.0009).
    """

    def conclude(numbers: Floats) -> Floats:
        return policy.conclude_freely(numbers, records)

    whole, half = (differentiate(conclude, encoded, influence * length) for length in (1.0, 0.5))
    jacobian: Floats = half + (half - whole) / 3.0
    return jacobian
