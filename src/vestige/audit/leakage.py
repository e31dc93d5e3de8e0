"""How much retained records reveal about a record that was erased long ago, in many trials of two hypotheses.

Under both hypotheses the same number of records arrives, and the value of one record differs, which the adversary
never observes while it is held. An adversary who knows all other records is that of differential privacy; one who knows
only their distribution is that of membership inference; one who chooses all other records, each batch after seeing the
states before it, is that of adaptive composition. Each looks at single states, and at all of them jointly, those before
the record arrived included.
Guarantee: each bound is below the true parameter with the stated confidence, at each checkpoint separately; held by
tests/audit/test_validity.py.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from vestige.audit.attacks import check_learned
from vestige.audit.bounds import epsilon_ceiling, epsilon_lower_bound, mu_lower_bound
from vestige.audit.checkpoint import Checkpoint, measure_checkpoint
from vestige.audit.data import make_source
from vestige.audit.game import Data, Game, Observations
from vestige.audit.strategy import Strategy, choose_decisive_batch
from vestige.audit.workers import play_tasks
from vestige.errors import DataError, ParameterError
from vestige.markup import make_frame, make_table, make_text
from vestige.policy import Policy
from vestige.random.generators import make_generator
from vestige.random.keys import AuditSeed
from vestige.stream import Stream
from vestige.types import Floats
from vestige.validation import check_choice, check_floats, check_int, show_value

if TYPE_CHECKING:
    import pandas as pd

KNOWLEDGE = {
    "knows-all": "knows all other records",
    "knows-distribution": "knows only the distribution of the records",
    "chooses-arrivals": "chooses what else arrives",
}
"""What each adversary knows or does, as the end of a sentence."""
ADVERSARIES = tuple(KNOWLEDGE)
_TRIALS_PER_TASK = 250
_TRAINING_SHARE = 0.25
"""Trials that train the adversary, for each trial that counts; as many draw a random value, to reconstruct it."""
_LEARNED_SHARE = 1.0
"""The same where a classifier learns from all that is retained, which needs more."""
_FURTHER = 4.0
_UPDATES = 4
"""Updates after the arrival of the record whose states are among those seen jointly."""
_LARGEST = 1e100
"""Largest number of a record; sums of squares of answers neither overflow nor make an attack fail."""
_MAX_COUNT, _MAX_WORKERS = 10**9, 10**4  # records or trials, and processes
HEADER = ("t", "age", "epsilon", "mu", "total variation", "AUC", "reconstruction")


@dataclass(frozen=True, slots=True, repr=False)
class Leakage:
    """Result of an audit; prints as a table, in notebooks too.

    Attributes:
        checkpoints: what the adversary can say at each checkpoint, the earliest first.
        joint: what they can say from many states together: the one before the record's batch, those after the first
            updates since, and those of all checkpoints.
        epsilon_ceiling: largest epsilon that this many trials can show.
        adversary: what the adversary knows: one of `ADVERSARIES`.
        trials: number of trials of each hypothesis that count.
        confidence: confidence level of each bound.
        delta: delta at which epsilon is bounded.
        overdue: whether a record was ever observed after it should have been erased.
    """

    checkpoints: tuple[Checkpoint, ...]
    joint: Checkpoint
    epsilon_ceiling: float
    adversary: str
    trials: int
    confidence: float
    delta: float
    overdue: bool

    @property
    def epsilon(self) -> float:
        """Lower bound of epsilon at the last checkpoint."""
        return self.checkpoints[-1].epsilon

    @property
    def mu(self) -> float:
        """Lower bound of mu at the last checkpoint."""
        return self.checkpoints[-1].mu

    @property
    def auc(self) -> float:
        """Area under the ROC curve at the last checkpoint."""
        return self.checkpoints[-1].auc

    @property
    def total_variation(self) -> float:
        """Lower bound of the total variation distance at the last checkpoint."""
        return self.checkpoints[-1].total_variation

    @property
    def reconstruction(self) -> float:
        """Relative error of reconstructing the erased value at the last checkpoint."""
        return self.checkpoints[-1].reconstruction

    @property
    def reveals(self) -> bool:
        """Whether the states show anything of the record, each checkpoint alone and all states together.

        All bounds are computed at equal shares of the error probability (Bonferroni), so that a mechanism that reveals
        nothing is said to reveal something with a probability of at most 1 - `confidence`.
        """
        seen = (*self.checkpoints, self.joint)
        each = 1.0 - (1.0 - self.confidence) / (2.0 * len(seen))
        return any(
            epsilon_lower_bound(*one.epsilon_counts, confidence=each, delta=self.delta) > 0.0
            or mu_lower_bound(*one.mu_counts, confidence=each) > 0.0
            for one in seen
        )

    def refutes(self, epsilon: float, mu: float) -> bool:
        """Whether all states together show that a mechanism reveals more than it promises.

        Both bounds are computed at half of the error probability, so that a promise that is kept is refuted with a
        probability of at most 1 - `confidence`. The states to look at are fixed in advance.

        Args:
            epsilon: promised epsilon, at `delta`.
            mu: promised parameter of Gaussian differential privacy.

        Returns:
            Whether either promise is refuted.

        Example:
            >>> from vestige import Window
            >>> measure_leakage(Window(), retention=8, t=40, trials=200, workers=1).refutes(epsilon=0.0, mu=0.0)
            False
        """
        both = (1.0 + self.confidence) / 2.0
        least_epsilon = epsilon_lower_bound(*self.joint.epsilon_counts, confidence=both, delta=self.delta)
        return least_epsilon > epsilon or mu_lower_bound(*self.joint.mu_counts, confidence=both) > mu

    def to_dict(self) -> dict[str, Any]:
        """Convert the result to plain data, as for JSON.

        Returns:
            A dictionary with a key for each attribute.

        Example:
            >>> from vestige import Window
            >>> found = measure_leakage(Window(), retention=8, t=40, trials=20, workers=1)
            >>> sorted(found.to_dict())[:3]
            ['adversary', 'checkpoints', 'confidence']
        """
        return asdict(self)

    def to_pandas(self) -> pd.DataFrame:
        """Convert the checkpoints to a data frame.

        Returns:
            One row for each checkpoint, and one for all states together, where `states` is above 1; a column for each
            attribute of `Checkpoint`.

        Raises:
            MissingExtraError: pandas is not installed.

        Example:
            >>> from vestige import Window
            >>> found = measure_leakage(Window(), retention=8, t=40, trials=20, workers=1)
            >>> frame = found.to_pandas()
            >>> len(frame), len(found.checkpoints), int(frame["states"].iloc[-1])
            (6, 5, 8)
        """
        return make_frame(asdict(checkpoint) for checkpoint in (*self.checkpoints, self.joint))

    def __str__(self) -> str:
        return f"{self._describe()}\n{make_text(HEADER, self._list_cells(), self._list_notes())}"

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return make_table(self._describe(), HEADER, self._list_cells(), self._list_notes())

    def _list_cells(self) -> list[tuple[str, ...]]:
        return [
            (
                f"{at.t:,}" if at.states == 1 else f"{at.states} states",
                f"{at.age:,}" if at.states == 1 else "all",
                f">= {at.epsilon:.2f}",
                f">= {at.mu:.2f}",
                f">= {at.total_variation:.2f}",
                f"{at.auc:.2f}",
                f"{at.reconstruction:.2g}",
            )
            for at in (*self.checkpoints, self.joint)
        ]

    def _describe(self) -> str:
        return f"What an adversary who {KNOWLEDGE[self.adversary]} finds in {self.trials:,} trials"

    def _list_notes(self) -> list[str]:
        ceiling = f"No epsilon above {self.epsilon_ceiling:.2f} can be shown with this number of trials."
        late = ["A record was still there after it should have been erased."] if self.overdue else []
        return [ceiling, *late]


def measure_leakage(
    policy: Policy,
    *,
    retention: int,
    t: int,
    erased_at: int | None = None,
    trials: int = 1_000,
    adversary: str | Strategy = "knows-all",
    learned: bool = False,
    data: ArrayLike | Data | None = None,
    values: tuple[ArrayLike, ArrayLike] | None = None,
    confidence: float = 0.95,
    delta: float = 0.0,
    seed: int = 0,
    workers: int | None = None,
    progress: Callable[[float], None] = lambda _: None,
) -> Leakage:
    """Measure what retained records reveal about an erased one, at several checkpoints after its erasure.

    Args:
        policy: policy under audit, any that passes `vestige.checks.check_policy`; only its public methods are used.
        retention: retention of its stream, in records.
        t: number of records that arrive.
        erased_at: round from which on the record is erased; it arrives `retention` rounds earlier. Default: the
            earliest possible, `retention + 1`, or two batches later if the adversary chooses what arrives.
        trials: number of trials of each hypothesis that count; fixed in advance.
        adversary: what the adversary knows: `knows-all` other records, or `knows-distribution` of the records; or
            `chooses-arrivals`, who chooses the other records of the replaced record's batch after seeing the states
            before it (a hundred updates a trial more); or a function of a `vestige.audit.Turn` alone that chooses
            each batch.
        learned: whether gradient-boosted trees also learn from answers, presence and all retained values (needs the
            extra `sklearn`). As many trials train them as count; takes minutes for 10,000 trials.
        data: records to draw from with replacement, or a function `data(rng, n)` of its arguments alone: one that
            remembers its calls may give the hypotheses different records, so that bounds are wrong. Default: standard
            normal.
        values: values of the record under the two hypotheses, which differ. Default: the smallest and the largest value
            of each column in 1,000 drawn records; four times their distance further out if the adversary chooses
            what arrives and the policy takes such values, so that a bound is tried too.
        confidence: confidence level of each bound.
        delta: delta at which epsilon is bounded.
        seed: seed that makes the audit reproducible.
        workers: number of processes (more than one needs the extra `audit`). Default: one for each core, or fewer if
            there are few trials.
        progress: called with the fraction of the trials that are done.

    Returns:
        The bounds and rates at each checkpoint.

    Raises:
        ParameterError: if an argument is out of range, or cannot be sent to other processes.
        MissingExtraError: if several workers are requested and joblib is not installed, or `learned` and scikit-learn
            is not.

    Example:
        >>> from vestige import Window
        >>> found = measure_leakage(Window(), retention=8, t=40, trials=200, workers=1)
        >>> found.epsilon, found.auc
        (0.0, 0.5)
    """
    if not isinstance(policy, Policy):
        raise ParameterError(f"policy={show_value(policy)} is not a vestige.Policy; pass one, such as vestige.Mean()")
    strategy = _find_strategy(adversary)
    erasure = _check_rounds(retention, t, erased_at, chooses=strategy is not None)
    check_int("seed", seed, 0)
    check_int("trials", trials, 20, _MAX_COUNT)
    if workers is not None:
        check_int("workers", workers, 1, _MAX_WORKERS)
    if learned:
        check_learned()
    ceiling = epsilon_ceiling(trials, confidence=confidence, delta=delta)
    source = make_source(data, policy.columns)
    example = source(make_generator(seed, 0), max(t, 1_000))
    _check_size("data", example)
    null, alternative = _find_ends(example[:1_000]) if values is None else _check_values(values, policy.columns)
    if values is None and strategy is not None:
        null, alternative = _widen(policy, retention, null, alternative)
    others = None if adversary == "knows-distribution" else example[:t]
    checkpoints = _choose_checkpoints(policy, erasure, t, retention)
    looks = _choose_looks(checkpoints, erasure, t, retention)
    pair = np.array([null, alternative])
    game = Game(policy, retention, erasure - retention, looks, others, source, seed, strategy, pair, learned)
    training = max(20, int((_LEARNED_SHARE if learned else _TRAINING_SHARE) * trials))
    random_values = _complete(source(make_generator(seed, 3), training), example)
    count = training + trials
    first, second, reconstruction = _play_all(
        game, [(null[None], count), (alternative[None], count), (random_values, training)], workers, progress
    )

    def measure(rounds: tuple[int, ...]) -> Checkpoint:
        indices = tuple(looks.index(at) for at in rounds)
        return measure_checkpoint(game, (first, second), reconstruction, indices, training, confidence, delta)

    measured = tuple(measure((at,)) for at in checkpoints)
    overdue = any(bool(one.overdue.any()) for one in (first, second, reconstruction))
    name = adversary if isinstance(adversary, str) else ADVERSARIES[2]
    return Leakage(measured, measure(looks), ceiling, name, trials, confidence, delta, overdue)


def _find_strategy(adversary: object) -> Strategy | None:
    """What chooses the arrivals; None if nobody does."""
    if callable(adversary):
        return adversary
    check_choice("adversary", adversary, ADVERSARIES)
    return choose_decisive_batch if adversary == ADVERSARIES[2] else None


def _check_rounds(retention: int, t: int, erased_at: int | None, *, chooses: bool) -> int:
    """Return the round from which on the record is erased."""
    check_int("retention", retention, 1, _MAX_COUNT)
    earliest = retention + 1 + (2 * max(1, retention // 2) if chooses else 0)
    erasure = earliest if erased_at is None else check_int("erased_at", erased_at, retention + 1)
    if check_int("t", t, 1, _MAX_COUNT) < erasure:
        raise ParameterError(f"t={t} is before erased_at={erasure}, when the record is erased; use t >= {erasure}")
    return erasure


def _check_values(values: object, columns: int) -> tuple[Floats, Floats]:
    """Return the values of the record under the two hypotheses."""
    pair = check_floats("values", values)
    if pair.ndim == 0 or len(pair) != 2 or pair.size != 2 * columns:
        raise ParameterError(f"values is not a pair of records of {columns} values; pass one for each hypothesis")
    _check_size("values", pair)
    if (pair[0] == pair[1]).all():
        raise ParameterError("values are the same record twice, which nobody can tell apart; pass two that differ")
    return pair[0].reshape(columns), pair[1].reshape(columns)


def _check_size(name: str, records: Floats) -> None:
    if (np.abs(records) > _LARGEST).any():
        raise ParameterError(f"{name} has numbers beyond {_LARGEST:g} in size; give records in larger units")


def _find_ends(records: Floats) -> tuple[Floats, Floats]:
    """The smallest and the largest value of each column; missing values are neither."""
    known = ~np.isnan(records)
    low = np.where(known, records, np.inf).min(axis=0)
    high = np.where(known, records, -np.inf).max(axis=0)
    if not (low < high).any():
        raise ParameterError(
            f"data has the same values in all of {len(records):,} records, so that nothing can be told apart; pass "
            "values, two records that differ"
        )
    there = known.any(axis=0)
    return np.where(there, low, np.nan), np.where(there, high, np.nan)


def _widen(policy: Policy, retention: int, low: Floats, high: Floats) -> tuple[Floats, Floats]:
    """Move two records apart, beyond any bound that would fit the data, if the policy takes them."""
    further = low - _FURTHER * (high - low), high + _FURTHER * (high - low)
    try:
        Stream(policy, retention=retention, seed=AuditSeed(0)).extend(np.array(further))
    except DataError:
        return low, high
    return further


def _complete(records: Floats, example: Floats) -> Floats:
    """Records to reconstruct, with other values of the column in place of missing ones; 0 where there are none."""
    completed = records.copy()
    for column, others in zip(completed.T, example.T, strict=True):
        missing, known = np.isnan(column), others[~np.isnan(others)]
        column[missing] = np.resize(known if len(known) else np.zeros(1), missing.sum())
    return completed


def _choose_checkpoints(policy: Policy, erasure: int, t: int, retention: int) -> tuple[int, ...]:
    """Choose when the record may be gone, when it must be, then ever more batches later, and the last round."""
    batch = max(1, retention // 2)
    arrival = erasure - retention
    first_update = arrival if policy.every_round else -(-arrival // batch) * batch
    ages = [0, *(batch * k for k in (1, 3, 10, 30, 100, 300, 1_000, 3_000, 10_000))]
    return tuple(sorted({first_update} | {erasure + age for age in ages if erasure + age <= t} | {t}))


def _choose_looks(checkpoints: tuple[int, ...], erasure: int, t: int, retention: int) -> tuple[int, ...]:
    """Choose the rounds whose states are seen jointly: before the record's batch, after the next updates, and later."""
    batch = max(1, retention // 2)
    before = (erasure - retention - 1) // batch * batch
    updates = [before + k * batch for k in range(_UPDATES + 1)]
    return tuple(sorted({at for at in updates if 0 < at <= t} | set(checkpoints)))


def _play_all(
    game: Game, groups: list[tuple[Floats, int]], workers: int | None, progress: Callable[[float], None]
) -> list[Observations]:
    """Run several groups of trials, each of one value or of one for each trial, in any number of processes."""
    size = _TRIALS_PER_TASK
    tasks = [
        (group, range(start, min(start + size, count)), values if len(values) == 1 else values[start : start + size])
        for group, (values, count) in enumerate(groups)
        for start in range(0, count, size)
    ]
    parts: dict[tuple[int, int], Observations] = {}
    for done, (group, numbers, observations) in enumerate(play_tasks(game, tasks, workers), 1):
        parts[group, numbers.start] = observations
        progress(done / len(tasks))
    ordered = sorted(parts.items(), key=lambda item: item[0])
    return [
        Observations.concatenate([part for (group, _), part in ordered if group == wanted])
        for wanted in range(len(groups))
    ]
