"""A statistic and a channel from outside the package: one file each, and nothing inside the package changes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest

from vestige import Bundle, Estimate, Mean, Policy, Private, Stream, Window, open_store, register_policy
from vestige.channels import Channel, Reading, Target, find_channel
from vestige.checks import check_policy
from vestige.cli.reports import make_report
from vestige.errors import ParameterError, StoreError
from vestige.planning import plan, predict
from vestige.policies import POLICIES, STATISTICS, Encoded
from vestige.serialization import from_dict, to_dict
from vestige.statistics import Averages, Statistic
from vestige.statistics import Mean as Means
from vestige.stream import open_stream
from vestige.types import Bools, Floats


@dataclass(frozen=True)
class Digits(Channel):
    """A channel of one's own: binary digits between known limits; the last record of a segment is always kept."""

    name: ClassVar[str] = "digits"
    is_searched: ClassVar[bool] = True
    has_bits: ClassVar[bool] = False

    low: float
    high: float

    def find_min_batch(self, size: int) -> int:
        return 21 * size

    def read_slots(self, values: Floats, present: Bools, statistic: Statistic, first: int) -> Reading:  # noqa: ARG002
        size = statistic.size
        numbers = np.full(size, np.nan)
        for i in range(size):
            mine = present[i::size]
            if mine[-1]:
                weights = 0.5 ** np.arange(1, len(mine))
                numbers[i] = self.low + (self.high - self.low) * float(weights[mine[:-1]].sum())
        return Reading(numbers, np.zeros(size, np.bool_))

    def write(
        self,
        values: Floats,  # noqa: ARG002
        can: Bools,
        target: Target,
        statistic: Statistic,
        first: int,  # noqa: ARG002
        key: np.uint64,  # noqa: ARG002
    ) -> Bools:
        size, keep = statistic.size, np.zeros(len(can), np.bool_)
        for i, number in enumerate(target.numbers):
            mine, share = keep[i::size], (number - self.low) / (self.high - self.low)
            for k in range(min(len(mine) - 1, 50)):
                share *= 2.0
                mine[k] = share >= 1.0
                share -= mine[k]
            mine[-1] = True
        return keep & can

    def can_encode(self, can: Bools, size: int) -> bool:
        return len(can) >= self.find_min_batch(size) and bool(can.all())


@dataclass(frozen=True, slots=True)
class LogMeans(Averages):
    """What a geometric mean tracks: the means of logarithms."""

    dim: int

    @property
    def size(self) -> int:
        return self.dim

    def step(self, estimate: Floats | None, values: Floats, weights: Floats, share: float) -> Floats:
        return Means(self.dim).step(estimate, self.atoms(values), weights, share)

    def atoms(self, values: Floats) -> Floats:
        return np.asarray(np.log(values), np.float64)

    def from_averages(self, averages: Floats, centres: Floats | float = 0.0) -> Floats:  # noqa: ARG002
        return averages


@dataclass(frozen=True, eq=False)
class GeometricEstimate(Estimate):
    """A geometric mean, and its logarithm."""

    log: Floats


@register_policy
@dataclass(frozen=True)
class GeometricMean(Encoded[GeometricEstimate]):
    """A statistic of one's own."""

    dim: int = 1
    half_life: float | None = None

    @property
    def columns(self) -> int:
        return self.dim

    @property
    def statistic(self) -> LogMeans:
        return LogMeans(self.dim)

    def labels(self, columns: Sequence[str]) -> tuple[str, ...]:
        return tuple(f"geometric mean of {column}" for column in columns)

    def draw_rows(self, rng: np.random.Generator, count: int, mean: float) -> Floats:
        return np.asarray(np.exp(super().draw_rows(rng, count, mean)), np.float64)

    def conclude(self, numbers: Floats, worth: float, rounding: float) -> GeometricEstimate:  # noqa: ARG002
        return GeometricEstimate(np.exp(numbers), numbers)


def draw_rows(n: int, seed: int = 0) -> Floats:
    return np.random.default_rng(seed).uniform(1.0, 9.0, (n, 1))


def test_a_channel_of_ones_own_keeps_the_mean() -> None:
    rows, policy = draw_rows(20_000), Mean(channel=Digits(0.0, 10.0))
    stream, pushed = (Stream(policy, retention=128, seed=0) for _ in range(2))
    stream.extend(rows)
    assert stream.estimate().value == pytest.approx(rows.mean(), abs=1e-9)
    assert len(stream.retained) < 128
    pushed.extend(rows[:1_000])
    again = Stream(policy, retention=128, seed=0)
    for row in rows[:1_000]:
        again.push(row)
    assert again.estimate().value == pushed.estimate().value
    assert find_channel(policy.channel) is policy.channel
    check_policy(policy)


def test_a_channel_of_ones_own_lives_in_a_store(tmp_path: Path) -> None:
    address, policy = str(tmp_path / "means.db"), Mean(channel=Digits(0.0, 10.0))
    with open_store(address) as store:
        stream = Stream(policy, retention=128, seed=0, store=store.stream("mean"))
        stream.extend(draw_rows(1_000))
        value = stream.estimate().value
    with open_store(address) as store:
        assert Stream(policy, retention=128, seed=0, store=store.stream("mean")).estimate().value == value
        with pytest.raises(StoreError, match="cannot be made from its stored parameters"):
            open_stream(store, "mean")


