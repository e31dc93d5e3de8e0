"""The nearest average, against every solver that can be installed: time and residual, side by side in one run.

One thread, n normal values and target 0.1 unless a row says otherwise; medians over several draws, with the kernels
compiled before. All residuals are taken from the masks in exact arithmetic. What each peer was given stands in
peers.py. A ratio of 0 says that the condition that comes with the speed (as near, proven, few enough) was broken.

    python benchmarks/subset.py              the rows of the table, in a few minutes
    python benchmarks/subset.py FIGURE.png   residual against time, all solvers
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
from measuring import Row
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
"""So many problems are given to one solver before it is the other's turn."""
SHARE = 10
"""Where ours is given a part of the peer's time, it is one in so many."""


@dataclass(frozen=True, slots=True)
class Duel:
    """Two solvers on the same problems, some problems at a time.

    Problem by problem, each would cool the other's caches; one after all of the other, the machine may have become
    faster or slower meanwhile.

    Attributes:
        ours: our time and residual for each problem.
        theirs: the peer's; empty where it is not installed.
        proven: whether all our answers say that they are exact.
        kept: the most records in any answer of ours.
    """

    ours: list[Point]
    theirs: list[Point]
    proven: bool
    kept: int

    def worse(self) -> int:
        """In how many problems ours was farther from the target."""
        return sum(ours[1] > theirs[1] for ours, theirs in zip(self.ours, self.theirs, strict=False))


def duel(
    problems: list[Problem],
    solve: Callable[[Floats, Any], Selection],
    peer: Callable[[Floats, Any], Bools | None],
) -> Duel:
    """Time both on each problem."""
    ours: list[tuple[float, Selection]] = []
    theirs: list[tuple[float, Bools | None]] = []
    for k in range(0, len(problems), TURN):
        ours += _timed(problems[k : k + TURN], solve)
        theirs += _timed(problems[k : k + TURN], peer)
    return Duel(
        _points(problems, [(taken, selection.mask) for taken, selection in ours]),
        _points(problems, theirs),
        all(selection.exact for _, selection in ours),
        max(int(selection.mask.sum()) for _, selection in ours),
    )


def _timed(problems: list[Problem], solve: Callable[[Floats, Any], T]) -> list[tuple[float, T]]:
    """How long each problem took, and what came out."""
    made = []
    for values, target in problems:
        started = time.perf_counter()
        found = solve(values, target)
        made.append((time.perf_counter() - started, found))
    return made


def _points(problems: list[Problem], made: Sequence[tuple[float, Bools | None]]) -> list[Point]:
    """The time and the residual of each; none where the solver is not installed."""
    return [
        (taken, peers.residual(values, target, mask))
        for (values, target), (taken, mask) in zip(problems, made, strict=True)
        if mask is not None
    ]


def race(problems: list[Problem], peer: Callable[[Floats, Any], Bools | None]) -> list[tuple[Point, list[Point]]]:
    """The peer's time and residual, and our trail in a tenth of that time; empty where the peer is not installed."""
    laps = []
    for values, target in problems:
        started = time.perf_counter()
        mask = peer(values, target)
        taken = time.perf_counter() - started
        if mask is not None:
            laps.append(((taken, peers.residual(values, target, mask)), trail(values, target, taken / SHARE)))
    return laps


def trail(values: Floats, target: Any, budget: float) -> list[Point]:
    """When our anytime method had which residual, up to its end or the last round that ended within the budget."""
    found: list[tuple[float, Bools]] = []
    started = time.perf_counter()
    for selection in improve(values, target):
        at = time.perf_counter() - started
        if at > budget and found:
            break
        found.append((at, selection.mask))
    return [(at, peers.residual(values, target, mask)) for at, mask in found]


def normals(n: int, draws: int, dim: int = 1) -> list[Problem]:
    """Normal values, (n,) or (n, dim), and the target 0.1 in each dimension."""
    made = [np.random.default_rng([n, draw]).normal(size=n if dim == 1 else (n, dim)) for draw in range(draws)]
    return [(values, TARGET if dim == 1 else np.full(dim, TARGET)) for values in made]


def rows() -> list[Row]:
    """All comparisons."""
    warm_up()
    made: list[Row] = []
    for compare in (_exact, _cp_sat, _bkz, _thinning, _plane, _five_dimensions, _lattice):
        started = time.perf_counter()
        made.extend(compare())
        _say(f"{compare.__name__.strip('_')}: {time.perf_counter() - started:.0f} s")
    return made


