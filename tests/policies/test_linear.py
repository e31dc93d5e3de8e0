"""Least squares from a window against least squares on everything."""

from __future__ import annotations

import numpy as np
import pytest

from vestige import LinearRegression, Stream, Window
from vestige.errors import NoAnswerError, ParameterError
from vestige.flights import flights
from vestige.types import Floats

RNG = np.random.default_rng
PER_AVERAGE, BATCHES, COORDINATES = 34, 200, 16


def least_squares(x: Floats, y: Floats) -> tuple[Floats, Floats]:
    """Coefficients and their standard errors."""
    fit = np.linalg.lstsq(x, y, rcond=None)[0].astype(np.float64)
    left = y - x @ fit
    variance = left @ left / (len(x) - x.shape[1])
    errors: Floats = np.sqrt(variance * np.linalg.inv(x.T @ x).diagonal())
    return fit, errors


def predictors(kind: str, rng: np.random.Generator, n: int, dim: int) -> Floats:
    if kind == "uniform":
        return rng.uniform(-1.0, 1.0, size=(n, dim))
    made: Floats = rng.normal(size=(n, dim)) @ np.linalg.cholesky(0.5 + 0.5 * np.eye(dim)).T
    return made


@pytest.mark.parametrize(
    ("dim", "kind"),
    [
        (3, "correlated normal"),
        *(
            pytest.param(dim, kind, marks=pytest.mark.slow)
            for dim, kind in [
                (1, "uniform"),
                (1, "correlated normal"),
                (3, "uniform"),
                (8, "uniform"),
                (8, "correlated normal"),
            ]
        ),
    ],
)
def test_the_error_is_that_of_all_data(dim: int, kind: str) -> None:
    """As many coordinates in every dimension: each adds its own error, so that the sums are equally certain.

    How far the answer is from the best one, and how far that is off, are independent, so that their squares add up.
    """
    policy = LinearRegression(dim, intercept=False)
    batch = PER_AVERAGE * policy.statistic.size
    truth = np.arange(1.0, dim + 1.0)
    errors = np.zeros(2)
    for seed in range(-(-COORDINATES // dim)):
        rng = RNG([seed, dim])
        x = predictors(kind, rng, BATCHES * batch, dim)
        y = x @ truth + rng.normal(size=len(x))
        stream = Stream(policy, retention=2 * batch, seed=seed)
        stream.extend(np.column_stack([x, y]))
        best = np.linalg.solve(x.T @ x, x.T @ y)
        errors += [((stream.estimate().value - best) ** 2).sum(), ((best - truth) ** 2).sum()]
    assert errors[0] <= 0.05 * errors[1]


@pytest.mark.parametrize("names", [("distance",), pytest.param(("distance", "hour"), marks=pytest.mark.slow)])
def test_air_time_of_flights(names: tuple[str, ...]) -> None:
    rows = flights(*names, "air_time")
    stream = Stream(LinearRegression(len(names)), retention=1024, seed=0)
    stream.extend(rows)
    estimate = stream.estimate()
    fit, errors = least_squares(np.column_stack([np.ones(len(rows)), rows[:, :-1]]), rows[:, -1])
    assert np.abs((estimate.value - fit[1:]) / errors[1:]).max() <= 0.05
    assert abs(estimate.intercept - fit[0]) <= 0.05 * errors[0]
    assert estimate.standard_errors == pytest.approx(errors[1:], rel=1e-3)
    assert estimate.intercept_error == pytest.approx(errors[0], rel=1e-3)
    assert estimate.predict(rows[:5, :-1]) == pytest.approx(fit[0] + rows[:5, :-1] @ fit[1:], rel=1e-6)


def test_several_outputs_are_several_regressions() -> None:
    rng = RNG(1)
    x = rng.normal(size=(20_000, 2))
    y = x @ rng.normal(size=(2, 3)) + [1.0, 2.0, 3.0] + rng.normal(size=(20_000, 3))
    stream = Stream(LinearRegression(2, outputs=3), retention=2048, seed=0)
    stream.extend(np.column_stack([x, y]))
    estimate = stream.estimate()
    for k in range(3):
        fit, errors = least_squares(np.column_stack([np.ones(len(x)), x]), y[:, k])
        assert np.abs(np.asarray(estimate.value)[k] - fit[1:]).max() <= 0.02 * errors[1:].min()
        assert np.asarray(estimate.intercept)[k] == pytest.approx(fit[0], abs=0.02 * errors[0])
    assert estimate.predict(x[:4]).shape == (4, 3)
    with pytest.raises(ParameterError, match=r"x has shape \(3,\); needs \(2,\) or \(n, 2\)"):
        estimate.predict([1.0, 2.0, 3.0])


def test_badly_scaled_columns_cost_nothing() -> None:
    rng = RNG(2)
    x = rng.normal(size=(30_000, 2)) * [1e-6, 1e6] + [1.0, 1e9]
    y = x @ [1e6, 1e-6] + rng.normal(size=30_000)
    stream = Stream(LinearRegression(2), retention=1024, seed=0)
    stream.extend(np.column_stack([x, y]))
    scaled = (x - x.mean(axis=0)) / x.std(axis=0)
    fit, errors = least_squares(scaled, y - y.mean())
    assert np.abs((stream.estimate().value * x.std(axis=0) - fit) / errors).max() <= 0.05


def test_what_cannot_be_told_is_refused() -> None:
    rng = RNG(3)
    x = rng.normal(size=5_000)
    stream = Stream(LinearRegression(2), retention=1024, seed=0)
    stream.extend(np.column_stack([x, 2.0 * x, x + rng.normal(size=5_000)]))
    with pytest.raises(NoAnswerError, match="the predictors are collinear so far"):
        stream.estimate()
    stream = Stream(LinearRegression(2), retention=1024, seed=0)
    stream.extend(np.column_stack([x, 2.0 * x, x]))
    with pytest.raises(NoAnswerError, match="the predictors cannot be told apart at this precision"):
        stream.estimate()
    stream = Stream(LinearRegression(1), retention=512, seed=0)
    stream.extend(np.column_stack([np.ones(5_000), x]))
    with pytest.raises(NoAnswerError, match=r"predictor 0 .* is constant so far"):
        stream.estimate()


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_no_condition_is_claimed_from_numbers_that_are_off(seed: int) -> None:
    """Predictors that are a 200,000th apart, in words of eighteen bits for each number."""
    rng = RNG(seed)
    x = rng.normal(size=20_000)
    near = x + 5e-6 * rng.normal(size=20_000)
    stream = Stream(LinearRegression(2), retention=340, seed=0)
    stream.extend(np.column_stack([x, near, x + near + rng.standard_t(1.5, 20_000)]))
    with pytest.raises(NoAnswerError, match=r"cannot be told apart .* \(condition number [12]e\+11 of the held"):
        stream.estimate()


def test_where_numbers_are_off_the_held_records_tell_the_condition() -> None:
    rng = RNG(0)
    x = np.column_stack([rng.normal(size=8_000), rng.standard_cauchy(8_000)])
    stream = Stream(LinearRegression(2), retention=340, seed=0)
    stream.extend(np.column_stack([x, x.sum(axis=1) + rng.normal(size=8_000)]))
    estimate, held = stream.estimate(), np.corrcoef(stream.retained.values[:, :2].T)
    assert estimate.missed
    assert estimate.condition == pytest.approx(np.linalg.cond(held))


@pytest.mark.parametrize("count", [150, 300, 325])
def test_a_constant_predictor_is_named_also_where_numbers_are_off(count: int) -> None:
    """From round 300 on, its variance of zero is read as the float nearest to zero that the word can say."""
    rng = RNG(0)
    x = np.where(np.arange(400) % 2, 1e7, -1e7) + rng.normal(size=400)
    rows = np.column_stack([x, np.zeros(400), 0.5 * x + rng.normal(size=400)])
    stream = Stream(LinearRegression(2), retention=300, seed=0)
    stream.extend(rows[:count])
    with pytest.raises(NoAnswerError, match=r"^predictor 1 \(counted from 0\) .* constant so far; "):
        stream.estimate()


def test_standard_errors_do_not_overflow_before_they_must() -> None:
    numbers = np.array([0.0, 0.0, 1e-300, 1e290, 1e305])
    estimate = LinearRegression(1).conclude(numbers, 100.0, 1e-3)
    assert estimate.standard_errors == pytest.approx([np.sqrt(1e305 / 98.0) * 1e150], rel=1e-12)


@pytest.mark.parametrize(
    ("variance", "what"),
    [
        (0.0, "is constant"),
        (1e-310, "cannot be told from a constant"),
        (-1e-9, "cannot be told from a constant"),
    ],
)
def test_a_predictor_is_called_constant_only_if_it_is(variance: float, what: str) -> None:
    with pytest.raises(NoAnswerError, match=rf"^predictor 0 \(counted from 0\) {what} so far; "):
        LinearRegression(1).conclude(np.array([0.0, 0.0, variance, 1.0, 1.0]), 100.0, 1e-3)


@pytest.mark.parametrize(("retention", "said"), [(710, True), (1024, False)])
def test_near_collinearity_is_noted_where_rounding_matters(retention: int, said: bool) -> None:
    rng = RNG(4)
    x = rng.normal(size=20_000)
    near = x + 1e-4 * rng.normal(size=20_000)
    y = x + rng.normal(size=20_000)
    stream = Stream(LinearRegression(2), retention=retention, seed=0)
    stream.extend(np.column_stack([x, near, y]))
    estimate = stream.estimate()
    assert estimate.condition > 1e7
    assert any("nearly collinear" in note for note in estimate.notes) == said
    fit, errors = least_squares(np.column_stack([x, near, np.ones(20_000)]), y)
    assert said or np.abs((estimate.value - fit[:2]) / errors[:2]).max() <= 0.01


def test_a_window_may_fit_too_and_few_records_say_so() -> None:
    rng = RNG(5)
    rows = np.column_stack([rng.normal(size=(2_000, 2)), rng.normal(size=2_000)])
    stream = Stream(Window(LinearRegression(2)), retention=500)
    stream.extend(rows)
    fit, _ = least_squares(np.column_stack([np.ones(500), rows[-500:, :2]]), rows[-500:, 2])
    assert stream.estimate().value == pytest.approx(fit[1:], rel=1e-9)
    few = Stream(LinearRegression(2), retention=640, seed=0)
    few.extend(rows[:3])
    assert any("no more records than coefficients" in note for note in few.estimate().notes)


def test_a_half_life_forgets_an_old_slope() -> None:
    rng = RNG(6)
    x = rng.normal(size=40_000)
    y = np.where(np.arange(40_000) < 20_000, 1.0, -1.0) * x + 0.1 * rng.normal(size=40_000)
    stream = Stream(LinearRegression(1, half_life=1_000.0), retention=512, seed=0)
    stream.extend(np.column_stack([x, y]))
    assert stream.estimate().value == pytest.approx([-1.0], abs=0.02)


@pytest.mark.parametrize("share", [0.01, 0.05])
def test_requests_cost_little(share: float) -> None:
    """With removal requested for many of the newest records: far below a standard error of what counts."""
    rows = flights("distance", "hour", "air_time")[:60_000]
    stream = Stream(LinearRegression(2), retention=1024, seed=1)
    rng = RNG(5)
    for start in range(0, len(rows), stream.batch):
        stream.extend(rows[start : start + stream.batch - 1])
        asked = stream.t - np.flatnonzero(rng.random(stream.batch - 1) < share)
        stream.forget(rounds=asked[asked > 0])
        stream.extend(rows[start + stream.batch - 1 : start + stream.batch])
    assert stream.clock.since == 1 or share > 0.01
    rows = rows[stream.clock.since - 1 :]
    fit, errors = least_squares(np.column_stack([np.ones(len(rows)), rows[:, :-1]]), rows[:, -1])
    assert np.abs((stream.estimate().value - fit[1:]) / errors[1:]).max() <= 0.05
