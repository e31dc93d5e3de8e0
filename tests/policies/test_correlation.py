"""Correlations against pandas over all data, and their standard errors against repeated streams."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

from datasets import make_column, run_with_requests
from vestige import Bundle, BundleEstimate, Correlation, CorrelationEstimate, Covariance, Private, Stream
from vestige.cli import command
from vestige.errors import NoAnswerError, ParameterError
from vestige.flights import flights
from vestige.noise import Noise
from vestige.planning import plan
from vestige.types import Floats


def make_rows(kind: str, n: int) -> Floats:
    """Two columns that are related, in one of several ways."""
    rng, x = np.random.default_rng(1), make_column(kind, n)
    return np.column_stack([x, 2.0 * x + rng.normal(size=n) * x.std()])


def correlate(rows: Floats) -> Floats:
    """Correlations by pandas."""
    return np.asarray(pd.DataFrame(rows / rows.std(axis=0)).corr())


@pytest.mark.parametrize(
    "kind",
    [
        "normal",
        "far from zero",
        "sorted",
        *(
            pytest.param(kind, marks=pytest.mark.slow)
            for kind in ("lognormal", "tiny", "whole numbers", "drifting", "jumping", "departure delays", "rare")
        ),
    ],
)
def test_correlations_of_the_whole_stream(kind: str) -> None:
    rows = make_rows(kind, 10_000)
    stream = Stream(Correlation(), retention=640, seed=0)
    stream.extend(rows)
    estimate, expected = stream.estimate(), correlate(rows)
    assert np.abs(estimate.value - expected).max() <= 0.01 * estimate.standard_error[0, 1]
    assert estimate.standard_error == pytest.approx((1.0 - expected**2) / np.sqrt(len(rows)), abs=1e-6)
    assert estimate.deviation == pytest.approx(rows.std(axis=0), rel=1e-5)
    assert not estimate.missed


def test_flights() -> None:
    rows = flights("dep_delay", "distance", "air_time")[:10_000]
    stream = Stream(Correlation(3), retention=Correlation(3).default_retention, seed=0)
    stream.extend(rows)
    assert stream.estimate().value == pytest.approx(correlate(rows), abs=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("share", [0.3, 0.6])
def test_requests(share: float) -> None:
    rows = make_rows("lognormal", 10_000)
    estimate = run_with_requests(Correlation(), rows, 1_280, share).estimate()
    assert estimate.since == 1
    assert abs(estimate.value[0, 1] - correlate(rows)[0, 1]) <= 0.01 * estimate.standard_error[0, 1]


@pytest.mark.slow
def test_the_standard_error_is_that_of_repeated_streams_of_normal_records() -> None:
    found = []
    for seed in range(200):
        x = np.random.default_rng(seed).normal(size=(1_000, 2)) @ [[1.0, 0.8], [0.0, 1.0]]
        stream = Stream(Correlation(), retention=640, seed=0)
        stream.extend(x)
        found.append((stream.estimate().value[0, 1], stream.estimate().standard_error[0, 1]))
    values, errors = np.array(found).T
    assert errors.mean() == pytest.approx(values.std(), rel=4.0 / np.sqrt(2 * 200))


def test_a_column_that_does_not_vary_has_no_correlation() -> None:
    stream = Stream(Correlation(), retention=640, seed=0)
    stream.extend(np.column_stack([np.random.default_rng(0).normal(size=2_000), np.full(2_000, 3.0)]))
    with pytest.raises(NoAnswerError, match="column 2 of 2 has no correlation: all its records are alike"):
        stream.estimate()


def test_the_command_and_plans(tmp_path: Path) -> None:
    rows, table = make_rows("normal", 2_000), tmp_path / "table.csv"
    np.savetxt(table, rows, fmt="%.17g", delimiter=",", header="a,b", comments="")
    arguments = ["run", str(table), "--column", "a", "--statistic", "correlation", "--retention", "640"]
    refused = CliRunner().invoke(command, arguments)
    assert "--statistic correlation takes at least 2 columns, not 1; give --column for each of them" in refused.stderr
    result = CliRunner().invoke(command, [*arguments, "--column", "b", "--json"])
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["value"][0][1] == pytest.approx(correlate(rows)[0, 1], abs=1e-9)
    shown = " ".join(CliRunner().invoke(command, [*arguments, "--column", "b"]).stdout.split())
    assert "All-time correlations of 2,000 records" in shown
    assert "for independent records that are normal together" in shown


@pytest.mark.slow
def test_a_plan_holds() -> None:
    found = plan(Correlation(), records=2_000)
    retention = found.rows[0].retention
    assert retention is not None
    rng, errors = np.random.default_rng(0), []
    for seed in range(100):
        rows = rng.normal(1.0, 1.0, (2_000, 2))
        stream = Stream(Correlation(), retention=retention, seed=seed)
        stream.extend(rows)
        errors.append(stream.estimate().value[0, 1])
    assert np.sqrt(np.mean(np.square(errors))) <= 1.1 / np.sqrt(2_000) * (1.0 + 4.0 / np.sqrt(2 * 100))


def test_noise_can_be_added() -> None:
    rows = np.random.default_rng(0).uniform(-1.0, 1.0, (40_000, 2)) @ [[1.0, 0.5], [0.0, 0.5]]
    stream = Stream(Private(Correlation(), bound=2.0, epsilon=8.0, delta=1e-6), retention=8_000)
    stream.extend(rows)
    assert stream.estimate().value[0, 1] == pytest.approx(correlate(rows)[0, 1], abs=0.1)


def test_bad_input() -> None:
    with pytest.raises(ParameterError, match="dim=1 is out of range"):
        Correlation(1)


def test_noise_that_carries_a_correlation_beyond_one_is_in_its_error() -> None:
    policy, worth = Correlation(), 40_000.0
    averages = np.array([0.0, 0.0, 1.0, 1.2, 1.0])  # of the values, of their squares and of their product
    noise = Noise(np.full(5, 0.1), np.zeros(5))
    found = policy.conclude_noisy(averages, noise, worth, 0.0)
    assert found.value[0, 1] == 1.0
    slopes = np.array([1.0, -0.6, -0.6])  # of product / sqrt(square square)
    assert found.standard_error[0, 1] == pytest.approx(0.1 * np.sqrt((slopes**2).sum()), rel=1e-3)


def make_alike(apart: float, seed: int, n: int = 20_000) -> Floats:
    """Two columns that differ by little."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=n)
    return np.column_stack([x, x + apart * rng.normal(size=n)])


