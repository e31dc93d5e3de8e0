"""Rows of which some cannot be taken, against one `Stream.extend` for each key and call."""

from __future__ import annotations

import re
import secrets
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vestige import Clock, DataError, KeyedStreams, Mean, Moments, Policy, Records, Stream, open_store
from vestige.row_numbers import number_rows
from vestige.types import Bools, Floats

HOUR = np.timedelta64(1, "h")
START = np.datetime64("2024-01-01", "us")


@dataclass(frozen=True)
class Failing(Policy):
    """Fails where a batch has two values beyond 4, and refuses rows beyond 6; else it keeps the whole batch."""

    min_batch: ClassVar[int] = 4

    def update(self, clock: Clock, retained: Records, arrivals: Records, coins: int) -> Bools:  # noqa: ARG002
        if (arrivals.values > 4.0).sum() > 1:
            raise RuntimeError("it fails")
        return ~np.concatenate((retained.leaving, arrivals.leaving)) & (
            np.concatenate((retained.rounds, arrivals.rounds)) > clock.last
        )

    def check_rows(self, rows: Floats) -> None:
        if (rows > 6.0).any():
            raise ValueError(f"row {int(np.argmax((rows > 6.0).any(axis=1)))} is beyond 6")

    def answer(self, clock: Clock, retained: Records) -> float:  # noqa: ARG002
        return float(retained.values.mean())


POLICIES: dict[str, tuple[Policy, int]] = {
    "bits": (Mean(channel="bits"), 56),
    "two columns": (Mean(2, channel="bits"), 100),
    "moments": (Moments(2), 128),
    "failing": (Failing(), 8),
}


class Reference:
    """One `Stream` for each key."""

    def __init__(self, policy: Policy, keyed: KeyedStreams, **terms: Any) -> None:
        self.policy, self.terms, self.keyed = policy, terms, keyed
        self.streams: dict[str, Stream] = {}

    def take(
        self, keys: list[str], rows: Floats, times: Any, subjects: Any, numbers: Any
    ) -> tuple[int, int, dict[str, tuple[str, str, int]]]:
        """How many rows were taken and late, and for each key in trouble what was raised, and at which row."""
        taken, late, troubles = 0, 0, {}
        for key in dict.fromkeys(keys):
            here = np.flatnonzero([each == key for each in keys])
            stream = self.streams.get(key) or Stream(self.policy, **self.terms)
            before, was = stream.t, stream.position("file").value
            names = None if subjects is None else [self.keyed._hash_subject(each) for each in subjects[here]]
            try:
                stream.extend(
                    rows[here],
                    times=None if times is None else times[here],
                    subjects=names,
                    source="file",
                    positions=[(row + 1).to_bytes(4) for row in range(len(here))],
                    numbers=numbers[here],
                )
                handled = len(here)
            except (ValueError, RuntimeError) as problem:
                position = stream.position("file").value
                handled = int.from_bytes(position) if position != was else 0
                troubles[key] = type(problem).__name__, str(problem), int(here[handled])
            taken, late = taken + stream.t - before, late + handled - (stream.t - before)
            if handled:
                stream.move_source("file", b"\0\0\0\0")
            if stream.t:
                self.streams[key] = stream
        return taken, late, troubles

    def check(self, keyed: KeyedStreams) -> None:
        assert set(keyed) == set(self.streams)
        assert len(keyed) == len(self.streams)
        for key, stream in self.streams.items():
            assert keyed.clock(key) == stream.clock, key
            assert keyed.retained(key) == stream.retained, key


@given(data=st.data())
@settings(max_examples=60, deadline=None)
def test_troubles_are_those_of_one_stream_for_each_key(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(list(POLICIES)))
    policy, retention = POLICIES[name]
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    terms: dict[str, Any] = {"retention": retention, "seed": 3}
    if timed := data.draw(st.booleans()):
        terms["max_age"] = timedelta(days=10)
        terms |= {"lateness": timedelta(hours=30)} if data.draw(st.booleans()) else {}
    keyed, now, row = KeyedStreams(policy, **terms, workers=1), START, 1
    reference = Reference(policy, keyed, **terms)
    for _ in range(data.draw(st.integers(1, 10))):
        n = int(rng.integers(1, 150))
        keys = [str(key) for key in rng.integers(0, 6, n)]
        rows, numbers = rng.normal(2.0, 1.2, (n, policy.columns)).clip(-5.9, 5.9), np.arange(row, row + n)
        row += n
        rows[rng.random(n) < 0.01, 0] = rng.choice([np.nan, np.inf, 1e301])
        rows[rng.random(n) < 0.01, 0] = 7.0
        steps = rng.integers(0, int(rng.choice([2, 2, 30])), n)
        late = rng.integers(0, 40, n) * (rng.random(n) < (0.1 if "lateness" in terms else 0.01))
        times = now + (np.cumsum(steps) - late) * HOUR if timed else None
        now += int(steps.sum()) * HOUR
        if times is not None:
            times[rng.random(n) < 0.01] = rng.choice(np.array(["NaT", "3000-01-01"], "M8[us]"))
        subjects = rng.choice(["ada", "bob"], n).astype(object) if data.draw(st.booleans()) else None
        made = keyed.take(keys, rows, times=times, subjects=subjects, numbers=number_rows(numbers, 1))
        taken, late_rows, troubles = reference.take(keys, rows, times, subjects, numbers)
        found = {key: (type(t.problem).__name__, str(t.problem), t.row) for key, t in made.troubles.items()}
        assert found == troubles
        assert list(found) == sorted(found, key=lambda key: found[key][2])
        assert (made.taken, made.late) == (taken, late_rows)
        reference.check(keyed)


