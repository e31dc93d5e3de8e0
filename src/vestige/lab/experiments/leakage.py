"""The more exact the answer, the more the retained records reveal of erased ones; privacy has a price in accuracy.

Immorlica et al. (2024), Section 3 and Appendix D: data that were erased can violate differential privacy. Here the game
of `vestige.audit` is played: two streams that differ in one erased record, and an adversary who knows all others. The
parameters that are varied, the solver's tolerance and the epsilon of `Private`, are ours.
Limits: the guarantee of `Private`, in epsilon and in mu, tested with enough games to show an epsilon larger by a half;
an AUC of exactly 1/2 for a window; and the price that `Private.price` states. The noise itself is measured directly:
for batches of values far beyond the bound, the answer is the bound plus noise of the deviation that epsilon and delta
require, whose squares add up to chi squared. Less noise, or no clipping, is refuted, also where it begins with the
second batch of a stream.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import TYPE_CHECKING

import numpy as np

from vestige.audit import epsilon_ceiling, measure_leakage
from vestige.figures import FAINT, INK, SIZE
from vestige.lab import figures, significance
from vestige.lab.baselines import error_ratio, run_stream
from vestige.lab.experiment import Experiment, Parts, Point, Verdict, grid
from vestige.lab.results import Results
from vestige.lab.submission import Contest
from vestige.policies import Mean, Private, Window
from vestige.policy import Policy
from vestige.random.keys import AuditSeed
from vestige.stream import Stream

if TYPE_CHECKING:
    from matplotlib.figure import Figure

RETENTION, LENGTH, GAMES, STREAMS, NOISE_TRIALS, BEYOND = 128, 448, 100, 10, 500, 10.0
BOUND, DELTA, MORE = 4.0, 1e-6, 0.5
EPSILONS = (1.0, 2.0, 4.0)
QUICK = ("window", "Mean, bits", "Private, epsilon 1")
NOISES = ("noise", "later")
TOLERANCES = (0.03, 0.3, 1.0, 3.0)


def _make_private(epsilon: float) -> Private:
    return Private(bound=BOUND, epsilon=epsilon, delta=DELTA)


def _make_tolerant(tolerance: float) -> Policy:
    return Mean(channel="average", tolerance=tolerance)


PARTS: dict[str, Callable[[], Policy]] = {
    "window": Window,
    "Mean, bits": partial(Mean, channel="bits"),
    **{f"Mean, tolerance {tolerance:g}": partial(_make_tolerant, tolerance) for tolerance in TOLERANCES},
    **{f"Private, epsilon {epsilon:g}": partial(_make_private, epsilon) for epsilon in EPSILONS},
}


PROMISES = {f"Private, epsilon {epsilon:g}": epsilon for epsilon in EPSILONS}


@cache
def count_games(name: str) -> int:
    """Count the games that can show a larger epsilon than the guarantee.

    Args:
        name: one of `PARTS`.

    Returns:
        The number of games, at least `GAMES`.

    Example:
        >>> count_games("window")
        100
    """
    count, target = GAMES, PROMISES.get(name, 0.0) + MORE
    while epsilon_ceiling(count, confidence=1.0 - significance.LEVEL, delta=DELTA) < target:
        count += 10
    return count


def _measure_noise(policy: Policy, epsilon: float, rng: np.random.Generator) -> tuple[float, ...]:
    """The variance of the noise in the first and in the second batch of a stream, in that of the guarantee."""
    batch = RETENTION // 2
    rows, off = np.full((batch, 1), BEYOND * BOUND), np.empty((NOISE_TRIALS, 2))
    for mine in off:
        stream = Stream(policy, retention=RETENTION, seed=AuditSeed(int(rng.integers(2**62))))
        stream.extend(rows)
        first = stream.estimate().value
        stream.extend(rows)
        mine[:] = first - BOUND, 2.0 * stream.estimate().value - first - BOUND
    return tuple(np.mean(off**2, axis=0) / (2.0 * BOUND * _make_private(epsilon).scale / batch) ** 2)


def _run_trial(point: Point, rng: np.random.Generator, parts: Parts) -> dict[str, float]:
    """One audit: how well the two streams can be distinguished; and the error as a multiple of that of all data."""
    name = str(point["policy"])
    policy, seed = parts[name](), int(rng.integers(2**31))
    audit = measure_leakage(
        policy, retention=RETENTION, t=LENGTH, trials=count_games(name), values=(-3.0, 3.0),
        confidence=1.0 - significance.LEVEL, delta=DELTA, seed=seed, workers=1,
    )  # fmt: skip
    noise, later = _measure_noise(policy, PROMISES[name], rng) if name in PROMISES else (float("nan"),) * 2
    ratios = []
    for _ in range(STREAMS):
        rows = rng.normal(size=(LENGTH, 1))
        ratios.append(error_ratio(run_stream(policy, rows, RETENTION, rng), rows, 1.0))
    return {
        "auc": audit.auc,
        "epsilon": audit.epsilon,
        "mu": audit.mu,
        "ceiling": audit.epsilon_ceiling,
        "ratio": float(np.mean(ratios)),
        "noise": noise,
        "later": later,
    }


def _draw_figure(results: Results, figure: Figure) -> None:
    """The AUC of the adversary against the error; and epsilon, beside the guarantee and the most that can be shown."""
    figure.set_size_inches(SIZE[0], 6.8)
    upper, lower = figure.subplots(2, 1, height_ratios=(3, 2))
    upper.set(
        xscale="log",
        xlabel="mean squared error (that of all data)",
        ylabel="AUC of the adversary\n(0.5 is chance)",
        ylim=(0.4, 1.05),
    )
    lower.set(ylabel="lower bound on epsilon", ylim=(-0.2, 5.4))
    names = figures.list_policies(results, PARTS)
    distinguished = 0
    for place, name in enumerate(names):
        mine = results.where(policy=name)
        x, y = mine.mean("ratio"), mine.mean("auc")
        family, setting = _split_name(name)
        style = figures.find_curve_style(family, place)
        is_labelled = family in upper.get_legend_handles_labels()[1]
        upper.errorbar(
            x, y, 2.0 * mine.standard_error("auc"), 2.0 * mine.standard_error("ratio"), color=style.colour,
            marker=style.marker, ls="none", capsize=2, elinewidth=1, label="_" if is_labelled else family,
        )  # fmt: skip
        if y > 0.9:  # labels below one another, where the AUC is 1
            upper.annotate(setting, (x, y), (8, 5 - 13 * distinguished), textcoords="offset points", fontsize=9)
            distinguished += 1
        else:
            top, offset = (y + 2.0 * mine.standard_error("auc"), 5) if y > 0.51 else (y, -15)
            upper.annotate(setting, (x, top), (0, offset), textcoords="offset points", fontsize=9, ha="center")
        lower.plot(place, mine["epsilon"].max(), color=style.colour, marker=style.marker, ls="none")
        lower.plot(
            place,
            mine.mean("ceiling"),
            color=FAINT,
            marker="_",
            ms=16,
            mew=1.4,
            ls="none",
            label=_label_once(place, CEILING),
        )
        if name in PROMISES:
            first = _label_once(place - names.index(next(iter(PROMISES))), "guarantee")
            lower.plot(place, PROMISES[name], color=INK, marker="_", ms=16, mew=1.4, ls="none", label=first)
    figures.draw_level(upper, "all data", 0.5, "chance")
    lower.set_xticks(
        range(len(names)),
        [_split_name(name)[1].replace(" ", "\n") for name in names],
        fontsize=9,
    )
    lower.legend(loc="upper center", ncols=2, fontsize=9)
    figures.draw_legend(figure, upper)


CEILING = "most that can be shown"


def _label_once(place: int, label: str) -> str:
    """A label for the first of several, so that the legend has it once."""
    return label if place == 0 else "_"


def _split_name(name: str) -> tuple[str, str]:
    """The family of a policy, and the value of its parameter."""
    kind, _, setting = name.replace("tolerance", "tol.").partition(", ")
    return ("Mean, average" if setting.startswith("tol.") else name if kind == "Mean" else kind), setting or kind


def _find_verdict(results: Results) -> Verdict:
    """Exact answers leak, a window does not, and `Private` keeps its guarantee at a price."""
    parts = {name: results.where(policy=name) for name in results.values("policy")}
    private = {name: e for name, e in PROMISES.items() if name in parts}
    auc, ratio = ({name: mine.mean(what) for name, mine in parts.items()} for what in ("auc", "ratio"))
    strict = next(iter(PROMISES))
    noises = [parts[name].mean(batch) for name in private for batch in NOISES]
    averages = [f", {auc[name]:.2f} from averages with {name[6:]}" for name in parts if name.startswith("Mean, tol")]
    shown = "; ".join(
        f"{parts[name]['epsilon'].max():.2f} for epsilon {e:g}, where {parts[name].mean('ceiling'):.2f} could be shown"
        for name, e in private.items()
    )
    excess = {name: parts[name]["ratio"] - 1.0 for name in private}
    priced = {name: _make_private(e).price(RETENTION // 2, 1.0) - 1.0 for name, e in private.items()}
    return Verdict.from_checks(
        {
            "presence bits reveal as much as the games can show": bool(
                np.all(parts["Mean, bits"]["epsilon"] == parts["Mean, bits"]["ceiling"])
            ),
            "a window reveals nothing": bool(np.all(parts["window"]["auc"] == 0.5)),
            "Private keeps its guarantee in epsilon": all(
                parts[name]["epsilon"].max() <= e for name, e in private.items()
            ),
            "and in mu": all(parts[name]["mu"].max() <= _make_private(e).mu for name, e in private.items()),
            "it clips, and adds the noise of its guarantee to the first batch and to a later one": not any(
                test(parts[name][batch], 1.0, NOISE_TRIALS)
                for name in private
                for batch in NOISES
                for test in (significance.is_above, significance.is_below)
            ),
            "at the price that it states": not any(
                test(excess[name], priced[name], STREAMS)
                for name in private
                for test in (significance.is_above, significance.is_below)
            ),
        },
        f"{LENGTH - RETENTION} records after it was erased, an adversary distinguishes a record of -3 from one of 3 "
        f"with an AUC of {auc['Mean, bits']:.2f} from presence bits{''.join(averages)}; from Private at epsilon 1 with "
        f"{auc[strict]:.2f}, at {ratio[strict]:.1f} times the error of all data; from a window with "
        f"{auc['window']:.2f}, at {ratio['window']:.0f} times that error. The games showed a lower bound of {shown}. "
        f"The noise of Private has {np.mean(noises):.3f} times the variance of its guarantee. "
        "A larger tolerance hides a record without a guarantee; Private has one.",
    )


EXPERIMENT = Experiment(
    name="leakage",
    claim="An exact answer reveals erased records; a window's does not, and noise buys any degree of privacy at a "
    "price in accuracy.",
    source="Appendix D; Private is ours",
    grid=grid(policy=PARTS),
    run_trial=_run_trial,
    draw_figure=_draw_figure,
    find_verdict=_find_verdict,
    parts=PARTS,
    trials=8,
    quick=lambda point: point["policy"] in QUICK,
    quick_trials=2,
    trial_unit=f"an audit of {GAMES} games or more",
    contest=Contest(
        1,
        ({},),
        {
            "squared error, that of all data": "ratio",
            "AUC": "auc",
            "epsilon": "epsilon",
            "most that can be shown": "ceiling",
        },
        RETENTION,
    ),
)
