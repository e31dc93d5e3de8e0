"""`vestige audit appendix` and `outlier`: the paper's two warnings, run.

Guarantee: prints the states of Appendix D; held by tests/test_cli_audit.py.
"""

from __future__ import annotations

import click

from vestige.audit import draw_outlier, run_appendix_d, run_outlier
from vestige.cli.audit.group import audit, figure_option, json_option, seed_option, trials_option
from vestige.cli.output import announce_if_slow, print_json, say, show_table


@audit.command("appendix")
@trials_option
@seed_option
@json_option
def audit_appendix(trials: int, seed: int, machine: bool) -> None:
    """Run the example of Appendix D of the paper."""
    with announce_if_slow("Running trials ..."):
        found = run_appendix_d(trials=trials, seed=seed)
    if machine:
        states = [{str(list(state)): share for state, share in one.items()} for one in found.states]
        print_json(
            {
                "states": states,
                "disjoint": found.is_disjoint,
                "epsilon": found.epsilon,
                "epsilon_ceiling": found.epsilon_ceiling,
            }
        )
        return
    say("Algorithm 1 as published: a batch of zeros, then (0, 10, 10) or (0, 0, 10), which differ in one record.")
    rows = [
        (name, ", ".join(f"{value:g}" for value in state), f"{share:.0%}")
        for name, states in zip(("(0, 10, 10)", "(0, 0, 10)"), found.states, strict=True)
        for state, share in sorted(states.items())
    ]
    show_table(("second batch", "values retained", "share of trials"), rows, words=("values retained",))
    overlap = "no state" if found.is_disjoint else "some states"
    say(
        f"The two hypotheses have {overlap} in common: anyone who sees the state can infer the record, whether it was "
        f"kept or not. epsilon is at least {found.epsilon:.2f}; {found.trials:,} trials per hypothesis cannot show "
        f"more than {found.epsilon_ceiling:.2f}."
    )


@audit.command("outlier")
@click.option("--trials", type=int, default=20, show_default=True, help="Number of trials to average over.")
@seed_option
@figure_option
@json_option
def audit_outlier(trials: int, seed: int, figure: str | None, machine: bool) -> None:
    """Show how an outlier affects the estimate long after its erasure."""
    with announce_if_slow("Running trials ..."):
        effect = run_outlier(trials=trials, seed=seed)
    if figure is not None:
        draw_outlier(effect, figure)
    if machine:
        excess = {name: list(map(float, numbers)) for name, numbers in effect.excess.items()}
        print_json({"batches": list(effect.batches), "excess": excess, "extreme": effect.extreme})
        return
    say(f"The first of many standard normal records is {effect.extreme:g}; retention {effect.retention}.")
    say("Excess of the estimate over that with an ordinary first record, by number of batches since the erasure:")
    header = ("policy", *(f"{batches} batches" for batches in effect.batches))
    show_table(header, [(name, *(f"{x:.3g}" for x in excess)) for name, excess in effect.excess.items()])
    say("The record itself was erased; the records that were chosen because of it were not. The excess decays as 1/t.")
