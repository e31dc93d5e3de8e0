"""Each stream of a shard is as one `Stream`, bit for bit, whatever the batches; what cannot be taken is said."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pytest

from troubled import KeepsHalf
from vestige import Clock, LinearRegression, LogisticRegression, Mean, Policy, Records, Stream, Window
from vestige.spark.definition import Definition
from vestige.spark.shard import Change, Rows, change_shard
from vestige.store.keys import hash_subject
from vestige.store.memory_rows import unpack_rows
from vestige.stream.limits import Limits
from vestige.types import Bools

SECRET = bytes(range(32))
NOW = datetime(2024, 5, 1, tzinfo=UTC)
TICKS = int(NOW.timestamp() * 1e6)
HOUR = 3_600_000_000


def define(policy: Policy[Any] | None = None, **limits: Any) -> Definition:
    policy = Mean() if policy is None else policy
    named = tuple(f"v{i}" for i in range(policy.columns))
    limits = limits or {"retention": 96}
    return Definition(policy, Limits(**limits), 7, "k", named, 1, has_times="max_age" in limits, has_subjects=True)


def read(definition: Definition, packed: bytes | None, key: str) -> Records:
    assert packed is not None
    streams, _ = definition.open(unpack_rows(packed), SECRET)
    return streams.retained(key)


def answers(change: Change) -> dict[str, float]:
    columns = change.answers.columns
    return dict(zip(columns["stream"].tolist(), columns["value"].tolist(), strict=True))


@pytest.mark.parametrize("policy", [Mean(), Mean(dim=2), LinearRegression(dim=2), Window()], ids=str)
@pytest.mark.parametrize("seed", range(3))
def test_streams_are_those_of_one_stream_each(policy: Policy[Any], seed: int) -> None:
    rng = np.random.default_rng(seed)
    definition, n = define(policy, retention=512), 6_000
    keys, values = rng.integers(0, 9, n), rng.uniform(0.0, 8.0, (n, policy.columns))
    packed = None
    for part in np.split(np.arange(n), np.sort(rng.integers(0, n, 12))):
        mixed = rng.permutation(part)
        rows = Rows(keys[mixed], values[mixed], order=[mixed])
        packed = change_shard(definition, packed, rows, now=TICKS, secret=SECRET).packed or packed
    for key in range(9):
        alone = Stream(policy, retention=512, seed=7)
        alone.extend(values[keys == key])
        held = read(definition, packed, str(key))
        assert np.array_equal(held.values, alone.retained.values)
        assert np.array_equal(held.rounds, alone.retained.rounds)


def test_rows_come_in_the_order_of_all_columns() -> None:
    rows = Rows(np.array(["a"] * 4), np.arange(4.0)[:, None], order=[np.array([1, 0, 1, 0]), np.array([2, 9, 1, 8])])
    assert rows.arrange().values[:, 0].tolist() == [3.0, 1.0, 2.0, 0.0]


def test_what_cannot_be_taken_is_counted_and_the_rest_is_taken() -> None:
    keys = np.array(["a", "a", None, "", "b", "a", "c"], object)
    values = np.array([[1.0], [np.nan], [4321.0], [4321.0], [np.inf], [3.0], [2.0]])
    change = change_shard(define(), None, Rows(keys, values), secret=SECRET)
    assert answers(change) == {"a": 2.0, "c": 2.0}
    assert change.refused == {None: 2, "a": 1, "b": 1}
    assert set(change.problems) == set(change.refused)
    assert not any("4321" in text or "inf " in text for text in change.problems.values())


def test_rows_before_later_ones_are_refused_and_said() -> None:
    definition = define(max_age=timedelta(days=1))
    late, early = np.array([TICKS]), np.array([TICKS - HOUR])
    first = change_shard(definition, None, Rows(np.array(["a"]), np.ones((1, 1)), late), now=TICKS, secret=SECRET)
    rows = Rows(np.array(["a", "b"]), np.full((2, 1), 9.0), np.concatenate([early, early]))
    second = change_shard(definition, first.packed, rows, now=TICKS, secret=SECRET)
    assert second.refused == {"a": 1}
    assert "lateness" in second.problems["a"]
    assert answers(second) == {"b": 9.0}
    times = np.array([TICKS - HOUR, TICKS + 1, TICKS + 2])
    third = change_shard(definition, first.packed, Rows(np.array(["a"] * 3), np.ones((3, 1)), times), now=TICKS + HOUR)
    assert (third.refused, third.answers.columns["t"].tolist()) == ({"a": 1}, [3])


def test_a_row_without_a_time_is_refused_where_age_is_limited() -> None:
    rows = Rows(np.array(["a", "a"]), np.array([[1.0], [99.0]]), np.array([TICKS, np.iinfo(np.int64).min]))
    change = change_shard(define(max_age=timedelta(days=1)), None, rows, now=TICKS, secret=SECRET)
    assert (change.refused, answers(change)) == ({"a": 1}, {"a": 1.0})


@pytest.mark.parametrize("known", [True, False])
def test_a_late_row_does_not_take_the_others_of_its_key_with_it(known: bool) -> None:
    definition, one, packed = define(max_age=timedelta(days=1)), np.ones((1, 1)), None
    alone = Stream(Mean(), max_age=timedelta(days=1), seed=7)
    hours, values = [3, 1, 4, 2, 4, 5], np.arange(6.0)
    if known:
        start = Rows(np.array(["a"]), one, np.array([TICKS - 20 * HOUR]))
        packed = change_shard(definition, None, start, now=TICKS, secret=SECRET).packed
        alone.push(1.0, time=np.datetime64(TICKS - 20 * HOUR, "us"))
    times = TICKS + HOUR * (np.array(hours) - 10)
    rows = Rows(np.array(["a"] * 6), values[:, None], times, order=[np.arange(6)])
    change = change_shard(definition, packed, rows, now=TICKS, secret=SECRET)
    alone.extend(values[[0, 2, 4, 5]], times=times[[0, 2, 4, 5]].view("M8[us]"))
    assert change.refused == {"a": 2}
    assert answers(change) == {"a": alone.estimate().value}
    assert np.array_equal(read(definition, change.packed, "a").values, alone.retained.values)


def test_rows_that_are_later_than_lateness_allows_are_counted() -> None:
    definition = define(max_age=timedelta(days=1), lateness=timedelta(hours=2))
    times = TICKS + HOUR * (np.array([10, 9, 5, 11, 5]) - 12)
    rows = Rows(np.array(["a", "a", "a", "b", "b"]), np.arange(5.0)[:, None], times, order=[np.arange(5)])
    change = change_shard(definition, None, rows, now=TICKS, secret=SECRET)
    assert change.refused == {"a": 1, "b": 1}
    assert "lateness" in change.problems["a"]
    assert answers(change) == {"a": 0.5, "b": 3.0}
    again = change_shard(definition, change.packed, rows.where(np.array([2])), now=TICKS, secret=SECRET)
    assert again.refused == {"a": 1}


def test_a_row_that_the_policy_refuses_does_not_take_the_others_with_it() -> None:
    values = np.array([[0.0, 1.0], [0.0, 7.0], [1.0, 0.0]])
    change = change_shard(define(LogisticRegression(1), retention=512), None, Rows(np.array([7, 7, 7]), values))
    assert change.refused == {"7": 1}
    assert set(change.answers.columns["counted"].tolist()) == {2}


def test_names_that_end_with_nul_are_told_apart() -> None:
    rows = Rows(np.array(["a", "a\0", "a\0"], object), np.array([[1.0], [np.nan], [np.inf]]))
    assert change_shard(define(), None, rows, secret=SECRET).refused == {"a\0": 2}


def test_only_what_has_changed_is_answered_and_a_quiet_shard_is_not_written() -> None:
    first = change_shard(define(), None, Rows(np.array(["a", "b"]), np.ones((2, 1))), secret=SECRET)
    second = change_shard(define(), first.packed, Rows(np.array(["b"]), np.ones((1, 1))), secret=SECRET)
    assert answers(second) == {"b": 1.0}
    quiet = change_shard(define(), second.packed, None, now=TICKS, secret=SECRET)
    assert quiet.packed is None
    assert not len(quiet.answers)


def test_records_are_erased_when_they_are_due() -> None:
    definition = define(max_age=timedelta(hours=8))
    rows = Rows(np.array(["a", "b"]), np.array([[1234.5], [2.0]]), np.array([TICKS, TICKS + HOUR]))
    change = change_shard(definition, None, rows, now=TICKS + HOUR, secret=SECRET)
    assert change.due is not None
    assert TICKS + HOUR < change.due <= TICKS + 8 * HOUR
    packed, due = change.packed, change.due
    for _ in range(20):
        change = change_shard(definition, packed, None, now=due, secret=SECRET)
        packed = change.packed or packed
        if change.due is None or due >= TICKS + 8 * HOUR:
            break
        due = max(change.due, due + 1)
    assert packed is not None
    assert due <= TICKS + 8 * HOUR
    assert np.array([1234.5]).tobytes() not in packed
    assert np.array([2.0]).tobytes() in packed


def test_requests_concern_the_rows_of_their_batch_and_earlier_ones() -> None:
    definition = define(retention=96)
    rows = Rows(np.array(["a"] * 40), np.arange(40.0)[:, None], None, np.array(["ada", "bob"] * 20, object))
    packed = change_shard(definition, None, rows, subjects=["ada"], secret=SECRET).packed
    more = Rows(np.array(["a"] * 60), np.arange(60.0)[:, None], None, np.array(["bob", "eve"] * 30, object))
    packed = change_shard(definition, packed, more, secret=SECRET).packed
    names = {*read(definition, packed, "a").subjects.tolist()}
    assert hash_subject("ada", SECRET) not in names
    assert hash_subject("bob", SECRET) in names


@dataclass(frozen=True)
class Fragile(KeepsHalf):
    """A policy that fails where it meets a 13."""

    def update(self, clock: Clock, retained: Records, arrivals: Records, coins: int) -> Bools:
        """Fail, or keep every other arrival."""
        if (arrivals.values == 13.0).any():
            raise RuntimeError("this is too much")
        return super().update(clock, retained, arrivals, coins)


def test_a_stream_that_fails_stops_no_other_one() -> None:
    """In taking rows, in a sweep and in a request: what is due is erased all the same, and said."""
    definition = define(Fragile(), max_age=timedelta(hours=8), retention=96)
    keys, values = np.array(["a", "b"] * 20), np.array([[13.0], [1.0]] * 20)
    rows = Rows(keys, values, np.full(40, TICKS), np.array(["ada"] * 40, object))
    first = change_shard(definition, None, rows, now=TICKS, secret=SECRET)
    assert answers(first)["b"] == 1.0
    for subjects, now in ([], TICKS + 9 * HOUR), (["ada"], TICKS + HOUR):
        change = change_shard(definition, first.packed, None, subjects=subjects, now=now, secret=SECRET)
        assert change.packed is not None
        assert "b" not in change.problems
    packed = change_shard(definition, first.packed, None, now=TICKS + 9 * HOUR, secret=SECRET).packed
    assert packed is not None
    assert np.array([13.0]).tobytes() not in packed


@pytest.mark.parametrize("key", ["a" * 70_000, "\u20ac" * 30_000, "\0a"], ids=["letters", "bytes", "NUL first"])
def test_a_key_that_is_too_long_or_begins_with_nul_is_that_of_no_stream(key: str) -> None:
    change = change_shard(define(), None, Rows(np.array([key, "b"], object), np.ones((2, 1))), secret=SECRET)
    assert answers(change) == {"b": 1.0}
    assert change.refused == {None: 1}
