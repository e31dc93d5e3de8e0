"""The retention that each policy requires for a target error, beside that of a window and the lower bound.

A target error and a number of records are equivalent: no policy has an error below 1 / sqrt(n) standard deviations from
n records, and one within 10% of that is as good as keeping everything. The window requires what the introduction of
Immorlica et al. (2024) says, https://doi.org/10.48550/arXiv.2404.10997; the paper's algorithms require what
`vestige.theory` says, and the lower bound is the sharper of ours and that of the proof of Theorem 3.6.
Guarantee: the retention is enough, and a little less is not, both measured; held by tests/planning/test_plan.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from textwrap import fill
from typing import TYPE_CHECKING, Any, TypeGuard

import numpy as np
from numpy.typing import ArrayLike

from vestige import paper, theory
from vestige.errors import NoAnswerError, ParameterError
from vestige.markup import make_frame, make_table, make_text
from vestige.planning.cost import measure_seconds_per_record, memory_bytes
from vestige.planning.data_model import DEFAULT_MEAN, DataModel, check_policy
from vestige.planning.measurement import STREAMS, find_measured, is_measured
from vestige.planning.prediction import MAX_MISSED, Prediction, is_rounded_off, predict_with
from vestige.planning.requests import note_requests
from vestige.planning.table import HEADER, describe, format_row, summarize
from vestige.policies import Bundle, Encoded, Mean, NamedPolicy, Private, Window
from vestige.policies.private import Limit, check_bound, list_unbounded
from vestige.policy import Policy
from vestige.random.generators import make_generator
from vestige.statistics import Averages
from vestige.stream.arrivals import read_sample
from vestige.types import Floats
from vestige.validation import check_at_most, check_int

if TYPE_CHECKING:
    import pandas as pd

TOLERANCE = 1.1
"""The error that a policy may have, as a multiple of that of all records."""
_PRICED = (1, 8, 64)
EXAMPLES = 1_000
"""Number of records that an exact policy is tried with."""
_MAX_RECORDS = 10**12
_Requirement = tuple[Callable[[int, float], int], Callable[[int, float], int]]


@dataclass(frozen=True, slots=True)
class Row:
    """What one policy requires.

    Attributes:
        name: name of the policy.
        retention: smallest retention that is enough, in records; None where none is.
        records: number of records that must have arrived; None where it never gets there.
        error: error that is expected then, in standard deviations of one record's influence; None where it is not
            measured in these, as that of a sketch.
        memory: largest number of bytes that the retained records occupy.
        seconds: time per record on this machine; None where it was not measured.
        price: for `Private`, the mean squared error as a multiple of that without noise.
        notes: reasons why it may be otherwise, in sentences.
    """

    name: str
    retention: int | None
    records: int | None
    error: float | None
    memory: int | None
    seconds: float | None = None
    price: float | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Plan:
    """What each policy requires; prints as a table, in notebooks too.

    Attributes:
        policy: policy whose statistic is planned.
        error: target error, as a root mean squared error in standard deviations of one record's influence; 0 where the
            policy is exact.
        records: number of records that a policy that learns from all of them needs, or will have.
        sampled: number of records in the sample; 0 where records are assumed to be normal.
        mean: without a sample, the assumed distance of the mean from zero, in standard deviations; else None.
        errors: target error of each number of the answer, in the units of the data; shape (numbers,).
        rows: the policies, the window, the paper's algorithms, and the lower bound; of a policy that is exact, itself.
        private: the `Private` policy that was planned; None where there is none.
        prices: its price at some retentions, as pairs.
        notes: doubts about the sample, in sentences.
    """

    policy: NamedPolicy
    error: float
    records: int
    sampled: int
    mean: float | None
    errors: Floats
    rows: tuple[Row, ...]
    private: Private | None
    prices: tuple[tuple[int, float], ...]
    notes: tuple[str, ...]

    def row(self, name: str) -> Row:
        """Find a row by name.

        Args:
            name: name of the policy, such as `window` or `lower bound`.

        Returns:
            The row.

        Raises:
            KeyError: there is no such row.

        Example:
            >>> from vestige import Mean
            >>> plan(Mean(), error=0.1).row("window").retention
            100
        """
        return {row.name: row for row in self.rows}[name]

    def __str__(self) -> str:
        sentences = (fill(line, 100, subsequent_indent="  ") for line in summarize(self))
        return f"{self._describe()}\n{make_text(HEADER, map(format_row, self.rows), sentences)}"

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return make_table(self._describe(), HEADER, map(format_row, self.rows), summarize(self))

    def _describe(self) -> str:
        return describe(self, self.policy.name)

    def to_pandas(self) -> pd.DataFrame:
        """Convert the rows to a data frame.

        Returns:
            One row for each policy, with a column for each attribute of `Row`.

        Raises:
            MissingExtraError: pandas is not installed.

        Example:
            >>> from vestige import Mean
            >>> int(plan(Mean(), error=0.1).to_pandas().set_index("name").loc["window", "retention"])
            100
        """
        return make_frame({name: getattr(row, name) for name in Row.__slots__} for row in self.rows)


def plan(
    policy: Policy,
    *,
    error: float | None = None,
    records: int | None = None,
    sample: ArrayLike | None = None,
    mean: float | None = None,
    epsilon: float = 1.0,
    delta: float = 1e-6,
    bound: Limit | Mapping[str, Limit] | None = None,
    progress: Callable[[float], None] = lambda _: None,
) -> Plan:
    """Find the retention that each policy requires for a target error, or to be within 10% of that of all records.

    Args:
        policy: the statistic to plan: one that is written as averages, such as Mean, Sum, Histogram, Moments or
            LinearRegression; one that is exact, such as Count; or any policy of your own that estimates the mean of
            each column, whose error is measured in simulated streams.
        error: target root mean squared error, in standard deviations of a record; for statistics other than the mean,
            of one record's influence on each number. Give this or `records`.
        records: number of records that will arrive.
        sample: some records, in order of arrival; shape (n, columns). Default: records are assumed to be normal with
            standard deviation 1 in each column.
        mean: without a sample, the distance of the mean from zero, in standard deviations of a record. It matters for
            `Private`, whose default bound grows with it. Default: 1.
        epsilon: epsilon of the (epsilon, delta) guarantee of `Private`.
        delta: delta of the (epsilon, delta) guarantee of `Private`.
        bound: largest magnitude of values, at which `Private` cuts them off, or both ends, such as `(0, 200)`: for all
            columns, or a mapping of the columns of a bundle. Default: the largest of 50,000 assumed records; with a
            sample there is no default.
        progress: is called with the share that is done.

    Returns:
        The plan, one row for each policy.

    Raises:
        ParameterError: the policy cannot be predicted, or a number is out of range.
        DataError: the sample is too small, or does not vary.

    Example:
        >>> from vestige import Mean
        >>> rows = plan(Mean(), error=0.01).rows
        >>> [(row.name, row.retention) for row in rows if row.name in ("Mean, auto", "window", "lower bound")]
        [('Mean, auto', 44), ('window', 10000), ('lower bound', 7)]
    """
    target, count = find_target(error, records)
    if rounds_nothing(policy):
        return _plan_exact(policy, count, sample, mean)
    if is_measured(policy):
        return _plan_measured(policy, target, count, sample, mean, progress)
    policy = check_policy(policy)
    model = DataModel(policy, sample, mean, count)
    private, refusal = make_private(model, policy, epsilon, delta, bound)
    tasks = list(_list_tasks(model, policy, private, refusal, target, count))
    rows = []
    for done, task in enumerate(tasks):
        progress(done / len(tasks))
        rows.append(task())
    return Plan(
        policy,
        target,
        count,
        len(model.rows) if model.has_sample else 0,
        model.mean,
        target * model.spread,
        tuple(rows),
        private,
        () if private is None else tuple(_find_prices(model, private, count)),
        model.notes,
    )


def rounds_nothing(policy: object) -> TypeGuard[NamedPolicy]:
    """Tell whether a policy answers as if it had kept all records, such as one of sketches alone.

    Args:
        policy: the policy.

    Returns:
        True where there is no error to predict.
    """
    if isinstance(policy, Bundle):
        return not any(isinstance(each, Encoded) for _, policies in policy.groups for each in policies)
    return isinstance(policy, NamedPolicy) and policy.is_exact


def find_target(error: float | None, records: int | None) -> tuple[float, int]:
    """Find the target error, and the number of records after which a policy that learns from all of them reaches it.

    Args:
        error: target error; None if the number of records is given.
        records: number of records; None if the target error is given.

    Returns:
        Both.

    Raises:
        ParameterError: both or none are given, or one is out of range.

    Example:
        >>> find_target(0.011, None)
        (0.011, 10000)
    """
    if (error is None) == (records is None):
        raise ParameterError("give either error=..., the target error, or records=..., the number that will arrive")
    if records is not None:
        count = check_int("records", records, 2)
        if count > _MAX_RECORDS:
            raise ParameterError(f"records={records} is above {_MAX_RECORDS:,}; use fewer")
        return TOLERANCE / math.sqrt(count), count
    target = check_at_most("error", error, 1.0, "a single record has an error of 1; use a smaller one")
    if target < TOLERANCE / math.sqrt(_MAX_RECORDS):
        raise ParameterError(f"error={error} requires more than {_MAX_RECORDS:,} records; use a larger one")
    return target, math.ceil((TOLERANCE / target) ** 2 * (1.0 - 1e-12))  # 10,000 for 0.011, despite rounding


def _plan_measured(
    policy: Policy,
    target: float,
    count: int,
    sample: ArrayLike | None,
    mean: float | None,
    progress: Callable[[float], None],
) -> Plan:
    """The plan of a policy of one's own: measured, beside what is predicted for the means that it estimates."""
    means = Mean(policy.columns)
    model = DataModel(means, sample, mean, count)
    found, name = find_measured(policy, model.rows, target, count), type(policy).__name__
    progress(0.5)
    if found is None:
        rows = [Row(name, None, None, None, None, notes=(_NEVER_ENOUGH,))]
    else:
        seconds = measure_seconds_per_record(policy, found.retention, count, model.rows)
        memory = memory_bytes(policy.columns, found.retention)
        rows = [Row(name, found.retention, count, found.error, memory, seconds, notes=(_MEASURED,))]
    rows.extend(find_required(model, each, variant, target, count) for each, variant in means.variants().items())
    rows.extend((_find_window(model, target), _find_lower_bound(means, target, count)))
    sampled = len(model.rows) if model.has_sample else 0
    return Plan(means, target, count, sampled, model.mean, target * model.spread, tuple(rows), None, (), model.notes)


