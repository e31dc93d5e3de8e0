"""The paper's algorithms against a literal transcription of its listings, and its worked example."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from vestige import Batched, Stream, paper
from vestige.errors import ParameterError
from vestige.random import keys
from vestige.types import Floats


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
    order = keys.shuffle_rounds(keys.derive_key(seed, t), rounds, part).tolist()
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


@pytest.mark.parametrize("policy", [paper.SimpleMean(2), paper.CoordinateMean(2)], ids=str)
def test_requests_for_most_of_a_batch_leave_an_answer_or_a_new_start(policy: paper.SimpleMean) -> None:
    """Whichever half of a batch, or coordinate, has to go; a stream always goes on."""
    for seed in range(40):
        rng = np.random.default_rng(seed)
        stream = Stream(policy, retention=16, seed=seed)
        for start in range(0, 80, 8):
            stream.extend(rng.normal(size=(7, 2)))
            stream.forget(rounds=start + 1 + rng.choice(7, size=rng.integers(5, 8), replace=False))
            stream.push([0.0, 0.0])
            if len(stream.retained):
                assert np.isfinite(stream.estimate().value).all()


def test_more_than_can_be_searched_is_refused() -> None:
    with pytest.raises(ParameterError, match=r"batch=53 gives batches of 53, above the 52 .*vestige.Mean"):
        Batched(paper.SimpleMean(), batch=53)
    with pytest.raises(ParameterError, match="dim=0 is out of range"):
        paper.CoordinateMean(0)


def decode(records: Floats, group: int) -> Floats:
    """Decode of Algorithm 2, word for word but for its slip: the matrices of L_j."""
    estimates = []
    for j in range(len(records) // group):
        rows = records[j * group : (j + 1) * group]
        x, y = rows[:, :-1], rows[:, -1]
        estimates.append(np.linalg.inv(x.T @ x) @ x.T @ y)
    average: Floats = np.mean(estimates, axis=0)
    return average


def algorithm_2(batches: list[Floats], dim: int, group: int, eigenvalue: float, offset: float) -> Floats:
    """Algorithm 2, word for word, with the choices that the listing leaves open made as the docstring says."""

    def cut(half: Floats) -> list[Floats]:
        size = len(half) // dim
        return [half[i * size : i * size + size // group * group] for i in range(dim)]

    state = cut(batches[0])
    for t, batch in enumerate(batches[1:], start=2):
        s = np.array([decode(state[i], group)[i] for i in range(dim)])
        learn_from, keep_from = batch[: len(batch) // 2], batch[len(batch) // 2 :]
        x, y = learn_from[:, :-1], learn_from[:, -1]
        z = s + (x.T @ y - x.T @ x @ s) / len(x) / (eigenvalue * (t + offset))
        state = []
        for i, segment in enumerate(cut(keep_from)):
            groups = [segment[j : j + group] for j in range(0, len(segment), group)]
            w = [decode(rows, group)[i] for rows in groups]
            choices = [c for size in range(1, len(w) + 1) for c in combinations(range(len(w)), size)]
            best = min(choices, key=lambda c: abs(z[i] - np.mean([w[j] for j in c])))
            state.append(np.concatenate([groups[j] for j in best]))
    return np.array([decode(state[i], group)[i] for i in range(dim)])


@pytest.mark.parametrize(("dim", "group", "batch"), [(1, 3, 40), (2, 5, 83), (3, 6, 150)])
def test_algorithm_2_word_for_word(dim: int, group: int, batch: int) -> None:
    rng = np.random.default_rng(dim)
    x = rng.normal(size=(12 * batch, dim))
    rows = np.column_stack([x, x @ np.arange(1.0, dim + 1.0) + rng.normal(size=len(x))])
    policy = paper.Regression(dim, group=group, smallest_eigenvalue=0.8, offset=2.0)
    stream = Batched(policy, batch=batch, seed=0)
    stream.extend(rows)
    expected = algorithm_2(np.split(rows, 12), dim, group, 0.8, 2.0)
    assert stream.estimate().value == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(("dim", "batch"), [(2, 640), pytest.param(3, 900, marks=pytest.mark.slow)])
def test_the_error_of_algorithm_2_falls_with_the_stream(dim: int, batch: int) -> None:
    """Theorem 4.1: proportional to 1/T, so that four times the stream leaves a quarter; half would be too much."""
    truth, errors = np.arange(1.0, dim + 1.0), []
    for batches in (10, 40):
        found = []
        for seed in range(12):
            rng = np.random.default_rng([seed, batches])
            x = rng.normal(size=(batches * batch, dim))
            stream = Batched(paper.Regression(dim), batch=batch, seed=seed)
            stream.extend(np.column_stack([x, x @ truth + rng.normal(size=len(x))]))
            found.append(((stream.estimate().value - truth) ** 2).sum())
        errors.append(np.mean(found))
    assert errors[1] < errors[0] / 2.0


def test_what_algorithm_2_refuses() -> None:
    with pytest.raises(ParameterError, match="group=2 is out of range"):
        paper.Regression(3, group=2)
    with pytest.raises(ParameterError, match="smallest_eigenvalue=0 is out of range"):
        paper.Regression(1, smallest_eigenvalue=0)
    with pytest.raises(ParameterError, match="offset=-1 is out of range"):
        paper.Regression(1, offset=-1)
