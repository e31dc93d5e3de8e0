"""One colour and one mark for each policy, the same in every figure.

Colours of Okabe and Ito, which the colour-blind tell apart and which stand on white and on black.
Guarantee: no two policies look the same, and each looks the same by all its names; held by tests/test_figures.py.
"""

from __future__ import annotations

from dataclasses import dataclass

INK = "#4d4d4d"
"""Axes and text; a report replaces it by the colour of its own text."""
FAINT = "#9a9a9a"


@dataclass(frozen=True, slots=True)
class Look:
    """How something is drawn."""

    colour: str
    mark: str
    line: str = "-"


LOOKS = {
    "window": Look("#E69F00", "s"),
    "algorithm 1": Look("#D55E00", "o"),
    "coordinate-wise": Look("#CC79A7", "D"),
    "algorithm 2": Look("#D55E00", "P"),
    "Mean, average": Look("#56B4E9", "^"),
    "Mean, bits": Look("#009E73", "v"),
    "Mean, auto": Look("#0072B2", "X"),
    "LinearRegression": Look("#0072B2", "h"),
    "Private": Look("#8A6FC9", "*"),
    "all data": Look(FAINT, "", "--"),
    "lower bound": Look(INK, "", ":"),
    "bound": Look(INK, "", "-."),
}
ALIASES = {
    "Window": "window",
    "paper.SimpleMean": "algorithm 1",
    "paper.CoordinateMean": "coordinate-wise",
    "paper.Regression": "algorithm 2",
    "Mean": "Mean, auto",
}
"""What else policies are called."""
SHADES = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
MARKS = ("o", "s", "^", "D", "v", "X")


def look(name: str, number: int = 0) -> Look:
    """How to draw a policy by what its name begins with, or the `number`-th of curves that have no name elsewhere.

    >>> look("Private, epsilon 1") == LOOKS["Private"], look("Mean()") == LOOKS["Mean, auto"]
    (True, True)
    """
    begun = max((known for known in (*LOOKS, *ALIASES) if name.startswith(known)), key=len, default="")
    return LOOKS.get(ALIASES.get(begun, begun)) or Look(SHADES[number % len(SHADES)], MARKS[number % len(MARKS)])
