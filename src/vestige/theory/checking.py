"""What the bounds take: numbers above 0, and not above what a statement covers.

Guarantee: an error names the parameter, its value, the limit and the remedy; held by tests/theory/test_sufficing.py.
"""

from __future__ import annotations

import sys

import numpy as np

from vestige.errors import ParameterError

MOST = 10**15
"""So far do the formulas count: whole numbers that a float holds."""


def positive(name: str, value: object) -> float:
    """`value` as a float, if it is a finite number above 0; else an error that names the parameter."""
    number = isinstance(value, (int, float, np.floating, np.integer)) and not isinstance(value, bool)
    if not number or not 0.0 < value <= sys.float_info.max:  # type: ignore[operator]
        raise ParameterError(f"{name}={value!r} is out of range; use a number above 0")
    return float(value)  # type: ignore[arg-type]


def at_most(name: str, value: object, limit: float, remedy: str) -> float:
    """`value` as a float, if it is above 0 and at most `limit`; else an error that says what to do."""
    number = positive(name, value)
    if number > limit:
        raise ParameterError(f"{name}={value!r} is above {limit:g}; {remedy}")
    return number


def at_least_one(name: str, value: object) -> float:
    """`value` as a float, if it is at least 1: a ratio of the largest to the smallest."""
    number = positive(name, value)
    if number < 1.0:
        raise ParameterError(f"{name}={value!r} is below 1; use the largest over the smallest, 1 or more")
    return number
