"""The number of records that ever arrived, from the public clock alone.

The clock counts arrivals, and those that were erased before an update could learn from them; no value has a part in it.
So nothing is kept, and nothing is lost with a record that is erased.
Guarantee: exact, through requests, deadlines and restarts; held by tests/policies/test_count.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from vestige.clock import Clock
from vestige.estimate import Estimate
from vestige.policies.base import MAX_COLUMNS
from vestige.policies.named_policy import NamedPolicy, refuse_half_life
from vestige.policies.report import Report
from vestige.policy import count_waiting
from vestige.records import Records
from vestige.types import Bools, Floats, Ints
from vestige.validation import check_int
from vestige.whole_numbers import WholeNumbers


@dataclass(frozen=True, eq=False)
class CountEstimate(Estimate):
    """A number of records.

    Attributes:
        value: the number.
        standard_error: 0, since it is exact; in a `Bundle`, how far rounding may have put it off.
    """

    value: float
    standard_error: float = 0.0


@dataclass(frozen=True)
class Count(NamedPolicy[CountEstimate]):
    """The number of records that count: exact, and without keeping any of them.

    A record counts if it was held until the next update. One that had to be erased before that, by a request that was
    met immediately or because it reached its `max_age`, does not count; it does not in any other statistic either.

    Args:
        columns: the number of values per record, none of which is looked at.

    Raises:
        ParameterError: the number of columns is out of range.

    Example:
        >>> from vestige import Stream
        >>> stream = Stream(Count(), retention=96)
        >>> _ = stream.extend(range(10_000))
        >>> estimate = stream.estimate()
        >>> estimate.value, estimate.held
        (10000.0, 16)
    """

    name: ClassVar[str] = "count"
    all_or_nothing: ClassVar[bool] = False
    is_exact: ClassVar[bool] = True
    needs_records: ClassVar[bool] = False

    columns: int = 1

    def __post_init__(self) -> None:
        check_int("columns", self.columns, 1, MAX_COLUMNS)

    @classmethod
    def from_columns(cls, columns: int, targets: int, channel: str, half_life: float | None) -> Count:  # noqa: ARG003
        """Make the count of records of a number of columns; see `NamedPolicy.from_columns`."""
        refuse_half_life("count", half_life)
        return cls(columns)

    def read_whole_numbers(self, column: int) -> WholeNumbers:  # noqa: ARG002
        """Take all whole numbers, none of which is looked at; see `Policy.read_whole_numbers`."""
        return "floored"

    def labels(self, columns: Sequence[str]) -> tuple[str, ...]:  # noqa: ARG002
        """Name the count; see `NamedPolicy.labels`."""
        return ("records",)

    def report(self, estimate: CountEstimate, columns: Sequence[str]) -> Report:  # noqa: ARG002
        """Make a table of the count; see `NamedPolicy.report`."""
        count = int(estimate.value)
        return Report("count", ("", "count"), (("records", f"{count:,}"),), {"value": count})

    def can_encode(self, clock: Clock, rounds: Ints, leaving: Bools) -> bool:  # noqa: ARG002
        """Tell that the count always continues: no record carries it."""
        return True

    def update(self, clock: Clock, retained: Records, arrivals: Records, coins: int) -> Bools:  # noqa: ARG002
        """Keep nothing."""
        return np.zeros(len(retained) + len(arrivals), np.bool_)

    def update_many(self, clock: Clock, retained: Records, values: Floats, keys: NDArray[np.uint64]) -> Bools:  # noqa: ARG002
        """Keep nothing."""
        return np.zeros(len(values), np.bool_)

    def answer(self, clock: Clock, retained: Records) -> CountEstimate:
        """Answer with the number of records that updates have learned from, and of those that wait for the next."""
        return CountEstimate(float(clock.encoded + count_waiting(clock, retained)))

    def combine(self, parts: Sequence[CountEstimate]) -> CountEstimate:
        """Add up the numbers, and how far each may be off; see `Policy.combine`."""
        return CountEstimate(sum(part.value for part in parts), sum(part.standard_error for part in parts))
