"""What the streaming and the batched model share: the policy, the clock, the retained records, and one update.

Section 2 of Immorlica et al. (2024). Whatever a policy returns, the rules hold: its mask is checked, and an error
leaves the state as it was; held by tests/stream/test_rules.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vestige import coins
from vestige.errors import NoRecordsError, ParameterError, RuleError
from vestige.policy import Policy
from vestige.records import Bools, Clock, Floats, Records


@dataclass(frozen=True, slots=True, eq=False)
class Estimate:
    """What the retained records say, and how much that is.

    Attributes:
        value: the statistic; a float in one dimension, else an array.
        t: how many records have arrived.
        held: how many records are retained.
        oldest_age: how many rounds ago the oldest of them arrived.
        notes: what to know about the answer, in sentences.
    """

    value: float | Floats
    t: int
    held: int
    oldest_age: int
    notes: tuple[str, ...] = ()


def _batch_of(policy: Policy, name: str, value: int, per_batch: int) -> int:
    """The size of a batch under the limit `name=value`, if the policy can work with it."""
    if not isinstance(policy, Policy):
        raise ParameterError(f"policy={policy!r} is no vestige.Policy; pass an instance, such as vestige.Mean()")
    batch = value // per_batch
    if batch < policy.minimum:
        raise ParameterError(
            f"{name}={value} gives batches of {batch}, below the {policy.minimum} that {policy} needs; "
            f"use {name} >= {per_batch * policy.minimum}"
        )
    if policy.maximum is not None and batch > policy.maximum:
        raise ParameterError(
            f"{name}={value} gives batches of {batch}, above the {policy.maximum} that {policy} can take; "
            f"use {name} <= {per_batch * policy.maximum}, or a policy without that limit, such as vestige.Mean"
        )
    return batch


class Runtime:
    """What both models share: the policy, the clock, the retained records, and one update."""

    def __init__(
        self,
        policy: Policy,
        limit: tuple[str, int],
        per_batch: int,
        seed: int | None,
        retained: Records | None,
        clock: Clock | None,
    ) -> None:
        batch = _batch_of(policy, *limit, per_batch)
        if seed is not None and (isinstance(seed, bool) or not isinstance(seed, int | np.integer)):
            raise ParameterError(
                f"seed={seed!r} is no whole number; use one, or None for coins of the operating system"
            )
        if (retained is None) != (clock is None):
            raise ParameterError("a restart needs both: pass retained=... and clock=... of the stream to go on with")
        self._policy = policy
        self._batch = 1 if policy.every_round else batch
        self._seed = None if seed is None else int(seed)
        self._clock = clock or Clock()
        self._held = retained if retained is not None else Records.none(policy.columns)
        self._check_restart()

    def _check_restart(self) -> None:
        if self._held.columns != self._policy.columns:
            raise ParameterError(
                f"retained records have {self._held.columns} values, but {self._policy} takes {self._policy.columns}"
            )
        if len(self._held) and self._held.rounds[-1] > self._clock.t:
            raise ParameterError(
                f"retained records reach round {self._held.rounds[-1]}, after clock.t={self._clock.t}; "
                "pass retained and clock as they were at one moment"
            )

    @property
    def policy(self) -> Policy:
        """The policy that decides what is kept."""
        return self._policy

    @property
    def batch(self) -> int:
        """How many records come between two updates."""
        return self._batch

    @property
    def clock(self) -> Clock:
        """The public clock; with `retained`, the whole state."""
        return self._clock

    @property
    def t(self) -> int:
        """How many records have arrived."""
        return self._clock.t

    @property
    def retained(self) -> Records:
        """The records that are held: with the clock, the whole state."""
        return self._held

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self._policy}: t={self.t}, {len(self.retained)} held>"

    def estimate(self) -> Estimate:
        """The policy's answer, recomputed from the retained records and the clock alone."""
        retained, clock = self.retained, self._clock
        if not len(retained):
            raise NoRecordsError(
                "no record has arrived yet; push one first"
                if not clock.t
                else f"all records had to be erased by round {clock.t}; the statistic starts anew with the next one"
            )
        notes: tuple[str, ...] = ()
        if clock.since > 1:
            notes = (
                f"Counts from round {clock.since} on: what was known before had to be erased before it could be "
                "carried on.",
            )
        value = self._policy.answer(clock, retained.shown())
        if isinstance(value, np.ndarray):
            value.flags.writeable = False
        return Estimate(value, clock.t, len(retained), clock.t - int(retained.rounds[0]), notes)

    def forget(self, *, rounds: int | Sequence[int] | NDArray[np.int64]) -> int:
        """Ask for the records of these rounds to be removed: the next update may learn from them, not keep them.

        Returns:
            how many of them are still held, and will be gone with the next update; the others are gone already.
        """
        asked = np.atleast_1d(np.asarray(rounds))
        if asked.size and (asked.dtype.kind not in "iu" or asked.min() < 1 or asked.max() > self.t):
            raise ParameterError(f"rounds must be whole numbers from 1 to t={self.t}, the newest record's round")
        return self._mark(asked.astype(np.int64))

    def _mark(self, rounds: NDArray[np.int64]) -> int:
        named = np.isin(self._held.rounds, rounds)
        self._held = self._held.with_leaving(self._held.leaving | named)
        return int(named.sum())

    def _updated(self, clock: Clock, held: Records, arrivals: Records) -> tuple[Clock, Records]:
        """The clock and the records after one update; the policy's mask is checked against the rules."""
        everything = held.followed_by(arrivals)
        coin = coins.key(self._seed, clock.t)
        mask = self._policy.update(clock, held.shown(), arrivals.shown(), coin)
        kept = everything.where(self._checked(mask, everything))
        if len(kept):
            after = Clock(clock.t, first=clock.last + 1, last=clock.t, since=clock.since)
        else:
            after = Clock(clock.t, first=clock.t + 1, last=clock.t, since=clock.t + 1)
        return after, kept

    def _checked(self, mask: Bools, everything: Records) -> Bools:
        """The mask, if it is one and keeps nothing that must leave."""
        name = type(self._policy).__name__
        if not isinstance(mask, np.ndarray) or mask.dtype != np.bool_ or mask.shape != (len(everything),):
            got = f"{mask.dtype} of shape {mask.shape}" if isinstance(mask, np.ndarray) else type(mask).__name__
            raise RuleError(
                f"{name}.update returned {got}; needs a bool array of shape ({len(everything)},): "
                "one entry per retained record, then one per arrival"
            )
        forbidden = mask & everything.leaving
        if forbidden.any():
            raise RuleError(
                f"{name}.update keeps the record of round {everything.rounds[forbidden][0]}, which is leaving; "
                "keep only records whose `leaving` is False"
            )
        return mask
