"""The writer: a commit that fails is as if it had never been, and sending rows again counts them once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from vestige import open_store
from vestige.errors import StoreError
from vestige.ingest.definition import Definition
from vestige.service.bodies import read_body
from vestige.service.engine import Engine
from vestige.service.problems import RefusalError
from vestige.service.requests import Counts
from vestige.sources.block import Block

VISITS = {"name": "visits", "columns": ["spent"], "by": "country", "retention": 96, "seed": 0}
ONE, TWO = b"1" * 8, b"2" * 8
"""Fingerprints of bodies."""


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    made = Engine(open_store(tmp_path / "visits.db"))
    made.start()
    made.submit(lambda: made.catalog.create(Definition.from_data(VISITS))).result()
    yield made
    made.stop()


def read_rows(engine: Engine, text: str) -> Block:
    return read_body(text.encode(), "application/x-ndjson", engine.catalog.find("visits").columns)


def count_visits(engine: Engine) -> dict[str, int]:
    with engine.read() as catalog:
        counts = catalog.find("visits").streams.counts()
        return dict(zip(counts.names.tolist(), counts.t.tolist(), strict=True))


def fail_commits(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: Any) -> None:
        raise StoreError("the disk is full")

    monkeypatch.setattr(type(engine.store._tables.rows), "save_about", fail)  # type: ignore[attr-defined]


def test_a_request_that_is_sent_again_is_answered_and_not_counted(engine: Engine) -> None:
    rows = read_rows(engine, '{"spent": 1, "country": "DE"}\n{"spent": 2, "country": "FR"}\n{"country": "FR"}')
    assert engine.take_rows("visits", rows, "a", ONE).result() == (Counts(2, 0, 1), False)
    assert engine.take_rows("visits", rows, "a", ONE).result() == (Counts(2, 0, 1), True)
    assert count_visits(engine) == {"visits/DE": 1, "visits/FR": 1}
    with pytest.raises(RefusalError, match="another body") as refused:
        engine.take_rows("visits", rows, "a", TWO).result()
    assert refused.value.status == 409


def test_rows_whose_commit_fails_are_not_in_memory_either_and_count_once_when_sent_again(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = read_rows(engine, '{"spent": 1, "country": "DE"}')
    engine.take_rows("visits", first, "a", ONE).result()
    rows = read_rows(engine, '{"spent": 3, "country": "DE"}\n{"spent": 2, "country": "FR"}')
    with monkeypatch.context() as broken:
        fail_commits(engine, broken)
        with pytest.raises(RefusalError) as refused:
            engine.take_rows("visits", rows, "b", TWO).result()
    assert (refused.value.status, refused.value.headers["Retry-After"]) == (503, "1")
    assert count_visits(engine) == {"visits/DE": 1}
    assert engine.take_rows("visits", rows, "b", TWO).result() == (Counts(2, 0, 0), False)
    assert engine.take_rows("visits", rows, "b", TWO).result() == (Counts(2, 0, 0), True)
    assert count_visits(engine) == {"visits/DE": 2, "visits/FR": 1}


def test_a_refused_row_takes_nothing_of_its_request_and_all_of_the_others(engine: Engine) -> None:
    good = read_rows(engine, '{"spent": 1, "country": "DE"}')
    bad = read_rows(engine, '{"spent": 1, "country": "DE"}\n{"spent": 1, "country": "\\u0000x"}')
    answers = [engine.take_rows("visits", rows, key, ONE) for key, rows in (("a", good), ("b", bad), ("c", good))]
    assert answers[0].result()[0].taken == answers[2].result()[0].taken == 1
    with pytest.raises(RefusalError, match="NUL"):
        answers[1].result()
    assert count_visits(engine) == {"visits/DE": 2}


def test_a_stopped_engine_has_done_what_waited_and_refuses_the_rest(tmp_path: Path) -> None:
    engine = Engine(open_store(tmp_path / "visits.db"))
    engine.start()
    engine.submit(lambda: engine.catalog.create(Definition.from_data(VISITS))).result()
    rows = read_rows(engine, '{"spent": 1, "country": "DE"}')
    waiting = [engine.take_rows("visits", rows, str(i), ONE) for i in range(50)]
    engine.stop()
    assert sum(each.result()[0].taken for each in waiting) == 50
    with pytest.raises(RefusalError, match="stopping"):
        engine.take_rows("visits", rows, "x", ONE)
    again = Engine(open_store(tmp_path / "visits.db"))
    assert count_visits(again) == {"visits/DE": 50}
    again.store.close()


def open_copy(path: Path, folder: Path) -> Engine:
    """An engine on what a process that is killed now would leave."""
    folder.mkdir()
    for file in path.parent.glob(f"{path.name}*"):
        (folder / file.name).write_bytes(file.read_bytes())
        (folder / file.name).chmod(0o600)
    made = Engine(open_store(folder / path.name))
    made.start()
    return made


def test_the_next_process_answers_a_request_that_was_flushed_and_counts_nothing_twice(
    engine: Engine, tmp_path: Path
) -> None:
    rows = read_rows(engine, '{"spent": 1, "country": "DE"}\n{"country": "FR"}')
    assert engine.take_rows("visits", rows, "a", ONE).result() == (Counts(1, 0, 1), False)
    again = open_copy(tmp_path / "visits.db", tmp_path / "left")
    assert again.take_rows("visits", rows, "a", ONE).result() == (Counts(1, 0, 1), True)
    with pytest.raises(RefusalError, match="another body"):
        again.take_rows("visits", rows, "a", TWO).result()
    assert again.take_rows("visits", rows, "b", ONE).result() == (Counts(1, 0, 1), False)
    assert count_visits(again) == {"visits/DE": 2}
    again.stop()


@pytest.mark.parametrize("by", [None, "country"])
def test_a_definition_is_there_before_its_first_row_and_leaves_nothing_when_it_is_removed(
    tmp_path: Path, by: str | None
) -> None:
    path = tmp_path / "visits.db"
    data = {**VISITS, "name": "unmistakable", "by": by, "max_age": "30d", "lateness": "1h"}
    engine = Engine(open_store(path))
    engine.start()
    assert engine.submit(lambda: engine.catalog.create(Definition.from_data(data))).result()
    again = open_copy(path, tmp_path / "left")
    assert again.catalog.find("unmistakable").definition == Definition.from_data(data)
    assert not again.submit(lambda: again.catalog.create(Definition.from_data(data))).result()
    rows = read_body(
        b'{"spent": 1, "country": "DE"}', "application/x-ndjson", again.catalog.find("unmistakable").columns
    )
    assert again.take_rows("unmistakable", rows, "a", ONE).result()[0].taken == 1
    assert again.submit(lambda: again.catalog.remove("unmistakable")).result() == 1
    again.stop()
    assert not any(b"unmistakable" in file.read_bytes() for file in (tmp_path / "left").iterdir())
    third = Engine(open_store(tmp_path / "left" / path.name))
    assert third.catalog.served == {}
    third.store.close()
    engine.stop()
