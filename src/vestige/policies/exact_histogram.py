"""Exact counts of the whole stream in bins, as whole numbers that the choice of records holds bit for bit.

Guarantee: numpy's histogram of all records, to the last one, or the statistic starts over; held by
tests/policies/test_histogram.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from vestige import statistics
from vestige.errors import ParameterError
from vestige.policies.histogram import (
    HistogramEstimate,
    check_edges,
    conclude_shares,
    name_bins,
    parse_edges,
    report_shares,
)
from vestige.policies.named_policy import refuse_half_life
from vestige.policies.report import Report
from vestige.policies.stateful import MAX_BITS, Stateful, check_reserve
from vestige.types import Floats
from vestige.validation import check_int
from vestige.whole_numbers import WholeNumbers

_MAX_BITS = 52
_FULL = (
    "A count has reached the largest number that its bits hold, so that counts and shares cannot be trusted; use more "
    "bits."
)


@dataclass(frozen=True)
class ExactHistogram(Stateful[HistogramEstimate]):
    """The number of records that ever arrived in each bin, held as whole numbers, bit for bit.

    The bins are those of `Histogram`, whose counts are exact too in most streams, and which `Private` takes. This one
    is exact whatever is requested, or starts over.

    Args:
        edges: the borders between bins, in ascending order.
        bits: the number of bits of each count: it counts up to 2^bits - 1.
        reserve: the share of a batch that may be records that cannot be kept, because their removal was requested.

    Raises:
        ParameterError: an argument is out of range.

    Example:
        >>> from vestige import Stream
        >>> policy = ExactHistogram((0.0, 1.0))
        >>> stream = Stream(policy, retention=policy.default_retention, seed=0)
        >>> _ = stream.extend(np.random.default_rng(0).normal(size=100_000))
        >>> stream.estimate().counts
        array([50171., 34072., 15757.])
    """

    name: ClassVar[str] = "exact_histogram"
    takes_edges: ClassVar[bool] = True
    max_columns: ClassVar[int | None] = 1

    edges: tuple[float, ...]
    bits: int = 40
    reserve: float = 0.1

    def __post_init__(self) -> None:
        object.__setattr__(self, "edges", check_edges(self.edges))
        check_int("bits", self.bits, 1, _MAX_BITS)
        check_reserve(self.reserve)
        if self.state_bits > MAX_BITS:
            raise ParameterError(
                f"{len(self.edges) + 1:,} bins of bits={self.bits} take {self.state_bits:,} bits, above {MAX_BITS:,}; "
                "use fewer edges or fewer bits"
            )

    @classmethod
    def from_options(cls, options: Sequence[str], columns: int, half_life: float | None) -> ExactHistogram:  # noqa: ARG003
        """Make the histogram with these edges; see `NamedPolicy.from_options`."""
        refuse_half_life(cls.name, half_life)
        return cls(parse_edges(options))

    def read_whole_numbers(self, column: int) -> WholeNumbers:  # noqa: ARG002
        """Round whole numbers beyond 2^53 down, which no edge lies between; see `Policy.read_whole_numbers`."""
        return "floored"

    @property
    def state_bits(self) -> int:
        """The bits of all counts."""
        return self.bits * (len(self.edges) + 1)

    def move(self, state: bytes, rows: Floats) -> bytes:
        """Count each record in its bin; see `Stateful.move`."""
        more = statistics.Shares(self.edges).atoms(rows).sum(axis=0)
        return self._pack(count + int(new) for count, new in zip(self._unpack(state), more, strict=True))

    def merge(self, states: Sequence[bytes]) -> bytes:
        """Add up the counts of each bin; see `Stateful.merge`."""
        return self._pack(map(sum, zip(*map(self._unpack, states), strict=True)))

    def make_estimate(self, state: bytes, counted: int) -> HistogramEstimate:
        """Give counts and shares; see `Stateful.make_estimate`."""
        counts = self._unpack(state)
        shares = np.array(counts, np.float64) / counted
        made = conclude_shares(shares, name_bins(self.edges), float(counted), 0.0, has_counts=True)
        return replace(made, notes=(_FULL,), missed=True) if sum(counts) != counted else made

    def labels(self, columns: Sequence[str]) -> tuple[str, ...]:  # noqa: ARG002
        """Name the bins; see `NamedPolicy.labels`."""
        return name_bins(self.edges)

    def report(self, estimate: HistogramEstimate, columns: Sequence[str]) -> Report:
        """Make a table of the histogram; see `NamedPolicy.report`."""
        return report_shares(estimate, "histogram", columns[0])

    def _unpack(self, state: bytes) -> list[int]:
        """The count of each bin."""
        packed, most = int.from_bytes(state, "little"), (1 << self.bits) - 1
        return [(packed >> (i * self.bits)) & most for i in range(len(self.edges) + 1)]

    def _pack(self, counts: Iterable[int]) -> bytes:
        """The state of these counts, none of which is above the largest."""
        most, packed = (1 << self.bits) - 1, 0
        for i, count in enumerate(counts):
            packed |= min(count, most) << (i * self.bits)
        return packed.to_bytes(len(self.first_state), "little")
