"""The group of the audits, and the options that they share."""

from __future__ import annotations

import click

from vestige.cli.group import Commands, command, picture

json_option = click.option("--json", "machine", is_flag=True, help="Print one JSON object, for machines.")
figure_option = click.option(
    "--figure", type=picture, metavar="FILE", help="Draw it too; the ending says how, such as .png or .svg."
)
trials_option = click.option(
    "--trials",
    type=int,
    default=1_000,
    show_default=True,
    help="Trials in each world; more of them can show a larger epsilon.",
)
seed_option = click.option("--seed", type=int, default=0, show_default=True, help="Makes the audit reproducible.")


class _Sources(Commands):
    """A first argument that is no subcommand is a source."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The subcommand, or the audit of a source."""
        if args and args[0] not in self.commands:
            return "source", self.commands["source"], args
        return super().resolve_command(ctx, args)


@command.group(cls=_Sources, subcommand_metavar="SOURCE | COMMAND ...")
def audit() -> None:
    """Measure what retained records reveal about erased ones.

    `vestige audit SOURCE` audits a policy of Vestige on the values in SOURCE; it says nothing about how SOURCE was
    kept. `vestige audit store` looks at what a store declares and holds.

    Two worlds differ in the value of one record, which was erased long ago. An auditor is shown what a stream retains
    in one of them, and says which one it is. How often he is right bounds from below how much is revealed.

    \b
    Examples:
      vestige audit flights.csv --column dep_delay --retention 512
      vestige audit flights.csv --column dep_delay --retention 512 --epsilon 1 --delta 1e-6 --bound 120
      vestige audit compare --figure compare.png
      vestige audit appendix
      vestige audit store delays.db
    """  # noqa: D301  # the sign says to leave the lines as they are
