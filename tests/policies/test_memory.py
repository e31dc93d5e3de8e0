"""A state in the choice of records is that of an algorithm that saw everything, bit for bit."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
from numpy.typing import ArrayLike
from scipy.stats import hypergeom

import chained
from chained import POLICY, RETENTION, chain, draw_rows, get_byte
from vestige import Memory, Private, Stream, Window, open_store
from vestige.channels import syndrome
from vestige.checks import check_policy
from vestige.errors import CheckError, NoRecordsError, ParameterError, RuleError, StoreError
from vestige.records import Records
from vestige.serialization import from_dict, to_dict
from vestige.types import Bools, Floats

RNG = np.random.default_rng


def stay(state: bytes, rows: Floats) -> bytes:  # noqa: ARG001
    return state


def grow(state: bytes, rows: Floats) -> bytes:
    return state + bytes(len(rows))


def overflow(state: bytes, rows: Floats) -> bytes:  # noqa: ARG001
    return b"\x00\x10"


def see_everything(rows: Floats, since: int = 1) -> bytes:
    """The state of an algorithm that may remember."""
    return chain(bytes(32), rows[since - 1 :])


def test_the_state_is_that_of_an_algorithm_that_saw_everything() -> None:
    rows = draw_rows(5_000)
    stream = Stream(POLICY, retention=RETENTION, seed=0)
    for start in range(0, len(rows), 123):
        stream.extend(rows[start : start + 123])
        assert stream.estimate().state == see_everything(rows[: start + 123])
    assert stream.clock.since == 1
    assert stream.estimate().value == float(see_everything(rows)[0])
    at_once = Stream(POLICY, retention=RETENTION, seed=0)
    at_once.extend(rows)
    assert at_once.retained == stream.retained


@pytest.mark.parametrize("bits", [1, 7, 8, 12, 255, 1_022, 1_023, 1_024, 3_001])
@pytest.mark.parametrize("extra", [0, 5])
def test_any_number_of_bits_in_the_smallest_batch(bits: int, extra: int) -> None:
    start = (int.from_bytes(RNG(bits).bytes(bits), "little") % 2**bits).to_bytes((bits + 7) // 8, "little")
    policy = Memory(bits, stay, get_byte, start=start, reserve=0.0)
    assert policy.min_batch == bits + 1
    stream = Stream(policy, retention=2 * (bits + 1 + extra), seed=0)
    stream.extend(draw_rows(4 * (bits + 1 + extra)))
    assert stream.clock.updates == 4
    assert stream.estimate().state == start


def test_truncation_would_be_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def forget_the_last(message: Bools, free: int, code: syndrome.Code, keep: Bools) -> None:
        write_message(np.append(message[:-1], False), free, code, keep)

    write_message = syndrome.write_message
    monkeypatch.setattr(syndrome, "write_message", forget_the_last)
    rows = draw_rows(10 * RETENTION)
    stream = Stream(POLICY, retention=RETENTION, seed=0)
    for start in range(0, len(rows), stream.batch):  # 20 states are written, half of which have a one at the end
        stream.extend(rows[start : start + stream.batch])
    assert stream.estimate().state != see_everything(rows)


def test_a_record_that_is_missing_is_noticed_half_of_the_time_and_changes_the_state() -> None:
    rows = draw_rows(3 * RETENTION // 2)
    stream = Stream(POLICY, retention=RETENTION, seed=0)
    stream.extend(rows)
    errors = 0
    for missing in stream.retained.rounds:
        left = stream.retained.where(stream.retained.rounds != missing)
        try:
            assert POLICY.answer(stream.clock, left).state != see_everything(rows)
        except NoRecordsError:
            errors += 1
    expected = len(stream.retained) / 2.0
    assert abs(errors - expected) <= 4.0 * np.sqrt(expected / 2.0)
    with pytest.raises(NoRecordsError, match="are missing"):
        POLICY.answer(stream.clock, Records.empty(1))


def test_requests_within_the_reserve_cost_nothing() -> None:
    rows, rng = draw_rows(30 * RETENTION), RNG(1)
    stream = Stream(POLICY, retention=RETENTION, seed=0)
    batch = stream.batch
    for start in range(0, len(rows), batch):
        stream.extend(rows[start : start + batch - 1])
        asked = rng.choice(batch - 1, batch // 10, replace=False) + 1 + start
        stream.forget(rounds=asked)
        stream.extend(rows[start + batch - 1 : start + batch])
        assert not np.isin(asked, stream.retained.rounds).any()
    assert stream.clock.since == 1
    assert stream.estimate().state == see_everything(rows)


@pytest.mark.parametrize("bits", [256, 5_000, 60_000])
@pytest.mark.parametrize("reserve", [0.02, 0.1, 0.4, 0.9])
def test_the_reserve_is_enough(bits: int, reserve: float) -> None:
    """Fewer than one batch in 50,000 starts over if its whole reserve is spent at random places.

    A block with k more records that can be kept than rows fails with a chance of at most 2^-k, which
    tests/channels/test_syndrome.py tries; how many of its records are wet is hypergeometric.
    """
    policy = Memory(bits, stay, get_byte, reserve=reserve)
    batch, blocks = policy.min_batch, -(-(bits + 1) // 1_024)
    slots, rows = batch // blocks, -(-(bits + 1) // blocks)
    wet = np.arange(slots + 1)
    chances = hypergeom.pmf(wet, batch, int(reserve * batch), slots)
    assert blocks * (chances * 2.0 ** -np.maximum(slots - wet - rows, 0)).sum() < 1.0 / 50_000
    if bits < 60_000 and reserve < 0.9:
        can = np.ones(batch, np.bool_)
        can[RNG(bits).choice(batch, int(reserve * batch), replace=False)] = False
        assert policy._prepare(can) is not None


def test_forty_thousand_bits() -> None:
    start = RNG(0).bytes(5_000)
    policy = Memory(40_000, stay, get_byte, start=start)
    stream = Stream(policy, retention=2 * policy.min_batch, seed=0)
    stream.extend(draw_rows(2 * policy.min_batch - 1))
    stream.forget(rounds=RNG(1).choice(policy.min_batch - 1, policy.min_batch // 10) + policy.min_batch + 1)
    stream.push(0.0)
    assert stream.clock.updates == 2
    assert stream.estimate().state == start


def test_beyond_the_reserve_it_starts_over_and_says_so() -> None:
    rows = draw_rows(5 * RETENTION)
    stream = Stream(POLICY, retention=RETENTION, seed=0)
    batch = stream.batch
    stream.extend(rows[: 3 * batch - 1])
    stream.forget(rounds=np.arange(2 * batch + 1, 2 * batch + 1 + batch // 3))
    stream.extend(rows[3 * batch - 1 : 3 * batch])
    assert stream.clock.since == 3 * batch + 1
    assert not len(stream.retained)
    stream.extend(rows[3 * batch :])
    estimate = stream.estimate()
    assert estimate.since == 3 * batch + 1
    assert "Counts from round" in estimate.notes[0]
    assert estimate.state == see_everything(rows, since=estimate.since)


def test_early_closings_and_immediate_requests() -> None:
    """Whatever happens, the state is that of all records since the round that the estimate says."""
    rows, rng, now = draw_rows(12_000), RNG(2), datetime(2020, 1, 1, tzinfo=UTC)
    policy = Memory(64, chained.chain_short, get_byte)
    stream = Stream(policy, retention=600, max_age=timedelta(seconds=400), seed=0)
    early, rewritten, beginnings = 0, 0, set()
    while stream.t < len(rows) - 100:
        some = rows[stream.t : stream.t + int(rng.integers(1, 60))]
        now += timedelta(seconds=float(rng.exponential(40.0)))
        stream.extend(some, times=[now] * len(some))
        if rng.random() < 0.3 and len(stream.retained):
            clock = stream.clock
            stream.forget(rounds=rng.choice(stream.retained.rounds, 1), now=bool(rng.random() < 0.5))
            rewritten += stream.clock.first == clock.first and stream.clock.last != clock.last
        early += stream.clock.last - stream.clock.first + 1 < stream.batch
        if len(stream.retained):
            estimate = stream.estimate()
            assert not any("less exact" in note for note in estimate.notes)
            gone = set(range(estimate.since, stream.t + 1))
            assert estimate.counted <= len(gone)
            if estimate.counted == len(gone):
                assert estimate.state == chained.chain_short(bytes(8), rows[estimate.since - 1 : stream.t])
                beginnings.add(estimate.since)
    assert early > 20
    assert rewritten > 3
    assert len(beginnings) > 1


def test_a_restart_goes_on_where_it_was() -> None:
    rows = draw_rows(3_000)
    stream = Stream(POLICY, retention=RETENTION, seed=0)
    for start in range(0, len(rows), 250):
        stream.extend(rows[start : start + 250])
        policy = pickle.loads(pickle.dumps(POLICY))
        stream = Stream(policy, retention=RETENTION, seed=0, retained=stream.retained, clock=stream.clock)
    assert stream.estimate().state == see_everything(rows)


@pytest.mark.slow
def test_a_killed_process_loses_nothing(tmp_path: Path) -> None:
    path, folder, reached = tmp_path / "a.db", Path(chained.__file__).parent, 0
    for _ in range(2):
        process = subprocess.Popen(
            [sys.executable, "-c", f"import chained; chained.follow({str(path)!r})"],
            stdout=subprocess.PIPE,
            env=os.environ | {"PYTHONPATH": os.pathsep.join([str(folder), *filter(None, sys.path)])},
        )
        assert process.stdout is not None
        for _ in range(60):
            said = int(process.stdout.readline())
        process.kill()
        process.communicate()
        with open_store(path) as store:
            stream = Stream(POLICY, retention=RETENTION, seed=0, store=store.stream("chain"))
            assert stream.t > max(reached, said - stream.batch), "what waits is in memory until an update"
            assert stream.clock.since == 1
            assert stream.estimate().state == see_everything(draw_rows(100_000)[: stream.t])
            reached = stream.t


def test_a_store_knows_the_function_by_its_name(tmp_path: Path) -> None:
    with open_store(tmp_path / "a.db") as store:
        Stream(POLICY, retention=RETENTION, seed=0, store=store.stream("a")).extend(draw_rows(100))
        other = Memory(256, chained.hoard, get_byte)
        with pytest.raises(StoreError, match="was created with other terms"):
            Stream(other, retention=RETENTION, seed=0, store=store.stream("a"))
    with pytest.raises(StoreError, match="is not registered, so it cannot be made from its name"):
        from_dict(to_dict(POLICY))


def test_states_that_do_not_fit_are_refused() -> None:
    for step, text in (
        (grow, r"the next state is \d+ bytes, .* of bits=12; return bytes of length 2"),
        (overflow, "below 2"),
    ):
        stream = Stream(Memory(12, step, get_byte), retention=100, seed=0)
        with pytest.raises(RuleError, match=text):
            stream.extend(draw_rows(50))


@pytest.mark.parametrize("answer", ["of 2 bytes", "3", 1j, np.array([1j]), 10**400, None, [1.0, None], [[1], [1, 2]]])
def test_answers_that_are_not_numbers_are_refused(answer: object) -> None:
    stream = Stream(Memory(12, stay, Mock(__qualname__="say", return_value=answer)), retention=100, seed=0)
    stream.extend(draw_rows(50))
    with pytest.raises(
        ParameterError, match=f"conclude returned a value of type {type(answer).__name__}, .* let conclude"
    ):
        stream.estimate()


@pytest.mark.parametrize("answer", [3, True, 10**30, Fraction(1, 3), np.float32(0.1), [1, 2.5], np.arange(3)])
def test_answers_are_numbers_or_arrays_of_numbers(answer: ArrayLike) -> None:
    stream = Stream(Memory(12, stay, Mock(__qualname__="say", return_value=answer)), retention=100, seed=0)
    stream.extend(draw_rows(50))
    assert np.array_equal(stream.estimate().value, np.array(answer, np.float64))


def test_errors_do_not_show_functions_or_states() -> None:
    with pytest.raises(
        ParameterError, match=r"that Memory\(bits=256, columns=1, reserve=0.1\) needs; use retention >= "
    ):
        Stream(Memory(256, chained.chain, get_byte, start=bytes(32)), retention=100)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"bits": 0}, "bits=0"),
        ({"step": b""}, "step is a bytes; pass a function"),
        ({"conclude": lambda state: state[0]}, "conclude is a function without a name of its own"),
        ({"start": bytes(3)}, "start is not a state of bits=12; pass bytes of length 2"),
        ({"start": b"\xff\xff"}, "start is not a state of bits=12"),
        ({"reserve": 0.95}, "reserve=0.95"),
        ({"columns": 0}, "columns=0"),
    ],
)
def test_wrong_arguments_are_refused(arguments: dict[str, object], text: str) -> None:
    given: dict[str, object] = {"bits": 12, "step": stay, "conclude": get_byte}
    with pytest.raises(ParameterError, match=text):
        Memory(**(given | arguments))  # type: ignore[arg-type]


def test_nothing_wraps_it() -> None:
    with pytest.raises(ParameterError, match="is not a running average"):
        Private(POLICY, bound=1.0, epsilon=1.0, delta=1e-6)  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="is not a policy that a window can answer for"):
        Window(POLICY)  # type: ignore[arg-type]


def test_the_check_accepts_it_and_finds_a_step_that_remembers() -> None:
    check_policy(Memory(64, chained.chain_short, get_byte))
    with pytest.raises(CheckError, match=r"keeps something of the records in module chained"):
        check_policy(Memory(256, chained.hoard, get_byte))
    with pytest.raises(CheckError, match="remembers"):
        check_policy(Memory(256, chained.count_calls, get_byte))
    chained.MEMORY.clear()
    with pytest.raises(CheckError, match="depends on where batches end"):
        check_policy(Memory(64, chained.take_last, get_byte))


def test_the_check_names_a_function_that_a_fresh_process_cannot_find(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stay, "__module__", "__main__")
    with pytest.raises(CheckError, match="stay is defined in __main__"):
        check_policy(Memory(64, stay, get_byte))
