"""The sliding-window baseline: keep every record as long as is allowed, and answer from those alone.

The comparison of the introduction of Immorlica et al. (2024).
Guarantee: the statistic of the records held, as numpy computes it; held by tests/stream/test_rules.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from vestige.clock import Clock
from vestige.errors import ParameterError
from vestige.estimate import E_co
from vestige.policies.base import Basis, Encoded
from vestige.policies.mean import Mean
from vestige.policies.report import Report
from vestige.policy import Policy
from vestige.records import Records
from vestige.types import Bools, Floats
from vestige.validation import show_value
from vestige.whole_numbers import WholeNumbers


@dataclass(frozen=True)
class Window(Policy[E_co]):
    """The baseline: keep every record as long as is allowed, and answer from those.

    Args:
        policy: the policy whose statistic to compute; default: the mean.

    Raises:
        ParameterError: the policy has no statistic.

    Example:
        >>> from vestige import Stream
        >>> stream = Stream(Window(), retention=96)
        >>> _ = stream.extend(range(1, 10_001))
        >>> stream.estimate().value
        9952.5
    """

    all_or_nothing: ClassVar[bool] = False
    is_window: ClassVar[bool] = True
    policy: Encoded[E_co] = field(default_factory=Mean)  # type: ignore[arg-type]

    def __post_init__(self) -> None:
        if not isinstance(self.policy, Encoded):
            raise ParameterError(
                f"policy={show_value(self.policy)} is not a policy that a window can answer for; use one such as Mean()"
            )
        if self.policy.hides_waiting:
            raise ParameterError(
                f"policy={self.policy} has noise, which a window would leave out; use {self.policy.unwrap()}"
            )

    def unwrap(self) -> Encoded[E_co]:
        """Give the policy whose statistic is computed."""
        return self.policy

    @property
    def checks_rows(self) -> bool:
        """Whether the policy may refuse a row."""
        return self.policy.checks_rows

    def read_whole_numbers(self, column: int) -> WholeNumbers:
        """Read them as the policy does; see `Policy.read_whole_numbers`."""
        return self.policy.read_whole_numbers(column)

    def check_rows(self, rows: Floats) -> None:
        """Refuse the rows that the policy refuses; see `Policy.check_rows`."""
        self.policy.check_rows(rows)

    @property
    def columns(self) -> int:
        """The number of values that the statistic takes."""
        return self.policy.columns

    @property
    def takes_missing(self) -> bool:
        """Whether the statistic takes records with missing values."""
        return self.policy.takes_missing

    def labels(self, columns: Sequence[str]) -> tuple[str, ...]:
        """Name the numbers of the answer.

        Args:
            columns: the names of the columns of a record, targets last.

        Returns:
            one label for each number of the answer.
        """
        return self.policy.labels(columns)

    def report(self, estimate: E_co, columns: Sequence[str]) -> Report:  # type: ignore[misc]
        """Make a table of an answer.

        Args:
            estimate: the answer.
            columns: the names of the columns of a record, targets last.

        Returns:
            the table, and the same facts for machines.
        """
        return self.policy.report(estimate, columns)

    def update(self, clock: Clock, retained: Records, arrivals: Records, coins: int) -> Bools:  # noqa: ARG002
        """Keep every record that may be kept."""
        return ~np.concatenate((retained.leaving, arrivals.leaving))

    def update_many(self, clock: Clock, retained: Records, values: Floats, keys: NDArray[np.uint64]) -> Bools:  # noqa: ARG002
        """Keep every record that may be kept."""
        return np.concatenate((~retained.leaving, np.ones(len(values), np.bool_)))

    def answer(self, clock: Clock, retained: Records) -> E_co:
        """Answer with the statistic of the retained records alone."""
        order = np.argsort(retained.rounds, kind="stable")
        weights = np.power(self.policy.decay, (clock.t - retained.rounds[order]).astype(np.float64))
        estimate = self.policy.statistic.step(None, retained.values[order], weights, 1.0)
        worth = float(weights.sum() ** 2 / (weights**2).sum())
        rounding = float(np.finfo(np.float64).eps)
        made = self.policy.conclude(estimate, worth, rounding)
        made = replace(made, basis=Basis(estimate, worth, rounding, 0.0))
        held = Clock(t=clock.t)  # as if all of them had arrived since the last update
        return self.policy.complete(made, held, retained, len(retained))

    def combine(self, parts: Sequence[E_co]) -> E_co:
        """Combine the statistics of the records that are held; see `Policy.combine`."""
        return self.policy.combine(parts)
