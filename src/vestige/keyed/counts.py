"""How many records each stream has had, counts and holds: columns without the answers, so that millions can be ranked.

Guarantee: the same as `clock` and `retained` of each stream; held by tests/keyed/test_counts.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from vestige.keyed.tables import CodedTexts, LazyColumns, make_arrow_table, make_frame
from vestige.types import Ints

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa


@dataclass(frozen=True, eq=False)
class KeyedCounts:
    """The numbers of records of many streams, one row each.

    Attributes:
        streams: the names, which become objects when they are asked for.
        t: number of records that have arrived; shape (n,).
        since: the round from which the statistic counts; shape (n,).
        counted: number of records that the statistic counts; shape (n,).
        held: number of records that are retained; shape (n,).

    Example:
        >>> from vestige import KeyedStreams, Mean
        >>> shops = KeyedStreams(Mean(), retention=96)
        >>> _ = shops.extend(["DE", "FR", "DE"], [1.0, 5.0, 3.0])
        >>> shops.counts().t
        array([2, 1])
    """

    streams: CodedTexts
    t: Ints
    since: Ints
    counted: Ints
    held: Ints

    def __len__(self) -> int:
        return len(self.t)

    @property
    def names(self) -> NDArray[np.object_]:
        """The names of the streams; shape (n,)."""
        return self.streams.to_numpy()

    def select(self, rows: Ints) -> KeyedCounts:
        """Select some of the streams.

        Args:
            rows: indices of their rows, in any order.

        Returns:
            These streams.

        Example:
            >>> from vestige import KeyedStreams, Mean
            >>> shops = KeyedStreams(Mean(), retention=96)
            >>> _ = shops.extend(["DE", "FR", "FR"], [1.0, 5.0, 3.0])
            >>> counts = shops.counts()
            >>> counts.select(np.argsort(-counts.t)[:1]).names
            array(['FR'], dtype=object)
        """
        columns = (self.t, self.since, self.counted, self.held)
        return KeyedCounts(self.streams.select(rows), *(column[rows] for column in columns))

    def to_arrow(self) -> pa.Table:
        """Convert the numbers to an Arrow table.

        Returns:
            A table with the columns stream, t, since, counted and held.

        Raises:
            MissingExtraError: pyarrow is not installed.
        """
        return make_arrow_table(self._make_columns())

    def to_pandas(self) -> pd.DataFrame:
        """Convert the numbers to a data frame.

        Returns:
            A frame with the columns stream, t, since, counted and held.

        Raises:
            MissingExtraError: pandas is not installed.
        """
        return make_frame(self._make_columns())

    def _make_columns(self) -> LazyColumns:
        numbers = {"t": self.t, "since": self.since, "counted": self.counted, "held": self.held}
        return LazyColumns({"stream": self.streams, **numbers})
