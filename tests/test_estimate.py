"""Estimates in other programs: dictionaries and rows are valid JSON, whatever the statistic, and lose no number."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pandas as pd
import pytest

from vestige import (
    Bundle,
    Covariance,
    Estimate,
    LinearRegression,
    LogisticRegression,
    Mean,
    Memory,
    Moments,
    Policy,
    Quantiles,
    Stream,
    TopK,
    Window,
)
from vestige.types import Floats

RNG = np.random.default_rng(0)
COUNTS = ["since", "counted", "held", "t", "as_of"]
ROW = ["metric", "value", "standard_error", "lower", "upper", *COUNTS, "missed", "notes"]


def count_rows(state: bytes, rows: Floats) -> bytes:
    return (int.from_bytes(state, "little") + len(rows)).to_bytes(2, "little")


def read_count(state: bytes) -> int:
    return int.from_bytes(state, "little")


def answer(policy: Policy, rows: Any, retention: int = 512) -> Estimate:
    stream = Stream(policy, retention=retention, seed=0)
    stream.extend(rows)
    return stream.estimate()


def by_metric(estimate: Estimate) -> dict[str, tuple[float | None, float | None]]:
    return {row["metric"]: (row["value"], row["standard_error"]) for row in estimate.to_rows()}


def test_what_is_not_finite_is_none_and_bytes_are_hexadecimal() -> None:
    constant = answer(Moments(), np.full(600, 3.0))
    assert constant.to_dict()["skewness"] is None
    assert np.isnan(constant.skewness)  # type: ignore[attr-defined]
    counted = answer(Memory(16, count_rows, read_count), np.zeros(600))
    assert counted.to_dict()["state"] == (600).to_bytes(2, "little").hex()
    assert counted.to_rows()[0]["standard_error"] is None


def test_a_bundle_has_the_rows_of_its_answers() -> None:
    rows = np.column_stack([RNG.normal(5.0, 2.0, 900), np.full(900, np.nan)])
    estimate = answer(Bundle({"amount": Mean(), "rating": Mean()}), rows, 1_024)
    facts = json.loads(json.dumps(estimate.to_dict(), allow_nan=False))
    assert facts["answers"]["rating:mean"] is None
    assert facts["answers"]["amount:mean"]["column_names"] == ["amount"]
    made = by_metric(estimate)
    assert list(made) == ["amount:mean", "rating:mean"]
    assert made["rating:mean"] == (None, None)
    assert made["amount:mean"][1] == pytest.approx(2.0 / 30.0, rel=0.1)
    assert [row["counted"] for row in estimate.to_rows()] == [900, 0]
    assert estimate.to_pandas()["counted"].tolist() == [900, 0]


def test_types_are_those_of_json() -> None:
    facts = Estimate(np.float64(1.5), t=np.int64(3), missed=np.bool_(True)).to_dict()  # type: ignore[arg-type]
    assert [type(facts[name]) for name in ("value", "t", "missed", "notes")] == [float, int, bool, list]


def test_errors_belong_to_their_numbers() -> None:
    rows = RNG.normal(5.0, 2.0, 4_000)
    mean = answer(Mean(spread=True), pd.Series(rows, name="delay"))
    assert by_metric(mean)["delay"] == pytest.approx((mean.value, 2.0 / np.sqrt(4_000)), rel=0.1)
    moments = by_metric(answer(Moments(), rows))
    assert [moments[name][1] is None for name in ("mean", "variance", "skewness", "kurtosis")] == [
        False,
        False,
        True,
        True,
    ]
    assert moments["variance"][1] == pytest.approx(4.0 * np.sqrt(2.0 / 4_000), rel=0.2)
    frame = pd.DataFrame({"a": rows, "b": -rows})
    covariance = by_metric(answer(Covariance(2), frame))
    assert list(covariance) == ["mean of a", "mean of b", "a with a", "a with b", "b with a", "b with b"]
    assert covariance["mean of a"][1] == pytest.approx(2.0 / np.sqrt(4_000), rel=0.1)
    assert covariance["a with b"][1] is None
    assert by_metric(answer(Covariance(1), rows))["1"][1] is None, "not that of the mean"


def test_a_sketch_has_its_bounds() -> None:
    rows = RNG.permutation(np.repeat(np.arange(4.0), [400, 300, 200, 100]))
    (count, *_) = answer(TopK(1), rows, TopK(1).default_retention).to_rows()
    assert (count["metric"], count["value"], count["lower"], count["upper"]) == ("records of 0", 400.0, 400.0, 400.0)
    (median,) = answer(Quantiles((0.5,)), rows, Quantiles((0.5,)).default_retention).to_rows()
    assert (median["metric"], median["standard_error"]) == ("p50", None)
    assert median["lower"] <= median["value"] <= median["upper"]
    assert 'scope="col">upper<' in answer(TopK(1), rows, TopK(1).default_retention)._repr_html_()


def test_a_fit_has_its_intercepts() -> None:
    x = RNG.normal(size=(4_000, 2))
    y = x @ [2.0, -1.0] + 3.0 + RNG.normal(size=4_000)
    frame = pd.DataFrame({"x1": x[:, 0], "x2": x[:, 1], "y": y})
    fit = answer(LinearRegression(2), frame, 1_024)
    metrics = by_metric(fit)
    assert list(metrics) == ["y by (intercept)", "y by x1", "y by x2"]
    assert metrics["y by (intercept)"] == (fit.intercept, fit.intercept_error)  # type: ignore[attr-defined]
    assert metrics["y by x2"] == (fit.value[1], fit.standard_errors[1])  # type: ignore[attr-defined,index]
    unnamed = by_metric(answer(LinearRegression(2), frame.to_numpy(), 1_024))
    assert list(unnamed) == ["1 by (intercept)", "1", "2"]
    classes = answer(LogisticRegression(1), pd.DataFrame({"x": x[:, 0], "late": y > 3.0}), 1_024)
    assert list(by_metric(classes)) == ["(intercept)", "x"]
    assert by_metric(classes)["x"] == (classes.value[0], classes.standard_errors[0])  # type: ignore[attr-defined,index]


def test_a_data_frame_has_types() -> None:
    estimate = answer(Window(Mean(2)), pd.DataFrame({"a": [1.0, 2.0], "b": [3.0, 4.0]}))
    frame = estimate.to_pandas()
    assert frame.columns.tolist() == ROW
    assert frame["metric"].tolist() == ["a", "b"]
    assert frame["value"].tolist() == [1.5, 3.5]
    assert [frame[name].dtype.kind for name in ("value", "standard_error", "t", "missed")] == ["f", "f", "i", "b"]
    assert frame["notes"].isna().all()


def test_a_notebook_shows_a_table_without_markup_from_names() -> None:
    estimate = answer(Mean(), pd.Series([1.0, 2.0], name="<script>"))
    shown = estimate._repr_html_()
    assert "&lt;script&gt;" in shown
    assert "<script>" not in shown
    assert "<td>1.5</td>" in shown
    many = answer(Mean(30), np.ones((3, 30)), 4_096)._repr_html_()
    assert many.count('<th scope="row">') == 20
    assert "10 more numbers." in many
