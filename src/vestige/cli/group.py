"""The group of all commands, and the types of their parameters.

The module of a command is imported when that command is called, since most of them take long to import.
Guarantee: an error is one line on standard error and exit status 2; the page of help shows each command; held by
tests/test_cli.py.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from datetime import datetime, timedelta
from importlib import import_module
from pathlib import Path
from typing import Any

import click

from vestige import times
from vestige.cli.config import add_from_file
from vestige.cli.exit_status import ERROR, flush_output, keep_standard_error, report
from vestige.cli.memory import forbid_core_dumps
from vestige.cli.output import enable_progress
from vestige.errors import MissingExtraError, ParameterError, VestigeError
from vestige.times import to_utc

COMMANDS = {
    "accept": ("vestige.cli.keys", "Accept STORE although it was put back from a backup."),
    "audit": ("vestige.cli.audit", "Measure what retained records reveal about erased ones."),
    "estimate": ("vestige.cli.store", "Print the answers in STORE."),
    "export": ("vestige.cli.export", "Copy STORE into a database for SQL."),
    "forget": ("vestige.cli.removal", "Request that records leave STORE."),
    "init": ("vestige.cli.init", "Write vestige.toml from a look at FILE."),
    "keygen": ("vestige.cli.signature", "Make a pair of keys to sign receipts and reports with."),
    "keyring": ("vestige.cli.keyring_serve", "Make, check, rotate and destroy the keys of a sealed store."),
    "lab": ("vestige.cli.lab", "Test the claims of the paper."),
    "list": ("vestige.cli.store", "Show the streams in STORE and their limits."),
    "nightly": ("vestige.cli.nightly", "Do all the work of a night."),
    "plan": ("vestige.cli.plan", "Predict the retention required for a target error."),
    "receipts": ("vestige.cli.receipts", "Show the removal requests in STORE."),
    "rekey": ("vestige.cli.keys", "Create a new key for the subjects in STORE."),
    "remove": ("vestige.cli.removal", "Erase whole streams of STORE, their names included."),
    "retained": ("vestige.cli.store", "Export the records that STORE holds."),
    "run": ("vestige.cli.run", "Stream SOURCE and print an all-time statistic."),
    "serve": ("vestige.cli.serve", "Serve STORE over HTTP: take rows, answer, erase."),
    "sweep": ("vestige.cli.retention", "Erase what is due in STORE."),
    "token": ("vestige.cli.token", "Make, list or revoke the tokens of a service."),
    "verify": ("vestige.cli.verify", "Check that nothing is left in STORE that should be gone."),
    "verify-receipts": ("vestige.cli.signature", "Check that signed receipts were not changed."),
    "verify-report": ("vestige.cli.signature", "Check that a signed report was not changed."),
    "warm": ("vestige.cli.warm", "Compile the kernels ahead of the first run."),
}
"""Module of each command, which adds the command to the group, and the first sentence of its help."""


class _Strict(click.Command):
    """A command that refuses an option given twice, of which click takes the last, and that accepts --progress."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.params.append(
            click.Option(
                ["--progress"],
                is_flag=True,
                expose_value=False,
                callback=enable_progress,
                help="Show progress on standard error even if it is not a terminal.",
            )
        )

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Check the options first, add those of a file, then parse as click does."""
        given, _, order = self.make_parser(ctx).parse_args(args=list(args))
        for option in order:
            if isinstance(option, click.Option) and not (option.multiple or option.is_flag or option.count):
                times = order.count(option)
                if times > 1:
                    raise click.UsageError(f"{option.opts[0]} is given {times} times; give it once", ctx)
        return super().parse_args(ctx, add_from_file(self, ctx, args, given))


class Commands(click.Group):
    """A group whose commands take each option once, except those that may be repeated."""

    command_class = _Strict


class _Command(Commands):
    """Imports the command that is called, and turns our errors into one line on standard error and an exit status."""

    group_class = Commands

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        for name, (_, help_line) in COMMANDS.items():
            self.add_command(click.Command(name, short_help=help_line))  # its module replaces it

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the subcommand, whole."""
        if args[0] in COMMANDS:
            import_module(COMMANDS[args[0]][0])
        return super().resolve_command(ctx, args)

    def main(self, *arguments: Any, standalone_mode: bool = True, **options: Any) -> Any:
        """Run the subcommand, and exit with its status."""
        start: Callable[..., Any] = super().main
        if not standalone_mode:
            return start(*arguments, standalone_mode=False, **options)
        with keep_standard_error():
            output = sys.stdout
            try:
                start(*arguments, standalone_mode=False, **options)
                status = 0
            except (click.Abort, click.ClickException, VestigeError, OSError, SystemExit) as problem:
                status, _ = report(problem)
            if sys.stdout is not output:  # click puts another in its place, and ends, if its reader has closed it
                sys.stdout, status = output, ERROR
            if unwritten := flush_output(output):
                status = status or report(unwritten)[0]
        sys.exit(status)


@click.group(cls=_Command, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="vestige")
def command() -> None:
    """All-time answers from a window of records.

    Vestige keeps statistics of an endless stream although it holds only a few recent records: it chooses which of the
    records that may still be held to keep, so that the all-time answer can be computed from them.

    `plan` predicts how much retention is needed. `run` reads records; with --store it keeps them in a file from which
    erased records are really gone, and the other commands query, clean and check that file. `audit` measures what the
    choice of records reveals about records that were erased.
    """
    forbid_core_dumps()


def load_commands() -> click.Group:
    """Import all commands, for those who read their options and pages: the tests and the site."""
    for module, _ in COMMANDS.values():
        import_module(module)
    return command


def parse_duration(text: str) -> timedelta:
    """Parse a number and a unit, such as 30d, 36h, 90m, 45s, 2w or 3y; a year has 365 days."""
    try:
        return times.parse_duration(text)
    except ParameterError as problem:
        raise click.BadParameter(str(problem)) from None


def parse_rate(text: str) -> float:
    """Parse a number of records per unit of time, such as 1000/d or 2.5/s, as records a day."""
    number, slash, unit = text.strip().partition("/")
    try:
        rate = float(number) / (parse_duration(f"1{unit}") / timedelta(days=1))
    except (ValueError, click.BadParameter):
        rate = 0.0
    if not slash or not 0.0 < rate < math.inf:
        raise click.BadParameter(f"{text!r} is not a rate; write records per unit of time, such as 1000/d, 40/h or 2/s")
    return rate


def parse_time(text: str) -> datetime:
    """Parse a time in ISO 8601; one without a zone is in UTC."""
    try:
        return to_utc(datetime.fromisoformat(text))
    except (ValueError, OverflowError):
        raise click.BadParameter(
            f"{text!r} is not a time; write it as 2024-05-31T12:00 or 2024-05-31T12:00+02:00"
        ) from None


def check_figure_path(text: str) -> str:
    """Check that a figure can be saved in this file, before anything is computed."""
    try:
        from matplotlib.backend_bases import FigureCanvasBase  # noqa: PLC0415
    except ModuleNotFoundError:
        raise MissingExtraError("the figure", "plot") from None
    kinds = FigureCanvasBase.get_supported_filetypes()
    if Path(text).suffix.removeprefix(".") not in kinds:
        raise click.BadParameter(f"{text!r} does not end in a known image format; use one of {', '.join(kinds)}")
    return text