def test_a_new_key_that_takes_nothing_leaves_nothing() -> None:
    keyed = KeyedStreams(Mean(), retention=96, max_age=timedelta(days=30), seed=0)
    keyed.extend(["a"], [1.0], times=[datetime(2024, 1, 1)])
    for keys, rows in ((["secret", "a"], [np.nan, 1.0]), (["secret", "b", "hidden"], [np.inf, 1.0, np.nan])):
        made = keyed.take(keys, rows, times=[datetime(2024, 1, 1)] * len(keys))
        assert (made.taken, made.troubles["secret"].row) == (1, 0)
    assert list(keyed) == ["a", "b"]
    assert not any(name in keyed._names._content.tobytes() for name in (b"secret", b"hidden"))
    assert (keyed.clock("a").t, keyed.clock("b").t, len(keyed)) == (2, 1, 2)
    keyed.extend(["secret", "b"], [4.0, 6.0], times=[datetime(2024, 1, 2)] * 2)
    assert (keyed.estimate("secret").value, keyed.estimate("b").value) == (4.0, 3.5)


def test_a_policy_that_fails_at_a_new_key_leaves_nothing() -> None:
    keyed = KeyedStreams(Failing(), retention=8, seed=0)
    made = keyed.take(["x"] * 3 + ["bad"] * 4 + ["y"], [1.0] * 3 + [5.0] * 4 + [2.0])
    assert (made.taken, {key: trouble.row for key, trouble in made.troubles.items()}) == (4, {"bad": 3})
    assert list(keyed) == ["x", "y"]
    assert b"bad" not in keyed._names._content.tobytes()
    made = keyed.take(["bad"] * 4, [5.0] * 4)
    assert (list(keyed), keyed._names.count) == (["x", "y"], 3), "no number is left of names at the end"


def test_labels_that_cannot_be_read_refuse_their_keys() -> None:
    keyed = KeyedStreams(Mean(), retention=96, seed=0)
    times: Any = [datetime(2024, 1, 1), "yesterday", np.datetime64("20000", "Y"), None]
    made = keyed.take(["a", "b", "c", "d"], [1.0] * 4, times=times)
    assert {key: str(trouble.problem) for key, trouble in made.troubles.items()} == {
        "b": "row 0 of 1 (counted from 0): time is a str; pass a datetime or a numpy.datetime64: nothing of this call "
        "was taken",
        "c": "row 0 of 1 (counted from 0): a time lies outside the years 1 to 9999 in UTC; correct it, or drop the "
        "row: nothing of this call was taken",
    }
    made = keyed.take(["a", "b", "c"], [1.0] * 3, subjects=["ada", 7, "\ud800"])  # type: ignore[list-item]
    assert (made.taken, list(made.troubles)) == (1, ["b", "c"])
    assert list(keyed) == ["a", "d"]


def test_rows_that_the_policy_refuses_refuse_their_keys() -> None:
    keyed = KeyedStreams(Failing(), retention=8, seed=0)
    keys, rows = np.arange(1_000) % 100, np.arange(1_000) % 3.0
    rows[[17, 430]] = 7.0
    made = keyed.take(keys, rows)
    assert (made.taken, {key: trouble.row for key, trouble in made.troubles.items()}) == (980, {"17": 17, "30": 30})


@pytest.mark.parametrize(
    "wrong",
    [
        {"rows": [[1.0, 2.0]]},
        {"rows": ["x"]},
        {"times": datetime(2024, 1, 1)},
        {"times": [None, None]},
        {"subjects": "ada"},
        {"numbers": [1, 2]},
        {"numbers": [-1]},
        {"numbers": [1.5]},
        {"keys": ["a", "b"]},
        {"keys": [""]},
    ],
)
def test_what_is_not_a_column_is_refused_with_the_whole_call(wrong: dict[str, Any]) -> None:
    keyed = KeyedStreams(Mean(), retention=96, seed=0)
    with pytest.raises(ValueError, match=r"keys|key|rows|times|subjects|numbers"):
        keyed.take(**{"keys": ["a"], "rows": [1.0], **wrong})
    assert not list(keyed)


