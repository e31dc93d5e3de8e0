"""The mean of the whole stream, stored in which records are kept.

Section 3.3 of Immorlica et al. (2024), with the whole batch used for both halves.
Bits are relative to the spread of the records, so that a mean far from zero takes no more of them.
Guarantee: within 5% of the all-data error on five distributions, and on data far from zero; held by
tests/policies/test_mean.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from vestige import channels, statistics
from vestige.channels import CHANNELS, Channel
from vestige.clock import Clock
from vestige.errors import ParameterError
from vestige.estimate import Estimate
from vestige.policies.base import MAX_COLUMNS, Encoded, check_half_life, find_max_magnitude
from vestige.policies.report import Report, format_number
from vestige.policies.rounding import note_alike
from vestige.records import Records
from vestige.types import Bools, Floats
from vestige.validation import check_bool, check_float, check_int

_WORD = (1 << 64) - 1


@dataclass(frozen=True, eq=False)
class MeanEstimate(Estimate):
    """The mean and, with `Mean(spread=True)`, its standard error.

    Attributes:
        value: the mean; a float in one dimension, otherwise an array.
        variance: the variance of each column (divided by n); None without `spread`.
        standard_error: the standard error of the mean, for independent records; None without `spread`.
    """

    variance: float | Floats | None = None
    standard_error: float | Floats | None = None


@dataclass(frozen=True)
class Mean(Encoded[MeanEstimate]):
    """The mean of every record that ever arrived, out of a window of them.

    Args:
        dim: the number of values per record.
        channel: how it is stored. `average`: the plain average of the kept records is the mean. `bits`: which rounds
            are present spells it. `auto`: an average where that is near enough, bits where it is not. Or a
            `vestige.channels.Channel` of your own.
        half_life: after this number of records, a record counts half as much; for streams that drift.
        tolerance: the search for an average stops as soon as it is this near, as a share of the standard error of the
            mean; 0 searches for the nearest average that can be found.
        spread: whether the variance is kept too, so that the estimate has a standard error; always in bits.

    Raises:
        ParameterError: an argument is out of range.

    Example:
        >>> from vestige import Stream
        >>> stream = Stream(Mean(), retention=96, seed=0)
        >>> _ = stream.extend(range(1, 10_001))
        >>> estimate = stream.estimate()
        >>> round(estimate.value, 3), estimate.t, estimate.oldest_age < 96
        (5000.5, 10000, True)
        >>> recent = Stream(Mean(half_life=1_000), retention=96, seed=0)
        >>> _ = recent.extend(range(1, 10_001))
        >>> bool(8_500 < recent.estimate().value < 8_600)
        True
    """

    name: ClassVar[str] = "mean"

    dim: int = 1
    channel: str | Channel = "auto"
    half_life: float | None = None
    tolerance: float = 0.03
    spread: bool = False

    def __post_init__(self) -> None:
        check_int("dim", self.dim, 1, MAX_COLUMNS)
        check_bool("spread", self.spread)
        channels.find_channel(self.channel)
        if self.spread and self.channel == "average":
            raise ParameterError("channel='average' cannot hold a variance; use channel='auto' or spread=False")
        check_float("tolerance", self.tolerance, lambda n: 0.0 <= n < np.inf, "0 or more")
        check_half_life(self.half_life)

    @classmethod
    def from_columns(cls, columns: int, targets: int, channel: str, half_life: float | None) -> Mean:  # noqa: ARG003
        """Make the mean of a number of columns; see `Encoded.from_columns`."""
        return cls(dim=columns, channel=channel, half_life=half_life)

    @property
    def columns(self) -> int:
        """The number of dimensions."""
        return self.dim

    @property
    def statistic(self) -> statistics.Statistic:
        """The mean, and with `spread` the variances."""
        if self.spread:
            return statistics.Products(self.dim, tuple((i, i) for i in range(self.dim)), centred=True)
        return statistics.Mean(self.dim)

    @property
    def encoding(self) -> Channel:
        """The channel by its name; `bits` where variances are kept too."""
        return channels.find_channel("bits" if self.spread else self.channel)

    @property
    def max_magnitude(self) -> float:
        """The largest value whose powers do not overflow."""
        return find_max_magnitude(2 if self.spread else 1)

    @property
    def is_identity(self) -> bool:
        """Whether the answer is the encoded numbers themselves: without `spread`."""
        return not self.spread

    def labels(self, columns: Sequence[str]) -> tuple[str, ...]:
        """Name each mean by its column; see `Encoded.labels`."""
        return tuple(columns)

    def report(self, estimate: MeanEstimate, columns: Sequence[str]) -> Report:
        """Make a table of the means; see `Encoded.report`."""
        means = np.atleast_1d(estimate.value).tolist()
        facts: dict[str, object] = {"value": dict(zip(columns, means, strict=True))}
        if estimate.standard_error is None:
            rows = tuple((name, format_number(value)) for name, value in zip(columns, means, strict=True))
            return Report("mean", ("column", "mean"), rows, facts)
        errors = np.atleast_1d(estimate.standard_error).tolist()
        table = tuple(
            (name, format_number(value), f"{error:.3g}")
            for name, value, error in zip(columns, means, errors, strict=True)
        )
        facts["standard_error"] = dict(zip(columns, errors, strict=True))
        return Report("mean", ("column", "mean", "standard error"), table, facts)

    def variants(self) -> Mapping[str, Mean]:
        """List the mean by each channel; see `Encoded.variants`."""
        if self.spread:
            return {"Mean": self}
        return {f"Mean, {name}": replace(self, channel=name) for name in CHANNELS}

    def for_noise(self) -> Mean:
        """Give the mean in a word; see `Encoded.for_noise`."""
        return replace(self, channel="bits")

    def conclude(self, numbers: Floats, worth: float, rounding: float) -> MeanEstimate:  # noqa: ARG002
        """Give floats in one dimension, otherwise arrays; see `Encoded.conclude`."""
        mean = self._to_shape(numbers[: self.dim])
        if not self.spread:
            return MeanEstimate(mean)
        variance = np.maximum(numbers[self.dim :], 0.0)
        error = np.sqrt(variance / worth)
        return MeanEstimate(mean, self._to_shape(variance), self._to_shape(error), notes=note_alike(variance))

    def _advance(
        self, clock: Clock, retained: Records, values: Floats, present: Bools, can: Bools, keys: NDArray[np.uint64]
    ) -> Bools:
        """The same in one compiled call, where the channel has one."""
        keep = None
        if self.is_identity:
            before = self._read_encoded(clock, retained) if clock.encoded else None
            first = clock.last + 1
            usual = np.zeros(self.dim) if before is None else self._find_usual(before.numbers, clock, retained)
            keep = self.encoding.advance(
                before, usual, values, present, can, first, clock.encoded, self.decay, self.tolerance, keys
            )
        return super()._advance(clock, retained, values, present, can, keys) if keep is None else keep

    def _find_usual(self, numbers: Floats, clock: Clock, retained: Records) -> Floats:
        """How far the records that hold the numbers are from them, just as the compiled call computes it."""
        from vestige.statistics.kernels import find_deviation  # noqa: PLC0415

        values, there = channels.lay_out_encoded(retained, clock)
        alike = np.ones(len(there))
        return np.array([find_deviation(numbers[i], values[:, i], there, alike) for i in range(self.dim)])

    def _to_shape(self, numbers: Floats) -> float | Floats:
        return float(numbers[0]) if self.dim == 1 else np.array(numbers)
