"""The batch that is needed grows with the logarithm of 1 / error and in proportion to the dimension.

Theorem 3.1 and Theorem 3.6 of Immorlica et al. (2024): the smallest batch with which the mean of normals is found as
well as N records together tell it, with error d / N: by a window, which needs N; by the coordinate-wise algorithm,
after the 4 d N records that `vestige.theory` gives it; by `Mean`, after 1.1 N; beside theorem and lower bound.
Limits: both theorems, the first with the constants of `vestige.theory`.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from vestige import theory
from vestige.lab import judging, plotting
from vestige.lab.contenders import MEANS, answered, over_all_data
from vestige.lab.experiment import Experiment, Parts, Point, Verdict, grid
from vestige.lab.results import Results
from vestige.palette import look

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PAPER, OURS = "coordinate-wise", ("Mean, average", "Mean, auto")
DIMS, AT = (1, 2, 4, 8), 1_000
EQUALS = (100, 1_000, 10_000, 100_000, 1_000_000)  # N
SEGMENTS = (6, 8, 10, 12, 14, 16, 20, 24, 28, 32, 40)
BITS_FROM = 28
SEARCHED = {100: 32, 1_000: 32, 10_000: 40}  # records for each number, where all subsets are tried in seconds
HOPELESS = {1_000: 10, 10_000: 10, 100_000: 14, 1_000_000: 20}  # fewer records for each number are not tried
SLACK = 1.1


def _records(policy: str, dim: int, equal: int) -> int:
    """How many records a policy is given to be as good as `equal` of them."""
    return theory.mean_rounds(dim, dim / equal) if policy == PAPER else round(SLACK * equal)


def trial(point: Point, rng: np.random.Generator, parts: Parts) -> dict[str, float]:
    """The error that one stream's answer stands for, in that of N records."""
    policy, dim, equal = str(point["policy"]), int(point["dim"]), int(point["equal"])
    batch = dim * int(point["segment"])
    length = -(-_records(policy, dim, equal) // batch) * batch
    rows = rng.normal(size=(length, dim))
    answer = answered(parts[policy](dim), rows, 2 * batch, rng)  # the same states as in batches, and faster
    return {"error": over_all_data(answer, rows, dim) * equal / length}


def needed(results: Results, policies: tuple[str, ...], dim: int, equal: int) -> float:
    """The smallest batch with which one of the policies does, if none that is larger is shown not to; or infinity."""
    found = math.inf
    for policy in policies:
        mine = results.where(policy=policy, dim=dim, equal=equal)
        for segment in reversed(mine.values("segment")):
            errors = mine.where(segment=segment)["error"]
            if judging.above(errors, 1.0, dim):
                break
            if errors.mean() <= 1.0:
                found = min(found, float(dim * segment))
    return found


def figure(results: Results, drawn: Figure) -> None:
    """The batch needed against N at dimension 1, and against the dimension at one N."""
    left, right = drawn.subplots(1, 2, width_ratios=(3, 2))
    left.set(
        xlabel="d / error (= N records)",
        ylabel="batch needed (records);\nbars reach to the next smaller one tried",
        title="dimension 1",
    )
    right.set(xlabel="dimension d", title=f"N = {AT:,}")
    _lines(left, results, [(1, n) for n in EQUALS], list(EQUALS))
    _lines(right, results, [(dim, AT) for dim in DIMS], list(DIMS))
    left.set_xticks(EQUALS, [f"$10^{round(math.log10(n))}$" for n in EQUALS])
    right.set_xticks(DIMS, [str(dim) for dim in DIMS])
    for axes in (left, right):
        axes.xaxis.minorticks_off()
    plotting.legend(drawn, left)


def _lines(axes: Axes, results: Results, places: list[tuple[int, int]], x: list[int]) -> None:
    axes.set(xscale="log", yscale="log")
    plotting.reference(axes, "window", x, [theory.window_retention(d, d / n) for d, n in places], "window (exactly N)")
    plotting.reference(axes, "bound", x, [_asked(d, n) for d, n in places], "Theorem 3.1")
    plotting.reference(axes, "lower bound", x, [theory.finite_lower_bound(d, d / n) for d, n in places])
    for name, policies in ((PAPER, (PAPER,)), ("Mean, auto", OURS)):
        found = np.array([needed(results, policies, d, n) for d, n in places])
        short = np.array([_smaller(m, d) for m, (d, _) in zip(found, places, strict=True)])
        style, there = look(name), np.isfinite(found)
        axes.errorbar(
            np.array(x)[there], found[there], (short[there], np.zeros(there.sum())), color=style.colour,
            marker=style.mark, label=name.split(",")[0], capsize=2, elinewidth=1,
        )  # fmt: skip


def _smaller(batch: float, dim: int) -> float:
    """By how much the next smaller batch is smaller that was tried."""
    return batch - dim * max((segment for segment in SEGMENTS if dim * segment < batch), default=0)


def _asked(dim: int, equal: int) -> int:
    """The batch that Theorem 3.1 asks for."""
    return theory.mean_retention(dim, dim / equal) // 2


def verdict(results: Results) -> Verdict:
    """Between the lower bound and the theorem, and by how much."""
    tried = sorted(set(zip(results["dim"].tolist(), results["equal"].tolist(), strict=True)))
    published = {p: needed(results, (PAPER,), *p) for p in tried if len(_paper(results, *p))}
    ours = {place: needed(results, OURS, *place) for place in tried}
    least = {(d, n): theory.finite_lower_bound(d, d / n) for d, n in tried}
    hardest = {dim: max(n for d, n in tried if d == dim) for dim in results.values("dim")}
    told = "; ".join(
        f"{ours[d, n]:g} at dimension {d} for {n:,} (lower bound {least[d, n]}, theorem {_asked(d, n)})"
        for d, n in hardest.items()
    )
    return Verdict.of(
        {
            "Mean needs at most what the theorem asks for": all(ours[p] <= _asked(*p) for p in tried),
            "so does the coordinate-wise algorithm": all(m <= _asked(*p) for p, m in published.items()),
            "nobody needs less than the lower bound": all(
                min(ours[p], published.get(p, math.inf)) >= least[p] for p in tried
            ),
        },
        f"To be as good as N records, Mean needs a batch of {told}. The coordinate-wise algorithm needs "
        + ", ".join(f"{m:g} at dimension {d} for {n:,}" for (d, n), m in published.items())
        + ". What limits them is the rare batch that has no subset near the target; from 28 records for each number "
        "on, bits step in for Mean.",
        {f"batch over lower bound, dimension {d}": ours[d, n] / least[d, n] for d, n in hardest.items()},
    )


def _paper(results: Results, dim: int, equal: int) -> Results:
    return results.where(policy=PAPER, dim=dim, equal=equal)


def _worth_trying(point: Point) -> bool:
    """Along one axis at a time; and not where it is hopeless, or would take hours."""
    policy, dim, equal, segment = str(point["policy"]), int(point["dim"]), int(point["equal"]), int(point["segment"])
    if dim > 1 and equal != AT:
        return False
    if policy == PAPER and segment > SEARCHED.get(equal, 0):
        return False
    return segment >= (BITS_FROM if policy == "Mean, auto" else HOPELESS.get(equal, SEGMENTS[0]))


def _quick(point: Point) -> bool:
    dims = (1,) if point["policy"] == PAPER else (1, 2)
    return point["equal"] == AT and point["dim"] in dims and point["segment"] in (16, 24, 28, 32)


EXPERIMENT = Experiment(
    name="needed",
    claim="The batch that is needed grows with log(1 / error) and in proportion to the dimension; it lies between the "
    "lower bound and what the theorem asks for.",
    source="Theorems 3.1 and 3.6",
    grid=tuple(filter(_worth_trying, grid(policy=(PAPER, *OURS), dim=DIMS, equal=EQUALS, segment=SEGMENTS))),
    trial=trial,
    figure=figure,
    verdict=verdict,
    parts=MEANS,
    trials=16,
    quick=_quick,
    quick_trials=4,
)