@given(data=st.data())
@settings(max_examples=40, deadline=None)
def test_whole_calls_take_all_rows_or_none(data: st.DataObject) -> None:
    """The same rows by `extend`, in a second object, and by `take`, which says whether a row is refused."""
    name = data.draw(st.sampled_from(["bits", "two columns", "moments"]))
    policy, retention = POLICIES[name]
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    terms: dict[str, Any] = {"retention": retention, "seed": 3, "workers": 1}
    if timed := data.draw(st.booleans()):
        terms["max_age"] = timedelta(days=10)
        terms |= {"lateness": timedelta(hours=30)} if data.draw(st.booleans()) else {}
    whole, extended, now = KeyedStreams(policy, **terms), KeyedStreams(policy, **terms), START
    for _ in range(data.draw(st.integers(1, 8))):
        n = int(rng.integers(1, 120))
        keys, rows = [str(key) for key in rng.integers(0, 9, n)], rng.normal(2.0, 1.2, (n, policy.columns))
        rows[rng.random(n) < 0.004, 0] = rng.choice([np.nan, np.inf, 1e301])
        steps = rng.integers(0, 3, n)
        times = now + (np.cumsum(steps) - rng.integers(0, 2, n) * (rng.random(n) < 0.004)) * HOUR if timed else None
        now += int(steps.sum()) * HOUR
        before = _read_all(whole)
        try:
            taken = extended.extend(keys, rows, times=times)
        except ValueError as problem:
            with pytest.raises(DataError, match=re.escape(str(problem))):
                whole.take(keys, rows, times=times, whole=True)
            assert _read_all(whole) == before
        else:
            made = whole.take(keys, rows, times=times, whole=True)
            assert (made.taken, made.taken + made.late, made.troubles) == (taken, n, {})
        assert _read_all(whole) == _read_all(extended)


def _read_all(keyed: KeyedStreams) -> dict[str, tuple[Clock, bytes]]:
    return {key: (keyed.clock(key), keyed.retained(key).values.tobytes()) for key in keyed}


DAY = datetime(2024, 1, 2)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"rows": [1.0, 2.0, np.nan]}, "row 2 of 3, column 0, is missing"),
        ({"times": [DAY, DAY, "soon"]}, "row 2 of 3 .*time is a str; pass a datetime"),
        ({"times": [DAY, None, DAY]}, "times has none for row 1"),
        ({"times": [DAY, DAY, datetime(3000, 1, 1)]}, "the time of row 2 of 3 .*max_ahead"),
        ({"times": [DAY, DAY, datetime(2023, 1, 1)]}, "the time of row 2 of 3 .*lies before"),
        ({"subjects": ["ada", 7, "bob"]}, "row 1 of 3 .*a subject is a int; pass texts"),
        ({"numbers": [1, 2]}, "numbers"),
        ({"keys": ["new", "a"]}, "keys has 2 entries for 3 rows"),
    ],
)
def test_a_whole_call_that_is_refused_leaves_nothing(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    """No key, no row, nothing to flush; and the message names the row, but neither its value nor its key."""
    new = f"new {secrets.token_hex(8)}"  # memory that another test has freed does not have it
    given: dict[str, Any] = {"keys": [new, "b", "a"], "rows": [1.0, 2.0, 3.0], "times": [DAY] * 3}
    with open_store(tmp_path / "a.db") as store:
        keyed = KeyedStreams(Mean(), retention=96, max_age=timedelta(days=30), seed=0, store=store.family())
        keyed.extend(["a"], [1.0], times=[DAY])
        with pytest.raises(DataError, match=message) as raised:
            keyed.take(**given | change, whole=True)
        assert not any(word in str(raised.value) for word in ("new", "soon", "3000", "2023", "ada"))
        assert (list(keyed), keyed._names.count, store.names()) == (["a"], 1, ("a",))
        assert new.encode() not in keyed._names._content.tobytes()
        made = keyed.take(**given, whole=True)
        assert (made.taken, store.names()) == (3, ("a",)), "it is for `flush` to write"
        keyed.flush()
        assert store.names() == ("a", "b", new)


def test_a_policy_that_fails_in_a_whole_call_is_the_trouble_of_its_stream() -> None:
    keyed = KeyedStreams(Failing(), retention=8, seed=0)
    made = keyed.take(["x"] * 3 + ["bad"] * 4 + ["y"], [1.0] * 3 + [5.0] * 4 + [2.0], whole=True)
    assert (made.taken, {key: trouble.row for key, trouble in made.troubles.items()}) == (4, {"bad": 3})
    assert list(keyed) == ["x", "y"]