def warm_up() -> None:
    """Compile our kernels and load the peers."""
    _say("compiling, loading ...")
    for n in (12, 20, 30):
        for values, target in normals(n, 1):
            nearest_average(values, target, method="meet")
            nearest_average(values, target, method="search", tolerance=1e-3)
            nearest_average(np.rint(10 * values), target, method="lattice")
    for dim in (2, 5):
        for values, target in normals(12, 1, dim):
            nearest_average(values, target, method="grid")
            next(improve(values, target))
    for values, target in normals(60, 1):
        list(itertools.islice(improve(values, target), 5))
    for values, target in normals(20, 1):
        peers.numpy_meet(values, target)
        peers.cp_sat(values[:5], target, 0.1)
        peers.lattice_reduction(values, target, 20)
        peers.kernel_thinning(values, 10)


def _exact() -> list[Row]:
    """Exact, one dimension, against numpy."""
    made = []
    for n, draws, goal in ((30, 400, 20.0), (40, 9, 10.0)):
        memory = f", {_extra_memory(n):.1f} MB" if n == 40 else ""
        for name, peer in (
            ("one window", peers.numpy_meet),
            ("a search per pair of counts", peers.numpy_meet_by_count),
        ):
            met = duel(normals(n, draws), lambda values, target: nearest_average(values, target, method="meet"), peer)
            held = met.proven and not met.worse()
            made.append(_row(f"exact, n = {n}", met, f"numpy, {name}", goal, held=held, extra=memory))
    return made


def _cp_sat() -> list[Row]:
    """Exact, one dimension, against CP-SAT for 10 s."""
    made = []
    for n, goal in ((30, 1000.0), (40, 100.0)):
        met = duel(
            normals(n, 3),
            lambda values, target: nearest_average(values, target, method="meet"),
            lambda values, target: _last(peers.cp_sat(values, target, 10.0), values, target),
        )
        worse = met.worse()
        note = f"; ours worse in {worse} of 3" if worse else "; ours never worse in 3"
        made.append(_row(f"exact, n = {n}", met, "CP-SAT, 10 s", goal, held=not worse, note=note))
    return made


def _bkz() -> list[Row]:
    """Residuals for more records than exact methods take, against lattice reduction."""
    made = []
    for n, draws in ((60, 10), (80, 7), (128, 5)):
        laps = race(normals(n, draws), lambda values, target: peers.lattice_reduction(values, target, 20))
        what = f"residual in 1/{SHARE} of the time, n = {n}"
        if not laps:
            made.append(Row(what, "", "LLL + BKZ-20: not installed", None, 1.0))
            continue
        theirs = median(lap[0][1] for lap in laps)
        ours = median(lap[1][-1][1] for lap in laps)
        taken = median(lap[0][0] for lap in laps)
        spent = f"{ours:.1e} in {_time(median(lap[1][-1][0] for lap in laps))}"
        made.append(Row(what, spent, f"LLL + BKZ-20: {theirs:.1e} in {_time(taken)}", _ratio(theirs, ours), 1.0))
    return made


def _thinning() -> list[Row]:
    """Of 1,024 points at most 32, with the mean of all."""
    drawn = [values for values, _ in normals(1024, 7)]
    met = duel(
        [(values, float(values.mean())) for values in drawn],
        lambda values, target: nearest_average(values, target, method="search", tolerance=1e-10),
        lambda values, _: peers.kernel_thinning(values, 32),
    )
    if met.kept > 32:
        raise AssertionError(f"{met.kept} records kept where at most 32 were asked for")
    worst = max(gap for _, gap in met.ours)
    theirs = f"; residual {median(gap for _, gap in met.theirs):.1e}" if met.theirs else ""
    extra = f", residual {median(gap for _, gap in met.ours):.1e}"
    what = "1,024 points to at most 32"
    return [_row(what, met, "goodpoints, 1 + x*y", 1.0, held=worst <= 1e-9, note=theirs, extra=extra)]


def _plane() -> list[Row]:
    """Exact in two dimensions, against our own exact method in one."""
    times: list[list[float]] = []
    for dim, method in ((1, "meet"), (2, "grid")):
        taken = []
        for values, target in normals(30, 10, dim):
            started = time.perf_counter()
            selection = nearest_average(values, target, method=method)
            taken.append(time.perf_counter() - started)
            if not selection.exact:
                raise AssertionError(f"method={method!r} did not prove its answer")
        times.append(taken)
    line, plane = map(median, times)
    return [
        Row("exact, n = 30, two dimensions", _time(plane), f"ours, one dimension: {_time(line)}", line / plane, 0.2)
    ]


