"""`vestige audit SOURCE`: what a statistic of one's own data reveals, and a verdict in sentences."""

from __future__ import annotations

from collections.abc import Iterator

import click
import numpy as np

from vestige.audit import Checkpoint, Leakage, draw_leakage, leakage
from vestige.audit.leakage import ADVERSARIES
from vestige.channels import CHANNELS
from vestige.cli.audit.group import audit, figure_option, json_option, seed_option, trials_option
from vestige.cli.output import as_json, meter, say, show_table
from vestige.cli.reports import make_policy
from vestige.errors import ParameterError, SourceError
from vestige.policies import STATISTICS, Encoded, Private, Window
from vestige.policy import Policy
from vestige.sources import Source
from vestige.types import Floats

_MOST_ROWS = 1_000_000
_NOT_THE_FILE = "It says nothing about how that file was kept, or about whoever keeps it."
_LOOKS = (
    "batches since erased",
    "epsilon, at least",
    "mu, at least",
    "AUC",
    "caught at 1%",
    "guessed to",
    "same state",
)


@audit.command("source")
@click.argument("source")
@click.option("--column", "columns", multiple=True, required=True, help="A numeric column; several make one record.")
@click.option(
    "--statistic", type=click.Choice(list(STATISTICS)), default="mean", show_default=True, help="What is kept."
)
@click.option("--target", "targets", multiple=True, help="The column to explain, for regression and logistic.")
@click.option("--retention", type=int, required=True, help="A record is erased this many records after it arrived.")
@click.option(
    "--channel", type=click.Choice(sorted(CHANNELS)), default="auto", show_default=True, help="How the answer is kept."
)
@click.option("--half-life", type=float, help="After so many records, a record counts half as much.")
@click.option("--window", is_flag=True, help="Audit a plain window that keeps all it may, for comparison.")
@click.option("--epsilon", type=float, help="Audit the policy that forgets, with this promise; needs --bound.")
@click.option(
    "--delta",
    type=float,
    default=1e-6,
    show_default=True,
    help="With --epsilon: the chance with which the promise may fail.",
)
@click.option("--bound", type=float, help="With --epsilon: the longest that a record's values may be, else shortened.")
@click.option(
    "--adversary",
    type=click.Choice(ADVERSARIES),
    default=ADVERSARIES[0],
    show_default=True,
    help="Whether the auditor knows all other records or only their distribution.",
)
@click.option("--batches", type=int, default=30, show_default=True, help="How many batches past the erasure to look.")
@trials_option
@click.option(
    "--confidence", type=float, default=0.95, show_default=True, help="How surely each bound holds, from 0 to 1."
)
@seed_option
@figure_option
@json_option
def audit_source(
    source: str,
    columns: tuple[str, ...],
    statistic: str,
    targets: tuple[str, ...],
    retention: int,
    channel: str,
    half_life: float | None,
    window: bool,
    epsilon: float | None,
    delta: float,
    bound: float | None,
    adversary: str,
    batches: int,
    trials: int,
    confidence: float,
    seed: int,
    figure: str | None,
    machine: bool,
) -> None:
    """Audit a policy of Vestige on the values in SOURCE; the word `source` may be left out.

    This says nothing about how SOURCE itself was kept, or about whoever keeps it: it runs the policy on these values,
    and measures what that would reveal.

    Records are drawn from the rows of a CSV, NDJSON or Parquet file; one of them is replaced and long erased. The two
    worlds hold the smallest and the largest of 1,000 draws in its place.

    In the table, "guessed to" is the error of guessing the erased value, as a share of that without looking (1 is
    nothing learned); "same state" is how often both worlds hold the same rounds.
    """
    kept = make_policy(statistic, columns, targets, channel, half_life)
    policy = _audited(kept, window, epsilon, delta, bound)
    rows = _rows(source, columns + targets)
    batch = max(1, retention // 2)
    with meter("Playing") as report:
        found = leakage(
            policy,
            retention=retention,
            t=retention + 1 + batches * batch,
            trials=trials,
            adversary=adversary,
            data=rows,
            confidence=confidence,
            delta=delta if epsilon is not None else 0.0,
            seed=seed,
            progress=report,
        )
    if figure is not None:
        draw_leakage({_name(policy): found}, figure)
    about = f"This audits {_name(policy)}, a policy of Vestige, run on the values in {source}. {_NOT_THE_FILE}"
    if machine:
        as_json({"audited": about, "policy": repr(policy), "retention": retention, **found.facts})
        return
    say(about)
    say(f"{_name(policy)} of {', '.join(columns + targets)}, retention {retention}; two worlds differ in one record:")
    show_table(
        _LOOKS,
        [_cells(look, batch) for look in found.looks if look.age >= 0],
    )
    say(f"{found.trials:,} trials in each world, so that no epsilon above {found.ceiling:.2f} can be shown.")
    for line in verdict(found, policy, batch):
        say(line)


def _audited(kept: Encoded, window: bool, epsilon: float | None, delta: float, bound: float | None) -> Policy:
    """The policy that was asked for."""
    if window and epsilon is not None:
        raise ParameterError("--window keeps all and --epsilon adds noise; give one of them")
    if (epsilon is None) != (bound is None):
        raise ParameterError("--epsilon and --bound go together: the promise, and the longest that a record may be")
    if epsilon is not None and bound is not None:
        return Private(kept, bound=bound, epsilon=epsilon, delta=delta)
    return Window(kept) if window else kept


def _name(policy: Policy) -> str:
    if isinstance(policy, Private):
        return f"Private {_name(policy.policy).lower()}, epsilon {policy.epsilon:g}"
    if isinstance(policy, Window):
        return f"Window, {_name(policy.policy).lower()}"
    return type(policy).__name__ + (f", {policy.encoding.name}" if isinstance(policy, Encoded) else "")


def _rows(source: str, columns: tuple[str, ...]) -> Floats:
    """The rows of a file, or as many as can be held."""
    blocks = (block.rows for block in Source(source).blocks(columns))
    taken, count = [], 0
    for values in blocks:
        taken.append(values)
        count += len(values)
        if count >= _MOST_ROWS:
            click.echo(f"Only the first {_MOST_ROWS:,} rows are drawn from.", err=True)
            break
    if not count:
        raise SourceError(f"{source}: no row has a number in each of {', '.join(columns)}; nothing to audit with")
    return np.concatenate(taken)[:_MOST_ROWS]


def _cells(look: Checkpoint, batch: int) -> tuple[str, ...]:
    return (
        f"{look.age / batch:.3g}",
        f"{look.epsilon:.2f}",
        f"{look.mu:.2f}",
        f"{look.auc:.3f}",
        f"{look.caught:.0%}",
        f"{look.reconstruction:.1g}",
        f"{look.merged:.0%}",
    )


def verdict(found: Leakage, policy: Policy, batch: int) -> Iterator[str]:
    """What the figures mean, in sentences.

    The bounds quoted are those of looks that were fixed beforehand, the earliest and the last: the largest of all
    would be too large too often.
    """
    early, last = found.looks[0], found.looks[-1]
    who = "all other records" if found.adversary == ADVERSARIES[0] else "only how records are distributed"
    if isinstance(policy, Private):
        fine = early.epsilon <= policy.epsilon and early.mu <= policy.mu
        yield (
            f"Verdict: the promise of epsilon {policy.epsilon:g} at delta {policy.delta:g} is "
            f"{'not refuted' if fine else 'REFUTED'}, as soon as the record may be gone: epsilon is at least "
            f"{early.epsilon:.2f}, and mu at least {early.mu:.2f} of {policy.mu:.2f} promised."
        )
        return
    if not any(look.epsilon or look.mu for look in found.looks):
        yield (
            f"Verdict: nothing found. An auditor who knows {who} could not tell the worlds apart at any age. That does "
            "not prove that nobody can."
        )
        return
    known = next(look for look in found.looks if look.age >= 0)
    yield (
        f"Verdict: erased, but not forgotten. An auditor who knows {who} told the worlds apart: when the record was "
        f"just erased, epsilon was at least {known.epsilon:.2f} ({found.confidence:.0%} confidence"
        + (", the most that so many trials can show)." if known.epsilon >= found.ceiling else ").")
    )
    yield f"{last.age / batch:.3g} batches after it was erased, it was at least {last.epsilon:.2f}."
    if last.reconstruction < 0.5:
        yield f"The erased value could then be guessed to {last.reconstruction:.1g} of its spread."
