"""Totals against those of Python over all data, within the error that each states."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from datasets import COLUMNS, make_column, run_with_requests
from vestige import Bundle, Covariance, Mean, Moments, Private, Stream, Sum
from vestige.cli import command
from vestige.errors import ParameterError
from vestige.planning import plan
from vestige.policies.rounding import LAST_DIGITS
from vestige.policies.sum import SumEstimate

QUICK = ("lognormal", "very far from zero", "sorted", "constant", "departure delays")


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name in QUICK else pytest.mark.slow) for name in COLUMNS]
)
def test_totals_of_the_whole_stream(name: str) -> None:
    rows = make_column(name, 10_000)
    stream = Stream(Sum(), retention=256, seed=0)
    stream.extend(rows)
    estimate, total = stream.estimate(), math.fsum(rows)
    assert abs(float(estimate.value) - total) <= estimate.encoding_error
    assert estimate.standard_error == pytest.approx(rows.std() * np.sqrt(len(rows)), rel=1e-4, abs=1e-9)
    assert estimate.encoding_error <= 1e-3 * estimate.standard_error + 10_000 * LAST_DIGITS * abs(float(estimate.mean))
    assert not estimate.missed


@pytest.mark.slow
@pytest.mark.parametrize("retention", [76, 128])
@pytest.mark.parametrize("name", COLUMNS)
def test_at_shorter_retentions_the_error_holds_or_a_miss_is_said(name: str, retention: int) -> None:
    rows = make_column(name, 60_000)
    stream = Stream(Sum(), retention=retention, seed=0)
    stream.extend(rows)
    estimate = stream.estimate()
    assert abs(float(estimate.value) - math.fsum(rows)) <= estimate.encoding_error or estimate.missed


@pytest.mark.parametrize(
    ("name", "share", "retention"),
    [
        ("lognormal", 0.3, 256),
        pytest.param("normal", 0.3, 256, marks=pytest.mark.slow),
        pytest.param("sorted", 0.1, 256, marks=pytest.mark.slow),
        pytest.param("sorted", 0.3, 512, marks=pytest.mark.slow),
        pytest.param("departure delays", 0.6, 512, marks=pytest.mark.slow),
        pytest.param("lognormal", 0.6, 512, marks=pytest.mark.slow),
    ],
)
def test_requests_leave_the_totals(name: str, share: float, retention: int) -> None:
    rows = make_column(name, 8_000)
    estimate = run_with_requests(Sum(), rows, retention, share).estimate()
    assert estimate.since == 1
    assert abs(float(estimate.value) - math.fsum(rows)) <= estimate.encoding_error


def test_sixty_in_a_hundred_requests_at_the_default_retention_start_over_or_stay_within_half_a_standard_error() -> None:
    rows = make_column("lognormal", 8_000)
    estimate = run_with_requests(Sum(), rows, 256, 0.6).estimate()
    total = math.fsum(rows[estimate.since - 1 :])
    assert abs(float(estimate.value) - total) <= 0.5 * estimate.standard_error
    assert estimate.counted == len(rows) - estimate.since + 1


def test_several_columns_and_the_mean_before_an_update() -> None:
    rows = np.random.default_rng(0).normal([1.0, 1e6, 0.0], [1.0, 5.0, 1e-3], (3_000, 3))
    stream = Stream(Sum(3), retention=768, seed=0)
    for stop in (1, 200, 3_000):
        stream.extend(rows[stream.t : stop])
        estimate = stream.estimate()
        assert estimate.value == pytest.approx(rows[:stop].sum(axis=0), rel=1e-12, abs=1e-8)
        assert estimate.mean == pytest.approx(rows[:stop].mean(axis=0), rel=1e-12, abs=1e-8)


def test_the_error_of_a_plan_is_that_of_the_total() -> None:
    """A total of n records has n times the error of their mean: the deviation of one record times sqrt(n)."""
    sample = np.random.default_rng(0).normal(5.0, 3.0, 5_000)
    found = plan(Sum(), records=10_000, sample=sample)
    assert found.errors[0] == pytest.approx(1.1 * sample.std() * np.sqrt(10_000), rel=1e-6)
    assert found.rows[0].name == "Sum"
    assert found.rows[0].retention is not None
    assert found.rows[0].retention <= 128


def test_noise_can_be_added() -> None:
    rows = np.random.default_rng(0).uniform(0.0, 1.0, 20_000)
    stream = Stream(Private(Sum(), bound=1.5, epsilon=8.0, delta=1e-6), retention=4_000)
    stream.extend(rows)
    noise = stream.policy.noise(stream.clock, 0) * 20_000  # type: ignore[attr-defined]
    estimate = stream.estimate()
    assert abs(float(estimate.value) - rows.sum()) <= 5.0 * noise
    assert estimate.has_noise
    assert estimate.to_rows()[0]["lower"] is estimate.to_rows()[0]["upper"] is None


def test_rows_have_the_bounds_of_a_total_beside_its_standard_error() -> None:
    rows = make_column("lognormal", 4_000)
    for policy, metric in ((Sum(), "1"), (Bundle({"a": [Mean(), Sum()]}), "a:sum")):
        stream = Stream(policy, retention=512, seed=0)
        stream.extend(rows)
        (row,) = (row for row in stream.estimate().to_rows() if row["metric"] == metric)
        assert row["value"] - 1.0 < row["lower"] <= math.fsum(rows) <= row["upper"] < row["value"] + 1.0
        assert row["standard_error"] == pytest.approx(rows.std() * np.sqrt(len(rows)), rel=1e-4)


def test_the_command_adds_up(tmp_path: Path) -> None:
    table, rows = tmp_path / "spent.csv", np.random.default_rng(0).integers(0, 100, 1_000)
    table.write_text("spent\n" + "\n".join(map(str, rows)) + "\n")
    arguments = ["run", str(table), "--column", "spent", "--statistic", "sum", "--retention", "256"]
    result = CliRunner().invoke(command, [*arguments, "--json"])
    assert result.exit_code == 0, result.output
    facts = json.loads(result.stdout)
    assert abs(facts["value"]["spent"] - rows.sum()) <= facts["encoding_error"]["spent"] <= 0.01
    assert "All-time sum of 1,000 records" in CliRunner().invoke(command, arguments).stdout
    refused = CliRunner().invoke(command, [*arguments, "--half-life", "9"])
    assert "half_life=9.0 is not for --statistic sum" in refused.stderr


def test_bad_input() -> None:
    with pytest.raises(ParameterError, match="dim=0 is out of range"):
        Sum(0)


@pytest.mark.parametrize("policy", [Sum(), Moments(2), Covariance(), Bundle({"x": [Sum(), Mean()]})], ids=repr)
def test_records_whose_squares_are_all_equal_are_not_marked(policy: Any) -> None:
    """A variance then has no error of its own; long words round it by up to 2^-37 of itself, which is not a miss."""
    x = np.where(np.arange(20_000) % 2, 5.0, -5.0)
    stream = Stream(policy, retention=policy.default_retention, seed=0)
    stream.extend(np.column_stack([x, -x])[:, : policy.columns])
    estimate = stream.estimate()
    assert (estimate.missed, estimate.notes) == (False, ())


def test_a_variance_that_is_rounded_coarsely_is_marked_still() -> None:
    x = np.where(np.arange(20_000) % 2, 5.0, -5.0)
    stream = Stream(Sum(), retention=2 * Sum().min_batch, seed=0)
    stream.extend(x)
    assert stream.estimate().missed


@pytest.mark.parametrize("unit", [1e-160, 1e-300])
def test_bounds_hold_where_variances_underflow(unit: float) -> None:
    values = unit * np.random.default_rng(3).normal(3.0, 1.0, 12_000)
    stream = Stream(Sum(), retention=2 * Sum().min_batch, seed=1)
    stream.extend(values)
    made, truth = stream.estimate(), sum(map(Fraction, values.tolist()))
    assert made.lower <= truth <= made.upper  # type: ignore[operator]


def test_a_total_that_has_missed_has_no_bounds() -> None:
    made = SumEstimate(100.0, 5.0, 0.25, 2.0)
    assert (made.lower, made.upper) == (99.75, 100.25)
    assert (replace(made, missed=True).lower, replace(made, missed=True).upper) == (None, None)
