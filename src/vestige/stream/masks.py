"""What a policy returns, checked: whatever it is, nothing is kept that may not be.

Section 2 of Immorlica et al. (2024): the next state is a subset of the records that were held and that arrived. The
same rules for `update`, `update_many`, `rewrite` and `can_encode`, whatever the policy is.
Guarantee: a mask that is not one, or keeps what is leaving, is refused; held by tests/stream/test_masks.py.
"""

from __future__ import annotations

import numpy as np

from vestige.clock import Clock
from vestige.errors import RuleError
from vestige.policy import Policy
from vestige.records import Records
from vestige.types import Bools, Ints


def check_mask(policy: Policy, mask: object, everything: Records, method: str = "update") -> Bools:
    """The mask, if it is one over `everything` and keeps nothing that must leave."""
    _check_bools(policy, method, mask, len(everything), len(everything))
    assert isinstance(mask, np.ndarray)  # noqa: S101
    _check_leaving(policy, method, mask, everything.rounds, everything.leaving)
    return mask.copy()


def check_newest(policy: Policy, mask: object, held: Records, rows: int) -> tuple[Bools, Bools]:
    """What `update_many` keeps of `held` and of so many rows; its mask may leave out the oldest of them.

    Returns:
        the mask over the newest of `held`, as many as it has entries for, and that over the newest of the rows.
    """
    _check_bools(policy, "update_many", mask, 0, len(held) + rows)
    assert isinstance(mask, np.ndarray)  # noqa: S101
    older = max(0, len(mask) - rows)
    if older:
        newest = slice(len(held) - older, None)
        _check_leaving(policy, "update_many", mask[:older], held.rounds[newest], held.leaving[newest])
    return mask[:older], mask[older:]


def check_encodable(policy: Policy, answer: object) -> bool:
    """What `can_encode` said, if it is yes or no."""
    if not isinstance(answer, bool | np.bool_):
        raise RuleError(
            f"{type(policy).__name__}.can_encode returned a {type(answer).__name__}; answer with True or False"
        )
    return bool(answer)


def check_rewrite(policy: Policy, made: object, clock: Clock, retained: Records) -> tuple[int, Bools]:
    """What `rewrite` returned, if it keeps what it must and nothing that it must not."""
    name = type(policy).__name__
    if not isinstance(made, tuple) or len(made) != 2 or made[0] not in (clock.last, clock.t):
        raise RuleError(
            f"{name}.rewrite returned something else than the last round of a batch and a mask; return "
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
    """Raise a RuleError unless all that is held after an update in round `t` may be."""
    if len(held) and (np.count_nonzero(held.leaving) or (retention is not None and held.rounds[0] <= t - retention)):
        raise RuleError(
            f"after round {t}, {type(policy).__name__} would hold a record that had to be gone; this is an error in "
            "Vestige: please report it"
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
