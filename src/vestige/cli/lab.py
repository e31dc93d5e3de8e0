"""`vestige lab`: tests every claim of the paper, prints the verdicts, and makes a page that shows them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import click
from rich.console import Console
from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar

from vestige.cli.group import command
from vestige.cli.output import say, show_table, throttle
from vestige.errors import ParameterError
from vestige.lab import EXPERIMENTS, Experiment, Progress, Results
from vestige.lab import run as run_experiments
from vestige.lab.experiment import INCOMPLETE
from vestige.lab.figures import render
from vestige.lab.report import collect_findings, render_page
from vestige.lab.results import read_rows

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
    """List the experiments and the number of trials that have been run."""
    rows = []
    for experiment in EXPERIMENTS.values():
        count = len(read_rows(folder / f"{experiment.name}.parquet"))
        rows.append((experiment.name, experiment.claim, f"{count:,} of {len(experiment.grid) * experiment.trials:,}"))
    show_table(("name", "claim", "trials"), rows, words=("claim",))


@lab.command()
@click.argument("names", nargs=-1, metavar="[NAME ...]")
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

    Without NAME, all experiments are run. Results are saved in a folder, one Parquet file for each experiment. A run
    that was stopped continues where it was.

    \b
    Examples:
      vestige lab run --quick
      vestige lab run retention length --trials 100
      vestige lab run --dask 127.0.0.1:8786
    """  # noqa: D301  # the sign says to leave the lines as they are
    experiments = _find_experiments(names)
    started = time.monotonic()
    with _show_progress() as progress:
        run_experiments(
            experiments,
            folder,
            seed=seed,
            trials=trials,
            jobs=jobs,
            quick=quick,
            fresh=fresh,
            dask=dask,
            progress=progress,
        )
    for experiment in experiments:
        _print_verdict(experiment, folder)
    say(f"{time.monotonic() - started:.0f} s. Results are in {folder}; make a page of them with: vestige lab report")


def _find_experiments(names: Sequence[str]) -> list[Experiment]:
    for name in names:
        if name not in EXPERIMENTS:
            raise ParameterError(f"NAME={name!r} is not an experiment; use one of {', '.join(EXPERIMENTS)}")
    return [EXPERIMENTS[name] for name in names or EXPERIMENTS]


def _print_verdict(experiment: Experiment, folder: Path) -> None:
    """Print the claim, the verdict and its reason."""
    verdict = experiment.judge(Results.from_rows(read_rows(folder / f"{experiment.name}.parquet")))
    say(f"{experiment.name}: {verdict.outcome}. {experiment.claim}")
    constants = "; ".join(f"{name} = {value:.3g}" for name, value in verdict.constants.items())
    say(f"    {verdict.reason}{f' Constants: {constants}.' if constants else ''}")
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
def report(folder: Path, page: Path | None, figures: Path | None) -> None:
    """Make one page of all results: claims, figures, verdicts, commands.

    The page is self-contained and needs no network.
    """
    findings = collect_findings(EXPERIMENTS.values(), folder)
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
