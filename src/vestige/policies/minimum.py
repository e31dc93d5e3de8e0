"""Parameters that minimise a loss over the whole stream: what logistic regression and custom losses share.

See `vestige.statistics.newton` for the steps.
Guarantee: held by tests/policies/test_descent.py.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace

import numpy as np

from vestige import statistics
from vestige.channels.layout import find_relative_precision
from vestige.clock import Clock
from vestige.estimate import E_co
from vestige.policies.base import Encoded
from vestige.policies.rounding import note_rounding
from vestige.records import Records

_FLAT = (
    "The fit cannot be trusted: the loss of the records held is so flat in one direction that steps in it are cut "
    "short, as happens if the mean of a predictor is more than about 100 standard deviations from zero; centre and "
    "scale the columns first."
)


class Minimum(Encoded[E_co]):
    """Parameters by Newton steps, and whether these steps and their rounding lead to the minimum."""

    @property
    @abstractmethod
    def statistic(self) -> statistics.Descent:
        """The parameters."""

    def answer(self, clock: Clock, retained: Records) -> E_co:
        """Answer with the parameters, and note where the loss of the records held is too flat or rounding too coarse.

        Args:
            clock: the public clock.
            retained: the records that are held.

        Returns:
            the parameters.
        """
        answer = super().answer(clock, retained)
        if not clock.encoded:
            return answer
        at, worth = self._compute_numbers(clock, retained), self._find_worth(clock, retained)
        length = clock.last - clock.first + 1
        each = find_relative_precision(min(length, clock.bits or length), self.statistic.size)
        rounding = each * np.sqrt(1.0 + clock.updates / 3.0) * self.statistic.count_deviations(at, retained.values)
        notes = note_rounding(float(rounding), worth)
        if self.statistic.is_flat(at, retained.values):
            notes = (*notes, _FLAT)
        return replace(answer, notes=answer.notes + notes, missed=True) if notes else answer

    def _find_rounding(self, clock: Clock) -> float:  # noqa: ARG002
        """Nothing here: parameters are rounded relative to themselves, which `answer` notes."""
        return 0.0