@pytest.mark.parametrize("apart", [0.1, 0.01, 0.001, 1e-4])
def test_no_correlation_near_one_is_silently_off(apart: float) -> None:
    for seed, retention in [(0, 172), (1, 200), (2, 260), (3, 320), (4, 640)]:
        rows = make_alike(apart, seed)
        for policy in (Correlation(), Bundle({("a", "b"): Correlation()})):
            if retention < 2 * policy.min_batch:
                continue
            stream = Stream(policy, retention=retention, seed=0)
            stream.extend(rows)
            found = stream.estimate()
            estimate = found["a,b:correlation"] if isinstance(found, BundleEstimate) else found
            assert isinstance(estimate, CorrelationEstimate)
            off = abs(estimate.value[0, 1] - correlate(rows)[0, 1]) / estimate.standard_error[0, 1]
            assert found.missed or off <= 0.5, (apart, retention, off)  # a note is due from half of an error on
            assert estimate.missed == found.missed == any("Rounding puts correlations off" in n for n in found.notes)
            assert not found.missed or retention < 640


@pytest.mark.parametrize("apart", [0.01, 1e-4])
def test_a_plan_demands_what_a_correlation_near_one_needs(apart: float) -> None:
    rows = make_alike(apart, 0)
    row = plan(Correlation(), records=len(rows), sample=rows[:2_000]).rows[0]
    assert row.retention is not None
    assert not any("not linear" in note for note in row.notes)
    stream = Stream(Correlation(), retention=row.retention, seed=0)
    stream.extend(rows)
    estimate = stream.estimate()
    assert abs(estimate.value[0, 1] - correlate(rows)[0, 1]) <= 0.5 * estimate.standard_error[0, 1]
    assert not estimate.missed
    assert row.retention < Correlation().default_retention


def test_columns_that_are_proportional_have_a_correlation_of_one_and_no_note() -> None:
    x = np.random.default_rng(0).normal(size=5_000)
    stream = Stream(Correlation(), retention=640, seed=0)
    stream.extend(np.column_stack([x, -3.0 * x]))
    estimate = stream.estimate()
    assert estimate.value[0, 1] == pytest.approx(-1.0, abs=1e-12)
    assert (estimate.missed, estimate.notes) == (False, ())


def test_a_covariance_notes_a_correlation_that_rounding_has_put_off() -> None:
    stream = Stream(Covariance(), retention=172, seed=0)
    stream.extend(make_alike(0.01, 0))
    assert stream.estimate().missed
    assert "Rounding puts correlations off" in stream.estimate().notes[0]