def _five_dimensions() -> list[Row]:
    """Anytime in five dimensions, against CP-SAT for 5 s: when ours is as near, and what it reaches in a tenth."""
    what = "n = 40, five dimensions"
    laps = race(normals(40, 3, dim=5), lambda values, target: _last(peers.cp_sat(values, target, 5.0), values, target))
    if not laps:
        return [Row(what, "", "CP-SAT, 5 s: not installed", None, 10.0)]
    matched = median(next((at for at, gap in seen if gap <= aim), math.inf) for (_, aim), seen in laps)
    theirs, taken = median(gap for (_, gap), _ in laps), median(at for (at, _), _ in laps)
    ours = median(seen[-1][1] for _, seen in laps)
    text = f"as near in {_time(matched)}; {ours:.1e} in {_time(median(seen[-1][0] for _, seen in laps))}"
    ratio = taken / matched if ours <= theirs else 0.0
    return [Row(what, text, f"CP-SAT, 5 s: {theirs:.1e} in {_time(taken)}", ratio, 10.0)]


def _lattice() -> list[Row]:
    """Batches of 256 flight delays, spread over the year, and a target anywhere in the batch's range."""
    delays, rng = flights("dep_delay")[:, 0], np.random.default_rng(0)
    starts = np.linspace(0, len(delays) - 256, 100).astype(int)
    batches = [delays[start : start + 256] for start in starts]
    met = duel(
        [(batch, float(rng.uniform(batch.min(), batch.max()))) for batch in batches],
        lambda values, target: nearest_average(values, target, method="lattice"),
        peers.bitset_dp,
    )
    note = f"; all {'' if met.proven else 'but some '}proven, {met.worse()} worse"
    held = met.proven and not met.worse()
    return [_row("256 flight delays, mean time", met, "bitset programme", 20.0, held=held, note=note, middle=mean)]


def _row(
    what: str,
    met: Duel,
    peer: str,
    goal: float,
    *,
    held: bool,
    note: str = "",
    extra: str = "",
    middle: Callable[[Sequence[float]], float] = median,
) -> Row:
    """A row on time; where its condition is not held, the ratio is 0."""
    ours = middle([at for at, _ in met.ours])
    if not met.theirs:
        return Row(what, _time(ours) + extra, f"{peer}: not installed", None, goal)
    theirs = middle([at for at, _ in met.theirs])
    return Row(what, _time(ours) + extra, f"{peer}: {_time(theirs)}{note}", theirs / ours if held else 0.0, goal)


def _last(found: list[tuple[float, Bools]] | None, values: Floats, target: Any) -> Bools | None:
    """The nearest of the subsets that a peer saw."""
    if found is None:
        return None
    return min((mask for _, mask in found), key=lambda mask: peers.residual(values, target, mask))


def _ratio(theirs: float, ours: float) -> float:
    """How many times less ours is; infinite where ours is 0."""
    return theirs / ours if ours else math.inf


def _time(seconds: float) -> str:
    """Seconds, in a unit that suits."""
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= scale:
            return f"{seconds / scale:.3g} {unit}"
    return f"{seconds:.1e} s"


def _say(text: str) -> None:
    """Progress."""
    print(text, file=sys.stderr, flush=True)


