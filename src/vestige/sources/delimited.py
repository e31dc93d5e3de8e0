"""CSV as Python's own csv module reads it, or an error; parsed by Arrow.

Arrow's parser and the csv module agree on quotes, also in the middle of a field, and on line breaks. They differ on
rows with too few or too many fields and on quotes that are never closed: such files are refused. A number may be
written as true or false, in any case, which is 1 or 0.
Guarantee: the cells are the same at every block size; held by tests/sources/test_delimited.py.
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
from vestige.sources.boundaries import RecordChunks
from vestige.sources.columns import BOOLEANS, Batches, Columns, copy_to_arrow, keep_whole, name_columns
from vestige.sources.dialect import NOT_UTF8, USUAL, Dialect, suggest_separator
from vestige.sources.timestamps import find_unreadable, normalize_text
from vestige.whole_numbers import is_wide

BLOCK, BLOCK_BY = 1 << 20, 1 << 24  # bytes; rows of many streams are read in larger blocks
_PART = 1 << 19  # bytes of a block that one core parses
_LINE = re.compile(rb"[^\r\n]*(?:\r\n|\r|\n|\Z)")
_ROW = re.compile(r"Row #(\d+)")
_FIELDS = re.compile(r"Expected (\d+) columns, got (\d+)")
_NAME = re.compile(r"[^\W\d][\w .:()/%#-]{0,39}")
_NOT_A_NUMBER = (
    "{where} has a value that is not a number in {columns}; name a numeric column, and write missing "
    "values as empty fields or NA"
)
_OTHER_DECIMAL = re.compile(r"[+-]?\d*[.,]\d+(?:[.,]\d+)*")
_MAX_NAMES = 20  # column names in an error


def read_csv(records: RecordChunks, columns: Columns, dialect: Dialect = USUAL) -> Iterator[Batches | None]:
    """Parse the columns of each chunk of complete records.

    Args:
        records: chunks of complete records, the header first, in UTF-8.
        columns: columns to read.
        dialect: what separates fields, and how numbers are written.

    Yields:
        The columns of the next rows; None for a chunk without rows.

    Raises:
        SourceError: the file is empty, a column is missing, or a row cannot be read.
    """
    header: list[str] = []
    parsed = columns.texts  # columns that Arrow reads as text
    read = 0
    for block in records:
        rows = block
        if not header:
            header, end = read_header(block, dialect)
            rows = block[end:]
            if header:
                _check_header(columns.names, header, dialect)
        if not header or not rows:
            yield None
            continue
        batches, parsed = _parse(rows, columns, header, read, parsed, dialect)
        for batch in batches:
            yield _convert_floats(batch, columns, read, dialect), batch
            read += len(batch)
    if not header and not records.unfinished:
        raise SourceError("is empty; expected a header and rows")


def check_columns(columns: Sequence[str], header: Sequence[str], *, is_header: bool = False) -> None:
    """Check that each column exists, once.

    The first line of a file may be a record, so an error quotes its cells only if it is certainly a header, or if one
    of the columns is in it and every cell looks like a name. Otherwise the error names at most one similar name.

    Args:
        columns: columns that are needed.
        header: columns of the file.
        is_header: whether `header` is certainly a header.

    Raises:
        SourceError: a column is missing or exists more than once.

    Example:
        >>> check_columns(["spent"], ["spent", "shop"])
    """
    for name in columns:
        if header.count(name) > 1:
            raise SourceError(f"has column {name!r} more than once; rename one of them")
        if name not in header:
            names = all(map(_NAME.fullmatch, header))
            close = get_close_matches(name, filter(_NAME.fullmatch, header), n=1, cutoff=0.75)
            if is_header or (names and any(known in header for known in columns)):
                more = f" and {len(header) - _MAX_NAMES:,} more" if len(header) > _MAX_NAMES else ""
                hint = f"it has {', '.join(header[:_MAX_NAMES])}{more}"
            elif close:
                hint = f"did you mean {close[0]!r}?"
            else:
                hint = "its first line must be a header with that name"
            raise SourceError(f"has no column {name!r}; {hint}")


def _check_header(names: Sequence[str], header: list[str], dialect: Dialect) -> None:
    """Check that the columns exist, and suggest a separator if the header has only one column."""
    hint = suggest_separator(header) if dialect.separator == "," and set(names) != set(header) else ""
    if hint:
        raise SourceError(f"has no column {next(name for name in names if name not in header)!r}; {hint}")
    check_columns(names, header)


def read_header(block: bytes, dialect: Dialect = USUAL) -> tuple[list[str], int]:
    r"""Return the cells of the first record that is not empty, and where it ends.

    Args:
        block: complete records.
        dialect: what separates fields.

    Returns:
        The cells, none if there is no record; and the index after the record.

    Raises:
        SourceError: the record cannot be read.

    Example:
        >>> read_header(b"at,spent\n1,2\n")
        (['at', 'spent'], 9)
    """
    end = 0

    def lines() -> Iterator[str]:
        nonlocal end
        for line in _LINE.finditer(block):
            end = line.end()
            yield line.group().decode()

    try:
        return next(filter(None, reference.reader(lines(), delimiter=dialect.separator)), []), end
    except reference.Error:
        raise SourceError("its first line is not a header; name the columns header") from None


def _parse(
    rows: bytes, columns: Columns, header: Sequence[str], read: int, texts: list[str], dialect: Dialect
) -> tuple[list[pa.RecordBatch], list[str]]:
    """Parse complete records, in parallel unless a line break may be quoted; return the columns read as text too."""
    plain = b'"' not in rows
    if rows.startswith(BOM_UTF8):  # Arrow drops one, but here it belongs to a cell
        rows = BOM_UTF8 + rows
    try:
        batches = _parse_parts(rows, columns, header, texts, dialect, _PART if plain else len(rows) + 1)
        wide = [name for name in columns.floats if name not in texts and _is_inexact(batches, name)]
        if not wide:
            return batches, texts
        return _parse(rows, columns, header, read, [*texts, *wide], dialect)
    except pa.ArrowInvalid:  # a row is longer than a part, or wrong; this way its number is known
        try:
            return _parse_parts(rows, columns, header, texts, dialect, len(rows) + 1, threads=False), texts
        except pa.ArrowInvalid as problem:
            if columns.names != texts and not (_FIELDS.search(str(problem)) or "UTF8" in str(problem)):
                return _parse(
                    rows, columns, header, read, columns.names, dialect
                )  # a number may be written as true or false
            raise _explain_problem(str(problem), columns, header, read) from None


def _is_inexact(batches: Sequence[pa.RecordBatch], name: str) -> bool:
    """Whether a column that was read as floats has some that may be rounded, beyond 2^53, or may be no numbers."""
    columns = [batch.column(name) for batch in batches]
    is_nan = any(compute.any(compute.is_nan(column), min_count=0).as_py() for column in columns)
    return is_nan or any(is_wide(column.to_numpy(zero_copy_only=False)) for column in columns)


def _parse_parts(
    rows: bytes,
    columns: Columns,
    header: Sequence[str],
    texts: Sequence[str],
    dialect: Dialect,
    part: int,
    *,
    threads: bool = True,
) -> list[pa.RecordBatch]:
    kinds = dict.fromkeys(columns.numbers, pa.float64()) | dict.fromkeys(texts, pa.string())
    table = csv.read_csv(
        copy_to_arrow(rows),
        csv.ReadOptions(block_size=part, column_names=header, use_threads=threads),
        csv.ParseOptions(
            delimiter=dialect.separator,
            ignore_empty_lines=len(header) > 1,  # with one column, an empty line is a missing value
        ),
        csv.ConvertOptions(include_columns=columns.names, column_types=kinds, decimal_point=dialect.decimal),
    )
    return list(table.combine_chunks().to_batches())


def _explain_problem(problem: str, columns: Columns, header: Sequence[str], read: int) -> SourceError:
    """Say what is wrong, without Arrow's text, which quotes the row."""
    row = _ROW.search(problem)
    where = f"row {read + int(row.group(1)):,}" if row else "a row"
    if fields := _FIELDS.search(problem):
        counts = f"it has {fields.group(2)} fields, the header has {len(header)}"
        return SourceError(f"{where} does not match the header: {counts}; correct that row")
    if "UTF8" in problem:
        return SourceError(f"contains text that is not UTF-8; {NOT_UTF8}")
    return SourceError(_NOT_A_NUMBER.format(where=where, columns=name_columns(columns.numbers)))


