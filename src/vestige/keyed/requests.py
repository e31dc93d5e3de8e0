"""Removal requests to all streams of a key: receipts that are the same whether there were records or not.

Guarantee: held by tests/keyed/test_streams.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

from vestige.keyed.shards import Shards
from vestige.store import Receipt
from vestige.stream import Stream
from vestige.times import to_ticks, wall_clock


def forget_subject(shards: Shards, name: str, *, now: bool) -> dict[int, Exception]:
    """Request the removal of the records of a subject from each stream that holds some.

    Args:
        shards: the streams.
        name: its pseudonym.
        now: whether to erase them immediately.

    Returns:
        What the policy raised, by the number of the stream; the records were erased all the same.
    """

    def forget(stream: Stream) -> None:
        held = stream.retained
        # a receipt of its own is not kept once it has been met
        stream.forget(rounds=held.rounds[held.subjects == name], now=now, keep_receipt=timedelta(0))

    shards.requests += 1
    for shard in shards:
        shard.track_requests()
    troubles = {}
    for number in shards.find_subject(name):
        problem = shards.attempt(number, forget)
        if problem is not None:
            troubles[number] = problem
    return troubles


def confirm(shards: Shards, receipts: Mapping[int, Receipt], swept: int | None) -> dict[int, Receipt]:
    """Mark the requests that have been met, and drop receipts that have expired.

    Args:
        shards: the streams.
        receipts: by the numbers of the requests.
        swept: the time of a sweep, in microseconds since 1970; None if there was none.

    Returns:
        The receipts that are left.
    """
    now, met = wall_clock(), shards.find_settled()
    made = {}
    for number, receipt in receipts.items():
        due = swept is not None and receipt.due is not None and to_ticks(receipt.due) <= min(swept, to_ticks(now))
        made[number] = receipt.mark_erased(receipt.requested_round, now) if number <= met or due else receipt
    return {number: receipt for number, receipt in made.items() if not receipt.is_expired(now)}
