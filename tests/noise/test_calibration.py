"""How much noise is enough: against sums over the whole grid, in one and two dimensions."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vestige.errors import ParameterError
from vestige.noise import gaussian_delta, gaussian_epsilon, noise_scale
from vestige.noise.calibration import LEAST_DEVIATION
from vestige.types import Floats


def discrete(s: float, reach: int) -> Floats:
    """The probabilities of a discrete Gaussian at -reach .. reach."""
    weights = np.exp(-(np.arange(-reach, reach + 1, dtype=np.float64) ** 2) / (2.0 * s * s))
    made: Floats = weights / weights.sum()
    return made


def true_delta(epsilon: float, s: float, shift: tuple[int, ...]) -> float:
    """The sum over the grid of what is left of the positive parts of p(z) - exp(epsilon) p(z - shift)."""
    reach = int(12 * s) + max(map(abs, shift))
    once = discrete(s, reach)
    here, there = np.ones(()), np.ones(())
    for step in shift:
        here = np.multiply.outer(here, once)
        there = np.multiply.outer(there, np.roll(once, step))
    return float(np.maximum(here - math.exp(epsilon) * there, 0.0).sum())


@given(
    st.floats(0.05, 4.0),
    st.floats(2.0, 30.0),
    st.one_of(st.tuples(st.integers(1, 40)), st.tuples(st.integers(0, 12), st.integers(1, 12))),
)
def test_the_grid_costs_no_more_than_is_proved(epsilon: float, s: float, shift: tuple[int, ...]) -> None:
    dim, mu = len(shift), math.hypot(*shift) / s
    at_most = math.exp(dim / s**2) * gaussian_delta(epsilon, mu)
    assert true_delta(epsilon + 202.0 * dim / s**2, s, shift) <= at_most + 1e-13


def test_the_normal_formula_alone_would_be_too_small_on_a_coarse_grid() -> None:
    """The reason for the correction: at the same epsilon the discrete Gaussian's delta is above the normal one's."""
    assert any(true_delta(1.0, s, (v,)) > 1.01 * gaussian_delta(1.0, v / s) for s, v in product((4.2, 8.5), (1, 2)))


def test_the_scale_that_the_design_names() -> None:
    scale = noise_scale(1.0, 1e-6)
    assert scale == pytest.approx(4.22, abs=0.005)
    s = 2**17
    assert true_delta(1.0, s, (int(s / scale),)) <= 1e-6, "summed over a fine grid"
    assert true_delta(1.0, s, (int(s / scale * 1.001),)) > 1e-6, "and not much more than is needed"


@pytest.mark.parametrize(("epsilon", "delta"), [(0.01, 1e-9), (0.5, 1e-6), (3.0, 1e-5), (20.0, 1e-12), (400.0, 0.5)])
def test_it_promises_what_it_was_asked(epsilon: float, delta: float) -> None:
    for size in (1, 4, 100):
        scale = noise_scale(epsilon, delta, size=size)
        spent = 202.0 * size / LEAST_DEVIATION**2
        assert gaussian_delta(epsilon - spent, 1.0 / scale) <= delta
        assert size == 1 or scale >= noise_scale(epsilon, delta)
    assert gaussian_epsilon(1.0 / noise_scale(1.0, 1e-6), 1e-6) == pytest.approx(1.0, abs=1e-6)


@pytest.mark.parametrize(
    ("epsilon", "delta", "text"),
    [
        (0.0, 1e-6, "epsilon=0.0 is out of range; use a number above 0, such as 1.0"),
        (math.nan, 1e-6, "epsilon=nan is out of range"),
        (1.0, 0.0, "delta=0.0 is out of range; use a number between 0 and 1, such as 1e-6"),
        (1.0, 1.0, "delta=1.0 is out of range"),
        (1e-7, 1e-6, "epsilon=1e-07 with delta=1e-06 is out of reach"),
    ],
)
def test_what_cannot_be_promised_is_refused(epsilon: float, delta: float, text: str) -> None:
    with pytest.raises(ParameterError, match=text):
        noise_scale(epsilon, delta)
