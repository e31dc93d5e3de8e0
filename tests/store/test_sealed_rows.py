"""Sealed rows: the same as rows in clear, and what was changed, swapped or rolled back is refused for what it is."""

from __future__ import annotations

import copy
import shutil
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from troubled import MAX_AGE, START, fill
from vestige import Mean, SqliteStore, Stream
from vestige.errors import StoreError
from vestige.operations import forget, sweep
from vestige.store import KeyringFile, open_reader
from vestige.store.bucket import BUCKET, find_bucket
from vestige.store.keyring import Key
from vestige.store.keyring import seal as seal_module
from vestige.store.keyring.seal import PREFIX, TAG, SealError
from vestige.store.memory_rows import MemoryRows
from vestige.store.opener import find_row, find_slot
from vestige.store.rows import TABLES, About, Rows, pack_row_head
from vestige.store.sealed_rows import SealedRows
from vestige.store.sqlite.connection import create_empty
from vestige.store.sqlite.rows import SqliteRows

Row = tuple[bytes, ...]


class Cipher:
    """The cipher, and all that it was ever given: a key and a nonce must not come twice with different texts."""

    used: dict[tuple[bytes, bytes], tuple[bytes, bytes | None]]

    def __init__(self, key: bytes) -> None:
        self._key, self._real = key, real_cipher(key)

    def encrypt(self, nonce: bytes, plain: bytes, bound: bytes | None) -> bytes:
        assert Cipher.used.setdefault((self._key, nonce), (plain, bound)) == (plain, bound), "a nonce was used twice"
        return self._real.encrypt(nonce, plain, bound)

    def decrypt(self, nonce: bytes, sealed: bytes, bound: bytes | None) -> bytes:
        return self._real.decrypt(nonce, sealed, bound)


real_cipher = seal_module.load_cipher()


