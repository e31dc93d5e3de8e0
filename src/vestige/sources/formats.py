"""Formats of files: found by the file's ending or by its first bytes, and read block by block.

Guarantee: the rows are those of Python's own csv and json modules at every block size, or the file is refused; held by
tests/sources/test_file.py and tests/sources/test_delimited.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain
from os import strerror
from pathlib import Path
from typing import IO, TYPE_CHECKING

import pyarrow as pa

from vestige.errors import SourceError
from vestige.sources import delimited, ndjson, parquet
from vestige.sources.block import Block
from vestige.sources.boundaries import CsvBoundary, LineBoundary, RecordChunks
from vestige.sources.chunks import PARQUET, Decompressed, decode_chunks, open_bytes, read_chunks
from vestige.sources.columns import Batches, Columns, make_block
from vestige.sources.dialect import NOT_UTF8

if TYPE_CHECKING:
    from vestige.sources.file import FileSource

FORMATS = {".csv": "csv", ".ndjson": "ndjson", ".jsonl": "ndjson", ".json": "ndjson", ".parquet": "parquet"}
"""Format of a file by its ending; `.gz` may follow."""

_FORMAT_NAMES = "CSV, NDJSON or Parquet"


def read_blocks(source: FileSource, after: int) -> Iterator[Block]:
    """Yield the rows that come after those that were read before, block by block.

    Args:
        source: the file.
        after: number of rows that were read before.

    Yields:
        The next rows.

    Raises:
        SourceError: the file cannot be read. The message names file, column and row, never what a row holds.
    """
    columns = Columns(
        tuple(source.columns),
        source.time,
        source.subject,
        (source.by,) if isinstance(source.by, str) else source.by or (),
        source.time_unit,
        source.keep_missing,
        {name: tuple(names) for name, names in source.categories.items()},
    )
    with translate_errors(source.path), open_bytes(source.path) as stream:
        yield from _read_rows(source, stream, columns, after)


@contextmanager
def translate_errors(path: str) -> Iterator[None]:
    """Name the file in errors, and never what a row holds.

    Args:
        path: path of the file.

    Yields:
        Nothing; the file is read inside.

    Raises:
        SourceError: the file cannot be read.
    """
    try:
        yield
    except SourceError as problem:
        raise SourceError(f"{path}: {problem}") from None
    except OSError as problem:
        reason = strerror(problem.errno) if problem.errno else "an unknown cause"
        raise SourceError(f"{path}: cannot be read: {reason}; check that it exists and that you may read it") from None
    except UnicodeError:
        raise SourceError(f"{path}: contains text that is not UTF-8; {NOT_UTF8}") from None
    except (pa.ArrowException, ValueError, ArithmeticError):  # whose text may quote a record
        raise SourceError(
            f"{path}: contains rows that cannot be read; check that it is a {_FORMAT_NAMES} file"
        ) from None


def _read_rows(source: FileSource, stream: IO[bytes], columns: Columns, after: int) -> Iterator[Block]:
    read, every = 0, None if source.resumable else source.every
    for batches, unfinished in read_batches(source, stream, columns, every):
        start, read = read, read + len(batches[0])
        if read > max(after, start) or unfinished or (every is not None and read == start):
            known = min(max(after - start, 0), read - start)
            yield make_block(
                (batches[0].slice(known), batches[1].slice(known)),
                columns,
                start=start + known,
                identity=source.identity,
                offset=stream.tell() if stream.seekable() else 0,
                unfinished=unfinished,
            )
    if read < after:
        raise SourceError(
            f"has {read:,} rows, but {after:,} were read from it before; if it was replaced, give the new file "
            "another name"
        )


def read_batches(
    source: FileSource, stream: IO[bytes], columns: Columns, every: float | None
) -> Iterator[tuple[Batches, bool]]:
    """Read columns, whatever the format.

    Args:
        source: the file.
        stream: its bytes.
        columns: columns to read.
        every: number of seconds after which a pipe yields what has arrived; None for when it is full.

    Yields:
        Numbers and texts of the next rows, and at the end whether a line was left out.

    Raises:
        SourceError: the file cannot be read.
    """
    decompressed = Decompressed(read_chunks(stream, every))
    chunks = decode_chunks(iter(decompressed), source.dialect, growing=source.growing and source.resumable)
    head = b""
    for head in chunks:
        if head:
            break
        yield columns.empty, False
    chunks = chain([head], chunks)
    kind = find_format(source.path, head)
    if kind == "parquet":
        if not source.resumable:
            raise SourceError("Parquet cannot be read from a pipe; give a path, or pipe CSV or NDJSON")
        yield from ((batches, False) for batches in parquet.read_parquet(stream, columns))
        return
    growing = source.growing and not decompressed.is_gzip and source.resumable
    if kind == "csv":
        size = delimited.BLOCK if not columns.by else delimited.BLOCK_BY
        records = RecordChunks(chunks, CsvBoundary(source.dialect.separator), size, growing=growing)
        read = delimited.read_csv(records, columns, source.dialect)
    else:
        records = RecordChunks(chunks, LineBoundary(), ndjson.BLOCK, growing=growing)
        read = ndjson.read_ndjson(records, columns)
    yield from ((columns.empty if batches is None else batches, False) for batches in read)
    if records.unfinished:
        yield columns.empty, True


def find_format(path: str, head: bytes) -> str:
    """Find the format by the file's ending, or by its first bytes if the ending is unknown.

    Args:
        path: path of the file, or - for standard input.
        head: its first bytes.

    Returns:
        "csv", "ndjson" or "parquet".

    Raises:
        SourceError: the ending is that of another format.

    Example:
        >>> find_format("visits.csv.gz", b"spent"), find_format("-", b"{}")
        ('csv', 'ndjson')
    """
    suffix = Path(path.removesuffix(".gz")).suffix.lower()
    by_name = FORMATS.get(suffix) if path != "-" else None
    by_content = "parquet" if head.startswith(PARQUET) else None
    if head and by_name is not None and "parquet" in (by_name, by_content) and by_name != by_content:
        raise SourceError(f"ends in {suffix}, but its content has another format; give it the ending of its format")
    return by_name or by_content or ("ndjson" if head.lstrip().startswith(b"{") else "csv")
