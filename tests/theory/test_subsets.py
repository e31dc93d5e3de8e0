"""Theorem 3.5 and Lemma 3.3: random numbers have the subsets that they say, about as often as they say."""

from __future__ import annotations

import math

import numpy as np
import pytest

from vestige import theory
from vestige.errors import ParameterError
from vestige.theory.subsets import SUM_FAILURE, SUM_SIZE
from vestige.types import Floats


def sums_of(values: Floats) -> Floats:
    """The sums of all subsets, the empty one first; shape (2^n, ...)."""
    sums = np.zeros((1, *values.shape[1:]))
    for value in values:
        sums = np.concatenate((sums, sums + value))
    return sums


def worst_miss(values: Floats) -> float:
    """How far the target in [-1/2, 1/2] that is served worst is from the nearest subset sum."""
    sums = np.sort(sums_of(values))
    middles = (sums[1:] + sums[:-1]) / 2.0
    targets = np.concatenate((middles[np.abs(middles) <= 0.5], [-0.5, 0.5]))
    right = np.searchsorted(sums, targets)
    beside = np.stack((sums[np.maximum(right - 1, 0)], sums[np.minimum(right, len(sums) - 1)]))
    return float(np.abs(beside - targets).min(axis=0).max())


def misses(size: int, trials: int) -> Floats:
    rng = np.random.default_rng(size)
    return np.array([worst_miss(rng.uniform(-1.0, 1.0, size)) for _ in range(trials)])


def test_the_worst_target_is_the_worst_of_many() -> None:
    rng = np.random.default_rng(0)
    for size in (1, 2, 5, 9):
        values = rng.uniform(-1.0, 1.0, size)
        targets = np.linspace(-0.5, 0.5, 4_001)
        tried = np.abs(sums_of(values)[:, None] - targets).min(axis=0).max()
        assert tried <= worst_miss(values) <= tried + 1.0 / 4_000


@pytest.mark.parametrize(("size", "trials"), [(3, 3_000), (5, 3_000), (7, 3_000), (9, 2_000), (12, 1_000)])
def test_subset_sums(size: int, trials: int) -> None:
    """Use the smallest error for which `subset_sum_size` returns this size, for all targets at once."""
    error = math.exp(-(size - 1e-9) / SUM_SIZE)
    assert theory.subset_sum_size(error) == size
    allowed = theory.subset_sum_failure(size)
    failed = (misses(size, trials) >= error).mean()
    assert failed < allowed + 4.0 * math.sqrt(allowed * (1.0 - allowed) / trials)


@pytest.mark.slow
def test_the_measured_constants_of_subset_sums() -> None:
    """C_1, for C_2 = 3, is the least of log(1 / failures) / m: measured 0.217 at m = 7, with an error of 0.005."""
    measured = {}
    for size, trials in [(4, 20_000), (5, 20_000), (6, 20_000), (7, 20_000), (8, 20_000), (10, 10_000), (14, 4_000)]:
        measured[size] = -math.log((misses(size, trials) >= math.exp(-size / SUM_SIZE)).mean()) / size
    assert SUM_FAILURE < min(measured.values()) < SUM_FAILURE + 0.04


def reaches(vectors: Floats, target: Floats, error: float, tried: int) -> bool:
    """Whether a subset of the `tried` nearest vectors has an average within 2 `error`: a witness, where it is found."""
    order = np.argsort(((vectors - target) ** 2).sum(axis=1))[:tried]
    offsets, counts = sums_of(vectors[order] - target)[1:], sums_of(np.ones(len(order)))[1:]
    return bool((np.linalg.norm(offsets, axis=1) / counts).min() < 2.0 * error)


@pytest.mark.parametrize(
    ("deviations", "error", "trials"),
    [
        ([1.0], 0.25, 1_000),
        ([1.0], 0.2, 1_000),
        ([1.0], 0.15, 400),
        ([1.0, 1.0], 0.25, 200),
        ([3.0, 3.0], 0.5, 200),
        ([1.0, 0.5], 0.12, 200),
        ([0.5, 1.0, 1.0], 0.12, 100),
        ([1.0, 1.0, 1.0], 0.2, 100),
    ],
)
def test_vector_subsets(deviations: list[float], error: float, trials: int) -> None:
    """For the target at a corner of where the lemma allows it, the farthest from the mean."""
    dim, sigma, ratio = len(deviations), max(deviations), max(deviations) / min(deviations)
    size = theory.vector_subset_size(dim, error, deviation=sigma, ratio=ratio)
    rng, target = np.random.default_rng([dim, size]), np.full(dim, sigma / ratio)
    found = [reaches(rng.normal(size=(size, dim)) * deviations, target, error, min(size, 15)) for _ in range(trials)]
    allowed = error / 2.0
    assert 1.0 - np.mean(found) < allowed + 4.0 * math.sqrt(allowed * (1.0 - allowed) / trials)


def test_half_as_many_vectors_are_too_few() -> None:
    """The measured constant of Lemma 3.3 is at most twice what is needed, where it was measured."""
    rng, trials, allowed = np.random.default_rng(0), 2_000, 0.125
    found = [reaches(rng.normal(size=(4, 1)), np.ones(1), 0.25, 4) for _ in range(trials)]
    assert theory.vector_subset_size(1, 0.25) == 8
    assert 1.0 - np.mean(found) > allowed + 4.0 * math.sqrt(allowed * (1.0 - allowed) / trials)


def test_bad_parameters_are_refused() -> None:
    with pytest.raises(ParameterError, match=r"error=1.0 is not below 1"):
        theory.subset_sum_size(1.0)
    with pytest.raises(ParameterError, match="size=0 is out of range"):
        theory.subset_sum_failure(0)
    with pytest.raises(ParameterError, match=r"error=0.3 is above 0.25; "):
        theory.vector_subset_size(2, 0.3)
    with pytest.raises(ParameterError, match=r"ratio=0.5 is below 1; use the largest over the smallest"):
        theory.vector_subset_size(2, 0.1, ratio=0.5)
