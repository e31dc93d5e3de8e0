"""A store of version 3 of the format, as its code wrote it: every answer stays, and updates write the present word."""

from __future__ import annotations

import re
import struct
from pathlib import Path

import numpy as np
import pytest

from old_stores import check_readers_refuse, check_stream, check_stream_goes_on, copy_store, open_old, read_facts
from reading import read_streams
from troubled import set_header, set_word
from vestige import Estimate, SqliteStore
from vestige.channels import version1
from vestige.clock import WORD_VERSION, Clock
from vestige.errors import ParameterError, StoreError
from vestige.operations import sweep
from vestige.policies import Encoded
from vestige.serialization import from_dict
from vestige.store import open_reader
from vestige.store.rows import DAMAGED
from vestige.stream import open_stream

FACTS = read_facts(3)
ENCODED = [name for name, facts in FACTS.items() if facts["encoded"]]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return copy_store(3, tmp_path)


def test_readers_say_so_in_a_sentence_and_leave_it_as_it_is(path: Path) -> None:
    check_readers_refuse(path, 3)


def test_a_writer_brings_it_up_to_date_and_every_answer_stays(path: Path) -> None:
    with SqliteStore(path):
        pass
    there = read_streams(path)
    assert tuple(there) == tuple(FACTS)
    for name, facts in FACTS.items():
        terms, state = there[name]
        check_stream(terms, state, facts)
        policy, clock, held = from_dict(terms.policy), state.clock, state.retained
        if facts["encoded"]:
            assert isinstance(policy, Encoded)
            assert policy._read(clock, held).numbers.tolist() == facts["encoded"], name
        answer = policy.answer(clock, held)
        assert isinstance(answer, Estimate)
        assert np.ravel(answer.value) == pytest.approx(facts["answer"], rel=1e-12), name
        assert answer.missed == facts["missed"], name
    assert open_reader(path).verify() == ()
    assert {name for name, facts in FACTS.items() if facts["missed"]} == {"mean/average, off", "moments/coarse"}


@pytest.mark.parametrize("name", ["moments", "moments/coarse", "mean/spread", "regression", "loss", "private/moments"])
def test_the_rounding_that_version_3_counted_is_told_from_the_length_of_words(name: str) -> None:
    clock, size = dict(FACTS[name]["clock"]), len(FACTS[name]["encoded"])
    told = version1.find_rounding(clock["last"] - clock["first"] + 1, size, clock["last"])
    assert told == pytest.approx(clock["rounding"], rel=0.1)


@pytest.mark.parametrize("name", ["moments/requests", "private/requests", "regression"])
def test_numbers_that_records_which_had_to_leave_made_coarse_stay_off(path: Path, name: str) -> None:
    """What the old clock counted is more than the length says, and the next update passes it on."""
    set_header(path, name, struct.pack("<d", 0.25))
    with SqliteStore(path) as store:
        assert open_old(store, name).estimate().missed
    assert read_streams(path)[name][1].clock.rounding == 0.25
    check_stream_goes_on(path, name, 1, missed=True)


@pytest.mark.parametrize("name", ENCODED)
def test_its_streams_go_on_in_the_present_word(path: Path, name: str) -> None:
    """After an update, the numbers are those of version 1 moved by its records, or are said to be off."""
    check_stream_goes_on(path, name, 1, FACTS[name]["missed"])


@pytest.mark.parametrize(
    "name", ["mean/average", "mean/requests", "moments/requests", "private/requests", "regression"]
)
def test_a_batch_that_is_written_again_is_written_in_the_present_word(path: Path, name: str) -> None:
    """Here a kept record leaves immediately, and nothing that waits suffices for an update."""
    with SqliteStore(path) as store:
        stream = open_old(store, name)
        policy, before, held = stream.policy, stream.clock, stream.retained
        assert isinstance(policy, Encoded)
        wanted = policy._compute_numbers(before, held)
        stream.forget(rounds=int(held.rounds[0]), now=True)
        clock, left = stream.clock, stream.retained
    assert (clock.word, clock.first, clock.since) == (WORD_VERSION, before.first, before.since)
    near = policy.statistic.find_deviations(held.values, wanted) / np.sqrt(policy._find_worth(before, held)) / 2.0
    assert (np.abs(policy._compute_numbers(clock, left) - wanted) <= near).all()


@pytest.mark.parametrize("version", [0, WORD_VERSION + 1, 255])
def test_an_unknown_version_is_refused_and_left_as_it_is(path: Path, version: int) -> None:
    with SqliteStore(path):
        pass
    before = read_streams(path)
    set_word(path, "moments", version)
    newer = (
        f"its encoded batch is written in version {version} of the word, and this Vestige reads versions 1 to "
        f"{WORD_VERSION}; the stream is not damaged: use a newer Vestige"
    )
    what = newer if version > 0 else f"a stored row cannot be read (bits changed outside Vestige); {DAMAGED}"
    text = f"{path}, stream 'moments': {what}"
    found = open_reader(path).verify()
    assert text in found
    assert version <= 0 or found == (text,), "nothing else is wrong with a newer stream"
    image = path.read_bytes()
    with SqliteStore(path) as store:
        for ask in (lambda: open_stream(store, "moments"), lambda: store.terms("moments"), store.tidy):
            with pytest.raises(StoreError, match=f"^{re.escape(text)}$"):
                ask()
        assert path.read_bytes() == image
        result = sweep(store)
        assert (result.troubles, len(result.streams)) == ({"moments": text}, len(FACTS) - 1)
        open_old(store, "mean/auto").extend([5.0] * 48)
        store.remove("mean/bits")
    set_word(path, "moments", 1)
    assert read_streams(path)["moments"] == before["moments"]
    set_word(path, "moments", version)
    with SqliteStore(path) as store:
        store.remove("moments")
    assert "moments" not in read_streams(path)


@pytest.mark.parametrize("word", [0, WORD_VERSION + 1, -1, 1.5, None, "1"])
def test_no_clock_has_an_unknown_version(word: object) -> None:
    sentence = rf"word=.* \(1 to {WORD_VERSION}\); use the Vestige that wrote it$|is not a valid clock"
    with pytest.raises(ParameterError, match=sentence):
        Clock(word=word)  # type: ignore[arg-type]
