"""`--epsilon`, `--bound` and `--window`: the options that ask for noise, and what is said of its guarantee.

Guarantee: what is printed says what the guarantee does not cover; held by tests/test_cli_private.py.
"""

from __future__ import annotations

from collections.abc import Sequence

import click

from vestige.ingest.policy_options import DEFAULT_DELTA
from vestige.policies import Bundle, Private
from vestige.policy import Policy

_COVERED = (
    "Not covered: a person with several records or keys, each of which costs again; and records that are still held. "
    "Each stream draws secret noise of its own."
)

epsilon_option = click.option(
    "--epsilon",
    type=float,
    help="Add noise that hides each record once it is erased, with all its metrics: the epsilon of an (epsilon, delta) "
    "guarantee; smaller is more private. Needs --bound for statistics of numbers; statistics must be averages.",
)
delta_option = click.option(
    "--delta",
    type=float,
    help=f"Delta of the (epsilon, delta) guarantee of --epsilon.  [default: {DEFAULT_DELTA:g}]",
)
bound_option = click.option(
    "--bound",
    "bounds",
    multiple=True,
    metavar="[COLUMN=]NUMBER|[COLUMN=]LOW:HIGH",
    help="Largest magnitude of values with --epsilon, such as 100 for all columns or amount=100 for one; or both ends, "
    "such as amount=0:200, which needs the noise of half of the range. Values beyond are cut off. Choose it from what "
    "you know, never from the data.",
)
window_option = click.option(
    "--window",
    is_flag=True,
    help="Keep a plain sliding window for comparison: the statistic of the records that are held, and of no others.",
)


def describe_guarantee(policy: Policy) -> str:
    """Say what noise promises, and what it does not.

    Args:
        policy: the policy of a stream.

    Returns:
        sentences; empty without noise.

    Example:
        >>> from vestige import Mean
        >>> describe_guarantee(Mean())
        ''
    """
    if not isinstance(policy, Private):
        return ""
    metrics = " with all its metrics" if isinstance(policy.policy, Bundle) else ""
    return (
        f"Private: epsilon {policy.epsilon:g} at delta {policy.delta:g} for each record{metrics}, once it is erased. "
        f"{_COVERED}"
    )


def collect_guarantee(policy: Policy, columns: Sequence[str]) -> dict[str, object]:
    """Collect the same for machines.

    Args:
        policy: the policy of a stream.
        columns: the names of the columns of a record.

    Returns:
        facts by name; empty without noise and without a window.

    Example:
        >>> from vestige import Window
        >>> collect_guarantee(Window(), ["spent"])
        {'window': True}
    """
    if policy.is_window:
        return {"window": True}
    if not isinstance(policy, Private):
        return {}
    return {
        "private": {
            "epsilon": policy.epsilon,
            "delta": policy.delta,
            "mu": policy.mu,
            "bounds": policy.name_bounds(columns),
            "note": describe_guarantee(policy),
        }
    }
