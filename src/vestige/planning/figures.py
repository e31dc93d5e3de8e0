"""A plan as a figure: the error after all records, against retention, for each policy."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from vestige import theory
from vestige.figures import find_style, make_figure, save_figure, use_style
from vestige.planning.data_model import DataModel, check_policy
from vestige.planning.plan import Plan
from vestige.planning.prediction import predict_with
from vestige.policies import Window
from vestige.policy import Policy

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_POINTS = 9


@use_style()
def draw_plan(plan: Plan, path: str | Path | None = None, sample: ArrayLike | None = None) -> Figure:
    """Draw the expected error after all records against retention, both on logarithmic axes.

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
    figure = make_figure((6.4, 4.2))
    axes = figure.add_subplot(
        xscale="log", yscale="log", xlabel="retention (records)", ylabel="expected error (standard deviations)"
    )
    planned = check_policy(plan.policy)
    model = DataModel(planned, sample, plan.mean)
    policies: dict[str, Policy] = dict(planned.variants())
    if plan.private is not None:
        policies["Private"] = plan.private
    policies["window"] = Window(planned)
    for number, (name, policy) in enumerate(policies.items()):
        retentions, style = _choose_retentions(policy, plan), find_style(name, number)
        errors = [predict_with(model, policy, m, plan.records, with_notes=False, steady=True).error for m in retentions]
        axes.plot(retentions, errors, color=style.colour, marker=style.marker, ls=style.line, label=name, ms=5)
    least, means = plan.row("lower bound").retention or 1, planned.answered_means
    held = np.unique(np.geomspace(2, 1.5 * least + 4, 40).astype(int))
    floor = [np.sqrt(theory.streaming_floor(means, plan.records, int(m)) / means) for m in held]
    axes.plot(
        held, floor, color=find_style("lower bound").colour, ls=find_style("lower bound").line, label="lower bound"
    )
    style = find_style("all data")
    axes.axhline(plan.records**-0.5, color=style.colour, ls=style.line, label=f"all {plan.records:,} records")
    axes.set_ylim(plan.records**-0.5 / 4.0, 1.2)
    figure.legend(loc="outside upper left", ncols=3, fontsize=9)
    save_figure(figure, path)
    return figure


def _choose_retentions(policy: Policy, plan: Plan) -> list[int]:
    """From the shortest that the policy can work with to one that holds all, or is long enough for anything."""
    least = 2 * policy.min_batch
    holds_all = policy.is_window or policy.requires_secret_coins
    most = plan.records if holds_all else 4 * max(least, 128)
    return sorted({2 * round(m / 2) for m in np.geomspace(least, max(most, least), _POINTS)})
