"""How large a share of each batch can ask to leave before a statistic starts over.

What is carried over is written into the records of a batch that are not leaving; if too few are left, it cannot be.
Whether they are too few is known without values, so that it can be tried beforehand.
Guarantee: streams with fewer requests do not start over; held by tests/planning/test_requests.py.
"""

from __future__ import annotations

import numpy as np

from vestige.channels.states import prepare_state
from vestige.clock import Clock
from vestige.policies import Bundle
from vestige.policy import Policy
from vestige.random.generators import make_generator
from vestige.types import Bools

_TRIALS = 8
_AMPLE = 0.9
"""If as many can ask to leave, there is nothing to note."""
_LONGEST = 2**14
"""Longer batches are tried as if they had this length: they leave room for more."""


def find_removable_share(policy: Policy, batch: int) -> float:
    """Find the largest share of a batch that can ask to leave, at random places, before a statistic starts over.

    Args:
        policy: the policy.
        batch: number of records in a batch.

    Returns:
        The share, from 0 to 1.

    Example:
        >>> from vestige import Mean
        >>> find_removable_share(Mean(), 22), find_removable_share(Mean(), 64) > 0.3
        (0.0, True)
    """
    length = min(batch, max(_LONGEST, policy.min_batch))
    rng = make_generator(length)
    ranks = [rng.permutation(length) for _ in range(_TRIALS)]
    possible, impossible = 0, length + 1
    while impossible - possible > 1:
        middle = (possible + impossible) // 2
        fits = all(_can_carry(policy, each < middle) for each in ranks)
        possible, impossible = (middle, impossible) if fits else (possible, middle)
    return possible / length


def note_requests(policy: Policy, batch: int) -> tuple[str, ...]:
    """Note how many of the records of a batch can ask to leave.

    Args:
        policy: the policy.
        batch: number of records in a batch.

    Returns:
        one sentence, or none if nearly all can.

    Example:
        >>> from vestige import Mean
        >>> note_requests(Mean(), 22)
        ('If a record asks to leave, the statistic may start over; a larger retention leaves room for requests.',)
    """
    share = find_removable_share(policy, batch)
    if share >= _AMPLE:
        return ()
    percent = int(100.0 * share)
    if not percent:
        return (
            "If a record asks to leave, the statistic may start over; a larger retention leaves room for requests.",
        )
    return (
        f"About {percent}% of a batch can ask to leave; if more do, the statistic may start over. A larger retention "
        "leaves room for more requests.",
    )


def _can_carry(policy: Policy, leaving: Bools) -> bool:
    """Whether the other records of a batch hold what is carried over, with all sketches of a bundle."""
    length = len(leaving)
    if not policy.can_encode(Clock(t=length), np.arange(1, length + 1), leaving):
        return False
    if not isinstance(policy, Bundle) or policy.sketches is None:
        return True
    return prepare_state(~leaving[policy.encoding.find_room(length) :], policy.sketches.bits) is not None
