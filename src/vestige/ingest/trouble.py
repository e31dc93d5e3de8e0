"""Why rows of one stream were not taken, while those of all others were."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Trouble:
    """Why rows of one stream were not taken.

    Attributes:
        reason: a sentence.
        row: number of the first of these rows.
        rows: number of these rows.
        of_row: whether the cause is in a row, so that the source can be corrected.
        source: name of the source that the first of these rows is in.
    """

    reason: str
    row: int
    rows: int = 0
    of_row: bool = False
    source: str = ""
