"""Tasks in threads, and a single one in the thread that asks, since handing it over takes longer than it does.

Guarantee: the results are those of a loop, in the same order; held by tests/keyed/test_workers.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from typing import TypeVar

_Task = TypeVar("_Task")
_Result = TypeVar("_Result")


def run_tasks(workers: Executor, work: Callable[[_Task], _Result], tasks: Sequence[_Task]) -> list[_Result]:
    """Run tasks.

    Args:
        workers: the threads.
        work: what to do with each.
        tasks: the tasks.

    Returns:
        Their results, in order.

    Example:
        >>> from concurrent.futures import ThreadPoolExecutor
        >>> run_tasks(ThreadPoolExecutor(2), abs, [-1, 2, -3])
        [1, 2, 3]
    """
    return [work(task) for task in tasks] if len(tasks) < 2 else list(workers.map(work, tasks))
