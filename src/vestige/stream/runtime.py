"""What the streaming and the batched model share: the policy, the clock, the retained records, and one update.

Section 2 of Immorlica et al. (2024). Whatever a policy returns, the rules hold: its mask is checked, and an error
leaves the state as it was; held by tests/stream/test_rules.py.
"""

from __future__ import annotations

import copy
import threading
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from vestige.channels import in_slots
from vestige.channels.rounding import add_rounding, said_bits
from vestige.errors import NoRecordsError, ParameterError, RuleError
from vestige.policy import Answer, Policy, count_waiting
from vestige.random import keys
from vestige.random.keys import AuditSeed
from vestige.records import Clock, Records
from vestige.stream.masks import check_encodable, check_mask
from vestige.types import Bools, Floats
from vestige.validation import check_int, show_value

_MOST_NUMBERS = 2 * 10**8
"""So many numbers fit into a batch: 1.6 gigabytes."""


@dataclass(frozen=True, slots=True, eq=False)
class Estimate:
    """What the retained records say, and how much that is.

    Attributes:
        value: the statistic; a float in one dimension, else an array.
        t: how many records have arrived.
        held: how many records are retained.
        oldest_age: how many rounds ago the oldest of them arrived.
        notes: what to know about the answer, in sentences.
        details: what the policy says besides; its attributes are attributes of the estimate.
        since: the round since which it counts; above 1 if the statistic has started over.
    """

    value: float | Floats
    t: int
    held: int
    oldest_age: int
    notes: tuple[str, ...] = ()
    details: Answer | None = None
    since: int = 1

    def __getattr__(self, name: str) -> Any:
        """What the policy's answer says besides the value, such as a standard error."""
        if name.startswith("_") or name in self.__slots__ or self.details is None:
            raise AttributeError(f"this estimate has no {name!r}; it has {', '.join(self.__slots__[:5])}")
        return getattr(self.details, name)


def _batch_of(policy: Policy, name: str, value: int, per_batch: int) -> int:
    """The size of a batch under the limit `name=value`, if the policy can work with it."""
    if not isinstance(policy, Policy):
        raise ParameterError(
            f"policy={show_value(policy)} is not a vestige.Policy; pass an instance, such as vestige.Mean()"
        )
    batch = value // per_batch
    if batch < policy.min_batch:
        raise ParameterError(
            f"{name}={value} gives batches of {batch}, below the {policy.min_batch} that {policy} needs; "
            f"use {name} >= {per_batch * policy.min_batch}"
        )
    if policy.max_batch is not None and batch > policy.max_batch:
        raise ParameterError(
            f"{name}={value} gives batches of {batch}, above the {policy.max_batch} that {policy} can take; "
            f"use {name} <= {per_batch * policy.max_batch}, or a policy without that limit, such as vestige.Mean"
        )
    if batch * policy.columns > _MOST_NUMBERS:
        raise ParameterError(
            f"{name}={value} gives batches of {batch:,} records of {policy.columns:,} values, more than the "
            f"{_MOST_NUMBERS:,} numbers that a batch may hold; use {name} <= "
            f"{per_batch * max(policy.min_batch, _MOST_NUMBERS // policy.columns):,}"
        )
    return batch


def _checked_seed(policy: Policy, seed: int | AuditSeed | None) -> int | None:
    """The number to draw coins from, if there is one and the policy may be run with it."""
    if isinstance(seed, AuditSeed):
        return check_int("seed", seed.seed, -(2**63))
    if seed is not None and policy.requires_secret_coins:
        raise ParameterError(
            f"seed={seed!r} is not for {type(policy).__name__}: who knows the seed can take the noise off again; leave "
            "it out, or pass seed=vestige.audit.Rehearsal(...) for a run that protects nobody"
        )
    return None if seed is None else check_int("seed", seed, -(2**63))


def check_restart(policy: Policy, retained: Records | None, clock: Clock | None) -> tuple[Records, Clock]:
    """The state to begin with: nothing, or what a stream had."""
    if retained is None and clock is None:
        return Records.none(policy.columns), Clock()
    if retained is None or clock is None:
        raise ParameterError("a restart needs both: pass retained=... and clock=... of the stream to go on with")
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


