"""Files of records, read as a stream: CSV, NDJSON and Parquet, also packed with gzip, or standard input.

Numbers are read as floats, times as UTC, subjects and keys as text. A row with a missing value in a wanted column takes
no round; it is counted. Errors name the file, the column and the row, never what the row holds.
"""

from __future__ import annotations

import csv as header_csv
import gzip
import io
import json as row_json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import compute, csv, json, parquet

from vestige.errors import SourceError
from vestige.records import Bools, Floats, Ints
from vestige.times import ACCEPTED, Times, first_unreadable, parsed, spelled

FORMATS = {".csv": "csv", ".ndjson": "ndjson", ".jsonl": "ndjson", ".json": "ndjson", ".parquet": "parquet"}
_HEAD = 1 << 16
_CSV_BLOCK, _CSV_BLOCK_BY = 1 << 20, 1 << 24  # bytes; rows that spread over many streams come in larger blocks
_PARQUET_ROWS, _PARQUET_ROWS_BY = 1 << 16, 1 << 19
_NDJSON_BLOCK = 1 << 24
_CSV_PART, _NDJSON_PART = 1 << 19, 1 << 22  # bytes of a block that the cores parse side by side; no row is longer
_SHOWN = 20  # column names in an error
_GZIP = b"\x1f\x8b"
_ROW = row_json.JSONDecoder(parse_int=str, parse_float=str)  # a number as it is written
_UNPARSED = (pa.ArrowInvalid, row_json.JSONDecodeError, UnicodeError, RecursionError)

Texts = NDArray[np.object_]
_Batches = tuple[pa.RecordBatch, pa.RecordBatch]


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """Some rows of a source.

    Attributes:
        rows: the complete ones, in order; shape (n, columns).
        numbers: of each of them, its number in the source; counted from 1, the incomplete ones too.
        skipped: how many had a missing value.
        read: how many rows of the source have been read so far, complete or not.
        position: bytes read so far, 0 where unknown.
        times: of each row, in UTC; None where no time was asked for.
        subjects: of each row, as text; None where no subject was asked for.
        keys: the distinct keys of these rows, as text; None where none was asked for.
        codes: of each row, the index of its key in `keys`.
    """

    rows: Floats
    numbers: Ints
    skipped: int
    read: int
    position: int
    times: Times | None = None
    subjects: Texts | None = None
    keys: Texts | None = None
    codes: Ints | None = None


@dataclass(frozen=True, slots=True)
class _Wanted:
    """The columns to read, by what for."""

    numbers: tuple[str, ...]
    time: str | None
    subject: str | None
    by: str | None

    @property
    def texts(self) -> list[str]:
        """The columns that are not, or not only, read as numbers; each once."""
        return [name for name in dict.fromkeys((self.time, self.subject, self.by)) if name is not None]

    @property
    def names(self) -> list[str]:
        """All columns, each once."""
        return list(dict.fromkeys((*self.numbers, *self.texts)))


