"""`vestige plan`: predicts the retention required for a target error."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import click
import numpy as np

from vestige.cli.age_plan import show_age_plan
from vestige.cli.group import check_figure_path, command, parse_duration, parse_rate
from vestige.cli.noise_options import bound_option
from vestige.cli.output import (
    announce_if_slow,
    print_json,
    say,
    show_progress,
    show_table,
)
from vestige.errors import ParameterError, SourceError
from vestige.ingest.policy_options import make_policy, parse_bounds
from vestige.planning import Plan, Row, draw_plan, plan, plan_max_age
from vestige.planning.table import HEADER, describe, format_row, name_bounds, name_columns, summarize
from vestige.policies import STATISTICS, Encoded, NamedPolicy
from vestige.policies.metrics import METRICS, parse_metrics
from vestige.policies.private import Limit, list_unbounded
from vestige.sources import FileSource
from vestige.statistics import Averages
from vestige.stream.arrivals import read_table
from vestige.times import format_duration
from vestige.types import Floats

_MOST_ROWS = 200_000
_SHOWN = 8
_UNIT = "standard deviations of one record's influence"


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
    say(describe(result, statistic))
    if errors is not None:
        labels = [f"{name} {size:.3g}" for name, size in list(errors.items())[:_SHOWN]]
        say(f"In the units of the data: {'; '.join(labels)}{'; ...' if len(errors) > _SHOWN else ''}.")
    show_table(HEADER, [format_row(row) for row in result.rows])
    for line in summarize(result):
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
        blocks.append(read_table(block.rows, policy))
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
        else {"epsilon": private.epsilon, "delta": private.delta, "bounds": name_bounds(private)},
        "prices": [{"retention": retention, "price": price} for retention, price in plan.prices],
        "notes": list(plan.notes),
    }


def _read_bound(
    texts: tuple[str, ...], policy: NamedPolicy, columns: tuple[str, ...]
) -> Limit | dict[str, Limit] | None:
    """The bounds by column of metrics; one bound for all columns of another statistic."""
    if not texts or not isinstance(policy, Encoded) or not isinstance(policy.statistic, Averages):
        return None
    names = policy.column_names or columns or name_columns(policy)
    found = parse_bounds(texts, names, [names[i] for i in list_unbounded(policy) or ()])
    if policy.column_names:
        return found
    if len(set(found.values())) > 1:
        raise ParameterError("--bound has several values, which are planned for metrics only; name columns by --metric")
    return next(iter(found.values()), None)
