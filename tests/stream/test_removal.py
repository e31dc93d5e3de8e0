"""Removal by round and by subject: marked, met with the next update or at once, and receipted."""

from __future__ import annotations

from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vestige import LinearRegression, Mean, Moments, Policy, Receipt, Stream, Window, paper
from vestige.errors import DataError, ParameterError
from vestige.store.receipt import RECEIPTS_KEPT
from vestige.subset import nearest_average

POLICIES: list[Policy] = [Mean(), Mean(channel="bits"), Mean(channel="average"), Window(), paper.SimpleMean()]


def test_a_subject_is_forgotten_with_the_next_update() -> None:
    stream = Stream(Mean(), retention=96, seed=0)
    stream.extend(np.arange(60.0), subjects=["ada" if i % 5 == 0 else None for i in range(60)])
    receipt = stream.forget(subject="ada")
    assert (receipt.requested_round, receipt.due_round, receipt.erased) == (60, 96, None)
    assert (stream.retained.leaving == (stream.retained.subjects == "ada")).all()
    stream.push(1.0, subject="ada")  # comes after the request
    stream.extend(np.arange(35.0))
    (done,) = stream.receipts
    assert (done.id, done.erased_round) == (receipt.id, 96)
    assert not set(stream.retained.rounds[stream.retained.subjects == "ada"].tolist()) & set(range(1, 61))


@pytest.mark.parametrize("policy", POLICIES, ids=str)
@settings(max_examples=30)
@given(st.integers(1, 300), st.lists(st.integers(0, 90), min_size=1, max_size=12), st.booleans())
def test_at_once_means_at_once(policy: Policy, t: int, ages: list[int], again: bool) -> None:
    retention = 96 if policy.max_batch is None else 64  # a search of all subsets takes long
    stream = Stream(policy, retention=retention, seed=0)
    rng = np.random.default_rng(t)
    stream.extend(rng.normal(size=t))
    asked = [t - age for age in ages if age < min(t, retention)]
    before = stream.clock.t
    receipt = stream.forget(rounds=asked, now=True)
    assert not set(asked) & set(stream.retained.rounds.tolist())
    assert not stream.retained.leaving.any()
    assert receipt.erased_round == receipt.due_round == stream.t == before
    restarted = Stream(policy, retention=retention, seed=0, retained=stream.retained, clock=stream.clock)
    for one in (stream, restarted):
        one.extend(np.random.default_rng(1).normal(size=200 if again else 3))
        assert (one.t - one.retained.rounds < retention).all()
    assert (stream.clock, stream.retained) == (restarted.clock, restarted.retained)
    assert np.isfinite(stream.estimate().value)


@pytest.mark.parametrize("pending", [0, *(pytest.param(n, marks=pytest.mark.slow) for n in (5, 12, 40)), 27, 28, 47])
@pytest.mark.parametrize("channel", ["auto", "average"])
def test_what_is_forgotten_at_once_costs_as_little_as_it_can(pending: int, channel: str) -> None:
    """A kept record and a waiting one go; no choice among what is left, or of the waiting ones, says it better."""
    rng = np.random.default_rng(pending)
    for seed in range(10):
        stream = Stream(Mean(channel=channel), retention=96, seed=seed)
        rows = rng.normal(size=48 * 10 + pending)
        stream.extend(rows)
        kept = stream.retained.rounds[stream.retained.rounds <= 480]
        asked = [rng.choice(kept), *([stream.t] if pending else [])]
        target = stream.estimate().value
        left = stream.retained.where(~np.isin(stream.retained.rounds, asked))
        can = left.where(left.rounds <= stream.t - 2)  # without the two that say that an average is off
        stream.forget(rounds=asked, now=True)
        if stream.clock.since > 1:
            if channel == "average":
                assert len(can) < 8 or len(can) == len(left), "too little is left that could say it, or that it is off"
            else:
                assert len(left) < 20 + 7 or left.rounds[0] > 435, "a word has 20 bits, and begins with a control"
            continue
        off = abs(stream.estimate().value - target) * np.sqrt(len(rows))
        if len(left) >= 20:
            assert off < 0.1, "a tenth of a standard error"
        elif pending < 29:  # else the waiting ones alone are enough
            assert off <= 1e-9 + 1.0001 * nearest_average(can.values[:, 0], target).residual * np.sqrt(len(rows))


