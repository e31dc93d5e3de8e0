"""Notes of a service on every store: they commit with the streams, outlive the process, and are erased."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest

from postgres import Database
from vestige import KeyedStreams, Mean, SqliteStore, Stream, open_store
from vestige.errors import StoreError
from vestige.store import MemoryStore, Store, open_keyring, open_reader
from vestige.store.keyring import Keyring
from vestige.store.service_notes import ServiceNotes
from vestige.store.table_store import TableStore
from vestige.store.taken_requests import GRACE, KEPT, PAGE, TakenRequest, TakenRequests

NOON = datetime(2026, 11, 18, 12, tzinfo=UTC)
VISITS = {"columns": ["spent"], "retention": 96}
Open = Callable[[], Store]


@pytest.fixture(params=["memory", "clear", "sealed", "postgres"])
def reopen(request: pytest.FixtureRequest, tmp_path: Path) -> Open:
    """Opens a store again each time that it is called; the one before must be closed, if there is a file."""
    if request.param == "postgres":
        database: Database = request.getfixturevalue("database")
        return database.open
    path = tmp_path / "visits.db"
    keyring: Keyring | None = None
    if request.param == "sealed":
        keyring = open_keyring(tmp_path / "visits.keyring", create=True)
    memory = MemoryStore()
    return (lambda: memory) if request.param == "memory" else (lambda: SqliteStore(path, keyring=keyring))


def make_requests(store: Store, count: int, at: datetime = NOON, start: int = 0) -> list[TakenRequest]:
    return [
        TakenRequest(bytes.fromhex(store.pseudonym(f"request\0{i}")), i.to_bytes(8, "big"), at, (i, 1, 2, 3))
        for i in range(start, start + count)
    ]


def count_pages(store: Store) -> int:
    assert isinstance(store, TableStore)
    with store._use() as tables:
        return tables.about.pages


def count_in_memory(store: Store) -> int:
    assert isinstance(store, TableStore)
    with store._use() as tables:
        return sum(len(prefixes) for prefixes, _ in tables.requests._runs)


def test_requests_are_found_until_they_expire(reopen: Open) -> None:
    with reopen() as store:
        notes, known = ServiceNotes(store), make_requests(store, 3 * PAGE + 7)
        for start in range(0, len(known), 50):
            notes.note_requests(known[start : start + 50])
        later = make_requests(store, 5, NOON + timedelta(hours=1), start=10_000)
        notes.note_requests(later)
        assert notes.find_requests([each.key for each in known]) == {each.key: each for each in known}
    with reopen() as store:
        notes = ServiceNotes(store)
        assert notes.count_requests() == len(known) + 5
        assert notes.find_requests([known[7].key, b"unknown unknown.", later[0].key]) == {
            each.key: each for each in (known[7], later[0])
        }
        assert notes.expire_requests(NOON + KEPT - timedelta(seconds=1)) == 0
        assert notes.expire_requests(NOON + KEPT) == len(known)
        assert notes.find_requests([each.key for each in known]) == {}
        assert count_in_memory(store) == 5, "nothing of them is in memory either"
        assert notes.find_requests([later[0].key]) == {later[0].key: later[0]}
        more = make_requests(store, PAGE, NOON + timedelta(hours=2), start=20_000)
        notes.note_requests(more)
        assert notes.count_requests() == PAGE + 5
        assert store.verify(at=NOON + KEPT) == ()
        (late,) = store.verify(at=NOON + KEPT + GRACE + timedelta(hours=1))
        assert "5 requests of a service are older than 1 day" in late
        assert notes.expire_requests(NOON + 2 * KEPT) == PAGE + 5
        pages = count_pages(store)
        notes.note_requests(make_requests(store, 3 * PAGE, NOON + 2 * KEPT))
        assert count_pages(store) == pages, "empty pages are used again"
        notes.expire_requests(NOON + 3 * KEPT)
        store.tidy()
        assert count_pages(store) == 0


def test_notes_are_rolled_back_with_what_is_written_beside_them(reopen: Open) -> None:
    with reopen() as store:
        notes, known = ServiceNotes(store), make_requests(store, 2 * PAGE)
        streams = KeyedStreams(Mean(), retention=96, seed=0, store=store.family())
        notes.note_requests(known[:10])
        with suppress(RuntimeError), store.transaction():
            streams.take(np.array(["a"], object), [1.0])
            streams.flush()
            notes.note_requests(known[10:])
            notes.write_definition("visits", VISITS)
            assert notes.find_requests([known[-1].key])
            raise RuntimeError
        assert notes.find_requests([each.key for each in known]).keys() == {each.key for each in known[:10]}
        assert notes.read_definitions() == {}
        notes.note_requests(known[10:])
        assert notes.count_requests() == 2 * PAGE
        streams.reload()
        assert not len(streams)


def test_definitions_are_there_from_the_first_moment_and_gone_when_they_are_erased(reopen: Open) -> None:
    with reopen() as store:
        notes = ServiceNotes(store)
        for name in ("visits", "ünïque-name", "b"):
            notes.write_definition(name, VISITS | {"seed": len(name)})
        notes.write_definition("b", VISITS)
    with reopen() as store:
        notes = ServiceNotes(store)
        assert notes.read_definitions() == {
            "visits": VISITS | {"seed": 6},
            "ünïque-name": VISITS | {"seed": 11},
            "b": VISITS,
        }
        notes.erase_definition("ünïque-name")
        notes.erase_definition("never")
        assert set(notes.read_definitions()) == {"visits", "b"}
        assert store.verify(canaries=["ünïque".encode()]) == ()
        notes.write_definition("c", VISITS)
        store.tidy()
        assert list(notes.read_definitions()) == ["b", "c", "visits"]


def test_no_byte_of_an_expired_request_is_in_a_file(tmp_path: Path) -> None:
    path = tmp_path / "visits.db"
    with SqliteStore(path) as store:
        notes, moment = ServiceNotes(store), NOON
        for day in range(3):
            known = make_requests(store, 1_000, moment, start=1_000 * day)
            for start in range(0, 1_000, 37):
                notes.note_requests(known[start : start + 37])
            image = path.read_bytes()
            assert sum(each.key in image for each in known) > 900, "some lie across two pages"
            moment += KEPT
            notes.expire_requests(moment)
            held = b"".join(file.read_bytes() for file in tmp_path.iterdir())
            assert not any(each.key in held or each.key[:8] in held for each in known)
    assert open_reader(path).verify(at=moment) == ()


def test_the_same_notes_give_the_same_file_whatever_came_before(tmp_path: Path) -> None:
    images = []
    for name, is_detour in (("a.db", False), ("b.db", True)):
        with SqliteStore(tmp_path / name, key=tmp_path / "shared.key") as store:
            notes, known = ServiceNotes(store), make_requests(store, 200)
            if is_detour:
                notes.note_requests(make_requests(store, 300, NOON - KEPT, start=5_000))
                notes.write_definition("gone", VISITS)
                notes.note_requests(known[::-1])
                notes.write_definition("visits", VISITS)
                notes.erase_definition("gone")
                notes.expire_requests(NOON)
            else:
                notes.write_definition("visits", VISITS)
                notes.note_requests(known)
            store.tidy()
            assert notes.find_requests([known[3].key]) == {known[3].key: known[3]}
            assert notes.count_requests() == 200
        image = bytearray((tmp_path / name).read_bytes())
        image[24:28] = image[40:44] = image[92:96] = bytes(4)  # how often it was written, and its tables
        images.append(image)
    assert images[0] == images[1]


def test_the_key_is_needed_while_requests_are_known_and_a_new_one_drops_them(tmp_path: Path) -> None:
    path = tmp_path / "visits.db"
    with SqliteStore(path) as store:
        ServiceNotes(store).note_requests(make_requests(store, 3))
    (tmp_path / "visits.db.key").unlink()
    with SqliteStore(path) as store:
        with pytest.raises(StoreError, match="key"):
            store.pseudonym("somebody")
        assert ServiceNotes(store).count_requests() == 3
        store.rekey()
        assert ServiceNotes(store).count_requests() == count_in_memory(store) == 0
        store.pseudonym("somebody")


@pytest.mark.parametrize("table", ["definitions", "requests"])
@pytest.mark.parametrize(
    "sql", ["DELETE FROM {} WHERE id = 1", "UPDATE {} SET body = zeroblob(length(body)) WHERE id=1"]
)
def test_a_damaged_row_is_noticed_and_streams_go_on(tmp_path: Path, table: str, sql: str) -> None:
    path = tmp_path / "visits.db"
    with SqliteStore(path) as store:
        notes = ServiceNotes(store)
        notes.note_requests(make_requests(store, 2 * PAGE))
        for name in "ab":
            notes.write_definition(name, VISITS)
        Stream(Mean(), retention=96, seed=0, store=store.stream("a")).push(1.0)
        store.flush()
        store._connection.execute(sql.format(table))
    assert any(f"table {table}" in text for text in open_reader(path).verify(at=NOON))
    with SqliteStore(path) as store:
        notes = ServiceNotes(store)
        with pytest.raises(StoreError, match=f"the table {table}"):
            notes.read_definitions() if table == "definitions" else notes.count_requests()
        assert store.names() == ("a",)


@pytest.mark.parametrize("is_expiring", [False, True])
def test_a_read_that_fails_once_hides_no_request(
    reopen: Open, is_expiring: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    with reopen() as store:
        assert isinstance(store, TableStore)
        notes, young = ServiceNotes(store), make_requests(store, 2 * PAGE)
        old = make_requests(store, PAGE, NOON - KEPT, start=1_000)
        mixed = [each for i in range(3) for each in (*young[60 * i : 60 * (i + 1)], *old[30 * i : 30 * (i + 1)])]
        notes.note_requests(mixed)
        with store.transaction(), store._use() as tables:
            read, failing = tables.rows.read, [2]

            def read_or_fail(table: str, row: int, columns: Sequence[str] = ()) -> tuple[bytes, ...] | None:
                if table == "requests" and row in failing:
                    raise StoreError("the disk says no")
                return read(table, row, columns)

            monkeypatch.setattr(tables.rows, "read", read_or_fail)
            tables.requests = tables.requests if is_expiring else TakenRequests(tables.rows)
            with pytest.raises(StoreError, match="says no"):
                tables.requests.expire(NOON) if is_expiring else tables.requests.count()
            failing.clear()
            assert notes.find_requests([each.key for each in young]).keys() == {each.key for each in young}
            assert notes.count_requests() == 3 * PAGE - 30 * is_expiring
            assert notes.expire_requests(NOON) == PAGE - 30 * is_expiring


def test_a_store_without_tables_says_that_it_cannot_be_served() -> None:
    class Other(MemoryStore):
        pass

    assert ServiceNotes(Other()).read_definitions() == {}
    with pytest.raises(StoreError, match="cannot be served"):
        ServiceNotes(object())  # type: ignore[arg-type]


def test_plain_data_comes_back_as_it_was() -> None:
    with open_store("memory:") as store:
        data = json.loads('{"a": [1, 2.5, null, "ü"], "b": {"c": true}}')
        ServiceNotes(store).write_definition("x", data)
        assert ServiceNotes(store).read_definitions() == {"x": data}


def test_keys_that_begin_alike_are_told_apart() -> None:
    with MemoryStore() as store:
        notes = ServiceNotes(store)
        alike = [TakenRequest(bytes(15) + bytes([i]), bytes(8), NOON, (i, 0, 0, 0)) for i in range(2 * PAGE)]
        notes.note_requests(alike)
        assert notes.find_requests([alike[0].key, alike[-1].key]) == {each.key: each for each in (alike[0], alike[-1])}


def test_requests_that_are_overdue_or_there_twice_are_found_by_verify() -> None:
    with MemoryStore() as store:
        notes, known = ServiceNotes(store), make_requests(store, 2)
        notes.note_requests(known)
        assert store.verify(at=NOON + KEPT + GRACE - timedelta(seconds=1)) == ()
        assert "2 requests" in store.verify(at=NOON + KEPT + GRACE)[0]
        notes.note_requests(known[:1])
        assert store.verify(at=NOON) == ("the table requests has a key twice",)


def test_a_definition_that_is_written_again_stays_the_only_one_of_its_name() -> None:
    with MemoryStore() as store:
        notes = ServiceNotes(store)
        for name in "ab":
            notes.write_definition(name, VISITS)
        notes.erase_definition("a")
        notes.write_definition("b", VISITS | {"seed": 1})
        with store._use() as tables:
            assert [body[:2] for _, (_, body) in tables.rows.iterate("definitions")] == [b"", b'["']
        notes.write_definition("a", VISITS)
        assert notes.read_definitions() == {"a": VISITS, "b": VISITS | {"seed": 1}}
        with store._use() as tables:
            assert tables.about.definitions == 2


def test_a_definition_makes_a_store_untidy_and_has_one_form() -> None:
    with MemoryStore() as store:
        notes, texts = ServiceNotes(store), list[bytes]()
        for data in (VISITS, dict(reversed(VISITS.items()))):
            store.tidy()
            notes.write_definition("a", data)
            with store._use() as tables:
                assert tables.about.untidy
                texts += [body for _, (_, body) in tables.rows.iterate("definitions")]
        assert texts[0] == texts[1]
        store.tidy()
        notes.erase_definition("a")
        with store._use() as tables:
            assert tables.about.untidy
