"""`vestige nightly`: all the work of a night, in which no part that fails keeps another back.

Each part is a command, called as it is called alone; the requests are those of a list that may be left where it is.
Guarantee: a year of nights with faults in sixty of them ends with the answers, limits and receipts of a plain Python
reference; held by tests/test_nightly.py.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TextIO, cast

import click

from vestige.cli.access import exit_with
from vestige.cli.config import config_option, find_files, names_store
from vestige.cli.exit_status import ERROR, FINDING, Output, end, report
from vestige.cli.group import command
from vestige.cli.holder import perform, wait_option
from vestige.cli.output import SHOWN, format_count, list_some, say, show_table, warn
from vestige.cli.receipts import show_receipts
from vestige.cli.removal import keep_option
from vestige.cli.retention import sweep
from vestige.cli.rows import FORMATS
from vestige.cli.run import run
from vestige.cli.store import estimate
from vestige.cli.store_options import StoreOptions, key_option, store_argument
from vestige.cli.subjects import Subjects, parse_lines
from vestige.cli.verify import verify_store
from vestige.errors import NoStoreError, ParameterError, VestigeError
from vestige.operations import ForgetResult
from vestige.operations.removal import forget_lines, mark_line
from vestige.sources.listing import is_address
from vestige.store import Store
from vestige.store.inbox import Request


@command.command()
@click.option(
    "--requests",
    "requests",
    metavar="FILE",
    help="List of removal requests, one a line: the person, a tab, and your reference. Each line is carried out once, "
    "so the list may be left where it is. If there is no such file, nobody has asked.",
)
@click.option(
    "--answers",
    metavar="FILE",
    help="File to write the answers to: .csv, .json or .parquet.",
)
@config_option
@click.pass_context
def nightly(ctx: click.Context, requests: str | None, answers: str | None) -> None:
    """Do all the work of a night.

    The source, the statistics, the limits and the store are those of vestige.toml, as for vestige run; --requests and
    --answers may be there too. These are the parts, in their order:

    \b
      1. requests         vestige forget, for the lines of --requests that are new
      2. sweep            vestige sweep
      3. rows             vestige run
      4. requests again   for what has just come in; each line has one receipt
      5. sweep again      vestige sweep
      6. verify           vestige verify
      7. answers          vestige estimate, to --answers

    A part that fails keeps none of the others back. The last table names each part and what became of it. The exit
    status is 0 only if all went well, 1 if vestige verify or strict = true found something and all was done, and else
    2.

    \b
    Examples:
      vestige nightly --requests requests.tsv --answers answers.csv
      vestige nightly --config /shop/vestige.toml
    """  # noqa: D301  # the sign says to leave the lines as they are
    file, sources = find_files(ctx)
    if not names_store(file):
        raise click.UsageError(
            f"{file} does not name a store, in which the night's work is kept; write store = 'FILE' there, or give "
            "--config FILE; vestige init writes such a file"
        )
    follow = ["--no-follow"] if any(map(is_address, sources)) else []  # a night comes to its end
    night = _Night(ctx, file)
    asked = None if requests is None else ["--list", requests]
    night.do("requests", _skip("no --requests") if asked is None else night.call(carry_out, *asked))
    night.do("sweep", partial(_sweep_first, night.call(sweep)))
    night.do("rows", night.call(run, *follow))
    night.do("requests again", _skip("no --requests") if asked is None else night.call(carry_out, *asked, "--last"))
    night.do("sweep again", night.call(sweep))
    night.do("verify", night.call(verify_store))
    night.do("answers", _skip("no --answers") if answers is None else partial(_write_answers, night, answers, requests))
    night.end()


@dataclass(frozen=True, slots=True)
class _Part:
    """What became of a part of a night: its exit status, and a line that says why."""

    name: str
    status: int
    said: str


class _Night:
    """The parts of a night, done one after the other, whatever becomes of each.

    Args:
        ctx: the context of the command.
        file: the file with the options.
    """

    def __init__(self, ctx: click.Context, file: str) -> None:
        self._ctx, self._file = ctx, file
        self._parts: list[_Part] = []
        self._output, self._before = Output(sys.stdout), sys.stdout
        sys.stdout = cast("TextIO", self._output)  # a log on a full disk keeps no erasure back
        ctx.call_on_close(self._restore_output)

    def _restore_output(self) -> None:
        sys.stdout = self._before

    def call(self, each: click.Command, *words: str) -> Callable[[], str]:
        """Make a function that calls a command with the options of the file."""

        def act() -> str:
            line = [*words, "--config", self._file]
            with each.make_context(each.name, line, parent=self._ctx.parent) as made:
                said = each.invoke(made)
            return said or "done"

        return act

    def do(self, name: str, act: Callable[[], str]) -> None:
        """Do a part, and note what became of it."""
        say(f"{len(self._parts) + 1}. {name}")
        status, said = 0, ""
        try:
            said = act()
        except (click.Abort, click.ClickException, VestigeError, OSError, SystemExit) as problem:
            status, said = report(problem)
        except Exception as problem:  # its text may show a record
            status, said = (
                ERROR,
                f"{type(problem).__name__}, which is a mistake in Vestige; call this part alone to see more",
            )
            warn(f"Error: {said}")
        self._parts.append(_Part(name, status, said))
        if status > ERROR:  # a signal asks to end
            self.end()

    def end(self) -> None:
        """Show what became of the parts, and end with the exit status of the night."""
        rows = [(part.name, _describe(part)) for part in self._parts]
        show_table(("part", "result"), rows, words=("result",))
        failed = [part.name for part in self._parts if part.status not in (0, FINDING)]
        found = [part.name for part in self._parts if part.status == FINDING]
        if failed:
            say(f"{len(failed)} of {format_count(len(rows), 'part')} failed: {', '.join(failed)}.")
        elif found:
            say(f"All parts were done; something was found: {', '.join(found)}.")
        else:
            say("All went well.")
        if signal := max(part.status for part in self._parts) > ERROR and self._parts[-1].status:
            sys.exit(signal)
        if self._output.problem is not None:
            warn(f"Error: standard output: {self._output.problem.strerror}")
        end(has_error=bool(failed or self._output.problem), has_finding=bool(found))


def _describe(part: _Part) -> str:
    """What became of a part, in a line."""
    if not part.status:
        return part.said
    return f"{'found' if part.status == FINDING else 'failed'}: {part.said or 'see above'}"


def _skip(reason: str) -> Callable[[], str]:
    """Make a function in place of a part that nobody has asked for."""
    return lambda: f"nothing to do: {reason}"


def _write_answers(night: _Night, file: str, requests: str | None) -> str:
    """Write the answers in the format that the name of the file says."""
    form = Path(file).suffix.removeprefix(".").lower()
    if form not in FORMATS[1:]:
        raise ParameterError(f"--answers {file} does not end in .csv, .json or .parquet; give such a name")
    if requests is not None and os.path.realpath(file) == os.path.realpath(requests):
        raise ParameterError(f"--answers {file} is the list of requests, which would be overwritten; use another file")
    return night.call(estimate, "--format", form, "--out", file)()


def _sweep_first(act: Callable[[], str]) -> str:
    """Sweep; on the first night, there is no store before the rows are read."""
    try:
        return act()
    except NoStoreError:
        say("There is no store yet.")
        return "nothing to do: there is no store yet"


@click.command("requests", cls=type(sweep))
@store_argument
@click.option("--list", "file", required=True)
@key_option
@keep_option
@click.option("--last", "is_last", is_flag=True)
@wait_option
def carry_out(store: StoreOptions, file: str, keep_receipts: timedelta, wait: timedelta, *, is_last: bool) -> str:
    """Carry out the lines of a list of requests that were not carried out before."""
    wrong: list[str] = []
    people = _read_requests(file, wrong)
    if people is None:
        say(f"{file} does not exist: nobody has asked.")
        return f"nothing to do: {file} does not exist"
    for text in wrong:
        warn(f"{text}; this line was left out")
    said = _forget(store, people, keep_receipts, wait, is_last=is_last) if people.texts else "nothing to do: no request"
    if wrong:
        raise click.ClickException(f"{format_count(len(wrong), 'line')} of {file} cannot be read; {said}")
    return said


def _read_requests(file: str, wrong: list[str]) -> Subjects | None:
    """The requests of a list; None if there is no such file in its folder."""
    try:
        return parse_lines(Path(file).read_bytes(), file, with_references=True, wrong=wrong)
    except FileNotFoundError:
        if Path(file).parent.is_dir():
            return None
        raise


def _forget(store: StoreOptions, people: Subjects, keep: timedelta, wait: timedelta, *, is_last: bool) -> str:
    """Carry out requests; what became of them, in a line."""
    references = [reference or "" for reference in people.references]

    def mark(name: Callable[[str], str]) -> tuple[str, ...]:
        return tuple(mark_line(name, *each) for each in zip(people.texts, references, strict=True))

    def act(opened: Store) -> ForgetResult:
        names, marks = tuple(map(opened.pseudonym, people.texts)), mark(opened.pseudonym)
        return forget_lines(opened, names, marks, people.references, is_last=is_last, keep_receipts=keep)

    def request() -> Request:
        name = store.open_reader().pseudonym
        return Request(
            "forget",
            tuple(map(name, people.texts)),
            references=people.references,
            keep_receipts=keep,
            marks=mark(name),
            is_last=is_last,
        )

    try:
        done, attended = perform(store, ForgetResult, act, request, wait=wait, create=is_last)
    except NoStoreError:
        say("There is no store yet; the requests are carried out once the rows are read.")
        return "nothing to do: there is no store yet"
    if is_last:
        _show(store, done)
    exit_with(done.troubles, attended)
    earlier = len(people.texts) - len(done.receipts)
    return f"{len(done.receipts):,} carried out" + (f", {earlier:,} on earlier nights" if earlier else "")


def _show(store: StoreOptions, done: ForgetResult) -> None:
    """Show the receipts of a night."""
    if done.receipts:
        show_receipts((None, receipt) for receipt in done.receipts[:SHOWN])
    if len(done.receipts) > SHOWN:
        say(f"... and {len(done.receipts) - SHOWN:,} more; vestige receipts shows them all.")
    if done.unknown:
        say(f"Of {format_count(len(done.unknown), 'request')} no record is held in {store}.")
    if done.restarted:
        say(f"Statistics that restart: {len(done.restarted):,}{list_some(done.restarted)}.")