_MEASURED = (
    f"Measured in {STREAMS} simulated streams of independent records, because the policy does not say how its answer "
    "depends on a record; failures that are too rare to show there are not counted."
)
_NEVER_ENOUGH = (
    "Measured in simulated streams: no retention that it can work with is enough. The plan takes it for an estimate of "
    "the mean of each column."
)


def _plan_exact(policy: NamedPolicy, records: int, sample: ArrayLike | None, mean: float | None) -> Plan:
    """The plan of a policy that rounds nothing: what its smallest batches require."""
    far = DEFAULT_MEAN if mean is None else mean
    rows = policy.draw_rows(make_generator(0), EXAMPLES, far) if sample is None else read_sample(sample, policy)
    retention, name = policy.default_retention, type(policy).__name__
    seconds = measure_seconds_per_record(policy, retention, records, rows)
    error, notes = None if policy.plan_notes else 0.0, (_EXACT, *policy.plan_notes)
    notes = (*notes, *note_requests(policy, retention // 2))
    row = Row(name, retention, records, error, memory_bytes(policy.columns, retention), seconds, notes=notes)
    sampled = 0 if sample is None else len(rows)
    return Plan(policy, 0.0, records, sampled, None if sampled else far, np.zeros(0), (row,), None, (), ())


def make_private(
    model: DataModel, policy: Encoded, epsilon: float, delta: float, bound: Limit | Mapping[str, Limit] | None
) -> tuple[Private | None, str]:
    """Make the private policy of the same statistic.

    Args:
        model: the records.
        policy: the policy without noise.
        epsilon: epsilon of the guarantee.
        delta: delta of the guarantee.
        bound: largest magnitude of values or both ends, for all columns or by column; None for that of assumed records.

    Returns:
        The policy and an empty text; or None, and why it cannot be planned.

    Raises:
        ParameterError: a number is out of range.
    """
    if not isinstance(policy.statistic, Averages):
        return None, "cannot be planned: noise can be added to running averages only."
    limits = _choose_limits(model, policy, bound)
    if limits is None:
        return None, (
            "needs a bound: the largest magnitude of the values of each column. Choose it from what you know of the "
            "field; it must not be taken from the data."
        )
    try:
        return Private(policy.for_noise(), epsilon=epsilon, delta=delta, **limits), ""
    except ParameterError as problem:
        if not isinstance(policy, Bundle) or bound is not None:
            raise
        return None, f"cannot be planned: {problem}."


def _choose_limits(
    model: DataModel, policy: Encoded, bound: Limit | Mapping[str, Limit] | None
) -> dict[str, Any] | None:
    """The bounds, or the norm where a statistic says nothing of single values; None if they are not known."""
    needed = list_unbounded(policy)
    if needed is None:
        norms = policy.statistic.norms(model.rows)
        assert norms is not None  # noqa: S101  # they are averages
        unknown = bound is None and model.has_sample
        return None if unknown else {"bound": float(norms.max()) if bound is None else bound}
    bounds = _choose_bounds(model, policy, needed, bound)
    return None if bounds is None else {"bounds": bounds}


def _choose_bounds(
    model: DataModel, policy: Encoded, needed: Sequence[int], bound: Limit | Mapping[str, Limit] | None
) -> Mapping[str, Limit] | tuple[Limit, ...] | None:
    """The bounds of those columns that need one, by name where columns have names; None if they are not known."""
    for name, value in bound.items() if isinstance(bound, Mapping) else (("bound", bound),):
        if value is not None:
            check_bound(str(name), value, policy)
    if isinstance(bound, Mapping):
        return bound
    if bound is None and needed and model.has_sample:
        return None
    each = [float(np.nanmax(np.abs(model.rows[:, column]))) if bound is None else bound for column in needed]
    if policy.column_names:
        return {policy.column_names[column]: value for column, value in zip(needed, each, strict=True)}
    return tuple(each)


def _list_tasks(
    model: DataModel, policy: Encoded, private: Private | None, refusal: str, error: float, records: int
) -> Iterator[Callable[[], Row]]:
    """A function for each row."""
    for name, variant in policy.variants().items():
        yield lambda name=name, variant=variant: find_required(model, name, variant, error, records)  # type: ignore[misc]
    name = "Private" if private is None else f"Private, epsilon {private.epsilon:g}"
    if private is None:
        yield lambda: Row(name, None, None, None, None, notes=(refusal,))
    else:
        yield lambda: find_required(model, name, private, error, records)
    yield lambda: _find_window(model, error)
    yield from _list_published(policy, error, model.rows)
    yield lambda: _find_lower_bound(policy, error, records)


def find_required(model: DataModel, name: str, policy: Encoded, error: float, records: int) -> Row:
    """Find the smallest retention that meets an error, to within 1%: double the batch until it does, then bisect.

    Args:
        model: the records.
        name: name of the row.
        policy: the policy.
        error: target error, in standard deviations of one record's influence.
        records: number of records that will have arrived.

    Returns:
        The row.

    Example:
        >>> from vestige import Mean
        >>> find_required(DataModel(Mean()), "Mean", Mean(), 0.011, 10_000).retention
        44
    """

    def predict_batch(batch: int) -> Prediction:
        return predict_with(model, policy, 2 * batch, records, with_notes=False, steady=True)

    def is_enough(batch: int, predicted: Prediction) -> bool:
        good = predicted.worst <= error and predicted.missed <= MAX_MISSED
        return good and not is_rounded_off(model, policy, batch, records)

    try:
        least = policy.min_batch
        enough, prediction = least, predict_batch(least)
        while not is_enough(enough, prediction):
            if math.hypot(prediction.clipping, prediction.statistical) >= error:
                return Row(name, None, None, None, None, notes=(_note_clipping(prediction, error),))
            enough *= 2
            prediction = predict_batch(enough)
        below = enough // 2 if enough > least else enough
        while enough - below > max(1, enough // 100):
            middle = (enough + below) // 2
            below, enough = (below, middle) if is_enough(middle, predict_batch(middle)) else (middle, enough)
        retention = 2 * enough
        prediction = predict_with(model, policy, retention, records, steady=True)
    except NoAnswerError as problem:
        return Row(name, None, None, None, None, notes=(str(problem),))
    seconds = measure_seconds_per_record(policy, retention, records, model.rows)
    notes = (*policy.plan_notes, *(note for note in prediction.notes if note not in model.notes))
    notes = (*notes, *((_ALL_HELD,) if enough > records else note_requests(policy, enough)))
    if policy.requires_secret_coins and retention >= theory.window_retention(1, error**2):
        notes = (*notes, _WINDOW_BETTER)
    if isinstance(policy, Private) and list_unbounded(policy.policy) != () and model.is_mean_assumed:
        notes = (*notes, _BOUND)
    price = prediction.price if policy.requires_secret_coins else None
    memory = memory_bytes(policy.columns, retention)
    return Row(name, retention, records, prediction.error, memory, seconds, price, notes)


def _note_clipping(prediction: Prediction, error: float) -> str:
    """Why no retention is enough."""
    return (
        f"No retention is enough: records beyond the bound are clipped, and that alone adds an error of "
        f"{prediction.clipping:.2g}, where {error:.2g} is the target; use a larger bound."
    )


def _find_window(model: DataModel, error: float) -> Row:
    """The window: it requires as many records as the error does, and more are of no use."""
    policy, retention = Window(model.policy), theory.window_retention(1, error**2)
    prediction = predict_with(model, policy, max(retention, 2), retention)
    notes = tuple(note for note in prediction.notes if note not in model.notes)
    seconds = measure_seconds_per_record(policy, max(retention, 2), retention, model.rows)
    memory = memory_bytes(policy.columns, retention)
    return Row("window", retention, retention, prediction.error, memory, seconds, notes=notes)


_BOUND = (
    f"Its bound assumes a mean at most {DEFAULT_MEAN:g} standard deviation from zero; farther from zero the bound must "
    "be larger, and the noise grows with it."
)
_EXACT = "Nothing is rounded: the answer is that of the same algorithm over all records."
_ALL_HELD = "The retention is so long that no batch will have been closed, and all records are still held."
_WINDOW_BETTER = (
    "A window with this retention has a smaller error, and reveals nothing of erased records either: with so few "
    "records the noise outweighs the benefit. With more of them, a shorter retention gives the same error, at the "
    "price stated for it."
)
_AS_PUBLISHED = "As published; the error is the upper bound from theory, with constants measured on normal records."


def _list_published(policy: Encoded, error: float, rows: Floats) -> Iterator[Callable[[], Row]]:
    """The paper's algorithms for the statistic, at the retention that theory asks for."""
    if policy.name == "mean" and policy.is_identity:
        dim = policy.columns
        by_coordinate: _Requirement = (theory.mean_retention, theory.mean_rounds)
        yield lambda: _find_published("coordinate-wise", paper.CoordinateMean(dim), dim, error, by_coordinate, rows)
        whole: _Requirement = (theory.simple_mean_retention, theory.simple_mean_rounds)
        yield lambda: _find_published("algorithm 1", paper.SimpleMean(dim), dim, error, whole, rows)
    if policy.name == "regression" and policy.answered_means == 1:
        dim = policy.columns - 1
        fit: _Requirement = (theory.regression_retention, theory.regression_rounds)
        algorithm = paper.Regression(dim, group=theory.group_size(dim))
        yield lambda: _find_published("algorithm 2", algorithm, dim, error, fit, rows)


def _find_published(name: str, policy: Policy, dim: int, error: float, requirement: _Requirement, rows: Floats) -> Row:
    """One of the paper's algorithms, with the retention and the number of records that theory asks for."""
    try:
        retention, records = (require(dim, dim * error**2) for require in requirement)
    except ParameterError as problem:
        return Row(name, None, None, None, None, notes=(f"As published: {problem}.",))
    memory = memory_bytes(policy.columns, retention)
    if policy.max_batch is not None and retention // 2 > policy.max_batch:
        notes = (_AS_PUBLISHED, "It searches all subsets, and there are too many of them to run it.")
        return Row(name, retention, records, error, memory, notes=notes)
    seconds = measure_seconds_per_record(policy, retention, records, rows)
    return Row(name, retention, records, error, memory, seconds, notes=(_AS_PUBLISHED,))


def _find_lower_bound(policy: Encoded, error: float, records: int) -> Row:
    """The lower bound over all policies; for answers other than means, the bound for the means among them."""
    means = policy.answered_means
    retention = theory.least_retention(means, means * error**2, records)
    notes = [
        "With less, every policy has a larger root mean squared error after that number of records, for some mean of "
        "normal records."
    ]
    if policy.name != "mean":
        notes.append("It is proved for the means that such an answer includes; for the rest there is no proof.")
    return Row("lower bound", retention, records, error, memory_bytes(policy.columns, retention), notes=tuple(notes))


def _find_prices(model: DataModel, private: Private, records: int) -> Iterator[tuple[int, float]]:
    """The price of `Private` at its smallest retention, and at longer ones."""
    for times in _PRICED:
        retention = 2 * private.min_batch * times
        if retention // 2 <= records:
            try:
                yield retention, predict_with(model, private, retention, records, with_notes=False, steady=True).price
            except NoAnswerError:
                return
