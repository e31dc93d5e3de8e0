"""Trials run in as many processes as are worthwhile, with the same result in any number of them.

The processes are joblib's (loky): they do not import the caller's main module again, so a plain script, a notebook and
a program on standard input can audit a policy that they define themselves. Without joblib, one process runs all trials.
Guarantee: the same result in any number of processes, started from anywhere; held by tests/audit/test_workers.py.
"""

from __future__ import annotations

import functools
import importlib
import logging
import pickle
from collections.abc import Iterator
from types import ModuleType

from vestige.audit.game import Game, Observations, play_trials
from vestige.errors import MissingExtraError, ParameterError
from vestige.types import Floats
from vestige.validation import check_int

Task = tuple[int, range, Floats]
"""The group that it belongs to, the numbers of its trials, and the value of the record in each of them, or in all."""
_TRIALS_PER_PROCESS = 500
"""Number of trials that take about as long as a process takes to start."""


def play_tasks(game: Game, tasks: list[Task], workers: int | None) -> Iterator[tuple[int, range, Observations]]:
    """Run the trials of several tasks.

    Args:
        game: what to play.
        tasks: trials to run.
        workers: number of processes; None for one for each core, or fewer if there are few trials.

    Yields:
        The group, the trial numbers and the observations of each task, in the order in which they finish.

    Raises:
        ParameterError: if the policy or the data cannot be sent to another process.
        MissingExtraError: if several processes are requested and joblib is not installed.

    Example:
        >>> import numpy as np
        >>> from vestige import Window
        >>> game = Game(Window(), 8, 1, (16,), None, lambda rng, n: rng.normal(size=(n, 1)), seed=0)
        >>> [(group, len(seen)) for group, _, seen in play_tasks(game, [(0, range(3), np.zeros((1, 1)))], workers=1)]
        [(0, 3)]
    """
    processes = _count_processes(tasks, workers)
    if processes == 1:
        for task in tasks:
            yield _play_task(game, *task)
        return
    joblib = importlib.import_module("joblib")
    _play_task(game, 0, range(1), tasks[0][2][:1])  # compiles the kernels here once, not in every process
    # max_nbytes: otherwise joblib writes large arrays, which are records, to temporary files
    parallel = joblib.Parallel(processes, backend="loky", max_nbytes=None, return_as="generator_unordered")
    try:
        yield from parallel(joblib.delayed(_play_task)(game, *task) for task in tasks)
    except pickle.PicklingError:
        raise ParameterError("policy or data cannot be sent to other processes; pass workers=1") from None


def _count_processes(tasks: list[Task], workers: int | None) -> int:
    if workers is not None:
        requested = min(len(tasks), check_int("workers", workers, 1))
        if requested > 1 and _find_joblib() is None:
            raise MissingExtraError(f"workers={workers}", "audit")
        return requested
    useful = min(len(tasks), 1 + sum(len(numbers) for _, numbers, _ in tasks) // _TRIALS_PER_PROCESS)
    if useful == 1:
        return 1
    joblib = _find_joblib()
    if joblib is None:
        _warn_of_one_process()
        return 1
    return min(useful, int(joblib.cpu_count()))


def _find_joblib() -> ModuleType | None:
    try:
        return importlib.import_module("joblib")
    except ModuleNotFoundError:
        return None


@functools.cache
def _warn_of_one_process() -> None:
    logging.getLogger("vestige").warning(
        "vestige: trials run in one process; for one process on each core: pip install 'vestige[audit]'"
    )


def _play_task(game: Game, group: int, numbers: range, values: Floats) -> tuple[int, range, Observations]:
    return group, numbers, play_trials(game, numbers, values)
