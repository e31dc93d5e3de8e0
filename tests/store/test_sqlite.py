"""The embedded store: what it remembers, and what it says when something is wrong."""

from __future__ import annotations

import copy
import os
import pickle
import resource
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from reading import read_streams
from vestige import Mean, MemoryStore, Moments, SqliteStore, Stream, Window
from vestige.errors import DataError, ParameterError, StoreBusyError, StoreError, VestigeError
from vestige.store import Position, State, open_reader
from vestige.store.position import decode_count, encode_count
from vestige.store.sqlite.connection import SEALED_VERSION, VERSION

ROWS = np.random.default_rng(0).normal(size=1_000)


def stream_in(store: SqliteStore | MemoryStore, name: str = "a", **options: Any) -> Stream:
    given: dict[str, Any] = {"retention": 96, "seed": 0} | options
    about = given.pop("about", None)
    return Stream(given.pop("policy", Mean()), **given, store=store.stream(name, about=about))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "a.db"


@pytest.fixture
def filled(path: Path) -> Path:
    with SqliteStore(path) as store:
        stream_in(store).extend(ROWS)
    return path


def test_it_goes_on_where_it_stopped(path: Path) -> None:
    plain = Stream(Mean(), retention=96, seed=0)
    for start in range(0, 1_000, 70):
        plain.extend(ROWS[start : start + 70])
        with SqliteStore(path) as store:
            stream = stream_in(store)
            assert stream.t == start
            stream.extend(ROWS[start : start + 70])
            assert (stream.clock, stream.retained) == (plain.clock, plain.retained)
            assert stream.estimate().value == plain.estimate().value


def test_what_is_pushed_is_durable_with_its_batch_or_a_flush(path: Path) -> None:
    with SqliteStore(path) as store:
        stream = stream_in(store)
        for row in ROWS[:50]:
            stream.push(row)
        assert read_streams(path)["a"][1].clock.t == 48
        stream.flush()
        assert read_streams(path)["a"][1].clock.t == 50
    assert read_streams(path)["a"][1].clock.t == 50


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"policy": Mean(channel="bits")}, r'channel="auto".*now vestige.Mean\(channel="bits"'),
        ({"policy": Moments(), "retention": 300}, "vestige.Mean.*now vestige.Moments.*retention=96, now retention=300"),
        ({"retention": 98}, "retention=96, now retention=98"),
        ({"notice": 96}, "notice=none, now notice=96"),
        ({"max_age": timedelta(days=30)}, "max_age=none, now max_age=30 days"),
        ({"about": {"columns": ["x"]}}, 'columns=none, now columns="x"'),
    ],
)
def test_other_terms_are_an_error_that_shows_both(filled: Path, options: dict[str, Any], text: str) -> None:
    with SqliteStore(filled) as store:
        with pytest.raises(StoreError, match=f"stream 'a' was created with other terms: .*{text}.*another name"):
            stream_in(store, **options)
        assert stream_in(store).t == 1_000


def test_streams_do_not_touch_each_other(path: Path) -> None:
    with SqliteStore(path) as store:
        streams = {name: stream_in(store, name) for name in ("a", "b", "ü/ /x")}
        for i, stream in enumerate(streams.values()):
            stream.extend(ROWS + i)
    there = read_streams(path)
    assert list(there) == ["a", "b", "ü/ /x"]
    for i, (_, state) in enumerate(there.values()):
        plain = Stream(Mean(), retention=96, seed=0)
        plain.extend(ROWS + i)
        assert state.retained == plain.retained


def test_positions_are_written_with_the_records(path: Path) -> None:
    with SqliteStore(path) as store:
        stream = stream_in(store)
        stream.extend(ROWS[:100], source="x.csv")
        stream.extend(ROWS[:5], source="y.csv", numbers=np.array([2, 4, 6, 8, 11]))
        assert read_streams(path)["a"][1].positions == {"x.csv": Position(encode_count(96), slot=1)}, (
            "as far as the last update"
        )
    with SqliteStore(path) as store:
        stream = stream_in(store)
        assert [decode_count(stream.position(f"{name}.csv").value) for name in "xyz"] == [100, 11, 0]


