"""What is the same for all streams of a key, in the form that kernels take.

Guarantee: held by tests/keyed/test_streams.py.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import numpy as np

from vestige.channels.compiled import Compiled
from vestige.policies import Mean
from vestige.policy import Policy
from vestige.random.keys import derive_root
from vestige.stream.deadlines import find_patience, find_step, find_warning
from vestige.stream.rules import Rules

if TYPE_CHECKING:
    from vestige.keyed.batch_kernels import Terms

ELSEWHERE = -1
"""In place of a mode: updates are made by the policy."""


def find_mode(policy: Policy) -> int:
    """Find how kernels write a batch for a policy.

    Args:
        policy: the policy.

    Returns:
        The mode, see `vestige.channels.kernels`; `ELSEWHERE` if there is no kernel for it.

    Example:
        >>> from vestige import Moments
        >>> find_mode(Mean(channel="bits")), find_mode(Moments(2))
        (1, -1)
    """
    if type(policy) is Mean and policy.is_identity and isinstance(policy.encoding, Compiled):
        return policy.encoding.mode
    return ELSEWHERE


def make_terms(rules: Rules, bits: int, newest_request: int) -> Terms:
    """Gather what is the same for all streams.

    Args:
        rules: the rules of each stream.
        bits: number of bits of the word of a full batch.
        newest_request: number of the newest removal request.

    Returns:
        What kernels take.
    """
    from vestige.keyed.batch_kernels import Terms  # noqa: PLC0415  # it takes long to import

    limits, policy = rules.limits, rules.policy
    times = np.zeros(0, np.int64)
    if rules.is_timed:
        late = -1 if limits.lateness is None else limits.lateness // timedelta(microseconds=1)
        times = np.array([limits.age, find_patience(limits), find_warning(limits), find_step(limits), late])
    return Terms(
        rules.batch,
        bits,
        rules.min_last_batch,
        limits.retention or 0,
        find_mode(policy),
        policy.decay,
        policy.tolerance if isinstance(policy, Mean) else 0.0,
        np.uint64(derive_root(rules.seed)),
        rules.seed is None,
        newest_request,
        times,
    )
