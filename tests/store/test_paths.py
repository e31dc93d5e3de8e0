"""The files of a store: one store however its name is spelled, any name, and nobody else may read them."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from reading import read_streams
from vestige import Mean, SqliteStore, Stream
from vestige.cli import command
from vestige.errors import ParameterError, StoreBusyError, StoreError
from vestige.store import open_reader, open_store

VICTIM = b"a canary in a journal"


def fill(path: Path | str) -> None:
    with SqliteStore(path) as store:
        stream = Stream(Mean(), retention=96, seed=0, store=store.stream("a"))
        stream.extend(np.arange(100.0), subjects=["ada"] * 100)


@pytest.fixture
def linked(tmp_path: Path) -> tuple[Path, Path]:
    """A store, and a link to it in another folder."""
    (tmp_path / "there").mkdir()
    (tmp_path / "here").mkdir()
    real, link = tmp_path / "there" / "a.db", tmp_path / "here" / "link.db"
    fill(real)
    link.symlink_to(real)
    return real, link


def test_a_link_and_what_it_leads_to_have_one_writer(linked: tuple[Path, Path]) -> None:
    real, link = linked
    for first, second in ((real, link), (link, real)):
        with SqliteStore(first) as store:
            assert store.path == real
            with pytest.raises(StoreBusyError, match="is open for writing elsewhere"):
                SqliteStore(second)
    relative = Path(os.path.relpath(link))
    with SqliteStore(relative), pytest.raises(StoreBusyError):
        SqliteStore(real.parent / ".." / "there" / "a.db")
    assert sorted(file.name for file in link.parent.iterdir()) == ["link.db"]


def test_verify_sees_the_files_beside_what_a_link_leads_to(
    linked: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vestige.store.sqlite.verify._SETTLING", 0.1)
    real, link = linked
    real.with_name("a.db-journal").write_bytes(bytes(8) + VICTIM)
    found = open_reader(link).verify(canaries=[VICTIM])
    assert any("a.db-journal is there" in text for text in found)
    assert any("canary 1 of 1 is in a.db-journal" in text for text in found)


def test_a_store_is_made_where_a_link_leads(tmp_path: Path) -> None:
    (tmp_path / "link.db").symlink_to(tmp_path / "real.db")
    fill(tmp_path / "link.db")
    assert (tmp_path / "link.db").is_symlink()
    assert not (tmp_path / "real.db").is_symlink()
    assert read_streams(tmp_path / "real.db").keys() == {"a"}


def test_a_store_with_two_names_is_refused(tmp_path: Path) -> None:
    fill(tmp_path / "a.db")
    (tmp_path / "b.db").hardlink_to(tmp_path / "a.db")
    for name in ("a.db", "b.db"):
        with pytest.raises(StoreError, match=r"has 2 names \(hard links\), .*; remove the others, or copy the file"):
            SqliteStore(tmp_path / name)
    (tmp_path / "b.db").unlink()
    with SqliteStore(tmp_path / "a.db") as store:
        assert store.names() == ("a",)


NAMES = [
    "[a]*?.db",
    "file:a.db",
    "file:a.db?mode=memory",
    "with space & %41#x.db",
    "ü.db",
    os.fsdecode(b"\xff\xfe.db"),
    "-dash.db",
    "a\nb.db",
    "'quote\".db",
]


@pytest.mark.parametrize("name", NAMES, ids=range(len(NAMES)))
def test_any_name_works_in_every_function(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("vestige.store.sqlite.verify._SETTLING", 0.1)
    fill(name)
    assert sorted(os.listdir()) == sorted([name, f"{name}.key", f"{name}.key.count", f"{name}.lock"])
    assert read_streams(name)["a"][1].clock.t == 100
    assert open_reader(name).verify() == ()
    key = Path(f"{name}.key").read_bytes()
    (found,) = open_reader(name).verify(canaries=[key])
    assert "canary 1 of 1 is in" in found
    found.encode()  # can be printed
    Path(f"{name}-journal").write_bytes(bytes(8) + VICTIM)
    assert len(open_reader(name).verify(canaries=[VICTIM])) == 2
    with SqliteStore(name) as store:
        store.tidy()
        store.remove("a")
    assert read_streams(name) == {}


@pytest.mark.parametrize("name", NAMES, ids=range(len(NAMES)))
def test_any_name_works_in_the_commands(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    fill(name)
    for verb in ("list", "estimate", "sweep", "verify"):
        done = CliRunner().invoke(command, [verb, "--", name], prog_name="vestige")
        assert done.exit_code == 0, done.output
    assert set(os.listdir()) == {name, f"{name}.key", f"{name}.key.count", f"{name}.lock"}


@pytest.mark.parametrize(
    ("path", "problem", "text"),
    [
        (None, ParameterError, "=None is not a path"),
        (7, ParameterError, "=7 is not a path"),
        ("a\0b", ParameterError, r"='a\\x00b' is not a path"),
        ("x" * 300, StoreError, r"x: cannot be a file \(File name too long\); give another path"),
        ("", ParameterError, "is empty; give the path of a file"),
    ],
)
def test_what_cannot_be_a_path_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str, problem: type[Exception], text: str
) -> None:
    monkeypatch.chdir(tmp_path)
    for use, parameter in ((SqliteStore, "path"), (open_reader, "address"), (open_store, "address")):
        with pytest.raises(problem, match=parameter + text if text.startswith("=") else text):
            use(path)


def test_devices_and_pipes_are_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for use in (SqliteStore, open_reader):
        with pytest.raises(StoreError, match="is a device or a pipe; give the path of a file"):
            use(tmp_path / "pipe")
    assert [file.name for file in tmp_path.iterdir()] == ["pipe"]


UNSEEN = """
import os, sys
from vestige import SqliteStore
from vestige.store import open_reader, open_store
if os.getuid() == 0:  # root may look anywhere
    os.chown(sys.argv[1], 65534, 65534)
    os.setgid(65534); os.setuid(65534)
