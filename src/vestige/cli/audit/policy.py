"""`vestige audit policy FILE`: what a policy would reveal on the user's own data, and a verdict in sentences.

Guarantee: the output first says that it does not judge how FILE was kept; held by tests/test_cli_audit.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import click
import numpy as np

from vestige.audit import (
    Checkpoint,
    Leakage,
    approximate_trade_off,
    draw_leakage,
    draw_trade_off,
    gaussian_trade_off,
    measure_leakage,
)
from vestige.audit.leakage import ADVERSARIES, KNOWLEDGE
from vestige.channels import CHANNELS
from vestige.cli.audit.group import audit, figure_option, json_option, seed_option, trials_option
from vestige.cli.audit.report import (
    Report,
    check_report,
    hash_file,
    report_option,
    sign_option,
    write_report,
)
from vestige.cli.group import check_figure_path
from vestige.cli.noise_options import bound_option, delta_option, epsilon_option, window_option
from vestige.cli.output import print_json, say, show_progress, show_table
from vestige.errors import SourceError
from vestige.ingest.policy_options import make_policy, wrap_policy
from vestige.policies import STATISTICS, Encoded, NamedPolicy, Private, Window
from vestige.policy import Policy
from vestige.sources import FileSource
from vestige.stream.arrivals import read_table
from vestige.types import Floats

_MAX_ROWS = 1_000_000
_DISCLAIMER = "It says nothing about how that file was kept, or about whoever keeps it."
_METHOD = (
    "Two hypotheses differ in the value of one record, which was erased long ago. {trials:,} runs of the policy under "
    "each show an adversary what is retained; some train the adversary, the others are counted. Bounds hold with a "
    "confidence of {confidence:.0%} each (Clopper and Pearson); an epsilon above {ceiling:.2f} cannot be shown by so "
    "many runs."
)
_BLIND_SPOTS = (
    "How the input file itself was kept, and by whom: the policy was run on its values.",
    "What a stronger adversary would find: a bound of 0 does not prove privacy.",
    "What is published between the states that the adversary sees, and what several streams say together.",
)
_HEADER = (
    "batches since erasure",
    "epsilon >=",
    "mu >=",
    "AUC",
    "TPR at 1% FPR",
    "reconstruction",
    "same state",
    "best attack",
)


@audit.command("policy")
@click.argument("source", metavar="FILE")
@click.option(
    "--column",
    "columns",
    multiple=True,
    required=True,
    help="Numeric column; may be repeated, to make records of several columns.",
)
@click.option(
    "--statistic", type=click.Choice(list(STATISTICS)), default="mean", show_default=True, help="Statistic to keep."
)
@click.option("--target", "targets", multiple=True, help="Target column of regression and logistic; may be repeated.")
@click.option("--edges", metavar="NUMBERS", help="Borders between the bins of a histogram, such as 0,10,20.")
@click.option("--categories", metavar="NAMES", help="Names of the categories of shares, such as ok,failed.")
@click.option("--retention", type=int, required=True, help="Retention of the stream, in records.")
@click.option(
    "--channel",
    type=click.Choice(sorted(CHANNELS)),
    default="auto",
    show_default=True,
    help="Channel that stores the statistic.",
)
@click.option("--half-life", type=float, help="Number of records after which the weight of a record has halved.")
@window_option
@epsilon_option
@delta_option
@bound_option
@click.option(
    "--adversary",
    type=click.Choice(ADVERSARIES),
    default=ADVERSARIES[0],
    show_default=True,
    help="Whether the adversary knows all other records, only their distribution, or chooses what arrives in the batch "
    "of the record after seeing the states before it; this takes ten times as long or more.",
)
@click.option(
    "--learned",
    is_flag=True,
    help="Also train gradient-boosted trees on answers, presence and retained values, which takes twice as many trials "
    "and some seconds for each line of the table; needs scikit-learn.",
)
@click.option(
    "--batches", type=int, default=30, show_default=True, help="Number of batches between erasure and last checkpoint."
)
@trials_option
@click.option(
    "--confidence", type=float, default=0.95, show_default=True, help="Confidence level of each bound, from 0 to 1."
)
@seed_option
@figure_option
@click.option(
    "--curve",
    type=check_figure_path,
    metavar="FILE",
    help="File to save the trade-off of all states together in: false positives against false negatives, with a "
    "band that holds at all points at once, beside what is promised.",
)
@report_option
@sign_option
@json_option
def audit_policy(
    source: str,
    columns: tuple[str, ...],
    statistic: str,
    targets: tuple[str, ...],
    edges: str | None,
    categories: str | None,
    retention: int,
    channel: str,
    half_life: float | None,
    window: bool,
    epsilon: float | None,
    delta: float | None,
    bounds: tuple[str, ...],
    adversary: str,
    learned: bool,
    batches: int,
    trials: int,
    confidence: float,
    seed: int,
    figure: str | None,
    curve: str | None,
    report: str | None,
    key: str | None,
    machine: bool,
) -> None:
    """Measure what a policy of Vestige would reveal on the values in FILE.

    This says nothing about how FILE itself was kept, or about whoever keeps it: it runs the policy on these values, and
    measures what that would reveal. `vestige audit table` tests how a table was kept.

    Records are drawn from the rows of a CSV, NDJSON or Parquet file; the value of one record, which was erased long
    ago, is the smallest of 1,000 drawn records under one hypothesis and the largest under the other; beyond them with
    --adversary chooses-arrivals.

    In the table, each line is one state, and the last one all states together, those before the record arrived
    included. "reconstruction" is the error of reconstructing the erased value, relative to guessing it (1 means that
    nothing is revealed); "same state" is how often the same rounds are retained under both hypotheses; "best attack"
    is what distinguished them best.
    """
    check_report(report, key)
    kept = make_policy(statistic, columns, targets, channel, half_life, edges, categories)
    policy = wrap_policy(kept, columns + targets, epsilon=epsilon, delta=delta, bounds=bounds, window=window)
    rows = _read_rows(source, columns + targets, kept)
    batch = max(1, retention // 2)
    with show_progress("Running trials") as tell:
        leakage = measure_leakage(
            policy,
            retention=retention,
            t=retention + 1 + (batches + (2 if adversary == "chooses-arrivals" else 0)) * batch,
            trials=trials,
            adversary=adversary,
            learned=learned,
            data=rows,
            confidence=confidence,
            delta=policy.delta if isinstance(policy, Private) else 0.0,
            seed=seed,
            progress=tell,
        )
    if figure is not None:
        draw_leakage({_name_policy(policy): leakage}, figure)
    if curve is not None:
        draw_trade_off(leakage.joint.trade_off, _list_promises(policy), curve)
    about = f"This audits {_name_policy(policy)}, a policy of Vestige, run on the values in {source}. {_DISCLAIMER}"
    if report is not None:
        write_report(_make_report(about, source, leakage, policy, retention), report, key)
    if machine:
        print_json({"audited": about, "policy": repr(policy), "retention": retention, **leakage.to_dict()})
        return
    say(about)
    say(f"{_name_policy(policy)} of {', '.join(columns + targets)}, retention {retention}:")
    show_table(_HEADER, _list_rows(leakage, batch), ("best attack",))
    say(
        f"{leakage.trials:,} trials per hypothesis, which can show an epsilon of at most {leakage.epsilon_ceiling:.2f}."
    )
    for line in explain_leakage(leakage, policy, batch):
        say(line)


def _make_report(about: str, source: str, leakage: Leakage, policy: Policy, retention: int) -> Report:
    batch = max(1, retention // 2)
    figure = draw_leakage({_name_policy(policy): leakage})
    curve = draw_trade_off(leakage.joint.trade_off, _list_promises(policy))
    verdict = [line.removeprefix("Verdict: ") for line in explain_leakage(leakage, policy, batch)]
    return Report(
        title="Audit of a policy",
        question=f"What would {_name_policy(policy)} with a retention of {retention:,} reveal about erased records?",
        verdict=" ".join([verdict[0][:1].upper() + verdict[0][1:], *verdict[1:]]),
        mark=verdict[0].partition(".")[0].partition(":")[0],
        method=_METHOD.format(trials=leakage.trials, ceiling=leakage.epsilon_ceiling, confidence=leakage.confidence),
        inputs=[(source, "-" if source == "-" else hash_file(source), about)],
        tables=[("Results", _HEADER, _list_rows(leakage, batch), ())],
        figures=[
            (figure, "What an adversary can tell, by the number of batches since the record was erased."),
            (curve, "How often the adversary takes one hypothesis for the other, from all states together."),
        ],
        blind_spots=_BLIND_SPOTS,
    )


def _name_policy(policy: Policy) -> str:
    if isinstance(policy, Private):
        return f"Private {_name_policy(policy.policy).lower()}, epsilon {policy.epsilon:g}"
    if isinstance(policy, Window):
        return f"Window, {_name_policy(policy.policy).lower()}"
    return type(policy).__name__ + (f", {policy.encoding.name}" if isinstance(policy, Encoded) else "")


def _read_rows(source: str, columns: tuple[str, ...], policy: NamedPolicy) -> Floats:
    """Read the rows of a file, or as many as fit into memory."""
    file = FileSource(source, columns, categories=policy.name_categories(columns))
    blocks = (read_table(block.rows, policy) for block in file.blocks())
    taken, count = [], 0
    for values in blocks:
        taken.append(values)
        count += len(values)
        if count >= _MAX_ROWS:
            click.echo(f"Records are drawn from the first {_MAX_ROWS:,} rows only.", err=True)
            break
    if not count:
        raise SourceError(
            f"{source}: no row has a number in each of {', '.join(columns)}; choose columns that have numbers"
        )
    return np.concatenate(taken)[:_MAX_ROWS]


def _list_promises(policy: Policy) -> dict[str, Callable[[float], float]]:
    """The promised trade-off functions by name."""
    if not isinstance(policy, Private):
        return {}
    return {
        f"promised: mu {policy.mu:.2f}": lambda rate: gaussian_trade_off(rate, policy.mu),
        f"epsilon {policy.epsilon:g}": lambda rate: approximate_trade_off(rate, policy.epsilon, policy.delta),
    }


def _list_rows(leakage: Leakage, batch: int) -> list[tuple[str, ...]]:
    """The rows of the table: each state since the erasure, then all states together."""
    return [_format_checkpoint(one, batch) for one in (*leakage.checkpoints, leakage.joint) if one.age >= 0]


def _format_checkpoint(checkpoint: Checkpoint, batch: int) -> tuple[str, ...]:
    return (
        f"{checkpoint.age / batch:.3g}" if checkpoint.states == 1 else "all states",
        f"{checkpoint.epsilon:.2f}",
        f"{checkpoint.mu:.2f}",
        f"{checkpoint.auc:.3f}",
        f"{checkpoint.true_positive_rate:.0%}",
        f"{checkpoint.reconstruction:.1g}",
        f"{checkpoint.same_state:.0%}",
        checkpoint.feature,
    )


def explain_leakage(leakage: Leakage, policy: Policy, batch: int) -> Iterator[str]:
    """Explain the result of an audit in sentences.

    The bounds quoted are those of checkpoints that were fixed in advance: the first, the last, and all states together.
    The largest of all would exceed the truth too often, so the verdict follows from bounds that hold simultaneously.

    Args:
        leakage: result of the audit.
        policy: policy under audit.
        batch: number of records in a batch.

    Yields:
        The sentences.
    """
    last, joint = leakage.checkpoints[-1], leakage.joint
    who = f"An adversary who {KNOWLEDGE[leakage.adversary]}"
    if isinstance(policy, Private):
        verdict = "REFUTED" if leakage.refutes(policy.epsilon, policy.mu) else "not refuted"
        yield (
            f"Verdict: the guarantee of epsilon {policy.epsilon:g} at delta {policy.delta:g} is {verdict} by all "
            f"{joint.states} states together: epsilon is at least {joint.epsilon:.2f}, and mu is at least "
            f"{joint.mu:.2f}, of {policy.mu:.2f} guaranteed."
        )
        return
    if not leakage.reveals:
        yield (
            f"Verdict: nothing found. {who} could not distinguish the hypotheses at any checkpoint. That does not "
            "prove that nobody can."
        )
        if any(one.epsilon or one.mu for one in (*leakage.checkpoints, joint)):
            yield (
                "A single bound above 0 is no more than chance allows among so many; if it appears again with more "
                "trials, it is more."
            )
        return
    erased = next(one for one in leakage.checkpoints if one.age >= 0)
    yield (
        f"Verdict: erased, but not forgotten. {who} distinguished the hypotheses: right after the "
        f"erasure, epsilon was at least {erased.epsilon:.2f} ({leakage.confidence:.0%} confidence"
        + (", the most that this many trials can show)." if erased.epsilon >= leakage.epsilon_ceiling else ").")
    )
    yield (
        f"{last.age / batch:.3g} batches after the erasure, it was at least {last.epsilon:.2f}; from all "
        f"{joint.states} states together, at least {joint.epsilon:.2f}."
    )
    if last.reconstruction < 0.5:
        yield f"The erased value could then be reconstructed with {last.reconstruction:.1g} of the error of a guess."
