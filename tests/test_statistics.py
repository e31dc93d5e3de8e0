"""Steps of each statistic compose to numpy's value over every prefix, with and without a half-life."""

from __future__ import annotations

from itertools import combinations_with_replacement
from typing import Any

import numpy as np
import pytest

from vestige.errors import ParameterError
from vestige.statistics import Joint, LeastSquares, Mean, Moments, Present, Products, Ratio, Shares, Statistic
from vestige.statistics.kernels import find_share, find_weights, find_worth
from vestige.statistics.present_means import PresentMeans
from vestige.types import Floats

SIZES = (1, 7, 40, 2, 150, 300)


def composed(statistic: Statistic, rows: Floats, decay: float) -> Floats:
    """The estimate after batches of these sizes."""
    estimate, seen = None, 0
    for size in SIZES:
        share = find_share(size, seen + size, decay)
        estimate = statistic.step(
            estimate, rows[seen : seen + size], find_weights(np.ones(size, np.bool_), decay), share
        )
        seen += size
    assert estimate is not None
    return estimate


@pytest.fixture(params=[0.0, 1e6])
def rows(request: pytest.FixtureRequest) -> Floats:
    made: Floats = np.random.default_rng(0).gumbel(size=(500, 3)) + request.param
    return made


def weights(decay: float) -> Floats:
    made: Floats = find_weights(np.ones(500, np.bool_), decay)
    made /= made.sum()
    return made


@pytest.mark.parametrize("decay", [1.0, 0.5 ** (1 / 60)])
def test_the_mean(rows: Floats, decay: float) -> None:
    assert composed(Mean(3), rows, decay) == pytest.approx(weights(decay) @ rows, rel=1e-14)


@pytest.mark.parametrize("decay", [1.0, 0.5 ** (1 / 60)])
def test_shares(rows: Floats, decay: float) -> None:
    edges = tuple(np.quantile(rows[:, 0], [0.0, 0.3, 0.7]).tolist())
    expected = np.histogram(rows[:, 0], [-np.inf, *edges, np.inf], weights=weights(decay))[0]
    assert composed(Shares(edges), rows[:, :1], decay) == pytest.approx(expected, abs=1e-14)


@pytest.mark.parametrize("decay", [1.0, 0.5 ** (1 / 60)])
@pytest.mark.parametrize("far", [0.0, 20.0])
def test_a_ratio(rows: Floats, decay: float, far: float) -> None:
    """Also where the mean of the denominator changes its sign, and where it is 0 in the first records."""
    rows = rows[:, :2] + far
    rows[:8, 1] = 0.0
    y, x, w = *rows.T, weights(decay)
    ratio = (w @ y) / (w @ x)
    rest, apart = y - ratio * x, x - w @ x
    expected = [w @ x, ratio, w @ apart**2, w @ (rest * apart), w @ rest**2]
    assert composed(Ratio(), rows, decay) == pytest.approx(expected, rel=1e-8)


@pytest.mark.parametrize("decay", [1.0, 0.5 ** (1 / 60)])
def test_moments(rows: Floats, decay: float) -> None:
    apart = rows[:, 0] - weights(decay) @ rows[:, 0]
    expected = [weights(decay) @ rows[:, 0], *(weights(decay) @ apart**p for p in (2, 3, 4))]
    assert composed(Moments(4), rows[:, :1], decay) == pytest.approx(expected, rel=1e-8)


@pytest.mark.parametrize("decay", [1.0, 0.5 ** (1 / 60)])
@pytest.mark.parametrize("centred", [True, False])
def test_products(rows: Floats, decay: float, centred: bool) -> None:
    pairs = tuple(combinations_with_replacement(range(3), 2))
    mean = weights(decay) @ rows if centred else np.zeros(3)
    matrix = ((rows - mean) * weights(decay)[:, None]).T @ (rows - mean)
    expected = [*(mean if centred else ()), *(matrix[i, j] for i, j in pairs)]
    assert composed(Products(3, pairs, centred), rows, decay) == pytest.approx(expected, rel=1e-8)


