"""What a limit in time alone comes to: the batches, the memory and the error at a given rate of arrivals.

A stream with `max_age` and no limit in records closes a batch when it is full, at half of the policy's
`default_retention`, or when a deadline asks for it (`vestige.stream.deadlines`): when its oldest record has lived half
of `max_age`, or an eighth of it is left to the batch before, whose deadline is rounded down to a 32nd. So with arrivals
at even distances a batch takes at least 11/32 of `max_age`, and two batches must fit into 31/32 of it.
Guarantee: no batch is shorter than stated, and the statistic restarts if and only if it is said; held by
tests/planning/test_max_age.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta

import numpy as np
from numpy.typing import ArrayLike

from vestige.errors import NoAnswerError
from vestige.planning.cost import measure_seconds_per_record, memory_bytes
from vestige.planning.data_model import DEFAULT_MEAN, DataModel, check_policy
from vestige.planning.plan import EXAMPLES, TOLERANCE, find_required, find_target, make_private, rounds_nothing
from vestige.planning.prediction import predict_with
from vestige.policies import Encoded, NamedPolicy
from vestige.policies.private import Limit
from vestige.random.generators import make_generator
from vestige.stream.arrivals import read_sample
from vestige.stream.limits import Limits
from vestige.stream.rules import make_rules
from vestige.types import Floats
from vestige.validation import check_float

YEAR = timedelta(days=365)
"""How long records arrive where neither their number nor an error is given."""
_SHORTEST, _PAIR, _LATEST = 11 / 32, 31 / 32, 15 / 32
"""Shares of `max_age`: the shortest batch, what two batches must fit into, and what half of it leaves to the second."""
_MAX_RATE = 1e12
_NOTED = 0.01
"""Restarts that are expected this often or more are mentioned."""


@dataclass(frozen=True, slots=True)
class AgeRow:
    """What one policy does under a limit in time alone.

    Attributes:
        name: name of the policy.
        batch: smallest number of records in a batch; None where too few records arrive to close any, or there are none.
        every: time from one batch to the next, for such a batch.
        held: largest number of records that are held.
        error: error that is expected in the end, in standard deviations of one record's influence; 0 where the policy
            is exact, None where it is a sketch's own, or is not known because the statistic restarts.
        memory: largest number of bytes that the held records occupy.
        restarts: expected number of restarts, if arrivals are independent of each other; None where too few arrive.
        seconds: time per record on this machine; None where it was not measured.
        price: for `Private`, the mean squared error as a multiple of that without noise.
        notes: reasons why it may be otherwise, in sentences.
    """

    name: str
    batch: int | None
    every: timedelta | None
    held: int
    error: float | None
    memory: int
    restarts: float | None = 0.0
    seconds: float | None = None
    price: float | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class AgePlan:
    """What a limit in time alone comes to.

    Attributes:
        policy: policy whose statistic is planned.
        max_age: age at which a record is erased.
        rate: number of records that arrive in a day.
        records: number of records that will have arrived.
        sampled: number of records in the sample; 0 where records are assumed to be normal.
        mean: without a sample, the assumed distance of the mean from zero, in standard deviations; else None.
        errors: error of each number of the first policy's answer, in the units of the data; empty where it is not
            predicted.
        rows: the policy, the private one, a window of that age, and all records.
        least_rate: records a day below which the statistic restarts again and again.
        enough_rate: records a day from which on the error is within 10% of that of all records; None if it is not
            known, or the policy is exact.
        notes: doubts about the sample, in sentences.
    """

    policy: NamedPolicy
    max_age: timedelta
    rate: float
    records: int
    sampled: int
    mean: float | None
    errors: Floats
    rows: tuple[AgeRow, ...]
    least_rate: float
    enough_rate: float | None
    notes: tuple[str, ...]

    def row(self, name: str) -> AgeRow:
        """Find a row by name.

        Args:
            name: name of the policy, such as `window`.

        Returns:
            The row.

        Raises:
            KeyError: there is no such row.

        Example:
            >>> from vestige import Mean
            >>> plan_max_age(Mean(), max_age=timedelta(days=30), rate=100.0).row("window").held
            3000
        """
        return {row.name: row for row in self.rows}[name]


def plan_max_age(
    policy: NamedPolicy,
    *,
    max_age: timedelta,
    rate: float,
    records: int | None = None,
    error: float | None = None,
    sample: ArrayLike | None = None,
    mean: float | None = None,
    epsilon: float = 1.0,
    delta: float = 1e-6,
    bound: Limit | Mapping[str, Limit] | None = None,
    progress: Callable[[float], None] = lambda _: None,
) -> AgePlan:
    """Find what a limit in time alone does to batches, memory and accuracy.

    Args:
        policy: the statistic to plan; see `plan`.
        max_age: age at which a record is erased.
        rate: number of records that arrive in a day, in one stream: of its rarest key, where there are several.
        records: number of records that will have arrived. Default: those of a year, unless `error` is given.
        error: the same as a target error; see `plan`.
        sample: some records, in order of arrival; see `plan`.
        mean: without a sample, the distance of the mean from zero; see `plan`.
        epsilon: epsilon of the (epsilon, delta) guarantee of `Private`.
        delta: delta of the (epsilon, delta) guarantee of `Private`.
        bound: largest magnitude of values, at which `Private` cuts them off, or both ends; see `plan`.
        progress: is called with the share that is done.

    Returns:
        The plan, one row for each policy.

    Raises:
        ParameterError: the policy cannot be predicted, or a number is out of range.
        DataError: the sample is too small, or does not vary.

    Example:
        >>> from vestige import Mean
        >>> found = plan_max_age(Mean(), max_age=timedelta(days=30), rate=1_000.0)
        >>> found.records, found.rows[0].batch, found.rows[0].held, f"{found.rows[0].error:.4f}"
        (365000, 64, 128, '0.0017')
        >>> round(found.least_rate, 2), round(found.enough_rate, 2)
        (1.51, 2.13)
    """
    Limits(max_age=max_age)  # refuses what is not a duration
    rate = check_float("rate", rate, lambda r: 0.0 < r <= _MAX_RATE, f"a number of records a day, up to {_MAX_RATE:g}")
    if error is None and records is None:
        records = max(round(rate * (YEAR / timedelta(days=1))), 2)
    _, count = find_target(error, records)
    if rounds_nothing(policy):
        return _plan_exact(policy, max_age, rate, count, sample, mean)
    policy = check_policy(policy)
    model = DataModel(policy, sample, mean, count)
    private, refusal = make_private(model, policy, epsilon, delta, bound)
    rows = [_find_row(model, type(policy).__name__, policy, max_age, rate, count)]
    progress(1 / 3)
    if private is None:
        rows.append(AgeRow("Private", None, None, 0, None, 0, notes=(refusal,)))
    else:
        rows.append(_find_row(model, f"Private, epsilon {epsilon:g}", private, max_age, rate, count))
    progress(2 / 3)
    schedule = find_schedule(policy, max_age, rate)
    required = find_required(model, "", policy, TOLERANCE / math.sqrt(count), count).retention
    enough = None if required is None else max(required / 2 / (_SHORTEST * _count_days(max_age)), schedule.least_rate)
    return AgePlan(
        policy,
        max_age,
        rate,
        count,
        len(model.rows) if model.has_sample else 0,
        model.mean,
        np.zeros(0) if rows[0].error is None else rows[0].error * model.spread,
        (*rows, *_list_others(policy, max_age, rate, count)),
        schedule.least_rate,
        enough,
        model.notes,
    )


@dataclass(frozen=True, slots=True)
class Schedule:
    """How batches follow from arrivals at even distances.

    Attributes:
        full: largest batch.
        batch: smallest batch; None if too few records arrive to close any.
        held: largest number of records that are held.
        risk: chance that a batch does not get the records that it needs in time, if arrivals are independent.
        least_rate: records a day below which no batch can be closed in time.
    """

    full: int
    batch: int | None
    held: int
    risk: float
    least_rate: float


def find_schedule(policy: NamedPolicy, max_age: timedelta, rate: float) -> Schedule:
    """Find how long batches are under a limit in time alone.

    Args:
        policy: the policy.
        max_age: age at which a record is erased.
        rate: number of records that arrive in a day.

    Returns:
        The schedule.

    Raises:
        ParameterError: the policy needs a limit in records.

    Example:
        >>> from vestige import Mean
        >>> find_schedule(Mean(), timedelta(days=30), 4.0).batch
        41
    """
    from scipy.special import pdtr  # noqa: PLC0415  # takes longer than the rest

    rules, days = make_rules(policy, Limits(max_age=max_age), None), _count_days(max_age)
    least, within = rules.min_early_batch, rate * days
    held = min(2 * rules.batch, math.ceil(within))
    if not rules.all_or_nothing:  # nothing that is held carries the answer
        return Schedule(rules.batch, min(rules.batch, max(least, int(within / 2))), held, 0.0, 0.0)
    least_rate = 2 * least / (_PAIR * days)
    if rate < least_rate:
        return Schedule(rules.batch, None, held, 1.0, least_rate)
    batch = min(rules.batch, max(least, int(_SHORTEST * within)))
    risk = float(pdtr(least - 1, _LATEST * within) + pdtr(2 * least - 1, _PAIR * within))
    return Schedule(rules.batch, batch, held, min(risk, 1.0), least_rate)


def format_rate(rate: float) -> str:
    """Format a rate for people.

    Args:
        rate: number of records a day.

    Returns:
        A text with at least three digits.

    Example:
        >>> format_rate(1.513), format_rate(1113.2)
        ('1.51 records a day', '1,113 records a day')
    """
    return f"{rate:,.0f} records a day" if rate >= 100.0 else f"{rate:.3g} records a day"


def _count_days(duration: timedelta) -> float:
    return duration / timedelta(days=1)


def _find_row(model: DataModel, name: str, policy: Encoded, max_age: timedelta, rate: float, records: int) -> AgeRow:
    """What a policy does, with the error of its smallest batches."""
    schedule = find_schedule(policy, max_age, rate)
    memory, notes = memory_bytes(policy.columns, schedule.held), _list_notes(schedule, records)
    if schedule.batch is None:
        return AgeRow(name, None, None, schedule.held, None, memory, None, notes=notes)
    batch, every = schedule.batch, timedelta(days=schedule.batch / rate)
    retention = 2 * max(batch, policy.min_batch)
    try:
        prediction = predict_with(model, policy, retention, records, steady=True)
    except NoAnswerError as problem:
        return AgeRow(name, batch, every, schedule.held, None, memory, notes=(*notes, str(problem)))
    seconds = measure_seconds_per_record(policy, retention, records, model.rows)
    price = prediction.price if policy.requires_secret_coins else None
    notes = (*notes, *policy.plan_notes, *(note for note in prediction.notes if note not in model.notes))
    restarts = schedule.risk * records / batch
    return AgeRow(name, batch, every, schedule.held, prediction.error, memory, restarts, seconds, price, notes)


def _list_notes(schedule: Schedule, records: int) -> tuple[str, ...]:
    """What a limit in time does to the batches, in sentences."""
    if schedule.batch is None:
        return (
            f"Too few records arrive: a batch cannot be closed before its records must be erased, and the statistic "
            f"restarts each time; it needs {format_rate(schedule.least_rate)}, a longer limit or fewer numbers.",
        )
    notes = []
    if schedule.batch < schedule.full:
        notes.append(
            f"Batches are closed early, some with {schedule.batch:,} of {schedule.full:,} records, because the first "
            "of them must be erased in time."
        )
    restarts = schedule.risk * records / schedule.batch
    if restarts >= _NOTED:
        often = f"about {restarts:.2g} times" if restarts < 0.5 * records / schedule.batch else "again and again"
        notes.append(
            f"If records arrive independently of each other, there are at times too few, and the statistic restarts "
            f"{often} in {records:,} records; a longer limit, or more records in a stream, prevents that."
        )
    return tuple(notes)


def _list_others(policy: Encoded, max_age: timedelta, rate: float, records: int) -> tuple[AgeRow, AgeRow]:
    """A window of all records of that age, and all records."""
    within = min(max(round(rate * _count_days(max_age)), 1), records)
    window, everything = (
        AgeRow(name, None, None, held, 1.0 / math.sqrt(held), memory_bytes(policy.columns, held))
        for name, held in (("window", within), ("all records", records))
    )
    return window, everything


def _plan_exact(
    policy: NamedPolicy, max_age: timedelta, rate: float, records: int, sample: ArrayLike | None, mean: float | None
) -> AgePlan:
    """The plan of a policy that rounds nothing."""
    far = DEFAULT_MEAN if mean is None else mean
    rows = policy.draw_rows(make_generator(0), EXAMPLES, far) if sample is None else read_sample(sample, policy)
    schedule, name = find_schedule(policy, max_age, rate), type(policy).__name__
    error = None if policy.plan_notes or schedule.batch is None else 0.0
    every = None if schedule.batch is None else timedelta(days=schedule.batch / rate)
    restarts = None if schedule.batch is None else schedule.risk * records / schedule.batch
    seconds = measure_seconds_per_record(policy, 2 * schedule.full, records, rows)
    notes = (*_list_notes(schedule, records), *policy.plan_notes)
    memory = memory_bytes(policy.columns, schedule.held)
    row = AgeRow(name, schedule.batch, every, schedule.held, error, memory, restarts, seconds, notes=notes)
    sampled = 0 if sample is None else len(rows)
    return AgePlan(
        policy,
        max_age,
        rate,
        records,
        sampled,
        None if sampled else far,
        np.zeros(0),
        (row,),
        schedule.least_rate,
        None,
        (),
    )
