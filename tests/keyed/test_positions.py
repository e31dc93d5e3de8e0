"""Positions of a family against a dictionary with a position for every stream and source."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from vestige.keyed.positions import KeyedPositions
from vestige.row_numbers import LARGEST_SLOT
from vestige.store import Position
from vestige.store.families import SharedPosition

SOURCE = "visits.csv"


def encode(row: int) -> bytes:
    return b"" if not row else b"%d" % row


def decode(position: bytes) -> int:
    return int(position or b"0")


@dataclass
class Family:
    """Streams that are lists of the rows that they took, with the positions under test."""

    positions: KeyedPositions = field(default_factory=KeyedPositions)
    streams: dict[str, list[int]] = field(default_factory=dict)

    def run(self, keys: str, size: int, blocks: int, bad: set[int]) -> None:
        """Read some blocks; a stream takes nothing more after a bad row of its own."""
        reading, failed = self.positions.read(SOURCE, decode), set[str]()
        start = decode(self.positions.find_start(SOURCE, decode))
        for first in range(start, min(start + size * blocks, len(keys)), size):
            last = min(first + size, len(keys))
            behind, took, refused = dict[str, bytes](), set[str](), None
            limits = {key: decode(self.positions.find(SOURCE, key, is_there=key in self.streams)) for key in set(keys)}
            for row in range(first + 1, last + 1):
                key = keys[row - 1]
                if row <= limits[key] or key in failed:
                    continue
                if row in bad:
                    failed.add(key)
                    if key in self.streams:
                        behind[key] = encode(row - 1)
                    else:
                        refused = encode(row - 1) if refused is None else refused
                else:
                    self.streams.setdefault(key, []).append(row)
                    took.add(key)
            reading.note(
                encode(last), took=took if reading.is_behind(encode(last)) else (), behind=behind, refused=refused
            )


@dataclass
class Reference:
    """The same with a position for every key."""

    streams: dict[str, list[int]] = field(default_factory=dict)
    positions: dict[str, int] = field(default_factory=dict)

    def run(self, keys: str, last: int, bad: set[int]) -> None:
        failed = set[str]()
        for row, key in enumerate(keys[:last], 1):
            if row <= self.positions.get(key, 0) or key in failed:
                continue
            if row in bad:
                failed.add(key)
            else:
                self.streams.setdefault(key, []).append(row)
                self.positions[key] = row


runs = st.lists(
    st.tuples(st.integers(1, 7), st.integers(0, 6), st.sets(st.integers(1, 30), max_size=5), st.booleans()), max_size=6
)


@given(st.text(st.sampled_from("abcd"), max_size=30), runs)
def test_each_row_is_taken_once_as_with_a_position_for_every_stream(
    keys: str, runs: list[tuple[int, int, set[int], bool]]
) -> None:
    """Whatever is refused, wherever runs stop, and whether or not what a run did was saved."""
    family, reference = Family(), Reference()
    for size, blocks, bad, killed in runs:
        if killed:
            copy.deepcopy(family).run(keys, size, blocks, bad)
            continue
        last = min(decode(family.positions.find_start(SOURCE, decode)) + size * blocks, len(keys))
        family.run(keys, size, blocks, bad)
        reference.run(keys, last, bad)
        assert family.streams == reference.streams
    family.run(keys, 5, 100, set())
    assert family.streams == {key: [i for i, k in enumerate(keys, 1) if k == key] for key in set(keys)}
    shared = family.positions.shared[SOURCE]
    assert shared.value == shared.newcomers == encode(len(keys))
    assert not family.positions.own.get(SOURCE), "all have caught up"


@given(
    st.text(st.sampled_from("abcd"), min_size=1, max_size=30),
    st.dictionaries(st.sampled_from("abcd"), st.integers(0, 30)),
)
def test_streams_of_earlier_formats_skip_what_each_has_read(keys: str, read: dict[str, int]) -> None:
    """They have own positions, and the family has none."""
    streams = {key: [i for i, k in enumerate(keys[:last], 1) if k == key] for key, last in read.items()}
    own = [(key, {SOURCE: Position(encode(min(last, len(keys))), 1)}) for key, last in read.items()]
    family = Family(KeyedPositions.load({}, own)[0], streams)
    family.run(keys, 4, 3, set())
    family.run(keys, 4, 100, set())
    assert {key: rows for key, rows in family.streams.items() if rows} == {
        key: [i for i, k in enumerate(keys, 1) if k == key] for key in set(keys)
    }
    assert not family.positions.own.get(SOURCE), "one position is enough from now on"


def test_what_has_to_be_saved_is_noted() -> None:
    positions = KeyedPositions()
    reading = positions.read(SOURCE, decode)
    reading.note(b"5", behind={"a": b"3"})
    assert (positions.changed_sources, positions.changed_streams) == ({SOURCE}, {"a"})
    assert positions.find_own("a") == {SOURCE: Position(b"3", slot=1)}
    positions.mark_saved()
    reading.note(b"9")
    assert (positions.changed_sources, positions.changed_streams) == ({SOURCE}, set())
    assert positions.find(SOURCE, "a") == b"3", "it stays behind in this pass"
    positions.mark_saved()
    positions.read(SOURCE, decode).note(b"9")
    assert positions.changed_streams == {"a"}, "its own position is gone"
    assert positions.find_own("a") == {}


def test_a_source_that_is_replaced_begins_anew_under_a_slot_that_no_record_has() -> None:
    positions = KeyedPositions()
    for source in ("a", "b"):
        positions.read(source, decode).note(b"5", behind={"x": b"3"})
    positions.restart("a")
    assert positions.shared == {"a": SharedPosition(b"", b"", 3), "b": SharedPosition(b"5", b"5", slot=2)}
    assert positions.own == {"b": {"x": b"3"}}
    assert positions.find_start("a", decode) == b""
    positions.drop("x")
    assert positions.find("b", "x") == b"5"


def test_positions_are_written_anew() -> None:
    positions = KeyedPositions()
    positions.read(SOURCE, decode).note(b"5", behind={"x": b"3"})
    positions.move(SOURCE, lambda position: position + b"0")
    assert positions.shared[SOURCE] == SharedPosition(b"50", b"50", 1)
    assert positions.own == {SOURCE: {"x": b"30"}}


def test_slots_of_streams_that_were_read_alone_become_those_of_the_family() -> None:
    own = [
        ("x", {"a": Position(b"1", 1), "b": Position(b"1", 2)}),
        ("y", {"b": Position(b"1", 1), "a": Position(b"1", 2)}),
        ("z", {"c": Position(b"1", 1), "d": Position(b"1", 0)}),
    ]
    positions, renumbering = KeyedPositions.load({"c": SharedPosition(b"9", b"9", 7)}, own)
    assert {source: position.slot for source, position in positions.shared.items()} == {"a": 1, "b": 2, "c": 7, "d": 8}
    assert renumbering == {"y": {1: 2, 2: 1}, "z": {1: 7}}
    assert positions.changed_streams == {"y", "z"}


def test_when_all_slots_are_taken_records_do_not_know_their_source() -> None:
    positions = KeyedPositions({"a": SharedPosition(b"", b"", LARGEST_SLOT)})
    positions.read("b", decode)
    assert positions.shared["b"].slot == 0
