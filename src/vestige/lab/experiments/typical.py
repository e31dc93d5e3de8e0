"""A record like any other fades from Algorithm 1's state, for data as they come; right after its erasure it does not.

Immorlica et al. (2024), related work: the algorithm "respects certain notions of random differential privacy", but not
full differential privacy. Hall, Rinaldo and Wasserman (2011): (epsilon, gamma)-random differential privacy asks for
epsilon but for a share of gamma of the data that are drawn. The paper names neither; the usual 1 and 5% are tried.
Nothing is sampled but the data: which half of a batch is learned from is all that chance decides, so that the chances
of all states follow exactly, batch by batch, in both worlds; epsilon is the largest log ratio of them. Records are
normal, and one of the first batch is replaced: by another draw, or by an extreme value.
Limits: gamma, by the binomial law over the data; and that an extreme record takes longer, by Student's t over pairs.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from vestige.lab import judging, plotting
from vestige.lab.experiment import Experiment, Parts, Point, Verdict, grid
from vestige.lab.results import Results, Series
from vestige.records import Bools, Floats, Ints

if TYPE_CHECKING:
    from matplotlib.figure import Figure

EPSILON, GAMMA = 1.0, 0.05
BATCHES, AGES, DATA = (6, 8), tuple(range(1, 13)), 20
DRAWN, CHOSEN = "drawn", "extreme"
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


def stepped(
    estimates: Floats, chances: Floats, averages: Floats, rows: Floats, weight: float, choices: Choices, find: Finder
) -> Floats:
    """The chance of each subset of a batch to be the state, after one round of Algorithm 1; shape (2^batch,).

    Args:
        estimates: what the states before it say.
        chances: of these states.
        averages: of all subsets of the batch.
        rows: the batch.
        weight: of the step.
        choices: in the batch.
        find: `nearest`, or what takes its place.
    """
    targets = estimates[:, None] + weight * (choices.learned @ rows - estimates[:, None])
    states = np.take_along_axis(choices.inside, find(averages[choices.inside], targets).T, axis=1)
    share = np.broadcast_to(chances / len(choices.inside), states.shape)
    return np.bincount(states.ravel(), share.ravel(), len(averages)).astype(np.float64)


def epsilons(rows: Floats, value: float, choices: Choices, find: Finder) -> Floats:
    """Epsilon after each batch but the first, if the very first record has another value; infinite where it is."""
    worlds = [(np.array([np.mean([first, *rows[0, 1:]])]), np.ones(1)) for first in (rows[0, 0], value)]
    sizes = np.maximum(choices.subsets.sum(axis=1), 1)
    made = []
    for k, batch in enumerate(rows[1:], 2):
        averages = choices.subsets @ batch / sizes
        found = [stepped(*world, averages, batch, 1.0 / k, choices, find) for world in worlds]
        there = (found[0] > 0.0) | (found[1] > 0.0)
        with np.errstate(divide="ignore"):
            made.append(np.abs(np.log(found[0][there]) - np.log(found[1][there])).max())
        worlds = [(averages[chances > 0.0], chances[chances > 0.0]) for chances in found]
    return np.array(made)


def trial(point: Point, rng: np.random.Generator, parts: Parts) -> dict[str, float]:
    """In what share of some sets of data epsilon is above 1, so many updates after the record's own batch."""
    above, choices = np.zeros(len(AGES)), Choices.of(parts["halves"](int(point["batch"])))
    for _ in range(DATA):
        rows, value = rng.normal(size=(len(AGES) + 1, int(point["batch"]))), float(rng.normal())
        if point["record"] == CHOSEN:
            value = EXTREME
        above += epsilons(rows, value, choices, parts["nearest"]) > EPSILON
    return {f"after {age}": float(share) for age, share in zip(AGES, above / DATA, strict=True)}


def _shares(results: Results, **fixed: str | float) -> Series:
    """The share of data with a larger epsilon, against age."""
    mine = results.where(**fixed)
    found = [(mine.mean(f"after {age}"), mine.error(f"after {age}")) for age in AGES]
    return Series(np.array(AGES, np.float64), *np.array(found).T)


def figure(results: Results, drawn: Figure) -> None:
    """The share of data with a larger epsilon, against the updates since the record's own batch."""
    axes = drawn.add_subplot(
        xlabel="updates since the record's own batch; the first erases it",
        ylabel="share of data with epsilon above 1 (%)",
        ylim=(-2.0, 104.0),
    )
    for i, (record, batch) in enumerate((record, batch) for record in (DRAWN, CHOSEN) for batch in BATCHES):
        shares = _shares(results, record=record, batch=batch)
        label = f"{'drawn record' if record == DRAWN else 'extreme record'}, batches of {batch}"
        plotting.curve(axes, "", Series(shares.x, 100.0 * shares.mean, 100.0 * shares.error), number=i, label=label)
    plotting.level(axes, "bound", 100.0 * GAMMA, f"gamma = {100.0 * GAMMA:g}%")
    axes.set_xticks(AGES)
    plotting.legend(drawn, axes, columns=2)


def verdict(results: Results) -> Verdict:
    """Hidden at last where records are drawn, but not at once; and later where one is extreme."""
    batches = results.values("batch")
    ages = {batch: _hidden_from(results, batch) for batch in batches}
    first = {batch: _shares(results, record=DRAWN, batch=batch).mean[0] for batch in batches}
    longer = {
        batch: judging.interval(_told(results, CHOSEN, batch) - _told(results, DRAWN, batch)) for batch in batches
    }
    told = ", ".join(f"{age:g} updates with batches of {batch}" for batch, age in ages.items())
    return Verdict.of(
        {
            "records that are drawn are hidden at last": all(age < math.inf for age in ages.values()),
            "but not right after their erasure": all(
                judging.more_often(share * _sets(results, batch), _sets(results, batch), GAMMA)
                for batch, share in first.items()
            ),
            "and extreme ones take longer": all(gap.low > 0.0 for gap in longer.values()),
        },
        f"Epsilon is above {EPSILON:g} in less than {100.0 * GAMMA:g}% of the data, as is shown, from {told} on; "
        f"right after the erasure, it is so in {100.0 * max(first.values()):.0f}%, so that there is no differential "
        f"privacy. A record of {EXTREME:g} deviations is told so for {max(gap.mid for gap in longer.values()):.1f} "
        "updates longer.",
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
    shown = [judging.less_often(share * sets, sets, GAMMA) for share in shares]
    return next((float(age) for i, age in enumerate(AGES) if all(shown[i:])), math.inf)


def _told(results: Results, record: str, batch: int) -> Floats:
    """For how many updates epsilon is above 1, in each trial."""
    mine = results.where(record=record, batch=batch)
    made: Floats = np.sum([mine[f"after {age}"] for age in AGES], axis=0)
    return made[np.argsort(mine["trial"])]


EXPERIMENT = Experiment(
    name="typical",
    claim="From some updates after a record's own batch on, Algorithm 1 respects random differential privacy, for data "
    "as they come; but no differential privacy.",
    source="Related work; Appendix D",
    grid=grid(record=(DRAWN, CHOSEN), batch=BATCHES),
    trial=trial,
    figure=figure,
    verdict=verdict,
    parts={"halves": halves, "nearest": nearest},
    trials=20,
    quick=lambda point: point["batch"] == BATCHES[0],
    quick_trials=8,
)
