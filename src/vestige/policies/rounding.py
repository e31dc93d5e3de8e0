"""Notes on rounding: presence bits keep leading digits, which are not enough for a mean far from zero.

A number is rounded relative to itself, but its standard error is relative to its spread: a mean of 1,000 standard
deviations needs three digits more than a mean of one. `clock.rounding` says how far numbers may be off, relative to
themselves. A mean that drifted was rounded when it had another value, but never by more than the spread of all records
allows: weighted as later updates carry it on, by the rounding times that spread over the root of two. In standard
errors, the variance is off by as much, and it is rounded too: where variances are checked, drift cannot go unnoticed.
Guarantee: no answer is silently off by more than a standard error through rounding; held by
tests/policies/test_rounding.py.
"""

from __future__ import annotations

import numpy as np

from vestige.types import Floats

SMALLEST = float(np.finfo(np.float64).tiny)
"""The smallest number with full precision."""
_SHARE = 0.5
"""Rounding matters above this share of a standard error."""
_EXACT = 1e-12
"""A number that records vary about, and that is rounded, by less than this share of itself counts as exact."""
REMEDY = "use a larger retention, or subtract a constant near the mean from the values first."


def note_rounding(numbers: Floats, errors: Floats, rounding: float, worth: float) -> tuple[str, ...]:
    """Note where a number may be off by more than half of its standard error through rounding.

    Args:
        numbers: the encoded numbers; shape (n,).
        errors: the standard error of each; shape (n,).
        rounding: how far each number may be off, relative to itself.
        worth: the number of equally weighted records that the numbers rest on.

    Returns:
        one sentence, or none.

    Example:
        >>> note_rounding(np.array([1e6]), np.array([1.0]), 1e-9, 200.0)
        ()
    """
    off = rounding * np.abs(numbers)
    counts = off > _SHARE * errors
    if rounding <= _EXACT:
        counts &= errors * np.sqrt(worth) > _EXACT * np.abs(numbers)
    if not counts.any():
        return ()
    with np.errstate(divide="ignore"):
        times = float((off[counts] / errors[counts]).max())
    size = "far more than their standard errors"
    if times < 1e6:
        size = f"up to {max(1.0, float(f'{times:.1g}')):,.0f} times their standard errors"
    return (
        f"Rounding may have put numbers off by {size}: each is stored with a relative error of {rounding:.1g}, "
        f"which standard errors do not include; {REMEDY}",
    )


def note_alike(variances: Floats, lost: str = "") -> tuple[str, ...]:
    """Note where a variance is zero, or too small to be distinguished from zero.

    Args:
        variances: the variance of each column; shape (columns,).
        lost: what else has no value because powers are too small; empty if nothing.

    Returns:
        one sentence, or none.

    Example:
        >>> note_alike(np.array([1.0]))
        ()
    """
    small = variances < SMALLEST
    wrong = "variance and standard error cannot be trusted" if small.any() else ""
    if not (lost or wrong):
        return ()
    where = "All" if len(variances) == 1 else f"In {small.sum():,} of {len(variances):,} columns all"
    return (
        f"{where} records are alike, or they differ by so little that powers of the differences underflow: "
        f"{', and '.join(filter(None, (lost, wrong)))}; use a smaller unit.",
    )


def find_product_errors(products: Floats, first: Floats, second: Floats, worth: float) -> Floats:
    """Find the standard errors of averages of products about the means, as for normal columns.

    Args:
        products: the averages; shape (n,).
        first: the variance of the first column of each; shape (n,).
        second: the variance of the second column of each; shape (n,).
        worth: the number of equally weighted records.

    Returns:
        the standard errors; shape (n,).

    Example:
        >>> find_product_errors(np.array([1.0]), np.array([1.0]), np.array([1.0]), 200.0)
        array([0.1])
    """
    errors: Floats = np.sqrt((first * second + products**2) / worth)
    return errors