@pytest.fixture(autouse=True)
def nonces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Watch the nonces in each test here."""
    Cipher.used = {}
    monkeypatch.setattr(seal_module, "load_cipher", lambda: Cipher)


# Against rows in clear.


class Pair:
    """Sealed rows, and the same in clear in memory."""

    def __init__(self, inner: Rows, keyring: KeyringFile) -> None:
        self.inner, self.keyring = inner, keyring
        self.plain = MemoryRows()
        self.begin()
        made = SealedRows(inner, keyring, is_shared=False)
        made.adopt(inner)
        made.seal()
        self.commit()
        self.sealed = self.open()

    def open(self) -> SealedRows:
        self.begin()
        sealed = SealedRows(self.inner, self.keyring, is_shared=False)
        assert sealed.refresh(is_writer=True)
        assert not sealed.refresh(is_writer=True)
        self.commit()
        return sealed

    def begin(self) -> None:
        if isinstance(self.inner, SqliteRows):
            self.inner.connection.execute("BEGIN")
        else:
            self.before = copy.deepcopy(self.inner._tables)  # type: ignore[attr-defined]

    def commit(self) -> None:
        if isinstance(self.inner, SqliteRows):
            self.inner.connection.execute("COMMIT")
        else:
            self.inner.commit()  # type: ignore[attr-defined]

    def roll_back(self) -> None:
        if isinstance(self.inner, SqliteRows):
            self.inner.connection.execute("ROLLBACK")
        else:
            self.inner._tables = self.before  # type: ignore[attr-defined]

    def check(self) -> None:
        for table, columns in TABLES.items():
            rows = dict(self.plain.iterate(table))
            assert dict(self.sealed.iterate(table)) == rows
            assert [row for row, _ in self.sealed.iterate(table)] == sorted(rows)
            assert self.sealed.find_end(table) == self.plain.find_end(table)
            for number, column in enumerate(columns):
                wanted = [(row, parts[number]) for row, parts in sorted(rows.items())]
                assert self.sealed.read_column(table, column) == wanted
                assert list(self.sealed.iterate(table, (column,))) == [(row, (part,)) for row, part in wanted]
            for row in (*rows, 77):
                assert self.sealed.read(table, row) == self.plain.read(table, row)
                last = columns[-1:]
                assert self.sealed.read(table, row, last) == self.plain.read(table, row, last)


def act(pair: Pair, steps: Sequence[Any]) -> None:
    """Do the same to both."""
    for step in steps:
        if step[0] == "write":
            _, table, row, parts = step
            kept = tuple(parts[: len(TABLES[table])])
            if table == "ledger":  # which has to be sound, with entries or without
                kept = pack_row_head(table, row, 0, b""), b""
            pair.sealed.write(table, row, *kept)
            pair.plain.write(table, row, *kept)
        elif step[0] == "cut":
            pair.sealed.cut(*step[1:])
            pair.plain.cut(*step[1:])
        elif step[0] == "savepoint":
            _, inner, fails = step
            with suppress(ZeroDivisionError), pair.sealed.savepoint(), pair.plain.savepoint():
                act(pair, inner)
                1 // (not fails)
        else:
            pair.check()


def fill_gaps(pair: Pair) -> None:
    """Write the rows that are missing before the last one, as all tables but the ledger do.

    There a missing row is damage, and its key is kept, since the row may be put back.
    """
    for table in set(CHANGED) - {"ledger"}:
        there = {row for row, _ in pair.plain.iterate(table)}
        gaps = set(range(1, pair.plain.find_end(table))) - there
        act(pair, [("write", table, row, (b"x", b"y", b"z")) for row in sorted(gaps)])


def transact(pair: Pair, steps: Sequence[Any], end: str) -> None:
    """One transaction, and how it ends."""
    pair.begin()
    if end == "open again":
        pair.commit()
        pair.sealed = pair.open()
        pair.begin()
    assert pair.sealed.refresh(is_writer=True) in (False, True)
    before = copy.deepcopy(pair.plain._tables)
    act(pair, steps)
    fill_gaps(pair)
    buckets, terms, sources = (pair.plain.find_end(table) for table in ("buckets", "terms", "sources"))
    about = About(buckets=buckets, terms=terms, sources=sources, requests=len(Cipher.used))
    for rows in (pair.sealed, pair.plain):
        if steps:
            rows.write("about", 1, about.pack())
    if end == "give up":
        pair.roll_back()
        pair.sealed.roll_back(is_certain=True)
        pair.plain._tables = before
    elif end == "fail":
        pair.sealed.seal()
        pair.roll_back()
        pair.sealed.roll_back(is_certain=True)
        pair.plain._tables = before
    elif end == "doubt":
        pair.sealed.seal()
        pair.commit()
        pair.sealed.roll_back(is_certain=False)
    elif end == "doubt and fail":
        pair.sealed.seal()
        pair.roll_back()
        pair.sealed.roll_back(is_certain=False)
        pair.plain._tables = before
    else:
        pair.sealed.seal()
        pair.commit()
        pair.sealed.settle()
    pair.plain.commit()
    pair.check()


CHANGED = ("terms", "sources", "ledger", "buckets")
tables = st.sampled_from(CHANGED)
rows_ = st.integers(1, 5) | st.integers(1, 40)
parts_ = st.tuples(*[st.binary(max_size=60)] * 2, st.binary(max_size=60) | st.binary(min_size=4_000, max_size=4_200))
simple = st.one_of(
    st.tuples(st.just("write"), tables, rows_, parts_),
    st.tuples(st.just("cut"), tables, rows_),
    st.just(("check",)),
)
steps_ = st.recursive(
    st.lists(simple, max_size=5),
    lambda inner: st.lists(simple | st.tuples(st.just("savepoint"), inner, st.booleans()), max_size=5),
    max_leaves=4,
)
ends = st.sampled_from(["commit", "commit", "open again", "give up", "fail", "doubt", "doubt and fail"])


@contextmanager
def open_rows(kind: str, folder: Path) -> Iterator[Rows]:
    if kind == "memory":
        yield MemoryRows()
    else:
        with closing(create_empty()) as connection:
            yield SqliteRows(connection, folder / "rows")


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
@settings(max_examples=60)
@given(transactions=st.lists(st.tuples(steps_, ends), max_size=6))
def test_sealed_rows_are_what_rows_in_clear_are(
    tmp_path_factory: pytest.TempPathFactory, kind: str, transactions: list[tuple[Any, str]]
) -> None:
    folder = tmp_path_factory.mktemp("rows")
    keyring = KeyringFile(folder / "keyring", create=True)
    with open_rows(kind, folder) as inner:
        pair = Pair(inner, keyring)
        pair.check()
        first = [("write", table, row, (b"x", b"y", b"z")) for table in CHANGED for row in (1, 2, 3)]
        for steps, end in [(first, "commit"), *transactions]:
            transact(pair, steps, end)
        pair.sealed = pair.open()
        pair.check()
        assert pair.sealed.find_damage() == {}
        there = {find_slot(table, row) for table in TABLES for row, _ in pair.plain.iterate(table)}
        assert set(keyring.read().list_slots().tolist()) == there, "a key for each row, and no other"
        assert keyring.verify() == ()
    shutil.rmtree(folder)


def test_what_a_transaction_wrote_is_not_kept_for_savepoints_that_are_over(tmp_path: Path) -> None:
    """Else a transaction that writes one row often would take as much memory as all its writings together."""
    pair = Pair(MemoryRows(), KeyringFile(tmp_path / "keyring", create=True))
    for _ in range(50):
        with pair.sealed.savepoint():
            pair.sealed.write("buckets", 1, b"", b"", bytes(1_000))
        pair.sealed.write("buckets", 2, b"", b"", bytes(1_000))
    assert pair.sealed._undo is None
    assert len(pair.sealed._changed) == 2


def test_slots_and_rows() -> None:
    for table in TABLES:
        for row in (1, 31, 2**39):
            assert find_row(find_slot(table, row)) == (table, row)
    assert find_row(find_slot("about", 1) + (len(TABLES) << 40)) is None
    assert len({find_slot(table, row) for table in TABLES for row in range(1, 9)}) == 8 * len(TABLES)


def test_rows_can_be_read_after_a_transaction_has_failed(tmp_path: Path) -> None:
    """Also if nobody has begun another transaction: the keys are read again."""
    pair = Pair(MemoryRows(), KeyringFile(tmp_path / "keyring", create=True))
    for is_certain in (True, False):
        pair.begin()
        pair.sealed.write("about", 1, About().pack())
        pair.sealed.seal()
        pair.roll_back()
        pair.sealed.roll_back(is_certain=is_certain)
        assert len(pair.keyring.read().find(find_slot("about", 1))) == (1 if is_certain else 2)
        assert pair.sealed.read("about", 1) == (About().pack(),)
        assert pair.sealed.about == About()
        pair.check()
        pair.sealed.refresh(is_writer=True)
        assert pair.keyring.verify() == ()


# Attacks on a file.

NAMES = ("ada", "bob", "cat", "dot")
ROW = find_bucket(b"ada", 128) + 1
OTHER = find_bucket(b"bob", 128) + 1
LATER = START + timedelta(hours=60)


class Moments:
    """A sealed store of today, and copies of store and keyring of yesterday, and of another store."""

    def __init__(self, folder: Path) -> None:
        self.path, self.keys = folder / "a.db", folder / "a.keyring"
        KeyringFile(self.keys, create=True)
        for number in range(2):
            if number:
                self.yesterday = folder / "yesterday.db", folder / "yesterday.keyring"
                shutil.copy(self.path, self.yesterday[0])
                shutil.copy(self.keys, self.yesterday[1])
            write(self.path, self.keys, number)
        other = folder / "other.db", folder / "other.keyring"
        KeyringFile(other[1], create=True)
        write(*other, 0)
        self.other = other
        self.images = {file: file.read_bytes() for file in (self.path, self.keys)}
        assert {find_bucket(name.encode(), 128) + 1 for name in NAMES} == set(self.find_rows())

    def find_rows(self) -> list[int]:
        return sorted({find_bucket(name.encode(), 128) + 1 for name in NAMES})

    def restore(self) -> None:
        for file, content in self.images.items():
            file.write_bytes(content)
        self.path.with_name("a.db-journal").unlink(missing_ok=True)


def write(path: Path, keys: Path, number: int) -> None:
    with SqliteStore(path, keyring=keys) as store:
        if not number:
            with store.transaction():
                store._tables.reserve(128 * BUCKET)
        for name in NAMES:
            if not number:
                fill(store, name, n=50).extend([1.0], times=[LATER], source="file.csv")
            else:
                stream = Stream(Mean(), retention=96, max_age=MAX_AGE, store=store.stream(name))
                stream.extend(np.arange(5.0), times=[LATER] * 5, subjects=["person-3"] * 5, source="file.csv")
        store.flush()
        forget(store, ["person-5"])


@pytest.fixture(scope="module")
def moments(tmp_path_factory: pytest.TempPathFactory) -> Moments:
    return Moments(tmp_path_factory.mktemp("moments"))


@pytest.fixture
def today(moments: Moments) -> Moments:
    moments.restore()
    return moments


Attack = Callable[[Moments], None]


def edit(path: Path, *statements: str, **values: object) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA secure_delete=ON")
        for name in ("yesterday", "other"):
            if any(name in text for text in statements):
                connection.execute(f"ATTACH ? AS {name}", (str(path.with_name(f"{name}.db")),))
        for text in statements:
            connection.execute(text, values)


def take(columns: Sequence[str], source: str, table: str = "buckets", row: int = ROW, other: int = 0) -> Attack:
    """Put parts of a row of another file there."""
    parts = ", ".join(f"{c} = (SELECT {c} FROM {source}.{table} WHERE id = {other or row})" for c in columns)  # noqa: S608

    def attack(moments: Moments) -> None:
        edit(moments.path, f"UPDATE {table} SET {parts} WHERE id = {row}")  # noqa: S608

    return attack


def swap(moments: Moments) -> None:
    whole = "head, names, body"
    edit(
        moments.path,
        f"CREATE TEMP TABLE old AS SELECT id, {whole} FROM buckets WHERE id IN ({ROW}, {OTHER})",  # noqa: S608
        f"UPDATE buckets SET ({whole}) = (SELECT {whole} FROM old WHERE id = {OTHER}) WHERE id = {ROW}",  # noqa: S608
        f"UPDATE buckets SET ({whole}) = (SELECT {whole} FROM old WHERE id = {ROW}) WHERE id = {OTHER}",  # noqa: S608
    )


def swap_parts(moments: Moments) -> None:
    edit(moments.path, f"UPDATE buckets SET names = body, body = names WHERE id = {ROW}")  # noqa: S608


def cut_off(length: int) -> Attack:
    def attack(moments: Moments) -> None:
        edit(moments.path, f"UPDATE buckets SET body = substr(body, 1, {length}) WHERE id = {ROW}")  # noqa: S608

    return attack


def read_part(path: Path, column: str, table: str = "buckets", row: int = ROW) -> bytes:
    with closing(sqlite3.connect(path)) as connection:
        (part,) = connection.execute(f"SELECT {column} FROM {table} WHERE id = ?", (row,)).fetchone()  # noqa: S608
    assert isinstance(part, bytes)
    return part


def flip(column: str, byte: int, bit: int = 0, table: str = "buckets", row: int = ROW) -> Attack:
    """Change a bit of a part; a negative byte counts from the end of what is sealed."""

    def attack(moments: Moments) -> None:
        part = bytearray(read_part(moments.path, column, table, row))
        end = PREFIX + int.from_bytes(part[32:36], "little")
        part[byte if byte >= 0 else end + byte] ^= 1 << bit
        edit(moments.path, f"UPDATE {table} SET {column} = :part WHERE id = {row}", part=bytes(part))  # noqa: S608

    return attack


THIS = f"row {ROW} of the table buckets"
OLDER = "is older than {keys} says: it was rolled back, or comes from a backup, and its key was destroyed"
BITS = ": its seal does not fit: bits were changed outside Vestige, or rows were swapped"
ATTACKS: dict[str, tuple[Attack, str, tuple[str, ...]]] = {
    "rolled back": (take(TABLES["buckets"], "yesterday"), f"{THIS} (head) {OLDER}", ("ada",)),
    "swapped": (
        swap,
        f"{THIS} (head) holds what was written as row {OTHER} of the table buckets: rows were swapped",
        ("ada", "bob"),
    ),
    "parts swapped": (swap_parts, f"{THIS} (names) holds another part: parts were swapped", ("ada",)),
    "head of yesterday": (take(["head"], "yesterday"), f"{THIS} (head) {OLDER}", ("ada",)),
    "names of yesterday": (take(["names"], "yesterday"), f"{THIS} (names) {OLDER}", ("ada",)),
    "body of yesterday": (take(["body"], "yesterday"), f"{THIS} (body) {OLDER}", ("ada",)),
    "of another store": (
        take(TABLES["buckets"], "other"),
        f"{THIS} (head) was sealed with the keyring {{other}}, and not with {{keys}}: it comes from another store",
        ("ada",),
    ),
    "body of another row": (
        take(["body"], "main", other=OTHER),
        f"{THIS} (body) holds what was written as row {OTHER} of the table buckets: rows were swapped",
        ("ada",),
    ),
    "cut off": (cut_off(200), f"{THIS} (body) is not sealed, or was cut off", ("ada",)),
    "nothing left": (cut_off(0), f"{THIS} (body) is not sealed, or was cut off", ("ada",)),
    "prefix: magic": (flip("head", 0), f"{THIS} (head) is not sealed, or was cut off", ("ada",)),
    "prefix: keyring": (flip("head", 4), f"{THIS} (head) was sealed with the keyring", ("ada",)),
    "prefix: slot": (flip("head", 12, 7), "or bits were changed", ("ada",)),
    "prefix: no such slot": (flip("head", 19), f"{THIS} (head) holds what no store has written", ("ada",)),
    "prefix: version, up": (flip("head", 26), f"{THIS} (head) is newer than the last transaction", ("ada",)),
    "prefix: part": (flip("head", 28), f"{THIS} (head) holds another part: parts were swapped, or bits", ("ada",)),
    "prefix: rest": (flip("head", 30), f"{THIS} (head){BITS}", ("ada",)),
    "prefix: length, up": (flip("body", 34, 7), f"{THIS} (body) is not sealed, or was cut off", ("ada",)),
    "prefix: length, by a bit": (flip("head", 32, 2), f"{THIS} (head){BITS}", ("ada",)),
    "head": (flip("head", PREFIX), f"{THIS} (head){BITS}", ("ada",)),
    "names": (flip("names", PREFIX), f"{THIS} (names){BITS}", ("ada",)),
    "body": (flip("body", PREFIX + 9, 3), f"{THIS} (body){BITS}", ("ada",)),
    "tag of the head": (flip("head", -1, 7), f"{THIS} (head){BITS}", ("ada",)),
    "tag of the body": (flip("body", -TAG), f"{THIS} (body){BITS}", ("ada",)),
}


def fit(text: str, moments: Moments) -> str:
    other = KeyringFile(moments.other[1]).id[:8].hex()
    return text.format(keys=moments.keys, other=other)


@pytest.mark.parametrize("what", ATTACKS)
def test_a_row_that_was_tampered_with_is_refused_for_what_it_is(today: Moments, what: str) -> None:
    attack, text, harmed = ATTACKS[what]
    path, keys, text = today.path, today.keys, fit(text, today)
    sound = open_reader(path, keyring=keys).snapshot().all_streams()
    attack(today)
    reader = open_reader(path, keyring=keys)
    with pytest.raises(StoreError) as problem:
        reader.read_stream("ada")
    assert str(problem.value).startswith(f"{path}, stream 'ada': ")
    assert text in str(problem.value)
    remedies = f'or remove its streams: vestige remove --stream "{THIS} is damaged"', "give the present store"
    assert any(remedy in str(problem.value) for remedy in remedies)
    for name in NAMES:
        if name not in harmed:
            assert reader.read_stream(name) == sound[name]
    found = reader.verify(at=LATER)
    assert any(text in sentence for sentence in found), found
    assert len([sentence for sentence in found if sentence.startswith(f"{path}: {THIS}")]) == 1
    if what in ("rolled back", "swapped", "parts swapped", "cut off", "prefix: no such slot", "head", "names", "body"):
        check_others(today, harmed)


def check_others(moments: Moments, harmed: tuple[str, ...]) -> None:
    """What is done to all streams is done to all that can be read; the bad bucket is named, and can be removed."""
    rows = [f"row {find_bucket(name.encode(), 128) + 1} of the table buckets is damaged" for name in harmed]
    reader = open_reader(moments.path, keyring=moments.keys)
    copied = reader.snapshot()
    assert set(copied.streams) == set(NAMES) - set(harmed)
    assert set(copied.troubles) <= {*rows, *harmed}
    names, wrong = reader.survey()
    assert {*wrong} <= {*rows}
    assert {*names} == {*NAMES} - ({*harmed} if wrong else set())
    with SqliteStore(moments.path, keyring=moments.keys) as store:
        told = forget(store, ["person-3"], now=True)
        mark = store.pseudonym("person-3")
        assert set(told.troubles) <= {*rows, *harmed}
        assert set(told.troubles)
        assert [receipt.erased for receipt in told.receipts] == [None], "nobody knows what that stream holds"
        done = sweep(store, LATER + MAX_AGE)
        assert set(done.streams) == set(NAMES) - set(harmed)
        assert set(done.troubles)
        assert set(done.troubles) <= {*rows, *harmed}
        for name in harmed:
            with pytest.raises(StoreError):
                Stream(Mean(), retention=96, max_age=MAX_AGE, store=store.stream(name))
            with pytest.raises(StoreError):
                store.remove(name)
        more = Stream(Mean(), retention=96, store=store.stream("new"))
        more.push(1.0)
        with store.transaction():
            store._tables.reserve(1024 * BUCKET)  # it grows all the same
        store.flush()
        told = forget(store, ["person-4"], now=True)
        assert [receipt.erased for receipt in told.receipts] == [None], "nobody knows, as before"
        for row in rows:
            assert store.has(row)
            store.remove(row)
            assert not store.has(row)
            with pytest.raises(StoreError, match="there is no stream"):
                store.remove(row)
        assert set(store.names()) == {*NAMES, "new"} - set(harmed)
        left = open_reader(moments.path, keyring=moments.keys).snapshot().all_streams()
        assert all(mark not in state.retained.subjects for _, state in left.values())
    assert open_reader(moments.path, keyring=moments.keys).verify(at=LATER + MAX_AGE) == ()


MENDED, KEPT, CLOSED = "streams can be removed", "left as it is", "nothing can be done"
OTHERS: dict[tuple[str, int, str], str] = {
    ("terms", 1, "flip"): MENDED,
    ("terms", 1, "delete"): CLOSED,
    ("sources", 1, "flip"): MENDED,
    ("sources", 2, "roll back"): MENDED,
    ("sources", 1, "delete"): MENDED,
    ("sources", 4, "delete"): CLOSED,
    ("ledger", 1, "flip"): KEPT,
    ("ledger", 1, "roll back"): KEPT,
    ("ledger", 1, "delete"): KEPT,
    ("subjects", ROW, "flip"): MENDED,
    ("subjects", ROW, "delete"): MENDED,
}


@pytest.mark.parametrize(("table", "row", "how"), OTHERS)
def test_other_rows_that_were_tampered_with_are_named(today: Moments, table: str, row: int, how: str) -> None:
    """What then can be done is the same as in a store in clear."""
    last, keys = TABLES[table][-1], today.keys.read_bytes()
    if how == "flip":
        flip(last, PREFIX + 3, table=table, row=row)(today)
    elif how == "roll back":
        assert read_part(today.path, last, table, row) != read_part(today.yesterday[0], last, table, row)
        take(TABLES[table], "yesterday", table, row)(today)
    else:
        edit(today.path, f"DELETE FROM {table} WHERE id = {row}")  # noqa: S608
    reader = open_reader(today.path, keyring=today.keys)
    found, outcome = reader.verify(at=LATER), OTHERS[table, row, how]
    said = {"flip": BITS, "roll back": fit(OLDER, today), "delete": "restore a copy"}[how]
    assert any(said in text or "vanished" in text for text in found), found
    with SqliteStore(today.path, keyring=today.keys) as store:
        if outcome == CLOSED:
            for use in (store.names, lambda: store.remove("ada"), store.tidy, lambda: forget(store, ["person-3"])):
                with pytest.raises(StoreError, match="the last rows of a table are not those that were written"):
                    use()
        elif outcome == KEPT:
            for use in (store.tidy, lambda: store.remove("ada"), lambda: forget(store, ["person-3"])):
                with pytest.raises(StoreError, match="ledger"):
                    use()
            assert set(store.names()) == set(NAMES)
        else:
            told = forget(store, ["person-3"], now=True)
            assert [receipt.erased is None for receipt in told.receipts] == [bool(told.troubles)]
            for name in told.troubles:
                store.remove(name)
            store.tidy()
            assert set(store.names()) == set(NAMES) - set(told.troubles)
    left = reader.verify(at=LATER)
    if outcome == MENDED:
        assert left == ()
        return
    assert any(said in text for text in left)
    slot = find_slot(table, row)
    today.path.write_bytes(today.images[today.path])
    if outcome == CLOSED:
        assert today.keys.read_bytes() == keys, "so the row can be put back"
        assert reader.verify(at=LATER) == ()
    assert KeyringFile(today.keys).read().find(slot)


def read_by_all(path: Path, keys: Path | None) -> str:
    """What a reader, a writer and a verification say, which is the same."""
    said = set()
    for use in (lambda: open_reader(path, keyring=keys).snapshot(), lambda: SqliteStore(path, keyring=keys).close()):
        with pytest.raises(StoreError) as problem:
            use()
        said.add(str(problem.value))
    assert len(said) == 1, said
    (text,) = said
    assert text in open_reader(path, keyring=keys).verify(at=LATER)
    return text


def test_a_store_of_yesterday_is_refused(today: Moments) -> None:
    content = today.keys.read_bytes()
    text = read_by_all(today.yesterday[0], today.keys)
    assert text == (
        f"{today.yesterday[0]}: row 1 of the table about {fit(OLDER, today)}; give the present store. What the backup "
        "holds cannot be opened any more"
    )
    assert today.keys.read_bytes() == content, "and the present one can still be opened"
    assert open_reader(today.path, keyring=today.keys).verify(at=LATER) == ()


def test_a_keyring_of_yesterday_is_refused(today: Moments) -> None:
    before = [file.read_bytes() for file in (today.path, today.yesterday[1])]
    text = read_by_all(today.path, today.yesterday[1])
    assert "row 1 of the table about is newer than" in text
    assert "this is a keyring of an earlier time (a restored copy)" in text
    assert text.endswith("give the present keyring")
    assert before[1] == today.yesterday[1].read_bytes()


def test_another_keyring_is_refused(today: Moments) -> None:
    text = read_by_all(today.path, today.other[1])
    own = KeyringFile(today.keys).id[:8].hex()
    assert f"was sealed with the keyring {own}, and {today.other[1]} is {fit('{other}', today)}" in text


def test_without_a_keyring_and_with_one_for_a_file_in_clear(today: Moments, tmp_path: Path) -> None:
    text = read_by_all(today.path, None)
    assert "is sealed, and cannot be opened without its keyring; give it by --keyring" in text
    SqliteStore(tmp_path / "clear.db").close()
    with pytest.raises(StoreError, match=r"is not sealed, so .* is not its keyring; leave the keyring out"):
        open_reader(tmp_path / "clear.db", keyring=today.keys).count()
    with pytest.raises(StoreError, match="holds the keys of another store; make one for each store"):
        SqliteStore(tmp_path / "clear.db", keyring=today.keys)
    assert open_reader(tmp_path / "clear.db").count() == 0, "it is as it was"
    assert open_reader(today.path, keyring=today.keys).verify(at=LATER) == ()


def test_store_and_keyring_of_yesterday_are_a_consistent_past(today: Moments) -> None:
    """Nothing in them can tell; docs/store.md says so."""
    assert open_reader(today.yesterday[0], keyring=today.yesterday[1]).verify(at=LATER) == ()


@pytest.mark.parametrize(("byte", "text"), [(20, "older than"), (26, "newer than"), (40, "its seal does not fit")])
def test_the_row_about_is_checked_before_any_key_is_destroyed(
    today: Moments, byte: int, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It says what was committed: a changed bit in its version would make the wrong keys go."""
    keyring = KeyringFile(today.keys)
    keys = {find_slot(*place): version for version, place in enumerate([("buckets", ROW), ("about", 1)], 1)}
    newest = keyring.read().newest
    keyring.prepare({slot: Key(newest + at, bytes(32)) for slot, at in keys.items()})
    monkeypatch.setattr("vestige.store.keyring.file._SETTLING", 0.05)
    content = today.keys.read_bytes()
    for at, bit in [(byte, bit) for bit in range(8)] if byte < PREFIX else [(byte, 0)]:
        today.restore()
        today.keys.write_bytes(content)
        flip("body", at, bit, "about", 1)(today)
        said = read_by_all(today.path, today.keys)
        assert any(each in said for each in (text, "its seal does not fit", "older than", "newer than")), said
        assert today.keys.read_bytes() == content
    today.restore()


