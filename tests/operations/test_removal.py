"""Lists of subjects over a whole store: everybody who was named, in one pass, one receipt for each."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from reading import read_streams
from troubled import KeepsHalf, fill
from vestige import MemoryStore, SqliteStore, Stream
from vestige.errors import ParameterError, StoreError
from vestige.operations import forget, remove
from vestige.operations.removal import forget_pseudonyms
from vestige.store import Store


def filled(store: Store) -> Store:
    for name in ("a", "b", "c"):
        fill(store, name)
    return store


def subjects_held(store: Store, name: str) -> set[str | None]:
    terms = store.terms(name)
    return set(store.stream(name, about=terms.about).read(terms).retained.subjects)


@pytest.mark.parametrize("is_open", [True, False])
@pytest.mark.parametrize("now", [True, False])
def test_a_list_is_carried_out_whole(is_open: bool, now: bool) -> None:
    store = filled(MemoryStore())
    if not is_open:
        store.release()
    named = ["person-7", "eve", "person-8", "person-7"]
    marks = [store.pseudonym(name) for name in named]
    store.flush()
    before = {name: subjects_held(store, name) for name in store.names()}
    done = forget(store, named, now=now)
    assert done.unknown == (1,)
    assert len({receipt.id for receipt in done.receipts}) == len(named)
    assert all((receipt.erased is not None) == now for receipt in done.receipts)
    assert store.read_ledger().receipts == done.receipts
    for name in store.names():
        assert now != bool(subjects_held(store, name) & set(marks))
        assert (store.live(name) is not None) == is_open
        state = store.stream(name).read(store.terms(name))
        asked = set(marks) & before[name]
        assert len(state.receipts) == (0 if now else len(asked)), "a stream keeps its part until it has met it"


@pytest.mark.parametrize("now", [True, False])
def test_the_receipts_of_one_request_show_the_same_times(now: bool) -> None:
    store = MemoryStore()
    stream = Stream(KeepsHalf(), retention=96, max_age=timedelta(days=30), store=store.stream("new"))
    stream.extend(range(10), subjects=["ada", "bob"] * 5)
    one, other = forget(store, ["ada", "bob"], now=now).receipts
    assert replace(one, id=other.id) == other


def test_what_was_not_written_yet_is_found() -> None:
    store = MemoryStore()
    stream = Stream(KeepsHalf(), retention=96, store=store.stream("new"))
    stream.extend(range(10), subjects=["ada", "bob"] * 5)
    assert store.names() == ()
    assert forget(store, ["ada"], now=True).unknown == ()
    assert len(stream.retained) == 5


def test_named_streams_give_a_receipt_to_everybody() -> None:
    done = forget(filled(MemoryStore()), ["eve", "person-7"], streams=["b"])
    assert [receipt.requested_round for receipt in done.receipts] == [100, 100], "of this stream alone"
    assert done.unknown == (0,)


def test_by_rounds() -> None:
    store = filled(MemoryStore())
    (receipt,) = forget(store, rounds=[99, 100], streams=["b"], now=True, references=["T-1"]).receipts
    assert (receipt.reference, receipt.erased_round) == ("T-1", 100)
    assert not np.isin([99, 100], store.live("b").retained.rounds).any()  # type: ignore[union-attr]


@pytest.mark.parametrize("policy", [None, KeepsHalf()])
def test_a_request_with_an_id_is_carried_out_once(tmp_path: Path, policy: KeepsHalf | None) -> None:
    """As after a crash between what was done and the reply: new records of the same person are not asked for."""
    with SqliteStore(tmp_path / "s.db") as store:
        fill(store, "a", policy)
        store.release()
        marks = [store.pseudonym(f"person-{i}") for i in (7, 8)]
        first = forget_pseudonyms(store, marks, now=True, request="4f" * 8)
        store.release()
        again = forget_pseudonyms(store, marks, now=True, request="4f" * 8)
        assert again.receipts == first.receipts != ()
        other = forget_pseudonyms(store, marks, now=True, request="50" * 8)
        assert other.unknown == (0, 1)
        by_rounds = [
            forget_pseudonyms(store, (), rounds=[97], streams=["a"], request="51" * 8).receipts for _ in range(2)
        ]
        assert by_rounds[0] == by_rounds[1]


def test_bad_requests_are_refused() -> None:
    store = filled(MemoryStore())
    for wrong in ({"subjects": "ada"}, {}, {"subjects": ["x"], "rounds": [1]}, {"rounds": [1]}):
        with pytest.raises(ParameterError):
            forget(store, **wrong)
    with pytest.raises(ParameterError, match="there is no stream 'z'; there is a, b, c"):
        forget(store, ["ada"], streams=["a", "z"])
    assert "rounds must be whole numbers" in forget(store, rounds=[101], streams=["a"]).troubles["a"]


def test_streams_are_removed_also_those_that_are_open(tmp_path: Path) -> None:
    with SqliteStore(tmp_path / "s.db") as store:
        filled(store)
        store.release()
        written = fill(store, "d")
        fill(store, "e", n=10)
        done = remove(store, ["a", "d", "c", "nobody", "e"])
        assert (done.streams, done.troubles) == ((0, 1, 2, 3, 4), {})
        assert store.names() == ("b",)
        assert store.live("d") is None
        with pytest.raises(StoreError, match="it was removed"):
            written.push(1.0)
    assert set(read_streams(tmp_path / "s.db")) == {"b"}


def test_the_ids_of_one_list_look_independent_and_a_repeated_request_has_the_same_ones() -> None:
    found = [forget_pseudonyms(filled(MemoryStore()), [f"p{i}" for i in range(64)], request="r-1") for _ in range(2)]
    first, again = ([receipt.id for receipt in result.receipts] for result in found)
    assert first == again
    distances = [(int(one, 16) ^ int(other, 16)).bit_count() for one, other in pairwise(first)]
    assert 28 < np.mean(distances) < 36, "half of 64 bits, within eight standard errors"
