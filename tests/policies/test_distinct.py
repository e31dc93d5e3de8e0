"""The number of different values is that of a sketch that saw everything in the same order, to the last bit."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from datasketches import cpc_sketch

from vestige import Distinct, DistinctEstimate, Stream
from vestige.checks import check_policy
from vestige.cli import command
from vestige.errors import MissingExtraError, NoAnswerError, ParameterError, StoreError
from vestige.flights import flights
from vestige.planning import plan
from vestige.policies import distinct
from vestige.serialization import from_dict, to_dict
from vestige.types import Floats

RNG = np.random.default_rng


def sketch_all(values: Floats, policy: Distinct) -> cpc_sketch:
    """The sketch that has seen each value, repeated ones too."""
    sketch = cpc_sketch(policy.buckets.bit_length() - 1)
    for value in values.tolist():
        sketch.update(value)
    return sketch


def check_equal(stream: Stream[DistinctEstimate], values: Floats, policy: Distinct) -> None:
    """The estimate and its bounds, to the last bit."""
    estimate, sketch = stream.estimate(), sketch_all(values, policy)
    assert estimate.value == sketch.get_estimate()
    assert (estimate.lower, estimate.upper) == (sketch.get_lower_bound(2), sketch.get_upper_bound(2))
    assert not estimate.notes
    assert not estimate.missed


def draw_values(count: int) -> Floats:
    """Values that come back, and drift."""
    return np.floor(RNG(0).uniform(0.0, 3_000.0, count) + np.arange(count) / 10.0)


def test_a_stream_has_the_sketch_of_everything() -> None:
    policy, rng, values = Distinct(64), RNG(1), draw_values(9_000)
    stream = Stream(policy, retention=policy.default_retention, seed=0)
    while stream.t < len(values):
        stream.extend(values[stream.t : stream.t + int(rng.integers(1, 800))])
        stream.forget(rounds=rng.integers(max(1, stream.t - 100), stream.t + 1, 3))
        check_equal(stream, values[: stream.t], policy)
    assert stream.clock.since == 1
    assert stream.clock.updates >= 8


@pytest.mark.parametrize("buckets", [16, 256, 1_024])
def test_where_calls_end_makes_no_difference(buckets: int) -> None:
    policy, rng, values = Distinct(buckets), RNG(2), draw_values(6_000)[:, None]
    values[::7] *= -0.0  # both zeros are one value
    state = policy.first_state
    for part in np.split(values, np.sort(rng.integers(1, len(values), 20))):
        state = policy.move(state, part) if len(part) else state
    assert state == policy.move(policy.first_state, values)
    assert policy.make_estimate(state, len(values)).value == sketch_all(values[:, 0], policy).get_estimate()


def test_the_bounds_are_those_of_two_standard_errors() -> None:
    """Each of 100 trials is within its bounds with a chance of about 95%: at most 14 are not, but one time in 4,000."""
    policy, outside = Distinct(64), 0
    for trial in range(100):
        values = RNG(trial).normal(size=(1_000, 1))
        found = policy.make_estimate(policy.move(policy.first_state, values), 1_000)
        outside += not found.lower <= 1_000 <= found.upper
    assert outside <= 14


def test_a_sketch_that_outgrows_its_bits_starts_over_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(distinct, "_SPARE", -15)
    policy, values, silent, notes = Distinct(64), np.floor(np.arange(20_000) / 40.0), 0, set()
    stream = Stream(policy, retention=policy.default_retention, seed=0)
    for start in range(0, len(values), 37):
        stream.extend(values[start : start + 37])
        try:
            estimate = stream.estimate()
        except NoAnswerError:
            silent += 1
            continue
        assert estimate.missed == bool(estimate.notes)
        if estimate.notes:
            notes.add(estimate.notes[0])
            seen = int(estimate.notes[0].split()[-2].replace(",", ""))
            assert estimate.value == sketch_all(values[stream.t - seen : stream.t], policy).get_estimate()
    assert silent
    assert len(notes) > 100
    assert stream.clock.updates > 20
    assert all("started over: it has seen only the last" in note for note in notes)


def test_sketches_fit_into_their_bits() -> None:
    for buckets in (16, 64, 256):
        policy, values = Distinct(buckets), RNG(3).normal(size=(30_000, 1))
        state = policy.first_state
        for part in np.split(values, 300):
            state = policy.move(state, part)
            assert any(state)
        assert not policy.make_estimate(state, len(values)).notes


def test_it_says_which_extra_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    described = to_dict(Distinct())
    monkeypatch.setitem(sys.modules, "datasketches", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'vestige\[sketches\]'"):
        Distinct()
    with pytest.raises(StoreError, match=r"pip install 'vestige\[sketches\]'"):
        from_dict(described)


@pytest.mark.slow
def test_it_follows_the_model() -> None:
    check_policy(Distinct(16))


@pytest.mark.slow
def test_different_values_of_flights() -> None:
    for column in ("dep_delay", "distance", "flight"):
        values, policy = flights(column)[:, 0], Distinct()
        stream = Stream(policy, retention=policy.default_retention, seed=0)
        stream.extend(values)
        check_equal(stream, values, policy)
        true = len(np.unique(values))
        assert abs(stream.estimate().value - true) <= 4.0 * policy.relative_error * true


def test_its_plan_states_retention_and_error() -> None:
    row = plan(Distinct(64), records=10**6).row("Distinct")
    assert row.retention == Distinct(64).default_retention
    assert any("is 7.36% of it" in note for note in row.notes)


def test_the_command_prints_the_number(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("user\n" + "\n".join(str(i % 500) for i in range(2_000)))
    options = ["run", str(path), "--column", "user", "--statistic", "distinct", "--retention", "14000"]
    assert "two standard errors" in CliRunner().invoke(command, options).output
    found = json.loads(CliRunner().invoke(command, [*options, "--json"]).output)
    assert found["lower"] < 500 < found["upper"]


@pytest.mark.parametrize("arguments", [{"buckets": 8}, {"buckets": 1_000}, {"buckets": 2**17}, {"reserve": 0.95}])
def test_wrong_arguments_are_refused(arguments: dict[str, float]) -> None:
    with pytest.raises(ParameterError, match=next(iter(arguments))):
        Distinct(**arguments)  # type: ignore[arg-type]
