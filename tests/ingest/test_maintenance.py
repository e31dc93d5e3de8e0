"""Runs on pipes that are quiet, slow, killed or told to end: limits are kept and what has come is in the store."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

from reading import read_streams
from vestige import Mean, MemoryStore, SqliteStore, Stream
from vestige.cli import command
from vestige.errors import StoreError
from vestige.ingest.maintenance import EVERY, Maintenance
from vestige.store import State

PATIENCE = 60.0
"""Seconds after which a test gives up; on an idle machine each wait is over in two or three."""
OFTEN = 0.1
"""Seconds between two rounds, instead of one second, where it does not matter how long they are apart."""
PROGRAM = """
import sys
from vestige.ingest import maintenance
maintenance.EVERY = float(sys.argv.pop(1))
from vestige.__main__ import main
main()
"""


def vestige(*arguments: object, stdin: str | None = None) -> Result:
    return CliRunner().invoke(command, [str(a) for a in arguments], input=stdin, prog_name="vestige")


@contextmanager
def running(store: Path, *options: object, every: float = OFTEN) -> Iterator[subprocess.Popen[bytes]]:
    """A run that waits on a pipe, with so many seconds between two rounds of maintenance."""
    what = ["run", "-", "--column", "v", "--retention", "96", "--seed", "1", "--store", store, *options]
    line = [sys.executable, "-c", PROGRAM, str(every), *map(str, what)]
    with subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        try:
            yield process
        finally:
            process.kill()


def say(process: subprocess.Popen[bytes], text: str) -> None:
    assert process.stdin is not None
    process.stdin.write(text.encode())
    process.stdin.flush()


def state_of(store: Path, name: str = "main") -> State:
    with suppress(StoreError, KeyError):
        return read_streams(store)[name][1]
    return State.empty(1)


def until(condition: Callable[[], bool]) -> float:
    """Wait for it; how many seconds that took."""
    start = time.monotonic()
    while not condition():
        assert time.monotonic() - start < PATIENCE
        time.sleep(0.05)
    return time.monotonic() - start


def test_a_quiet_pipe_keeps_its_limits_and_those_of_the_streams_beside_it(tmp_path: Path) -> None:
    store = tmp_path / "a.db"
    with SqliteStore(store) as opened:
        other = Stream(Mean(), retention=96, max_age=timedelta(hours=1), store=opened.stream("other"))
        other.extend([1.0] * 9, times=[datetime.now(UTC) - timedelta(minutes=59, seconds=59)] * 9)
    with running(store, "--max-age", "2s") as process:
        say(process, "v\n" + "".join(f"{i}\n" for i in range(50)))
        until(lambda: state_of(store).clock.t == 50)
        arrived = state_of(store).retained.times.max()
        until(lambda: len(state_of(store).retained) == 0)
        late = datetime.now(UTC).replace(tzinfo=None) - arrived.astype(datetime) - timedelta(seconds=2)
        assert late < timedelta(seconds=5), "about a tenth of a second on an idle machine"
        until(lambda: len(state_of(store, "other").retained) == 0)
        assert process.poll() is None, "it waits on"
        say(process, "7\n8\n")
        until(lambda: state_of(store).clock.t == 52)
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == 128 + signal.SIGTERM
    assert b"Stopped by SIGTERM: 52 records were taken and kept in the store." in errors
    assert b"Traceback" not in errors


def test_a_kill_loses_at_most_what_came_in_the_last_second(tmp_path: Path) -> None:
    """And rows are stamped when they come, not when their block is full or done with."""
    store, sent = tmp_path / "a.db", []
    with running(store, "--max-age", "1h", every=EVERY) as process:
        say(process, "v\n1\n")
        until(lambda: state_of(store).clock.t == 1)
        for i in range(30):
            say(process, f"{i}\n")
            sent.append(time.monotonic())
            time.sleep(0.1)
        process.kill()
        end = time.monotonic()
    state = state_of(store)
    assert EVERY == 1.0
    surely = 1 + sum(moment < end - 2.5 for moment in sent)  # a second, and the time that a commit takes under load
    assert 1 < surely <= state.clock.t <= 31
    times = state.retained.times.astype(datetime)
    assert times[-1] - times[1] >= timedelta(seconds=0.1 * (surely - 2) - 1.0)


def test_requests_reach_a_run_that_waits_and_an_interrupt_flushes(tmp_path: Path) -> None:
    store = tmp_path / "a.db"
    with running(store, "--by", "k", "--subject", "who") as process:
        say(process, "v,k,who\n" + "".join(f"{i},{i % 2},p{i}\n" for i in range(10)))
        until(lambda: state_of(store, "1").clock.t == 5)
        made = vestige("forget", store, "--subject", "p3", "--now", "--json")
        assert made.exit_code == 0, made.output
        until(lambda: len(state_of(store, "1").retained) == 4)
        say(process, "10,0,p10\n")
        until(lambda: state_of(store, "0").clock.t == 6)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == 128 + signal.SIGINT
    assert b"11 records were taken" in errors


@pytest.mark.slow
@pytest.mark.parametrize("by", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_a_stream_that_is_removed_under_a_run_is_neither_trouble_nor_listed(tmp_path: Path, by: bool) -> None:
    store = tmp_path / "a.db"
    with running(store, "--max-age", "30d", *(("--by", "k") if by else ())) as process:
        say(process, "k,v\n" + "a,1\nb,2\n" * 3)
        name = "b" if by else "main"
        until(lambda: state_of(store, name).clock.t > 0)
        removed = vestige("remove", store, "--stream", name)
        assert removed.exit_code == 0, removed.output
        time.sleep(5 * OFTEN)  # a few looks after it
        shown, errors = process.communicate(timeout=PATIENCE)
    assert b"Trouble" not in errors
    assert process.returncode == (0 if by else 2)
    if by:
        assert "All-time mean by k: 1 stream, 3 records" in shown.decode()
        assert "Removed: another process removed 1 stream meanwhile." in shown.decode()
    else:
        assert b"the records that were taken from it were removed meanwhile" in errors
    assert set(read_streams(store)) == ({"a"} if by else set())


@pytest.mark.parametrize(("age", "waiting", "left"), [(0.0, True, 0), (0.0, False, 5), (1e8, True, 5)])
def test_whose_clock_counts(age: float, waiting: bool, left: int) -> None:
    """That of the machine for rows that are new when they come, their own for history, and none while rows come."""
    now = datetime.now(UTC).replace(tzinfo=None) - timedelta(seconds=age)
    stream = Stream(Mean(), retention=96, max_age=timedelta(seconds=0.3))
    stream.extend(np.ones(5), times=[now] * 5)
    maintenance = Maintenance(None, timedelta(seconds=0.3), pytest.fail)
    maintenance.note_rows("main", stream, np.array([now] * 5, "datetime64[us]"), datetime.now(UTC), 0)
    time.sleep(0.4)
    maintenance.run_due([("main", stream)], is_waiting=waiting)
    assert len(stream.retained) == left


AGE = timedelta(seconds=6)


def give(maintenance: Maintenance, stream: Stream, name: str, times: list[datetime], arrived: datetime) -> None:
    """Let a stream take rows that came at this moment."""
    before = stream.t
    stream.extend(np.ones(len(times)), times=times)
    maintenance.note_rows(
        name, stream, np.array([t.replace(tzinfo=None) for t in times], "datetime64[us]"), arrived, before
    )


def test_each_stream_has_its_own_clock() -> None:
    """An old row is history in its own stream alone: all others keep their deadlines."""
    store, now = MemoryStore(), datetime.now(UTC)
    made = {name: Stream(Mean(), retention=96, max_age=AGE, store=store.stream(name)) for name in "abc"}
    maintenance = Maintenance(store, AGE, pytest.fail)
    made["c"].extend(np.ones(3), times=[now - 2 * AGE] * 3)
    give(maintenance, made["a"], "a", [now - 2 * AGE] * 10, now - 2 * AGE)
    give(maintenance, made["b"], "b", [now - timedelta(hours=1)], now)
    maintenance.run_due([(name, made[name]) for name in "ab"], is_waiting=True)
    assert {name: len(stream.retained) for name, stream in made.items()} == {"a": 0, "b": 1, "c": 0}


def test_records_that_came_in_time_keep_their_deadline_whatever_comes_after_them() -> None:
    now = datetime.now(UTC)
    maintenance = Maintenance(None, AGE, pytest.fail)
    stream = Stream(Mean(), retention=96, max_age=AGE)
    give(maintenance, stream, "main", [now - 2 * AGE], now - 2 * AGE)
    give(maintenance, stream, "main", [now - 1.5 * AGE], now)
    maintenance.run_due([("main", stream)], is_waiting=True)
    assert len(stream.retained) == 0
    give(maintenance, stream, "main", [now - 1.5 * AGE], now)
    maintenance._next_round = 0.0
    maintenance.run_due([("main", stream)], is_waiting=True)
    assert len(stream.retained) == 1, "with nothing before it, it is history"


@pytest.mark.parametrize("age", [0.0, 0.5, 1.5, 100.0])
def test_records_of_an_earlier_run_go_by_the_machines_clock(age: float) -> None:
    """Whether they came in time cannot be told, however old they are when a run begins with rows that are too old."""
    now, store = datetime.now(UTC), MemoryStore()
    earlier = Stream(Mean(), retention=96, max_age=AGE, store=store.stream("a"))
    earlier.extend(np.ones(10), times=[now - AGE - age * AGE] * 10)
    store.flush()
    store.release()
    again = Stream(Mean(), retention=96, max_age=AGE, store=store.stream("a"))
    maintenance = Maintenance(store, AGE, pytest.fail)
    give(maintenance, again, "a", [now - AGE] * 3, now)
    maintenance.run_due([("a", again)], is_waiting=True)
    assert not (again.retained.rounds <= 10).any()


@pytest.mark.parametrize("younger", [0, 1])
def test_a_row_is_history_from_the_very_moment_that_it_is_too_old(younger: int) -> None:
    now = datetime.now(UTC)
    stream, maintenance = Stream(Mean(), retention=96, max_age=AGE), Maintenance(None, AGE, pytest.fail)
    give(maintenance, stream, "main", [now - AGE + timedelta(microseconds=younger)], now)
    time.sleep(1e-5)
    maintenance.run_due([("main", stream)], is_waiting=True)
    assert len(stream.retained) == 1 - younger


@pytest.mark.slow
def test_an_old_row_on_a_pipe_stops_no_deadline_but_its_own(tmp_path: Path) -> None:
    store = tmp_path / "a.db"
    with SqliteStore(store) as opened:
        other = Stream(Mean(), retention=96, max_age=timedelta(hours=1), store=opened.stream("other"))
        other.extend([1.0] * 3, times=[datetime.now(UTC) - timedelta(minutes=59, seconds=59)] * 3)
    with running(store, "--max-age", "2s", "--time", "at", "--by", "k") as process:
        say(process, "v,k,at\n1,first,2024-05-31\n")
        until(lambda: state_of(store, "first").clock.t == 1)
        now = time.time()
        say(process, f"1,A,{now:.3f}\n" * 10 + f"1,B,{now - 3_600:.3f}\n")
        until(lambda: state_of(store, "B").clock.t == 1)
        until(lambda: state_of(store, "A").clock.t == 10 and not len(state_of(store, "A").retained))
        until(lambda: not len(state_of(store, "other").retained))
        assert len(state_of(store, "B").retained) == 1, "history goes by its own times"


def rows(*times: float) -> str:
    return "at,v\n" + "".join(f"{t:.0f},{i}\n" for i, t in enumerate(times))


def test_a_record_from_the_future_is_refused_with_its_row_and_nothing_is_erased(tmp_path: Path) -> None:
    store, path, now = tmp_path / "a.db", tmp_path / "a.csv", time.time()
    what = ("run", path, "--column", "v", "--retention", 96, "--max-age", "30d", "--time", "at", "--store", store)
    path.write_text(rows(*(now - 100 + i for i in range(50))))
    assert vestige(*what).exit_code == 0
    before = read_streams(store)
    path.write_text(rows(*(now - 100 + i for i in range(50)), now, now + 2 * 86_400))
    result = vestige(*what)
    assert result.exit_code == 2
    assert "the time of row 52 lies more than --max-ahead 1 day ahead of the machine's clock" in result.stderr
    assert "nothing was taken" in result.stderr
    assert read_streams(store) == before
    result = vestige(*what, "--max-ahead", "3d", "--json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["t"] == 52


def test_late_rows_within_the_allowance_are_taken_and_later_ones_counted(tmp_path: Path) -> None:
    store, path, day = tmp_path / "a.db", tmp_path / "a.csv", 86_400
    start = 1_700_000_000
    times = [start, start + 3 * day, start + 2 * day, start + day / 2, start + 3.5 * day, start + day]
    path.write_text(rows(*times))
    what = ("run", path, "--column", "v", "--retention", 96, "--max-age", "30d", "--time", "at", "--store", store)
    assert "the time of row 3 lies before" in vestige(*what).stderr
    result = vestige(*what, "--lateness", "2d")
    assert result.exit_code == 0, result.output
    assert "Late: 2 rows came more than 2 days late and were not taken" in result.stdout
    assert np.sort(state_of(store).retained.values[:, 0]).tolist() == [0.0, 1.0, 2.0, 4.0]
    again = json.loads(vestige(*what, "--lateness", "2d", "--json").stdout)
    assert (again["taken"], again["t"]) == (0, 4)
    other = json.loads(vestige(*what[:-1], tmp_path / "b.db", "--lateness", "2d", "--json").stdout)
    assert (other["late"], other["taken"]) == (2, 4)
    strict = vestige(*what[:-1], tmp_path / "c.db", "--lateness", "2d", "--strict")
    assert (strict.exit_code, "2 rows came too late and will not be taken" in strict.stderr) == (1, True)
    assert "--lateness" in vestige("run", path, "--column", "v", "--retention", 96, "--lateness", "2d").stderr
