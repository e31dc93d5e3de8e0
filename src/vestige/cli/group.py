"""The group of all commands, and what their parameters may look like."""

from __future__ import annotations

import os
import re
import sys
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import click

from vestige.cli.output import ask_for_progress, plain
from vestige.errors import MissingExtraError, VestigeError
from vestige.store.state import to_utc

_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


class _Strict(click.Command):
    """Refuses an option that is given twice, of which click would silently take the last; takes --progress."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.params.append(
            click.Option(
                ["--progress"],
                is_flag=True,
                expose_value=False,
                callback=ask_for_progress,
                help="Show progress on standard error, also where that is not a terminal.",
            )
        )

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Look at the options first, then parse as click does."""
        _, _, order = self.make_parser(ctx).parse_args(args=list(args))
        for option in order:
            if isinstance(option, click.Option) and not (option.multiple or option.is_flag or option.count):
                times = order.count(option)
                if times > 1:
                    raise click.UsageError(f"{option.opts[0]} is given {times} times; give it once", ctx)
        return super().parse_args(ctx, args)


class Commands(click.Group):
    """A group whose commands take each option once, but for those that may be given again."""

    command_class = _Strict


class _Command(Commands):
    """Turns our errors into one line on standard error and exit status 1."""

    group_class = Commands

    def invoke(self, ctx: click.Context) -> Any:
        """Run the subcommand."""
        try:
            return super().invoke(ctx)
        except VestigeError as problem:
            raise click.ClickException(plain(str(problem))) from None
        except BrokenPipeError:  # whoever read our output has seen enough
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            sys.exit(1)
        except OSError as problem:
            raise click.ClickException(plain(f"{problem.filename or 'input/output'}: {problem.strerror}")) from None


@click.group(cls=_Command, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="vestige")
def command() -> None:
    """All-time answers from a window of records.

    Vestige keeps statistics of an endless stream while holding nothing but a few recent records: it chooses which of
    the records that are still allowed to keep, so that the all-time answer can be recomputed from them.

    `plan` says beforehand how much retention is needed. `run` reads records; with --store what it keeps lives in a file
    that really erases, and the other commands ask, clean and check that file. `audit` measures what such choices reveal
    about records that were erased.
    """


def duration(text: str) -> timedelta:
    """A number and a unit, such as 30d, 36h, 90m, 45s or 2w."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([smhdw])", text.strip())
    if match is None:
        raise click.BadParameter(f"{text!r} is no duration; write a number and a unit, such as 30d, 36h, 90m or 2w")
    try:
        return timedelta(**{_UNITS[match[2]]: float(match[1])})
    except OverflowError:
        raise click.BadParameter(f"{text!r} is too long; use less than 999999999 days") from None


def moment(text: str) -> datetime:
    """A time in ISO 8601, without a zone in UTC; the same moment in UTC."""
    try:
        return to_utc(datetime.fromisoformat(text))
    except (ValueError, OverflowError):
        raise click.BadParameter(
            f"{text!r} is no time; write it as 2024-05-31T12:00 or 2024-05-31T12:00+02:00"
        ) from None


def picture(text: str) -> str:
    """A file that can be drawn: asked at once, so that nobody waits for minutes to be told."""
    try:
        from matplotlib.backend_bases import FigureCanvasBase  # noqa: PLC0415
    except ModuleNotFoundError:
        raise MissingExtraError("the figure", "plot") from None
    kinds = FigureCanvasBase.get_supported_filetypes()
    if Path(text).suffix.removeprefix(".") not in kinds:
        raise click.BadParameter(f"{text!r} has no ending that says how to draw it; use one of {', '.join(kinds)}")
    return text
