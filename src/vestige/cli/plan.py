"""`vestige plan`: how much retention is needed, before one starts."""

from __future__ import annotations

import math
from collections.abc import Iterator

import click
import numpy as np

from vestige.cli.group import command, picture
from vestige.cli.output import announced, as_json, meter, say, show_table
from vestige.cli.reports import STATISTICS
from vestige.errors import ParameterError, SourceError
from vestige.planning import Plan, Row, draw_plan, plan
from vestige.policies import Encoded
from vestige.sources import Source
from vestige.types import Floats

_MOST_ROWS = 200_000
_SHOWN = 8
_UNIT = "standard deviations of what one record says"
_HEADER = ("policy", "retention", "records", "error", "memory", "time per record", "price")


@command.command("plan")
@click.argument("source", required=False)
@click.option("--column", "columns", multiple=True, help="With SOURCE: a numeric column; several make one record.")
@click.option("--target", "targets", multiple=True, help="With SOURCE: the column to explain, for regression.")
@click.option(
    "--statistic", type=click.Choice(list(STATISTICS)), default="mean", show_default=True, help="What will be kept."
)
@click.option("--dim", type=int, help="Without SOURCE: how many columns a record has, for regression predictors. [1]")
@click.option(
    "--mean",
    type=float,
    help="Without SOURCE: how far from zero the mean lies, in standard deviations of a record. [1]",
)
@click.option("--error", type=float, help="The error that is wanted, in standard deviations of a record.")
@click.option("--records", type=int, help="How many records will come; give this or --error.")
@click.option(
    "--epsilon",
    type=float,
    default=1.0,
    show_default=True,
    help="The privacy that Private is to promise; less is more private.",
)
@click.option(
    "--delta",
    type=float,
    default=1e-6,
    show_default=True,
    help="The chance with which the promise of --epsilon may fail.",
)
@click.option(
    "--bound", type=float, help="For Private: the longest that a record may be, else shortened. Never from the data."
)
@click.option(
    "--figure",
    type=picture,
    metavar="FILE",
    help="Draw error against retention; the ending says how: .png, .svg, .pdf.",
)
@click.option("--json", "machine", is_flag=True, help="Print one JSON object, for machines.")
def plan_(
    source: str | None,
    columns: tuple[str, ...],
    targets: tuple[str, ...],
    statistic: str,
    dim: int | None,
    mean: float | None,
    error: float | None,
    records: int | None,
    epsilon: float,
    delta: float,
    bound: float | None,
    figure: str | None,
    *,
    machine: bool,
) -> None:
    """Tell how much retention is needed.

    For an error that is wanted, or to be within 10% of the error of all records that will come: the retention that
    each policy needs, the window, and anybody at least; the error expected, memory, time, and the price of forgetting.

    Errors are root mean squares in standard deviations: for the mean, of a record; for other statistics, of what one
    record says of each number, so that 0.01 is what 10,000 records can tell. With SOURCE, a sample of the records, they
    are told in the units of the data too. Without, records are taken to be normal; say with --mean how far from zero
    they lie: the farther, the more retention it takes.

    \b
    Examples:
      vestige plan --dim 4 --error 0.01
      vestige plan --statistic regression --dim 2 --records 1000000
      vestige plan flights.csv --column dep_delay --records 300000 --bound 120
      vestige plan --error 0.01 --epsilon 4 --figure plan.png
    """  # noqa: D301  # the sign says to leave the lines as they are
    policy, names = _policy(source, columns, targets, statistic, dim)
    if (error is None) == (records is None):
        raise ParameterError("give --error or --records, just one of them: the error wanted, or how many will come")
    sample = None if source is None else _rows(source, columns + targets)
    slow = announced("Trying each policy ...")
    with slow, meter("Planning") as report:
        found = plan(
            policy,
            error=error,
            records=records,
            sample=sample,
            mean=mean,
            epsilon=epsilon,
            delta=delta,
            bound=bound,
            progress=report,
        )
        if figure is not None:
            draw_plan(found, figure, sample)
    errors = dict(zip(names, found.errors.tolist(), strict=True)) if found.sampled else None
    if machine:
        as_json({"statistic": statistic, **_facts(found), "errors": errors})
        return
    say(_opening(found, statistic))
    if errors is not None:
        told = [f"{name} {size:.3g}" for name, size in list(errors.items())[:_SHOWN]]
        say(f"In the units of the data: {'; '.join(told)}{'; ...' if len(errors) > _SHOWN else ''}.")
    show_table(_HEADER, [_cells(row) for row in found.rows])
    for line in (*_told(found), *_noted(found)):
        say(line)


