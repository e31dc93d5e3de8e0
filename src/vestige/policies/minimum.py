"""Parameters that minimise a loss over the whole stream: what logistic regression and custom losses share.

See `vestige.statistics.newton` for the steps, and for what is packed into the word beside the parameters.
Guarantee: the table in docs/policies.md; held by tests/policies/test_descent.py and tests/policies/test_losses.py.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from vestige.channels import Packed, Target
from vestige.clock import Clock
from vestige.estimate import E_co
from vestige.policies.base import Basis, Encoded, find_bases
from vestige.policies.rounding import note_rounding
from vestige.records import Records
from vestige.statistics import Descent
from vestige.types import Bools, Floats

_RETENTION = 192
"""Records of the default retention for each parameter."""
_FAILED = 6.0
"""Standard deviations of the tests of all batches from which on they disagree."""
_LEAST_EVIDENCE = 10.0
"""Records of the greatest curvature, such as an event, that a parameter has to rest on."""
_DISAGREE = (
    "The fit cannot be trusted: later records contradict it by more than chance does, as where data change or are "
    "sorted, or where the loss of old records is far from a parabola; the answer may be off by far more than its "
    "standard errors."
)
_APART = (
    "The combined estimates differ by more than their standard errors allow, so that their records may not have the "
    "same parameters: these are an average, and off from the minimum of the loss of all records."
)
_LITTLE = (
    "The fit cannot be trusted: the records say too little in some direction, as where few belong to a class, where "
    "classes can be separated, or where a predictor is constant, rarely other than zero or nearly follows from the "
    "others; wait for more records, or drop it."
)
_FLAT = (
    "The fit cannot be trusted: the loss is so flat in one direction that it cannot be told from rounding, as where a "
    "predictor follows from the others or is constant; drop it, or centre and scale the columns."
)


class Minimum(Encoded[E_co]):
    """Parameters by Newton steps, and whether these steps and their rounding lead to the minimum."""

    @property
    @abstractmethod
    def statistic(self) -> Descent[Any]:
        """The parameters, and the curvature of their loss."""

    @property
    def encoding(self) -> Packed:
        """A word in which curvature is coarse."""
        statistic = self.statistic
        return Packed(statistic.min_rows, statistic.least_rows, statistic.most_rows)

    @property
    def min_early_batch(self) -> int:
        """The number of records that a word needs."""
        return self.statistic.least_rows

    @property
    def default_retention(self) -> int:
        """The retention used by default: 96 records of a batch for each parameter, so that rounding is negligible."""
        return max(_RETENTION * self.statistic.count, 2 * self.min_batch)

    def complete(self, made: E_co, clock: Clock, retained: Records, counted: int) -> E_co:  # type: ignore[misc]  # noqa: ARG002
        """Note where the records held or rounding say that the answer cannot be trusted; see `Encoded.complete`."""
        assert isinstance(made.basis, Basis)  # noqa: S101  # `Encoded.answer` made it
        numbers, worth, statistic = made.basis.numbers, made.basis.worth, self.statistic
        length = clock.last - clock.first + 1
        notes = []
        if statistic.find_test(numbers, clock.updates + 1) > _FAILED:
            notes.append(_DISAGREE)
        if statistic.is_flat(numbers):
            notes.append(_FLAT)
        elif (statistic.count_evidence(numbers, retained.values, worth) < _LEAST_EVIDENCE).any():
            notes.append(_LITTLE)
        if clock.encoded:
            each = statistic.find_rounding(numbers, clock.bits or min(length, statistic.most_rows))
            left = 1.0 - self.decay ** (2 * length)
            carried = clock.updates / 3.0 if left == 0.0 else min(clock.updates / 3.0, 1.0 / left)
            notes += note_rounding(float(each * np.sqrt(1.0 + carried)), worth)
        if not notes:
            return made
        basis = made.basis._replace(notes=(*made.basis.notes, *notes))
        return replace(made, notes=(*made.notes, *notes), missed=True, basis=basis)

    def complete_merged(self, made: E_co, parts: Sequence[E_co]) -> E_co:  # type: ignore[misc]
        """Note where the parts disagree; see `Encoded.complete_merged`."""
        bases = find_bases(parts)
        gap = self.statistic.find_gap(
            np.array([basis.numbers for basis in bases]), np.array([basis.worth for basis in bases])
        )
        return made if gap <= _FAILED else replace(made, notes=(*made.notes, _APART), missed=True)

    def _make_target(
        self,
        numbers: Floats,
        off: Bools,
        usual: Floats | None,  # noqa: ARG002
        values: Floats,  # noqa: ARG002
        share: float,  # noqa: ARG002
        first: int,  # noqa: ARG002
        length: int,  # noqa: ARG002
        rest: Floats | float = 0.0,  # noqa: ARG002
    ) -> Target:
        """The numbers; the word says how near they can be written."""
        return Target.exactly(numbers, off)

    def _find_rounding(self, clock: Clock) -> float:  # noqa: ARG002
        """Nothing here: how fine parameters are depends on their size, which `complete` notes."""
        return 0.0
