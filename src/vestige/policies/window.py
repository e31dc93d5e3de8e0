"""The baseline: a window that keeps all it may, and answers from that alone."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from vestige.errors import ParameterError
from vestige.policies.encoded import Encoded
from vestige.policies.mean import Mean
from vestige.policy import Answer, Policy
from vestige.records import Clock, Records
from vestige.types import Bools, Floats
from vestige.validation import show_value


@dataclass(frozen=True)
class Window(Policy):
    """The baseline: keep every record as long as is allowed, and answer from those.

    Args:
        policy: whose statistic to compute; the mean unless said.

    >>> from vestige import Stream
    >>> stream = Stream(Window(), retention=96)
    >>> _ = stream.extend(range(1, 10_001))
    >>> stream.estimate().value
    9952.5
    """

    all_or_nothing: ClassVar[bool] = False
    policy: Encoded = field(default_factory=Mean)

    def __post_init__(self) -> None:
        if not isinstance(self.policy, Encoded):
            raise ParameterError(
                f"policy={show_value(self.policy)} is not a policy that a window can answer for; use one such as Mean()"
            )

    @property
    def columns(self) -> int:
        """As many as the statistic takes."""
        return self.policy.columns

    def update(self, clock: Clock, retained: Records, arrivals: Records, coins: int) -> Bools:  # noqa: ARG002
        """Keep all that may be kept."""
        return ~np.concatenate((retained.leaving, arrivals.leaving))

    def update_many(self, clock: Clock, retained: Records, values: Floats, keys: NDArray[np.uint64]) -> Bools:  # noqa: ARG002
        """Keep all that may be kept."""
        return np.concatenate((~retained.leaving, np.ones(len(values), np.bool_)))

    def answer(self, clock: Clock, retained: Records) -> float | Floats | Answer:
        """The statistic of the retained records alone."""
        order = np.argsort(retained.rounds, kind="stable")
        weights = np.power(self.policy.decay, (clock.t - retained.rounds[order]).astype(np.float64))
        estimate = self.policy.statistic.step(None, retained.values[order], weights, 1.0)
        worth = float(weights.sum() ** 2 / (weights**2).sum())
        return self.policy.conclude(estimate, worth, float(np.finfo(np.float64).eps))
