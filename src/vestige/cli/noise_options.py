"""`--epsilon`, `--bound` and `--window`: the policy of a statistic with noise, or of the records held alone.

Guarantee: what cannot have noise is refused, and what is printed says what the guarantee does not cover; held by
tests/test_cli_private.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import click

from vestige.errors import ParameterError
from vestige.policies import Bundle, Encoded, Mean, NamedPolicy, Private, Window
from vestige.policies.private import AVERAGED, list_names, list_unbounded
from vestige.policy import Policy
from vestige.statistics import Averages

DEFAULT_DELTA = 1e-6
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
    metavar="[COLUMN=]NUMBER",
    help="Largest magnitude of values with --epsilon, such as 100 for all columns, or amount=100 for one; values "
    "beyond are cut off. Choose it from what you know, never from the data.",
)
window_option = click.option(
    "--window",
    is_flag=True,
    help="Keep a plain sliding window for comparison: the statistic of the records that are held, and of no others.",
)


def wrap_policy(
    kept: NamedPolicy,
    columns: Sequence[str],
    *,
    epsilon: float | None = None,
    delta: float | None = None,
    bounds: Sequence[str] = (),
    window: bool = False,
) -> Policy:
    """Make the policy with noise or the window that options ask for.

    Args:
        kept: the policy of the statistic.
        columns: the names of the columns of a record, targets last.
        epsilon: the epsilon of the guarantee; None without noise.
        delta: the delta of the guarantee; None for the default.
        bounds: the largest magnitudes of values, each a number or a column, an equals sign and a number.
        window: whether to keep a window.

    Returns:
        the policy, or `kept` itself.

    Raises:
        ParameterError: the options do not fit together, or do not fit the statistic.

    Example:
        >>> wrap_policy(Mean(), ["spent"], epsilon=1.0, bounds=["spent=100"]).bounds
        (100.0,)
    """
    if epsilon is None:
        for option, given in (("--delta", delta), ("--bound", next(iter(bounds), None))):
            if given is not None:
                raise ParameterError(f"{option} {given} needs --epsilon; give both, or leave it out")
        return _make_window(kept) if window else kept
    if window:
        raise ParameterError("--window and --epsilon select different policies; give only one of them")
    if not isinstance(kept, Encoded) or not isinstance(kept.statistic, Averages):
        raise ParameterError(
            f"--epsilon {epsilon} cannot be used with {kept.name}, which is not made of averages; use "
            f"{list_names(kind.name for kind in AVERAGED)}"
        )
    largest = parse_bounds(bounds, columns, [columns[i] for i in list_unbounded(kept) or ()])
    named = largest if isinstance(kept, Bundle) else tuple(largest[name] for name in columns if name in largest)
    return Private(kept.for_noise(), bounds=named, epsilon=epsilon, delta=DEFAULT_DELTA if delta is None else delta)


def add_standard_error(kept: NamedPolicy, statistic: str) -> Mean:
    """Make the policy that keeps the variance of a mean too.

    Args:
        kept: the policy of the statistic.
        statistic: its name for `--statistic`.

    Returns:
        the policy.

    Raises:
        ParameterError: it is not a mean, or its channel cannot hold a variance.
    """
    if not isinstance(kept, Mean):
        raise ParameterError(
            f"--standard-error is for --statistic mean; {statistic} has what is known of its error without it"
        )
    return replace(kept, spread=True)


def describe_guarantee(policy: Policy) -> str:
    """Say what noise promises, and what it does not.

    Args:
        policy: the policy of a stream.

    Returns:
        sentences; empty without noise.

    Example:
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


def _make_window(kept: NamedPolicy) -> Window:
    if not isinstance(kept, Encoded):
        raise ParameterError(f"--window cannot be used with {kept.name}, which is not made of averages; leave it out")
    return Window(kept)


def parse_bounds(texts: Sequence[str], columns: Sequence[str], needed: Sequence[str]) -> dict[str, float]:
    """Read the bound of each column that needs one.

    Args:
        texts: numbers, or columns with an equals sign and a number.
        columns: the names of all columns.
        needed: the names of those that need a bound.

    Returns:
        the bounds by column.

    Raises:
        ParameterError: a text is not a bound, a column has none or several, or needs none.

    Example:
        >>> parse_bounds(["100"], ["spent", "status"], ["spent"])
        {'spent': 100.0}
    """
    found: dict[str, float] = {}
    for text in texts:
        name, equals, number = text.rpartition("=")
        try:
            value = float(number)
        except ValueError:
            raise ParameterError(
                f"--bound {text} is not a number, or a column, an equals sign and a number; write it as 100 or as "
                "amount=100"
            ) from None
        if equals and name not in columns:
            raise ParameterError(f"--bound {text} is for a column that is not read; use one of {', '.join(columns)}")
        if equals and name not in needed:
            raise ParameterError(f"--bound {text} is for a column whose statistics need none; leave it out")
        for column in [name] if equals else needed:
            if column in found:
                raise ParameterError(f"--bound {text} is the second one for {column}; give one for each column")
            found[column] = value
    missing = [column for column in needed if column not in found]
    if missing:
        raise ParameterError(
            f"--epsilon needs --bound for {', '.join(missing)}, the largest magnitude of its values; choose it from "
            f"what you know, never from the data, such as --bound {missing[0]}=100"
        )
    return found
