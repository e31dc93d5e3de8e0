"""What estimates state as bounds, counts and standard errors, beside what numpy and fractions say of all records.

A trial is a policy, data of some shape, values that are missing in some pattern, a retention, and a way in which the
records come. `check` lists what the estimate states and whether it is true.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from vestige import (
    Bundle,
    Correlation,
    Count,
    Covariance,
    Distinct,
    Estimate,
    ExactHistogram,
    Extremes,
    Histogram,
    HistogramQuantiles,
    KeyedStreams,
    LinearRegression,
    Mean,
    Moments,
    Policy,
    Quantiles,
    Ratio,
    Shares,
    Stream,
    Sum,
    TopK,
    combine,
)
from vestige.errors import NoAnswerError, NoRecordsError
from vestige.store import MemoryStore
from vestige.stream import open_stream
from vestige.types import Bools, Floats

Draw = Callable[[np.random.Generator, int], Floats]
START = np.datetime64("2026-01-01", "us")


def _alternate(values: Floats) -> Floats:
    """Sorted values, dealt from both ends towards the middle."""
    ordered, dealt = np.sort(values), np.empty(len(values))
    dealt[0::2], dealt[1::2] = ordered[: -(-len(values) // 2)], ordered[::-1][: len(values) // 2]
    return dealt


SHAPES: dict[str, Draw] = {
    "normal": lambda rng, n: rng.normal(size=n),
    "sorted": lambda rng, n: np.sort(rng.normal(size=n)),
    "dealt from both ends": lambda rng, n: _alternate(rng.normal(size=n)),
    "at 1e6": lambda rng, n: 1e6 + rng.normal(size=n),
    "at -1e9": lambda rng, n: -1e9 + rng.normal(size=n),
    "at 1e13": lambda rng, n: 1e13 + rng.normal(size=n),
    "sorted at 1e9": lambda rng, n: 1e9 + np.sort(rng.normal(size=n)),
    "meter readings": lambda rng, n: 1e6 + np.cumsum(rng.exponential(size=n)),
    "one in 300": lambda rng, n: (rng.random(n) < 1.0 / 300.0).astype(np.float64),
    "rare and large": lambda rng, n: np.where(rng.random(n) < 0.003, rng.exponential(1e5, n), 0.0),
    "constant": lambda rng, n: np.full(n, 7.3),  # noqa: ARG005
    "constant, then not": lambda rng, n: np.where(np.arange(n) < n // 2, 1e7, 1e7 + rng.normal(size=n)),
    "whole": lambda rng, n: rng.poisson(5.0, n).astype(np.float64),
    "lognormal": lambda rng, n: rng.lognormal(0.0, 2.0, n),
    "Student-t(2)": lambda rng, n: rng.standard_t(2.0, n),
    "tiny": lambda rng, n: 1e-60 * rng.normal(3.0, 1.0, n),
    "two levels": lambda rng, n: np.where(np.arange(n) < n // 2, 0.0, 1e5) + rng.normal(size=n),
}
MISSING: dict[str, Callable[[np.random.Generator, int], Bools]] = {
    "none": lambda rng, n: np.zeros(n, np.bool_),  # noqa: ARG005
    "a third": lambda rng, n: rng.random(n) < 1.0 / 3.0,
    "nearly all": lambda rng, n: rng.random(n) < 0.99,
    "in blocks": lambda rng, n: np.arange(n) // 1_500 % 2 == 1,  # noqa: ARG005
    "in the end": lambda rng, n: np.arange(n) > n // 3,  # noqa: ARG005
}
WAYS = ("plain", "keyed", "requests", "requests at once", "deadlines", "reloaded", "combined")


class Check(NamedTuple):
    """One thing that an estimate states: what, whether it holds, and what it is beside the truth."""

    what: str
    holds: bool
    said: str


@dataclass(frozen=True)
class Trial:
    """What is tried."""

    policy: Policy[Any]
    shape: str
    missing: str
    share: float
    way: str
    seed: int
    records: int = 6_000

    @property
    def retention(self) -> int:
        """So many times the usual one, at least the smallest."""
        return max(2 * self.policy.min_batch, round(self.share * _usual(self.policy) / 2) * 2)

    def rows(self) -> Floats:
        """The records; a policy of several columns has the others depend on the first."""
        rng = np.random.default_rng([self.seed, zlib.crc32(f"{self.shape} {self.missing}".encode())])
        first = SHAPES[self.shape](rng, self.records)
        if isinstance(self.policy, Shares):
            return np.minimum(np.abs(np.floor(first)) % 8.0, len(self.policy.categories))[:, None]
        deviation = float(np.std(first))
        scale = deviation if deviation > 1e-9 * np.abs(first).max() else 1.0
        others = [first + scale * rng.normal(size=self.records) for _ in range(self.policy.columns - 1)]
        rows = np.column_stack([first, *others])
        if self.policy.takes_missing:
            for column in range(rows.shape[1]):
                rows[MISSING[self.missing](rng, self.records), column] = np.nan
        return rows

    def run(self) -> tuple[Estimate, Floats, Floats]:
        """The estimate, the records that it counts, and the weight of each.

        Raises:
            NoAnswerError: there is none.
        """
        rows = self.rows()
        estimate, counts = _RUNS[self.way](self, rows)
        counts[: estimate.since - 1] = False
        half_life, there = getattr(self.policy, "half_life", None), rows[counts]
        ages = np.arange(len(there))[::-1]
        return estimate, there, np.ones(len(there)) if half_life is None else 2.0 ** (-ages / half_life)

    def check(self) -> list[Check]:
        """What is stated."""
        try:
            estimate, rows, weights = self.run()
        except (NoAnswerError, NoRecordsError) as problem:
            return [Check("says why there is no answer", bool(str(problem)), str(problem))]
        return list(judge(self.policy, estimate, rows, weights))


def _usual(policy: Policy[Any]) -> int:
    return int(getattr(policy, "default_retention", 512))


def _run_plain(trial: Trial, rows: Floats) -> tuple[Estimate, Bools]:
    stream = Stream(trial.policy, retention=trial.retention, seed=trial.seed)
    stream.extend(rows)
    return stream.estimate(), np.ones(len(rows), np.bool_)


def _run_keyed(trial: Trial, rows: Floats) -> tuple[Estimate, Bools]:
    streams = KeyedStreams(trial.policy, retention=trial.retention, seed=trial.seed)
    for part in np.array_split(rows, 5):
        streams.extend(["here"] * len(part), part)
        streams.extend(["beside"] * 10, part[:10])
    return streams.estimate("here"), np.ones(len(rows), np.bool_)


def _run_requests(trial: Trial, rows: Floats, *, now: bool = False) -> tuple[Estimate, Bools]:
    """Again and again, up to 60% of those who came last ask to leave."""
    rng = np.random.default_rng([trial.seed, 1])
    stream = Stream(trial.policy, retention=trial.retention, seed=trial.seed)
    counts, batch = np.ones(len(rows), np.bool_), trial.retention // 2
    for start in range(0, len(rows), max(batch, len(rows) // 25)):
        part = rows[start : start + max(batch, len(rows) // 25)]
        stream.extend(part)
        share = rng.choice([0.0, 0.1, 0.3, 0.6])
        rounds = np.arange(max(stream.t - batch, 0) + 1, stream.t + 1)
        asked = rounds[rng.random(len(rounds)) < share]
        if not len(asked) or (now and rng.random() < 0.7):
            continue
        waiting, before, since = asked[asked > stream.clock.last], stream.counted, stream.clock.since
        stream.forget(rounds=asked, now=now)
        if now and (stream.counted < before or stream.clock.since > since):  # else the others say what they said
            counts[waiting - 1] = False
    return stream.estimate(), counts


def _run_requests_at_once(trial: Trial, rows: Floats) -> tuple[Estimate, Bools]:
    return _run_requests(trial, rows, now=True)


def _run_deadlines(trial: Trial, rows: Floats) -> tuple[Estimate, Bools]:
    """Records pause now and then for so long that batches are closed early; none is erased before an update."""
    rng = np.random.default_rng([trial.seed, 2])
    gaps = rng.exponential(1.0, len(rows))
    least = trial.policy.min_batch
    gaps[rng.random(len(rows)) < 0.3 / least] = 4.0 * least
    times = START + (1e6 * np.cumsum(gaps)).astype("timedelta64[us]")
    stream = Stream(trial.policy, retention=trial.retention, max_age=timedelta(seconds=12.0 * least), seed=trial.seed)
    stream.extend(rows, times=times)
    estimate = stream.estimate()
    counts = np.ones(len(rows), np.bool_)
    if stream.clock.gaps or stream.counted != len(rows) - estimate.since + 1:
        raise NoAnswerError("records were erased before an update: which of them is not known here")
    return estimate, counts


def _run_reloaded(trial: Trial, rows: Floats) -> tuple[Estimate, Bools]:
    store = MemoryStore()
    stream = Stream(trial.policy, retention=trial.retention, seed=trial.seed, store=store.stream("here"))
    for part in np.array_split(rows, 4):
        stream.extend(part)
        stream.flush()
        stream = open_stream(store, "here", seed=trial.seed)
    return stream.estimate(), np.ones(len(rows), np.bool_)


def _run_combined(trial: Trial, rows: Floats) -> tuple[Estimate, Bools]:
    parts = []
    for i, part in enumerate(np.split(rows, [len(rows) // 2, 5 * len(rows) // 6])):
        stream = Stream(trial.policy, retention=trial.retention, seed=trial.seed + i)
        stream.extend(part)
        parts.append(stream.estimate())
    return combine(parts), np.ones(len(rows), np.bool_)


_RUNS: dict[str, Callable[[Trial, Floats], tuple[Estimate, Bools]]] = {
    "plain": _run_plain,
    "keyed": _run_keyed,
    "requests": _run_requests,
    "requests at once": _run_requests_at_once,
    "deadlines": _run_deadlines,
    "reloaded": _run_reloaded,
    "combined": _run_combined,
}


def judge(policy: Any, estimate: Any, rows: Floats, weights: Floats) -> Iterator[Check]:
    """What an estimate states of records with weights."""
    yield Check("counted", estimate.counted == len(rows), f"{estimate.counted} of {len(rows)}")
    yield from _JUDGES[type(policy)](policy, estimate, rows, weights)


def _within(what: str, value: Any, truth: Any, most: Any) -> Check:
    off = np.abs(np.asarray(value, np.float64) - np.asarray(truth, np.float64))
    holds = bool(np.all(off <= np.asarray(most, np.float64)))
    return Check(what, holds, f"off by {np.max(off):.3g}, at most {np.max(most):.3g}")


def _sum_exactly(values: Floats) -> float:
    return float(sum(map(Fraction, values.tolist()), Fraction()))


def _centre(rows: Floats, weights: Floats) -> tuple[Floats, Floats]:
    """Weighted means, in long double about a record, and what is left; so that no digits are lost."""
    shares = (weights / weights.sum()).astype(np.longdouble)
    apart = (rows - rows[0]).astype(np.longdouble)
    apart_means = shares @ apart
    means = rows[0].astype(np.longdouble) + apart_means
    return np.asarray(means, np.float64), np.asarray(apart - apart_means, np.float64)


def _worth(weights: Floats) -> float:
    return float(weights.sum() ** 2 / (weights**2).sum())


_ALL = 1.0
"""What is neither noted nor marked is within so many standard errors of the answer from all records."""


def _in_errors(what: str, estimate: Estimate, value: Any, truth: Any, error: Any) -> Iterator[Check]:
    """Numbers that are not marked as off are within a standard error of those of all records, up to last digits."""
    last = 1e-9 * np.abs(np.asarray(truth, np.float64))
    most = _ALL * np.asarray(error, np.float64) + np.minimum(last, 4.0 * np.spacing(np.abs(truth)) + last * 1e-3)
    if estimate.missed or estimate.notes:
        return
    yield _within(what, value, truth, most)


def _judge_sum(policy: Sum, made: Any, rows: Floats, weights: Floats) -> Iterator[Check]:  # noqa: ARG001
    truth = np.array([_sum_exactly(column) for column in rows.T])
    last = np.spacing(np.abs(truth))
    if not made.missed:
        yield _within("total", made.value, truth, np.atleast_1d(made.encoding_error) + last)
        low, high = np.atleast_1d(made.lower), np.atleast_1d(made.upper)
        yield Check("bounds of the total", bool((low - last <= truth).all() and (truth <= high + last).all()), "")
    _, apart = _centre(rows, weights)
    yield from _in_errors(
        "standard error of the total",
        made,
        made.standard_error,
        np.sqrt((apart**2).sum(axis=0)),
        0.02 * np.sqrt((apart**2).sum(axis=0)) + made.encoding_error,
    )


def _judge_mean(policy: Mean, made: Any, rows: Floats, weights: Floats) -> Iterator[Check]:  # noqa: ARG001
    means, apart = _centre(rows, weights)
    deviations = np.sqrt(weights @ apart**2 / weights.sum())
    error = deviations / np.sqrt(_worth(weights))
    yield from _in_errors("mean", made, made.value, means, error)
    if made.standard_error is not None:
        yield from _in_errors("standard error of the mean", made, made.standard_error, error, 0.05 * error)


def _judge_bins(policy: Any, made: Any, rows: Floats, weights: Floats) -> Iterator[Check]:
    edges = policy.edges_between if hasattr(policy, "edges_between") else policy.edges
    places = np.searchsorted(np.array(edges), rows[:, 0], side="right")
    shares = np.bincount(places, weights, len(edges) + 1) / weights.sum()
    counts = np.bincount(places, minlength=len(edges) + 1)
    if made.missed:
        return
    yield _within("shares", made.value, shares, made.encoding_error + 1e-12)
    if made.counts is not None:
        yield _within("counts", made.counts, counts, math.floor(made.count_error + 0.5))


def _judge_quantiles(policy: Any, made: Any, rows: Floats, weights: Floats) -> Iterator[Check]:
    order = np.argsort(rows[:, 0], kind="stable")
    values, upto = rows[order, 0], np.cumsum(weights[order]) / weights.sum()
    if made.missed:
        return
    for p, value, low, high, error in zip(
        policy.probabilities, made.value, made.lower, made.upper, made.rank_error, strict=True
    ):
        truth = values[min(int(np.searchsorted(upto, p * (1.0 - 1e-12))), len(values) - 1)]
        yield Check(f"bounds of quantile {p}", bool(low <= truth <= high), f"{low} <= {truth} <= {high}")
        if np.isfinite(low) and np.isfinite(high):
            most = float(upto[max(int(np.searchsorted(values, value, "right")) - 1, 0)]) if value >= values[0] else 0.0
            below = int(np.searchsorted(values, value, "left"))
            least = float(upto[below - 1]) if below else 0.0
            off = max(least - p, p - most, 0.0)
            yield Check(
                f"rank of quantile {p}", off <= error + 1.0 / len(values), f"off by {off:.4f}, at most {error:.4f}"
            )


def _judge_top(policy: TopK, made: Any, rows: Floats, weights: Floats) -> Iterator[Check]:  # noqa: ARG001
    found, often = np.unique(rows[:, 0], return_counts=True)
    exact = dict(zip(found.tolist(), often.tolist(), strict=True))
    for value, low, high in zip(made.value.tolist(), made.lower, made.upper, strict=True):
        yield Check(
            "count of a value", bool(low <= exact.get(value, 0) <= high), f"{low} <= {exact.get(value, 0)} <= {high}"
        )
    rest = [count for value, count in exact.items() if value not in made.value.tolist()]
    yield Check("others", max(rest, default=0) <= made.others, f"{max(rest, default=0)} <= {made.others}")


def _judge_extremes(policy: Extremes, made: Any, rows: Floats, weights: Floats) -> Iterator[Check]:  # noqa: ARG001
    ends = np.array([rows.min(axis=0), rows.max(axis=0)])
    yield Check("extremes", bool((np.sort(np.ravel(made.value)) == np.sort(ends.ravel())).all()), f"{made.value}")


def _judge_distinct(policy: Distinct, made: Any, rows: Floats, weights: Floats) -> Iterator[Check]:  # noqa: ARG001
    count = len(np.unique(rows[:, 0]))
    yield Check(
        "six standard errors of the number of values",
        abs(made.value - count) <= 6.0 * made.standard_error + 0.5,
        f"{made.value} for {count}",
    )


def _judge_count(policy: Count, made: Any, rows: Floats, weights: Floats) -> Iterator[Check]:  # noqa: ARG001
    yield _within("count", made.value, len(rows), made.standard_error)


def _judge_ratio(policy: Ratio, made: Any, rows: Floats, weights: Floats) -> Iterator[Check]:  # noqa: ARG001
    (top, bottom), _ = _centre(rows, weights)
    truth = top / bottom
    left = rows[:, 0].astype(np.longdouble) - np.longdouble(truth) * rows[:, 1].astype(np.longdouble)
    error = float(np.sqrt(weights @ left**2 / weights.sum() / _worth(weights))) / abs(bottom)
    yield from _in_errors("ratio", made, made.value, truth, error)
    yield from _in_errors("standard error of the ratio", made, made.standard_error, error, 0.05 * error)


def _judge_moments(policy: Moments, made: Any, rows: Floats, weights: Floats) -> Iterator[Check]:  # noqa: ARG001
    means, apart = _centre(rows, weights)
    x, shares, worth = apart[:, 0], weights / weights.sum(), _worth(weights)
    variance = float(shares @ x**2)
    error = math.sqrt(variance / worth)
    yield from _in_errors("mean", made, made.mean, means[0], error)
    spread = math.sqrt(max(float(shares @ x**4) - variance**2, 0.0) / worth)
    yield from _in_errors("variance", made, made.variance, variance, spread)
    yield from _in_errors(
        "standard error of the mean",
        made,
        made.standard_error,
        error,
        0.05 * error + spread / max(2.0 * error * worth, 1e-300),
    )
    if made.variance_error is not None:
        yield from _in_errors("standard error of the variance", made, made.variance_error, spread, 0.2 * spread)


def _judge_covariance(policy: Covariance, made: Any, rows: Floats, weights: Floats) -> Iterator[Check]:  # noqa: ARG001
    means, apart = _centre(rows, weights)
    shares, worth = weights / weights.sum(), _worth(weights)
    matrix = (apart * shares[:, None]).T @ apart
    yield from _in_errors("means", made, made.mean, means, np.sqrt(matrix.diagonal() / worth))
    products = apart[:, :, None] * apart[:, None, :] - matrix
    spread = np.sqrt(np.tensordot(shares, products**2, 1) / worth)
    yield from _in_errors("covariances", made, made.value, matrix, spread)


def _judge_correlation(policy: Correlation, made: Any, rows: Floats, weights: Floats) -> Iterator[Check]:  # noqa: ARG001
    _, apart = _centre(rows, weights)
    scaled = apart / np.abs(apart).max(axis=0)
    matrix = (scaled * (weights / weights.sum())[:, None]).T @ scaled
    deviation = np.sqrt(matrix.diagonal())
    yield from _in_errors(
        "correlations", made, made.value, matrix / np.outer(deviation, deviation), made.standard_error
    )


def _judge_regression(policy: LinearRegression, made: Any, rows: Floats, weights: Floats) -> Iterator[Check]:
    means, apart = _centre(rows, weights)
    x, y, shares, worth = apart[:, : policy.dim], apart[:, policy.dim], weights / weights.sum(), _worth(weights)
    products = (x * shares[:, None]).T @ x
    slopes = np.linalg.solve(products, (x * shares[:, None]).T @ y)
    noise = float(shares @ (y - x @ slopes) ** 2) * worth / (worth - policy.dim - 1)
    inverse = np.linalg.inv(products)
    error = np.sqrt(noise * inverse.diagonal() / worth)
    yield from _in_errors("slopes", made, made.value, slopes, error)
    yield from _in_errors("standard errors of slopes", made, made.standard_errors, error, 0.05 * error)
    at = means[: policy.dim]
    of_intercept = math.sqrt(noise * (1.0 + at @ inverse @ at) / worth)
    yield from _in_errors("intercept", made, made.intercept, means[policy.dim] - at @ slopes, of_intercept)


def _judge_bundle(policy: Bundle, made: Any, rows: Floats, weights: Floats) -> Iterator[Check]:
    names = list(policy.column_names)
    for name, each in policy.policies.items():
        columns = next(c for c, policies in policy.groups if each in policies and name.startswith(",".join(c)))
        there = rows[:, [names.index(column) for column in columns]]
        present = ~np.isnan(there).any(axis=1)
        answer, count = made.answers[name], int(present.sum())
        if answer is None:
            continue
        if policy.half_life is None:
            error = made.count_errors[name]
            yield Check(
                f"{name}: counted",
                made.missed or abs(answer.counted - count) <= math.floor(error + 0.5),
                f"{answer.counted} of {count}, off by at most {error:.3g}",
            )
        if count > 1 and not answer.missed:
            for check in _JUDGES[type(each)](each, answer, there[present], weights[present]):
                yield check._replace(what=f"{name}: {check.what}")


_JUDGES: dict[type, Callable[[Any, Any, Floats, Floats], Iterator[Check]]] = {
    Sum: _judge_sum,
    Mean: _judge_mean,
    Histogram: _judge_bins,
    Shares: _judge_bins,
    ExactHistogram: _judge_bins,
    Quantiles: _judge_quantiles,
    HistogramQuantiles: _judge_quantiles,
    TopK: _judge_top,
    Extremes: _judge_extremes,
    Distinct: _judge_distinct,
    Count: _judge_count,
    Ratio: _judge_ratio,
    Moments: _judge_moments,
    Covariance: _judge_covariance,
    Correlation: _judge_correlation,
    LinearRegression: _judge_regression,
    Bundle: _judge_bundle,
}

AVERAGES: dict[str, Policy[Any]] = {
    "sum": Sum(),
    "sums": Sum(3),
    "mean": Mean(),
    "mean with spread": Mean(spread=True),
    "mean with half-life": Mean(spread=True, half_life=700.0),
    "histogram": Histogram((-1.0, 0.0, 1.0, 100.0)),
    "histogram with half-life": Histogram((-1.0, 0.0, 1.0), half_life=700.0),
    "shares": Shares(("a", "b", "c")),
    "histogram quantiles": HistogramQuantiles(tuple(np.linspace(-3.0, 3.0, 13)), (0.1, 0.5, 0.9)),
    "moments": Moments(4),
    "moments with half-life": Moments(2, half_life=700.0),
    "ratio": Ratio(),
    "covariance": Covariance(2),
    "correlation": Correlation(2),
    "regression": LinearRegression(1),
    "bundle of sum and mean": Bundle({"a": Sum(), "b": Mean()}),
    "bundle": Bundle({"a": [Mean(), Sum(), Count()], "b": [Moments(2), Histogram((0.0, 1.0))], ("a", "b"): Ratio()}),
}
EXACT: dict[str, Policy[Any]] = {
    "exact histogram": ExactHistogram((-1.0, 0.0, 1.0)),
    "quantiles": Quantiles((0.01, 0.1, 0.5, 0.9, 0.99), size=20),
    "top": TopK(5, counters=20),
    "extremes": Extremes(),
    "distinct": Distinct(64),
    "bundle of sketches": Bundle({"a": [Sum(), Quantiles((0.1, 0.5), size=10)], "b": [Extremes(), Count()]}),
}


def list_trials(names: Sequence[str], shapes: Sequence[str], seed: int, count: int) -> Iterator[Trial]:
    """Random trials, of each policy as many as of the others."""
    rng, policies = np.random.default_rng([seed, 3]), AVERAGES | EXACT
    for i in range(count):
        name = names[i % len(names)]
        policy, way = policies[name], str(rng.choice(WAYS))
        if way == "combined" and getattr(policy, "half_life", None) is not None:
            way = "plain"
        missing = str(rng.choice(list(MISSING))) if policy.takes_missing else "none"
        share = float(rng.choice([0.0, 1.0 / 3.0, 1.0, 2.0]))
        yield Trial(policy, str(rng.choice(list(shapes))), missing, share, way, seed * 1_000 + i)
