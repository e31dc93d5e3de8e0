"""The mean of the whole stream, kept in which records stay.

Section 3.3 of Immorlica et al. (2024), with the whole batch used for both halves.
Guarantee: within 5% of the all-data error on five distributions with means near zero; held by
tests/policies/test_mean.py. Bits are relative to zero: `vestige.planning` says what a mean far from it takes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vestige import channels, statistics
from vestige.errors import ParameterError
from vestige.policies.encoded import MOST_COLUMNS, Averaged, Spelled, check_half_life, largest_for
from vestige.policies.rounding import note_alike, note_rounding, product_errors
from vestige.policy import Answer
from vestige.records import Clock, Records
from vestige.types import Bools, Floats
from vestige.validation import check_bool, check_float, check_int


@dataclass(frozen=True, eq=False)
class MeanAnswer(Answer):
    """The mean and its standard error.

    Attributes:
        value: the mean; a float in one dimension, else an array.
        variance: of each column (divided by n), likewise.
        standard_error: of the mean, for records that are independent, likewise.
    """

    variance: float | Floats
    standard_error: float | Floats


@dataclass(frozen=True)
class Mean(Averaged, Spelled):
    """The mean of every record that ever arrived, out of a window of them.

    Args:
        dim: values per record.
        channel: how it is stored. `average`: the kept records' plain average is the mean. `bits`: which rounds are
            present spells it. `auto`: an average where that is near enough, bits where not.
        half_life: after so many records, a record counts half as much; for streams that drift.
        tolerance: the search for an average stops as soon as it is this near, as a share of the standard error of the
            mean; 0 goes on for the nearest that it can find.
        spread: whether the variance is kept too, so that the estimate has a standard error; always in bits.

    >>> from vestige import Stream
    >>> stream = Stream(Mean(), retention=96, seed=0)
    >>> _ = stream.extend(range(1, 10_001))
    >>> estimate = stream.estimate()
    >>> round(estimate.value, 6), estimate.t, estimate.oldest_age < 96
    (5000.5, 10000, True)
    >>> recent = Stream(Mean(half_life=1_000), retention=96, seed=0)
    >>> _ = recent.extend(range(1, 10_001))
    >>> bool(8_500 < recent.estimate().value < 8_600)
    True
    """

    dim: int = 1
    channel: str = "auto"
    half_life: float | None = None
    tolerance: float = 0.03
    spread: bool = False

    def __post_init__(self) -> None:
        check_int("dim", self.dim, 1, MOST_COLUMNS)
        check_bool("spread", self.spread)
        channels.named(self.channel)
        if self.spread and self.channel == "average":
            raise ParameterError("channel='average' cannot hold a variance; use channel='auto' or spread=False")
        check_float("tolerance", self.tolerance, lambda n: 0.0 <= n < np.inf, "0 or more")
        check_half_life(self.half_life)

    @property
    def columns(self) -> int:
        """As many as dimensions."""
        return self.dim

    @property
    def statistic(self) -> statistics.Statistic:
        """The mean, and what is needed for its standard error."""
        if self.spread:
            return statistics.Products(self.dim, tuple((i, i) for i in range(self.dim)), centred=True)
        return statistics.Mean(self.dim)

    @property
    def words(self) -> int:
        """Means and variances; none where an average can be written too."""
        return self.statistic.size if self.spread else 0

    @property
    def written(self) -> channels.Channel:
        """The channel by its name."""
        return channels.named("bits" if self.spread else self.channel)

    @property
    def max_magnitude(self) -> float:
        """So that no power overflows."""
        return largest_for(2 if self.spread else 1)

    def conclude(self, estimate: Floats, worth: float, rounding: float) -> float | Floats | Answer:
        """Floats in one dimension, else arrays."""
        mean = self._shaped(estimate[: self.dim])
        if not self.spread:
            return mean
        variance = np.maximum(estimate[self.dim :], 0.0)
        error = np.sqrt(variance / worth)
        errors = np.concatenate((error, product_errors(variance, variance, variance, worth)))
        rounded = note_rounding(estimate, errors, rounding)
        notes = note_alike(variance) + rounded
        return MeanAnswer(mean, self._shaped(variance), self._shaped(error), notes=notes, missed=bool(rounded))

    def _shaped(self, numbers: Floats) -> float | Floats:
        return float(numbers[0]) if self.dim == 1 else np.array(numbers)

    def _advance(
        self, clock: Clock, retained: Records, values: Floats, present: Bools, can: Bools, keys: NDArray[np.uint64]
    ) -> Bools:
        way = Spelled if self.spread else Averaged
        return way._advance(self, clock, retained, values, present, can, keys)

    def answer(self, clock: Clock, retained: Records) -> float | Floats | Answer:
        """As it is written."""
        return (Spelled if self.spread else Averaged).answer(self, clock, retained)

    def rewrite(self, clock: Clock, retained: Records, coins: int) -> tuple[int, Bools] | None:
        """As it is written."""
        return (Spelled if self.spread else Averaged).rewrite(self, clock, retained, coins)

    def _can_write(self, can: Bools) -> bool:
        return (Spelled if self.spread else Averaged)._can_write(self, can)

    def _read(self, clock: Clock, retained: Records) -> Floats:
        return (Spelled if self.spread else Averaged)._read(self, clock, retained)
