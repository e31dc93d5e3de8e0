"""Kernels of running averages: how a batch moves them, how near they must be written, and how weights decay.

Guarantee: the steps compose to numpy's weighted averages; held by tests/test_statistics.py.
"""

from __future__ import annotations

import math

import numpy as np

from vestige._numba import kernel
from vestige.types import Bools, Floats

_EPSILON = float(np.finfo(np.float64).eps)
_EXACT = 1e-12
"""If values are equal up to this share of themselves, an average that is as near counts as exact."""
_SMALLEST = 1e-250
"""Squares above it lose no digits."""
_HALF = 0.5
"""An error above this share of a standard error is worth a note."""


@kernel
def find_weights(present: Bools, decay: float) -> Floats:
    """Find the weight of each record that is present: 1 for the newest, times `decay` for each record that follows."""
    weights = np.zeros(len(present))
    weight = 1.0
    for i in range(len(present) - 1, -1, -1):
        if present[i]:
            weights[i] = weight
            weight *= decay
    return weights


@kernel
def find_share(n: int, counted: int, decay: float) -> float:
    """Find the share of the newest n records in the weight of all `counted`: n / counted if nothing decays."""
    if decay == 1.0:
        return n / counted
    return math.expm1(n * math.log(decay)) / math.expm1(counted * math.log(decay))


@kernel
def find_worth(counted: int, decay: float) -> float:
    """Find the number of equally weighted records with the same variance: (sum of weights)^2 / sum of squares."""
    if decay == 1.0:
        return float(counted)
    rate = math.log(decay)
    total = math.expm1(counted * rate) / math.expm1(rate)
    squares = math.expm1(2 * counted * rate) / math.expm1(2 * rate)
    return total * total / squares


@kernel
def add_exactly(number: float, more: float) -> tuple[float, float]:
    """Add two floats without rounding: the nearest float to their sum, and what is left (Knuth's TwoSum)."""
    total = number + more
    part = total - number
    return total, (number - (total - part)) + (more - part)


@kernel
def move_averages(
    estimate: Floats,
    rest: Floats,
    atoms: Floats,
    present: Bools,
    weights: Floats,
    share: float,
    target: Floats,
    low: Floats,
    spread: Floats,
) -> None:
    """Write into `target` and `low` the averages after these atoms, and into `spread` their mean absolute deviations.

    Each average is the sum of two floats, `estimate` and `rest`, `target` and `low`, since one of them does not hold it
    finely enough where records vary by little beside it.

    `share` is what the atoms count among all so far; at 1 there is no estimate before them. Sums run over differences
    from the estimate, so that a common offset costs no digits. The mean absolute deviation is at most the standard
    deviation, and nothing has to be squared, so that no values overflow.
    """
    n, size = atoms.shape
    for i in range(size):
        pivot, apart, total, count = estimate[i], rest[i], 0.0, 0.0
        for j in range(n):
            if present[j]:
                if count == 0.0 and share >= 1.0:
                    pivot, apart = atoms[j, i], 0.0
                total += weights[j] * (atoms[j, i] - pivot)
                count += weights[j]
        center, deviations = total / count, 0.0
        target[i], low[i] = add_exactly(pivot, apart + min(share, 1.0) * (center - apart))
        for j in range(n):
            if present[j]:
                deviations += weights[j] * abs((atoms[j, i] - pivot) - center)
        spread[i] = deviations / count


@kernel
def find_deviation(center: float, atoms: Floats, present: Bools, weights: Floats) -> float:
    """Find the root mean square distance of the atoms that are present from `center`; no square overflows."""
    total, count, largest = 0.0, 0.0, 0.0
    for j in range(len(atoms)):
        if present[j]:
            distance = atoms[j] - center
            total += weights[j] * (distance * distance)
            count += weights[j]
    if _SMALLEST < total / count < np.inf:
        return math.sqrt(total / count)
    for j in range(len(atoms)):  # squares overflow, or vanish
        if present[j]:
            largest = max(largest, abs(atoms[j] - center))
    if largest == 0.0:
        return 0.0
    total = 0.0
    for j in range(len(atoms)):
        if present[j]:
            distance = (atoms[j] - center) / largest
            total += weights[j] * (distance * distance)
    return largest * math.sqrt(total / count)


@kernel
def find_spread(usual: float, about: float, share: float) -> float:
    """Find the deviation of all records from that of those before a batch, and that of the batch itself.

    The records that were kept before stand for all of their time. So one batch that is unlike the others counts as
    much as it has records: it must not excuse a miss that is as wide as itself.

    Args:
        usual: the root mean square distance of the kept records from the number before.
        about: that of the batch from the number after it.
        share: what the batch counts among all records so far.

    Returns:
        The deviation.
    """
    largest = max(usual, about)
    if share >= 1.0 or not 0.0 < largest < np.inf:
        return about
    old, new = usual / largest, about / largest
    return largest * math.sqrt((1.0 - share) * (old * old) + share * (new * new))


@kernel
def find_tolerance(allowed: float, spread: float, n: int, share: float, size: float) -> float:
    """Find how far from its target an encoded average may be: the share `allowed` of its standard error.

    `size` is how large the number is of which float64 rounds off the last digits; 0 if it is the sum of two floats.

    One residual of size r at batch k of K moves the end by r * k / K. With residuals of up to this share of
    deviation / (sqrt(batch) * k), independent and of either sign, the end moves by that share of a standard error.
    """
    return max(allowed * spread / math.sqrt(n) * share, 2.0 * _EPSILON * max(abs(size), spread))


@kernel
def find_far_limit(spread: float, n: int, share: float, size: float, coin: float) -> float:
    """Find how far from its target an encoded average may be before the kept records have to mark it, from then on.

    What is kept has room for one word, so that misses cannot be summed. With h half of the standard error by now,
    deviation / sqrt(batch * k) at batch k, a miss r is marked with probability (r / h)^2: always if it is as large as
    h on its own, and very likely once the squares of many add up to h^2. Misses of up to h / sqrt(k) are never marked:
    if all were as large, independent and of either sign, they would add up to half of a standard error in the end.

    Args:
        spread: the deviation of all records so far about the target; see `find_spread`.
        n: the number of its records.
        share: their share in all records so far; 1 / k at batch k if nothing decays.
        size: how large the number is of which float64 rounds off the last digits; 0 if it is the sum of two floats.
        coin: uniform in [0, 1), independent of how far the average is off.

    Returns:
        The distance from which on the miss is marked.
    """
    least = _EXACT if spread <= _EXACT * abs(size) else 2.0 * _EPSILON
    return max(_HALF * spread / math.sqrt(n) * math.sqrt(share * max(share, coin)), least * abs(size))


@kernel
def find_clip_factor(atom: Floats, bound: float) -> float:
    """Find the factor that shortens `atom` to length `bound` if it is longer; no square overflows."""
    largest = 0.0
    for number in atom:
        largest = max(largest, abs(number))
    if largest == 0.0:
        return 1.0
    total = 0.0
    for number in atom:
        total += (number / largest) * (number / largest)
    return min(1.0, bound / largest / math.sqrt(total))


@kernel
def clip(atoms: Floats, bound: float) -> Floats:
    """Shorten atoms to length `bound` where they are longer; shape (n, size)."""
    n, size = atoms.shape
    shorter = np.empty((n, size))
    for j in range(n):
        factor = find_clip_factor(atoms[j], bound)
        for i in range(size):
            shorter[j, i] = atoms[j, i] * factor
    return shorter
