"""Several statistics of the same records, each of columns of its own, in one stream.

A value that is missing in one column leaves the statistics of the other columns alone: what is kept of each group of
columns is the share of the records that have its values, and the statistics of those (`vestige.statistics.present`).
All averages are one word in the first slots of a batch; the states of all sketches are one message in the last ones.
Guarantee: each answer is that of the records that have its columns, over all data; held by
tests/policies/test_bundle.py and tests/policies/test_bundle_sketches.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vestige import channels, statistics
from vestige.channels.bits import LONG
from vestige.channels.layout import find_relative_precision
from vestige.channels.leading import Leading
from vestige.clock import Clock
from vestige.combination import note_restarts, sum_up
from vestige.errors import DataError, NoAnswerError, ParameterError
from vestige.estimate import Estimate
from vestige.noise import SURE, Noise
from vestige.policies.base import Basis, Encoded, check_half_life
from vestige.policies.count import Count, CountEstimate
from vestige.policies.mean import Mean
from vestige.policies.named_policy import NamedPolicy
from vestige.policies.report import Remark, Report, format_number
from vestige.policies.rounding import DEVIATIONS, MARGIN, bound_rounding
from vestige.policies.sketches import Sketches
from vestige.policies.stateful import MAX_BITS, Stateful
from vestige.policies.sum import Sum, SumEstimate
from vestige.policy import count_waiting
from vestige.records import Records
from vestige.types import Bools, Floats
from vestige.validation import show_value
from vestige.whole_numbers import WholeNumbers, find_codes

_EXACT_COUNT = 0.5
"""A count that is off by less is exact when it is rounded."""
_LARGE = 1e6
_SORTED = 8.0
"""How many times as much rounding may put numbers of a column off that some records lack, where data are sorted."""
_NOISY = (
    "the noise may outweigh what its records say ({}); use more records, larger batches, tighter bounds or a larger "
    "epsilon"
)
_STEADY = 3.0
"""Presence is steady if the held records have a column as often as all have, up to this number of standard errors."""
_WEIGHED = (
    "`counted` is a share of all records: that of the weight of those that have its columns, which have been missing "
    "as often lately as on average. How many they are is not kept."
)
_LEAST_SHARE = 1e-9
_UNSTEADY = (
    "Its columns are missing more or less often than before, and only the share of the weight of those that have "
    "them is known: `counted` is the fewest records that they can be, and standard errors are for these."
)
_MAY_BE_OFF = (
    "`counted` may be off by up to {:,.0f}: how many records have these columns is kept as a share of all, and "
    "rounded; use a larger retention."
)
_SKETCHES_RESTARTED = (
    "Counts from round {} on: a batch had too few records to carry it over, because of a deadline or requests; the "
    "averages beside it were carried over."
)

_LACKING = "Left out: {:,} of the {:,} combined estimates, with records of this metric but no answer."
_HIDDEN = "too few records have its columns to tell their number from the noise"
_SHARES = ("shares", ", or use histogram for shares of numbers")
_TEXTS = ("distinct[text]", "")
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
        problems: why a metric has no answer, by its name.
        counts: the number of records that have the columns of each metric, by its name.
        count_errors: how far that may be off, by the name of the metric: below a half, it is exact.
        shares: the share of the records that have the values of each group of columns, by the names of these.

    Example:
        >>> BundleEstimate(np.array([1.5]), {"amount:mean": Estimate(1.5)})["amount:mean"].value
        1.5
    """

    answers: Mapping[str, Estimate | None] = field(default_factory=dict)
    shares: Mapping[str, float] = field(default_factory=dict)
    problems: Mapping[str, str] = field(default_factory=dict)
    counts: Mapping[str, int] = field(default_factory=dict)
    count_errors: Mapping[str, float] = field(default_factory=dict)

    def __getitem__(self, metric: str) -> Estimate:
        answer = self.answers.get(metric)
        if answer is not None:
            return answer
        if metric in self.answers:
            problem = self.problems.get(metric, "no record has its columns, or too few do")
            raise NoAnswerError(f"metric {metric!r} has no answer yet: {problem}")
        raise ParameterError(f"metric {metric!r} is unknown; use one of {', '.join(self.answers)}")

    def __iter__(self) -> Iterator[str]:
        return iter(self.answers)

    def to_rows(self) -> list[dict[str, Any]]:
        """Convert each answer to rows of its own, with the number of records that it counts; see `Estimate.to_rows`.

        The notes of a row are those of the whole stream and those of its metric. A metric without an answer has one
        row without a value; `problems` says why.
        """
        blank = replace(
            Estimate(np.nan), t=self.t, as_of=self.as_of, since=self.since, held=self.held, missed=self.missed
        )
        of_all, rows = self._find_common_notes(), []
        for name, answer in self.answers.items():
            part = replace(blank, counted=self.counts.get(name, 0)) if answer is None else answer
            made = replace(part, notes=of_all + part.notes).to_rows()
            alone = len(made) == 1
            rows += [{**row, "metric": name if alone else f"{name} {row['metric']}"} for row in made]
        return rows

    def _find_common_notes(self) -> tuple[str, ...]:
        """The notes that are not those of single metrics."""
        of_metrics = {
            *_join_notes(self.answers),
            *(note for each in self.answers.values() if each for note in each.notes),
        }
        return tuple(note for note in self.notes if note not in of_metrics)


