"""Where the stream drifts, the newest records lie off the all-time mean, and averages of them cannot say it.

Immorlica et al. (2024) assume a stationary stream and leave others to future work (Section 5). The channels are ours.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from vestige.lab import plotting
from vestige.lab.contenders import MEANS, answered
from vestige.lab.experiment import Experiment, Parts, Point, Verdict, grid
from vestige.lab.results import Results
from vestige.records import Floats

if TYPE_CHECKING:
    from matplotlib.figure import Figure

RETENTION, LENGTH = 64, 8_192
POLICIES = ("window", "algorithm 1", "Mean, average", "Mean, bits", "Mean, auto")


def _seasons(rng: np.random.Generator, n: int) -> Floats:
    """A level that swings by two standard deviations, sixteen times."""
    made: Floats = rng.normal(size=n) + 2.0 * np.sin(np.arange(n) * (2.0 * np.pi * 16.0 / n))
    return made


DATA: dict[str, Callable[[np.random.Generator, int], Floats]] = {
    "stationary": lambda rng, n: rng.normal(size=n),
    "seasons": _seasons,
    "trend": lambda rng, n: rng.normal(size=n) + np.linspace(0.0, 4.0, n),
    "sorted": lambda rng, n: np.sort(rng.normal(size=n)),
}
KINDS = list(DATA)


def trial(point: Point, rng: np.random.Generator, parts: Parts) -> dict[str, float]:
    """1 for the error of the mean of all records, and how far the answer is from that mean, in the same unit."""
    rows = DATA[str(point["stream"])](rng, LENGTH)[:, None]
    answer = answered(parts[str(point["policy"])](1), rows, RETENTION, rng)
    return {"ratio": 1.0 + float((answer[0] - rows.mean()) ** 2 / (rows.var() / LENGTH))}


def figure(results: Results, drawn: Figure) -> None:
    """The error over that of all data, for each kind."""
    axes = drawn.add_subplot(yscale="log", ylabel="mean squared error (that of all data)")
    plotting.categories(axes, results, "stream", "ratio", KINDS, list(POLICIES))
    plotting.level(axes, "all data", 1.0)
    plotting.legend(drawn, axes)


def verdict(results: Results) -> Verdict:
    """Bits and auto hold on every stream; averages only where it does not drift."""
    ratios = {
        (name, kind): results.where(policy=name, stream=kind).mean("ratio") for name in POLICIES for kind in KINDS
    }
    auto, bits = (max(ratios[name, kind] for kind in KINDS) for name in ("Mean, auto", "Mean, bits"))
    averages = ratios["Mean, average", "stationary"], ratios["Mean, average", "sorted"]
    return Verdict.of(
        {
            "auto is within 10% of all data on every stream": auto < 1.1,
            "so are bits": bits < 1.1,
            "averages hold on a stationary stream": averages[0] < 1.5,
            "and fail on a sorted one": averages[1] > 10.0,
            "the paper's algorithm too": ratios["algorithm 1", "sorted"] > 10.0,
        },
        f"On every stream, auto has at most {auto:.2f} times the error of all data, bits {bits:.2f}. Averages have "
        f"{averages[0]:.2f} times that error on a stationary stream and {averages[1]:,.0f} times on a sorted one; "
        f"Algorithm 1 {ratios['algorithm 1', 'stationary']:.1f} and {ratios['algorithm 1', 'sorted']:,.0f} times.",
    )


EXPERIMENT = Experiment(
    name="drift",
    claim="On streams that drift or are sorted, averages of recent records cannot say the all-time mean; bits can.",
    source="Left open in Section 5; channels are ours",
    grid=grid(policy=POLICIES, stream=KINDS),
    trial=trial,
    figure=figure,
    verdict=verdict,
    parts=MEANS,
    trials=40,
    quick=lambda _: True,
    quick_trials=3,
)
