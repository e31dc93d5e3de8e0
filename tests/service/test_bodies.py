"""Bodies of requests: the rows that they have, and those that would grow too large."""

from __future__ import annotations

import json
import random
from io import BytesIO
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from vestige.service import arrow, bodies
from vestige.service.bodies import ARROW, JSON, NDJSON, find_kind, read_body
from vestige.service.problems import RefusalError
from vestige.sources.columns import Columns

COLUMNS = Columns(("spent",), None, None, ("country",), None)
ROWS = [{"spent": float(i), "country": "DE" if i % 3 else "FR", "other": "x" * i} for i in range(20)]


def pack(table: pa.Table, **options: Any) -> bytes:
    out = BytesIO()
    with pa.ipc.new_stream(out, table.schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
        writer.write_table(table, max_chunksize=7)
    return out.getvalue()


def refuse(content: bytes, kind: str = ARROW, columns: Columns = COLUMNS) -> RefusalError:
    with pytest.raises(RefusalError) as refused:
        read_body(content, kind, columns)
    return refused.value


def list_tables() -> dict[str, bytes]:
    table = pa.Table.from_pylist(ROWS)
    packed = table.set_column(1, "country", table["country"].dictionary_encode())
    views = table.set_column(1, "country", table["country"].cast(pa.string_view()))
    return {
        JSON: json.dumps(ROWS).encode(),
        NDJSON: "\n".join(map(json.dumps, ROWS)).encode(),
        "plain": pack(table),
        "zstd": pack(table, compression="zstd"),
        "lz4": pack(packed, compression="lz4"),
        "dictionary": pack(packed),
        "views": pack(views),
        "deltas": pack(packed, emit_dictionary_deltas=True),
    }


@pytest.mark.parametrize("name", list_tables())
def test_the_same_rows_from_every_kind_of_body(name: str) -> None:
    block = read_body(list_tables()[name], name if name in (JSON, NDJSON) else ARROW, COLUMNS).block
    assert block.rows[:, 0].tolist() == [row["spent"] for row in ROWS]
    assert block.keys is not None
    assert block.codes is not None
    assert np.asarray(block.keys)[block.codes].tolist() == [row["country"] for row in ROWS]


def test_kinds_are_found_however_they_are_spelled() -> None:
    for spelled in (JSON, "Application/JSON", f"{JSON};charset=utf-8", f' {JSON} ; charset="UTF-8"; boundary=x'):
        assert find_kind(spelled) == JSON
    for other in ("", "json", "text/plain", "application/json, text/plain", f"{JSON}; charset=latin-1"):
        with pytest.raises(RefusalError) as refused:
            find_kind(other)
        assert refused.value.status == 415


def write(rows: list[dict[str, object]], kind: str) -> bytes:
    return (json.dumps(rows) if kind == JSON else "\n".join(map(json.dumps, rows))).encode()


@pytest.mark.parametrize("kind", [JSON, NDJSON])
def test_a_column_that_no_row_has_is_named(kind: str) -> None:
    whole = Columns(("spent",), "at", "who", ("country",), None)
    row: dict[str, object] = {"spent": 1, "at": "2024-01-01T00:00:00Z", "country": "DE"}
    for missing in row:
        content = write([{name: value for name, value in row.items() if name != missing}] * 2, kind)
        refusal = refuse(content, kind, whole)
        assert (refusal.status, f"no row has the column {missing!r}" in refusal.detail) == (422, True)
        one = [row | {missing: None}, {name: value for name, value in row.items() if name != missing}]
        assert read_body(write(one, kind), kind, whole).block.skipped == 2
    assert read_body(write([row], kind), kind, whole).absent == ("who",)
    assert read_body(write([row | {"who": None}], kind), kind, whole).absent == ()
    metrics = Columns(("spent", "rating"), None, None, (), None, keep_missing=True)
    assert read_body(write([row], kind), kind, metrics).absent == ("rating",)
    assert read_body(b"[]" if kind == JSON else b"", kind, whole).absent == ()


@pytest.mark.parametrize("kind", [JSON, NDJSON])
def test_what_is_not_a_number_is_named_by_its_place(kind: str) -> None:
    for value in ("abc", "12", [1], {"a": 1}):
        rows: list[dict[str, object]] = [{"spent": 1, "country": "DE"}, {"spent": value, "country": "DE"}]
        refusal = refuse(write(rows, kind), kind)
        assert "column 'spent' is not a number in row 2; send a number" in refusal.detail
        assert "abc" not in refusal.detail


def test_more_rows_than_may_be_sent_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bodies, "ROWS", 19)
    for name, content in list_tables().items():
        refusal = refuse(content, name if name in (JSON, NDJSON) else ARROW)
        assert (refusal.status, "more than 19 rows" in refusal.detail) == (413, True)


