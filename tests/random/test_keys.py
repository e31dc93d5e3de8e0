"""Keys depend on the seed and the round alone, and their draws are uniform."""

from __future__ import annotations

import numpy as np

from vestige.random import keys
from vestige.random.kernels import derive_keys, draw, draw_below, draw_uniform


def test_keys_of_splitmix64() -> None:
    """The first outputs of the reference implementation, seeded with 1234567."""
    published = [6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431]
    assert [int(draw(np.uint64(1234567), i)) for i in range(4)] == published


def test_kernels_and_streams_have_the_same_keys() -> None:
    assert [keys.derive_key(5, t) for t in (48, 96, 144)] == derive_keys(
        np.uint64(keys.derive_root(5)), 48, 48, 3
    ).tolist()
    assert keys.draw(7, 9) == draw(np.uint64(7), 9)
    assert keys.derive_key(-1, 1) == keys.derive_key(2**64 - 1, 1)


def test_without_a_seed_keys_differ() -> None:
    assert keys.derive_key(None, 1) != keys.derive_key(None, 1)


def test_uniform_draws_are_uniform() -> None:
    n = 20_000
    draws = np.array([draw_uniform(np.uint64(9), i) for i in range(n)])
    # the Kolmogorov distance exceeds 1.95 / sqrt(n) with probability below 0.001
    assert np.max(np.abs(np.sort(draws) - (np.arange(n) + 0.5) / n)) < 1.95 / np.sqrt(n)
    assert {int(draw_below(np.uint64(3), i, 5)) for i in range(200)} == {0, 1, 2, 3, 4}


def test_an_order_goes_by_rounds_not_by_storage() -> None:
    rounds = np.array([5, 9, 7, 6])
    shuffled = rounds[[2, 0, 3, 1]]
    assert rounds[keys.shuffle_rounds(1, rounds)].tolist() == shuffled[keys.shuffle_rounds(1, shuffled)].tolist()
