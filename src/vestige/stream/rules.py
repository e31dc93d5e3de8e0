"""The rules of a stream: its policy, its limits and what follows from them; fixed as long as the stream lives.

Proposition 2.1 of Immorlica et al. (2024): a batched policy runs in a stream with twice the memory, so a batch is half
of the tighter limit in rounds.
Guarantee: a policy never gets a batch that it cannot work with; held by tests/stream/test_rules.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Generic

import numpy as np

from vestige.clock import Clock
from vestige.errors import ParameterError
from vestige.estimate import E, E_co
from vestige.policy import Policy
from vestige.random.keys import AuditSeed
from vestige.records import Records
from vestige.serialization import to_dict
from vestige.store import Receipt, Terms
from vestige.stream.limits import Limits
from vestige.validation import check_int, show_value

_MAX_NUMBERS = 2 * 10**8
"""Largest number of values in a batch: 1.6 gigabytes."""


@dataclass(frozen=True, slots=True)
class Rules(Generic[E_co]):
    """What is fixed as long as a stream lives.

    Attributes:
        policy: decides which records are kept.
        limits: how long records may be held.
        seed: seed of the policy's coins; None takes them from the operating system.
        batch: number of records in a full batch.
        update_every: number of records after which the policy is updated: a batch, or 1.
        min_batch: smallest batch that the policy can work with.
        min_early_batch: number of records that a batch needs to be closed early.
        min_last_batch: the same where closing it cannot wait any longer, so that a part of the answer may be lost.
        all_or_nothing: whether the kept records carry the answer only together.
        closes_early: whether a batch is closed early, so that its records count before they have to be erased.
        has_update_many: whether the policy can update several batches in one call.
    """

    policy: Policy[E_co]
    limits: Limits
    seed: int | None
    batch: int
    update_every: int
    min_batch: int
    min_early_batch: int
    min_last_batch: int
    all_or_nothing: bool
    closes_early: bool
    has_update_many: bool

    @property
    def is_timed(self) -> bool:
        """Whether records have a deadline in time."""
        return self.limits.max_age is not None


def make_rules(policy: Policy[E], limits: Limits, seed: int | AuditSeed | None) -> Rules[E]:
    """Derive the rules of a stream.

    Args:
        policy: decides which records are kept.
        limits: how long records may be held.
        seed: seed of the policy's coins.

    Returns:
        The rules.

    Raises:
        ParameterError: the policy cannot work under these limits, or must not have a seed.
    """
    batch = choose_batch(policy, *limits.in_rounds(policy), batches=2)
    return Rules(
        policy,
        limits,
        check_seed(policy, seed),
        batch,
        update_every=1 if policy.every_round else batch,
        min_batch=policy.min_batch,
        min_early_batch=min(policy.min_early_batch, batch),
        min_last_batch=min(policy.min_last_batch, batch),
        all_or_nothing=policy.all_or_nothing and not policy.every_round,
        closes_early=(policy.all_or_nothing or not policy.needs_records) and not policy.every_round,
        has_update_many=issubclass(_find_definer(policy, "update_many"), _find_definer(policy, "update")),
    )


def make_terms(rules: Rules, about: Mapping[str, object]) -> Terms:
    """Gather what a store remembers of the rules.

    Args:
        rules: the rules of the stream.
        about: what else must stay the same, as plain data.

    Returns:
        The terms.
    """
    limits = rules.limits
    return Terms(
        policy=to_dict(rules.policy),
        columns=rules.policy.columns,
        capacity=limits.retention or 3 * rules.batch,
        retention=limits.retention,
        notice=limits.notice,
        max_age=limits.max_age,
        about=about,
    )


def choose_batch(policy: Policy, name: str, limit: int, *, batches: int) -> int:
    """Choose the size of a batch under a limit.

    Args:
        policy: has to work with it.
        name: name of the limit, for errors.
        limit: largest number of records that may be held.
        batches: number of batches that must fit under the limit.

    Returns:
        The number of records in a batch.

    Raises:
        ParameterError: the policy cannot work with batches of this size.

    Example:
        >>> from vestige import Mean
        >>> choose_batch(Mean(), "retention", 96, batches=2)
        48
    """
    if not isinstance(policy, Policy):
        raise ParameterError(
            f"policy={show_value(policy)} is not a vestige.Policy; pass an instance, such as vestige.Mean()"
        )
    batch, inner = limit // batches, policy.unwrap()
    named = str(policy) if inner is policy else f"{type(policy).__name__} with {inner}"
    if batch < policy.min_batch:
        raise ParameterError(
            f"{name}={limit} gives batches of {batch}, below the {policy.min_batch} that {named} needs; "
            f"use {name} >= {batches * policy.min_batch}"
        )
    if policy.max_batch is not None and batch > policy.max_batch:
        raise ParameterError(
            f"{name}={limit} gives batches of {batch}, above the {policy.max_batch} that {named} can take; "
            f"use {name} <= {batches * policy.max_batch}, or a policy without that limit, such as vestige.Mean"
        )
    if batch * policy.columns > _MAX_NUMBERS:
        raise ParameterError(
            f"{name}={limit} gives batches of {batch:,} records of {policy.columns:,} values, more than the "
            f"{_MAX_NUMBERS:,} numbers that a batch may hold; use {name} <= "
            f"{batches * max(policy.min_batch, _MAX_NUMBERS // policy.columns):,}"
        )
    return batch


def check_seed(policy: Policy, seed: int | AuditSeed | None) -> int | None:
    """Check that a policy may be run with a seed.

    Args:
        policy: the policy.
        seed: seed of its coins; an `AuditSeed` is allowed for every policy.

    Returns:
        The seed as a number; None takes coins from the operating system.

    Raises:
        ParameterError: the seed is not a whole number, or the policy needs coins that nobody can guess.
    """
    if isinstance(seed, AuditSeed):
        return check_int("seed", seed.seed, -(2**63))
    if seed is not None and policy.requires_secret_coins:
        raise ParameterError(
            f"seed={seed!r} is not allowed for {type(policy).__name__}: anyone who knows the seed can subtract the "
            "noise; leave it out, or pass seed=vestige.audit.AuditSeed(...) for a run that protects nobody"
        )
    return None if seed is None else check_int("seed", seed, -(2**63))


def check_restart(policy: Policy, retained: Records | None, clock: Clock | None) -> tuple[Records, Clock]:
    """Check the state that a stream starts from.

    Args:
        policy: takes the records.
        retained: records of the stream that is restarted; None for a new stream.
        clock: its clock; None for a new stream.

    Returns:
        Records and clock to start from; empty for a new stream.

    Raises:
        ParameterError: one of the two is missing, or they do not belong together.
    """
    if retained is None and clock is None:
        return Records.empty(policy.columns), Clock()
    if retained is None or clock is None:
        raise ParameterError("a restart needs both: pass retained=... and clock=... of the stream to continue")
    if not isinstance(retained, Records) or not isinstance(clock, Clock):
        raise ParameterError("retained or clock is not what a stream has; pass its Records and its Clock, unchanged")
    if retained.columns != policy.columns:
        raise ParameterError(f"retained records have {retained.columns} values, but {policy} takes {policy.columns}")
    if len(retained) and retained.rounds[-1] > clock.t:
        raise ParameterError(
            f"retained records reach round {retained.rounds[-1]}, after clock.t={clock.t}; "
            "pass retained and clock as they were at one moment"
        )
    return retained, clock


def check_schedule(rules: Rules, retained: Records, clock: Clock) -> None:
    """Check that a state can be continued under these rules.

    Args:
        rules: the rules of the stream.
        retained: the records to start from.
        clock: the clock to start from.

    Raises:
        ParameterError: the stream had other rules.
    """
    retention = rules.limits.retention
    overdue = retention is not None and clock.encoded and clock.t - clock.first >= retention
    if clock.pending >= rules.update_every or (overdue and not rules.policy.every_round):
        raise ParameterError(
            f"{clock} does not fit updates every {rules.update_every} rounds; restart with the policy and the "
            "limits that the stream had"
        )
    if rules.is_timed and np.isnat(retained.times).any():
        raise ParameterError("retained holds records without a time, but max_age is set; pass their times")


def count_until_update(rules: Rules, clock: Clock, receipts: Iterable[Receipt]) -> int:
    """Count the records after the encoded batch at which the next update comes.

    That is a batch, or fewer where the encoded batch or a request is due before.

    Args:
        rules: the rules of the stream.
        clock: the public clock.
        receipts: the removal requests.

    Returns:
        The number of rounds from `clock.last` to the next update.
    """
    count, retention = rules.update_every, rules.limits.retention
    if retention is not None and clock.encoded and rules.all_or_nothing:
        count = min(count, clock.first + retention - 1 - clock.last)
    for receipt in receipts:
        if receipt.erased is None and receipt.due_round is not None and receipt.due_round > clock.last:
            count = min(count, receipt.due_round - clock.last)
    return count


def _find_definer(policy: Policy, method: str) -> type:
    """The class that defines this method."""
    return next(cls for cls in type(policy).__mro__ if method in vars(cls))
