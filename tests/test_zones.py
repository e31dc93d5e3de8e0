"""A time means the same moment in every command and call, whatever zone it is written in."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import click
import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from reading import read_streams
from vestige import Mean, SqliteStore, Stream
from vestige.cli import command
from vestige.cli.group import parse_time
from vestige.store import open_reader
from vestige.stream import copy_stream

START = datetime(2024, 3, 1, tzinfo=UTC)
TIMES = [START + timedelta(hours=i) for i in range(100)]
MAX_AGE = timedelta(days=10)

zones = st.integers(-14 * 60, 14 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes)))
moments = st.integers(100 * 60, 400 * 60).map(lambda minutes: START + timedelta(minutes=minutes))


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("zones") / "a.db"
    with SqliteStore(path) as store:
        stream = Stream(Mean(), retention=96, max_age=MAX_AGE, seed=0, store=store.stream("aged"))
        stream.extend(np.arange(100.0), times=TIMES)
        stream.forget(rounds=90)
    return path


@settings(max_examples=60, deadline=None)
@given(zones, moments)
def test_a_moment_is_the_same_in_every_zone(path: Path, zone: timezone, now: datetime) -> None:
    there, bare = now.astimezone(zone), now.replace(tzinfo=None)
    assert parse_time(there.isoformat()) == parse_time(now.isoformat()) == parse_time(bare.isoformat()) == now
    reader = open_reader(path)
    assert reader.verify(at=there) == reader.verify(at=now) == reader.verify(at=bare)
    kept = [copy_stream(*read_streams(path)["aged"]) for _ in range(3)]
    assert len({copy.sweep(at) for copy, at in zip(kept, (there, now, bare), strict=True)}) == 1


def test_verify_and_sweep_take_the_zone(path: Path) -> None:
    """A minute after the oldest record is due, said in two zones."""
    oldest = read_streams(path)["aged"][1].retained.times[0].astype(datetime).replace(tzinfo=UTC)
    now = oldest + MAX_AGE + timedelta(minutes=1)
    west = now.astimezone(timezone(timedelta(hours=-7)))
    said = [CliRunner().invoke(command, ["verify", str(path), "--at", at.isoformat()]) for at in (now, west)]
    assert [result.exit_code for result in said] == [1, 1]
    assert said[0].stdout == said[1].stdout
    assert "overdue" in said[0].stdout


@pytest.mark.parametrize("text", ["0001-01-01T00:00+14:00", "9999-12-31T23:59-14:00", "noon", ""])
def test_a_time_that_has_no_moment_in_utc_is_refused(text: str) -> None:
    with pytest.raises(click.BadParameter, match="is not a time; write it as"):
        parse_time(text)
