"""Ratios of means against numpy over all data, and their standard errors against repeated streams."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from datasets import run_with_requests
from vestige import Bundle, Mean, Private, Ratio, Stream
from vestige.cli import command
from vestige.errors import NoAnswerError, ParameterError
from vestige.flights import flights
from vestige.planning import plan
from vestige.types import Floats

Draw = Callable[[np.random.Generator, int], tuple[Floats, Floats]]


def visit(rng: np.random.Generator, n: int) -> Floats:
    """Numbers of visits, one or more."""
    return np.asarray(rng.poisson(3.0, n) + 1.0, np.float64)


def take_flights(one: str, other: str, n: int) -> tuple[Floats, Floats]:
    """Two columns of flights."""
    rows = flights(one, other)[:n]
    return rows[:, 0], rows[:, 1]


TABLES: dict[str, Draw] = {
    "spent per visit": lambda rng, n: (20.0 * (x := visit(rng, n)) + rng.normal(0.0, 5.0, n), x),
    "far from zero": lambda rng, n: (2e6 + rng.normal(size=n), 1e6 + rng.normal(size=n)),
    "very far from zero": lambda rng, n: (2e10 + rng.normal(size=n), 1e10 + rng.normal(size=n)),
    "nearly proportional": lambda rng, n: (2.0 * (x := visit(rng, n)) * (1.0 + 1e-6 * rng.normal(size=n)), x),
    "sorted": lambda rng, n: (np.sort(rng.lognormal(size=n)), np.sort(rng.lognormal(size=n))),
    "drifting": lambda rng, n: ((x := visit(rng, n)) * np.linspace(1.0, 5.0, n) + rng.normal(size=n), x),
    "zeros first": lambda rng, n: (rng.normal(5.0, 1.0, n), np.where(np.arange(n) < n // 2, 0.0, visit(rng, n))),
    "negative": lambda rng, n: (rng.normal(size=n), rng.normal(-5.0, 1.0, n)),
    "tiny": lambda rng, n: (1e-60 * rng.normal(1.0, 1.0, n), 1e-60 * rng.normal(3.0, 1.0, n)),
    "rare": lambda rng, n: ((rng.random(n) < 2e-3).astype(np.float64), rng.poisson(1.0, n).astype(np.float64)),
    "minutes per mile": lambda _, n: take_flights("air_time", "distance", n),
    "delay per delay": lambda _, n: take_flights("arr_delay", "dep_delay", n),
}
QUICK = ("spent per visit", "far from zero", "nearly proportional", "zeros first", "minutes per mile")


def find_ratio(rows: Floats) -> tuple[float, float]:
    """The ratio of means, and its standard error by the delta method, by numpy."""
    y, x = rows.T
    ratio = y.mean() / x.mean()
    return float(ratio), float(np.sqrt(np.mean((y - ratio * x) ** 2) / len(rows)) / abs(x.mean()))


def draw(name: str, n: int, seed: int = 0) -> Floats:
    return np.column_stack(TABLES[name](np.random.default_rng(seed), n))


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name in QUICK else pytest.mark.slow) for name in TABLES]
)
def test_ratios_of_the_whole_stream(name: str) -> None:
    rows = draw(name, 10_000)
    stream = Stream(Ratio(), retention=640, seed=0)
    stream.extend(rows)
    estimate, (ratio, error) = stream.estimate(), find_ratio(rows)
    assert abs(estimate.value - ratio) <= 0.01 * error
    assert estimate.standard_error == pytest.approx(error, rel=1e-5)
    assert (estimate.numerator, estimate.denominator) == pytest.approx(tuple(rows.mean(axis=0)), rel=1e-6, abs=1e-70)
    assert not estimate.missed


@pytest.mark.slow
@pytest.mark.parametrize("retention", [172, 320])
@pytest.mark.parametrize("name", TABLES)
def test_at_shorter_retentions_it_is_near_or_a_miss_is_said(name: str, retention: int) -> None:
    rows = draw(name, 20_000)
    stream = Stream(Ratio(), retention=retention, seed=0)
    stream.extend(rows)
    estimate, (ratio, error) = stream.estimate(), find_ratio(rows)
    assert abs(estimate.value - ratio) <= 0.5 * error or estimate.missed


@pytest.mark.parametrize("factor", [2.0, 0.1, 1.0 / 3.0, -7.7])
def test_proportional_columns_have_their_ratio_and_no_error(factor: float) -> None:
    x = visit(np.random.default_rng(0), 3_000)
    for columns in ([factor * x, x], [np.full(3_000, factor), np.ones(3_000)]):
        stream = Stream(Ratio(), retention=640, seed=0)
        stream.extend(np.column_stack(columns))
        estimate = stream.estimate()
        assert estimate.value == pytest.approx(factor, rel=2.0**-42)
        assert estimate.standard_error == 0.0
        assert not estimate.missed


@pytest.mark.parametrize(
    ("name", "share", "retention"),
    [
        ("spent per visit", 0.3, 640),
        pytest.param("minutes per mile", 0.3, 640, marks=pytest.mark.slow),
        pytest.param("drifting", 0.3, 640, marks=pytest.mark.slow),
        pytest.param("minutes per mile", 0.6, 1_280, marks=pytest.mark.slow),
        pytest.param("sorted", 0.6, 1_280, marks=pytest.mark.slow),
    ],
)
def test_requests(name: str, share: float, retention: int) -> None:
    rows = draw(name, 12_000)
    estimate, (ratio, error) = run_with_requests(Ratio(), rows, retention, share).estimate(), find_ratio(rows)
    assert estimate.since == 1
    assert abs(estimate.value - ratio) <= 0.05 * error


def test_every_prefix_and_a_half_life() -> None:
    rows = draw("spent per visit", 600)
    stream, recent = Stream(Ratio(), retention=300, seed=0), Stream(Ratio(half_life=200.0), retention=640, seed=0)
    for t in range(1, len(rows) + 1):
        stream.push(rows[t - 1])
        assert stream.estimate().value == pytest.approx(find_ratio(rows[:t])[0], rel=1e-6)
    recent.extend(rows)
    weights = 0.5 ** (np.arange(len(rows))[::-1] / 200.0)
    assert recent.estimate().value == pytest.approx(weights @ rows[:, 0] / (weights @ rows[:, 1]), rel=1e-9)


@pytest.mark.slow
def test_the_standard_error_is_that_of_repeated_streams() -> None:
    found = []
    for seed in range(200):
        stream = Stream(Ratio(), retention=640, seed=0)
        stream.extend(draw("spent per visit", 1_000, seed))
        found.append((stream.estimate().value, stream.estimate().standard_error))
    values, errors = np.array(found).T
    assert errors.mean() == pytest.approx(values.std(), rel=4.0 / np.sqrt(2 * 200))


def test_a_denominator_of_zeros_has_no_ratio_and_one_near_zero_no_error() -> None:
    stream, rng = Stream(Ratio(), retention=640, seed=0), np.random.default_rng(0)
    stream.extend(np.column_stack([np.ones(1_000), np.zeros(1_000)]))
    with pytest.raises(NoAnswerError, match="the denominator is 0 in all records so far"):
        stream.estimate()
    stream.push([1.0, 1_001.0])
    assert stream.estimate().value == pytest.approx(1.0, rel=1e-9)
    near = Stream(Ratio(), retention=640, seed=0)
    near.extend(rng.normal(size=(300, 2)))
    assert "within five of its standard errors of zero" in near.estimate().notes[-1]


def test_in_a_bundle() -> None:
    rows = draw("spent per visit", 6_000)
    rows = np.column_stack([rows, np.where(np.arange(6_000) % 3, rows[:, 0], np.nan)])
    policy = Bundle({"spent": Mean(), ("spent", "visits"): Ratio(), ("other", "visits"): Ratio()})
    stream = Stream(policy, retention=policy.default_retention, seed=0)
    stream.extend(rows)
    estimate, some = stream.estimate(), np.arange(6_000) % 3 > 0
    assert estimate["spent,visits:ratio"].value == pytest.approx(find_ratio(rows[:, :2])[0], rel=1e-9)
    assert estimate["other,visits:ratio"].value == pytest.approx(find_ratio(rows[some, :2])[0], rel=1e-9)


def test_noise_is_as_large_as_is_said() -> None:
    """To first order noise moves a ratio by (noise of the numerator - ratio * that of the denominator) / mean."""
    rng = np.random.default_rng(0)
    x = rng.uniform(0.5, 1.0, 8_000)
    rows, off = np.column_stack([0.5 * x + rng.uniform(0.0, 0.1, 8_000), x]), []
    ratio = find_ratio(rows)[0]
    for _ in range(40):
        stream = Stream(Private(Ratio(), bound=2.0, epsilon=4.0, delta=1e-6), retention=4_000)
        stream.extend(rows)
        off.append(stream.estimate().value - ratio)
    noise = stream.policy.noise(stream.clock, 0) * np.hypot(1.0, ratio) / x.mean()  # type: ignore[attr-defined]
    assert np.sqrt(np.mean(np.square(off))) == pytest.approx(noise, rel=5.0 / np.sqrt(2 * 40))


def test_clipping_is_by_the_length_of_values_and_products() -> None:
    rows = np.array([[0.3, 0.4], [0.6, 0.8]])
    atoms = Ratio().statistic.atoms(rows)
    assert Ratio().statistic.norms(rows) == pytest.approx(np.linalg.norm(atoms, axis=1))
    assert atoms[0] == pytest.approx([0.3, 0.4, 0.09, 0.12, 0.16])


@pytest.mark.slow
def test_a_plan_holds() -> None:
    sample = draw("minutes per mile", 5_000)
    found = plan(Ratio(), records=20_000, sample=sample)
    retention = found.rows[0].retention
    assert retention is not None
    rows = draw("minutes per mile", 20_000)
    stream = Stream(Ratio(), retention=retention, seed=0)
    stream.extend(rows)
    ratio, error = find_ratio(rows)
    assert abs(stream.estimate().value - ratio) <= 0.5 * error


def test_the_command(tmp_path: Path) -> None:
    rows, table = draw("spent per visit", 2_000), tmp_path / "table.csv"
    np.savetxt(table, rows, fmt="%.17g", delimiter=",", header="spent,visits", comments="")
    arguments = ["run", str(table), "--column", "spent", "--statistic", "ratio", "--retention", "640"]
    refused = CliRunner().invoke(command, arguments)
    assert "--statistic ratio takes 2 columns, not 1; give --column for each of them" in refused.stderr
    result = CliRunner().invoke(command, [*arguments, "--column", "visits", "--json"])
    assert result.exit_code == 0, result.output
    facts = json.loads(result.stdout)
    assert facts["value"]["spent per visits"] == pytest.approx(find_ratio(rows)[0], rel=1e-12)
    shown = CliRunner().invoke(command, [*arguments, "--column", "visits"]).stdout
    assert "All-time ratio of 2,000 records" in shown
    assert "spent per visits" in shown


def test_bad_input() -> None:
    with pytest.raises(ParameterError, match=r"half_life=0\.0"):
        Ratio(half_life=0.0)


@pytest.mark.parametrize(("errors", "doubted"), [(3.0, True), (4.9, True), (5.1, False), (7.0, False)])
def test_a_denominator_within_five_standard_errors_of_zero_is_doubted(errors: float, doubted: bool) -> None:
    mean = -errors * 2.0 / np.sqrt(100.0)
    made = Ratio().conclude(np.array([mean, 1.5, 4.0, 0.0, 1.0]), 100.0, 0.0)
    assert bool(made.notes) is doubted
