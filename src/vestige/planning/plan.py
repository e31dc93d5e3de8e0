"""How much retention is needed, before one starts: by each policy, by the window, and by anybody.

A wanted error and a number of records come to the same: from n records nobody is nearer than 1 / sqrt(n) standard
deviations, and a policy that is within 10% of that is as good as keeping everything. The window's need is that of the
introduction of Immorlica et al. (2024); the paper's algorithms need what `vestige.theory` says, and anybody needs what
the proof of Theorem 3.6 says.
Guarantee: what is asked for is enough, and a little less is not, both measured; held by tests/planning/test_plan.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from numpy.typing import ArrayLike

from vestige import paper, theory
from vestige.channels import CHANNELS
from vestige.errors import NoAnswerError, ParameterError
from vestige.planning.cost import bytes_held, seconds_per_record
from vestige.planning.influence import NEAREST, Known
from vestige.planning.prediction import Prediction, far_from_zero, foretold
from vestige.policies import Encoded, LinearRegression, Mean, Private, Window
from vestige.policy import Policy
from vestige.types import Floats
from vestige.validation import check_at_most, check_int

WITHIN = 1.1
"""How many times the error of all records a policy may have."""
_PRICED = (1, 8, 64)
_MOST = 10**12
_Needs = tuple[Callable[[int, float], int], Callable[[int, float], int]]


@dataclass(frozen=True, slots=True)
class Row:
    """What one policy needs.

    Attributes:
        name: the policy.
        retention: the least that it needs, in records; None where none is enough.
        records: how many must have arrived; None where it never gets there.
        error: what is expected then, in standard deviations of what one record says.
        memory: bytes of the records that are held, at most.
        seconds: that a record takes on this machine; None where it was not tried.
        price: for `Private`, how many times as large the mean squared error is as without noise.
        notes: why it may be otherwise, in sentences.
    """

    name: str
    retention: int | None
    records: int | None
    error: float | None
    memory: int | None
    seconds: float | None = None
    price: float | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """What each policy needs.

    Attributes:
        policy: whose statistic is planned.
        error: what is wanted, as a root mean squared error in standard deviations of what one record says.
        records: how many must have arrived, or will have, for a policy that learns from all.
        sampled: of how many records the sample was; 0 where records are assumed to be normal.
        mean: how far from zero their mean is assumed to lie then, in standard deviations; None with a sample.
        errors: the wanted error of each number of the answer, in the units of the data; shape (numbers,).
        rows: the policies, the window, the paper's algorithms, and `anybody`: the lower bound.
        private: the promise and the bound that `Private` was planned with; None where it was not.
        prices: for it, the price at some retentions.
        notes: what is doubtful about the sample.
    """

    policy: Encoded
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
        """The row of this name."""
        return next(row for row in self.rows if row.name == name)


def plan(
    policy: Encoded,
    *,
    error: float | None = None,
    records: int | None = None,
    sample: ArrayLike | None = None,
    mean: float | None = None,
    epsilon: float = 1.0,
    delta: float = 1e-6,
    bound: float | None = None,
    progress: Callable[[float], None] = lambda _: None,
) -> Plan:
    """What each policy needs for an error, or to be within 10% of the error of all records.

    Args:
        policy: Mean, Moments, Covariance or LinearRegression: whose answer is wanted.
        error: the root mean squared error that is wanted, in standard deviations of a record; of statistics other than
            the mean, of what one record says of each number. Or:
        records: how many will come.
        sample: some of them, in their order; shape (n, columns). Without, they are taken to be normal with standard
            deviation 1 in each column.
        mean: without a sample, how far from zero the mean lies, in standard deviations of a record. Default: 1, and
            notes say what is needed at 1,000.
        epsilon: the promise of `Private`.
        delta: with it.
        bound: the longest that what is averaged of a record may be, else it is shortened. Without a sample, that of the
            longest of 50,000 assumed records; with a sample it has to be said.
        progress: is told the share that is done.

    >>> from vestige import Mean
    >>> found = plan(Mean(), error=0.01)
    >>> [(row.name, row.retention) for row in found.rows if row.name in ("Mean, auto", "window", "anybody")]
    [('Mean, auto', 56), ('window', 10000), ('anybody', 5)]
    """
    wanted, count = _wanted(error, records)
    known = Known(policy, sample, mean)
    private, refusal = _private(known, policy, epsilon, delta, bound)
    tasks = list(_tasks(known, policy, private, refusal, wanted, count))
    rows = []
    for done, task in enumerate(tasks):
        progress(done / len(tasks))
        rows.append(task())
    return Plan(
        policy,
        wanted,
        count,
        len(known.rows) if known.given else 0,
        known.mean,
        wanted * known.spread,
        tuple(rows),
        private,
        () if private is None else tuple(_prices(known, private, count)),
        known.notes,
    )


def _wanted(error: float | None, records: int | None) -> tuple[float, int]:
    """The error, and the records after which a policy that learns from all has it."""
    if (error is None) == (records is None):
        raise ParameterError("give error=... or records=..., just one of them: the error wanted, or how many will come")
    if records is not None:
        count = check_int("records", records, 2)
        if count > _MOST:
            raise ParameterError(f"records={records} is above {_MOST:,}; nobody waits for so many: use fewer")
        return WITHIN / math.sqrt(count), count
    wanted = check_at_most("error", error, 1.0, "one record is as near as its own standard deviation; use less")
    if wanted < WITHIN / math.sqrt(_MOST):
        raise ParameterError(
            f"error={error} takes more than {_MOST:,} records, however they are kept; use a larger one"
        )
    return wanted, math.ceil((WITHIN / wanted) ** 2 * (1.0 - 1e-12))  # 10,000 for 0.011, whatever floats make of it


def _private(
    known: Known, policy: Encoded, epsilon: float, delta: float, bound: float | None
) -> tuple[Private | None, str]:
    """The policy that forgets; or why it cannot be planned."""
    if isinstance(policy, Mean):
        policy = replace(policy, channel="bits")
    if bound is None and known.given:
        return None, (
            "needs a bound: the longest that what is averaged of a record may be. Say it from what you know of the "
            "field; it may not be taken from the data."
        )
    return Private(policy, bound=known.usual_bound() if bound is None else bound, epsilon=epsilon, delta=delta), ""


def _tasks(
    known: Known, policy: Encoded, private: Private | None, refusal: str, error: float, records: int
) -> Iterator[Callable[[], Row]]:
    """What makes each row."""
    for name, one in contenders(policy).items():
        yield lambda name=name, one=one: needed(known, name, one, error, records)  # type: ignore[misc]
    name = "Private" if private is None else f"Private, epsilon {private.epsilon:g}"
    if private is None:
        yield lambda: Row(name, None, None, None, None, notes=(refusal,))
    else:
        yield lambda: needed(known, name, private, error, records)
    yield lambda: _window(known, error)
    yield from _published(policy, error, known.rows)
    yield lambda: _anybody(policy, error)


def contenders(policy: Encoded) -> dict[str, Encoded]:
    """The policies that keep the same statistic, without noise: the mean by each channel."""
    if isinstance(policy, Mean) and not policy.spread:
        return {f"Mean, {name}": replace(policy, channel=name) for name in CHANNELS}
    return {type(policy).__name__: policy}


def needed(known: Known, name: str, policy: Encoded, error: float, records: int) -> Row:
    """The least retention with which the error is met: batches are doubled until it is, then the gap is halved."""
    size = policy.statistic.size

    def tried(segment: int) -> Prediction:
        return foretold(known, policy, 2 * segment * size, records, noted=False, steady=True)

    try:
        least = math.ceil(policy.min_batch / size)
        enough, found = least, tried(least)
        while found.worst > error:
            if math.hypot(found.clipping, found.statistical) >= error:
                return Row(name, None, None, None, None, notes=(_hopeless(found, error),))
            enough *= 2
            found = tried(enough)
        below = enough // 2 if enough > least else enough - 1
        while enough - below > 1:
            middle = (enough + below) // 2
            below, enough = (below, middle) if tried(middle).worst <= error else (middle, enough)
        retention = 2 * enough * size
        found = foretold(known, policy, retention, records, steady=True)
    except NoAnswerError as problem:
        return Row(name, None, None, None, None, notes=(str(problem),))
    seconds = seconds_per_record(policy, retention, records, known.rows)
    notes = tuple(note for note in found.notes if note not in known.notes)
    if enough * size > records:
        notes = (*notes, _HELD)
    if isinstance(policy, Private) and retention >= theory.window_retention(1, error**2):
        notes = (*notes, _UNPAID)
    notes = (*notes, *_far(known, name, policy, error, records, retention))
    price = found.price if isinstance(policy, Private) else None
    memory = bytes_held(policy.columns, retention)
    return Row(name, retention, records, found.error, memory, seconds, price, notes)


def _far(known: Known, name: str, policy: Encoded, error: float, records: int, retention: int) -> Iterator[str]:
    """What would be needed if the mean lay far from zero, where nobody said where it lies."""
    if known.far is None:
        return
    if isinstance(policy, Private):
        yield _BOUND
        return
    far = needed(known.far, name, policy, error, records).retention
    if far != retention:
        yield far_from_zero("none is enough" if far is None else f"it needs a retention of {far:,}")


def _hopeless(found: Prediction, error: float) -> str:
    """Why no retention is enough."""
    return (
        f"No retention is enough: where records are longer than the bound they are shortened, and that alone costs an "
        f"error of {found.clipping:.2g}, where {error:.2g} is wanted; use a larger bound."
    )


def _window(known: Known, error: float) -> Row:
    """As many records as the error asks for, and no more are of use."""
    policy, retention = Window(known.policy), theory.window_retention(1, error**2)
    found = foretold(known, policy, max(retention, 2), retention)
    notes = tuple(note for note in found.notes if note not in known.notes)
    seconds = seconds_per_record(policy, max(retention, 2), retention, known.rows)
    return Row("window", retention, retention, found.error, bytes_held(policy.columns, retention), seconds, notes=notes)


_BOUND = (
    f"Its bound is for a mean at most {NEAREST:g} standard deviation from zero; beyond, the bound must be longer, "
    "and the noise grows with it."
)
_HELD = "The retention is so long that no batch will have been closed, and all records are still held."
_UNPAID = (
    "A window as long is nearer, and knows nothing of erased records either: so few records do not pay for the "
    "noise. With more of them, the same error takes a shorter retention, at the price said for it."
)
_MEASURED = "As published; the error is what theory promises at most, with constants measured on normal records."


def _published(policy: Encoded, error: float, rows: Floats) -> Iterator[Callable[[], Row]]:
    """The paper's algorithms, at the retention that theory asks for."""
    if isinstance(policy, Mean) and not policy.spread:
        dim = policy.dim
        by_coordinate: _Needs = (theory.mean_retention, theory.mean_rounds)
        yield lambda: _as_published("coordinate-wise", paper.CoordinateMean(dim), dim, error, by_coordinate, rows)
        whole: _Needs = (theory.simple_mean_retention, theory.simple_mean_rounds)
        yield lambda: _as_published("algorithm 1", paper.SimpleMean(dim), dim, error, whole, rows)
    if isinstance(policy, LinearRegression) and policy.outputs == 1:
        dim, group = policy.dim, theory.group_size(policy.dim)
        fit: _Needs = (theory.regression_retention, theory.regression_rounds)
        yield lambda: _as_published("algorithm 2", paper.Regression(dim, group=group), dim, error, fit, rows)


