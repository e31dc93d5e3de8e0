"""The answers of many streams as columns: one row for each stream and number, flat and typed.

Guarantee: the same as `Estimate.to_rows` of each stream; held by tests/keyed/test_estimates.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from vestige.keyed.tables import LazyColumns, make_arrow_table, make_frame
from vestige.markup import make_table

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

COLUMNS = (
    "stream",
    "metric",
    "value",
    "standard_error",
    "lower",
    "upper",
    "since",
    "counted",
    "held",
    "t",
    "as_of",
    "missed",
    "notes",
    "problem",
)
_NUMBERS = ("value", "standard_error", "lower", "upper")
_COUNTS = ("since", "counted", "held", "t", "as_of")
_SHOWN = 20


@dataclass(frozen=True, eq=False)
class KeyedEstimates:
    """The answers of many streams.

    Attributes:
        columns: by name, an array for each of stream, metric, value, standard_error, lower, upper, since, counted,
            held, t, as_of, missed, notes and problem; numbers that are not known are nan, texts that there are not
            None. A stream without an answer has one row whose problem says why. Texts become objects when they are
            asked for.

    Example:
        >>> from vestige import KeyedStreams, Mean
        >>> shops = KeyedStreams(Mean(), retention=96)
        >>> _ = shops.extend(["DE", "FR", "DE"], [1.0, 5.0, 3.0])
        >>> shops.estimates().columns["value"]
        array([2., 5.])
    """

    columns: LazyColumns

    @classmethod
    def from_rows(cls, rows: list[dict[str, Any]]) -> KeyedEstimates:
        """Gather rows.

        Args:
            rows: what `Estimate.to_rows` gives, with the name of the stream; keys that are missing are not known.

        Returns:
            The same as columns.

        Example:
            >>> len(KeyedEstimates.from_rows([{"stream": "DE", "value": 1.5}]))
            1
        """
        made: dict[str, NDArray[Any]] = {}
        for name in COLUMNS:
            values = [row.get(name) for row in rows]
            if name in _NUMBERS:
                made[name] = np.array([np.nan if each is None else each for each in values], np.float64)
            elif name in _COUNTS:
                made[name] = np.array([0 if each is None else each for each in values], np.int64)
            elif name == "missed":
                made[name] = np.array([bool(each) for each in values], np.bool_)
            else:
                made[name] = np.array(values, np.object_)
        return cls(LazyColumns(made))

    def __len__(self) -> int:
        return len(self.columns["value"])

    def to_arrow(self) -> pa.Table:
        """Convert the answers to an Arrow table.

        Returns:
            A table with these columns; nan is null.

        Raises:
            MissingExtraError: pyarrow is not installed.

        Example:
            >>> KeyedEstimates.from_rows([{"stream": "DE", "value": 1.5}]).to_arrow().num_rows
            1
        """
        return make_arrow_table(self.columns)

    def to_pandas(self) -> pd.DataFrame:
        """Convert the answers to a data frame.

        Returns:
            A frame with these columns.

        Raises:
            MissingExtraError: pandas is not installed.

        Example:
            >>> KeyedEstimates.from_rows([{"stream": "DE", "value": 1.5}]).to_pandas()["value"].tolist()
            [1.5]
        """
        return make_frame(self.columns)

    def _repr_html_(self) -> str:
        shown = [tuple(str(self.columns[name][i]) for name in COLUMNS[:3]) for i in range(min(len(self), _SHOWN))]
        more = (f"{len(self) - _SHOWN:,} more rows.",) if len(self) > _SHOWN else ()
        return make_table(f"Answers of streams, {len(self):,} rows", COLUMNS[:3], shown, more)
