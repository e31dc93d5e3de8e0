"""Curvature and centres in a few bits: logarithms, partial correlations, and what kept records need not be told.

A matrix of curvature is taken apart into logarithms of its diagonal and partial correlations, each given those before
it. These are free to take any values, so that nothing that is rounded needs repair (Joe 2006,
https://doi.org/10.1016/j.jmva.2005.05.010). Numbers are rounded up or down by chance, so that they are right on average
and little changes while they hardly change.
Guarantee: what is taken apart is put together again; held by tests/test_coarse.py.
"""

from __future__ import annotations

import numpy as np

from vestige.types import Bools, Floats

LEAST_LOG, LOG_RANGE = -256.0, 512.0
"""Logarithms to base two that can be written."""
CENTRE_BITS = 12
"""The bits of a centre besides the first one."""
_POWER_BITS, _LEAST_POWER, _RESIDUE_BITS = 8, -128, 4
_SURE = 0.45
_SMALLEST = 1e-300
_LEAST_CORRELATION = 1e-12


def find_logs(squares: Floats) -> Floats:
    """Logarithms to base two, of what is zero the least that is written."""
    logs: Floats = np.maximum(np.log2(np.maximum(squares, _SMALLEST)), LEAST_LOG)
    return logs


def decompose(bend: Floats) -> tuple[Floats, Floats]:
    """Logarithms of the diagonal, and Fisher's transformation of each partial correlation given those before it."""
    count, sizes = len(bend), np.abs(bend.diagonal())
    lengths = np.sqrt(np.maximum(sizes, _SMALLEST))
    scaled = bend / np.outer(lengths, lengths)
    if not np.isfinite(scaled).all():
        return np.full(count, np.nan), np.full(count * (count - 1) // 2, np.nan)
    np.fill_diagonal(scaled, 1.0)
    try:
        root = np.linalg.cholesky(scaled)
    except np.linalg.LinAlgError:
        values, axes = np.linalg.eigh(scaled)
        made = (axes * np.maximum(np.abs(values), _LEAST_CORRELATION)) @ axes.T
        diagonal = np.sqrt(made.diagonal())
        root = np.linalg.cholesky(made / np.outer(diagonal, diagonal))
    left, columns = np.ones(count), []
    for j in range(count - 1):
        rest = np.sqrt(np.maximum(left[j + 1 :], _SMALLEST))
        columns.append(np.arctanh(np.clip(root[j + 1 :, j] / rest, -1.0 + 1e-15, 1.0 - 1e-15)))
        left[j + 1 :] -= root[j + 1 :, j] ** 2
    return find_logs(sizes), np.concatenate([np.zeros(0), *columns])


def compose(sizes: Floats, partials: Floats) -> Floats:
    """The matrix that `decompose` takes apart."""
    count = len(sizes)
    root, left, at = np.zeros((count, count)), np.ones(count), 0
    for j in range(count):
        root[j, j] = np.sqrt(left[j])
        part = np.tanh(partials[at : at + count - j - 1])
        at += count - j - 1
        root[j + 1 :, j] = part * np.sqrt(left[j + 1 :])
        left[j + 1 :] *= 1.0 - part**2
    lengths = np.exp2(sizes / 2.0)
    made: Floats = (root @ root.T) * np.outer(lengths, lengths)
    return made


def round_by_chance(places: Floats, bits: int, rng: np.random.Generator) -> Floats:
    """Whole numbers of so many bits, up or down by chance, so that they are right on average."""
    rounded: Floats = np.clip(np.floor(places + rng.random(len(places))), 0.0, 2.0**bits - 1.0)
    return rounded


def to_bits(codes: Floats, bits: int) -> Bools:
    """Whole numbers, the highest bit of each first."""
    shifts = np.arange(bits - 1, -1, -1, dtype=np.int64)
    return ((codes.astype(np.int64)[:, None] >> shifts) & 1).astype(np.bool_).ravel()


def from_bits(message: Bools, at: int, count: int, bits: int) -> Floats:
    """What `to_bits` gives for so many numbers."""
    powers = 2.0 ** np.arange(bits - 1, -1, -1)
    read: Floats = message[at : at + count * bits].reshape(count, bits) @ powers
    return read


def choose_centre(middle: float, spread: float) -> float:
    """An odd number of steps near the middle of records; the step is about their spread, a power of two.

    If they are all alike, it is their value.
    """
    if spread == 0.0 and middle:
        return middle if _find_power(middle) >= _LEAST_POWER else 0.0
    if not (np.isfinite(middle) and 0.0 < spread < np.inf):
        return 0.0
    power = max(int(np.round(np.log2(spread))), int(np.log2(max(abs(middle), _SMALLEST))) - 50)
    if not _LEAST_POWER <= power < _LEAST_POWER + (1 << _POWER_BITS):
        return 0.0
    step = 2.0**power
    return float((2.0 * np.floor(middle / step / 2.0) + 1.0) * step)


def _find_power(number: float) -> int:
    """The power of two of which a number is an odd multiple."""
    numerator, denominator = float(number).as_integer_ratio()
    return (numerator & -numerator).bit_length() - denominator.bit_length()


def pack_centre(centre: float) -> Bools:
    """One bit if it is zero; else the power of its step, and its number of steps modulo 32."""
    if centre == 0.0:
        return np.zeros(1, np.bool_)
    power = _find_power(centre)
    half = (int(centre / 2.0**power) - 1) // 2
    codes = to_bits(np.array([float(power - _LEAST_POWER)]), _POWER_BITS)
    residue = to_bits(np.array([float(half % (1 << _RESIDUE_BITS))]), _RESIDUE_BITS)
    return np.concatenate([np.ones(1, np.bool_), codes, residue])


def unpack_centre(message: Bools, at: int, values: Floats) -> tuple[float, int]:
    """The centre of a column, the one that is nearest to the median of the kept records; and where its bits end.

    It is nan if the median lies between two centres.
    """
    if not message[at]:
        return 0.0, at + 1
    step = 2.0 ** (from_bits(message, at + 1, 1, _POWER_BITS)[0] + _LEAST_POWER)
    residue = from_bits(message, at + 1 + _POWER_BITS, 1, _RESIDUE_BITS)[0]
    end, modulus = at + 1 + _POWER_BITS + _RESIDUE_BITS, float(1 << _RESIDUE_BITS)
    middle = float(np.partition(values, (len(values) - 1) // 2)[(len(values) - 1) // 2])
    turns = ((middle / step - 1.0) / 2.0 - residue) / modulus
    nearest = np.rint(turns)
    if not abs(turns - nearest) <= _SURE:
        return np.nan, end
    return (2.0 * (residue + nearest * modulus) + 1.0) * step, end
