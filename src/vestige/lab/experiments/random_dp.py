"""One late look at Algorithm 1's state hides a record like any other; all states after its erasure together never do.

Immorlica et al. (2024), related work: the algorithm "respects certain notions of random differential privacy", but not
full differential privacy. Hall, Rinaldo and Wasserman (2011): (epsilon, gamma)-random differential privacy asks for
epsilon but for a share of gamma of the data that are drawn. The paper names neither; the usual 1 and 5% are tried.
Nothing is sampled but the data: which half of a batch is learned from is all that chance decides, so that the chances
of all states follow exactly, batch by batch, in both worlds; epsilon is the largest log ratio of them. Records are
normal, and one of the first batch is replaced: by another draw, or by an extreme value.
Two looks are asked about. One state, so many updates after the record's own batch: its epsilon falls with the age. And
all states from the erasure on, jointly: how a state moves on is the same in both worlds, so that the ratio of chances
of a whole history is that of its first state, and later ones take nothing back.
Limits: gamma, by the binomial law over the data; and that an extreme record takes longer, by Student's t over pairs.
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
BATCHES, AGES, DATA = (6, 8), tuple(range(1, 13)), 20
DRAWN, CHOSEN = "drawn", "extreme"
ONE, ALL = "after", "together"
EXTREME = 1_000.0
Finder = Callable[[Floats, Floats], Ints]


def halves(batch: int) -> Bools:
    """Which records each half is kept from that chance may choose; shape (choices, batch)."""
    chosen = list(combinations(range(batch), batch - batch // 2))
    kept = np.zeros((len(chosen), batch), np.bool_)
    for row, records in zip(kept, chosen, strict=True):
        row[list(records)] = True
    return kept


def nearest(averages: Floats, targets: Floats) -> Ints:
    """For each target the place of the nearest average; shapes (choices, subsets) and (states, choices)."""
    found: Ints = np.abs(averages[None] - targets[:, :, None]).argmin(axis=2)
    return found


@dataclass(frozen=True, slots=True, eq=False)
class Choices:
    """What chance may choose in a batch, and what may be kept then.

    Attributes:
        subsets: all sets of records, by number; shape (2^batch, batch).
        learned: which records each choice learns from, as weights; shape (choices, batch).
        inside: the numbers of the subsets that it may keep, the empty one left out; shape (choices, subsets).
    """

    subsets: Bools
    learned: Floats
    inside: Ints

    @classmethod
    def of(cls, kept: Bools) -> Choices:
        """All that follows from which half is kept from."""
        subsets = (np.arange(2 ** kept.shape[1])[:, None] >> np.arange(kept.shape[1]) & 1).astype(np.bool_)
        inside = np.array([np.flatnonzero(~(subsets & ~half).any(axis=1))[1:] for half in kept])
        return cls(subsets, ~kept / (~kept).sum(axis=1, keepdims=True), inside)


def landings(estimates: Floats, averages: Floats, rows: Floats, weight: float, choices: Choices, find: Finder) -> Ints:
    """To which subset of a batch each state leads by each choice, in one round of Algorithm 1; shape (choices, states).

    Args:
        estimates: what the states before it say.
        averages: of all subsets of the batch.
        rows: the batch.
        weight: of the step.
        choices: in the batch.
        find: `nearest`, or what takes its place.
    """
    targets = estimates[:, None] + weight * (choices.learned @ rows - estimates[:, None])
    return np.take_along_axis(choices.inside, find(averages[choices.inside], targets).T, axis=1)


def stepped(
    estimates: Floats, chances: Floats, averages: Floats, rows: Floats, weight: float, choices: Choices, find: Finder
) -> Floats:
    """The chance of each subset of a batch to be the state, after one round; shape (2^batch,); see `landings`."""
    states = landings(estimates, averages, rows, weight, choices, find)
    share = np.broadcast_to(chances / len(choices.inside), states.shape)
    return np.bincount(states.ravel(), share.ravel(), len(averages)).astype(np.float64)


def epsilons(rows: Floats, value: float, choices: Choices, find: Finder) -> tuple[Floats, Floats]:
    """Epsilon after each batch but the first, if the very first record has another value; infinite where it is.

    Returns:
        that of the state after each batch, alone; and that of all states up to it, jointly.
    """
    worlds = [(np.array([np.mean([first, *rows[0, 1:]])]), np.ones(1)) for first in (rows[0, 0], value)]
    sizes = np.maximum(choices.subsets.sum(axis=1), 1)
    alone, together = [], []
    before, reach = np.empty(0), np.empty(0)  # states in either world, and the largest ratio of a history up to each
    for k, batch in enumerate(rows[1:], 2):
        averages = choices.subsets @ batch / sizes
        found = [stepped(*world, averages, batch, 1.0 / k, choices, find) for world in worlds]
        there = (found[0] > 0.0) | (found[1] > 0.0)
        with np.errstate(divide="ignore"):
            ratios = np.abs(np.log(found[0][there]) - np.log(found[1][there]))
        if len(before):  # how a state moves on is the same in both worlds, so that ratios are handed on as they are
            states = landings(before, averages, batch, 1.0 / k, choices, find)
            moved = np.zeros(len(averages))
            np.maximum.at(moved, states, np.broadcast_to(reach, states.shape))
        alone.append(ratios.max())
        before, reach = averages[there], moved[there] if len(before) else ratios
        together.append(reach.max())
        worlds = [(averages[chances > 0.0], chances[chances > 0.0]) for chances in found]
    return np.array(alone), np.array(together)


def _run_trial(point: Point, rng: np.random.Generator, parts: Parts) -> dict[str, float]:
    """In what share of some sets of data epsilon is above 1: of one look, and of all states since the erasure."""
    above, choices = np.zeros((2, len(AGES))), Choices.of(parts["halves"](int(point["batch"])))
    for _ in range(DATA):
        rows, value = rng.normal(size=(len(AGES) + 1, int(point["batch"]))), float(rng.normal())
        if point["record"] == CHOSEN:
            value = EXTREME
        above += np.array(epsilons(rows, value, choices, parts["nearest"])) > EPSILON
    alone, together = above / DATA
    return {
        f"{look} {age}": float(shares[i])
        for look, shares in ((ONE, alone), (ALL, together))
        for i, age in enumerate(AGES)
    }


def _shares(results: Results, look: str = ONE, **fixed: str | float) -> Series:
    """The share of data with a larger epsilon, against age."""
    mine = results.where(**fixed)
    found = [(mine.mean(f"{look} {age}"), mine.standard_error(f"{look} {age}")) for age in AGES]
    return Series(np.array(AGES, np.float64), *np.array(found).T)


def _draw_figure(results: Results, figure: Figure) -> None:
    """The share of data with a larger epsilon, against the updates since the record's own batch."""
    axes = figure.add_subplot(
        xlabel="updates since the record's own batch; the first erases it",
        ylabel="share of data with epsilon above 1 (%)",
        ylim=(-2.0, 104.0),
    )
    for i, (record, batch) in enumerate((record, batch) for record in (DRAWN, CHOSEN) for batch in BATCHES):
        shares = _shares(results, record=record, batch=batch)
        label = f"{'drawn record' if record == DRAWN else 'extreme record'}, batches of {batch}"
        figures.draw_curve(
            axes, "", Series(shares.x, 100.0 * shares.mean, 100.0 * shares.standard_error), number=i, label=label
        )
        if record == DRAWN:
            all_of_them = _shares(results, ALL, record=record, batch=batch)
            axes.plot(all_of_them.x, 100.0 * all_of_them.mean, color=COLOURS[i], ls=":", lw=1.4)
    axes.plot([], [], color=INK, ls=":", lw=1.4, label="drawn, all states so far together")
    figures.draw_level(axes, "bound", 100.0 * GAMMA, f"gamma = {100.0 * GAMMA:g}%")
    axes.set_xticks(AGES)
    figures.draw_legend(figure, axes, columns=2)


