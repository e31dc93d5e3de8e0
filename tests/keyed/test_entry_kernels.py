"""Kernels over the bytes of a store against the plain Python that packs one stream at a time."""

from __future__ import annotations

import zlib
from datetime import timedelta
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vestige import KeyedStreams, Mean, Policy
from vestige.keyed import entry_kernels as kernels
from vestige.keyed.storage import Group
from vestige.store import MemoryStore
from vestige.store.buckets import Bucket
from vestige.store.entry import pack_entry, pack_varints, read_header, read_subjects
from vestige.store.subject_index import find_prefixes
from vestige.types import Floats

START = np.datetime64("2024-01-01", "us")
HOUR = np.timedelta64(1, "h")
CASES: dict[str, dict[str, Any]] = {
    "plain": {"policy": Mean(channel="bits"), "retention": 56},
    "three columns": {"policy": Mean(3, channel="bits"), "retention": 130},
    "long": {"policy": Mean(channel="bits"), "retention": 300},
    "times": {"policy": Mean(channel="bits"), "retention": 96, "max_age": timedelta(days=2)},
    "all": {"policy": Mean(2, channel="bits"), "retention": 130, "max_age": timedelta(days=9)},
}


def fill(case: str, n: int = 3_000) -> tuple[MemoryStore, KeyedStreams]:
    """Streams of which some have one record, and others many."""
    rng, terms = np.random.default_rng(0), dict(CASES[case])
    policy: Policy = terms.pop("policy")
    store = MemoryStore()
    streams = KeyedStreams(policy, **terms, seed=1, store=store.family())
    names = [f"key {'x' * (k % 5)} {k % 40 * (k % 7 == 0) + k // 90}" for k in range(n)]
    rows: Floats = 1e6 + rng.lognormal(size=(n, policy.columns))
    labels: dict[str, Any] = {}
    if "max_age" in terms:
        labels["times"] = START + np.arange(n) * HOUR / 60
    if case == "all":
        labels["subjects"] = [None if i % 3 else f"person {i % 50}" for i in range(n)]
        labels["numbers"] = np.arange(1, n + 1) | (3 << 48)
    streams.take(names, rows, **labels)
    streams.flush()
    return store, streams


@given(st.binary(max_size=200), st.integers(0, 2**32 - 1))
def test_checksums_are_those_of_zlib(content: bytes, seed: int) -> None:
    array = np.frombuffer(content + b"end", np.uint8)
    assert kernels.compute_crc(array, 0, len(content), np.uint32(seed)) == zlib.crc32(content, seed)


@given(st.integers(0, 2**64 - 1))
def test_counts_are_packed_as_by_python(count: int) -> None:
    content = np.zeros(16, np.uint8)
    end = kernels.put_count(content, 2, np.uint64(count))
    assert content[2:end].tobytes() == pack_varints([count])
    found, after = kernels.get_count(content, 2, 16)
    assert (int(found), after) == (count, end)
    assert kernels.get_count(content, 2, end - 1)[1] == end, "a count that is cut off ends beyond its bytes"


@pytest.mark.parametrize("case", CASES)
def test_entries_and_heads_are_those_of_python(case: str) -> None:
    store, streams = fill(case)
    with store._use() as tables:
        family = tables.find_families(streams._terms)[0]
        for row in tables.iterate_rows():
            bucket = Bucket.parse(row)
            assert bucket.names == sorted(bucket.names)
            assert tables.buckets.make_row(bucket) == row
            for name, entry in bucket:
                _, state = tables.unpack(name, entry)
                assert pack_entry(name, family, streams._terms, state) == entry


@pytest.mark.parametrize("case", CASES)
def test_headers_are_read_as_by_python(case: str) -> None:
    store, _ = fill(case)
    with store._use() as tables:
        rows = list(tables.iterate_rows())
    group = Group.read(rows, is_checked=True)
    assert (group.headers.flags >= 0).all()
    for i in range(len(group.entries.bucket)):
        header = read_header(group.get_entry(i))
        same = ("flags", "t", "pending", "length", "updates", "bits", "settled", "since", "gaps", "due")
        assert all(getattr(group.headers, name)[i] == getattr(header, name) for name in same)
        assert (group.headers.family[i], group.headers.records[i]) == (header.terms, header.count)


def test_a_changed_bit_is_found_wherever_it_is() -> None:
    store, _ = fill("all", 400)
    with store._use() as tables:
        row = next(iter(tables.iterate_rows()))
    for bit in range(0, 8 * len(row.entries), 61):
        broken = bytearray(row.entries)
        broken[bit // 8] ^= 1 << bit % 8
        group = Group.read([row._replace(entries=bytes(broken))], is_checked=True)
        assert np.count_nonzero(group.headers.flags < 0) == 1


def test_entries_that_are_cut_off_are_damaged() -> None:
    store, _ = fill("all", 400)
    with store._use() as tables:
        row = next(iter(tables.iterate_rows()))
    for length in range(0, len(row.entries), 13):
        group = Group.read([row._replace(entries=row.entries[:length])], is_checked=False)
        whole = group.entries.entry[:, 1] <= length
        assert (group.headers.flags[~whole] < 0).all()


def test_prefixes_of_subjects_are_those_of_python() -> None:
    store, streams = fill("all")
    with store._use() as tables:
        rows = list(tables.iterate_rows())
        found, ends = Group.read(rows, is_checked=False).collect_prefixes(np.array([0, streams.policy.columns]))
        start = 0
        for row, end in zip(rows, ends.tolist(), strict=True):
            expected = set[int]().union(*(find_prefixes(read_subjects(entry, 2)) for _, entry in Bucket.parse(row)))
            assert found[start:end].tolist() == sorted(expected)
            start = end


@given(st.lists(st.tuples(st.sets(st.integers(0, 9)), st.sets(st.integers(0, 9))), min_size=1))
def test_sorted_parts_are_subtracted(parts: list[tuple[set[int], set[int]]]) -> None:
    arrays = [np.array([x for part in parts for x in sorted(part[side])], np.uint64) for side in (0, 1)]
    ends = [np.cumsum([len(part[side]) for part in parts]) for side in (0, 1)]
    left, rows = np.empty(len(arrays[0]), np.uint64), np.empty(len(arrays[0]), np.int64)
    count = kernels.subtract(arrays[0], ends[0], arrays[1], ends[1], left, rows)
    expected = [(x, row) for row, (one, other) in enumerate(parts) for x in sorted(one - other)]
    assert list(zip(left[:count].tolist(), rows[:count].tolist(), strict=True)) == expected
