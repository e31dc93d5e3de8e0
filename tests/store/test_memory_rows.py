"""Rows of a store that are packed into one value are the same rows, and what was cut off is refused."""

from __future__ import annotations

import pytest

from vestige import KeyedStreams, Mean
from vestige.store import MemoryStore
from vestige.store.layout import DamagedError
from vestige.store.memory_rows import MemoryRows, pack_rows, unpack_rows


def make_rows() -> MemoryRows:
    rows = MemoryRows()
    streams = KeyedStreams(Mean(), retention=96, seed=0, store=MemoryStore(rows).family())
    streams.extend([i % 300 for i in range(3_000)], range(3_000))
    return rows


def test_rows_are_packed_and_unpacked() -> None:
    rows = make_rows()
    packed = pack_rows(rows)
    again = unpack_rows(packed)
    assert pack_rows(again) == packed
    assert again.to_bytes() == rows.to_bytes()
    streams = KeyedStreams(Mean(), retention=96, seed=0, store=MemoryStore(again).family())
    assert len(streams) == 300
    assert streams.clock(7).t == 10


def test_rows_that_are_cut_off_are_refused() -> None:
    packed = pack_rows(make_rows())
    for length in (0, 7, 8, 30, len(packed) - 1):
        with pytest.raises(DamagedError):
            unpack_rows(packed[:length])
    with pytest.raises(DamagedError):
        unpack_rows(packed + b"\0")
