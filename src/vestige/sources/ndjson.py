"""NDJSON, one object per line: Arrow reads the numbers, Python the texts, as they are written.

Arrow rejects a column with text in one row and a number in another, so texts are read by Python's own json module; so
are numbers where some are written as true or false, which are 1 and 0.
Guarantee: the rows are those of Python's json module; held by tests/sources/test_file.py.
"""

from __future__ import annotations

import json as reference
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyarrow import json

from vestige.errors import SourceError
from vestige.sources.boundaries import RecordChunks
from vestige.sources.columns import WRITTEN, Batches, Columns, copy_to_arrow, name_columns, write_numbers
from vestige.sources.dialect import NOT_UTF8
from vestige.whole_numbers import SAFE, is_wide, parse_number

BLOCK = 1 << 24
_PART = 1 << 22  # bytes of a block that one core parses
_DECODER = reference.JSONDecoder(parse_int=str, parse_float=str)  # a number as it is written


class NotNumberError(ValueError):
    """A column of numbers that has something else.

    Args:
        column: the column.
        row: the row, from 1.
    """

    def __init__(self, column: str, row: int) -> None:
        super().__init__(f"column {column!r} is not a number in row {row}")
        self.column, self.row = column, row


def read_ndjson(records: RecordChunks, columns: Columns) -> Iterator[Batches | None]:
    """Parse the columns of each chunk of complete lines.

    Args:
        records: chunks of complete lines.
        columns: columns to read.

    Yields:
        The columns of the next rows; None for a chunk without rows.

    Raises:
        SourceError: the file is empty, a row cannot be read, or it has a column twice.
    """
    begun = False
    for block in records:
        if not block.strip():
            yield None
            continue
        begun = True
        try:
            yield parse_lines(block, columns)
        except UnicodeError:
            raise SourceError(f"contains text that is not UTF-8; {NOT_UTF8}") from None
        except (pa.ArrowInvalid, ValueError, RecursionError):  # whose text quotes the row
            raise SourceError(
                f"contains rows that cannot be parsed: they are not JSON, or {name_columns(columns.numbers)} is not a "
                "number; write one JSON object per line, and name numeric columns"
            ) from None
    if not begun and not records.unfinished:
        raise SourceError("is empty; expected one JSON object per line")


def parse_lines(block: bytes, columns: Columns) -> Batches:
    """Parse columns of complete lines.

    Args:
        block: the lines, one object each; at least one.
        columns: columns to read.

    Returns:
        The columns.

    Raises:
        NotNumberError: a column of numbers has something else.
        SourceError: a row has a column twice.
        ValueError: the lines cannot be parsed; its text may quote a row, so do not show it.
        pyarrow.ArrowInvalid: the same.
    """
    lines = [line for line in block.split(b"\n") if line.strip()]
    if not all(line.lstrip().startswith(b"{") for line in lines):
        raise ValueError("a line is not an object")  # Arrow takes null for one, or crashes
    texts = _read_texts(block, lines, columns) if columns.texts else None
    if not columns.floats and texts is not None:
        return texts, texts
    try:
        numbers = _read_numbers(block, columns.floats)
        if any(is_wide(column.to_numpy(zero_copy_only=False)) for column in numbers.columns):
            numbers = pa.record_batch(_make_numbers(_decode_exactly(lines, columns), columns.floats))
    except pa.ArrowInvalid:
        numbers = _read_booleans(lines, columns)
    if len(numbers) != len(lines):
        raise ValueError("several objects in a line")
    return numbers, numbers if texts is None else texts


def parse_array(content: bytes, columns: Columns) -> Batches:
    """Parse columns of an array of objects, or of an object with such an array as `rows`, as the same lines would be.

    Args:
        content: the array, as JSON in UTF-8.
        columns: columns to read.

    Returns:
        The columns.

    Raises:
        NotNumberError: a column of numbers has something else.
        SourceError: a row has a column twice.
        ValueError: it cannot be parsed; the text may quote a row, so do not show it.
    """
    text = content.decode()
    parsed = reference.loads(text)
    if isinstance(parsed, dict) and (text.count('"rows"') > 1 or "\\" in text):
        reference.loads(text, object_pairs_hook=_check_rows)
    rows = _find_rows(parsed)
    if _may_repeat(content, rows, columns.names):
        rows = _find_rows(_make_decoder(columns).decode(text))
    numbers = _make_numbers(rows, columns.floats)
    if any(_is_wide(column) for column in numbers.values()):
        rows = _find_rows(_make_decoder(columns, parse_float=parse_number).decode(text))
        numbers = _make_numbers(rows, columns.floats)
    if not columns.texts:
        return (pa.record_batch(numbers),) * 2
    written = _find_rows(_DECODER.decode(text))
    texts = {name: pa.array(_list_texts(written, name), pa.string()) for name in columns.texts}
    batch = pa.record_batch(texts)
    return pa.record_batch(numbers) if numbers else batch, batch


def list_members(content: bytes, *, is_array: bool) -> set[str]:
    r"""List the members that any object has.

    Args:
        content: what `parse_array` or `parse_lines` could parse.
        is_array: whether it is an array, not lines.

    Returns:
        Their names.

    Example:
        >>> sorted(list_members(b'{"spent": 1}\n{"sold": null}', is_array=False))
        ['sold', 'spent']
    """
    lines = [] if is_array else [line for line in content.split(b"\n") if line.strip()]
    rows = _find_rows(reference.loads(content)) if is_array else map(reference.loads, lines)
    return {name for row in rows for name in row}


