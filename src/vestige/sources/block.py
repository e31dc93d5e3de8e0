"""Columns of a format's batch as a block: numbers as floats, times as UTC, subjects and keys as text.

A row with a missing value in a wanted column takes no round; it is counted. Errors name the column and the row, never
what the row holds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import compute

from vestige.errors import SourceError
from vestige.timestamps import ACCEPTED, Unit, first_unreadable, parsed
from vestige.types import Bools, Floats, Ints, Times

Texts = NDArray[np.object_]
Batches = tuple[pa.RecordBatch, pa.RecordBatch]
"""Of the same rows, the wanted numbers and the wanted texts."""


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """Some rows of a source.

    Attributes:
        rows: the complete ones, in order; shape (n, columns).
        numbers: of each of them, its number in the source; counted from 1, the incomplete ones too.
        skipped: how many had a missing value.
        read: how many rows of the source have been read so far, complete or not.
        position: bytes read so far, 0 where unknown.
        arrived: when these rows were read, in UTC.
        times: of each row, in UTC; None where no time was asked for.
        subjects: of each row, as text; None where no subject was asked for.
        keys: the distinct keys of these rows, as text; None where none was asked for.
        codes: of each row, the index of its key in `keys`.
        unfinished: whether the source ends, after these rows, in a line without its line break, which was not taken.
    """

    rows: Floats
    numbers: Ints
    skipped: int
    read: int
    position: int
    arrived: datetime
    times: Times | None = None
    subjects: Texts | None = None
    keys: Texts | None = None
    codes: Ints | None = None
    unfinished: bool = False


@dataclass(frozen=True, slots=True)
class Wanted:
    """The columns to read, by what for, and the unit of times that are bare numbers."""

    numbers: tuple[str, ...]
    time: str | None
    subject: str | None
    by: str | None
    time_unit: Unit | None

    @property
    def texts(self) -> list[str]:
        """The columns that are not, or not only, read as numbers; each once."""
        return [name for name in dict.fromkeys((self.time, self.subject, self.by)) if name is not None]

    @property
    def names(self) -> list[str]:
        """All columns, each once."""
        return list(dict.fromkeys((*self.numbers, *self.texts)))

    @property
    def nothing(self) -> Batches:
        """No rows of all columns."""
        numbers = pa.record_batch({name: pa.array([], pa.float64()) for name in self.numbers})
        return numbers, pa.record_batch({name: pa.array([], pa.string()) for name in self.texts})


def make_block(
    batches: Batches, wanted: Wanted, *, begun: int, position: int, arrived: datetime, unfinished: bool = False
) -> Block:
    """The complete rows of a batch before which `begun` rows came."""
    numbers, texts = batches
    table = _read_numbers(numbers, wanted.numbers, begun)
    when = None if wanted.time is None else _read_times(texts, wanted.time, wanted.time_unit, begun)
    who = None if wanted.subject is None else _read_texts(texts, wanted.subject, begun)
    which = None if wanted.by is None else _read_texts(texts, wanted.by, begun)
    complete = cast(Bools, ~np.isnan(table).any(axis=1))
    for label in (when, who, which):
        if label is not None:
            complete &= label.is_valid().to_numpy(zero_copy_only=False)
    keys, codes = (None, None) if which is None else _encode(which, complete)
    return Block(
        rows=np.ascontiguousarray(table[complete]),
        numbers=begun + 1 + np.flatnonzero(complete),
        skipped=int((~complete).sum()),
        read=begun + len(table),
        position=position,
        arrived=arrived,
        times=None if when is None else when.to_numpy(zero_copy_only=False)[complete],
        subjects=None if who is None else np.take(*_encode(who, complete)),
        keys=keys,
        codes=codes,
        unfinished=unfinished,
    )


def own_bytes(block: bytes) -> pa.BufferReader:
    """A copy in Arrow's own memory.

    Arrow's threads may outlive the call that they worked for. One that has to let go of a Python object while the
    interpreter ends brings the process down, and one that reads from a Python file keeps it from ending at all.
    """
    memory = pa.BufferOutputStream()
    memory.write(block)
    return pa.BufferReader(memory.getvalue())


def _read_numbers(batch: pa.RecordBatch, columns: Sequence[str], begun: int) -> Floats:
    """The columns as floats, nan where missing; shape (n, columns)."""
    made = []
    for name in columns:
        column = batch.column(name)
        kind = column.type
        if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)):
            raise SourceError(
                f"column {name!r} is not numeric in rows {begun + 1} to {begun + len(batch)}; name a numeric column"
            )
        made.append(compute.cast(column, pa.float64(), safe=False).to_numpy(zero_copy_only=False))
    table = np.column_stack(made).astype(np.float64)
    infinite = np.isinf(table).any(axis=1)
    if infinite.any():
        row = begun + int(np.argmax(infinite)) + 1
        raise SourceError(f"row {row} has an infinite value; drop or fill such rows first")
    return table


def _read_times(batch: pa.RecordBatch, name: str, unit: Unit | None, begun: int) -> pa.Array:
    """The column as timestamps, null where missing."""
    column = batch.column(name)
    try:
        return pa.array(parsed(column, unit))
    except pa.ArrowInvalid:
        row = begun + first_unreadable(column, lambda part: parsed(part, unit)) + 1
        raise SourceError(f"column {name!r} has no readable time in row {row}; accepted are {ACCEPTED}") from None


def _read_texts(batch: pa.RecordBatch, name: str, begun: int) -> pa.Array:
    """The column as text, null where missing or empty."""
    column = batch.column(name)
    try:
        if pa.types.is_floating(column.type):
            column = compute.if_else(compute.is_nan(column), None, column)
        text = compute.cast(column, pa.string())
        text.validate(full=True)
    except pa.ArrowException:
        raise SourceError(
            f"column {name!r} is not text in rows {begun + 1} to {begun + len(batch)}; name a column of text or numbers"
        ) from None
    return compute.if_else(compute.equal(text, ""), None, text)


def _encode(text: pa.Array, complete: Bools) -> tuple[Texts, Ints]:
    """The distinct texts of the complete rows, and which of them each row has."""
    made = text.filter(pa.array(complete)).dictionary_encode()
    return made.dictionary.to_numpy(zero_copy_only=False), made.indices.to_numpy().astype(np.int64)
