"""The nearest average against every solver that can be installed: time and residual, side by side in one run.

One thread, n normal values and target 0.1 if a row does not say otherwise; medians over several trials, with the
kernels compiled beforehand. All residuals are computed from the masks in exact arithmetic. peers.py documents what each
peer was given. A ratio of 0 means that the condition that goes with the speed (as near, proven, few enough) was broken.
"""

from __future__ import annotations

import ctypes
import itertools
import math
import multiprocessing
import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, median
from typing import Any, TypeVar

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

import peers
from timing import Row, choose
from vestige.flights import flights
from vestige.subset import Selection, improve, nearest_average
from vestige.types import Bools, Floats

Problem = tuple[Floats, Any]
"""Values, and a target: a number, or one for each dimension."""
T = TypeVar("T")
Point = tuple[float, float]
"""Seconds, and the residual by then."""

TARGET = 0.1
TURN = 50
"""Number of problems for one solver before it is the other's turn."""
SHARE = 10
"""Ours gets one part in this many of the peer's time, where it gets less than all."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two solvers on the same problems, some problems at a time.

    Alternating after each problem, each solver would cool the other's caches; running one after the other, the machine
    may have become faster or slower in between.

    Attributes:
        ours: our time and residual for each problem.
        theirs: the peer's; empty if it is not installed.
        proven: whether all our answers are exact.
        kept: the largest number of records in an answer of ours.
    """

    ours: list[Point]
    theirs: list[Point]
    proven: bool
    kept: int

    def count_worse(self) -> int:
        """Return the number of problems in which ours was farther from the target."""
        return sum(ours[1] > theirs[1] for ours, theirs in zip(self.ours, self.theirs, strict=False))


def compare_solvers(
    problems: list[Problem],
    solve: Callable[[Floats, Any], Selection],
    peer: Callable[[Floats, Any], Bools | None],
) -> Comparison:
    """Time both solvers on each problem."""
    ours: list[tuple[float, Selection]] = []
    theirs: list[tuple[float, Bools | None]] = []
    for k in range(0, len(problems), TURN):
        ours += _time_problems(problems[k : k + TURN], solve)
        theirs += _time_problems(problems[k : k + TURN], peer)
    return Comparison(
        _measure_residuals(problems, [(taken, selection.mask) for taken, selection in ours]),
        _measure_residuals(problems, theirs),
        all(selection.exact for _, selection in ours),
        max(int(selection.mask.sum()) for _, selection in ours),
    )


def _time_problems(problems: list[Problem], solve: Callable[[Floats, Any], T]) -> list[tuple[float, T]]:
    """Return how long each problem took, and its solution."""
    results = []
    for values, target in problems:
        started = time.perf_counter()
        solutions = solve(values, target)
        results.append((time.perf_counter() - started, solutions))
    return results


def _measure_residuals(problems: list[Problem], results: Sequence[tuple[float, Bools | None]]) -> list[Point]:
    """Return the time and the residual of each problem; empty if the solver is not installed."""
    return [
        (taken, peers.residual(values, target, mask))
        for (values, target), (taken, mask) in zip(problems, results, strict=True)
        if mask is not None
    ]


def race_anytime(
    problems: list[Problem], peer: Callable[[Floats, Any], Bools | None]
) -> list[tuple[Point, list[Point]]]:
    """Return the peer's time and residual, and our progress in a tenth of that time; empty if it is not installed."""
    races = []
    for values, target in problems:
        started = time.perf_counter()
        mask = peer(values, target)
        taken = time.perf_counter() - started
        if mask is not None:
            races.append(
                ((taken, peers.residual(values, target, mask)), record_progress(values, target, taken / SHARE))
            )
    return races


def record_progress(values: Floats, target: Any, budget: float) -> list[Point]:
    """Return when our anytime method had which residual, up to its end or the last round within the budget."""
    solutions: list[tuple[float, Bools]] = []
    started = time.perf_counter()
    for selection in improve(values, target):
        at = time.perf_counter() - started
        if at > budget and solutions:
            break
        solutions.append((at, selection.mask))
    return [(at, peers.residual(values, target, mask)) for at, mask in solutions]


def make_normal_problems(n: int, trials: int, dim: int = 1) -> list[Problem]:
    """Return normal values, (n,) or (n, dim), with the target 0.1 in each dimension."""
    results = [np.random.default_rng([n, trial]).normal(size=n if dim == 1 else (n, dim)) for trial in range(trials)]
    return [(values, TARGET if dim == 1 else np.full(dim, TARGET)) for values in results]


def rows() -> list[Row]:
    """Run all comparisons."""
    warm_up()
    results: list[Row] = []
    for compare in (
        _compare_exact,
        _compare_cp_sat,
        _compare_bkz,
        _compare_thinning,
        _compare_plane,
        _compare_five_dimensions,
        _compare_lattice,
    ):
        started = time.perf_counter()
        results.extend(compare())
        log(f"{compare.__name__.strip('_')}: {time.perf_counter() - started:.0f} s")
    return results


