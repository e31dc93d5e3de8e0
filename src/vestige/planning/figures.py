"""A plan as a picture: the error after all records, against retention, for each policy."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from vestige import theory
from vestige.figures import find_style, make_figure, save_figure, use_style
from vestige.planning.influence import Known
from vestige.planning.plan import Plan, contenders, means_in
from vestige.planning.prediction import foretold
from vestige.policies import Encoded, Window
from vestige.policy import Policy

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_POINTS = 9


@use_style()
def draw_plan(found: Plan, path: str | Path | None = None, sample: ArrayLike | None = None) -> Figure:
    """Draw the error that is expected after all records against retention, both logarithmic.

    Args:
        found: the plan.
        path: file to save the figure in; its suffix determines the format. Default: do not save.
        sample: what the plan was made with.

    Returns:
        The figure, which a notebook displays.

    Raises:
        MissingExtraError: if matplotlib is not installed.
    """
    figure = make_figure((6.4, 4.2))
    axes = figure.add_subplot(
        xscale="log", yscale="log", xlabel="retention (records)", ylabel="error expected (standard deviations)"
    )
    known = Known(found.policy, sample, found.mean)
    drawn: dict[str, Policy] = dict(contenders(found.policy))
    if found.private is not None:
        drawn["Private"] = found.private
    drawn["window"] = Window(found.policy)
    for number, (name, policy) in enumerate(drawn.items()):
        retentions, style = _retentions(policy, found), find_style(name, number)
        errors = [foretold(known, policy, m, found.records, noted=False, steady=True).error for m in retentions]
        axes.plot(retentions, errors, color=style.colour, marker=style.marker, ls=style.line, label=name, ms=5)
    least, means = found.row("anybody").retention or 1, means_in(found.policy)
    held = np.unique(np.geomspace(2, 1.5 * least + 4, 40).astype(int))
    floor = [np.sqrt(theory.mean_squared_error_floor(means, int(m)) / means) for m in held]
    axes.plot(
        held, floor, color=find_style("lower bound").colour, ls=find_style("lower bound").line, label="lower bound"
    )
    style = find_style("all data")
    axes.axhline(found.records**-0.5, color=style.colour, ls=style.line, label=f"all {found.records:,} records")
    axes.set_ylim(found.records**-0.5 / 4.0, 1.2)
    figure.legend(loc="outside upper left", ncols=3, fontsize=9)
    save_figure(figure, path)
    return figure


def _retentions(policy: Policy, found: Plan) -> list[int]:
    """From the shortest that the policy can work with to one that holds all, or is long enough for anything."""
    least = 2 * policy.min_batch
    most = found.records if not isinstance(policy, Encoded) or policy.requires_secret_coins else 4 * max(least, 128)
    return sorted({2 * round(m / 2) for m in np.geomspace(least, max(most, least), _POINTS)})
