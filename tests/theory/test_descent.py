"""Lemma 3.2: an adversary who uses the whole limit, as well as they can, does not break the bound."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vestige import theory
from vestige.errors import ParameterError
from vestige.types import Floats

TRIALS = 4_000


def descend(dim: int, steps: int, convexity: float, noise: float, start: float, adversary: str) -> tuple[Floats, float]:
    """Squared distances from the minimum, and Gamma^2: no less than E|g|^2 anywhere on the way, so it is run thrice.

    H(w) = convexity |w|^2 / 2, gradients with normal noise. The adversary knows w. He pushes away from the minimum: by
    the same length always; in proportion to the distance, which is the most that a mean square allows
    (Cauchy-Schwarz); or one trial in a hundred, ten times as far.
    """
    gamma_2 = convexity**2 * start**2 * dim + noise**2 * dim
    for _ in range(3):
        limit = theory.noise_limit(math.sqrt(gamma_2), convexity, steps)
        rng = np.random.default_rng([dim, steps])
        w, largest = np.full((TRIALS, dim), start), 0.0
        for t in range(1, steps + 1):
            g = convexity * w + noise * rng.normal(size=w.shape)
            largest = max(largest, float((g**2).sum(axis=1).mean()))
            w = w - g / (convexity * t)
            away = np.linalg.norm(w, axis=1, keepdims=True)
            length = {
                "steady": np.ones_like(away),
                "proportional": away / math.sqrt((away**2).mean()),
                "rare": 10.0 * (rng.random(away.shape) < 0.01),
            }[adversary]
            w = w + math.sqrt(limit) * length * w / away
        gamma_2 = max(gamma_2, largest)
    distances: Floats = (w**2).sum(axis=1)
    return distances, gamma_2


@pytest.mark.parametrize("adversary", ["steady", "proportional", "rare"])
@pytest.mark.parametrize(
    ("dim", "steps", "start"), [(1, 1, 0.0), (1, 2, 5.0), (1, 30, 1.0), (3, 10, 0.0), (5, 100, 2.0)]
)
def test_the_bound_holds_at_the_limit_of_the_noise(dim: int, steps: int, start: float, adversary: str) -> None:
    convexity, noise = 0.5, 1.0
    distances, gamma_2 = descend(dim, steps, convexity, noise, start, adversary)
    spread = distances.std(ddof=1) / math.sqrt(TRIALS)
    assert distances.mean() - 4.0 * spread < theory.descent_bound(math.sqrt(gamma_2), convexity, steps)


@given(st.integers(1, 400), st.floats(0.1, 10.0), st.floats(0.0, 10.0), st.floats(0.0, 10.0))
def test_the_worst_adversary_exactly(steps: int, convexity: float, noise: float, start: float) -> None:
    """For a quadratic, E|w_t|^2 has a recursion, and pushes in proportion to w leave no slack.

    Gamma^2 is the largest E|g_t|^2 on the way; the pushes depend on it and it on them, so it is raised until it holds.
    """
    gamma_2 = convexity**2 * start**2 + noise**2
    if gamma_2 < 1e-100:  # smaller gradients are refused
        return
    for _ in range(50):
        push = math.sqrt(theory.noise_limit(math.sqrt(gamma_2), convexity, steps))
        square, largest = start**2, 0.0
        for t in range(1, steps + 1):
            largest = max(largest, convexity**2 * square + noise**2)
            square = (1.0 - 1.0 / t) ** 2 * square + (noise / (convexity * t)) ** 2
            square = (math.sqrt(square) + push) ** 2
        if largest <= gamma_2:
            break
        gamma_2 = 1.001 * largest
    assert largest <= gamma_2
    assert square <= theory.descent_bound(math.sqrt(gamma_2), convexity, steps) * (1.0 + 1e-12)


def test_without_the_limit_the_bound_breaks() -> None:
    """Ten times the perturbation that is allowed is too much: the condition is necessary."""
    steps, gamma = 1_000, math.sqrt(2.0 + 0.1)
    push, square, largest = 10.0 * math.sqrt(theory.noise_limit(gamma, 1.0, steps)), 0.0, 0.0
    for t in range(1, steps + 1):
        largest = max(largest, square + 1.0)
        square = (math.sqrt((1.0 - 1.0 / t) ** 2 * square + (1.0 / t) ** 2) + push) ** 2
    assert largest <= gamma**2
    assert square > theory.descent_bound(gamma, 1.0, steps)


def test_bad_parameters_are_refused() -> None:
    with pytest.raises(ParameterError, match=r"gradient=0.0 is out of range; use a number above 0"):
        theory.descent_bound(0.0, 1.0, 5)
    with pytest.raises(ParameterError, match="convexity=-1 is out of range"):
        theory.noise_limit(1.0, -1, 5)
    with pytest.raises(ParameterError, match="steps=0 is out of range"):
        theory.noise_limit(1.0, 1.0, 0)


@pytest.mark.parametrize("error", [1e-4, 1e-6, 1e-8])
def test_the_residual_that_theorem_31_may_leave_is_of_the_third_order(error: float) -> None:
    """Its proof takes a tolerance in proportion to the error; the lemma that it uses allows one to its third power."""
    batch = 64
    gradient, rounds = math.sqrt(2.0 / batch), math.ceil(1.0 / (batch * error))
    allowed = theory.noise_limit(gradient, 1.0, rounds)

    def residual(tolerance: float) -> float:
        return tolerance**2 + tolerance / batch

    assert residual(error) > 10.0 * allowed
    assert residual(error**3 * batch**3) <= allowed <= 4.0 * residual(error**3 * batch**3)
