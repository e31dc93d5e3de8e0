"""Arrow streams of a request, which cannot grow: sizes are checked before anything is decompressed or decoded.

The metadata of a message is a FlatBuffer (format/Message.fbs of Apache Arrow), which says how many rows a batch has
and where its buffers are; a compressed buffer begins with its length. A dictionary may be short and its decoded column
long.
Guarantee: a body takes no more memory than a small multiple of the limit; held by tests/service/test_bodies.py.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
from pyarrow import compute

from vestige.errors import SourceError
from vestige.service.problems import RefusalError

DECODED = 64 << 20
"""Bytes that a body may have once it is decompressed and decoded."""
_DICTIONARY, _BATCH = 2, 3
"""Kinds of messages with data."""


def read_stream(content: bytes, names: Sequence[str], rows: int) -> dict[str, pa.Array]:
    """Read columns of an Arrow IPC stream.

    Args:
        content: the stream.
        names: the columns.
        rows: largest number of rows.

    Returns:
        The columns, without dictionaries.

    Raises:
        RefusalError: it has too many rows, or takes too much memory.
        SourceError: a column is not there, or is there twice.
        pyarrow.ArrowException: it is not an Arrow stream; its text may quote a row, so do not show it.
        ValueError: the same.
    """
    _check_sizes(content, rows)
    with pa.ipc.open_stream(content) as reader:
        schema = reader.schema
        missing = [name for name in names if schema.names.count(name) != 1]
        if missing:
            raise SourceError(f"column {missing[0]!r} is not there, or is there twice; send each column once")
    used = sorted(schema.get_field_index(name) for name in names)
    with pa.ipc.open_stream(content, options=pa.ipc.IpcReadOptions(included_fields=used)) as reader:
        table = reader.read_all()
    table.validate(full=True)
    return {name: _decode(table.column(name)) for name in names}


def _check_sizes(content: bytes, rows: int) -> None:
    """Check the number of rows and bytes that the messages of a stream announce."""
    found = total = 0
    for kind, length, size in _list_batches(content):
        found += length if kind == _BATCH else 0
        total += size
        if found > rows or length > max(rows, len(content)):
            raise refuse_rows(rows)
        _check_total(total)


def refuse_rows(rows: int) -> RefusalError:
    """Refuse a body with too many rows.

    Args:
        rows: the largest number.

    Returns:
        The refusal.
    """
    return RefusalError(413, f"the body has more than {rows:,} rows; send fewer at a time; nothing was taken")


def _check_total(size: int) -> None:
    if size > DECODED:
        raise RefusalError(
            413, f"the body takes more than {DECODED:,} bytes once it is decoded; send fewer rows; nothing was taken"
        )


def _list_batches(content: bytes) -> Iterator[tuple[int, int, int]]:
    """The kind, the number of rows and the decompressed bytes of each message with data."""
    for message in pa.ipc.MessageReader.open_stream(content):
        metadata, body = memoryview(message.metadata), message.body
        head = _find_table(metadata, 0)
        (kind,) = struct.unpack_from("<B", metadata, _find_field(metadata, head, 1) or len(metadata))
        if kind not in (_DICTIONARY, _BATCH):
            continue
        batch = _find_table(metadata, _find_field(metadata, head, 2))
        if kind == _DICTIONARY:
            batch = _find_table(metadata, _find_field(metadata, batch, 1))
        at = _find_field(metadata, batch, 0)
        (length,) = struct.unpack_from("<q", metadata, at) if at else (0,)
        is_packed = bool(_find_field(metadata, batch, 3))
        size = 0 if body is None else body.size
        yield kind, length, sum(_list_lengths(metadata, batch, memoryview(body))) if is_packed else size


def _list_lengths(metadata: memoryview, batch: int, body: memoryview) -> Iterator[int]:
    """The decompressed lengths of the buffers of a batch."""
    at = _find_field(metadata, batch, 2)
    if not at:
        return
    at += struct.unpack_from("<I", metadata, at)[0]
    (count,) = struct.unpack_from("<I", metadata, at)
    for number in range(count):
        start, length = struct.unpack_from("<qq", metadata, at + 4 + 16 * number)
        if length > 0:
            (unpacked,) = struct.unpack_from("<q", body, start)
            yield length if unpacked < 0 else unpacked


def _find_table(data: memoryview, at: int) -> int:
    """Where the table is that an offset points to."""
    return at + int(struct.unpack_from("<I", data, at)[0])


def _find_field(data: memoryview, table: int, field: int) -> int:
    """Where a field of a table is; 0 if it is not there."""
    fields = table - struct.unpack_from("<i", data, table)[0]
    place = 4 + 2 * field
    if fields < 0 or place >= struct.unpack_from("<H", data, fields)[0]:
        return 0
    offset = int(struct.unpack_from("<H", data, fields + place)[0])
    return table + offset if offset else 0


def _decode(column: pa.ChunkedArray) -> pa.Array:
    """A column in one piece, without dictionaries, runs or views, which may be much longer than what was sent."""
    kind = column.type
    if pa.types.is_nested(kind) or pa.types.is_run_end_encoded(kind) or isinstance(kind, pa.BaseExtensionType):
        raise ValueError("a column is not of numbers, texts or times")
    parts = [_decode_part(part) for part in column.chunks]
    _check_total(sum(part.nbytes for part in parts))
    return pa.concat_arrays(parts or [_decode_part(pa.array([], kind))])


def _decode_part(part: pa.Array) -> pa.Array:
    if pa.types.is_string_view(part.type) or pa.types.is_binary_view(part.type):
        views = np.frombuffer(part.buffers()[1], "<i4").reshape(-1, 4)[part.offset : part.offset + len(part)]
        _check_total(int(views[:, 0].sum(dtype=np.int64)))  # a view begins with the length of its text
        return part.cast(pa.large_string())
    if not pa.types.is_dictionary(part.type):
        return part
    value = part.type.value_type
    if pa.types.is_string(value) or pa.types.is_large_string(value):
        lengths = compute.cast(compute.binary_length(part.dictionary), pa.int64())
        _check_total(int(compute.sum(lengths.take(part.indices)).as_py() or 0))
    elif not pa.types.is_primitive(value):
        raise ValueError("a dictionary is not of numbers, texts or times")
    return part.dictionary_decode()
