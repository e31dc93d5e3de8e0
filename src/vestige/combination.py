"""One answer for records that are spread over several streams, from the estimates of these.

Where a key has more records than one machine takes, its rows go to several streams of one policy, each with a clock of
its own. Counts add up, averages are weighted by counts, moments are taken about the mean of all (Chan, Golub and
LeVeque 1983, https://doi.org/10.1080/00031305.1983.10483115), states of sketches are merged; each policy says how, in
its `combine`. docs/theorems.md says what becomes of rounding and noise.
Guarantee: the answer of one stream of all records, up to rounding, or a refusal; held by tests/test_combination.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from vestige.errors import ParameterError
from vestige.estimate import E, Estimate
from vestige.policy import UNPROTECTED, Policy, stands_alone
from vestige.validation import show_value

_LISTED = 5
"""The most numbers of estimates in a sentence."""


def combine(estimates: Iterable[E]) -> E:
    """Combine the estimates of several streams of one policy into the answer for all of their records.

    Each record must be in one of the streams only, and each stream among the estimates once: nothing shows that a
    record was counted twice. A stream that has no record, or no answer, has no estimate, and its records are not
    covered.

    Args:
        estimates: one for each stream, or what this function returned for some of them; of equal policies and columns,
            whatever the retention of their streams.

    Returns:
        The answer for all records, of the same kind. `t`, `counted` and `held` are sums; `oldest_age` is the largest,
        in rounds of its own stream. `since` is 1 if every stream counts from its beginning; else it is one more than
        the number of records that came before streams had to start over, and a note says how many streams that is.

    Raises:
        ParameterError: there is no estimate, one does not come from a stream, policies or columns differ, or the policy
            cannot be combined: one with a half-life, one that minimises a loss, or `Memory`.
        NoAnswerError: what is known of all records does not determine an answer.

    Example:
        >>> from vestige import KeyedStreams, Moments, combine
        >>> shops = KeyedStreams(Moments(2), retention=256, seed=0)
        >>> keys = [f"DE/{i % 4}" for i in range(10_000)]  # four streams for one shop
        >>> _ = shops.extend(keys, range(10_000))
        >>> parts = [shops.estimate(f"DE/{i}") for i in range(4)]
        >>> estimate = combine(parts)
        >>> estimate.counted, round(estimate.mean, 6), round(estimate.variance, 3)
        (10000, 4999.5, 8333333.25)
    """
    parts = _check(estimates)
    if len(parts) == 1:
        return parts[0]
    policy: Any = parts[0].policy
    made: E = sum_up(policy.combine(parts), parts)
    if isinstance(made.value, np.ndarray):
        made.value.flags.writeable = False
    notes = note_restarts(parts)
    if not stands_alone(policy):
        notes += _note_gaps(parts)
    last = _note_waiting(parts) if policy.hides_waiting else ()
    return replace(made, notes=notes + made.notes + last)


def sum_up(made: E, parts: Sequence[Estimate]) -> E:
    """Fill in what the estimates of the parts say of their streams.

    Args:
        made: the answer for all records.
        parts: the estimates.

    Returns:
        the same answer, with the sums of what each of them counts.

    Example:
        >>> sum_up(Estimate(2.0), [Estimate(1.0, t=3, since=2, counted=2), Estimate(3.0, t=4, counted=4)]).since
        2
    """
    first = parts[0]
    return replace(
        made,
        t=sum(part.t for part in parts),
        as_of=sum(part.as_of for part in parts),
        since=1 + _count_before(parts),
        counted=sum(part.counted for part in parts),
        held=sum(part.held for part in parts),
        oldest_age=max(part.oldest_age for part in parts),
        column_names=first.column_names,
        labels=first.labels,
        policy=first.policy,
    )


def note_restarts(parts: Sequence[Estimate]) -> tuple[str, ...]:
    """Note which streams have had to start over, and how many records are not covered because of that.

    Args:
        parts: the estimates.

    Returns:
        one sentence, or none.

    Example:
        >>> note_restarts([Estimate(1.0, t=3), Estimate(3.0, t=9, since=5)])[0][:49]
        '4 of the 12 records are not covered: 1 of the 2 c'
    """
    late = [i for i, part in enumerate(parts, 1) if part.since > 1]
    if not late:
        return ()
    listed = ", ".join(map(str, late[:_LISTED])) + (", ..." if len(late) > _LISTED else "")
    return (
        f"{_count_before(parts):,} of the {sum(part.t for part in parts):,} records are not covered: {len(late):,} of "
        f"the {len(parts):,} combined estimates (number {listed}) had to start over, by deadline or request, and these "
        "records came before that.",
    )


def _note_gaps(parts: Sequence[Estimate]) -> tuple[str, ...]:
    """How many records were erased before an update could count them."""
    arrived = sum(part.as_of - part.since + 1 for part in parts)
    left = arrived - sum(part.counted for part in parts)
    if left <= 0:
        return ()
    return (
        f"{left:,} of the {arrived:,} other records are not counted: they were erased on request or by deadline before "
        "an update could count them.",
    )


def _note_waiting(parts: Sequence[Estimate]) -> tuple[str, ...]:
    """As of when answers are from which the records that wait are hidden, or that they are not."""
    shown = sum(any(UNPROTECTED in note for note in part.notes) for part in parts)
    if shown:
        return (
            f"{shown:,} of the {len(parts):,} combined estimates count records that wait, as they are: {UNPROTECTED}.",
        )
    left = sum(part.t - part.as_of for part in parts)
    return (f"As of the last update of each stream: {left:,} records that have arrived since are not counted.",)


def _count_before(parts: Sequence[Estimate]) -> int:
    """The number of records that arrived before the streams had to start over."""
    return sum(part.since - 1 for part in parts)


def _check(estimates: Iterable[E]) -> list[E]:
    """The estimates as a list, if they can be of parts of the same records."""
    try:
        parts = list(estimates)
    except TypeError:
        raise ParameterError(
            f"estimates={show_value(estimates)} is not a list; pass the estimates of several streams"
        ) from None
    if not parts:
        raise ParameterError("estimates is empty; pass the estimate of each stream that has one")
    for i, part in enumerate(parts):
        if not isinstance(part, Estimate):
            raise ParameterError(
                f"estimates[{i}] is a {type(part).__name__}; pass what the method `estimate` of a stream returns"
            )
        if not isinstance(part.policy, Policy):
            raise ParameterError(
                f"estimates[{i}] does not say which policy it is of; pass what the method `estimate` of a stream "
                "returns, that of a Bundle as a whole"
            )
        for name, here, first in (
            ("policy", part.policy, parts[0].policy),
            ("columns", part.column_names, parts[0].column_names),
        ):
            if type(here) is not type(first) or here != first:
                raise ParameterError(
                    f"estimates[{i}] has {name}={show_value(here)}, estimates[0] has {show_value(first)}; combine "
                    "those of equal policies and columns only"
                )
    return parts
