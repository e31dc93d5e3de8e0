"""Rows of buckets: how many, which name goes where, and what a head says; any changed bit is noticed."""

from __future__ import annotations

import zlib
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vestige.store import Terms
from vestige.store.bucket import (
    BUCKET,
    HEAD,
    Summary,
    check_head,
    check_names,
    count_buckets,
    find_bucket,
    find_weight,
    pack_head,
    pack_names,
    split_entries,
    unpack_names,
)
from vestige.store.layout import DamagedError

SUMMARY = Summary(3, 1000, 5, 7, 2, 99, 1)


@given(st.integers(0, 2**50))
def test_there_are_as_many_buckets_as_the_limits_need(weight: int) -> None:
    buckets = count_buckets(weight)
    assert buckets.bit_count() == 1
    assert buckets * BUCKET >= weight
    assert buckets == 1 or buckets // 2 * BUCKET < weight


def test_the_weight_follows_from_the_terms() -> None:
    assert find_weight(Terms({}, columns=3, capacity=100)) == 96 + 4 * 300
    assert find_weight(Terms({}, columns=10**6, capacity=10**9)) == 4 * 32_768


@given(st.binary(), st.integers(0, 20))
def test_the_bucket_of_a_name_is_its_checksum(name: bytes, power: int) -> None:
    assert find_bucket(name, 2**power) == zlib.crc32(name) % 2**power


@given(st.lists(st.tuples(st.binary(max_size=30), st.binary(max_size=30)), max_size=20))
def test_names_and_entries_are_read_back(streams: list[tuple[bytes, bytes]]) -> None:
    names, entries = [name for name, _ in streams], [entry for _, entry in streams]
    body = pack_names(names, [len(entry) for entry in entries])
    found, lengths = unpack_names(body, len(names))
    assert found == names
    assert split_entries(b"".join(entries) + bytes(7), lengths) == entries
    for wrong in (body + b"\0", body[:-1] if body else b"\1"):
        with pytest.raises(DamagedError):
            unpack_names(wrong, len(names))


def test_a_head_is_read_back_and_any_changed_bit_is_noticed() -> None:
    names = pack_names([b"a", b"bc"], [10, 20])
    summary = replace(SUMMARY, streams=2)
    head = pack_head(7, summary, names)
    assert len(head) == HEAD
    assert check_head(7, head) == summary
    assert check_names(head, names) == names
    assert not any(head[60:])
    for at in range(HEAD):
        changed = head[:at] + bytes([head[at] ^ 1 << at % 8]) + head[at + 1 :]
        with pytest.raises(DamagedError):
            check_head(7, changed)
    for row, wrong in ((8, head), (7, head[:-1]), (7, None)):
        with pytest.raises(DamagedError):
            check_head(row, wrong)
    for at in range(len(names)):
        changed = names[:at] + bytes([names[at] ^ 1 << at % 8]) + names[at + 1 :]
        with pytest.raises(DamagedError):
            check_names(head, changed)


def test_summaries_are_joined() -> None:
    parts = [Summary(1, 10, 5, 3, 4, 100, 1), Summary(1, 20, 9, 8, 2, 50, 0), Summary()]
    assert Summary.join(parts) == Summary(2, 30, 5, 8, 2, 150, 1)
    assert Summary.join([]) == Summary()


def test_lengths_are_read_back() -> None:
    lengths = unpack_names(pack_names([b"x" * 65_535], [10**9]), 1)[1]
    assert lengths.tolist() == [10**9]
    assert lengths.dtype == np.int64
