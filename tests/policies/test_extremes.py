"""The extremes are those of numpy over all records, whatever was erased."""

from __future__ import annotations

import numpy as np
import pytest

from vestige import Extremes, Stream
from vestige.checks import check_policy
from vestige.errors import ParameterError
from vestige.planning import plan
from vestige.types import Floats

RNG = np.random.default_rng


def draw_rows(count: int, dim: int) -> Floats:
    """Records that drift, so that no window has both extremes."""
    return RNG(0).standard_t(3, (count, dim)) + np.linspace(0.0, 50.0, count)[:, None]


@pytest.mark.parametrize("dim", [1, 3])
def test_every_prefix_has_the_extremes_of_numpy(dim: int) -> None:
    rows = draw_rows(8_000, dim)
    policy = Extremes(dim)
    stream, rng = Stream(policy, retention=policy.default_retention, seed=0), RNG(1)
    while stream.t < len(rows):
        stream.extend(rows[stream.t : stream.t + int(rng.integers(1, 300))])
        if rng.random() < 0.5:
            stream.forget(rounds=rng.integers(max(1, stream.t - 20), stream.t + 1, 3))
        estimate, seen = stream.estimate(), rows[: stream.t]
        assert np.array_equal(np.atleast_1d(estimate.minimum), seen.min(axis=0))
        assert np.array_equal(np.atleast_1d(estimate.maximum), seen.max(axis=0))
        assert np.array_equal(estimate.value, np.squeeze([seen.min(axis=0), seen.max(axis=0)]))
    assert stream.clock.since == 1
    assert stream.clock.updates > 5


def test_zeros_have_one_sign() -> None:
    policy = Extremes()
    there, back = (policy.move(policy.first_state, np.array([[a], [-a]])) for a in (0.0, -0.0))
    assert there == back == policy.move(policy.move(policy.first_state, np.array([[-0.0]])), np.array([[0.0]]))


@pytest.mark.slow
def test_it_follows_the_model() -> None:
    check_policy(Extremes())


def test_its_plan_states_the_retention() -> None:
    found = plan(Extremes(), records=10**6)
    row = found.row("Extremes")
    assert row.retention == Extremes().default_retention
    assert row.error == 0.0


def test_wrong_arguments_are_refused() -> None:
    with pytest.raises(ParameterError, match="dim=0"):
        Extremes(0)
    with pytest.raises(ParameterError, match=r"reserve=0\.95"):
        Extremes(reserve=0.95)
    with pytest.raises(ParameterError, match=r"half_life=3.0 is not for --statistic extremes"):
        Extremes.from_columns(1, 0, "auto", 3.0)
