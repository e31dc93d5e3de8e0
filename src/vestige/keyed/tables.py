"""Columns of texts that are not objects: they become Arrow without one per row, and numpy's objects when asked for.

Guarantee: both forms say the same; held by tests/keyed/test_tables.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from vestige.errors import MissingExtraError
from vestige.keyed.names import Texts
from vestige.types import Ints

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa


@dataclass(frozen=True, eq=False)
class CodedTexts:
    """A column of texts of which several rows may have the same.

    Attributes:
        texts: the texts, each once.
        codes: which of them each row has; -1 if it has none; shape (n,).

    Example:
        >>> from vestige.keyed.names import read_keys
        >>> CodedTexts(read_keys(["DE", "FR"]), np.array([1, -1])).to_numpy()
        array(['FR', None], dtype=object)
    """

    texts: Texts
    codes: Ints

    def __len__(self) -> int:
        return len(self.codes)

    def select(self, rows: Ints) -> CodedTexts:
        """Select some of the rows.

        Args:
            rows: which of them.

        Returns:
            These rows.
        """
        return CodedTexts(self.texts, self.codes[rows])

    def to_numpy(self) -> NDArray[np.object_]:
        """Make an object of each text that a row has.

        Returns:
            The texts, None where there is none; shape (n,).
        """
        used, places = np.unique(self.codes, return_inverse=True)
        content, offsets = self.texts.content.tobytes(), self.texts.offsets
        made = np.full(len(used), None)
        for place, code in enumerate(used.tolist()):
            if code >= 0:
                made[place] = content[offsets[code] : offsets[code + 1]].decode()
        return made[places]

    def to_arrow(self) -> pa.Array:
        """Make an Arrow array.

        Returns:
            An array of type large_string; null where there is no text.
        """
        import pyarrow as pa  # noqa: PLC0415

        offsets = np.ascontiguousarray(self.texts.offsets)
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(self.texts.content)]
        texts = pa.Array.from_buffers(pa.large_string(), len(self.texts), buffers)
        if np.array_equal(self.codes, np.arange(len(self.texts))):
            return texts
        return texts.take(pa.array(self.codes, mask=self.codes < 0))


@dataclass(frozen=True, eq=False)
class SparseTexts:
    """A column of texts that few rows have.

    Attributes:
        n: number of rows.
        texts: the texts, by row.

    Example:
        >>> SparseTexts(2, {1: "late"}).to_numpy()
        array([None, 'late'], dtype=object)
    """

    n: int
    texts: Mapping[int, str]

    def __len__(self) -> int:
        return self.n

    def to_numpy(self) -> NDArray[np.object_]:
        """Make an array of objects.

        Returns:
            The texts, None where there is none; shape (n,).
        """
        made = np.full(self.n, None)
        for row, text in self.texts.items():
            made[row] = text
        return made

    def to_arrow(self) -> pa.Array:
        """Make an Arrow array.

        Returns:
            An array of type large_string; null where there is no text.
        """
        import pyarrow as pa  # noqa: PLC0415

        kind = pa.large_string()
        return pa.array(self.to_numpy(), type=kind) if self.texts else pa.nulls(self.n, kind)


class LazyColumns(Mapping[str, NDArray[Any]]):
    """Columns by name, of which those of texts are made when they are first asked for.

    Args:
        columns: arrays, or texts in another form.

    Example:
        >>> LazyColumns({"notes": SparseTexts(1, {})})["notes"]
        array([None], dtype=object)
    """

    def __init__(self, columns: Mapping[str, NDArray[Any] | CodedTexts | SparseTexts]) -> None:
        self._columns = dict(columns)
        self._made: dict[str, NDArray[Any]] = {}

    def __getitem__(self, name: str) -> NDArray[Any]:
        column = self._columns[name]
        if isinstance(column, np.ndarray):
            return column
        if name not in self._made:
            self._made[name] = column.to_numpy()
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(self._columns)

    def to_arrow(self, name: str) -> pa.Array:
        """Make an Arrow array of a column.

        Args:
            name: its name.

        Returns:
            The array; nan is null.
        """
        import pyarrow as pa  # noqa: PLC0415

        column = self._columns[name]
        if not isinstance(column, np.ndarray):
            return column.to_arrow()
        kind = pa.large_string() if column.dtype.kind == "O" else None
        return pa.array(column, type=kind, from_pandas=column.dtype.kind in "fO")


def make_arrow_table(columns: LazyColumns) -> pa.Table:
    """Make an Arrow table of columns.

    Args:
        columns: the columns.

    Returns:
        A table of them; nan is null.

    Raises:
        MissingExtraError: pyarrow is not installed.

    Example:
        >>> make_arrow_table(LazyColumns({"t": np.arange(2)})).num_rows
        2
    """
    try:
        import pyarrow as pa  # noqa: PLC0415
    except ModuleNotFoundError:
        raise MissingExtraError("to_arrow", "cli") from None
    return pa.table({name: columns.to_arrow(name) for name in columns})


def make_frame(columns: Mapping[str, NDArray[Any]]) -> pd.DataFrame:
    """Make a data frame of columns.

    Args:
        columns: the columns.

    Returns:
        A frame of them.

    Raises:
        MissingExtraError: pandas is not installed.

    Example:
        >>> len(make_frame({"t": np.arange(2)}))
        2
    """
    try:
        import pandas as pd  # noqa: PLC0415
    except ModuleNotFoundError:
        raise MissingExtraError("to_pandas", "pandas") from None
    return pd.DataFrame(dict(columns))
