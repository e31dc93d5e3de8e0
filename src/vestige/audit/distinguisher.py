"""How the adversary distinguishes the two hypotheses: a linear score of their observations, fitted on separate trials.

Two features are tried, and the one that does better on those trials is used: the answer of the policy, and the pattern
of which rounds are present. The bounds are valid for every score; a better one could only show more.
Guarantee: finds a leak in either feature; held by tests/audit/test_leakage.py.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vestige.audit.bounds import Criterion, classify, find_threshold, mu_lower_bound
from vestige.audit.game import Observations
from vestige.types import Bools, Floats

FEATURES = ("answer", "presence")


@dataclass(frozen=True, slots=True, eq=False)
class Distinguisher:
    """A score of the observations at one checkpoint, and the thresholds from which on it decides for the alternative.

    Attributes:
        checkpoint: index of the checkpoint.
        feature: `answer` or `presence`.
        fill: what replaces an answer that is missing.
        weights: weight of each number of the answer, or log-likelihood ratio of each round's presence.
        epsilon_threshold: threshold that maximises the bound of epsilon.
        distance_threshold: threshold that maximises the bounds of mu and of the total variation distance.
    """

    checkpoint: int
    feature: str
    fill: Floats
    weights: Floats
    epsilon_threshold: float
    distance_threshold: float

    def score(self, observations: Observations) -> Floats:
        """Score each trial: the higher, the more likely the alternative.

        Args:
            observations: what the adversary observes.

        Returns:
            The scores; shape (trials,).
        """
        scores: Floats = _extract(observations, self.checkpoint, self.feature, self.fill) @ self.weights
        return scores

    def decide(self, observations: Observations, criterion: Criterion) -> Bools:
        """Decide for each trial whether the alternative is true.

        Args:
            observations: what the adversary observes.
            criterion: bound that the decisions are for.

        Returns:
            Whether each trial is decided as the alternative; shape (trials,).
        """
        threshold = self.epsilon_threshold if criterion == "epsilon" else self.distance_threshold
        return classify(self.score(observations), threshold)


def train_distinguisher(
    null: Observations, alternative: Observations, checkpoint: int, confidence: float, delta: float
) -> Distinguisher:
    """Fit a distinguisher on trials of both hypotheses.

    Args:
        null: trials of the null hypothesis.
        alternative: trials of the alternative. One half of each is used to fit scores, the other to choose among them.
        checkpoint: index of the checkpoint.
        confidence: confidence level of the bounds.
        delta: delta at which epsilon is bounded.

    Returns:
        The distinguisher with the feature that gives the larger bound of mu.
    """
    fitting, validation = ([trials.select(slice(k, None, 2)) for trials in (null, alternative)] for k in range(2))
    candidates = [_fit(fitting, validation, checkpoint, feature, confidence, delta) for feature in FEATURES]

    def bound_mu(candidate: Distinguisher) -> float:
        fp, tp = (int(candidate.decide(trials, "total_variation").sum()) for trials in validation)
        return mu_lower_bound(tp, len(validation[1]) - tp, fp, len(validation[0]) - fp, confidence=confidence)

    return max(candidates, key=bound_mu)


def _fit(
    fitting: list[Observations],
    validation: list[Observations],
    checkpoint: int,
    feature: str,
    confidence: float,
    delta: float,
) -> Distinguisher:
    """Fit weights on some trials, and choose thresholds on others."""
    answers = np.concatenate([trials.answers[:, checkpoint] for trials in fitting])
    given = ~np.isnan(answers)
    fill = np.where(given, answers, 0.0).sum(axis=0) / np.maximum(given.sum(axis=0), 1)
    features = [_extract(trials, checkpoint, feature, fill) for trials in fitting]
    weights = _fit_answers(*features) if feature == "answer" else _fit_presence(*features)
    untuned = Distinguisher(checkpoint, feature, fill, weights, 0.0, 0.0)
    scores = [untuned.score(trials) for trials in validation]
    criteria: tuple[Criterion, ...] = ("epsilon", "total_variation")
    thresholds = (find_threshold(*scores, confidence=confidence, delta=delta, criterion=one) for one in criteria)
    return Distinguisher(checkpoint, feature, fill, weights, *thresholds)


def _extract(observations: Observations, checkpoint: int, feature: str, fill: Floats) -> Floats:
    """Return the feature of each trial; shape (trials, numbers)."""
    if feature == "presence":
        return np.unpackbits(observations.present[:, checkpoint], axis=1).astype(np.float64)
    answers = observations.answers[:, checkpoint]
    return np.where(np.isnan(answers), fill, answers)


def _fit_answers(null: Floats, alternative: Floats) -> Floats:
    """Compute Fisher's discriminant of the answers, with a diagonal covariance."""
    spread = np.sqrt((null.var(axis=0) + alternative.var(axis=0)) / 2.0)
    size = np.maximum(np.abs(null).max(axis=0), np.abs(alternative).max(axis=0))
    spread = np.maximum(spread, np.finfo(np.float64).eps * size + 1e-150)
    weights: Floats = (alternative.mean(axis=0) - null.mean(axis=0)) / spread**2
    largest = np.abs(weights).max()
    return weights / largest if largest > 0.0 and np.isfinite(largest) else np.ones_like(weights)


def _fit_presence(null: Floats, alternative: Floats) -> Floats:
    """Compute the log-likelihood ratio of each round's presence, as if rounds were independent (naive Bayes)."""
    rates = [(present.sum(axis=0) + 0.5) / (len(present) + 1.0) for present in (null, alternative)]
    weights: Floats = np.log(rates[1] / rates[0]) - np.log((1.0 - rates[1]) / (1.0 - rates[0]))
    return weights
