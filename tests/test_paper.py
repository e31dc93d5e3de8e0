"""The paper's algorithms against a literal transcription of its listings, and its worked example."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from vestige import Batched, coins, paper
from vestige.errors import ParameterError
from vestige.records import Floats


def nonempty_subsets(items: list[int]) -> list[list[int]]:
    return [list(chosen) for size in range(1, len(items) + 1) for chosen in combinations(items, size)]


def algorithm_1(batches: list[Floats], partitions: list[tuple[list[int], list[int]]]) -> list[Floats]:
    """The listing of Algorithm 1, line by line and slow; `partitions` is its arbitrary choice of (R_t, N_t)."""
    state = batches[0]
    states = [state]
    for t in range(2, len(batches) + 1):
        s = np.mean(state, axis=0)
        batch, (learn, keep) = batches[t - 1], partitions[t - 1]
        y = np.mean(batch[learn], axis=0)
        z = s + (1 / t) * (y - s)
        state = batch[min(nonempty_subsets(keep), key=lambda c: float(np.linalg.norm(z - np.mean(batch[c], axis=0))))]
        states.append(state)
    return states


def halves(seed: int, t: int, rounds: np.ndarray, part: int = 0) -> tuple[list[int], list[int]]:
    order = coins.order(coins.key(seed, t), rounds, part).tolist()
    return order[: len(order) // 2], sorted(order[len(order) // 2 :])


@pytest.mark.parametrize("seed", range(12))
def test_simple_mean_is_algorithm_1(seed: int) -> None:
    rng = np.random.default_rng(seed)
    dim, m = int(rng.integers(1, 4)), int(rng.integers(2, 15))
    batches = [rng.normal(size=(m, dim)) for _ in range(6)]
    partitions = [halves(seed, (k + 1) * m, np.arange(k * m + 1, (k + 1) * m + 1)) for k in range(6)]
    stream = Batched(paper.SimpleMean(dim), batch=m, seed=seed)
    for batch, state in zip(batches, algorithm_1(batches, partitions), strict=True):
        stream.push(batch)
        assert np.array_equal(np.sort(stream.retained.values, axis=0), np.sort(state, axis=0))
        assert stream.estimate().value == pytest.approx(np.mean(state, axis=0) if dim > 1 else np.mean(state))


@pytest.mark.parametrize("seed", range(12))
def test_coordinate_mean_is_one_instance_per_coordinate(seed: int) -> None:
    """Section 3.3: coordinate i is a one-dimensional Algorithm 1 on its own segment of every batch."""
    rng = np.random.default_rng(seed)
    dim, per = int(rng.integers(1, 4)), int(rng.integers(2, 11))
    m = dim * per
    batches = [rng.normal(size=(m, dim)) for _ in range(5)]
    stream = Batched(paper.CoordinateMean(dim), batch=m, seed=seed)
    expected = []
    for i in range(dim):
        segments = [batch[i::dim, i : i + 1] for batch in batches]
        rounds = [np.arange(k * m + 1 + i, (k + 1) * m + 1, dim) for k in range(5)]
        partitions = [halves(seed, (k + 1) * m, rounds[k], part=i) for k in range(5)]
        expected.append([float(np.mean(state)) for state in algorithm_1(segments, partitions)])
    for k, batch in enumerate(batches):
        stream.push(batch)
        assert np.atleast_1d(stream.estimate().value) == pytest.approx([series[k] for series in expected])


def states_after(first: list[float], second: list[float]) -> set[tuple[float, ...]]:
    """All sets of values that Algorithm 1 can hold after two batches, over many coins."""
    states = set()
    for seed in range(60):
        stream = Batched(paper.SimpleMean(), batch=3, seed=seed)
        stream.push(first)
        stream.push(second)
        states.add(tuple(stream.retained.values[:, 0].tolist()))
    return states


def test_appendix_d() -> None:
    """(0, 10, 10) and (0, 0, 10) differ in one record that need not be kept, and lead to disjoint sets of states."""
    one, other = states_after([0.0, 0.0, 0.0], [0.0, 10.0, 10.0]), states_after([0.0, 0.0, 0.0], [0.0, 0.0, 10.0])
    assert one == {(10.0,), (0.0, 10.0)}
    assert {float(np.mean(state)) for state in one} == {10.0, 5.0}
    assert other == {(0.0,)}
    assert not one & other


def test_an_outlier_outlives_its_erasure() -> None:
    """The footnote of Section 3.1: an extreme first record keeps the estimate high long after it is gone."""
    means: dict[float, list[float]] = {}
    for extreme in (0.0, 1e6):
        rng = np.random.default_rng(0)
        stream = Batched(paper.SimpleMean(), batch=20, seed=0)
        stream.push(np.append(rng.normal(size=19), extreme))
        means[extreme] = []
        for _ in range(10):
            stream.push(rng.normal(size=20))
            assert stream.retained.values.max() < 10
            means[extreme].append(float(stream.estimate().value))
    # of the ten numbers kept from, the largest is about 1.5 above the mean; then the excess fades only as 1/t
    assert np.mean(means[1e6]) > np.mean(means[0.0]) + 0.3
    assert means[1e6][-1] > means[0.0][-1]


def test_more_than_can_be_searched_is_refused() -> None:
    with pytest.raises(ParameterError, match=r"batch=53 gives batches of 53, above the 52 .*vestige.Mean"):
        Batched(paper.SimpleMean(), batch=53)
    with pytest.raises(ParameterError, match="dim=0 is out of range"):
        paper.CoordinateMean(0)
