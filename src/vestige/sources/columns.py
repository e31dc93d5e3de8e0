"""Columns of a format's batch as a block: numbers as floats, categories as their numbers, times as UTC, keys as text.

A row with a missing value, time or key is skipped and counted, unless numbers may be missing; one without a subject is
a record without one. Errors name the column and the row, never what the row holds.
Guarantee: at every block size the rows are the same; held by tests/sources/test_file.py.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import compute

from vestige.errors import SourceError
from vestige.sources.block import Block, Texts
from vestige.sources.positions import FilePositions
from vestige.sources.protocol import Unit
from vestige.sources.timestamps import ACCEPTED, find_unreadable, normalize_text, parse_times
from vestige.types import Bools, Floats, Ints
from vestige.whole_numbers import SAFE, is_wide, parse_number, stack_columns

_NUMERIC = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal, pa.types.is_boolean)
WRITTEN = pa.large_binary()
"""Type of a column of numbers, as they are written, in which some are whole numbers that floats do not hold."""
BOOLEANS = ("false", "true")
"""Categories of a column of booleans."""
Batches = tuple[pa.RecordBatch, pa.RecordBatch]
"""Numeric columns and text columns of the same rows."""


@dataclass(frozen=True, slots=True)
class Columns:
    """Columns to read, by purpose.

    Attributes:
        numbers: columns of the values of a record.
        time: column of time stamps, if any.
        subject: column of subjects, if any.
        by: columns of keys, if any.
        time_unit: unit of time stamps that are plain numbers; None to infer it.
        keep_missing: whether rows with missing numbers are read, with nan in their place.
        categories: names of categories, by column; these columns are read as text, and a row's value is the number of
            its category, counted from 0; the number of categories stands for any other text. Where there are none, it
            is a hash of the text.
    """

    numbers: tuple[str, ...]
    time: str | None
    subject: str | None
    by: tuple[str, ...]
    time_unit: Unit | None
    keep_missing: bool = False
    categories: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def floats(self) -> list[str]:
        """Columns that are read as numbers."""
        return [name for name in self.numbers if name not in self.categories]

    @property
    def texts(self) -> list[str]:
        """Columns that are read as text, each once; some of them may be read as numbers too."""
        listed = dict.fromkeys((self.time, self.subject, *self.by, *self.categories))
        return [name for name in listed if name is not None]

    @property
    def names(self) -> list[str]:
        """All columns, each once."""
        return list(dict.fromkeys((*self.numbers, *self.texts)))

    @property
    def empty(self) -> Batches:
        """Batches of these columns without rows."""
        numbers = pa.record_batch({name: pa.array([], pa.float64()) for name in self.floats})
        return numbers, pa.record_batch({name: pa.array([], pa.string()) for name in self.texts})


def make_block(
    batches: Batches, columns: Columns, *, start: int, identity: bytes, offset: int, unfinished: bool = False
) -> Block:
    """Make a block of the complete rows of a batch.

    Args:
        batches: numeric and text columns.
        columns: what to read from them.
        start: number of rows of the source before this batch.
        identity: identity of the file, a part of each position.
        offset: number of bytes that were read so far.
        unfinished: whether the source ends in a line without a line break after this batch.

    Returns:
        The block.

    Raises:
        SourceError: a value cannot be read.
    """
    numbers, texts = batches
    table, exact = _read_values(numbers, texts, columns, start)
    times = None if columns.time is None else _read_times(texts, columns.time, columns.time_unit, start)
    subjects = None if columns.subject is None else _read_texts(texts, columns.subject, start)
    groups = _read_keys(texts, columns.by, start) if columns.by else None
    complete = cast(Bools, ~np.isnan(table).any(axis=1)) | columns.keep_missing
    keyed = np.ones(len(table), np.bool_) if groups is None else groups.is_valid().to_numpy(zero_copy_only=False)
    complete &= keyed if times is None else keyed & times.is_valid().to_numpy(zero_copy_only=False)
    keys, codes = (None, None) if groups is None else _encode_texts(groups, complete)
    rows = start + 1 + np.flatnonzero(complete)
    return Block(
        rows=np.ascontiguousarray((table if exact is None else exact)[complete]),
        numbers=rows,
        positions=FilePositions(rows, identity),
        read=start + len(table),
        skipped=int((~complete).sum()),
        keyless=int((~keyed).sum()),
        offset=offset,
        arrived=datetime.now(UTC),
        times=None if times is None else times.to_numpy(zero_copy_only=False)[complete],
        subjects=None if subjects is None else subjects.filter(pa.array(complete)).to_numpy(zero_copy_only=False),
        keys=keys,
        codes=codes,
        unfinished=unfinished,
        columns=columns.numbers,
    )


def copy_to_arrow(block: bytes) -> pa.BufferReader:
    """Copy bytes into Arrow's own memory.

    Arrow's threads may outlive the call that started them. A thread that releases a Python object while the interpreter
    exits crashes the process, and one that reads from a Python file prevents it from exiting.

    Args:
        block: bytes to copy.

    Returns:
        A reader of the copy.
    """
    memory = pa.BufferOutputStream()
    memory.write(block)
    return pa.BufferReader(memory.getvalue())


def _read_values(
    batch: pa.RecordBatch, texts: pa.RecordBatch, columns: Columns, start: int
) -> tuple[Floats, NDArray[Any] | None]:
    """Read the values of a record as floats, nan where missing, shape (n, columns); and as whole numbers beyond 2^53.

    The second is None if there are no such numbers, which a stream reads as its policy takes them.
    """
    arrays, exact = [], dict[int, NDArray[Any]]()
    for name in columns.numbers:
        if name in columns.categories:
            text, known = _read_texts(texts, name, start), columns.categories[name]
            arrays.append(number_categories(text, known) if known else hash_texts(text))
            continue
        column = batch.column(name)
        kind = column.type
        if kind == WRITTEN:
            exact[len(arrays)] = made = np.array([_parse(text) for text in column.to_pylist()], np.object_)
            arrays.append(np.array([np.nan if value is None else _to_float(value) for value in made]))
            continue
        if not any(is_kind(kind) for is_kind in _NUMERIC):
            raise SourceError(
                f"column {name!r} is not numeric in rows {start + 1} to {start + len(batch)}; name a numeric column"
            )
        arrays.append(compute.cast(column, pa.float64(), safe=False).to_numpy(zero_copy_only=False))
        if not pa.types.is_floating(kind) and is_wide(arrays[-1]):
            is_plain = pa.types.is_integer(kind) and not column.null_count
            exact[len(arrays) - 1] = column.to_numpy() if is_plain else np.array(column.to_pylist(), np.object_)
    table = np.column_stack(arrays).astype(np.float64)
    infinite = np.isinf(table).any(axis=1)
    if infinite.any():
        row = start + int(np.argmax(infinite)) + 1
        raise SourceError(f"row {row} has an infinite value; drop or fill such rows first")
    if not exact:
        return table, None
    return table, stack_columns([exact.get(place, column) for place, column in enumerate(arrays)])


def write_numbers(values: Sequence[float | None]) -> pa.Array:
    """Make a column of numbers, as they are written if there are whole ones beyond 2^53 among them.

    Args:
        values: whole numbers and floats, None where one is missing.

    Returns:
        Floats, or texts of the type `WRITTEN`.

    Example:
        >>> write_numbers([1, 2.5, None]).type, write_numbers([2**60 + 1, 2.5, None]).to_pylist()
        (DataType(double), [b'1152921504606846977', b'2.5', None])
    """
    floats = [None if value is None else float(value) for value in values]
    if not any(isinstance(value, int) and abs(value) > SAFE for value in values):
        return pa.array(floats, pa.float64())
    return pa.array([None if value is None else _write(value).encode() for value in values], WRITTEN)


def _write(value: float) -> str:
    """A number as `parse_number` reads it: a float beyond 2^53 has an exponent."""
    text = repr(value)
    return f"{text}e0" if isinstance(value, float) and abs(value) > SAFE and "e" not in text else text


def keep_whole(numbers: pa.Array, texts: pa.Array) -> pa.Array:
    """Keep whole numbers beyond 2^53, which floats round, as they are written.

    Args:
        numbers: floats, null where missing.
        texts: what they were read from, with points as decimal points.

    Returns:
        The same numbers: floats, whole numbers, or texts of the type `WRITTEN`.

    Example:
        >>> keep_whole(pa.array([2.0**60, None]), pa.array(["1152921504606846977", "NA"])).to_pylist()
        [1152921504606846977, None]
    """
    floats = numbers.to_numpy(zero_copy_only=False)
    if not is_wide(floats):
        return numbers
    texts = compute.if_else(compute.is_valid(numbers), texts, None)
    for kind in (pa.int64(), pa.uint64()):
        with suppress(pa.ArrowInvalid):
            return compute.cast(texts, kind)
    wide, values = np.abs(floats) > SAFE, numbers.to_pylist()
    for place in np.flatnonzero(wide).tolist():
        values[place] = parse_number(texts[place].as_py())
    return write_numbers(values)


def _parse(text: bytes | None) -> float | None:
    """The number that `write_numbers` has written; a SourceError if it is another text."""
    try:
        return None if text is None else parse_number(text.decode())
    except ValueError:
        raise SourceError("a column is not numeric; name a numeric column") from None


def _to_float(value: float) -> float:
    try:
        return float(value)
    except OverflowError:
        return np.inf


def number_categories(text: pa.Array, categories: Sequence[str]) -> Floats:
    """Replace texts by the numbers of their categories.

    Blanks around a text do not count, nor does the case of true and false where these are the categories. Where all
    categories are numbers, 1.0 is the category 1. What stands for a missing number, such as NA, is missing, unless it
    is a category.

    Args:
        text: column of text.
        categories: names of the categories.

    Returns:
        The number of each text's category, counted from 0; the number of categories for any other; nan where missing.

    Example:
        >>> number_categories(pa.array([" ok", "failed", "lost", "NA", None]), ("ok", "failed"))
        array([ 0.,  1.,  2., nan, nan])
    """
    text = compute.utf8_trim_whitespace(text)
    if set(categories) == set(BOOLEANS):
        text = compute.utf8_lower(text)
    known = compute.index_in(text, value_set=pa.array(categories, pa.string()), skip_nulls=True)
    numbers = [_to_number(name) for name in categories]
    if None not in numbers:
        found = pa.array([_to_number(each) for each in text.dictionary_encode().dictionary.to_pylist()], pa.string())
        values = found.take(text.dictionary_encode().indices)
        known = compute.coalesce(known, compute.index_in(values, value_set=pa.array(numbers), skip_nulls=True))
    other = compute.if_else(compute.is_valid(normalize_text(text)), len(categories), None)
    codes = compute.coalesce(known, compute.cast(other, pa.int32()))
    return cast(Floats, compute.cast(codes, pa.float64()).to_numpy(zero_copy_only=False))


def hash_texts(text: pa.Array) -> Floats:
    """Replace texts by hashes of 53 bits, which are whole numbers.

    Blanks around a text do not count. What stands for a missing number, such as NA, is missing.

    Args:
        text: column of text.

    Returns:
        A hash of each text, the same in all files; nan where missing.

    Example:
        >>> hash_texts(pa.array(["ada", " ada", "NA", None])).tolist()
        [763178248315584.0, 763178248315584.0, nan, nan]
    """
    encoded = normalize_text(text).dictionary_encode()
    digests = (hashlib.blake2b(each.encode(), digest_size=8).digest() for each in encoded.dictionary.to_pylist())
    hashes = pa.array([float(int.from_bytes(digest) >> 11) for digest in digests], pa.float64())
    return cast(Floats, hashes.take(encoded.indices).to_numpy(zero_copy_only=False))


def name_columns(names: Sequence[str]) -> str:
    """Name the columns in which something is wrong.

    Args:
        names: the columns.

    Returns:
        The words for a message.

    Example:
        >>> name_columns(["a"]), name_columns(["a", "b"])
        ('column a', 'one of the columns a, b')
    """
    return f"column {names[0]}" if len(names) == 1 else f"one of the columns {', '.join(names)}"


def _to_number(text: str | None) -> str | None:
    """A number in one form, whatever form it is written in; None if it is not one."""
    try:
        return repr(_tidy(parse_number(text))) if text is not None and "_" not in text else None
    except ValueError:
        return None


def _tidy(number: float) -> float:
    return float(number) if abs(number) <= SAFE else number


def _read_times(batch: pa.RecordBatch, name: str, unit: Unit | None, start: int) -> pa.Array:
    """Read a column as time stamps, null where missing."""
    column = batch.column(name)
    try:
        return pa.array(parse_times(column, unit))
    except pa.ArrowInvalid:
        row = start + find_unreadable(column, lambda part: parse_times(part, unit)) + 1
        raise SourceError(
            f"column {name!r} has a time that cannot be read in row {row}; accepted: {ACCEPTED}"
        ) from None


def _read_texts(batch: pa.RecordBatch, name: str, start: int) -> pa.Array:
    """Read a column as text, null where missing or empty."""
    column = batch.column(name)
    try:
        text = _write_floats(column, name) if pa.types.is_floating(column.type) else compute.cast(column, pa.string())
        text.validate(full=True)
    except pa.ArrowException:
        raise SourceError(
            f"column {name!r} is not text in rows {start + 1} to {start + len(batch)}; name a column of text or numbers"
        ) from None
    return compute.if_else(compute.equal(text, ""), None, text)


def _write_floats(column: pa.Array, name: str) -> pa.Array:
    """Floats as text, null where missing: whole ones as integers, which become floats where some are missing."""
    values = column.to_numpy(zero_copy_only=False)
    rounded = 2.0 ** (np.finfo(values.dtype).nmant + 1)
    if (np.abs(values) >= rounded).any():
        raise SourceError(
            f"column {name!r} has a float of {rounded:.0f} or more, which may be another number rounded; write whole "
            "numbers as integers or as text"
        )
    whole = values == np.trunc(values)
    written = compute.cast(pa.array(np.where(whole, values, 0.0).astype(np.int64)), pa.string())
    return compute.if_else(
        compute.is_nan(column), None, compute.if_else(pa.array(whole), written, compute.cast(column, pa.string()))
    )


def _read_keys(batch: pa.RecordBatch, names: Sequence[str], start: int) -> pa.Array:
    """Read keys as text, null where a part is missing; those of several columns as `join_key` joins them."""
    parts = [_read_texts(batch, name, start) for name in names]
    if len(parts) == 1:
        return parts[0]
    quoted = (compute.replace_substring(part, "%", "%25") for part in parts)
    return compute.binary_join_element_wise(*(compute.replace_substring(part, "/", "%2F") for part in quoted), "/")


def _encode_texts(text: pa.Array, complete: Bools) -> tuple[Texts, Ints]:
    """Return the distinct texts of the complete rows, and the index of each row's text."""
    encoded = text.filter(pa.array(complete)).dictionary_encode()
    return encoded.dictionary.to_numpy(zero_copy_only=False), encoded.indices.to_numpy().astype(np.int64)
