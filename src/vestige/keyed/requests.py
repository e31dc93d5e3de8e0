"""Removal requests to all streams of a key: receipts that are the same whether there were records or not.

Guarantee: held by tests/keyed/test_streams.py.
"""

from __future__ import annotations

from datetime import timedelta

from vestige.keyed.shards import Shards
from vestige.store import Ledger, LedgerEntry
from vestige.store.table_store import TableStore
from vestige.stream import Stream
from vestige.times import to_ticks, wall_clock


def forget_subject(shards: Shards, name: str, *, now: bool) -> tuple[list[int], dict[int, Exception]]:
    """Request the removal of the records of a subject from each stream that holds some.

    Args:
        shards: the streams.
        name: its pseudonym.
        now: whether to erase them immediately.

    Returns:
        The numbers of the streams that hold some; and what the policy raised, by the number of the stream: the records
        were erased all the same.
    """

    def forget(stream: Stream) -> None:
        held = stream.retained
        # a receipt of its own is not kept once it has been met
        stream.forget(rounds=held.rounds[held.subjects == name], now=now, keep_receipt=timedelta(0))

    shards.begin_request(shards.requests + 1)
    troubles, asked = {}, shards.find_subject(name)
    for number in asked:
        problem = shards.attempt(number, forget)
        if problem is not None:
            troubles[number] = problem
    return asked, troubles


def settle(ledger: Ledger, settled: int, arrived: int, swept: int | None, *, has_open: bool) -> Ledger:
    """Mark the requests to all streams that have been met, and drop receipts that have expired.

    Args:
        ledger: the requests.
        settled: number of the newest request that all streams have met.
        arrived: number of records that have arrived in all streams.
        swept: the time of a sweep, in microseconds since 1970; None if there was none.
        has_open: whether a stream has a request that is open.

    Returns:
        The ledger; the same object if nothing has changed.
    """
    now = wall_clock()

    def is_met(number: int, asked: LedgerEntry) -> bool:
        if asked.streams is not None or asked.failed:
            return False  # `vestige.operations` knows more of these
        due = asked.receipt.due
        is_due = swept is not None and due is not None and to_ticks(due) <= min(swept, to_ticks(now))
        return settled >= number or (is_due and not has_open)

    return ledger.settle(is_met, arrived, now).drop_expired(now)


def settle_store(store: TableStore, swept: int | None) -> None:
    """Note in the ledger of a store, in which all streams are written, which requests have been met.

    Args:
        store: the store.
        swept: the time of a sweep, in microseconds since 1970; None if there was none.
    """
    with store.transaction(), store._use() as tables:  # nobody files a request meanwhile
        ledger = store.read_ledger()
        heads, wrong = tables.buckets.read_heads()
        if not wrong:
            settled, arrived = int(heads.settled.min()), sum(heads.arrived.tolist())
            left = settle(ledger, settled, arrived, swept, has_open=bool(heads.open.any()))
            if left is not ledger:
                store.write_ledger(left)
