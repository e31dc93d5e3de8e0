"""Quantiles of the whole stream from a summary of a hundred values, with bounds that hold for certain.

M. Greenwald and S. Khanna, Space-efficient online computation of quantile summaries, SIGMOD 2001,
https://doi.org/10.1145/375663.375670, with a fixed number of entries: where one more is needed, the one whose absence
is felt least is merged into the next, and the state itself says how far a rank may be off. Between two entries, a
quantile is interpolated. It draws no random numbers,
and records in one call or in several lead to the same state; quantile sketches of Apache DataSketches draw from a
generator that cannot be seeded, or (t-digest) depend on where calls end.
Guarantee: the quantile of all records lies between `lower` and `upper`, whatever the data; held by
tests/policies/test_quantiles.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import ClassVar, NamedTuple

import numpy as np

from vestige.errors import ParameterError
from vestige.estimate import Estimate
from vestige.policies.counters import ENTRY_BITS, Counters, count_entries, pack, unpack
from vestige.policies.named_policy import refuse_half_life
from vestige.policies.report import Remark, Report, format_number
from vestige.policies.stateful import MAX_BITS, Stateful, check_reserve
from vestige.types import Bools, Floats, Ints
from vestige.validation import check_floats, check_int, parse_count, show_value

DEFAULT_PROBABILITIES = (0.05, 0.25, 0.5, 0.75, 0.95)
_MIN_SIZE = 10
_SIZE = "size="
_USUAL = 1.0
"""The largest error of a rank where records come in no particular order, over the number of entries; measured."""


@dataclass(frozen=True, eq=False)
class QuantilesEstimate(Estimate):
    """Quantiles: the smallest value up to which at least a share p of the records lie.

    Attributes:
        value: the quantiles, between `lower` and `upper`; shape (probabilities,).
        probabilities: the shares p.
        lower: the quantile of all records is at least this; shape (probabilities,).
        upper: the quantile of all records is at most this.
        rank_error: the largest difference between p and the rank of `value`, as a share of the records: the share of
            those up to it, or of those below it, is within this distance from p, or p lies between the two.
    """

    value: Floats
    probabilities: tuple[float, ...]
    lower: Floats
    upper: Floats
    rank_error: Floats


def check_probabilities(probabilities: object) -> tuple[float, ...]:
    """Check the probabilities of quantiles.

    Args:
        probabilities: one or more numbers above 0 and at most 1.

    Returns:
        the same as floats.

    Raises:
        ParameterError: they are not such numbers, or one is there twice.

    Example:
        >>> check_probabilities([0.5, 0.95])
        (0.5, 0.95)
    """
    numbers = check_floats("probabilities", probabilities)
    fits = numbers.ndim == 1 and len(numbers) and ((numbers > 0.0) & (numbers <= 1.0)).all()
    if not fits or len(np.unique(numbers)) < len(numbers):
        raise ParameterError(
            f"probabilities={show_value(probabilities)} is not a list of different numbers above 0 and at most 1; pass "
            "one, such as [0.5, 0.95]"
        )
    return tuple(numbers.tolist())


def parse_probabilities(options: Sequence[str]) -> tuple[float, ...]:
    """Make probabilities from texts.

    Args:
        options: one text for each, a number or a percentage after a p.

    Returns:
        the probabilities.

    Raises:
        ParameterError: a text is neither.

    Example:
        >>> parse_probabilities(["0.5", "p95"])
        (0.5, 0.95)
    """
    try:
        return check_probabilities(
            [float(f"{text[1:]}e-2") if text.startswith("p") else float(text) for text in map(str.strip, options)]
        )
    except ValueError:
        raise ParameterError(
            f"probabilities={','.join(options)} has one that is not a number above 0 and at most 1, or a percentage "
            "such as p95; use such numbers"
        ) from None


def name_quantiles(probabilities: Sequence[float]) -> tuple[str, ...]:
    """Name quantiles by their percentages, with all digits, so that different ones have different names.

    Args:
        probabilities: the probabilities.

    Returns:
        one name for each.

    Example:
        >>> name_quantiles([0.5, 0.999])
        ('p50', 'p99.9')
    """
    return tuple(f"p{Decimal(repr(float(p))).scaleb(2).normalize():f}" for p in probabilities)


def report_quantiles(estimate: QuantilesEstimate, columns: Sequence[str], remarks: tuple[Remark, ...]) -> Report:
    """Make a table of quantiles.

    Args:
        estimate: the quantiles.
        columns: the name of their column.
        remarks: what to print below the table.

    Returns:
        the table, and the same facts for machines; a bound that is not finite is None.
    """
    rows, facts = [], {}
    numbers = (estimate.value, estimate.lower, estimate.upper, estimate.rank_error)
    for name, *line in zip(name_quantiles(estimate.probabilities), *(each.tolist() for each in numbers), strict=True):
        rows.append((name, *(format_number(number) for number in line[:3]), f"{line[3]:.3%}"))
        known = (number if np.isfinite(number) else None for number in line)
        facts[name] = dict(zip(("quantile", "lower", "upper", "rank_error"), known, strict=True))
    header = (f"quantile of {columns[0]}", "value", "at least", "at most", "rank error")
    return Report("quantiles", header, tuple(rows), {"value": facts}, remarks)


@dataclass(frozen=True)
class Quantiles(Stateful[QuantilesEstimate]):
    """Quantiles of every record that ever arrived, with bounds that hold for certain.

    The summary consists of values of single records, the smallest and the largest among them, which are kept in the
    clear after those records have been erased.

    Args:
        probabilities: the quantiles to answer with, such as 0.5 for the median.
        size: the number of entries of the summary, 10 or more. Where records come in no particular order, ranks are
            off by at most about 1 / size, in a long tail, and mostly by a tenth of that; where they drift by about
            twice as much; some orders are worse. `rank_error`, which is certain, is larger. With at most `size`
            different values, quantiles are exact.
        reserve: the share of a batch that may be records that cannot be kept, because their removal was requested.

    Raises:
        ParameterError: an argument is out of range.

    Example:
        >>> from vestige import Stream
        >>> policy = Quantiles([0.5, 0.95], size=20)
        >>> policy.default_retention
        7760
        >>> stream = Stream(policy, retention=8_000, seed=0)
        >>> _ = stream.extend(np.random.default_rng(0).permutation(100_000))
        >>> estimate = stream.estimate()
        >>> bool((estimate.lower <= [49_999, 94_999]).all() and (estimate.upper >= [49_999, 94_999]).all())
        True
        >>> bool((abs(estimate.value / 100_000 - [0.5, 0.95]) <= estimate.rank_error).all())
        True
    """

    name: ClassVar[str] = "quantiles"
    max_columns: ClassVar[int | None] = 1

    probabilities: Sequence[float] = DEFAULT_PROBABILITIES
    size: int = 100
    reserve: float = 0.1

    def __post_init__(self) -> None:
        object.__setattr__(self, "probabilities", check_probabilities(self.probabilities))
        check_int("size", self.size, _MIN_SIZE, MAX_BITS // ENTRY_BITS)
        check_reserve(self.reserve)

    @classmethod
    def from_columns(cls, columns: int, targets: int, channel: str, half_life: float | None) -> Quantiles:  # noqa: ARG003
        """Make the quantiles of one column; see `NamedPolicy.from_columns`."""
        refuse_half_life(cls.name, half_life)
        return cls()

    @classmethod
    def from_options(cls, options: Sequence[str], columns: int, half_life: float | None) -> Quantiles:  # noqa: ARG003
        """Make the quantiles of these probabilities, with `size=` entries; see `NamedPolicy.from_options`."""
        refuse_half_life(cls.name, half_life)
        sizes = [text.removeprefix(_SIZE) for text in options if text.startswith(_SIZE)]
        probabilities = [text for text in options if not text.startswith(_SIZE)]
        made = cls(parse_probabilities(probabilities) if probabilities else DEFAULT_PROBABILITIES)
        return replace(made, size=parse_count("size", sizes)) if sizes else made

    @property
    def metric_name(self) -> str:
        """The name of a single quantile, such as p50, or quantiles; see `NamedPolicy.metric_name`."""
        return name_quantiles(self.probabilities)[0] if len(self.probabilities) == 1 else self.name

    @property
    def sketch(self) -> Quantiles:
        """The summary, which does not depend on the probabilities; see `Stateful.sketch`."""
        return replace(self, probabilities=DEFAULT_PROBABILITIES)

    @property
    def state_bits(self) -> int:
        """160 bits for each entry."""
        return ENTRY_BITS * self.size

    @property
    def plan_notes(self) -> tuple[str, ...]:
        """How far ranks are off; see `NamedPolicy.plan_notes`."""
        return (
            f"Each quantile has bounds that hold for certain. Where records come in no particular order, its rank is "
            f"off by at most about {_USUAL / self.size:.2%} of the records; if they drift, by about twice as much.",
        )

    def move(self, state: bytes, rows: Floats) -> bytes:
        """Add records to the summary, one at a time; see `Stateful.move`."""
        from vestige.policies.kernels import summarize  # noqa: PLC0415

        values, marked, slacks, used = unpack(state, self.size + 1)
        gains, single = marked // 2, marked % 2
        used = summarize(np.ascontiguousarray(rows[:, 0]), values, gains, slacks, single, used)
        return pack(Counters(values, 2 * gains + single, slacks, used), self.size)

    def merge(self, states: Sequence[bytes]) -> bytes:
        """Take all entries of all summaries, and add up what each of these knows of the rank of every value.

        Between two entries of a summary, the number of records up to a value is at least that up to the entry below it,
        and less than that up to the entry above it by the records of the very value of that one. See `Stateful.merge`.
        """
        tables = [_Summary.read(state) for state in states]
        values = np.unique(np.concatenate([table.values for table in tables]))
        low, high, single = map(np.array, zip(*(table.bound_ranks(values) for table in tables), strict=True))
        least, gains = low.sum(axis=0), np.diff(low.sum(axis=0), prepend=0)
        counters = Counters(values, 2 * gains + single.all(axis=0), high.sum(axis=0) - least, len(values))
        return pack(counters, len(values))

    def make_estimate(self, state: bytes, counted: int) -> QuantilesEstimate:  # noqa: ARG002
        """Interpolate between the entries around each rank, within bounds; see `Stateful.make_estimate`."""
        values, marked, slacks, used = unpack(state, count_entries(state))
        values, marked, slacks = values[:used], marked[:used], slacks[:used]
        gains, single = marked // 2, marked % 2 == 1
        last = np.cumsum(gains)  # the last rank of each value is at least this
        first = last + slacks - np.where(single, gains, 1) + 1  # and its first rank is at most this, which ascends too
        usual = np.maximum.accumulate(np.stack((first - slacks / 2.0, last + slacks / 2.0)).T.ravel())
        found = []
        for p in self.probabilities:
            rank = max(int(np.ceil(p * last[-1] * (1.0 - 1e-12))), 1)  # 7 for 0.07 of 100, despite rounding
            lower = values[np.flatnonzero(first <= rank)[-1]]
            upper = values[np.flatnonzero(last >= rank)[0]]
            value = min(max(_interpolate(rank, usual, np.repeat(values, 2)), lower), upper)
            found.append((value, lower, upper, _bound_rank_error(rank, value, values, first, last) / last[-1]))
        chosen, *others = np.array(found).T
        return QuantilesEstimate(chosen, tuple(self.probabilities), *others)

    def labels(self, columns: Sequence[str]) -> tuple[str, ...]:  # noqa: ARG002
        """Name the quantiles, such as p95; see `NamedPolicy.labels`."""
        return name_quantiles(self.probabilities)

    def report(self, estimate: QuantilesEstimate, columns: Sequence[str]) -> Report:
        """Make a table of the quantiles; see `NamedPolicy.report`."""
        remarks = (Remark("These quantiles are or lie between values of single records, which may have been erased."),)
        return report_quantiles(estimate, columns, remarks)


class _Summary(NamedTuple):
    """The entries of a summary that are in use.

    Attributes:
        values: in ascending order.
        last: the number of records up to each value is at least this.
        slacks: and at most this much more.
        own: so many records are of the very value at least.
        single: whether all that an entry gained are such records.
    """

    values: Floats
    last: Ints
    slacks: Ints
    own: Ints
    single: Bools

    @classmethod
    def read(cls, state: bytes) -> _Summary:
        """Read the state of `Quantiles`, or one that is merged."""
        values, marked, slacks, used = unpack(state, count_entries(state))
        gains, single = marked[:used] // 2, marked[:used] % 2 == 1
        return cls(values[:used], np.cumsum(gains), slacks[:used], np.where(single, gains, 1), single)

    def bound_ranks(self, values: Floats) -> tuple[Ints, Ints, Bools]:
        """The least and the largest number of records up to each value, and where only its own were gained."""
        after = np.searchsorted(self.values, values, side="right")
        least = np.concatenate(([0], self.last))[after]
        there = (after > 0) & (self.values[np.maximum(after, 1) - 1] == values)
        above = np.concatenate((self.last + self.slacks - self.own, self.last[-1:]))[after]
        above[after == 0] = 0
        most = np.where(there, least + np.concatenate(([0], self.slacks))[after], above)
        return least, most, ~there | np.concatenate(([True], self.single))[after]


def _interpolate(rank: int, ranks: Floats, values: Floats) -> float:
    """The value at a rank, on a straight line between the two places around it; ranks and values ascend."""
    after = int(np.searchsorted(ranks, rank))
    if after == 0 or after == len(ranks) or ranks[after] == rank:
        return float(values[min(after, len(values) - 1)])
    weight = (rank - ranks[after - 1]) / (ranks[after] - ranks[after - 1])
    return float((1.0 - weight) * values[after - 1] + weight * values[after])


def _bound_rank_error(rank: int, value: float, values: Floats, first: Ints, last: Ints) -> int:
    """By how many records the rank of a value, an entry or between two of them, may be off at most."""
    place = int(np.searchsorted(values, value))
    if values[place] == value:
        return max(int(first[place]) - rank, rank - int(last[place]), 0)
    return max(int(first[place]) - 1 - rank, rank - int(last[place - 1]), 0)
