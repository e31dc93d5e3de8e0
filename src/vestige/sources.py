"""Files of records, read as a stream: CSV, NDJSON and Parquet, or standard input.

A row with a missing value in a wanted column takes no round; it is counted. Errors name the file, the column and the
row, never what the row holds.
"""

from __future__ import annotations

import csv as header_csv
import io
import sys
from collections.abc import Callable, Iterator, Sequence
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
_BLOCK = 1 << 20


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
        return None if self.name == "-" else Path(self.name).stat().st_size

    def blocks(self, columns: Sequence[str]) -> Iterator[Block]:
        """The wanted columns, block by block."""
        with self._opened() as stream:
            read = 0
            for batch in self._batches(stream, columns):
                table = self._numbers(batch, columns, read)
                complete = ~np.isnan(table).any(axis=1)
                if not np.isfinite(table[complete]).all():
                    row = read + int(np.argwhere(complete & ~np.isfinite(table).all(axis=1))[0, 0]) + 1
                    raise SourceError(f"{self.name}: row {row} has an infinite value; drop or fill such rows first")
                read += len(table)
                position = 0 if self.name == "-" else stream.tell()
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

    def _batches(self, stream: IO[bytes], columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Record batches with the wanted columns, whatever the format."""
        head = cast(io.BufferedReader, stream).peek(_HEAD)
        if not head:
            raise SourceError(f"{self.name}: is empty; expected a header and rows")
        reader: Callable[[IO[bytes], bytes, Sequence[str]], Iterator[pa.RecordBatch]] = {
            "csv": self._csv,
            "ndjson": self._ndjson,
            "parquet": self._parquet,
        }[self._format(head)]
        try:
            yield from reader(stream, head, columns)
        except pa.ArrowKeyError as problem:
            raise SourceError(f"{self.name}: {problem}") from None
        except pa.ArrowInvalid as problem:  # its text may quote the row
            what = "a value that is not a number" if "onversion" in str(problem) else "rows that cannot be parsed"
            raise SourceError(
                f"{self.name}: holds {what} in or near column {', '.join(columns)}; "
                "name a numeric column, and write missing values as empty fields or NA"
            ) from None

    def _format(self, head: bytes) -> str:
        """By the file's ending; by its first bytes where that says nothing."""
        known = FORMATS.get(Path(self.name).suffix.lower()) if self.name != "-" else None
        if known:
            return known
        if head.startswith(b"PAR1"):
            return "parquet"
        return "ndjson" if head.lstrip().startswith(b"{") else "csv"

    def _csv(self, stream: IO[bytes], head: bytes, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        first_line = head.decode("utf-8-sig", errors="replace").splitlines()[0]
        self._check(columns, next(header_csv.reader([first_line])))
        convert = csv.ConvertOptions(
            include_columns=list(dict.fromkeys(columns)), column_types=dict.fromkeys(columns, pa.float64())
        )
        yield from csv.open_csv(stream, csv.ReadOptions(block_size=_BLOCK), convert_options=convert)

    def _ndjson(self, stream: IO[bytes], head: bytes, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:  # noqa: ARG002
        for batch in json.open_json(stream, json.ReadOptions(block_size=_BLOCK)):
            self._check(columns, batch.schema.names)
            yield batch

    def _parquet(self, stream: IO[bytes], head: bytes, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:  # noqa: ARG002
        if self.name == "-":
            raise SourceError("-: Parquet cannot be read from a pipe; give the file's path, or pipe CSV or NDJSON")
        file = parquet.ParquetFile(stream)
        self._check(columns, file.schema_arrow.names)
        yield from file.iter_batches(columns=list(dict.fromkeys(columns)))

    def _check(self, columns: Sequence[str], there: Sequence[str]) -> None:
        missing = [name for name in columns if name not in there]
        if missing:
            raise SourceError(f"{self.name}: has no column {missing[0]!r}; it has {', '.join(there)}")

    def _numbers(self, batch: pa.RecordBatch, columns: Sequence[str], read: int) -> Floats:
        """The columns as floats, nan where missing; shape (n, columns)."""
        made = []
        for name in columns:
            try:
                numbers = compute.cast(batch.column(name), pa.float64())
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
                raise SourceError(
                    f"{self.name}: column {name!r} is not numeric in rows {read + 1} to {read + len(batch)}; "
                    "name a numeric column"
                ) from None
            made.append(numbers.to_numpy(zero_copy_only=False))
        return np.column_stack(made).astype(np.float64)
