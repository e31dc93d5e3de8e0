"""Terms are stored once, and positions that the streams of a family share are theirs unless they have their own."""

from __future__ import annotations

import pytest

from vestige import Clock, MemoryStore, Records
from vestige.store import Position, State, Terms
from vestige.store.families import Families, SharedPosition
from vestige.store.layout import DamagedError
from vestige.store.memory_rows import MemoryRows

TERMS, OTHER = Terms({}, 1, 8), Terms({}, 2, 8)


def state(positions: dict[str, Position] | None = None) -> State:
    return State(Clock(1), Records([1], [[0.5]]), positions or {})


def test_equal_terms_are_stored_once() -> None:
    families = Families(MemoryRows())
    assert families.find(TERMS) is None
    assert (families.add(TERMS), families.add(OTHER)) == (1, 2)
    families.forget()
    assert (families.find(TERMS), families.find(OTHER)) == (1, 2)
    assert families.list_terms() == {1: TERMS, 2: OTHER}
    families.blank(1)
    assert families.find(TERMS) is None
    assert families.list_terms() == {2: OTHER}
    for number in (1, 3):
        with pytest.raises(DamagedError):
            families.terms(number)


def test_shared_positions_are_read_back_and_written_again() -> None:
    families = Families(MemoryRows())
    number = families.add(TERMS)
    positions = {f"{i}.csv": SharedPosition(bytes([i]) * i, bytes([i]), i) for i in range(20)}
    for source, position in positions.items():
        families.write_shared(number, source, position)
    moved = SharedPosition(b"further", b"", 3)
    families.write_shared(number, "3.csv", moved)
    families.forget()
    assert families.read_shared(number) == positions | {"3.csv": moved}
    assert families.read_shared(families.add(OTHER)) == {}
    assert sorted(families.iterate_sources()) == sorted(positions)


def test_a_row_of_another_owner_is_damage() -> None:
    families = Families(MemoryRows())
    (row,) = families.write_own(b"a", {}, {"x.csv": Position(b"1", 1)})
    assert families.read_own(b"a", [row]) == {row: ("x.csv", Position(b"1", 1))}
    with pytest.raises(DamagedError):
        families.read_own(b"b", [row])
    assert families.find_owned(b"a") == [row]
    assert families.find_owned(b"b") == []


def test_a_stream_has_the_positions_of_its_family_and_its_own() -> None:
    """Own ones are stored only where they differ, and also where it has not read what the family has."""
    store = MemoryStore()
    shared = {"a.csv": SharedPosition(b"9", b"9", 1), "b.csv": SharedPosition(b"7", b"5", 2)}
    with store.transaction():
        number = store._tables.add_family(TERMS)
        for source, position in shared.items():
            store._tables.write_shared(number, source, position)
    both = {"a.csv": Position(b"9", 1), "b.csv": Position(b"7", 2)}
    written = {
        "same": both,
        "behind": both | {"b.csv": Position(b"3", 2)},
        "more": both | {"c.csv": Position(b"1", 3)},
        "unread": {"a.csv": Position(b"9", 1)},
        "none": {},
    }
    for name, positions in written.items():
        store.write(name, TERMS, state(positions))
    assert {name: dict(found[1].positions) for name, found in store.snapshot().streams.items()} == written
    assert store._tables.about.sources == 2 + 1 + 1 + 1 + 2
    with store.transaction():
        store._tables.write_shared(number, "b.csv", SharedPosition(b"8", b"8", 2))
    moved = {"b.csv": Position(b"8", 2)}
    assert {name: dict(found[1].positions) for name, found in store.snapshot().streams.items()} == {
        "same": both | moved,
        "behind": written["behind"],
        "more": written["more"] | moved,
        "unread": written["unread"],
        "none": {},
    }
    assert store.positions("b.csv") == {"same": moved["b.csv"], "behind": Position(b"3", 2), "more": moved["b.csv"]}
    before = store.snapshot().streams
    store.tidy()
    assert store.snapshot().streams == before


def test_positions_that_are_not_needed_are_zero_until_the_store_is_tidy() -> None:
    store = MemoryStore()
    for name in ("a", "b"):
        store.write(name, TERMS, state({"x.csv": Position(b"1", 1), "y.csv": Position(b"2", 2)}))
    store.write("a", TERMS, state({"y.csv": Position(b"3", 2)}))
    store.remove("b")
    assert [any(body) for _, (body,) in store._rows.iterate("sources")] == [False, True, False, False]
    assert store.sources() == ("y.csv",)
    store.tidy()
    assert store._tables.about.sources == 1
    assert store.snapshot().streams["a"][1].positions == {"y.csv": Position(b"3", 2)}


def test_terms_that_no_stream_has_go_with_the_last_one() -> None:
    store = MemoryStore()
    for name, terms in {"a": TERMS, "b": TERMS, "c": OTHER}.items():
        store.write(name, terms, State.empty(terms.columns))
    for name, left in {"c": (TERMS,), "a": (TERMS,), "b": ()}.items():
        store.remove(name)
        assert store.list_terms() == left
    store.tidy()
    assert store._tables.about.terms == 0
