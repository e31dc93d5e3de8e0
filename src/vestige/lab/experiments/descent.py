"""Gradient descent tolerates an adversary who perturbs each step by a small enough amount, in any direction.

Lemma 3.2 of Immorlica et al. (2024): steps 1 / (lambda t), E|g|^2 <= Gamma^2, perturbations of E|zeta|^2 <= Gamma^2 /
(lambda^2 T^3). The adversary sees everything and pushes away from the minimum: always by the same amount; in proportion
to the distance, which is the strongest that a mean square allows; or rarely and far.
Limits: the bound of the lemma, 7 Gamma^2 / (lambda^2 T).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from vestige import theory
from vestige.lab import figures
from vestige.lab.experiment import Experiment, Parts, Point, Verdict, grid
from vestige.lab.results import Results
from vestige.types import Floats

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DIM, NOISE, START, PATHS = 2, 1.0, 1.0, 400
STEPS = (1, 3, 10, 30, 100, 300, 1_000)
ADVERSARIES = ("none", "steady", "proportional", "rare")


def push(limit: float, adversary: str, away: Floats, rng: np.random.Generator) -> Floats:
    """Choose how far to push each path away from the minimum.

    Args:
        limit: largest mean square of the pushes.
        adversary: one of `ADVERSARIES`.
        away: distance of each path from the minimum; shape (paths, 1).
        rng: generator for rare pushes.

    Returns:
        The pushes; shape (paths, 1).

    Example:
        >>> push(4.0, "steady", np.ones((1, 1)), np.random.default_rng(0))
        array([[2.]])
    """
    if adversary == "none":
        return np.zeros_like(away)
    if adversary == "steady":
        return np.full_like(away, math.sqrt(limit))
    if adversary == "proportional":
        proportional: Floats = math.sqrt(limit) * away / math.sqrt(float((away**2).mean()))
        return proportional
    rare: Floats = np.where(rng.random(away.shape) < 0.01, 10.0 * math.sqrt(limit), 0.0)
    return rare


def _gradient_bound(steps: int) -> float:
    """Gamma^2: at least E|g|^2 along the path under the strongest adversary, whose pushes grow with Gamma."""
    gamma_2 = DIM * (START**2 + NOISE**2)
    while True:
        push_by = math.sqrt(theory.noise_limit(math.sqrt(gamma_2), 1.0, steps))
        square, largest = DIM * START**2, 0.0
        for t in range(1, steps + 1):
            largest = max(largest, square + DIM * NOISE**2)
            square = (1.0 - 1.0 / t) ** 2 * square + DIM * (NOISE / t) ** 2
            square = (math.sqrt(square) + push_by) ** 2
        if largest <= gamma_2:
            return gamma_2
        gamma_2 = 1.001 * largest


def _run_trial(point: Point, rng: np.random.Generator, parts: Parts) -> dict[str, float]:
    """The squared distance after T steps on |w|^2 / 2, in units of Gamma^2 / (lambda^2 T)."""
    steps, adversary = int(point["steps"]), str(point["adversary"])
    gamma_2 = _gradient_bound(steps)
    limit = theory.noise_limit(math.sqrt(gamma_2), 1.0, steps)
    w, largest = np.full((PATHS, DIM), START), 0.0
    for t in range(1, steps + 1):
        g = w + NOISE * rng.normal(size=w.shape)
        largest = max(largest, float((g**2).sum(axis=1).mean()))
        w = w - g / t
        away = np.linalg.norm(w, axis=1, keepdims=True)
        w = w + parts["push"](limit, adversary, away, rng) * w / away
    return {"distance": float((w**2).sum(axis=1).mean()) * steps / gamma_2, "gradient": largest / gamma_2}


def _draw_figure(results: Results, figure: Figure) -> None:
    """The distance in units of the bound, against the number of steps."""
    axes = figure.add_subplot(xscale="log", xlabel="steps T", ylabel="squared distance (Γ² / λ²T)", ylim=(0.0, 7.5))
    for i, adversary in enumerate(ADVERSARIES):
        series = results.series("steps", "distance", adversary=adversary)
        figures.draw_curve(axes, "", series, number=i, label="no adversary" if i == 0 else f"{adversary} pushes")
    figures.draw_level(axes, "bound", 7.0, "the lemma: 7")
    figures.set_whole_ticks(axes, list(STEPS))
    figures.draw_legend(figure, axes)


def _find_verdict(results: Results) -> Verdict:
    """The bound must hold for all adversaries, and their pushes must show."""
    worst = {name: _largest_distance(results, name) for name in ADVERSARIES}
    hardest = max(worst, key=lambda name: worst[name])
    most = max(results.where(steps=steps).mean("gradient") for steps in results.values("steps"))
    return Verdict.from_checks(
        {
            "no adversary exceeds 7": max(worst.values()) < 7.0,
            "the adversaries make it worse": worst["proportional"] > 1.2 * worst["none"],
            "gradients are as the lemma requires": most < 1.1,
        },
        f"The worst was {worst[hardest]:.2f} Γ²/(λ²T), by {hardest} pushes, where the lemma allows 7; without an "
        f"adversary it was {worst['none']:.2f}.",
    )


def _largest_distance(results: Results, adversary: str) -> float:
    return float(results.series("steps", "distance", adversary=adversary).mean.max())


EXPERIMENT = Experiment(
    name="descent",
    claim="Gradient descent ends within 7 Γ²/(λ²T) of the minimum, for any adversary who perturbs each step by a mean "
    "square of at most Γ²/(λ²T³).",
    source="Lemma 3.2",
    grid=grid(adversary=ADVERSARIES, steps=STEPS),
    run_trial=_run_trial,
    draw_figure=_draw_figure,
    find_verdict=_find_verdict,
    parts={"push": push},
    trials=40,
    quick=lambda point: point["steps"] in (1, 10, 100),
    quick_trials=4,
)