def _check_rows(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """Refuse an object that has rows twice, of which Python takes the last."""
    if [name for name, _ in pairs].count("rows") > 1:
        raise SourceError("'rows' is given twice in one object; give it once")
    return dict(pairs)


def _find_rows(parsed: object) -> list[dict[str, object]]:
    rows = parsed.get("rows") if isinstance(parsed, dict) else parsed
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise ValueError("not an array of objects")
    return rows


def _read_numbers(block: bytes, names: Sequence[str]) -> pa.RecordBatch:
    """Read columns as numbers."""
    schema = pa.schema([(name, pa.float64()) for name in names])
    parse = json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore")
    try:
        table = json.read_json(copy_to_arrow(block), json.ReadOptions(block_size=_PART), parse)
    except pa.ArrowInvalid:  # a row may be longer than a part
        table = json.read_json(
            copy_to_arrow(block), json.ReadOptions(block_size=len(block) + 1, use_threads=False), parse
        )
    return table.combine_chunks().to_batches()[0]


def _may_repeat(content: bytes, rows: Sequence[dict[str, object]], names: Sequence[str]) -> bool:
    """Whether an object may have two values of a name: it is written more often than objects have it, or may be.

    To look first is faster than to let Python look at each object.
    """
    has_escapes = b"\\" in content
    for name in names:
        count = content.count(reference.dumps(name, ensure_ascii=False).encode())
        if count > len(rows) or (count < len(rows) and count > sum(name in row for row in rows)):
            return True
        if has_escapes and (("/" in name and b"\\/" in content) or (not name.isascii() and b"\\u" in content)):
            return True
    return has_escapes and b"\\u00" in content  # a letter that is written as a number


def _make_decoder(columns: Columns, **options: Any) -> reference.JSONDecoder:
    """A decoder that refuses an object with two values of a column, of which Python takes the last."""
    wanted = set(columns.names)

    def make_row(pairs: list[tuple[str, object]]) -> dict[str, object]:
        row = dict(pairs)
        if len(row) < len(pairs):
            doubled = [name for name, count in Counter(name for name, _ in pairs).items() if count > 1]
            if name := next((name for name in doubled if name in wanted), None):
                raise SourceError(f"column {name!r} has two values in one row; give each column once")
        return row

    return reference.JSONDecoder(object_pairs_hook=make_row, **options)


def _decode_exactly(lines: Sequence[bytes], columns: Columns) -> list[dict[str, object]]:
    """Objects in which a whole number with zeros after a point is a whole number too."""
    decoder = _make_decoder(columns, parse_float=parse_number)
    return [decoder.decode(line.decode()) for line in lines]


def _is_wide(column: pa.Array) -> bool:
    return column.type == WRITTEN or is_wide(column.to_numpy(zero_copy_only=False))


def _read_booleans(lines: Sequence[bytes], columns: Columns) -> pa.RecordBatch:
    """Read columns of numbers and booleans, row by row; a ValueError if there are no booleans."""
    decoder, names = _make_decoder(columns), columns.floats
    rows = [decoder.decode(line.decode()) for line in lines]
    numbers = _make_numbers(rows, names)
    if not any(isinstance(row.get(name), bool) for row in rows for name in names):
        raise ValueError("not the fault of a boolean")
    return pa.record_batch(numbers)


def _make_numbers(rows: Sequence[dict[str, object]], names: Sequence[str]) -> dict[str, pa.Array]:
    """Columns of numbers and booleans of JSON."""
    return {name: write_numbers(_list_numbers(rows, name)) for name in names}


def _list_numbers(rows: Sequence[dict[str, object]], name: str) -> list[float | None]:
    found: list[float | None] = []
    for row in rows:
        try:
            found.append(_to_number(row.get(name)))
        except (ValueError, OverflowError):
            raise NotNumberError(name, len(found) + 1) from None
    return found


def _to_number(value: object) -> float | None:
    """Return a number or a boolean of JSON; one that no float is near is an OverflowError."""
    if value is not None and not isinstance(value, bool | int | float):
        raise ValueError("not a number")
    if isinstance(value, int) and abs(value) > SAFE:
        float(value)
        return value
    return None if value is None else float(value)


def _read_texts(block: bytes, lines: Sequence[bytes], columns: Columns) -> pa.RecordBatch:
    """Read columns as text, numbers as they are written."""
    rows = [_DECODER.decode(line.decode()) for line in lines]
    if _may_repeat(block, rows, columns.texts):
        decoder = _make_decoder(columns, parse_int=str, parse_float=str)
        rows = [decoder.decode(line.decode()) for line in lines]
    return pa.record_batch({name: pa.array(_list_texts(rows, name), pa.string()) for name in columns.texts})


def _list_texts(rows: Sequence[dict[str, object]], name: str) -> list[str | None]:
    """A column of JSON as texts; a number is text already."""
    cells = [row.get(name) for row in rows]
    return [cell if cell is None or isinstance(cell, str) else reference.dumps(cell) for cell in cells]
