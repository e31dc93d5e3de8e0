"""CSV as Python's own csv module reads it, or refused; parsed by Arrow.

Arrow's parser and the csv module agree on quotes, also in the middle of a field, and on line breaks. They differ on
rows with too few or too many fields and on quotes that are never closed: such files are refused.
Guarantee: same cells at every block size; held by tests/sources/test_delimited.py.
"""

from __future__ import annotations

import csv as reference
import re
from codecs import BOM_UTF8
from collections.abc import Iterator, Sequence
from difflib import get_close_matches

import pyarrow as pa
from pyarrow import compute, csv

from vestige.errors import SourceError
from vestige.sources.block import Batches, Wanted, own_bytes
from vestige.sources.borders import Records
from vestige.timestamps import first_unreadable, spelled

BLOCK, BLOCK_BY = 1 << 20, 1 << 24  # bytes; rows that spread over many streams come in larger blocks
_PART = 1 << 19  # bytes of a block that the cores parse side by side
_LINE = re.compile(rb"[^\r\n]*(?:\r\n|\r|\n|\Z)")
_ROW = re.compile(r"Row #(\d+)")
_FIELDS = re.compile(r"Expected (\d+) columns, got (\d+)")
_NAME = re.compile(r"[^\W\d][\w .:()/%#-]{0,39}")
_NOT_A_NUMBER = (
    "{where} has a value that is not a number in or near column {columns}; name a numeric column, and write missing "
    "values as empty fields or NA"
)
_SHOWN = 20  # column names in an error


def read_csv(records: Records, wanted: Wanted) -> Iterator[Batches | None]:
    """The wanted columns of each block of whole records; None for a block without rows."""
    there: list[str] = []
    read = 0
    for block in records:
        rows = block
        if not there:
            there, end = _read_header(block)
            rows = block[end:]
            if there:
                check_columns(wanted.names, there)
        if not there or not rows:
            yield None
            continue
        for batch in _parse(rows, wanted, there, read):
            yield _with_floats(batch, wanted, read), batch
            read += len(batch)
    if not there and not records.unfinished:
        raise SourceError("is empty; expected a header and rows")


def check_columns(columns: Sequence[str], there: Sequence[str], *, sure: bool = False) -> None:
    """Whether each column is there once.

    The first line of a file may be a record, so that its cells are repeated only where it is `sure` to be a header, or
    one of the columns is in it and every cell reads like a name. Else only a name is told that is nearly the one that
    was asked for.
    """
    for name in columns:
        if there.count(name) > 1:
            raise SourceError(f"has column {name!r} more than once; rename one of them")
        if name not in there:
            names = all(map(_NAME.fullmatch, there))
            close = get_close_matches(name, filter(_NAME.fullmatch, there), n=1, cutoff=0.75)
            if sure or (names and any(known in there for known in columns)):
                more = f" and {len(there) - _SHOWN:,} more" if len(there) > _SHOWN else ""
                hint = f"it has {', '.join(there[:_SHOWN])}{more}"
            elif close:
                hint = f"did you mean {close[0]!r}?"
            else:
                hint = "its first line has to be a header with that name"
            raise SourceError(f"has no column {name!r}; {hint}")


def _read_header(block: bytes) -> tuple[list[str], int]:
    """The cells of the first record that is not empty, and where it ends."""
    end = 0

    def lines() -> Iterator[str]:
        nonlocal end
        for line in _LINE.finditer(block):
            end = line.end()
            yield line.group().decode()

    try:
        return next(filter(None, reference.reader(lines())), []), end
    except reference.Error:
        raise SourceError("its first line is not a header; name the columns there") from None


def _parse(rows: bytes, wanted: Wanted, there: Sequence[str], read: int) -> list[pa.RecordBatch]:
    """Whole records, of which one part may be parsed beside the other unless a line break might be quoted."""
    plain = b'"' not in rows
    if rows.startswith(BOM_UTF8):  # of which Arrow drops one, though here it belongs to a cell
        rows = BOM_UTF8 + rows
    try:
        return _parse_parts(rows, wanted, there, _PART if plain else len(rows) + 1)
    except pa.ArrowInvalid:  # a row that is longer than a part, or one that is wrong, whose number is told this way
        try:
            return _parse_parts(rows, wanted, there, len(rows) + 1, threads=False)
        except pa.ArrowInvalid as problem:
            raise _unparsed(str(problem), wanted, there, read) from None


def _parse_parts(
    rows: bytes, wanted: Wanted, there: Sequence[str], part: int, *, threads: bool = True
) -> list[pa.RecordBatch]:
    kinds = dict.fromkeys(wanted.numbers, pa.float64()) | dict.fromkeys(wanted.texts, pa.string())
    table = csv.read_csv(
        own_bytes(rows),
        csv.ReadOptions(block_size=part, column_names=there, use_threads=threads),
        csv.ParseOptions(ignore_empty_lines=len(there) > 1),  # of one column, an empty line is a missing value
        csv.ConvertOptions(include_columns=wanted.names, column_types=kinds),
    )
    return list(table.combine_chunks().to_batches())


def _unparsed(problem: str, wanted: Wanted, there: Sequence[str], read: int) -> SourceError:
    """What is wrong, without Arrow's words, which quote the row."""
    row = _ROW.search(problem)
    where = f"row {read + int(row.group(1)):,}" if row else "a row"
    if fields := _FIELDS.search(problem):
        counts = f"its number of fields is {fields.group(2)}, that of the header {len(there)}"
        return SourceError(f"{where} does not fit the header: {counts}; mend that row")
    if "UTF8" in problem:
        return SourceError("holds text that is not UTF-8; convert the file to UTF-8 first")
    return SourceError(_NOT_A_NUMBER.format(where=where, columns=", ".join(wanted.numbers)))


def _with_floats(batch: pa.RecordBatch, wanted: Wanted, read: int) -> pa.RecordBatch:
    """The batch, where a column that is wanted as text and as numbers is numbers."""
    for name in set(wanted.numbers).intersection(wanted.texts):
        column = batch.column(name)
        try:
            batch = batch.set_column(wanted.names.index(name), name, _to_floats(column))
        except pa.ArrowInvalid:
            row = read + first_unreadable(column, _to_floats) + 1
            raise SourceError(_NOT_A_NUMBER.format(where=f"row {row:,}", columns=name)) from None
    return batch


def _to_floats(column: pa.Array) -> pa.Array:
    return compute.cast(spelled(column), pa.float64())
