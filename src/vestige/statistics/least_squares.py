"""Least squares, recursively: what is encoded is the coefficients themselves and how the predictors vary.

Averages of products determine the fit, but rounding them moves it by the condition number of the predictors times the
rounding. The same averages can be told from the predictors' products, the coefficients and the noise; rounded in that
form, each coefficient is off by its own rounding only (Plackett 1950, https://doi.org/10.1093/biomet/37.1-2.149).
Guarantee: the steps compose to the least-squares fit to every prefix; held by tests/test_statistics.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from itertools import combinations_with_replacement

import numpy as np

from vestige.statistics.moments import Products, find_mean_errors
from vestige.statistics.statistic import Averages, Extent
from vestige.types import Floats, Ints

_LEAST_LENGTH = 1e-150
"""A shorter predictor counts as constant: the square of its length may be what a word makes of zero."""
_SINGULAR = 1e-12
_EXACT = 2.0**-40
"""What a fit leaves of a record counts as nothing up to this share of the largest output."""
_ROUNDING = 2.0**-49
"""How far averages of products may be off, relative to the lengths of their factors; and eigenvalues, for each."""
EXACT_FIT = 2.0**-46
"""The residual variance counts as nothing up to this share of that of the output: rounding is as large."""


@dataclass(frozen=True, slots=True)
class Fit:
    """A least-squares fit, unpacked from the encoded numbers.

    Attributes:
        means: of predictors, then outputs; zeros for a model without an intercept; shape (dim + outputs,).
        predictors: the averages of their products about the means; shape (dim, dim).
        slopes: the coefficients; shape (dim, outputs).
        noise: the average squares of what the fit leaves; shape (outputs,).
    """

    means: Floats
    predictors: Floats
    slopes: Floats
    noise: Floats


@dataclass(frozen=True, slots=True)
class LeastSquares(Averages):
    """The least-squares fit of some columns to those before them.

    Attributes:
        dim: the number of predictors, which come first.
        outputs: the number of outputs.
        intercept: whether the model has a constant.
    """

    dim: int
    outputs: int
    intercept: bool

    @property
    def size(self) -> int:
        """The number of means (with an intercept), products of predictors, coefficients and residual variances."""
        return self._products.size

    @property
    def locations(self) -> Ints:
        """Means move with the values, and nothing else; see `Statistic.locations`."""
        return self._products.locations

    @property
    def _products(self) -> Products:
        return _list_products(self.dim, self.outputs, self.intercept)

    def step(self, estimate: Floats | None, values: Floats, weights: Floats, share: float) -> Floats:
        """Compute the fit to all records so far; see `Statistic.step`."""
        before = None if estimate is None else self._to_averages(self.fit(estimate))
        return self._encode(self._products.step(before, values, weights, share))

    def merge(self, parts: Floats, shares: Floats) -> Floats:
        """Compute the fit to all records: merge the averages of products that the fits stand for; see `Statistic`."""
        averages = np.array([self._to_averages(self.fit(part)) for part in parts])
        return self._encode(self._products.merge(averages, shares))

    def atoms(self, values: Floats) -> Floats:
        """Compute the products of pairs of columns, after the columns with an intercept; see `Averages.atoms`."""
        return self._products.atoms(values)

    def find_extent(self, bounds: Floats) -> Extent:
        """Find that of the products; see `Averages.find_extent`."""
        return self._products.find_extent(bounds)

    def influence(self, values: Floats) -> tuple[Floats, Floats]:
        """Compute the fit to the records, and how far each moves it; see `Statistic.influence`.

        A record moves the coefficients by what the fit leaves of it, times its predictors through the inverse of their
        products; and the noise by the square of what the fit leaves.
        """
        numbers = self.step(None, values, np.ones(len(values)), 1.0)
        return numbers, self.find_moves(values, numbers)

    def find_moves(self, values: Floats, numbers: Floats) -> Floats:
        """Find how far records move the fit to all records; see `Statistic.find_moves`."""
        fit, d, n = self.fit(numbers), self.dim, len(values)
        apart = values - fit.means
        left = apart[:, d:] - apart[:, :d] @ fit.slopes
        left[np.abs(left) <= _find_least_residual(apart[:, d:])] = 0.0
        through = apart[:, :d] @ _invert(fit.predictors)
        slopes = (through[:, :, None] * left[:, None, :]).reshape(n, -1)
        upper = _find_upper(d)
        products = apart[:, upper[0]] * apart[:, upper[1]] - fit.predictors[upper]
        means = apart if self.intercept else apart[:, :0]
        return np.concatenate((means, products, slopes, left**2 - fit.noise), axis=1)

    def find_influence_errors(self, values: Floats, numbers: Floats, moves: Floats) -> tuple[Floats, Floats]:
        """Find what rounding makes of a fit; see `Statistic.find_influence_errors`.

        Where the products of predictors of length 1 are off by E, and their smallest eigenvalue is s, coefficients are
        off by up to E / s of themselves and of the output; and what the fit leaves of a record by E times how far it
        moves them, besides E / s of the output for the inverse itself (Higham, "Accuracy and Stability of Numerical
        Algorithms", 2002, chapters 14 and 20).
        """
        fit, d, n = self.fit(numbers), self.dim, len(values)
        apart, off = values - fit.means, find_mean_errors(values, fit.means)
        lengths, sizes, _ = _decompose(fit.predictors)
        rounded, smallest = _ROUNDING * d, _find_smallest(sizes, _ROUNDING * d)
        if not smallest:
            return np.full_like(numbers, np.inf), np.full_like(moves, np.inf)
        units = np.where(fit.predictors.diagonal() > 0.0, 1.0 / lengths, 0.0)
        scaled = lengths[:, None] * fit.slopes
        heights = np.sqrt((apart[:, d:] ** 2).mean(axis=0))
        outputs, of_inverse = heights + np.sqrt((scaled**2).sum(axis=0)), rounded / smallest * heights
        slopes = rounded / smallest * outputs * units[:, None]
        exact = EXACT_FIT * outputs**2
        noise = rounded * outputs**2 + of_inverse * heights + np.where(fit.noise <= 2.0 * exact, exact, 0.0)
        through = apart[:, :d] @ _invert(fit.predictors)
        reach = np.sqrt(((through * lengths) ** 2).sum(axis=1))[:, None]
        of_through = (rounded * reach + np.sqrt(((off[:d] * units) ** 2).sum())) / smallest * units
        left = apart[:, d:] - apart[:, :d] @ fit.slopes
        of_left = rounded * (np.abs(apart[:, d:]) + np.abs(apart[:, :d]) @ np.abs(fit.slopes) + reach * outputs)
        of_left += np.sqrt(((apart[:, :d] * units) ** 2).sum(axis=1))[:, None] * of_inverse
        of_left += off[d:] + off[:d] @ np.abs(fit.slopes)
        least = _find_least_residual(apart[:, d:])
        unclear = np.abs(np.abs(left) - least) <= of_left
        left = np.where(np.abs(left) <= least, 0.0, left)
        of_left = np.where(unclear, of_left + least, np.where(left == 0.0, 0.0, of_left))
        of_slopes = (
            of_through[:, :, None] * np.abs(left)[:, None, :] + np.abs(through)[:, :, None] * of_left[:, None, :]
        )
        of_products = self._products.find_influence_errors(values, numbers, moves)[1][:, : -slopes.size - len(noise)]
        errors = np.concatenate((np.zeros(of_products.shape[1]), slopes.ravel(), noise))
        return errors, np.concatenate((of_products, of_slopes.reshape(n, -1), 2.0 * np.abs(left) * of_left), axis=1)

    @property
    def takes_centres(self) -> bool:
        """Whether the numbers follow from atoms about any centre: with an intercept."""
        return self.intercept

    def from_averages(self, averages: Floats, centres: Floats | float = 0.0) -> Floats:
        """Compute the fit; a variance of predictors that noise made negative counts as zero."""
        centred = np.array(self._products.from_averages(averages, centres))
        raw = self.fit(centred)
        sizes, axes = np.linalg.eigh(raw.predictors)
        means = (self.dim + self.outputs) * self.intercept
        upper = _find_upper(self.dim)
        centred[means : means + len(upper[0])] = ((axes * np.maximum(sizes, 0.0)) @ axes.T)[upper]
        return self._encode(centred)

    def fit(self, estimate: Floats) -> Fit:
        """Unpack the encoded numbers.

        Args:
            estimate: the numbers; shape (size,).

        Returns:
            the fit.
        """
        d, k = self.dim, self.outputs
        start = (d + k) * self.intercept
        stop = start + d * (d + 1) // 2
        means, second = estimate[:start], estimate[stop:]
        predictors = np.empty((d, d))
        upper = _find_upper(d)
        predictors[upper] = predictors[upper[::-1]] = estimate[start:stop]
        return Fit(
            means if self.intercept else np.zeros(d + k),
            predictors,
            second[: d * k].reshape(d, k),
            np.maximum(second[d * k :], 0.0),
        )

    def _to_averages(self, fit: Fit) -> Floats:
        """The averages of products that have this fit."""
        across = fit.predictors @ fit.slopes
        squares = fit.noise + (fit.slopes * across).sum(axis=0)
        upper = fit.predictors[_find_upper(self.dim)]
        return np.concatenate((fit.means * self.intercept, upper, across.ravel(), squares))[-self.size :]

    def _encode(self, averages: Floats) -> Floats:
        """The fit that these averages of products have; the shortest where they do not determine it."""
        raw = self.fit(averages)
        across, squares = raw.slopes, raw.noise
        slopes = _solve(raw.predictors, across)
        noise = squares - (slopes * across).sum(axis=0)
        noise = np.where(noise > EXACT_FIT * squares, noise, 0.0)
        return np.concatenate((averages[: -slopes.size - len(noise)], slopes.ravel(), noise))


@cache
def _list_products(dim: int, outputs: int, intercept: bool) -> Products:
    """The products of pairs of columns that a fit is made of."""
    predictors = tuple(combinations_with_replacement(range(dim), 2))
    across = tuple((i, dim + j) for i in range(dim) for j in range(outputs))
    squares = tuple((dim + j, dim + j) for j in range(outputs))
    return Products(dim + outputs, predictors + across + squares, centred=intercept)


@cache
def _find_upper(dim: int) -> tuple[Ints, Ints]:
    """The rows and columns of the upper triangle of a square matrix."""
    return np.triu_indices(dim)


def _find_least_residual(outputs: Floats) -> Floats:
    """What a fit leaves of a record counts as nothing up to this; shape (outputs,)."""
    least: Floats = _EXACT * np.abs(outputs).max(axis=0, initial=0.0)
    return least


def _decompose(predictors: Floats) -> tuple[Floats, Floats, Floats]:
    """The lengths of predictors; and, for predictors of length 1, the eigenvalues and axes of their products."""
    lengths = np.sqrt(np.maximum(predictors.diagonal(), 0.0))
    lengths = np.where(lengths > _LEAST_LENGTH, lengths, 1.0)
    sizes, axes = np.linalg.eigh(predictors / np.outer(lengths, lengths))
    return lengths, sizes, axes


def _find_smallest(sizes: Floats, off: float) -> float:
    """The smallest eigenvalue that is inverted, less the next below it; 0 where it may be another."""
    cut = _SINGULAR * max(sizes[-1], 0.0)
    if (np.abs(sizes - cut) < off * sizes[-1]).any():
        return 0.0
    kept, dropped = sizes[sizes > cut], sizes[sizes <= cut]
    return float(kept.min(initial=1.0) - np.abs(dropped).max(initial=0.0))


def _invert(predictors: Floats) -> Floats:
    """The inverse of averages of products; of as much of it as can be inverted."""
    lengths, inverse, axes = _invert_sizes(predictors)
    result: Floats = ((axes * inverse) @ axes.T) / np.outer(lengths, lengths)
    return result


def _solve(predictors: Floats, across: Floats) -> Floats:
    """The inverse times what is across: along one axis after the other, so that a long one is not rounded for a short.

    The inverse itself has numbers as large as that of the shortest axis, and rounds what they are multiplied with: the
    residuals of predictors that are nearly collinear, such as some far from zero without an intercept, would be lost.
    """
    lengths, inverse, axes = _invert_sizes(predictors)
    solved: Floats = axes @ (inverse[:, None] * (axes.T @ (across / lengths[:, None]))) / lengths[:, None]
    return solved


def _invert_sizes(predictors: Floats) -> tuple[Floats, Floats, Floats]:
    """The lengths of predictors; and, for predictors of length 1, the inverse of each eigenvalue that has one; axes."""
    lengths, sizes, axes = _decompose(predictors)
    fits = sizes > max(_SINGULAR * sizes[-1], 0.0)
    return lengths, np.where(fits, 1.0 / np.where(fits, sizes, 1.0), 0.0), axes
