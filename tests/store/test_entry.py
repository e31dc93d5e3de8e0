"""The bytes of one stream: read back bit for bit, a function of its state alone, and any changed bit is noticed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vestige import Clock, Receipt, Records, StoreError
from vestige.store import Position, State, Terms
from vestige.store.entry import (
    CHECKSUM,
    IRREGULAR,
    NO_TIME,
    is_sound,
    pack_entry,
    pack_varints,
    read_header,
    read_receipts,
    read_sources,
    read_subjects,
    replace_sources,
    replace_terms,
    seal_entry,
    unpack_entry,
)
from vestige.store.event import NEVER
from vestige.store.layout import DamagedError

POSITIONS = {7: ("a.csv", Position(b"12345678", 1)), 9: ("b.csv", Position(b"", 2))}
REQUESTED = datetime(2024, 1, 1, tzinfo=UTC)
RECEIPTS = (
    Receipt("00ff" * 4, REQUESTED, 5, None, keep=timedelta(0), reference="T-1"),
    Receipt("11ff" * 4, REQUESTED, 5, 7, REQUESTED, REQUESTED, 7),
)


def make_state(rng: np.random.Generator, t: int, columns: int, capacity: int, regular: bool) -> State:
    """Some state: a regular one, as updates leave it, or any other."""
    last = t - int(rng.integers(0, min(t, 20) + 1))
    first = last - int(rng.integers(0, min(last, capacity - 20) + 1)) + 1
    if regular:
        rounds = [r for r in range(first, last + 1) if rng.random() < 0.5] + list(range(last + 1, t + 1))
    else:
        rounds = [r for r in range(max(1, t - capacity + 1), t + 1) if rng.random() < 0.5]
    n, has = len(rounds), rng.random(5) < 0.5
    values = rng.integers(-(2**63), 2**63 - 1, (n, columns)).view(np.float64)
    held = Records(
        rounds,
        np.where(np.isfinite(values), values, np.nan),
        rng.random(n) < (0.0 if regular else 0.3),
        np.where(rng.random(n) < 0.8, rng.integers(-(2**55), 2**57, n), NO_TIME).view("M8[us]") if has[0] else None,
        [rng.bytes(16).hex() if there else None for there in rng.random(n) < 0.5] if has[1] else None,
        rng.integers(0, 2**63 - 1, n) if has[2] else None,
    )
    counts: dict[str, Any] = {"updates": int(rng.integers(0, 2**40)), "bits": int(rng.integers(0, 200))}
    since = int(rng.integers(1, first + 1))
    if has[3]:
        counts |= {"due": int(rng.integers(-(2**60), 2**60))}
    clock = Clock(t, first, last, since, **counts)
    positions = dict(POSITIONS.values()) if has[4] else {}
    receipts = RECEIPTS if rng.random() < 0.3 else ()
    return State(clock, held, positions, receipts, int(rng.integers(0, 2**40)), int(rng.integers(0, 2**60)))


@given(st.integers(0, 2**40) | st.integers(0, 99), st.integers(1, 3), st.booleans(), st.integers(0, 2**32))
def test_round_trip(t: int, columns: int, regular: bool, seed: int) -> None:
    rng, capacity, name = np.random.default_rng(seed), 50, "ü".encode()
    state = make_state(rng, t, columns, capacity, regular)
    terms = Terms({}, columns, capacity, max_age=timedelta(days=30) if seed % 2 else None)
    rows = tuple(POSITIONS) if state.positions else ()
    entry = pack_entry(name, 300, terms, state, rows)
    assert is_sound(entry, name)
    again = unpack_entry(entry, terms, POSITIONS)
    assert (again, again.event) == (state, state.event)
    header, clock = read_header(entry), state.clock
    assert header.clock == clock
    assert (header.terms, header.settled, header.event) == (300, state.settled, state.event)
    assert header.count == len(state.retained)
    if regular and clock.t != clock.last:
        assert not header.flags & IRREGULAR
    assert read_sources(entry, columns) == rows
    assert read_receipts(entry, columns) == state.receipts
    subjects = read_subjects(entry, columns)
    if len(subjects):
        assert [None if not who.any() else who.tobytes().hex() for who in subjects] == list(state.retained.subjects)
    else:
        assert all(who is None for who in state.retained.subjects)
    at, bit = int(rng.integers(len(entry))), 1 << int(rng.integers(8))
    assert not is_sound(entry[:at] + bytes([entry[at] ^ bit]) + entry[at + 1 :], name)
    assert not is_sound(entry, b"u")


@given(st.integers(0, 2**32))
def test_numbers_can_be_replaced(seed: int) -> None:
    rng, terms = np.random.default_rng(seed), Terms({}, 2, 50)
    state = make_state(rng, 100, 2, 50, seed % 3 > 0)
    rows = (7, 9) if state.positions else ()
    entry = pack_entry(b"a", 5, terms, state, rows)
    assert replace_terms(entry, b"a", 500) == pack_entry(b"a", 500, terms, state, rows)
    if rows:
        assert replace_sources(entry, b"a", 2, (70, 90)) == pack_entry(b"a", 5, terms, state, (70, 90))


def test_the_bytes_of_a_small_state() -> None:
    """Rounds 3, 4 and 6 of a batch from 3 to 6, and 7 and 8 that wait."""
    held = Records([3, 4, 6, 7, 8], [[1.0], [2.0], [3.0], [4.0], [5.0]])
    state = State(Clock(t=8, first=3, last=6, since=3, updates=2, gaps=1, bits=4), held, settled=9)
    payload = bytes([0, 1, 8, 2, 4, 2, 4, 9, 2, 1, 0b1011]) + held.values.tobytes()
    assert pack_entry(b"a", 1, Terms({}, 1, 8), state) == seal_entry(payload, b"a")
    assert len(seal_entry(payload, b"a")) == len(payload) + CHECKSUM


def test_a_state_without_records_takes_a_few_bytes() -> None:
    assert len(pack_entry(b"a", 1, Terms({}, 1, 8), State.empty(1))) == 14
    header = read_header(pack_entry(b"a", 1, Terms({}, 1, 8), State.empty(1)))
    assert (header.event, header.newest, header.due) == (NEVER, NO_TIME, NEVER)


def test_records_that_do_not_fit_their_terms_are_refused() -> None:
    state = State(Clock(t=5), Records([1, 5], [[1.0], [2.0]]))
    with pytest.raises(StoreError, match="holds records over more than 4 rounds"):
        pack_entry(b"a", 1, Terms({}, 1, 4), state)
    with pytest.raises(DamagedError, match="another length than its terms say"):
        unpack_entry(pack_entry(b"a", 1, Terms({}, 1, 8), state) + b"\0", Terms({}, 1, 8), {})


def test_a_long_batch_of_which_little_is_held_takes_little_room() -> None:
    state = State(Clock(t=2**60, first=1, last=2**60), Records([2**60], [[1.0]]))
    entry = pack_entry(b"a", 1, Terms({}, 1, 8), state)
    assert len(entry) < 60
    assert unpack_entry(entry, Terms({}, 1, 8), {}) == state


def test_counts_out_of_range_are_refused() -> None:
    with pytest.raises(StoreError, match="out of range"):
        pack_varints([-1])
