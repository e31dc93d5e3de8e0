"""How the adversary distinguishes the two hypotheses: by the attack that does best on the trials that train it.

Training is cross-fitted: each half of the training trials fits a score, and the other half is scored by it, so
thresholds and the choice of the attack rest on trials that the score has not seen; the average of both scores then
decides. The trials that count are others, so the bounds are valid for every score; a better one could only show more.
Guarantee: bounds are wrong as seldom as they say, learned attacks included; held by tests/audit/test_validity.py.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vestige.audit.attacks import Attack, Looks, Score, list_attacks
from vestige.audit.bounds import Counts, Criterion, classify, epsilon_lower_bound, find_threshold, mu_lower_bound
from vestige.audit.game import Observations
from vestige.audit.trade_off import choose_thresholds
from vestige.types import Floats

Pair = tuple[Observations, Observations]
"""Trials of the null hypothesis, and of the alternative."""


@dataclass(frozen=True, slots=True, eq=False)
class Distinguisher:
    """A score of the observations, and the threshold from which on it decides for the alternative.

    Attributes:
        attack: name of the attack.
        parts: scores that are averaged.
        threshold: threshold that gives the largest bound on the training trials.
        thresholds: thresholds for the trade-off between the two errors; shape (thresholds,).
        null: scores of the training trials of the null hypothesis, by the half that had not seen them; shape (trials,).
        bound: bound on the training trials, which says which attack does best and nothing else.
    """

    attack: str
    parts: tuple[Score, ...]
    threshold: float
    thresholds: Floats
    null: Floats
    bound: float

    def score(self, observations: Observations) -> Floats:
        """Score each trial: the higher, the more likely the alternative.

        Args:
            observations: what the adversary observes.

        Returns:
            The scores; shape (trials,).
        """
        scores: Floats = np.mean([part(observations) for part in self.parts], axis=0)
        return scores

    def count(self, trials: Pair) -> Counts:
        """Count right and wrong decisions.

        Args:
            trials: trials of the null hypothesis, and of the alternative.

        Returns:
            True positives, false negatives, false positives and true negatives.
        """
        return count_decisions(self.score(trials[0]), self.score(trials[1]), self.threshold)


def count_decisions(null: Floats, alternative: Floats, threshold: float) -> Counts:
    """Count right and wrong decisions.

    Args:
        null: scores of the trials of the null hypothesis; shape (trials,).
        alternative: scores of the trials of the alternative; shape (trials,).
        threshold: smallest score that is decided as the alternative.

    Returns:
        True positives, false negatives, false positives and true negatives.

    Example:
        >>> count_decisions(np.array([0.0, 2.0]), np.array([2.0, 3.0]), 1.0)
        (2, 0, 1, 1)
    """
    fp, tp = (int(classify(scores, threshold).sum()) for scores in (null, alternative))
    return tp, len(alternative) - tp, fp, len(null) - fp


def train_distinguishers(
    trials: Pair, looks: Looks, confidence: float, delta: float
) -> tuple[Distinguisher, Distinguisher]:
    """Train a distinguisher for each of two bounds.

    Args:
        trials: trials of the null hypothesis, and of the alternative.
        looks: looks that are taken together.
        confidence: confidence level of the bounds.
        delta: delta at which epsilon is bounded.

    Returns:
        The distinguisher that gives the largest bound of epsilon, and the one that gives the largest bound of mu.
    """
    fits = [_cross_fit(name, attack, trials, looks) for name, attack in list_attacks(trials[0], looks).items()]

    def choose(criterion: Criterion) -> Distinguisher:
        candidates = [_find_threshold(*fit, criterion, confidence, delta) for fit in fits]
        return max(candidates, key=lambda candidate: candidate.bound)

    return choose("epsilon"), choose("total_variation")


def _cross_fit(
    name: str, attack: Attack, trials: Pair, looks: Looks
) -> tuple[str, tuple[Score, Score], tuple[Floats, Floats]]:
    """Fit a score on each half of the trials, and let it score the other half."""
    halves = [(trials[0].select(slice(k, None, 2)), trials[1].select(slice(k, None, 2))) for k in range(2)]
    parts = attack(*halves[0], looks), attack(*halves[1], looks)
    null, alternative = (
        np.concatenate([parts[1 - k](halves[k][hypothesis]) for k in range(2)]) for hypothesis in range(2)
    )
    return name, parts, (null, alternative)


def _find_threshold(
    name: str,
    parts: tuple[Score, Score],
    scores: tuple[Floats, Floats],
    criterion: Criterion,
    confidence: float,
    delta: float,
) -> Distinguisher:
    threshold = find_threshold(*scores, confidence=confidence, delta=delta, criterion=criterion)
    counts = count_decisions(*scores, threshold)
    if criterion == "epsilon":
        bound = epsilon_lower_bound(*counts, confidence=confidence, delta=delta)
    else:
        bound = mu_lower_bound(*counts, confidence=confidence)
    return Distinguisher(name, parts, threshold, choose_thresholds(*scores), scores[0], bound)
