"""The smallest and the largest value that ever arrived, exact, in 128 bits per column.

Such a state holds two values in the clear, whoever they belonged to and however long ago that record was erased.
Guarantee: numpy's minimum and maximum of all records; held by tests/policies/test_extremes.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from vestige.estimate import Estimate
from vestige.policies.named_policy import refuse_half_life
from vestige.policies.report import Remark, Report, format_number
from vestige.policies.stateful import MAX_BITS, Stateful, check_reserve
from vestige.types import Floats
from vestige.validation import check_int

_BITS = 128
"""Two float64."""


@dataclass(frozen=True, eq=False)
class ExtremesEstimate(Estimate):
    """The smallest and the largest value of each column, exactly.

    Attributes:
        value: the minimum, then the maximum; shape (2,) for one column, otherwise (2, columns).
        minimum: the minimum; a float for one column, otherwise an array.
        maximum: the maximum, likewise.
    """

    value: Floats
    minimum: float | Floats
    maximum: float | Floats


@dataclass(frozen=True)
class Extremes(Stateful[ExtremesEstimate]):
    """The smallest and the largest value that ever arrived, exactly.

    Both are values of single records, and are kept in the clear after those records have been erased.

    Args:
        dim: the number of values per record.
        reserve: the share of a batch that may be records that cannot be kept, because their removal was requested.

    Raises:
        ParameterError: an argument is out of range.

    Example:
        >>> from vestige import Stream
        >>> stream = Stream(Extremes(), retention=400, seed=0)
        >>> _ = stream.extend(np.cos(np.arange(100_000.0)))
        >>> estimate = stream.estimate()
        >>> estimate.maximum, estimate.oldest_age < 400  # the cosine of 0, the first record
        (1.0, True)
    """

    name: ClassVar[str] = "extremes"

    dim: int = 1
    reserve: float = 0.1

    def __post_init__(self) -> None:
        check_int("dim", self.dim, 1, MAX_BITS // _BITS)
        check_reserve(self.reserve)

    @classmethod
    def from_columns(cls, columns: int, targets: int, channel: str, half_life: float | None) -> Extremes:  # noqa: ARG003
        """Make the extremes of a number of columns; see `NamedPolicy.from_columns`."""
        refuse_half_life(cls.name, half_life)
        return cls(dim=columns)

    @property
    def columns(self) -> int:
        """The number of dimensions."""
        return self.dim

    @property
    def state_bits(self) -> int:
        """128 bits for each column."""
        return _BITS * self.dim

    @property
    def first_state(self) -> bytes:
        """Any value is below infinity, and above minus infinity."""
        return np.repeat([np.inf, -np.inf], self.dim).tobytes()

    def move(self, state: bytes, rows: Floats) -> bytes:
        """Take the smaller and the larger; see `Stateful.move`."""
        low, high = np.frombuffer(state).reshape(2, self.dim)
        ends = np.array([np.minimum(low, rows.min(axis=0)), np.maximum(high, rows.max(axis=0))])
        return (ends + 0.0).tobytes()  # no minus zero: which of two zeros is found would depend on where rows end

    def merge(self, states: Sequence[bytes]) -> bytes:
        """Take the smallest and the largest of all; see `Stateful.merge`."""
        ends = np.array([np.frombuffer(state).reshape(2, self.dim) for state in states])
        return np.array([ends[:, 0].min(axis=0), ends[:, 1].max(axis=0)]).tobytes()

    def make_estimate(self, state: bytes, counted: int) -> ExtremesEstimate:  # noqa: ARG002
        """Give floats for one column, otherwise arrays; see `Stateful.make_estimate`."""
        low, high = np.frombuffer(state).reshape(2, self.dim)
        if self.dim == 1:
            return ExtremesEstimate(np.array([low[0], high[0]]), float(low[0]), float(high[0]))
        return ExtremesEstimate(np.array([low, high]), low.copy(), high.copy())

    def labels(self, columns: Sequence[str]) -> tuple[str, ...]:
        """Name the extremes of each column; see `NamedPolicy.labels`."""
        return tuple(f"{kind} of {column}" for kind in ("minimum", "maximum") for column in columns)

    def report(self, estimate: ExtremesEstimate, columns: Sequence[str]) -> Report:
        """Make a table of the extremes; see `NamedPolicy.report`."""
        pairs = estimate.value.reshape(2, self.dim).T.tolist()
        rows = tuple((name, *map(format_number, pair)) for name, pair in zip(columns, pairs, strict=True))
        value = {name: {"minimum": low, "maximum": high} for name, (low, high) in zip(columns, pairs, strict=True)}
        remarks = (Remark("Both are values of single records, which may have been erased."),)
        return Report("extremes", ("column", "minimum", "maximum"), rows, {"value": value}, remarks)
