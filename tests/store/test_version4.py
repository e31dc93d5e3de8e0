"""A store of version 4 of the format, as its code wrote it: all comes out as it was, with an empty ledger."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path

import pytest

from old_stores import check_readers_refuse, check_records, copy_store, read_facts
from reading import read_streams
from vestige import SqliteStore
from vestige.clock import Clock
from vestige.operations import forget, sweep
from vestige.store import RECEIPTS_KEPT, Ledger, Position, Receipt, Terms, open_reader
from vestige.stream import open_stream

FACTS = read_facts(4)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return copy_store(4, tmp_path)


def test_readers_say_so_in_a_sentence_and_leave_it_as_it_is(path: Path) -> None:
    check_readers_refuse(path, 4)


def test_a_writer_brings_it_up_to_date(path: Path) -> None:
    with SqliteStore(path):
        pass
    there = read_streams(path)
    assert tuple(there) == tuple(FACTS)
    for name, facts in FACTS.items():
        terms, state = there[name]
        assert terms == Terms.parse(json.dumps(facts["terms"]))
        assert state.clock == Clock(**facts["clock"])
        check_records(state.retained, facts)
        assert state.retained.numbers.tolist() == facts["numbers"]
        assert state.positions == {
            s: Position(bytes.fromhex(mark), slot) for s, (mark, slot) in facts["positions"].items()
        }
        assert state.receipts == tuple(map(read_receipt, facts["receipts"]))
        assert all((r.reference, r.keep) == (None, RECEIPTS_KEPT) for r in state.receipts)
        assert state.settled == 0
    assert open_reader(path).snapshot().ledger == Ledger()
    assert open_reader(path).verify(at=datetime.fromisoformat(FACTS["mean"]["receipts"][0][1])) == ()


def read_receipt(facts: list[str | int | None]) -> Receipt:
    name, requested, asked, due_round, due, erased, done = facts
    later, at = (None if text is None else datetime.fromisoformat(str(text)) for text in (due, erased))
    rounds, met = (int(str(asked)), int(str(due_round))), None if done is None else int(done)
    return Receipt(str(name), datetime.fromisoformat(str(requested)), *rounds, later, at, met)


def test_requests_to_it_are_filed_and_met(path: Path) -> None:
    with SqliteStore(path) as store:
        forget(store, ["eve"], references=["T-1"])
        for name in store.names():
            stream = open_stream(store, name, seed=1)
            stream.extend([1.0] * stream.batch)
        sweep(store)
        (receipt,) = store.read_ledger().receipts
        assert receipt.erased is not None
        assert all(state.settled == 1 for _, state in store.snapshot().streams.values())
