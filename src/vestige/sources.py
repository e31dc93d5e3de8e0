"""Files of records, read as a stream: CSV, NDJSON and Parquet, also packed with gzip, or standard input.

A row with a missing value in a wanted column takes no round; it is counted. Errors name the file, the column and the
row, never what the row holds.
"""

from __future__ import annotations

import csv as header_csv
import gzip
import io
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, cast

import numpy as np
import pyarrow as pa
from pyarrow import compute, csv, json, parquet

from vestige.errors import SourceError
from vestige.records import Floats

FORMATS = {".csv": "csv", ".ndjson": "ndjson", ".jsonl": "ndjson", ".json": "ndjson", ".parquet": "parquet"}
_HEAD = 1 << 16
_CSV_BLOCK, _NDJSON_BLOCK = 1 << 20, 1 << 24
_GZIP = b"\x1f\x8b"


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """Some rows of a source.

    Attributes:
        rows: the complete ones, in order; shape (n, columns).
        skipped: how many had a missing value.
        position: bytes read so far, 0 where unknown.
    """

    rows: Floats
    skipped: int
    position: int


@dataclass(frozen=True, slots=True)
class Source:
    """Where records come from: a path, or `-` for standard input."""

    name: str

    @property
    def size(self) -> int | None:
        """How many bytes there are to read; None where that is unknown."""
        return Path(self.name).stat().st_size if Path(self.name).is_file() else None

    def blocks(self, columns: Sequence[str]) -> Iterator[Block]:
        """The wanted columns, block by block."""
        with self._opened() as stream:
            read = 0
            for batch in self._batches(stream, columns):
                table = self._numbers(batch, columns, read)
                complete = ~np.isnan(table).any(axis=1)
                infinite = np.isinf(table).any(axis=1)
                if infinite.any():
                    row = read + int(np.argmax(infinite)) + 1
                    raise SourceError(f"{self.name}: row {row} has an infinite value; drop or fill such rows first")
                read += len(table)
                position = stream.tell() if stream.seekable() else 0
                yield Block(np.ascontiguousarray(table[complete]), int((~complete).sum()), position)

    def _opened(self) -> IO[bytes]:
        if self.name == "-":
            return cast(IO[bytes], io.BufferedReader(cast(Any, sys.stdin.buffer), _HEAD))
        path = Path(self.name)
        if not path.exists():
            raise SourceError(f"{self.name}: there is no such file; give a path, or - for standard input")
        if path.is_dir():
            raise SourceError(f"{self.name}: is a folder; give a file")
        return path.open("rb")

    def _batches(self, raw: IO[bytes], columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Record batches with the wanted columns, whatever the format."""
        stream = cast(io.BufferedReader, raw)
        if stream.peek(2)[:2] == _GZIP:
            stream = io.BufferedReader(cast(Any, gzip.GzipFile(fileobj=stream)), _HEAD)
        head = stream.peek(_HEAD)
        if not head.strip(b"\xef\xbb\xbf \t\r\n"):
            raise SourceError(f"{self.name}: is empty; expected a header and rows")
        readers = {"csv": self._csv, "ndjson": self._ndjson, "parquet": self._parquet}
        try:
            yield from readers[self._format(head)](stream, head, columns)
        except pa.ArrowInvalid as problem:  # its text may quote the row
            what = "a value that is not a number" if "onversion" in str(problem) else "rows that cannot be parsed"
            raise SourceError(
                f"{self.name}: holds {what} in or near column {', '.join(columns)}; "
                "name a numeric column, and write missing values as empty fields or NA"
            ) from None

    def _format(self, head: bytes) -> str:
        """By the file's ending; by its first bytes where that says nothing."""
        suffix = Path(self.name.removesuffix(".gz")).suffix.lower()
        if self.name != "-" and suffix in FORMATS:
            return FORMATS[suffix]
        if head.startswith(b"PAR1"):
            return "parquet"
        return "ndjson" if head.lstrip().startswith(b"{") else "csv"

    def _csv(self, stream: IO[bytes], head: bytes, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        first_line = head.decode("utf-8-sig", errors="replace").splitlines()[0]
        there = next(header_csv.reader([first_line]), [])
        self._check(columns, there)
        yield from csv.open_csv(
            stream,
            csv.ReadOptions(block_size=_CSV_BLOCK),
            csv.ParseOptions(ignore_empty_lines=len(there) > 1),  # with one column, an empty line is a missing value
            csv.ConvertOptions(include_columns=list(columns), column_types=dict.fromkeys(columns, pa.float64())),
        )

    def _ndjson(self, stream: IO[bytes], head: bytes, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:  # noqa: ARG002
        schema = pa.schema([(name, pa.float64()) for name in columns])
        parse = json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore")
        yield from json.open_json(stream, json.ReadOptions(block_size=_NDJSON_BLOCK), parse)

    def _parquet(self, stream: IO[bytes], head: bytes, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:  # noqa: ARG002
        if self.name == "-" or not stream.seekable():
            raise SourceError(f"{self.name}: Parquet cannot be read from a pipe; give a path, or pipe CSV or NDJSON")
        file = parquet.ParquetFile(stream)
        self._check(columns, file.schema_arrow.names)
        yield from file.iter_batches(columns=list(columns))

    def _check(self, columns: Sequence[str], there: Sequence[str]) -> None:
        """Whether each column is there once; names that look like values are not repeated."""
        for name in columns:
            if there.count(name) > 1:
                raise SourceError(f"{self.name}: has column {name!r} more than once; rename one of them")
            if name not in there:
                shown = all(known.isprintable() and not _is_number(known) for known in there) and any(there)
                known = f"it has {', '.join(there)}" if shown else "its first line is no header"
                raise SourceError(f"{self.name}: has no column {name!r}; {known}")

    def _numbers(self, batch: pa.RecordBatch, columns: Sequence[str], read: int) -> Floats:
        """The columns as floats, nan where missing; shape (n, columns)."""
        made = []
        for name in columns:
            column = batch.column(name)
            kind = column.type
            if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)):
                raise SourceError(
                    f"{self.name}: column {name!r} is not numeric in rows {read + 1} to {read + len(batch)}; "
                    "name a numeric column"
                )
            made.append(compute.cast(column, pa.float64(), safe=False).to_numpy(zero_copy_only=False))
        return np.column_stack(made).astype(np.float64)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
