"""The batch that is needed grows with the logarithm of 1 / error and in proportion to the dimension.

Theorem 3.1 and Theorem 3.6 of Immorlica et al. (2024): the smallest batch with which the mean of normals is found as
well as N records together tell it, with error d / N: by a window, which needs N; by the coordinate-wise algorithm,
after the 4 d N records that `vestige.theory` gives it; by `Mean`, after 1.1 N; beside theorem and lower bound.
Presence bits are relative to zero, so that `Mean` is tried at means that lie far from it too; averages are not.
Limits: both theorems, the first with the constants of `vestige.theory`. And what bits may lose: rounding without bias
to steps of u has a variance of u^2 / 4 at most, and u is at most 2^-bits of the number; after K batches, a third of K
such variances are left. An average adds the square of its tolerance. So half of the records are not enough by far.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from vestige import theory
from vestige.channels.precision import mantissa_bits
from vestige.figures import find_style
from vestige.lab import figures, significance
from vestige.lab.baselines import MEANS, error_ratio, run_stream
from vestige.lab.experiment import Experiment, Parts, Point, Verdict, grid
from vestige.lab.results import Results

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PAPER, OURS = "coordinate-wise", ("Mean, average", "Mean, auto")
DIMS, AT = (1, 2, 4, 8), 1_000
EQUALS = (100, 1_000, 10_000, 100_000, 1_000_000)  # N
MEANS_TRIED, FAR_EQUALS = (0.0, 17.3, 987.6), (1_000, 10_000, 1_000_000)  # deviations from zero; none is round
AUTO, BITS = "Mean, auto", "Mean, bits"
SEGMENTS = (6, 8, 10, 12, 14, 16, 20, 24, 28, 32, 36, 40, 48)
BITS_FROM = 28
SEARCHED = {100: 32, 1_000: 32, 10_000: 40}  # records for each number, where all subsets are tried in seconds
HOPELESS = {1_000: 10, 10_000: 10, 100_000: 14, 1_000_000: 20}  # fewer records for each number are not tried
SLACK = 1.1
TOLERANCE = 0.03


def _records(policy: str, dim: int, equal: int) -> int:
    """How many records a policy is given to be as good as `equal` of them."""
    return theory.mean_rounds(dim, dim / equal) if policy == PAPER else round(SLACK * equal)


def _run_trial(point: Point, rng: np.random.Generator, parts: Parts) -> dict[str, float]:
    """The error that one stream's answer stands for, in that of N records."""
    policy, dim, equal = str(point["policy"]), int(point["dim"]), int(point["equal"])
    batch = dim * int(point["segment"])
    length = -(-_records(policy, dim, equal) // batch) * batch
    rows = float(point["mean"]) + rng.normal(size=(length, dim))
    answer = run_stream(parts[policy](dim), rows, 2 * batch, rng)  # the same states as in batches, and faster
    over = error_ratio(answer, rows, dim)
    return {"error": over * equal / length, "lost": over - 1.0}


def needed(results: Results, policies: tuple[str, ...], dim: int, equal: int, mean: float = 0.0) -> float:
    """The smallest batch with which one of the policies does, if none that is larger is shown not to; or infinity."""
    found = math.inf
    for policy in policies:
        mine = results.where(policy=policy, dim=dim, equal=equal, mean=mean)
        for segment in reversed(mine.values("segment")):
            errors = mine.where(segment=segment)["error"]
            if significance.is_above(errors, 1.0, dim):
                break
            if errors.mean() <= 1.0:
                found = min(found, float(dim * segment))
    return found


def most_lost(policy: str, equal: int, segment: int, mean: float) -> float:
    """What writing may add at most to the squared error of all data, in one dimension, as a multiple of it."""
    records = SLACK * equal
    batches = math.ceil(records / segment)
    squares = (batches + 1) * (2 * batches + 1) / (6.0 * batches) * mean**2 + (batches + 1) / (2.0 * batches * segment)
    rounded = records * squares * 4.0 ** -mantissa_bits(segment) / 4.0
    return rounded + (TOLERANCE**2 if policy == AUTO else 0.0)


def _draw_figure(results: Results, figure: Figure) -> None:
    """The batch needed against N at dimension 1, and against the dimension at one N."""
    left, right = figure.subplots(1, 2, width_ratios=(3, 2))
    left.set(
        xlabel="d / error (= N records)",
        ylabel="batch needed (records);\nbars reach to the next smaller one tried",
        title="dimension 1",
    )
    right.set(xlabel="dimension d", title=f"N = {AT:,}, mean 0")
    _lines(left, results, [(1, n) for n in EQUALS], list(EQUALS))
    _lines(right, results, [(dim, AT) for dim in DIMS], list(DIMS))
    left.set_xticks(EQUALS, [f"$10^{round(math.log10(n))}$" for n in EQUALS])
    right.set_xticks(DIMS, [str(dim) for dim in DIMS])
    for i, mean in enumerate(MEANS_TRIED[1:], 1):
        found = np.array([needed(results, (AUTO,), 1, n, mean) for n in FAR_EQUALS])
        there = np.isfinite(found)
        style, x = find_style("", i), np.array(FAR_EQUALS)[there] * 1.15**i
        axes_label = f"auto, mean {mean:g}"
        left.plot(x, found[there], color=style.colour, marker=style.marker, ls="none", label=axes_label)
    for axes in (left, right):
        axes.xaxis.minorticks_off()
    figures.draw_legend(figure, left, columns=2)


def _lines(axes: Axes, results: Results, places: list[tuple[int, int]], x: list[int]) -> None:
    axes.set(xscale="log", yscale="log")
    figures.draw_reference(
        axes, "window", x, [theory.window_retention(d, d / n) for d, n in places], "window (exactly N)"
    )
    figures.draw_reference(axes, "bound", x, [_asked(d, n) for d, n in places], "Theorem 3.1")
    figures.draw_reference(axes, "lower bound", x, [theory.finite_lower_bound(d, d / n) for d, n in places])
    for name, policies in ((PAPER, (PAPER,)), ("Mean, auto", OURS)):
        found = np.array([needed(results, policies, d, n) for d, n in places])
        short = np.array([_smaller(m, d) for m, (d, _) in zip(found, places, strict=True)])
        style, there = find_style(name), np.isfinite(found)
        axes.errorbar(
            np.array(x)[there], found[there], (short[there], np.zeros(there.sum())), color=style.colour,
            marker=style.marker, label=name.split(",")[0], capsize=2, elinewidth=1,
        )  # fmt: skip


def _smaller(batch: float, dim: int) -> float:
    """By how much the next smaller batch is smaller that was tried."""
    return batch - dim * max((segment for segment in SEGMENTS if dim * segment < batch), default=0)


def _asked(dim: int, equal: int) -> int:
    """The batch that Theorem 3.1 asks for."""
    return theory.mean_retention(dim, dim / equal) // 2


def _find_verdict(results: Results) -> Verdict:
    """Between the lower bound and the theorem, and by how much."""
    near = results.where(mean=0.0)
    tried = sorted(set(zip(near["dim"].tolist(), near["equal"].tolist(), strict=True)) - _only_bits(near))
    published = {p: needed(results, (PAPER,), *p) for p in tried if len(_paper(results, *p))}
    ours = {place: needed(results, OURS, *place) for place in tried}
    least = {(d, n): theory.finite_lower_bound(d, d / n) for d, n in tried}
    hardest = {dim: max(n for d, n in tried if d == dim) for dim in results.values("dim")}
    most = results.where(policy=AUTO, mean=MEANS_TRIED[-1]).values("equal")[-1]
    means = results.where(policy=AUTO, equal=most, dim=1).values("mean")
    far = {mean: tuple(needed(results, (name,), 1, most, mean) for name in (AUTO, BITS)) for mean in means}
    wrong = sorted(_too_much_lost(results))
    told = "; ".join(
        f"{ours[d, n]:g} at dimension {d} for {n:,} (lower bound {least[d, n]}, theorem {_asked(d, n)})"
        for d, n in hardest.items()
    )
    return Verdict.from_checks(
        {
            "Mean needs at most what the theorem asks for": all(ours[p] <= _asked(*p) for p in tried),
            "so does the coordinate-wise algorithm": all(m <= _asked(*p) for p, m in published.items()),
            f"bits lose no more than they round off, at any mean{_listed(wrong)}": not wrong,
            "nobody needs less than the lower bound": all(
                min(ours[p], published.get(p, math.inf)) >= least[p] for p in tried
            ),
        },
        f"To be as good as N records with mean 0, Mean needs a batch of {told}. The bounds are for all means, and "
        f"so is what the coordinate-wise algorithm needs; auto and bits need more far from zero, for {most:,}: "
        + ", ".join(f"{auto:g} and {bits:g} at {mean:g} deviations" for mean, (auto, bits) in far.items())
        + ". The coordinate-wise algorithm needs "
        + ", ".join(f"{m:g} at dimension {d} for {n:,}" for (d, n), m in published.items())
        + ". What limits them is the rare batch that has no subset near the target; from 28 records for each number "
        "on, bits step in for Mean.",
        {
            **{f"batch over lower bound, dimension {d}, mean 0": ours[d, n] / least[d, n] for d, n in hardest.items()},
            f"and dimension 1, mean {means[-1]:g}, N = {most:,}, auto": far[means[-1]][0]
            / theory.finite_lower_bound(1, 1 / most),
        },
    )


def _only_bits(results: Results) -> set[tuple[int, int]]:
    """Places where only bits and auto were tried: they are for what is lost, not for what is needed."""
    known = results.where(policy=OURS[0])
    others = set(zip(known["dim"].tolist(), known["equal"].tolist(), strict=True))
    return set(zip(results["dim"].tolist(), results["equal"].tolist(), strict=True)) - others


def _too_much_lost(results: Results) -> set[tuple[str, int, int, float]]:
    """Where more is shown to be lost than bits can round off and averages may be off."""
    found = set()
    for policy in (AUTO, BITS):
        mine = results.where(policy=policy, dim=1)
        for place in set(zip(*(mine[name].tolist() for name in ("equal", "segment", "mean")), strict=True)):
            lost = mine.where(equal=place[0], segment=place[1], mean=place[2])["lost"]
            if significance.is_above(lost, most_lost(policy, *place)):
                found.add((policy, *place))
    return found


def _listed(wrong: list[tuple[str, int, int, float]]) -> str:
    """The first place of some, for a sentence."""
    if not wrong:
        return ""
    policy, equal, segment, mean = wrong[0]
    return f" (first {policy} for {equal:,} at {segment} records, mean {mean:g})"


def _paper(results: Results, dim: int, equal: int) -> Results:
    return results.where(policy=PAPER, dim=dim, equal=equal)


def _worth_trying(point: Point) -> bool:
    """Along one axis at a time; and not where it is hopeless, or would take hours."""
    policy, dim, equal, segment = str(point["policy"]), int(point["dim"]), int(point["equal"]), int(point["segment"])
    if policy == BITS or point["mean"] != 0.0:  # of others, what is needed does not depend on the mean
        return policy in (AUTO, BITS) and dim == 1 and equal in FAR_EQUALS and segment >= BITS_FROM
    if dim > 1 and equal != AT:
        return False
    if policy == PAPER and segment > SEARCHED.get(equal, 0):
        return False
    return segment >= (BITS_FROM if policy == "Mean, auto" else HOPELESS.get(equal, SEGMENTS[0]))


def _quick(point: Point) -> bool:
    if point["equal"] == FAR_EQUALS[1]:
        return point["policy"] in (AUTO, BITS) and point["mean"] != MEANS_TRIED[1] and point["segment"] in (28, 40)
    dims = (1,) if point["policy"] == PAPER else (1, 2)
    return (
        point["equal"] == AT and point["mean"] == 0.0 and point["dim"] in dims and point["segment"] in (16, 24, 28, 32)
    )


EXPERIMENT = Experiment(
    name="required_batch",
    claim="The batch that is needed grows with log(1 / error) and in proportion to the dimension; at mean 0 it lies "
    "between the lower bound and what the theorem asks for, and far from zero bits need more.",
    source="Theorems 3.1 and 3.6",
    grid=tuple(
        filter(
            _worth_trying,
            grid(policy=(PAPER, *OURS, BITS), dim=DIMS, equal=EQUALS, segment=SEGMENTS, mean=MEANS_TRIED),
        )
    ),
    run_trial=_run_trial,
    draw_figure=_draw_figure,
    find_verdict=_find_verdict,
    parts=MEANS,
    trials=16,
    quick=_quick,
    quick_trials=4,
)
