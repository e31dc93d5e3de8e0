"""Removal on request: which records are meant, and what is left once they are erased immediately.

Footnote 2 of Section 2 of Immorlica et al. (2024); requests by subject, and those that are met immediately, are ours.
Guarantee: what was requested is erased in time, and the statistic continues where it can; held by
tests/stream/test_removal.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

import numpy as np
from numpy.typing import NDArray

from vestige.clock import Clock
from vestige.errors import ParameterError
from vestige.records import Records
from vestige.store import Receipt
from vestige.stream.deadlines import find_due
from vestige.stream.rules import Rules, count_until_update
from vestige.stream.update import can_close, count_bits, rewrite
from vestige.types import Bools, Ints

Rounds = int | Sequence[int] | NDArray[np.int64]


def check_rounds(rounds: Rounds, t: int) -> Ints:
    """Check the rounds whose removal is requested.

    Args:
        rounds: one or several.
        t: number of records that have arrived.

    Returns:
        The rounds as an array.

    Raises:
        ParameterError: they are not whole numbers from 1 to t.

    Example:
        >>> check_rounds(7, t=10)
        array([7])
    """
    try:
        asked = np.atleast_1d(np.asarray(rounds))
    except ValueError:  # lists of different lengths
        asked = np.array([None])
    if asked.size and (asked.dtype.kind not in "iu" or asked.min() < 1 or asked.max() > t):
        raise ParameterError(f"rounds must be whole numbers from 1 to t={t}, the newest record's round")
    return asked.astype(np.int64)


def plan_erasure(
    rules: Rules, clock: Clock, retained: Records, receipts: Sequence[Receipt]
) -> tuple[bool, tuple[int, Bools] | None]:
    """Decide how records that are leaving can be erased immediately without losing what they helped to encode.

    Args:
        rules: the rules of the stream.
        clock: the public clock.
        retained: all records that are held.
        receipts: of the removal requests.

    Returns:
        Whether to close the batch early: if that can carry on what is known, or if the answer would be rewritten into
        kept records that could not wait for another batch. And how the policy says the same without the records, see
        `vestige.stream.update.rewrite`.
    """
    waiting = retained.where(retained.rounds > clock.last)
    if can_close(rules, clock, waiting, rules.min_early_batch):
        return True, None
    rewritten = rewrite(rules, clock, retained)
    if rewritten is None or rewritten[0] == clock.last:
        return False, rewritten
    room = count_until_update(rules, replace(clock, last=clock.t), receipts)
    return room < rules.min_last_batch and can_close(rules, clock, waiting, 1), rewritten


def drop_leaving(
    rules: Rules, clock: Clock, retained: Records, rewritten: tuple[int, Bools] | None
) -> tuple[Clock, Records]:
    """Erase the records that are leaving, without an update.

    Args:
        rules: the rules of the stream.
        clock: the public clock.
        retained: all records that are held.
        rewritten: how the policy says the same without them, see `vestige.stream.update.rewrite`; None where it cannot.
            Then the statistic starts over where the kept records carry the answer only together.

    Returns:
        The clock, and the records that are left.
    """
    waits = retained.rounds > clock.last
    if rewritten is not None:
        last, keep = rewritten
        moved = _move_last(rules, clock, retained.where(waits), last)
        bits = clock.narrow(_count_rewritten_bits(rules, clock, retained, last))
        return replace(moved, bits=bits), retained.where(keep)
    if rules.all_or_nothing and (retained.leaving & ~waits).any():
        if clock.encoded:
            clock = Clock(clock.t, first=clock.last + 1, last=clock.last, since=clock.last + 1)
        return clock, retained.where(~retained.leaving & waits)
    return clock, retained.where(~retained.leaving)


def _count_rewritten_bits(rules: Rules, clock: Clock, retained: Records, last: int) -> int:
    """The bits of a word that is written into what is left of a batch from `clock.first` to `last`."""
    written = retained.where((retained.rounds >= clock.first) & (retained.rounds <= last))
    before = replace(clock, t=last, first=clock.first, last=clock.first - 1, gaps=0, since=clock.first)
    return count_bits(rules.policy, before, written)


def _move_last(rules: Rules, clock: Clock, waiting: Records, last: int) -> Clock:
    """Extend the encoded batch to `last`; the records that waited up to there are in it."""
    if last == clock.last:
        return clock
    dues = (clock.due, find_due(rules.limits, waiting.times) if rules.is_timed else None)
    return replace(
        clock,
        last=last,
        due=min((due for due in dues if due is not None), default=None),
        updates=clock.updates + 1,
        gaps=clock.gaps + clock.pending - len(waiting),
    )


def settle_receipts(receipts: Sequence[Receipt], t: int, now: datetime) -> tuple[Receipt, ...]:
    """Mark all open requests as met, and drop receipts that are not kept.

    Args:
        receipts: of the removal requests.
        t: the round in which they are met.
        now: the time at which they are met.

    Returns:
        The receipts in the same order.
    """
    return keep_receipts([receipt.mark_erased(t, now) for receipt in receipts], now)


def keep_receipts(receipts: Sequence[Receipt], now: datetime) -> tuple[Receipt, ...]:
    """Select the receipts that must still be kept: open ones, and those that have not expired.

    Args:
        receipts: of the removal requests.
        now: the present time.

    Returns:
        These receipts, in the same order.
    """
    return tuple(receipt for receipt in receipts if not receipt.is_expired(now))


def has_overdue(receipts: Sequence[Receipt], t: int, now: datetime) -> bool:
    """Tell whether an open request had to be met by now.

    Args:
        receipts: of the removal requests.
        t: number of records that have arrived.
        now: the present time.

    Returns:
        True if one of them is due, by its round or by its time.
    """
    waiting = [receipt for receipt in receipts if receipt.erased is None]
    return any(receipt.due_round is not None and receipt.due_round <= t for receipt in waiting) or any(
        receipt.due is not None and receipt.due <= now for receipt in waiting
    )