@dataclass(frozen=True, slots=True)
class Source:
    """Where records come from: a path, or `-` for standard input."""

    name: str

    @property
    def pipe(self) -> bool:
        """Whether what is there can be read only once."""
        path = Path(self.name)
        return self.name == "-" or (path.exists() and not path.is_file() and not path.is_dir())

    @property
    def size(self) -> int | None:
        """How many bytes there are to read; None where that is unknown."""
        return Path(self.name).stat().st_size if Path(self.name).is_file() else None

    def blocks(
        self,
        columns: Sequence[str],
        *,
        time: str | None = None,
        subject: str | None = None,
        by: str | None = None,
        after: int = 0,
    ) -> Iterator[Block]:
        """The wanted columns, block by block.

        Args:
            columns: those with the numbers.
            time: the column that says when, if any.
            subject: the column that says about whom, if any.
            by: the column that says which stream, if any.
            after: how many rows were read before; only later ones are yielded.
        """
        wanted = _Wanted(tuple(columns), time, subject, by)
        with self._opened() as stream:
            read = 0
            for numbers, texts in self._batches(stream, wanted):
                begun, read = read, read + len(numbers)
                if read > after:
                    known = max(after - begun, 0)
                    position = stream.tell() if stream.seekable() else 0
                    yield self._block(numbers.slice(known), texts.slice(known), wanted, begun + known, position)
        if read < after:
            raise SourceError(
                f"{self.name}: has {read:,} rows, but {after:,} were read from it before; was it replaced? "
                "give the new file another name"
            )

    def _block(
        self, numbers: pa.RecordBatch, texts: pa.RecordBatch, wanted: _Wanted, begun: int, position: int
    ) -> Block:
        """The complete rows of a batch before which `begun` rows came."""
        table = self._numbers(numbers, wanted.numbers, begun)
        when = None if wanted.time is None else self._times(texts, wanted.time, begun)
        who = None if wanted.subject is None else self._texts(texts, wanted.subject, begun)
        which = None if wanted.by is None else self._texts(texts, wanted.by, begun)
        complete = cast(Bools, ~np.isnan(table).any(axis=1))
        for label in (when, who, which):
            if label is not None:
                complete &= label.is_valid().to_numpy(zero_copy_only=False)
        keys, codes = (None, None) if which is None else _encoded(which, complete)
        return Block(
            rows=np.ascontiguousarray(table[complete]),
            numbers=begun + 1 + np.flatnonzero(complete),
            skipped=int((~complete).sum()),
            read=begun + len(table),
            position=position,
            times=None if when is None else when.to_numpy(zero_copy_only=False)[complete],
            subjects=None if who is None else np.take(*_encoded(who, complete)),
            keys=keys,
            codes=codes,
        )

    def _opened(self) -> IO[bytes]:
        if self.name == "-":
            return cast(IO[bytes], io.BufferedReader(cast(Any, sys.stdin.buffer), _HEAD))
        path = Path(self.name)
        if not path.exists():
            raise SourceError(f"{self.name}: there is no such file; give a path, or - for standard input")
        if path.is_dir():
            raise SourceError(f"{self.name}: is a folder; give a file")
        return path.open("rb")

    def _batches(self, raw: IO[bytes], wanted: _Wanted) -> Iterator[_Batches]:
        """The wanted numbers and, of the same rows, the wanted texts, whatever the format."""
        stream = cast(io.BufferedReader, raw)
        if stream.peek(2)[:2] == _GZIP:
            stream = io.BufferedReader(cast(Any, gzip.GzipFile(fileobj=stream)), _HEAD)
        head = stream.peek(_HEAD)
        if not head.strip(b"\xef\xbb\xbf \t\r\n"):
            raise SourceError(f"{self.name}: is empty; expected a header and rows")
        readers = {"csv": self._csv, "ndjson": self._ndjson, "parquet": self._parquet}
        try:
            yield from readers[self._format(head)](stream, wanted)
        except _UNPARSED as problem:  # its text may quote the row
            raise self._unparsed(str(problem), wanted) from None

    def _unparsed(self, problem: str, wanted: _Wanted) -> SourceError:
        if "UTF8" in problem or "utf-8" in problem:
            return SourceError(f"{self.name}: holds text that is not UTF-8; convert the file to UTF-8 first")
        if "straddling" in problem:
            return SourceError(
                f"{self.name}: holds a row that is longer than {_CSV_PART:,} bytes (CSV) or {_NDJSON_PART:,} (NDJSON); "
                "leave out its longest columns"
            )
        no_number = "onversion" in problem or "Failed to parse string" in problem
        what = "a value that is not a number" if no_number else "rows that cannot be parsed"
        return SourceError(
            f"{self.name}: holds {what} in or near column {', '.join(wanted.numbers)}; "
            "name a numeric column, and write missing values as empty fields or NA"
        )

    def _format(self, head: bytes) -> str:
        """By the file's ending; by its first bytes where that says nothing."""
        suffix = Path(self.name.removesuffix(".gz")).suffix.lower()
        if self.name != "-" and suffix in FORMATS:
            return FORMATS[suffix]
        if head.startswith(b"PAR1"):
            return "parquet"
        return "ndjson" if head.lstrip().startswith(b"{") else "csv"

    def _csv(self, stream: IO[bytes], wanted: _Wanted) -> Iterator[_Batches]:
        size = _CSV_BLOCK if wanted.by is None else _CSV_BLOCK_BY
        kinds = dict.fromkeys(wanted.numbers, pa.float64()) | dict.fromkeys(wanted.texts, pa.string())
        convert = csv.ConvertOptions(include_columns=wanted.names, column_types=kinds)
        there: list[str] = []
        for block in _whole_lines(stream, size):
            begun = bool(there)
            if not begun:
                header = block.splitlines()[0].decode("utf-8-sig", errors="replace")
                there = next(header_csv.reader([header]), [])
                self._check(wanted.names, there)
            table = csv.read_csv(
                _owned(block),
                csv.ReadOptions(block_size=_CSV_PART, column_names=there, skip_rows=not begun),
                csv.ParseOptions(ignore_empty_lines=len(there) > 1),  # of one column, an empty line is a missing value
                convert,
            )
            for batch in table.combine_chunks().to_batches():
                numbers = batch
                for name in set(wanted.numbers).intersection(wanted.texts):
                    floats = compute.cast(spelled(batch.column(name)), pa.float64())
                    numbers = numbers.set_column(wanted.names.index(name), name, floats)
                yield numbers, batch

    def _ndjson(self, stream: IO[bytes], wanted: _Wanted) -> Iterator[_Batches]:
        """Arrow reads the numbers, but no column that holds text here and a number there."""
        schema = pa.schema([(name, pa.float64()) for name in wanted.numbers])
        parse = json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore")
        for block in _whole_lines(stream, _NDJSON_BLOCK):
            if not block.strip():
                continue
            table = json.read_json(_owned(block), json.ReadOptions(block_size=_NDJSON_PART), parse)
            numbers = table.combine_chunks().to_batches()[0]
            yield numbers, _spelled(block, wanted.texts) if wanted.texts else numbers

    def _parquet(self, stream: IO[bytes], wanted: _Wanted) -> Iterator[_Batches]:
        if self.name == "-" or not stream.seekable():
            raise SourceError(f"{self.name}: Parquet cannot be read from a pipe; give a path, or pipe CSV or NDJSON")
        file = parquet.ParquetFile(stream, pre_buffer=False)  # with this and without threads, the caller reads
        self._check(wanted.names, file.schema_arrow.names)
        most = _PARQUET_ROWS if wanted.by is None else _PARQUET_ROWS_BY
        yield from ((batch, batch) for batch in file.iter_batches(most, columns=wanted.names, use_threads=False))

    def _check(self, columns: Sequence[str], there: Sequence[str]) -> None:
        """Whether each column is there once; names that look like values are not repeated."""
        for name in columns:
            if there.count(name) > 1:
                raise SourceError(f"{self.name}: has column {name!r} more than once; rename one of them")
            if name not in there:
                shown = all(known.isprintable() and not _is_number(known) for known in there) and any(there)
                more = f" and {len(there) - _SHOWN:,} more" if len(there) > _SHOWN else ""
                known = f"it has {', '.join(there[:_SHOWN])}{more}" if shown else "its first line is no header"
                raise SourceError(f"{self.name}: has no column {name!r}; {known}")

    def _numbers(self, batch: pa.RecordBatch, columns: Sequence[str], begun: int) -> Floats:
        """The columns as floats, nan where missing; shape (n, columns)."""
        made = []
        for name in columns:
            column = batch.column(name)
            kind = column.type
            if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)):
                raise SourceError(
                    f"{self.name}: column {name!r} is not numeric in rows {begun + 1} to {begun + len(batch)}; "
                    "name a numeric column"
                )
            made.append(compute.cast(column, pa.float64(), safe=False).to_numpy(zero_copy_only=False))
        table = np.column_stack(made).astype(np.float64)
        infinite = np.isinf(table).any(axis=1)
        if infinite.any():
            row = begun + int(np.argmax(infinite)) + 1
            raise SourceError(f"{self.name}: row {row} has an infinite value; drop or fill such rows first")
        return table

    def _times(self, batch: pa.RecordBatch, name: str, begun: int) -> pa.Array:
        """The column as timestamps, null where missing."""
        column = batch.column(name)
        try:
            return pa.array(parsed(column))
        except pa.ArrowInvalid:
            row = begun + first_unreadable(column) + 1
            raise SourceError(
                f"{self.name}: column {name!r} has no readable time in row {row}; accepted are {ACCEPTED}"
            ) from None

    def _texts(self, batch: pa.RecordBatch, name: str, begun: int) -> pa.Array:
        """The column as text, null where missing or empty."""
        column = batch.column(name)
        try:
            if pa.types.is_floating(column.type):
                column = compute.if_else(compute.is_nan(column), None, column)
            text = compute.cast(column, pa.string())
        except pa.ArrowException:
            raise SourceError(
                f"{self.name}: column {name!r} is no text in rows {begun + 1} to {begun + len(batch)}; "
                "name a column of text or numbers"
            ) from None
        return compute.if_else(compute.equal(text, ""), None, text)


