"""A plan in a table and in sentences, for consoles and notebooks.

Guarantee: says what the plan holds, each note once; held by tests/planning/test_table.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from vestige.markup import format_bytes, format_microseconds, join_notes
from vestige.policies import NamedPolicy, Private
from vestige.policies.private import Limit

if TYPE_CHECKING:
    from vestige.planning.plan import Plan, Row

HEADER = ("policy", "retention", "records", "error", "memory", "time per record", "price")
"""The columns of the table."""


def describe(plan: Plan, statistic: str) -> str:
    """Describe what was planned.

    Args:
        plan: the plan.
        statistic: name of the statistic.

    Returns:
        A sentence.
    """
    columns = f"{plan.policy.columns} column{'s'[: plan.policy.columns > 1]}"
    if not plan.error:
        return f"Plan for {statistic}, {columns}: nothing is rounded, after any number of records."
    unit = "a record" if statistic == "mean" else "one record's influence"
    data = f"a sample of {plan.sampled:,} records"
    if plan.mean is not None:
        data = f"assuming {plan.policy.describe_rows(plan.mean)}"
    return (
        f"Plan for {statistic}, {columns} ({data}): an error of "
        f"{plan.error:.3g} standard deviations of {unit}, after {plan.records:,} records."
    )


def format_row(row: Row) -> tuple[str, ...]:
    """Format a row.

    Args:
        row: the row.

    Returns:
        The text of each column; see `HEADER`.
    """
    return (
        row.name,
        "-" if row.retention is None else _format_count(row.retention),
        "-" if row.records is None else _format_count(row.records),
        "-" if row.error is None else f"{row.error:.3g}",
        "-" if row.memory is None else format_bytes(row.memory),
        "-" if row.seconds is None else format_microseconds(row.seconds),
        "" if row.price is None else f"{row.price:.2f}",
    )


def _format_count(number: int) -> str:
    return f"{number:,}" if number < 10**9 else f"{number:.3g}"


def summarize(plan: Plan) -> Iterator[str]:
    """Say the table in sentences, and each note once, with the policies that it concerns.

    Args:
        plan: the plan.

    Yields:
        The sentences.
    """
    yield from _compare(plan)
    yield from join_notes((row.name, row.notes) for row in plan.rows)
    yield from (f"Sample: {note}" for note in plan.notes)


def _compare(plan: Plan) -> Iterator[str]:
    """What the policy requires, beside the window and the bound, and the price of privacy."""
    ours = plan.rows[0]
    if not plan.error:
        yield f"{ours.name} requires a retention of {ours.retention:,} records."
        return
    window, least = plan.row("window"), plan.row("lower bound")
    if ours.retention is not None:
        yield (
            f"{ours.name.split(',')[0]} requires a retention of {ours.retention:,} records; a sliding window requires "
            f"{window.retention:,}; no policy can do with less than {least.retention:,}."
        )
    if plan.private is not None and plan.prices:
        private = plan.private
        prices = ", ".join(f"{price:.3g} at {retention:,}" for retention, price in plan.prices)
        yield (
            f"The price of epsilon {private.epsilon:g} (delta {private.delta:g}{_format_bounds(private)}), as a "
            "multiple of the squared error without noise, or of the number of records for the same error, by "
            f"retention: {prices}."
        )


def name_bounds(private: Private) -> dict[str, Limit]:
    """Name the bounds of a private policy by the columns that have one.

    Args:
        private: the policy.

    Returns:
        The largest magnitude of each column, or both ends.
    """
    return private.name_bounds(name_columns(private.policy))


def _format_bounds(private: Private) -> str:
    """The bounds of the columns that have one, as a clause."""
    named = name_bounds(private)
    values = {_format_limit(limit) for limit in named.values()}
    if len(values) > 1:
        return f", bounds {', '.join(f'{name} {_format_limit(limit)}' for name, limit in named.items())}"
    return f", bound {values.pop()}" if values else ""


def _format_limit(limit: Limit) -> str:
    """The largest magnitude, or both ends as an option has them."""
    return ":".join(f"{end:.3g}" for end in (limit if isinstance(limit, tuple) else (limit,)))


def name_columns(policy: NamedPolicy) -> tuple[str, ...]:
    """Name the columns of a policy.

    Args:
        policy: the policy.

    Returns:
        Their names, or numbers where they have none.
    """
    return policy.column_names or tuple(f"column {i + 1}" for i in range(policy.columns))
