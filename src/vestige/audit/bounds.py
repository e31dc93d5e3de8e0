"""Lower bounds on privacy parameters, from the trials of a game; they hold with a stated confidence.

A game has two hypotheses that differ in the value of one record, and an adversary decides which one is true. Their true
and false positive rates bound the privacy parameters from below. Clopper and Pearson (1934) bound the two rates, each
at half of the error probability (https://doi.org/10.1093/biomet/26.4.404); then the definitions of differential privacy
(Kairouz, Oh, Viswanath 2017, https://doi.org/10.1109/TIT.2017.2685505) and of Gaussian differential privacy (Dong,
Roth, Su 2022, https://doi.org/10.1111/rssb.12454) are solved for their parameters.
Guarantee: below the true parameter in at least the stated share of audits; held by tests/audit/test_bounds.py.
"""

from __future__ import annotations

import math
from typing import Literal

import numpy as np

from vestige.errors import ParameterError
from vestige.types import Bools, Floats
from vestige.validation import check_float, check_floats, check_int

_MAX_CANDIDATES = 2_000
_MAX_TRIALS = 10**15  # as many as floats count exactly
Criterion = Literal["epsilon", "total_variation"]
Counts = tuple[int, int, int, int]
"""Numbers of true positives, false negatives, false positives and true negatives."""


def rate_bounds(tp: int, fn: int, fp: int, tn: int, confidence: float = 0.95) -> tuple[float, float]:
    """Bound the true positive rate from below and the false positive rate from above, simultaneously.

    Args:
        tp: number of true positives: trials of the alternative that were decided as such.
        fn: number of false negatives: trials of the alternative that were decided as the null hypothesis.
        fp: number of false positives: trials of the null hypothesis that were decided as the alternative.
        tn: number of true negatives: trials of the null hypothesis that were decided as such.
        confidence: probability that both bounds hold, at least.

    Returns:
        The lower bound of the true positive rate and the upper bound of the false positive rate.

    Raises:
        ParameterError: if a count is negative, a hypothesis has no trial, or `confidence` is not between 0 and 1.

    Example:
        >>> lower, upper = rate_bounds(90, 10, 10, 90)
        >>> round(lower, 3), round(upper, 3)
        (0.824, 0.176)
    """
    from scipy.special import betaincinv  # noqa: PLC0415

    for name, count in (("tp", tp), ("fn", fn), ("fp", fp), ("tn", tn)):
        check_int(name, count, 0, _MAX_TRIALS)
    check_float("confidence", confidence, lambda n: 0.0 < n < 1.0, "a number between 0 and 1, such as 0.95")
    if tp + fn == 0 or fp + tn == 0:
        raise ParameterError(f"tp + fn = {tp + fn} and fp + tn = {fp + tn}; each hypothesis needs at least one trial")
    error = (1.0 - confidence) / 2.0
    lower = 0.0 if tp == 0 else float(betaincinv(tp, fn + 1, error))
    upper = 1.0 if tn == 0 else float(betaincinv(fp + 1, tn, 1.0 - error))
    return lower, upper


def epsilon_lower_bound(tp: int, fn: int, fp: int, tn: int, *, confidence: float = 0.95, delta: float = 0.0) -> float:
    """Bound the epsilon of differential privacy from below.

    Args:
        tp: number of true positives; see `rate_bounds`.
        fn: number of false negatives.
        fp: number of false positives.
        tn: number of true negatives.
        confidence: confidence level of the bound.
        delta: delta at which epsilon is bounded.

    Returns:
        The bound: a mechanism with a smaller epsilon at this delta would show such trials with a probability of at most
        1 - `confidence`.

    Raises:
        ParameterError: if `delta` is not in [0, 1), or `rate_bounds` rejects another argument.

    Example:
        >>> round(epsilon_lower_bound(500, 0, 0, 500, confidence=0.99), 7)
        4.5419158
    """
    check_float("delta", delta, lambda n: 0.0 <= n < 1.0, "a number from 0 to below 1, such as 1e-6")
    tpr, fpr = rate_bounds(tp, fn, fp, tn, confidence)
    bounds = [0.0]
    for numerator, denominator in ((tpr - delta, fpr), (1.0 - fpr - delta, 1.0 - tpr)):
        if numerator > denominator:
            bounds.append(math.log(numerator / denominator))
    return max(bounds)


def mu_lower_bound(tp: int, fn: int, fp: int, tn: int, *, confidence: float = 0.95) -> float:
    """Bound the mu of Gaussian differential privacy from below: the distance of two unit normals.

    For mechanisms that add Gaussian noise it is far sharper than epsilon; for others it is valid, but means less.

    Args:
        tp: number of true positives; see `rate_bounds`.
        fn: number of false negatives.
        fp: number of false positives.
        tn: number of true negatives.
        confidence: confidence level of the bound.

    Returns:
        The bound, at least 0.

    Raises:
        ParameterError: if `rate_bounds` rejects an argument.

    Example:
        >>> round(mu_lower_bound(500, 0, 0, 500), 3)
        4.879
    """
    from scipy.special import ndtri  # noqa: PLC0415

    tpr, fpr = rate_bounds(tp, fn, fp, tn, confidence)
    return max(0.0, float(ndtri(tpr) - ndtri(fpr)))


