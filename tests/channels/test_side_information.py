"""What the kept records say is rounded differently by each processor: whatever it is, every word is read alike."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations_with_replacement
from unittest.mock import patch

import numpy as np
import pytest

from vestige import Covariance, LinearRegression, Moments, Ratio, statistics
from vestige.channels import Target, find_channel
from vestige.channels.residues import NORMAL
from vestige.policies import Encoded
from vestige.types import Floats

WOBBLE = 2.0**-40
"""What every word bears without a word of the statistic."""


def centre(values: Floats) -> tuple[list[Fraction], list[list[Fraction]]]:
    """The exact means of columns, and how far each record is from them."""
    rows = [[Fraction(value) for value in row] for row in values.tolist()]
    means = [sum(column, Fraction()) / len(rows) for column in zip(*rows, strict=True)]
    return means, [[value - mean for value, mean in zip(row, means, strict=True)] for row in rows]


def average(terms: list[Fraction]) -> Fraction:
    return sum(terms, Fraction()) / len(terms)


def to_floats(numbers: list[Fraction], moves: list[list[Fraction]]) -> tuple[Floats, Floats]:
    return np.array([float(number) for number in numbers]), np.array([[float(move) for move in row] for row in moves])


def compute_moments(values: Floats) -> tuple[Floats, Floats]:
    """The influence of four moments, in fractions."""
    means, apart = centre(values)
    moments = [Fraction(1), *(average([row[0] ** p for row in apart]) for p in range(1, 5))]
    moves = [[row[0], *(row[0] ** p - moments[p] - p * moments[p - 1] * row[0] for p in range(2, 5))] for row in apart]
    return to_floats([*means, *moments[2:]], moves)


def compute_products(values: Floats) -> tuple[Floats, Floats]:
    """The influence of the covariance of two columns, in fractions."""
    means, apart = centre(values)
    pairs = list(combinations_with_replacement(range(2), 2))
    products = [average([row[i] * row[j] for row in apart]) for i, j in pairs]
    moves = [[*row, *(row[i] * row[j] - p for (i, j), p in zip(pairs, products, strict=True))] for row in apart]
    return to_floats([*means, *products], moves)


def compute_fit(values: Floats) -> tuple[Floats, Floats]:
    """The influence of the fit of the third column to two, in fractions."""
    means, apart = centre(values)
    aa, ab, bb, ay, by = (
        average([row[i] * row[j] for row in apart]) for i, j in ((0, 0), (0, 1), (1, 1), (0, 2), (1, 2))
    )
    det = aa * bb - ab * ab
    slopes = [(bb * ay - ab * by) / det, (aa * by - ab * ay) / det]
    left = [row[2] - row[0] * slopes[0] - row[1] * slopes[1] for row in apart]
    noise = average([e * e for e in left])
    moves = [
        [
            *row,
            row[0] * row[0] - aa,
            row[0] * row[1] - ab,
            row[1] * row[1] - bb,
            (bb * row[0] - ab * row[1]) / det * e,
            (aa * row[1] - ab * row[0]) / det * e,
            e * e - noise,
        ]
        for row, e in zip(apart, left, strict=True)
    ]
    return to_floats([*means, aa, ab, bb, *slopes, noise], moves)


def compute_ratio(values: Floats) -> tuple[Floats, Floats]:
    """The influence of the ratio of two means, in fractions."""
    (top, mean), apart = centre(values)
    ratio = top / mean
    pairs = [(x, y - ratio * x) for y, x in apart]  # what the ratio leaves has mean 0
    spread, across = average([x * x for x, _ in pairs]), average([x * e for x, e in pairs])
    square = average([e * e for _, e in pairs])
    moves = [
        [x, e / mean, x * x - spread, x * e - across - spread * e / mean, e * e - square - 2 * across * e / mean]
        for x, e in pairs
    ]
    return to_floats([mean, ratio, spread, across, square], moves)


def draw_fit(rng: np.random.Generator, n: int, near: float, mean: float) -> Floats:
    """Records with a second predictor that is near the first, and outputs with heavy tails."""
    one, other, noise = rng.normal(size=(3, n))
    two = one + near * other
    return np.column_stack((one, two, one + two + noise / np.abs(rng.normal(size=n)))) + mean


@pytest.mark.parametrize("mean", [0.0, 1e3, 1e6])
@pytest.mark.parametrize("near", [1.0, 1e-2, 1e-3, 1e-4, 1e-5, 3e-6])
def test_the_errors_of_a_fit_cover_what_rounding_does(near: float, mean: float) -> None:
    rng, statistic = np.random.default_rng(0), LinearRegression(2).statistic
    for _ in range(4):
        check_errors(statistic, compute_fit(values := draw_fit(rng, 90, near, mean)), values)


@pytest.mark.parametrize("mean", [0.0, 1e3, 1e6, 1e9])
def test_so_do_those_of_moments_and_products(mean: float) -> None:
    rng = np.random.default_rng(0)
    for _ in range(4):
        values = rng.normal(mean, 1.0, (60, 2))
        check_errors(Moments(4).statistic, compute_moments(values[:, :1]), values[:, :1])
        check_errors(Covariance(2).statistic, compute_products(values), values)
        check_errors(Ratio().statistic, compute_ratio(values), values)


def check_errors(statistic: statistics.Statistic, exact: tuple[Floats, Floats], values: Floats) -> None:
    said = statistic.influence(values)
    assert said is not None
    errors, of_moves = statistic.find_influence_errors(values, *said)
    scales, exact_scales = (NORMAL * np.abs(moves).mean(axis=0) for moves in (said[1], exact[1]))
    share = WOBBLE * (np.abs(exact[0]) + exact_scales)
    assert (np.abs(said[0] - exact[0]) <= errors + share).all()
    assert (np.abs(scales - exact_scales) <= 2.0 * NORMAL * of_moves.mean(axis=0) + share).all()


class DoubtfulProducts(statistics.Products):
    """Products that may be off by a twentieth of their deviations."""

    def influence(self, values: Floats) -> tuple[Floats, Floats]:
        numbers, moves = super().influence(values)
        return numbers + self.off * np.abs(moves).mean(axis=0), moves * (1.0 + self.off)

    def find_influence_errors(self, _values: Floats, _numbers: Floats, moves: Floats) -> tuple[Floats, Floats]:
        return np.abs(moves).mean(axis=0) / 20.0, np.abs(moves) / 20.0

    off = 0.0


@pytest.mark.parametrize("off", [-0.04, 0.04])
def test_a_word_is_read_alike_with_side_information_that_is_off_by_its_errors(off: float) -> None:
    rng, channel, length = np.random.default_rng(0), find_channel("bits"), 60
    statistic = DoubtfulProducts(1, ((0, 0),), centred=True)
    for first in range(1, 101):
        values = rng.normal(size=(length, 1))
        target = Target.exactly(statistic.influence(values)[0])
        keep = channel.write(values, np.ones(length, np.bool_), target, statistic, first, np.uint64(1))
        numbers = channel.read_slots(values, keep, statistic, first).numbers
        assert numbers == pytest.approx(target.numbers, rel=1e-3)
        with patch.object(DoubtfulProducts, "off", off):
            assert channel.read_slots(values, keep, statistic, first).numbers.tolist() == numbers.tolist()


@pytest.mark.parametrize("near", [1e-3, 3e-6])
def test_a_word_of_collinear_records_is_read_alike_with_exact_side_information(near: float) -> None:
    policy: Encoded = LinearRegression(2)
    rng, statistic, channel, length = np.random.default_rng(1), policy.statistic, find_channel("bits"), 170
    everyone = np.ones(length, np.bool_)
    for _ in range(10):
        values, first = draw_fit(rng, length, near, 0.0), int(rng.integers(1, 10**9))
        said = statistic.influence(values)
        assert said is not None
        keep = channel.write(values, everyone, Target.exactly(said[0]), statistic, first, np.uint64(1))
        numbers = channel.read_slots(values, keep, statistic, first).numbers
        exact = compute_fit(values[keep] - statistic.find_origin(values[keep]))
        with patch.object(statistics.LeastSquares, "influence", return_value=exact):
            assert channel.read_slots(values, keep, statistic, first).numbers.tolist() == numbers.tolist()
