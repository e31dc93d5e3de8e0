"""`vestige audit compare`: the usual policies side by side."""

from __future__ import annotations

import click

from vestige.audit import compare, default_policies, draw_comparison
from vestige.audit.comparison import HEADER
from vestige.cli.audit.group import audit, figure_option, json_option, seed_option, trials_option
from vestige.cli.output import as_json, meter, say, show_table


@audit.command("compare")
@click.option("--retention", type=int, default=64, show_default=True, help="The retention of all streams, in records.")
@click.option("--batches", type=int, default=100, show_default=True, help="How many batches past the erasure to look.")
@trials_option
@seed_option
@figure_option
@json_option
def audit_compare(retention: int, batches: int, trials: int, seed: int, figure: str | None, machine: bool) -> None:
    """Compare the usual policies.

    The table says how exact they are, how revealing, and which definitions of deletion they meet.

    Records are normal; the one that is replaced is 3 deviations below or above the mean, the bound of the private
    policy. In Python, vestige.audit.compare takes policies and data of your own.
    """
    with meter("Playing") as report:
        found = compare(
            default_policies(),
            retention=retention,
            t=retention + 1 + batches * max(1, retention // 2),
            trials=trials,
            values=(-3.0, 3.0),
            seed=seed,
            progress=report,
        )
    if figure is not None:
        draw_comparison(found, figure)
    if machine:
        as_json({"batches": found.batches, "policies": [row.facts for row in found.rows]})
        return
    most = found.rows[0].known.ceiling
    say(f"{found.batches:.3g} batches after the record was erased, retention {retention}; {trials:,} trials a world:")
    show_table(HEADER, [row.cells for row in found.rows], words=HEADER)
    say(
        f"off by: from the mean of all records, in its standard errors. told, epsilon (at most {most:.2f} can be seen) "
        "and guessed to (a share of the record's spread; - is not at all): by an auditor who knows all other records; "
        "membership: epsilon and AUC of one who knows their distribution. Retention is decided by looking; the others "
        "can be refuted but not proved."
    )
