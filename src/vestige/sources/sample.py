"""The first rows of a file with all its columns, as text, whatever its format.

Guarantee: the texts are those that a source reads as keys and categories; held by tests/sources/test_profile.py.
"""

from __future__ import annotations

import json
from itertools import chain
from typing import IO

import pyarrow as pa
from pyarrow import compute, types

from vestige.errors import SourceError
from vestige.sources import delimited, ndjson
from vestige.sources.boundaries import CsvBoundary, LineBoundary, RecordChunks
from vestige.sources.chunks import Decompressed, decode_chunks, open_bytes, read_chunks
from vestige.sources.columns import Columns
from vestige.sources.dialect import USUAL, Dialect
from vestige.sources.file import FileSource
from vestige.sources.formats import find_format, read_batches, translate_errors
from vestige.sources.parquet import read_names


def read_sample(path: str, rows: int, dialect: Dialect = USUAL) -> tuple[pa.Table, bool]:
    r"""Read the first rows of a file.

    Args:
        path: path of a CSV, NDJSON or Parquet file.
        rows: number of rows to read at most.
        dialect: dialect of CSV.

    Returns:
        The rows with their columns as text, without columns that have the same name or hold lists and the like; and
        whether these are all rows.

    Raises:
        SourceError: the file cannot be read.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     file = Path(folder, "visits.csv")
        ...     _ = file.write_text("spent,shop\n1.50,a\n2,b\n")
        ...     table, whole = read_sample(str(file), 1)
        >>> table.to_pylist(), whole
        ([{'spent': '1.50', 'shop': 'a'}], False)
    """
    with translate_errors(path):
        with open_bytes(path) as stream:
            names = _list_names(path, stream, dialect)
        columns = Columns((), None, None, (), None, keep_missing=True, categories=dict.fromkeys(names, ()))
        batches: list[pa.RecordBatch] = []
        with open_bytes(path) as stream:
            for (_, batch), _ in read_batches(FileSource(path, names, dialect=dialect), stream, columns, None):
                batches.append(_to_texts(batch))
                if sum(map(len, batches)) > rows:
                    break
    table = pa.Table.from_batches(batches, None if batches else pa.schema({name: pa.string() for name in names}))
    return table.slice(0, rows), len(table) <= rows


def _list_names(path: str, stream: IO[bytes], dialect: Dialect) -> list[str]:
    """List the columns that can be told apart by their names."""
    chunks = decode_chunks(iter(Decompressed(read_chunks(stream, None))), dialect, growing=False)
    head = next(filter(None, chunks), b"")
    kind = find_format(path, head)
    chunks = chain([head], chunks)
    if kind == "parquet":
        names = read_names(stream)
    elif kind == "csv":
        first = next(
            filter(None, RecordChunks(chunks, CsvBoundary(dialect.separator), delimited.BLOCK, growing=False)), b""
        )
        names = delimited.read_header(first, dialect)[0]
    else:
        first = next(filter(None, RecordChunks(chunks, LineBoundary(), ndjson.BLOCK, growing=False)), b"")
        rows = [json.loads(line) for line in first.splitlines() if line.strip()]
        names = list(dict.fromkeys(name for row in rows if isinstance(row, dict) for name in row))
    usable = [name for name in names if name and names.count(name) == 1]
    if not usable:
        raise SourceError("has no columns that can be told apart by their names; give a file with a header and rows")
    return usable


def _to_texts(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Convert columns to text, and drop those that hold lists and the like."""
    texts = {}
    for name in batch.schema.names:
        column = batch.column(name)
        if types.is_dictionary(column.type):
            column = column.dictionary_decode()
        if not types.is_nested(column.type):
            texts[name] = compute.cast(column, pa.string())
    return pa.record_batch(texts)
