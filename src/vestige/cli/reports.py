"""Statistics on the command line: the title and the table of an answer.

The statistics and the layout of their tables are defined in `vestige.policies`.
Guarantee: held by tests/test_cli.py and tests/test_cli_answers.py.
"""

from __future__ import annotations

from collections.abc import Sequence

from vestige.estimate import Estimate
from vestige.policies import NamedPolicy, Report, Window
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
