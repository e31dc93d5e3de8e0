"""What `vestige plan --max-age` prints: batches, memory and accuracy under a limit in time alone.

Guarantee: held by tests/test_cli_age_plan.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import timedelta

from vestige.cli.output import print_json, say, show_table
from vestige.markup import format_bytes, format_microseconds, join_notes
from vestige.planning import AgePlan, AgeRow
from vestige.planning.max_age import format_rate
from vestige.times import format_duration

_HEADER = ("policy", "batch", "closed every", "held", "memory", "error", "time per record")
_SPANS = (("year", 365 * 86_400.0), ("day", 86_400.0), ("hour", 3_600.0), ("minute", 60.0), ("second", 1.0))
_SHOWN = 8


def show_age_plan(plan: AgePlan, statistic: str, labels: Sequence[str], *, machine: bool) -> None:
    """Print a plan.

    Args:
        plan: the plan.
        statistic: name of the statistic.
        labels: names of the numbers of its answer.
        machine: whether to print JSON.
    """
    errors = dict(zip(labels, plan.errors.tolist(), strict=True)) if plan.sampled and len(plan.errors) else None
    if machine:
        print_json({"statistic": statistic, **_to_facts(plan), "errors": errors})
        return
    data = f"a sample of {plan.sampled:,} records"
    if plan.mean is not None:
        data = f"assuming {plan.policy.describe_rows(plan.mean)}"
    arrivals = f"{plan.rate:,.6g} record{'' if plan.rate == 1.0 else 's'} a day"
    say(
        f"Plan for {statistic} ({data}): {arrivals}, each held for at most "
        f"{format_duration(plan.max_age)}; after {plan.records:,} records, "
        f"{_format_span(timedelta(days=plan.records / plan.rate))}."
    )
    show_table(_HEADER, [_format_row(row) for row in plan.rows if row.held])
    if errors is not None:
        said = [f"{name} {size:.3g}" for name, size in list(errors.items())[:_SHOWN]]
        say(f"Errors in the units of the data: {'; '.join(said)}{'; ...' if len(errors) > _SHOWN else ''}.")
    notes = join_notes((row.name, row.notes) for row in plan.rows)
    for line in (*_summarize(plan), *notes, *(f"Sample: {note}" for note in plan.notes)):
        say(line)


def _to_facts(plan: AgePlan) -> dict[str, object]:
    rows = [{name: getattr(row, name) for name in AgeRow.__slots__} for row in plan.rows]
    for row in rows:
        row["every"] = None if row["every"] is None else row["every"].total_seconds()
    return {
        "max_age": plan.max_age.total_seconds(),
        "rate": plan.rate,
        "records": plan.records,
        "sampled": plan.sampled,
        "mean": plan.mean,
        "rows": rows,
        "least_rate": plan.least_rate,
        "enough_rate": plan.enough_rate,
        "notes": list(plan.notes),
    }


def _format_row(row: AgeRow) -> tuple[str, ...]:
    return (
        row.name,
        "-" if row.batch is None else f"{row.batch:,}",
        "-" if row.every is None else _format_span(row.every),
        f"{row.held:,}",
        format_bytes(row.memory),
        "-" if row.error is None else f"{row.error:.3g}",
        "-" if row.seconds is None else format_microseconds(row.seconds),
    )


def _format_span(span: timedelta) -> str:
    """A duration to two digits, in the largest unit of which it has one.

    >>> _format_span(timedelta(minutes=92)), _format_span(timedelta(days=1)), _format_span(timedelta(milliseconds=1))
    ('1.5 hours', '1 day', '0.001 seconds')
    """
    seconds = span.total_seconds()
    unit, length = next(((unit, length) for unit, length in _SPANS if seconds >= length), _SPANS[-1])
    number = float(f"{seconds / length:.2g}")
    return f"{number:g} {unit}{'' if number == 1.0 else 's'}"


def _summarize(plan: AgePlan) -> Iterator[str]:
    """The plan in sentences."""
    name = plan.rows[0].name
    if plan.least_rate:
        yield f"{name} needs {format_rate(plan.least_rate)} evenly spaced, or the statistic restarts."
    if plan.enough_rate is not None:
        yield (
            f"From {format_rate(plan.enough_rate)} on, its error is within 10% of that of all records, so that a "
            "longer limit gains less than that."
        )