@dataclass(frozen=True)
class Bundle(Encoded[BundleEstimate]):
    """Several statistics of the same records, in one stream: one pass, one store, one record.

    A record is one row with a value for each column, nan where it is missing; the columns are in the order in which
    they are named first. A mean is kept with its variance, so that each answer has its standard error. How many records
    have a column is kept as their share, so that counts and totals of columns with missing values are rounded too: at
    the default retention a count is exact, and where it may not be, with small batches or after requests for much of
    one, a note and `count_errors` say how far it may be off. Sketches, such as `Quantiles` and `Distinct`, are kept bit
    for bit beside the averages, and need batches of thousands of records; if too few of a batch can be kept, as after
    most requests that are met immediately, all metrics start over together.

    Args:
        metrics: the statistics of each column, or of several columns together: a policy or several, such as `Mean()`,
            `Quantiles([0.5])` or, for `("distance", "air_time")`, `LinearRegression()`.
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
        joined = [",".join(names) for names in groups]
        alike = next((name for name in joined if joined.count(name) > 1), None)
        if alike is not None:
            raise ParameterError(
                f"metrics has {alike!r} as the name of one column and as those of several; rename the column"
            )
        if self.sketches is not None and self.sketches.bits > MAX_BITS:
            raise ParameterError(
                f"metrics has sketches of {self.sketches.bits:,} bits in all, above {MAX_BITS:,}; use fewer or smaller "
                "ones"
            )

    def __str__(self) -> str:
        return f"Bundle of {', '.join(self.policies)}"

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

    @cached_property
    def sketches(self) -> Sketches | None:
        """The different sketches of each group of columns; None if there is none."""
        found = (
            (tuple(self.column_names.index(name) for name in names), _find_sketches(policies))
            for names, policies in self.groups
        )
        groups = tuple((places, sketches) for places, sketches in found if sketches)
        return Sketches(groups) if groups else None

    @cached_property
    def encoding(self) -> channels.Channel:
        """A long word, since columns may be missing; in the first slots of a batch if sketches take the others."""
        if self.sketches is None:
            return LONG
        least = LONG.find_min_batch(self.statistic.size)
        return Leading(LONG, least, self.sketches.rows, self.sketches.slots)

    @property
    def min_early_batch(self) -> int:
        """The number of records that the word and the sketches need."""
        return super().min_early_batch + (0 if self.sketches is None else self.sketches.rows)

    @property
    def min_last_batch(self) -> int:
        """The number of records that the word needs: better that the sketches start over than all."""
        return super().min_early_batch

    @property
    def default_retention(self) -> int:
        """64 records of a batch for each number, and what the sketches take."""
        return super().default_retention + (0 if self.sketches is None else 2 * self.sketches.slots)

    @property
    def takes_missing(self) -> bool:
        """Whether a value may be missing: it may."""
        return True

    @property
    def max_magnitude(self) -> float:
        """The largest value that all metrics can take, but for those that take whole numbers by codes."""
        found = [policy for _, _, policy in self._list_metrics()]
        return min(policy.max_magnitude for policy in [each for each in found if not _is_coded(each)] or found)

    @property
    def checks_rows(self) -> bool:
        """Whether a metric may refuse a row."""
        return any(policy.checks_rows or _is_coded(policy) for _, _, policy in self._list_metrics())

    def check_rows(self, rows: Floats) -> None:
        """Refuse the rows that a metric refuses; see `Policy.check_rows`."""
        for _, names, policy in self._list_metrics():
            places = [self.column_names.index(name) for name in names]
            mine = rows[:, places]
            if _is_coded(policy) and self.read_whole_numbers(places[0]) != "coded" and find_codes(mine).any():
                raise DataError(
                    f"row {int(np.argmax(find_codes(mine)))} of {len(rows)} (counted from 0) is nearer to zero in "
                    f"{names[0]!r} than 2^-511, where codes of whole numbers lie; multiply by a constant, or make it "
                    "zero: nothing of this call was taken"
                )
            if _is_coded(policy) and (beyond := (np.abs(mine) > policy.max_magnitude).any(axis=1)).any():
                raise DataError(
                    f"row {int(np.argmax(beyond))} of {len(rows)} (counted from 0) has a float beyond 2^53 in "
                    f"{names[0]!r}, which may be rounded; pass whole numbers as integers: nothing of this call was "
                    "taken"
                )
            policy.check_rows(mine)

    def read_whole_numbers(self, column: int) -> WholeNumbers:
        """Read those beyond 2^53 as the metrics of the column do, if they agree; see `Policy.read_whole_numbers`."""
        name = self.column_names[column]
        metrics = [policy for _, names, policy in self._list_metrics() if name in names]
        kinds = {policy.read_whole_numbers(0) for policy in metrics if not isinstance(policy, Count)}
        return kinds.pop() if len(kinds) == 1 else "refused" if kinds else "floored"

    def name_categories(self, columns: Sequence[str] = ()) -> dict[str, tuple[str, ...]]:  # noqa: ARG002
        """Name the categories of the columns that are read as text; see `NamedPolicy.name_categories`.

        Args:
            columns: not needed, since the columns have names.

        Returns:
            the names of the categories by column.

        Raises:
            ParameterError: a column of text has a statistic of numbers too, or is read in two ways.

        Example:
            >>> from vestige import Shares
            >>> Bundle({"amount": Mean(), "status": Shares(("ok", "failed"))}).name_categories()
            {'status': ('ok', 'failed')}
        """
        found: dict[str, tuple[str, ...]] = {}
        for _, names, policy in self._list_metrics():
            found |= policy.name_categories(names)
        for name, names, policy in self._list_metrics():
            own = policy.name_categories(names)
            if any(found[column] != own[column] for column in own):
                raise ParameterError(
                    f"metric {name!r} reads the column as text in another way than another metric of it; leave one of "
                    "them out"
                )
            if not own and not isinstance(policy, Count) and not found.keys().isdisjoint(names):
                reader, hint = _SHARES if any(map(found.get, names)) else _TEXTS
                raise ParameterError(
                    f"metric {name!r} is of numbers, but {reader} reads the column as text; leave one of them out{hint}"
                )
        return found

    def draw_rows(self, rng: np.random.Generator, count: int, mean: float) -> Floats:
        """Draw the records of each group of columns as one of its statistics does; see `NamedPolicy.draw_rows`."""
        rows = np.empty((count, self.columns))
        for names, policies in sorted(self.groups, key=_has_categories):
            policy = next((each for each in policies if each.name_categories(names)), policies[0])
            rows[:, [self.column_names.index(name) for name in names]] = policy.draw_rows(rng, count, mean)
        return rows

    def rewrite(self, clock: Clock, retained: Records, coins: int) -> tuple[int, Bools] | None:
        """Write the same numbers into all that is left and not leaving, and the sketches if they fit."""
        made = super().rewrite(clock, retained, coins)
        if made is None or self.sketches is None:
            return made
        slots, length = retained.rounds - clock.first, clock.t - clock.first + 1
        can = channels.lay_out(slots, ~retained.leaving, length)
        keep = self._write_sketches(self.sketches, self._find_state(clock, retained), can)
        return clock.t, made[1] | keep[slots]

    def labels(self, columns: Sequence[str]) -> tuple[str, ...]:  # noqa: ARG002
        """Name the numbers of all answers; see `Encoded.labels`."""
        return _label(self._list_metrics())

    @property
    def policies(self) -> dict[str, NamedPolicy]:
        """The policy of each metric, by the name of the metric."""
        return {name: policy for name, _, policy in self._list_metrics()}

    @property
    def averaged_labels(self) -> tuple[str, ...]:
        """The labels of the numbers that are not read off sketches, whose error a plan predicts."""
        return _label(metric for metric in self._list_metrics() if isinstance(metric[2], Encoded | Count))

    @property
    def plan_notes(self) -> tuple[str, ...]:
        """How far the answers of each sketch are off; see `NamedPolicy.plan_notes`."""
        return tuple(f"{name}: {note}" for name, _, policy in self._list_metrics() for note in policy.plan_notes)

    def report(self, estimate: BundleEstimate, columns: Sequence[str]) -> Report:  # noqa: ARG002
        """Make a table with one row for each number; see `Encoded.report`."""
        facts: dict[str, object] = {}
        remarks: dict[str, list[str]] = {}
        for name, names, policy in self._list_metrics():
            answer = estimate.answers[name]
            facts[name] = None
            if answer is not None:
                part = policy.report(answer, names)
                facts[name] = {**part.facts, "counted": answer.counted}
                for remark in part.remarks:
                    remarks.setdefault(remark.text, []).append(name)
        rows = [
            (
                row["metric"],
                "no answer" if row["value"] is None else _format_value(row["value"]),
                "" if row["standard_error"] is None else _format_error(row["standard_error"]),
                _format_bounds(row["lower"], row["upper"]),
                f"{row['counted']:,}",
            )
            for row in estimate.to_rows()
        ]
        header = ("metric", "value", "standard error", "bounds", "of records")
        shown = [i for i in range(len(header)) if any(row[i] for row in rows)]
        table = tuple(tuple(row[i] for i in shown) for row in rows)
        everything = {"value": facts, "shares": dict(estimate.shares), "problems": dict(estimate.problems)}
        said = tuple(Remark(text, tuple(named)) for text, named in remarks.items())
        return Report("statistics", tuple(header[i] for i in shown), table, everything, said)

    def conclude(self, numbers: Floats, worth: float, rounding: float) -> BundleEstimate:
        """Conclude each answer from the records that have its columns; see `Encoded.conclude`."""
        return self._conclude_parts(numbers, rounding, [share * worth for share in self._find_shares(numbers)])

    def _conclude_parts(self, numbers: Floats, rounding: float, worths: Sequence[float]) -> BundleEstimate:
        """Conclude each answer; `worths` says how many equally weighted records have the columns of each group."""
        answers: dict[str, Estimate | None] = {}
        problems: dict[str, str] = {}
        shares = self._find_shares(numbers)
        for (names, policies), here, share, each in zip(
            self.groups, self.statistic.places, shares, worths, strict=True
        ):
            counted = each if self.half_life is not None else float(round(each))
            off = _scale_rounding(rounding, share)
            for policy, place in zip(policies, _find_places(policies), strict=True):
                name, inner = _name_metric(names, policy), numbers[here.start + 1 : here.stop][place]
                aged = policy if self.half_life is None else replace(policy, half_life=self.half_life)  # type: ignore[type-var]
                try:
                    answers[name] = _conclude(names, aged, inner, counted, off)
                except NoAnswerError as problem:
                    answers[name], problems[name] = None, str(problem)
        known = {",".join(names): share for (names, _), share in zip(self.groups, shares, strict=True)}
        return BundleEstimate(_join_values(answers), answers, known, problems)

    def _conclude_for(
        self, numbers: Floats, worth: float, rounding: float, clock: Clock, retained: Records
    ) -> BundleEstimate:
        """What `conclude` gives; with a half-life, the worth of the records that have columns is that of their weights.

        These are not kept. If the held records have the columns as often as all do, others are taken to have had them
        as often too; if not, what is sure is the share that they have of the weight. The newest records need the
        fewest for it, and are worth the least: so standard errors are not too small, whichever they are.
        """
        if self.half_life is None:
            return self.conclude(numbers, worth, rounding)
        from vestige.statistics.kernels import find_worth  # noqa: PLC0415

        total, shares = clock.encoded + count_waiting(clock, retained), self._find_shares(numbers)
        worths = [
            share * worth if steady else float(find_worth(self._count_newest(share, total), self.decay))
            for share, steady in zip(shares, self._find_steady(shares, retained), strict=True)
        ]
        return self._conclude_parts(numbers, rounding, worths)

    def _find_shares(self, numbers: Floats) -> list[float]:
        """The share of the weight of all records that those with the columns of each group have."""
        return [min(max(float(numbers[here.start]), 0.0), 1.0) for here in self.statistic.places]

    def _find_steady(self, shares: Iterable[float], retained: Records) -> list[bool]:
        """Whether the held records have the columns of each group as often as all have."""
        found = []
        for (names, _), share in zip(self.groups, shares, strict=True):
            present = statistics.find_present(retained.values[:, [self.column_names.index(name) for name in names]])
            spread = np.sqrt(share * (1.0 - share) / len(present))
            found.append(bool(abs(present.mean() - share) <= _STEADY * spread + _LEAST_SHARE))
        return found

    def _count_newest(self, share: float, total: int) -> int:
        """The fewest of all records that can have a share of the weight: the newest."""
        if share in (0.0, 1.0) or self.decay == 1.0:
            return round(share * total)
        rate = np.log(self.decay)
        return max(round(float(np.log1p(share * np.expm1(total * rate)) / rate)), 1)

    def conclude_freely(self, numbers: Floats, worth: float) -> Floats:
        """Conclude each answer beyond limits; see `Encoded.conclude_freely`."""
        found, made = [np.empty(0)], self.conclude(numbers, worth, float(np.finfo(np.float64).eps))
        for (names, policies), here in zip(self.groups, self.statistic.places, strict=True):
            counted, inner = float(numbers[here.start]) * worth, numbers[here.start + 1 : here.stop]
            for policy, place in zip(policies, _find_places(policies), strict=True):
                answer = made.answers[_name_metric(names, policy)]
                if isinstance(answer, CountEstimate):
                    found.append(np.array([counted]))
                elif answer is not None and isinstance(policy, Encoded):
                    found.append(policy.conclude_freely(inner[place], counted))
        return np.concatenate(found)

    def conclude_noisy(
        self, averages: Floats, noise: Noise, worth: float, rounding: float, centres: Floats | float = 0.0
    ) -> BundleEstimate:
        """Conclude each answer from the records that have its columns, whose number carries noise too.

        What the noise of the share moves all averages over those records by, it moves them by together. There is no
        answer while the share cannot be told from zero. See `Encoded.conclude_noisy`.
        """
        answers: dict[str, Estimate | None] = {}
        shares: dict[str, float] = {}
        problems: dict[str, str] = {}
        count_errors: dict[str, float] = {}
        of_columns = np.zeros(self.columns) + centres
        for (names, policies), here, (columns, _) in zip(
            self.groups, self.statistic.places, self.statistic.parts, strict=True
        ):
            about = of_columns[list(columns)]
            off, inner = float(noise.own[here.start]), slice(here.start + 1, here.stop)
            share = shares[",".join(names)] = min(max(float(averages[here.start]), 0.0), 1.0)
            known = share if share > SURE * off else np.inf
            over = averages[inner] / known
            of_over = Noise(noise.own[inner] / known, over * off / known)
            for policy, place in zip(policies, _find_places(policies), strict=True):
                common = of_over.common[place]
                if isinstance(policy, Sum):  # a total moves with the number of records by its centre alone
                    common = np.pad(about * off / known, (0, len(common) - len(about)))
                here_noise = Noise(of_over.own[place], common)
                name, counted = _name_metric(names, policy), float(round(share * worth))
                count_error = off * worth
                count_errors[name] = SURE * count_error
                if known == np.inf and not isinstance(policy, Count):
                    answers[name], problems[name] = None, _HIDDEN
                    continue
                try:
                    answers[name] = _conclude_noisy(
                        names, policy, over[place], here_noise, counted, rounding, count_error, about
                    )
                except NoAnswerError as problem:
                    answers[name], problems[name] = None, _NOISY.format(problem) if counted > 0.0 else str(problem)
        return BundleEstimate(_join_values(answers), answers, shares, problems, count_errors=count_errors)

    def complete(self, made: BundleEstimate, clock: Clock, retained: Records, counted: int) -> BundleEstimate:
        """Add the sketches, and say of each statistic how many records it counts; see `Encoded.complete`."""
        sketched, since, problems = self._answer_sketches(clock, retained)
        answers = dict(made.answers) | {name: answer for name, (_, answer) in sketched.items()}
        unsteady = self._count_unsteady(made, retained, counted)
        for name, names, _ in self._list_metrics():
            part = answers[name]
            if part is not None and self.half_life is not None and 0.0 < made.shares[",".join(names)] < 1.0:
                note = _UNSTEADY if ",".join(names) in unsteady else _WEIGHED
                answers[name] = replace(part, notes=(*part.notes, note))
        counts = {
            name: unsteady.get(",".join(names), round(made.shares[",".join(names)] * counted))
            for name, names, _ in self._list_metrics()
        }
        counts |= {name: count for name, (count, _) in sketched.items()}
        relative, rounding = self._bound_float_rounding(clock), self._find_rounding(clock)
        count_errors = dict.fromkeys(counts, 0.0)
        for name, names, _ in self._list_metrics():
            if name not in sketched and self.half_life is None:
                rounded = _find_count_error(made.shares[",".join(names)], counted, rounding, relative)
                count_errors[name] = made.count_errors.get(name, 0.0) + rounded
                answers[name] = _widen(answers[name], rounded, relative)
        found = {**made.problems, **problems}
        notes, missed = _join_notes(answers), any(part is not None and part.missed for part in answers.values())
        for name, names, policy in self._list_metrics():
            part = answers[name]
            if part is not None:
                basis = part.basis
                if isinstance(basis, Basis) and isinstance(made.basis, Basis):
                    basis = basis._replace(notes=made.basis.notes)
                answers[name] = replace(
                    part,
                    basis=basis,
                    notes=part.notes + made.notes if name not in sketched else part.notes,
                    missed=part.missed or (made.missed and name not in sketched),
                    t=clock.t,
                    as_of=clock.t,
                    since=since if name in sketched else clock.since,
                    counted=counts[name],
                    held=len(retained),
                    oldest_age=clock.t - int(retained.rounds.min()),
                    column_names=names,
                    labels=tuple(label.removesuffix(f" of {','.join(names)}") for label in policy.labels(names)),
                )
        return replace(
            made,
            value=_join_values(answers),
            answers=answers,
            notes=made.notes + notes,
            missed=made.missed or missed,
            problems={name: found[name] for name in answers if name in found},
            counts=counts,
            count_errors=count_errors,
        )

    def combine(self, parts: Sequence[BundleEstimate]) -> BundleEstimate:
        """Combine the answers of each metric; see `Policy.combine`.

        A metric covers the parts that have an answer. Where one has records of it and no answer, a note says so.
        """
        if self.half_life is not None:
            return super().combine(parts)  # which says why not
        answers: dict[str, Estimate | None] = {}
        problems = {name: problem for part in parts for name, problem in part.problems.items()}
        counts: dict[str, int] = {}
        count_errors: dict[str, float] = {}
        for name, _, policy in self._list_metrics():
            answering = [part for part in parts if part.answers[name] is not None]
            counts[name] = sum(part.counts[name] for part in answering)
            count_errors[name] = sum(part.count_errors[name] for part in answering)
            try:
                answers[name] = _combine_metric(name, policy, parts)
            except NoAnswerError as problem:
                answers[name], problems[name] = None, str(problem)
        problems = {name: problem for name, problem in problems.items() if answers[name] is None}
        return self._join_answers(parts, answers, problems, counts, count_errors)

    def complete_merged(self, made: BundleEstimate, parts: Sequence[BundleEstimate]) -> BundleEstimate:
        """Say of each statistic how many records it counts; see `Encoded.complete_merged`."""
        total, answers = sum(part.counted for part in parts), dict(made.answers)
        counts = {name: round(made.shares[",".join(names)] * total) for name, names, _ in self._list_metrics()}
        for name, names, policy in self._list_metrics():
            answer = answers[name]
            if answer is not None:
                labels = tuple(label.removesuffix(f" of {','.join(names)}") for label in policy.labels(names))
                whole = sum_up(answer, parts)
                answers[name] = replace(
                    whole,
                    notes=answer.notes + made.notes,
                    missed=answer.missed or made.missed,
                    counted=counts[name],
                    column_names=names,
                    labels=labels,
                    policy=None,
                )
        count_errors = {name: sum(part.count_errors[name] for part in parts) for name in counts}
        joined = self._join_answers(parts, answers, dict(made.problems), counts, count_errors)
        return replace(joined, shares=made.shares, notes=made.notes + joined.notes, missed=made.missed or joined.missed)

    def _join_answers(
        self,
        parts: Sequence[BundleEstimate],
        answers: Mapping[str, Estimate | None],
        problems: Mapping[str, str],
        counts: Mapping[str, int],
        count_errors: Mapping[str, float],
    ) -> BundleEstimate:
        """The estimate that has these answers for all records."""
        total = sum(part.counted for part in parts)
        return BundleEstimate(
            _join_values(answers),
            answers,
            {names: sum(part.shares[names] * part.counted for part in parts) / total for names in parts[0].shares},
            problems,
            counts,
            count_errors,
            notes=_join_notes(answers),
            missed=any(answer is not None and answer.missed for answer in answers.values()),
        )

    def _count_unsteady(self, made: BundleEstimate, retained: Records, counted: int) -> dict[str, int]:
        """The fewest records that can have the columns, of the groups that have not had them steadily."""
        if self.half_life is None:
            return {}
        steady = self._find_steady(made.shares.values(), retained)
        return {
            columns: self._count_newest(share, counted)
            for (columns, share), each in zip(made.shares.items(), steady, strict=True)
            if not each
        }

    def _bound_float_rounding(self, clock: Clock) -> float:
        """How far a number may be off at most, relative to itself, by words that say it as a float.

        Words do so where no kept record has its columns; whether one did so is not known afterwards.
        """
        if not clock.encoded:
            return 0.0
        each = find_relative_precision(self._find_fewest_bits(clock), self.statistic.size)
        return DEVIATIONS * each * self._count_roundings(clock)

    def _advance(
        self, clock: Clock, retained: Records, values: Floats, present: Bools, can: Bools, keys: NDArray[np.uint64]
    ) -> Bools:
        """The records of the last batch to keep for the averages, and those for the sketches."""
        keep = super()._advance(clock, retained, values, present, can, keys)
        if self.sketches is None:
            return keep
        state = self.sketches.move(self._read_sketches(self.sketches, clock, retained), values[present])
        return keep | self._write_sketches(self.sketches, state, can[-len(keep) :])

    def _find_state(self, clock: Clock, retained: Records) -> bytes:
        """The states of the sketches of all records that count."""
        assert self.sketches is not None  # noqa: S101
        fresh = retained.where(retained.rounds > clock.last)
        rows = fresh.values[np.argsort(fresh.rounds, kind="stable")]
        return self.sketches.move(self._read_sketches(self.sketches, clock, retained), rows)

    def _answer_sketches(
        self, clock: Clock, retained: Records
    ) -> tuple[dict[str, tuple[int, Estimate | None]], int, dict[str, str]]:
        """The number of records and the answer of each metric that is a sketch; their first round; and problems."""
        problems: dict[str, str] = {}
        if self.sketches is None:
            return {}, clock.since, problems
        state = self._find_state(clock, retained)
        states, since, found = self.sketches.find_states(state), self.sketches.find_since(state), {}
        for name, names, policy in self._list_metrics():
            if isinstance(policy, Stateful):
                count, each = states[tuple(self.column_names.index(column) for column in names)]
                try:
                    _check_count(names, count)
                    made = policy.make_estimate(each[policy.sketch], count)
                    found[name] = count, replace(made, basis=each[policy.sketch])
                except NoAnswerError as problem:
                    found[name], problems[name] = (count, None), str(problem)
                answer = found[name][1]
                if answer is not None and since > clock.since:
                    notes = (_SKETCHES_RESTARTED.format(since), *answer.notes)
                    found[name] = count, replace(answer, notes=notes, missed=True)
        return found, since, problems

    def _write_sketches(self, sketches: Sketches, state: bytes, can: Bools) -> Bools:
        """The slots of a batch to keep for the sketches: some of those after the word; none if they do not fit."""
        room, keep = self.encoding.find_room(len(can)), np.zeros(len(can), np.bool_)
        keep[room:] = sketches.write(state, can[room:])
        return keep

    def _read_sketches(self, sketches: Sketches, clock: Clock, retained: Records) -> bytes:
        return sketches.read(clock, retained, self.encoding.find_room(clock.last - clock.first + 1))

    def _list_metrics(self) -> Iterator[tuple[str, Columns, NamedPolicy]]:
        """The name, the columns and the policy of each metric."""
        for names, policies in self.groups:
            for policy in policies:
                yield _name_metric(names, policy), names, policy


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


def _conclude(names: Columns, policy: NamedPolicy, numbers: Floats, worth: float, rounding: float) -> Estimate | None:
    """The answer of one metric, or an error."""
    if isinstance(policy, Stateful):
        return None  # it is answered from the sketch
    if not isinstance(policy, Encoded):
        return CountEstimate(float(round(worth)))
    _check_count(names, worth)
    rounding *= MARGIN / policy.margin  # one range is that of all numbers, also of those whose scales are known
    made: Estimate = policy.conclude(numbers, worth, rounding)
    return replace(made, basis=Basis(numbers, worth, rounding, bound_rounding(rounding, worth, policy.margin)))


def _widen(answer: Estimate | None, count_error: float, relative: float) -> Estimate | None:
    """The answer with what follows for it from the count of its records; and from words that say a total as floats."""
    if isinstance(answer, CountEstimate):
        return replace(answer, standard_error=answer.standard_error + count_error)
    if isinstance(answer, SumEstimate):
        off = relative * np.abs(answer.value) + count_error * np.abs(answer.mean)
        answer = replace(answer, encoding_error=answer.encoding_error + off)
    if answer is None or not count_error:
        return answer
    return replace(answer, notes=(*answer.notes, _MAY_BE_OFF.format(count_error)))


def _combine_metric(name: str, policy: NamedPolicy, parts: Sequence[BundleEstimate]) -> Estimate | None:
    """The combined answer of one metric, and what it does not cover; None where no part has an answer."""
    answered = [(part, answer) for part in parts if (answer := part.answers[name]) is not None]
    lacking = sum(part.answers[name] is None and part.counts[name] > 0 for part in parts)
    found = [answer for _, answer in answered]
    if not found:
        return None
    made: Estimate = found[0] if len(found) == 1 else sum_up(policy.combine(found), found)
    notes: tuple[str, ...] = ()
    if len(found) > 1 and any(answer.since > part.since for part, answer in answered):
        notes = note_restarts(found)  # of sketches, which start over by themselves
    if lacking:
        notes = (*notes, _LACKING.format(lacking, len(parts)))
    return replace(made, notes=notes + made.notes, missed=True) if notes else made


def _conclude_noisy(
    names: Columns,
    policy: NamedPolicy,
    averages: Floats,
    noise: Noise,
    worth: float,
    rounding: float,
    count_error: float,
    centres: Floats,
) -> Estimate:
    """The same with noise."""
    if not isinstance(policy, Encoded):
        return CountEstimate(worth, count_error)
    _check_count(names, worth)
    made: Estimate = policy.conclude_noisy(averages, noise, worth, rounding, centres)
    return made


def _check_count(names: Columns, worth: float) -> None:
    """Refuse to answer from no record."""
    if not worth > 0.0:
        raise NoAnswerError(
            f"no record that counts has a value in {names[0]}"
            if len(names) == 1
            else f"no record that counts has values in all of {', '.join(names)}"
        )


def _scale_rounding(rounding: float, share: float) -> float:
    """What rounding comes to in deviations of the records that have a column, each of which stands for others too."""
    is_rounded = rounding > np.finfo(np.float64).eps and 0.0 < share < 1.0
    return _SORTED * rounding / float(np.sqrt(share)) if is_rounded else rounding


def _find_count_error(share: float, counted: int, rounding: float, relative: float) -> float:
    """How far the number of records that have a column may be off, 0 where it is exact; see `bound_rounding`."""
    if share in (0.0, 1.0):  # all of them, or none, in each batch: then words say just that
        return 0.0
    deviation = float(np.sqrt(share * (1.0 - share) * counted))
    error = bound_rounding(rounding, counted) * deviation + relative * share * counted
    return error if error >= _EXACT_COUNT else 0.0


def _label(metrics: Iterable[tuple[str, Columns, NamedPolicy]]) -> tuple[str, ...]:
    """The labels of the numbers of some metrics."""
    found = ((name, policy.labels(names)) for name, names, policy in metrics)
    return tuple(name if len(labels) == 1 else f"{name} {label}" for name, labels in found for label in labels)


def _name_metric(names: Columns, policy: NamedPolicy) -> str:
    return f"{','.join(names)}:{policy.metric_name or type(policy).__name__.lower()}"


def _is_coded(policy: NamedPolicy) -> bool:
    return not isinstance(policy, Count) and policy.read_whole_numbers(0) == "coded"


def _has_categories(group: Group) -> bool:
    names, policies = group
    return any(policy.name_categories(names) for policy in policies)


def _format_value(value: float) -> str:
    """Seven digits, which leave room for other columns, or ten of large numbers such as totals."""
    return f"{value:.7g}" if abs(value) < _LARGE else format_number(value)


def _format_error(error: float) -> str:
    """Three digits, or whole numbers."""
    return f"{error:.3g}" if error < 1e3 else f"{error:.0f}"  # where three digits would need an exponent


def _format_bounds(lower: float | None, upper: float | None) -> str:
    """The bounds of a sketch or a total; empty where there are none."""
    if lower is None and upper is None:
        return ""
    low, high = ("" if bound is None else _format_value(bound) for bound in (lower, upper))
    return low if low == high else f"{low} to {high}"


def _join_values(answers: Mapping[str, Estimate | None]) -> Floats:
    """The numbers of all answers, one after the other."""
    return np.concatenate([np.empty(0), *(np.ravel(answer.value) for answer in answers.values() if answer is not None)])


def _join_notes(answers: Mapping[str, Estimate | None]) -> tuple[str, ...]:
    """The notes of all answers, each after the names of its metrics."""
    found: dict[str, list[str]] = {}
    for name, answer in answers.items():
        for note in answer.notes if answer is not None else ():
            found.setdefault(note, []).append(name)
    return tuple(f"{', '.join(names)}: {note}" for note, names in found.items())


def _check_metric(names: Columns, policy: object, half_life: float | None) -> NamedPolicy:
    """The policy in the form in which a bundle keeps it."""
    if not names or not all(isinstance(name, str) and name for name in names) or len(set(names)) != len(names):
        raise ParameterError(
            "metrics has a key that is not the name of a column or a tuple of different names; pass such keys"
        )
    where = f"metrics: the statistic of {', '.join(names)}"
    averages = isinstance(policy, Encoded) and isinstance(policy.statistic, statistics.Averages)
    if not isinstance(policy, NamedPolicy) or not (averages or isinstance(policy, Count | Stateful)):
        raise ParameterError(
            f"{where} is {show_value(policy)}, which is neither made of averages nor a sketch; use Mean, Moments, "
            "Covariance, LinearRegression, Quantiles or Count"
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


def _find_sketches(policies: Sequence[NamedPolicy]) -> tuple[Stateful, ...]:
    """The different sketches of some policies of the same columns."""
    return tuple(dict.fromkeys(policy.sketch for policy in policies if isinstance(policy, Stateful)))


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
