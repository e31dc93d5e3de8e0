"""The bytes of sealed rows, positions, receipts and requests: read back bit for bit, and bound to their place."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vestige import Receipt
from vestige.store import LedgerEntry, Position
from vestige.store.layout import (
    DamagedError,
    pack_ledger_entry,
    pack_position,
    pack_receipt,
    seal,
    unpack_ledger_entry,
    unpack_position,
    unpack_receipt,
    unseal,
)

moments = st.datetimes(datetime(1990, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC))


@given(st.binary(), st.integers(0, 2**32))
def test_a_row_is_read_back_in_its_own_place_only(body: bytes, seed: int) -> None:
    rng, whole = np.random.default_rng(seed), seal(body, "sources", 3, "ü")
    assert unseal(whole, "sources", 3, "ü") == body
    at, bit = int(rng.integers(len(whole))), 1 << int(rng.integers(8))
    changed = whole[:at] + bytes([whole[at] ^ bit]) + whole[at + 1 :]
    with pytest.raises(DamagedError):
        unseal(changed, "sources", 3, "ü")
    for other in (("terms", 3, "ü"), ("sources", 4, "ü"), ("sources", 3, "u"), ("sources", 3), ("sources", "3ü")):
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
    forever = unpack_receipt(pack_receipt(replace(receipt, keep=timedelta.max)))
    assert forever.keep > timedelta(days=365 * 10_000), "longer than any calendar"
    for streams, failed in ((None, ()), ((), ()), (("a", "b/ü"), ()), (None, ("c",))):
        entry = LedgerEntry(receipt, streams, failed)
        assert unpack_ledger_entry(pack_ledger_entry(entry)) == entry


@given(st.text(st.characters()), st.binary(max_size=72), st.integers(0, 2**15 - 1))
def test_positions_too(source: str, value: bytes, slot: int) -> None:
    body = pack_position(source, Position(value, slot))
    assert len(body) == len(pack_position(source, Position())), "always as long, so that a row is overwritten"
    assert unpack_position(body) == (source, Position(value, slot))
