"""When a run writes, and what it does when another process is in its way."""

from __future__ import annotations

import time

import pytest

from vestige.errors import StoreBusyError
from vestige.ingest.commits import ATTEMPTS, Commits, retry


class Clock:
    """A clock that stands still unless something takes time."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        monkeypatch.setattr(time, "monotonic", lambda: self.now)


@pytest.mark.parametrize("seconds", [0.0, 0.1, 2.0, 30.0])
def test_at_most_a_third_of_the_time_goes_into_commits(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    clock, writes = Clock(monkeypatch), []

    def write() -> None:
        writes.append(clock.now)
        clock.now += seconds

    commits = Commits(write, pytest.fail)
    while clock.now < 1_000.0:
        clock.now += 0.05
        commits.commit_due()
    assert len(writes) * seconds <= 1_000.0 / 3 + seconds
    assert len(writes) >= 1_000.0 / max(1.1, 3 * seconds + 0.1) - 1, "and no less often than that allows"


def test_a_commit_that_is_blocked_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    Clock(monkeypatch)
    tries, said = [], list[str]()

    def write() -> None:
        tries.append(1)
        if len(tries) < 3:
            raise StoreBusyError("somebody reads")

    Commits(write, said.append).commit()
    assert (len(tries), len(said)) == (3, 2)
    assert said[0] == f"Overdue: somebody reads (attempt 1 of {ATTEMPTS})"


def test_a_store_that_stays_busy_is_an_error() -> None:
    def write() -> None:
        raise StoreBusyError("somebody reads")

    with pytest.raises(StoreBusyError):
        retry(write, lambda _: None)