@pytest.mark.parametrize("place", [("buckets", ROW), ("about", 1)])
def test_a_damaged_key_concerns_one_row_and_is_named(today: Moments, place: tuple[str, int]) -> None:
    keyring, slot = KeyringFile(today.keys), find_slot(*place)
    (key,) = keyring.read().find(slot)
    content = today.keys.read_bytes()
    at = content.index(key.secret)
    today.keys.write_bytes(content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :])
    name = "row {1} of the table {0}".format(*place)
    if place[0] == "about":
        assert f"{name} has a key in {today.keys} that is damaged; restore" in read_by_all(today.path, today.keys)
        return
    reader = open_reader(today.path, keyring=today.keys)
    with pytest.raises(StoreError, match=r"has a key in .* that is damaged"):
        reader.read_stream("ada")
    assert any("slot" in text and "is damaged" in text for text in reader.verify(at=LATER))
    check_others(today, ("ada",))


def test_a_keyring_that_was_destroyed_opens_nothing(today: Moments) -> None:
    assert KeyringFile(today.keys).destroy() > 128
    text = read_by_all(today.path, today.keys)
    assert "has no key in" in text
    assert "all of its keys were destroyed, or are missing" in text


def test_a_keyring_that_lost_pages_loses_their_rows_only(today: Moments) -> None:
    page = today.keys.read_bytes()
    today.keys.write_bytes(page[: 3 * 4096])
    reader = open_reader(today.path, keyring=today.keys)
    assert 0 < len(reader.survey()[1]) <= 256
    with pytest.raises(StoreError, match=r"has no key in .*: the key was destroyed, or is missing"):
        [reader.read_stream(name) for name in NAMES]
    assert any("has no key" in text for text in reader.verify(at=LATER))


