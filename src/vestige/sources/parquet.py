"""Parquet: read by Arrow, from a file whose end can be reached."""

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
from vestige.sources.block import Batches, Wanted
from vestige.sources.delimited import check_columns
from vestige.sources.inlet import GZIP

ROWS, ROWS_BY = 1 << 16, 1 << 19
SIGNATURE = b"PAR1"
_DAMAGE = (pa.ArrowException, OSError, EOFError, zlib.error)


def read_parquet(stream: IO[bytes], wanted: Wanted) -> Iterator[Batches]:
    """The wanted columns, batch by batch."""
    most = ROWS if wanted.by is None else ROWS_BY
    with _opened(stream) as file:
        check_columns(wanted.names, file.schema_arrow.names, sure=True)
        yield from ((batch, batch) for batch in file.iter_batches(most, columns=wanted.names, use_threads=False))


def read_names(stream: IO[bytes]) -> list[str]:
    """The names of the columns."""
    with _opened(stream) as file:
        return list(file.schema_arrow.names)


@contextmanager
def _opened(stream: IO[bytes]) -> Iterator[parquet.ParquetFile]:
    """The file in these bytes, which may be packed."""
    stream.seek(0)
    packed = stream.read(len(GZIP)) == GZIP
    stream.seek(0)
    raw = GzipFile(fileobj=stream) if packed else stream
    try:  # without a buffer ahead and without threads, the caller reads
        with BufferedReader(cast(Any, raw)) as opened:
            yield parquet.ParquetFile(opened, pre_buffer=False, page_checksum_verification=True)
    except _DAMAGE:  # whose words may quote a record
        raise SourceError("is not a whole Parquet file, but cut off or damaged; copy or make it again") from None