def _as_published(name: str, policy: Policy, dim: int, error: float, needs: _Needs, rows: Floats) -> Row:
    """One of the paper's algorithms, with what theory says of its retention and of the records that it takes."""
    try:
        retention, records = (need(dim, dim * error**2) for need in needs)
    except ParameterError as problem:
        return Row(name, None, None, None, None, notes=(f"As published: {problem}.",))
    memory = bytes_held(policy.columns, retention)
    if policy.max_batch is not None and retention // 2 > policy.max_batch:
        notes = (_MEASURED, "It tries all subsets, and there are too many of them to run it.")
        return Row(name, retention, records, error, memory, notes=notes)
    seconds = seconds_per_record(policy, retention, records, rows)
    return Row(name, retention, records, error, memory, seconds, notes=(_MEASURED,))


def _anybody(policy: Encoded, error: float) -> Row:
    """The lower bound: for all means, nobody needs less; of answers that are no means, for the means among them."""
    means = means_in(policy)
    retention = theory.finite_lower_bound(means, means * error**2)
    notes = ["With less, for some mean of normal records, whoever answers is off by more two times in three."]
    if not isinstance(policy, Mean):
        notes.append("It is proved for the means that such an answer includes; for the rest nothing is.")
    return Row("anybody", retention, None, error, bytes_held(policy.columns, retention), notes=tuple(notes))


def means_in(policy: Encoded) -> int:
    """How many means an answer includes."""
    return policy.outputs if isinstance(policy, LinearRegression) else policy.columns


def _prices(known: Known, private: Private, records: int) -> Iterator[tuple[int, float]]:
    """The price of forgetting at the least retention, and at longer ones."""
    for times in _PRICED:
        retention = 2 * private.min_batch * times
        if retention // 2 <= records:
            try:
                yield retention, foretold(known, private, retention, records, noted=False, steady=True).price
            except NoAnswerError:
                return
