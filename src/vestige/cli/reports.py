"""Statistics on the command line: the policy for given columns, and the title and the table of its answer.

The statistics and the layout of their tables are defined in `vestige.policies`.
Guarantee: held by tests/test_cli.py and tests/test_cli_answers.py.
"""

from __future__ import annotations

from collections.abc import Sequence

from vestige.errors import ParameterError
from vestige.estimate import Estimate
from vestige.policies import STATISTICS, Encoded, NamedPolicy, Report, Window
from vestige.policies.metrics import split_options
from vestige.policies.report import make_plain_report
from vestige.policy import Policy


def make_title(name: str, *, all_time: bool) -> str:
    """Make a title that says "all-time" only where the statistic counts every record.

    Args:
        name: name of the statistic.
        all_time: whether it counts every record.

    Returns:
        The title.

    Example:
        >>> make_title("mean", all_time=True), make_title("mean", all_time=False)
        ('All-time mean', 'Mean')
    """
    return f"All-time {name}" if all_time else name[:1].upper() + name[1:]


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


def make_report(policy: Policy, estimate: Estimate, columns: Sequence[str]) -> Report:
    """Make a table of an answer.

    Args:
        policy: the policy that answered.
        estimate: its answer.
        columns: the names of the columns of a record, targets last; empty where they are not known.

    Returns:
        the table, and the same facts for machines.
    """
    if not isinstance(policy, NamedPolicy | Window):
        return make_plain_report(estimate)
    return policy.report(estimate, columns) if columns else make_plain_report(estimate, policy.labels(()))
