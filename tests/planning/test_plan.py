"""How much retention a plan asks for: enough, and not much more; and as theory says for the others."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import pytest

from vestige import (
    Covariance,
    LinearRegression,
    LogisticRegression,
    Mean,
    Moments,
    Policy,
    Private,
    Stream,
    VestigeError,
    Window,
    theory,
)
from vestige.clock import Clock
from vestige.planning import plan, predict
from vestige.planning.data_model import DataModel
from vestige.planning.plan import find_required
from vestige.policies import Encoded
from vestige.policies.mean import MeanEstimate
from vestige.records import Records
from vestige.types import Bools, Floats

RNG = np.random.default_rng(7)
NORMAL = RNG.normal(1.3, 1.0, 20_000)


def asked(policy: Encoded, records: int, sample: Floats | None = None) -> int:
    """The retention with which a policy is within 10% of all records."""
    inner = policy.unwrap()
    assert isinstance(inner, Encoded)
    row = find_required(DataModel(inner, sample), "policy", policy, 1.1 / records**0.5, records)
    assert row.retention is not None
    return row.retention


def off(policy: Mean, retention: int, records: int, trials: int) -> float:
    """The root mean squared error in units of that of all records: 1 from these, the rest from how they are kept."""
    apart = []
    for trial in range(trials):
        rows = np.random.default_rng(trial).normal(1.3, 1.0, (records, policy.dim))
        stream = Stream(policy, retention=retention, seed=trial)
        stream.extend(rows)
        apart.append(((stream.estimate().value - rows.mean(axis=0)) ** 2).mean())
    return float(np.sqrt(1.0 + records * np.mean(apart)))


@pytest.mark.slow
def test_what_is_asked_for_is_enough_and_a_little_less_is_not() -> None:
    """Four means of four million records: where too few of them are held, what is rounded off shows."""
    policy = Mean(4, channel="bits")
    rows = RNG.normal(1.3, 1.0, (20_000, 4))
    enough = asked(policy, 4_000_000, rows)
    assert enough > 2 * policy.min_batch
    assert off(policy, enough, 4_000_000, 3) < 1.1 * 1.05
    assert off(policy, enough - 8, 4_000_000, 3) > 1.1


def test_the_others_need_what_theory_says() -> None:
    found = plan(Mean(2), error=0.05)
    assert found.row("window").retention == theory.window_retention(2, 2 * 0.05**2) == 400
    assert found.row("lower bound").retention == theory.least_retention(2, 2 * 0.05**2, 484)
    assert found.row("coordinate-wise").retention == theory.mean_retention(2, 2 * 0.05**2)
    assert found.row("coordinate-wise").records == theory.mean_rounds(2, 2 * 0.05**2)
    assert found.row("algorithm 1").retention == theory.simple_mean_retention(2, 2 * 0.05**2)
    fit = plan(LinearRegression(1), error=0.1)
    assert fit.row("algorithm 2").retention == theory.regression_retention(1, 0.1**2)
    assert fit.row("lower bound").retention == theory.least_retention(1, 0.1**2, 121)
    wide = [plan(policy, error=0.1).row("lower bound").retention for policy in (Moments(), Covariance(3))]
    assert wide == [theory.least_retention(means, means * 0.1**2, 121) for means in (1, 3)]


def test_an_error_and_a_number_of_records_come_to_the_same() -> None:
    by_error = plan(Mean(), error=0.011)
    by_records = plan(Mean(), records=10_000)
    assert by_error.records == 10_000
    assert by_records.error == pytest.approx(0.011)
    assert by_error.private == by_records.private
    assert [row.retention for row in by_error.rows] == [row.retention for row in by_records.rows]
    assert all(row.error is None or row.error <= 0.011 * (1.0 + 1e-9) for row in by_error.rows)


def test_the_price_is_that_of_the_policy() -> None:
    rows = np.random.default_rng(0).normal(size=(20_000, 2))
    private = Private(Mean(2), bound=5.0, epsilon=1.0, delta=1e-6)
    found = predict(private, retention=2_048, records=1_024 * 100, sample=rows)
    assert found.price == pytest.approx(private.price(1_024, variance=float(rows.var(axis=0).sum())), rel=0.01)


def test_forgetting_more_costs_more() -> None:
    private = [Private(bound=6.0, epsilon=epsilon, delta=1e-6) for epsilon in (1.0, 4.0)]
    much, less = (asked(policy, 100_000, NORMAL) for policy in private)
    assert much > 4 * less
    variance = float(NORMAL.var())
    assert private[0].price(much // 2, variance) < 1.1**2 < private[0].price(much // 2 - much // 20, variance)


def test_where_a_window_forgets_as_well_and_is_nearer_it_is_said() -> None:
    private = Private(bound=6.0, epsilon=1.0, delta=1e-6)
    few, many = (
        find_required(DataModel(Mean(), NORMAL), "Private", private, 1.1 / n**0.5, n) for n in (1_000, 1_000_000)
    )
    assert any("A window with this retention has a smaller error" in note for note in few.notes)
    assert not many.notes


def test_a_bound_is_never_taken_from_the_data() -> None:
    row = plan(Mean(), error=0.1, sample=NORMAL).row("Private")
    assert row.retention is None
    assert "must not be taken from the data" in row.notes[0]


def test_a_bound_that_cuts_too_much_off_is_said_to() -> None:
    row = find_required(DataModel(Mean(), NORMAL), "Private", Private(bound=2.0, epsilon=1.0, delta=1e-6), 0.01, 12_100)
    assert row.retention is None
    assert "use a larger bound" in row.notes[0]


def test_what_is_asked_for_does_not_depend_on_the_unit() -> None:
    policy = Mean(channel="bits")
    plain, moved, scaled = (asked(policy, 4_000_000, rows) for rows in (NORMAL, NORMAL + 1e4, 1e-6 * NORMAL))
    assert plain == moved == scaled


def test_on_a_lattice_averages_need_more_than_bits() -> None:
    rows = np.random.default_rng(0).poisson(1.0, 20_000).astype(np.float64)
    average, auto = (asked(Mean(channel=name), 20_000, rows) for name in ("average", "auto"))
    assert average > 2 * auto
    notes = predict(Mean(channel="average"), retention=average, records=20_000, sample=rows).notes
    assert any("without an average near its target" in note for note in notes)


def test_a_sample_that_tells_little_is_said_to() -> None:
    rng = np.random.default_rng(0)
    assert not DataModel(Mean(), rng.normal(size=10_000)).notes
    assert "tails are heavy" in DataModel(Mean(), rng.standard_cauchy(10_000)).notes[0]
    assert "Neighbouring records are correlated" in DataModel(Mean(), np.sort(rng.normal(size=10_000))).notes[0]


def test_few_records_for_a_bent_answer_are_said_to() -> None:
    notes = predict(Window(Moments()), retention=20, records=1_000).notes
    assert any("is not linear in its averages" in note for note in notes)
    assert not predict(Window(Moments()), retention=20_000, records=20_000).notes


def test_a_stream_that_never_closes_a_batch_loses_nothing() -> None:
    found = plan(Mean(), records=19)
    assert "all records are still held" in found.row("Mean, auto").notes[-1]
    assert found.row("Mean, auto").error == pytest.approx(19**-0.5)


@dataclass(frozen=True)
class Halved(Mean):
    """A statistic of somebody's own, which says all that a plan needs."""

    name: ClassVar[str] = ""

    @property
    def is_identity(self) -> bool:
        return False

    def conclude(self, numbers: Floats, worth: float, rounding: float) -> MeanEstimate:
        found = super().conclude(numbers, worth, rounding)
        return replace(found, value=np.asarray(found.value) / 2.0)

    def variants(self) -> dict[str, Mean]:
        return {"Halved": self}