def test_padding_that_is_not_zero_is_named(today: Moments) -> None:
    part = read_part(today.path, "body")
    assert part.endswith(b"\0")
    edit(today.path, f"UPDATE buckets SET body = :part WHERE id = {ROW}", part=part[:-1] + b"x")  # noqa: S608
    reader = open_reader(today.path, keyring=today.keys)
    assert reader.read_stream("ada") is not None
    (found,) = reader.verify(at=LATER)
    assert found == f"{today.path}: {THIS} is not zero behind its seal"


@pytest.mark.parametrize("is_committed", [True, False])
def test_no_other_writing_of_a_row_counts_while_both_of_its_keys_are_there(
    today: Moments, monkeypatch: pytest.MonkeyPatch, is_committed: bool
) -> None:
    """After a crash, until the next transaction: the row `about` says which of them is valid."""
    before = today.images[today.path]

    def refuse(*_: object) -> None:
        raise StoreError("the keyring cannot be written")

    with SqliteStore(today.path, keyring=today.keys) as store:
        stream = Stream(Mean(), retention=96, max_age=MAX_AGE, store=store.stream("ada"))
        stream.extend(np.arange(7.0), times=[LATER] * 7)
        with monkeypatch.context() as patch:
            patch.setattr(KeyringFile, "settle", refuse)
            with pytest.raises(StoreError, match="could not be destroyed"):
                store.flush()
        keys, after = today.keys.read_bytes(), today.path.read_bytes()
    assert len(KeyringFile(today.keys).read().find(find_slot("buckets", ROW))) == 1
    today.keys.write_bytes(keys)
    assert len(KeyringFile(today.keys).read().find(find_slot("buckets", ROW))) == 2
    other = today.path.with_name("yesterday.db")
    yesterday = other.read_bytes()
    try:
        for columns in (TABLES["buckets"], ("names",), ("body",)):
            today.path.write_bytes(after if is_committed else before)
            found = open_reader(today.path, keyring=today.keys).read_stream("ada")
            assert found is not None
            assert found[1].clock.t == stream.t - (0 if is_committed else 7)
            other.write_bytes(before if is_committed else after)
            take(columns, "yesterday")(today)
            said = r"is older than .* says: it was rolled" if is_committed else "is newer than the last transaction"
            with pytest.raises(StoreError, match=said):
                open_reader(today.path, keyring=today.keys).read_stream("ada")
    finally:
        other.write_bytes(yesterday)