def test_subjects_are_hashed_with_a_key_beside_the_store(path: Path) -> None:
    with SqliteStore(path) as store:
        stream_in(store).extend(ROWS[:10], subjects=["ada@example.org"] * 10)
        hashed = store.pseudonym("ada@example.org")
    key = path.with_name("a.db.key")
    assert len(key.read_bytes()) == 32
    assert key.stat().st_mode & 0o077 == 0
    assert b"ada@example" not in path.read_bytes()
    assert set(read_streams(path)["a"][1].retained.subjects) == {hashed}
    with SqliteStore(path) as store:
        assert store.pseudonym("ada@example.org") == hashed
        stream = stream_in(store)
        stream.forget(subject="ada@example.org", now=True)
        assert not len(stream.retained)


def test_the_key_may_lie_elsewhere(path: Path, tmp_path: Path) -> None:
    (tmp_path / "safe").mkdir()
    with SqliteStore(path, key=tmp_path / "safe" / "k") as store:
        stream_in(store).push(1.0, subject="ada")
    assert (tmp_path / "safe" / "k").exists()
    assert not path.with_name("a.db.key").exists()


def test_without_the_key_nobody_is_found_until_all_have_left(path: Path) -> None:
    with SqliteStore(path) as store:
        stream_in(store).extend(ROWS[:10], subjects=["ada"] * 10)
    path.with_name("a.db.key").unlink()
    with SqliteStore(path) as store:
        stream = stream_in(store)
        with pytest.raises(
            StoreError, match=r"a\.db\.key: is missing, so the subjects .* cannot be recognised; put the"
        ):
            stream.forget(subject="ada")
        stream.extend(ROWS[:100])
        stream.push(1.0, subject="ada")
    path.with_name("a.db.key").write_bytes(bytes(32))
    with SqliteStore(path) as store, pytest.raises(StoreError, match="is not the key of this store"):
        stream_in(store).forget(subject="ada")


def test_a_second_writer_is_told_at_once(filled: Path) -> None:
    with SqliteStore(filled) as store:
        stream = stream_in(store)
        program = f"from vestige import SqliteStore; SqliteStore({str(filled)!r})"
        started = time.perf_counter()
        done = subprocess.run([sys.executable, "-c", program], check=False, capture_output=True, text=True)
        assert "is open for writing elsewhere; a store has one writer: close the other one first" in done.stderr
        assert time.perf_counter() - started < 5.0
        with pytest.raises(StoreBusyError, match="is open for writing elsewhere"):
            SqliteStore(filled)
        stream.extend(ROWS)
    with SqliteStore(filled) as store:
        assert stream_in(store).t == 2_000


HOLD = """
import sqlite3, sys, time
connection = sqlite3.connect(sys.argv[1])
connection.execute("BEGIN")
connection.execute("SELECT count(*) FROM buckets").fetchone()
print("held", flush=True)
time.sleep(float(sys.argv[2]))
"""


def test_somebody_who_holds_the_file_makes_an_erasure_overdue(filled: Path) -> None:
    foreign = subprocess.Popen([sys.executable, "-c", HOLD, filled, "60"], stdout=subprocess.PIPE)
    assert foreign.stdout is not None
    foreign.stdout.readline()
    with SqliteStore(filled, patience=0.2) as store:
        stream = stream_in(store)
        before = stream.clock, stream.retained
        with pytest.raises(StoreBusyError, match="another process reads or writes the file and does not let go"):
            stream.extend(ROWS[:60])
        assert (stream.clock, stream.retained) == before
        for row in ROWS[:7]:
            stream.push(row)
        with pytest.raises(StoreBusyError):
            stream.push(ROWS[7])  # would close the batch
        assert stream.t == 1_007
        taken = stream.t - 1_000
        foreign.send_signal(signal.SIGKILL)
        foreign.communicate()
        stream.extend(ROWS[taken:60])  # what could not be written is tried again
        plain = Stream(Mean(), retention=96, seed=0)
        plain.extend(np.concatenate((ROWS, ROWS[:60])))
        assert (stream.clock, stream.retained) == (plain.clock, plain.retained)
    assert open_reader(filled).verify() == ()


def test_tidying_that_somebody_prevents_is_made_up_for(filled: Path) -> None:
    with SqliteStore(filled, patience=0.1) as store:
        stream_in(store).extend(ROWS[:5], source="x")
        store.flush()
        reader = sqlite3.connect(filled, isolation_level=None)
        execute = store._connection.execute

        def tidied(statement: str) -> object:
            reader.execute("BEGIN")
            reader.execute("SELECT * FROM buckets").fetchone()
            return execute(statement)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(store, "_connection", Between(store._connection, "VACUUM", tidied))
            with pytest.raises(StoreBusyError, match="another process reads or writes the file"):
                store.tidy()
        assert store._tables.about.untidy
        reader.close()
        store.tidy()
        assert not store._tables.about.untidy
    assert open_reader(filled).verify() == ()


