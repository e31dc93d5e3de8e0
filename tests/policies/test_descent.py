"""Logistic regression and models of one's own against fits to everything."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import curve_fit
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression as Reference
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split

from vestige import CustomLoss, LogisticRegression, Stream
from vestige.errors import DataError, ParameterError
from vestige.types import Floats

RNG = np.random.default_rng


def binary(rng: np.random.Generator, n: int) -> Floats:
    x = rng.normal(size=(n, 5))
    chances = 1.0 / (1.0 + np.exp(-(x @ [1.0, -2.0, 0.5, 0.0, 1.5] - 0.5)))
    return np.column_stack([x, rng.random(n) < chances])


def test_simulated_classes() -> None:
    rows, new = binary(RNG(0), 200_000), binary(RNG(1), 50_000)
    stream = Stream(LogisticRegression(5, l2=1 / len(rows)), retention=640, seed=0)
    stream.extend(rows)
    ours = log_loss(new[:, 5], stream.estimate().predict_proba(new[:, :5]))
    assert ours <= 1.01 * log_loss(
        new[:, 5], Reference(tol=1e-8).fit(rows[:, :5], rows[:, 5]).predict_proba(new[:, :5])
    )


def test_breast_cancer_in_twenty_passes() -> None:
    x, y = load_breast_cancer(return_X_y=True)
    x, x_new, y, y_new = train_test_split(x, y, random_state=0, stratify=y)
    mean, spread = x.mean(axis=0), x.std(axis=0)
    x, x_new = (x - mean) / spread, (x_new - mean) / spread
    reference = Reference(tol=1e-8, max_iter=10_000).fit(x, y)
    stream = Stream(LogisticRegression(30, l2=1 / len(x)), retention=2976, seed=0)
    rng = RNG(0)
    for _ in range(20):
        stream.extend(np.column_stack([x, y])[rng.permutation(len(x))])
    ours = log_loss(y_new, stream.estimate().predict_proba(x_new))
    assert ours <= 1.02 * log_loss(y_new, reference.predict_proba(x_new))


def test_three_classes() -> None:
    rng = RNG(2)
    x = rng.normal(size=(40_000, 2))
    scores = x @ rng.normal(size=(2, 3)) + [0.0, 0.5, -0.5] + rng.gumbel(size=(40_000, 3))
    y = scores.argmax(axis=1)
    stream = Stream(LogisticRegression(2, classes=3, l2=1e-4), retention=1024, seed=0)
    stream.extend(np.column_stack([x, y]))
    reference = Reference(C=1 / (1e-4 * len(x)), tol=1e-8).fit(x, y)
    chances = stream.estimate().predict_proba(x)
    assert chances.sum(axis=1) == pytest.approx(1.0)
    assert log_loss(y, chances) <= 1.001 * log_loss(y, reference.predict_proba(x))
    assert np.shape(stream.estimate().value) == (3, 2)
    assert stream.estimate().notes == (), "what all classes share is free, not flat"


def falling(parameters: Floats, rows: Floats) -> tuple[Floats, Floats]:
    """Squares of y - (a exp(-b x) + c)."""
    x, y = rows.T
    fall = np.exp(-parameters[1] * x)
    gap = parameters[0] * fall + parameters[2] - y
    return gap**2 / 2.0, gap[:, None] * np.column_stack([fall, -parameters[0] * x * fall, np.ones(len(x))])


@pytest.mark.slow
def test_a_curve_with_three_parameters() -> None:
    truth, errors = np.array([2.5, 1.3, 0.5]), []
    for seed in range(10):
        rng = RNG(seed)
        x = rng.uniform(0.0, 4.0, 40_000)
        y = truth[0] * np.exp(-truth[1] * x) + truth[2] + rng.normal(0.0, 0.2, len(x))
        stream = Stream(CustomLoss(falling, (1.0, 1.0, 0.0), columns=2), retention=512, seed=seed)
        stream.extend(np.column_stack([x, y]))
        best = curve_fit(lambda x, a, b, c: a * np.exp(-b * x) + c, x, y, p0=(1.0, 1.0, 0.0))[0]
        errors.append([((stream.estimate().value - truth) ** 2).sum(), ((best - truth) ** 2).sum()])
    ours, theirs = np.median(errors, axis=0)
    assert ours <= 1.2 * theirs


def test_bad_input() -> None:
    stream = Stream(LogisticRegression(1), retention=512, seed=0)
    with pytest.raises(DataError, match=r"row 1 of 2 .* has no class: .* from 0 to 1"):
        stream.extend([[0.0, 1.0], [0.0, 2.0]])
    with pytest.raises(DataError, match="has no class"):
        stream.push([0.0, 0.5])
    assert stream.t == 0
    with pytest.raises(ParameterError, match=r"l2=-1 is out of range"):
        LogisticRegression(1, l2=-1)
    with pytest.raises(ParameterError, match="loss is a str; pass a function"):
        CustomLoss("loss", (1.0,))  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="start is not a sequence of finite numbers"):
        CustomLoss(falling, ())
    wrong = Stream(CustomLoss(lambda _, rows: (rows[:, 0], rows), (1.0, 1.0)), retention=384, seed=0)
    wrong.push(1.0)
    with pytest.raises(ParameterError, match=r"needs a loss for each, \(1,\), and its gradient, \(1, 2\)"):
        wrong.estimate()
    stream.extend(binary(RNG(0), 300)[:, [0, 5]])
    with pytest.raises(ParameterError, match=r"x has shape \(2,\); needs \(n, 1\)"):
        stream.estimate().predict([1.0, 2.0])


def test_the_curvature_is_that_of_the_gradient() -> None:
    rows = binary(RNG(3), 200)
    for policy in (LogisticRegression(5, l2=0.1), LogisticRegression(5, classes=3, l2=0.1)):
        model, weights = policy.statistic.model, np.full(200, 1 / 200)
        at = RNG(4).normal(size=policy.statistic.count)
        step = 1e-6 * np.eye(len(at))
        slopes = [(model.loss(at + h, rows, weights) - model.loss(at - h, rows, weights)) / 2e-6 for h in step]
        bends = [(weights @ (model.gradients(at + h, rows) - model.gradients(at - h, rows))) / 2e-6 for h in step]
        assert weights @ model.gradients(at, rows) == pytest.approx(np.array(slopes), abs=1e-6)
        assert model.curvature(at, rows, weights) == pytest.approx(np.array(bends), abs=1e-6)