def _convert_floats(batch: pa.RecordBatch, columns: Columns, read: int, dialect: Dialect) -> pa.RecordBatch:
    """Convert to numbers the columns that are to be numbers, but were read as text."""
    for name in columns.floats:
        column = batch.column(name)
        if not pa.types.is_string(column.type):
            continue
        try:
            batch = batch.set_column(columns.names.index(name), name, read_numbers(column, dialect))
        except pa.ArrowInvalid:
            row = find_unreadable(column, lambda part: to_floats(part, dialect))
            problem = _NOT_A_NUMBER.format(where=f"row {read + row + 1:,}", columns=name_columns([name]))
            raise SourceError(f"{problem}{_suggest_decimal(column[row].as_py(), dialect)}") from None
    return batch


def _suggest_decimal(text: str, dialect: Dialect) -> str:
    """Suggest another decimal point for what is not a number."""
    if _OTHER_DECIMAL.fullmatch(text.strip()) is None:
        return ""
    if dialect.decimal == ".":
        return "; if its numbers have decimal commas, give --decimal ,"
    return "; if its points separate thousands, write it without them; if they are decimal points, give --decimal ."


def read_numbers(column: pa.Array, dialect: Dialect = USUAL) -> pa.Array:
    """Read texts as numbers, whole numbers beyond 2^53 as they are.

    Args:
        column: column of text.
        dialect: how numbers are written.

    Returns:
        The numbers, null where missing; see `to_floats` and `keep_whole`.

    Raises:
        pyarrow.ArrowInvalid: a text is not a number; do not show what it says, which quotes the text.
    """
    return keep_whole(to_floats(column, dialect), normalize_numbers(column, dialect))


