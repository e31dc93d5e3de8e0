"""The number of different values that ever arrived, from a sketch of a few thousand bits.

CPC, the compressed sketch of Apache DataSketches: K. J. Lang, Back to the future: an even more nearly optimal
cardinality estimation algorithm, 2017, https://doi.org/10.48550/arXiv.1708.06839. For the same error it takes less than
half of the bits of HyperLogLog. Its bytes are the same wherever calls end, with one exception: one that is restored
from an empty sketch estimates infinity, so the empty sketch is never restored here.
Guarantee: the estimate of a sketch that saw every record in the same order, to the last bit; held by
tests/policies/test_distinct.py.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from vestige.errors import MissingExtraError, NoAnswerError, ParameterError
from vestige.estimate import Estimate
from vestige.policies.named_policy import refuse_half_life
from vestige.policies.report import Remark, Report, format_number
from vestige.policies.stateful import Stateful, check_reserve
from vestige.types import Floats
from vestige.validation import check_bool, check_int, parse_count
from vestige.whole_numbers import SAFE, WholeNumbers

if TYPE_CHECKING:
    from datasketches import cpc_sketch

_BYTES = (24, 36, 56, 100, 180, 344, 660, 1_292, 2_540, 5_020, 9_968, 19_836, 39_532)
"""The most bytes of sketches of 16, 32, ... buckets in the trials of their authors, without their heads."""
_HEAD = 40
"""The bytes of its head."""
_SPARE = 16
"""Bytes more than that, so that one that outgrows its bits is not to be expected."""
_COUNT = 6
"""The bytes of the number of records that it has seen."""
_END = b"\x01"
"""Follows the sketch; zeros fill the rest."""
_DEVIATIONS = 2
TEXT = "text"
"""What is in the brackets of a metric whose column holds texts."""


@dataclass(frozen=True, eq=False)
class DistinctEstimate(Estimate):
    """The number of different values, and the sketch's own bounds.

    Attributes:
        value: the estimate.
        lower: the lower bound, at about two standard errors.
        upper: the upper bound, likewise.
        standard_error: the standard error of the estimate.
    """

    value: float
    lower: float
    upper: float
    standard_error: float


@dataclass(frozen=True)
class Distinct(Stateful[DistinctEstimate]):
    """The number of different values that ever arrived.

    Whole numbers are told apart exactly, also those of 64 bits and more: pass them as integers, since floats beyond
    2^53, which may be rounded, are refused. The sketch holds no values, but who knows a value can try whether it would
    change the sketch: if so, it never arrived. It needs the extra `sketches`.

    Args:
        buckets: the size of the sketch, a power of two from 16 to 65,536. The standard error is about 0.59 over the
            root of it: 1.8% for 1,024.
        reserve: the share of a batch that may be records that cannot be kept, because their removal was requested.
        has_texts: whether the column holds texts, which a source reads as hashes of 53 bits.

    Raises:
        ParameterError: an argument is out of range.
        MissingExtraError: `datasketches` is not installed.

    Example:
        >>> from vestige import Stream
        >>> policy = Distinct(buckets=256)
        >>> policy.default_retention
        4616
        >>> stream = Stream(policy, retention=5_000, seed=0)
        >>> _ = stream.extend(np.random.default_rng(0).integers(0, 30_000, 100_000))
        >>> estimate = stream.estimate()
        >>> estimate.lower < 28_900 < estimate.upper
        True
    """

    name: ClassVar[str] = "distinct"
    max_columns: ClassVar[int | None] = 1

    buckets: int = 1_024
    reserve: float = 0.1
    has_texts: bool = field(default=False, metadata={"added_later": True})

    def __post_init__(self) -> None:
        check_bool("has_texts", self.has_texts)
        check_int("buckets", self.buckets, 16, 8 << len(_BYTES))
        if self.buckets & (self.buckets - 1):
            raise ParameterError(f"buckets={self.buckets} is not a power of two; use one, such as 1,024")
        check_reserve(self.reserve)
        _load_sketch()

    @classmethod
    def from_columns(cls, columns: int, targets: int, channel: str, half_life: float | None) -> Distinct:  # noqa: ARG003
        """Make the number of different values of one column; see `NamedPolicy.from_columns`."""
        refuse_half_life(cls.name, half_life)
        return cls()

    @classmethod
    def from_options(cls, options: Sequence[str], columns: int, half_life: float | None) -> Distinct:  # noqa: ARG003
        """Make the number of different values by a sketch of that many buckets, of `text`; see the base class."""
        refuse_half_life(cls.name, half_life)
        numbers = [option for option in options if option != TEXT]
        made = cls(has_texts=len(numbers) < len(options))
        return replace(made, buckets=parse_count("buckets", numbers)) if numbers else made

    def name_categories(self, columns: Sequence[str]) -> dict[str, tuple[str, ...]]:
        """Name the only column, without categories, if it holds texts; see `NamedPolicy.name_categories`."""
        return {columns[0]: ()} if self.has_texts else {}

    @property
    def sketch(self) -> Distinct:
        """The sketch, which does not depend on what its numbers stand for; see `Stateful.sketch`."""
        return replace(self, has_texts=False)

    @property
    def max_magnitude(self) -> float:
        """The largest float that is no other number rounded."""
        return float(SAFE)

    def read_whole_numbers(self, column: int) -> WholeNumbers:  # noqa: ARG002
        """Keep whole numbers beyond 2^53 apart by codes; see `Policy.read_whole_numbers`."""
        return "coded"

    @property
    def state_bits(self) -> int:
        """What such a sketch takes at most, and the number of records that it has seen."""
        return 8 * (_COUNT + _HEAD + _BYTES[self._log_buckets - 4] + _SPARE + len(_END))

    @property
    def relative_error(self) -> float:
        """The standard error of the estimate, as a share of it."""
        return math.sqrt(math.log(2.0) / 2.0 / self.buckets)

    @property
    def plan_notes(self) -> tuple[str, ...]:
        """How far the estimate is off; see `NamedPolicy.plan_notes`."""
        return (f"The standard error of the estimate is {self.relative_error:.2%} of it.",)

    def move(self, state: bytes, rows: Floats) -> bytes:
        """Update the sketch by the records; see `Stateful.move`.

        A sketch that outgrows its bits, which has not been seen to happen, starts over after these records. It counts
        those that it has seen, so `make_estimate` says so.
        """
        seen, sketch = self._restore(state)
        values = rows[:, 0]
        first = np.sort(np.unique(values, return_index=True)[1])  # a value that came before changes nothing
        for value in values[first].tolist():
            sketch.update(value)
        made = (seen + len(values)).to_bytes(_COUNT, "little") + sketch.serialize() + _END
        return made.ljust(len(state), b"\0") if len(made) <= len(state) else self.first_state

    def make_estimate(self, state: bytes, counted: int) -> DistinctEstimate:
        """Give the sketch's estimate and bounds; see `Stateful.make_estimate`."""
        seen, sketch = self._restore(state)
        outgrown = f"the sketch outgrew its {self.state_bits:,} bits and started over"
        if not seen:
            raise NoAnswerError(f"{outgrown}: it counts from the next record; use more buckets")
        value, started_over = sketch.get_estimate(), f"T{outgrown[1:]}: it has seen only the last {seen:,} records."
        return DistinctEstimate(
            value,
            sketch.get_lower_bound(_DEVIATIONS),
            sketch.get_upper_bound(_DEVIATIONS),
            value * self.relative_error,
            notes=(started_over,) if seen < counted else (),
            missed=seen < counted,
        )

    def merge(self, states: Sequence[bytes]) -> bytes:
        """Unite the sketches; see `Stateful.merge`."""
        from datasketches import cpc_union  # noqa: PLC0415

        united, total = cpc_union(self._log_buckets), 0
        for state in states:
            seen, sketch = self._restore(state)
            total += seen
            if seen:
                united.update(sketch)
        return total.to_bytes(_COUNT, "little") + united.get_result().serialize() + _END if total else self.first_state

    def make_merged(self, state: bytes, counted: int) -> DistinctEstimate:
        """Give the estimate and the bounds of a united sketch, which does not know the order in which values came.

        Its standard error is ln 2 over the root of the number of buckets (Lang 2017).
        """
        made = self.make_estimate(state, counted)
        return replace(made, standard_error=made.value * math.log(2.0) / math.sqrt(self.buckets))

    def labels(self, columns: Sequence[str]) -> tuple[str, ...]:  # noqa: ARG002
        """Name the number; see `NamedPolicy.labels`."""
        return ("distinct values",)

    def report(self, estimate: DistinctEstimate, columns: Sequence[str]) -> Report:
        """Make a table of the number; see `NamedPolicy.report`."""
        numbers = {"value": estimate.value, "lower": estimate.lower, "upper": estimate.upper}
        row = (columns[0], *(format_number(round(number, 1)) for number in numbers.values()))
        header = ("column", "distinct values", "at least", "at most")
        remarks = (Remark("The bounds are those of two standard errors."),)
        return Report("number of distinct values", header, (row,), {**numbers}, remarks)

    @property
    def _log_buckets(self) -> int:
        return self.buckets.bit_length() - 1

    def _restore(self, state: bytes) -> tuple[int, cpc_sketch]:
        """The number of records that the sketch has seen, and the sketch."""
        kind, seen = _load_sketch(), int.from_bytes(state[:_COUNT], "little")
        if not seen:
            return 0, kind(self._log_buckets)
        return seen, kind.deserialize(state[_COUNT:].rstrip(b"\0")[: -len(_END)])


def _load_sketch() -> type[cpc_sketch]:
    """The class of the sketch; imported only where it is needed."""
    try:
        from datasketches import cpc_sketch  # noqa: PLC0415
    except ImportError:
        raise MissingExtraError("Distinct", "sketches") from None
    return cpc_sketch  # type: ignore[no-any-return]
