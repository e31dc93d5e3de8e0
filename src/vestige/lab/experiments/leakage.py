"""What makes the answer exact makes the retained records tell of the erased; forgetting has its price.

Immorlica et al. (2024), Section 3 and Appendix D: differential privacy can be violated by data that were erased. Here
the game of `vestige.audit` is played: two worlds that differ in one erased record, and an adversary who knows the
others. The knobs, of the solver's tolerance and of `Private`, are ours.
Limits: what `Private` promises, in epsilon and in mu, tried with as many games as could show half an epsilon more; the
AUC of a coin for a window; and the price that `Private.price` names. Games see a promise that is broken by half; what
it rests on is measured directly: of batches of values far beyond the bound, the answer is the bound and noise of the
deviation that epsilon and delta ask for, whose squares add up to chi squared. Less noise, or no clipping, is refuted,
also where it begins with the second batch of a stream.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import TYPE_CHECKING

import numpy as np

from vestige.audit import epsilon_ceiling, measure_leakage
from vestige.figures import FAINT, INK, SIZE, find_style
from vestige.lab import figures, significance
from vestige.lab.baselines import error_ratio, run_stream
from vestige.lab.experiment import Experiment, Parts, Point, Verdict, grid
from vestige.lab.results import Results
from vestige.policies import Mean, Private, Window
from vestige.policy import Policy
from vestige.random.keys import AuditSeed
from vestige.stream import Stream

if TYPE_CHECKING:
    from matplotlib.figure import Figure

RETENTION, LENGTH, GAMES, STREAMS, DRAWS, BEYOND = 128, 448, 100, 10, 500, 10.0
BOUND, DELTA, MORE = 4.0, 1e-6, 0.5
EPSILONS = (1.0, 2.0, 4.0)
QUICK = ("window", "Mean, bits", "Private, epsilon 1")
NOISES = ("noise", "later")
TOLERANCES = (0.03, 0.3, 1.0, 3.0)


def _private(epsilon: float) -> Private:
    return Private(bound=BOUND, epsilon=epsilon, delta=DELTA)


def _tolerant(tolerance: float) -> Policy:
    return Mean(channel="average", tolerance=tolerance)


PARTS: dict[str, Callable[[], Policy]] = {
    "window": Window,
    "Mean, bits": partial(Mean, channel="bits"),
    **{f"Mean, tolerance {tolerance:g}": partial(_tolerant, tolerance) for tolerance in TOLERANCES},
    **{f"Private, epsilon {epsilon:g}": partial(_private, epsilon) for epsilon in EPSILONS},
}


PROMISES = {f"Private, epsilon {epsilon:g}": epsilon for epsilon in EPSILONS}


@cache
def games(name: str) -> int:
    """How many games it takes to show more than what is promised, and no fewer than `GAMES`."""
    count, more = GAMES, PROMISES.get(name, 0.0) + MORE
    while epsilon_ceiling(count, confidence=1.0 - significance.LEVEL, delta=DELTA) < more:
        count += 10
    return count


def noise_of(policy: Policy, epsilon: float, rng: np.random.Generator) -> tuple[float, ...]:
    """The mean square of what batches beyond the bound are off by, in that of the noise that is promised.

    Returns:
        one for the first batch of a stream, and one for the second, which is added to what was there.
    """
    batch = RETENTION // 2
    rows, off = np.full((batch, 1), BEYOND * BOUND), np.empty((DRAWS, 2))
    for mine in off:
        stream = Stream(policy, retention=RETENTION, seed=AuditSeed(int(rng.integers(2**62))))
        stream.extend(rows)
        first = stream.estimate().value
        stream.extend(rows)
        mine[:] = first - BOUND, 2.0 * stream.estimate().value - first - BOUND
    return tuple(np.mean(off**2, axis=0) / (2.0 * BOUND * _private(epsilon).scale / batch) ** 2)


def _run_trial(point: Point, rng: np.random.Generator, parts: Parts) -> dict[str, float]:
    """One audit: how well the worlds are told apart; and the error over that of all data."""
    name = str(point["policy"])
    policy, seed = parts[name](), int(rng.integers(2**31))
    found = measure_leakage(
        policy, retention=RETENTION, t=LENGTH, trials=games(name), values=(-3.0, 3.0),
        confidence=1.0 - significance.LEVEL, delta=DELTA, seed=seed, workers=1,
    )  # fmt: skip
    noise, later = noise_of(policy, PROMISES[name], rng) if name in PROMISES else (float("nan"),) * 2
    ratios = []
    for _ in range(STREAMS):
        rows = rng.normal(size=(LENGTH, 1))
        ratios.append(error_ratio(run_stream(policy, rows, RETENTION, rng), rows, 1.0))
    return {
        "auc": found.auc,
        "epsilon": found.epsilon,
        "mu": found.mu,
        "ceiling": found.epsilon_ceiling,
        "ratio": float(np.mean(ratios)),
        "noise": noise,
        "later": later,
    }


def _draw_figure(results: Results, figure: Figure) -> None:
    """How well the worlds are told apart against the error; and epsilon, beside what is promised and can be shown."""
    figure.set_size_inches(SIZE[0], 6.4)
    upper, lower = figure.subplots(2, 1, height_ratios=(3, 2))
    upper.set(
        xscale="log",
        xlabel="mean squared error (that of all data)",
        ylabel="worlds told apart\n(AUC; 0.5 is chance)",
        ylim=(0.4, 1.05),
    )
    lower.set(ylabel="epsilon, at least", ylim=(-0.2, 5.4))
    there = [name for name in PARTS if name in results.values("policy")]
    certain = 0
    for place, name in enumerate(there):
        mine = results.where(policy=name)
        x, y = mine.mean("ratio"), mine.mean("auc")
        family, knob = _family(name)
        style = find_style(family)
        known = family in upper.get_legend_handles_labels()[1]
        upper.errorbar(
            x, y, 2.0 * mine.standard_error("auc"), 2.0 * mine.standard_error("ratio"), color=style.colour,
            marker=style.marker, ls="none", capsize=2, elinewidth=1, label="_" if known else family,
        )  # fmt: skip
        if y > 0.9:  # one beneath the other, where all is told
            upper.annotate(knob, (x, y), (8, 5 - 13 * certain), textcoords="offset points", fontsize=9)
            certain += 1
        else:
            top, aside = (y + 2.0 * mine.standard_error("auc"), 5) if y > 0.51 else (y, -15)
            upper.annotate(knob, (x, top), (0, aside), textcoords="offset points", fontsize=9, ha="center")
        lower.plot(place, mine["epsilon"].max(), color=style.colour, marker=style.marker, ls="none")
        lower.plot(
            place, mine.mean("ceiling"), color=FAINT, marker="_", ms=16, mew=1.4, ls="none", label=_once(place, SEEN)
        )
        if name in PROMISES:
            first = _once(place - there.index(next(iter(PROMISES))), "promised")
            lower.plot(place, PROMISES[name], color=INK, marker="_", ms=16, mew=1.4, ls="none", label=first)
    figures.draw_level(upper, "all data", 0.5, "chance")
    lower.set_xticks(
        range(len(there)),
        [_family(name)[1].replace(" ", "\n") for name in there],
        fontsize=9,
    )
    lower.legend(loc="upper center", ncols=2, fontsize=9)
    figures.draw_legend(figure, upper)


SEEN = "the most that so many games can show"


def _once(place: int, label: str) -> str:
    """A label for the first of several, so that it stands in the legend once."""
    return label if place == 0 else "_"


def _family(name: str) -> tuple[str, str]:
    """The policy that something is a kind of, and the knob that makes it that kind."""
    kind, _, knob = name.replace("tolerance", "tol.").partition(", ")
    return ("Mean, average" if knob.startswith("tol.") else name if kind == "Mean" else kind), knob or kind


def _find_verdict(results: Results) -> Verdict:
    """Exact answers leak, a window does not, and Private keeps what it promises at a price."""
    found = {name: results.where(policy=name) for name in results.values("policy")}
    private = {name: e for name, e in PROMISES.items() if name in found}
    auc, ratio = ({name: mine.mean(what) for name, mine in found.items()} for what in ("auc", "ratio"))
    strict = next(iter(PROMISES))
    noises = [found[name].mean(batch) for name in private for batch in NOISES]
    averages = [f", {auc[name]:.2f} from averages with {name[6:]}" for name in found if name.startswith("Mean, tol")]
    shown = "; ".join(
        f"of epsilon {e:g}, {found[name]['epsilon'].max():.2f} where {found[name].mean('ceiling'):.2f} could be seen"
        for name, e in private.items()
    )
    excess = {name: found[name]["ratio"] - 1.0 for name in private}
    priced = {name: _private(e).price(RETENTION // 2, 1.0) - 1.0 for name, e in private.items()}
    return Verdict.from_checks(
        {
            "presence bits tell all that games can show": bool(
                np.all(found["Mean, bits"]["epsilon"] == found["Mean, bits"]["ceiling"])
            ),
            "a window tells nothing": bool(np.all(found["window"]["auc"] == 0.5)),
            "Private shows no more than it promises, in epsilon": all(
                found[name]["epsilon"].max() <= e for name, e in private.items()
            ),
            "and in mu": all(found[name]["mu"].max() <= _private(e).mu for name, e in private.items()),
            "it clips, and adds the noise that it promises and no less, to the first batch and to a later one": not any(
                test(found[name][batch], 1.0, DRAWS)
                for name in private
                for batch in NOISES
                for test in (significance.is_above, significance.is_below)
            ),
            "for the price that it names": not any(
                test(excess[name], priced[name], STREAMS)
                for name in private
                for test in (significance.is_above, significance.is_below)
            ),
        },
        f"{LENGTH - RETENTION} records after it was erased, whether a record was -3 or 3 is told with an AUC of "
        f"{auc['Mean, bits']:.2f} from presence bits{''.join(averages)}. Private at epsilon 1 lets it be told with "
        f"{auc[strict]:.2f}, for {ratio[strict]:.1f} times the error of all data; a window with {auc['window']:.2f}, "
        f"for {ratio['window']:.0f} times. The games showed, of what Private promises, {shown}. "
        f"Its noise has {np.mean(noises):.3f} times the variance it should. "
        "Stopping early hides a record without any promise; Private promises.",
    )


EXPERIMENT = Experiment(
    name="leakage",
    claim="An exact answer tells of erased records; a window's does not, and noise buys any degree of forgetting at a "
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
)
