"""Checks of arguments: each returns the value in the wanted type or raises an error.

Guarantee: an error names the parameter, its value, the limit and the remedy; held by tests/test_arguments.py.
"""

from __future__ import annotations

import math
import operator
import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from numbers import Integral, Real

import numpy as np

from vestige.errors import ParameterError
from vestige.types import Floats

_MAX_SHOWN = 200
"""Number of characters after which the value in an error is cut off."""

_SMALLEST, _LARGEST = 1e-50, 1e50
"""What formulas accept, unless they are about larger or smaller numbers: products of six of these are finite."""
MAX_COUNT = 10**15
"""The largest count that the formulas accept: a float represents it exactly."""


def check_int(name: str, value: object, least: int, most: int | None = None) -> int:
    """Return a parameter as an int if it is a whole number in a range.

    Args:
        name: name of the parameter, for the error.
        value: the argument.
        least: the smallest value allowed.
        most: the largest value allowed; default: no limit.

    Returns:
        The value as an int.

    Raises:
        ParameterError: if the value is not a whole number, or is out of range.

    Example:
        >>> check_int("retention", 96, 2)
        96
    """
    number = None
    if isinstance(value, Integral) and not isinstance(value, bool):  # not an array of one, which has no hash
        with suppress(Exception):  # a foreign object may raise anything; numpy calls a duration whole
            number = operator.index(value)
    if number is None or number < least:
        raise ParameterError(f"{name}={show_value(value)} is out of range; use a whole number, {least} or more")
    if most is not None and number > most:
        raise ParameterError(f"{name}={show_value(value)} is out of range; use a whole number, {most:,} or less")
    return number


def parse_count(name: str, options: Sequence[str]) -> int:
    """Make a whole number from its text.

    Args:
        name: name of the parameter, for the error.
        options: the text, alone in its list.

    Returns:
        The number.

    Raises:
        ParameterError: if there is not one text, or it is not a whole number.

    Example:
        >>> parse_count("k", ["10"])
        10
    """
    if len(options) != 1 or not options[0].strip().isdecimal():
        raise ParameterError(f"{name}={','.join(options)} is not one whole number; use one, such as 16")
    return int(options[0])


def check_float(name: str, value: object, fits: Callable[[float], bool], remedy: str) -> float:
    """Return a parameter as a float if it is a number for which `fits` is true.

    Args:
        name: name of the parameter, for the error.
        value: the argument.
        fits: tells whether a number is allowed; it is never called with nan.
        remedy: what the error tells the caller to use.

    Returns:
        The value as a float.

    Raises:
        ParameterError: if the value is not a number, is nan, or does not fit.

    Example:
        >>> check_float("tolerance", 0, lambda n: n >= 0.0, "0 or more")
        0.0
    """
    number = math.nan
    if isinstance(value, Real) and not isinstance(value, bool):
        with suppress(OverflowError, TypeError):  # numpy calls a duration a number
            number = float(value)
    if math.isnan(number) or not fits(number):
        raise ParameterError(f"{name}={show_value(value)} is out of range; use {remedy}")
    return number


def check_choice(name: str, value: object, known: Iterable[str]) -> str:
    """Return a parameter if it is one of the known texts.

    Args:
        name: name of the parameter, for the error.
        value: the argument.
        known: the texts allowed.

    Returns:
        The value.

    Raises:
        ParameterError: if the value is not one of them; the error lists them.

    Example:
        >>> check_choice("channel", "bits", ["auto", "bits"])
        'bits'
    """
    if not isinstance(value, str) or value not in known:
        raise ParameterError(f"{name}={show_value(value)} is unknown; use one of {', '.join(known)}")
    return value


def check_bool(name: str, value: object) -> None:
    """Check that a parameter is True or False.

    Args:
        name: name of the parameter, for the error.
        value: the argument.

    Raises:
        ParameterError: if the value is neither.

    Example:
        >>> check_bool("now", True)
    """
    if not isinstance(value, bool | np.bool_):
        raise ParameterError(f"{name}={show_value(value)} is not a flag; use True or False")


