"""Randomness without memory: a 64-bit key hashed from (seed, t), so that no generator lives across rounds.

Steele, Lea, Flood, "Fast splittable pseudorandom number generators" (2014): SplitMix64. The kernels have the same
function in `vestige.random.kernels`.
Guarantee: the key of a round depends on the seed and the round alone; held by tests/random/test_keys.py.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

GOLDEN = 0x9E3779B97F4A7C15
MIX_1 = 0xBF58476D1CE4E5B9
MIX_2 = 0x94D049BB133111EB
_WORD = (1 << 64) - 1


@dataclass(frozen=True, slots=True)
class AuditSeed:
    """A seed for a run that protects nobody: an audit, a test.

    A policy that promises to forget refuses a plain seed, since who knows it can take the noise off again.
    """

    seed: int


def draw(key: int, index: int) -> int:
    """The `index`-th 64-bit draw of a key."""
    word = (key + GOLDEN * (index + 1)) & _WORD
    word = ((word ^ (word >> 30)) * MIX_1) & _WORD
    word = ((word ^ (word >> 27)) * MIX_2) & _WORD
    return word ^ (word >> 31)


def root(seed: int | None) -> int:
    """What the keys of all rounds are drawn from; from the operating system where `seed` is None."""
    return secrets.randbits(64) if seed is None else draw(seed & _WORD, 0)


def key(seed: int | None, t: int) -> int:
    """The coins of round `t`.

    >>> key(0, 48) == key(0, 48), key(0, 48) == key(0, 96), key(None, 48) == key(None, 48)
    (True, False, False)
    """
    return draw(root(seed), t)


SECRET_WORDS = 4


def secret_keys(count: int) -> NDArray[np.uint64]:
    """Coins of so many rounds that nobody can guess, 256 bits each, from the operating system; shape (count, 4).

    >>> secret_keys(2).shape
    (2, 4)
    """
    return np.frombuffer(secrets.token_bytes(8 * SECRET_WORDS * count), np.uint64).reshape(-1, SECRET_WORDS)


def order(coins: int, rounds: NDArray[np.int64], part: int = 0) -> NDArray[np.int64]:
    """A random order of records that depends on their rounds and the coins, not on how they are stored.

    Different `part`s of one round get independent orders.
    """
    by_round = np.argsort(rounds, kind="stable")
    return by_round[np.random.default_rng([coins, part]).permutation(len(rounds))]
