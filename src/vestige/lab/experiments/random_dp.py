"""One late state of Algorithm 1 satisfies random differential privacy; all states since the erasure together do not.

Immorlica et al. (2024), related work: the algorithm "respects certain notions of random differential privacy", but not
full differential privacy. Hall, Rinaldo and Wasserman (2011), https://doi.org/10.48550/arXiv.1112.2680:
(epsilon, gamma)-random differential privacy requires epsilon except for a share gamma of random data. The paper states
neither; the usual values, 1 and 5%, are tested. Only the data are sampled: chance decides nothing but which half of a
batch is learned from, so the chances of all states are computed exactly, batch by batch, for both data sets, and
epsilon is the largest log ratio of them. Records are normal, and one of the first batch is replaced: by another random
record, or by an extreme value.
Two observations are considered. A single state, some updates after the record's own batch: its epsilon falls with the
age. And all states since the erasure, jointly: transitions are the same for both data sets, so the likelihood ratio of
a history is that of its first state, and later states do not reduce it.
Limits: gamma, by the binomial distribution over the data; an extreme record takes longer, by Student's t over pairs.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from vestige.figures import COLOURS, INK
from vestige.lab import figures, significance
from vestige.lab.experiment import Experiment, Parts, Point, Verdict, grid
from vestige.lab.results import Results, Series
from vestige.types import Bools, Floats, Ints

if TYPE_CHECKING:
    from matplotlib.figure import Figure

EPSILON, GAMMA = 1.0, 0.05
AGES = tuple(range(1, 13))
DATA = {6: 20, 8: 50}  # data sets of a trial, by batch: 8 trials show gamma if 0 of 160, or 7 of 400, are above epsilon
BATCHES = tuple(DATA)
RANDOM, EXTREME_RECORD = "random", "extreme"
ONE, ALL = "after", "since"
EXTREME = 1_000.0
Finder = Callable[[Floats, Floats], Ints]


def list_halves(batch: int) -> Bools:
    """List the halves of a batch that records may be kept from.

    Args:
        batch: number of records in a batch.

    Returns:
        Which records belong to each half; shape (choices, batch).

    Example:
        >>> list_halves(2).tolist()
        [[True, False], [False, True]]
    """
    choices = list(combinations(range(batch), batch - batch // 2))
    kept = np.zeros((len(choices), batch), np.bool_)
    for row, records in zip(kept, choices, strict=True):
        row[list(records)] = True
    return kept


def find_nearest(averages: Floats, targets: Floats) -> Ints:
    """Find the average nearest to each target.

    Args:
        averages: averages of the subsets in each choice; shape (choices, subsets).
        targets: targets of each state in each choice; shape (states, choices).

    Returns:
        The index of the nearest average; shape (states, choices).

    Example:
        >>> find_nearest(np.array([[0.0, 1.0]]), np.array([[0.8]]))
        array([[1]])
    """
    indices: Ints = np.abs(averages[None] - targets[:, :, None]).argmin(axis=2)
    return indices


@dataclass(frozen=True, slots=True, eq=False)
class Choices:
    """The random choices in a batch, and the subsets that each allows.

    Attributes:
        subsets: all sets of records, by number; shape (2^batch, batch).
        weights: weights of the records that each choice learns from; shape (choices, batch).
        allowed: numbers of the subsets that it may keep, without the empty one; shape (choices, subsets).
    """

    subsets: Bools
    weights: Floats
    allowed: Ints

    @classmethod
    def from_halves(cls, kept: Bools) -> Choices:
        """Derive the choices from the halves that records may be kept from.

        Args:
            kept: see `list_halves`; shape (choices, batch).

        Returns:
            The choices.
        """
        subsets = (np.arange(2 ** kept.shape[1])[:, None] >> np.arange(kept.shape[1]) & 1).astype(np.bool_)
        allowed = np.array([np.flatnonzero(~(subsets & ~half).any(axis=1))[1:] for half in kept])
        return cls(subsets, ~kept / (~kept).sum(axis=1, keepdims=True), allowed)


def find_transitions(
    estimates: Floats, averages: Floats, rows: Floats, weight: float, choices: Choices, find: Finder
) -> Ints:
    """Find the subset of a batch that each state leads to by each choice, in one update of Algorithm 1.

    Args:
        estimates: estimates of the states before the update; shape (states,).
        averages: averages of all subsets of the batch; shape (2^batch,).
        rows: the batch; shape (batch,).
        weight: weight of the update.
        choices: the choices in the batch.
        find: `find_nearest`, or its replacement.

    Returns:
        The number of the subset; shape (choices, states).
    """
    targets = estimates[:, None] + weight * (choices.weights @ rows - estimates[:, None])
    return np.take_along_axis(choices.allowed, find(averages[choices.allowed], targets).T, axis=1)


def update_chances(
    estimates: Floats, chances: Floats, averages: Floats, rows: Floats, weight: float, choices: Choices, find: Finder
) -> Floats:
    """Compute the chance of each subset of a batch to be the next state.

    Args:
        estimates: see `find_transitions`.
        chances: chances of the states before the update; shape (states,).
        averages: see `find_transitions`.
        rows: see `find_transitions`.
        weight: see `find_transitions`.
        choices: see `find_transitions`.
        find: see `find_transitions`.

    Returns:
        The chances; shape (2^batch,).
    """
    states = find_transitions(estimates, averages, rows, weight, choices, find)
    share = np.broadcast_to(chances / len(choices.allowed), states.shape)
    return np.bincount(states.ravel(), share.ravel(), len(averages)).astype(np.float64)


def compute_epsilons(rows: Floats, value: float, choices: Choices, find: Finder) -> tuple[Floats, Floats]:
    """Compute epsilon after each batch but the first, between two values of the very first record.

    Args:
        rows: the batches; shape (batches, batch).
        value: the other value of the first record.
        choices: the choices in a batch.
        find: `find_nearest`, or its replacement.

    Returns:
        The epsilon of the state after each batch, alone; and that of all states up to it, jointly. Both may be
        infinite; shape (batches - 1,) each.
    """
    neighbours = [(np.array([np.mean([first, *rows[0, 1:]])]), np.ones(1)) for first in (rows[0, 0], value)]
    sizes = np.maximum(choices.subsets.sum(axis=1), 1)
    alone, joint = [], []
    before, reach = np.empty(0), np.empty(0)  # possible states, and the largest ratio of a history up to each
    for k, batch in enumerate(rows[1:], 2):
        averages = choices.subsets @ batch / sizes
        chances = [update_chances(*states, averages, batch, 1.0 / k, choices, find) for states in neighbours]
        possible = (chances[0] > 0.0) | (chances[1] > 0.0)
        with np.errstate(divide="ignore"):
            ratios = np.abs(np.log(chances[0][possible]) - np.log(chances[1][possible]))
        if len(before):  # transitions are the same for both data sets, so ratios stay as they are
            states = find_transitions(before, averages, batch, 1.0 / k, choices, find)
            moved = np.zeros(len(averages))
            np.maximum.at(moved, states, np.broadcast_to(reach, states.shape))
        alone.append(ratios.max())
        before, reach = averages[possible], moved[possible] if len(before) else ratios
        joint.append(reach.max())
        neighbours = [(averages[each > 0.0], each[each > 0.0]) for each in chances]
    return np.array(alone), np.array(joint)


def _run_trial(point: Point, rng: np.random.Generator, parts: Parts) -> dict[str, float]:
    """The share of data sets with epsilon above 1, for one state and for all states since the erasure."""
    above, choices = np.zeros((2, len(AGES))), Choices.from_halves(parts["halves"](int(point["batch"])))
    for _ in range(DATA[int(point["batch"])]):
        rows, value = rng.normal(size=(len(AGES) + 1, int(point["batch"]))), float(rng.normal())
        if point["record"] == EXTREME_RECORD:
            value = EXTREME
        above += np.array(compute_epsilons(rows, value, choices, parts["nearest"])) > EPSILON
    alone, joint = above / DATA[int(point["batch"])]
    return {
        f"{view} {age}": float(shares[i]) for view, shares in ((ONE, alone), (ALL, joint)) for i, age in enumerate(AGES)
    }


def _find_shares(results: Results, view: str = ONE, **fixed: str | float) -> Series:
    """The share of data sets with epsilon above 1, against age."""
    mine = results.where(**fixed)
    pairs = [(mine.mean(f"{view} {age}"), mine.standard_error(f"{view} {age}")) for age in AGES]
    return Series(np.array(AGES, np.float64), *np.array(pairs).T)


def _draw_figure(results: Results, figure: Figure) -> None:
    """The share of data sets with epsilon above 1, against the updates since the record's own batch."""
    axes = figure.add_subplot(
        xlabel="updates since the record's own batch,\nof which the first erases it",
        ylabel="data sets with epsilon above 1 (%)",
        ylim=(-2.0, 104.0),
    )
    for i, (record, batch) in enumerate((record, batch) for record in (RANDOM, EXTREME_RECORD) for batch in BATCHES):
        shares = _find_shares(results, record=record, batch=batch)
        label = f"{'random record' if record == RANDOM else 'extreme record'}, batches of {batch}"
        figures.draw_curve(
            axes, "", Series(shares.x, 100.0 * shares.mean, 100.0 * shares.standard_error), number=i, label=label
        )
        if record == RANDOM:
            joint = _find_shares(results, ALL, record=record, batch=batch)
            axes.plot(joint.x, 100.0 * joint.mean, color=COLOURS[i], ls=":", lw=1.4)
    axes.plot([], [], color=INK, ls=":", lw=1.4, label="random record, all states so far")
    figures.draw_level(axes, "bound", 100.0 * GAMMA, f"gamma = {100.0 * GAMMA:g}%")
    axes.set_xticks(AGES)
    figures.draw_legend(figure, axes)