def test_a_store_in_which_nothing_was_written_is_tidy(filled: Path) -> None:
    with SqliteStore(filled) as store:
        store.tidy()
        image = filled.read_bytes()
        store.tidy()
        assert filled.read_bytes() == image
    with SqliteStore(filled) as store:
        store.tidy()
        assert filled.read_bytes() == image
        stream_in(store).extend(ROWS[:5])
        store.flush()
        assert store._tables.about.untidy


class Between:
    """A connection that calls something else for one statement."""

    def __init__(self, connection: sqlite3.Connection, statement: str, instead: Callable[[str], object]) -> None:
        self.connection, self.statement, self.instead = connection, statement, instead

    def __getattr__(self, name: str) -> Any:
        return getattr(self.connection, name)

    def execute(self, statement: str, *arguments: Any) -> Any:
        return (
            self.instead(statement) if statement == self.statement else self.connection.execute(statement, *arguments)
        )


def test_our_readers_do_not_stand_in_the_way(filled: Path) -> None:
    program = f"""
import time
from vestige.store import open_reader
until = time.monotonic() + 2
while time.monotonic() < until:
    reader = open_reader({str(filled)!r})
    reader.snapshot().all_streams()
    found = reader.verify()
    assert found == (), found
"""
    reader = subprocess.Popen([sys.executable, "-c", program], stderr=subprocess.PIPE)
    with SqliteStore(filled) as store:
        stream = stream_in(store)
        while reader.poll() is None:
            stream.extend(ROWS[:48])
            time.sleep(0.005)  # a writer that never rests leaves no room to read
    _, said = reader.communicate()
    assert reader.returncode == 0, said


def damaged(change: Callable[[bytearray], bytearray]) -> Callable[[Path], None]:
    def rewrite(path: Path) -> None:
        path.write_bytes(change(bytearray(path.read_bytes())))

    return rewrite


def flipped(at: int) -> Callable[[bytearray], bytearray]:
    def flip(image: bytearray) -> bytearray:
        image[at] ^= 16
        return image

    return flip


def one_page_fewer(image: bytearray) -> bytearray:
    image[31] -= 1  # the length that the header says
    return image


def with_sql(*statements: str) -> Callable[[Path], None]:
    def change(path: Path) -> None:
        connection = sqlite3.connect(path, isolation_level=None)
        for statement in statements:
            connection.execute(statement)
        connection.close()

    return change


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (
            with_sql(f"PRAGMA user_version={SEALED_VERSION}"),
            "is sealed, and cannot be opened without its keyring",
        ),
        (with_sql(f"PRAGMA user_version={VERSION - 1}"), "was written in version 10 .* use the Vestige that wrote it"),
        (with_sql(f"PRAGMA user_version={SEALED_VERSION + 1}"), "in version 13 .* use the Vestige that wrote it"),
        (with_sql("PRAGMA application_id=5"), "is a SQLite file, but not a store of Vestige"),
        (with_sql("CREATE TABLE other (x)"), "its tables are not those of a store"),
        (with_sql("UPDATE buckets SET body = zeroblob(length(body))"), "a stored row is damaged"),
        (with_sql("UPDATE buckets SET body = x'00'"), "a stored row is damaged"),
        (with_sql("DELETE FROM buckets"), "the last rows of a table are not those that were written"),
        (with_sql("DELETE FROM terms"), "the last rows of a table are not those that were written"),
        (with_sql("UPDATE terms SET body = '{}'"), "row 1 of the table terms is damaged"),
        (with_sql("UPDATE buckets SET names = x'62'"), "row 1 of the table buckets is damaged|is damaged"),
        (with_sql("UPDATE sources SET body = x'0000000000'"), "a stored row is damaged"),
        (with_sql("DELETE FROM sources"), "the last rows of a table are not those that were written"),
        (with_sql("DELETE FROM about"), "row 1 of the table about has vanished"),
        (with_sql("UPDATE sources SET id = 2"), "the last rows of a table are not those that were written"),
        (damaged(lambda _: bytearray()), "is empty, and a store never is .* delete it to begin with an empty store"),
        (damaged(lambda image: image[:5_000]), "is damaged"),
        (damaged(lambda image: image[:-4_096]), "is damaged"),
        (damaged(lambda _: bytearray(b"no database") * 100), "is not a store, or its first page is damaged"),
        (damaged(flipped(3)), "is not a store, or its first page is damaged"),
        (damaged(lambda image: image[:-1_000]), r"is damaged \(cut off"),
        (damaged(one_page_fewer), r"is damaged \(cut off, or longer than it says\)"),
    ],
)
def test_a_file_that_is_not_what_it_was_is_refused(filled: Path, change: Callable[[Path], None], text: str) -> None:
    with SqliteStore(filled) as store:
        stream_in(store).extend(ROWS[:5], source="x")
    change(filled)
    image = filled.read_bytes()
    with pytest.raises(StoreError, match=text), SqliteStore(filled) as store:
        stream_in(store)
    with pytest.raises(StoreError, match=text):
        read_streams(filled)
    assert filled.read_bytes() == image, "nothing was changed"


