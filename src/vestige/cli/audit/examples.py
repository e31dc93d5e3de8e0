"""`vestige audit appendix` and `outlier`: the paper's two warnings, run."""

from __future__ import annotations

import click

from vestige.audit import appendix, draw_outlier, outlier
from vestige.cli.audit.group import audit, figure_option, json_option, seed_option, trials_option
from vestige.cli.output import announced, as_json, say, show_table


@audit.command("appendix")
@trials_option
@seed_option
@json_option
def audit_appendix(trials: int, seed: int, machine: bool) -> None:
    """Run Appendix D of the paper."""
    with announced("Playing ..."):
        found = appendix(trials=trials, seed=seed)
    if machine:
        states = [{str(list(state)): share for state, share in world.items()} for world in found.states]
        as_json({"states": states, "disjoint": found.disjoint, "epsilon": found.epsilon, "ceiling": found.ceiling})
        return
    say("Algorithm 1 as published: a batch of zeros, then (0, 10, 10) or (0, 0, 10), which differ in one record.")
    rows = [
        (name, ", ".join(f"{value:g}" for value in state), f"{share:.0%}")
        for name, world in zip(("(0, 10, 10)", "(0, 0, 10)"), found.states, strict=True)
        for state, share in sorted(world.items())
    ]
    show_table(("second batch", "values retained", "share of trials"), rows, words=("values retained",))
    apart = "have no state in common" if found.disjoint else "have states in common"
    say(
        f"The worlds {apart}: who sees the state knows the record, whether it was kept or not. epsilon is at least "
        f"{found.epsilon:.2f}; {found.trials:,} trials in each world cannot show more than {found.ceiling:.2f}."
    )


@audit.command("outlier")
@click.option("--runs", type=int, default=20, show_default=True, help="How many runs to average over.")
@seed_option
@figure_option
@json_option
def audit_outlier(runs: int, seed: int, figure: str | None, machine: bool) -> None:
    """Run the outlier that outlives its erasure."""
    with announced("Playing ..."):
        found = outlier(runs=runs, seed=seed)
    if figure is not None:
        draw_outlier(found, figure)
    if machine:
        excess = {name: list(map(float, numbers)) for name, numbers in found.excess.items()}
        as_json({"batches": list(found.batches), "excess": excess, "extreme": found.extreme})
        return
    say(f"The first of many standard normal records is {found.extreme:g}; retention {found.retention}.")
    say("How much higher the estimate is than with an ordinary first record, so many batches after it was erased:")
    header = ("policy", *(f"{batches} batches" for batches in found.batches))
    show_table(header, [(name, *(f"{x:.3g}" for x in excess)) for name, excess in found.excess.items()])
    say("The record is long erased; those that were chosen because of it are not. It fades only as 1/t.")
