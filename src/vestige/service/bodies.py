"""Bodies of requests as blocks of rows: JSON, NDJSON and Arrow, read by the code that reads files.

Guarantee: the rows are those that a file with the same content gives; held by tests/service/test_bodies.py.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from email.message import Message
from typing import NamedTuple

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
from vestige.sources.ndjson import NotNumberError, list_members, parse_array, parse_lines

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


class Body(NamedTuple):
    """The rows of a body.

    Attributes:
        block: the rows.
        absent: columns that no row has, although each may lack them: subjects, and numbers of metrics.
    """

    block: Block
    absent: tuple[str, ...]


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


def find_kind(content_type: str) -> str:
    """Find the kind of a body, however its Content-Type is spelled.

    Args:
        content_type: the header.

    Returns:
        The media type: `JSON`, `NDJSON` or `ARROW`.

    Raises:
        RefusalError: it is another one, or in another encoding than UTF-8.

    Example:
        >>> find_kind('Application/JSON; charset="utf-8"')
        'application/json'
    """
    message = Message()
    message["Content-Type"] = content_type
    kind = message.get_content_type()
    if kind not in _PARSERS:
        raise RefusalError(415, f"the Content-Type is not known; send one of {', '.join(_PARSERS)}")
    if str(message.get_content_charset("utf-8")) not in ("utf-8", "utf8", "us-ascii"):
        raise RefusalError(415, "the charset is not UTF-8; send UTF-8")
    return kind


def read_body(content: bytes, kind: str, columns: Columns) -> Body:
    """Read the rows of a body.

    Args:
        content: the body.
        kind: what `find_kind` returned.
        columns: columns to read.

    Returns:
        The rows.

    Raises:
        RefusalError: the body cannot be read, or lacks a column.
    """
    parse, form = _PARSERS[kind]
    try:
        batches = parse(content, columns)
        if len(batches[0]) > ROWS:
            raise refuse_rows(ROWS)
        block = make_block(batches, columns, start=0, identity=b"", offset=0)
        return Body(block, _find_absent(content, kind, batches, columns))
    except NotNumberError as problem:
        raise RefusalError(422, f"{problem}; send a number, or null where one is missing; nothing was taken") from None
    except SourceError as problem:
        raise RefusalError(422, f"{problem}; nothing was taken") from None
    except _UNREADABLE:  # whose text may quote a row
        names = ", ".join(columns.names)
        raise RefusalError(
            422, f"the rows cannot be read; send {form}, with the columns {names}; nothing was taken"
        ) from None


def _find_absent(content: bytes, kind: str, batches: Batches, columns: Columns) -> tuple[str, ...]:
    """The columns that no row has, which may be misspelt; a refusal if no row counts without them."""
    empty = {name for batch in batches for name in batch.schema.names if batch[name].null_count == len(batch)}
    if kind == ARROW or not empty or not len(batches[0]):
        return ()
    members = list_members(content, is_array=kind == JSON)
    absent = [name for name in columns.names if name in empty and name not in members]
    optional = {columns.subject, *(columns.numbers if columns.keep_missing else ())}
    for name in absent:
        if name not in optional:
            raise RefusalError(
                422,
                f"no row has the column {name!r}; correct its name, or send null where a value is missing; nothing was "
                "taken",
            )
    return tuple(absent)


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
