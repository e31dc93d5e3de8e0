"""One update: the policy says which records to keep, its mask is checked, and the clock moves on.

Section 2 of Immorlica et al. (2024), A_upd: the next state is a subset of the records that were held and that arrived.
`update_batches` gives what `update_batch` gives batch by batch, in one call.
Guarantee: whether the statistic starts over never depends on values; held by tests/stream/test_rules.py.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from vestige.clock import Clock
from vestige.policy import Policy
from vestige.random import keys
from vestige.records import Records
from vestige.stream.arrivals import Arrivals
from vestige.stream.deadlines import can_wait, find_due, find_earliest, must_close
from vestige.stream.masks import check_bits, check_encodable, check_limits, check_mask, check_newest, check_rewrite
from vestige.stream.pending import Pending
from vestige.stream.rules import Rules
from vestige.times import make_missing_times
from vestige.types import Bools


def close_batch(rules: Rules, clock: Clock, held: Records, pending: Pending) -> tuple[Clock, Records]:
    """Update with the records that arrived since the last update.

    Args:
        rules: the rules of the stream.
        clock: the clock at the last update, whose `t` is its `last`.
        held: what that update kept.
        pending: the records since.

    Returns:
        The clock after this update, and the records that it keeps.
    """
    policy, seed = rules.policy, rules.seed
    if rules.has_update_many and pending.is_whole and pending.size >= rules.min_batch:
        clock, kept = update_batches(policy, seed, clock, held, pending.to_arrivals(), pending.size)
    else:
        arrivals = pending.to_records(clock.last)
        clock, kept = update_batch(policy, seed, replace(clock, t=clock.last + pending.size), held, arrivals)
    if rules.is_timed and clock.encoded:
        clock = replace(clock, due=find_due(rules.limits, pending.times[: pending.size]))
    return clock, kept


def close_full_batch(rules: Rules, clock: Clock, held: Records, arrivals: Arrivals) -> tuple[Clock, Records]:
    """Update with one full batch, of which no record is missing or leaving.

    Args:
        rules: the rules of the stream.
        clock: the clock at the last update, whose `t` is its `last`.
        held: what that update kept.
        arrivals: the records since.

    Returns:
        The clock after this update, and the records that it keeps.
    """
    pending = Pending(len(arrivals), rules.policy.columns, quick=False)
    pending.append(arrivals)
    clock, kept = close_batch(rules, clock, held, pending)
    check_limits(rules.policy, kept, clock.t, rules.limits.retention)
    return clock, kept


def update_batch(
    policy: Policy, seed: int | None, clock: Clock, held: Records, arrivals: Records
) -> tuple[Clock, Records]:
    """Update with one batch, of which records may be missing or leaving.

    Whether the statistic must start over is asked without showing values, so that the clock cannot depend on them.

    Args:
        policy: decides what is kept.
        seed: seed of its coins.
        clock: the clock before the update; its `t` counts the arrivals.
        held: the records that the update before kept.
        arrivals: the records since.

    Returns:
        The clock after the update, and the records that it keeps.

    Raises:
        RuleError: the policy's reply breaks a rule.
    """
    everything, shown = held.concat(arrivals), arrivals.without_labels()
    encodable = check_encodable(policy, policy.can_encode(clock.copy(), shown.rounds, shown.leaving))
    mask = policy.update(
        clock.copy(), held.without_labels(), arrivals.without_labels(), draw_key(policy, seed, clock.t)
    )
    kept = everything.where(check_mask(policy, mask, everything))
    if not encodable:
        return Clock(clock.t, first=clock.t + 1, last=clock.t, since=clock.t + 1), kept
    updated = replace(
        clock,
        first=clock.last + 1,
        last=clock.t,
        due=None,
        updates=clock.updates + 1,
        gaps=clock.gaps + clock.pending - len(arrivals),
        bits=clock.narrow(count_bits(policy, clock, arrivals)),
    )
    return updated, kept


def count_bits(policy: Policy, clock: Clock, arrivals: Records) -> int:
    """Count the bits of the word of a batch, of which records may be missing or leaving.

    Args:
        policy: writes it.
        clock: the clock before the update; its `t` counts the arrivals.
        arrivals: the records of the batch.

    Returns:
        The number of bits; 0 if nothing is rounded.
    """
    if len(arrivals) == clock.pending and not arrivals.leaving.any():
        return check_bits(policy, policy.count_bits(clock.pending))
    can = np.zeros(clock.pending, np.bool_)
    can[arrivals.rounds - clock.last - 1] = ~arrivals.leaving
    return check_bits(policy, policy.count_bits(clock.pending, can))


def update_batches(
    policy: Policy, seed: int | None, clock: Clock, held: Records, new: Arrivals, size: int
) -> tuple[Clock, Records]:
    """Update with one or more whole batches in one call.

    Args:
        policy: decides what is kept; it defines `update_many`.
        seed: seed of its coins.
        clock: the clock before the updates, whose `t` is its `last`.
        held: the records that the update before kept.
        new: the rows of the batches, none of which is leaving.
        size: number of records in each batch.

    Returns:
        The clock after the updates, and the records that the last of them keeps.

    Raises:
        RuleError: the policy's reply breaks a rule.
    """
    rows, t = new.rows, clock.last + len(new.rows)
    batch_keys = draw_keys(policy, seed, clock.last + size, size, len(rows) // size)
    mask = policy.update_many(clock.copy(), held.without_labels(), rows.copy(), batch_keys)
    older, newer = check_newest(policy, mask, held, len(rows))
    chosen = newer.nonzero()[0] + (len(rows) - len(newer))
    n = len(chosen)
    kept = Records._wrap(
        chosen + (clock.last + 1),
        rows.take(chosen, 0),
        np.zeros(n, np.bool_),
        make_missing_times(n) if new.times is None else new.times[chosen],
        np.empty(n, np.object_) if new.subjects is None else new.subjects[chosen],  # empty is None each
        np.zeros(n, np.int64) if new.numbers is None else new.numbers[chosen],
    )
    if len(older):
        kept = held.where(slice(len(held) - len(older), None)).where(older).concat(kept)
    updates, bits = clock.updates + len(batch_keys), clock.narrow(check_bits(policy, policy.count_bits(size)))
    return Clock(t, t - size + 1, t, clock.since, None, updates, clock.gaps, bits=bits), kept


def can_close(rules: Rules, clock: Clock, waiting: Records, min_records: int) -> bool:
    """Tell whether a batch can be closed early without losing what is known.

    Args:
        rules: the rules of the stream.
        clock: the public clock.
        waiting: the records of the batch.
        min_records: number of them that the policy must be able to keep.

    Returns:
        True if enough of its records can be kept to encode the answer.
    """
    if not rules.closes_early or np.count_nonzero(~waiting.leaving) < min_records:
        return False
    answer = rules.policy.can_encode(clock.copy(), waiting.rounds, waiting.leaving)
    return check_encodable(rules.policy, answer)


def can_close_early(rules: Rules, clock: Clock, waiting: Records, now: int) -> bool:
    """Tell whether a batch must be closed early to meet a deadline in time, and can be.

    Args:
        rules: the rules of the stream, which has a limit in time.
        clock: the public clock.
        waiting: the records of the batch.
        now: microseconds since 1970.

    Returns:
        True if what is known would be lost otherwise, and enough of its records can be kept.
    """
    oldest = find_earliest(waiting.times)
    if not must_close(rules.limits, now, oldest, clock.due):
        return False
    waits = can_wait(rules.limits, now, oldest, clock.due)
    return can_close(rules, clock, waiting, rules.min_early_batch if waits else rules.min_last_batch)


def rewrite(rules: Rules, clock: Clock, retained: Records) -> tuple[int, Bools] | None:
    """Ask the policy to say the same without the records that are leaving.

    Args:
        rules: the rules of the stream.
        clock: the public clock.
        retained: all records that are held.

    Returns:
        The last round of the batch that is encoded then, and the records to keep; None if the policy cannot, or if no
        kept record is leaving.
    """
    if not rules.all_or_nothing or not retained.leaving[retained.rounds <= clock.last].any():
        return None
    answer = rules.policy.rewrite(clock.copy(), retained.without_labels(), draw_key(rules.policy, rules.seed, clock.t))
    return None if answer is None else check_rewrite(rules.policy, answer, clock, retained)


def draw_key(policy: Policy, seed: int | None, t: int) -> int:
    """Draw the coins of a round.

    Args:
        policy: says whether nobody may guess them.
        seed: seed of the coins; None takes them from the operating system.
        t: the round.

    Returns:
        A number of 64 bits, or of 256 where nobody may guess it.
    """
    if policy.requires_secret_coins:
        return int.from_bytes(draw_keys(policy, seed, t, 1, 1).tobytes(), "little")
    return keys.derive_key(seed, t)


def draw_keys(policy: Policy, seed: int | None, first: int, step: int, count: int) -> NDArray[np.uint64]:
    """Draw the coins of several rounds.

    Args:
        policy: says whether nobody may guess them.
        seed: seed of the coins; None takes them from the operating system.
        first: the first round.
        step: number of rounds from one to the next.
        count: number of rounds.

    Returns:
        Shape (count,), or (count, 4) where nobody may guess them.
    """
    if policy.requires_secret_coins:
        if seed is None:
            return keys.generate_secret_keys(count)
        from vestige.random.kernels import derive_secret_keys  # noqa: PLC0415

        return derive_secret_keys(np.uint64(keys.derive_root(seed)), first, step, count)
    if count == 1:
        return np.array([keys.derive_key(seed, first)], np.uint64)
    from vestige.random.kernels import derive_keys  # noqa: PLC0415

    return derive_keys(np.uint64(keys.derive_root(seed)), first, step, count)
