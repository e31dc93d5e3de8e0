"""A block of rows: what every source yields, whatever it reads from.

Guarantee: `Block.by_key` gives each row to one key, in the order of rows; held by tests/sources/test_protocol.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vestige.stream.frames import NamedRows
from vestige.types import Ints, Times

Texts = NDArray[np.object_]


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """Consecutive rows of a source.

    Attributes:
        rows: values of the complete rows, in order; shape (n, columns). Floats, or, if there are whole numbers beyond
            2^53 among them, whole numbers or objects, which a stream reads as its policy takes them.
        numbers: number of each of these rows in the source, from 1 up and increasing; shown in messages.
        positions: position of the source after each of these rows; see `vestige.sources.Source`.
        skipped: number of rows that were left out because a value, a time or a key was missing.
        keyless: number of these rows that have no key.
        read: number of the last row that was read, complete or not.
        offset: number of bytes, or whatever `Source.size` counts, that were read so far; 0 if unknown.
        arrived: time at which these rows were read, in UTC.
        times: time of each row, in UTC; None if no time was requested.
        subjects: subject of each row, as text, or None if it has none; None if no subject was requested.
        keys: the distinct keys of these rows, as text; None if no key was requested.
        codes: index in `keys` of each row's key.
        end: position of the source after the last row that was read, complete or not; empty if it is not kept.
        unfinished: whether the source ends, after these rows, in a line without a line break, which was not read.
        columns: names of the values of a row; empty if they have none.

    Example:
        >>> block = Block(np.array([[1.5], [2.5]]), np.array([1, 2]), [b"a", b"b"], read=2)
        >>> [(key, block.rows[rows, 0].tolist()) for key, rows in block.by_key()]
        [('', [1.5, 2.5])]
    """

    rows: NDArray[Any]
    numbers: Ints
    positions: Sequence[bytes]
    read: int
    skipped: int = 0
    keyless: int = 0
    offset: int = 0
    arrived: datetime = field(default_factory=lambda: datetime.now(UTC))
    times: Times | None = None
    subjects: Texts | None = None
    keys: Texts | None = None
    codes: Ints | None = None
    end: bytes = b""
    unfinished: bool = False
    columns: tuple[str, ...] = ()

    def select_rows(self, chosen: Ints) -> NDArray[Any] | NamedRows:
        """Select rows for a stream, which finds their columns by these names.

        Args:
            chosen: indices of the rows.

        Returns:
            Their values, with names if they have any.

        Example:
            >>> block = Block(np.array([[1.5], [2.5]]), np.array([1, 2]), [b"a", b"b"], read=2, columns=("spent",))
            >>> block.select_rows(np.array([1]))["spent"]
            array([2.5])
        """
        rows = np.ascontiguousarray(self.rows[chosen])
        return NamedRows(rows, self.columns) if self.columns else rows

    def by_key(self) -> Iterator[tuple[str, Ints]]:
        """Yield each key with the indices of its rows, in order.

        Yields:
            A key and the indices of its rows; the empty key with all rows if no key was requested.

        Example:
            >>> keys, codes = np.array(["a", "b"]), np.array([1, 0, 1])
            >>> block = Block(np.zeros((3, 1)), np.arange(1, 4), [b""] * 3, 3, keys=keys, codes=codes)
            >>> [(key, rows.tolist()) for key, rows in block.by_key()]
            [('a', [1]), ('b', [0, 2])]
        """
        if not len(self.numbers):
            return
        if self.keys is None or self.codes is None:
            yield "", np.arange(len(self.numbers))
            return
        order = np.argsort(self.codes, kind="stable")
        ends = np.cumsum(np.bincount(self.codes, minlength=len(self.keys)))
        for key, start, end in zip(self.keys, np.concatenate(([0], ends[:-1])), ends, strict=True):
            yield str(key), order[start:end]

    def hash_keys(self, hash_key: Callable[[str], str] | None) -> Block:
        """Replace the keys by what takes their place.

        Args:
            hash_key: function from a key to what takes its place; None to leave them as they are.

        Returns:
            The block with the other keys.

        Example:
            >>> block = Block(np.zeros((1, 1)), np.array([1]), [b""], 1, keys=np.array(["a"]), codes=np.array([0]))
            >>> block.hash_keys(str.upper).keys
            array(['A'], dtype=object)
        """
        if hash_key is None or self.keys is None:
            return self
        return replace(self, keys=np.array([hash_key(str(key)) for key in self.keys], np.object_))
