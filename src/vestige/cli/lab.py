"""`vestige lab`: tests every claim of the paper, prints the verdicts, and makes a page that shows them.

Policies of other people enter from a file or an installed package; each is checked before it runs.
Guarantee: a policy that cheats is refused, and results name the file and its hash; held by tests/lab/test_command.py.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import click
from rich.console import Console
from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar

from vestige.checks import check_policy
from vestige.cli.group import command
from vestige.cli.output import escape, say, show_table, throttle
from vestige.errors import CheckError, ParameterError
from vestige.lab import (
    EXPERIMENTS,
    Contents,
    Experiment,
    Finding,
    Progress,
    Submission,
    collect_findings,
    load_file,
    load_installed,
)
from vestige.lab import run as run_experiments
from vestige.lab.experiment import INCOMPLETE
from vestige.lab.figures import render
from vestige.lab.report import list_entries, render_page, tabulate
from vestige.lab.results import read_rows
from vestige.plugins import POLICIES, list_names

_ENTRIES = click.argument("names", nargs=-1, metavar="[NAME|FILE ...]")
_OUT = click.option(
    "--out",
    "folder",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("out/lab"),
    show_default=True,
    help="Folder of the results.",
)


@command.group()
def lab() -> None:
    """Test the claims of the paper.

    An experiment is a claim, trials that could refute it, and a verdict that is computed from them.
    """


@lab.command("list")
@_OUT
def list_experiments(folder: Path) -> None:
    """List the experiments, the number of trials that have been run, and the policies of installed packages."""
    installed = _load_installed(None)
    rows = []
    for experiment in (*EXPERIMENTS.values(), *installed.experiments):
        count = len(read_rows(folder / experiment.file_name))
        rows.append((experiment.name, experiment.claim, f"{count:,} of {len(experiment.grid) * experiment.trials:,}"))
    show_table(("name", "claim", "trials"), rows, words=("claim",))
    if installed.submissions:
        policies = [(each.name, repr(each.policy), each.origin.name) for each in installed.submissions]
        show_table(("policy", "what it is", "package"), policies, words=("what it is", "package"))


@lab.command()
@_ENTRIES
@_OUT
@click.option("--trials", type=int, help="Number of trials at each point; default: that of the experiment.")
@click.option("--jobs", type=int, default=-1, help="Number of processes; default: one per core.")
@click.option("--quick", is_flag=True, help="Run a part of each grid with few trials: about a minute for all.")
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of all random numbers.")
@click.option("--fresh", is_flag=True, help="Discard earlier results; without it, a stopped run continues.")
@click.option("--dask", metavar="ADDRESS", help="Address of a Dask scheduler; trials run on its cluster.")
def run(
    names: tuple[str, ...],
    folder: Path,
    trials: int | None,
    jobs: int,
    seed: int,
    dask: str | None,
    *,
    quick: bool,
    fresh: bool,
) -> None:
    """Run experiments and print their verdicts.

    NAME is an experiment; without one, all are run. FILE is a Python file with a policy or an experiment of yours; NAME
    may also be a policy of an installed package. A policy is checked first, then runs beside those of the named
    experiments, by default of all that compare estimates of a mean. Its results say which file they are of.

    Results are saved in a folder, one Parquet file for each experiment and one for each policy of yours in it. A run
    that was stopped continues where it was.

    \b
    Examples:
      vestige lab run --quick
      vestige lab run retention length --trials 100
      vestige lab run mine.py
      vestige lab run mine.py retention --quick
      vestige lab run --dask 127.0.0.1:8786
    """  # noqa: D301  # the sign says to leave the lines as they are
    experiments, submissions = _read_entries(names)
    started = time.monotonic()
    for submission in submissions:
        _check_submission(submission)
    entries = [mine for each in experiments for mine in list_entries(each, submissions)]
    for submission in submissions:
        _tell_entries(submission, experiments, entries)
    with _show_progress() as progress:
        run_experiments(
            [*experiments, *entries],
            folder,
            seed=seed,
            trials=trials,
            jobs=jobs,
            quick=quick,
            fresh=fresh,
            dask=dask,
            progress=progress,
        )
    for finding in collect_findings(experiments, folder, submissions):
        _print_finding(finding)
    say(f"{time.monotonic() - started:.0f} s. Results are in {folder}; make a page of them with: vestige lab report")


def _load_installed(names: tuple[str, ...] | None) -> Contents:
    """What installed packages add; those that cannot be used are named on standard error."""
    contents, problems = load_installed(names)
    for problem in problems:
        click.echo(f"Warning: {escape(problem)}", err=True)
    return contents


def _read_entries(names: Sequence[str]) -> tuple[list[Experiment], list[Submission]]:
    """The experiments to run, and the policies that enter them."""
    files = [load_file(name) for name in names if name.endswith(".py")]
    others = tuple(name for name in names if not name.endswith(".py"))
    installed = _load_installed(others)
    known = {**EXPERIMENTS}
    for experiment in (*installed.experiments, *(each for file in files for each in file.experiments)):
        if known.setdefault(experiment.name, experiment) is not experiment:
            raise ParameterError(f"there are two experiments of the name {experiment.name}; rename one of them")
    submissions = [*installed.submissions, *(each for file in files for each in file.submissions)]
    entered = {submission.name for submission in submissions}
    if len(entered) < len(submissions):
        raise ParameterError(f"two policies have the same name, among {', '.join(sorted(entered))}; rename one of them")
    chosen = [name for name in others if name not in entered or name in known]
    for name in chosen:
        if name not in known:
            policies = list_names(POLICIES)
            more = f"; or a policy, one of {', '.join(policies)}" if policies else ""
            raise ParameterError(
                f"NAME={name!r} is not an experiment; use one of {', '.join(known)}{more}; or a file that ends in .py"
            )
    if chosen or not (files or submissions):
        return [known[name] for name in chosen or known], submissions
    own = [each for file in files for each in file.experiments]
    contests = [each for each in known.values() if each.contest is not None and each not in own] if submissions else []
    return own + contests, submissions


def _check_submission(submission: Submission) -> None:
    """Refuse a policy that does not follow the model."""
    try:
        check_policy(submission.policy)
    except CheckError as problem:
        raise CheckError(f"{submission.origin.name}: {problem}") from None
    say(f"{submission.describe()}: follows the model, as far as vestige.checks.check_policy can tell.")


def _tell_entries(submission: Submission, experiments: Sequence[Experiment], entries: Sequence[Experiment]) -> None:
    """Say which experiments a policy cannot enter; refuse it if it can enter none."""
    entered = {entry.name for entry in entries if entry.submission == submission}
    reasons = {}
    for experiment in experiments:
        if experiment.name not in entered:
            try:
                experiment.submit(submission)
            except ParameterError as problem:
                reasons[experiment.name] = str(problem)
    if not entered:
        raise ParameterError("; ".join(dict.fromkeys(reasons.values())))
    for name, reason in reasons.items():
        click.echo(f"Note: {submission.name} is not in {name}: {escape(reason)}", err=True)


def _print_finding(finding: Finding) -> None:
    """Print the claim, the verdict and its reason, and a table if there are policies from elsewhere."""
    experiment, verdict = finding.experiment, finding.verdict
    say(f"{experiment.name}: {verdict.outcome}. {experiment.claim}")
    constants = "; ".join(f"{name} = {value:.3g}" for name, value in verdict.constants.items())
    say(f"    {verdict.reason}{f' Constants: {constants}.' if constants else ''}")
    if finding.submissions:
        header, rows, caption = tabulate(finding)
        say(f"With {'; '.join(submission.describe() for submission in finding.submissions)}. {caption}")
        show_table(header, rows)
    say("")


@contextmanager
def _show_progress() -> Iterator[Callable[[Progress], None]]:
    """A bar on a terminal; elsewhere, on request, a plain line every two seconds; both with the time left."""
    errors = Console(stderr=True)
    if not errors.is_terminal:
        yield throttle(lambda at: f"{at.done:,} of {at.total:,} trials, {_format_minutes(at.left)} left")
        return
    with Bar(
        TextColumn("{task.completed:,} of {task.total:,} trials"),
        BarColumn(),
        TextColumn("{task.fields[left]} left"),
        TimeElapsedColumn(),
        console=errors,
        transient=True,
    ) as bar:
        task = bar.add_task("", total=1, left="?")
        yield lambda at: bar.update(task, completed=at.done, total=at.total, left=_format_minutes(at.left))


def _format_minutes(seconds: float) -> str:
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"


@lab.command()
@_ENTRIES
@_OUT
@click.option(
    "--html",
    "page",
    type=click.Path(path_type=Path),
    help="File of the page; default: report.html in the folder of the results.",
)
@click.option(
    "--figures",
    type=click.Path(path_type=Path),
    metavar="FOLDER",
    help="Also write the figures as PNG files to this folder.",
)
def report(names: tuple[str, ...], folder: Path, page: Path | None, figures: Path | None) -> None:
    """Make one page of all results: claims, figures, verdicts, commands.

    NAME is an experiment; without one, all are shown. With FILE, a Python file with a policy of yours, or the NAME of
    one of an installed package, its results are in the figures too. The page is self-contained and needs no network.
    """
    experiments, submissions = _read_entries(names)
    findings = collect_findings(experiments, folder, submissions)
    _refuse_absent(submissions, findings)
    if not findings:
        raise ParameterError(f"--out {folder} has no results; make some with: vestige lab run --out {folder}")
    path = folder / "report.html" if page is None else page
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(render_page(findings, "vestige lab run"), encoding="utf-8")
    if figures is not None:
        figures.mkdir(parents=True, exist_ok=True)
        for finding in findings:
            if finding.verdict.outcome == INCOMPLETE:
                continue
            png = render(finding.experiment.draw_figure, finding.results, "png")
            (figures / f"{finding.experiment.name}.png").write_bytes(png)
    show_table(
        ("experiment", "verdict"),
        [(finding.experiment.name, finding.verdict.outcome) for finding in findings],
        words=("verdict",),
    )
    say(f"The report is in {path}.")


def _refuse_absent(submissions: Sequence[Submission], findings: Sequence[Finding]) -> None:
    """Refuse policies without results, which the page would leave out without a word."""
    for submission in submissions:
        if not any(submission in finding.submissions for finding in findings):
            entry = submission.name if submission.origin.path is None else submission.origin.name
            raise ParameterError(
                f"{submission.describe()}, has no results here, and a file that has changed has results of its own; "
                f"run: vestige lab run {entry}"
            )
