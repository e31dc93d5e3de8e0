"""The index of subjects: pairs are there once, in their partitions, and found again."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vestige.store.layout import DamagedError
from vestige.store.memory_rows import MemoryRows
from vestige.store.subject_index import Pairs, SubjectIndex, find_prefix, find_prefixes, make_pairs

prefixes = st.sampled_from([0, 1, 2, 2**32, 2**63, 2**64 - 1, 12_345_678_901_234])
pairs = st.lists(st.tuples(prefixes, st.integers(0, 7)), max_size=10)


def to_pairs(found: list[tuple[int, int]]) -> Pairs:
    return np.array([p for p, _ in found], np.uint64), np.array([b for _, b in found], np.uint32)


def to_set(found: Pairs) -> set[tuple[int, int]]:
    return set(zip(found[0].tolist(), found[1].tolist(), strict=True))


@given(st.lists(st.tuples(pairs, pairs), max_size=6))
def test_it_is_a_set_of_pairs(changes: list[tuple[list[tuple[int, int]], list[tuple[int, int]]]]) -> None:
    rows, wanted = MemoryRows(), set[tuple[int, int]]()
    rows.about = replace(rows.about, buckets=8)
    index = SubjectIndex(rows)
    for removed, added in changes:
        index.change(to_pairs([pair for pair in removed if pair not in added]), to_pairs(added))
        wanted = (wanted - set(removed)) | set(added)
        found = index.read_all()
        assert to_set(found) == wanted
        assert len(found[0]) == len(wanted), "each once"
        for prefix in {prefix for prefix, _ in wanted}:
            assert index.find_buckets(prefix) == sorted(bucket for p, bucket in wanted if p == prefix)
        assert index.find_buckets(99) == []
    assert rows.find_end("subjects") in (0, 8), "all partitions are there, or none"
    index.replace(to_pairs([(5, 3)]))
    assert to_set(index.read_all()) == {(5, 3)}


def test_no_subject_takes_no_row() -> None:
    rows = MemoryRows()
    index = SubjectIndex(rows)
    index.change(make_pairs([], 0), make_pairs([], 0))
    index.replace(make_pairs([], 0))
    assert rows.find_end("subjects") == 0


def test_prefixes_are_the_first_eight_bytes() -> None:
    raw = bytes(range(16))
    assert find_prefix(raw.hex()) == int.from_bytes(raw[:8], "little")
    subjects = np.frombuffer(raw + bytes(16) + raw, np.uint8).reshape(3, 16)
    assert find_prefixes(subjects) == {find_prefix(raw.hex())}


def test_a_partition_that_has_vanished_or_changed_is_damage() -> None:
    rows = MemoryRows()
    rows.about = replace(rows.about, buckets=4)
    index = SubjectIndex(rows)
    index.change(make_pairs([], 0), make_pairs([1, 2, 3], 2))
    head, body = rows.read("subjects", 2) or (b"", b"")
    rows.write("subjects", 2, head, body[:-1] + b"x")
    with pytest.raises(DamagedError, match="row 2 of the table subjects is damaged"):
        index.find_buckets(1)
    assert index.find_buckets(2) == [2]
    rows._tables["subjects"].pop(3)
    for ask in (lambda: index.find_buckets(2), index.read_all):
        with pytest.raises(DamagedError):
            ask()
