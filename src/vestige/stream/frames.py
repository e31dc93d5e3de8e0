"""Rows with names, such as data frames and Arrow tables: which of their columns are taken, in which order.

numpy's protocol, `__array__`, opens what pandas, polars and pyarrow hold, without an import of these libraries. What
offers only the stream of the Arrow C data interface, such as the result of a query, is opened by pyarrow. All ways into
a stream, and into streams by key, select columns here.
Guarantee: columns are taken in their order until their names are known, and then by their names; held by
tests/stream/test_frames.py and tests/test_column_names.py.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vestige.errors import DataError, MissingExtraError
from vestige.policy import Policy
from vestige.store.terms import DEFAULTS, Terms

_NOTHING = "nothing of this call was taken"


@dataclass(frozen=True, slots=True, eq=False)
class NamedRows:
    """Rows of an array with the names of their columns, as a source yields them.

    Attributes:
        values: shape (n, columns).
        columns: a name for each column.

    Example:
        >>> NamedRows(np.array([[1.0, 2.0]]), ("delay", "distance"))["distance"]
        array([2.])
    """

    values: NDArray[Any]
    columns: tuple[str, ...]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return np.asarray(self.values, dtype)

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, name: str) -> NDArray[Any]:
        column: NDArray[Any] = self.values[:, self.columns.index(name)]
        return column


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


def select_columns(
    rows: Any, known: tuple[str, ...], policy: Policy, *, is_begun: bool = False
) -> tuple[Any, tuple[str, ...]]:
    """Select the columns of rows with names: by these if they are known, else all in their order.

    Names are those of a frame, table or structured array, of a dict of columns, or of rows that are dicts, named tuples
    or series. Default labels, from 0 up, are not names.

    Args:
        rows: rows as a user passes them.
        known: the names that are known; empty if there are none.
        policy: says how many columns there are.
        is_begun: whether rows have been taken before, so that where no names are known these had none.

    Returns:
        The rows to read, and the names that are known from now on; what has no names as it is.

    Raises:
        DataError: the rows lack a column, have two of one name, or name what came without names before; or a column
            that is taken does not hold numbers, or polars has not collected it yet.
        MissingExtraError: only pyarrow can open it, which is not installed.

    Example:
        >>> from vestige import Mean
        >>> select_columns([[1.0, 2.0]], ("delay", "distance"), Mean(2))
        ([[1.0, 2.0]], ('delay', 'distance'))
    """
    if isinstance(rows, np.ndarray) and rows.dtype.names is None:
        return rows, known
    if hasattr(rows, "collect_schema") and not hasattr(rows, "__array__"):
        raise DataError("rows is a LazyFrame, which has no rows yet; collect it first, as rows.collect()")
    if hasattr(rows, "__arrow_c_stream__") and not hasattr(rows, "__array__"):
        with suppress(TypeError, ValueError):  # it is one column, to iterate over
            rows = _import_arrow().table(rows)
    rows = _gather_rows(rows, known)
    labels = find_labels(rows)
    names = _name_labels(labels, known)
    if not names:
        return rows, known
    is_column = len(names) == 1 and len(np.shape(rows)) == 1 and not isinstance(rows, np.ndarray)
    wanted = known or names
    doubled = [name for name, count in Counter(names).items() if count > 1 and name in wanted]
    if doubled:
        raise DataError(f"rows has several columns of the name {doubled[0]!r}; rename or drop all but one: {_NOTHING}")
    if not known and is_begun and policy.columns > 1:
        raise DataError(
            f"rows has the columns {_list_names(names)}, but the records before came without names, so that it cannot "
            "be told which of these are which; pass an array without names, in the order of those, or begin a stream "
            f"with names: {_NOTHING}"
        )
    missing = [name for name in wanted if name not in names]
    if missing:
        raise DataError(
            f"rows has no column {missing[0]!r}, but {_list_names(names)}; the stream takes {_list_names(known)}: "
            f"rename the columns, or pass an array without names; {_NOTHING}"
        )
    if len(wanted) != policy.columns:
        raise DataError(
            f"rows has {len(names)} columns: {_list_names(names)}; the policy takes records of {policy.columns} "
            f"values: select its columns, as rows[[...]]; {_NOTHING}"
        )
    if not isinstance(rows, NamedRows):
        _refuse_text(rows, [labels[names.index(name)] for name in wanted], is_column=is_column)
    if not known and is_begun:  # one column, which cannot be mistaken; those before had no name
        return rows, known
    if names == wanted and not isinstance(rows, Mapping) and getattr(rows, "dtype", None) is None:
        return rows, wanted
    return (rows if is_column else _Selected(rows, tuple(labels[names.index(name)] for name in wanted))), wanted


def list_columns(rows: Any, columns: int) -> list[NDArray[Any]]:
    """List the columns of rows that have whole numbers beyond 2^53, without rounding these.

    Args:
        rows: an array, a frame, what `select_columns` has selected, or a sequence.
        columns: how many there are.

    Returns:
        Arrays of numbers, or of objects; each of shape (n,).

    Example:
        >>> [column.tolist() for column in list_columns([[1, 2.5], [2**60 + 1, 3]], 2)]
        [[1, 1152921504606846977], [2.5, 3]]
    """
    labels = rows.columns if isinstance(rows, _Selected) else find_labels(rows)
    if columns == 1 and len(np.shape(rows)) == 1 and hasattr(rows, "__array__"):
        return [_open_exactly(rows)]
    if labels:
        return [_open_exactly(rows[label]) for label in labels]
    table = rows if isinstance(rows, np.ndarray) else np.asarray(rows, np.object_)
    return list(table.reshape(len(table), columns).T)


def _open_exactly(column: Any) -> NDArray[Any]:
    """A column as an array; as objects where whole numbers would become floats since some are missing."""
    array = open_frame(column)
    if isinstance(array, np.ndarray) and array.dtype.kind in "iubO":
        return array
    to_list = getattr(column, "to_pylist", None) or getattr(column, "to_list", None)
    listed = column if to_list is None else to_list()
    if isinstance(listed, np.ndarray):
        return listed
    made = np.empty(len(listed), np.object_)
    made[:] = listed
    if hasattr(column, "isna"):
        made[np.asarray(column.isna())] = None
    return made


@dataclass(frozen=True, slots=True, eq=False)
class _Selected:
    """Some columns of rows with names, in the order in which they are taken."""

    rows: Any
    columns: tuple[Any, ...]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return np.column_stack([open_frame(self[label]) for label in self.columns])

    def __getitem__(self, label: Any) -> Any:
        return self.rows[label]


def _gather_rows(rows: Any, known: tuple[str, ...]) -> Any:
    """Rows that each have names of their own as a dict of columns; anything else as it is."""
    if isinstance(rows, Iterable) and not isinstance(rows, Mapping | str | bytes | Sequence) and _is_plain(rows):
        rows = list(rows)
    first = rows[0] if isinstance(rows, list | tuple) and rows else None
    names = known or _find_fields(first)
    if not _find_fields(first):
        return rows
    made: dict[str, list[Any]] = {name: [] for name in names}
    for row in rows:
        fields = _find_fields(row)
        if not known and set(fields) != set(names):
            raise DataError(f"rows have different names; pass rows of the same names: {_NOTHING}")
        for name in names:
            if fields.count(name) != 1:
                what = "no value" if name not in fields else "several values"
                raise DataError(
                    f"a row has {what} of the name {name!r}; the stream takes {_list_names(names)}: {_NOTHING}"
                )
            made[name].append(row[fields.index(name)] if isinstance(row, tuple) else row[name])
    return made


def _is_plain(rows: Any) -> bool:
    """Whether rows are neither an array nor a frame, but to be iterated over."""
    return not hasattr(rows, "__array__") and not hasattr(rows, "__arrow_c_stream__")


def _find_fields(row: Any) -> tuple[str, ...]:
    """The names of the values of one row; empty if it has none."""
    if row is None or isinstance(row, np.ndarray | np.generic):
        return ()
    fields = getattr(row, "_fields", None) if isinstance(row, tuple) else getattr(row, "__fields__", None)
    if isinstance(row, Mapping):
        fields = row.keys()
    elif fields is None and hasattr(row, "__array__"):
        fields = getattr(row, "index", None)
    found = tuple(fields) if isinstance(fields, Iterable) else ()
    return found if all(isinstance(name, str) for name in found) else ()


def find_labels(rows: Any) -> tuple[Any, ...]:
    """Find the labels by which rows give their columns, as `rows[label]`.

    Args:
        rows: rows as a user passes them.

    Returns:
        A label for each column, whatever its type; empty if there are none.

    Example:
        >>> find_labels({"delay": [1.0], "distance": [2.0]}), find_labels([1.0])
        (('delay', 'distance'), ())
    """
    if isinstance(rows, np.ndarray):
        return rows.dtype.names or ()
    if isinstance(rows, Mapping):
        return tuple(rows)
    if not hasattr(rows, "__array__"):
        return ()
    names = getattr(rows, "column_names", None)  # an Arrow table has columns too, which are not names
    names = getattr(rows, "columns", None) if names is None else names
    names = getattr(getattr(rows, "schema", None), "names", None) if names is None else names
    if isinstance(names, Iterable):
        return tuple(names)
    name = getattr(rows, "name", None)
    return () if name is None or name == "" else (name,)


def _name_labels(labels: tuple[Any, ...], known: tuple[str, ...]) -> tuple[str, ...]:
    """The names that labels are; empty if they only count the columns, and are not known as names."""
    names = tuple(map(str, labels))
    return () if labels == tuple(range(len(labels))) and not (known and {*known} <= {*names}) else names


def _list_names(names: Iterable[str]) -> str:
    return ", ".join(map(repr, names))


def _refuse_text(rows: Any, labels: Sequence[Any], *, is_column: bool) -> None:
    """Name the first column that does not hold numbers."""
    for label in labels:
        values = open_frame(rows if is_column else rows[label])
        kind = values.dtype.kind if isinstance(values, np.ndarray) else "f"
        if kind not in "biufO" or (kind == "O" and any(isinstance(value, str | bytes) for value in values)):
            raise DataError(
                f"rows: column {str(label)!r} holds something that is not a number; leave it out or convert it. "
                "Categories are numbers here, such as those of Shares, 0 for its first one; vestige run reads them as "
                f"text. {_NOTHING.capitalize()}"
            )


def _import_arrow() -> Any:
    try:
        return import_module("pyarrow")
    except ModuleNotFoundError:
        raise MissingExtraError("a table that offers only Arrow's C stream", "cli") from None


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
