"""Each number that a format gives a width has a check: its limit is taken, one above and far above are refused.

What has no row here cannot come near its width: rows of tables and versions of keys (64 bits, of which a slot takes 40
for the row) count what was written; streams and open requests of a bucket (32 bits) are at most 1,024, see
tests/test_crowded_buckets.py; the counts of a request to a service (32 bits) are at most 100,000 rows.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from vestige import Clock, Mean, Stream
from vestige.errors import VestigeError
from vestige.keyed import KeyedStreams
from vestige.policies.base import MAX_COLUMNS
from vestige.row_numbers import LARGEST_ROW, LARGEST_SLOT, find_rows, number_rows
from vestige.service.bodies import JSON, ROWS, read_body
from vestige.sources.columns import Columns
from vestige.sources.protocol import count_restart
from vestige.sources.query.positions import QueryPosition
from vestige.sources.redis.positions import RedisPosition
from vestige.store import MemoryStore, Position
from vestige.store.bucket import check_lengths, pack_names, unpack_names
from vestige.store.entry import pack_varints
from vestige.store.names import LONGEST_NAME
from vestige.store.position import LONGEST_POSITION
from vestige.store.receipt import LONGEST_REFERENCE, check_reference
from vestige.stream.limits import MAX_RECORDS, Limits


def name_stream(length: int) -> None:
    MemoryStore().stream("x" * length)


def name_key(length: int) -> None:
    KeyedStreams(Mean(), retention=96).extend(["x" * length], [1.0])


def pack_entries(length: int) -> None:
    names = pack_names([b"a"], check_lengths(np.array([length])))
    assert unpack_names(names, 1)[1].tolist() == [length]


def file_reference(length: int) -> None:
    check_reference("x" * length)


def set_position(length: int) -> None:
    Position(bytes(length))


def set_slot(slot: int) -> None:
    Position(b"", slot)
    assert find_rows(number_rows(np.array([5]), slot), slot).tolist() == [5]


def number_row(row: int) -> None:
    store = MemoryStore()
    stream = Stream(Mean(), retention=96, store=store.stream("a"))
    stream.extend([1.0], source="visits.csv", numbers=np.array([row]))
    assert stream.find_records("visits.csv").numbers.tolist() == [row]


def restart_clock(t: int) -> None:
    assert Clock(t, t - 9, t).t == t


def pack_count(count: int) -> None:
    assert len(pack_varints([count])) == 10


def set_retention(records: int) -> None:
    Limits(retention=records)


def set_columns(columns: int) -> None:
    Mean(dim=columns)


def restart_source(times: int) -> None:
    generation = count_restart("visits", times - 1)
    assert RedisPosition.decode(RedisPosition(generation=generation).encode()).generation == times
    assert QueryPosition.decode(QueryPosition(generation=generation).encode()).generation == times


def send_rows(rows: int) -> None:
    read_body(json.dumps([{"a": 1}] * rows).encode(), JSON, Columns(("a",), None, None, (), None))


CHECKS: dict[str, tuple[Callable[[int], None], int, int]] = {
    "bytes of a stream's name": (name_stream, LONGEST_NAME, 2**20),
    "bytes of a key": (name_key, LONGEST_NAME, 2**20),
    "bytes of an entry": (pack_entries, 10**9, 2**40),
    "characters of a reference": (file_reference, LONGEST_REFERENCE, 2**16),
    "bytes of a position": (set_position, LONGEST_POSITION, 2**16),
    "slot of a source": (set_slot, LARGEST_SLOT, 2**48),
    "row of a source": (number_row, LARGEST_ROW, 2**62),
    "rounds of a clock": (restart_clock, 2**62 - 1, 2**63),
    "a count of an entry": (pack_count, 2**64 - 1, 2**80),
    "records of a limit": (set_retention, MAX_RECORDS, 2**63),
    "columns of a record": (set_columns, MAX_COLUMNS, 2**40),
    "restarts of a source": (restart_source, 255, 2**32),
    "rows of a body": (send_rows, ROWS, ROWS + 2),
}


@pytest.mark.parametrize("what", CHECKS)
def test_a_width_takes_its_limit_and_refuses_more(what: str) -> None:
    check, limit, far = CHECKS[what]
    check(limit)
    for beyond in (limit + 1, far):
        with pytest.raises(Exception) as raised:  # noqa: PT011  # each kind of refusal is a sentence of ours
            check(beyond)
        assert isinstance(raised.value, VestigeError) or type(raised.value).__name__ == "RefusalError"


def test_the_updates_of_a_stream_are_counted_beyond_31_bits() -> None:
    """A key with small batches has so many after some billions of records."""
    store = MemoryStore()
    streams = KeyedStreams(Mean(), retention=64, seed=1, store=store.family())
    alone = Stream(Mean(), retention=64, seed=1)
    rows = np.random.default_rng(0).normal(size=1_000)
    streams.extend(["a"] * 500, rows[:500])
    alone.extend(rows[:500])
    streams._shards[0].columns.updates[0] = 2**31 - 2
    streams.extend(["a"] * 500, rows[500:])
    more = alone.clock.updates
    alone.extend(rows[500:])
    wanted = 2**31 - 2 + alone.clock.updates - more
    assert wanted > 2**31
    assert streams.clock("a").updates == wanted
    streams.reload()
    assert streams.clock("a") == replace(alone.clock, updates=wanted)
    assert store.verify() == ()
