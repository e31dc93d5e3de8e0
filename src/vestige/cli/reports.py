"""What the command prints: for each statistic a policy, a table as statisticians know it, and plain facts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from vestige.errors import ParameterError
from vestige.policies import Covariance, Encoded, LinearRegression, LogisticRegression, Mean, Moments
from vestige.policies.moments import MomentsAnswer
from vestige.stream import Estimate

Names = Sequence[str]


@dataclass(frozen=True, slots=True)
class Report:
    """An estimate, to be printed.

    Attributes:
        name: what it is, such as `mean`; `entitle` makes a title of it.
        header: the columns of the table.
        rows: its rows: a label, then numbers.
        facts: the same for machines.
        remarks: what stands below the table.
    """

    name: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    facts: dict[str, object]
    remarks: tuple[str, ...] = ()


def entitle(name: str, *, all_time: bool) -> str:
    """A title that says "all-time" only of a statistic that is one.

    >>> entitle("mean", all_time=True), entitle("mean", all_time=False)
    ('All-time mean', 'Mean')
    """
    return f"All-time {name}" if all_time else name[:1].upper() + name[1:]


@dataclass(frozen=True, slots=True)
class Statistic:
    """One of the statistics that the command knows.

    Attributes:
        policy: from columns, targets, channel and half-life to what keeps it.
        report: from an estimate, columns and targets to what is printed.
    """

    policy: Callable[[Names, Names, str, float | None], Encoded]
    report: Callable[[Estimate, Names, Names], Report]


def _number(value: float) -> str:
    return f"{value:.10g}"


def _no_target(statistic: str, targets: Names) -> None:
    if targets:
        raise ParameterError(f"--target {targets[0]} has no use for --statistic {statistic}; leave it out")


def _some_target(statistic: str, targets: Names, most: int | None) -> None:
    if not targets or (most is not None and len(targets) > most):
        count = "one --target" if most == 1 else "at least one --target"
        raise ParameterError(f"--statistic {statistic} has {len(targets)} targets; give {count}, the column to explain")


def _mean_policy(columns: Names, targets: Names, channel: str, half_life: float | None) -> Encoded:
    _no_target("mean", targets)
    return Mean(dim=len(columns), channel=channel, half_life=half_life)


def _mean_report(estimate: Estimate, columns: Names, _: Names) -> Report:
    means = np.atleast_1d(estimate.value).tolist()
    rows = tuple((name, _number(value)) for name, value in zip(columns, means, strict=True))
    return Report("mean", ("column", "mean"), rows, {"value": dict(zip(columns, means, strict=True))})


def _moments_policy(columns: Names, targets: Names, channel: str, half_life: float | None) -> Encoded:
    _no_target("moments", targets)
    _only_bits("moments", channel)
    if len(columns) != 1:
        raise ParameterError(f"--statistic moments takes one --column, not {len(columns)}; run it for each")
    return Moments(half_life=half_life)


def _moments_report(estimate: Estimate, columns: Names, _: Names) -> Report:
    facts = {
        "mean": estimate.mean,
        "standard_error": estimate.standard_error,
        "variance": estimate.variance,
        "standard_deviation": float(np.sqrt(estimate.variance)),
        "skewness": estimate.skewness,
        "kurtosis": estimate.kurtosis,
    }
    known = {name: None if np.isnan(value) else value for name, value in facts.items()}
    rows = tuple((name.replace("_", " "), _number(value)) for name, value in facts.items())
    remarks = ("kurtosis: 3 for normal data; variance: divided by n.",)
    return Report("moments", ("moment", columns[0]), rows, {"value": known}, remarks)


def _covariance_policy(columns: Names, targets: Names, channel: str, half_life: float | None) -> Encoded:
    _no_target("covariance", targets)
    _only_bits("covariance", channel)
    return Covariance(len(columns), half_life=half_life)


def _covariance_report(estimate: Estimate, columns: Names, _: Names) -> Report:
    matrix = np.asarray(estimate.value)
    rows = tuple(
        (name, _number(mean), *(_number(value) for value in row))
        for name, mean, row in zip(columns, estimate.mean, matrix, strict=True)
    )
    correlation = [[None if np.isnan(value) else value for value in row] for row in estimate.correlation.tolist()]
    facts = {"columns": list(columns), "value": matrix.tolist(), "correlation": correlation}
    return Report(
        "covariances",
        ("column", "mean", *columns),
        rows,
        {**facts, "mean": estimate.mean.tolist()},
        ("covariances: divided by n.",),
    )


def _regression_policy(columns: Names, targets: Names, channel: str, half_life: float | None) -> Encoded:
    _some_target("regression", targets, None)
    _only_bits("regression", channel)
    return LinearRegression(len(columns), outputs=len(targets), half_life=half_life)


def _regression_report(estimate: Estimate, columns: Names, targets: Names) -> Report:
    slopes, errors = np.atleast_2d(estimate.value), np.atleast_2d(estimate.standard_errors)
    offsets, offset_errors = np.atleast_1d(estimate.intercept), np.atleast_1d(estimate.intercept_error)
    rows: list[tuple[str, ...]] = []
    facts: dict[str, object] = {}
    for k, target in enumerate(targets):
        terms = ["(intercept)", *columns]
        values = [offsets[k], *slopes[k]]
        spreads = [offset_errors[k], *errors[k]]
        for term, value, spread in zip(terms, values, spreads, strict=True):
            t = value / spread if spread > 0.0 else np.nan
            rows.append((target, term, _number(value), _number(spread), f"{t:.2f}"))
        facts[target] = {
            "coefficients": dict(zip(terms, map(float, values), strict=True)),
            "standard_errors": dict(zip(terms, map(float, spreads), strict=True)),
            "noise": float(np.atleast_1d(estimate.noise)[k]),
        }
    noise = ", ".join(_number(float(np.sqrt(value))) for value in np.atleast_1d(estimate.noise))
    remarks = (f"Residual standard error: {noise}. Condition number of the predictors: {estimate.condition:.3g}.",)
    header = ("target", "term", "coefficient", "standard error", "t value")
    whole = {"value": facts, "condition": estimate.condition}
    return Report("least squares", header, tuple(rows), whole, remarks)


def _logistic_policy(columns: Names, targets: Names, channel: str, half_life: float | None) -> Encoded:
    _some_target("logistic", targets, 1)
    _only_bits("logistic", channel)
    return LogisticRegression(len(columns), half_life=half_life)


def _logistic_report(estimate: Estimate, columns: Names, targets: Names) -> Report:
    terms = dict(
        zip(["(intercept)", *columns], [estimate.intercept, *np.asarray(estimate.value).tolist()], strict=True)
    )
    rows = tuple((term, _number(value), f"{np.exp(min(value, 700.0)):.6g}") for term, value in terms.items())
    header = ("term", "coefficient", "odds ratio")
    return Report(f"logistic regression of {targets[0]} = 1", header, rows, {"value": terms})


def _only_bits(statistic: str, channel: str) -> None:
    if channel == "average":
        raise ParameterError(f"--channel average cannot hold --statistic {statistic}; use --channel bits or auto")


_MOMENTS = ("mean", "variance", "skewness", "kurtosis")


def plain_report(estimate: Estimate, columns: Names, targets: Names) -> Report:  # noqa: ARG001
    """For a statistic that the command does not know."""
    values = np.ravel(estimate.value).tolist()
    of_moments = isinstance(estimate.details, MomentsAnswer)
    labels = _MOMENTS if of_moments else tuple(f"{i + 1}" for i in range(len(values)))
    rows = tuple((label, _number(value)) for label, value in zip(labels, values, strict=False))
    return Report(
        "answer",
        ("moment" if of_moments else "value", "estimate"),
        rows,
        {"value": np.asarray(estimate.value).tolist()},
    )


STATISTICS = {
    "mean": Statistic(_mean_policy, _mean_report),
    "moments": Statistic(_moments_policy, _moments_report),
    "covariance": Statistic(_covariance_policy, _covariance_report),
    "regression": Statistic(_regression_policy, _regression_report),
    "logistic": Statistic(_logistic_policy, _logistic_report),
}
