"""Vectors made ready for a meeting in the middle: scaled, split into halves, their subset sums listed and packed."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from vestige._numba import kernel
from vestige.types import Floats, Words

LARGEST_WORD = 2.0**50
"""Below 2^52, so that scaled numbers round to whole ones."""


class Half(NamedTuple):
    """All sums of half of the vectors, as sums of an entry of `low` and one of `high`; packed, and in full.

    The subset `(j << bits) | i` has the sum `low[i] + high[j]`.
    """

    bits: int
    low: Words
    high: Words
    low_sums: Floats
    high_sums: Floats


@kernel
def all_sums(vectors: Floats, start: Floats) -> Floats:
    """`start` plus the sums of all subsets of `vectors`; row `mask` is that of the subset `mask`."""
    n, dim = vectors.shape
    sums = np.empty((1 << n, dim))
    sums[0] = start
    for j in range(n):
        for mask in range(1 << j):
            for i in range(dim):
                sums[(1 << j) + mask, i] = sums[mask, i] + vectors[j, i]
    return sums


@kernel
def packed(vector: Floats, fields: int, width: int, scale: float) -> np.uint64:
    """The first coordinates of `vector` in whole units, each modulo 2^width and centred, side by side from the top."""
    word = np.uint64(0)
    around = 2.0**width
    for i in range(fields):
        units = np.rint(vector[i] * scale)
        units -= around * np.rint(units / around)
        word += np.uint64(np.int64(units)) << np.uint64(64 - (i + 1) * width)
    return word


@kernel
def packed_sums(vectors: Floats, start: np.uint64, fields: int, width: int, scale: float) -> Words:
    """`start` plus the packed sums of all subsets of `vectors`."""
    sums = np.empty(1 << len(vectors), np.uint64)
    sums[0] = start
    for j in range(len(vectors)):
        word = packed(vectors[j], fields, width, scale)
        for mask in range(1 << j):
            sums[(1 << j) + mask] = sums[mask] + word
    return sums


@kernel
def half_of(vectors: Floats, start: Floats, origin: np.uint64, fields: int, width: int, scale: float) -> Half:
    """The sums of all subsets of `vectors`, from `start`; the packed ones from `origin` as well."""
    bits = (len(vectors) + 1) // 2
    first = origin + packed(start, fields, width, scale)
    return Half(
        bits,
        packed_sums(vectors[:bits], np.uint64(0), fields, width, scale),
        packed_sums(vectors[bits:], first, fields, width, scale),
        all_sums(vectors[:bits], np.zeros(len(start))),
        all_sums(vectors[bits:], start),
    )


@kernel
def prepared(offsets: Floats, base: Floats) -> tuple[Floats, Floats, int]:
    """`offsets` and `base` with the most spread coordinates first, times a power of two that makes them at most 1."""
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
def nearest_single(table: Floats, start: Floats, counted: int) -> tuple[float, int]:
    """The least distance of the forced ones alone (-1) or with one vector, and which."""
    best, at = np.inf, -1
    if counted > 0:
        best = math.sqrt((start**2).sum()) / counted
    for j in range(len(table)):
        distance = math.sqrt(((start + table[j]) ** 2).sum()) / (counted + 1)
        if distance < best:
            best, at = distance, j
    return best, at


@kernel
def expected_length(table: Floats, start: Floats, hits: float) -> float:
    """Within what length `hits` of the subset sums lie, if they were normal; 0 or nan if they fill no volume."""
    n, dim = table.shape
    spread = np.zeros((dim, dim))
    for row in table:
        for i in range(dim):
            for j in range(i + 1):
                spread[i, j] += row[i] * row[j] / 4.0
    mean = start + table.sum(axis=0) / 2.0
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
