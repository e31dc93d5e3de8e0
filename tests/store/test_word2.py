"""A store with words of version 2, as its code wrote them: every answer stays, and updates write the present word."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from old_stores import FIXTURES, check_stream_goes_on
from reading import read_streams
from vestige import SqliteStore
from vestige.policies import Encoded
from vestige.serialization import from_dict
from vestige.store import open_reader

FACTS: dict[str, Any] = json.loads((FIXTURES / "word2.json").read_text())


@pytest.fixture
def path(tmp_path: Path) -> Path:
    shutil.copyfile(FIXTURES / "word2.db", tmp_path / "word2.db")
    (tmp_path / "word2.db").chmod(0o600)
    return tmp_path / "word2.db"


def test_every_number_is_read_as_it_was(path: Path) -> None:
    with SqliteStore(path):
        pass  # the format of the file is version 4
    there = read_streams(path)
    assert set(there) == set(FACTS)
    for name, facts in FACTS.items():
        terms, state = there[name]
        policy = from_dict(terms.policy)
        assert isinstance(policy, Encoded)
        assert state.clock.word == 2
        reading = policy._read(state.clock, state.retained)
        assert reading.numbers == pytest.approx(facts["numbers"], rel=1e-15), name
        assert reading.off.tolist() == facts["off"], name
        answer = policy.answer(state.clock, state.retained)
        assert np.ravel(answer.value) == pytest.approx(facts["answer"], rel=1e-12), name
        assert answer.missed == facts["missed"], name
    assert open_reader(path).verify() == ()
    assert [name for name, facts in FACTS.items() if facts["missed"]] == ["moments/off"]


@pytest.mark.parametrize("name", FACTS)
def test_its_streams_go_on_in_the_present_word(path: Path, name: str) -> None:
    check_stream_goes_on(path, name, 2, FACTS[name]["missed"])