def test_what_a_killed_process_did_not_cut_off_is_cut_off(filled: Path) -> None:
    image = filled.read_bytes()
    filled.write_bytes(image + b"an old page".ljust(4_096))
    assert list(read_streams(filled)) == ["a"]
    (found,) = open_reader(filled).verify()
    assert "is longer than it says: a process was killed while it made the file shorter; open the store again" in found
    with SqliteStore(filled) as store:
        assert store.names() == ("a",)
    assert filled.read_bytes() == image


def test_any_flipped_bit_in_a_state_is_noticed(filled: Path) -> None:
    image, rng = bytearray(filled.read_bytes()), np.random.default_rng(0)
    (body,) = sqlite3.connect(filled).execute("SELECT body FROM buckets").fetchone()
    start = bytes(image).find(body[:200])
    assert start > 0
    for at in start + rng.integers(0, 200, 20):
        changed = bytearray(image)
        changed[at] ^= 1 << int(rng.integers(8))
        filled.write_bytes(changed)
        with pytest.raises(StoreError, match="is damaged"):
            read_streams(filled)


@pytest.mark.parametrize(
    ("make", "problem", "text"),
    [
        (SqliteStore, StoreError, "is a folder; give the path of a file"),
        (lambda folder: SqliteStore(folder / "no" / "a.db"), StoreError, "there is no folder .*no; make it first"),
        (lambda _: SqliteStore(":memory:"), ParameterError, r"is not a file; use vestige\.open_store"),
        (
            lambda folder: read_streams(folder / "no.db"),
            StoreError,
            "there is no such store; create one with vestige run",
        ),
        (lambda folder: SqliteStore(folder / "n.db").stream(""), ParameterError, "name='' is not a name"),
        (lambda folder: SqliteStore(folder / "t.db").terms("x"), StoreError, "there is no stream 'x'; there is none"),
    ],
)
def test_bad_places_are_refused(
    tmp_path: Path, make: Callable[[Path], object], problem: type[Exception], text: str
) -> None:
    with pytest.raises(problem, match=text):
        make(tmp_path)


def test_a_closed_store_says_so(filled: Path) -> None:
    store = SqliteStore(filled)
    stream = stream_in(store)
    store.close()
    store.close()
    with pytest.raises(StoreError, match="is not open here any more: its store was closed, it was removed, or it"):
        stream.push(1.0)


def test_a_change_by_another_program_is_not_overwritten(filled: Path) -> None:
    store = SqliteStore(filled)
    stream = stream_in(store)
    with_sql(f"PRAGMA user_version={VERSION}")(filled)
    stream.push(1.0)
    with pytest.raises(StoreError, match="was changed by another program while it was open; open it again"):
        store.close()
    with SqliteStore(filled) as store:
        assert stream_in(store).t == 1_000


FULL = """
import resource, signal, sys
import numpy as np
from vestige import Mean, SqliteStore, Stream
from vestige.errors import StoreError
with SqliteStore(sys.argv[1]) as store:
    stream = Stream(Mean(), retention=96, seed=0, store=store.stream("a"))
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
    t = stream.t
    try:
        stream.extend(np.zeros(100))
    except StoreError as problem:
        print(problem, stream.t == t)
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
    stream.extend(np.zeros(100))
    print(stream.t)
"""


