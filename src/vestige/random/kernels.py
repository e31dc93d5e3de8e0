"""Bit tricks that the kernels share: population counts, and draws from a key."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from vestige._numba import kernel
from vestige.random.keys import GOLDEN as _GOLDEN
from vestige.random.keys import MIX_1 as _MIX_1
from vestige.random.keys import MIX_2 as _MIX_2
from vestige.random.keys import SECRET_WORDS

GOLDEN = np.uint64(_GOLDEN)
MIX_1 = np.uint64(_MIX_1)
MIX_2 = np.uint64(_MIX_2)


@kernel
def ones(word: np.uint64) -> np.int64:
    """How many bits of `word` are one."""
    word = word - ((word >> np.uint64(1)) & np.uint64(0x5555555555555555))
    word = (word & np.uint64(0x3333333333333333)) + ((word >> np.uint64(2)) & np.uint64(0x3333333333333333))
    word = (word + (word >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return np.int64((word * np.uint64(0x0101010101010101)) >> np.uint64(56))


@kernel
def draw(key: np.uint64, index: int) -> np.uint64:
    """The `index`-th 64-bit draw of a key (SplitMix64)."""
    word = key + GOLDEN * np.uint64(index + 1)
    word = (word ^ (word >> np.uint64(30))) * MIX_1
    word = (word ^ (word >> np.uint64(27))) * MIX_2
    return word ^ (word >> np.uint64(31))


@kernel
def uniform(key: np.uint64, index: int) -> float:
    """The `index`-th draw of a key, uniform in [0, 1)."""
    return np.float64(draw(key, index) >> np.uint64(11)) * 2.0**-53


@kernel
def below(key: np.uint64, index: int, bound: int) -> np.int64:
    """The `index`-th draw of a key, uniform in 0 .. bound-1 (the bias is below bound / 2^53)."""
    return np.int64(uniform(key, index) * bound)


@kernel
def derive_keys(root: np.uint64, first: int, step: int, count: int) -> NDArray[np.uint64]:
    """The coins of the rounds first, first + step, ...; see `vestige.random.keys.key`."""
    keys = np.empty(count, np.uint64)
    for i in range(count):
        keys[i] = draw(root, first + i * step)
    return keys


@kernel
def derive_secret_keys(root: np.uint64, first: int, step: int, count: int) -> NDArray[np.uint64]:
    """As long as those of `vestige.random.keys.secret_keys`, for rehearsals; shape (count, 4)."""
    keys = np.empty((count, SECRET_WORDS), np.uint64)
    for i in range(count):
        key = draw(root, first + i * step)
        for j in range(SECRET_WORDS):
            keys[i, j] = draw(key, j)
    return keys
