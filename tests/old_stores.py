"""Stores of earlier versions of the format, as their code wrote them, and what all of them must pass."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from reading import read_streams
from vestige import SqliteStore
from vestige.clock import WORD_VERSION, Clock
from vestige.errors import StoreError
from vestige.policies import Encoded
from vestige.records import Records
from vestige.store import Position, State, Terms, open_reader
from vestige.store.position import encode_count
from vestige.stream import Stream, open_stream
from vestige.types import Floats

FIXTURES = Path(__file__).with_name("store") / "fixtures"


def read_facts(version: int) -> dict[str, Any]:
    """What the store of this version holds, by stream."""
    facts: dict[str, Any] = json.loads((FIXTURES / f"version{version}.json").read_text())
    return facts


def copy_store(version: int, folder: Path) -> Path:
    """A copy of the store of this version and of its key, for their owner only."""
    for name in (f"version{version}.db", f"version{version}.db.key"):
        shutil.copyfile(FIXTURES / name, folder / name)
        (folder / name).chmod(0o600)
    return folder / f"version{version}.db"


def check_readers_refuse(path: Path, version: int) -> None:
    """Readers say in a sentence what to do, and leave the file as it is."""
    image, written = path.read_bytes(), f"{path.name}: was written in version {version} "
    text = f"{written}.* open it once for writing, as vestige sweep does, .* to version 9$"
    with pytest.raises(StoreError, match=text):
        read_streams(path)
    assert any(f"was written in version {version}" in found for found in open_reader(path).verify())
    assert path.read_bytes() == image


def check_stream(terms: Terms, state: State, facts: dict[str, Any]) -> None:
    """Of versions 2 and 3: all is as it was, with words of version 1; the rounding to seven digits."""
    assert terms == Terms.parse(json.dumps(facts["terms"]))
    clock = {**facts["clock"], "rounding": float(np.float32(facts["clock"]["rounding"]))}
    assert state.clock == Clock(**clock, word=1)
    check_records(state.retained, facts)
    assert state.retained.numbers.tolist() == facts["numbers"]
    assert state.positions == {
        source: Position(encode_count(rows) + bytes.fromhex(mark), slot)
        for source, (rows, mark, slot) in facts["positions"].items()
    }
    receipts = [
        [receipt.id, receipt.requested.isoformat(), receipt.requested_round, receipt.due_round, receipt.erased_round]
        for receipt in state.receipts
    ]
    assert receipts == facts["receipts"]


def check_records(held: Records, facts: dict[str, Any], start: int = 0) -> None:
    """The records are those that were written, from number `start` on."""
    assert held.rounds.tolist() == facts["rounds"][start:]
    assert held.values.tolist() == facts["values"][start:]
    assert held.leaving.tolist() == facts["leaving"][start:]
    assert [None if np.isnat(t) else str(t) for t in held.times] == facts["times"][start:]
    assert list(held.subjects) == facts["subjects"][start:]


def open_old(store: SqliteStore, name: str) -> Stream:
    """Open a stream of an old store with its seed, if it may have one."""
    return open_stream(store, name, seed=None if name.startswith("private") else 1)


def find_errors(policy: Encoded, clock: Clock, records: Records, numbers: Floats) -> Floats:
    """Half of the standard error of each number, and six deviations of the noise that one batch adds."""
    deviations = policy.statistic.find_deviations(records.values, numbers)
    length, worth = clock.last - clock.first + 1, policy._find_worth(clock, records)
    errors: Floats = deviations / np.sqrt(worth) / 2.0 + 6.0 * policy.batch_noise(length) * length / clock.encoded
    return errors


def check_stream_goes_on(path: Path, name: str, word: int, missed: bool) -> None:
    """After an update, the numbers are those of the version before moved by its records, or are said to be off."""
    rng = np.random.default_rng(0)
    with SqliteStore(path) as store:
        stream = open_old(store, name)
        policy, before, held = stream.policy, stream.clock, stream.retained
        assert isinstance(policy, Encoded)
        assert before.word == word
        rows = []
        while stream.clock.last == before.last:
            rows.append(held.values[rng.integers(len(held))])
            stream.push(rows[-1])
        clock = stream.clock
        assert (clock.word, clock.rounding) == (WORD_VERSION, 0.0)
        assert (clock.since, clock.gaps) == (before.since, before.gaps)
    state = read_streams(path)[name][1]
    assert state.clock == clock
    everything = held.concat(Records(np.arange(before.t + 1, clock.t + 1), rows))
    wanted = policy._compute_numbers(replace(before, t=clock.t), everything)
    numbers, off, _ = policy._read(clock, state.retained)
    near = np.abs(numbers - wanted) <= find_errors(policy, clock, everything, wanted)
    assert (near | off).all()
    assert off.any() == missed, "what was said to be off stays so"
