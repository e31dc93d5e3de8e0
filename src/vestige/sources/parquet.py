"""Parquet, read by Arrow from a file whose end can be reached.

Guarantee: a truncated or damaged file is an error, never a shorter one; held by tests/sources/test_file.py.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from gzip import GzipFile
from io import BufferedReader
from typing import IO, Any, cast

import pyarrow as pa
from pyarrow import parquet

from vestige.errors import SourceError
from vestige.sources.chunks import GZIP
from vestige.sources.columns import Batches, Columns
from vestige.sources.delimited import check_columns

ROWS, ROWS_BY = 1 << 16, 1 << 19
_DAMAGE = (pa.ArrowException, OSError, EOFError, zlib.error)


def read_parquet(stream: IO[bytes], columns: Columns) -> Iterator[Batches]:
    """Read columns batch by batch.

    Args:
        stream: file that can be searched.
        columns: columns to read.

    Yields:
        The columns of the next rows.

    Raises:
        SourceError: the file is damaged, or a column is missing.
    """
    size = ROWS if not columns.by else ROWS_BY
    with _open_parquet(stream) as file:
        check_columns(columns.names, file.schema_arrow.names, is_header=True)
        yield from ((batch, batch) for batch in file.iter_batches(size, columns=columns.names, use_threads=False))


def read_names(stream: IO[bytes]) -> list[str]:
    """Read the names of the columns.

    Args:
        stream: file that can be searched.

    Returns:
        The names, in order.

    Raises:
        SourceError: the file is damaged.
    """
    with _open_parquet(stream) as file:
        return list(file.schema_arrow.names)


@contextmanager
def _open_parquet(stream: IO[bytes]) -> Iterator[parquet.ParquetFile]:
    """Open a file that may be compressed."""
    stream.seek(0)
    compressed = stream.read(len(GZIP)) == GZIP
    stream.seek(0)
    raw = GzipFile(fileobj=stream) if compressed else stream
    try:  # without a buffer ahead and without threads, the caller reads
        with BufferedReader(cast(Any, raw)) as opened:
            yield parquet.ParquetFile(opened, pre_buffer=False, page_checksum_verification=True)
    except _DAMAGE:  # whose text may quote a record
        raise SourceError("is not a complete Parquet file, but truncated or damaged; copy or create it again") from None