class Runtime(ABC):
    """What both models share."""

    def __init__(self, policy: Policy, limit: tuple[str, int], per_batch: int, seed: int | AuditSeed | None) -> None:
        self._policy = policy
        self._batch = _batch_of(policy, *limit, per_batch)
        self._seed = _checked_seed(policy, seed)
        self._words = check_int("words", policy.words, 0)
        self._lock = threading.RLock()

    def __getstate__(self) -> dict[str, object]:
        with self._lock:
            return {name: value for name, value in vars(self).items() if name != "_lock"}

    def __setstate__(self, state: dict[str, object]) -> None:
        vars(self).update(state)
        self._lock = threading.RLock()

    def __copy__(self) -> Self:
        """As deep as any copy, since two streams cannot share records."""
        return copy.deepcopy(self)

    @property
    def policy(self) -> Policy:
        """The policy that decides what is kept."""
        return self._policy

    @property
    def batch(self) -> int:
        """How many records a batch has; a policy that updates every round does so within it."""
        return self._batch

    @property
    @abstractmethod
    def clock(self) -> Clock:
        """The public clock; with `retained`, the whole state."""

    @property
    @abstractmethod
    def retained(self) -> Records:
        """The records that are held; with the clock, the whole state."""

    @property
    def t(self) -> int:
        """How many records have arrived."""
        return self.clock.t

    @property
    def counted(self) -> int:
        """How many records the statistic counts: those that updates have learned from, and those that wait.

        Where each record speaks for itself alone, as in a window, those that are held.
        """
        with self._lock:
            clock, retained = self.clock, self.retained
        return clock.encoded + count_waiting(clock, retained) if self._policy.all_or_nothing else len(retained)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self._policy}: t={self.t}, {len(self.retained)} held>"

    def estimate(self) -> Estimate:
        """The policy's answer, recomputed from the retained records and the clock alone."""
        with self._lock:
            retained, clock = self.retained, self.clock
        if not len(retained):
            raise NoRecordsError(
                "no record has arrived yet; push one first"
                if not clock.t
                else f"no record is held after round {clock.t}; the statistic goes on with the next one"
            )
        notes = self._notes(clock)
        answer = self._policy.answer(clock.copy(), retained.shown())
        details = answer if isinstance(answer, Answer) else None
        value = _checked_answer(self._policy, details.value if details else answer)
        age = clock.t - int(retained.rounds[0])
        notes += details.notes if details else ()
        return Estimate(value, clock.t, len(retained), age, notes, details, clock.since)

    def _notes(self, clock: Clock) -> tuple[str, ...]:
        """What the clock tells about how the answer came about."""
        notes = []
        if clock.since > 1:
            notes.append(
                f"Counts from round {clock.since} on: what was known before had to be erased before it could be "
                "carried on, by deadline or request."
            )
        length = clock.last - clock.first + 1
        if clock.encoded and length < self._batch and not self._policy.every_round:
            notes.append(
                f"The last batch was closed early, with {length} of {self._batch} records, to meet a deadline or a "
                "request; the answer may be less exact."
            )
        elif clock.encoded and length > self._batch:
            notes.append(
                "A request was met at once, so the answer was written anew into the records that were left; it may be "
                "less exact."
            )
        return tuple(notes)

    def _coins(self, t: int) -> int:
        """The coins of round `t`."""
        if self._policy.requires_secret_coins:
            return int.from_bytes(self._secret_keys(t, 1, 1).tobytes(), "little")
        return keys.key(self._seed, t)

    def _secret_keys(self, first: int, step: int, count: int) -> NDArray[np.uint64]:
        """Coins of `count` rounds, every `step` from `first` on, 256 bits each."""
        if self._seed is None:
            return keys.secret_keys(count)
        from vestige.random.kernels import derive_secret_keys  # noqa: PLC0415

        return derive_secret_keys(np.uint64(keys.root(self._seed)), first, step, count)

    def _updated(self, clock: Clock, held: Records, arrivals: Records) -> tuple[Clock, Records]:
        """The clock and the records after one update; the policy's mask is checked against the rules.

        Whether the statistic must start anew is asked without showing values, so that the clock cannot depend on them.
        """
        policy, everything = self._policy, held.followed_by(arrivals)
        asked = arrivals.shown()
        encodable = check_encodable(policy, policy.can_encode(clock.copy(), asked.rounds, asked.leaving))
        mask = policy.update(clock.copy(), held.shown(), arrivals.shown(), self._coins(clock.t))
        kept = everything.where(check_mask(policy, mask, everything))
        if encodable:
            rounding = self._rounded(clock, asked.rounds, asked.leaving) if self._words else 0.0
            made = replace(
                clock,
                first=clock.last + 1,
                last=clock.t,
                due=None,
                updates=clock.updates + 1,
                rounding=rounding,
                gaps=clock.gaps + clock.pending - len(arrivals),
            )
            return made, kept
        return Clock(clock.t, first=clock.t + 1, last=clock.t, since=clock.t + 1), kept

    def _rounded(self, clock: Clock, rounds: NDArray[np.int64], leaving: Bools) -> float:
        """The clock's rounding after an update with arrivals of these rounds, of which some cannot be kept."""
        can = in_slots(rounds - clock.last - 1, ~leaving, clock.pending)
        return add_rounding(clock.rounding, self._carried(clock.encoded, len(rounds)), said_bits(can, self._words))

    def _carried(self, encoded: int, records: int) -> float:
        """The share that so many encoded records have in all, once so many more are learned from."""
        from vestige.statistics.kernels import share_of  # noqa: PLC0415

        return 1.0 - float(share_of(records, encoded + records, self._policy.decay))


def check_rounds(rounds: int | Sequence[int] | NDArray[np.int64], t: int) -> NDArray[np.int64]:
    """The rounds whose removal is requested, if they have come."""
    try:
        asked = np.atleast_1d(np.asarray(rounds))
    except ValueError:  # lists of different lengths
        asked = np.array([None])
    if asked.size and (asked.dtype.kind not in "iu" or asked.min() < 1 or asked.max() > t):
        raise ParameterError(f"rounds must be whole numbers from 1 to t={t}, the newest record's round")
    return asked.astype(np.int64)


def _checked_answer(policy: Policy, value: object) -> float | Floats:
    """The policy's answer, if it is one: a finite float, or an array of such."""
    if isinstance(value, np.ndarray) and value.dtype == np.float64 and np.isfinite(value).all():
        value.flags.writeable = False
        return value
    if isinstance(value, float) and np.isfinite(value):
        return value
    raise RuleError(
        f"{type(policy).__name__}.answer returned a {type(value).__name__} that is no finite float and no array of "
        "such; answer with one"
    )
