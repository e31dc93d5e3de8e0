"""`vestige plan`: predicts the retention required for a target error."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import click
import numpy as np

from vestige.cli.age_plan import show_age_plan
from vestige.cli.group import check_figure_path, command, parse_duration, parse_rate
from vestige.cli.noise_options import bound_option
from vestige.cli.output import (
    announce_if_slow,
    format_bytes,
    format_microseconds,
    join_notes,
    print_json,
    say,
    show_progress,
    show_table,
)
from vestige.errors import ParameterError, SourceError
from vestige.ingest.policy_options import make_policy, parse_bounds
from vestige.planning import Plan, Row, draw_plan, plan, plan_max_age
from vestige.policies import STATISTICS, Encoded, NamedPolicy, Private
from vestige.policies.metrics import METRICS, parse_metrics
from vestige.policies.private import list_unbounded
from vestige.sources import FileSource
from vestige.statistics import Averages
from vestige.times import format_duration
from vestige.types import Floats

_MOST_ROWS = 200_000
_SHOWN = 8
_UNIT = "standard deviations of one record's influence"
_HEADER = ("policy", "retention", "records", "error", "memory", "time per record", "price")


@command.command("plan")
@click.argument("source", required=False)
@click.option(
    "--column", "columns", multiple=True, help="Numeric column of SOURCE; repeat it for records of several values."
)
@click.option("--target", "targets", multiple=True, help="Column of SOURCE that a regression explains.")
@click.option(
    "--statistic", type=click.Choice(list(STATISTICS)), default="mean", show_default=True, help="Statistic to plan."
)
@click.option("--edges", metavar="NUMBERS", help="Borders between the bins of a histogram, such as 0,10,20.")
@click.option("--categories", metavar="NAMES", help="Names of the categories of shares, such as ok,failed.")
@click.option(
    "--metric",
    "metrics",
    multiple=True,
    metavar="COLUMN:STATISTIC,...",
    help="Statistics of a column, as in vestige run, in place of --column and --statistic; repeat it for others.",
)
@click.option(
    "--dim", type=int, help="Number of columns of a record (for regression, of predictors), without SOURCE; default: 1."
)
@click.option(
    "--mean",
    type=float,
    help="Distance of the mean from zero in standard deviations of a record, for Private without SOURCE; default: 1.",
)
@click.option("--error", type=float, help="Target error, in standard deviations of a record; give this or --records.")
@click.option(
    "--records",
    type=int,
    help="Number of records that will arrive; give this or --error. Default, with --max-age: those of a year.",
)
@click.option(
    "--max-age",
    type=parse_duration,
    metavar="DURATION",
    help="Plan a limit in time alone, such as 30d: what it does to batches, memory and accuracy; needs --rate.",
)
@click.option(
    "--rate",
    type=parse_rate,
    metavar="NUMBER/UNIT",
    help="Number of records that arrive in one stream per second, minute, hour, day, week or year, such as 1000/d; for "
    "--max-age. With several streams, that of the one with the fewest records.",
)
@click.option(
    "--epsilon",
    type=float,
    default=1.0,
    show_default=True,
    help="Epsilon of the (epsilon, delta) guarantee of Private; smaller is more private.",
)
@click.option(
    "--delta",
    type=float,
    default=1e-6,
    show_default=True,
    help="Delta of the (epsilon, delta) guarantee of Private.",
)
@bound_option
@click.option(
    "--figure",
    type=check_figure_path,
    metavar="FILE",
    help="File to save a figure of error against retention in: .png, .svg or .pdf.",
)
@click.option("--json", "machine", is_flag=True, help="Print one JSON object.")
def plan_retention(
    source: str | None,
    columns: tuple[str, ...],
    targets: tuple[str, ...],
    statistic: str,
    edges: str | None,
    categories: str | None,
    metrics: tuple[str, ...],
    dim: int | None,
    mean: float | None,
    error: float | None,
    records: int | None,
    max_age: timedelta | None,
    rate: float | None,
    epsilon: float,
    delta: float,
    bounds: tuple[str, ...],
    figure: str | None,
    *,
    machine: bool,
) -> None:
    """Predict the retention required for a target error.

    For a target error, or to be within 10% of the error of all records that will arrive: the retention that each policy
    requires, that of a window, and a lower bound; the expected error, memory, time, and the price of privacy.

    Errors are root mean squares in standard deviations: for the mean, of a record; for other statistics, of one
    record's influence on each number, so that 10,000 records have an error of 0.01. With SOURCE, a sample of the
    records, they are also given in the units of the data. Without it, records are assumed to be normal.

    With --max-age and --rate, what a limit in time comes to where there is none in records: how many records make a
    batch, how many are held, how accurate the answer is, and how many must arrive so that the statistic never restarts.

    \b
    Examples:
      vestige plan --dim 4 --error 0.01
      vestige plan --statistic regression --dim 2 --records 1000000
      vestige plan flights.csv --column dep_delay --records 300000 --bound 120
      vestige plan --error 0.01 --epsilon 4 --figure plan.png
      vestige plan --max-age 30d --rate 1000/d
      vestige plan --metric amount:mean,sum --metric rating:moments --max-age 30d --rate 40/h
    """  # noqa: D301  # \b keeps the lines as they are
    policy, names = _make_policy(source, columns, targets, statistic, dim, edges, categories, metrics)
    _check_goal(error, records, max_age, rate, figure)
    sample = None if source is None else _read_sample(source, policy.column_names or columns + targets, policy)
    statistic = METRICS if metrics else statistic
    slow = announce_if_slow("Simulating each policy ...")
    with slow, show_progress("Planning") as report:
        given: dict[str, Any] = {"error": error, "records": records, "sample": sample, "mean": mean}
        given |= {
            "epsilon": epsilon,
            "delta": delta,
            "bound": _read_bound(bounds, policy, columns + targets),
            "progress": report,
        }
        if max_age is not None and rate is not None:
            show_age_plan(plan_max_age(policy, max_age=max_age, rate=rate, **given), statistic, names, machine=machine)
            return
        result = plan(policy, **given)
        if figure is not None:
            draw_plan(result, figure, sample)
    errors = dict(zip(names, result.errors.tolist(), strict=True)) if result.sampled and len(result.errors) else None
    if machine:
        print_json({"statistic": statistic, **_to_facts(result), "errors": errors})
        return
    say(_describe(result, statistic))
    if errors is not None:
        labels = [f"{name} {size:.3g}" for name, size in list(errors.items())[:_SHOWN]]
        say(f"In the units of the data: {'; '.join(labels)}{'; ...' if len(errors) > _SHOWN else ''}.")
    show_table(_HEADER, [_format_row(row) for row in result.rows])
    for line in (*_summarize(result), *_list_notes(result)):
        say(line)


def _make_policy(
    source: str | None,
    columns: tuple[str, ...],
    targets: tuple[str, ...],
    statistic: str,
    dim: int | None,
    edges: str | None,
    categories: str | None,
    metrics: tuple[str, ...],
) -> tuple[NamedPolicy, list[str]]:
    """The policy to plan, and the labels of the numbers of its answer."""
    if metrics:
        options = {"--column": columns, "--target": targets, "--dim": dim, "--edges": edges, "--categories": categories}
        for option, given in options.items():
            if given:
                raise ParameterError(f"{option} cannot be used with --metric, which names columns itself; leave it out")
        bundle = parse_metrics(metrics)
        return bundle, list(bundle.averaged_labels)
    if source is None:
        for option, names in (("--column", columns), ("--target", targets)):
            if names:
                raise ParameterError(f"{option} {names[0]} needs a SOURCE; use --dim instead, or give a file")
        if dim is not None and dim < 1:
            raise ParameterError(f"--dim {dim} is out of range; use a whole number, 1 or more")
        kind = STATISTICS[statistic]
        if dim is not None and kind.max_columns is not None and dim > kind.max_columns:
            most = "one column" if kind.max_columns == 1 else f"{kind.max_columns} columns"
            raise ParameterError(
                f"--dim {dim} is too large for --statistic {statistic}, which takes {most}; use --dim "
                f"{kind.max_columns}"
            )
        columns = tuple(f"column {i + 1}" for i in range(dim or kind.min_columns))
        targets = ("target",) * kind.min_targets
    elif not columns:
        raise ParameterError(f"{source}: no --column is given; give the columns of a record")
    elif dim is not None and dim != len(columns):
        raise ParameterError(
            f"--dim {dim} differs from the number of columns, {len(columns)}; leave it out with SOURCE"
        )
    policy = make_policy(statistic, columns, targets, "auto", None, edges, categories)
    return policy, list(policy.labels(columns + targets))


def _check_goal(
    error: float | None, records: int | None, max_age: timedelta | None, rate: float | None, figure: str | None
) -> None:
    """Refuse options that say too little of what is planned, or too much."""
    if max_age is None:
        if rate is not None:
            raise ParameterError(f"--rate {rate:g}/d needs --max-age, the limit in time; give both, such as 30d")
        if (error is None) == (records is None):
            raise ParameterError("give either --error, the target error, or --records, the number that will arrive")
        return
    age = format_duration(max_age)
    if rate is None:
        raise ParameterError(f"--max-age {age} needs --rate, the records that arrive; give one, such as --rate 1000/d")
    if error is not None and records is not None:
        raise ParameterError("both --error and --records are given; give one, or none for the records of a year")
    if figure is not None:
        raise ParameterError(f"--figure {figure} draws errors against limits in records; leave it out with --max-age")


def _read_sample(source: str, columns: tuple[str, ...], policy: NamedPolicy) -> Floats:
    """Read the rows of a file, or as many as a sample needs."""
    blocks, count = [], 0
    categories = policy.name_categories(columns)
    for block in FileSource(source, columns, keep_missing=policy.takes_missing, categories=categories).blocks():
        blocks.append(block.rows)
        count += len(block.rows)
        if count >= _MOST_ROWS:
            click.echo(f"Only the first {_MOST_ROWS:,} rows are used.", err=True)
            break
    if not count:
        raise SourceError(
            f"{source}: no row has a number in each of {', '.join(columns)}; there is nothing to plan with"
        )
    return np.concatenate(blocks)[:_MOST_ROWS]


def _to_facts(plan: Plan) -> dict[str, object]:
    private = plan.private
    return {
        "error": plan.error,
        "unit": _UNIT,
        "records": plan.records,
        "sampled": plan.sampled,
        "mean": plan.mean,
        "rows": [{name: getattr(row, name) for name in Row.__slots__} for row in plan.rows],
        "private": None
        if private is None
        else {"epsilon": private.epsilon, "delta": private.delta, "bounds": _name_bounds(private)},
        "prices": [{"retention": retention, "price": price} for retention, price in plan.prices],
        "notes": list(plan.notes),
    }


def _describe(plan: Plan, statistic: str) -> str:
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


def _format_row(row: Row) -> tuple[str, ...]:
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


def _summarize(plan: Plan) -> Iterator[str]:
    """The table in sentences."""
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


def _name_bounds(private: Private) -> dict[str, float]:
    return private.name_bounds(_name_columns(private.policy))


def _format_bounds(private: Private) -> str:
    """The bounds of the columns that have one, as a clause."""
    named = _name_bounds(private)
    values = {f"{bound:.3g}" for bound in named.values()}
    if len(values) > 1:
        return f", bounds {', '.join(f'{name} {bound:.3g}' for name, bound in named.items())}"
    return f", bound {values.pop()}" if values else ""


def _name_columns(policy: NamedPolicy) -> tuple[str, ...]:
    return policy.column_names or tuple(f"column {i + 1}" for i in range(policy.columns))


def _read_bound(
    texts: tuple[str, ...], policy: NamedPolicy, columns: tuple[str, ...]
) -> float | dict[str, float] | None:
    """The bounds by column of metrics; one bound for all columns of another statistic."""
    if not texts or not isinstance(policy, Encoded) or not isinstance(policy.statistic, Averages):
        return None
    names = policy.column_names or columns or _name_columns(policy)
    found = parse_bounds(texts, names, [names[i] for i in list_unbounded(policy) or ()])
    if policy.column_names:
        return found
    if len(set(found.values())) > 1:
        raise ParameterError("--bound has several values, which are planned for metrics only; name columns by --metric")
    return next(iter(found.values()), None)


def _list_notes(plan: Plan) -> Iterator[str]:
    """Each note once, with the policies that it concerns."""
    yield from join_notes((row.name, row.notes) for row in plan.rows)
    yield from (f"Sample: {note}" for note in plan.notes)
