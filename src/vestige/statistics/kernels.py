"""How one batch moves running averages, and how near they must be written."""

from __future__ import annotations

import math

import numpy as np

from vestige.compiling import kernel
from vestige.records import Bools, Floats

# One residual of size r at batch k of K moves the end by r * k / K. With residuals of up to this share of
# deviation / (sqrt(batch) * k), independent and of either sign, the end moves by that share of a standard error.
_RESIDUAL_SHARE = 0.03
_EPSILON = float(np.finfo(np.float64).eps)


@kernel
def move(estimate: Floats, atoms: Floats, present: Bools, weight: float, target: Floats, spread: Floats) -> None:
    """Write into `target` the averages after these atoms, and into `spread` their mean absolute deviations.

    `weight` is the share of the atoms in all so far; at 1 there is no estimate before them. Sums run over differences
    from the estimate, so that a common offset costs no digits. The mean absolute deviation is at most the standard
    deviation, and nothing has to be squared, so that no values overflow.
    """
    n, size = atoms.shape
    for i in range(size):
        pivot, total, count = estimate[i], 0.0, 0
        for j in range(n):
            if present[j]:
                if count == 0 and weight >= 1.0:
                    pivot = atoms[j, i]
                total += atoms[j, i] - pivot
                count += 1
        shift = total / count
        target[i] = pivot + min(weight, 1.0) * shift
        center, deviations = pivot + shift, 0.0
        for j in range(n):
            if present[j]:
                deviations += abs(atoms[j, i] - center)
        spread[i] = deviations / count


@kernel
def tolerance(spread: float, n: int, batches: float, target: float) -> float:
    """How far from `target` an encoded average may be without harm: a small share of its standard error."""
    return max(_RESIDUAL_SHARE * spread / (math.sqrt(n) * batches), 2.0 * _EPSILON * abs(target))
