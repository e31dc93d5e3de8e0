"""The batched model costs a factor of two in retention and nothing else: the states are the same in both directions.

Proposition 2.1 of Immorlica et al. (2024). A batched policy with batches of m runs as a stream with retention 2 m; a
streaming policy with retention m runs in the batched model with batches of m. Records and coins are the same.
Limits: equality of all states.
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
TO_STREAM, TO_BATCHES = "batches as a stream", "a stream as batches"
POLICIES = ("window", "algorithm 1", "Mean, auto")


class _EveryRound(Window):
    """A streaming policy, which updates in every round."""

    every_round = True


def make_stream(policy: Policy, retention: int, seed: int) -> Stream:
    """Make a stream.

    Args:
        policy: the policy.
        retention: retention of the stream, in records.
        seed: seed of the coins.

    Returns:
        The stream.
    """
    return Stream(policy, retention=retention, seed=seed)


def make_batched(policy: Policy, batch: int, seed: int) -> Batched:
    """Make a batched model.

    Args:
        policy: the policy.
        batch: number of records in a batch.
        seed: seed of the coins.

    Returns:
        The batched model.
    """
    return Batched(policy, batch=batch, seed=seed)


def _run_trial(point: Point, rng: np.random.Generator, parts: Parts) -> dict[str, float]:
    """The final errors in both models, the largest difference of answers, and the number of states that differ."""
    policy, batch, seed = MEANS[str(point["policy"])](1), int(point["batch"]), int(rng.integers(2**62))
    length = LENGTH if point["direction"] == TO_STREAM else LENGTH // 4  # a policy that updates in every round is slow
    rows = rng.normal(size=(length // batch * batch, 1))
    if point["direction"] == TO_STREAM:
        models = parts["batched"](policy, batch, seed), parts["streamed"](policy, 2 * batch, seed)
    else:
        models = parts["batched"](_EveryRound(), batch, seed), parts["streamed"](_EveryRound(), batch, seed)
    difference, states = 0.0, 0
    for start in range(0, len(rows), batch):
        for model in models:
            model.extend(rows[start : start + batch])
        first, second = (_select_newest(model, batch) for model in models)
        states += int(not np.array_equal(first, second))
        difference = max(difference, abs(float(models[0].estimate().value) - float(models[1].estimate().value)))
    errors = [squared_norm(np.atleast_1d(model.estimate().value)) for model in models]
    return {"batched": errors[0], "streamed": errors[1], "difference": difference, "different_states": float(states)}


def _select_newest(model: Stream | Batched, batch: int) -> Floats:
    """The retained records of the newest batch; a window in a stream of twice the memory holds the one before too."""
    retained = model.retained
    recent: Floats = retained.values[retained.rounds > model.t - batch]
    return recent


def _draw_figure(results: Results, figure: Figure) -> None:
    """The error against the batch, in both models."""
    axes = figure.add_subplot(
        xscale="log", yscale="log", xlabel="batch m (records)", ylabel="mean squared error (variances)"
    )
    for name in POLICIES:
        mine = results.where(direction=TO_STREAM, policy=name)
        figures.draw_curve(axes, name, mine.series("batch", "batched"), shift=-0.02, label=f"{name}, batches of m")
        series = mine.series("batch", "streamed")
        style = find_style(name)
        axes.plot(
            series.x * 1.02, series.mean, ls="none", marker=style.marker, mfc="none", ms=10, mec=style.colour,
            label=f"{name}, retention 2 m",
        )  # fmt: skip
    figures.set_whole_ticks(axes, list(BATCHES))
    figures.draw_legend(figure, axes)


def _find_verdict(results: Results) -> Verdict:
    """Require equal states, not similar ones; a window answers from all that it holds, so its answers may differ."""
    to_stream, to_batches = (results.where(direction=direction) for direction in (TO_STREAM, TO_BATCHES))
    states = to_stream["different_states"].sum() + to_batches["different_states"].sum()
    encoded = (to_stream.where(policy=name)["difference"].max() for name in ("Mean, auto", "algorithm 1"))
    answers = max(*encoded, to_batches["difference"].max())
    ratio = to_stream.where(policy="window").mean("batched") / to_stream.where(policy="window").mean("streamed")
    return Verdict.from_checks(
        {"no state differs": states == 0.0, "no answer differs": answers == 0.0},
        f"In {len(results):,} pairs of streams, {states:.0f} states differed, and answers by at most {answers:g}. Only "
        f"the window gains from the stream's longer retention: its error is {ratio:.1f} times smaller.",
    )


EXPERIMENT = Experiment(
    name="batching",
    claim="A batched policy behaves the same as a stream with twice the retention, and a streaming policy the same in "
    "batches of its retention.",
    source="Proposition 2.1",
    grid=(
        *(
            p
            for p in grid(direction=[TO_STREAM], policy=POLICIES, batch=BATCHES)
            if p["policy"] != "algorithm 1" or p["batch"] in (28, 32)
        ),
        *grid(direction=[TO_BATCHES], policy=["window"], batch=BATCHES),
    ),
    run_trial=_run_trial,
    draw_figure=_draw_figure,
    find_verdict=_find_verdict,
    parts={"streamed": make_stream, "batched": make_batched},
    trials=30,
    quick=lambda point: point["batch"] in (32, 128),
    quick_trials=3,
)