def total_variation_lower_bound(tp: int, fn: int, fp: int, tn: int, *, confidence: float = 0.95) -> float:
    """Bound the total variation distance of the two hypotheses from below: the advantage over guessing.

    Args:
        tp: number of true positives; see `rate_bounds`.
        fn: number of false negatives.
        fp: number of false positives.
        tn: number of true negatives.
        confidence: confidence level of the bound.

    Returns:
        The bound, from 0 to 1.

    Raises:
        ParameterError: if `rate_bounds` rejects an argument.

    Example:
        >>> round(total_variation_lower_bound(500, 0, 0, 500), 3)
        0.985
    """
    tpr, fpr = rate_bounds(tp, fn, fp, tn, confidence)
    return max(0.0, tpr - fpr)


def epsilon_ceiling(trials: int, *, confidence: float = 0.95, delta: float = 0.0) -> float:
    """Compute the largest lower bound of epsilon that a number of trials can show: every decision is right.

    Args:
        trials: number of trials of each hypothesis.
        confidence: confidence level of the bound.
        delta: delta at which epsilon is bounded.

    Returns:
        The largest possible value of `epsilon_lower_bound`.

    Raises:
        ParameterError: if `trials` is not positive, or `confidence` or `delta` is out of range.

    Example:
        >>> round(epsilon_ceiling(500, confidence=0.99), 7)
        4.5419158
    """
    return epsilon_lower_bound(trials, 0, 0, trials, confidence=confidence, delta=delta)


def area_under_curve(null: Floats, alternative: Floats) -> float:
    """Compute the area under the ROC curve: how often a score of the alternative exceeds one of the null hypothesis.

    Args:
        null: scores of the trials of the null hypothesis; shape (trials,).
        alternative: scores of the trials of the alternative; shape (trials,).

    Returns:
        The share of pairs in which the alternative has the higher score; ties count half.

    Raises:
        ParameterError: if either argument is not a one-dimensional array of at least one number.

    Example:
        >>> area_under_curve(np.array([0.0, 1.0]), np.array([1.0, 2.0]))
        0.875
    """
    null, alternative = check_floats("null", null), check_floats("alternative", alternative)
    if null.ndim != 1 or alternative.ndim != 1 or not null.size or not alternative.size:
        raise ParameterError("null and alternative must be lists of scores; pass one score for each trial")
    scores = np.concatenate((null, alternative))
    _, where, counts = np.unique(scores, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2.0)[where]
    above = ranks[len(null) :].sum() - len(alternative) * (len(alternative) + 1) / 2.0
    return float(above / (len(null) * len(alternative)))


def classify(scores: Floats, threshold: float) -> Bools:
    """Decide for the alternative wherever a score reaches the threshold.

    Args:
        scores: score of each trial; shape (trials,).
        threshold: smallest score of the alternative.

    Returns:
        Whether each trial is decided as the alternative; shape (trials,).

    Example:
        >>> classify(np.array([0.0, 2.0]), 1.0)
        array([False,  True])
    """
    return scores >= threshold


def find_threshold(
    null: Floats,
    alternative: Floats,
    *,
    confidence: float = 0.95,
    delta: float = 0.0,
    criterion: Criterion = "epsilon",
) -> float:
    """Find the threshold that gives the largest bound on these trials.

    The bound on the same trials is biased; it must be computed on others.

    Args:
        null: scores of the trials of the null hypothesis; shape (trials,).
        alternative: scores of the trials of the alternative; shape (trials,).
        confidence: confidence level of the bound.
        delta: delta at which epsilon is bounded.
        criterion: bound to maximise. The threshold for `total_variation` serves mu too, whose bound is sharpest where
            both decisions are frequent.

    Returns:
        The threshold, halfway between two scores.

    Example:
        >>> find_threshold(np.zeros(100), np.ones(100))
        0.5
    """
    from scipy.special import betaincinv  # noqa: PLC0415

    scores = np.unique(np.concatenate((null, alternative)))
    places = np.unique(np.linspace(0, len(scores) - 1, min(len(scores), _MAX_CANDIDATES)).astype(int))
    candidates = scores[places]
    tp = len(alternative) - np.searchsorted(np.sort(alternative), candidates)
    fp = len(null) - np.searchsorted(np.sort(null), candidates)
    error = (1.0 - confidence) / 2.0
    tpr = np.where(tp == 0, 0.0, betaincinv(np.maximum(tp, 1), len(alternative) - tp + 1, error))
    fpr = np.where(fp == len(null), 1.0, betaincinv(fp + 1, np.maximum(len(null) - fp, 1), 1.0 - error))
    with np.errstate(divide="ignore", invalid="ignore"):
        if criterion == "total_variation":
            bounds = tpr - fpr
        else:
            bounds = np.fmax(np.log((tpr - delta) / fpr), np.log((1.0 - fpr - delta) / (1.0 - tpr)))
    place = places[np.nanargmax(np.nan_to_num(bounds, nan=-np.inf))]
    return float(scores[place] - (scores[place] - scores[place - 1]) / 2.0 if place else scores[0])


def true_positive_rate_at(false_positive_rate: float, null: Floats, alternative: Floats) -> float:
    """Compute the true positive rate at a given false positive rate.

    Args:
        false_positive_rate: share of the trials of the null hypothesis that may be decided as the alternative.
        null: scores that the threshold is chosen on: the lowest one that keeps to that share; shape (trials,).
        alternative: scores of the alternative, from other trials; shape (trials,).

    Returns:
        The share of `alternative` at or above the threshold.

    Example:
        >>> true_positive_rate_at(0.01, np.arange(100.0), np.array([50.0, 98.5, 99.5]))
        0.6666666666666666
    """
    ranked = np.sort(null)[::-1]
    allowed = int(false_positive_rate * len(ranked))
    threshold = np.nextafter(ranked[allowed], np.inf) if allowed < len(ranked) else -np.inf
    return float(classify(alternative, threshold).mean())
