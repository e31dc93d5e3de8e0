"""What the adversary can say from one state, or from several together: bounds, rates, and how well they reconstruct.

The adversary is trained on some trials and evaluated on others, so no bound is maximised over the trials it is computed
from.
Guarantee: each bound is below the true parameter with the stated confidence; held by tests/audit/test_validity.py.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from vestige.audit.attacks import Looks
from vestige.audit.bounds import (
    Counts,
    area_under_curve,
    epsilon_lower_bound,
    mu_lower_bound,
    total_variation_lower_bound,
    true_positive_rate_at,
)
from vestige.audit.distinguisher import Pair, train_distinguishers
from vestige.audit.game import Game, Observations
from vestige.audit.trade_off import TradeOff, measure_trade_off


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """What the adversary can say from the state at one moment, or from all states that they see together.

    Attributes:
        t: number of records that have arrived; at the last of several states.
        age: number of rounds since the record must be erased; if negative, it may still be retained.
        states: number of states that are taken together.
        retained: fraction of trials in which the record was still retained, so that nothing was observed; averaged over
            states.
        epsilon: lower bound of epsilon, at the stated confidence.
        mu: lower bound of the parameter of Gaussian differential privacy.
        total_variation: lower bound of the total variation distance.
        auc: area under the ROC curve; 0.5 is chance.
        true_positive_rate: true positive rate at a false positive rate of 1%.
        reconstruction: error of reconstructing the erased value, divided by the error of guessing it; 1 means that
            nothing is revealed.
        feature: attack that distinguishes the hypotheses best: by the `answer`, by how answers `change` together, by
            the `presence` of rounds, by the answer beside the adversary's `forecast`, or by a `learned` classifier of
            all that is retained.
        same_state: fraction of pairs of trials, with the same coins, that retain the same rounds under both hypotheses.
        epsilon_counts: true positives, false negatives, false positives and true negatives that `epsilon` rests on.
        mu_counts: those that `mu` and `total_variation` rest on.
        trade_off: both errors of that attack at several thresholds, with intervals that hold simultaneously.
    """

    t: int
    age: int
    states: int
    retained: float
    epsilon: float
    mu: float
    total_variation: float
    auc: float
    true_positive_rate: float
    reconstruction: float
    feature: str
    same_state: float
    epsilon_counts: Counts
    mu_counts: Counts
    trade_off: TradeOff = field(repr=False)


def measure_checkpoint(
    game: Game,
    hypotheses: Pair,
    random_values: Observations,
    looks: Looks,
    training: int,
    confidence: float,
    delta: float,
) -> Checkpoint:
    """Measure what the adversary can say from one look, or from several together.

    Args:
        game: what was played.
        hypotheses: trials of the null hypothesis, and of the alternative.
        random_values: trials in which the replaced record has a random value, for the reconstruction.
        looks: indices of the looks that are taken together, in increasing order.
        training: number of trials of each hypothesis, the first ones, that train the adversary; the others count.
        confidence: confidence level of each bound.
        delta: delta at which epsilon is bounded.

    Returns:
        The bounds and rates of this checkpoint.
    """
    train, test = _split(hypotheses, training)
    for_epsilon, for_mu = train_distinguishers(train, looks, confidence, delta)
    epsilon_counts, mu_counts = for_epsilon.count(test), for_mu.count(test)
    null, alternative = (for_mu.score(one) for one in test)
    t = game.looks[looks[-1]]
    return Checkpoint(
        t=t,
        age=t - game.target - game.retention,
        states=len(looks),
        retained=float(np.mean([one.retained[:, looks].mean() for one in test])),
        epsilon=epsilon_lower_bound(*epsilon_counts, confidence=confidence, delta=delta),
        mu=mu_lower_bound(*mu_counts, confidence=confidence),
        total_variation=total_variation_lower_bound(*mu_counts, confidence=confidence),
        auc=area_under_curve(null, alternative),
        true_positive_rate=true_positive_rate_at(0.01, for_mu.null, alternative),
        reconstruction=_measure_reconstruction(random_values, looks),
        feature=for_mu.attack,
        same_state=float((test[0].present[:, looks] == test[1].present[:, looks]).all(axis=(1, 2)).mean()),
        epsilon_counts=epsilon_counts,
        mu_counts=mu_counts,
        trade_off=measure_trade_off(null, alternative, for_mu.thresholds, confidence=confidence),
    )


def _split(hypotheses: Pair, training: int) -> tuple[Pair, Pair]:
    """The trials that train the adversary, and those that count."""
    null, alternative = hypotheses
    return (
        (null.select(slice(training)), alternative.select(slice(training))),
        (null.select(slice(training, None)), alternative.select(slice(training, None))),
    )


def _measure_reconstruction(trials: Observations, looks: Looks) -> float:
    """Predict the value from the answers by least squares, fitted on one half of the trials and tested on the other.

    The result is relative to the error of predicting the mean value, in the column where it is smallest. Where there is
    no answer, because the record is still retained, the prediction is the mean value.
    """
    answers = trials.answers[:, looks].reshape(len(trials), -1)
    given = ~np.isnan(answers)
    means = np.where(given, answers, 0.0).sum(axis=0) / np.maximum(given.sum(axis=0), 1)
    centred = np.where(given, answers - means, 0.0)
    scale = centred.std(axis=0)
    standardized = np.where(scale > 0.0, centred / np.where(scale > 0.0, scale, 1.0), 0.0)
    x, y = np.column_stack((np.ones(len(answers)), standardized)), trials.values
    train, test = slice(0, None, 2), slice(1, None, 2)
    coefficients = np.linalg.lstsq(x[train], y[train], rcond=None)[0]
    error = np.sqrt(((y[test] - x[test] @ coefficients) ** 2).mean(axis=0))
    baseline = np.sqrt(((y[test] - y[train].mean(axis=0)) ** 2).mean(axis=0))
    return float(np.min(np.where(baseline > 0.0, error / np.where(baseline > 0.0, baseline, 1.0), 1.0)))
