"""The bytes of a state: read back bit for bit, always as many, and a function of records and clock alone."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vestige import Clock, Receipt, Records, StoreError
from vestige.store import LedgerEntry, Position
from vestige.store.sqlite.layout import (
    DamagedError,
    Heads,
    count_state_bytes,
    pack_ledger_entry,
    pack_position,
    pack_receipt,
    pack_state,
    seal,
    unpack_ledger_entry,
    unpack_position,
    unpack_receipt,
    unpack_state,
    unseal,
)

moments = st.datetimes(datetime(1990, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC))


@given(st.integers(0, 200), st.integers(1, 3), st.integers(0, 2**32))
def test_round_trip(t: int, columns: int, seed: int) -> None:
    rng, capacity = np.random.default_rng(seed), 50
    rounds = [r for r in range(max(1, t - capacity + 1), t + 1) if rng.random() < 0.5]
    n = len(rounds)
    values = rng.integers(-(2**63), 2**63 - 1, (n, columns)).view(np.float64)
    records = Records(
        rounds,
        np.where(np.isfinite(values), values, 0.0),
        rng.random(n) < 0.3,
        rng.integers(-(2**55), 2**57, n).astype("M8[us]"),
        [rng.bytes(16).hex() if there else None for there in rng.random(n) < 0.5],
        rng.integers(0, 2**62, n),
    )
    due = None if seed % 2 else seed
    counts: dict[str, Any] = {"updates": t, "gaps": min(t, 5) // 2, "word": 1 + t % 2, "rounding": t / 256}
    clock = Clock(t, min(t, 3) or 1, min(t, 5), since=1, due=due, **counts)
    body = pack_state(clock, records, capacity, Heads(7, 8), 9)
    assert len(body) == count_state_bytes(columns, capacity)
    assert unpack_state(body, columns, capacity) == (clock, records, Heads(7, 8), 9)
    whole = seal(body, "states", 3, "ü")
    assert unseal(whole, "states", 3, "ü") == body
    at, bit = int(rng.integers(len(whole))), 1 << int(rng.integers(8))
    changed = whole[:at] + bytes([whole[at] ^ bit]) + whole[at + 1 :]
    with pytest.raises(DamagedError):
        unseal(changed, "states", 3, "ü")
    for other in (("sources", 3, "ü"), ("states", 4, "ü"), ("states", 3, "u"), ("states", 3), ("states", "3ü")):
        with pytest.raises(DamagedError):
            unseal(whole, *other)


@given(
    moments,
    st.integers(0, 2**60),
    st.none() | moments,
    st.none() | moments,
    st.none() | st.text(min_size=1),
    st.timedeltas(timedelta(0), timedelta(days=10**6)),
)
def test_receipts_too(
    requested: datetime,
    t: int,
    due: datetime | None,
    erased: datetime | None,
    reference: str | None,
    keep: timedelta,
) -> None:
    done = None if erased is None else t + 3
    receipt = Receipt("00ff" * 4, requested, t, None if due else t + 5, due, erased, done, reference, keep)
    body = pack_receipt(receipt)
    assert unpack_receipt(body) == receipt
    assert len(body) == len(pack_receipt(replace(receipt, erased=None, erased_round=None))), "a row is overwritten"
    for streams, failed in ((None, ()), ((), ()), (("a", "b/ü"), ()), (None, ("c",))):
        entry = LedgerEntry(receipt, streams, failed)
        assert unpack_ledger_entry(pack_ledger_entry(entry)) == entry


def test_only_the_slot_of_a_record_is_not_zero() -> None:
    """Ten slots: rounds of 8 bytes, values of 8, marks of 1, times of 8, subjects of 16, numbers of 8."""
    body = pack_state(Clock(t=13, last=3), Records([12], [[1.5]], [True], ["2024-01-01"], ["ab" * 16], [7]), 10)[96:]
    used, start = set(), 0
    for size in (8, 8, 1, 8, 16, 8):
        used |= set(range(start + 2 * size, start + 3 * size))
        start += 10 * size
    assert len(body) == start
    assert {i for i, byte in enumerate(body) if byte} <= used
    assert not any(pack_state(Clock(t=13, last=3), Records([12], [[0.0]]), 10)[88 + 80 :]), (
        "no mark, time, subject or number"
    )


def test_a_time_in_1970_is_one() -> None:
    records = Records([1, 2], [[1.0], [2.0]], times=["1970-01-01", "NaT"])
    assert unpack_state(pack_state(Clock(t=2), records, 4), 1, 4)[1] == records


@given(st.text(st.characters()), st.binary(max_size=72), st.integers(0, 2**15 - 1))
def test_positions_too(source: str, value: bytes, slot: int) -> None:
    body = pack_position(source, Position(value, slot))
    assert len(body) == len(pack_position(source, Position())), "always as long, so that a row is overwritten"
    assert unpack_position(body) == (source, Position(value, slot))


def test_two_records_never_share_a_slot() -> None:
    """Four slots hold four rounds: a fifth would overwrite the first."""
    pack_state(Clock(t=5), Records([2, 5], [[1.0], [2.0]]), 4)
    with pytest.raises(StoreError, match="holds records over more than 4 rounds"):
        pack_state(Clock(t=5), Records([1, 5], [[1.0], [2.0]]), 4)


def test_a_record_from_after_the_clock_is_damage() -> None:
    with pytest.raises(DamagedError, match="lies where its round does not say"):
        unpack_state(pack_state(Clock(t=3), Records([4], [[1.0]]), 4), 1, 4)
