"""Trials are played in as many processes as are worth it, and it makes no difference to what is seen.

The processes are joblib's (loky): they do not import the caller's main module again, so that a plain script, a notebook
and a program on standard input can audit a policy that they define themselves. Without joblib one process plays.
Guarantee: the same result in any number of processes, started from anywhere; held by tests/audit/test_workers.py.
"""

from __future__ import annotations

import functools
import importlib
import logging
import pickle
from collections.abc import Iterator
from types import ModuleType

from vestige.audit.game import Game, Seen, play
from vestige.errors import MissingExtraError, ParameterError
from vestige.types import Floats
from vestige.validation import check_int

Task = tuple[int, range, Floats]
"""Which run it belongs to, the numbers of its trials, and the value of the record in each, or in all."""
_WORTH = 500
"""So many trials take about as long as a process takes to start."""


def play_tasks(game: Game, tasks: list[Task], workers: int | None) -> Iterator[tuple[int, range, Seen]]:
    """Each task with what was seen, in the order in which they are done.

    Args:
        game: what is played.
        tasks: trials to play.
        workers: processes; None for one for each core, or fewer where trials are few.

    Raises:
        ParameterError: where the policy or the data cannot be sent to another process.
        MissingExtraError: where several processes are asked for, and joblib is not installed.
    """
    processes = _count_processes(tasks, workers)
    if processes == 1:
        for task in tasks:
            yield _play(game, *task)
        return
    joblib = importlib.import_module("joblib")
    _play(game, 0, range(1), tasks[0][2][:1])  # kernels are compiled here once, and not in every process
    # max_nbytes: else joblib writes large arrays, which are records, to temporary files
    parallel = joblib.Parallel(processes, backend="loky", max_nbytes=None, return_as="generator_unordered")
    try:
        yield from parallel(joblib.delayed(_play)(game, *task) for task in tasks)
    except pickle.PicklingError:
        raise ParameterError("policy or data cannot be sent to other processes; pass workers=1") from None


def _count_processes(tasks: list[Task], workers: int | None) -> int:
    if workers is not None:
        asked = min(len(tasks), check_int("workers", workers, 1))
        if asked > 1 and _find_joblib() is None:
            raise MissingExtraError(f"workers={workers}", "audit")
        return asked
    worth = min(len(tasks), 1 + sum(len(numbers) for _, numbers, _ in tasks) // _WORTH)
    if worth == 1:
        return 1
    joblib = _find_joblib()
    if joblib is None:
        _say_that_one_process_plays()
        return 1
    return min(worth, int(joblib.cpu_count()))


def _find_joblib() -> ModuleType | None:
    try:
        return importlib.import_module("joblib")
    except ModuleNotFoundError:
        return None


@functools.cache
def _say_that_one_process_plays() -> None:
    logging.getLogger("vestige").warning(
        "vestige: trials are played in one process; for one process on each core: pip install 'vestige[audit]'"
    )


def _play(game: Game, which: int, numbers: range, values: Floats) -> tuple[int, range, Seen]:
    return which, numbers, play(game, numbers, values)
