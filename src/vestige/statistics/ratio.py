"""The mean of one column over the mean of another: what is encoded is the ratio itself, and what it leaves of records.

Two means and their products determine a ratio and its error, but rounding the means moves the ratio by far more than
its own error where the columns are nearly proportional. So the ratio is tracked, with the mean and the variance of the
denominator, and the products of what the ratio leaves of a record, numerator - ratio * denominator, with the
denominator and with itself: no digits are lost where the data are far from zero, or nearly proportional.
Guarantee: the steps compose to the ratio over every prefix; held by tests/test_statistics.py.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from vestige.statistics.moments import Products, find_mean_errors
from vestige.statistics.statistic import Averages, Extent, merge_averages
from vestige.types import Floats

_PRODUCTS = Products(2, ((0, 0), (0, 1), (1, 1)), centred=True)
_PROPORTIONAL = 2.0**-40
"""Columns are proportional if the ratio leaves no more than this share of the largest numerator of any record."""
_DIGITS = 42
"""The ratio of proportional columns is rounded to so many bits, so that all batches agree on it."""
_SAME = 2.0**-51
_NEAREST_ZERO = 2.0**-40
"""A mean of the denominator that vanishes is taken to be this share of its deviation: far below its own error."""
_LAST_DIGIT = 2.0**-51


@dataclass(frozen=True, slots=True)
class Ratio(Averages):
    """The mean and the variance of the denominator, the ratio between them, and the products of what it leaves.

    The numbers are: the mean of the denominator; the ratio; the variance of the denominator; the average product of
    what the ratio leaves with the denominator about its mean; its average square. As long as the denominator is 0 in
    all records, the mean of the numerator stands for the ratio.
    """

    columns: ClassVar[int] = 2

    @property
    def size(self) -> int:
        """Five numbers."""
        return 5

    def step(self, estimate: Floats | None, values: Floats, weights: Floats, share: float) -> Floats:
        """Compute the ratio of all records so far; see `Statistic.step`."""
        y, x, parts = values[:, 0], values[:, 1], weights / weights.sum()
        if estimate is None:
            return _start(y, x, parts)
        mean, ratio, variance, across, square = map(float, estimate)
        left = 0.0  # the mean of what the ratio leaves: nothing, once there is a ratio
        if mean == 0.0 and variance == 0.0:
            ratio, left = 0.0, ratio
        moved = share * float(parts @ (x - mean))
        new_mean, spread = mean + moved, variance + moved**2
        new_variance = spread + share * (float(parts @ (x - new_mean) ** 2) - spread)
        rest = _find_residuals(y, x, ratio)
        new_left = left + share * (float(parts @ rest) - left)
        new_mean = _avoid_zero(new_mean, new_variance)
        if new_mean == 0.0:
            return np.array([0.0, new_left, 0.0, 0.0, square + share * (float(parts @ rest**2) - square)])
        change = new_left / new_mean
        change = 0.0 if abs(change) <= _SAME * abs(ratio) else change
        rest = _find_residuals(y, x, ratio + change)
        before = across + (mean - new_mean) * left - change * (variance + mean * (mean - new_mean))
        new_across = before + share * (float(parts @ (rest * (x - new_mean))) - before)
        before = square - 2.0 * change * (across + mean * left) + (change * mean) ** 2
        before += (change * math.sqrt(max(variance, 0.0))) ** 2
        new_square = before + share * (float(parts @ rest**2) - before)
        return np.array([new_mean, ratio + change, new_variance, new_across, new_square])

    def merge(self, parts: Floats, shares: Floats) -> Floats:
        """Take what each ratio leaves of its own records to what that of all leaves of them; see `Statistic.merge`."""
        means, ratios, variances, across, squares = parts.T
        zero = (means == 0.0) & (variances == 0.0)  # the mean of the numerator stands for the ratio there
        left, ratios = np.where(zero, ratios, 0.0), np.where(zero, 0.0, ratios)
        mean = float(merge_averages(means[:, None], shares)[0])
        variance = float(shares @ (variances + (means - mean) ** 2))
        mean = _avoid_zero(mean, variance)
        if mean == 0.0:
            return np.array([0.0, shares @ left, 0.0, 0.0, shares @ squares])
        near = float(ratios[np.where(zero, -1.0, shares).argmax()])
        change = float(shares @ (left + (ratios - near) * means)) / mean
        ratio = near + (0.0 if abs(change) <= _SAME * abs(near) else change)
        changes = ratio - ratios
        squares = squares - 2.0 * changes * (across + means * left) + (changes * means) ** 2
        squares += (changes * np.sqrt(np.maximum(variances, 0.0))) ** 2
        across = across + left * (means - mean) - changes * (variances + means * (means - mean))
        return np.array([mean, ratio, variance, shares @ across, shares @ squares])

    def atoms(self, values: Floats) -> Floats:
        """Compute the values and the products of each pair; see `Averages.atoms`."""
        return _PRODUCTS.atoms(values)

    def find_extent(self, bounds: Floats) -> Extent:
        """Find that of the products; see `Averages.find_extent`."""
        return _PRODUCTS.find_extent(bounds)

    @property
    def takes_centres(self) -> bool:
        """Whether the numbers follow from atoms about any centre: both means are known."""
        return True

    def from_averages(self, averages: Floats, centres: Floats | float = 0.0) -> Floats:
        """Compute the ratio from averages of values and products, which may carry noise; see `Averages`."""
        top, bottom, squares, products, spread = map(float, _PRODUCTS.from_averages(averages, centres))
        variance = max(spread, 0.0)
        mean = _avoid_zero(bottom, variance)
        if mean == 0.0:
            return np.array([0.0, top, 0.0, 0.0, max(squares + top**2, 0.0)])
        ratio = top / mean
        square = squares - 2.0 * ratio * products + ratio**2 * variance
        return np.array([mean, ratio, variance, products - ratio * variance, max(square, 0.0)])

    def influence(self, values: Floats) -> tuple[Floats, Floats]:
        """Compute the ratio of the records, and how far each moves it; see `Statistic.influence`.

        A record moves the ratio by what the ratio leaves of it over the mean of the denominator, and with it what the
        ratio leaves of all others.
        """
        y, x = values.T
        numbers = self.step(None, values, np.ones(len(values)), 1.0)
        mean, ratio, variance, across, square = numbers
        nothing = np.zeros(len(values))
        if mean == 0.0:
            return numbers, np.column_stack([nothing, y - ratio, nothing, nothing, y**2 - square])
        apart, rest = x - mean, _find_residuals(y, x, float(ratio))
        move = rest / mean
        moves = (
            apart,
            move,
            apart**2 - variance,
            rest * apart - across - variance * move,
            rest**2 - square - 2.0 * across * move,
        )
        return numbers, np.column_stack(moves)

    def find_influence_errors(self, values: Floats, numbers: Floats, moves: Floats) -> tuple[Floats, Floats]:
        """Find what the last digits of the means make of the ratio and of what it leaves; see there."""
        y, x = values.T
        mean, ratio, variance, across, _ = numbers
        if mean == 0.0:
            return np.zeros_like(numbers), np.zeros_like(moves)
        apart, rest = np.abs(x - mean), np.abs(y - ratio * x)
        largest = float(np.abs(y).max())
        off_y, off_x = find_mean_errors(values, np.array([ratio * mean, mean]))
        off_ratio = (off_y + abs(ratio) * off_x) / abs(mean) + _LAST_DIGIT * abs(ratio)
        of_rest = off_ratio * np.abs(x) + _LAST_DIGIT * (np.abs(y) + np.abs(ratio * x))
        if abs(rest.max() - _PROPORTIONAL * largest) <= of_rest.max():
            return np.full_like(numbers, np.inf), np.full_like(moves, np.inf)
        if rest.max() <= _PROPORTIONAL * largest:
            off_ratio, rest, of_rest = 0.0, np.zeros_like(rest), np.zeros_like(rest)
        of_move = (of_rest + rest * off_x / abs(mean)) / abs(mean)
        off_across = variance * off_ratio + float((of_rest * apart).mean())
        off_square = 2.0 * abs(across) * off_ratio + 2.0 * float((rest * of_rest).mean())
        of_moves = (
            np.zeros(len(values)),
            of_move,
            2.0 * apart * off_x,
            of_rest * apart + rest * off_x + variance * of_move,
            2.0 * (rest * of_rest + abs(across) * of_move + off_across * rest / abs(mean)),
        )
        return np.array([0.0, off_ratio, 0.0, off_across, off_square]), np.column_stack(of_moves)

    def find_usual_deviations(self, numbers: Floats) -> Floats:
        """Find those of normal records with these variances; see `Averages.find_usual_deviations`."""
        mean, _, variance, across, square = numbers
        variance, square = max(variance, 0.0), max(square, 0.0)
        rest = math.sqrt(square) / (abs(mean) or 1.0)
        products = math.sqrt(variance * square + across**2)
        return np.array([math.sqrt(variance), rest, math.sqrt(2.0) * variance, products, math.sqrt(2.0) * square])


def _start(y: Floats, x: Floats, parts: Floats) -> Floats:
    """The numbers of the first records."""
    mean = float(x[0] + parts @ (x - x[0]))
    variance = float(parts @ (x - mean) ** 2)
    mean = _avoid_zero(mean, variance)
    top = float(y[0] + parts @ (y - y[0]))
    if mean == 0.0:
        return np.array([0.0, top, 0.0, 0.0, float(parts @ y**2)])
    ratio = top / mean
    rest = _find_residuals(y, x, ratio)
    if rest.any():
        ratio += float(parts @ rest) / mean  # the last digits
        rest = _find_residuals(y, x, ratio)
    else:
        fraction, exponent = math.frexp(ratio)
        ratio = math.ldexp(round(math.ldexp(fraction, _DIGITS)), exponent - _DIGITS)
    return np.array([mean, ratio, variance, float(parts @ (rest * (x - mean))), float(parts @ rest**2)])


def _find_residuals(y: Floats, x: Floats, ratio: float) -> Floats:
    """What a ratio leaves of each record; nothing where columns are proportional up to rounding."""
    rest: Floats = y - ratio * x
    return rest if np.abs(rest).max() > _PROPORTIONAL * np.abs(y).max() else np.zeros(len(y))


def _avoid_zero(mean: float, variance: float) -> float:
    """A mean that can be divided by, unless all records are zero."""
    least = _NEAREST_ZERO * math.sqrt(max(variance, 0.0))
    return math.copysign(least, mean) if abs(mean) < least else mean
