"""Whatever a policy returns, and whatever it does to what it is shown, nothing is kept that may not be."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from vestige import Clock, Mean, Records, Stream, Window
from vestige.errors import RuleError
from vestige.store import MemoryStore
from vestige.stream import Batched

ROWS = np.random.default_rng(0).normal(size=400)


@dataclass(frozen=True)
class Many(Mean):
    """A mean whose `update_many` returns what it is told to."""

    makes: Any = None

    def update(self, clock: Clock, retained: Records, arrivals: Records, coins: int) -> Any:
        return super().update(clock, retained, arrivals, coins)

    def update_many(self, clock: Clock, retained: Records, values: Any, keys: Any) -> Any:
        if clock.t < 96:
            return super().update_many(clock, retained, values, keys)
        return self.makes(clock, retained, values)


@pytest.mark.parametrize(
    ("makes", "text"),
    [
        (lambda _c, r, v: np.ones(len(r) + len(v), np.bool_), "update_many keeps the record of round .* is leaving"),
        (lambda _c, _r, v: np.ones(2 + len(v), np.bool_), "update_many keeps the record of round .* is leaving"),
        (lambda _c, _r, _v: np.zeros(20, np.int64), r"update_many returned int64 of shape \(20,\)"),
        (lambda _c, r, v: np.ones(len(r) + len(v) + 1, np.bool_), r"returned bool of shape .* n <= "),
        (lambda _c, _r, v: np.ones((len(v), 1), np.bool_), "update_many returned bool of shape"),
        (lambda _c, _r, v: [True] * len(v), "update_many returned list"),
        (lambda _c, _r, _v: None, "update_many returned NoneType"),
    ],
)
@pytest.mark.parametrize("stored", [False, True])
def test_the_mask_of_many_updates_is_checked_too(makes: Callable[..., object], text: str, stored: bool) -> None:
    options: dict[str, Any] = {"store": MemoryStore().stream("a")} if stored else {}
    stream = Stream(Many(makes=makes), retention=96, seed=0, **options)
    stream.extend(ROWS[:96])
    stream.forget(rounds=stream.retained.rounds[-3:])
    stream.flush()
    before = stream.clock, stream.retained
    with pytest.raises(RuleError, match=text):
        stream.extend(ROWS[:48])
    assert (stream.clock, stream.retained) == before
    assert stream.receipts[0].erased is None


def test_a_mask_of_many_updates_may_leave_out_the_oldest() -> None:
    def newest(_: Clock, retained: Records, values: Any) -> Any:
        mask = np.zeros(2 + len(values), np.bool_)
        mask[:2] = ~retained.leaving[-2:]
        return mask

    stream = Stream(Many(makes=newest), retention=96, seed=0)
    stream.extend(ROWS[:96])
    kept = stream.retained.rounds[-2:].tolist()
    stream.extend(ROWS[:48])
    assert stream.retained.rounds.tolist() == [r for r in kept if r > stream.t - 96]


@dataclass(frozen=True)
class Odd(Window):
    """A window that answers `can_encode` and `rewrite` as it is told to, and whose records speak together."""

    all_or_nothing = True
    encodes: Any = True
    makes: Any = None

    @property
    def min_batch(self) -> int:
        return 8

    def update(self, clock: Clock, retained: Records, arrivals: Records, coins: int) -> Any:
        return super().update(clock, retained, arrivals, coins)

    def can_encode(self, clock: Clock, rounds: Any, leaving: Any) -> Any:  # noqa: ARG002
        return self.encodes

    def rewrite(self, clock: Clock, retained: Records, coins: int) -> Any:  # noqa: ARG002
        return self.makes(clock, retained)


@pytest.mark.parametrize("answer", [1, None, "yes", np.ones(2, np.bool_)])
def test_whether_a_batch_can_be_encoded_is_yes_or_no(answer: object) -> None:
    stream, batched = Stream(Odd(encodes=answer), retention=20), Batched(Odd(encodes=answer), batch=10)
    for push in (lambda: stream.extend(ROWS[:10]), lambda: batched.extend(ROWS[:10])):
        with pytest.raises(RuleError, match=r"Odd.can_encode returned a .*; answer with True or False"):
            push()
    assert stream.t == batched.t == 0


@pytest.mark.parametrize(
    ("makes", "text"),
    [
        (lambda c, r: (c.t, np.ones(len(r), np.bool_)), "Odd.rewrite keeps the record of round .* is leaving"),
        (lambda c, r: (c.t, (~r.leaving).astype(int)), "Odd.rewrite returned int64"),
        (lambda c, r: (c.t + 1, ~r.leaving), "return .clock.last, mask., .clock.t, mask. or None"),
        (lambda _, r: ~r.leaving, "return .clock.last, mask."),
        (lambda c, r: (c.last, np.zeros(len(r), np.bool_)), "Odd.rewrite drops a record after round 10"),
    ],
)
def test_what_is_written_again_is_checked_too(makes: Callable[..., object], text: str) -> None:
    stream = Stream(Odd(makes=makes), retention=1000, notice=20)
    stream.extend(ROWS[:15])
    with pytest.raises(RuleError, match=text):
        stream.forget(rounds=[3], now=True)
    assert 3 not in stream.retained.rounds, "it is gone all the same"


def tampered(clock: Clock, *records: Records) -> None:
    for name, value in (("t", 0), ("first", 1), ("last", 0), ("since", 1), ("due", None)):
        object.__setattr__(clock, name, value)
    for shown in records:
        for name in Records.__slots__:
            column = getattr(shown, name)
            column.flags.writeable = True
            column[...] = np.zeros(1, column.dtype)[0]
        object.__setattr__(shown, "values", np.full((1, 1), 1e9))


@dataclass(frozen=True)
class Meddler(Window):
    """A window that changes all that it is shown."""

    def can_encode(self, clock: Clock, rounds: Any, leaving: Any) -> bool:
        tampered(clock)
        for column in (rounds, leaving):
            column.flags.writeable = True
            column[...] = 1
        return True

    def update(self, clock: Clock, retained: Records, arrivals: Records, coins: int) -> Any:
        keep = Window.update(self, clock, retained, arrivals, coins)
        tampered(clock, retained, arrivals)
        return keep

    def answer(self, clock: Clock, retained: Records) -> Any:
        said = Window.answer(self, clock, retained)
        tampered(clock, retained)
        return said


@dataclass(frozen=True)
class ManyMeddler(Mean):
    """A mean that changes all that it is shown, many batches at once."""

    def update(self, clock: Clock, retained: Records, arrivals: Records, coins: int) -> Any:
        return super().update(clock, retained, arrivals, coins)

    def update_many(self, clock: Clock, retained: Records, values: Any, keys: Any) -> Any:
        assert np.isnat(retained.times).all()
        assert retained.subjects.tolist() == [None] * len(retained)
        assert not retained.numbers.any()
        keep = super().update_many(clock, retained, values, keys)
        tampered(clock, retained)
        values[...] = 1e9
        return keep


@pytest.mark.parametrize(("meddler", "plain"), [(Meddler(), Window()), (ManyMeddler(), Mean())])
def test_what_a_policy_does_to_what_it_was_shown_changes_nothing(meddler: Any, plain: Any) -> None:
    mine, rows = ROWS.copy(), ROWS.copy()
    one, other = (Stream(policy, retention=96, seed=0) for policy in (meddler, plain))
    for part in np.split(mine, [100, 101, 150, 300]):
        one.extend(part, subjects=["ada"] * len(part), source="a")
    for part in np.split(rows, [100, 101, 150, 300]):
        other.extend(part, subjects=["ada"] * len(part), source="a")
    one.push(0.5)
    other.push(0.5)
    assert (one.clock, one.retained) == (other.clock, other.retained)
    assert one.estimate().value == other.estimate().value
    assert (one.clock, one.retained) == (other.clock, other.retained)
    assert np.array_equal(mine, rows), "the caller's array is not touched either"


def test_the_batched_model_shows_copies_too() -> None:
    one, other = Batched(Meddler(), batch=20), Batched(Window(), batch=20)
    one.extend(ROWS)
    other.extend(ROWS)
    one.estimate()
    assert (one.clock, one.retained) == (other.clock, other.retained)
