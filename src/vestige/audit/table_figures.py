"""Figures of an audit of a table: which records of each batch are kept, and how little their averages vary.

Guarantee: a figure shows positions and averages, never a record; held by tests/audit/test_table.py.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from vestige.audit.table_result import TableAudit
from vestige.errors import ParameterError
from vestige.figures import FAINT, INK, find_style, make_panels, save_figure, use_style

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@use_style()
def draw_table(audit: TableAudit, path: str | Path | None = None) -> Figure:
    """Draw the kept positions of each batch, and the averages of the kept records.

    Args:
        audit: result of an audit.
        path: file to save the figure in; None to save nothing.

    Returns:
        The figure.

    Raises:
        ParameterError: no batch has both kept and missing records, so that there is nothing to draw.
        MissingExtraError: matplotlib is not installed.

    Example:
        >>> from vestige import Mean, Stream
        >>> from vestige.audit import TableSnapshot, audit_table
        >>> stream, days = Stream(Mean(), retention=96, seed=0), []
        >>> for day in np.random.default_rng(0).normal(size=(3, 60)):
        ...     _ = stream.extend(day)
        ...     days.append(TableSnapshot(stream.retained.rounds.tolist(), stream.retained.values))
        >>> len(draw_table(audit_table(days, trials=99)).get_axes())
        2
    """
    if not audit.patterns:
        raise ParameterError("audit has no batch with kept and missing records; there is nothing to draw")
    figure, (left, right) = make_panels(2, 4.4, 3.4)
    width = max(map(len, audit.patterns))
    rows = [[bit == "1" for bit in pattern.rjust(width, "0")] for pattern in audit.patterns]
    left.imshow(np.array(rows), cmap="Greys", aspect="auto", interpolation="nearest", extent=(-width, 0, len(rows), 0))
    left.set_yticks(range(0, len(rows) + 1, 5))
    left.set(xlabel="position, from the end of the batch", ylabel="batch", title="kept records (black)")
    averages = np.array(audit.averages)[:, 0]
    several = averages[~np.isnan(averages)]
    centre = several.mean() if len(several) else 0.0
    errors = np.nan_to_num(np.array(audit.standard_errors)[:, 0])
    style, places = find_style("Mean, bits"), np.arange(1, len(averages) + 1)
    right.fill_between(places, centre - errors, centre + errors, color=FAINT, alpha=0.3, lw=0)
    right.plot(places, averages, color=style.colour, marker=style.marker, ls="none")
    right.axhline(centre, color=INK, lw=0.8)
    right.locator_params(axis="x", integer=True)
    right.set(xlabel="batch", ylabel="average of the kept records", title="averages, and one standard error")
    save_figure(figure, path)
    return figure
