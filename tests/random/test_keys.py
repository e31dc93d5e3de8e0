"""Coins depend on the seed and the round alone, and look random."""

from __future__ import annotations

import numpy as np

from vestige.random import keys
from vestige.random.kernels import below, derive_keys, draw, ones, uniform


def test_keys_of_splitmix64() -> None:
    """The first outputs of the reference implementation, seeded with 1234567."""
    published = [6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431]
    assert [int(draw(np.uint64(1234567), i)) for i in range(4)] == published


def test_kernels_and_streams_have_the_same_coins() -> None:
    assert [keys.key(5, t) for t in (48, 96, 144)] == derive_keys(np.uint64(keys.root(5)), 48, 48, 3).tolist()
    assert keys.draw(7, 9) == draw(np.uint64(7), 9)
    assert keys.key(-1, 1) == keys.key(2**64 - 1, 1)


def test_without_a_seed_coins_differ() -> None:
    assert keys.key(None, 1) != keys.key(None, 1)


def test_uniform_draws_are_uniform() -> None:
    n = 20_000
    draws = np.array([uniform(np.uint64(9), i) for i in range(n)])
    # the Kolmogorov distance exceeds 1.95 / sqrt(n) with probability below 0.001
    assert np.max(np.abs(np.sort(draws) - (np.arange(n) + 0.5) / n)) < 1.95 / np.sqrt(n)
    assert {int(below(np.uint64(3), i, 5)) for i in range(200)} == {0, 1, 2, 3, 4}


def test_ones() -> None:
    for word in (0, 1, 2**64 - 1, 0xF0F0, 1 << 63):
        assert ones(np.uint64(word)) == word.bit_count()


def test_an_order_goes_by_rounds_not_by_storage() -> None:
    rounds = np.array([5, 9, 7, 6])
    shuffled = rounds[[2, 0, 3, 1]]
    assert rounds[keys.order(1, rounds)].tolist() == shuffled[keys.order(1, shuffled)].tolist()
