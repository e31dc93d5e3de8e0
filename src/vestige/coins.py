"""Randomness without memory: a 64-bit key hashed from (seed, t), so that no generator lives across rounds.

Steele, Lea, Flood, "Fast splittable pseudorandom number generators" (2014): the finaliser of SplitMix64.
Guarantee: the key of a round depends on the seed and the round alone; held by tests/test_coins.py.
"""

from __future__ import annotations

import os

import numpy as np
from numpy.typing import NDArray

GOLDEN = 0x9E3779B97F4A7C15
MIX_1 = 0xBF58476D1CE4E5B9
MIX_2 = 0x94D049BB133111EB


def _mixed(words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """SplitMix64's finaliser: every bit of the result depends on every bit of a word."""
    words = (words ^ (words >> np.uint64(30))) * np.uint64(MIX_1)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(MIX_2)
    return words ^ (words >> np.uint64(31))


def keys(seed: int | None, rounds: NDArray[np.int64]) -> NDArray[np.uint64]:
    """The coins of these rounds: a 64-bit key each; from the operating system where `seed` is None.

    >>> keys(0, np.array([48, 96])) == keys(0, np.array([48, 97]))
    array([ True, False])
    """
    if seed is None:
        return np.frombuffer(bytearray(os.urandom(8 * len(rounds))), np.uint64)
    start = _mixed(np.array([seed % 2**64], np.uint64) + np.uint64(GOLDEN))
    return _mixed(start + np.uint64(GOLDEN) * rounds.astype(np.uint64))


def key(seed: int | None, t: int) -> int:
    """The coins of round `t`."""
    return int(keys(seed, np.array([t]))[0])


def order(coins: int, rounds: NDArray[np.int64], part: int = 0) -> NDArray[np.int64]:
    """A random order of records that depends on their rounds and the coins, not on how they are stored.

    Different `part`s of one round get independent orders.
    """
    by_round = np.argsort(rounds, kind="stable")
    return by_round[np.random.default_rng([coins, part]).permutation(len(rounds))]
