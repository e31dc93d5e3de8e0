"""Data frames and Arrow tables as rows: which of their columns are taken, and the names of these.

numpy's protocol, `__array__`, opens what pandas, polars and pyarrow hold, without an import of these libraries. What
offers only the stream of the Arrow C data interface, such as the result of a query, is opened by pyarrow.
Guarantee: columns are taken in their order until their names are known, and then by their names; held by
tests/stream/test_frames.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from importlib import import_module
from typing import Any

import numpy as np

from vestige.errors import DataError, MissingExtraError
from vestige.policy import Policy
from vestige.store.terms import DEFAULTS, Terms


def open_frame(values: Any) -> Any:
    """Make an array of a frame, a table or one column of these.

    Args:
        values: rows, times or subjects as a user passes them.

    Returns:
        The array, with None where pandas has a null of its own; anything else as it is.

    Example:
        >>> open_frame([1.0, 2.0])
        [1.0, 2.0]
    """
    if isinstance(values, np.ndarray | np.generic) or not hasattr(values, "__array__"):
        return values
    array = np.asarray(values)
    if array.dtype.kind == "O" and hasattr(values, "isna"):
        array = array.copy()
        array[np.asarray(values.isna())] = None
    return array


def select_columns(rows: Any, known: tuple[str, ...]) -> tuple[Any, tuple[str, ...]]:
    """Select the columns of a frame: by their names if these are known, else all in their order.

    Args:
        rows: rows as a user passes them.
        known: the names that are known; empty if there are none.

    Returns:
        The rows to read, and the names that are known from now on; what is not a frame as it is.

    Raises:
        DataError: the frame lacks a column, a column that is taken does not hold numbers, or polars has not collected
            it yet.
        MissingExtraError: only pyarrow can open it, which is not installed.

    Example:
        >>> select_columns([[1.0, 2.0]], ("delay", "distance"))
        ([[1.0, 2.0]], ('delay', 'distance'))
    """
    if hasattr(rows, "collect_schema") and not hasattr(rows, "__array__"):
        raise DataError("rows is a LazyFrame, which has no rows yet; collect it first, as rows.collect()")
    if hasattr(rows, "__arrow_c_stream__") and not hasattr(rows, "__array__"):
        with suppress(TypeError, ValueError):  # it is one column, to iterate over
            rows = _import_arrow().table(rows)
    names = _find_names(rows)
    if not known or not names or names == known:
        _refuse_text(rows, names)
        return rows, known or names
    missing = [name for name in known if name not in names]
    if missing:
        raise DataError(
            f"rows has no column {missing[0]!r}, but {', '.join(map(repr, names))}; the stream takes "
            f"{', '.join(map(repr, known))}: rename the columns, or pass an array without names; nothing of this call "
            "was taken"
        )
    _refuse_text(rows, known)
    return np.column_stack([open_frame(rows[name]) for name in known]), known


def _refuse_text(rows: Any, names: tuple[str, ...]) -> None:
    """Name the first column that does not hold numbers; what is not a frame has no names, and is checked later."""
    is_frame = any(hasattr(rows, attribute) for attribute in ("columns", "column_names", "schema"))
    for name in names if hasattr(rows, "__getitem__") else ():
        values = open_frame(rows[name] if is_frame else rows)
        kind = values.dtype.kind if isinstance(values, np.ndarray) else "f"
        if kind not in "biufO" or (kind == "O" and any(isinstance(value, str | bytes) for value in values)):
            raise DataError(
                f"rows: column {name!r} holds something that is not a number; leave it out or convert it. Categories "
                "are numbers here, such as those of Shares, 0 for its first one; vestige run reads them as text. "
                "Nothing of this call was taken"
            )


def _import_arrow() -> Any:
    try:
        return import_module("pyarrow")
    except ModuleNotFoundError:
        raise MissingExtraError("a table that offers only Arrow's C stream", "cli") from None


def _find_names(rows: Any) -> tuple[str, ...]:
    """The names of the columns of a frame; empty if it is none, or if they are not texts."""
    if isinstance(rows, np.ndarray) or not hasattr(rows, "__array__"):
        return ()
    names = getattr(rows, "column_names", None)  # an Arrow table has columns too, which are not names
    names = getattr(rows, "columns", None) if names is None else names
    names = getattr(getattr(rows, "schema", None), "names", None) if names is None else names
    found = tuple(names) if isinstance(names, Iterable) else (getattr(rows, "name", None),)
    return found if all(isinstance(name, str) for name in found) else ()


def find_names(policy: Policy, about: Mapping[str, object]) -> tuple[str, ...]:
    """Find the names of the columns before a record has arrived: those that the policy knows, or the store.

    Args:
        policy: the policy of the stream.
        about: what the store says of the stream; its `columns` and `targets` are lists of names. Those of a frame are
            among its defaults, since they are not known when the stream is made.

    Returns:
        The names; empty if they are not known.

    Example:
        >>> from vestige import LinearRegression
        >>> find_names(LinearRegression(), {"columns": ["distance"], "targets": ["air_time"]})
        ('distance', 'air_time')
    """
    learned = about.get(DEFAULTS)
    known = about if about.get("columns") or not isinstance(learned, Mapping) else learned
    listed = (known.get(key) for key in ("columns", "targets"))
    names = tuple(str(name) for part in listed if isinstance(part, list) for name in part)
    return policy.unwrap().column_names or (names if len(names) == policy.columns else ())


def replace_names(terms: Terms, names: tuple[str, ...]) -> Terms:
    """Add the names that a frame has to the terms of a stream, so that its store keeps them.

    Args:
        terms: the terms.
        names: names of the columns.

    Returns:
        The terms with these names.

    Example:
        >>> replace_names(Terms({}, 1, 96), ("delay",)).about
        {'defaults': {'columns': ['delay']}}
    """
    learned = terms.about.get(DEFAULTS)
    defaults = {**(learned if isinstance(learned, Mapping) else {}), "columns": list(names)}
    return replace(terms, about={**terms.about, DEFAULTS: defaults})


def adopt_names(terms: Terms, stored: Terms) -> Terms:
    """Take over the names that a frame gave to a stream before it was opened again.

    Args:
        terms: the terms that it is opened with.
        stored: those in its store.

    Returns:
        The terms, with these names if there are any.
    """
    learned = stored.about.get(DEFAULTS)
    names = learned.get("columns") if isinstance(learned, Mapping) else None
    return replace_names(terms, tuple(map(str, names))) if isinstance(names, list) else terms
