"""A sealed store as its code first wrote it: version 8 of the format, and version 1 of a keyring in a file.

It is the store of version 6 that is among the fixtures, brought up to date and sealed.
"""

from __future__ import annotations

import shutil
from datetime import UTC, datetime
from pathlib import Path

import pytest

from old_stores import FIXTURES, copy_store
from reading import read_streams
from store.sealed_decoder import list_parts, list_secrets, open_parts, read_files
from vestige import SqliteStore
from vestige.errors import StoreError
from vestige.store import KeyringFile, open_reader
from vestige.store.service_notes import ServiceNotes
from vestige.stream import open_stream

MADE = datetime(2026, 11, 18, 6, tzinfo=UTC)
"""A little after the store of version 6 was written, so that nothing in it has expired."""


@pytest.fixture
def paths(tmp_path: Path) -> tuple[Path, Path]:
    names = {"sealed8.db": "sealed8.db", "version6.db.key": "sealed8.db.key", "sealed8.keyring": "sealed8.keyring"}
    for name, copy in names.items():
        shutil.copyfile(FIXTURES / name, tmp_path / copy)
        (tmp_path / copy).chmod(0o600)
    return tmp_path / "sealed8.db", tmp_path / "sealed8.keyring"


def bring_up_to_date(path: Path, keys: Path) -> None:
    with SqliteStore(path, keyring=keys):
        pass


def test_readers_say_in_a_sentence_what_to_do(paths: tuple[Path, Path]) -> None:
    path, keys = paths
    image = path.read_bytes()
    with pytest.raises(StoreError, match=r"version 8 .* open it once for writing, .* to version 10$"):
        open_reader(path, keyring=keys).snapshot()
    with pytest.raises(StoreError, match="is sealed, and cannot be opened without its keyring"):
        SqliteStore(path)
    assert path.read_bytes() == image


def test_a_writer_adds_the_tables_of_a_service(paths: tuple[Path, Path]) -> None:
    path, keys = paths
    with SqliteStore(path, keyring=keys) as store:
        ServiceNotes(store).write_definition("visits", {"retention": 96})
    with SqliteStore(path, keyring=keys) as store:
        assert ServiceNotes(store).read_definitions() == {"visits": {"retention": 96}}
    assert open_reader(path, keyring=keys).verify(at=MADE) == ()


def test_it_holds_what_the_store_in_clear_holds(paths: tuple[Path, Path], tmp_path: Path) -> None:
    path, keys = paths
    plain = copy_store(6, tmp_path)
    with SqliteStore(plain):
        pass
    bring_up_to_date(path, keys)
    reader = open_reader(path, keyring=keys)
    assert reader.snapshot().all_streams() == read_streams(plain)
    assert reader.snapshot().ledger == open_reader(plain).snapshot().ledger
    assert reader.verify(at=MADE) == ()
    assert KeyringFile(keys).id.hex().startswith(read_files(path)[0].split(b"VSL\x01", 1)[1][:8].hex())


def test_it_is_opened_by_the_layout_alone(paths: tuple[Path, Path], tmp_path: Path) -> None:
    path, keys = paths
    bring_up_to_date(path, keys)
    parts, names = list_parts([read_files(path)], tmp_path / "scratch"), open_reader(path, keyring=keys).survey()[0]
    opened = list(open_parts(parts, keys.read_bytes()))
    assert len(opened) == len(parts) >= len(list_secrets(keys.read_bytes())) >= 6
    for name in names:
        assert any(name.encode() in part for part in opened)
        assert name.encode() not in path.read_bytes()


def test_it_can_be_written(paths: tuple[Path, Path]) -> None:
    path, keys = paths
    before = keys.read_bytes()
    with SqliteStore(path, keyring=keys) as store:
        stream = open_stream(store, "mean")
        t = stream.t
        stream.extend([1.0, 2.0], source="more")
        store.flush()
    found = open_reader(path, keyring=keys).read_stream("mean")
    assert found is not None
    assert found[1].clock.t == t + 2
    assert not list_secrets(before) >= list_secrets(keys.read_bytes())
    assert open_reader(path, keyring=keys).verify(at=MADE) == ()
