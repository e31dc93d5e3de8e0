"""The discrete Gaussian, sampled exactly: whole numbers and fair coins only, no floating point anywhere.

Canonne, Kamath and Steinke, "The discrete Gaussian for differential privacy" (2020,
https://doi.org/10.48550/arXiv.2004.00010): Algorithm 1 (a coin of bias
exp(-x)), Algorithm 2 (discrete Laplace) and Algorithm 3 (rejection from it), for a whole deviation s and a Laplace
proposal of scale s, for which the coin to accept y has bias exp(-(|y| - s)^2 / 2 s^2).
Guarantee: the probabilities of the definition; held by tests/noise/test_sampling.py.
"""

from __future__ import annotations

import numpy as np

from vestige._numba import kernel
from vestige.random.kernels import draw
from vestige.types import Ints, Words

_ALL = np.uint64(0xFFFFFFFFFFFFFFFF)
_ONE, _TWO = np.uint64(1), np.uint64(2)


@kernel
def _read_next(words: Words, at: Ints) -> np.uint64:
    """The next word of the coins; beyond the last one a stand-in, so that loops end and the caller can get more."""
    i = at[0]
    at[0] += 1
    return words[i] if i < len(words) else draw(words[0], i)


@kernel
def _draw_below(bound: np.uint64, words: Words, at: Ints) -> np.uint64:
    """Uniform in 0 .. bound-1: words beyond the last whole multiple of the bound are passed over."""
    limit = (_ALL // bound) * bound
    while True:
        word = _read_next(words, at)
        if word < limit:
            return word % bound


@kernel
def _flip_exponential(numerator: np.uint64, denominator: np.uint64, words: Words, at: Ints) -> bool:
    """True with chance exp(-numerator / denominator), for a ratio of at most 1; Algorithm 1.

    The chance of a further step is the ratio over k: both of two independent coins, so that no product overflows.
    """
    k = _ONE
    while _draw_below(denominator, words, at) < numerator and (k == _ONE or _draw_below(k, words, at) == 0):
        k += _ONE
    return bool(k % _TWO == _ONE)


@kernel
def _flip_acceptance(y: np.uint64, s: np.uint64, words: Words, at: Ints) -> bool:
    """True with chance exp(-(y - s)^2 / 2 s^2).

    With |y - s| = s m + r the exponent is m^2 / 2 + m r / s + r^2 / 2 s^2: so many coins, all of which must fall.
    """
    off = y - s if y >= s else s - y
    m, r = off // s, off % s
    for _ in range(m * m):
        if not _flip_exponential(_ONE, _TWO, words, at):
            return False
    for _ in range(m):
        if not _flip_exponential(r, s, words, at):
            return False
    return _flip_exponential(r * r, _TWO * s * s, words, at)


@kernel
def draw_discrete_gaussian(s: np.uint64, words: Words, at: Ints) -> np.int64:
    """Draw a whole number z with probability proportional to exp(-z^2 / 2 s^2); s at most 2^31.

    Args:
        s: the deviation.
        words: independent uniform 64-bit words.
        at: the number of words that are used up, as one number that is increased. Beyond their number, the result is
            worthless.

    Returns:
        the number.
    """
    while True:
        low = _draw_below(s, words, at)
        if not _flip_exponential(low, s, words, at):
            continue
        high = np.uint64(0)
        while _flip_exponential(_ONE, _ONE, words, at):
            high += _ONE
        y = low + s * high
        negative = _read_next(words, at) & _ONE == _ONE
        if negative and y == 0:
            continue
        if _flip_acceptance(y, s, words, at):
            return -np.int64(y) if negative else np.int64(y)


@kernel
def draw_discrete_gaussians(count: int, s: np.uint64, words: Words, at: Ints) -> Ints:
    """Draw several whole numbers from the same coins."""
    drawn = np.empty(count, np.int64)
    for i in range(count):
        drawn[i] = draw_discrete_gaussian(s, words, at)
    return drawn
