"""A store that was put back from an old backup is noticed, and no other one is."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from vestige import Mean, Stream, open_reader, open_store
from vestige.operations import forget
from vestige.store import KeyringFile, sqlite
from vestige.store.rollback import Rollback


class Shop:
    """A store whose key is kept apart."""

    def __init__(self, folder: Path, name: str = "a.db") -> None:
        (folder / "apart").mkdir(exist_ok=True)
        self.store, self.key, self.backup = folder / name, folder / "apart" / "key", folder / f"{name}.backup"

    def work(self, *references: str | None, tidy: bool = False) -> None:
        with open_store(self.store, key=self.key) as store:
            stream = Stream(Mean(), retention=96, seed=0, store=store.stream("main"))
            stream.extend([1.0, 2.0], subjects=["ada", "bob"])
            for reference in references:
                forget(store, ["ada"], references=None if reference is None else [reference])
            if tidy:
                store.tidy()

    def look(self) -> Rollback | None:
        found = open_reader(self.store, key=self.key).find_rollback()
        with open_store(self.store, key=self.key) as store:
            assert (store.find_rollback() is None) == (found is None)
        return found

    def back_up(self) -> None:
        shutil.copy(self.store, self.backup)

    def put_back(self) -> None:
        shutil.copy(self.backup, self.store)

    def accept(self) -> None:
        with open_store(self.store, key=self.key) as store:
            store.accept_rollback()


@pytest.mark.parametrize("later", [("T-2", "T-3"), (), (None, "T-2")])
def test_it_is_noticed_until_it_is_accepted(tmp_path: Path, later: tuple[str | None, ...]) -> None:
    shop = Shop(tmp_path)
    shop.work("T-1", tidy=True)
    shop.back_up()
    shop.work(*later)
    assert shop.look() is None
    shop.put_back()
    found = shop.look()
    assert found is not None
    assert found.missing == later
    for _ in range(4):
        shop.work(tidy=True)  # however much is written since
        assert shop.look() == found
    shop.work(*filter(None, later))
    again = shop.look()
    assert again is not None
    assert again.missing == tuple(each for each in later if each is None), "those that were filed again are not missing"
    shop.accept()
    assert shop.look() is None
    shop.put_back()
    assert shop.look() is not None


def test_whoever_reads_it_first_notices_it(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    shop.work()
    shop.back_up()
    shop.work("T-1")
    shop.put_back()
    found = open_reader(shop.store, key=shop.key).find_rollback()
    assert found is not None
    assert found.missing == ("T-1",)


def test_a_long_session_is_noted_meanwhile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite.store, "_NOTED_EVERY", 0.0)
    shop = Shop(tmp_path)
    shop.work()
    with open_store(shop.store, key=shop.key) as store:
        stream = Stream(Mean(), retention=96, seed=0, store=store.stream("main"))
        stream.extend([1.0], subjects=["ada"])
        stream.flush()
        shop.back_up()
        stream.extend([1.0], subjects=["ada"])
    shop.put_back()
    assert shop.look() is not None


def test_a_store_that_is_sealed_or_has_other_keys_is_noted_further(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    one, two = (KeyringFile(tmp_path / name, create=True) for name in ("one.keyring", "two.keyring"))
    shop.work("T-1")
    noted = []
    for now, other in ((None, one), (one, two)):  # the rows are sealed with keys that those before do not have
        with open_store(shop.store, key=shop.key, keyring=now or other) as store:
            if now is not None:
                store.rotate(other)
            assert store.newest_request == 1
            noted.append((shop.key.parent / "key.a.db.count").read_bytes())
        reader = open_reader(shop.store, key=shop.key, keyring=other)
        assert reader.find_rollback() is None
        assert reader.verify() == ()
    assert noted[0] != noted[1]
    assert {note[8:] for note in noted} == {(1).to_bytes(8, "little")}


def test_other_stores_are_not_noticed(tmp_path: Path) -> None:
    """Two that share a key, one that is moved with its key, one whose last write was not noted, and one without key."""
    one, two = Shop(tmp_path, "a.db"), Shop(tmp_path, "b.db")
    for _ in range(3):
        one.work("T-1")
    two.work()
    assert one.look() is two.look() is None
    notes = {file.name: file.read_bytes() for file in (tmp_path / "apart").iterdir()}
    assert sorted(notes) == ["key", "key.a.db.count", "key.a.db.requests", "key.b.db.count"]
    assert len(notes["key.a.db.count"]) == 16
    one.work("T-2")
    (tmp_path / "apart" / "key.a.db.count").write_bytes(notes["key.a.db.count"])
    assert one.look() is None, "the note comes after the commit"
    (moved := tmp_path / "moved").mkdir()
    shutil.copy(one.store, moved)
    shutil.copytree(tmp_path / "apart", moved / "apart")
    assert Shop(moved).look() is None
    with open_store(tmp_path / "c.db") as store:
        Stream(Mean(), retention=96, seed=0, store=store.stream("main")).extend([1.0])
    assert not list(tmp_path.glob("c.db.key*"))


def test_the_list_has_no_person_and_goes_with_the_receipts(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    shop.work("T-1")
    listed = tmp_path / "apart" / "key.a.db.requests"
    assert listed.read_text().startswith("1\t20")
    assert listed.read_text().endswith("\tT-1\n")
    with open_store(shop.store, key=shop.key) as store:
        store.write_ledger(type(store.read_ledger())(store.newest_request))
    assert listed.read_text() == ""


def test_a_note_that_cannot_be_written_stops_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    shop = Shop(tmp_path)
    shop.work()
    count = tmp_path / "apart" / "key.a.db.count"
    count.unlink()
    count.mkdir()
    shop.work("T-1")
    assert "is not noticed" in caplog.text
    assert shop.look() is None
