"""The draws of `vestige.random.keys`, compiled for use in kernels.

SplitMix64 of Steele, Lea, Flood (2014, https://doi.org/10.1145/2660193.2660195).
Guarantee: the same draws as the Python functions; held by tests/random/test_keys.py.
"""

from __future__ import annotations

import numpy as np

from vestige._numba import kernel
from vestige.random.keys import GOLDEN as _GOLDEN
from vestige.random.keys import MIX_1 as _MIX_1
from vestige.random.keys import MIX_2 as _MIX_2
from vestige.random.keys import SECRET_WORDS
from vestige.types import Words

GOLDEN = np.uint64(_GOLDEN)
MIX_1 = np.uint64(_MIX_1)
MIX_2 = np.uint64(_MIX_2)


@kernel
def draw(key: np.uint64, index: int) -> np.uint64:
    """Return the 64-bit draw number `index` of a key; see `vestige.random.keys.draw`."""
    word = key + GOLDEN * np.uint64(index + 1)
    word = (word ^ (word >> np.uint64(30))) * MIX_1
    word = (word ^ (word >> np.uint64(27))) * MIX_2
    return word ^ (word >> np.uint64(31))


@kernel
def draw_uniform(key: np.uint64, index: int) -> float:
    """Return draw number `index` of a key as a number uniform in [0, 1)."""
    return np.float64(draw(key, index) >> np.uint64(11)) * 2.0**-53


@kernel
def draw_below(key: np.uint64, index: int, bound: int) -> np.int64:
    """Return draw number `index` of a key, uniform in 0 .. bound - 1; the bias is below bound / 2^53."""
    return np.int64(draw_uniform(key, index) * bound)


@kernel
def derive_keys(root: np.uint64, first: int, step: int, count: int) -> Words:
    """Return the keys of the rounds first, first + step, ...; shape (count,); see `vestige.random.keys.derive_key`."""
    keys = np.empty(count, np.uint64)
    for i in range(count):
        keys[i] = draw(root, first + i * step)
    return keys


@kernel
def derive_secret_keys(root: np.uint64, first: int, step: int, count: int) -> Words:
    """Return keys as long as those of `vestige.random.keys.generate_secret_keys`, for audits; shape (count, 4)."""
    keys = np.empty((count, SECRET_WORDS), np.uint64)
    for i in range(count):
        key = draw(root, first + i * step)
        for j in range(SECRET_WORDS):
            keys[i, j] = draw(key, j)
    return keys
