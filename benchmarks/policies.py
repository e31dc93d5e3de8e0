"""Records per second and records retained for each policy, beside river's counterpart, which may keep state."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from timing import Row, choose, time_alternately
from vestige import Covariance, LinearRegression, LogisticRegression, Mean, Moments, Stream
from vestige.policies import Encoded
from vestige.types import Floats

RECORDS, SCORED = choose(50_000, 3_000), choose(20_000, 3_000)


def rows() -> list[Row]:
    """Compare each policy on the same rows, by `extend`, on one core."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(RECORDS, 3))
    y = x @ [1.0, 2.0, 3.0] + rng.normal(size=RECORDS)
    regression, classes = np.column_stack([x, y]), np.column_stack([x, y > 0.0])
    if importlib.util.find_spec("river") is None:
        return [Row("all", "", "river: not installed", None, 1.0)]
    cases: list[tuple[Encoded, int, Floats, str, Callable[[Floats], None]]] = [
        (Mean(), 96, x[:, :1], "stats.Mean", _run_mean),
        (Mean(spread=True), 192, x[:, :1], "stats.Mean and Var", _run_spread),
        (Moments(), 512, x[:, :1], "stats.Mean, Var, Skew, Kurtosis", _run_moments),
        (Covariance(3), 1024, x, "covariance.EmpiricalCovariance", _run_covariance),
        (LinearRegression(3), 1024, regression, "linear_model.LinearRegression", _run_linear),
        (LogisticRegression(3), 512, classes, "linear_model.LogisticRegression", _run_logistic),
    ]
    results = []
    for policy, retention, table, peer, theirs in cases:
        taken, their_time, ratio = time_alternately(
            partial(_run_stream, policy, retention, table), partial(theirs, table), repeats=3
        )
        stream = _run_stream(policy, retention, table)
        ours = f"{RECORDS / taken:,.0f} records/s, {len(stream.retained)} of {retention} held"
        results.append(Row(str(type(policy).__name__), ours, f"river {peer}: {RECORDS / their_time:,.0f}", ratio, 0.0))
    return [*results, *_score_models(regression, classes)]


def _score_models(regression: Floats, classes: Floats) -> list[Row]:
    """Compare models in river's own loop, which predicts each example before it learns it, behind a scaler."""
    from river import linear_model  # noqa: PLC0415

    from vestige.river import LinearRegressor, LogisticClassifier  # noqa: PLC0415

    results = []
    for ours, theirs, table, kind in (
        (LinearRegressor, linear_model.LinearRegression, regression, float),
        (LogisticClassifier, linear_model.LogisticRegression, classes, bool),
    ):
        rows = table[:SCORED]
        examples = list(zip(_to_examples(rows[:, :-1]), map(kind, rows[:, -1].tolist()), strict=True))
        taken, their_time, ratio = time_alternately(
            partial(_score, ours, examples), partial(_score, theirs, examples), repeats=3
        )
        each = [f"{1e6 * seconds / SCORED:.0f} us an example" for seconds in (taken, their_time)]
        results.append(Row(f"progressive_val_score, {ours.__name__}", each[0], f"river: {each[1]}", ratio, 1.0 / 3.0))
    return results


def _score(make: Callable[[], Any], examples: list[tuple[Any, float]]) -> None:
    from river import evaluate, metrics, preprocessing  # noqa: PLC0415

    metric: Any = (metrics.LogLoss if isinstance(examples[0][1], bool) else metrics.MSE)()
    evaluate.progressive_val_score(examples, preprocessing.StandardScaler() | make(), metric)


def _run_stream(policy: Encoded, retention: int, table: Floats) -> Stream:
    stream = Stream(policy, retention=retention, seed=0)
    stream.extend(table)
    return stream


def _run_statistics(statistics: list[Any], table: Floats) -> None:
    for value in table[:, 0].tolist():
        for statistic in statistics:
            statistic.update(value)


def _run_mean(table: Floats) -> None:
    from river import stats  # noqa: PLC0415

    _run_statistics([stats.Mean()], table)


def _run_spread(table: Floats) -> None:
    from river import stats  # noqa: PLC0415

    _run_statistics([stats.Mean(), stats.Var()], table)


def _run_moments(table: Floats) -> None:
    from river import stats  # noqa: PLC0415

    _run_statistics([stats.Mean(), stats.Var(), stats.Skew(), stats.Kurtosis()], table)


def _to_examples(table: Floats) -> list[dict[int, float]]:
    return [dict(enumerate(row)) for row in table.tolist()]


def _run_covariance(table: Floats) -> None:
    from river import covariance  # noqa: PLC0415

    matrix = covariance.EmpiricalCovariance()  # type: ignore[no-untyped-call]
    for example in _to_examples(table):
        matrix.update(example)


def _run_model(model: Any, table: Floats) -> None:
    for example, label in zip(_to_examples(table[:, :-1]), table[:, -1].tolist(), strict=True):
        model.learn_one(example, label)


def _run_linear(table: Floats) -> None:
    from river import linear_model  # noqa: PLC0415

    _run_model(linear_model.LinearRegression(), table)


def _run_logistic(table: Floats) -> None:
    from river import linear_model  # noqa: PLC0415

    _run_model(linear_model.LogisticRegression(), table)
