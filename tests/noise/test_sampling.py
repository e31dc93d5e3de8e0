"""The exact sampler: the probabilities of the definition, and whole numbers only."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from vestige.noise import noise_scale
from vestige.noise.kernels import _flip_exponential, draw_discrete_gaussian, draw_discrete_gaussians
from vestige.types import Words

DRAWS = 200_000
CHANCE = 1e-4
"""A right sampler fails each of these tests with this chance; the coins are fixed, so it fails always or never."""


def coins(seed: int, count: int = 30 * DRAWS) -> Words:
    return np.random.default_rng(seed).integers(0, 2**64, count, np.uint64)


def drawn(s: int, seed: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    words, at = coins(seed), np.zeros(1, np.int64)
    numbers = draw_discrete_gaussians(DRAWS, np.uint64(s), words, at)
    assert at[0] <= len(words)
    return numbers


@pytest.mark.parametrize("s", [1, 2, 3, 7, 40])
def test_probabilities_are_those_of_the_definition(s: int) -> None:
    reach = math.ceil(4.0 * s)
    numbers = np.clip(drawn(s, s), -reach, reach)
    weights = np.exp(-(np.arange(-60 * s, 60 * s + 1) ** 2) / (2.0 * s * s))
    weights /= weights.sum()
    expected = weights[60 * s - reach : 60 * s + reach + 1].copy()
    expected[0] += weights[: 60 * s - reach].sum()
    expected[-1] += weights[60 * s + reach + 1 :].sum()
    assert stats.chisquare(np.bincount(numbers + reach), DRAWS * expected).pvalue > CHANCE


def test_far_out_too() -> None:
    """The tail is where a sampler with overflows or rounded chances would show."""
    numbers = np.abs(drawn(5, 11))
    weights = np.exp(-(np.arange(-300, 301) ** 2) / 50.0)
    chance = 2.0 * weights[300 + 16 :].sum() / weights.sum()
    assert stats.binomtest(int((numbers >= 16).sum()), DRAWS, chance).pvalue > CHANCE


@pytest.mark.parametrize("s", [2**20, 2**30, 2**31])
def test_a_fine_grid_looks_normal(s: int) -> None:
    numbers = drawn(s, s % 97)
    assert stats.kstest(numbers / s, "norm").pvalue > CHANCE
    digits = np.bincount(numbers & 15, minlength=16)
    assert stats.chisquare(digits).pvalue > CHANCE, "the last bits are as they fall"


@pytest.mark.parametrize(("numerator", "denominator"), [(0, 5), (1, 1), (1, 2), (3, 7), (2**62 - 1, 2**62)])
def test_a_coin_falls_with_the_right_chance(numerator: int, denominator: int) -> None:
    words, at = coins(3), np.zeros(1, np.int64)
    fallen = sum(_flip_exponential(np.uint64(numerator), np.uint64(denominator), words, at) for _ in range(20_000))
    assert stats.binomtest(fallen, 20_000, math.exp(-numerator / denominator)).pvalue > CHANCE


def test_more_coins_change_nothing_that_was_drawn() -> None:
    words = coins(5, 400)
    for s in (3, 2**30):
        at = np.zeros(1, np.int64)
        number = draw_discrete_gaussian(np.uint64(s), words, at)
        again = np.zeros(1, np.int64)
        assert draw_discrete_gaussian(np.uint64(s), words[: at[0]], again) == number
        assert again[0] == at[0]
        short = np.zeros(1, np.int64)
        draw_discrete_gaussian(np.uint64(s), words[: at[0] - 1], short)
        assert short[0] > at[0] - 1, "it says that the coins were not enough"


def test_the_number_of_words_tells_as_much_of_the_noise_as_the_docs_say() -> None:
    """docs/privacy.md: who knows it beside the noised sum has a delta of 0.077 at epsilon 1, in place of 1e-6.

    The regions are chosen on one half of the draws and measured on the other, which can only be too low; the standard
    deviation of that is below 0.002.
    """
    s, bins, used, numbers = 2**20, 4, list[int](), list[int]()
    for seed in range(2):
        words, at = coins(seed), np.zeros(1, np.int64)
        for _ in range(DRAWS):
            before = int(at[0])
            numbers.append(int(draw_discrete_gaussian(np.uint64(s), words, at)))
            used.append(int(at[0]) - before)
        assert at[0] <= len(words)
    cells = np.floor(np.array(numbers) / (s / noise_scale(1.0, 1e-6) / bins)).astype(int)
    cells -= cells.min() - bins
    counts, halves = np.minimum(used, 60), np.arange(len(cells)) % 2 == 0
    chosen, measured = (
        np.histogram2d(counts[half], cells[half], [np.arange(62), np.arange(cells.max() + 2)])[0]
        for half in (halves, ~halves)
    )
    apart = [table - math.e * np.roll(table, bins, axis=1) for table in (chosen, measured)]
    assert 0.07 < apart[1][apart[0] > 0.0].sum() / measured.sum() < 0.08
    plain = [table.sum(axis=0) - math.e * np.roll(table.sum(axis=0), bins) for table in (chosen, measured)]
    assert plain[1][plain[0] > 0.0].sum() / measured.sum() < 0.001
