"""Vectors prepared for meet in the middle: scaled, split into halves, with packed subset sums.

Guarantee: packed sums lose no match of the grid; held by tests/subset/test_grid.py.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from vestige._numba import kernel
from vestige.types import Floats, Words

LARGEST_WORD = 2.0**50
"""Largest scaled number: below 2^52, so that it can be rounded to a whole number."""


class Half(NamedTuple):
    """All subset sums of half of the vectors, as sums of an entry of `low` and one of `high`; packed, and in full.

    The subset `(j << bits) | i` has the sum `low[i] + high[j]`.

    Attributes:
        bits: number of vectors in `low`.
        low: packed sums of the first vectors; (2^bits,).
        high: packed sums of the other vectors.
        low_sums: full sums of the first vectors; (2^bits, dim).
        high_sums: full sums of the other vectors.
    """

    bits: int
    low: Words
    high: Words
    low_sums: Floats
    high_sums: Floats


@kernel
def list_sums(vectors: Floats, start: Floats) -> Floats:
    """Return `start` plus the sums of all subsets of `vectors`; row `mask` is that of the subset `mask`."""
    n, dim = vectors.shape
    sums = np.empty((1 << n, dim))
    for i in range(dim):
        sums[0, i] = start[i]
    for j in range(n):
        for mask in range(1 << j):
            for i in range(dim):
                sums[(1 << j) + mask, i] = sums[mask, i] + vectors[j, i]
    return sums


@kernel
def pack(vector: Floats, fields: int, width: int, scale: float) -> np.uint64:
    """Return the leading coordinates in whole units, each modulo 2^width and centred, side by side from the top bit."""
    word = np.uint64(0)
    around = 2.0**width
    for i in range(fields):
        units = np.rint(vector[i] * scale)
        units -= around * np.rint(units / around)
        word += np.uint64(np.int64(units)) << np.uint64(64 - (i + 1) * width)
    return word


@kernel
def pack_sums(vectors: Floats, start: np.uint64, fields: int, width: int, scale: float) -> Words:
    """Return `start` plus the packed sums of all subsets of `vectors`."""
    sums = np.empty(1 << len(vectors), np.uint64)
    sums[0] = start
    for j in range(len(vectors)):
        word = pack(vectors[j], fields, width, scale)
        for mask in range(1 << j):
            sums[(1 << j) + mask] = sums[mask] + word
    return sums


@kernel
def make_half(vectors: Floats, start: Floats, origin: np.uint64, fields: int, width: int, scale: float) -> Half:
    """Return the sums of all subsets of `vectors`, from `start`; the packed sums also include `origin`."""
    bits = (len(vectors) + 1) // 2
    first = origin + pack(start, fields, width, scale)
    return Half(
        bits,
        pack_sums(vectors[:bits], np.uint64(0), fields, width, scale),
        pack_sums(vectors[bits:], first, fields, width, scale),
        list_sums(vectors[:bits], np.zeros(len(start))),
        list_sums(vectors[bits:], start),
    )


@kernel
def normalize(offsets: Floats, base: Floats) -> tuple[Floats, Floats, int]:
    """Return `offsets` and `base`, the most spread coordinates first, scaled by 2^exponent to at most 1; exponent."""
    n, dim = offsets.shape
    largest = np.abs(base).max()
    spread = np.zeros(dim)
    for j in range(n):
        for i in range(dim):
            largest = max(largest, abs(offsets[j, i]))
    exponent = -math.frexp(largest)[1]
    table, start = np.empty((n, dim)), np.empty(dim)
    for j in range(n):
        for i in range(dim):
            table[j, i] = math.ldexp(offsets[j, i], exponent)
            spread[i] += table[j, i] ** 2
    order = np.argsort(-spread)
    for i in range(dim):
        start[i] = math.ldexp(base[order[i]], exponent)
    return table[:, order].copy(), start, exponent


@kernel
def find_nearest_single(table: Floats, start: Floats, forced_count: int) -> tuple[float, int]:
    """Return the smallest distance of the forced rows alone (-1) or with one vector, and which vector."""
    best, at = np.inf, -1
    if forced_count > 0:
        best = math.sqrt((start**2).sum()) / forced_count
    for j in range(len(table)):
        distance = math.sqrt(((start + table[j]) ** 2).sum()) / (forced_count + 1)
        if distance < best:
            best, at = distance, j
    return best, at


@kernel
def estimate_length(table: Floats, start: Floats, hits: float) -> float:
    """Return the length within which `hits` subset sums lie if they are normal; 0 or nan if they fill no volume."""
    n, dim = table.shape
    spread, mean = np.zeros((dim, dim)), start.copy()
    for row in table:
        for i in range(dim):
            mean[i] += row[i] / 2.0
            for j in range(i + 1):
                spread[i, j] += row[i] * row[j] / 4.0
    exponent = n * math.log(2.0) - math.log(hits)
    for i in range(dim):  # Cholesky's factor below the diagonal, and the mean in its coordinates
        for j in range(i + 1):
            for k in range(j):
                spread[i, j] -= spread[i, k] * spread[j, k]
            if j < i:
                spread[i, j] /= spread[j, j]
                mean[i] -= spread[i, j] * mean[j]
        if not spread[i, i] > 1e-12:
            return 0.0
        spread[i, i] = math.sqrt(spread[i, i])
        mean[i] /= spread[i, i]
        exponent -= 0.5 * math.log(2.0 * math.pi) + math.log(spread[i, i]) + 0.5 * mean[i] ** 2
    ball = 0.5 * dim * math.log(math.pi) - math.lgamma(0.5 * dim + 1.0)
    return math.exp(-(exponent + ball) / dim)
