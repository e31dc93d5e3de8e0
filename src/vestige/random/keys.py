"""Randomness without memory: a 64-bit key hashed from (seed, t), so that no generator lives across rounds.

SplitMix64 of Steele, Lea, Flood (2014, https://doi.org/10.1145/2660193.2660195). The kernels use the same function, in
`vestige.random.kernels`.
Guarantee: the key of a round depends on the seed and the round alone; held by tests/random/test_keys.py.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass

import numpy as np

from vestige.random.generators import make_generator
from vestige.types import Ints, Words

GOLDEN = 0x9E3779B97F4A7C15
MIX_1 = 0xBF58476D1CE4E5B9
MIX_2 = 0x94D049BB133111EB
SECRET_WORDS = 4
_WORD = (1 << 64) - 1


@dataclass(frozen=True, slots=True)
class AuditSeed:
    """A seed for a run that protects nobody: an audit or a test.

    A policy with a privacy guarantee refuses a plain seed, since anyone who knows the seed can subtract the noise.

    Attributes:
        seed: the seed.

    Example:
        >>> AuditSeed(7).seed
        7
    """

    seed: int


def draw(key: int, index: int) -> int:
    """Return a 64-bit draw of a key.

    Args:
        key: the key, from 0 to 2^64 - 1.
        index: number of the draw, from 0.

    Returns:
        The draw, from 0 to 2^64 - 1.

    Example:
        >>> draw(1, 0) == draw(1, 0), draw(1, 0) == draw(1, 1)
        (True, False)
    """
    word = (key + GOLDEN * (index + 1)) & _WORD
    word = ((word ^ (word >> 30)) * MIX_1) & _WORD
    word = ((word ^ (word >> 27)) * MIX_2) & _WORD
    return word ^ (word >> 31)


def derive_root(seed: int | None) -> int:
    """Return the key from which the keys of all rounds are derived.

    Args:
        seed: the seed; with None, the key comes from the operating system.

    Returns:
        A 64-bit key.

    Example:
        >>> derive_root(0) == derive_root(0), derive_root(0) == derive_root(1)
        (True, False)
    """
    return secrets.randbits(64) if seed is None else draw(seed & _WORD, 0)


def derive_key(seed: int | None, t: int) -> int:
    """Return the key of round `t`.

    Args:
        seed: the seed; with None, the key comes from the operating system.
        t: the round.

    Returns:
        A 64-bit key.

    Example:
        >>> derive_key(0, 48) == derive_key(0, 48), derive_key(0, 48) == derive_key(0, 96)
        (True, False)
    """
    return draw(derive_root(seed), t)


def generate_secret_keys(count: int) -> Words:
    """Return keys that nobody can guess, 256 bits each, from the operating system.

    Args:
        count: number of keys.

    Returns:
        The keys; shape (count, 4).

    Example:
        >>> generate_secret_keys(2).shape
        (2, 4)
    """
    return np.frombuffer(secrets.token_bytes(8 * SECRET_WORDS * count), np.uint64).reshape(-1, SECRET_WORDS)


def shuffle_rounds(key: int, rounds: Ints, part: int = 0) -> Ints:
    """Return a random order of records that depends on their rounds and the key, not on how they are stored.

    Args:
        key: the key of the round.
        rounds: rounds of the records; shape (n,).
        part: parts of one round get independent orders.

    Returns:
        A permutation of 0 .. n - 1; shape (n,).

    Example:
        >>> rounds = np.array([3, 1, 2])
        >>> rounds[shuffle_rounds(7, rounds)].tolist() == np.sort(rounds)[shuffle_rounds(7, np.sort(rounds))].tolist()
        True
    """
    by_round = np.argsort(rounds, kind="stable")
    return by_round[make_generator(key, part).permutation(len(rounds))]
