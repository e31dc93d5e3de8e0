"""The exit status of every command, decided here alone: 0 if all is well, 1 for a finding, 2 for an error, which wins.

Output that cannot be written is an error, and never a traceback; what is said on standard error stops no work. The
table is in docs/reference/commands.md.
Guarantee: held by tests/test_cli_exit_status.py.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from errno import EPIPE
from typing import Any, TextIO, cast

import click

from vestige.cli.output import escape
from vestige.errors import VestigeError

FINDING, ERROR = 1, 2


class Finding(click.ClickException):
    """What a command was asked to look at is not as it should be."""


def find_status(*, has_error: bool = False, has_finding: bool = False) -> int:
    """The exit status of a command."""
    return ERROR if has_error else FINDING if has_finding else 0


def end(*, has_error: bool = False, has_finding: bool = False) -> None:
    """End the command, unless all is well; what is wrong was said before."""
    if status := find_status(has_error=has_error, has_finding=has_finding):
        raise SystemExit(status)


def report(problem: BaseException) -> tuple[int, str]:
    """Say on standard error why a command has ended; its exit status, and the same in a line, empty if it was said."""
    if isinstance(problem, SystemExit):
        return (problem.code, "") if isinstance(problem.code, int) else (ERROR, "")
    if isinstance(problem, click.Abort):
        click.echo("Aborted!", err=True)
        interrupted = isinstance(problem.__cause__, KeyboardInterrupt)
        return (128 + signal.SIGINT if interrupted else ERROR), "aborted"
    if isinstance(problem, OSError) and problem.errno == EPIPE:
        return ERROR, "the reader of the output has closed it"
    shown = _translate(problem)
    shown.show()
    return find_status(has_error=not isinstance(shown, Finding), has_finding=True), shown.format_message()


def _translate(problem: BaseException) -> click.ClickException:
    """An error as it is shown: without the passwords in it, and without escape sequences."""
    if isinstance(problem, click.ClickException):
        said = problem.format_message()
        if said == (shown := _hide_passwords(said)):
            return problem  # it may repeat an address that was given in the wrong place
        return click.UsageError(shown, getattr(problem, "ctx", None))
    if isinstance(problem, VestigeError):
        return click.ClickException(escape(_hide_passwords(str(problem))))
    if isinstance(problem, OSError):
        return click.ClickException(escape(f"{problem.filename or 'input/output'}: {problem.strerror or problem}"))
    raise problem


def _hide_passwords(text: str) -> str:
    """The text of an error without the passwords in it."""
    from vestige.store.address import hide_passwords  # noqa: PLC0415  # takes long to import

    return hide_passwords(text)


class Output:
    """A stream that goes on where it cannot be written, so that no work is stopped by what it says.

    Args:
        stream: the stream.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self.problem: OSError | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        """Write a text, or note what is wrong."""
        try:
            return self._stream.write(text)
        except OSError as problem:
            self.problem = problem
            return len(text)

    def flush(self) -> None:
        """Write what waits, or note what is wrong."""
        try:
            self._stream.flush()
        except OSError as problem:
            self.problem = problem


@contextmanager
def keep_standard_error() -> Iterator[None]:
    """Let no work be stopped by what is said on standard error."""
    _reserve_files()
    before = sys.stderr
    sys.stderr = cast("TextIO", Output(before))
    try:
        yield
    finally:
        sys.stderr = before
        flush_output(before)


def flush_output(stream: TextIO) -> OSError | None:
    """Write what waits for a stream; where that fails nothing is left that Python would try to write when it ends."""
    try:
        stream.flush()
    except OSError as problem:
        with suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
        return problem
    return None


def _reserve_files() -> None:
    """Open what whoever called us has closed, so that no store is opened in the place of standard output."""
    if None not in (sys.stdin, sys.stdout, sys.stderr):
        return
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDONLY if number < 2 else os.O_WRONLY)  # to write the first two is an error
    sys.stdin = sys.stdin or open(0, closefd=False)  # noqa: SIM115
    sys.stdout = sys.stdout or open(1, "w", closefd=False)  # noqa: SIM115
    sys.stderr = sys.stderr or open(2, "w", closefd=False)  # noqa: SIM115