def _extra_memory(n: int) -> float:
    """The most memory, in megabytes, that an exact solution of n values adds to a fresh process; nan if unknown."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(_peak, (n,))


def _peak(n: int) -> float:
    """In a fresh process: the peak of resident memory while solving, over what was resident before."""
    status = Path("/proc/self/status")
    if not status.exists():  # not Linux
        return math.nan
    ((warm, target),) = normals(30, 1)
    ((values, _),) = normals(n, 1)
    nearest_average(warm, target, method="meet")
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # glibc: give back what was freed, or it is used unseen
    if trim is not None:
        trim(0)
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts anew from what is resident now
    before = _resident(status, "VmRSS")
    nearest_average(values, target, method="meet")
    return (_resident(status, "VmHWM") - before) / 1e3


def _resident(status: Path, field: str) -> float:
    """A field of /proc/self/status, in kilobytes."""
    return next(float(line.split()[1]) for line in status.read_text().splitlines() if line.startswith(field))


# The figure -----------------------------------------------------------------------------------------------------------

SIZES = (20, 30, 40, 60, 80, 128)
DRAWS = 3
LOOKS = (1.0, 3.0, 10.0)
BUDGET = 5.0
STYLES = {  # the colours of Okabe and Ito, which colour-blind readers can tell apart; a marker each as well
    "Vestige, exact": ("#0072B2", "o", "none"),
    "Vestige, anytime": ("#56B4E9", ".", "-"),
    "numpy meet in the middle, exact": ("#E69F00", "s", "none"),
    "CP-SAT, 1 s, 3 s and 10 s": ("#009E73", "D", ":"),
    "LLL": ("#CC79A7", "v", "none"),
    "LLL + BKZ-20": ("#D55E00", "^", "none"),
}


def figure(path: Path) -> None:
    """Measure all solvers for all n, and draw."""
    warm_up()
    measured = {}
    for n in SIZES:
        started = time.perf_counter()
        measured[n] = _measured(n)
        _say(f"n = {n}: {time.perf_counter() - started:.0f} s")
    draw(measured, path)


def draw(measured: dict[int, dict[str, Floats]], path: Path) -> None:
    """Residual against time, a panel for each n: medians, with bars from least to greatest."""
    import matplotlib as mpl  # noqa: PLC0415

    mpl.use("Agg")
    from matplotlib import pyplot as plt  # noqa: PLC0415

    drawn, panels = plt.subplots(2, 3, figsize=(11, 7), sharex=True, sharey=True, layout="constrained")
    panels[0, 0].set(xscale="log", yscale="log")
    handles = {}
    for (n, solvers), panel in zip(measured.items(), panels.flat, strict=True):
        for name, points in solvers.items():
            colour, marker, line = STYLES[name]
            middle = np.median(points, axis=0)
            across, up = np.abs(np.stack((points.min(axis=0), points.max(axis=0))) - middle).transpose(2, 0, 1)
            look = {"color": colour, "marker": marker, "ls": line, "ms": 7, "lw": 1.4, "elinewidth": 1.0, "capsize": 2}
            handles[name] = panel.errorbar(*middle.T, xerr=across, yerr=up, **look)
        panel.set_title(f"n = {n}", loc="left")
        panel.spines[["top", "right"]].set_visible(False)
        panel.grid(alpha=0.2)
    drawn.supxlabel("time (seconds, one thread)")
    drawn.supylabel("residual (distance from the target, in standard deviations)")
    names = [name for name in STYLES if name in handles]
    title = f"{DRAWS} draws of n normal values, target {TARGET}: medians, and bars from least to greatest"
    shown = [handles[name] for name in names]
    drawn.legend(shown, names, title=title, loc="outside upper center", ncols=3, frameon=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    drawn.savefig(path, dpi=150)
    plt.close(drawn)


def _measured(n: int) -> dict[str, Floats]:
    """For each solver that applies and is installed its times and residuals; shape (draws, looks, 2)."""
    made: dict[str, list[list[Point]]] = {name: [] for name in STYLES}
    trails: list[list[Point]] = []
    for values, target in normals(n, DRAWS):
        if n <= 40:
            made["Vestige, exact"].append(_once(values, target, lambda v, t: nearest_average(v, t, method="meet").mask))
            made["numpy meet in the middle, exact"].append(_once(values, target, peers.numpy_meet))
        trails.append(trail(values, target, BUDGET))
        made["LLL"].append(_once(values, target, lambda v, t: peers.lattice_reduction(v, t, 0)))
        made["LLL + BKZ-20"].append(_once(values, target, lambda v, t: peers.lattice_reduction(v, t, 20)))
        made["CP-SAT, 1 s, 3 s and 10 s"].append(_cp_looks(values, target))
    made["Vestige, anytime"] = _looked(trails)
    return {name: np.array(draws) for name, draws in made.items() if draws and draws[0]}


def _once(values: Floats, target: float, solve: Callable[[Floats, float], Bools | None]) -> list[Point]:
    """Time and residual of a solver that answers once; empty where it is not installed."""
    started = time.perf_counter()
    mask = solve(values, target)
    taken = time.perf_counter() - started
    return [] if mask is None else [(taken, peers.residual(values, target, mask))]


def _cp_looks(values: Floats, target: float) -> list[Point]:
    """What CP-SAT had found at each look; where it ended before, its end is the look."""
    started = time.perf_counter()
    found = peers.cp_sat(values, target, LOOKS[-1])
    ended = time.perf_counter() - started
    if found is None:
        return []
    gaps = [(at, peers.residual(values, target, mask)) for at, mask in found]
    return [(min(look, ended), min(gap for at, gap in gaps if at <= look)) for look in LOOKS]


def _looked(trails: list[list[Point]]) -> list[list[Point]]:
    """The residuals at eight times, evenly spaced in the logarithm, from when all draws have one to the end."""
    first, last = max(seen[0][0] for seen in trails), max(seen[-1][0] for seen in trails)
    looks = [*np.geomspace(first, last, 8)[1:-1].tolist(), last]
    return [[(look, min(gap for at, gap in seen if at <= look)) for look in [first, *looks]] for seen in trails]


def main() -> None:
    """The figure where a path is given, else the rows."""
    if len(sys.argv) > 1:
        figure(Path(sys.argv[1]))
        return
    for row in rows():
        ratio = "" if row.ratio is None else f"{row.ratio:.3g}"
        print(f"{row.what:<36} {row.ours:>30} {ratio:>9} {row.goal:>6g}   {row.peer}")


if __name__ == "__main__":
    main()