def test_a_disk_that_is_full_loses_nothing(filled: Path) -> None:
    done = subprocess.run([sys.executable, "-c", FULL, filled], check=True, capture_output=True, text=True)
    said, t = done.stdout.splitlines()
    assert "a full or failing disk, a quota); make room or mend it and try again: nothing was changed True" in said
    assert t == "1100"
    assert open_reader(filled).verify() == ()


def test_a_full_database_is_told_from_a_broken_one(filled: Path) -> None:
    with SqliteStore(filled) as store:
        pages = store._connection.execute("PRAGMA page_count").fetchone()[0]
        store._connection.execute(f"PRAGMA max_page_count={pages}")
        stream = stream_in(store, "another", retention=4_000)
        stream.extend(ROWS, source="x")
        with pytest.raises(StoreError, match="the disk is full; make room and try again: nothing was changed"):
            stream.flush()
        assert stream.t == 1_000, "nothing is lost in memory either"
        store._connection.execute("PRAGMA max_page_count=100000")
        stream.flush()
    assert sorted(read_streams(filled)) == ["a", "another"]


READ_ONLY = """
import os, sys
from vestige import SqliteStore
from vestige.errors import StoreError
from vestige.store import open_reader
if os.getuid() == 0:  # root may write anything
    os.setgid(65534); os.setuid(65534)
print(open_reader(sys.argv[1]).snapshot().all_streams()["a"][1].clock.t)
try:
    SqliteStore(sys.argv[1])
except StoreError as problem:
    print(problem)
"""


def test_a_read_only_store_can_be_read_and_says_why_it_cannot_be_written(filled: Path) -> None:
    folder = Path("/tmp") / f"vestige-{os.getpid()}"  # noqa: S108  # pytest's own folders are closed to others
    shutil.copytree(filled.parent, folder)
    try:
        for file in folder.iterdir():
            file.chmod(0o444)
        folder.chmod(0o555)
        done = subprocess.run(
            [sys.executable, "-c", READ_ONLY, folder / filled.name],
            check=True,
            capture_output=True,
            text=True,
        )
        assert done.stdout.splitlines()[0] == "1000"
        assert "cannot be written; make the file and its folder writable" in done.stdout
    finally:
        folder.chmod(0o755)
        shutil.rmtree(folder)


UNREADABLE = """
import os, sys
from vestige import SqliteStore
from vestige.errors import StoreError
from vestige.store import open_reader
if os.getuid() == 0:  # root may read anything
    os.setgid(65534); os.setuid(65534)
for opened in (SqliteStore, lambda path: open_reader(path).snapshot()):
    try:
        opened(sys.argv[1])
    except StoreError as problem:
        print(problem)
"""


def test_a_store_that_one_may_not_read_says_so(filled: Path) -> None:
    folder = Path(tempfile.mkdtemp(dir="/tmp"))  # pytest's own folders are closed to others
    try:
        shutil.copy(filled, folder / "a.db")
        (folder / "a.db").chmod(0o000)
        folder.chmod(0o777)
        line = [sys.executable, "-c", UNREADABLE, str(folder / "a.db")]
        done = subprocess.run(line, check=True, capture_output=True, text=True)
        assert done.stdout.count("a.db: its permissions do not let you read it") == 2
    finally:
        shutil.rmtree(folder)


def test_who_may_not_write_to_the_folder_is_told_what_to_do(filled: Path) -> None:
    folder = Path(tempfile.mkdtemp(dir="/tmp"))  # pytest's own folders are closed to others
    try:
        shutil.copy(filled, folder / "a.db")
        folder.chmod(0o755 if os.getuid() == 0 else 0o555)
        line = [sys.executable, "-c", UNREADABLE, str(folder / "a.db")]
        done = subprocess.run(line, check=True, capture_output=True, text=True)
        assert "a.db.lock cannot be made (Permission denied); run this as the owner of the store" in done.stdout
    finally:
        folder.chmod(0o755)
        shutil.rmtree(folder)


def test_a_policy_that_keeps_too_long_is_told_to_have_a_limit(path: Path) -> None:
    with SqliteStore(path) as store:
        stream = stream_in(store, policy=Window(), retention=None, notice=10)
        with pytest.raises(StoreError, match=r"holds records over more than 15 rounds, .* give the stream a limit"):
            stream.extend(ROWS)
        assert stream.t == 15


