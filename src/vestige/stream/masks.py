"""Checks of what a policy returns: whatever that is, no record is kept that must not be.

Section 2 of Immorlica et al. (2024): the next state is a subset of the records that were held and that arrived. The
rules are the same for `update`, `update_many`, `rewrite` and `can_encode`, and for every policy.
Guarantee: a reply that is not a mask, or keeps a record that is leaving, is refused; held by
tests/stream/test_masks.py.
"""

from __future__ import annotations

import numpy as np

from vestige.clock import Clock
from vestige.errors import RuleError
from vestige.policy import Policy
from vestige.records import Records
from vestige.types import Bools, Ints


def check_mask(policy: Policy, mask: object, everything: Records, method: str = "update") -> Bools:
    """Check the mask of an update.

    Args:
        policy: the policy that returned it.
        mask: its reply.
        everything: the records that it chose from.
        method: name of its method, for errors.

    Returns:
        A copy of the mask.

    Raises:
        RuleError: it is not a mask over these records, or keeps a record that is leaving.

    Example:
        >>> from vestige import Mean
        >>> check_mask(Mean(), np.array([True]), Records([1], [[0.5]]))
        array([ True])
    """
    _check_bools(policy, method, mask, len(everything), len(everything))
    assert isinstance(mask, np.ndarray)  # noqa: S101
    _check_leaving(policy, method, mask, everything.rounds, everything.leaving)
    return mask.copy()


def check_newest(policy: Policy, mask: object, held: Records, rows: int) -> tuple[Bools, Bools]:
    """Check the mask of `update_many`, which may leave out the oldest records.

    Args:
        policy: the policy that returned it.
        mask: its reply.
        held: the records that were held.
        rows: number of rows that arrived.

    Returns:
        The mask over the newest of `held`, as many as it has entries for, and the mask over the newest of the rows.

    Raises:
        RuleError: it is not a mask over these records, or keeps a record that is leaving.
    """
    _check_bools(policy, "update_many", mask, 0, len(held) + rows)
    assert isinstance(mask, np.ndarray)  # noqa: S101
    older = max(0, len(mask) - rows)
    if older:
        newest = slice(len(held) - older, None)
        _check_leaving(policy, "update_many", mask[:older], held.rounds[newest], held.leaving[newest])
    return mask[:older], mask[older:]


def check_encodable(policy: Policy, answer: object) -> bool:
    """Check the reply of `can_encode`.

    Args:
        policy: the policy that replied.
        answer: its reply.

    Returns:
        The reply as a bool.

    Raises:
        RuleError: it is not True or False.
    """
    if not isinstance(answer, bool | np.bool_):
        raise RuleError(
            f"{type(policy).__name__}.can_encode returned a {type(answer).__name__}; answer with True or False"
        )
    return bool(answer)


def check_bits(policy: Policy, answer: object) -> int:
    """Check the reply of `count_bits`.

    Args:
        policy: the policy that replied.
        answer: its reply.

    Returns:
        The reply.

    Raises:
        RuleError: it is not a whole number of 0 or more.
    """
    if type(answer) is not int or answer < 0:
        raise RuleError(
            f"{type(policy).__name__}.count_bits returned a {type(answer).__name__}; answer with a whole number of 0 "
            "or more"
        )
    return answer


def check_rewrite(policy: Policy, made: object, clock: Clock, retained: Records) -> tuple[int, Bools]:
    """Check the reply of `rewrite`.

    Args:
        policy: the policy that replied.
        made: its reply.
        clock: the public clock.
        retained: the records that it chose from.

    Returns:
        The last round of the batch that is encoded then, and a copy of the mask.

    Raises:
        RuleError: it is not of this kind, keeps a record that is leaving, or drops one that is still to be learned
            from.
    """
    name = type(policy).__name__
    if not isinstance(made, tuple) or len(made) != 2 or made[0] not in (clock.last, clock.t):
        raise RuleError(
            f"{name}.rewrite did not return the last round of a batch and a mask; return "
            "(clock.last, mask), (clock.t, mask) or None"
        )
    last, mask = int(made[0]), check_mask(policy, made[1], retained, "rewrite")
    if not mask[(retained.rounds > last) & ~retained.leaving].all():
        raise RuleError(
            f"{name}.rewrite drops a record after round {last} that is not leaving; keep all of those, since they are "
            "still to be learned from"
        )
    return last, mask


def check_limits(policy: Policy, held: Records, t: int, retention: int | None) -> None:
    """Check that all records that are held after an update may be held.

    Args:
        policy: the policy that chose them.
        held: the records.
        t: the round of the update.
        retention: the limit in rounds, if there is one.

    Raises:
        RuleError: one of them should have been erased.
    """
    if len(held) and (np.count_nonzero(held.leaving) or (retention is not None and held.rounds[0] <= t - retention)):
        raise RuleError(
            f"after round {t}, {type(policy).__name__} would hold a record that should have been erased; this is a bug "
            "in Vestige: please report it"
        )


def _check_bools(policy: Policy, method: str, mask: object, least: int, most: int) -> None:
    if not isinstance(mask, np.ndarray) or mask.dtype != np.bool_ or mask.ndim != 1 or not least <= len(mask) <= most:
        got = f"{mask.dtype} of shape {mask.shape}" if isinstance(mask, np.ndarray) else type(mask).__name__
        shape = f"({most},)" if least == most else f"(n,), n <= {most}"
        raise RuleError(
            f"{type(policy).__name__}.{method} returned {got}; needs a bool array of shape {shape}: "
            "one entry per retained record, then one per arrival"
        )


def _check_leaving(policy: Policy, method: str, mask: Bools, rounds: Ints, leaving: Bools) -> None:
    forbidden = mask & leaving
    if forbidden.any():
        raise RuleError(
            f"{type(policy).__name__}.{method} keeps the record of round {rounds[forbidden][0]}, which is leaving; "
            "keep only records whose `leaving` is False"
        )