@pytest.mark.parametrize("decay", [1.0, 0.5 ** (1 / 60)])
@pytest.mark.parametrize("intercept", [True, False])
def test_least_squares(rows: Floats, decay: float, intercept: bool) -> None:
    statistic, roots = LeastSquares(2, 1, intercept), np.sqrt(weights(decay))
    rows = rows if intercept else rows - np.floor(rows.mean(axis=0))  # without a constant the data lie about zero
    fit = statistic.fit(composed(statistic, rows, decay))
    means = weights(decay) @ rows if intercept else np.zeros(3)
    table = (rows - means) * roots[:, None]
    slopes = np.linalg.lstsq(table[:, :2], table[:, 2:])[0]
    assert fit.means == pytest.approx(means, rel=1e-14)
    assert fit.predictors == pytest.approx(table[:, :2].T @ table[:, :2], rel=1e-8)
    assert fit.slopes == pytest.approx(slopes, rel=1e-8)
    assert fit.noise == pytest.approx(((table[:, 2:] - table[:, :2] @ slopes) ** 2).sum(axis=0), rel=1e-8)


@pytest.mark.parametrize("decay", [1.0, 0.5 ** (1 / 60)])
def test_values_that_are_missing(rows: Floats, decay: float) -> None:
    """In the first two batches nothing is there, in another none either."""
    rows[np.random.default_rng(1).random(500) < 0.5, 0] = rows[:8, 0] = rows[48:50, 0] = np.nan
    there = ~np.isnan(rows[:, 0])
    share = weights(decay) @ there
    inner = weights(decay)[there] / share
    mean = inner @ rows[there]
    variance = inner @ (rows[there] - mean) ** 2
    found = composed(Joint((((0,), Present(Moments(2))), ((0, 2), Present(Mean(2))))), rows, decay)
    assert found == pytest.approx([share, mean[0], variance[0], share, mean[0], mean[2]], rel=1e-8)


@pytest.mark.parametrize("statistic", [Moments(3), Products(1, ((0, 0),), centred=True), Mean(1)])
def test_the_influence_of_records_with_missing_values(statistic: Statistic) -> None:
    """One record more or less moves the numbers by its influence over the number of records."""
    rows = np.random.default_rng(0).gumbel(size=(4_000, 1)) + 3.0
    rows[::3] = np.nan
    present = Present(statistic)  # type: ignore[arg-type]
    numbers, moves = present.influence(rows)
    for i in (0, 1, 2):
        others = np.delete(rows, i, axis=0)
        without = present.step(None, others, np.ones(len(others)), 1.0)
        assert numbers - without == pytest.approx(moves[i] / len(rows), rel=2e-2, abs=1e-5)
    assert present.from_averages(present.atoms(rows).mean(axis=0)) == pytest.approx(numbers, rel=1e-9)


def test_weights() -> None:
    assert find_weights(np.ones(3, np.bool_), 0.5).tolist() == [0.25, 0.5, 1.0]
    assert find_weights(np.array([True, False, True, False]), 0.5).tolist() == [0.5, 0.0, 1.0, 0.0]
    assert find_share(2, 3, 0.5) == pytest.approx(1.5 / 1.75)
    assert find_share(2, 8, 1.0) == 0.25
    assert find_worth(3, 0.5) == pytest.approx(1.75**2 / (1 + 1 / 4 + 1 / 16))
    assert find_worth(7, 1.0) == 7.0


@pytest.mark.parametrize("kind", ["full", "missing", "rare", "none", "constant", "far"])
def test_means_of_many_columns_at_once_are_those_of_each(kind: str) -> None:
    rng = np.random.default_rng(3)
    rows = rng.gamma(2.0, 3.0, (600, 4)) + (1e9 if kind == "far" else 0.0)
    if kind == "constant":
        rows[:] = 7.3
    rows[rng.random(rows.shape) < {"full": 0.0, "rare": 0.99}.get(kind, 0.3)] = np.nan
    if kind == "none":
        rows[:, 1] = np.nan
    each, many = Present(Products(1, ((0, 0),), centred=True)), PresentMeans(4)

    def check(found: Floats, expected: list[Floats]) -> None:
        scale = np.abs(np.array(expected)).max() or 1.0
        assert np.allclose(found, np.concatenate(expected, axis=-1), rtol=1e-9, atol=1e-12 * scale)

    weights = np.linspace(0.5, 1.0, 200)
    estimate: Floats | None = None
    alone: list[Any] = [None] * 4
    for batch, share in zip(np.split(rows, 3), (1.0, 0.5, 1.0 / 3.0), strict=True):
        estimate = many.step(estimate, batch, weights, share)
        alone = [each.step(alone[i], batch[:, [i]], weights, share) for i in range(4)]
        check(estimate, alone)
        said = many.influence(batch)
        apart = [each.influence(batch[:, [i]]) for i in range(4)]
        check(said[0], [numbers for numbers, _ in apart])
        check(said[1], [moves for _, moves in apart])
        numbers = estimate.reshape(4, 3)
        pairs = [(batch[:, [i]], numbers[i]) for i in range(4)]
        check(many.find_moves(batch, estimate), [each.find_moves(*pair) for pair in pairs])
        check(many.find_deviations(batch, estimate), [each.find_deviations(*pair) for pair in pairs])
        errors = [each.find_influence_errors(batch[:, [i]], *apart[i]) for i in range(4)]
        check(many.find_influence_errors(batch, *said)[1], [error for _, error in errors])
        check(many.atoms(batch), [each.atoms(batch[:, [i]]) for i in range(4)])
        averages = many.atoms(batch).mean(axis=0).reshape(4, 3)
        check(many.from_averages(averages.ravel()), [each.from_averages(averages[i]) for i in range(4)])
    if kind == "full":
        assert estimate is not None
        assert np.allclose(estimate[1::3], np.average(rows, axis=0, weights=np.tile(weights, 3)))