def _find_verdict(results: Results) -> Verdict:
    """One look hides drawn records at last, not at once, and extreme ones later; all looks together never do."""
    batches = results.values("batch")
    ages = {batch: _hidden_from(results, batch) for batch in batches}
    first = {batch: _shares(results, record=DRAWN, batch=batch).mean[0] for batch in batches}
    whole = {batch: _shares(results, ALL, record=DRAWN, batch=batch).mean for batch in batches}
    longer = {
        batch: significance.confidence_interval(_told(results, CHOSEN, batch) - _told(results, DRAWN, batch))
        for batch in batches
    }
    told = ", ".join(f"{age:g} updates with batches of {batch}" for batch, age in ages.items())
    return Verdict.from_checks(
        {
            "one late look hides records that are drawn": all(age < math.inf for age in ages.values()),
            "but not right after their erasure": all(
                significance.is_more_often(share * _sets(results, batch), _sets(results, batch), GAMMA)
                for batch, share in first.items()
            ),
            "all states since the erasure together do not, and never will": all(
                significance.is_more_often(whole[batch][i] * _sets(results, batch), _sets(results, batch), GAMMA)
                and whole[batch][i] >= whole[batch][0]
                for batch in batches
                for i in range(len(AGES))
            ),
            "and extreme ones take longer": all(gap.low > 0.0 for gap in longer.values()),
        },
        f"For one look at the state, epsilon is above {EPSILON:g} in less than {100.0 * GAMMA:g}% of the data, as is "
        f"shown, from {told} on; right after the erasure, it is so in {100.0 * max(first.values()):.0f}%. For all "
        f"states since the erasure together it is so in {100.0 * max(shares[-1] for shares in whole.values()):.0f}%, "
        "however long one waits: whoever saw the first state forgets nothing. So this is random differential privacy "
        f"of a single late look, and of nothing more. A record of {EXTREME:g} deviations is told so for "
        f"{max(gap.mid for gap in longer.values()):.1f} updates longer.",
        {
            "epsilon": EPSILON,
            "gamma": GAMMA,
            **{f"updates needed with batches of {batch}": age for batch, age in ages.items()},
        },
    )


