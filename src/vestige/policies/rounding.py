"""Notes on rounding, and on records that are all alike.

A word rounds each number relative to the standard deviation of a record (`vestige.channels.layout`), so that all are
rounded alike in standard errors, whatever the data are. Over K updates the errors of each add up to about the root
of K / 3 of one. Numbers that have no scale are marked where they are written; see `vestige.statistics.kernels`.
Guarantee: no answer is silently off by more than a standard error through rounding; held by
tests/policies/test_rounding.py.
"""

from __future__ import annotations

import numpy as np

from vestige.types import Floats

SMALLEST = float(np.finfo(np.float64).tiny)
"""The smallest number with full precision."""
LAST_DIGITS = 2.0**-50
"""What float64 may round off an average as it is moved again and again, as a share of it."""
ALIKE = "records are alike, or they differ by so little that powers of the differences underflow"
"""What a note says where a variance is zero."""
MARGIN = 2.0**24
"""How many times its usual size rounding may have, see `bound_rounding`."""
KNOWN_MARGIN = 2.0**13
"""The same where the scale of all numbers of a word is known beforehand, as that of indicators is."""
DEVIATIONS = 6.0
"""How many times its usual size the sum of rounding errors may have: it is larger once in thirty million times."""
_SHARE = 0.5
"""Rounding matters above this share of a standard error."""
_UNMARKED = 5.0
"""Numbers that are farther off than so many standard errors are marked, but for once in a million times."""
TAILS = 256.0
"""How many times the rounding of normal records a correlation must bear: it costs eight bits of each number."""
_EXACT = 1e-12
"""A correlation that is rounded by less counts as exact: that of columns that are proportional is 1."""


def note_rounding(rounding: float, worth: float) -> tuple[str, ...]:
    """Note where numbers may be off by more than half of their standard error through rounding.

    Args:
        rounding: how far each number may be off, in standard deviations of a record.
        worth: the number of equally weighted records that the numbers rest on.

    Returns:
        one sentence, or none.

    Example:
        >>> note_rounding(1e-9, 200.0)
        ()
    """
    times = rounding * float(np.sqrt(worth))
    if times <= _SHARE:
        return ()
    return (
        f"Rounding may have put numbers off by about {max(1.0, float(f'{times:.1g}')):,.0f} times their standard "
        "errors, which do not include it: so many updates of so few records round too often; use a larger retention.",
    )


def note_digits(means: Floats, deviations: Floats, worth: float) -> tuple[str, ...]:
    """Note where means are so far from zero that float64 itself rounds them by more than half of their standard error.

    Args:
        means: shape (n,).
        deviations: how far records are from them, as a root mean square; shape (n,).
        worth: the number of equally weighted records that they rest on.

    Returns:
        one sentence, or none.

    Example:
        >>> note_digits(np.array([1e13]), np.array([1.0]), 10_000.0)
        ()
        >>> len(note_digits(np.array([1e16]), np.array([1.0]), 10_000.0))
        1
    """
    varied = deviations > 0.0
    times = np.spacing(np.abs(means[varied])) / 2.0 * np.sqrt(worth) / deviations[varied]
    if not (times > _SHARE).any():
        return ()
    return (
        f"Means are so far from zero that float64 rounds them by up to {max(1.0, float(f'{times.max():.1g}')):,.0f} "
        "times their standard errors; subtract a constant from the values beforehand.",
    )


def bound_rounding(rounding: float, worth: float, margin: float = MARGIN) -> float:
    """Find how far rounding may have put a number off, if no note says that it missed.

    The smaller of two bounds. The first: a writing errs by a uniform part of its step, and errors of several are
    independent of each other, so that their sum has the tails of a normal variable: `DEVIATIONS` of them. The step is
    that of a range that is at most 4^9 times the usual one (`vestige.channels.word`), times sqrt(2) for the power of
    two, in scales of the kept records of its batch. As squares, the scales of K batches add up to at most pi K times
    the variance of all records, whatever their order or tails: about half of a batch is kept, a mean absolute deviation
    is at most a standard deviation, and variances in batches add up to no more than that of all. Late batches count
    three times as much in the end as usual ones. That is 2^22.7 in all; the rest is for words that take a neighbour of
    the nearest number, or a long header where bits are few. Where scales are known, distances are too: 4^5 is the
    widest range, and nothing else adds to it.

    The second: misses are marked at random, with the chance (r / h)^2, where h is half of a standard error
    (`vestige.statistics.kernels.find_far_limit`). If all those that could be marked have squares that add up to S h^2,
    none is marked with a chance of exp(-S) at most, and they add up to more than c standard errors with one of
    2 exp(-2 c^2 / (1 + S)), as long as errors are independent: both happen in one of a million streams for c = 5,
    whatever S is.

    Args:
        rounding: how far each number is off by the usual rounding, in standard deviations of a record.
        worth: the number of equally weighted records that the numbers rest on.
        margin: how many times as much it may be: `MARGIN`, or `KNOWN_MARGIN`.

    Returns:
        the distance in standard errors.

    Example:
        >>> bound_rounding(0.001, 1_000_000.0), bound_rounding(0.0, 100.0)
        (5.0, 0.0)
    """
    return min(margin * rounding * float(np.sqrt(worth)), _UNMARKED)


