"""What streams log: updates, batches that were closed early, and statistics that started over.

The logger is `vestige.stream`, and silent until a program configures logging. A log outlives the records that it tells
of, so a line has the kind of policy and the public clock, and nothing else: neither values, subjects and names, nor how
many records an update kept, which depends on their values.
Guarantee: streams that differ only in values, subjects and names log the same lines; held by tests/stream/test_log.py.
"""

from __future__ import annotations

import logging

from vestige.clock import Clock
from vestige.policy import Policy

LOG = logging.getLogger("vestige.stream")


def log_update(policy: Policy, batch: int, before: Clock, after: Clock) -> None:
    """Log an update, or several at once.

    Args:
        policy: the policy of the stream.
        batch: number of records in a full batch.
        before: the clock before the update.
        after: the clock after it.

    Example:
        >>> from vestige import Mean
        >>> log_update(Mean(), 48, Clock(), Clock(48, 1, 48))
    """
    if after.since > before.since:
        log_restart(policy, before, after)
        return
    length = after.last - after.first + 1
    if length < batch and not policy.every_round:
        _log(logging.INFO, policy, "closed a batch early at round %d, with %d of %d rounds", after.t, length, batch)
    else:
        _log(logging.DEBUG, policy, "updated at round %d", after.t)


def log_restart(policy: Policy, before: Clock, after: Clock) -> None:
    """Log that a statistic started over, if it did.

    Args:
        policy: the policy of the stream.
        before: the clock before records were erased.
        after: the clock after that.

    Example:
        >>> from vestige import Mean
        >>> log_restart(Mean(), Clock(), Clock())
    """
    if after.since > before.since:
        _log(logging.WARNING, policy, "started over and counts from round %d", after.since)


def log_restarts(policy: Policy, streams: int) -> None:
    """Log that the statistics of several streams started over.

    Args:
        policy: the policy of these streams.
        streams: number of streams in which it did.

    Example:
        >>> from vestige import Mean
        >>> log_restarts(Mean(), 0)
    """
    if streams:
        _log(logging.WARNING, policy, "started over in %d streams", streams)


def _log(level: int, policy: Policy, text: str, *numbers: int) -> None:
    """Log a line if somebody listens: without any handler, warnings would go to standard error."""
    if LOG.isEnabledFor(level) and LOG.hasHandlers():
        LOG.log(level, f"%s {text}", type(policy).__name__, *numbers)
