"""Nothing hides in a database file: what was deleted is gone or found, and what is found is really unused."""

from __future__ import annotations

import re
import sqlite3
import struct
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from vestige.store.sqlite import page_scan
from vestige.store.sqlite.page_scan import find_residue

RNG = np.random.default_rng
Stretch = tuple[int, int, int, str]


def opened(page_size: int = 4096, secure: str = "ON") -> sqlite3.Connection:
    db = sqlite3.connect(":memory:", isolation_level=None)
    db.execute(f"PRAGMA page_size = {page_size}")
    db.execute(f"PRAGMA secure_delete = {secure}")
    return db


def canary(i: int) -> bytes:
    return b"<canary %05d>" % i


def churned(seed: int, page_size: int, secure: str) -> tuple[sqlite3.Connection, set[int]]:
    """A database after many changes of all kinds, and the numbers of the rows that it still has."""
    db, rng, live = opened(page_size, secure), RNG(seed), set[int]()
    db.execute("CREATE TABLE a (id INTEGER PRIMARY KEY, x BLOB, y TEXT)")
    db.execute("CREATE INDEX of_a ON a (y, x)")
    db.execute("CREATE TABLE b (k PRIMARY KEY, v) WITHOUT ROWID")
    db.execute("CREATE TABLE tiny (k PRIMARY KEY) WITHOUT ROWID")
    db.execute(f"CREATE TABLE {'long_' * 200} (v)")
    db.execute("CREATE VIEW seen AS SELECT x FROM a")
    for i in range(500):
        draw, x = rng.random(), canary(i) * int(1 + rng.exponential(20))
        if draw < 0.4:
            db.execute("INSERT INTO a VALUES (?, ?, ?)", (int(rng.integers(2**40)), x, "abc"[i % 3] * 20))
            live.add(i)
        elif draw < 0.7:
            db.execute("INSERT INTO b VALUES (?, ?)", (x, i))
            live.add(i)
        elif live:
            gone = int(rng.choice(sorted(live)))
            db.execute("DELETE FROM a WHERE instr(x, ?)", (canary(gone),))
            db.execute("DELETE FROM b WHERE v = ?", (gone,))
            live.discard(gone)
    db.execute("INSERT INTO tiny VALUES (''), (0), (1)")
    return db, live


def damaged(image: bytes, at: int, new: bytes) -> bytes:
    return image[:at] + new + image[at + len(new) :]


def kinds(found: tuple[str, ...]) -> Counter[str]:
    return Counter(re.sub(r"^page \d+ | \(byte \d+\)$", "", sentence) for sentence in found)


def unused(image: bytes) -> list[Stretch]:
    """All stretches that must be zero: page, first byte, end, where."""
    stretches: list[Stretch] = []

    class Recording(page_scan._Walk):
        def check_zero(self, page: int, start: int, end: int, where: str) -> None:
            base = (page - 1) * self.size
            stretches.append((page, base + start, base + end, where))

    walk = Recording(image)
    assert walk.check_header()
    walk.walk_trees()
    walk.walk_freelist()
    assert walk.found == {}
    return [stretch for stretch in stretches if stretch[1] < stretch[2]]


def filled(image: bytes, seed: int | None) -> bytes:
    """The image with all that is unused overwritten: by zeros, or by bytes that are not."""
    own, rng = bytearray(image), RNG(seed)
    for _, start, end, _ in unused(image):
        own[start:end] = bytes(end - start) if seed is None else rng.integers(1, 256, end - start, np.uint8).tobytes()
    return bytes(own)


def seen_by_sqlite(image: bytes) -> object:
    """All that SQLite itself can say of an image."""
    db = sqlite3.connect(":memory:")
    try:
        db.deserialize(image)
        asked = ("integrity_check", "page_count", "freelist_count", "user_version", "schema_version", "application_id")
        indexed = db.execute("SELECT x FROM a INDEXED BY of_a ORDER BY y, x").fetchall()
        return [db.execute(f"PRAGMA {one}").fetchall() for one in asked], indexed, list(db.iterdump())
    except (sqlite3.Error, UnicodeError) as error:
        return repr(error)
    finally:
        db.close()