def test_a_copy_that_is_open_too_cannot_destroy_the_keys_of_the_store(today: Moments, tmp_path: Path) -> None:
    twin = tmp_path / "twin.db"
    shutil.copy(today.path, twin)
    with SqliteStore(twin, keyring=today.keys) as copied, SqliteStore(today.path, keyring=today.keys) as store:
        stream = Stream(Mean(), retention=96, max_age=MAX_AGE, store=store.stream("ada"))
        stream.extend(np.arange(3.0), times=[LATER] * 3)
        store.flush()
        other = Stream(Mean(), retention=96, max_age=MAX_AGE, store=copied.stream("ada"))
        other.extend(np.arange(7.0), times=[LATER] * 7)
        with pytest.raises(StoreError, match="was used by another process since this one has read it"):
            copied.flush()
        with pytest.raises(StoreError, match="is older than"):
            copied.flush()
        stream.extend(np.arange(3.0), times=[LATER] * 3)
        store.flush()
        copied._open.clear()
        copied._disconnect()
    assert open_reader(today.path, keyring=today.keys).verify(at=LATER) == ()
    found = open_reader(today.path, keyring=today.keys).read_stream("ada")
    assert found is not None
    assert found[1].clock.t == stream.t


def test_a_seal_error_names_no_bytes(today: Moments) -> None:
    """What was opened of a row is never in a sentence."""
    with pytest.raises(SealError) as problem:
        SealedRows(MemoryRows(), KeyringFile(today.keys), is_shared=False).refresh(is_writer=False)
    assert "row 1 of the table about is not sealed, or was cut off" in str(problem.value)
