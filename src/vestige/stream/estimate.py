"""An estimate: what the retained records say, with what a reader should know about it.

Section 2 of Immorlica et al. (2024), A_out: the answer is a function of the retained records and the clock.
Guarantee: the answer is a finite number or an array of them, or an error; held by tests/stream/test_rules.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from vestige.errors import NoRecordsError, RuleError
from vestige.policy import Answer, Policy, count_waiting
from vestige.records import Clock, Records
from vestige.types import Floats


@dataclass(frozen=True, slots=True, eq=False)
class Estimate:
    """What the retained records say.

    Attributes:
        value: the statistic; a float in one dimension, an array otherwise.
        t: number of records that have arrived.
        held: number of records that are retained.
        oldest_age: number of rounds since the oldest of them arrived.
        notes: what to know about the answer, in sentences.
        details: the policy's full answer; its attributes are attributes of the estimate.
        since: first round that the statistic counts; above 1 if it has started over.
    """

    value: float | Floats
    t: int
    held: int
    oldest_age: int
    notes: tuple[str, ...] = ()
    details: Answer | None = None
    since: int = 1

    def __getattr__(self, name: str) -> Any:
        """An attribute of the policy's answer besides the value, such as a standard error."""
        if name.startswith("_") or name in self.__slots__ or self.details is None:
            raise AttributeError(f"this estimate has no {name!r}; it has {', '.join(self.__slots__[:5])}")
        return getattr(self.details, name)


def make_estimate(policy: Policy, batch: int, clock: Clock, retained: Records) -> Estimate:
    """Ask the policy for its answer, and check it.

    Args:
        policy: the policy that chose the records.
        batch: number of records in a full batch.
        clock: the public clock.
        retained: all records that are held.

    Returns:
        The answer with its notes.

    Raises:
        NoRecordsError: no record is held.
        RuleError: the answer is not a finite number or an array of them.
    """
    if not len(retained):
        raise NoRecordsError(
            "no record has arrived yet; push one first"
            if not clock.t
            else f"no record is held after round {clock.t}; the statistic continues with the next one"
        )
    answer = policy.answer(clock.copy(), retained.shown())
    details = answer if isinstance(answer, Answer) else None
    value = _check_answer(policy, details.value if details else answer)
    notes = find_notes(policy, batch, clock) + (details.notes if details else ())
    return Estimate(value, clock.t, len(retained), clock.t - int(retained.rounds[0]), notes, details, clock.since)


def find_notes(policy: Policy, batch: int, clock: Clock) -> tuple[str, ...]:
    """Say what the clock tells about how the answer came about.

    Args:
        policy: the policy that answers.
        batch: number of records in a full batch.
        clock: the public clock.

    Returns:
        Sentences for the user; empty if everything went as usual.
    """
    notes = []
    if clock.since > 1:
        notes.append(
            f"Counts from round {clock.since} on: earlier information had to be erased, by deadline or request, before "
            "it could be carried over."
        )
    length = clock.last - clock.first + 1
    if clock.encoded and length < batch and not policy.every_round:
        notes.append(
            f"The last batch was closed early, with {length} of {batch} records, to meet a deadline or a request; the "
            "answer may be less exact."
        )
    elif clock.encoded and length > batch:
        notes.append(
            "A request was met immediately, so the answer was rewritten into the records that were left; it may be "
            "less exact."
        )
    return tuple(notes)


def _check_answer(policy: Policy, value: object) -> float | Floats:
    if isinstance(value, np.ndarray) and value.dtype == np.float64 and np.isfinite(value).all():
        value.flags.writeable = False
        return value
    if isinstance(value, float) and np.isfinite(value):
        return value
    raise RuleError(
        f"{type(policy).__name__}.answer returned a {type(value).__name__} that is neither a finite float nor an array "
        "of finite floats; return one of these"
    )


def count_represented(policy: Policy, clock: Clock, retained: Records) -> int:
    """Count the records that the statistic counts: those that updates have learned from, and those that wait.

    Args:
        policy: the policy that answers.
        clock: the public clock.
        retained: all records that are held.

    Returns:
        Their number; where each record stands for itself alone, as in a window, that of the records that are held.
    """
    return clock.encoded + count_waiting(clock, retained) if policy.all_or_nothing else len(retained)
