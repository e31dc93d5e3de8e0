"""The river adapters pass river's own checks and agree with their streams."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from river import checks, compose, datasets, evaluate, metrics, preprocessing, stats

from vestige import LinearRegression, Stream, river
from vestige.errors import DataError

MODELS = [river.LinearRegressor(seed=0), river.LogisticClassifier(seed=0)]
EXEMPT: dict[str, str] = {}
"""Checks that do not apply, with the reason: none."""


def name_of(check: Any) -> str:
    return str(getattr(check, "func", check).__name__)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("model", "check"),
    [
        pytest.param(model, check, id=f"{type(model).__name__}-{i}-{name_of(check)}")
        for model in MODELS
        for i, check in enumerate(checks.yield_checks(model))
        if name_of(check) not in EXEMPT
    ],
)
def test_its_own_checks(model: Any, check: Callable[[Any], None]) -> None:
    check(model.clone())


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (river.Mean(seed=0), stats.Mean()),
        (river.Var(seed=0), stats.Var()),
        (river.Sum(seed=0), stats.Sum()),
        (river.Count(), stats.Count()),
    ],
)
def test_statistics_over_every_prefix(ours: Any, theirs: Any) -> None:
    assert ours.get() == theirs.get() == 0.0
    for t, value in enumerate(np.random.default_rng(0).gumbel(size=1_000).tolist(), start=1):
        ours.update(value)
        theirs.update(value)
        assert ours.get() == pytest.approx(theirs.get(), abs=0.1 / np.sqrt(t))


def test_extremes_and_quantiles_over_every_prefix() -> None:
    values = np.random.default_rng(0).gumbel(size=1_000)
    smallest, largest, median = river.Min(seed=0), river.Max(seed=0), river.Quantile(seed=0)
    assert (smallest.get(), largest.get(), median.get()) == (stats.Min().get(), stats.Max().get(), None)
    for t, value in enumerate(values.tolist(), start=1):
        for ours in (smallest, largest, median):
            ours.update(value)
        assert (smallest.get(), largest.get()) == (values[:t].min(), values[:t].max())
    found = median.get()
    assert found is not None
    assert abs((values <= found).mean() - 0.5) < 0.01


def test_correlations_over_every_prefix() -> None:
    ours, theirs = river.PearsonCorr(seed=0), stats.PearsonCorr()
    assert ours.get() == theirs.get() == 0.0
    for x, y in (np.random.default_rng(0).gumbel(size=(1_000, 2)) @ [[1.0, 0.5], [0.0, 1.0]]).tolist():
        ours.update(x, y)
        theirs.update(x, y)
        assert ours.get() == pytest.approx(theirs.get(), abs=1e-6)


def test_a_pipeline_learns_as_well_as_rivers() -> None:
    model = compose.Pipeline(preprocessing.StandardScaler(), river.LinearRegressor(seed=0))
    approval, error = datasets.TrumpApproval(), metrics.MAE()  # type: ignore[no-untyped-call]
    evaluate.progressive_val_score(approval, model, error)
    assert float(error.get()) < 1.0  # type: ignore[no-untyped-call]  # river's own LinearRegression: 1.31


def test_more_classes_than_said() -> None:
    model = river.LogisticClassifier(classes=3, seed=0)
    for i in range(1_500):
        model.learn_one({"a": i % 9, "b": (i % 9) ** 2}, "low" if i % 9 < 3 else "middle" if i % 9 < 6 else "high")
    assert [model.predict_one({"a": a, "b": a * a}) for a in (1, 4, 8)] == ["low", "middle", "high"]
    with pytest.raises(DataError, match="a class beyond the 3 seen before; use larger `classes`"):
        model.learn_one({"a": 1, "b": 1}, "other")


@pytest.mark.parametrize("half_life", [None, 60.0])
def test_examples_that_wait_make_the_stream_and_the_predictions_of_pushes(half_life: float | None) -> None:
    rng, model = np.random.default_rng(2), river.LinearRegressor(retention=400, half_life=half_life, seed=0)
    stream = Stream(LinearRegression(2, half_life=half_life), retention=400, seed=0)
    for t, row in enumerate(rng.normal([1e9, 0.0, 0.0], 1.0, (700, 3)).tolist(), 1):
        model.learn_one({"a": row[0], "b": row[1]}, row[2])
        stream.push(row)
        if t in (1, 40, 200, 333, 601, 700):  # one ends a batch, and one is just after one
            model._fit = None
            fit = LinearRegression(2, half_life=half_life).fit(stream.clock, stream.retained)
            wanted = fit.means[2] + (np.array(row[:2]) - fit.means[:2]) @ fit.slopes[:, 0]
            assert model.predict_one({"a": row[0], "b": row[1]}) == pytest.approx(wanted, rel=1e-12)
            assert model._stream is not None
            assert model._stream.retained == stream.retained


@pytest.mark.parametrize("kind", [float, np.int64])
def test_a_fit_is_gone_with_the_records_that_it_rests_on(kind: Callable[[int], float]) -> None:
    """Whether examples wait, or are of a type that is pushed at once."""
    model, batches = river.LinearRegressor(retention=200, seed=0), 0
    for t in range(1, 1_001):
        last = model._stream.clock.last if model._stream is not None else 0
        model.learn_one({"a": kind(t % 7)}, kind(t % 3) if t % 4 else 1.0)
        assert model._stream is not None
        assert t - model._stream.clock.last < model._stream.batch
        if model._stream.clock.last != last:
            assert model._fit is None
            batches += 1
        model.predict_one({"a": 1.0})
        assert model._left <= 1 + t // 16
    assert batches >= 9


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), 2**63 + 1, "1", None], ids=str)
def test_an_example_that_is_refused_is_refused_at_once_and_loses_nothing(bad: Any) -> None:
    for model in (river.LinearRegressor(seed=0), river.LogisticClassifier(seed=0)):
        for i in range(20):
            model.learn_one({"a": i % 7, "b": 0.5}, i % 2 == 0)
        with pytest.raises(DataError):
            model.learn_one({"a": bad, "b": 1.0}, True)
        model.predict_one({"a": 1})
        assert model._stream is not None
        assert model._stream.t == 20
