"""Files and standard input as a source: opened, recognised by format, and read block by block.

Guarantee: the rows are those of Python's own csv and json modules at every block size, or the file is refused; held by
tests/sources/test_file.py and tests/sources/test_delimited.py.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from os import strerror
from pathlib import Path
from typing import IO, get_args

import pyarrow as pa

from vestige.errors import ParameterError, SourceError
from vestige.sources import delimited, ndjson, parquet
from vestige.sources.block import Block
from vestige.sources.boundaries import CsvBoundary, LineBoundary, RecordChunks
from vestige.sources.chunks import Decompressed, open_bytes, read_chunks, strip_bom
from vestige.sources.columns import Batches, Columns, make_block
from vestige.sources.positions import decode_position
from vestige.sources.protocol import History, Resumption, Source
from vestige.sources.resumption import resume_file
from vestige.sources.timestamps import Unit
from vestige.validation import check_bool, check_choice, check_float, show_value

FORMATS = {".csv": "csv", ".ndjson": "ndjson", ".jsonl": "ndjson", ".json": "ndjson", ".parquet": "parquet"}
"""Format of a file by its ending; `.gz` may follow."""

_FORMAT_NAMES = "CSV, NDJSON or Parquet"


@dataclass(frozen=True, slots=True)
class FileSource(Source):
    r"""Rows of a CSV, NDJSON or Parquet file, or of CSV or NDJSON on standard input.

    Attributes:
        path: path of the file, or `-` for standard input.
        columns: columns of the values of a record.
        time: column of time stamps, if any.
        subject: column of subjects, if any.
        by: column of keys, if any.
        time_unit: unit of time stamps that are plain numbers: "s", "ms", "us" or "ns". Default: each number is read in
            the unit in which it lies between 1990 and 2100, and is refused if there is none.
        growing: whether the file may still be written to. A last line without a line break is then left for the next
            time, and a last block without rows is marked as `unfinished`. A closed pipe, gzip and Parquet are complete.
        every: number of seconds after which a pipe yields a block, with the rows that have arrived completely, even if
            there are none. Default: blocks are yielded when they are full.
        identity: encoded identity of the file, a part of each position; see `vestige.sources.identity`.

    Raises:
        ParameterError: a value is not one of those above.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = Path(folder, "visits.csv")
        ...     _ = path.write_text("spent,shop\n1.5,a\n,a\n2.5,b\n")
        ...     (block,) = FileSource(str(path), ["spent"]).blocks()
        >>> block.rows.tolist(), block.numbers.tolist(), block.skipped
        ([[1.5], [2.5]], [1, 3], 1)
    """

    path: str
    columns: Sequence[str]
    time: str | None = None
    subject: str | None = None
    by: str | None = None
    time_unit: Unit | None = None
    growing: bool = False
    every: float | None = None
    identity: bytes = b""

    def __post_init__(self) -> None:
        object.__setattr__(self, "columns", _check_columns(self.columns))
        if self.time_unit is not None:
            check_choice("time_unit", self.time_unit, get_args(Unit))
        if self.every is not None:
            check_float("every", self.every, lambda n: 0.0 < n < math.inf, "a number of seconds above 0, or None")
        check_bool("growing", self.growing)
        _check_bytes("identity", self.identity, "the encoded identity of a file")
        for role, name in (("time", self.time), ("subject", self.subject), ("by", self.by)):
            if name is not None and not isinstance(name, str):
                raise ParameterError(f"{role}={show_value(name)} is not the name of a column; pass a text, or None")

    @property
    def name(self) -> str:
        """The path."""
        return self.path

    @property
    def resumable(self) -> bool:
        """Whether the file can be read more than once; a pipe cannot."""
        path = Path(self.path)
        try:
            return self.path != "-" and not (path.exists() and not path.is_file() and not path.is_dir())
        except OSError:  # such as a name that is too long
            return True

    @property
    def size(self) -> int | None:
        """Number of bytes; None if unknown."""
        return Path(self.path).stat().st_size if Path(self.path).is_file() else None

    def order(self, position: bytes) -> int:
        """Return the number of rows before a position.

        Args:
            position: position in this file.

        Returns:
            The number of rows.

        Raises:
            ParameterError: the position is not bytes.

        Example:
            >>> FileSource("visits.csv", ["spent"]).order(b"")
            0
        """
        _check_bytes("position", position, "the position of a block")
        return decode_position(position)[0]

    def resume(self, history: History) -> Resumption:
        """Find where the file was left, and whether it is still the same file.

        Args:
            history: what a store knows of the streams of this run.

        Returns:
            The position to read from, and what each stream has read.

        Raises:
            SourceError: the file was replaced, or cannot be read.
        """
        return resume_file(self, history)

    def blocks(self, position: bytes = b"") -> Iterator[Block]:
        """Yield the rows that come after a position, block by block.

        Args:
            position: position after the last row that was read; empty to read from the first row.

        Yields:
            The next rows.

        Raises:
            ParameterError: the position is not bytes.
            SourceError: the file cannot be read. The message names file, column and row, never what a row holds.
        """
        after = self.order(position)
        columns = Columns(tuple(self.columns), self.time, self.subject, self.by, self.time_unit)
        try:
            with open_bytes(self.path) as stream:
                yield from self._read_blocks(stream, columns, after)
        except SourceError as problem:
            raise SourceError(f"{self.path}: {problem}") from None
        except OSError as problem:
            reason = strerror(problem.errno) if problem.errno else "an unknown cause"
            raise SourceError(
                f"{self.path}: cannot be read: {reason}; check that it exists and that you may read it"
            ) from None
        except UnicodeError:
            raise SourceError(
                f"{self.path}: contains text that is not UTF-8; convert the file to UTF-8 first"
            ) from None
        except (pa.ArrowException, ValueError, ArithmeticError):  # whose text may quote a record
            raise SourceError(
                f"{self.path}: contains rows that cannot be read; check that it is a {_FORMAT_NAMES} file"
            ) from None

    def _read_blocks(self, stream: IO[bytes], columns: Columns, after: int) -> Iterator[Block]:
        read, every = 0, None if self.resumable else self.every
        for batches, unfinished in self._read_batches(stream, columns, every):
            start, read = read, read + len(batches[0])
            if read > max(after, start) or unfinished or (every is not None and read == start):
                known = min(max(after - start, 0), read - start)
                yield make_block(
                    (batches[0].slice(known), batches[1].slice(known)),
                    columns,
                    start=start + known,
                    identity=self.identity,
                    offset=stream.tell() if stream.seekable() else 0,
                    unfinished=unfinished,
                )
        if read < after:
            raise SourceError(
                f"has {read:,} rows, but {after:,} were read from it before; if it was replaced, give the new file "
                "another name"
            )

    def _read_batches(self, stream: IO[bytes], columns: Columns, every: float | None) -> Iterator[tuple[Batches, bool]]:
        """Yield numbers and texts, whatever the format, and at the end whether a line was left out."""
        decompressed = Decompressed(read_chunks(stream, every))
        chunks = strip_bom(iter(decompressed))
        head = b""
        for head in chunks:
            if head:
                break
            yield columns.empty, False
        chunks = chain([head], chunks)
        kind = self._find_format(head)
        if kind == "parquet":
            if not self.resumable:
                raise SourceError("Parquet cannot be read from a pipe; give a path, or pipe CSV or NDJSON")
            yield from ((batches, False) for batches in parquet.read_parquet(stream, columns))
            return
        growing = self.growing and not decompressed.is_gzip and self.resumable
        if kind == "csv":
            size = delimited.BLOCK if columns.by is None else delimited.BLOCK_BY
            records = RecordChunks(chunks, CsvBoundary(), size, growing=growing)
            read = delimited.read_csv(records, columns)
        else:
            records = RecordChunks(chunks, LineBoundary(), ndjson.BLOCK, growing=growing)
            read = ndjson.read_ndjson(records, columns)
        yield from ((columns.empty if batches is None else batches, False) for batches in read)
        if records.unfinished:
            yield columns.empty, True

    def _find_format(self, head: bytes) -> str:
        """Find the format by the file's ending, or by its first bytes if the ending is unknown."""
        suffix = Path(self.path.removesuffix(".gz")).suffix.lower()
        by_name = FORMATS.get(suffix) if self.path != "-" else None
        by_content = "parquet" if head.startswith(parquet.SIGNATURE) else None
        if head and by_name is not None and "parquet" in (by_name, by_content) and by_name != by_content:
            raise SourceError(f"ends in {suffix}, but its content has another format; give it the ending of its format")
        return by_name or by_content or ("ndjson" if head.lstrip().startswith(b"{") else "csv")


def _check_columns(columns: Sequence[str]) -> tuple[str, ...]:
    """Check that columns are named, each once."""
    names = () if isinstance(columns, str) or not isinstance(columns, Iterable) else tuple(columns)
    if not names or not all(isinstance(name, str) for name in names) or len(set(names)) < len(names):
        raise ParameterError(f"columns={show_value(columns)} does not name columns; pass at least one, and each once")
    return names


def _check_bytes(name: str, value: object, what: str) -> None:
    """Check that a value is bytes."""
    if not isinstance(value, bytes):
        raise ParameterError(f"{name}={show_value(value)} is not bytes; pass {what}, or leave it out")
