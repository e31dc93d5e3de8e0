"""`vestige init`: a file of options, written from a look at the data.

Guarantee: vestige run takes what is written as it is; only names of columns and categories are shown and written, never
the value of a record; held by tests/test_cli_init.py.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import click

from vestige.cli.config import FILE
from vestige.cli.group import command
from vestige.cli.output import announce_if_slow, escape, format_count, say, show_table
from vestige.errors import MissingExtraError, ParameterError, SourceError
from vestige.policies.metrics import join_options, list_columns, quote_column
from vestige.sources.dialect import Dialect
from vestige.sources.listing import list_files

if TYPE_CHECKING:
    from vestige.sources.profile import ColumnProfile, FileProfile

_MAX_AGE = timedelta(days=30)
_LATE = {"1h": timedelta(hours=1), "1d": timedelta(days=1), "7d": timedelta(days=7)}
"""Durations that are offered for --lateness; the first that is long enough is taken."""
_MAX_CANDIDATES = 5
_NAME_END = re.compile(r"[-_]*[*?\[.]")


@command.command("init")
@click.argument("file")
@click.option("-o", "--out", default=FILE, show_default=True, metavar="FILE", help="File of options to write.")
def init(file: str, out: str) -> None:
    """Write vestige.toml from a look at FILE.

    FILE is a CSV, NDJSON or Parquet file, whose first rows are read; or a folder of such files or a pattern in quotes,
    as vestige run takes them, of which the first file is looked at. Columns of numbers get a mean, columns of a few
    texts and booleans get shares, a column of times is used for the age of records. Columns that may be subjects or
    keys are listed as comments. Records are erased after 30 days. The separator, decimal point and encoding of CSV are
    guessed from its first lines.

    Read what was written and change it, then call vestige run. An existing file is not overwritten.

    \b
    Examples:
      vestige init visits.csv
      vestige init 'visits*.csv' -o night.toml
    """  # noqa: D301  # the sign says to leave the lines as they are
    try:
        from vestige.sources.detection import detect_dialect  # noqa: PLC0415  # Arrow takes half a second to import
        from vestige.sources.profile import profile_file  # noqa: PLC0415
    except ModuleNotFoundError as missing:
        raise MissingExtraError(f"reading a file (here: {missing.name})", "cli") from None
    if os.path.exists(out):
        raise ParameterError(f"--out {out} exists and is not overwritten; remove it, or give another --out")
    if file == "-":
        raise ParameterError(
            "FILE is -, standard input, which can be read only once; save its rows, and give that file"
        )
    first = list_files([file])[0]
    with announce_if_slow(f"Reading {first} ..."):
        dialect = detect_dialect(first)
        profile = profile_file(first, dialect)
    metrics = {column.name: metric for column in profile.columns if (metric := _make_metric(column))}
    if not metrics:
        raise SourceError(
            f"{first}: no column of its first {format_count(profile.rows, 'row')} holds numbers, or a few texts that "
            "many rows have; write the options yourself"
        )
    time = _choose_time(profile)
    unusual = _list_unusual(dialect)
    text = "\n".join(_write_options(file, first, out, unusual, profile, list(metrics.values()), time)) + "\n"
    try:
        content = text.encode()
    except UnicodeEncodeError:
        raise ParameterError(f"{file}: its name is not UTF-8, as TOML must be; rename it") from None
    with open(out, "xb") as opened:
        opened.write(content)
    _show(first, profile, metrics, time)
    if unusual:
        say(f"Dialect: {', '.join(f'{key} {quote_toml(value)}' for key, value in unusual.items())}.")
    say(f"{out}: written; read it, and change what you need. Then call {_name_run(out)}.")


def quote_toml(text: str) -> str:
    r"""Write a text as TOML.

    Args:
        text: any text.

    Returns:
        The text in quotes; what cannot be there is escaped.

    Example:
        >>> print(quote_toml('a "b"\n'))
        "a \"b\"\n"
    """
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _list_unusual(dialect: Dialect) -> dict[str, str]:
    """The options for what is not usual in a dialect."""
    given, usual = asdict(dialect), asdict(Dialect())
    return {key: value for key, value in given.items() if value != usual[key]}


def _make_metric(column: ColumnProfile) -> str:
    """The metric of a column; empty if it has none, or a name that cannot be written in a metric."""
    if column.kind == "numbers":
        metric = f"{quote_column(column.name)}:mean"
    elif len(column.categories) > 1:  # one alone says nothing, and all others would count as other
        metric = f"{quote_column(column.name)}:shares[{join_options(column.categories)}]"
    else:
        return ""
    try:
        return metric if list_columns([metric]) == (column.name,) else ""
    except ParameterError:
        return ""


def _choose_time(profile: FileProfile) -> ColumnProfile | None:
    """The column of times whose rows are late the least; none if they are later than any duration that is offered."""
    found = sorted(profile.find("times"), key=lambda column: column.lateness)
    return found[0] if found and found[0].lateness <= max(_LATE.values()) else None


def _write_options(
    file: str,
    first: str,
    out: str,
    dialect: dict[str, str],
    profile: FileProfile,
    metrics: Sequence[str],
    time: ColumnProfile | None,
) -> Iterator[str]:
    folder, stem = os.path.dirname(out), _NAME_END.split(Path(file).name)[0] or "vestige"
    source = file if os.path.isabs(file) else os.path.relpath(file, folder or ".")
    seen = f"the {format_count(profile.rows, 'row')}" if profile.whole else f"the first {profile.rows:,} rows"
    yield f"# Options of vestige run, from a look at {seen} of {quote_toml(os.path.basename(first))}."
    yield "# vestige run --help describes them. Paths are relative to this file."
    yield f"source = {quote_toml(source)}"
    yield from (f"{key} = {quote_toml(value)}" for key, value in dialect.items())
    yield f"store = {quote_toml(stem + '.db')}"
    yield "# Keyring that seals the store, so that its backups are erased with it; vestige keyring init makes one."
    yield f"# keyring = {quote_toml('/another/device/' + stem + '.keyring')}"
    yield "\n# What is kept: a column, a colon, and statistics with commas between them. Remove what you do not need."
    yield from ("metric = [", *(f"    {quote_toml(metric)}," for metric in metrics), "]")
    yield "\n# Age at which a record is erased."
    yield f'max-age = "{_MAX_AGE.days}d"'
    if time is None:
        yield "# It counts from the arrival of a record; with a column of times in order, from its time:"
        yield '# time = "COLUMN"'
    else:
        yield "# It counts from the time in this column."
        yield f"time = {quote_toml(time.name)}"
        late = next(text for text, duration in _LATE.items() if time.lateness <= duration)
        yield "# How much older than an earlier row a row may be; rows that are later still are skipped and counted."
        yield f'lateness = "{late}"' if time.lateness else f'# lateness = "{late}"'
    yield "\n# Column with the person a record is about, so that vestige forget can erase it."
    yield from _list_candidates("subject", profile.subjects)
    yield "\n# Column of keys: one stream is kept for each. They stay in the names of streams after records are erased."
    yield from _list_candidates("by", profile.keys)


def _list_candidates(key: str, names: Sequence[str]) -> Iterator[str]:
    """The likeliest column as an option, and others after it, since a file may have an option only once."""
    first, *others = names[:_MAX_CANDIDATES] or ("COLUMN",)
    yield f"# {key} = {quote_toml(first)}"
    if others:
        yield f"# Others that it may be: {', '.join(map(quote_toml, others))}."


def _show(file: str, profile: FileProfile, metrics: dict[str, str], time: ColumnProfile | None) -> None:
    seen = format_count(profile.rows, "row") if profile.whole else f"the first {profile.rows:,} rows"
    say(f"{file}: {seen}, {format_count(len(profile.columns), 'column')}")
    rows = [
        (
            column.name,
            _describe_kind(column),
            f"{column.missing / profile.rows:.1%}",
            _describe_use(column, profile, metrics, time),
        )
        for column in profile.columns
    ]
    show_table(("column", "holds", "missing", "use"), rows, words=("holds", "use"))


def _describe_kind(column: ColumnProfile) -> str:
    return "1 category" if len(column.categories) == 1 else f"{len(column.categories) or ''} {column.kind}".strip()


def _describe_use(
    column: ColumnProfile, profile: FileProfile, metrics: dict[str, str], time: ColumnProfile | None
) -> str:
    uses = [metrics[column.name].removeprefix(f"{column.name}:")] if column.name in metrics else []
    uses += ["time"] if column is time else []
    uses += ["subject?"] if column.name in profile.subjects[:_MAX_CANDIDATES] else []
    uses += ["by?"] if column.name in profile.keys[:_MAX_CANDIDATES] else []
    return escape(", ".join(uses)) or "-"


def _name_run(out: str) -> str:
    return "vestige run" if out == FILE else f"vestige run --config {out}"
