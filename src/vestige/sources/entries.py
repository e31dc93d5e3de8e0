"""Entries of a queue as a block: their fields are texts, which are read as the cells of CSV are.

A queue cannot be corrected, and one bad entry must not stop the others: an entry with a number or a time that cannot be
read is skipped and counted, as one with a missing field is.
Guarantee: the rows are those of a CSV file with the same cells; held by tests/sources/test_entries.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
from pyarrow import compute

from vestige.sources.block import Block
from vestige.sources.columns import Columns, keep_whole, make_block
from vestige.sources.delimited import normalize_numbers, to_floats
from vestige.sources.dialect import USUAL, Dialect
from vestige.sources.timestamps import parse_times

Fields = Sequence[bytes]
"""Names and values of an entry in turn."""


def read_entries(
    entries: Sequence[Fields], columns: Columns, start: int, dialect: Dialect = USUAL
) -> tuple[Block, tuple[str, ...]]:
    """Make a block of the complete entries.

    Args:
        entries: the fields of each.
        columns: what to read from them.
        start: number of entries before these.
        dialect: how numbers are written.

    Returns:
        The block, whose positions are the numbers of its rows; and the fields that could not be read in some entry.

    Example:
        >>> columns = Columns(("spent",), None, None, ("shop",), None)
        >>> block, bad = read_entries([[b"spent", b"1.5", b"shop", b"a"], [b"spent", b"?", b"shop", b"a"]], columns, 0)
        >>> block.rows.tolist(), block.numbers.tolist(), block.skipped, bad
        ([[1.5]], [1], 1, ('spent',))
    """
    found = [dict(zip(fields[::2], fields[1::2], strict=True)) for fields in entries]
    texts, bad = dict[str, pa.Array](), list[str]()
    for place, fields in enumerate(entries):
        if 2 * len(found[place]) < len(fields):  # a field that comes twice has no value
            doubled = [name for name in columns.names if fields[::2].count(name.encode()) > 1]
            bad += doubled
            found[place] = {} if doubled else found[place]
    cells = {name: [fields.get(name.encode()) for fields in found] for name in columns.names}
    for name, values in cells.items():
        texts[name], is_bad = _decode(values)
        bad += [name] * is_bad
    numbers = dict[str, pa.Array]()
    for name in columns.floats:
        numbers[name], is_bad = _read_numbers(texts[name], dialect)
        bad += [name] * is_bad
    if columns.time is not None:
        texts[columns.time], is_bad = _read_each(
            texts[columns.time], lambda part: _check_times(part, columns), pa.string()
        )
        bad += [columns.time] * is_bad
    written = pa.record_batch({name: texts[name] for name in columns.texts} or texts)
    block = make_block(
        (pa.record_batch(numbers) if numbers else written, written), columns, start=start, identity=b"", offset=0
    )
    return block, tuple(dict.fromkeys(bad))


def _decode(values: Sequence[bytes | None]) -> tuple[pa.Array, bool]:
    """Texts, null where there is none or where it is not UTF-8; and whether there is one that is not."""
    return _read_each(pa.array(values, pa.binary()), lambda part: compute.cast(part, pa.string()), pa.string())


def _read_numbers(text: pa.Array, dialect: Dialect) -> tuple[pa.Array, bool]:
    numbers, is_bad = _read_each(text, lambda part: to_floats(part, dialect), pa.float64())
    is_finite = compute.is_finite(numbers)
    if not compute.all(is_finite, min_count=0).as_py():
        is_bad |= bool(np.isinf(numbers.to_numpy(zero_copy_only=False)).any())
        numbers = compute.if_else(is_finite, numbers, None)
    return keep_whole(numbers, normalize_numbers(text, dialect)), is_bad


def _check_times(column: pa.Array, columns: Columns) -> pa.Array:
    """The same column, if all of it can be read as times."""
    parse_times(column, columns.time_unit)
    return column


def _read_each(column: pa.Array, read: Callable[[pa.Array], pa.Array], kind: pa.DataType) -> tuple[pa.Array, bool]:
    """Read a column, null where a value cannot be read; and whether there is such a value."""
    try:
        return read(column), False
    except pa.ArrowInvalid:
        parts = [_read_one(column.slice(row, 1), read, kind) for row in range(len(column))]
        return pa.concat_arrays(parts), True


def _read_one(cell: pa.Array, read: Callable[[pa.Array], pa.Array], kind: pa.DataType) -> pa.Array:
    try:
        return read(cell)
    except pa.ArrowInvalid:
        return pa.nulls(1, kind)
