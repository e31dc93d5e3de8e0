"""Rows as the bodies of requests: mappings become arrays of JSON, tables become Arrow streams.

Guarantee: the service reads the same rows from both, and an error has no value of a row; held by
tests/client/test_client.py.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

from vestige.errors import MissingExtraError, ParameterError

ARROW = "application/vnd.apache.arrow.stream"
JSON = "application/json"


def make_bodies(rows: Any, size: int) -> Iterator[tuple[bytes, str]]:
    """Make the bodies that rows are sent in.

    Args:
        rows: mappings from columns to values; or a table or a record batch of pyarrow, or what else has the interface
            of Arrow, such as a data frame of polars.
        size: largest number of rows of a body.

    Yields:
        Each body with its media type; none for no rows.

    Raises:
        ParameterError: the rows are neither, the size is below 1, or a value has no form in JSON.

    Example:
        >>> list(make_bodies([{"spent": 1}, {"spent": 2}, {"spent": 3}], 2))
        [(b'[{"spent":1},{"spent":2}]', 'application/json'), (b'[{"spent":3}]', 'application/json')]
    """
    if isinstance(size, bool) or not isinstance(size, int) or size < 1:
        raise ParameterError(f"size={size!r:.40} is not a number of rows; use 1 or more")
    if hasattr(rows, "__arrow_c_stream__") or hasattr(rows, "__arrow_c_array__"):
        yield from _pack_batches(rows, size)
        return
    if isinstance(rows, (str, bytes, Mapping)) or not isinstance(rows, Iterable):
        raise ParameterError(f"rows={type(rows).__name__} are not rows; give mappings, or an Arrow table")
    remaining = iter(rows)
    while objects := [_write_row(row) for row in islice(remaining, size)]:
        yield f"[{','.join(objects)}]".encode(), JSON  # which the service parses faster than lines


def _write_row(row: object) -> str:
    if not isinstance(row, Mapping):
        raise ParameterError(f"a row is a {type(row).__name__}; give mappings from columns to values")
    try:
        return json.dumps(row, allow_nan=False, separators=(",", ":"), default=_write_value)
    except (TypeError, ValueError, AttributeError):  # whose text may quote the value
        raise ParameterError(
            "a row has a value that JSON has no form for; use finite numbers, texts, dates, and None if it is missing"
        ) from None


def _write_value(value: Any) -> object:
    """A date or a time as text, a scalar of numpy as a number."""
    if isinstance(value, Mapping):
        return dict(value)
    return value.isoformat() if hasattr(value, "isoformat") else value.item()


def _pack_batches(rows: Any, size: int) -> Iterator[tuple[bytes, str]]:
    try:
        import pyarrow as pa  # noqa: PLC0415  # only tables need it
    except ModuleNotFoundError:
        raise MissingExtraError("a table as the rows of a client", "cli") from None
    is_stream = hasattr(rows, "__arrow_c_stream__")
    for batch in pa.RecordBatchReader.from_stream(rows) if is_stream else [pa.record_batch(rows)]:
        for start in range(0, batch.num_rows, size):
            out = pa.BufferOutputStream()
            with pa.ipc.new_stream(out, batch.schema) as writer:
                writer.write_batch(batch.slice(start, size))
            yield out.getvalue().to_pybytes(), ARROW
