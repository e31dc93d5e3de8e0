"""Answers as rows for other programs: one for each stream and number, typed and flat, as JSON, CSV or Parquet.

docs/reference/answers.md describes the columns, and docs/reference/answers.schema.json is their JSON schema.
Guarantee: all formats have the same rows, which the schema describes; held by tests/test_cli_rows.py.
"""

from __future__ import annotations

import csv
import io
import json
import os
import secrets
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

import click

from vestige.cli.answers import StreamAnswer
from vestige.cli.output import escape, protect_cell
from vestige.errors import ParameterError
from vestige.policies import Remark

COLUMNS: dict[str, type] = {
    "stream": str,
    "metric": str,
    "value": float,
    "standard_error": float,
    "lower": float,
    "upper": float,
    "since": int,
    "counted": int,
    "held": int,
    "t": int,
    "as_of": int,
    "missed": bool,
    "notes": str,
    "problem": str,
}
"""The columns of a row and their types; a value may be None, except the name of the stream."""
FORMATS = ("table", "json", "csv", "parquet")

Row = dict[str, Any]


def check_output(form: str, out: str | None, files: Iterable[str]) -> None:
    """Check that a format can be written where it should be, before anything is computed.

    Args:
        form: one of `FORMATS`.
        out: the file to write; None for standard output.
        files: the files of the store, which are never overwritten.

    Raises:
        ParameterError: a table cannot be written to a file, Parquet not to a terminal, and nothing over the store.
    """
    if form == "table" and out is not None:
        raise ParameterError(f"--out {out} cannot be used with --format table; use json, csv or parquet")
    if out == "-":
        raise ParameterError("--out - is not a file; leave it out to print, or give the name of a file")
    if out is not None and _is_same(out, files):
        raise ParameterError(f"--out {out} is a file of the store, which would be overwritten; use another file")
    if form == "parquet" and out is None and _is_terminal():
        raise ParameterError("--format parquet is not for a terminal; give --out FILE, or redirect the output")


def check_sources(out: str | None, sources: Iterable[str], config: Iterable[str]) -> None:
    """Check that a file that is to be written is not one that runs read.

    Args:
        out: the file to write; None for standard output.
        sources: paths of the sources of the streams, and of those of a configuration file.
        config: paths of configuration files.

    Raises:
        ParameterError: it is one of them.
    """
    if out is not None and _is_same(out, sources):
        raise ParameterError(f"--out {out} is a source of the store, which would be overwritten; use another file")
    if out is not None and _is_same(out, config):
        raise ParameterError(f"--out {out} holds options, which would be overwritten; use another file")


def _is_same(out: str, paths: Iterable[str]) -> bool:
    """Whether one of the paths leads to the file, by its name or, if it exists, by a link."""
    exists, real = os.path.exists(out), os.path.realpath(out)
    return any(
        os.path.realpath(path) == real or (exists and os.path.exists(path) and os.path.samefile(out, path))
        for path in paths
    )


def list_rows(answers: Mapping[str, StreamAnswer]) -> list[Row]:
    """List the rows of all streams; a stream or a metric without an answer has one row that says why.

    Args:
        answers: the answers, by the name of the stream.

    Returns:
        Rows with the keys of `COLUMNS`.

    Example:
        >>> list_rows({"main": StreamAnswer(0, 1, 0, problem="It is damaged.")})[0]["problem"]
        'It is damaged.'
    """
    blank = dict.fromkeys(COLUMNS)
    rows: list[Row] = []
    for name, answer in answers.items():
        if answer.estimate is not None:
            remarks = () if answer.report is None else answer.report.remarks
            rows += [
                {**blank, "stream": name, **_add_remarks(row, remarks), "problem": answer.unanswered.get(row["metric"])}
                for row in answer.estimate.to_rows()
            ]
        else:
            counts = {"since": answer.since, "counted": answer.counted, "t": answer.t} if answer.t else {}
            rows.append({**blank, "stream": name, **counts, "problem": answer.problem})
    return rows


