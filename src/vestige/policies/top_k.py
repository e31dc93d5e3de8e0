"""The most frequent values of the whole stream, with bounds of their counts that hold for certain.

Space-Saving: A. Metwally, D. Agrawal and A. El Abbadi, Efficient computation of frequent and top-k elements in data
streams, ICDT 2005, https://doi.org/10.1007/978-3-540-30570-5_27. Its state depends on the records alone. That of the
frequent items sketch of Apache DataSketches 5.2.0 does not: where a purge leaves no item, it is written as an empty
one, and what it has purged is forgotten.
Guarantee: every count lies between its bounds, and each value that makes up more than 1 / counters of all records has a
counter; held by tests/policies/test_top_k.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from vestige.errors import ParameterError
from vestige.estimate import Estimate
from vestige.policies.counters import ENTRY_BITS, Counters, count_entries, pack, unpack
from vestige.policies.named_policy import refuse_half_life
from vestige.policies.report import Remark, Report, format_label
from vestige.policies.stateful import MAX_BITS, Stateful, check_reserve
from vestige.types import Floats, Ints
from vestige.validation import check_int, parse_count
from vestige.whole_numbers import SAFE, WholeNumbers, decode_all, to_plain


@dataclass(frozen=True, eq=False)
class TopKEstimate(Estimate):
    """The most frequent values, and how often they have arrived.

    Attributes:
        value: the values, the most frequent one first, by the upper bounds of their counts; k of them, or fewer if
            fewer have arrived. Where there is a whole number beyond 2^53 among them they are objects: ints, floats, and
            texts that say the hash of a number.
        lower: each has arrived at least this often; shape (values,).
        upper: each has arrived at most this often.
        others: no value that is not listed has arrived more often than this.
    """

    value: NDArray[Any]
    lower: Ints
    upper: Ints
    others: int

    def list_numbers(self) -> Iterator[dict[str, Any]]:
        """List how often each value has arrived: the middle of its bounds, and these; see `Estimate.list_numbers`."""
        for value, low, high in zip(self.value.tolist(), self.lower.tolist(), self.upper.tolist(), strict=True):
            yield {
                "metric": f"records of {format_label(value)}",
                "value": float((low + high) // 2),
                "lower": float(low),
                "upper": float(high),
            }


@dataclass(frozen=True)
class TopK(Stateful[TopKEstimate]):
    """The most frequent values of every record that ever arrived, with bounds of their counts that hold for certain.

    Values are numbers. Whole numbers from 2^53 to below 4.59 10^18 are listed as they are; those that are larger, or
    negative and beyond 2^53, are told apart by the 53 bits of a hash, and listed by it. Pass them as integers, since
    floats beyond 2^53, which may be rounded, are refused. Values are kept in the clear after their records have been
    erased, rare ones among them.

    Args:
        k: the number of values to answer with.
        counters: the number of counters, at least k. No count is off by more than the number of records over this;
            those of values that are frequent from the beginning are exact.
        reserve: the share of a batch that may be records that cannot be kept, because their removal was requested.

    Raises:
        ParameterError: an argument is out of range.

    Example:
        >>> from vestige import Stream
        >>> policy = TopK(3, counters=20)
        >>> policy.default_retention
        7760
        >>> stream = Stream(policy, retention=8_000, seed=0)
        >>> _ = stream.extend(np.random.default_rng(0).geometric(0.3, 100_000))
        >>> estimate = stream.estimate()
        >>> estimate.value, bool((estimate.lower == estimate.upper).all())
        (array([1., 2., 3.]), True)
    """

    name: ClassVar[str] = "top"
    max_columns: ClassVar[int | None] = 1

    k: int = 10
    counters: int = 50
    reserve: float = 0.1

    def __post_init__(self) -> None:
        check_int("k", self.k, 1)
        check_int("counters", self.counters, 1, MAX_BITS // ENTRY_BITS)
        if self.counters < self.k:
            raise ParameterError(f"counters={self.counters} is below k={self.k}; use several times k")
        check_reserve(self.reserve)

    @classmethod
    def from_columns(cls, columns: int, targets: int, channel: str, half_life: float | None) -> TopK:  # noqa: ARG003
        """Make the ten most frequent values of one column; see `NamedPolicy.from_columns`."""
        refuse_half_life(cls.name, half_life)
        return cls()

    @classmethod
    def from_options(cls, options: Sequence[str], columns: int, half_life: float | None) -> TopK:  # noqa: ARG003
        """Make the k most frequent values, with five times as many counters; see `NamedPolicy.from_options`."""
        refuse_half_life(cls.name, half_life)
        k = parse_count("k", options)
        return cls(k, 5 * k)

    @property
    def sketch(self) -> TopK:
        """The counters, whatever number of values is answered with; see `Stateful.sketch`."""
        return replace(self, k=1)

    @property
    def max_magnitude(self) -> float:
        """The largest float that is no other number rounded."""
        return float(SAFE)

    def read_whole_numbers(self, column: int) -> WholeNumbers:  # noqa: ARG002
        """Keep whole numbers beyond 2^53 apart by codes; see `Policy.read_whole_numbers`."""
        return "coded"

    @property
    def state_bits(self) -> int:
        """160 bits for each counter."""
        return ENTRY_BITS * self.counters

    @property
    def plan_notes(self) -> tuple[str, ...]:
        """How far counts are off; see `NamedPolicy.plan_notes`."""
        return (
            "Each count has bounds that hold for certain. It is off by at most "
            f"{1.0 / self.counters:.2%} of the records, and exact with up to {self.counters} different values.",
        )

    def move(self, state: bytes, rows: Floats) -> bytes:
        """Count records, one at a time; see `Stateful.move`."""
        from vestige.policies.kernels import count_frequent  # noqa: PLC0415

        values, counts, errors, used = unpack(state, self.counters)
        used = count_frequent(np.ascontiguousarray(rows[:, 0]), values, counts, errors, used)
        return pack(Counters(values, counts, errors, used), self.counters)

    def merge(self, states: Sequence[bytes]) -> bytes:
        """Add up the bounds of each value; what has no counter in a table is bounded by the smallest one of that.

        All values keep their counters. What has none in any table has one in common, that of nan, which is no value of
        a record: it counts the sum of the smallest counters (Agarwal and others 2012, Mergeable summaries,
        https://doi.org/10.1145/2213556.2213562). See `Stateful.merge`.
        """
        tables = [_read_bounds(state) for state in states]
        values = np.unique(np.concatenate([table.values for table in tables]))
        lower, upper = np.zeros(len(values), np.int64), np.zeros(len(values), np.int64)
        for table in tables:
            places = np.searchsorted(values, table.values)
            more = np.full(len(values), table.others)
            more[places] = table.upper
            upper += more
            lower[places] += table.lower
        others = sum(table.others for table in tables)
        values, upper, lower = np.append(values, np.nan), np.append(upper, others), np.append(lower, 0)
        return pack(Counters(values, upper, upper - lower, len(values) - (others == 0)), len(values))

    def make_estimate(self, state: bytes, counted: int) -> TopKEstimate:  # noqa: ARG002
        """Give the values with the largest counts; see `Stateful.make_estimate`."""
        values, lower, counts, others = _read_bounds(state)
        order = np.lexsort((values, -lower, -counts))
        listed, rest = order[: self.k], order[self.k :]
        others = max(others, int(counts[rest].max(initial=0)))
        return TopKEstimate(decode_all(values[listed]), lower[listed], counts[listed], others)

    def report(self, estimate: TopKEstimate, columns: Sequence[str]) -> Report:
        """Make a table of the values; see `NamedPolicy.report`."""
        lines = list(zip(*(each.tolist() for each in (estimate.value, estimate.lower, estimate.upper)), strict=True))
        rows = tuple((format_label(value), f"{low:,}", f"{high:,}") for value, low, high in lines)
        value = [{"value": to_plain(value), "lower": low, "upper": high} for value, low, high in lines]
        remarks = (
            Remark(f"Every other value has arrived at most {estimate.others:,} times."),
            Remark("Values are listed in the clear, although their records may have been erased."),
        )
        facts = {"value": value, "others": estimate.others}
        return Report("most frequent values", (columns[0], "at least", "at most"), rows, facts, remarks)


class _Bounds(NamedTuple):
    """What a table says.

    Attributes:
        values: those that have a counter.
        lower: each has arrived at least this often.
        upper: each has arrived at most this often.
        others: no other value has arrived more often than this.
    """

    values: Floats
    lower: Ints
    upper: Ints
    others: int


def _read_bounds(state: bytes) -> _Bounds:
    """Read the state of `TopK`, or one that is merged, where nan has the counter of all that have none."""
    size = count_entries(state)
    values, counts, errors, used = unpack(state, size)
    others = int(counts.min()) if used == size else 0
    values, counts, lower = values[:used], counts[:used], (counts - errors)[:used]
    named = ~np.isnan(values)
    return _Bounds(values[named], lower[named], counts[named], others)
