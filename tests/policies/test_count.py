"""The count is exact: through requests, deadlines, restarts and batches of any size, and although nothing is kept."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from vestige import Batched, Clock, Count, Mean, Stream, Window, open_store
from vestige.cli import command
from vestige.errors import ParameterError
from vestige.planning import plan
from vestige.records import Records
from vestige.stream import open_stream

START = np.datetime64("2024-01-01T00:00:00", "us")


def test_every_prefix_is_counted_and_nothing_is_kept() -> None:
    stream = Stream(Count(), retention=8)
    assert stream.estimate().value == 0.0
    for t in range(1, 30):
        stream.push(float(t))
        estimate = stream.estimate()
        assert (estimate.value, estimate.counted, estimate.t, estimate.since) == (t, t, t, 1)
        assert estimate.held == t % 4, "those that wait for an update"
        assert estimate.standard_error == 0.0
        assert estimate.notes == ()
        assert not estimate.missed


def test_many_records_at_once_and_in_batches() -> None:
    stream, batched = Stream(Count(2), retention=100), Batched(Count(2), batch=50)
    stream.extend(np.zeros((12_345, 2)))
    batched.extend(np.zeros((12_350, 2)))
    assert (stream.estimate().value, batched.estimate().value) == (12_345.0, 12_350.0)


@pytest.mark.parametrize("share", [0.1, 0.6, 1.0])
def test_requests_do_not_change_what_was_counted(share: float) -> None:
    rng, stream = np.random.default_rng(0), Stream(Count(), retention=64)
    for _ in range(200):
        stream.extend(rng.normal(size=7))
        asked = np.flatnonzero(rng.random(stream.t) < share) + 1
        stream.forget(rounds=asked)
    assert stream.estimate().value == stream.counted == 1_400.0
    stream.push(0.0)
    stream.forget(rounds=np.arange(1, stream.t), now=True)
    assert (stream.estimate().value, stream.estimate().held) == (1_401.0, 0), "the batch was closed for that"


def test_a_record_that_is_erased_before_an_update_counts_in_no_statistic() -> None:
    for policy in (Count(), Mean()):
        stream = Stream(policy, retention=96)
        stream.push(1.0)
        stream.forget(rounds=[1], now=True)
        stream.extend(np.arange(200.0))
        assert (stream.t, stream.counted) == (201, 200)
    assert (
        Stream(Count(), retention=2, retained=Records.empty(1), clock=Clock(9, 10, 9, gaps=2)).estimate().value == 7.0
    )


@pytest.mark.parametrize("gap", [1, 10, 100])
def test_deadlines_close_batches_early_and_quiet_times_lose_nothing(gap: int) -> None:
    """A batch of 128 takes longer than records may be held; the count goes on, also after a year without records."""
    stream = Stream(Count(), retention=256, max_age=timedelta(hours=24))
    times = START + np.arange(3_000) * np.timedelta64(gap, "m")
    stream.extend(np.zeros(3_000), times=times)
    assert stream.estimate().value == 3_000.0
    for hour in range(1, 24):
        stream.sweep(times[-1] + np.timedelta64(hour, "h"))
    stream.sweep(times[-1] + np.timedelta64(365, "D"))
    estimate = stream.estimate()
    assert (estimate.value, estimate.held, estimate.since) == (3_000.0, 0, 1)


def test_it_restarts_from_the_clock_alone(tmp_path: Path) -> None:
    stream = Stream(Count(), retention=20)
    stream.extend(np.zeros(1_000))
    assert len(stream.retained) == 0
    again = Stream(Count(), retention=20, retained=Records.empty(1), clock=stream.clock)
    again.extend(np.zeros(7))
    assert again.estimate().value == 1_007.0
    address = str(tmp_path / "visits.db")
    with open_store(address) as store:
        Stream(Count(), retention=20, store=store.stream("visits")).extend(np.zeros(1_003))
    with open_store(address) as store:
        reopened = open_stream(store, "visits")
        assert reopened.estimate().value == 1_003.0
        reopened.extend(np.zeros(5))
        assert reopened.estimate().value == 1_008.0


def test_the_command_counts_and_plans(tmp_path: Path) -> None:
    table = tmp_path / "visits.csv"
    table.write_text("spent,country\n" + "".join(f"{i},{'de' if i % 3 else 'fr'}\n" for i in range(3_000)) + ",de\n")
    arguments = ["run", str(table), "--column", "spent", "--statistic", "count", "--retention", "64"]
    result = CliRunner().invoke(command, [*arguments, "--json"])
    assert result.exit_code == 0, result.output
    facts = json.loads(result.stdout)
    assert (facts["value"], facts["counted"], facts["held"], facts["skipped"], facts["channel"]) == (
        3_000,
        3_000,
        24,
        1,
        None,
    )
    shown = CliRunner().invoke(command, [*arguments, "--by", "country"])
    assert "2,000" in shown.stdout
    refused = CliRunner().invoke(command, [*arguments, "--half-life", "9"])
    assert "half_life=9.0 is not for --statistic count" in refused.stderr
    planned = CliRunner().invoke(command, ["plan", "--statistic", "count", "--records", "1000"])
    assert "Count requires a retention of 2 records." in " ".join(planned.stdout.split())
    row = plan(Count(), records=1_000).rows[0]
    assert (row.retention, row.error) == (2, 0.0)


def test_bad_input() -> None:
    with pytest.raises(ParameterError, match="columns=0 is out of range"):
        Count(0)
    with pytest.raises(ParameterError, match="is not a policy that a window can answer for"):
        Window(Count())  # type: ignore[arg-type]
