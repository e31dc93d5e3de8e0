"""`vestige audit`: what retained records reveal about erased ones, in plain words."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict

import click
import numpy as np

from vestige.audit import (
    Leakage,
    Look,
    Snapshot,
    appendix,
    compare,
    detect,
    draw_comparison,
    draw_leakage,
    draw_outlier,
    leakage,
    outlier,
    usual_policies,
)
from vestige.audit.comparing import HEADER
from vestige.audit.leaking import ADVERSARIES
from vestige.channels import CHANNELS
from vestige.cli.group import command
from vestige.cli.output import announced, as_json, meter, say, show_table
from vestige.errors import ParameterError, SourceError, StoreError
from vestige.policies import Encoded, Private, Window
from vestige.policy import Policy
from vestige.records import Floats
from vestige.reporting import STATISTICS
from vestige.sources import Source
from vestige.store import read_store

_MOST_ROWS = 1_000_000
_SHOWN = 20
_LOOKS = (
    "batches since erased",
    "epsilon, at least",
    "mu, at least",
    "AUC",
    "caught at 1%",
    "guessed to",
    "same state",
)
_json = click.option("--json", "machine", is_flag=True, help="Print one JSON object, for machines.")
_figure = click.option("--figure", metavar="FILE", help="Draw it too; the ending says how, such as .png or .svg.")
_trials = click.option(
    "--trials", type=int, default=1_000, show_default=True, help="In each world; more can show a larger epsilon."
)
_seed = click.option("--seed", type=int, default=0, show_default=True, help="Makes the audit reproducible.")


class _Sources(click.Group):
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
@click.option("--delta", type=float, default=1e-6, show_default=True, help="With --epsilon; and where it is bounded.")
@click.option("--bound", type=float, help="With --epsilon: the longest that a record's values may be, else shortened.")
@click.option(
    "--adversary",
    type=click.Choice(ADVERSARIES),
    default=ADVERSARIES[0],
    show_default=True,
    help="Whether he knows all other records or only their distribution.",
)
@click.option("--batches", type=int, default=30, show_default=True, help="Look until so many batches past erasure.")
@_trials
@click.option("--confidence", type=float, default=0.95, show_default=True, help="Of each bound.")
@_seed
@_figure
@_json
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
    """Audit a statistic of SOURCE; the word `source` may be left out.

    Records are drawn from the rows of a CSV, NDJSON or Parquet file; one of them is replaced and long erased. The two
    worlds hold the smallest and the largest of 1,000 draws in its place.
    """
    kept = STATISTICS[statistic].policy(columns, targets, channel, half_life)
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
    if machine:
        as_json({"policy": repr(policy), "retention": retention, **found.facts})
        return
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
    return type(policy).__name__ + (f", {policy.written.name}" if isinstance(policy, Encoded) else "")


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


def _cells(look: Look, batch: int) -> tuple[str, ...]:
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


@audit.command("compare")
@click.option("--retention", type=int, default=64, show_default=True, help="Of all streams.")
@click.option("--batches", type=int, default=100, show_default=True, help="Look so many batches past erasure.")
@_trials
@_seed
@_figure
@_json
def audit_compare(retention: int, batches: int, trials: int, seed: int, figure: str | None, machine: bool) -> None:
    """Compare the usual policies.

    How exact they are, how revealing, and which definitions of deletion they meet.

    Normal records; the one that is replaced is 3 deviations below or above the mean, the bound of the private policy.
    In Python, vestige.audit.compare takes policies and data of your own.
    """
    with meter("Playing") as report:
        found = compare(
            usual_policies(),
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


@audit.command("appendix")
@_trials
@_seed
@_json
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
@click.option("--runs", type=int, default=20, show_default=True, help="Averaged over so many.")
@_seed
@_figure
@_json
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


@audit.command("store")
@click.argument("stores", nargs=-1, required=True, metavar="STORE...")
@click.option("--stream", "names", multiple=True, help="Only this stream; may be given again.")
@click.option("--level", type=float, default=0.01, show_default=True, help="How often honest retention may be accused.")
@_seed
@_json
def audit_store(stores: tuple[str, ...], names: tuple[str, ...], level: float, seed: int, machine: bool) -> None:
    """Say how improbable what a store holds is under honest retention.

    Honest is a window that keeps all it may, or a subsample by chance. One STORE shows one batch of each stream, which
    often proves little; several copies of it, taken at least a batch apart, show much more.

    \b
    Examples:
      vestige audit store delays.db
      vestige audit store monday.db tuesday.db wednesday.db --stream main
    """  # noqa: D301
    found = {}
    for name, snapshots in _snapshots(stores, names).items():
        if any(snapshot.clock.encoded for snapshot in snapshots):
            found[name] = detect(snapshots, seed=seed)
    if machine:
        as_json({name: {**asdict(one), "p": one.p, "verdict": one.verdict(level)} for name, one in found.items()})
        return
    if not found:
        say("Nothing to look at yet: no stream has closed its first batch.")
    for name, one in list(found.items())[:_SHOWN]:
        batches = f"{len(one.batches)} {'batch' if len(one.batches) == 1 else 'batches'}"
        kept, rounds = (
            sum(numbers) for numbers in zip(*((b.kept, b.last - b.first + 1) for b in one.batches), strict=True)
        )
        say(f"{name}: {batches}, {kept:,} of {rounds:,} records kept. {one.verdict(level)}")
    if len(found) > _SHOWN:
        say(f"... and {len(found) - _SHOWN:,} more; --json prints them all.")


def _snapshots(stores: tuple[str, ...], names: tuple[str, ...]) -> dict[str, list[Snapshot]]:
    """What the copies show of each stream."""
    made: dict[str, list[Snapshot]] = {}
    for store in stores:
        with announced(f"Reading {store} ..."):
            there = read_store(store)
        for name, (_, state) in there.items():
            made.setdefault(name, []).append(Snapshot(state.retained, state.clock))
    for name in names:
        if name not in made:
            raise StoreError(
                f"{stores[0]}: there is no stream {name!r}; there is {', '.join(list(made)[:5]) or 'none'}"
            )
    return {name: snapshots for name, snapshots in made.items() if not names or name in names}
