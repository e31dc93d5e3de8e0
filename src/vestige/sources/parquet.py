"""Parquet: read by Arrow, from a file whose end can be reached."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
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
    stream.seek(0)
    packed = stream.read(len(GZIP)) == GZIP
    stream.seek(0)
    raw = GzipFile(fileobj=stream) if packed else stream
    most = ROWS if wanted.by is None else ROWS_BY
    try:  # without a buffer ahead and without threads, the caller reads
        with BufferedReader(cast(Any, raw)) as opened:
            file = parquet.ParquetFile(opened, pre_buffer=False, page_checksum_verification=True)
            check_columns(wanted.names, file.schema_arrow.names, sure=True)
            yield from ((batch, batch) for batch in file.iter_batches(most, columns=wanted.names, use_threads=False))
    except _DAMAGE:  # whose words may quote a record
        raise SourceError("is not a whole Parquet file, but cut off or damaged; copy or make it again") from None
