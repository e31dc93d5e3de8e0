"""Quantiles of the whole stream from a histogram: as near as the bins are narrow, in a few numbers.

The shares of the bins are averages, so it needs far less retention than the summary of `Quantiles`, takes a half-life,
and `Private` takes it. No value of a record is kept: an answer lies between edges that were given beforehand.
Guarantee: the quantile of all records lies between `lower` and `upper`; held by
tests/policies/test_histogram_quantiles.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from vestige import statistics
from vestige.noise import SURE, Noise
from vestige.policies.base import Basis, Encoded, check_half_life
from vestige.policies.histogram import check_edges, parse_edges
from vestige.policies.quantiles import (
    DEFAULT_PROBABILITIES,
    QuantilesEstimate,
    check_probabilities,
    name_quantiles,
    report_quantiles,
)
from vestige.policies.report import Remark, Report, format_label
from vestige.policies.rounding import KNOWN_MARGIN, bound_rounding
from vestige.statistics.shares import INDICATOR
from vestige.types import Floats


@dataclass(frozen=True)
class HistogramQuantiles(Encoded[QuantilesEstimate]):
    """Quantiles of every record that ever arrived, from the shares of bins.

    A quantile is interpolated in its bin; `lower` and `upper` are the edges of that bin, or of its neighbours where
    encoding leaves that open, unless the estimate says that it `missed`. One beyond the first or the last edge has no
    bound on that side, and a note says so. With `Private`, they leave room for five standard deviations of the noise.

    Args:
        edges: the borders between bins, in ascending order; they must not be taken from the data where `Private` is
            used.
        probabilities: the quantiles to answer with, such as 0.5 for the median.
        half_life: after this number of records, a record counts half as much; for streams that drift.

    Raises:
        ParameterError: an argument is out of range.

    Example:
        >>> from vestige import Stream
        >>> policy = HistogramQuantiles(range(0, 101, 10), [0.45, 0.95])
        >>> stream = Stream(policy, retention=policy.default_retention, seed=0)
        >>> _ = stream.extend(np.random.default_rng(0).uniform(0.0, 100.0, 100_000))
        >>> estimate = stream.estimate()
        >>> estimate.value.round(), estimate.lower, estimate.upper
        (array([45., 95.]), array([40., 90.]), array([ 50., 100.]))
    """

    name: ClassVar[str] = "histogram_quantiles"
    takes_edges: ClassVar[bool] = True
    max_columns: ClassVar[int | None] = 1
    margin: ClassVar[float] = KNOWN_MARGIN

    edges: Sequence[float]
    probabilities: Sequence[float] = DEFAULT_PROBABILITIES
    half_life: float | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "edges", check_edges(self.edges))
        object.__setattr__(self, "probabilities", check_probabilities(self.probabilities))
        check_half_life(self.half_life)

    @classmethod
    def from_options(cls, options: Sequence[str], columns: int, half_life: float | None) -> HistogramQuantiles:  # noqa: ARG003
        """Make quantiles from a histogram with these edges; see `NamedPolicy.from_options`."""
        return cls(parse_edges(options), half_life=half_life)

    @property
    def statistic(self) -> statistics.Shares:
        """The shares of the bins."""
        return statistics.Shares(tuple(self.edges))

    def describe_rows(self, mean: float) -> str:  # noqa: ARG002
        """Describe the records to plan with; see `NamedPolicy.describe_rows`."""
        return "records that are uniform between the edges and a bin beyond"

    def draw_rows(self, rng: np.random.Generator, count: int, mean: float) -> Floats:  # noqa: ARG002
        """Draw records to plan with, uniform between the edges and a bin beyond; see `NamedPolicy.draw_rows`."""
        first, last = self.edges[0], self.edges[-1]
        width = (last - first) / (len(self.edges) - 1) if len(self.edges) > 1 else 1.0
        return rng.uniform(first - width, last + width, (count, 1))

    def conclude(self, numbers: Floats, worth: float, rounding: float) -> QuantilesEstimate:
        """Find the bin of each quantile, and interpolate in it; see `Encoded.conclude`."""
        return self._conclude(numbers, self._find_reach(bound_rounding(rounding, worth, self.margin), worth))

    def conclude_merged(self, merged: Basis, parts: Sequence[QuantilesEstimate]) -> QuantilesEstimate:  # noqa: ARG002
        """Find the bins in which each quantile may be, whatever the signs of errors; see `Encoded.conclude_merged`."""
        return self._conclude(merged.numbers, self._find_reach(merged.bound, merged.worth))

    def conclude_noisy(
        self,
        averages: Floats,
        noise: Noise,
        worth: float,
        rounding: float,
        centres: Floats | float = 0.0,  # noqa: ARG002
    ) -> QuantilesEstimate:
        """Find the bins in which each quantile may be with this noise; see `Encoded.conclude_noisy`."""
        off = self._find_reach(bound_rounding(rounding, worth, self.margin), worth)
        return self._conclude(averages, off + SURE * noise.cumulate()[:-1])

    def _find_reach(self, bound: float, worth: float) -> Floats:
        """How far encoding may have put the share below each edge off, from how many standard errors that may be."""
        bins = np.arange(1, len(self.edges) + 1)  # below an edge, and above it; the shares of either tell the other
        reach: Floats = bound * INDICATOR / np.sqrt(worth) * np.minimum(bins, len(self.edges) + 1 - bins)
        return reach

    def _conclude(self, numbers: Floats, off: Floats) -> QuantilesEstimate:
        """The same from how far the share below each edge may be off."""
        edges, below = np.array(self.edges), np.clip(np.maximum.accumulate(np.cumsum(numbers[:-1])), 0.0, 1.0)
        lower, upper, errors, notes = [], [], [], []
        for name, p in zip(name_quantiles(self.probabilities), self.probabilities, strict=True):
            under, over = np.flatnonzero(below + off < p), np.flatnonzero(below - off >= p)
            lower.append(edges[under[-1]] if len(under) else -np.inf)
            upper.append(edges[over[0]] if len(over) else np.inf)
            start = below[under[-1]] - off[under[-1]] if len(under) else 0.0
            stop = below[over[0]] + off[over[0]] if len(over) else 1.0
            errors.append(max(p - start, stop - p))
            if not len(under) or not len(over):
                notes.append(self._note_outside(name, is_below=not len(under)))
        value = np.clip(np.interp(self.probabilities, below, edges), lower, upper)
        arrays = (np.array(each) for each in (lower, upper, errors))
        return QuantilesEstimate(value, tuple(self.probabilities), *arrays, notes=tuple(notes))

    def labels(self, columns: Sequence[str]) -> tuple[str, ...]:  # noqa: ARG002
        """Name the quantiles, such as p95; see `NamedPolicy.labels`."""
        return name_quantiles(self.probabilities)

    def report(self, estimate: QuantilesEstimate, columns: Sequence[str]) -> Report:
        """Make a table of the quantiles; see `NamedPolicy.report`."""
        return report_quantiles(estimate, columns, (Remark("Bounds are edges of the histogram."),))

    def _note_outside(self, name: str, *, is_below: bool) -> str:
        edge = format_label(self.edges[0 if is_below else -1])
        where = f"below the first edge, {edge}" if is_below else f"at or above the last edge, {edge}"
        return f"The quantile {name} may lie {where}; add edges beyond it."
