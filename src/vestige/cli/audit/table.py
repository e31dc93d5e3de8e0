"""`vestige audit table`: was a table curated, by which kind of choice, how sure, and what can still be read from it.

Guarantee: with a verdict, the exit status is 1 exactly if it is a finding; held by tests/test_cli_audit_table.py.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import click
import numpy as np

from vestige.audit import TableAudit, TablePlan, audit_table, draw_table, plan_table
from vestige.audit.table_result import BLIND_SPOTS, HEADER, NULLS, UNKNOWN
from vestige.cli.audit.declared import Condition, declare, is_list
from vestige.cli.audit.group import audit, figure_option, json_option, seed_option
from vestige.cli.audit.report import Report, check_report, hash_file, report_option, sign_option, write_report
from vestige.cli.audit.snapshots import ReadSnapshot, TableColumns, read_snapshots
from vestige.cli.exit_status import end
from vestige.cli.output import announce_if_slow, format_count, print_json, say, show_progress, show_table
from vestige.errors import ParameterError

_DECLARED_HEADER = ("declared", "reason or rule", "checked", "records", "seen", "missing", "kept")
_PLAN_HEADER = ("layout", "snapshots", "found", "power at least")
_METHOD = (
    "Ids, or times of arrival, give each record a position. Where batches may have ended is found from which positions "
    "are present, without the values. Words: the published code by which Vestige reads presence is ranked among "
    "{trials:,} codes that were drawn at random; whoever kept records without it did so independently of it, so that "
    "this is exact whatever the rule was, and the search over borders and formats is repeated for every code. "
    "Averages: from batch to batch, the averages of the kept records are compared with those of {trials:,} random "
    "draws from records that were all held; that records represent their own batch perfectly does not count as too "
    "steady, and neither do cycles. Groups and values: the observed records are ranked among {trials:,} random "
    "permutations; values are compared among twenty records in a row. Declared exceptions are not believed: words, "
    "averages and groups count what they name as missing; values leaves it out; removals are compared with the records "
    "that stayed. Averages leave out later records that a condition bars, and twice the share that lists of rules and "
    "corrections name, those farthest from the kept records. "
    "The p-values are corrected together (Holm), so that the chance of any false rejection is at most {level:g}."
)
_DECLARED = (
    "Checked: on each row that was seen; a list is what the firm says. Seen: in some snapshot, so that their values "
    "are known. Missing: between rows of a snapshot, and not named in a line above. Kept: in a batch of which others "
    "are missing, although they are named."
)
_ORDERS = {
    "ids": "numbered by id",
    "arrivals": "numbered by arrival",
    "ranks": "numbered by order among those that were seen",
    UNKNOWN: "in an order that is not known",
}


@audit.command("table")
@click.argument("sources", nargs=-1, metavar="SNAPSHOT...")
@click.option("--id", "id_column", metavar="COLUMN", help="Column that identifies a row.")
@click.option("--column", "columns", multiple=True, metavar="COLUMN", help="Numeric column; may be repeated.")
@click.option("--arrived", metavar="COLUMN", help="Column that says when a row arrived; default: ids count up.")
@click.option("--table", "tables", multiple=True, metavar="NAME", help="Table of a database; may be repeated.")
@click.option(
    "--removed",
    multiple=True,
    metavar="FILE",
    help="List of ids removed on request, one in each line, or CSV with a column reason; may be repeated.",
)
@click.option(
    "--corrected", multiple=True, metavar="FILE", help="List of ids whose values were put right; may be repeated."
)
@click.option(
    "--rule",
    "rules",
    multiple=True,
    metavar="CONDITION|FILE",
    help="Declared rule: which rows may stay, such as 'status != cancelled', or a list of ids that it removed; may be "
    "repeated.",
)
@click.option(
    "--level", type=float, default=0.01, show_default=True, help="Largest chance that any test rejects by mistake."
)
@click.option(
    "--trials", type=int, default=1_999, show_default=True, help="Number of permutations, and of decoy codes."
)
@click.option("--plan", is_flag=True, help="Also find the power: how often such an audit finds what is written.")
@click.option("--size", type=int, help="With --plan and without SNAPSHOT: number of records of a batch.")
@click.option(
    "--repetitions", type=int, default=10, show_default=True, help="With --plan: number of tables to try each time."
)
@seed_option
@figure_option
@report_option
@sign_option
@json_option
def audit_one_table(
    sources: tuple[str, ...],
    id_column: str | None,
    columns: tuple[str, ...],
    arrived: str | None,
    tables: tuple[str, ...],
    removed: tuple[str, ...],
    corrected: tuple[str, ...],
    rules: tuple[str, ...],
    level: float,
    trials: int,
    plan: bool,
    size: int | None,
    repetitions: int,
    seed: int,
    figure: str | None,
    report: str | None,
    key: str | None,
    machine: bool,
) -> None:
    """Test whether the records of a table were chosen to say something.

    SNAPSHOT is a CSV, NDJSON or Parquet file, a SQLite file or an address of PostgreSQL (with --table): the table at
    one moment, in order of time. Several snapshots are needed; --plan says how many. Take them at irregular times, each
    at least a batch after the one before.

    What a firm declares (--removed, --corrected, --rule) is counted and tested, not believed. The verdict is curated,
    curated by excuse or chosen by value, with exit status 1; or chosen by a declared rule, not shown or inconclusive,
    with exit status 0. No result proves that a table is honest. The exit status is 2 after an error, without a verdict.

    \b
    Examples:
      vestige audit table monday.csv tuesday.csv wednesday.csv --id customer_no --column amount
      vestige audit table day*.parquet --id invoice --arrived booked --column amount --report audit.html
      vestige audit table day1.db day2.db --table customers --id customer_no --column amount --removed asked.csv
      vestige audit table day*.csv --id trade --column amount --rule "status != cancelled" --corrected fixed.csv
      vestige audit table --plan --size 500
    """  # noqa: D301
    check_report(report, key)
    if not sources:
        _plan_only(plan, size, level, repetitions, seed, machine)
        return
    if id_column is None or not columns:
        lacking = [name for name, given in (("--id", id_column), ("--column", columns)) if not given]
        raise ParameterError(
            "SNAPSHOT needs --id, the column that identifies a row, and --column, a numeric column; add "
            + " and ".join(lacking)
        )
    if size is not None:
        raise ParameterError(f"--size {size} is for --plan without SNAPSHOT; leave it out: the snapshots have a size")
    conditions = tuple(Condition.parse(rule) for rule in rules if not is_list(rule))
    with announce_if_slow("Reading the snapshots ..."):
        read = read_snapshots(sources, tables, TableColumns(id_column, columns, arrived, conditions))
    barred = [set[str]().union(*(each.barred[i] for each in read)) for i in range(len(conditions))]
    declared = declare(id_column, removed, corrected, rules, barred)
    inputs = [(each.name, each.sha256, each.note) for each in read]
    lists = [(path, "declared rule") for path in rules if is_list(path)]
    lists += [(path, "declared corrections") for path in corrected] + [(path, "declared removals") for path in removed]
    inputs += [(path, hash_file(path), note) for path, note in lists]
    with announce_if_slow("Testing ..."):
        found = audit_table([each.snapshot for each in read], declared=declared, level=level, trials=trials, seed=seed)
    power = _find_power(read, found, repetitions, seed) if plan else None
    if figure is not None:
        draw_table(found, figure)
    if report is not None:
        write_report(_make_report(inputs, found, power, columns), report, key)
    if machine:
        named = [{"name": name, "sha256": digest, "note": note} for name, digest, note in inputs]
        print_json(found.to_dict() | {"inputs": named, "plan": None if power is None else power.cells})
    else:
        _print(read, found, power)
        if report is not None:
            say(f"Report: {report}{f', signed in {report}.sig' if key else ''}.")
    end(has_finding=found.is_finding)


def _plan_only(plan: bool, size: int | None, level: float, repetitions: int, seed: int, machine: bool) -> None:
    if not plan:
        raise ParameterError(
            "no SNAPSHOT is given; give snapshots, or --plan and --size for a plan before there are any"
        )
    with show_progress("Auditing tables in which a mean is written") as tell:
        power = plan_table(
            size=500 if size is None else size, level=level, repetitions=repetitions, seed=seed, progress=tell
        )
    if machine:
        print_json({"size": power.size, "level": level, "plan": power.cells})
    else:
        _print_power(power)


def _find_power(read: list[ReadSnapshot], found: TableAudit, repetitions: int, seed: int) -> TablePlan:
    """The power of as many snapshots as there are, and of more, on records like these."""
    values = np.concatenate([np.asarray(each.snapshot.values, np.float64)[:, 0] for each in read])
    size = found.length or max(len(each.snapshot.ids) for each in read)
    with show_progress("Auditing tables in which a mean is written") as tell:
        return plan_table(
            size=min(max(size, 52), 5_000),
            snapshots=sorted({max(2, len(read)), 20}),
            values=values[np.isfinite(values)],
            level=found.level,
            repetitions=repetitions,
            seed=seed,
            progress=tell,
        )


def _print(read: list[ReadSnapshot], found: TableAudit, power: TablePlan | None) -> None:
    say(found.explain())
    say(_describe_data(found))
    for note, names in _group_notes(read).items():
        say(f"{names[0] if len(names) == 1 else format_count(len(names), 'snapshot')}: {note}.")
    if found.declared:
        show_table(_DECLARED_HEADER, _list_declared(found), words=("reason or rule", "checked"))
    show_table(HEADER, found.rows, words=("result",))
    for line in _describe_spelled(found):
        say(line)
    if power is not None:
        _print_power(power)
    say("This audit cannot see:")
    for text in BLIND_SPOTS:
        say(f"- {text}")


def _list_declared(found: TableAudit) -> list[tuple[str, ...]]:
    """What is declared: how many records, and how many of them were seen, are missing, and are kept all the same."""
    return [
        (
            each.kind,
            each.name,
            "yes" if each.is_checked else "no",
            *(f"{count:,}" for count in (each.records, each.seen, each.excused, each.kept)),
        )
        for each in found.declared
    ]


def _group_notes(read: list[ReadSnapshot]) -> dict[str, list[str]]:
    """What was assumed to read snapshots, and which."""
    notes: dict[str, list[str]] = {}
    for each in read:
        for note in filter(None, each.note.split("; ")):
            notes.setdefault(note, []).append(each.name)
    return notes


def _print_power(power: TablePlan) -> None:
    say(f"Power at level {power.level:g}, for batches of {power.size:,} records, by trying the audit on such tables:")
    show_table(_PLAN_HEADER, power.cells)


def _describe_data(found: TableAudit) -> str:
    """What was seen, before any test."""
    parts = [format_count(len(found.snapshots), "snapshot")]
    rows = sum(each.records for each in found.snapshots)
    parts.append(f"{format_count(rows, 'row')} of {format_count(found.records, 'record')}")
    text = f"{', '.join(parts)}, {_ORDERS[found.numbering]}."
    if found.numbering in ("ids", "arrivals"):
        text += f" {format_count(found.missing + found.excused, 'number')} are missing between rows of a snapshot"
        text += f", {found.excused:,} of them by declared exceptions." if found.declared else "."
    if found.numbering != UNKNOWN:
        text += f" {found.outlived:,} {'other ' if found.declared else ''}records were gone while older ones stayed."
    for each in found.declared:
        if each.records and not each.seen and not each.excused:
            text += f" {each.name} names no record that is seen or missing here; check its column of ids."
    if found.changed:
        text += f" {format_count(found.changed, 'record')} changed their values, without a declared correction."
    if found.returned:
        text += f" {format_count(found.returned, 'record')} came back after they were gone."
    if found.late and found.numbering != UNKNOWN:
        text += f" {format_count(found.late, 'record')} appeared although newer ones were seen before; "
        text += "check that the snapshots are named in order of time."
    if found.filled:
        text += f" {format_count(found.filled, 'missing value')} were replaced by the average of their column."
    if found.batches:
        text += f" The schedule that fits best has batches of {found.length:,}; "
        text += "one of them is shown." if found.batches == 1 else f"{found.batches} of them are shown."
    return text


def _describe_spelled(found: TableAudit) -> list[str]:
    """What can still be read: the numbers that are spelled, or the averages."""
    if "words" in found.rejected and found.spelled:
        numbers = ", ".join(f"{number:.6g}" for number in found.spelled[-1])
        where = " (as shares of a range that is not known)" if (found.form or "").startswith("Private") else ""
        return [f"What it says: {found.form}; in the last batch {numbers}{where}."]
    if "words" in found.rejected:
        return ["What it says: the words are alike, but their numbers cannot be read without the clock."]
    several = [averages for averages in found.averages if not math.isnan(averages[0])]
    if {"averages", "groups"} & set(found.rejected) and several:
        numbers = ", ".join(f"{number:.6g}" for number in several[-1])
        return [f"What it says: the kept records of the last batch average to {numbers}."]
    return []


def _make_report(
    inputs: list[tuple[str, str, str]], found: TableAudit, power: TablePlan | None, columns: tuple[str, ...]
) -> Report:
    is_ordered = found.numbering != UNKNOWN
    facts = [
        (each.label, f"{each.records:,}", *(f"{n:,}" if is_ordered else "-" for n in (each.missing, each.excused)))
        for each in found.snapshots
    ]
    nulls = [(test.name, NULLS[test.name]) for test in found.tests]
    tables: list[tuple[str, Sequence[str], Sequence[Sequence[str]], Sequence[str]]] = [
        ("Tests", HEADER, found.rows, _describe_spelled(found)),
        *([("Declared exceptions", _DECLARED_HEADER, _list_declared(found), (_DECLARED,))] if found.declared else []),
        ("Null hypotheses", ("test", "rejected if this is improbable"), nulls, ()),
        ("Snapshots", ("snapshot", "records", "missing", "declared"), facts, (_describe_data(found),)),
    ]
    if power is not None:
        tables.append((f"Power at level {power.level:g}", _PLAN_HEADER, power.cells, ()))
    shown = max(map(len, found.patterns), default=0)
    part = f"of the newest {shown} " if shown < found.length else ""
    caption = f"Left: which {part}positions of each batch are kept. "
    caption += "Right: the averages of the kept records, with a band of one standard error: by chance, one in three "
    caption += "lies outside."
    return Report(
        title="Audit of a table",
        question=f"Were the records of this table chosen to say something, judged by {', '.join(columns)}?",
        verdict=found.explain(),
        mark=found.verdict,
        method=_METHOD.format(trials=found.trials, level=found.level),
        inputs=inputs,
        tables=tables,
        figures=[(draw_table(found), caption)] if found.patterns else [],
        blind_spots=BLIND_SPOTS,
    )
