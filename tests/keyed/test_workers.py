"""Tasks come back in order, and one alone stays in its thread."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from vestige.keyed.workers import run_tasks


@pytest.mark.parametrize("count", [0, 1, 2, 50])
def test_results_are_those_of_a_loop(count: int) -> None:
    with ThreadPoolExecutor(4) as workers:
        assert run_tasks(workers, lambda task: -task, range(count)) == [-task for task in range(count)]


def test_a_single_task_stays_in_its_thread() -> None:
    with ThreadPoolExecutor(4) as workers:
        assert run_tasks(workers, lambda _: threading.get_ident(), [0]) == [threading.get_ident()]
        assert threading.get_ident() not in run_tasks(workers, lambda _: threading.get_ident(), [0, 1])
