"""NDJSON: one object a line. Arrow reads the numbers, Python the texts, as they are written.

Arrow takes no column that holds text here and a number there, so that labels are read by Python's own json module.
"""

from __future__ import annotations

import json as reference
from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyarrow import json

from vestige.errors import SourceError
from vestige.sources.block import Batches, Wanted, own_bytes
from vestige.sources.borders import Records

BLOCK = 1 << 24
_PART = 1 << 22  # bytes of a block that the cores parse side by side
_DECODER = reference.JSONDecoder(parse_int=str, parse_float=str)  # a number as it is written


def read_ndjson(records: Records, wanted: Wanted) -> Iterator[Batches | None]:
    """The wanted columns of each block of whole lines; None for a block without rows."""
    begun = False
    for block in records:
        if not block.strip():
            yield None
            continue
        begun = True
        try:
            yield _parse(block, wanted)
        except UnicodeError:
            raise SourceError("holds text that is not UTF-8; convert the file to UTF-8 first") from None
        except (pa.ArrowInvalid, ValueError, RecursionError):  # whose words quote the row
            raise SourceError(
                f"holds rows that cannot be parsed in or near column {', '.join(wanted.numbers)}; "
                "write one JSON object a line, with numbers in numeric columns"
            ) from None
    if not begun and not records.unfinished:
        raise SourceError("is empty; expected a JSON object a line")


def _parse(block: bytes, wanted: Wanted) -> Batches:
    schema = pa.schema([(name, pa.float64()) for name in wanted.numbers])
    parse = json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore")
    try:
        table = json.read_json(own_bytes(block), json.ReadOptions(block_size=_PART), parse)
    except pa.ArrowInvalid:  # a row may be longer than a part
        table = json.read_json(own_bytes(block), json.ReadOptions(block_size=len(block) + 1, use_threads=False), parse)
    numbers = table.combine_chunks().to_batches()[0]
    texts = _spell(block, wanted.texts) if wanted.texts else numbers
    if len(texts) != len(numbers):
        raise ValueError("several objects in a line")
    return numbers, texts


def _spell(block: bytes, names: Sequence[str]) -> pa.RecordBatch:
    """The named columns of rows, as they are written."""
    rows = [_DECODER.decode(line.decode()) for line in block.split(b"\n") if line.strip()]
    return pa.record_batch({name: pa.array([_text(row.get(name)) for row in rows], pa.string()) for name in names})


def _text(value: object) -> str | None:
    """What JSON says, as text; a number is one already."""
    return value if value is None or isinstance(value, str) else reference.dumps(value)
