"""The required batch grows with the logarithm of 1 / error and in proportion to the dimension.

Theorem 3.1 and Theorem 3.6 of Immorlica et al. (2024): the smallest batch with which the error of the mean of normals
is that of N records, d / N: for a window, which requires N; for the coordinate-wise algorithm, after the 4 d N records
of `vestige.theory`; for `Mean`, after 1.1 N; beside the theorem and the lower bound. Presence bits are relative to
zero, so `Mean` is also tested at means far from it; averages do not depend on the mean.
Limits: both theorems, the first with the constants of `vestige.theory`. And the error of bits: unbiased rounding to
steps of u has a variance of at most u^2 / 4, and u is at most 2^-bits of the number; after K batches, a third of K such
variances is left. An average adds the square of its tolerance. Half of the records are far from enough for that.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from vestige import theory
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
TESTED_MEANS, FAR_EQUALS = (0.0, 17.3, 987.6), (1_000, 10_000, 1_000_000)  # deviations from zero; none is round
AUTO, BITS = "Mean, auto", "Mean, bits"
SEGMENTS = (6, 8, 10, 12, 14, 16, 20, 24, 28, 32, 36, 40, 48)
BITS_FROM = 28
SEARCHED = {100: 32, 1_000: 32, 10_000: 40}  # records for each number, where an exhaustive search takes seconds
TOO_FEW = {1_000: 10, 10_000: 10, 100_000: 14, 1_000_000: 20}  # fewer records for each number are not tested
SLACK = 1.1
TOLERANCE = 0.03


def _count_records(policy: str, dim: int, equal: int) -> int:
    """The number of records that a policy receives to be as good as `equal` of them."""
    return theory.mean_rounds(dim, dim / equal) if policy == PAPER else round(SLACK * equal)


def _run_trial(point: Point, rng: np.random.Generator, parts: Parts) -> dict[str, float]:
    """The error of one stream, in that of N records; and the part that encoding adds, in that of all data."""
    policy, dim, equal = str(point["policy"]), int(point["dim"]), int(point["equal"])
    batch = dim * int(point["segment"])
    length = -(-_count_records(policy, dim, equal) // batch) * batch
    rows = float(point["mean"]) + rng.normal(size=(length, dim))
    answer = run_stream(parts[policy](dim), rows, 2 * batch, rng)  # the same states as in batches, and faster
    ratio = error_ratio(answer, rows, dim)
    return {"error": ratio * equal / length, "added": ratio - 1.0}


def _find_batch(results: Results, policies: tuple[str, ...], dim: int, equal: int, mean: float = 0.0) -> float:
    """The smallest batch that is enough for one of the policies, if no larger one is refuted; or infinity."""
    smallest = math.inf
    for policy in policies:
        mine = results.where(policy=policy, dim=dim, equal=equal, mean=mean)
        for segment in reversed(mine.values("segment")):
            errors = mine.where(segment=segment)["error"]
            if significance.is_above(errors, 1.0, dim):
                break
            if errors.mean() <= 1.0:
                smallest = min(smallest, float(dim * segment))
    return smallest


def _find_largest_added(policy: str, equal: int, segment: int, mean: float) -> float:
    """The most that encoding may add to the squared error of all data in one dimension, as a multiple of it."""
    records = SLACK * equal
    batches = math.ceil(records / segment)
    squares = (batches + 1) * (2 * batches + 1) / (6.0 * batches) * mean**2 + (batches + 1) / (2.0 * batches * segment)
    rounded = records * squares * 4.0 ** -mantissa_bits(segment) / 4.0
    return rounded + (TOLERANCE**2 if policy == AUTO else 0.0)


def _draw_figure(results: Results, figure: Figure) -> None:
    """The required batch against N at dimension 1, and against the dimension at one N."""
    left, right = figure.subplots(1, 2, width_ratios=(3, 2))
    left.set(
        xlabel="d / error (= N records)",
        ylabel="required batch (records);\nbars extend to the next smaller one tested",
        title="dimension 1",
    )
    right.set(xlabel="dimension d", title=f"N = {AT:,}, mean 0")
    _draw_lines(left, results, [(1, n) for n in EQUALS], list(EQUALS))
    _draw_lines(right, results, [(dim, AT) for dim in DIMS], list(DIMS))
    left.set_xticks(EQUALS, [f"$10^{round(math.log10(n))}$" for n in EQUALS])
    right.set_xticks(DIMS, [str(dim) for dim in DIMS])
    for i, mean in enumerate(TESTED_MEANS[1:], 1):
        batches = np.array([_find_batch(results, (AUTO,), 1, n, mean) for n in FAR_EQUALS])
        finite = np.isfinite(batches)
        style, x = find_style("", i), np.array(FAR_EQUALS)[finite] * 1.15**i
        label = f"auto, mean {mean:g}"
        left.plot(x, batches[finite], color=style.colour, marker=style.marker, ls="none", label=label)
    for axes in (left, right):
        axes.xaxis.minorticks_off()
    figures.draw_legend(figure, left, columns=2)


def _draw_lines(axes: Axes, results: Results, places: list[tuple[int, int]], x: list[int]) -> None:
    axes.set(xscale="log", yscale="log")
    figures.draw_reference(
        axes, "window", x, [theory.window_retention(d, d / n) for d, n in places], "window (exactly N)"
    )
    figures.draw_reference(axes, "bound", x, [_find_theorem_batch(d, n) for d, n in places], "Theorem 3.1")
    figures.draw_reference(axes, "lower bound", x, [theory.finite_lower_bound(d, d / n) for d, n in places])
    for name, policies in ((PAPER, (PAPER,)), ("Mean, auto", OURS)):
        batches = np.array([_find_batch(results, policies, d, n) for d, n in places])
        gaps = np.array([_find_gap_below(m, d) for m, (d, _) in zip(batches, places, strict=True)])
        style, finite = find_style(name), np.isfinite(batches)
        axes.errorbar(
            np.array(x)[finite], batches[finite], (gaps[finite], np.zeros(finite.sum())), color=style.colour,
            marker=style.marker, label=name.split(",")[0], capsize=2, elinewidth=1,
        )  # fmt: skip


def _find_gap_below(batch: float, dim: int) -> float:
    """The difference to the next smaller batch that was tested."""
    return batch - dim * max((segment for segment in SEGMENTS if dim * segment < batch), default=0)


def _find_theorem_batch(dim: int, equal: int) -> int:
    """The batch that Theorem 3.1 asks for."""
    return theory.mean_retention(dim, dim / equal) // 2


def _find_verdict(results: Results) -> Verdict:
    """The required batch must lie between the lower bound and the theorem."""
    near = results.where(mean=0.0)
    places = sorted(set(zip(near["dim"].tolist(), near["equal"].tolist(), strict=True)) - _find_bits_only(near))
    published = {p: _find_batch(results, (PAPER,), *p) for p in places if len(_select_paper(results, *p))}
    ours = {place: _find_batch(results, OURS, *place) for place in places}
    least = {(d, n): theory.finite_lower_bound(d, d / n) for d, n in places}
    hardest = {dim: max(n for d, n in places if d == dim) for dim in results.values("dim")}
    most = results.where(policy=AUTO, mean=TESTED_MEANS[-1]).values("equal")[-1]
    means = results.where(policy=AUTO, equal=most, dim=1).values("mean")
    far = {mean: tuple(_find_batch(results, (name,), 1, most, mean) for name in (AUTO, BITS)) for mean in means}
    violations = sorted(_find_violations(results))
    summary = "; ".join(
        f"{ours[d, n]:g} at dimension {d} for {n:,} (lower bound {least[d, n]}, theorem {_find_theorem_batch(d, n)})"
        for d, n in hardest.items()
    )
    return Verdict.from_checks(
        {
            "Mean requires at most the batch of the theorem": all(ours[p] <= _find_theorem_batch(*p) for p in places),
            "so does the coordinate-wise algorithm": all(m <= _find_theorem_batch(*p) for p, m in published.items()),
            f"encoding adds no more error than rounding can, at any mean{_describe_first(violations)}": not violations,
            "no policy requires less than the lower bound": all(
                min(ours[p], published.get(p, math.inf)) >= least[p] for p in places
            ),
        },
        f"To be as good as N records with mean 0, Mean requires a batch of {summary}. The bounds are for all means, "
        f"and so is the batch of the coordinate-wise algorithm; auto and bits require more far from zero, for "
        f"{most:,}: "
        + ", ".join(f"{auto:g} and {bits:g} at {mean:g} deviations" for mean, (auto, bits) in far.items())
        + ". The coordinate-wise algorithm requires "
        + ", ".join(f"{m:g} at dimension {d} for {n:,}" for (d, n), m in published.items())
        + ". The limit is the rare batch without a subset near the target; with 28 or more records for each number, "
        "Mean then writes bits.",
        {
            **{f"batch over lower bound, dimension {d}, mean 0": ours[d, n] / least[d, n] for d, n in hardest.items()},
            f"batch over lower bound, dimension 1, mean {means[-1]:g}, N = {most:,}, auto": far[means[-1]][0]
            / theory.finite_lower_bound(1, 1 / most),
        },
    )


def _find_bits_only(results: Results) -> set[tuple[int, int]]:
    """Points where only bits and auto were tested: they are for the error of encoding, not for the required batch."""
    averages = results.where(policy=OURS[0])
    others = set(zip(averages["dim"].tolist(), averages["equal"].tolist(), strict=True))
    return set(zip(results["dim"].tolist(), results["equal"].tolist(), strict=True)) - others


def _find_violations(results: Results) -> set[tuple[str, int, int, float]]:
    """Points where encoding is shown to add more error than rounding and tolerance allow."""
    violations = set()
    for policy in (AUTO, BITS):
        mine = results.where(policy=policy, dim=1)
        for place in set(zip(*(mine[name].tolist() for name in ("equal", "segment", "mean")), strict=True)):
            added = mine.where(equal=place[0], segment=place[1], mean=place[2])["added"]
            if significance.is_above(added, _find_largest_added(policy, *place)):
                violations.add((policy, *place))
    return violations


def _describe_first(violations: list[tuple[str, int, int, float]]) -> str:
    """The first of some points, for a sentence."""
    if not violations:
        return ""
    policy, equal, segment, mean = violations[0]
    return f" (first {policy} for {equal:,} at {segment} records, mean {mean:g})"


def _select_paper(results: Results, dim: int, equal: int) -> Results:
    return results.where(policy=PAPER, dim=dim, equal=equal)


def _is_worth_testing(point: Point) -> bool:
    """Points along one axis at a time, without those that cannot succeed or would take hours."""
    policy, dim, equal, segment = str(point["policy"]), int(point["dim"]), int(point["equal"]), int(point["segment"])
    if policy == BITS or point["mean"] != 0.0:  # for others, the required batch does not depend on the mean
        return policy in (AUTO, BITS) and dim == 1 and equal in FAR_EQUALS and segment >= BITS_FROM
    if dim > 1 and equal != AT:
        return False
    if policy == PAPER and segment > SEARCHED.get(equal, 0):
        return False
    return segment >= (BITS_FROM if policy == "Mean, auto" else TOO_FEW.get(equal, SEGMENTS[0]))


def _is_quick(point: Point) -> bool:
    if point["equal"] == FAR_EQUALS[1]:
        return point["policy"] in (AUTO, BITS) and point["mean"] != TESTED_MEANS[1] and point["segment"] in (28, 40)
    dims = (1,) if point["policy"] == PAPER else (1, 2)
    return (
        point["equal"] == AT and point["mean"] == 0.0 and point["dim"] in dims and point["segment"] in (16, 24, 28, 32)
    )


EXPERIMENT = Experiment(
    name="required_batch",
    claim="The required batch grows with log(1 / error) and in proportion to the dimension; at mean 0 it lies between "
    "the lower bound and that of the theorem, and far from zero bits require more.",
    source="Theorems 3.1 and 3.6",
    grid=tuple(
        filter(
            _is_worth_testing,
            grid(policy=(PAPER, *OURS, BITS), dim=DIMS, equal=EQUALS, segment=SEGMENTS, mean=TESTED_MEANS),
        )
    ),
    run_trial=_run_trial,
    draw_figure=_draw_figure,
    find_verdict=_find_verdict,
    parts=MEANS,
    trials=16,
    quick=_is_quick,
    quick_trials=4,
)
