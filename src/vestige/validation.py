"""Checks of arguments: each returns the value in the type that is wanted, or raises an error.

Guarantee: an error names the parameter, its value, the limit and the remedy; held by tests/test_arguments.py.
"""

from __future__ import annotations

import math
import operator
import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from numbers import Real

import numpy as np

from vestige.errors import ParameterError
from vestige.types import Floats

_SHOWN = 200
"""At most this many characters of a value are shown."""

MOST = 10**15
"""So far do the formulas count: whole numbers that a float holds."""


def check_int(name: str, value: object, least: int, most: int | None = None) -> int:
    """`value`, if it is a whole number not below `least` nor above `most`; else an error that names the parameter."""
    try:
        number = None if isinstance(value, bool) else operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        number = None
    if number is None or number < least:
        raise ParameterError(f"{name}={show_value(value)} is out of range; use a whole number, {least} or more")
    if most is not None and number > most:
        raise ParameterError(f"{name}={show_value(value)} is out of range; use a whole number, {most:,} or less")
    return number


def check_float(name: str, value: object, fits: Callable[[float], bool], remedy: str) -> float:
    """`value` as a float, if it is a number that fits; else an error that names the parameter and says what to use."""
    number = math.nan
    if isinstance(value, Real) and not isinstance(value, bool):
        with suppress(OverflowError):
            number = float(value)
    if math.isnan(number) or not fits(number):
        raise ParameterError(f"{name}={show_value(value)} is out of range; use {remedy}")
    return number


def check_choice(name: str, value: object, known: Iterable[str]) -> str:
    """`value`, if it is one of these; else an error that names the parameter and all of them."""
    if not isinstance(value, str) or value not in known:
        raise ParameterError(f"{name}={show_value(value)} is unknown; use one of {', '.join(known)}")
    return value


def check_bool(name: str, value: object) -> None:
    """An error that names the parameter, unless it is True or False."""
    if not isinstance(value, bool | np.bool_):
        raise ParameterError(f"{name}={show_value(value)} is not a flag; use True or False")


def check_list(name: str, value: object, kind: type, what: str) -> None:
    """An error that names the parameter, unless it is a list or the like of `kind`."""
    listed = isinstance(value, Sequence) and not isinstance(value, str | bytes)
    if not listed or not all(isinstance(each, kind) for each in value):  # type: ignore[attr-defined]
        raise ParameterError(f"{name} is not a list of {what}; pass a list, even of one")


def check_floats(name: str, value: object) -> Floats:
    """`value` as an array of floats; an error that names the parameter where it does not hold numbers alone."""
    try:
        made = np.asarray(value)
        if made.dtype.kind in "biufO":
            return made.astype(np.float64, copy=False)
    except (TypeError, ValueError, OverflowError):
        pass
    raise ParameterError(f"{name} does not hold numbers alone; pass an array of numbers")


def show_value(value: object) -> str:
    """A parameter's value for an error: as Python writes it, and short."""
    try:
        shown = repr(value)
    except Exception:  # an object of anybody's, or a number of too many digits
        shown = f"a {type(value).__name__}"
    return shown if len(shown) <= _SHOWN else f"{shown[:_SHOWN]}..."


def check_positive(name: str, value: object) -> float:
    """`value` as a float, if it is a finite number above 0; else an error that names the parameter."""
    number = isinstance(value, (int, float, np.floating, np.integer)) and not isinstance(value, bool)
    if not number or not 0.0 < value <= sys.float_info.max:  # type: ignore[operator]
        raise ParameterError(f"{name}={value!r} is out of range; use a number above 0")
    return float(value)  # type: ignore[arg-type]


def check_at_most(name: str, value: object, limit: float, remedy: str) -> float:
    """`value` as a float, if it is above 0 and at most `limit`; else an error that says what to do."""
    number = check_positive(name, value)
    if number > limit:
        raise ParameterError(f"{name}={value!r} is above {limit:g}; {remedy}")
    return number


def check_ratio(name: str, value: object) -> float:
    """`value` as a float, if it is at least 1: a ratio of the largest to the smallest."""
    number = check_positive(name, value)
    if number < 1.0:
        raise ParameterError(f"{name}={value!r} is below 1; use the largest over the smallest, 1 or more")
    return number