def warm_up() -> None:
    """Compile our kernels and load the peers."""
    log("compiling, loading ...")
    for n in (12, 20, 30):
        for values, target in make_normal_problems(n, 1):
            nearest_average(values, target, method="meet")
            nearest_average(values, target, method="search", tolerance=1e-3)
            nearest_average(np.rint(10 * values), target, method="lattice")
    for dim in (2, 5):
        for values, target in make_normal_problems(12, 1, dim):
            nearest_average(values, target, method="grid")
            next(improve(values, target))
    for values, target in make_normal_problems(60, 1):
        list(itertools.islice(improve(values, target), 5))
    for values, target in make_normal_problems(20, 1):
        peers.numpy_meet(values, target)
        peers.cp_sat(values[:5], target, 0.1)
        peers.lattice_reduction(values, target, 20)
        peers.kernel_thinning(values, 10)


def _compare_exact() -> list[Row]:
    """Compare exact solutions in one dimension with numpy."""
    results = []
    for n, trials, goal in choose(((30, 400, 20.0), (40, 9, 10.0)), ((24, 3, 20.0),)):
        memory = f", {_measure_memory(n):.1f} MB" if n == 40 else ""
        for name, peer in (
            ("one window", peers.numpy_meet),
            ("a search per pair of counts", peers.numpy_meet_by_count),
        ):
            comparison = compare_solvers(
                make_normal_problems(n, trials),
                lambda values, target: nearest_average(values, target, method="meet"),
                peer,
            )
            held = comparison.proven and not comparison.count_worse()
            results.append(_make_row(f"exact, n = {n}", comparison, f"numpy, {name}", goal, held=held, extra=memory))
    return results


def _compare_cp_sat() -> list[Row]:
    """Compare exact solutions in one dimension with CP-SAT for 10 s."""
    results = []
    seconds = choose(10.0, 0.2)
    for n, goal in choose(((30, 1000.0), (40, 100.0)), ((24, 1000.0),)):
        comparison = compare_solvers(
            make_normal_problems(n, choose(3, 1)),
            lambda values, target: nearest_average(values, target, method="meet"),
            lambda values, target: _find_nearest(peers.cp_sat(values, target, seconds), values, target),
        )
        worse = comparison.count_worse()
        note = (
            f"; ours worse in {worse} of {len(comparison.ours)}"
            if worse
            else f"; ours never worse in {len(comparison.ours)}"
        )
        results.append(
            _make_row(f"exact, n = {n}", comparison, f"CP-SAT, {seconds:g} s", goal, held=not worse, note=note)
        )
    return results


def _compare_bkz() -> list[Row]:
    """Compare residuals with lattice reduction, for more records than exact methods accept."""
    results = []
    for n, trials in choose(((60, 10), (80, 7), (128, 5)), ((60, 1),)):
        races = race_anytime(
            make_normal_problems(n, trials), lambda values, target: peers.lattice_reduction(values, target, 20)
        )
        what = f"residual in 1/{SHARE} of the time, n = {n}"
        if not races:
            results.append(Row(what, "", "LLL + BKZ-20: not installed", None, 1.0))
            continue
        theirs = median(race[0][1] for race in races)
        ours = median(race[1][-1][1] for race in races)
        taken = median(race[0][0] for race in races)
        spent = f"{ours:.1e} in {_format_time(median(race[1][-1][0] for race in races))}"
        results.append(
            Row(what, spent, f"LLL + BKZ-20: {theirs:.1e} in {_format_time(taken)}", _compute_ratio(theirs, ours), 1.0)
        )
    return results


def _compare_thinning() -> list[Row]:
    """Compare with kernel thinning: of 1,024 points at most 32, with the mean of all."""
    drawn = [values for values, _ in make_normal_problems(1024, choose(7, 1))]
    comparison = compare_solvers(
        [(values, float(values.mean())) for values in drawn],
        lambda values, target: nearest_average(values, target, method="search", tolerance=1e-10),
        lambda values, _: peers.kernel_thinning(values, 32),
    )
    if comparison.kept > 32:
        raise AssertionError(f"{comparison.kept} records kept where at most 32 were asked for")
    worst = max(gap for _, gap in comparison.ours)
    theirs = f"; residual {median(gap for _, gap in comparison.theirs):.1e}" if comparison.theirs else ""
    extra = f", residual {median(gap for _, gap in comparison.ours):.1e}"
    what = "1,024 points to at most 32"
    return [_make_row(what, comparison, "goodpoints, 1 + x*y", 1.0, held=worst <= 1e-9, note=theirs, extra=extra)]


def _compare_plane() -> list[Row]:
    """Compare exact solutions in two dimensions with our own exact method in one."""
    times: list[list[float]] = []
    for dim, method in ((1, "meet"), (2, "grid")):
        taken = []
        for values, target in make_normal_problems(30, choose(10, 1), dim):
            started = time.perf_counter()
            selection = nearest_average(values, target, method=method)
            taken.append(time.perf_counter() - started)
            if not selection.exact:
                raise AssertionError(f"method={method!r} did not prove its answer")
        times.append(taken)
    line, plane = map(median, times)
    return [
        Row(
            "exact, n = 30, two dimensions",
            _format_time(plane),
            f"ours, one dimension: {_format_time(line)}",
            line / plane,
            0.2,
        )
    ]