@pytest.mark.parametrize("page_size", [1024, 4096, 65536])
def test_a_database_that_is_changed_in_place_is_clean(page_size: int) -> None:
    db, rng = opened(page_size), RNG(page_size)
    db.execute("CREATE TABLE small (id INTEGER PRIMARY KEY, name TEXT, x BLOB)")
    db.execute("CREATE TABLE large (id INTEGER PRIMARY KEY, x BLOB)")
    db.execute("CREATE TABLE named (name PRIMARY KEY, x REAL) WITHOUT ROWID")
    db.execute("CREATE INDEX names ON small (id, name) WHERE id < 20")
    for i in range(300):
        db.execute("INSERT INTO small (name, x) VALUES (?, ?)", (f"n{i:04}", rng.bytes(50)))
    for _ in range(9):
        db.execute("INSERT INTO large (x) VALUES (?)", (rng.bytes(70_000),))
        db.execute("INSERT INTO named VALUES (?, ?)", (f"{rng.random():.9f}", rng.random()))
    for _ in range(300):
        db.execute("UPDATE small SET x = ? WHERE id = ?", (rng.bytes(50), int(rng.integers(1, 301))))
        db.execute("UPDATE large SET x = ? WHERE id = ?", (rng.bytes(70_000), int(rng.integers(1, 10))))
        db.execute("UPDATE named SET x = ?", (rng.random(),))
    assert find_residue(db.serialize()) == ()


@pytest.mark.parametrize("seed", range(5))
def test_vacuum_cleans_tables(seed: int) -> None:
    """Not so indexes: SQLite leaves copies of their entries in the gaps of pages that it splits, vacuum or not."""
    db, rng = opened(1024, "OFF"), RNG(seed)
    db.execute("CREATE TABLE a (id INTEGER PRIMARY KEY, x BLOB)")
    for i in rng.permutation(400).tolist():
        db.execute("INSERT INTO a VALUES (?, ?)", (i, rng.bytes(int(1 + rng.exponential(100)))))
    db.execute("DELETE FROM a WHERE id % 3 = 0")
    assert find_residue(db.serialize()) != ()
    db.execute("PRAGMA secure_delete = ON")
    db.execute("VACUUM")
    assert find_residue(db.serialize()) == ()


def test_what_is_deleted_without_care_is_found_and_not_repeated() -> None:
    db = opened(1024, "OFF")
    db.execute("CREATE TABLE a (id INTEGER PRIMARY KEY, x BLOB)")
    for i in range(200):
        db.execute("INSERT INTO a VALUES (?, ?)", (i, canary(i) * (1 if i % 5 else 200)))
    db.execute("DELETE FROM a WHERE id % 5 = 0 OR id BETWEEN 30 AND 90 OR id % 7 = 0")
    image = db.serialize()
    assert canary(35) in image
    assert canary(21) in image
    found = find_residue(image)
    assert kinds(found).keys() >= {"is not zero in a freeblock", "is not zero though it is free"}
    assert "canary" not in " ".join(found)
    for sentence in found:
        page, at = map(int, re.findall(r"\d+", sentence))
        assert (page - 1) * 1024 <= at < page * 1024
        assert image[at] != 0


@pytest.mark.parametrize("secure", ["ON", "FAST", "OFF"])
@pytest.mark.parametrize("page_size", [512, 1024, 4096, 65536])
def test_what_was_deleted_is_gone_or_found(page_size: int, secure: str) -> None:
    """SQLite 3.40 leaves deleted rows in the gaps of rebalanced pages even with secure_delete."""
    for seed in range(2):
        db, live = churned(seed, page_size, secure)
        for _ in range(2):
            image = db.serialize()
            assert all("not zero" in kind for kind in kinds(find_residue(image)))
            gone = [i for i in range(500) if i not in live and canary(i) in image]
            assert find_residue(image) or not gone
            clean = filled(image, None)
            assert find_residue(clean) == ()
            assert [i for i in range(500) if canary(i) in clean] == sorted(live)
            db.execute("VACUUM")


@pytest.mark.parametrize("page_size", [512, 4096, 65536])
@pytest.mark.parametrize("seed", range(3))
def test_all_that_is_unused_is_checked_and_none_of_it_is_used(seed: int, page_size: int) -> None:
    image = churned(seed, page_size, "ON")[0].serialize()
    noisy = filled(image, seed)
    assert seen_by_sqlite(noisy) == seen_by_sqlite(image)
    assert kinds(find_residue(noisy)) == Counter(
        f"is not zero {where}" for _, where in {(page, where) for page, _, _, where in unused(image)}
    )


def test_each_single_byte_in_an_unused_place_is_found() -> None:
    image, rng = filled(churned(1, 512, "ON")[0].serialize(), None), RNG(0)
    stretches = unused(image)
    assert len({where for *_, where in stretches[::2]}) >= 7
    for page, start, end, where in stretches[::2]:
        inner = image[(page - 1) * 512] == page_scan.TABLE_INTERIOR  # where a byte may be the number of a row
        if end - start < 1 + 7 * inner:
            continue
        for at in {start, end - 1 - 7 * inner, int(rng.integers(start, end - 7 * inner))}:
            found = find_residue(damaged(image, at, b"x" * (1 + 7 * inner)))
            assert found == (f"page {page} is not zero {where} (byte {at})",)


