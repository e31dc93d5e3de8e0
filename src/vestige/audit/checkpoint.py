"""What the adversary can say at one moment: bounds, rates, and how well they reconstruct the erased value.

The adversary is trained on some trials and evaluated on others, so no bound is maximised over the trials it is computed
from.
Guarantee: each bound is below the true parameter with the stated confidence; held by tests/audit/test_leakage.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from vestige.audit.bounds import (
    Criterion,
    area_under_curve,
    epsilon_lower_bound,
    mu_lower_bound,
    total_variation_lower_bound,
    true_positive_rate_at,
)
from vestige.audit.distinguisher import Distinguisher, train_distinguisher
from vestige.audit.game import Game, Observations


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """What the adversary can say at one moment.

    Attributes:
        t: number of records that have arrived.
        age: number of rounds since the record must be erased; if negative, it may still be retained.
        retained: fraction of trials in which the record was still retained, so that nothing was observed.
        epsilon: lower bound of epsilon, at the stated confidence.
        mu: lower bound of the parameter of Gaussian differential privacy.
        total_variation: lower bound of the total variation distance.
        auc: area under the ROC curve; 0.5 is chance.
        true_positive_rate: true positive rate at a false positive rate of 1%.
        reconstruction: error of reconstructing the erased value, divided by the error of guessing it; 1 means that
            nothing is revealed.
        feature: what distinguishes the hypotheses best: the `answer`, or the `presence` of rounds.
        same_state: fraction of pairs of trials, with the same coins, that retain the same rounds under both hypotheses.
    """

    t: int
    age: int
    retained: float
    epsilon: float
    mu: float
    total_variation: float
    auc: float
    true_positive_rate: float
    reconstruction: float
    feature: str
    same_state: float


def measure_checkpoint(
    game: Game,
    hypotheses: Sequence[Observations],
    random_values: Observations,
    index: int,
    training: int,
    confidence: float,
    delta: float,
) -> Checkpoint:
    """Measure what the adversary can say at one checkpoint.

    Args:
        game: what was played.
        hypotheses: trials of the null hypothesis, and of the alternative.
        random_values: trials in which the replaced record has a random value, for the reconstruction.
        index: index of the checkpoint.
        training: number of trials of each hypothesis, the first ones, that train the adversary; the others count.
        confidence: confidence level of each bound.
        delta: delta at which epsilon is bounded.

    Returns:
        The bounds and rates of this checkpoint.
    """
    train, test = ([one.select(part) for one in hypotheses] for part in (slice(training), slice(training, None)))
    distinguisher = train_distinguisher(train[0], train[1], index, confidence, delta)
    counts = _count_decisions(test, distinguisher, "epsilon")
    distance_counts = _count_decisions(test, distinguisher, "total_variation")
    scores = [distinguisher.score(one) for one in test]
    return Checkpoint(
        t=game.checkpoints[index],
        age=game.checkpoints[index] - game.target - game.retention,
        retained=float(np.mean([one.retained[:, index].mean() for one in test])),
        epsilon=epsilon_lower_bound(*counts, confidence=confidence, delta=delta),
        mu=mu_lower_bound(*distance_counts, confidence=confidence),
        total_variation=total_variation_lower_bound(*distance_counts, confidence=confidence),
        auc=area_under_curve(*scores),
        true_positive_rate=true_positive_rate_at(0.01, distinguisher.score(train[0]), scores[1]),
        reconstruction=_measure_reconstruction(random_values, index),
        feature=distinguisher.feature,
        same_state=float((test[0].present[:, index] == test[1].present[:, index]).all(axis=1).mean()),
    )


def _count_decisions(
    test: list[Observations], distinguisher: Distinguisher, criterion: Criterion
) -> tuple[int, int, int, int]:
    """Count true positives, false negatives, false positives and true negatives."""
    fp, tp = (int(distinguisher.decide(one, criterion).sum()) for one in test)
    return tp, len(test[1]) - tp, fp, len(test[0]) - fp


def _measure_reconstruction(trials: Observations, index: int) -> float:
    """Predict the value from the answer by least squares, fitted on one half of the trials and tested on the other.

    The result is relative to the error of predicting the mean value, in the column where it is smallest. Where there is
    no answer, because the record is still retained, the prediction is the mean value.
    """
    answers = trials.answers[:, index]
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