def test_rows_that_take_no_room_are_counted_too() -> None:
    nulls = pa.Array.from_buffers(pa.null(), (1 << 31) - 1, [None])
    nothing = pa.RecordBatch.from_arrays([nulls, nulls], names=["spent", "country"])
    out = BytesIO()
    with pa.ipc.new_stream(out, nothing.schema) as writer:
        writer.write_batch(nothing)
    assert refuse(out.getvalue()).status == 413


@pytest.mark.parametrize("compression", ["zstd", "lz4"])
def test_what_would_be_long_once_it_is_decompressed_is_refused_before(compression: str) -> None:
    country = pa.array(["x" * 2_000_000] * 50)
    table = pa.table({"spent": pa.array([1.0] * 50), "country": country})
    content = pack(table, compression=compression)
    assert len(content) < 1 << 20
    before = pa.total_allocated_bytes()
    assert refuse(content).status == 413
    assert pa.total_allocated_bytes() - before < 1 << 20


def test_a_length_that_is_not_true_is_refused() -> None:
    table = pa.table({"spent": pa.array([1.0] * 1_000), "country": pa.array(["DE"] * 1_000)})
    content = bytearray(pack(table, compression="lz4"))
    at = content.index((7 * 8).to_bytes(8, "little"))
    for length in (1 << 62, 1 << 35, -5):
        content[at : at + 8] = length.to_bytes(8, "little", signed=True)
        assert refuse(bytes(content)).status in (413, 422)


def test_what_would_be_long_once_it_is_decoded_is_refused_before() -> None:
    words = pa.array(["x" * 10_000])
    few = pa.DictionaryArray.from_arrays(pa.array([0] * 10_000, pa.int8()), words)
    _, view, text = pa.array(["x" * 10_000], pa.string_view()).buffers()
    many = pa.Array.from_buffers(pa.string_view(), 10_000, [None, pa.py_buffer(view.to_pybytes() * 10_000), text])
    for country in (few, many):
        table = pa.table({"spent": pa.array([1.0] * 10_000), "country": country})
        out = BytesIO()
        with pa.ipc.new_stream(out, table.schema) as writer:
            writer.write_table(table)
        if len(out.getvalue()) < 8 << 20:
            before = pa.total_allocated_bytes()
            assert refuse(out.getvalue()).status == 413
            assert pa.total_allocated_bytes() - before < arrow.DECODED


@pytest.mark.parametrize(
    "country",
    [
        pa.array([["DE"]]),
        pa.array([{"a": "DE"}]),
        pa.RunEndEncodedArray.from_arrays(pa.array([1], pa.int32()), pa.array(["DE"])),
        pa.DictionaryArray.from_arrays(pa.array([0], pa.int8()), pa.array([["DE"]])),
    ],
)
def test_other_columns_are_refused(country: pa.Array) -> None:
    refusal = refuse(pack(pa.table({"spent": pa.array([1.0]), "country": country})))
    assert (refusal.status, "DE" in refusal.detail) == (422, False)


def test_columns_that_are_not_there_or_twice_are_named() -> None:
    assert "column 'country' is not there" in refuse(pack(pa.table({"spent": [1.0]}))).detail
    twice = pa.table([[1.0], ["DE"], ["DE"]], names=["spent", "country", "country"])
    assert "is there twice" in refuse(pack(twice)).detail


def test_bytes_that_were_changed_are_read_or_refused() -> None:
    coins = random.Random(0)  # noqa: S311
    made = [content for name, content in list_tables().items() if name not in (JSON, NDJSON)]
    for _ in range(1_500):
        content = bytearray(coins.choice(made))
        for _ in range(coins.choice((1, 2, 8))):
            content[coins.randrange(len(content))] = coins.randrange(256)
        try:
            read_body(bytes(content[: coins.choice((len(content), coins.randrange(len(content))))]), ARROW, COLUMNS)
        except RefusalError as refusal:
            assert refusal.status in (413, 422)  # noqa: PT017
