"""Trials run wherever joblib sends them, and a run that was stopped continues where it was.

The same tasks go to this process, to the cores of this machine (loky) or to a Dask cluster (joblib's own backend).
Guarantee: results do not depend on where trials run; held by tests/lab/test_runner.py.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
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
    """Progress of a run.

    Attributes:
        done: number of trials that are done.
        total: number of trials of this run; those of earlier runs are not counted.
        left: estimated seconds until the end.
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
    """Run the missing trials of experiments, and save the results every few seconds.

    Args:
        experiments: experiments to run.
        folder: folder of the results, one file per experiment.
        seed: seed of all random numbers.
        trials: number of trials at each point; default: what each experiment declares.
        jobs: number of processes; -1 for one per core.
        quick: whether to run only the quick points, with few trials.
        fresh: whether to discard earlier results.
        dask: address of a Dask scheduler to run on instead of this machine.
        progress: is called after each trial.

    Raises:
        CheckError: a policy from elsewhere failed; the trials before that are saved.
        MissingExtraError: joblib or pyarrow is not installed.
        ParameterError: the seed or the number of trials is out of range, or the scheduler does not answer.
        StoreError: the folder has results of another seed, version or experiment.

    Example:
        >>> import tempfile
        >>> from vestige.lab import EXPERIMENTS
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     run([EXPERIMENTS["descent"]], Path(folder), trials=2, quick=True)
        ...     len(results.read_rows(Path(folder) / "descent.parquet"))
        24
    """
    check_int("seed", seed, 0)
    if trials is not None:
        check_int("trials", trials, 2)
    files = {experiment.file_name: _ResultsFile(experiment, folder, seed, fresh=fresh) for experiment in experiments}
    tasks = [task for file in files.values() for task in file.list_missing(trials, quick=quick)]
    tasks.sort(key=lambda task: task[0])  # interleaved, so that the rest takes as long as what is done
    try:
        _run_tasks([task for _, task in tasks], files, jobs, dask, progress)
    finally:
        for file in files.values():
            file.save()


def _run_tasks(
    tasks: Sequence[Task],
    files: dict[str, _ResultsFile],
    jobs: int,
    dask: str | None,
    progress: Callable[[Progress], None],
) -> None:
    started = saved = time.monotonic()
    for done, (name, row) in enumerate(_run_parallel(tasks, jobs, dask), 1):
        files[name].add(row)
        now = time.monotonic()
        progress(Progress(done, len(tasks), (now - started) / done * (len(tasks) - done)))
        if now - saved > _SAVE_EVERY:
            for file in files.values():
                file.save()
            saved = now


class _ResultsFile:
    """The rows of one experiment, and the file that they are saved in."""

    def __init__(self, experiment: Experiment, folder: Path, seed: int, *, fresh: bool) -> None:
        self._experiment, self._seed = experiment, seed
        self._path = folder / experiment.file_name
        self._metadata = results.make_metadata(experiment.digest, seed, experiment.submission)
        self._rows = [] if fresh else results.read_rows(self._path, self._metadata)
        self._saved = len(self._rows)

    def list_missing(self, trials: int | None, *, quick: bool) -> Iterator[tuple[float, Task]]:
        """The trials that have not been run, each with its place in the order of the run."""
        experiment = self._experiment
        count = trials or (experiment.quick_trials if quick else experiment.trials)
        points = experiment.points(quick=quick)
        present = {self._find_key(row) for row in self._rows}
        for number in range(count):
            for point in points:
                if self._find_key({**point, "trial": number}) not in present:
                    yield (number + 0.5) / count, (experiment, point, self._seed, number)

    def _find_key(self, row: dict[str, Any]) -> tuple[Any, ...]:
        return (row["trial"], *(row[name] for name in self._experiment.grid[0]))

    def add(self, row: dict[str, Any]) -> None:
        self._rows.append(row)

    def save(self) -> None:
        if len(self._rows) > self._saved:
            self._rows.sort(key=lambda row: tuple(map(str, self._find_key(row))))
            results.write_rows(self._path, self._rows, self._metadata)
            self._saved = len(self._rows)


def _run_parallel(tasks: Sequence[Task], jobs: int, dask: str | None) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield rows in the order in which they are done."""
    try:
        import joblib  # noqa: PLC0415
    except ModuleNotFoundError:
        raise MissingExtraError("the lab", "lab") from None
    files = {task[0].submission.origin.path for task in tasks if task[0].submission is not None}
    with _open_backend(dask, filter(None, files)) as backend_jobs:
        parallel = joblib.Parallel(n_jobs=backend_jobs or jobs, return_as="generator_unordered")
        yield from parallel(joblib.delayed(_run_task)(*task) for task in tasks)


def _run_task(experiment: Experiment, point: Point, seed: int, number: int) -> tuple[str, dict[str, Any]]:
    return experiment.file_name, experiment.measure(point, seed, number)


@contextmanager
def _open_backend(address: str | None, files: Iterable[str]) -> Iterator[int | None]:
    """Set joblib's backend, send it the files of submitted policies, and yield its number of jobs; None: any."""
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
        raise ParameterError(f"dask={address!r} does not answer; start a scheduler with: dask scheduler") from None
    with client, joblib.parallel_config(backend="dask"):
        for file in files:
            client.upload_file(file)
        yield -1
