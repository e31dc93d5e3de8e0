"""Making an estimate: the answer of the policy, checked, with what a reader should know about it.

Section 2 of Immorlica et al. (2024), A_out: the answer is a function of the retained records and the clock.
Guarantee: the answer is a finite number or an array of them, or an error; held by tests/stream/test_rules.py.
"""

from __future__ import annotations

from dataclasses import replace
from typing import cast

import numpy as np

from vestige.clock import Clock
from vestige.errors import NoRecordsError, RuleError
from vestige.estimate import E, Estimate
from vestige.policy import UNPROTECTED, Policy, count_waiting, leave_out_waiting, stands_alone
from vestige.records import Records
from vestige.types import Floats


def make_estimate(
    policy: Policy[E],
    batch: int,
    clock: Clock,
    retained: Records,
    column_names: tuple[str, ...] = (),
    *,
    waiting: bool = False,
) -> E:
    """Ask the policy for its answer, and check it.

    Args:
        policy: the policy that chose the records.
        batch: number of records in a full batch.
        clock: the public clock.
        retained: all records that are held.
        column_names: the names of the columns of a record; empty where they are not known.
        waiting: whether the records that wait for the next update count too where the policy hides them.

    Returns:
        The answer with its notes.

    Raises:
        NoRecordsError: no record is held, and the answer needs one.
        RuleError: the answer is not a finite number or an array of them.
    """
    if not len(retained) and policy.needs_records:
        raise NoRecordsError(
            "no record has arrived yet; push one first"
            if not clock.t
            else f"no record is held after round {clock.t}; the statistic continues with the next one"
        )
    hides, everyone = policy.hides_waiting and not waiting, retained.without_labels()
    at = leave_out_waiting(clock, retained)[0] if hides else clock
    answer = (policy.answer_with_waiting if waiting else policy.answer)(clock.copy(), everyone)
    counted = count_represented(policy, clock, retained, waiting=waiting)
    estimate = answer if isinstance(answer, Estimate) else cast("E", Estimate(answer))
    return replace(
        estimate,
        value=_check_answer(policy, estimate.value),
        notes=find_notes(policy, batch, at, counted) + estimate.notes + _note_waiting(policy, clock, waiting=waiting),
        t=clock.t,
        as_of=at.t,
        since=clock.since,
        counted=counted,
        held=len(retained),
        oldest_age=clock.t - int(retained.rounds[0]) if len(retained) else 0,
        column_names=column_names,
        labels=policy.labels(column_names),
        policy=policy,
    )


def find_notes(policy: Policy, batch: int, clock: Clock, counted: int) -> tuple[str, ...]:
    """Say what the clock and the number of records that count tell about how the answer came about.

    Args:
        policy: the policy that answers.
        batch: number of records in a full batch.
        clock: the public clock.
        counted: number of records that the statistic counts.

    Returns:
        Sentences for the user; empty if everything went as usual.
    """
    notes = []
    if clock.since > 1:
        notes.append(
            f"Counts from round {clock.since} on: earlier information had to be erased, by deadline or request, before "
            "it could be carried over."
        )
    arrived = clock.t - clock.since + 1
    if counted < arrived and not stands_alone(policy):
        left = arrived - counted
        are, they_were, them = ("is", "it was", "it") if left == 1 else ("are", "they were", "them")
        notes.append(
            f"{left:,} of the {arrived:,} records since round {clock.since} {are} not counted: {they_were} erased on "
            f"request or by deadline before an update could count {them}."
        )
    length = clock.last - clock.first + 1
    if policy.is_exact:
        return tuple(notes)
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


def _note_waiting(policy: Policy, clock: Clock, *, waiting: bool) -> tuple[str, ...]:
    """As of when an answer is from which the records that wait are hidden, or that they are not."""
    if not policy.hides_waiting:
        return ()
    if waiting:
        return (f"Counts the records that wait for the next update as they are: {UNPROTECTED}.",)
    return (
        f"As of round {clock.last:,}, the last update: later records count once an update has added noise to them.",
    )


def _check_answer(policy: Policy, value: object) -> float | Floats:
    if isinstance(value, np.ndarray) and value.dtype == np.float64 and np.isfinite(value).all():
        value.flags.writeable = False
        return value
    if isinstance(value, float) and np.isfinite(value):
        return value
    if isinstance(value, np.ndarray) and value.dtype == np.object_ and policy.read_whole_numbers(0) == "coded":
        value.flags.writeable = False  # values with a whole number beyond floats among them
        return value
    raise RuleError(
        f"{type(policy).__name__}.answer returned a {type(value).__name__} that is neither a finite float nor an array "
        "of finite floats; return one of these"
    )


def count_represented(policy: Policy, clock: Clock, retained: Records, *, waiting: bool = False) -> int:
    """Count the records that the statistic counts: those that updates have learned from, and those that wait.

    Args:
        policy: the policy that answers.
        clock: the public clock.
        retained: all records that are held.
        waiting: whether the records that wait count too where the policy hides them.

    Returns:
        Their number; where each record stands for itself alone, as in a window, that of the records that are held.
    """
    if stands_alone(policy):
        return len(retained)
    return clock.encoded + (0 if policy.hides_waiting and not waiting else count_waiting(clock, retained))
