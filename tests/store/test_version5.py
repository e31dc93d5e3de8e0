"""A store of version 5 of the format, as its code wrote it: all comes out as it was, its ledger too."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from old_stores import check_readers_refuse, copy_store, read_facts
from reading import read_streams
from vestige import SqliteStore
from vestige.clock import Clock
from vestige.store import Position, Terms, open_reader
from vestige.stream import open_stream

FACTS: dict[str, Any] = read_facts(5)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return copy_store(5, tmp_path)


def test_readers_say_so_in_a_sentence_and_leave_it_as_it_is(path: Path) -> None:
    check_readers_refuse(path, 5)


def test_a_writer_brings_it_up_to_date(path: Path) -> None:
    with SqliteStore(path):
        pass
    there = read_streams(path)
    assert set(there) == set(FACTS["streams"])
    for name, facts in FACTS["streams"].items():
        terms, state = there[name]
        assert terms == Terms.parse(json.dumps(facts["terms"]))
        assert state.clock == Clock(**facts["clock"])
        held = state.retained
        assert held.rounds.tolist() == facts["rounds"]
        values = np.array([[np.nan if each is None else each for each in row] for row in facts["values"]])
        assert np.array_equal(held.values, values, equal_nan=True)
        assert held.leaving.tolist() == facts["leaving"]
        assert [None if np.isnat(t) else str(t) for t in held.times] == facts["times"]
        assert list(held.subjects) == facts["subjects"]
        assert held.numbers.tolist() == facts["numbers"]
        positions = {s: Position(bytes.fromhex(mark), slot) for s, (mark, slot) in facts["positions"].items()}
        assert state.positions == positions
        assert [receipt.to_dict() for receipt in state.receipts] == facts["receipts"]
        assert state.settled == facts["settled"]
    ledger = open_reader(path).snapshot().ledger
    assert [receipt.to_dict() for receipt in ledger.receipts] == FACTS["ledger"]
    assert ledger.newest == FACTS["newest"]
    assert open_reader(path).verify() == ()


def test_its_streams_answer_as_before_and_note_their_bits_from_the_next_update_on(path: Path) -> None:
    with SqliteStore(path) as store:
        for name, facts in FACTS["streams"].items():
            stream = open_stream(store, name, seed=1)
            assert np.ravel(stream.estimate().value).tolist() == facts["value"]
            assert stream.clock.bits == 0
        stream = open_stream(store, "mean", seed=1)
        stream.extend([1.0] * stream.batch)
        assert stream.clock.bits == stream.batch
