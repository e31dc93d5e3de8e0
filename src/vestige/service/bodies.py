"""Bodies of requests as blocks of rows: JSON, NDJSON and Arrow, read by the code that reads files.

Guarantee: the rows are those that a file with the same content gives; held by tests/service/test_bodies.py.
"""

from __future__ import annotations

import struct
from collections.abc import Callable

import pyarrow as pa

from vestige.errors import SourceError
from vestige.ingest.definition import Definition
from vestige.policies import NamedPolicy
from vestige.policies.metrics import METRICS
from vestige.policy import Policy
from vestige.service.arrow import read_stream, refuse_rows
from vestige.service.problems import RefusalError
from vestige.sources.block import Block
from vestige.sources.columns import Batches, Columns, make_block
from vestige.sources.ndjson import parse_array, parse_lines

ARROW = "application/vnd.apache.arrow.stream"
JSON = "application/json"
NDJSON = "application/x-ndjson"
_UNREADABLE = (
    pa.ArrowException,
    ValueError,
    ArithmeticError,
    RecursionError,
    TypeError,
    LookupError,
    OSError,
    MemoryError,
    struct.error,
)
ROWS = 100_000
"""Largest number of rows in one body."""


def find_columns(definition: Definition, policy: Policy) -> Columns:
    """Find the columns that the streams of a definition read.

    Args:
        definition: the definition.
        policy: its policy.

    Returns:
        The columns.
    """
    named = policy.unwrap()
    found = named.name_categories(definition.numbers) if isinstance(named, NamedPolicy) else {}
    return Columns(
        definition.numbers,
        definition.time_column,
        definition.subject,
        definition.by,
        definition.time_unit,
        definition.kind == METRICS,
        {name: tuple(names) for name, names in found.items()},
    )


def read_body(content: bytes, kind: str, columns: Columns) -> Block:
    """Read the rows of a body.

    Args:
        content: the body.
        kind: its media type.
        columns: columns to read.

    Returns:
        The rows.

    Raises:
        RefusalError: the body has another type, or cannot be read.
    """
    known = _PARSERS.get(kind.partition(";")[0].strip().lower())
    if known is None:
        raise RefusalError(415, f"the Content-Type is not known; send one of {', '.join(_PARSERS)}")
    parse, form = known
    try:
        batches = parse(content, columns)
        if len(batches[0]) > ROWS:
            raise refuse_rows(ROWS)
        return make_block(batches, columns, start=0, identity=b"", offset=0)
    except SourceError as problem:
        raise RefusalError(422, f"{problem}; nothing was taken") from None
    except _UNREADABLE:  # whose text may quote a row
        names = ", ".join(columns.names)
        raise RefusalError(
            422, f"the rows cannot be read; send {form}, with the columns {names}; nothing was taken"
        ) from None


def _parse_lines(content: bytes, columns: Columns) -> Batches:
    return parse_lines(content, columns) if content.strip() else columns.empty


def _parse_arrow(content: bytes, columns: Columns) -> Batches:
    made = read_stream(content, columns.names, ROWS)
    numbers = pa.record_batch({name: made[name] for name in columns.floats}) if columns.floats else None
    texts = pa.record_batch({name: made[name] for name in columns.texts}) if columns.texts else None
    return (texts if numbers is None else numbers), (numbers if texts is None else texts)


_PARSERS: dict[str, tuple[Callable[[bytes, Columns], Batches], str]] = {
    JSON: (parse_array, "an array of objects"),
    NDJSON: (_parse_lines, "one object per line"),
    ARROW: (_parse_arrow, "an Arrow stream"),
}
"""What parses a body of a media type, and what it expects."""