def _find_verdict(results: Results) -> Verdict:
    """One state hides random records in time, not at once, and extreme ones later; all states together never do."""
    batches = results.values("batch")
    ages = {batch: _find_hidden_age(results, batch) for batch in batches}
    first = {batch: _find_shares(results, record=RANDOM, batch=batch).mean[0] for batch in batches}
    whole = {batch: _find_shares(results, ALL, record=RANDOM, batch=batch).mean for batch in batches}
    delays = {
        batch: significance.confidence_interval(
            _count_updates(results, EXTREME_RECORD, batch) - _count_updates(results, RANDOM, batch)
        )
        for batch in batches
    }
    summary = ", ".join(f"{age:g} updates with batches of {batch}" for batch, age in ages.items())
    return Verdict.from_checks(
        {
            "one late state hides random records": significance.every(
                _show_hidden(results, batch) for batch in batches
            ),
            "one state right after their erasure does not": significance.every(
                significance.show_more_often(share * _count_sets(results, batch), _count_sets(results, batch), GAMMA)
                for batch, share in first.items()
            ),
            "all states since the erasure together do not, at any age": significance.every(
                significance.show_more_often(share * _count_sets(results, batch), _count_sets(results, batch), GAMMA)
                for batch in batches
                for share in whole[batch]
            ),
            "the share for all states never falls below that right after the erasure": all(
                share >= whole[batch][0] for batch in batches for share in whole[batch]
            ),
            "extreme records take longer": significance.every(
                significance.show_greater(gap, 0.0) for gap in delays.values()
            ),
        },
        f"For one state, epsilon is shown to be above {EPSILON:g} in less than {100.0 * GAMMA:g}% of the data after "
        f"{summary}; right after the erasure, it is in {100.0 * max(first.values()):.0f}%. For all "
        f"states since the erasure together it is in {100.0 * max(shares[-1] for shares in whole.values()):.0f}%, "
        "at any age: the first state already reveals the record. So this is random differential privacy of a single "
        f"late state, and no more. For a record of {EXTREME:g} deviations it takes "
        f"{max(gap.mid for gap in delays.values()):.1f} more updates.",
        {
            "epsilon": EPSILON,
            "gamma": GAMMA,
            **{f"updates needed with batches of {batch}": age for batch, age in ages.items()},
        },
    )


