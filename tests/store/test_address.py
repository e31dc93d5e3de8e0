"""Stores by address: one way to open each kind, and nobody above the store knows which kinds there are."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import vestige
from vestige import Mean, MemoryStore, SqliteStore, Stream, open_reader, open_store
from vestige.errors import ParameterError, StoreError
from vestige.store import BACKENDS, Store
from vestige.store.address import find_file, hide_passwords, show_address

SOURCE = Path(vestige.__file__).parent


@pytest.mark.parametrize("name", ["a.db", "memory", "a:b.db", "./memory:", "postgresql:a"])
def test_without_a_scheme_it_is_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.chdir(tmp_path)
    with open_store(name) as store:
        assert isinstance(store, SqliteStore)
    assert Path(name).is_file()


def test_a_path_is_always_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    open_store(Path("memory:")).close()
    assert (tmp_path / "memory:").is_file()


def test_one_in_memory() -> None:
    with open_store("memory:") as store, open_store("memory:") as other:
        assert isinstance(store, MemoryStore)
        Stream(Mean(), retention=96, seed=0, store=store.stream("a")).push(1.0)
        store.flush()
        assert store.names() == ("a",)
        assert other.names() == ()


@pytest.mark.parametrize("opened", [open_store, open_reader])
@pytest.mark.parametrize("address", ["redis://ada:secret@host/1", "mysql://host", "sqlite:"])
def test_an_unknown_scheme_is_refused_with_those_that_there_are(
    opened: object, address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert callable(opened)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(
        ParameterError, match=r"unknown scheme '\w+:'; use the path of a file, or memory:, or post"
    ) as caught:
        opened(address)
    assert "secret" not in str(caught.value)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("visits.db", "visits.db"),
        ("a:b@c.db", "a:b@c.db"),
        ("postgresql://host/db", "postgresql://host/db"),
        ("postgresql://ada@host/db", "postgresql://ada@host/db"),
        ("postgresql://ada:secret@host:5432/db", "postgresql://ada:***@host:5432/db"),
        ("postgresql://ada:s/e@c?r:e t@host/db", "postgresql://ada:***@host/db"),
        ("postgresql://ada@srv:secret@host/db", "postgresql://ada@srv:***@host/db"),
        ("postgresql://ada@host:5432/db", "postgresql://ada@host:5432/db"),
        ("postgresql://:secret@/db", "postgresql://:***@/db"),
        ("postgresql://ada@host/db?sslpassword=secret&x=1", "postgresql://ada@host/db?sslpassword=***&x=1"),
        ("postgresql://host:5432/db?user=ada&password=s@secret&x=1", "postgresql://host:***&x=1"),
        ("redis://ada:secret@host", "redis://ada:***@host"),
        (Path("postgresql://ada"), "postgresql:/ada"),
    ],
)
def test_an_address_is_shown_without_its_password(address: str | Path, shown: str) -> None:
    assert show_address(address) == shown
    assert "secret" not in hide_passwords(f"{address}: is wrong; use {address}")


def test_which_addresses_are_files() -> None:
    assert find_file("a.db") == Path("a.db")
    assert find_file(Path("memory:")) == Path("memory:")
    assert find_file("memory:") is None
    assert find_file("postgresql://ada:secret@host/db") is None


@pytest.mark.parametrize("address", ["memory://x", "memory:"])
def test_what_one_in_memory_cannot_have(address: str, tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match=r"nothing after it|key has no use"):
        open_store(address, key=tmp_path / "key")
    with pytest.raises(StoreError, match="there is no such store: one in memory ends with its process"):
        open_reader("memory:")
    with pytest.raises(StoreError, match="there is no such store"):
        open_store("memory:", create=False)


def test_one_that_is_not_there_is_not_created_by_a_slip(tmp_path: Path) -> None:
    for opened in (lambda path: open_store(path, create=False), open_reader):
        with pytest.raises(StoreError, match=r"no\.db: there is no such store; create one with vestige run --store"):
            opened(tmp_path / "no.db")
    assert not list(tmp_path.iterdir())


def test_another_kind_is_one_class_and_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    class Another(MemoryStore):
        address_form = "another://HOST"

        @classmethod
        def open(cls, address: str | Path, **_: object) -> Another:
            assert address == "another://here"
            return cls()

    monkeypatch.setitem(BACKENDS, "another", Another)
    assert isinstance(open_store("another://here"), Another)
    with pytest.raises(ParameterError, match=r"or memory:, or .*, or another://HOST$"):
        open_store("other://here")


@pytest.mark.parametrize("address", ["a.db", "memory:"])
def test_a_writer_sees_what_a_reader_sees(address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with open_store(address) as store:
        stream = Stream(Mean(), retention=96, seed=0, store=store.stream("a"))
        stream.extend(range(200), subjects=["ada"] * 200)
        store.flush()
        before = store.snapshot().all_streams()
        assert store.verify(canaries=[b"ada"]) == ()
        assert before["a"][1].clock == stream.clock
        value = stream.retained.values[:1].tobytes()
        assert "canary 1 of 1 is in" in "".join(store.verify(canaries=[value]))
        if not isinstance(store, MemoryStore):
            assert open_reader(address).snapshot() == store.snapshot()
            assert open_reader(address).pseudonym("ada") == store.pseudonym("ada")
        stream.extend(range(200, 400))
        store.flush()
        assert store.verify(canaries=[value]) == ()
        assert before["a"][1].clock.t == 200, "a snapshot stays as it was"


def test_a_new_key_in_memory_lets_nobody_be_found() -> None:
    with open_store("memory:") as store:
        Stream(Mean(), retention=96, seed=0, store=store.stream("a")).push(1.0, subject="ada")
        before = store.pseudonym("ada")
        store.rekey()
        assert store.pseudonym("ada") != before
        assert store.snapshot().streams["a"][1].retained.subjects.tolist() == ["f" * 32]


@pytest.mark.parametrize("package", ["cli", "audit", "operations", "checks", "planning", "lab", "stream"])
def test_nobody_above_knows_a_backend(package: str) -> None:
    for path in (SOURCE / package).rglob("*.py"):
        text = path.read_text()
        assert not re.search(r"SqliteStore|SqliteReader|vestige\.store\.sqlite", text), path


def test_a_store_says_all_that_it_must() -> None:
    assert Store.__abstractmethods__ == {
        "_erase",
        "_place",
        "names",
        "open",
        "open_reader",
        "pseudonym",
        "read_ledger",
        "rekey",
        "snapshot",
        "terms",
        "tidy",
        "transaction",
        "verify",
        "write_ledger",
    }