def test_numbers_in_bits_survive_too_where_enough_has_arrived() -> None:
    for policy, retention in ((Moments(), 512), (LinearRegression(1), 512)):
        stream, rng = Stream(policy, retention=retention, seed=0), np.random.default_rng(0)
        rows = rng.normal(size=(256 * 4 + 200, policy.columns))
        stream.extend(rows)
        before = stream.estimate().value
        stream.forget(rounds=stream.retained.rounds[[3, -3]], now=True)
        assert np.allclose(stream.estimate().value, before, rtol=2.0**-11)
        assert stream.clock.since == 1


def test_all_that_carries_goes_and_the_statistic_starts_anew() -> None:
    stream = Stream(Mean(), retention=96, seed=0)
    stream.extend(np.arange(100.0))
    stream.forget(rounds=stream.retained.rounds[stream.retained.rounds <= 96], now=True)
    assert stream.clock.since == 97
    assert stream.estimate().value == np.arange(96.0, 100.0).mean()
    assert "Counts from round 97 on" in stream.estimate().notes[0]


def test_a_window_loses_just_what_was_asked_for() -> None:
    stream = Stream(Window(), retention=96)
    stream.extend(np.arange(100.0))
    stream.forget(rounds=[50, 100], now=True)
    assert stream.retained.rounds.tolist() == [r for r in range(5, 100) if r != 50]
    assert stream.clock.since == 1


def test_a_receipt_says_nothing_of_records() -> None:
    """Streams that differ in values, and one that holds none of the subject's records, give the same receipts."""
    made = []
    for seed, subject in ((0, "ada"), (1, "ada"), (2, "nobody")):
        stream = Stream(Mean(), retention=96, seed=0)
        stream.extend(np.random.default_rng(seed).normal(size=100), subjects=["ada"] * 100)
        stream.forget(subject=subject)
        stream.extend(np.zeros(48))
        made.append(stream.receipts)
    plain = [
        [{f.name: getattr(r, f.name) for f in fields(r) if f.name not in ("id", "requested", "erased")} for r in given]
        for given in made
    ]
    assert plain[0] == plain[1] == plain[2]
    assert {type(getattr(made[0][0], f.name)) for f in fields(Receipt)} <= {str, int, datetime, timedelta, type(None)}


def test_receipts_expire() -> None:
    stream = Stream(Mean(), retention=96, seed=0)
    stream.extend(np.zeros(60))
    stream.forget(rounds=60)
    stream.extend(np.zeros(60))
    (receipt,) = stream.receipts
    assert receipt.erased is not None
    old = Receipt(receipt.id, receipt.requested, 60, 96, None, receipt.erased - RECEIPTS_KEPT, 96)
    stream._state.receipts = (old,)
    assert not stream.receipts
    again = Stream(Mean(), retention=96, seed=0, retained=stream.retained, clock=stream.clock)
    again._state.receipts = (old,)
    stream.sweep()
    again.extend(np.zeros(96))
    assert not stream._state.receipts
    assert not again._state.receipts


def test_a_request_is_met_in_time_where_nothing_arrives() -> None:
    stream = Stream(Mean(), retention=96, max_age=timedelta(days=30), seed=0)
    stream.push(1.0, subject="ada")
    receipt = stream.forget(subject="ada")
    assert receipt.due is not None
    assert timedelta(days=29) < receipt.due - datetime.now(UTC) <= timedelta(days=30)
    assert stream.sweep(datetime.now(UTC) + timedelta(days=30, seconds=1)) == 1
    assert stream.receipts[0].erased is not None