def check_list(name: str, value: object, kind: type, what: str) -> None:
    """Check that a parameter is a list, or another sequence, of one type.

    Args:
        name: name of the parameter, for the error.
        value: the argument.
        kind: the type of each element.
        what: the elements in words, in the plural, for the error.

    Raises:
        ParameterError: if the value is not such a list.

    Example:
        >>> check_list("names", ["a", "b"], str, "texts")
    """
    is_list = isinstance(value, Sequence) and not isinstance(value, str | bytes)
    if not is_list or not all(isinstance(each, kind) for each in value):  # type: ignore[attr-defined]
        raise ParameterError(f"{name} is not a list of {what}; pass a list, even for one element")


def check_floats(name: str, value: object) -> Floats:
    """Return a parameter as an array of floats.

    Args:
        name: name of the parameter, for the error.
        value: the argument: anything that numpy makes an array of.

    Returns:
        The array; its shape is that of the argument.

    Raises:
        ParameterError: if the value does not consist of numbers only.

    Example:
        >>> check_floats("values", [1, 2])
        array([1., 2.])
    """
    with suppress(Exception):  # a foreign object may raise anything
        array = np.asarray(value)
        if array.dtype.kind in "biufO":
            return array.astype(np.float64, copy=False)
    raise ParameterError(f"{name} does not consist of numbers only; pass an array of numbers")


def check_positive(name: str, value: object) -> float:
    """Return a parameter as a float if it is a finite number above 0.

    Args:
        name: name of the parameter, for the error.
        value: the argument.

    Returns:
        The value as a float.

    Raises:
        ParameterError: if the value is not a finite number above 0.

    Example:
        >>> check_positive("error", 1)
        1.0
    """
    is_number = isinstance(value, (int, float, np.floating, np.integer)) and not isinstance(value, bool)
    if not is_number or not 0.0 < value <= sys.float_info.max:  # type: ignore[operator]
        raise ParameterError(f"{name}={show_value(value)} is out of range; use a number above 0")
    return float(value)  # type: ignore[arg-type]


def check_moderate(name: str, value: object) -> float:
    """Return a parameter as a float if it is a number from 1e-50 to 1e50, so that formulas neither overflow nor vanish.

    Args:
        name: name of the parameter, for the error.
        value: the argument.

    Returns:
        The value as a float.

    Raises:
        ParameterError: if the value is not such a number.

    Example:
        >>> check_moderate("variance", 2)
        2.0
    """
    number = check_positive(name, value)
    if not _SMALLEST <= number <= _LARGEST:
        raise ParameterError(f"{name}={show_value(value)} is out of range; use a number from 1e-50 to 1e50")
    return number


def check_at_most(name: str, value: object, limit: float, remedy: str) -> float:
    """Return a parameter as a float if it is above 0, see `check_moderate`, and at most `limit`.

    Args:
        name: name of the parameter, for the error.
        value: the argument.
        limit: the largest value allowed.
        remedy: what the error tells the caller to do.

    Returns:
        The value as a float.

    Raises:
        ParameterError: if the value is not such a number, or is above `limit`.

    Example:
        >>> check_at_most("error", 0.25, 0.5, "use a smaller error")
        0.25
    """
    number = check_moderate(name, value)
    if number > limit:
        raise ParameterError(f"{name}={show_value(value)} is above {limit:g}; {remedy}")
    return number


def check_ratio(name: str, value: object) -> float:
    """Return a parameter as a float if it is a ratio of the largest to the smallest, hence at least 1.

    Args:
        name: name of the parameter, for the error.
        value: the argument.

    Returns:
        The value as a float.

    Raises:
        ParameterError: if the value is not a number, or is below 1.

    Example:
        >>> check_ratio("ratio", 2)
        2.0
    """
    number = check_moderate(name, value)
    if number < 1.0:
        raise ParameterError(f"{name}={show_value(value)} is below 1; use the largest over the smallest, 1 or more")
    return number


def show_value(value: object) -> str:
    """Return the value of a parameter as text for an error.

    Args:
        value: the argument.

    Returns:
        Its `repr`, cut off after 200 characters; its type where it has none.

    Example:
        >>> show_value("x")
        "'x'"
    """
    try:
        text = repr(value)
    except Exception:  # a foreign object may raise anything; so does an int with too many digits
        text = f"a {type(value).__name__}"
    return text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}..."