def test_no_change_escapes_both_sqlite_and_us() -> None:
    """But for fields of the header, and for keys of a table's inner pages, which divide rows and need not name any."""
    image, rng = filled(churned(1, 512, "ON")[0].serialize(), None), RNG(0)
    fields = {*range(24, 28), *range(40, 52), *range(56, 64), *range(68, 72), *range(92, 100)}
    before = seen_by_sqlite(image)
    for at in [*range(130), *rng.integers(130, len(image), 500).tolist()]:
        changed = damaged(image, at, bytes([image[at] ^ int(rng.integers(1, 256))]))
        inner = image[at // 512 * 512] == page_scan.TABLE_INTERIOR
        assert find_residue(changed) or at in fields or inner or seen_by_sqlite(changed) != before


def test_pages_are_counted_as_sqlite_counts_them() -> None:
    for seed in range(5):
        db, _ = churned(seed, 512, "ON")
        db.execute("DELETE FROM a")
        db.execute("DROP TABLE b")
        (count,), (free,) = [db.execute(f"PRAGMA {name}").fetchone() for name in ("page_count", "freelist_count")]
        image = db.serialize()
        lists = ("behind its list of free pages", "though it is free")
        assert free == sum(where in lists for *_, where in unused(image)) > 100
        walk = page_scan._Walk(image)
        walk.walk_trees()
        assert sum(walk.reached) == count - free
        wrong = damaged(image, 36, struct.pack(">I", free - 1))
        assert "counts other free pages than the free list has" in kinds(find_residue(wrong))


def test_an_image_of_another_length_is_found() -> None:
    image = churned(0, 512, "ON")[0].serialize()
    for length in [*range(200), *range(200, len(image), 97)]:
        assert find_residue(image[:length]) != ()
    for more in (b"\0", bytes(512), b"x" * 700):
        assert "counts other pages" in find_residue(image + more)[0]


def test_no_damage_is_answered_with_an_exception() -> None:
    rng = RNG(3)
    for seed in range(3):
        image = churned(seed, 512, "OFF")[0].serialize()
        for _ in range(60):
            noise = bytearray(image)
            for at in rng.integers(16, len(noise), rng.choice([1, 10, 1000])).tolist():
                noise[at] ^= 1 << int(rng.integers(8))
            assert isinstance(find_residue(bytes(noise)), tuple)
            heads = bytearray(image)
            for start in rng.integers(1, len(heads) // 512, 20) * 512:
                heads[start : start + 12] = rng.bytes(12)
            assert find_residue(bytes(heads)) != ()
    for length in (0, 1, 99, 100, 5000):
        assert find_residue(rng.bytes(length)) == ("page 1 is not the first page of a SQLite database (byte 0)",)


def test_pointers_must_reach_each_page_once() -> None:
    db = opened(512)
    db.execute("CREATE TABLE a (x)")
    db.executemany("INSERT INTO a VALUES (?)", [(bytes([i]) * 400,) for i in range(1, 9)])
    image = db.serialize()
    root, count = 512, len(image) // 512
    assert image[root] == page_scan.TABLE_INTERIOR
    assert find_residue(image) == ()
    last = struct.unpack_from(">I", image, root + 8)[0]
    for target in (0, count + 1, 2**32 - 1):
        assert find_residue(damaged(image, root + 8, struct.pack(">I", target))) == (
            f"page 2 points to a page that the file does not have (byte {root + 8})",
            f"page {last} is reached by nothing (byte {(last - 1) * 512})",
        )
    for target in (1, 2, 3):
        found = kinds(find_residue(damaged(image, root + 8, struct.pack(">I", target))))
        assert found == {"points to a page that is reached twice": 1, "is reached by nothing": 1}
    assert "is damaged" in kinds(find_residue(damaged(image, root, b"\2")))
    assert f"page {last} is damaged (byte {(last - 1) * 512})" in find_residue(
        damaged(image, (last - 1) * 512, b"\x0a")
    )


def test_cells_must_not_overlap() -> None:
    db = opened(512)
    db.execute("CREATE TABLE a (x)")
    db.execute("INSERT INTO a VALUES ('first'), ('second')")
    image = db.serialize()
    first = image[520:522]
    assert find_residue(image) == ()
    for pointer in (517, 522):  # to the start of all cells, and to the second
        found = find_residue(damaged(image, pointer, first))
        assert "has cells or freeblocks where none can be" in kinds(found)


@pytest.mark.parametrize("columns", [3, 60, 130, 300])
def test_a_cell_is_as_long_as_its_record(columns: int) -> None:
    """The header of a record with many columns is itself on overflow pages, depending on its length."""
    found = []
    for length in range(0, 520, 40):
        db = opened(512)
        defaults = [f"c{i} DEFAULT {'d' * (9 if i else 500 + length)!r}" for i in range(columns)]
        db.execute(f"CREATE TABLE a ({', '.join(defaults)})")
        db.execute("INSERT INTO a DEFAULT VALUES")
        image = db.serialize()
        assert find_residue(image) == ()
        low = 512 + struct.unpack_from(">H", image, 520)[0] + 1  # the lower byte of the length of the cell
        other = damaged(image, low, bytes([(image[low] + 1) % 128]))
        found.append(kinds(find_residue(other)))
    assert Counter() not in found
    assert {"has a cell of another length than its record": 1} in found


def test_an_overflow_chain_ends_with_its_payload() -> None:
    db = opened(512)
    db.execute("CREATE TABLE a (x)")
    db.execute("INSERT INTO a VALUES (?)", (b"x" * 1500,))
    image = db.serialize()
    assert len(image) == 5 * 512
    assert find_residue(image) == ()
    assert image[4 * 512 : 4 * 512 + 4] == bytes(4)
    assert kinds(find_residue(damaged(image, 4 * 512 + 3, b"\3"))) == {
        "has an overflow chain that goes on behind its payload": 1
    }
    assert kinds(find_residue(damaged(image, 3 * 512 + 3, b"\0"))) == {
        "points to a page that the file does not have": 1,
        "is reached by nothing": 1,
    }


def test_other_ways_to_keep_a_journal_are_found(tmp_path: Path) -> None:
    path = tmp_path / "wal.db"
    db = sqlite3.connect(path, isolation_level=None)
    db.execute("CREATE TABLE a (x)")
    assert find_residue(path.read_bytes()) == ()
    db.execute("PRAGMA journal_mode = WAL")
    db.execute("INSERT INTO a VALUES (1)")
    db.close()
    image = path.read_bytes()
    for one in (image, damaged(image, 18, b"\1"), damaged(image, 19, b"\1")):
        (only,) = find_residue(one)
        assert "journal mode must be DELETE" in only


def test_free_pages_are_zero_but_for_their_list() -> None:
    db = opened(512)
    db.execute("CREATE TABLE a (x)")
    db.execute("INSERT INTO a VALUES (?)", (b"x" * 1500,))
    db.execute("DELETE FROM a")
    image = db.serialize()
    assert find_residue(image) == ()
    trunk = struct.unpack_from(">I", image, 32)[0]
    leaves = {3, 4, 5} - {trunk}
    for at in range(1024, len(image)):
        page = at // 512 + 1
        if page in leaves:
            assert find_residue(damaged(image, at, b"x")) == (f"page {page} is not zero though it is free (byte {at})",)
        elif at % 512 >= 16:
            (only,) = find_residue(damaged(image, at, b"x"))
            assert only == f"page {page} is not zero behind its list of free pages (byte {at})"
        else:
            assert find_residue(damaged(image, at, b"x")) != ()


def test_auto_vacuum_is_found() -> None:
    db = sqlite3.connect(":memory:", isolation_level=None)
    db.execute("PRAGMA auto_vacuum = FULL")
    db.execute("CREATE TABLE a (x)")
    (only,) = find_residue(db.serialize())
    assert "auto_vacuum" in only


def test_reserved_bytes_of_each_page_must_be_zero() -> None:
    db = opened(512)
    db.execute("CREATE TABLE a (x)")
    db.execute("DROP TABLE a")
    db.execute("VACUUM")
    empty = damaged(damaged(db.serialize(), 20, b"\x20"), 105, struct.pack(">H", 480))
    db = sqlite3.connect(":memory:", isolation_level=None)
    db.deserialize(empty)
    db.execute("PRAGMA secure_delete = ON")
    db.execute("CREATE TABLE a (x)")
    db.execute("INSERT INTO a VALUES (?)", (b"x" * 5000,))
    db.execute("CREATE TABLE b AS SELECT x FROM a")
    db.execute("DELETE FROM b")
    image = db.serialize()
    assert find_residue(image) == ()
    for page in range(1, len(image) // 512 + 1):
        (only,) = find_residue(damaged(image, page * 512 - 32, b"x"))
        assert only.startswith(f"page {page} is not zero")


def test_the_page_for_locks_is_no_page_of_any_tree(monkeypatch: pytest.MonkeyPatch) -> None:
    db = opened(512)
    db.execute("CREATE TABLE a (x)")
    image = damaged(db.serialize(), 28, struct.pack(">I", 3)) + bytes(512)
    assert find_residue(image) == ("page 3 is reached by nothing (byte 1024)",)
    monkeypatch.setattr(page_scan, "LOCK_BYTE", 1024)
    assert find_residue(image) == ()
    assert find_residue(damaged(image, 1030, b"x")) == (
        "page 3 is not zero though it is set aside for locks (byte 1030)",
    )
