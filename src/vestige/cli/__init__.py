"""The command: parse, call, print.

Results go to standard output, progress and errors to standard error, so that the command can stand in a pipe.
"""

from vestige.cli.group import command

__all__ = ["command"]
