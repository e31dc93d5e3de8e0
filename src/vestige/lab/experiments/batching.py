"""Batches cost a factor of two in retention and nothing else: the same states, both ways.

Proposition 2.1 of Immorlica et al. (2024). A batched policy with batches of m is run as a stream with retention 2 m; a
streaming policy with retention m is run in the batched model with batches of m. Same records, same coins.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from vestige.figures import find_style
from vestige.lab import figures
from vestige.lab.baselines import MEANS, squared_norm
from vestige.lab.experiment import Experiment, Parts, Point, Verdict, grid
from vestige.lab.results import Results
from vestige.policies import Window
from vestige.policy import Policy
from vestige.stream import Batched, Stream
from vestige.types import Floats

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BATCHES = (28, 32, 64, 128)
LENGTH = 3_584
FORTH, BACK = "batches as a stream", "a stream as batches"
POLICIES = ("window", "algorithm 1", "Mean, auto")


class _Sliding(Window):
    """A streaming policy: it updates in every round."""

    every_round = True


def streamed(policy: Policy, retention: int, seed: int) -> Stream:
    """The streaming model."""
    return Stream(policy, retention=retention, seed=seed)


def batched(policy: Policy, batch: int, seed: int) -> Batched:
    """The batched model."""
    return Batched(policy, batch=batch, seed=seed)


def _run_trial(point: Point, rng: np.random.Generator, parts: Parts) -> dict[str, float]:
    """The errors in both models at the end of each batch, and how far their answers are apart at most."""
    policy, batch, seed = MEANS[str(point["policy"])](1), int(point["batch"]), int(rng.integers(2**62))
    length = LENGTH if point["way"] == FORTH else LENGTH // 4  # a policy that updates in every round takes its time
    rows = rng.normal(size=(length // batch * batch, 1))
    if point["way"] == FORTH:
        models = parts["batched"](policy, batch, seed), parts["streamed"](policy, 2 * batch, seed)
    else:
        models = parts["batched"](_Sliding(), batch, seed), parts["streamed"](_Sliding(), batch, seed)
    apart, states = 0.0, 0
    for start in range(0, len(rows), batch):
        for model in models:
            model.extend(rows[start : start + batch])
        first, second = (_kept(model, batch) for model in models)
        states += int(not np.array_equal(first, second))
        apart = max(apart, abs(float(models[0].estimate().value) - float(models[1].estimate().value)))
    errors = [squared_norm(np.atleast_1d(model.estimate().value)) for model in models]
    return {"batched": errors[0], "streamed": errors[1], "apart": apart, "states_apart": float(states)}


def _kept(model: Stream | Batched, batch: int) -> Floats:
    """What is held of the newest batch; a window in a stream of twice the memory has the one before too."""
    retained = model.retained
    recent: Floats = retained.values[retained.rounds > model.t - batch]
    return recent


def _draw_figure(results: Results, figure: Figure) -> None:
    """Errors against the batch, in both models."""
    axes = figure.add_subplot(
        xscale="log", yscale="log", xlabel="batch m (records)", ylabel="mean squared error (variances)"
    )
    for name in POLICIES:
        mine = results.where(way=FORTH, policy=name)
        figures.draw_curve(axes, name, mine.series("batch", "batched"), shift=-0.02, label=f"{name}, batches of m")
        series = mine.series("batch", "streamed")
        style = find_style(name)
        axes.plot(
            series.x * 1.02, series.mean, ls="none", marker=style.marker, mfc="none", ms=10, mec=style.colour,
            label=f"{name}, retention 2 m",
        )  # fmt: skip
    figures.set_whole_ticks(axes, list(BATCHES))
    figures.draw_legend(figure, axes, columns=2)


def _find_verdict(results: Results) -> Verdict:
    """States that are equal, not similar; a window answers from all it holds, so that its answers may differ."""
    there, back = (results.where(way=way) for way in (FORTH, BACK))
    states = there["states_apart"].sum() + back["states_apart"].sum()
    encoded = there.where(policy="Mean, auto")["apart"].max(), there.where(policy="algorithm 1")["apart"].max()
    answers = max(*encoded, back["apart"].max())
    ratio = there.where(policy="window").mean("batched") / there.where(policy="window").mean("streamed")
    return Verdict.from_checks(
        {"no state differs": states == 0.0, "no answer differs": answers == 0.0},
        f"In {len(results):,} pairs of streams, {states:.0f} states differed, and answers by at most {answers:g}. Only "
        f"the window gains from the stream's longer retention: {ratio:.1f} times.",
    )


EXPERIMENT = Experiment(
    name="batching",
    claim="A batched policy does the same as a stream with twice the retention, and a streaming policy the same in "
    "batches of its retention.",
    source="Proposition 2.1",
    grid=(
        *(
            p
            for p in grid(way=[FORTH], policy=POLICIES, batch=BATCHES)
            if p["policy"] != "algorithm 1" or p["batch"] in (28, 32)
        ),
        *grid(way=[BACK], policy=["window"], batch=BATCHES),
    ),
    run_trial=_run_trial,
    draw_figure=_draw_figure,
    find_verdict=_find_verdict,
    parts={"streamed": streamed, "batched": batched},
    trials=30,
    quick=lambda point: point["batch"] in (32, 128),
    quick_trials=3,
)
