"""A check that a store keeps its contract: what is written can be read again, all of it or nothing.

Guarantee: finds a store that loses or mixes up what it is given, forgets terms, keeps half of a failed write, or
does not see what is overdue in it; held by tests/store/test_check_store.py, which has a store for each.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta

import numpy as np

from vestige.clock import Clock
from vestige.errors import CheckError, ParameterError, StoreError
from vestige.policies import Mean
from vestige.random.generators import make_generator
from vestige.records import Records
from vestige.store import Ledger, Position, Receipt, State, Store, Terms
from vestige.store.position import decode_count, encode_count
from vestige.stream import Stream
from vestige.times import wall_clock
from vestige.validation import check_int, show_value

StoreFactory = Callable[[], Store]
_TERMS = Terms({"name": "check", "parameters": {}}, columns=2, capacity=64, retention=64)


def check_store(factory: StoreFactory, *, seed: int = 0) -> None:
    """Check that a store keeps its contract.

    Args:
        factory: function that opens the store; called again after the store was closed, it must open the same one. The
            store must be empty at first.
        seed: seed of the records.

    Raises:
        CheckError: if the store breaks its contract.
        ParameterError: if `factory` is not a function.

    Example:
        >>> from vestige import MemoryStore
        >>> store = MemoryStore()
        >>> check_store(lambda: store)
    """
    if not callable(factory):
        raise ParameterError(f"factory={show_value(factory)} is not a function; pass a function that opens a store")
    rng = make_generator(check_int("seed", seed, 0))
    with factory() as store:
        _expect(store.names() == (), "is not empty at first; pass one without streams")
        _expect(_read_state(store, "a") == State.empty(2), "does not return the empty state for a new stream")
    states = {name: _make_state(rng, t) for name, t in (("a", 100), ("b/ü", 7), ("c", 64))}
    with factory() as store:
        for name, state in states.items():
            store.stream(name).write(_TERMS, state)
        names = {store.pseudonym(subject) for subject in ("ada", "bob")}
        _expect(
            len(names) == 2 and all(re.fullmatch("[0-9a-f]{32}", name) for name in names), "has no proper pseudonyms"
        )
    _check_states(factory, states, "after it was closed and opened again")
    with factory() as store:
        _expect({store.pseudonym(subject) for subject in ("ada", "bob")} == names, "changes its pseudonyms")
        _check_terms(store)
        states["a"] = _make_state(rng, 101)
        store.stream("a").write(_TERMS, states["a"])
        _check_failure(store, rng)
    _check_states(factory, states, "after one stream was written again, and a write to others failed")
    states["a"] = State(Clock(t=101, first=102, last=101, since=102), Records.empty(2))
    with factory() as store:
        store.stream("a").write(_TERMS, states["a"])
    _check_states(factory, states, "after a stream lost all its records")
    with factory() as store:
        store.remove("b/ü")
    del states["b/ü"]
    _check_states(factory, states, "after a stream was removed")
    _check_ledger(factory)
    with factory() as store:
        _check_tidy(store, states)
        _check_verify(store)
        _check_rekey(store)
    _check_streams(factory, rng)


def _expect(true: bool, what: str) -> None:
    if not true:
        raise CheckError(f"the store {what}")


def _read_state(store: Store, name: str) -> State:
    return store.stream(name).read(_TERMS)


def _make_state(rng: np.random.Generator, t: int) -> State:
    """Make a state in which every field is used."""
    rounds = np.sort(rng.choice(np.arange(max(1, t - 63), t + 1), min(t, 20), replace=False))
    n = len(rounds)
    values = rng.normal(size=(n, 2))
    values[0] = -0.0, 5e-324
    times = np.datetime64("2024-01-01", "us") + np.sort(rng.integers(0, 10**12, n)).astype("m8[us]")
    times[rng.random(n) < 0.3] = np.datetime64("NaT")
    subjects = [rng.bytes(16).hex() if there else None for there in rng.random(n) < 0.5]
    receipts = tuple(Receipt.create(wall_clock(), int(r), int(r) + 32, timedelta(days=1), None) for r in rounds[:2])
    done = (*receipts[:1], *(receipt.mark_erased(t, wall_clock()) for receipt in receipts[1:]))
    clock = Clock(
        t,
        first=max(1, t - 40),
        last=max(0, t - 9),
        since=1,
        due=int(rng.integers(2**50)),
        updates=t,
        gaps=max(0, t - 9) // 2,
        bits=t,
    )
    positions = {"x.csv": Position(encode_count(t) + b"\0x\0", 2), "y": Position(b"\0seven\0", slot=1), "z": Position()}
    records = Records(rounds, values, rng.random(n) < 0.2, times, subjects, rng.integers(0, 2**50, n))
    return State(clock, records, positions, done, settled=t)


def _check_states(factory: StoreFactory, states: dict[str, State], when: str) -> None:
    with factory() as store:
        _expect(store.names() == tuple(sorted(states)), f"does not have the streams that were written, {when}")
        for name, state in states.items():
            found = _read_state(store, name)
            for part in ("clock", "retained", "positions", "receipts", "settled"):
                _expect(getattr(found, part) == getattr(state, part), f"returns other {part} than were written, {when}")
            same = np.array_equal(found.retained.values.view(np.int64), state.retained.values.view(np.int64))
            _expect(same, f"changes bits of values, {when}")
            _expect(store.terms(name) == _TERMS, f"returns other terms than were written, {when}")
        copied = {name: (_TERMS, state) for name, state in states.items()}
        _expect(store.snapshot().all_streams() == copied, f"gives a snapshot of something else, {when}")


def _check_ledger(factory: StoreFactory) -> None:
    """Check that the requests to streams are kept, changed and dropped, all or nothing."""
    at = wall_clock()
    made = [Receipt.create(at, n, None, None, None, f"T-{n}", timedelta(days=n)) for n in range(4)]
    ledger = Ledger().file(made[:2], ["a", "b/ü"], ["c"]).file(made[2:], None)
    met = ledger.settle(lambda number, _: number != 1, 9, at)
    left = met.drop_expired(at + timedelta(days=1))
    for wanted in (ledger, met, left):
        with factory() as store:
            store.write_ledger(wanted)
        with factory() as store:
            with suppress(_StoppedError), store.transaction():
                store.write_ledger(Ledger())
                raise _StoppedError
            known = store.read_ledger(), store.snapshot().ledger, store.newest_request
            _expect(known == (wanted, wanted, 4), "returns another ledger than was written")


def _check_terms(store: Store) -> None:
    """Check that other terms are rejected."""
    for other in (replace(_TERMS, retention=32), replace(_TERMS, about={"columns": ["x"]})):
        try:
            store.stream("a").read(other)
        except StoreError:
            continue
        raise CheckError("the store opens a stream with other terms than it was created with")


def _check_tidy(store: Store, states: dict[str, State]) -> None:
    """A store that was tidied holds the same streams."""
    store.tidy()
    held = {name: (state.clock, state.retained) for name, (_, state) in store.snapshot().streams.items()}
    expected = {name: (state.clock, state.retained) for name, state in states.items()}
    _expect(held == expected, "changes when it is tidied")


def _check_verify(store: Store) -> None:
    """Records that are overdue and bytes that should be gone are found; once they are gone, they are not."""
    place, terms, value = store.stream("late"), replace(_TERMS, columns=1, capacity=128), 0.1234567890123
    canary = np.float64(value).tobytes()
    place.write(terms, State(Clock(t=100, first=101, last=100, since=101), Records([20, 100], [[value], [1.0]])))
    found = store.verify(canaries=[canary])
    _expect(any("'late'" in text for text in found), "does not find a record that is overdue")
    _expect(any("canary" in text for text in found), "does not find bytes that it holds")
    place.write(terms, State(Clock(t=100, first=101, last=100, since=101), Records([100], [[1.0]])))
    found = store.verify(canaries=[canary])
    _expect(not any("'late'" in text for text in found), "finds a record that is gone")
    _expect(not any("canary" in text for text in found), "still holds bytes of a record that is gone")
    store.remove("late")


def _check_rekey(store: Store) -> None:
    """With a new key there are other pseudonyms; a store whose key is not lost may refuse it."""
    before = store.pseudonym("ada")
    with suppress(StoreError):
        store.rekey()
        _expect(store.pseudonym("ada") != before, "keeps its key though it was to have a new one")


class _StoppedError(Exception):
    pass


def _check_failure(store: Store, rng: np.random.Generator) -> None:
    """Check that a transaction is written whole or not at all."""
    with suppress(_StoppedError), store.transaction():
        store.stream("b/ü").write(_TERMS, _make_state(rng, 8))
        store.stream("new").write(_TERMS, _make_state(rng, 9))
        raise _StoppedError


def _check_streams(factory: StoreFactory, rng: np.random.Generator) -> None:
    """Check that a stream that is closed and opened again evolves like one that is not."""
    policy, plain = Mean(), Stream(Mean(), retention=96, seed=1)
    for size in rng.integers(1, 130, 8):
        rows = rng.normal(size=size)
        plain.extend(rows)
        with factory() as store:
            stream = Stream(policy, retention=96, seed=1, store=store.stream("stream"))
            stream.extend(rows, source="rows")
        with factory() as store:
            stream = Stream(policy, retention=96, seed=1, store=store.stream("stream"))
            same = (stream.clock, stream.retained.without_numbers()) == (plain.clock, plain.retained)
            _expect(
                same and decode_count(stream.position("rows").value) == plain.t,
                "changes how a stream evolves after it is opened again",
            )
