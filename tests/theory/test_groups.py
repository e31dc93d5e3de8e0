"""Lemma 4.2: the density of group estimates, against simulated groups."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from vestige import theory
from vestige.errors import ParameterError
from vestige.types import Floats


def estimates(x: Floats, noise: float, seed: int) -> Floats:
    """The first coordinate of least squares in each group, less the truth; x has shape (groups, records, dim)."""
    y = noise * np.random.default_rng(seed).normal(size=x.shape[:2])
    gram, moved = np.einsum("gki,gkj->gij", x, x), np.einsum("gki,gk->gi", x, y)
    solved: Floats = np.linalg.solve(gram, moved[:, :, None])[:, 0, 0]
    return solved


@pytest.mark.parametrize(("dim", "noise", "bound"), [(1, 1.0, 1.0), (2, 0.5, 1.0), (2, 2.0, 3.0), (3, 1.0, 1.0)])
def test_no_density_is_below_the_bound(dim: int, noise: float, bound: float) -> None:
    """Uniform predictors on [0, B]^dim, in groups from which on the proof holds: E[x x^T] = B^2 (I / 12 + J / 4)."""
    smallest, largest = bound**2 / 12 if dim > 1 else bound**2 / 3, bound**2 * (1 / 12 + dim / 4)
    where, trials = {"bound": bound, "smallest_eigenvalue": smallest, "largest_eigenvalue": largest}, 3_000
    group = theory.proven_group_size(dim, **where)
    x = np.random.default_rng(dim).uniform(0.0, bound, size=(trials, group, dim))
    off = estimates(x, noise, seed=dim)
    for gamma in noise / math.sqrt(group * largest) * np.array([0.5, 1.0, 2.0]):
        alpha = theory.group_density(dim, group, gamma, noise=noise, **where)
        assert alpha > 0.0
        counts, edges = np.histogram(off, bins=8, range=(-gamma, gamma))
        least = alpha * (edges[1] - edges[0])
        assert counts.min() / trials > least - 4.0 * math.sqrt(least * (1.0 - least) / trials)


def test_in_the_proof_eigenvalues_are_halved_or_doubled_in_half_of_the_groups_at_most() -> None:
    group = theory.proven_group_size(2, bound=1.0, smallest_eigenvalue=1 / 12, largest_eigenvalue=7 / 12)
    x = np.random.default_rng(0).uniform(size=(2_000, group, 2))
    sizes = np.linalg.eigvalsh(np.einsum("gki,gkj->gij", x, x) / group)
    good = (sizes[:, 0] > 1 / 24) & (sizes[:, 1] < 7 / 6)
    assert good.mean() > 0.5 - 4.0 * math.sqrt(0.25 / 2_000)


@pytest.mark.parametrize(("dim", "group"), [(1, 1), (1, 3), (2, 5), (3, 7), (4, 20)])
def test_normal_predictors_give_students_t(dim: int, group: int) -> None:
    """The formula is the density of a scaled t; and the simulated groups have it: at 1 in 10,000, none is refused."""
    nu, noise = group - dim + 1, 1.5
    for radius in (0.01, 0.3, 2.0):
        expected = stats.t.pdf(radius * math.sqrt(nu) / noise, nu) * math.sqrt(nu) / noise
        assert theory.normal_group_density(dim, group, radius, noise=noise) == pytest.approx(expected, rel=1e-12)
    x = np.random.default_rng([dim, group]).normal(size=(4_000, group, dim))
    off = estimates(x, noise, seed=group)
    assert stats.kstest(off * math.sqrt(nu) / noise, stats.t(nu).cdf).pvalue > 1e-4


def test_it_is_the_product_that_no_group_changes() -> None:
    """Twice the records: 1 / sqrt(2) of the radius has sqrt(2) times the density, but for the chance of a bad group."""
    where = {"bound": 1.0, "smallest_eigenvalue": 1 / 12, "largest_eigenvalue": 7 / 12}
    products = [theory.group_density(2, k, 1.0 / math.sqrt(k), **where) / math.sqrt(k) for k in (4_000, 8_000, 16_000)]
    assert products == pytest.approx([products[0]] * 3, rel=1e-9)


def test_small_groups_prove_nothing() -> None:
    assert theory.group_density(2, 10, 0.1, bound=1.0, smallest_eigenvalue=1 / 12, largest_eigenvalue=7 / 12) == 0.0


def test_group_sizes_grow_as_d_log_d() -> None:
    sizes = [theory.group_size(dim) for dim in range(1, 200)]
    assert sizes == sorted(sizes)
    assert all(size >= 2 * dim + 1 and size > 2 * dim * math.log(dim) for dim, size in enumerate(sizes, start=1))
    assert sizes[:7] == [3, 5, 7, 12, 17, 22, 28]


def test_bad_parameters_are_refused() -> None:
    with pytest.raises(ParameterError, match="group=1 is out of range; use a whole number, 2 or more"):
        theory.normal_group_density(2, 1, 0.1)
    with pytest.raises(
        ParameterError, match=r"smallest_eigenvalue=2.0 is above largest_eigenvalue=1.0; give the eigenvalues"
    ):
        theory.proven_group_size(2, bound=1.0, smallest_eigenvalue=2.0, largest_eigenvalue=1.0)
    with pytest.raises(
        ParameterError, match=r"largest_eigenvalue=3.0 is above dim \* bound\^2 = 2; use a larger bound"
    ):
        theory.group_density(2, 5, 0.1, bound=1.0, smallest_eigenvalue=1.0, largest_eigenvalue=3.0)
    with pytest.raises(ParameterError, match="radius=0 is out of range"):
        theory.normal_group_density(2, 5, 0)
    with pytest.raises(ParameterError, match="constant=0 is out of range"):
        theory.group_size(2, constant=0)