def _add_remarks(row: Row, remarks: Sequence[Remark]) -> Row:
    """A row whose notes include the remarks on its metric."""
    found = [remark.text for remark in remarks if not remark.metrics or _is_of(row["metric"], remark.metrics)]
    return row | {"notes": " ".join(filter(None, (row["notes"], *found))) or None}


def _is_of(label: str, metrics: Sequence[str]) -> bool:
    """Whether a number is one of those of some metrics: it is called like one, or begins with its name."""
    return any(label == name or label.startswith(f"{name} ") for name in metrics)


def write_rows(rows: Iterable[Row], form: str, out: str | None) -> None:
    """Write rows to a file or to standard output, some at a time.

    Args:
        rows: rows with the keys of `COLUMNS`.
        form: json, csv or parquet.
        out: the file to write; None for standard output.
    """
    write = _WRITERS[form]
    if out is not None:
        with _open_file(Path(out)) as file:
            write(rows, file)
    elif form == "csv" and _is_terminal():
        for part in _make_csv(rows):
            click.echo("\n".join(map(escape, part.splitlines())))
    else:
        sys.stdout.flush()
        write(rows, sys.stdout.buffer)
        sys.stdout.buffer.flush()


@contextmanager
def _open_file(path: Path) -> Iterator[BinaryIO]:
    """Open a file to write all of it or nothing, so that nobody reads half of it; what is not a file is written to."""
    if path.exists() and not path.is_file():
        with path.open("wb") as file:
            yield file
        return
    path = path.resolve()
    draft = path.with_name(f"{path.name}.{secrets.token_hex(8)}.draft")
    try:
        with draft.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        if path.exists():
            shutil.copymode(path, draft)
        draft.replace(path)
    except BaseException:
        with suppress(OSError):
            draft.unlink(missing_ok=True)
        raise


def _iterate_parts(rows: Iterable[Row], size: int = 10_000) -> Iterator[list[Row]]:
    """Some rows at a time."""
    left = iter(rows)
    while part := list(islice(left, size)):
        yield part


def _write_json(rows: Iterable[Row], file: BinaryIO) -> None:
    before = b"["
    for part in _iterate_parts(rows):
        file.write(before + json.dumps(part, allow_nan=False)[1:-1].encode())
        before = b", "
    file.write((b"[" if before == b"[" else b"") + b"]\n")


def _write_csv(rows: Iterable[Row], file: BinaryIO) -> None:
    for part in _make_csv(rows):
        file.write(part.encode())


def _make_csv(rows: Iterable[Row]) -> Iterator[str]:
    """The header, then some rows at a time."""
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    writer.writeheader()
    for part in _iterate_parts(rows):
        writer.writerows({key: _format_cell(value) for key, value in row.items()} for row in part)
        yield text.getvalue()
        text.seek(0)
        text.truncate()
    if text.tell():  # there is no row
        yield text.getvalue()


def _format_cell(value: object) -> object:
    if isinstance(value, bool):
        return str(value).lower()
    return protect_cell(value) if isinstance(value, str) else value


def _write_parquet(rows: Iterable[Row], file: BinaryIO) -> None:
    import pyarrow as pa  # noqa: PLC0415  # takes long to import
    import pyarrow.parquet as pq  # noqa: PLC0415

    types = {str: pa.string(), float: pa.float64(), int: pa.int64(), bool: pa.bool_()}
    schema = pa.schema([(name, types[kind]) for name, kind in COLUMNS.items()])
    buffer = io.BytesIO()  # standard output cannot say where it is
    with pq.ParquetWriter(buffer, schema) as writer:
        for part in _iterate_parts(rows, 100_000):
            writer.write_table(pa.Table.from_pylist(part, schema))
    file.write(buffer.getbuffer())


_WRITERS: dict[str, Callable[[Iterable[Row], BinaryIO], None]] = {
    "json": _write_json,
    "csv": _write_csv,
    "parquet": _write_parquet,
}


def _is_terminal() -> bool:
    return sys.stdout.isatty()
