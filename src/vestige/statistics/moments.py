"""Moments about the mean, with the mean itself among them, so that no digits are lost where it is large.

A batch first moves the mean; the moments before are then taken about the new one (the binomial theorem), and those of
the batch are computed about it outright (Pébay 2008, https://doi.org/10.2172/1028931). Those of several parts are all
taken about the mean of all, in one pass for any number of parts (Chan, Golub and LeVeque 1983,
https://doi.org/10.1080/00031305.1983.10483115, for two). The mean is part of the
estimate, so that nothing else is remembered.
Guarantee: the steps compose to numpy's moments over every prefix; held by tests/test_statistics.py.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache

import numpy as np

from vestige.statistics.statistic import Averages, Extent, merge_averages
from vestige.types import Floats, Ints

_LAST_DIGIT = 2.0**-52
EXACT_VARIANCE = 2.0**-34
"""A variance that is off by less than this share counts as exact: eight times what a long word rounds off at most if
the records say nothing of it. K updates add up to sqrt(K / 3) times as much: a ten-thousandth at most, up to 10^12."""


def _move_mean(before: Floats | None, values: Floats, weights: Floats, share: float) -> tuple[Floats, Floats]:
    """The mean of each column after these records, and by how much it moved."""
    pivot = values[0] if before is None else before
    moved = (1.0 if before is None else share) * ((weights / weights.sum()) @ (values - pivot))
    return pivot + moved, moved


def find_mean_errors(values: Floats, means: Floats) -> Floats:
    """Find how far rounding may put means off: far from zero, that is much of what records vary by.

    Args:
        values: shape (n, columns).
        means: shape (columns,).

    Returns:
        the errors, zero where all records are alike; shape (columns,).

    Example:
        >>> find_mean_errors(np.array([[1.0, 2.0], [3.0, 2.0]]), np.array([2.0, 2.0])) > 0.0
        array([ True, False])
    """
    errors: Floats = np.where((values == values[0]).all(axis=0), 0.0, _LAST_DIGIT * np.abs(means))
    return errors


@dataclass(frozen=True, slots=True)
class Moments(Averages):
    """The mean of one column, then its moments about the mean.

    Attributes:
        order: the highest moment, 2 or more.
    """

    order: int

    @property
    def size(self) -> int:
        """The highest moment."""
        return self.order

    @property
    def locations(self) -> Ints:
        """The mean moves with the values; see `Statistic.locations`."""
        return np.array([0] + [-1] * (self.order - 1))

    def step(self, estimate: Floats | None, values: Floats, weights: Floats, share: float) -> Floats:
        """Compute the mean and the moments about it of all records so far; see `Statistic.step`."""
        mean, moved = _move_mean(None if estimate is None else estimate[:1], values, weights, share)
        apart, shift = values[:, 0] - mean[0], -moved[0]
        target, parts, power = np.empty(self.order), weights / weights.sum(), apart
        target[0] = mean[0]
        for p in range(2, self.order + 1):
            power = power * apart
            here = parts @ power
            target[p - 1] = (
                here if estimate is None else share * here + (1.0 - share) * _shift_moment(estimate, p, shift)
            )
        return target

    def merge(self, parts: Floats, shares: Floats) -> Floats:
        """Take the moments of all parts about the mean of all; see `Statistic.merge`."""
        merged = merge_averages(parts[:, :1], shares)
        shifts = (parts[:, 0] - merged[0]).tolist()
        moments = [
            math.fsum(
                share * _shift_moment(part, p, shift)
                for share, part, shift in zip(shares.tolist(), parts, shifts, strict=True)
            )
            for p in range(2, self.order + 1)
        ]
        return np.concatenate((merged, moments))

    def atoms(self, values: Floats) -> Floats:
        """Compute the powers of the value; see `Averages.atoms`."""
        return np.power(values[:, :1], np.arange(1, self.order + 1))

    def find_extent(self, bounds: Floats) -> Extent:
        """Find the powers of the bound; even ones are not negative; see `Averages.find_extent`."""
        powers = np.arange(1, self.order + 1)
        return Extent.of_box(np.power(bounds[0], powers), powers % 2 == 1)

    def influence(self, values: Floats) -> tuple[Floats, Floats]:
        """Compute the moments of the records, and how far each moves them; see `Statistic.influence`.

        A record also moves the mean, and with it what the moments are about: the p-th by p times the one before.
        """
        numbers = self.step(None, values, np.ones(len(values)), 1.0)
        return numbers, self.find_moves(values, numbers)

    def find_moves(self, values: Floats, numbers: Floats) -> Floats:
        """Find how far records move the moments of all records; see `Statistic.find_moves`."""
        apart, before = values[:, 0] - numbers[0], (0.0, *numbers[1:].tolist())
        moves, power = np.empty((len(values), self.order)), apart
        moves[:, 0] = apart
        for p in range(2, self.order + 1):
            power = power * apart
            moves[:, p - 1] = power - numbers[p - 1] - p * before[p - 2] * apart
        return moves

    def find_influence_errors(self, values: Floats, numbers: Floats, moves: Floats) -> tuple[Floats, Floats]:
        """Find what the last digit of the mean makes of the moments; see `Statistic.find_influence_errors`."""
        (off,), apart = find_mean_errors(values, numbers[:1]), np.abs(values[:, 0] - numbers[0])
        errors, of_moves = np.zeros_like(numbers), np.zeros_like(moves)
        for p in range(2, self.order + 1):
            errors[p - 1] = off * p * abs(numbers[p - 2]) if p > 2 else 0.0
            of_moves[:, p - 1] = off * p * apart ** (p - 1)
        return errors, of_moves

    def find_exact_limits(self, numbers: Floats) -> Floats:
        """Find that of the variance; see `Statistic.find_exact_limits`."""
        limits = np.zeros_like(numbers)
        limits[1] = EXACT_VARIANCE * abs(numbers[1])
        return limits

    def find_usual_deviations(self, numbers: Floats) -> Floats:
        """Find those of normal records with this variance; see `Averages.find_usual_deviations`."""
        variance = max(float(numbers[1]), 0.0)
        return np.array([math.sqrt(math.prod(range(1, 2 * p, 2)) * variance**p) for p in range(1, self.order + 1)])

    @property
    def takes_centres(self) -> bool:
        """Whether the numbers follow from atoms about any centre: those about the mean do."""
        return True

    def from_averages(self, averages: Floats, centres: Floats | float = 0.0) -> Floats:
        """Compute the moments about the mean from those about a centre; see `Averages.from_averages`."""
        raw, mean = (1.0, *averages.tolist()), float(averages[0])
        tracked = np.array(averages)
        tracked[:1] += centres
        for p in range(2, self.order + 1):
            tracked[p - 1] = math.fsum(math.comb(p, j) * raw[j] * (-mean) ** (p - j) for j in range(p + 1))
        return tracked


def _shift_moment(central: Floats, p: int, shift: float) -> float:
    """The p-th moment about a point that is `shift` below the mean, from those about the mean."""
    known = (1.0, 0.0, *central[1:p].tolist())
    return math.fsum(math.comb(p, j) * known[j] * shift ** (p - j) for j in range(p + 1))


@cache
def _split_pairs(pairs: tuple[tuple[int, int], ...]) -> tuple[Ints, Ints]:
    """The first and the second column of each pair."""
    first, second = np.array(pairs, np.intp).T
    return first, second


@dataclass(frozen=True, slots=True)
class Products(Averages):
    """The averages of products of pairs of columns: about the means, which then come first, or about zero.

    Attributes:
        columns: the number of columns.
        pairs: the pairs of columns, counted from 0.
        centred: whether products are about the means.
    """

    columns: int
    pairs: tuple[tuple[int, int], ...]
    centred: bool

    @property
    def size(self) -> int:
        """The number of pairs, and of means if products are about them."""
        return len(self.pairs) + (self.columns if self.centred else 0)

    @property
    def locations(self) -> Ints:
        """Means move with the values, products about them do not; see `Statistic.locations`."""
        return np.concatenate((np.arange(self.columns * self.centred), np.full(len(self.pairs), -1)))

    def step(self, estimate: Floats | None, values: Floats, weights: Floats, share: float) -> Floats:
        """Compute the means and the products about them of all records so far; see `Statistic.step`."""
        means = self.columns if self.centred else 0
        mean, moved = np.zeros(self.columns), np.zeros(self.columns)
        if self.centred:
            mean, moved = _move_mean(None if estimate is None else estimate[:means], values, weights, share)
        first, second = _split_pairs(self.pairs)
        apart = values - mean
        products = (weights / weights.sum()) @ (apart[:, first] * apart[:, second])
        if estimate is not None:
            before = estimate[means:] + moved[first] * moved[second]
            products = before + share * (products - before)
        return np.concatenate((mean[:means], products))

    def merge(self, parts: Floats, shares: Floats) -> Floats:
        """Take the products of all parts about the means of all; see `Statistic.merge`."""
        if not self.centred:
            return merge_averages(parts, shares)
        means = merge_averages(parts[:, : self.columns], shares)
        apart, (first, second) = parts[:, : self.columns] - means, _split_pairs(self.pairs)
        return np.concatenate((means, shares @ (parts[:, self.columns :] + apart[:, first] * apart[:, second])))

    def atoms(self, values: Floats) -> Floats:
        """Compute the products, after the values if products are about means; see `Averages.atoms`."""
        first, second = _split_pairs(self.pairs)
        products = values[:, first] * values[:, second]
        return np.concatenate((values, products), axis=1) if self.centred else products

    def find_extent(self, bounds: Floats) -> Extent:
        """Find the bounds and their products; squares are not negative; see `Averages.find_extent`."""
        first, second = _split_pairs(self.pairs)
        means = self.columns if self.centred else 0
        signed = np.concatenate((np.ones(means, np.bool_), first != second))
        return Extent.of_box(np.concatenate((bounds[:means], bounds[first] * bounds[second])), signed)

    def influence(self, values: Floats) -> tuple[Floats, Floats]:
        """Compute the products of the records, and how far each moves them; see `Statistic.influence`."""
        numbers = self.step(None, values, np.ones(len(values)), 1.0)
        return numbers, self.find_moves(values, numbers)

    def find_moves(self, values: Floats, numbers: Floats) -> Floats:
        """Find how far records move the products of all records; see `Statistic.find_moves`."""
        means = self.columns if self.centred else 0
        first, second = _split_pairs(self.pairs)
        apart = values - numbers[:means] if means else values
        return np.concatenate((apart[:, :means], apart[:, first] * apart[:, second] - numbers[means:]), axis=1)

    def find_influence_errors(self, values: Floats, numbers: Floats, moves: Floats) -> tuple[Floats, Floats]:
        """Find what the last digits of the means make of products; see `Statistic.find_influence_errors`."""
        errors, of_moves = np.zeros_like(numbers), np.zeros_like(moves)
        if self.centred:
            first, second = _split_pairs(self.pairs)
            means = numbers[: self.columns]
            off, apart = find_mean_errors(values, means), np.abs(values - means)
            of_moves[:, self.columns :] = apart[:, first] * off[second] + apart[:, second] * off[first]
        return errors, of_moves

    def find_exact_limits(self, numbers: Floats) -> Floats:
        """Find those of variances, and of covariances beside them; see `Statistic.find_exact_limits`."""
        if not self.centred:
            return np.zeros_like(numbers)
        deviations, (first, second) = np.sqrt(self._find_variances(numbers)), _split_pairs(self.pairs)
        return np.concatenate((np.zeros(self.columns), EXACT_VARIANCE * deviations[first] * deviations[second]))

    def find_usual_deviations(self, numbers: Floats) -> Floats:
        """Find those of normal records with these variances; see `Averages.find_usual_deviations`."""
        if not self.centred:
            return Averages.find_usual_deviations(self, numbers)
        first, second = _split_pairs(self.pairs)
        products, variances = numbers[self.columns :], self._find_variances(numbers)
        of_products = np.sqrt(variances[first] * variances[second] + products**2)
        return np.concatenate((np.sqrt(variances), of_products))

    def _find_variances(self, numbers: Floats) -> Floats:
        """The variance of each column, zero where it is not tracked; shape (columns,)."""
        (first, second), products = _split_pairs(self.pairs), numbers[self.columns :]
        variances, alike = np.zeros(self.columns), first == second
        variances[first[alike]] = np.maximum(products[alike], 0.0)
        return variances

    @property
    def takes_centres(self) -> bool:
        """Whether the numbers follow from atoms about any centre: with the means."""
        return self.centred

    def from_averages(self, averages: Floats, centres: Floats | float = 0.0) -> Floats:
        """Compute the products about the means from those about centres; see `Averages.from_averages`."""
        if not self.centred:
            return averages
        first, second = _split_pairs(self.pairs)
        means, products = averages[: self.columns], averages[self.columns :]
        return np.concatenate((means + centres, products - means[first] * means[second]))
