"""The required batch grows with the logarithm of 1 / error and in proportion to the dimension.

The smallest batch with which the error of the mean of normals is that of N records, d / N: for a window, which requires
N; for the coordinate-wise algorithm of Immorlica et al. (2024), after the 4 d N records of `vestige.theory`; for `Mean`
with each channel, after 1.1 N; beside Theorem 3.1 and two lower bounds, that of Theorem 3.6, for an error one time in
three, and the sharper one of `vestige.theory.least_retention`, for the mean squared error. Words say numbers relative
to what the kept records say, so bits and auto are also tested at means far from zero; averages do not depend on them.
Limits: both bounds, and Theorem 3.1 with the constants of `vestige.theory`. And the error of words: over K updates a
third of K times the square that `vestige.channels.layout.find_precision` predicts for one writing, and at most four
times that, since words that do not come out are written less precisely. An average adds the square of its tolerance.
Words of 20 records are not held to that: at N = 10^6 some streams were far off. The limit of 22 was set after that was
seen.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from vestige import theory
from vestige.channels.layout import find_min_rows, find_precision
from vestige.figures import SIZE, find_style
from vestige.lab import figures, significance
from vestige.lab.baselines import MEANS, error_ratio, run_stream
from vestige.lab.experiment import Experiment, Parts, Point, Verdict, grid
from vestige.lab.results import Results

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PAPER, AVERAGE, AUTO, BITS = "coordinate-wise", "Mean, average", "Mean, auto", "Mean, bits"
WORDS = (AUTO, BITS)
POLICIES = (PAPER, AVERAGE, *WORDS)
DIMS, AT = (1, 2, 4, 8), 1_000
EQUALS = (100, 1_000, 10_000, 100_000, 1_000_000)  # N
TESTED_MEANS, FAR_EQUALS = (0.0, 17.3, 987.6), (1_000, 10_000, 1_000_000)  # deviations from zero; none is round
JOINT = (4, 1_000_000)  # dimension and N where words of several numbers are tested, too
SEGMENTS = (6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 28, 32, 36, 40, 48)
PREDICTED_FROM = 22  # records for each number
LONGEST_WORD = 28  # records for each number; longer words are never required
SEARCHED = {100: 32, 1_000: 32, 10_000: 40}  # records for each number, where an exhaustive search takes seconds
TOO_FEW = {1_000: 10, 10_000: 10, 100_000: 14, 1_000_000: 20}  # fewer records for each number are not tested
SLACK = 1.1
TOLERANCE = 0.03
LESS_PRECISE = 4.0
Place = tuple[int, int]  # dimension and N


def _count_records(policy: str, dim: int, equal: int, batch: int) -> int:
    """The number of records that a policy receives to be as good as `equal` of them, in whole batches."""
    required = theory.mean_rounds(dim, dim / equal) if policy == PAPER else round(SLACK * equal)
    return -(-required // batch) * batch


def _run_trial(point: Point, rng: np.random.Generator, parts: Parts) -> dict[str, float]:
    """The error of one stream, in that of N records; and the part that encoding adds, in that of all data."""
    policy, dim, equal = str(point["policy"]), int(point["dim"]), int(point["equal"])
    batch = dim * int(point["segment"])
    length = _count_records(policy, dim, equal, batch)
    rows = float(point["mean"]) + rng.normal(size=(length, dim))
    answer = run_stream(parts[policy](dim), rows, 2 * batch, rng)  # the same states as in batches, and faster
    ratio = error_ratio(answer, rows, dim)
    return {"error": ratio * equal / length, "added": ratio - 1.0}


def _find_batch(results: Results, policy: str, place: Place, mean: float = 0.0) -> float:
    """The smallest batch that is enough for a policy, if no larger one is refuted; or infinity."""
    smallest, (dim, equal) = math.inf, place
    mine = results.where(policy=policy, dim=dim, equal=equal, mean=mean)
    for segment in reversed(mine.values("segment")):
        errors = mine.where(segment=segment)["error"]
        if significance.is_above(errors, 1.0, dim):
            break
        if errors.mean() <= 1.0:
            smallest = float(dim * segment)
    return smallest


def _find_places(results: Results, policy: str) -> list[Place]:
    """Where a policy was tested at a mean of zero: dimensions and N."""
    mine = results.where(policy=policy, mean=0.0)
    return sorted(set(zip(mine["dim"].tolist(), mine["equal"].tolist(), strict=True)))


def _find_largest_added(policy: str, equal: int, segment: int) -> float:
    """The most that encoding may add to the squared error of all data in one dimension, as a multiple of it."""
    records = _count_records(policy, 1, equal, segment)
    updates = records // segment
    writings = (updates + 1) * (2 * updates + 1) / (6.0 * updates)
    rounded = records * writings * LESS_PRECISE * find_precision(segment, 1) ** 2
    return rounded + (TOLERANCE**2 if policy == AUTO else 0.0)


def _find_least_batch(policy: str, place: Place, batch: float) -> int:
    """The batch that the lower bound for the mean squared error requires after the records of a batch of this size."""
    dim, equal = place
    size = 1 if math.isinf(batch) else round(batch)
    return theory.least_retention(dim, dim / equal, _count_records(policy, dim, equal, size))


def _draw_figure(results: Results, figure: Figure) -> None:
    """The required batch against N at dimension 1, and against the dimension at one N."""
    figure.set_size_inches(SIZE[0], 7.4)
    left, right = figure.subplots(2, 1)
    left.set(
        xlabel="d / error (= N records)",
        ylabel="required batch (records)",
        title="dimension 1; bars reach to the next batch tested",
    )
    right.set(xlabel="dimension d", ylabel="required batch (records)", title=f"N = {AT:,}, mean 0")
    _draw_lines(left, results, [(1, n) for n in EQUALS], list(EQUALS))
    _draw_lines(right, results, [(dim, AT) for dim in DIMS], list(DIMS))
    left.set_xticks(EQUALS, [f"$10^{round(math.log10(n))}$" for n in EQUALS])
    right.set_xticks(DIMS, [str(dim) for dim in DIMS])
    for i, mean in enumerate(TESTED_MEANS[1:], 1):
        batches = np.array([_find_batch(results, BITS, (1, n), mean) for n in FAR_EQUALS])
        finite = np.isfinite(batches)
        style, x = find_style("", i), np.array(FAR_EQUALS)[finite] * 1.15**i
        label = f"bits, mean {mean:g}"
        left.plot(x, batches[finite], color=style.colour, marker=style.marker, ls="none", label=label)
    for axes in (left, right):
        axes.set_xticks([], minor=True)
    figures.draw_legend(figure, left)


def _draw_lines(axes: Axes, results: Results, places: list[Place], x: list[int]) -> None:
    axes.set(xscale="log", yscale="log")
    windows = [theory.window_retention(d, d / n) for d, n in places]
    figures.draw_reference(axes, "window", x, windows, "window (exactly N)")
    figures.draw_reference(axes, "bound", x, [_find_theorem_batch(place) for place in places], "Theorem 3.1")
    least = [theory.least_retention(d, d / n, round(SLACK * n)) for d, n in places]
    figures.draw_reference(axes, "lower bound", x, least, "lower bound")
    older = [theory.finite_lower_bound(d, d / n) for d, n in places]
    figures.draw_reference(axes, "all data", x, older, "Theorem 3.6, 1 in 3")
    for name in POLICIES:
        batches = np.array([_find_batch(results, name, place) for place in places])
        gaps = np.array([_find_gap_below(m, d) for m, (d, _) in zip(batches, places, strict=True)])
        style, finite = find_style(name), np.isfinite(batches)
        axes.errorbar(
            np.array(x)[finite], batches[finite], (gaps[finite], np.zeros(finite.sum())), color=style.colour,
            marker=style.marker, label=name, capsize=2, elinewidth=1,
        )  # fmt: skip


def _find_gap_below(batch: float, dim: int) -> float:
    """The difference to the next smaller batch that was tested."""
    return batch - dim * max((segment for segment in SEGMENTS if dim * segment < batch), default=0)


def _find_theorem_batch(place: Place) -> int:
    """The batch that Theorem 3.1 asks for."""
    dim, equal = place
    return theory.mean_retention(dim, dim / equal) // 2


def _find_verdict(results: Results) -> Verdict:
    """The required batch must lie between the lower bound and the theorem."""
    required = {
        name: {place: _find_batch(results, name, place) for place in _find_places(results, name)} for name in POLICIES
    }
    most = results.where(policy=BITS, mean=TESTED_MEANS[-1]).values("equal")[-1]
    means = results.where(policy=BITS, equal=most, dim=1).values("mean")
    far = {name: [_find_batch(results, name, (1, most), mean) for mean in means] for name in WORDS}
    violations = sorted(_find_violations(results))
    hardest = {name: {d: max(n for e, n in found if e == d) for d, _ in found} for name, found in required.items()}
    return Verdict.from_checks(
        {
            "with each channel, Mean requires at most the batch of the theorem": all(
                batch <= _find_theorem_batch(place)
                for name in (AVERAGE, *WORDS)
                for place, batch in required[name].items()
            ),
            "so does the coordinate-wise algorithm": all(
                batch <= _find_theorem_batch(place) for place, batch in required[PAPER].items()
            ),
            f"encoding adds no more error than predicted, at any mean{_describe_first(violations)}": not violations,
            f"bits and auto require no more than {PREDICTED_FROM} records at any mean": all(
                batch <= PREDICTED_FROM for found in far.values() for batch in found
            ),
            "no policy requires less than the lower bound for the mean squared error": all(
                batch >= _find_least_batch(name, place, batch)
                for name, found in required.items()
                for place, batch in found.items()
            ),
        },
        "To be as good as N records, "
        + "; ".join(
            f"{name} requires a batch of "
            + ", ".join(f"{required[name][d, n]:g} at dimension {d} for {n:,}" for d, n in hardest[name].items())
            for name in POLICIES
        )
        + ". The lower bounds, for the mean squared error and for an error one time in three, are "
        + ", ".join(
            f"{theory.least_retention(d, d / n, round(SLACK * n))} and {theory.finite_lower_bound(d, d / n)} at "
            f"dimension {d} for {n:,}"
            for d, n in hardest[BITS].items()
        )
        + f". At means of {', '.join(f'{mean:g}' for mean in means)} deviations, for {most:,}, bits require "
        f"{', '.join(f'{batch:g}' for batch in far[BITS])} and auto {', '.join(f'{batch:g}' for batch in far[AUTO])}. "
        "Averages are limited by the rare batch without a subset near the target; words by their smallest length, and "
        "where N is large by what each update adds, for which a heuristic "
        f"says {theory.heuristic_batch(1, 1 / most, round(SLACK * most))} at dimension 1 for {most:,}.",
        {
            f"batch over lower bound, dimension {d}, N = {n:,}, {name}": required[name][d, n]
            / theory.least_retention(d, d / n, round(SLACK * n))
            for name in (AVERAGE, *WORDS)
            for d, n in hardest[name].items()
        },
    )


def _find_violations(results: Results) -> set[tuple[str, int, int, float]]:
    """Points where encoding is shown to add more error than words and tolerance allow."""
    violations = set()
    for policy in WORDS:
        mine = results.where(policy=policy, dim=1)
        for equal, segment, mean in set(
            zip(*(mine[name].tolist() for name in ("equal", "segment", "mean")), strict=True)
        ):
            added = mine.where(equal=equal, segment=segment, mean=mean)["added"]
            if segment >= PREDICTED_FROM and significance.is_above(added, _find_largest_added(policy, equal, segment)):
                violations.add((policy, equal, segment, mean))
    return violations


def _describe_first(violations: list[tuple[str, int, int, float]]) -> str:
    """The first of some points, for a sentence."""
    if not violations:
        return ""
    policy, equal, segment, mean = violations[0]
    return f" (first {policy} for {equal:,} at {segment} records, mean {mean:g})"


def _is_worth_testing(point: Point) -> bool:
    """Points along one axis at a time, without those that cannot succeed or would take hours."""
    policy, dim, equal, segment = str(point["policy"]), int(point["dim"]), int(point["equal"]), int(point["segment"])
    if policy in WORDS:
        if not find_min_rows(dim) <= dim * segment <= dim * LONGEST_WORD:
            return False
        if point["mean"] != 0.0:
            return dim == 1 and equal in FAR_EQUALS
        return dim == 1 or equal == AT or (dim, equal) == JOINT
    if point["mean"] != 0.0 or (dim > 1 and equal != AT):  # for others, the required batch does not depend on the mean
        return False
    if policy == PAPER and segment > SEARCHED.get(equal, 0):
        return False
    return segment >= TOO_FEW.get(equal, SEGMENTS[0])


def _is_quick(point: Point) -> bool:
    if point["equal"] == FAR_EQUALS[1]:
        return point["policy"] in WORDS and point["mean"] != TESTED_MEANS[1] and point["segment"] in (22, 28)
    dims = (1,) if point["policy"] == PAPER else (1, 2)
    segments = (20, 24, 28) if point["policy"] in WORDS else (16, 24, 28, 32)
    return point["equal"] == AT and point["mean"] == 0.0 and point["dim"] in dims and point["segment"] in segments


EXPERIMENT = Experiment(
    name="required_batch",
    claim="The required batch grows with log(1 / error) and in proportion to the dimension; it lies between the lower "
    "bound and that of the theorem, and words require no more far from zero.",
    source="Theorems 3.1 and 3.6; the lower bound for the mean squared error and the words are ours",
    grid=tuple(
        filter(
            _is_worth_testing,
            grid(policy=POLICIES, dim=DIMS, equal=EQUALS, segment=SEGMENTS, mean=TESTED_MEANS),
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