def _compare_five_dimensions() -> list[Row]:
    """Compare with CP-SAT for 5 s in five dimensions: when ours is as near, and what it reaches in a tenth."""
    what = "n = 40, five dimensions"
    races = race_anytime(
        make_normal_problems(40, choose(3, 1), dim=5),
        lambda values, target: _find_nearest(peers.cp_sat(values, target, choose(5.0, 0.2)), values, target),
    )
    if not races:
        return [Row(what, "", "CP-SAT, 5 s: not installed", None, 10.0)]
    matched = median(next((at for at, gap in seen if gap <= aim), math.inf) for (_, aim), seen in races)
    theirs, taken = median(gap for (_, gap), _ in races), median(at for (at, _), _ in races)
    ours = median(seen[-1][1] for _, seen in races)
    text = f"as near in {_format_time(matched)}; {ours:.1e} in {_format_time(median(seen[-1][0] for _, seen in races))}"
    ratio = taken / matched if ours <= theirs else 0.0
    return [Row(what, text, f"CP-SAT, 5 s: {theirs:.1e} in {_format_time(taken)}", ratio, 10.0)]


def _compare_lattice() -> list[Row]:
    """Compare on batches of 256 flight delays, spread over the year, with a target anywhere in the batch's range."""
    delays, rng = flights("dep_delay")[:, 0], np.random.default_rng(0)
    starts = np.linspace(0, len(delays) - 256, choose(100, 2)).astype(int)
    batches = [delays[start : start + 256] for start in starts]
    comparison = compare_solvers(
        [(batch, float(rng.uniform(batch.min(), batch.max()))) for batch in batches],
        lambda values, target: nearest_average(values, target, method="lattice"),
        peers.bitset_dp,
    )
    note = f"; all {'' if comparison.proven else 'but some '}proven, {comparison.count_worse()} worse"
    held = comparison.proven and not comparison.count_worse()
    return [
        _make_row(
            "256 flight delays, mean time", comparison, "bitset programme", 20.0, held=held, note=note, middle=mean
        )
    ]


def _make_row(
    what: str,
    comparison: Comparison,
    peer: str,
    goal: float,
    *,
    held: bool,
    note: str = "",
    extra: str = "",
    middle: Callable[[Sequence[float]], float] = median,
) -> Row:
    """Return a row on time; if its condition is not held, the ratio is 0."""
    ours = middle([at for at, _ in comparison.ours])
    if not comparison.theirs:
        return Row(what, _format_time(ours) + extra, f"{peer}: not installed", None, goal)
    theirs = middle([at for at, _ in comparison.theirs])
    return Row(
        what, _format_time(ours) + extra, f"{peer}: {_format_time(theirs)}{note}", theirs / ours if held else 0.0, goal
    )


def _find_nearest(solutions: list[tuple[float, Bools]] | None, values: Floats, target: Any) -> Bools | None:
    """Return the nearest of the subsets that a peer found."""
    if solutions is None:
        return None
    return min((mask for _, mask in solutions), key=lambda mask: peers.residual(values, target, mask))


def _compute_ratio(theirs: float, ours: float) -> float:
    """Return how many times smaller ours is; infinite if ours is 0."""
    return theirs / ours if ours else math.inf


def _format_time(seconds: float) -> str:
    """Return seconds in a suitable unit."""
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= scale:
            return f"{seconds / scale:.3g} {unit}"
    return f"{seconds:.1e} s"


def log(text: str) -> None:
    """Report progress."""
    print(text, file=sys.stderr, flush=True)


def _measure_memory(n: int) -> float:
    """Return the peak memory, in megabytes, that an exact solution adds to a fresh process; nan if unknown."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(_measure_peak, (n,))


def _measure_peak(n: int) -> float:
    """Return, in a fresh process, the peak of resident memory while solving, less what was resident before."""
    status = Path("/proc/self/status")
    if not status.exists():  # not Linux
        return math.nan
    ((warm, target),) = make_normal_problems(30, 1)
    ((values, _),) = make_normal_problems(n, 1)
    nearest_average(warm, target, method="meet")
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # glibc: return freed memory, or its reuse is not seen
    if trim is not None:
        trim(0)
    Path("/proc/self/clear_refs").write_text("5")  # restart the peak from what is resident now
    before = _read_status(status, "VmRSS")
    nearest_average(values, target, method="meet")
    return (_read_status(status, "VmHWM") - before) / 1e3


def _read_status(status: Path, field: str) -> float:
    """Return a field of /proc/self/status, in kilobytes."""
    return next(float(line.split()[1]) for line in status.read_text().splitlines() if line.startswith(field))