def _count_sets(results: Results, batch: int) -> int:
    """The number of data sets."""
    return DATA[batch] * len(results.where(record=RANDOM, batch=batch))


def _find_hidden_age(results: Results, batch: int) -> float:
    """The age from which epsilon is shown to be above 1 in less than gamma of the data; infinite if there is none."""
    shares, sets = _find_shares(results, record=RANDOM, batch=batch).mean, _count_sets(results, batch)
    shown = [significance.is_less_often(share * sets, sets, GAMMA) for share in shares]
    return next((float(age) for i, age in enumerate(AGES) if all(shown[i:])), math.inf)


def _show_hidden(results: Results, batch: int) -> significance.Shown:
    """Whether one late state hides random records; it is refuted if the last one is shown not to."""
    if _find_hidden_age(results, batch) < math.inf:
        return True
    sets = _count_sets(results, batch)
    last = _find_shares(results, record=RANDOM, batch=batch).mean[-1] * sets
    return False if significance.is_more_often(last, sets, GAMMA) else None


def _count_updates(results: Results, record: str, batch: int) -> Floats:
    """The number of updates with epsilon above 1, in each trial."""
    mine = results.where(record=record, batch=batch)
    counts: Floats = np.sum([mine[f"{ONE} {age}"] for age in AGES], axis=0)
    return counts[np.argsort(mine["trial"])]


EXPERIMENT = Experiment(
    name="random_dp",
    claim="One state of Algorithm 1, some updates after a record's own batch, satisfies random differential privacy; "
    "all states since the erasure together do not, at any age.",
    source="Related work; Appendix D",
    grid=grid(record=(RANDOM, EXTREME_RECORD), batch=BATCHES),
    run_trial=_run_trial,
    draw_figure=_draw_figure,
    find_verdict=_find_verdict,
    parts={"halves": list_halves, "nearest": find_nearest},
    trials=20,
    quick=lambda point: point["batch"] == BATCHES[0],
    quick_trials=8,
)
