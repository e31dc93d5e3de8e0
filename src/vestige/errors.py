"""Every error that Vestige raises on purpose, in one tree.

    VestigeError
    ├── ParameterError     a parameter is outside its limits             (also a ValueError)
    ├── DataError          a record cannot be taken as it is             (also a ValueError)
    ├── NoRecordsError     there is nothing to answer from
    ├── NoAnswerError      the records held do not determine the answer
    ├── RuleError          a policy broke a rule of the model
    ├── CheckError         a conformance check failed                    (also an AssertionError)
    ├── SourceError        a file of records cannot be read
    ├── StoreError         a store cannot be used as it is
    │   └── StoreBusyError another process holds it                      (nothing was changed: try again)
    └── MissingExtraError  an optional part is not installed             (also an ImportError)

A message names the parameter, its value, the limit and the remedy. It never carries a record's value: an error
log is retained data.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from numbers import Real

import numpy as np
from numpy.typing import NDArray

_SHOWN = 200
"""So many characters of a value are shown."""


class VestigeError(Exception):
    """The root: catch this to catch everything that Vestige raises on purpose."""


class ParameterError(VestigeError, ValueError):
    """A parameter is outside its limits."""


class DataError(VestigeError, ValueError):
    """A record cannot be taken as it is; nothing was taken."""


class NoRecordsError(VestigeError):
    """There is nothing to answer from: nothing has arrived, or everything had to be erased."""


class NoAnswerError(VestigeError):
    """The records so far do not determine the answer, for instance because two predictors say the same."""


class RuleError(VestigeError):
    """A policy broke a rule of the model; the update that it broke it in was not made."""


class CheckError(VestigeError, AssertionError):
    """A conformance check failed."""


class SourceError(VestigeError):
    """A file of records cannot be read."""


class StoreError(VestigeError):
    """A store cannot be used as it is; it is as it was before the call."""


class StoreBusyError(StoreError):
    """Another process holds the store; it is as it was before the call, which can be made again."""


class MissingExtraError(VestigeError, ImportError):
    """An optional part is not installed."""

    def __init__(self, what: str, extra: str) -> None:
        super().__init__(f"{what} needs the {extra!r} extra; install it with: pip install 'vestige[{extra}]'")


def whole_number(name: str, value: object, least: int, most: int | None = None) -> int:
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


def real_number(name: str, value: object, fits: Callable[[float], bool], remedy: str) -> float:
    """`value` as a float, if it is a number that fits; else an error that names the parameter and says what to use."""
    number = math.nan
    if isinstance(value, Real) and not isinstance(value, bool):
        with suppress(OverflowError):
            number = float(value)
    if math.isnan(number) or not fits(number):
        raise ParameterError(f"{name}={show_value(value)} is out of range; use {remedy}")
    return number


def known_name(name: str, value: object, known: Iterable[str]) -> str:
    """`value`, if it is one of these; else an error that names the parameter and all of them."""
    if not isinstance(value, str) or value not in known:
        raise ParameterError(f"{name}={show_value(value)} is unknown; use one of {', '.join(known)}")
    return value


def check_flag(name: str, value: object) -> None:
    """An error that names the parameter, unless it is True or False."""
    if not isinstance(value, bool | np.bool_):
        raise ParameterError(f"{name}={show_value(value)} is not a flag; use True or False")


def check_list(name: str, value: object, kind: type, what: str) -> None:
    """An error that names the parameter, unless it is a list or the like of `kind`."""
    listed = isinstance(value, Sequence) and not isinstance(value, str | bytes)
    if not listed or not all(isinstance(each, kind) for each in value):  # type: ignore[attr-defined]
        raise ParameterError(f"{name} is not a list of {what}; pass a list, even of one")


def float_array(name: str, value: object) -> NDArray[np.float64]:
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
