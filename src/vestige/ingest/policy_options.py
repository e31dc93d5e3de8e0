"""From options to a policy: what a statistic, metrics, bounds and a window mean together.

The options are those of `vestige run`, and its messages name them so; whoever has them under other names translates.
Guarantee: what does not fit together is refused with the option, its value and a remedy; held by tests/test_cli.py and
tests/test_cli_private.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from vestige.errors import ParameterError
from vestige.policies import STATISTICS, Bundle, Encoded, Mean, NamedPolicy, Private, Window
from vestige.policies.metrics import split_options
from vestige.policies.private import AVERAGED, Limit, list_names, list_unbounded
from vestige.policy import Policy
from vestige.statistics import Averages

DEFAULT_DELTA = 1e-6


def make_policy(
    statistic: str,
    columns: Sequence[str],
    targets: Sequence[str],
    channel: str,
    half_life: float | None,
    edges: str | None = None,
    categories: str | None = None,
) -> NamedPolicy:
    """Make the policy that keeps a statistic of named columns.

    Args:
        statistic: the name of the statistic, one of `vestige.policies.STATISTICS`.
        columns: the columns, without targets.
        targets: the columns to explain.
        channel: the name of the channel.
        half_life: after this number of records, a record counts half as much; None if all count alike.
        edges: the edges of bins, separated by commas; None if there are none.
        categories: the names of categories, separated by commas; None if there are none.

    Returns:
        the policy.

    Raises:
        ParameterError: the statistic does not take these columns, targets, edges, categories or this channel.

    Example:
        >>> make_policy("mean", ["delay"], [], "auto", None).columns
        1
    """
    kind = STATISTICS[statistic]
    if kind.max_targets == 0 and targets:
        raise ParameterError(f"--target {targets[0]} cannot be used with --statistic {statistic}; leave it out")
    if len(targets) < kind.min_targets or (kind.max_targets is not None and len(targets) > kind.max_targets):
        count = "one --target" if kind.max_targets == 1 else "at least one --target"
        raise ParameterError(f"--statistic {statistic} has {len(targets)} targets; give {count}, the column to explain")
    if kind.max_columns == 1 and len(columns) > 1:
        raise ParameterError(f"--statistic {statistic} takes one --column, not {len(columns)}; run it for each")
    if len(columns) < kind.min_columns or (kind.max_columns is not None and len(columns) > kind.max_columns):
        exactly = "" if kind.max_columns == kind.min_columns else "at least "
        raise ParameterError(
            f"--statistic {statistic} takes {exactly}{kind.min_columns} columns, not {len(columns)}; give --column for "
            "each of them"
        )
    if kind.takes_edges and edges is None:
        raise ParameterError(
            f"--statistic {statistic} needs --edges, the borders between bins; give them, such as --edges 0,10,20"
        )
    if edges is not None and not kind.takes_edges:
        raise ParameterError(f"--edges {edges} cannot be used with --statistic {statistic}; leave it out")
    if kind.takes_categories and categories is None:
        raise ParameterError(
            f"--statistic {statistic} needs --categories, the names of its categories; give them, such as --categories "
            "ok,failed"
        )
    if categories is not None and not kind.takes_categories:
        raise ParameterError(f"--categories {categories} cannot be used with --statistic {statistic}; leave it out")
    options = edges.split(",") if edges is not None else None if categories is None else split_options(categories)
    policy = (
        kind.from_columns(len(columns), len(targets), channel, half_life)
        if options is None
        else kind.from_options(options, len(columns), half_life)
    )
    if channel == "average" and not (isinstance(policy, Encoded) and policy.encoding.name == "average"):
        raise ParameterError(f"--channel average cannot hold --statistic {statistic}; use --channel bits or auto")
    return policy


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
        bounds: the largest magnitudes of values, each a number or both ends with a colon between them; or a column, an
            equals sign and one of these.
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


def parse_bounds(texts: Sequence[str], columns: Sequence[str], needed: Sequence[str]) -> dict[str, Limit]:
    """Read the bound of each column that needs one.

    Args:
        texts: numbers or both ends, or columns with an equals sign and one of these.
        columns: the names of all columns.
        needed: the names of those that need a bound.

    Returns:
        the bounds by column.

    Raises:
        ParameterError: a text is not a bound, a column has none or several, or needs none.

    Example:
        >>> parse_bounds(["100"], ["spent", "status"], ["spent"])
        {'spent': 100.0}
        >>> parse_bounds(["spent=0:200"], ["spent", "status"], ["spent"])
        {'spent': (0.0, 200.0)}
    """
    found: dict[str, Limit] = {}
    for text in texts:
        name, equals, ends = text.rpartition("=")
        low, colon, high = ends.partition(":")
        try:
            value: Limit = (float(low), float(high)) if colon else float(low)
        except ValueError:
            raise ParameterError(
                f"--bound {text} is not a number or both ends of a range, with or without a column and an equals sign "
                "before; write it as 100, as 0:200, or as amount=0:200"
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
            f"--epsilon needs --bound for {', '.join(missing)}, the largest magnitude of its values or both ends; "
            f"choose it from what you know, never from the data, such as --bound {missing[0]}=100"
        )
    return found


def _make_window(kept: NamedPolicy) -> Window:
    if not isinstance(kept, Encoded):
        raise ParameterError(f"--window cannot be used with {kept.name}, which is not made of averages; leave it out")
    return Window(kept)