def _whole_lines(stream: IO[bytes], size: int) -> Iterator[bytes]:
    """What is left of the stream, in blocks of some `size` bytes that end where a line ends."""
    while block := stream.read(size) + stream.readline():
        yield block


def _owned(block: bytes) -> pa.BufferReader:
    """A copy in Arrow's own memory.

    Arrow's threads may outlive the call that they worked for. One that has to let go of a Python object while the
    interpreter ends brings the process down, and one that reads from a Python file keeps it from ending at all.
    """
    memory = pa.BufferOutputStream()
    memory.write(block)
    return pa.BufferReader(memory.getvalue())


def _spelled(block: bytes, names: Sequence[str]) -> pa.RecordBatch:
    """The named columns of rows of NDJSON, as they are written."""
    rows = [_ROW.decode(line.decode()) for line in block.split(b"\n") if line.strip()]
    return pa.record_batch({name: pa.array([_text(row.get(name)) for row in rows], pa.string()) for name in names})


def _text(value: object) -> str | None:
    """What JSON says, as text; a number is one already."""
    return value if value is None or isinstance(value, str) else row_json.dumps(value)


def _encoded(text: pa.Array, complete: Bools) -> tuple[Texts, Ints]:
    """The distinct texts of the complete rows, and which of them each row has."""
    made = text.filter(pa.array(complete)).dictionary_encode()
    return made.dictionary.to_numpy(zero_copy_only=False), made.indices.to_numpy().astype(np.int64)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
