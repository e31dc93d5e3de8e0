"""The writer: a commit that fails is as if it had never been, and sending rows again counts them once."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from vestige import open_store
from vestige.errors import StoreError
from vestige.ingest.definition import Definition
from vestige.service.bodies import NDJSON, read_body
from vestige.service.catalog import Served
from vestige.service.engine import Engine, RowsRequest
from vestige.service.problems import RefusalError
from vestige.service.requests import Counts
from vestige.sources.block import Block
from vestige.store.taken_requests import KEPT
from vestige.times import wall_clock

VISITS = {"name": "visits", "columns": ["spent"], "by": "country", "retention": 96, "seed": 0}
ONE, TWO = b"1" * 8, b"2" * 8
"""Fingerprints of bodies."""
LIMIT = 60.0
"""Seconds to wait for an answer."""


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    made = Engine(open_store(tmp_path / "visits.db"))
    made.start()
    made.submit(lambda: made.catalog.create(Definition.from_data(VISITS))).result()
    yield made
    made.stop()


def read_rows(engine: Engine, text: str) -> Block:
    return read_body(text.encode(), NDJSON, engine.catalog.find("visits").columns).block


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
    columns = again.catalog.find("unmistakable").columns
    rows = read_body(b'{"spent": 1, "country": "DE"}', NDJSON, columns).block
    assert again.take_rows("unmistakable", rows, "a", ONE).result()[0].taken == 1
    assert again.submit(lambda: again.catalog.remove("unmistakable")).result() == 1
    again.stop()
    assert not any(b"unmistakable" in file.read_bytes() for file in (tmp_path / "left").iterdir())
    third = Engine(open_store(tmp_path / "left" / path.name))
    assert third.catalog.served == {}
    third.store.close()
    engine.stop()


def test_health_says_failing_until_the_store_can_be_written_again(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = read_rows(engine, '{"spent": 1, "country": "DE"}')
    with monkeypatch.context() as broken:
        fail_commits(engine, broken)
        for key in "ab":
            with pytest.raises(RefusalError):
                engine.take_rows("visits", rows, key, ONE).result()
            assert engine.status == "failing"
        with pytest.raises(RefusalError):
            engine.submit(lambda: None).result()
        assert count_visits(engine) == {}, "what the store has can be read meanwhile"
    for _ in range(100):
        if engine.status == "ok":
            break
        time.sleep(0.05)
    assert engine.status == "ok", "found out without a request"
    assert engine.take_rows("visits", rows, "a", ONE).result() == (Counts(1, 0, 0), False)


def test_health_says_failing_where_there_is_room_for_few_bytes_only(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fill(_: object) -> None:
        raise StoreError("database or disk is full")

    rows = read_rows(engine, '{"spent": 1, "country": "DE"}')
    with monkeypatch.context() as full:
        full.setattr(engine.notes, "note_requests", fill)
        with pytest.raises(RefusalError):
            engine.take_rows("visits", rows, "a", ONE).result()
        assert engine.submit(lambda: engine.status).result() == "failing"
    assert engine.take_rows("visits", rows, "a", ONE).result() == (Counts(1, 0, 0), False)
    assert engine.status == "ok"


def test_a_request_that_breaks_the_service_is_refused_alone(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    engine.submit(lambda: engine.catalog.create(Definition.from_data({**VISITS, "name": "others"}))).result()
    rows, poison = (
        read_rows(engine, '{"spent": 1, "country": "DE"}'),
        read_rows(engine, '{"spent": 7, "country": "DE"}'),
    )
    take = engine._take_block

    def fail(served: Served, block: Block) -> Counts:
        counts = take(served, block)
        if block is poison:
            raise RuntimeError
        return counts

    monkeypatch.setattr(engine, "_take_block", fail)
    blocker = threading.Event()
    engine.submit(blocker.wait)
    sent = [("visits", rows), ("visits", poison), ("others", rows), ("visits", rows)]
    answers = [engine.take_rows(name, block, str(i), ONE) for i, (name, block) in enumerate(sent)]
    blocker.set()
    with pytest.raises(RefusalError) as refused:
        answers[1].result()
    assert refused.value.status == 503
    assert [answers[i].result() for i in (0, 2, 3)] == [(Counts(1, 0, 0), False)] * 3
    assert count_visits(engine) == {"visits/DE": 2}
    assert engine.status == "ok"


def test_a_family_that_cannot_be_flushed_does_not_keep_another_from_being_taken(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine.submit(lambda: engine.catalog.create(Definition.from_data({**VISITS, "name": "others"}))).result()
    rows, streams = read_rows(engine, '{"spent": 1, "country": "DE"}'), engine.catalog.find("others").streams

    def fail() -> None:
        if len(streams):
            raise StoreError("no")

    monkeypatch.setattr(streams, "flush", fail)
    blocker = threading.Event()
    engine.submit(blocker.wait)
    answers = [engine.take_rows(name, rows, "a", ONE) for name in ("visits", "others", "visits")]
    blocker.set()
    assert answers[0].result() == (Counts(1, 0, 0), False)
    assert answers[2].result() == (Counts(1, 0, 0), True)
    with pytest.raises(RefusalError):
        answers[1].result()
    monkeypatch.undo()
    assert engine.take_rows("others", rows, "a", ONE).result() == (Counts(1, 0, 0), False)


def test_a_request_whose_client_went_away_while_it_waited_is_not_taken(engine: Engine) -> None:
    rows, blocker = read_rows(engine, '{"spent": 1, "country": "DE"}'), threading.Event()
    engine.submit(blocker.wait)
    gone, stays = (engine.take_rows("visits", rows, key, ONE) for key in "ab")
    assert gone.cancel()
    blocker.set()
    assert stays.result()[0].taken == 1
    assert engine.take_rows("visits", rows, "a", ONE).result() == (Counts(1, 0, 0), False)
    assert count_visits(engine) == {"visits/DE": 2}


def test_a_reader_waits_for_one_commit_and_not_for_a_busy_writer(engine: Engine) -> None:
    rows = read_rows(engine, '{"spent": 1, "country": "DE"}')
    done, waits = threading.Event(), list[float]()

    def write(number: int) -> None:
        i = 0
        while not done.is_set():
            engine.take_rows("visits", rows, f"{number} {i}", ONE).result()
            i += 1

    writers = [threading.Thread(target=write, args=(number,)) for number in range(4)]
    for writer in writers:
        writer.start()
    for _ in range(20):
        began = time.monotonic()
        with engine.read() as catalog, engine.read():
            assert catalog.find("visits")
        waits.append(time.monotonic() - began)
    done.set()
    for writer in writers:
        writer.join()
    assert sorted(waits)[10] < 1.0


def test_what_a_job_changes_is_flushed_before_its_answer(engine: Engine, tmp_path: Path) -> None:
    streams = engine.catalog.find("visits").streams
    engine.submit(lambda: streams.take(["visits/FR"], [[2.0]])).result()
    again = open_copy(tmp_path / "visits.db", tmp_path / "left")
    assert count_visits(again) == {"visits/FR": 1}
    again.stop()


def test_many_rows_are_not_written_together_and_not_kept_waiting(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vestige.service.engine.GROUP_ROWS", 2)
    monkeypatch.setattr("vestige.service.engine.WAITING_ROWS", 5)
    rows, blocker, groups = read_rows(engine, '{"spent": 1, "country": "DE"}'), threading.Event(), list[int]()
    take = engine._take

    def note(requests: Sequence[RowsRequest]) -> None:
        groups.append(len(requests))
        take(requests)

    monkeypatch.setattr(engine, "_take", note)
    engine.submit(blocker.wait)
    time.sleep(0.05)
    waiting = [engine.take_rows("visits", rows, str(i), ONE) for i in range(5)]
    with pytest.raises(RefusalError) as refused:
        engine.take_rows("visits", rows, "x", ONE)
    assert refused.value.status == 429
    blocker.set()
    assert sum(each.result()[0].taken for each in waiting) == 5
    assert groups == [2, 2, 1]


def test_who_listens_cannot_stop_the_writer(tmp_path: Path) -> None:
    def fail(_kind: str, _facts: dict[str, object]) -> None:
        raise RuntimeError

    engine = Engine(open_store(tmp_path / "visits.db"), fail)
    engine.start()
    engine.submit(lambda: engine.catalog.create(Definition.from_data(VISITS))).result()
    rows = read_rows(engine, '{"spent": 1, "country": "DE"}')
    for key in "ab":
        assert engine.take_rows("visits", rows, key, ONE).result(10)[0].taken == 1
    engine.stop()


def test_streams_that_were_closed_are_opened_again(engine: Engine) -> None:
    rows = read_rows(engine, '{"spent": 1, "country": "DE"}')
    engine.take_rows("visits", rows, "a", ONE).result()
    engine.store.release()
    with pytest.raises(RefusalError):
        engine.take_rows("visits", rows, "b", ONE).result()
    assert engine.take_rows("visits", rows, "b", ONE).result() == (Counts(1, 0, 0), False)
    assert count_visits(engine) == {"visits/DE": 2}


def test_requests_expire_while_nothing_arrives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = Engine(open_store(tmp_path / "visits.db"))
    monkeypatch.setattr("vestige.service.engine.EXPIRY", 0.0)
    engine.start()
    engine.submit(lambda: engine.catalog.create(Definition.from_data(VISITS))).result()
    engine.take_rows("visits", read_rows(engine, '{"spent": 1, "country": "DE"}'), "a", ONE).result()
    assert engine.submit(engine.notes.count_requests).result() == 1
    later = wall_clock() + KEPT
    monkeypatch.setattr("vestige.service.engine.wall_clock", lambda: later)
    for _ in range(100):
        if not engine.submit(engine.notes.count_requests).result():
            break
        time.sleep(0.05)
    assert engine.submit(engine.notes.count_requests).result() == 0
    engine.stop()


def test_a_definition_that_differs_in_anything_is_refused(engine: Engine) -> None:
    aged = {**VISITS, "name": "aged", "max_age": "30d", "lateness": "1h"}
    for data, is_new in ((aged, True), ({**aged, "max_age": "2592000s"}, False)):
        assert engine.submit(lambda data=data: engine.catalog.create(Definition.from_data(data))).result() == is_new  # type: ignore[misc]
    for change in ({"lateness": "2h"}, {"seed": 1}, {"retention": 128}, {"by": None}, {"max_ahead": "1m"}):
        with pytest.raises(RefusalError) as refused:
            engine.submit(lambda change=change: engine.catalog.create(Definition.from_data(aged | change))).result()  # type: ignore[misc]
        assert refused.value.status == 409, change


def test_the_requests_of_a_stream_that_was_removed_are_not_answered_for_one_that_is_created_anew(
    engine: Engine, tmp_path: Path
) -> None:
    rows = read_rows(engine, '{"spent": 1, "country": "DE"}')
    engine.take_rows("visits", rows, "a", ONE).result()
    engine.submit(lambda: engine.catalog.remove("visits")).result()
    engine.submit(lambda: engine.catalog.create(Definition.from_data(VISITS))).result()
    assert engine.take_rows("visits", rows, "a", TWO).result() == (Counts(1, 0, 0), False)
    assert count_visits(engine) == {"visits/DE": 1}
    engine.stop()
    again = Engine(open_store(tmp_path / "visits.db"))
    again.start()
    assert again.take_rows("visits", rows, "a", TWO).result() == (Counts(1, 0, 0), True)
    again.stop()


@pytest.mark.parametrize("changed", [{"columns": ["paid"]}, {"by": None}])
def test_rows_that_were_read_for_a_stream_are_not_taken_into_another_of_its_name(
    engine: Engine, changed: dict[str, object]
) -> None:
    columns, rows = engine.catalog.find("visits").columns, read_rows(engine, '{"spent": 1, "country": "DE"}')
    engine.submit(lambda: engine.catalog.remove("visits")).result()
    engine.submit(lambda: engine.catalog.create(Definition.from_data(VISITS | changed))).result()
    with pytest.raises(RefusalError, match="created anew"):
        engine.take_rows("visits", rows, "a", ONE, columns).result()
    assert count_visits(engine) == {}


def test_a_writer_whose_kernels_cannot_be_loaded_still_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("cannot cache function")

    monkeypatch.setattr("vestige.service.engine.rehearse", fail)
    made = Engine(open_store(tmp_path / "visits.db"))
    made.start()
    made.prepare(Definition(name="visits", columns=("spent",), retention=96)).result(LIMIT)
    assert made.submit(lambda: 1).result(LIMIT) == 1
    made.stop()


def test_whoever_creates_a_stream_again_while_its_kernels_are_loaded_waits_for_them(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, go_on = threading.Event(), threading.Event()

    def wait(*_: object, is_timed: bool) -> None:  # noqa: ARG001
        begun.set()
        go_on.wait(LIMIT)

    monkeypatch.setattr("vestige.service.engine.rehearse", wait)
    first = engine.prepare(Definition(name="a", columns=("spent", "sold"), retention=96))
    assert begun.wait(LIMIT)
    again = engine.prepare(Definition(name="b", columns=("sold", "spent"), retention=96))
    assert not again.done()
    go_on.set()
    first.result(LIMIT)
    again.result(LIMIT)


def test_rows_that_were_taken_do_not_count_as_waiting(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vestige.service.engine.WAITING_ROWS", 1)
    rows = read_rows(engine, '{"spent": 1, "country": "DE"}')
    for key in "abc":
        assert engine.take_rows("visits", rows, key, ONE).result(LIMIT) == (Counts(1, 0, 0), False)
