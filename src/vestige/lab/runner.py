"""Trials run wherever joblib sends them; a run that is stopped goes on where it was.

The same tasks go to this process, to the cores of this machine (loky) or to a Dask cluster (joblib's own backend).
Guarantee: what is run where makes no difference to the results; held by tests/lab/test_runner.py.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from vestige.errors import MissingExtraError, ParameterError
from vestige.lab import results
from vestige.lab.experiment import Experiment, Point
from vestige.validation import check_int

Task = tuple[Experiment, Point, int, int]
"""An experiment, a point of its grid, the seed, and the number of the trial."""
_SAVE_EVERY = 5.0


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a run is.

    Attributes:
        done: trials.
        total: trials, those of earlier runs not counted.
        left: seconds, as far as one can tell.
    """

    done: int
    total: int
    left: float


def run(
    experiments: Sequence[Experiment],
    folder: Path,
    *,
    seed: int = 0,
    trials: int | None = None,
    jobs: int = 1,
    quick: bool = False,
    fresh: bool = False,
    dask: str | None = None,
    progress: Callable[[Progress], None] = lambda _: None,
) -> None:
    """Run what is missing of these experiments, and save it now and then.

    Args:
        experiments: whose trials to run.
        folder: where the results are, one file per experiment.
        seed: of all draws.
        trials: at each point; as many as the experiment says unless said.
        jobs: processes; -1 for one per core.
        quick: take the quick points only, with few trials.
        fresh: begin anew.
        dask: the address of a scheduler, to run there instead.
        progress: is told how far it is after each piece.
    """
    check_int("seed", seed, 0)
    if trials is not None:
        check_int("trials", trials, 2)
    books = {experiment.name: _Book(experiment, folder, seed, fresh=fresh) for experiment in experiments}
    places = [found for book in books.values() for found in book.missing(trials, quick=quick)]
    places.sort(key=lambda found: found[0])  # round by round, so that what is left takes as long as what is done
    try:
        _work([task for _, task in places], books, jobs, dask, progress)
    finally:
        for book in books.values():
            book.save()


def _work(
    tasks: Sequence[Task],
    books: dict[str, _Book],
    jobs: int,
    dask: str | None,
    progress: Callable[[Progress], None],
) -> None:
    started = saved = time.monotonic()
    for done, (name, row) in enumerate(_results(tasks, jobs, dask), 1):
        books[name].add(row)
        now = time.monotonic()
        progress(Progress(done, len(tasks), (now - started) / done * (len(tasks) - done)))
        if now - saved > _SAVE_EVERY:
            for book in books.values():
                book.save()
            saved = now


class _Book:
    """The rows of one experiment, and its file."""

    def __init__(self, experiment: Experiment, folder: Path, seed: int, *, fresh: bool) -> None:
        self._experiment, self._seed = experiment, seed
        self._path = folder / f"{experiment.name}.parquet"
        self._made = results.made_by(experiment.digest, seed)
        self._rows = [] if fresh else results.read(self._path, self._made)
        self._saved = len(self._rows)

    def missing(self, trials: int | None, *, quick: bool) -> Iterator[tuple[float, Task]]:
        """The trials that have not been run, each with its place in the order of the run."""
        experiment = self._experiment
        count = trials or (experiment.quick_trials if quick else experiment.trials)
        points = experiment.points(quick=quick)
        there = {self._key(row) for row in self._rows}
        for number in range(count):
            for point in points:
                if self._key({**point, "trial": number}) not in there:
                    yield (number + 0.5) / count, (experiment, point, self._seed, number)

    def _key(self, row: dict[str, Any]) -> tuple[Any, ...]:
        return (row["trial"], *(row[name] for name in self._experiment.grid[0]))

    def add(self, row: dict[str, Any]) -> None:
        self._rows.append(row)

    def save(self) -> None:
        if len(self._rows) > self._saved:
            self._rows.sort(key=lambda row: tuple(map(str, self._key(row))))
            results.write(self._path, self._rows, self._made)
            self._saved = len(self._rows)


def _results(tasks: Sequence[Task], jobs: int, dask: str | None) -> Iterator[tuple[str, dict[str, Any]]]:
    """Rows in the order in which they are done."""
    try:
        import joblib  # noqa: PLC0415
    except ModuleNotFoundError:
        raise MissingExtraError("the lab", "lab") from None
    with _backend(dask) as found:
        parallel = joblib.Parallel(n_jobs=found or jobs, return_as="generator_unordered")
        yield from parallel(joblib.delayed(_row)(*task) for task in tasks)


def _row(experiment: Experiment, point: Point, seed: int, number: int) -> tuple[str, dict[str, Any]]:
    return experiment.name, experiment.measured(point, seed, number)


@contextmanager
def _backend(address: str | None) -> Iterator[int | None]:
    """Joblib's backend, and how many jobs it takes: None says that the caller knows."""
    if address is None:
        yield None
        return
    try:
        distributed: Any = import_module("distributed")
    except ModuleNotFoundError:
        raise ParameterError(
            f"dask={address!r} needs the package distributed; install it with: pip install 'dask[distributed]'"
        ) from None
    import joblib  # noqa: PLC0415

    try:
        client = distributed.Client(address, timeout="10s")
    except (OSError, ValueError):
        raise ParameterError(f"dask={address!r} does not answer; start one with: dask scheduler") from None
    with client, joblib.parallel_config(backend="dask"):
        yield -1