def _policy(
    source: str | None, columns: tuple[str, ...], targets: tuple[str, ...], statistic: str, dim: int | None
) -> tuple[Encoded, list[str]]:
    """What is planned, and what the numbers of its answer are called."""
    if source is None:
        for option, names in (("--column", columns), ("--target", targets)):
            if names:
                raise ParameterError(
                    f"{option} {names[0]} has no use without SOURCE; say --dim instead, or name a file"
                )
        if dim is not None and dim < 1:
            raise ParameterError(f"--dim {dim} is out of range; use a whole number, 1 or more")
        if statistic == "moments" and dim not in (None, 1):
            raise ParameterError(
                f"--dim {dim} is too many for --statistic moments, which takes one column; use --dim 1"
            )
        columns = tuple(f"column {i + 1}" for i in range(dim or 1))
        targets = ("target",) if statistic in ("regression", "logistic") else ()
    elif not columns:
        raise ParameterError(f"{source}: no --column is given; name the columns of a record")
    elif dim is not None and dim != len(columns):
        raise ParameterError(f"--dim {dim} is not the {len(columns)} columns that are named; leave it out with SOURCE")
    called = {
        "mean": list(columns),
        "moments": ["mean", "variance", "skewness", "kurtosis"],
        "covariance": [f"{one} with {other}" for one in columns for other in columns],
        "regression": [f"{target} by {column}" for target in targets for column in columns],
    }
    return STATISTICS[statistic].policy(columns, targets, "auto", None), called.get(statistic, [])


def _rows(source: str, columns: tuple[str, ...]) -> Floats:
    """The rows of a file, or as many as a sample needs."""
    taken, count = [], 0
    for block in Source(source).blocks(columns):
        taken.append(block.rows)
        count += len(block.rows)
        if count >= _MOST_ROWS:
            click.echo(f"Only the first {_MOST_ROWS:,} rows are looked at.", err=True)
            break
    if not count:
        raise SourceError(f"{source}: no row has a number in each of {', '.join(columns)}; nothing to plan with")
    return np.concatenate(taken)[:_MOST_ROWS]


def _facts(found: Plan) -> dict[str, object]:
    private = found.private
    return {
        "error": found.error,
        "unit": _UNIT,
        "records": found.records,
        "sampled": found.sampled,
        "mean": found.mean,
        "rows": [{name: getattr(row, name) for name in Row.__slots__} for row in found.rows],
        "private": None
        if private is None
        else {"epsilon": private.epsilon, "delta": private.delta, "bound": private.bound},
        "prices": [{"retention": retention, "price": price} for retention, price in found.prices],
        "notes": list(found.notes),
    }


def _opening(found: Plan, statistic: str) -> str:
    whose = "a record" if statistic == "mean" else "what one record says"
    known = f"a sample of {found.sampled:,} records"
    if found.mean is not None:
        known = f"normal records, mean {found.mean:g} and deviation 1, assumed"
    return (
        f"Plan for {statistic}, {found.policy.columns} column{'s'[: found.policy.columns > 1]} ({known}): an error of "
        f"{found.error:.3g} standard deviations of {whose}, after {found.records:,} records."
    )


def _cells(row: Row) -> tuple[str, ...]:
    return (
        row.name,
        "-" if row.retention is None else _count(row.retention),
        "-" if row.records is None else _count(row.records),
        "-" if row.error is None else f"{row.error:.3g}",
        "-" if row.memory is None else _bytes(row.memory),
        "-" if row.seconds is None else _time(row.seconds),
        "" if row.price is None else f"{row.price:.2f}",
    )


def _count(number: int) -> str:
    return f"{number:,}" if number < 10**9 else f"{number:.3g}"


def _bytes(count: int) -> str:
    power = min(int(math.log10(count)) // 3, 4)
    return f"{count / 1_000**power:.3g} {('B', 'kB', 'MB', 'GB', 'TB')[power]}"


def _time(seconds: float) -> str:
    micro = float(f"{seconds * 1e6:.2g}")
    return f"{micro:g} µs" if micro < 1_000.0 else f"{micro / 1_000.0:g} ms"


def _told(found: Plan) -> Iterator[str]:
    """What the table says, in sentences."""
    ours, window, least = found.rows[0], found.row("window"), found.row("anybody")
    if ours.retention is not None:
        where = "" if found.mean is None else f", with the mean {found.mean:g} deviations from zero"
        yield (
            f"{ours.name.split(',')[0]} needs a retention of {ours.retention:,} records{where}; a window that keeps "
            f"all it may needs {window.retention:,}; nobody can do with less than {least.retention:,}."
        )
    if found.private is not None and found.prices:
        private = found.private
        priced = ", ".join(f"{price:.3g} at {retention:,}" for retention, price in found.prices)
        yield (
            f"The price of epsilon {private.epsilon:g} (delta {private.delta:g}, bound {private.bound:.3g}), in times "
            f"the squared error without noise, or times as many records for the same error, by retention: {priced}."
        )


def _noted(found: Plan) -> Iterator[str]:
    """What is doubtful, each once, with whom it concerns."""
    concerned: dict[str, list[str]] = {}
    for row in found.rows:
        for note in row.notes:
            concerned.setdefault(note, []).append(row.name)
    for note, names in concerned.items():
        yield f"{'; '.join(names)}: {note}"
    yield from (f"Sample: {note}" for note in found.notes)
