"""The command: parse, call, print.

Results go to standard output, progress and errors to standard error, so that the command can stand in a pipe.
"""

from vestige.cli import auditing, keys, lab, planning, receipts, removal, retention, running, storing
from vestige.cli.group import command

__all__ = ["auditing", "command", "keys", "lab", "planning", "receipts", "removal", "retention", "running", "storing"]
