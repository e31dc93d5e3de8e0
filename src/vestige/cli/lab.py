"""`vestige lab`: every claim of the paper, run; verdicts, and a page that shows them."""

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
from vestige.cli.output import now_and_then, say, show_table
from vestige.errors import ParameterError
from vestige.lab import EXPERIMENTS, Experiment, Progress, Results
from vestige.lab import run as run_experiments
from vestige.lab.experiment import UNFINISHED
from vestige.lab.figures import rendered
from vestige.lab.report import findings
from vestige.lab.report import page as make_page
from vestige.lab.results import read

_OUT = click.option(
    "--out",
    "folder",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("out/lab"),
    show_default=True,
    help="Where the results are.",
)


@command.group()
def lab() -> None:
    """Try each claim of the paper.

    An experiment is a claim, trials that could refute it, and a verdict that is computed from them.
    """


@lab.command("list")
@_OUT
def list_(folder: Path) -> None:
    """List the experiments and what has been run of them."""
    rows = []
    for experiment in EXPERIMENTS.values():
        there = len(read(folder / f"{experiment.name}.parquet"))
        rows.append((experiment.name, experiment.claim, f"{there:,} of {len(experiment.grid) * experiment.trials:,}"))
    show_table(("name", "claim", "trials"), rows, words=("claim",))


@lab.command()
@click.argument("names", nargs=-1, metavar="[NAME ...]")
@_OUT
@click.option("--trials", type=int, help="Trials at each point of a grid; default: as many as each experiment says.")
@click.option("--jobs", type=int, default=-1, help="How many processes to use; default: one per core.")
@click.option("--quick", is_flag=True, help="A part of each grid and few trials: under a minute for all.")
@click.option("--seed", type=int, default=0, show_default=True, help="Makes the run reproducible.")
@click.option("--fresh", is_flag=True, help="Begin anew; else a run goes on where it was stopped.")
@click.option("--dask", metavar="ADDRESS", help="Run on the Dask cluster whose scheduler is there.")
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
    """Run experiments, all unless named, and print their verdicts.

    Results go to a folder, one Parquet file for each experiment. A run that was stopped goes on where it was.

    \b
    Examples:
      vestige lab run --quick
      vestige lab run retention length --trials 100
      vestige lab run --dask 127.0.0.1:8786
    """  # noqa: D301  # the sign says to leave the lines as they are
    chosen = _named(names)
    started = time.monotonic()
    with _shown() as progress:
        run_experiments(
            chosen,
            folder,
            seed=seed,
            trials=trials,
            jobs=jobs,
            quick=quick,
            fresh=fresh,
            dask=dask,
            progress=progress,
        )
    for experiment in chosen:
        _tell(experiment, folder)
    say(f"{time.monotonic() - started:.0f} s. Results are in {folder}; vestige lab report makes a page of them.")


def _named(names: Sequence[str]) -> list[Experiment]:
    for name in names:
        if name not in EXPERIMENTS:
            raise ParameterError(f"NAME={name!r} is no experiment; use some of {', '.join(EXPERIMENTS)}")
    return [EXPERIMENTS[name] for name in names or EXPERIMENTS]


def _tell(experiment: Experiment, folder: Path) -> None:
    """The claim, the verdict and why."""
    found = experiment.judged(Results.of(read(folder / f"{experiment.name}.parquet")))
    say(f"{experiment.name}: {found.outcome}. {experiment.claim}")
    constants = "; ".join(f"{name} = {value:.3g}" for name, value in found.constants.items())
    say(f"    {found.because}{f' Constants: {constants}.' if constants else ''}")
    say("")


@contextmanager
def _shown() -> Iterator[Callable[[Progress], None]]:
    """A bar on a terminal; elsewhere, if asked for, a plain line every two seconds; both with the time left."""
    errors = Console(stderr=True)
    if not errors.is_terminal:
        yield now_and_then(lambda at: f"{at.done:,} of {at.total:,} trials, {_minutes(at.left)} left")
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
        yield lambda at: bar.update(task, completed=at.done, total=at.total, left=_minutes(at.left))


def _minutes(seconds: float) -> str:
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"


@lab.command()
@_OUT
@click.option("--html", "page", type=click.Path(path_type=Path), help="The page.  [default: OUT/report.html]")
@click.option("--figures", type=click.Path(path_type=Path), metavar="FOLDER", help="Also write PNGs there.")
def report(folder: Path, page: Path | None, figures: Path | None) -> None:
    """Make one page of all results: claims, figures, verdicts, commands.

    The page needs nothing else and no network.
    """
    found = findings(EXPERIMENTS.values(), folder)
    if not found:
        raise ParameterError(f"--out {folder} has no results; make some with: vestige lab run --out {folder}")
    path = folder / "report.html" if page is None else page
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(make_page(found, "vestige lab run"), encoding="utf-8")
    if figures is not None:
        figures.mkdir(parents=True, exist_ok=True)
        for one in found:
            if one.verdict.outcome == UNFINISHED:
                continue
            drawn = rendered(one.experiment.figure, one.results, "png")
            (figures / f"{one.experiment.name}.png").write_bytes(drawn)
    show_table(
        ("experiment", "verdict"), [(one.experiment.name, one.verdict.outcome) for one in found], words=("verdict",)
    )
    say(f"{path} has the whole story.")