def combine_rounding(worths: Floats, rounding: Floats) -> float:
    """Find how far rounding puts an average off that is combined from those of parts of the records.

    Theorem on several streams in docs/theorems.md, 1: in standard errors it is at most the largest of those of the
    parts, if they are rounded independently of each other.

    Args:
        worths: the number of records of each part; shape (parts,).
        rounding: how far each number is off, in standard deviations of a record of its part; shape (parts,).

    Returns:
        the distance in standard deviations of a record, whichever part that is in.

    Example:
        >>> combine_rounding(np.full(4, 1_000.0), np.full(4, 0.002))
        0.001
    """
    return float((rounding * np.sqrt(worths / worths.sum())).max())


def combine_bounds(bounds: Floats) -> float:
    """Find how far an average is off at most that is combined from those of parts, whatever the signs of the errors.

    Theorem on several streams in docs/theorems.md, 2.

    Args:
        bounds: how far that of each part is off at most, in standard errors of the part; shape (parts,).

    Returns:
        the bound in standard errors of the whole.

    Example:
        >>> combine_bounds(np.array([0.3, 0.4]))
        0.5
    """
    return float(np.sqrt((bounds**2).sum()))


def find_correlation_rounding(correlation: Floats, rounding: float) -> Floats:
    """Find about how far rounding of covariances puts correlations off, for records that are normal together.

    A variance of v then has a deviation of sqrt(2) v, and the covariance of columns with a correlation of r and
    variances of 1 one of sqrt(1 + r^2); each is rounded by itself, and r moves by all of them.

    Args:
        correlation: the matrix; shape (dim, dim).
        rounding: how far each number is off, in standard deviations of a record.

    Returns:
        the distances, zero on the diagonal; shape (dim, dim).

    Example:
        >>> find_correlation_rounding(np.eye(2), 0.001)
        array([[0.   , 0.001],
               [0.001, 0.   ]])
    """
    distances = rounding * np.sqrt(1.0 + 2.0 * correlation**2)
    np.fill_diagonal(distances, 0.0)
    return distances


def note_correlations(correlation: Floats, rounding: float, worth: float, margin: float = 1.0) -> tuple[str, ...]:
    """Note where rounding of covariances may put correlations off by more than half of their standard error.

    The nearer a correlation is to 1, the smaller is its error, while covariances are rounded as always. They may be
    rounded by much more than those of normal records: heavy tails have larger deviations, sorted data take wide ranges.

    Args:
        correlation: the matrix, nan where there is none; shape (dim, dim).
        rounding: how far each number is off, in standard deviations of a record.
        worth: the number of equally weighted records that it rests on.
        margin: how many times as much rounding as that of normal records they must bear.

    Returns:
        one sentence, or none.

    Example:
        >>> note_correlations(np.eye(2), 0.001, 10_000.0)
        ()
    """
    distances = find_correlation_rounding(correlation, rounding)
    errors = (1.0 - np.clip(correlation, -1.0, 1.0) ** 2) / np.sqrt(worth)
    off = (margin * distances > _SHARE * errors) & (distances > _EXACT)
    if not off.any():
        return ()
    return (
        f"Rounding puts correlations off by about {distances[off].max():.1g}, and by more if tails are heavy or data "
        "are sorted: too much beside their standard errors, which are small near 1 and -1; use a larger retention.",
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
    return (f"{where} {ALIKE}: {', and '.join(filter(None, (lost, wrong)))}; use a smaller unit.",)