def test_a_clock_that_runs_backwards_is_noticed_after_a_restart(path: Path) -> None:
    soon = np.datetime64("now", "us") + np.timedelta64(12, "h")
    with SqliteStore(path) as store:
        stream_in(store, max_age=timedelta(days=30)).extend([1.0], times=np.array([soon]))
    with SqliteStore(path) as store:
        stream = stream_in(store, max_age=timedelta(days=30))
        with pytest.raises(DataError, match="a clock cannot run backwards"):
            stream.push(2.0)
        assert stream.t == 1


def test_a_stream_is_open_once(path: Path) -> None:
    with SqliteStore(path) as store:
        first = stream_in(store)
        first.extend(ROWS[:5])
        second = stream_in(store)
        assert second.t == 5, "what the first held back was written"
        with pytest.raises(StoreError, match="or it was opened again since; use the newer one"):
            first.push(1.0)
        second.extend(ROWS[:5])
    assert read_streams(path)["a"][1].clock.t == 10


def test_many_streams_open_at_once(path: Path) -> None:
    with SqliteStore(path) as store:
        streams = [stream_in(store, f"{i}") for i in range(500)]
        for i, stream in enumerate(streams):
            stream.extend(ROWS[: i % 7 + 1])
    assert open_reader(path).verify() == ()
    assert [state.clock.t for _, (_, state) in sorted(read_streams(path).items(), key=lambda item: int(item[0]))] == [
        i % 7 + 1 for i in range(500)
    ]


def test_nothing_is_written_after_sqlite_has_ended_a_transaction(filled: Path) -> None:
    """As it does after some errors of the disk; what came later would be committed alone."""
    before = read_streams(filled)
    with SqliteStore(filled) as store:
        stream = stream_in(store, "b")
        stream.push(1.0)

        def write() -> None:
            with store.transaction():
                store._connection.execute("ROLLBACK")
                with pytest.raises(StoreError, match="so all of it was rolled back"):
                    stream.flush()
                assert read_streams(filled) == before

        with pytest.raises(StoreError, match="so all of it was rolled back"):
            write()
        stream.flush()
        assert [*read_streams(filled)] == ["a", "b"]


def test_a_stream_that_cannot_be_written_leaves_nothing_half_done_among_others(path: Path) -> None:
    """Who catches the error inside `together` goes on with the others; of this one nothing was changed."""
    with SqliteStore(path) as store:
        stream_in(store).extend(ROWS[:100], source="x")
        store.flush()
        place, terms = store.stream("a"), store.terms("a")
        before = place.read(terms)
        late = State(
            replace(before.clock, t=10_000),
            before.retained,
            {"x": Position(encode_count(10_000)), "new": Position(encode_count(1))},
        )
        with store.transaction():
            for name in ("a", "b"):
                with pytest.raises(StoreError, match="holds records over more than 96 rounds"):
                    store.write(name, terms, late)
            store.write("c", terms, before)
        assert store.names() == ("a", "c")
        assert place.read(terms) == before
    assert {name: state for name, (_, state) in read_streams(path).items()} == {
        "a": before,
        "c": before,
    }
    assert open_reader(path).verify() == ()


def test_threads_may_share_a_store_and_a_forked_process_may_not(path: Path) -> None:
    with SqliteStore(path) as store:
        streams = [stream_in(store, f"{i}") for i in range(4)]
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(lambda stream: [stream.extend(ROWS[:100]) for _ in range(5)], streams))
        child = os.fork()
        if not child:
            try:
                streams[0].extend(ROWS)
                os._exit(0)
            except StoreError as problem:
                os._exit(7 if "before this process was forked" in str(problem) else 1)
            finally:
                os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        streams[0].extend(ROWS[:100])
    assert [state.clock.t for _, state in read_streams(path).values()] == [600, 500, 500, 500]


def test_every_error_is_one_of_ours() -> None:
    assert issubclass(StoreBusyError, StoreError)
    assert issubclass(StoreError, VestigeError)
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] != 1000, "the limit was set in a child only"


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, pickle.dumps])
def test_a_store_is_neither_copied_nor_pickled(tmp_path: Path, copied: Callable[[object], object]) -> None:
    with SqliteStore(tmp_path / "a.db") as store:
        for each in (store, MemoryStore()):
            with pytest.raises(StoreError, match=r"this \w+Store cannot be copied or pickled: .* open the store where"):
                copied(each)
        Stream(Mean(), retention=96, seed=0, store=store.stream("a")).extend([1.0])
        store.flush()
    assert read_streams(tmp_path / "a.db")["a"][1].clock.t == 1
