"""Where an audit draws its records from: an array, a function, or the standard normal distribution.

Guarantee: an array is drawn from with replacement, and a function of the wrong shape is rejected; held by
tests/audit/test_leakage.py.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from vestige.audit.game import Data
from vestige.errors import ParameterError
from vestige.types import Floats
from vestige.validation import check_floats


@dataclass(frozen=True, slots=True, eq=False)
class RecordSource:
    """A function that draws records; a class, so that it can be sent to other processes.

    Attributes:
        origin: records to draw from with replacement, a function `data(rng, n)`, or None for standard normals.
        columns: number of columns of a record.
    """

    origin: Floats | Data | None
    columns: int

    def __call__(self, rng: np.random.Generator, n: int) -> Floats:
        """Draw `n` records.

        Args:
            rng: generator to draw with.
            n: number of records.

        Returns:
            The records; shape (n, columns).

        Raises:
            ParameterError: if the function gives anything but `n` records.

        Example:
            >>> RecordSource(None, columns=2)(np.random.default_rng(0), 3).shape
            (3, 2)
        """
        if self.origin is None:
            return rng.normal(size=(n, self.columns))
        if callable(self.origin):
            rows = check_floats("data(rng, n)", self.origin(rng, n))
            if rows.size != n * self.columns:
                raise ParameterError(f"data(rng, n) returned {rows.size:,} numbers; return n * {self.columns}")
            return rows.reshape(n, self.columns)
        return self.origin[rng.integers(0, len(self.origin), n)]


def make_source(data: ArrayLike | Data | None, columns: int) -> RecordSource:
    """Make a source of records.

    Args:
        data: records to draw from with replacement, a function `data(rng, n)`, or None for standard normals.
        columns: number of columns of a record.

    Returns:
        The source.

    Raises:
        ParameterError: if an array holds no records of that many columns.

    Example:
        >>> make_source([1.0, 1.0], columns=1)(np.random.default_rng(0), 2)
        array([[1.],
               [1.]])
    """
    if data is None or callable(data):
        return RecordSource(data, columns)
    rows = check_floats("data", data)
    table = rows.reshape(-1, columns) if rows.size % columns == 0 else rows[:0].reshape(0, columns)
    if not len(table):
        raise ParameterError("data holds no records; pass an array of shape (n, columns), or a function (rng, n)")
    return RecordSource(table, columns)
