"""The command group of the audits, and the options that they share.

Guarantee: an audit is named by its subcommand, never guessed from a file; held by tests/test_cli_audit.py.
"""

from __future__ import annotations

import click

from vestige.cli.group import Commands, check_figure_path, command

json_option = click.option("--json", "machine", is_flag=True, help="Print one JSON object.")
figure_option = click.option(
    "--figure",
    type=check_figure_path,
    metavar="FILE",
    help="File to save a figure in; its suffix determines the format, such as .png or .svg.",
)
trials_option = click.option(
    "--trials",
    type=int,
    default=1_000,
    show_default=True,
    help="Number of trials per hypothesis; more trials can show a larger epsilon.",
)
seed_option = click.option(
    "--seed", type=int, default=0, show_default=True, help="Seed that makes the audit reproducible."
)


@command.group(cls=Commands)
def audit() -> None:
    """Measure what retained records reveal about erased ones.

    `vestige audit policy` runs a policy of Vestige on the values in a file; it says nothing about how that file was
    kept. `vestige audit table` tests how anybody's table was kept, from snapshots of it. `vestige audit store` tests
    what a store declares and holds.

    Two hypotheses differ in the value of one record, which was erased long ago. An adversary observes what a stream
    retains, and decides which hypothesis is true. How often they are right bounds from below how much is revealed.

    \b
    Examples:
      vestige audit policy flights.csv --column dep_delay --retention 512
      vestige audit policy flights.csv --column dep_delay --retention 512 --epsilon 1 --delta 1e-6 --bound 120
      vestige audit compare --figure compare.png
      vestige audit appendix
      vestige audit store delays.db
      vestige audit table monday.csv tuesday.csv wednesday.csv --id customer_no --column amount
    """  # noqa: D301  # the escape keeps click from rewrapping the lines
