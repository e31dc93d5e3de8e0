"""What an attack looks at, and how it scores: linear scores of answers or presence, or a classifier of everything.

Answers are scored by Fisher's discriminant (1936, https://doi.org/10.1111/j.1469-1809.1936.tb02137.x), presence by the
log-likelihood ratio as if rounds were independent. `learned` trains gradient-boosted trees (scikit-learn) on answers,
presence and the retained values, and finds what no sum of terms shows. All take one look or several together.
Guarantee: each finds a leak that the others miss; held by tests/audit/test_attacks.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from vestige.audit.game import Observations
from vestige.errors import MissingExtraError
from vestige.types import Floats

Looks = tuple[int, ...]
"""Indices of the looks that are taken together."""
_MOST_CORRELATED = 256
"""The most numbers whose correlations are estimated; above it they count as uncorrelated."""
_TRIALS_PER_NUMBER = 4
"""The least number of trials for each number; with fewer, correlations are shrunk towards none."""
_RIDGE = 1e-9


Score = Callable[[Observations], Floats]
"""A function from observations to scores, the higher the more likely the alternative; shape (trials,)."""
Attack = Callable[[Observations, Observations, Looks], Score]
"""A function that fits a score on trials of the null hypothesis and of the alternative."""


def fit_answers(null: Observations, alternative: Observations, looks: Looks) -> Score:
    """Fit Fisher's discriminant of the answers, as if they were uncorrelated: averages over looks.

    Args:
        null: trials of the null hypothesis.
        alternative: trials of the alternative.
        looks: looks that are taken together.

    Returns:
        The score.
    """
    return _fit_numbers(lambda trials: _list_answers(trials, looks), null, alternative)


def fit_changes(null: Observations, alternative: Observations, looks: Looks) -> Score:
    """Fit Fisher's discriminant of the answers with their correlations: how they change from look to look.

    Args:
        null: trials of the null hypothesis.
        alternative: trials of the alternative.
        looks: looks that are taken together.

    Returns:
        The score.
    """
    return _fit_numbers(lambda trials: _list_answers(trials, looks), null, alternative, correlated=True)


def fit_forecasts(null: Observations, alternative: Observations, looks: Looks) -> Score:
    """Fit Fisher's discriminant of how far answers are from what the adversary expected.

    Args:
        null: trials of the null hypothesis.
        alternative: trials of the alternative.
        looks: looks that are taken together.

    Returns:
        The score.
    """
    return _fit_numbers(lambda trials: _subtract_forecasts(trials, looks), null, alternative, correlated=True)


def fit_presence(null: Observations, alternative: Observations, looks: Looks) -> Score:
    """Fit the log-likelihood ratio of each round's presence, as if rounds were independent (naive Bayes).

    Args:
        null: trials of the null hypothesis.
        alternative: trials of the alternative.
        looks: looks that are taken together.

    Returns:
        The score.
    """
    hypotheses = [_unpack(trials, looks) for trials in (null, alternative)]
    rates = [(present.sum(axis=0) + 0.5) / (len(present) + 1.0) for present in hypotheses]
    weights: Floats = np.log(rates[1] / rates[0]) - np.log((1.0 - rates[1]) / (1.0 - rates[0]))
    return lambda trials: _unpack(trials, looks) @ weights


def fit_learned(null: Observations, alternative: Observations, looks: Looks) -> Score:
    """Train gradient-boosted trees on answers, presence and retained values.

    Args:
        null: trials of the null hypothesis.
        alternative: trials of the alternative.
        looks: looks that are taken together.

    Returns:
        The score.

    Raises:
        MissingExtraError: if scikit-learn is not installed.
    """
    check_learned()
    from sklearn.ensemble import HistGradientBoostingClassifier  # noqa: PLC0415

    table = np.concatenate([_tabulate(trials, looks) for trials in (null, alternative)])
    low, high = (np.where(np.isnan(table), end, table) for end in (np.inf, -np.inf))
    varies = (low.min(axis=0) < high.max(axis=0)) | (np.isnan(table).any(axis=0) & ~np.isnan(table).all(axis=0))
    if not varies.any():
        return lambda trials: np.zeros(len(trials))
    classifier: Any = HistGradientBoostingClassifier(max_leaf_nodes=15, early_stopping=False, random_state=0)
    classifier.fit(table[:, varies], np.repeat([0, 1], [len(null), len(alternative)]))
    return lambda trials: classifier.decision_function(_tabulate(trials, looks)[:, varies])


ATTACKS: dict[str, Attack] = {
    "answer": fit_answers,
    "change": fit_changes,
    "presence": fit_presence,
    "forecast": fit_forecasts,
    "learned": fit_learned,
}


def check_learned() -> None:
    """Check that a classifier can be trained.

    Raises:
        MissingExtraError: if scikit-learn is not installed.

    Example:
        >>> check_learned()
    """
    try:
        import sklearn.ensemble  # noqa: F401, PLC0415
    except ModuleNotFoundError:
        raise MissingExtraError("learned=True", "sklearn") from None


def list_attacks(observations: Observations, looks: Looks) -> dict[str, Attack]:
    """List the attacks that there are observations for.

    Args:
        observations: what the adversary observes.
        looks: looks that are taken together.

    Returns:
        The attacks by name.

    Example:
        >>> import numpy as np
        >>> list(list_attacks(Observations(*np.zeros((3, 2, 1, 1)), np.zeros((2, 0)), *np.zeros((3, 2, 1))), (0,)))
        ['answer', 'presence', 'learned']
    """
    has = {
        "change": len(looks) * observations.answers.shape[2] > 1,
        "forecast": observations.forecasts.shape[1] > 0,
        "learned": observations.contents.shape[2] > 0,
    }
    return {name: attack for name, attack in ATTACKS.items() if has.get(name, True)}


def _unpack(trials: Observations, looks: Looks) -> Floats:
    bits = np.unpackbits(trials.present[:, looks], axis=2)
    return bits.reshape(len(trials), -1).astype(np.float64)


def _list_answers(trials: Observations, looks: Looks) -> Floats:
    return trials.answers[:, looks].reshape(len(trials), -1)


def _subtract_forecasts(trials: Observations, looks: Looks) -> Floats:
    numbers = min(trials.answers.shape[2], trials.forecasts.shape[1])
    gaps = trials.answers[:, looks, :numbers] - trials.forecasts[:, None, :numbers]
    return gaps.reshape(len(trials), -1)


def _tabulate(trials: Observations, looks: Looks) -> Floats:
    """Everything that is observed, one row for each trial; NaN is missing."""
    n = len(trials)
    contents = trials.contents[:, looks].astype(np.float64)
    held = ~np.isnan(contents)
    count = held.sum(axis=2)
    total = np.where(held, contents, 0.0).sum(axis=2)
    columns = [trials.answers[:, looks], trials.contents[:, looks], count, total / np.maximum(count, 1)]
    table = np.column_stack([_unpack(trials, looks), *(column.reshape(n, -1) for column in columns)])
    if trials.forecasts.shape[1]:
        table = np.column_stack([table, _subtract_forecasts(trials, looks)])
    return np.where(np.isinf(table), np.nan, table)


def _fit_numbers(
    extract: Callable[[Observations], Floats],
    null: Observations,
    alternative: Observations,
    *,
    correlated: bool = False,
) -> Score:
    """Fit Fisher's discriminant; that a number is missing is a number of its own, beside the average in its place."""
    raw = [extract(trials) for trials in (null, alternative)]
    together = np.concatenate(raw)
    given = ~np.isnan(together)
    fill = np.where(given, together, 0.0).sum(axis=0) / np.maximum(given.sum(axis=0), 1)
    is_partial = given.any(axis=0) & ~given.all(axis=0)

    def complete(numbers: Floats) -> Floats:
        missing = np.isnan(numbers)
        return np.column_stack((np.where(missing, fill, numbers), missing[:, is_partial]))

    weights = _fit_fisher(*(complete(numbers) for numbers in raw), correlated=correlated)
    return lambda trials: complete(extract(trials)) @ weights


def _fit_fisher(null: Floats, alternative: Floats, *, correlated: bool) -> Floats:
    """Compute the weights of Fisher's discriminant, with a diagonal covariance or with all correlations."""
    spread = np.sqrt((null.var(axis=0) + alternative.var(axis=0)) / 2.0)
    size = np.maximum(np.abs(null).max(axis=0), np.abs(alternative).max(axis=0))
    spread = np.maximum(spread, np.finfo(np.float64).eps * size + 1e-150)
    apart = (alternative.mean(axis=0) - null.mean(axis=0)) / spread
    numbers, count = len(apart), len(null) + len(alternative)
    if correlated and numbers <= _MOST_CORRELATED:
        centred = np.concatenate([(group - group.mean(axis=0)) / spread for group in (null, alternative)])
        shrinkage = _RIDGE if _TRIALS_PER_NUMBER * numbers <= count else numbers / (count + numbers)
        correlations = (1.0 - shrinkage) * (centred.T @ centred) / count
        np.fill_diagonal(correlations, 1.0)
        apart = np.linalg.solve(correlations, apart)
    weights: Floats = apart / spread
    largest = np.abs(weights).max()
    return weights / largest if largest > 0.0 and np.isfinite(largest) else np.ones_like(weights)