def normalize_numbers(column: pa.Array, dialect: Dialect) -> pa.Array:
    """Give texts one form: without blanks around them, null where missing, with points as decimal points.

    Args:
        column: column of text.
        dialect: how numbers are written.

    Returns:
        The texts.
    """
    text = normalize_text(column)
    if dialect.decimal != ".":  # a point is then not part of a number
        text = compute.replace_substring(compute.replace_substring(text, ".", "?"), dialect.decimal, ".")
    return text


def to_floats(column: pa.Array, dialect: Dialect = USUAL) -> pa.Array:
    """Read texts as numbers.

    Args:
        column: column of text.
        dialect: how numbers are written.

    Returns:
        The numbers, null where missing; true and false, in any case, are 1 and 0.

    Raises:
        pyarrow.ArrowInvalid: a text is not a number; do not show what it says, which quotes the text.

    Example:
        >>> to_floats(pa.array([" 1.5", "true", "NA"])).to_pylist()
        [1.5, 1.0, None]
    """
    text = normalize_numbers(column, dialect)
    if compute.any(compute.match_substring(text, "("), min_count=0).as_py():
        raise pa.ArrowInvalid("nan(1) is not a number")
    lower = compute.utf8_lower(text)
    words = compute.index_in(lower, value_set=pa.array(BOOLEANS), skip_nulls=True)
    numbers = compute.cast(compute.if_else(compute.is_valid(words), None, text), pa.float64())
    return compute.coalesce(compute.cast(words, pa.float64()), numbers)