path = sys.argv[1] + "/a.db"
with SqliteStore(path) as store:
    store.pseudonym("ada")
print(len(open_reader(path).snapshot().all_streams()), open_reader(path).verify(canaries=[b"nothing of that kind"]))
"""


def test_a_folder_that_one_may_not_list_will_do() -> None:
    folder = Path(tempfile.mkdtemp(dir="/tmp"))  # pytest's own folders are closed to others
    folder.chmod(0o333)
    try:
        done = subprocess.run(
            [sys.executable, "-c", UNSEEN, str(folder)], capture_output=True, text=True, check=False, cwd="/"
        )
        assert done.stdout == "0 ()\n", done.stderr
    finally:
        folder.chmod(0o755)
        shutil.rmtree(folder)


def test_links_that_lead_in_a_circle_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to(tmp_path / "b")
    (tmp_path / "b").symlink_to(tmp_path / "a")
    with pytest.raises(StoreError, match="give another path"):
        SqliteStore(tmp_path / "a")


def mode_of(file: Path) -> int:
    return stat.S_IMODE(file.stat().st_mode)


def test_all_files_are_for_their_owner_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: dict[str, int] = {}
    before = os.umask(0)
    try:
        path = tmp_path / "a.db"
        replaced = Path.replace

        def watched(self: Path, target: Path) -> Path:
            seen[self.suffix] = mode_of(self)
            return replaced(self, target)

        monkeypatch.setattr(Path, "replace", watched)
        fill(path)
        with SqliteStore(path) as store, store.transaction():
            store.write("b", store.terms("a"), store.stream("a").read(store.terms("a")))
            seen["-journal"] = mode_of(tmp_path / "a.db-journal")
    finally:
        os.umask(before)
    seen |= {file.name: mode_of(file) for file in tmp_path.iterdir()}
    assert set(seen) == {".draft", "-journal", "a.db", "a.db.key", "a.db.key.count", "a.db.lock"}
    assert set(seen.values()) == {0o600}


def test_no_draft_is_written_through_a_link(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever guesses the name of a draft and puts a link there gets nothing."""
    monkeypatch.setattr("secrets.token_hex", lambda _: "guessed")
    (tmp_path / "loot").write_bytes(b"")
    (tmp_path / "loot").chmod(0o666)
    with SqliteStore(tmp_path / "a.db") as store:
        (tmp_path / "a.db.key.guessed.draft").symlink_to(tmp_path / "loot")
        (tmp_path / "a.db.key.new").symlink_to(tmp_path / "loot")
        with pytest.raises(StoreError, match=r"a\.db\.key: cannot be written \(File exists\)"):
            store.pseudonym("ada")
        (tmp_path / "a.db.key.guessed.draft").unlink(missing_ok=True)
        store.pseudonym("ada")
    assert (tmp_path / "loot").read_bytes() == b""
    assert mode_of(tmp_path / "a.db.key") == 0o600


def test_a_users_file_beside_the_store_is_not_taken_for_a_draft(tmp_path: Path) -> None:
    names = ["a.db.report.draft", "a.db.draft", "a.db.0123456789abcdef.drafts", "a.db2.0123456789abcdef.draft"]
    left = ["a.db.0123456789abcdef.draft", "a.db.key.0123456789abcdef.draft", "a.db.key.count.0123456789abcdef.draft"]
    for name in names + left:
        (tmp_path / name).touch()
    SqliteStore(tmp_path / "a.db").close()
    there = {file.name for file in tmp_path.iterdir()}
    assert there >= set(names)
    assert not there & set(left), "what a killed process left is removed"
    assert open_reader(tmp_path / "a.db").verify() == ()
