"""A store of version 2 of the format, as its code wrote it: readers say so, and a writer brings it up to date."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest

from old_stores import check_readers_refuse, check_stream, copy_store, read_facts
from reading import read_streams
from vestige import SqliteStore
from vestige.errors import StoreError
from vestige.store import open_reader
from vestige.store.position import decode_count
from vestige.stream import open_stream

FACTS = read_facts(2)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return copy_store(2, tmp_path)


def test_readers_say_so_in_a_sentence_and_leave_it_as_it_is(path: Path) -> None:
    check_readers_refuse(path, 2)


def test_a_writer_brings_it_up_to_date(path: Path) -> None:
    with SqliteStore(path) as store:
        bob, eve = store.pseudonym("bob"), store.pseudonym("eve")
    there = read_streams(path)
    assert tuple(there) == tuple(FACTS)
    for name, facts in FACTS.items():
        check_stream(*there[name], facts)
    assert {bob, eve} <= set(there["plain"][1].retained.subjects)
    assert open_reader(path).verify(at=datetime(2024, 1, 4, tzinfo=UTC)) == ()


def test_its_streams_go_on(path: Path) -> None:
    with SqliteStore(path) as store:
        plain, private = open_stream(store, "plain", seed=0), open_stream(store, "private")
        assert plain.estimate().value == pytest.approx(5.0, abs=0.5)
        assert (plain.counted, private.counted) == (180, 198), "what waits is counted by the records that are there"
        plain.extend(np.full(64, 5.0), source="/data/b.csv")
        private.extend(np.zeros(64))
        assert (plain.clock.gaps, private.clock.gaps) == (0, 2)
        assert decode_count(plain.position("/data/b.csv").value) == 94


def test_a_damaged_one_is_refused_and_left_as_it_is(path: Path) -> None:
    image, (held, *_) = bytearray(path.read_bytes()), FACTS["plain"]["values"]
    at = image.find(np.float64(held[0]).tobytes())
    assert at > 0
    image[at] ^= 1
    path.write_bytes(image)
    with pytest.raises(StoreError, match=r"version2.db, stream 'plain': a stored row is damaged"):
        SqliteStore(path)
    assert path.read_bytes() == image