class Silent(Policy[Any]):
    """A policy of somebody's own, which says nothing of its statistic."""

    def update(self, clock: Clock, retained: Records, arrivals: Records, coins: int) -> Bools:  # noqa: ARG002
        return np.ones(len(retained) + len(arrivals), np.bool_)

    def answer(self, clock: Clock, retained: Records) -> float:  # noqa: ARG002
        return 0.0


def test_a_policy_from_outside_is_planned_by_what_it_says() -> None:
    policy = Halved(channel="bits")
    ours, theirs = (predict(one, retention=44, records=10_000, mean=1.0) for one in (Mean(channel="bits"), policy))
    assert theirs.error == pytest.approx(ours.error)
    assert theirs.errors == pytest.approx(ours.errors / 2.0)
    assert [row.name for row in plan(policy, error=0.1, mean=1.0).rows] == [
        "Halved",
        "Private, epsilon 1",
        "window",
        "lower bound",
    ]


def test_a_policy_that_says_nothing_cannot_be_predicted() -> None:
    for policy in (Silent(), 3):
        with pytest.raises(VestigeError, match="cannot be predicted: it does not say how its answer depends"):
            predict(policy, retention=96, records=1_000)  # type: ignore[arg-type]
    with pytest.raises(VestigeError, match="wraps another policy; plan that one"):
        plan(Private(bound=1.0, epsilon=1.0, delta=1e-6), error=0.1)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({}, "give either error=..., the target error, or records=..."),
        ({"error": 0.1, "records": 10}, "give either error=..., the target error, or records=..."),
        ({"error": -0.1}, "error=-0.1 is out of range"),
        ({"error": 2.0}, "error=2.0 is above 1; a single record has an error of 1"),
        ({"error": 1e-9}, "error=1e-09 requires more than 1,000,000,000,000 records"),
        ({"records": 10**13}, "is above 1,000,000,000,000"),
        ({"records": 1}, "records=1 is out of range; use a whole number, 2 or more"),
        ({"error": 0.1, "bound": 0.0}, "bound=0.0 is out of range"),
        ({"error": 0.1, "epsilon": 0.0}, "epsilon=0.0"),
        ({"error": 0.1, "mean": 1e10}, "mean=10000000000.0 is out of range"),
        ({"error": 0.1, "mean": True}, "mean=True is out of range"),
        ({"error": 0.1, "mean": 1.0, "sample": [4711.0] * 500}, "mean=1.0 cannot be combined with a sample"),
        ({"error": 0.1, "sample": [4711.0] * 50}, "the sample has 50 records; give at least 100"),
        ({"error": 0.1, "sample": [4711.0] * 500}, "all records of the sample have the same influence"),
        ({"error": 0.1, "sample": [np.nan] * 500}, "is missing, infinite or beyond"),
        (
            {"error": 0.1, "policy": LogisticRegression(2)},
            "cannot be predicted: how fast it learns depends on its loss",
        ),
        ({"error": 0.1, "policy": Mean(half_life=100.0)}, "half_life=100.0 cannot be predicted"),
        ({"error": 0.1, "policy": Window()}, "cannot be predicted: it does not say how its answer depends on a record"),
        ({"error": 0.1, "policy": Covariance(100)}, "encodes 5,150 numbers, above the 2,000"),
    ],
)
def test_what_cannot_be_planned_is_refused(arguments: dict[str, object], text: str) -> None:
    policy = arguments.pop("policy", Mean())
    with pytest.raises(VestigeError) as problem:
        plan(policy, **arguments)  # type: ignore[arg-type]
    assert text in str(problem.value)
    assert "4711" not in str(problem.value)
