"""The directory of buckets against plain dictionaries."""

from __future__ import annotations

import numpy as np

from vestige.keyed.directory import Directory
from vestige.keyed.names import KeyNames, read_keys
from vestige.store.bucket import find_bucket


def check(directory: Directory, names: dict[str, int], buckets: int) -> None:
    members, ends, _ = directory.list_members(np.arange(buckets))
    start = 0
    for bucket, end in enumerate(ends.tolist()):
        expected = sorted(name for name in names if find_bucket(name.encode(), buckets) == bucket)
        assert members[start:end].tolist() == [names[name] for name in expected]
        start = end


def test_streams_lie_in_the_buckets_of_their_names() -> None:
    rng, known = np.random.default_rng(0), KeyNames()
    directory, names = Directory(known), dict[str, int]()
    for buckets in (1, 4, 4, 32, 8):
        directory.resize(buckets)
        new = [f"key {'y' * int(rng.integers(0, 4))} {k}" for k in rng.integers(0, 900, 100)]
        names |= dict(zip(new, known.number(read_keys(new)).tolist(), strict=True))
        first = directory.add_streams()
        assert directory.find_buckets(np.arange(first, known.count)).tolist() == [
            find_bucket(name.encode(), buckets) for name, number in names.items() if number >= first
        ]
        for name in [str(gone) for gone in rng.choice(sorted(names), 5, replace=False)]:
            directory.unlink(names[name])
            known.remove(names.pop(name))
        check(directory, names, buckets)


def test_what_has_to_be_written_still_has_to_be_after_a_resize() -> None:
    known = KeyNames()
    directory = Directory(known)
    directory.resize(4)
    numbers = known.number(read_keys([f"key {k}" for k in range(50)]))
    directory.add_streams()
    directory.mark(numbers[:1])
    bucket = find_bucket(b"key 0", 4)
    assert np.flatnonzero(directory.dirty).tolist() == [bucket]
    directory.resize(16)
    assert np.flatnonzero(directory.dirty).tolist() == [bucket + 4 * i for i in range(4)]
    directory.resize(2)
    assert np.flatnonzero(directory.dirty).tolist() == [bucket % 2]


def test_counts_of_stored_streams() -> None:
    known = KeyNames()
    directory = Directory(known)
    numbers = known.number(read_keys(["a", "b", "c"]))
    directory.add_streams()
    assert directory.list_unseen().tolist() == [0, 1, 2]
    assert (directory.count_new(), directory.count_stored()) == (3, 0)
    directory.note_stored(numbers[:2])
    assert (directory.count_new(), directory.count_stored(), directory.has_stored(1)) == (1, 2, True)
    directory.drop_streams(2)
    assert (directory.count_new(), directory.count_stored()) == (0, 2)
    assert directory.list_unseen().tolist() == []
    directory.mark_lost()
    assert directory.count_new() == 2
    assert directory.list_unseen().tolist() == []
    assert directory.dirty.all()


def test_a_stream_that_is_dropped_leaves_its_number_to_another() -> None:
    known = KeyNames()
    directory = Directory(known)
    known.number(read_keys(["a", "b"]))
    directory.add_streams()
    directory.ignore(1)
    directory.drop_streams(1)
    known.truncate(1)
    known.number(read_keys(["c"]))
    directory.add_streams()
    check(directory, {"a": 0, "c": 1}, 1)