def _sets(results: Results, batch: int) -> int:
    """How many sets of data were drawn."""
    return DATA * len(results.where(record=DRAWN, batch=batch))


def _hidden_from(results: Results, batch: int) -> float:
    """The age from which on epsilon is shown to be above 1 in less than gamma of the data; infinite if none is."""
    shares, sets = _shares(results, record=DRAWN, batch=batch).mean, _sets(results, batch)
    shown = [significance.is_less_often(share * sets, sets, GAMMA) for share in shares]
    return next((float(age) for i, age in enumerate(AGES) if all(shown[i:])), math.inf)


def _told(results: Results, record: str, batch: int) -> Floats:
    """For how many updates epsilon is above 1, in each trial."""
    mine = results.where(record=record, batch=batch)
    made: Floats = np.sum([mine[f"after {age}"] for age in AGES], axis=0)
    return made[np.argsort(mine["trial"])]


EXPERIMENT = Experiment(
    name="random_dp",
    claim="One look at Algorithm 1's state, some updates after a record's own batch, respects random differential "
    "privacy, for data as they come; all states since the erasure together do not, at any age.",
    source="Related work; Appendix D",
    grid=grid(record=(DRAWN, CHOSEN), batch=BATCHES),
    run_trial=_run_trial,
    draw_figure=_draw_figure,
    find_verdict=_find_verdict,
    parts={"halves": halves, "nearest": nearest},
    trials=20,
    quick=lambda point: point["batch"] == BATCHES[0],
    quick_trials=8,
)
