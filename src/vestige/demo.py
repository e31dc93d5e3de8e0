"""The demo: the all-time means of 328,521 flights from a retention of 512, beside those of a sliding window.

Run it with `make demo`; the figure is saved to the given path, or to out/flights.png.
Guarantee: within 0.05 standard errors of the mean of all flights; held by tests/test_demo.py.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from vestige.errors import MissingExtraError
from vestige.estimate import Estimate
from vestige.figures import INK, find_style, make_panels, save_figure, use_style
from vestige.flights import flights
from vestige.policies import LinearRegression, Mean, Window
from vestige.store import Place, open_reader, open_store
from vestige.stream import Stream
from vestige.types import Floats, Ints

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.table import Table

RETENTION = 512
COLUMNS = ("dep_delay", "distance")
LABELS = ("departure delay (minutes)", "distance (miles)")
FITS = (
    (("distance",), "air_time", "air time (min)"),
    (("hour", "distance"), "dep_delay", "departure delay (min)"),
)
_POINTS = 300


@dataclass(frozen=True, slots=True, eq=False)
class Tour:
    """Answers at checkpoints along the stream.

    Attributes:
        t: number of flights so far; shape (checkpoints,).
        truth: mean of all of them; shape (checkpoints, columns).
        vestige: Vestige's answer; shape (checkpoints, columns).
        window: the sliding window's answer; shape (checkpoints, columns).
        standard_error: standard error of the mean of all flights; shape (columns,).
        last: Vestige's last estimate.
        last_window: the sliding window's last estimate.
    """

    t: Floats
    truth: Floats
    vestige: Floats
    window: Floats
    standard_error: Floats
    last: Estimate
    last_window: Estimate


def run_tour(
    rows: Floats,
    store: Place | None = None,
    retention: int = RETENTION,
    seed: int = 0,
    progress: Callable[[Ints], Iterable[int]] = iter,
) -> Tour:
    """Stream records through Vestige and through a sliding window, and record the answers.

    Args:
        rows: records; shape (n, columns).
        store: place in a store for Vestige's stream. Default: in memory.
        retention: retention of both streams, in records.
        seed: seed of the coins.
        progress: wraps the checkpoints, as a progress bar does.

    Returns:
        The answers at each checkpoint.
    """
    dim = rows.shape[1]
    ours = Stream(Mean(dim=dim), retention=retention, seed=seed, store=store)
    plain = Stream(Window(Mean(dim=dim)), retention=retention)
    checkpoints = np.linspace(0, len(rows), _POINTS + 1).astype(int)[1:]
    answers: list[tuple[Floats, Floats]] = []
    start = 0
    for stop in progress(checkpoints):
        for stream in (ours, plain):
            stream.extend(rows[start:stop])
        answers.append((np.atleast_1d(ours.estimate().value), np.atleast_1d(plain.estimate().value)))
        start = stop
    return Tour(
        t=checkpoints.astype(np.float64),
        truth=np.cumsum(rows, axis=0)[checkpoints - 1] / checkpoints[:, None],
        vestige=np.array([pair[0] for pair in answers]),
        window=np.array([pair[1] for pair in answers]),
        standard_error=rows.std(axis=0, ddof=1) / np.sqrt(len(rows)),
        last=ours.estimate(),
        last_window=plain.estimate(),
    )


def make_table(seen: Tour) -> Table:
    """Make a table of the last answers.

    Args:
        seen: result of `run_tour`.

    Returns:
        The table.
    """
    from rich.table import Table  # noqa: PLC0415

    made = Table()
    for name in ("", "all flights", "Vestige", "off by", "sliding window", "off by"):
        made.add_column(name, justify="right" if name else "left")
    for i, label in enumerate(LABELS):
        truth, scale = seen.truth[-1, i], seen.standard_error[i]
        cells = [label, f"{truth:.4f}"]
        for answer in (seen.vestige[-1, i], seen.window[-1, i]):
            cells += [f"{answer:.4f}", f"{(answer - truth) / scale:+.4f} s.e."]
        made.add_row(*cells)
    held, age = "records held", "oldest arrived"
    made.add_section()
    made.add_row(held, f"{seen.last.t:,}", f"{seen.last.held}", "", f"{seen.last_window.held}", "")
    made.add_row(age, "", f"{seen.last.oldest_age} flights ago", "", f"{seen.last_window.oldest_age} flights ago", "")
    return made


def make_fit_table(retention: int = 2 * RETENTION, seed: int = 0) -> Table:
    """Make a table of least squares over all flights, by Vestige, and over the last records alone.

    Args:
        retention: retention of both streams, in records.
        seed: seed of the coins.

    Returns:
        The table.
    """
    from rich.table import Table  # noqa: PLC0415

    made = Table()
    for name in ("least squares", "", "all flights", "Vestige", "off by", f"last {retention}", "off by"):
        made.add_column(name, justify="right" if len(made.columns) > 1 else "left")
    for predictors, output, label in FITS:
        rows = flights(*predictors, output)
        policy = LinearRegression(len(predictors))
        answers = []
        for stream in (
            Stream(policy, retention=retention, seed=seed),
            Stream(Window(policy), retention=retention),
        ):
            stream.extend(rows)
            estimate = stream.estimate()
            answers.append(np.append(estimate.intercept, estimate.value))
        truth, errors = _fit_all_data(rows)
        for i, term in enumerate(("(intercept)", *predictors)):
            cells = [label if i == 0 else "", term, f"{truth[i]:.4f}"]
            for answer in answers:
                cells += [f"{answer[i]:.4f}", f"{(answer[i] - truth[i]) / errors[i]:+.4f} s.e."]
            made.add_row(*cells)
        made.add_section()
    return made


def _fit_all_data(rows: Floats) -> tuple[Floats, Floats]:
    """Return the least-squares coefficients, the intercept first, and their standard errors."""
    x = np.column_stack([np.ones(len(rows)), rows[:, :-1]])
    fit = np.linalg.lstsq(x, rows[:, -1], rcond=None)[0].astype(np.float64)
    left = rows[:, -1] - x @ fit
    variance = left @ left / (len(x) - x.shape[1])
    return fit, np.sqrt(variance * np.linalg.inv(x.T @ x).diagonal())


@use_style()
def draw_tour(seen: Tour, path: str | Path | None = None) -> Figure:
    """Draw the answers along the stream.

    Args:
        seen: result of `run_tour`.
        path: file to save the figure in; its suffix determines the format. Default: do not save.

    Returns:
        The figure, which a notebook displays.

    Raises:
        MissingExtraError: if matplotlib is not installed.
    """
    drawn, panels = make_panels(len(LABELS), width=5.0)
    for i, (panel, label) in enumerate(zip(panels, LABELS, strict=True)):
        thousands = seen.t / 1000
        panel.plot(
            thousands,
            seen.window[:, i],
            color=find_style("Window").colour,
            lw=0.9,
            label=f"mean of the last {RETENTION} records",
        )
        panel.plot(thousands, seen.truth[:, i], color=INK, lw=4.5, alpha=0.45, label="mean of all records so far")
        panel.plot(
            thousands,
            seen.vestige[:, i],
            color=find_style("Mean").colour,
            lw=1.4,
            ls="--",
            label=f"Vestige, holding at most {RETENTION}",
        )
        panel.set(xlabel="flights so far (thousands)", ylabel=label)
        panel.margins(x=0.01)
    handles, names = panels[0].get_legend_handles_labels()
    drawn.legend(handles, names, loc="outside upper center", ncols=3)
    save_figure(drawn, path)
    return drawn


def main() -> None:
    """Run the demo."""
    try:
        from rich.console import Console  # noqa: PLC0415
        from rich.progress import track  # noqa: PLC0415
    except ModuleNotFoundError:
        raise MissingExtraError("the demo", "demo") from None
    console = Console(highlight=False, width=None if sys.stdout.isatty() else 110)
    path = Path(sys.argv[1] if len(sys.argv) > 1 else "out/flights.png")
    console.print("Reading the flights that left New York City in 2013, in time order ...")
    rows = flights(*COLUMNS)
    console.print("Loading kernels (compiled on the first run, then cached) ...")
    run_tour(rows[: 2 * RETENTION])
    file = path.with_name("flights.db")
    console.print(f"Streaming {len(rows):,} flights into {file}; no record may outlive {RETENTION} others ...")
    for old in path.parent.glob("flights.db*"):
        old.unlink()
    file.parent.mkdir(parents=True, exist_ok=True)
    started = time.perf_counter()
    about = {"statistic": "mean", "columns": list(COLUMNS), "targets": []}
    with open_store(file) as store:
        bar = partial(track, console=Console(stderr=True), description="", transient=True)
        seen = run_tour(rows, store.stream("flights", about=about), progress=bar)
    seconds = time.perf_counter() - started
    console.print(make_table(seen))
    draw_tour(seen, path)
    console.print(f"s.e.: standard errors of the mean of all flights. {seconds:.1f} s. Figure: {path}")
    found = open_reader(file).verify()
    console.print(
        f"Each batch was on disk before the next was taken, and what left it is gone from the file: {file} has "
        f"{file.stat().st_size // 1024} kB, and vestige verify found {found or 'nothing'} in it.\n"
    )
    console.print(make_fit_table())
    console.print(
        f"Vestige just gave the mean of all {seen.last.t:,} flights to a fraction of its standard error while never "
        f"holding a record for more than {RETENTION} rounds: the choice of which records to keep carries the answer, "
        "and with it a trace of everybody who was erased. Try it on a file of your own: "
        "vestige run FILE --column NAME --retention 512 --store NAME.db."
    )


if __name__ == "__main__":
    main()
