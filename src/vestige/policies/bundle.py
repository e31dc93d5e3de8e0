"""Several statistics of the same records, each of columns of its own, in one word.

A value that is missing in one column leaves the statistics of the other columns alone: what is kept of each group of
columns is the share of the records that have its values, and the statistics of those (`vestige.statistics.present`).
Guarantee: each answer is that of the records that have its columns, over all data; held by
tests/policies/test_bundle.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any

import numpy as np

from vestige import statistics
from vestige.clock import Clock
from vestige.errors import NoAnswerError, ParameterError
from vestige.estimate import Estimate
from vestige.policies.base import Encoded, check_half_life
from vestige.policies.count import Count, CountEstimate
from vestige.policies.mean import Mean
from vestige.policies.named_policy import NamedPolicy
from vestige.policies.report import Report, format_number
from vestige.policies.rounding import bound_rounding
from vestige.policies.sum import SumEstimate
from vestige.policy import count_waiting
from vestige.records import Records
from vestige.types import Floats
from vestige.validation import show_value

_EXACT_COUNT = 0.5
"""A count that is off by less is exact when it is rounded."""
Columns = tuple[str, ...]
Group = tuple[Columns, tuple[NamedPolicy, ...]]
"""Columns, and the policies that answer of them."""
Metrics = Mapping[str | Columns, NamedPolicy | Sequence[NamedPolicy]]


@dataclass(frozen=True, eq=False)
class BundleEstimate(Estimate):
    """The answers of several statistics.

    Attributes:
        value: the numbers of all answers, one after the other.
        answers: the answer of each metric by its name, such as `amount:mean`; None where no record has its columns, or
            its numbers do not determine an answer.
        shares: the share of the records that have the values of each group of columns, by the names of these.

    Example:
        >>> BundleEstimate(np.array([1.5]), {"amount:mean": Estimate(1.5)})["amount:mean"].value
        1.5
    """

    answers: Mapping[str, Estimate | None] = field(default_factory=dict)
    shares: Mapping[str, float] = field(default_factory=dict)

    def __getitem__(self, metric: str) -> Estimate:
        answer = self.answers.get(metric)
        if answer is not None:
            return answer
        if metric in self.answers:
            raise NoAnswerError(f"metric {metric!r} has no answer yet: no record has its columns, or too few do")
        raise ParameterError(f"metric {metric!r} is unknown; use one of {', '.join(self.answers)}")

    def __iter__(self) -> Iterator[str]:
        return iter(self.answers)

    def to_rows(self) -> list[dict[str, Any]]:
        """Convert each answer to rows of its own, with the number of records that it counts; see `Estimate.to_rows`."""
        whole = replace(Estimate(np.nan), t=self.t, since=self.since, held=self.held, missed=self.missed)
        rows = []
        for name, answer in self.answers.items():
            made = (answer or whole).to_rows()
            alone = len(made) == 1
            rows += [{**row, "metric": name if alone else f"{name} {row['metric']}"} for row in made]
        return rows


@dataclass(frozen=True)
class Bundle(Encoded[BundleEstimate]):
    """Several statistics of the same records, in one stream: one pass, one store, one record.

    A record is one row with a value for each column, nan where it is missing; the columns are in the order in which
    they are named first. A mean is kept with its variance, so that each answer has its standard error. How many records
    have a column is kept as their share, so that counts and totals of columns with missing values are rounded too;
    after requests for much of a batch, a count is certain only to half of its own standard error.

    Args:
        metrics: the statistics of each column, or of several columns together: a policy or several, such as `Mean()`,
            `Moments()` or, for `("distance", "air_time")`, `LinearRegression()`.
        half_life: after this number of records, a record counts half as much; for streams that drift.

    Raises:
        ParameterError: there is no metric, one is there twice, or cannot be part of a bundle.

    Example:
        >>> from vestige import Moments, Stream
        >>> policy = Bundle({"amount": Mean(), "rating": Moments(2)})
        >>> stream = Stream(policy, retention=policy.default_retention, seed=0)
        >>> rows = np.random.default_rng(0).normal([30.0, 3.0], [9.0, 1.0], (10_000, 2))
        >>> rows[rows[:, 1] < 2.0, 1] = np.nan  # no rating
        >>> _ = stream.extend(rows)
        >>> estimate = stream.estimate()
        >>> abs(estimate["amount:mean"].value - rows[:, 0].mean()) < 1e-6
        np.True_
        >>> estimate["rating:moments"].counted, int(np.isfinite(rows[:, 1]).sum())
        (8430, 8430)
    """

    metrics: Metrics
    half_life: float | None = None

    def __post_init__(self) -> None:
        check_half_life(self.half_life)
        groups: dict[Columns, list[NamedPolicy]] = {}
        for names, policies in _list_groups(self.metrics):
            groups.setdefault(names, []).extend(_check_metric(names, policy, self.half_life) for policy in policies)
        object.__setattr__(self, "metrics", tuple((names, tuple(policies)) for names, policies in groups.items()))
        listed = [name for name, *_ in self._list_metrics()]
        if not listed:
            raise ParameterError("metrics is empty; name a column and its statistic, such as {'amount': Mean()}")
        twice = next((name for name in listed if listed.count(name) > 1), None)
        if twice is not None:
            raise ParameterError(f"metric {twice!r} is given twice; name each statistic of a column once")

    @property
    def groups(self) -> tuple[Group, ...]:
        """The metrics by their columns."""
        return self.metrics  # type: ignore[return-value]  # see __post_init__

    @cached_property
    def column_names(self) -> Columns:
        """The names of the columns of a record, in their order."""
        return tuple(dict.fromkeys(name for names, _ in self.groups for name in names))

    @property
    def columns(self) -> int:
        """The number of columns."""
        return len(self.column_names)

    @cached_property
    def statistic(self) -> statistics.Joint:
        """The share of the records that have each group of columns, and the numbers of its different statistics."""
        return statistics.Joint(
            tuple(
                (
                    tuple(self.column_names.index(name) for name in names),
                    statistics.Present(_join(policies)),
                )
                for names, policies in self.groups
            )
        )

    @property
    def takes_missing(self) -> bool:
        """Whether a value may be missing: it may."""
        return True

    @property
    def max_magnitude(self) -> float:
        """The largest value that all metrics can take."""
        return min(policy.max_magnitude for _, _, policy, _ in self._list_metrics())

    def check_rows(self, rows: Floats) -> None:
        """Refuse the rows that a metric refuses; see `Policy.check_rows`."""
        for _, names, policy, _ in self._list_metrics():
            policy.check_rows(rows[:, [self.column_names.index(name) for name in names]])

    def name_categories(self, columns: Sequence[str] = ()) -> dict[str, tuple[str, ...]]:  # noqa: ARG002
        """Name the categories of the columns that are read as text; see `NamedPolicy.name_categories`.

        Args:
            columns: not needed, since the columns have names.

        Returns:
            the names of the categories by column.

        Raises:
            ParameterError: a column of categories has a statistic of numbers too.

        Example:
            >>> from vestige import Shares
            >>> Bundle({"amount": Mean(), "status": Shares(("ok", "failed"))}).name_categories()
            {'status': ('ok', 'failed')}
        """
        found: dict[str, tuple[str, ...]] = {}
        for _, names, policy, _ in self._list_metrics():
            found |= policy.name_categories(names)
        for name, names, policy, _ in self._list_metrics():
            numeric = not policy.name_categories(names) and not isinstance(policy, Count)
            if numeric and not found.keys().isdisjoint(names):
                raise ParameterError(
                    f"metric {name!r} is of numbers, but shares reads the column as text; leave one of them out, or "
                    "use histogram for shares of numbers"
                )
        return found

    def draw_rows(self, rng: np.random.Generator, count: int, mean: float) -> Floats:
        """Draw records to plan with: normal, but for columns of categories; see `NamedPolicy.draw_rows`."""
        rows = super().draw_rows(rng, count, mean)
        for _, names, policy, _ in self._list_metrics():
            if policy.name_categories(names):
                rows[:, [self.column_names.index(name) for name in names]] = policy.draw_rows(rng, count, mean)
        return rows

    def labels(self, columns: Sequence[str]) -> tuple[str, ...]:  # noqa: ARG002
        """Name the numbers of all answers; see `Encoded.labels`."""
        found = ((name, policy.labels(names)) for name, names, policy, _ in self._list_metrics())
        return tuple(name if len(labels) == 1 else f"{name} {label}" for name, labels in found for label in labels)

    def report(self, estimate: BundleEstimate, columns: Sequence[str]) -> Report:  # noqa: ARG002
        """Make a table with one row for each number; see `Encoded.report`."""
        facts: dict[str, object] = {}
        for name, names, policy, _ in self._list_metrics():
            answer = estimate.answers[name]
            facts[name] = answer and {**policy.report(answer, names).facts, "counted": answer.counted}
        rows = tuple(
            (
                row["metric"],
                "no answer" if row["value"] is None else format_number(row["value"]),
                "" if row["standard_error"] is None else format_number(row["standard_error"]),
                f"{row['counted']:,}",
            )
            for row in estimate.to_rows()
        )
        header = ("metric", "value", "standard error", "of records")
        return Report("statistics", header, rows, {"value": facts, "shares": dict(estimate.shares)})

    def conclude(self, numbers: Floats, worth: float, rounding: float) -> BundleEstimate:
        """Conclude each answer from the records that have its columns; see `Encoded.conclude`."""
        answers: dict[str, Estimate | None] = {}
        shares: dict[str, float] = {}
        for (names, policies), here in zip(self.groups, self.statistic.places, strict=True):
            share = shares[",".join(names)] = min(max(float(numbers[here.start]), 0.0), 1.0)
            counted = share * worth if self.half_life is not None else float(round(share * worth))
            for policy, place in zip(policies, _find_places(policies), strict=True):
                name, inner = _name_metric(names, policy), numbers[here.start + 1 : here.stop][place]
                aged = policy if self.half_life is None else replace(policy, half_life=self.half_life)  # type: ignore[type-var]
                answers[name] = _conclude(aged, inner, counted, rounding, _find_count_error(share, worth, rounding))
        known = [np.ravel(answer.value) for answer in answers.values() if answer is not None]
        return BundleEstimate(np.concatenate(known) if known else np.empty(0), answers, shares)

    def answer(self, clock: Clock, retained: Records) -> BundleEstimate:
        """Answer with all statistics; each says how many records it counts."""
        made = super().answer(clock, retained)
        counted = clock.encoded + count_waiting(clock, retained)
        answers = dict(made.answers)
        for name, names, policy, _ in self._list_metrics():
            part = answers[name]
            if part is not None:
                answers[name] = replace(
                    part,
                    notes=part.notes + made.notes,
                    missed=part.missed or made.missed,
                    t=clock.t,
                    since=clock.since,
                    counted=round(made.shares[",".join(names)] * counted),
                    held=len(retained),
                    oldest_age=clock.t - int(retained.rounds[0]),
                    column_names=names,
                    labels=policy.labels(names),
                )
        return replace(made, answers=answers)

    def _list_metrics(self) -> Iterator[tuple[str, Columns, NamedPolicy, int]]:
        """The name, the columns, the policy and the number in its group of each metric."""
        for names, policies in self.groups:
            for i, policy in enumerate(policies):
                yield _name_metric(names, policy), names, policy, i


def _list_groups(metrics: object) -> Iterator[tuple[Columns, Sequence[object]]]:
    """The columns and the policies of each group, from a mapping or from what a store made of one."""
    pairs = tuple(metrics.items()) if isinstance(metrics, Mapping) else metrics
    if not isinstance(pairs, tuple) or not all(isinstance(pair, tuple) and len(pair) == 2 for pair in pairs):
        raise ParameterError(
            f"metrics={show_value(metrics)} is not a mapping of columns to statistics; pass one, such as "
            "{'amount': Mean()}"
        )
    for columns, policies in pairs:
        names = columns if isinstance(columns, tuple) else (columns,)
        yield names, policies if isinstance(policies, tuple | list) else (policies,)


def _conclude(
    policy: NamedPolicy, numbers: Floats, worth: float, rounding: float, count_error: float
) -> Estimate | None:
    """The answer of one metric, if there is one; totals are also off by what the count of records may be."""
    if not isinstance(policy, Encoded):
        return CountEstimate(float(round(worth)), count_error)
    try:
        made = policy.conclude(numbers, worth, rounding) if worth > 0.0 else None
    except NoAnswerError:
        return None
    if isinstance(made, SumEstimate):
        return replace(made, encoding_error=made.encoding_error + np.abs(made.mean) * count_error)
    return made


def _find_count_error(share: float, worth: float, rounding: float) -> float:
    """How far the number of records that have a column may be off through rounding: 0 where it is exact."""
    error = bound_rounding(rounding, worth) * float(np.sqrt(share * (1.0 - share) * worth))
    return error if error >= _EXACT_COUNT else 0.0


def _name_metric(names: Columns, policy: NamedPolicy) -> str:
    return f"{','.join(names)}:{policy.name or type(policy).__name__.lower()}"


def _check_metric(names: Columns, policy: object, half_life: float | None) -> NamedPolicy:
    """The policy in the form in which a bundle keeps it."""
    if not names or not all(isinstance(name, str) and name for name in names) or len(set(names)) != len(names):
        raise ParameterError(
            "metrics has a key that is not the name of a column or a tuple of different names; pass such keys"
        )
    where = f"metrics: the statistic of {', '.join(names)}"
    averages = isinstance(policy, Encoded) and isinstance(policy.statistic, statistics.Averages)
    if not isinstance(policy, NamedPolicy) or not (averages or isinstance(policy, Count)):
        raise ParameterError(
            f"{where} is {show_value(policy)}, which is not made of averages; use Mean, Moments, Covariance, "
            "LinearRegression or Count"
        )
    if half_life is not None and all(each.name != "half_life" for each in fields(policy)):  # type: ignore[arg-type]
        raise ParameterError(f"{where} is a {policy.name}, which takes no half_life; leave one of them out")
    if policy.half_life is not None:
        raise ParameterError(f"{where} has half_life={policy.half_life}; give it to the bundle, for all metrics")
    if policy.columns != len(names):
        raise ParameterError(
            f"{where} takes {policy.columns} columns, not {len(names)}; pass a tuple of as many names as key"
        )
    return replace(policy, spread=True, channel="auto") if isinstance(policy, Mean) else policy


def _join(policies: Sequence[NamedPolicy]) -> statistics.Averages:
    """The different statistics of some policies of the same columns, side by side."""
    different = _find_different(policies)
    if len(different) == 1:
        return different[0]
    everything = tuple(range(policies[0].columns))
    return statistics.Joint(tuple((everything, statistic) for statistic in different))


def _find_different(policies: Sequence[NamedPolicy]) -> list[statistics.Averages]:
    found = (policy.statistic for policy in policies if isinstance(policy, Encoded))
    return list(dict.fromkeys(found))  # type: ignore[arg-type]  # see _check_metric


def _find_places(policies: Sequence[NamedPolicy]) -> list[slice]:
    """Where the numbers of each policy are among those of their different statistics."""
    places: dict[statistics.Statistic, slice] = {}
    end = 0
    for statistic in _find_different(policies):
        places[statistic] = slice(end, end + statistic.size)
        end += statistic.size
    return [places[policy.statistic] if isinstance(policy, Encoded) else slice(0) for policy in policies]