@pytest.mark.parametrize(
    ("options", "problem", "text"),
    [
        ({}, ParameterError, r"forget takes either rounds=\.\.\. or subject=\.\.\., not both"),
        ({"rounds": 1, "subject": "ada"}, ParameterError, "not both"),
        ({"rounds": 11}, ParameterError, "rounds must be whole numbers from 1 to t=10"),
        ({"rounds": 0}, ParameterError, "rounds must be whole numbers from 1 to t=10"),
        ({"subject": 5}, DataError, "a subject is a int; pass texts"),
    ],
)
def test_bad_requests_are_refused(options: dict[str, Any], problem: type[Exception], text: str) -> None:
    stream = Stream(Mean(), retention=96)
    stream.extend(np.zeros(10))
    with pytest.raises(problem, match=text):
        stream.forget(**options)
    assert stream.receipts == ()
    assert not stream.retained.leaving.any()


@pytest.mark.parametrize("policy", [Mean(), Mean(channel="average"), Mean(dim=2), Moments(order=2)], ids=str)
def test_even_a_very_short_batch_is_read_as_it_was_written(policy: Policy) -> None:
    """Requests that are due after a deadline has shifted the batches may close one with a few records."""
    for n in range(1, 40):
        times = [datetime(2024, 1, 1, tzinfo=UTC)] * n
        stream = Stream(policy, retention=128, max_age=timedelta(days=1), seed=n)
        stream.extend(np.random.default_rng(n).normal(size=(n, policy.columns)), times=times)
        rows = stream.retained.values
        stream._close_batch()
        if stream.clock.encoded:
            assert stream.clock == replace(stream.clock, t=n, first=1, last=n, since=1)
            estimate = stream.estimate()
            said = np.ravel(getattr(estimate, "mean", estimate.value))
            assert np.all((rows.min(axis=0) - 1e-2 <= said) & (said <= rows.max(axis=0) + 1e-2))
        else:
            assert not len(stream.retained)


@pytest.mark.parametrize("now", [True, False])
def test_several_requests_are_all_made_or_none(now: bool) -> None:
    stream = Stream(Mean(), retention=96, seed=0)
    stream.extend(range(60))
    before, ids = stream.retained, ["0123456789abcdef", "fedcba9876543210"]
    with pytest.raises(ParameterError, match="from 1 to t=60"):
        stream.forget_each([[58], [61]], now=now)
    assert (stream.retained, stream.receipts) == (before, ())
    done = stream.forget_each([[58], [59, 60]], now=now, receipt_ids=ids)
    assert [receipt.id for receipt in done] == ids
    assert stream.receipts == done
    assert not set(stream.retained.rounds[~stream.retained.leaving]) & {58, 59, 60}
    assert stream.forget_each([[57], [56]], now=now, receipt_ids=ids) == done, "made before, so not again"
    assert {56, 57} <= set(stream.retained.rounds[~stream.retained.leaving])
    with pytest.raises(ParameterError, match="receipt_ids has 1 entries for 2 requests"):
        stream.forget_each([[57], [56]], receipt_ids=ids[:1])


def test_records_that_are_erased_before_an_update_are_named_in_a_note() -> None:
    stream = Stream(Mean(), retention=200, seed=0)
    stream.extend(range(300))
    stream.forget(rounds=range(1, 200), now=True)
    assert not any("not counted" in note for note in stream.estimate().notes), "an update has counted them"
    stream = Stream(Mean(), retention=200, seed=0)
    stream.extend(range(10))
    stream.forget(rounds=range(1, 10), now=True)
    note = (
        "9 of the 10 records since round 1 are not counted: they were erased on request or by deadline before an "
        "update could count them."
    )
    assert note in stream.estimate().notes
    stream.extend(range(500))
    estimate = stream.estimate()
    assert estimate.counted == 501
    assert note.replace("the 10", "the 510") in estimate.notes
