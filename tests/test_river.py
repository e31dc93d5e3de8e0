"""The river adapters pass river's own checks and agree with their streams."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from river import checks, compose, datasets, evaluate, metrics, preprocessing, stats

from vestige import river
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
