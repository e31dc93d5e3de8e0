"""What an answer says where rounding counts: presence bits keep leading digits, and far from zero these are not enough.

A number is kept relative to itself, its standard error is relative to its spread: a mean of 1000 deviations needs three
digits more than one of a single deviation. `clock.rounding` says how far numbers may be off, relative to them.
A mean that drifted was rounded when it was another, but never by more than the spread of all records allows: weighed as
later updates carry it on, by the rounding times that spread over the root of two. In standard errors that is as much as
the variance is off, which is rounded too: where variances are looked at, drift cannot go unsaid.
Guarantee: no answer is silently off by more than a standard error through rounding; held by
tests/policies/test_rounding.py.
"""

from __future__ import annotations

import numpy as np

from vestige.types import Floats

SMALLEST = float(np.finfo(np.float64).tiny)
"""What is smaller, but for zero, does not have all its digits."""
_SHARE = 0.5
"""Rounding counts from this share of a standard error on."""
EXACT = 1e-12
"""So far off, relative to itself, a number is taken for exact, even one that has no standard error at all."""
REMEDY = "use a larger retention, or subtract a constant near the mean from the values first."


def note_rounding(numbers: Floats, errors: Floats, rounding: float) -> tuple[str, ...]:
    """A note where any of these may be off by more than half of its standard error through rounding.

    Args:
        numbers: as they are kept.
        errors: the standard error of each.
        rounding: how far each may be off, relative to it.
    """
    off = rounding * np.abs(numbers)
    counts = off > _SHARE * errors
    if rounding <= EXACT or not counts.any():
        return ()
    with np.errstate(divide="ignore"):
        times = float((off[counts] / errors[counts]).max())
    size = (
        f"{max(1.0, float(f'{times:.1g}')):,.0f} of their standard errors" if times < 1e6 else "far more than those are"
    )
    return (
        f"Rounding may have put numbers off by up to {size}, which do not count it: they are kept to a share of "
        f"{rounding:.1g} of themselves; {REMEDY}",
    )


def note_alike(variances: Floats, lost: str = "") -> tuple[str, ...]:
    """A note where a variance is zero, or too small to be told from it.

    Args:
        variances: of each column.
        lost: what else powers that are too small do not tell, if they are.
    """
    small = variances < SMALLEST
    wrong = "variance and standard error cannot be trusted" if small.any() else ""
    if not (lost or wrong):
        return ()
    where = "All" if len(variances) == 1 else f"In {small.sum():,} of {len(variances):,} columns all"
    return (
        f"{where} records are alike, or they differ by so little that powers of it are smaller than any number of full "
        f"precision: {', and '.join(filter(None, (lost, wrong)))}; use a smaller unit.",
    )


def find_product_errors(products: Floats, first: Floats, second: Floats, worth: float) -> Floats:
    """The standard errors of averages of products about the means, as for normal columns of these two variances."""
    made: Floats = np.sqrt((first * second + products**2) / worth)
    return made