def test_a_share_that_noise_has_put_below_zero_counts_as_none() -> None:
    """So that the next values are the first ones, for all columns at once as for each."""
    rows, weights = np.random.default_rng(0).normal(3.0, 1.0, (50, 2)), np.ones(50)
    each, many = Present(Products(1, ((0, 0),), centred=True)), PresentMeans(2)
    before = np.array([-0.01, 9.0, 4.0, 0.5, 3.0, 1.0])
    alone = [each.step(before[3 * i : 3 * i + 3], rows[:, [i]], weights, 0.25) for i in range(2)]
    assert many.step(before, rows, weights, 0.25) == pytest.approx(np.concatenate(alone), rel=1e-12)
    assert alone[0] == pytest.approx([0.25, rows[:, 0].mean(), rows[:, 0].var()])


MERGED = {
    "mean": Mean(3),
    "shares": Shares((0.2, 1.0)),
    "moments": Moments(4),
    "products": Products(3, tuple(combinations_with_replacement(range(3), 2)), centred=True),
    "products about zero": Products(3, ((0, 1), (2, 2)), centred=False),
    "least squares": LeastSquares(2, 1, intercept=True),
    "through the origin": LeastSquares(2, 1, intercept=False),
    "ratio": Ratio(),
}


@pytest.mark.parametrize("name", MERGED)
@pytest.mark.parametrize("sizes", [(250, 250), (499, 1), (1, 1, 498), (3, 7, 90, 400), (100,) * 5])
@pytest.mark.parametrize("far", [0.0, 1e4])
def test_parts_merge_into_the_statistic_of_all(name: str, sizes: tuple[int, ...], far: float) -> None:
    """Parts of one record too, and parts that are unlike each other."""
    statistic = MERGED[name]
    columns = {"shares": 1, "moments": 1, "ratio": 2}.get(name, 3)
    rows = np.random.default_rng(0).gumbel(size=(500, columns)) + far
    rows[100:] += 5.0
    if name == "ratio":
        rows[: sizes[0], 1] = 0.0  # a part without a ratio
    ends = np.cumsum(sizes)[:-1]
    parts = [statistic.step(None, part, np.ones(len(part)), 1.0) for part in np.split(rows, ends)]
    merged = statistic.merge(np.array(parts), np.array(sizes) / 500)
    whole = statistic.step(None, rows, np.ones(500), 1.0)
    assert merged == pytest.approx(whole, rel=1e-6, abs=1e-8)


@pytest.mark.parametrize("far", [1e2, 1e4, 3e4])
def test_least_squares_of_predictors_far_from_zero_without_an_intercept(far: float) -> None:
    """They are nearly collinear; the residuals, which are far smaller, are not lost for that."""
    rows = np.random.default_rng(0).gumbel(size=(500, 3)) + far
    statistic, estimate = LeastSquares(2, 1, intercept=False), None
    for n in range(10, 501, 10):
        estimate = statistic.step(estimate, rows[n - 10 : n], np.ones(10), 10 / n)
    slopes, rest, _, _ = np.linalg.lstsq(rows[:, :2], rows[:, 2], rcond=None)
    assert estimate is not None
    assert estimate[3:5] == pytest.approx(slopes, rel=1e-6)
    assert estimate[5] == pytest.approx(rest[0] / 500, rel=1e-5)


def test_a_statistic_that_does_not_say_how_refuses_to_merge() -> None:
    with pytest.raises(ParameterError, match=r"Present does not say how .* define its merge"):
        Present(Mean(1)).merge(np.ones((2, 2)), np.full(2, 0.5))
