"""A plan as a figure: the error after all records, against retention, for each policy."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from vestige import theory
from vestige.figures import SIZE, Style, find_new_style, find_style, make_figure, save_figure, use_style
from vestige.planning.data_model import DataModel, check_policy
from vestige.planning.plan import Plan, Row
from vestige.planning.prediction import predict_with
from vestige.policies import Window
from vestige.policy import Policy

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_POINTS = 9


@use_style()
def draw_plan(plan: Plan, path: str | Path | None = None, sample: ArrayLike | None = None) -> Figure:
    """Draw the expected error after all records against retention, both on logarithmic axes.

    A mark on each curve, and the number beside its name, say which retention the policy requires for the target.

    Args:
        plan: the plan.
        path: file to save the figure in; its suffix determines the format. Default: do not save.
        sample: the sample that the plan was made with.

    Returns:
        The figure, which a notebook displays.

    Raises:
        MissingExtraError: if matplotlib is not installed.
        ParameterError: the policy is exact, so that no error depends on the retention.

    Example:
        >>> from vestige import Mean
        >>> from vestige.planning import plan
        >>> draw_plan(plan(Mean(), error=0.1)).axes[0].get_xlabel()
        'retention (records)'
    """
    figure = make_figure((SIZE[0], 4.8))
    axes = figure.add_subplot(
        xscale="log", yscale="log", xlabel="retention (records)", ylabel="expected error (standard deviations)"
    )
    planned = check_policy(plan.policy)
    model = DataModel(planned, sample, plan.mean)
    policies: dict[str, Policy] = dict(planned.variants())
    if plan.private is not None:
        policies[_find_private_name(plan)] = plan.private
    policies["window"] = Window(planned)
    for number, (name, policy) in enumerate(policies.items()):
        retentions = _choose_retentions(policy, plan)
        errors = [predict_with(model, policy, m, plan.records, with_notes=False, steady=True).error for m in retentions]
        _draw_policy(axes, plan.row(name), retentions, errors, find_style(name, number), number)
    _draw_measured(axes, [row for row in plan.rows[:1] if row.name not in policies])
    _draw_limits(axes, plan, planned.answered_means)
    axes.set_ylim(plan.records**-0.5 / 3.0, 1.4)
    figure.legend(loc="outside upper left", ncols=2)
    save_figure(figure, path)
    return figure


def _find_private_name(plan: Plan) -> str:
    return next(row.name for row in plan.rows if row.name.startswith("Private"))


def _draw_policy(axes: Axes, row: Row, retentions: list[int], errors: list[float], style: Style, number: int) -> None:
    """A curve; the first is wide and pale, so that one that lies on it shows. A ring marks what is required."""
    wide: dict[str, Any] = {"lw": 7.0, "alpha": 0.3, "solid_capstyle": "round"} if number == 0 else {}
    name = row.name if row.retention is None else f"{row.name}: {row.retention:,}"
    axes.plot(retentions, errors, color=style.colour, ls=style.line, label=name, **wide)
    if row.retention is not None and row.error is not None:
        size = 13 if number == 0 else 8
        axes.plot(row.retention, row.error, style.marker, color=style.colour, ms=size, mfc="none" if size > 8 else None)


def _draw_measured(axes: Axes, rows: list[Row]) -> None:
    """A policy of one's own, of which only what it requires is known."""
    for number, row in enumerate(rows):
        style, label = find_new_style(number), f"{row.name}: {row.retention or 0:,}"
        if row.retention is not None and row.error is not None:
            axes.plot(row.retention, row.error, style.marker, color=style.colour, ms=9, ls="none", label=label)


def _draw_limits(axes: Axes, plan: Plan, means: int) -> None:
    """The target, what no policy can be below, and what all records would have."""
    floor, level, target = find_style("lower bound"), find_style("all data"), find_style("bound")
    least = plan.row("lower bound").retention or 1
    held = np.unique(np.geomspace(2, 1.5 * least + 4, 40).astype(int))
    errors = [np.sqrt(theory.streaming_floor(means, plan.records, int(m)) / means) for m in held]
    axes.plot(held, errors, color=floor.colour, ls=floor.line, label=f"lower bound: {least:,}")
    axes.plot(least, plan.error, "|", color=floor.colour, ms=13, mew=2)
    axes.axhline(plan.error, color=target.colour, ls=target.line, lw=1.0, label=f"target: {plan.error:.2g}")
    axes.axhline(plan.records**-0.5, color=level.colour, ls=level.line, label=f"all {plan.records:,} records")


def _choose_retentions(policy: Policy, plan: Plan) -> list[int]:
    """From the shortest that the policy can work with to one that holds all, or is long enough for anything."""
    least = 2 * policy.min_batch
    holds_all = policy.is_window or policy.requires_secret_coins
    most = plan.records if holds_all else 4 * max(least, 128)
    return sorted({2 * round(m / 2) for m in np.geomspace(least, max(most, least), _POINTS)})
