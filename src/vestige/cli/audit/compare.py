"""`vestige audit compare`: the default policies side by side.

Guarantee: the table and the figure of docs/audit.md; held by tests/test_cli_audit.py.
"""

from __future__ import annotations

import click

from vestige.audit import compare, default_policies, draw_comparison
from vestige.audit.comparison import HEADER
from vestige.cli.audit.group import audit, figure_option, json_option, seed_option, trials_option
from vestige.cli.output import print_json, say, show_progress, show_table


@audit.command("compare")
@click.option(
    "--retention",
    "retentions",
    type=int,
    multiple=True,
    default=(64,),
    show_default=True,
    help="Retention of every stream, in records; repeat it to compare several.",
)
@click.option(
    "--batches", type=int, default=100, show_default=True, help="Number of batches between erasure and last checkpoint."
)
@trials_option
@seed_option
@figure_option
@json_option
def audit_compare(
    retentions: tuple[int, ...], batches: int, trials: int, seed: int, figure: str | None, machine: bool
) -> None:
    """Compare the default policies.

    The table shows how accurate they are, how much they reveal, and which definitions of deletion they meet.

    Records are standard normal; the erased record is -3 or 3, the bound of the private policy. In Python,
    vestige.audit.compare takes your own policies and data.
    """
    with show_progress("Running trials") as report:
        comparison = compare(
            default_policies(),
            retention=retentions,
            batches=batches,
            trials=trials,
            values=(-3.0, 3.0),
            seed=seed,
            progress=report,
        )
    if figure is not None:
        draw_comparison(comparison, figure)
    if machine:
        print_json(comparison.to_dict())
        return
    ceiling = comparison.rows[0].knows_all.epsilon_ceiling
    say(f"{comparison.batches:,} batches after the erasure; {trials:,} trials per hypothesis:")
    show_table(HEADER, [row.cells for row in comparison.rows], words=HEADER)
    say(
        "error: root mean square, in standard errors of the mean of all records. exact unlearning (TV: total variation "
        f"distance), epsilon (at most {ceiling:.2f} can be shown) and reconstruction (relative error; - means that "
        "nothing is revealed): for an adversary who knows all other records. membership: epsilon and AUC for an "
        "adversary who knows their distribution. Retention is observed directly; the other definitions can be refuted "
        "but not proved."
    )
    for note in comparison.notes:
        say(note)
