"""Quantiles from a histogram lie between edges, between which those of all records lie too."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from vestige import HistogramQuantiles, Private, Stream
from vestige.checks import check_policy
from vestige.cli import command
from vestige.errors import ParameterError
from vestige.flights import flights
from vestige.planning import plan
from vestige.policies.quantiles import QuantilesEstimate
from vestige.types import Floats

RNG = np.random.default_rng
PROBABILITIES = tuple(np.linspace(0.005, 1.0, 200).tolist())
EDGES = tuple(np.linspace(-4.0, 24.0, 15).tolist())


def check_bounds(estimate: QuantilesEstimate, values: Floats) -> None:
    """The quantiles of all records are between the bounds, and the ranks of the answers within their errors."""
    p = np.array(estimate.probabilities)
    ranks = np.maximum(np.ceil(p * len(values) * (1.0 - 1e-12)), 1.0)
    true = np.sort(values)[ranks.astype(int) - 1]
    assert (estimate.lower <= true).all()
    assert (true <= estimate.upper).all()
    assert ((estimate.lower <= estimate.value) & (estimate.value <= estimate.upper)).all()
    share = np.searchsorted(np.sort(values), estimate.value) / len(values)
    assert (np.abs(share - p) <= estimate.rank_error + 1.0 / len(values)).all()


@pytest.mark.parametrize("drift", [0.0, 20.0])
def test_bounds_hold_with_drift_and_requests(drift: float) -> None:
    policy, rng = HistogramQuantiles(EDGES, PROBABILITIES), RNG(0)
    values = rng.normal(size=20_000) + np.linspace(0.0, drift, 20_000)
    stream = Stream(policy, retention=policy.default_retention, seed=0)
    while stream.t < len(values):
        stream.extend(values[stream.t : stream.t + int(rng.integers(1, 4_000))])
        stream.forget(rounds=rng.integers(max(1, stream.t - 100), stream.t + 1, 3))
        check_bounds(stream.estimate(), values[: stream.t])
    estimate = stream.estimate()
    inside = np.isfinite(estimate.lower) & np.isfinite(estimate.upper)
    assert inside.sum() > 190
    assert np.allclose((estimate.upper - estimate.lower)[inside], 2.0)


def test_quantiles_are_interpolated_in_their_bins() -> None:
    policy = HistogramQuantiles(range(0, 101, 10), [0.05, 0.33, 0.5, 0.875])
    estimate = policy.conclude(np.array([0.0, *[0.1] * 10, 0.0]), 1e6, 0.0)
    assert np.allclose(estimate.value, [5.0, 33.0, 50.0, 87.5])
    assert np.allclose(estimate.rank_error, [0.05, 0.07, 0.1, 0.075])


def test_a_quantile_beyond_the_edges_has_a_note() -> None:
    policy = HistogramQuantiles([0.0, 1.0], [0.1, 0.5, 0.9])
    estimate = policy.conclude(np.array([0.2, 0.6, 0.2]), 1e6, 0.0)
    assert np.allclose(estimate.value, [0.0, 0.5, 1.0])
    assert estimate.lower.tolist() == [-np.inf, 0.0, 1.0]
    assert estimate.upper.tolist() == [0.0, 1.0, np.inf]
    assert ["p10" in note for note in estimate.notes] == [True, False]
    assert "at or above the last edge, 1" in estimate.notes[1]


def test_private_takes_it() -> None:
    """Off by five deviations at most, of the noise in the shares of all bins and of a median of these records."""
    policy = Private(HistogramQuantiles(EDGES, [0.25, 0.5, 0.75]), bound=1.0, epsilon=8.0, delta=1e-6)
    stream = Stream(policy, retention=2 * policy.min_batch)
    stream.extend(RNG(1).uniform(0.0, 20.0, 200_000))
    noise = (
        policy.batch_noise(stream.batch) * stream.batch * np.sqrt(stream.clock.updates * (len(EDGES) + 1)) / stream.t
    )
    off = 20.0 * np.hypot(noise, 0.5 / np.sqrt(stream.t))
    assert off < 0.5
    assert np.abs(stream.estimate().value - [5.0, 10.0, 15.0]).max() <= 5.0 * off


@pytest.mark.slow
def test_it_follows_the_model() -> None:
    check_policy(HistogramQuantiles([-1.0, 0.0, 1.0]))


@pytest.mark.slow
def test_quantiles_of_flights() -> None:
    values = flights("dep_delay")[:, 0]
    policy = HistogramQuantiles([*range(-20, 0, 2), *range(0, 30, 5), *range(30, 300, 30)], PROBABILITIES)
    stream = Stream(policy, retention=policy.default_retention, seed=0)
    stream.extend(values)
    check_bounds(stream.estimate(), values)


def test_it_is_planned() -> None:
    found = plan(HistogramQuantiles([-1.0, 0.0, 1.0], [0.25, 0.5]), records=10_000)
    assert found.row("HistogramQuantiles").retention is not None


def test_the_command_prints_quantiles(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("minutes\n" + "\n".join(str(i % 60) for i in range(2_000)))
    options = ["run", str(path), "--column", "minutes", "--statistic", "histogram_quantiles", "--retention", "1000"]
    found = json.loads(CliRunner().invoke(command, [*options, "--edges", "0,15,30,45", "--json"]).output)
    assert found["value"]["p75"]["lower"] == 30.0
    assert found["value"]["p95"]["upper"] is None


@pytest.mark.parametrize("arguments", [{"edges": [1.0, 0.0]}, {"probabilities": [2.0]}, {"half_life": -1.0}])
def test_wrong_arguments_are_refused(arguments: dict[str, object]) -> None:
    with pytest.raises(ParameterError, match=next(iter(arguments))):
        HistogramQuantiles(**({"edges": [0.0]} | arguments))  # type: ignore[arg-type]
