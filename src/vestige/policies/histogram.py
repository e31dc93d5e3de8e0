"""Histograms of the whole stream: the share of all records in each bin or category, kept in a word.

What is encoded is averages of indicators; the clock says how many records count, and shares times that are counts.
Guarantee: numpy's histogram of all records, within the error that the estimate states; held by
tests/policies/test_histogram.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import ClassVar

import numpy as np

from vestige import statistics
from vestige.errors import DataError, ParameterError
from vestige.estimate import Estimate
from vestige.noise import SURE, Noise
from vestige.policies.base import Basis, Encoded, check_half_life, find_bases
from vestige.policies.report import Remark, Report, format_label, format_number
from vestige.policies.rounding import KNOWN_MARGIN, bound_rounding
from vestige.statistics.shares import INDICATOR
from vestige.types import Floats
from vestige.validation import show_value
from vestige.whole_numbers import WholeNumbers, parse_number

MAX_EDGES = 10_000
"""The most edges of a histogram."""
OTHER = "other"
"""What shares call all texts that are not categories."""
_UNROUNDED = float(np.finfo(np.float64).eps)
"""Shares that no word has rounded by more are left as they are: those of held records, and those of plans."""
_MAX_COUNT_ERROR = 0.25
"""Counts that are off by less than this are rounded to the whole numbers that they are."""


@dataclass(frozen=True, eq=False)
class HistogramEstimate(Estimate):
    """The share of the records in each bin.

    Attributes:
        value: the share of each bin; shape (bins,).
        bins: the name of each bin.
        counts: the number of records in each bin, to the nearest whole number; None with a half-life; shape (bins,).
        standard_error: the standard error of each share, for independent records; shape (bins,).
        encoding_error: how far encoding may have put a share off, unless the estimate says that it `missed`; 0 for
            `ExactHistogram`. It has room for what rarely happens, and is wide where batches are small: up to five times
            the largest standard error that a share can have. With `Private`, five standard deviations of the noise are
            added.
        count_error: how far encoding may have put a count off: below a half, all counts are exact; None with a
            half-life. With `Private`, noise is included likewise.
    """

    value: Floats
    bins: tuple[str, ...]
    counts: Floats | None
    standard_error: Floats
    encoding_error: float
    count_error: float | None


def check_edges(edges: object) -> tuple[float, ...]:
    """Check the edges of a histogram.

    Args:
        edges: numbers in ascending order.

    Returns:
        the edges as floats.

    Raises:
        ParameterError: they are not such numbers.

    Example:
        >>> check_edges([0, 10])
        (0.0, 10.0)
    """
    try:
        made = np.array(edges, np.float64) if isinstance(edges, Sequence | np.ndarray) else np.empty((0, 0))
    except (TypeError, ValueError, OverflowError):
        made = np.empty((0, 0))
    if made.ndim != 1 or not 1 <= len(made) <= MAX_EDGES or not np.isfinite(made).all() or (np.diff(made) <= 0.0).any():
        raise ParameterError(
            f"edges={show_value(edges)} are not the edges of bins; use 1 to {MAX_EDGES:,} finite numbers in ascending "
            "order, such as (0, 10, 20)"
        )
    if any(edge != exact for edge, exact in zip(made.tolist(), np.asarray(edges, np.object_).tolist(), strict=True)):
        raise ParameterError(
            f"edges={show_value(edges)} have a whole number beyond 2^53 that no float holds; use another"
        )
    return tuple(made.tolist())


def parse_edges(options: Sequence[str]) -> tuple[float, ...]:
    """Make edges from texts.

    Args:
        options: one text for each edge.

    Returns:
        the edges.

    Raises:
        ParameterError: a text is not a number.

    Example:
        >>> parse_edges(["0", "2.5"])
        (0, 2.5)
    """
    try:
        return tuple(parse_number(text) for text in options)
    except ValueError:
        raise ParameterError(
            f"edges={','.join(options)} has an edge that is not a number; use numbers, such as 0,10,20"
        ) from None


def name_bins(edges: Sequence[float]) -> tuple[str, ...]:
    """Name the bins between edges.

    Args:
        edges: in ascending order.

    Returns:
        one name more than there are edges.

    Example:
        >>> name_bins((0.0, 10.0))
        ('below 0', '0 to 10', '10 or more')
    """
    names = tuple(map(format_label, edges))
    between = (f"{low} to {high}" for low, high in pairwise(names))
    return (f"below {names[0]}", *between, f"{names[-1]} or more")


def conclude_shares(
    numbers: Floats,
    bins: tuple[str, ...],
    worth: float,
    rounding: float,
    noise: Floats | None = None,
    *,
    has_counts: bool,
) -> HistogramEstimate:
    """Conclude a histogram from encoded shares.

    Args:
        numbers: the shares; shape (bins,).
        bins: the names of the bins.
        worth: the number of equally weighted records that they rest on.
        rounding: see `Encoded.conclude`.
        noise: the standard deviation of the noise in each share; None without noise; shape (bins,).
        has_counts: whether all records count alike.

    Returns:
        the histogram.

    Example:
        >>> conclude_shares(np.array([0.25, 0.75]), ("a", "b"), 8.0, 0.0, has_counts=True).counts
        array([2., 6.])
    """
    shares = np.clip(numbers, 0.0, 1.0)
    off = bound_rounding(rounding, worth, KNOWN_MARGIN) * INDICATOR / float(np.sqrt(worth))
    off += 0.0 if noise is None else SURE * float(noise.max())
    if has_counts and rounding > _UNROUNDED and off * worth < _MAX_COUNT_ERROR:
        shares = np.rint(shares * worth) / worth
    return HistogramEstimate(
        shares,
        bins,
        np.rint(shares * worth) if has_counts else None,
        np.hypot(np.sqrt(shares * (1.0 - shares) / worth), 0.0 if noise is None else noise),
        off,
        off * worth if has_counts else None,
    )


def report_shares(estimate: HistogramEstimate, name: str, header: str) -> Report:
    """Make a table of a histogram.

    Args:
        estimate: the histogram.
        name: what it is.
        header: what a bin is.

    Returns:
        the table, and the same facts for machines.

    Example:
        >>> histogram = conclude_shares(np.array([0.25, 0.75]), ("a", "b"), 8.0, 0.0, has_counts=True)
        >>> report_shares(histogram, "shares", "category").rows[1]
        ('b', '0.75', '0.15', '6')
    """
    counts = estimate.counts
    rows = tuple(
        (bin_name, format_number(share), f"{error:.2g}", *((f"{counts[i]:,.0f}",) if counts is not None else ()))
        for i, (bin_name, share, error) in enumerate(
            zip(estimate.bins, estimate.value.tolist(), estimate.standard_error.tolist(), strict=True)
        )
    )
    facts: dict[str, object] = {
        "value": dict(zip(estimate.bins, estimate.value.tolist(), strict=True)),
        "standard_error": dict(zip(estimate.bins, estimate.standard_error.tolist(), strict=True)),
        "encoding_error": estimate.encoding_error,
    }
    remarks: tuple[Remark, ...] = ()
    if counts is not None and estimate.count_error is not None:
        facts["counts"] = {bin_name: int(count) for bin_name, count in zip(estimate.bins, counts, strict=True)}
        facts["count_error"] = estimate.count_error
        if estimate.count_error >= 0.5:
            remarks = (Remark(f"Counts may be off by up to {estimate.count_error:,.0f}."),)
    columns = (header, "share", "standard error", *(("count",) if counts is not None else ()))
    return Report(name, columns, rows, facts, remarks)


class _Bins(Encoded[HistogramEstimate]):
    """What histograms and shares of categories have in common: shares of bins between edges."""

    margin: ClassVar[float] = KNOWN_MARGIN

    @property
    def edges_between(self) -> tuple[float, ...]:
        """The borders between bins."""
        raise NotImplementedError

    @property
    def bins(self) -> tuple[str, ...]:
        """The name of each bin."""
        raise NotImplementedError

    @property
    def statistic(self) -> statistics.Shares:
        """The shares."""
        return statistics.Shares(self.edges_between)

    def read_whole_numbers(self, column: int) -> WholeNumbers:  # noqa: ARG002
        """Round whole numbers beyond 2^53 down, which no edge lies between; see `Policy.read_whole_numbers`."""
        return "floored"

    @property
    def is_identity(self) -> bool:
        """Whether the answer is the encoded numbers themselves: it is."""
        return True

    def labels(self, columns: Sequence[str]) -> tuple[str, ...]:  # noqa: ARG002
        """Name the bins; see `NamedPolicy.labels`."""
        return self.bins

    def describe_rows(self, mean: float) -> str:  # noqa: ARG002
        """Describe the records to plan with; see `NamedPolicy.describe_rows`."""
        return "as many records in each bin"

    def draw_rows(self, rng: np.random.Generator, count: int, mean: float) -> Floats:  # noqa: ARG002
        """Draw records to plan with, equally often from each bin; see `NamedPolicy.draw_rows`."""
        edges = np.array(self.edges_between)
        below = min(edges[0] - 1.0, np.nextafter(edges[0], -np.inf))
        return np.concatenate(([below], edges))[rng.integers(0, len(edges) + 1, (count, 1))]

    def conclude(self, numbers: Floats, worth: float, rounding: float) -> HistogramEstimate:
        """Give shares, counts and their errors; see `Encoded.conclude`."""
        return conclude_shares(numbers, self.bins, worth, rounding, has_counts=self.half_life is None)

    def conclude_merged(self, merged: Basis, parts: Sequence[HistogramEstimate]) -> HistogramEstimate:
        """Add up counts and how far encoding may have put them off; see `Encoded.conclude_merged`."""
        worths = np.array([basis.worth for basis in find_bases(parts)])
        shares = worths @ np.array([part.value for part in parts]) / merged.worth
        made = conclude_shares(shares, self.bins, merged.worth, 0.0, has_counts=True)
        off = float(worths @ [part.encoding_error for part in parts])
        return replace(made, encoding_error=off / merged.worth, count_error=off)

    def conclude_noisy(
        self,
        averages: Floats,
        noise: Noise,
        worth: float,
        rounding: float,
        centres: Floats | float = 0.0,  # noqa: ARG002
    ) -> HistogramEstimate:
        """Give shares, counts and errors that include the noise; see `Encoded.conclude_noisy`."""
        each = noise.deviations
        return conclude_shares(averages, self.bins, worth, rounding, each, has_counts=self.half_life is None)


@dataclass(frozen=True)
class Histogram(_Bins):
    """The share of every record that ever arrived in each bin, out of a window of them.

    Bins reach from each edge, inclusive, to the next. What lies below the first edge and what lies at or above the last
    have bins of their own, so that nothing is lost.

    Args:
        edges: the borders between bins, in ascending order.
        half_life: after this number of records, a record counts half as much; for streams that drift.

    Raises:
        ParameterError: an argument is out of range.

    Example:
        >>> from vestige import Stream
        >>> stream = Stream(Histogram((0.0, 1.0)), retention=384, seed=0)
        >>> _ = stream.extend(np.random.default_rng(0).normal(size=100_000))
        >>> estimate = stream.estimate()
        >>> estimate.value.round(3), estimate.bins
        (array([0.502, 0.341, 0.158]), ('below 0', '0 to 1', '1 or more'))
        >>> estimate.counts, estimate.count_error < 0.5  # exact
        (array([50171., 34072., 15757.]), True)
    """

    name: ClassVar[str] = "histogram"
    takes_edges: ClassVar[bool] = True
    max_columns: ClassVar[int | None] = 1

    edges: tuple[float, ...]
    half_life: float | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "edges", check_edges(self.edges))
        check_half_life(self.half_life)

    @classmethod
    def from_options(cls, options: Sequence[str], columns: int, half_life: float | None) -> Histogram:  # noqa: ARG003
        """Make the histogram with these edges; see `NamedPolicy.from_options`."""
        return cls(parse_edges(options), half_life)

    @property
    def edges_between(self) -> tuple[float, ...]:
        """The edges."""
        return self.edges

    @property
    def bins(self) -> tuple[str, ...]:
        """The name of each bin."""
        return name_bins(self.edges)

    def report(self, estimate: HistogramEstimate, columns: Sequence[str]) -> Report:
        """Make a table of the histogram; see `NamedPolicy.report`."""
        return report_shares(estimate, "histogram", columns[0])


@dataclass(frozen=True)
class Shares(_Bins):
    """The share of every record that ever arrived in each category, out of a window of them.

    A record is the number of its category, counted from 0 in the order in which they are declared; the number of
    categories stands for all others. Categories are declared beforehand: nothing outside the records may learn them.

    Args:
        categories: the names of the categories, all different.
        half_life: after this number of records, a record counts half as much; for streams that drift.

    Raises:
        ParameterError: an argument is out of range.

    Example:
        >>> from vestige import Stream
        >>> stream = Stream(Shares(("ok", "failed")), retention=384, seed=0)
        >>> _ = stream.extend(np.arange(9_000) % 90 < 1)  # 0 is ok, 1 failed, 2 would be any other
        >>> estimate = stream.estimate()
        >>> dict(zip(estimate.bins, estimate.counts.tolist()))
        {'ok': 8900.0, 'failed': 100.0, 'other': 0.0}
    """

    name: ClassVar[str] = "shares"
    takes_categories: ClassVar[bool] = True
    max_columns: ClassVar[int | None] = 1

    categories: tuple[str, ...]
    half_life: float | None = None

    def __post_init__(self) -> None:
        names = self.categories
        fits = isinstance(names, tuple | list) and 1 <= len(names) <= MAX_EDGES
        if not fits or not all(isinstance(name, str) and name for name in names) or len({*names, OTHER}) <= len(names):
            raise ParameterError(
                f"categories={show_value(names)} are not different names; use 1 to {MAX_EDGES:,} texts other than "
                f"{OTHER!r}, such as ('ok', 'failed')"
            )
        object.__setattr__(self, "categories", tuple(names))
        check_half_life(self.half_life)

    @classmethod
    def from_options(cls, options: Sequence[str], columns: int, half_life: float | None) -> Shares:  # noqa: ARG003
        """Make the shares of these categories; see `NamedPolicy.from_options`."""
        return cls(tuple(options), half_life)

    def name_categories(self, columns: Sequence[str]) -> dict[str, tuple[str, ...]]:
        """Name the categories of the only column; see `NamedPolicy.name_categories`."""
        return {columns[0]: self.categories}

    @property
    def edges_between(self) -> tuple[float, ...]:
        """Category 0 is below 1; all others are at or above the number of categories."""
        return tuple(float(i + 1) for i in range(len(self.categories)))

    @property
    def bins(self) -> tuple[str, ...]:
        """The categories, and all others."""
        return (*self.categories, OTHER)

    def check_rows(self, rows: Floats) -> None:
        """Refuse what is not the number of a category; see `Policy.check_rows`.

        Args:
            rows: shape (n, 1).

        Raises:
            DataError: a row is not a whole number from 0 to the number of categories.
        """
        wrong = (rows != np.floor(rows)) | (rows < 0.0) | (rows > len(self.categories))
        if (wrong & ~np.isnan(rows)).any():
            row = int(np.argmax((wrong & ~np.isnan(rows)).any(axis=1)))
            raise DataError(
                f"row {row} of {len(rows)} (counted from 0) is not the number of a category; use 0 to "
                f"{len(self.categories) - 1} in the order in which they are declared, and {len(self.categories)} for "
                "any other: nothing of this call was taken"
            )

    def report(self, estimate: HistogramEstimate, columns: Sequence[str]) -> Report:
        """Make a table of the shares; see `NamedPolicy.report`."""
        return report_shares(estimate, "shares", columns[0])
