"""What trials of a game show: lower bounds that hold with a stated confidence, whatever the mechanism is.

A game has two worlds that differ in one record; an adversary guesses in which one he is. His true and false positives
bound from below how far the worlds are apart: Clopper and Pearson (1934) for the two rates, each at half of what may go
wrong; then the definitions of differential privacy (Kairouz, Oh, Viswanath 2015) and of Gaussian differential privacy
(Dong, Roth, Su 2022) turned around.
Guarantee: below the truth in at least the stated share of audits; held by tests/audit/test_bounds.py.
"""

from __future__ import annotations

import math

import numpy as np

from vestige.errors import ParameterError
from vestige.types import Bools, Floats
from vestige.validation import check_float, check_floats, check_int


def rate_bounds(tp: int, fn: int, fp: int, tn: int, confidence: float = 0.95) -> tuple[float, float]:
    """A lower bound of the true-positive rate and an upper bound of the false-positive rate, both at once.

    Args:
        tp: trials of the second world that were called so, and `fn` that were not.
        fn: see `tp`.
        fp: trials of the first world that were called the second, and `tn` that were not.
        tn: see `fp`.
        confidence: how often both bounds hold, at least.
    """
    from scipy.special import betaincinv  # noqa: PLC0415

    for name, count in (("tp", tp), ("fn", fn), ("fp", fp), ("tn", tn)):
        check_int(name, count, 0, _MOST)
    check_float("confidence", confidence, lambda n: 0.0 < n < 1.0, "a number between 0 and 1, such as 0.95")
    if tp + fn == 0 or fp + tn == 0:
        raise ParameterError(f"tp + fn = {tp + fn} and fp + tn = {fp + tn}; each world needs at least one trial")
    wrong = (1.0 - confidence) / 2.0
    lower = 0.0 if tp == 0 else float(betaincinv(tp, fn + 1, wrong))
    upper = 1.0 if tn == 0 else float(betaincinv(fp + 1, tn, 1.0 - wrong))
    return lower, upper


def epsilon_lower_bound(tp: int, fn: int, fp: int, tn: int, *, confidence: float = 0.95, delta: float = 0.0) -> float:
    """No mechanism with a smaller epsilon, at this delta, shows such trials, but with a chance below 1 - confidence.

    >>> round(epsilon_lower_bound(500, 0, 0, 500, confidence=0.99), 7)
    4.5419158
    """
    check_float("delta", delta, lambda n: 0.0 <= n < 1.0, "a number from 0 to below 1, such as 1e-6")
    caught, alarmed = rate_bounds(tp, fn, fp, tn, confidence)
    bounds = [0.0]
    for gained, paid in ((caught - delta, alarmed), (1.0 - alarmed - delta, 1.0 - caught)):
        if gained > paid:
            bounds.append(math.log(gained / paid))
    return max(bounds)


def mu_lower_bound(tp: int, fn: int, fp: int, tn: int, *, confidence: float = 0.95) -> float:
    """The same for the parameter of Gaussian differential privacy: how far two unit normals would be apart.

    Far sharper than epsilon where the mechanism adds Gaussian noise; for others it bounds no less, but says less.
    """
    from scipy.special import ndtri  # noqa: PLC0415

    caught, alarmed = rate_bounds(tp, fn, fp, tn, confidence)
    return max(0.0, float(ndtri(caught) - ndtri(alarmed)))


def total_variation_lower_bound(tp: int, fn: int, fp: int, tn: int, *, confidence: float = 0.95) -> float:
    """The same for the total variation distance: how much better than chance the best guess is, at least."""
    caught, alarmed = rate_bounds(tp, fn, fp, tn, confidence)
    return max(0.0, caught - alarmed)


def ceiling(trials: int, *, confidence: float = 0.95, delta: float = 0.0) -> float:
    """The largest bound on epsilon that so many trials in each world can show: all of them told right.

    >>> round(ceiling(500, confidence=0.99), 7)
    4.5419158
    """
    return epsilon_lower_bound(trials, 0, 0, trials, confidence=confidence, delta=delta)


def area_under_curve(first: Floats, second: Floats) -> float:
    """How often a score of the second world is above one of the first, ties counted half.

    >>> area_under_curve(np.array([0.0, 1.0]), np.array([1.0, 2.0]))
    0.875
    """
    first, second = check_floats("first", first), check_floats("second", second)
    if first.ndim != 1 or second.ndim != 1 or not first.size or not second.size:
        raise ParameterError("first and second are not lists of scores; pass one score for each trial of a world")
    scores = np.concatenate((first, second))
    _, where, counts = np.unique(scores, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2.0)[where]
    above = ranks[len(first) :].sum() - len(second) * (len(second) + 1) / 2.0
    return float(above / (len(first) * len(second)))


def called(scores: Floats, threshold: float) -> Bools:
    """Which trials are called the second world: those with a score of at least `threshold`."""
    return scores >= threshold


def best_threshold(
    first: Floats, second: Floats, *, confidence: float = 0.95, delta: float = 0.0, middle: bool = False
) -> float:
    """The threshold that shows the most on these trials; what it really shows must be asked on others.

    Args:
        first: scores in the first world.
        second: scores in the second world.
        confidence: of the bounds.
        delta: at which epsilon is bounded.
        middle: whether the total variation is to be shown, and with it mu, which is surest where both worlds are
            likely; else epsilon.
    """
    from scipy.special import betaincinv  # noqa: PLC0415

    scores = np.unique(np.concatenate((first, second)))
    places = np.unique(np.linspace(0, len(scores) - 1, min(len(scores), _CANDIDATES)).astype(int))
    candidates = scores[places]
    tp = len(second) - np.searchsorted(np.sort(second), candidates)
    fp = len(first) - np.searchsorted(np.sort(first), candidates)
    wrong = (1.0 - confidence) / 2.0
    caught = np.where(tp == 0, 0.0, betaincinv(np.maximum(tp, 1), len(second) - tp + 1, wrong))
    quiet = np.maximum(len(first) - fp, 1)
    alarmed = np.where(fp == len(first), 1.0, betaincinv(fp + 1, quiet, 1.0 - wrong))
    with np.errstate(divide="ignore", invalid="ignore"):
        if middle:
            shown = caught - alarmed
        else:
            shown = np.fmax(np.log((caught - delta) / alarmed), np.log((1.0 - alarmed - delta) / (1.0 - caught)))
    place = places[np.nanargmax(np.nan_to_num(shown, nan=-np.inf))]
    return float(scores[place] - (scores[place] - scores[place - 1]) / 2.0 if place else scores[0])  # amid the gap


_CANDIDATES = 2_000
_MOST = 10**15  # trials: as many as floats count exactly


def true_positives_at(rate: float, first: Floats, held_out: Floats) -> float:
    """The share of held-out trials of the second world that is caught at about this rate of false positives.

    The threshold is the lowest that lets no more than `rate` of the trials `first` of the first world through.
    """
    ranked = np.sort(first)[::-1]
    allowed = int(rate * len(ranked))
    threshold = np.nextafter(ranked[allowed], np.inf) if allowed < len(ranked) else -np.inf
    return float(called(held_out, threshold).mean())