def test_a_channel_of_ones_own_is_planned() -> None:
    policy, rows = Mean(channel=Digits(0.0, 10.0)), draw_rows(5_000)
    found = predict(policy, retention=128, records=100_000, sample=rows)
    assert found.error == pytest.approx(1.0 / np.sqrt(100_000), rel=0.01)


def test_a_statistic_of_ones_own_runs() -> None:
    rows = draw_rows(20_000)
    stream = Stream(GeometricMean(), retention=128, seed=0)
    stream.extend(rows)
    estimate = stream.estimate()
    assert estimate.log[0] == pytest.approx(np.log(rows).mean(), abs=1e-6)
    assert (estimate.t, estimate.counted, estimate.since) == (20_000, 20_000, 1)
    assert make_report(stream.policy, estimate, ("spent",)).rows[0][0] == "geometric mean of spent"
    window = Stream(Window(GeometricMean()), retention=128)
    window.extend(rows)
    assert window.estimate().log[0] == pytest.approx(np.log(rows[-128:]).mean())
    assert Private(GeometricMean(), bound=3.0, epsilon=1.0, delta=1e-6).labels(("a",)) == ("geometric mean of a",)


@pytest.mark.parametrize("kind", ["plain", "alike", "with gaps", "with batches of gaps"])
def test_a_statistic_of_ones_own_is_not_said_to_be_off(kind: str) -> None:
    rows = np.full((20_000, 1), 3.0) if kind == "alike" else draw_rows(20_000)
    if kind == "with gaps":
        rows[np.random.default_rng(1).random(len(rows)) < 0.2] = np.nan
    elif kind == "with batches of gaps":
        rows[np.arange(len(rows)) // 1_500 % 2 == 1] = np.nan
    policy = GeometricMean() if kind in ("plain", "alike") else Bundle({"a": GeometricMean()})
    stream: Stream = Stream(policy, retention=512, seed=0)
    stream.extend(rows)
    made = stream.estimate()
    found = made if isinstance(made, GeometricEstimate) else made["a:geometricmean"]  # type: ignore[index]
    assert (made.notes, found.notes, found.missed) == ((), (), False)
    logs = np.log(rows[~np.isnan(rows)])
    assert found.log[0] == pytest.approx(logs.mean(), abs=1e-9)
    assert found.counted == len(logs)


def test_a_statistic_of_ones_own_is_reopened_by_its_name(tmp_path: Path) -> None:
    address = str(tmp_path / "spent.db")
    with open_store(address) as store:
        stream = Stream(GeometricMean(), retention=128, seed=0, store=store.stream("spent"))
        stream.extend(draw_rows(1_000))
        value = stream.estimate().value
    with open_store(address) as store:
        reopened = open_stream(store, "spent")
        assert reopened.policy == GeometricMean()
        assert reopened.estimate().value == value


def test_a_statistic_of_ones_own_is_planned() -> None:
    found = plan(GeometricMean(), error=0.05, sample=draw_rows(2_000))
    row = found.row("GeometricMean")
    assert row.retention is not None
    stream = Stream(GeometricMean(), retention=row.retention, seed=0)
    rows = draw_rows(found.records)
    stream.extend(rows)
    spread = rows.std() / np.exp(np.log(rows).mean())
    assert abs(stream.estimate().log[0] - np.log(draw_rows(10**6, 1)).mean()) < 4 * 0.05 * spread


@pytest.mark.parametrize("name", STATISTICS)
def test_every_statistic_says_all_that_is_drawn_from_it(name: str) -> None:
    """What serialization, the command, plans and labels need is in the one table."""
    kind = STATISTICS[name]
    targets = max(kind.min_targets, 0)
    options = ("0", "1") if kind.takes_edges else ("a", "b") if name == "shares" else ()
    policy = (
        kind.from_options(options, 1, None) if options else kind.from_columns(kind.min_columns, targets, "auto", None)
    )
    assert POLICIES[f"vestige.{kind.__name__}"] is kind
    assert from_dict(to_dict(policy)) == policy
    rows = policy.draw_rows(np.random.default_rng(0), 4_000, 1.0)
    stream = Stream(policy, retention=policy.default_retention, seed=0)
    stream.extend(rows)
    columns = tuple(f"c{i}" for i in range(policy.columns))
    assert len(policy.labels(columns)) in (0, np.size(stream.estimate().value))
    report = policy.report(stream.estimate(), columns)
    assert report.rows
    assert all(len(row) == len(report.header) for row in report.rows)
    facts = json.loads(json.dumps(stream.estimate().to_dict(), allow_nan=False))
    shown = [field.name for field in fields(stream.estimate()) if field.name not in ("policy", "basis")]
    assert list(facts) == shown
    assert not any(isinstance(value, dict) for value in facts.values())
    written = json.loads(json.dumps(stream.estimate().to_rows(), allow_nan=False))
    assert len({row["metric"] for row in written}) == len(written) >= np.size(stream.estimate().value)


def test_only_dataclasses_under_a_free_name_are_registered() -> None:
    with pytest.raises(ParameterError, match=r"is not a dataclass derived from vestige\.Policy"):
        register_policy(Policy)
    with pytest.raises(ParameterError, match=r"belongs to another policy"):
        register_policy(GeometricMean, name="vestige.Mean")
