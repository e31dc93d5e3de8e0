"""Sealed stores by the command: --keyring everywhere, `vestige keyring`, backups, and no password in any output."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import chdir
from pathlib import Path
from threading import Timer
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from limits import join
from vestige.cli import command
from vestige.cli.group import load_commands
from vestige.cli.store_options import VARIABLE, StoreOptions
from vestige.store import BACKENDS, KeyringFile, SqliteStore, open_reader
from vestige.store.canaries import FORMS
from vestige.store.sqlite.reader import SqliteReader

ADDRESS = "postgresql://ada:tops3cret@db.example.org/visits"
OPTIONS = ("--column", "spent", "--retention", 96, "--by", "shop", "--subject", "who", "--seed", 1)


def vestige(*arguments: object, stdin: str | None = None) -> Result:
    return CliRunner().invoke(command, [str(a) for a in arguments], input=stdin, prog_name="vestige")


def said(*arguments: object) -> str:
    result = vestige(*arguments)
    assert result.exit_code == 0, result.output
    return " ".join(result.stdout.split())


def facts(*arguments: object) -> Any:
    result = vestige(*arguments, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def failed(*arguments: object, stdin: str | None = None) -> str:
    result = vestige(*arguments, stdin=stdin)
    assert result.exit_code in (1, 2), result.output
    return result.output


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a keyring, and a store that is sealed with it."""
    folder = tmp_path_factory.mktemp("sealed")
    rows = "".join(f"u{i % 7}@example.org,{i % 37},{'ab'[i % 2]}\n" for i in range(600))
    (folder / "v.csv").write_text("who,spent,shop\n" + rows)
    with chdir(folder):
        said("keyring", "init", "v.keyring")
        said("run", "v.csv", *OPTIONS, "--store", "v.db", "--keyring", "v.keyring")
    return folder


@pytest.fixture
def folder(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv(VARIABLE, raising=False)
    shutil.copytree(made, tmp_path / "site")
    monkeypatch.chdir(tmp_path / "site")
    return tmp_path / "site"


# --keyring.


def iterate_commands(group: click.Group, path: str = "vestige") -> Iterator[tuple[str, click.Command]]:
    for name, each in group.commands.items():
        if isinstance(each, click.Group):
            yield from iterate_commands(each, f"{path} {name}")
        else:
            yield f"{path} {name}", each


@pytest.mark.parametrize(("path", "each"), list(iterate_commands(load_commands())), ids=lambda value: str(value)[:40])
def test_every_command_on_a_store_takes_a_keyring(path: str, each: click.Command) -> None:
    opens = [param for param in each.params if {"store", "stores", "path"} & {param.name}]
    keyrings = [param for param in each.params if param.opts == ["--keyring"]]
    assert bool(opens) == bool(keyrings), path
    assert all(param.envvar == VARIABLE and param.metavar == "ADDRESS" for param in keyrings)


CALLS = (
    ("list",),
    ("estimate",),
    ("retained", "--stream", "a"),
    ("receipts",),
    ("verify",),
    ("sweep",),
    ("sweep", "--dry-run"),
    ("forget", "--subject", "u3@example.org"),
    ("forget", "--subject", "u3@example.org", "--dry-run"),
    ("export", "--sqlite", "copy.sqlite"),
    ("audit", "store"),
    ("remove", "--stream", "a"),
)


@pytest.mark.parametrize("call", CALLS, ids=" ".join)
def test_each_command_needs_the_keyring_and_takes_it_from_the_environment(
    call: tuple[str, ...], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = (*call, "v.db")
    assert "is sealed, and cannot be opened without its keyring; give it by --keyring, VESTIGE_KEYRING" in failed(
        *words
    )
    KeyringFile(folder / "other.keyring", create=True)
    assert "was sealed with the keyring" in failed(*words, "--keyring", "other.keyring")
    monkeypatch.setenv(VARIABLE, str(folder / "v.keyring"))
    assert "was sealed with the keyring" in failed(*words, "--keyring", "other.keyring"), "the option comes first"
    said(*words)


def test_rekey_takes_a_keyring(folder: Path) -> None:
    (folder / "v.db.key").unlink()
    assert "has a new key" in said("rekey", "v.db", "--keyring", "v.keyring")
    said("verify", "v.db", "--keyring", "v.keyring")


def test_a_run_goes_on_in_a_sealed_store(folder: Path) -> None:
    run = ("run", "v.csv", "--store", "v.db", "--keyring", "v.keyring")
    assert "Taken: 0 rows; rows 1 to 600 were read before." in said(*run), "at another place; the terms are the store's"
    with (folder / "v.csv").open("a") as file:
        file.write("u1@example.org,3,a\n")
    assert "Taken: 1 row" in said(*run)
    assert "is sealed" in failed("run", "v.csv", "--store", "v.db")


def test_the_keyring_may_be_in_the_file_of_options(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("vestige.toml").write_text('source = "v.csv"\nstore = "v.db"\nkeyring = "v.keyring"\n')
    monkeypatch.chdir(folder.parent)
    config = ("--config", folder / "vestige.toml")
    assert "Taken: 0 rows; rows 1 to 600 were read before." in said("run", *config)
    for call in (("list",), ("estimate",), ("verify",), ("sweep",)):
        said(*call, *config)
    monkeypatch.setenv(VARIABLE, "none.keyring")
    said("list", *config)
    (folder / "vestige.toml").write_text('store = "v.db"\nkeyring = 3\n')
    assert "keyring = 3 is not a text" in failed("list", *config)


@pytest.mark.usefixtures("folder")
def test_a_store_that_is_named_has_the_keyring_of_the_file_if_it_is_the_store_of_the_file() -> None:
    shutil.copy("v.db", "copy.db")
    Path("vestige.toml").write_text('store = "v.db"\nkeyring = "v.keyring"\n')
    said("estimate", "./v.db")
    assert "fresh keys" in said("keyring", "rotate", "v.db"), "which has to be named"
    assert "is sealed, and cannot be opened without its keyring" in failed("estimate", "copy.db")
    assert "there is no such keyring" in failed("estimate", "v.db", "--keyring", "none.keyring")
    Path("vestige.toml").write_text("store = ")
    assert "is sealed, and cannot be opened without its keyring" in failed("estimate", "v.db")


@pytest.mark.usefixtures("folder")
def test_init_shows_where_the_keyring_goes() -> None:
    said("init", "v.csv")
    text = Path("vestige.toml").read_text()
    assert '# keyring = "/another/device/v.keyring"' in text
    Path("vestige.toml").write_text(
        text.replace('# keyring = "/another/device/', 'keyring = "').replace('"v.db"', '"w.db"')
    )
    KeyringFile("w.keyring", create=True)
    Path("vestige.toml").write_text(Path("vestige.toml").read_text().replace("v.keyring", "w.keyring"))
    said("run")
    shutil.copy("w.db", "copy.db")
    assert "is sealed" in failed("list", "copy.db"), "and is not the store of the file"
    said("list", "w.db")
    said("list")


@pytest.mark.usefixtures("folder")
def test_a_keyring_without_a_store_is_refused_if_it_was_given(monkeypatch: pytest.MonkeyPatch) -> None:
    run = ("run", "v.csv", "--column", "spent", "--retention", 96)
    assert "--keyring v.keyring needs --store; give both, or leave it out" in failed(*run, "--keyring", "v.keyring")
    monkeypatch.setenv(VARIABLE, "none.keyring")
    said(*run)


@pytest.mark.usefixtures("folder")
def test_sealing_a_store_that_was_in_clear_is_said(caplog: pytest.LogCaptureFixture) -> None:
    said("run", "v.csv", *OPTIONS, "--store", "plain.db")
    KeyringFile("p.keyring", create=True)
    assert "is not sealed, so" in failed("list", "plain.db", "--keyring", "p.keyring")
    said("sweep", "plain.db", "--keyring", "p.keyring")
    assert "plain.db: was in clear, and is sealed with" in caplog.text
    assert "v.db" not in caplog.text
    assert "is sealed, and cannot be opened" in failed("list", "plain.db")
    said("list", "plain.db", "--keyring", "p.keyring")


@pytest.mark.usefixtures("folder")
def test_who_holds_a_sealed_store_is_asked() -> None:
    with SqliteStore("v.db", keyring="v.keyring"):
        forget = ("forget", "v.db", "--subject", "u3@example.org", "--keyring", "v.keyring", "--now")
        assert "did not reply within 0 s" in failed(*forget, "--wait", "0s")
    said("sweep", "v.db", "--keyring", "v.keyring")
    assert len(json.loads(said("receipts", "v.db", "--keyring", "v.keyring", "--format", "json"))) == 1


@pytest.mark.usefixtures("folder")
def test_if_who_holds_a_sealed_store_ends_the_request_is_carried_out_with_its_keyring() -> None:
    holder = SqliteStore("v.db", keyring="v.keyring")
    timer = Timer(0.2, holder.close)
    timer.start()
    assert "erased from" in said("sweep", "v.db", "--keyring", "v.keyring", "--wait", "30s")
    join(timer)


# Addresses with a password.


class Elsewhere(SqliteStore):
    """A store whose address has a password, such as one on a server."""

    @classmethod
    def open(cls, address: str | Path, **options: Any) -> SqliteStore:
        assert address == ADDRESS
        return SqliteStore("server.db", **options | {"key": "server.key"})

    @classmethod
    def open_reader(cls, address: str | Path, **options: Any) -> SqliteReader:
        assert address == ADDRESS
        return SqliteReader("server.db", **options | {"key": "server.key"})


@pytest.fixture
def server(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setitem(BACKENDS, "postgresql", Elsewhere)
    monkeypatch.setenv(VARIABLE, str(folder / "s.keyring"))
    KeyringFile(folder / "s.keyring", create=True)
    return folder


def test_no_command_prints_a_password_or_takes_an_address_for_a_file(server: Path) -> None:
    key = ("--key", "server.key")
    printed = [vestige("run", server / "v.csv", *OPTIONS, *key, "--store", ADDRESS, "--progress")]
    with (server / "v.csv").open("a") as file:
        file.write("u1@example.org,3,a\n")
    printed += [vestige("run", server / "v.csv", *key, "--store", ADDRESS)]
    printed += [vestige(*call, ADDRESS) for call in CALLS]
    for result in printed:
        assert result.exit_code == 0, result.output
    Path("vestige.toml").write_text(f'source = "v.csv"\nstore = "{ADDRESS}"\nkey = "server.key"\n')
    printed += [vestige("list"), vestige("run"), vestige("run", "--retention", 512)]
    for wrong in (
        ("estimate", ADDRESS, "--stream", "none"),
        ("estimate", ADDRESS, "--strict", "--format", "json"),
        ("receipts", ADDRESS, "--reference", "none"),
        ("remove", ADDRESS, "--stream", "none"),
        ("forget", ADDRESS, "--subject", "nobody@example.org", *key),
        ("audit", "store", ADDRESS, "--stream", "none"),
        ("export", ADDRESS, "--sqlite", "server.db-copy"),
        ("rekey", ADDRESS),
        ("run", "v.csv", "--column", "who", "--retention", 96, "--store", ADDRESS),
        ("run", ADDRESS),
        ("run", "v.csv", "--column", "spent", "--retention", 96, "--keyring", ADDRESS),
        ("list", ADDRESS, ADDRESS),
        ("list", ADDRESS, "--keyring", ADDRESS),
        ("verify", ADDRESS, "--against", ADDRESS),
        ("keyring", "init", ADDRESS),
        ("keyring", "verify", "s.keyring", "--store", ADDRESS),
        ("keyring", "rotate", ADDRESS),
        ("keyring", "rotate", ADDRESS, "--to", ADDRESS),
    ):
        printed.append(vestige(*wrong))
    for result in printed:
        assert "tops3cret" not in result.output, result.output
    assert "ada:***@db.example.org" in "".join(result.output for result in printed)
    assert not [name for name in os.listdir() if name.startswith("postgresql")]


def test_progress_and_waiting_name_the_store_without_its_password(
    server: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said("run", "v.csv", *OPTIONS, "--key", "server.key", "--store", ADDRESS)
    monkeypatch.setattr("vestige.cli.output.PATIENCE", 0.0)
    for call in ("list", "estimate", "verify", "sweep", "receipts"):
        result = vestige(call, ADDRESS, "--progress")
        assert result.exit_code == 0, result.output
        assert "tops3cret" not in result.output
    with SqliteStore(server / "server.db", keyring=server / "s.keyring"):
        result = vestige("sweep", ADDRESS, "--wait", "0s")
    assert "postgresql://ada:***@db.example.org/visits: asking the process that holds it" in result.output
    assert "vestige receipts postgresql://ada:***@" in result.output
    assert "tops3cret" not in result.output


def test_what_belongs_to_a_store() -> None:
    assert {"a/v.db", "a/v.db.key", "a/v.db.lock", "k"} <= set(StoreOptions("a/v.db", keyring="k").files)
    assert {"server.key", "k", "k.key"} <= set(StoreOptions(ADDRESS, key="server.key", keyring="k").files)
    assert not any("postgresql" in file for file in StoreOptions(ADDRESS, key="server.key").files)
    assert str(StoreOptions(ADDRESS)) == ADDRESS.replace("tops3cret", "***")


@pytest.mark.usefixtures("folder")
def test_the_keyring_is_not_overwritten_by_an_export() -> None:
    words = ("estimate", "v.db", "--keyring", "v.keyring", "--format", "json", "--out")
    assert "is a file of the store, which would be overwritten" in failed(*words, "v.keyring")


# vestige keyring.


@pytest.mark.usefixtures("folder")
def test_init_makes_a_private_file_and_says_what_to_do() -> None:
    text = said("keyring", "init", "new.keyring")
    assert Path("new.keyring").stat().st_mode & 0o777 == 0o600
    for word in ("another device than the store", "out of every backup"):
        assert word in text
    assert f'--keyring new.keyring export {VARIABLE}=new.keyring keyring = "new.keyring" (a line' in text
    before = Path("new.keyring").read_bytes()
    assert "new.keyring: exists, and is not overwritten" in failed("keyring", "init", "new.keyring")
    assert Path("new.keyring").read_bytes() == before
    assert "there is no folder" in failed("keyring", "init", "none/new.keyring")
    assert "is not the path of a file" in failed("keyring", "init", "postgresql://x")


@pytest.mark.usefixtures("folder")
def test_init_goes_on_where_a_process_was_killed() -> None:
    """It leaves an empty file, and perhaps a draft."""
    Path("new.keyring").touch()
    draft = Path("new.keyring.0123456789abcdef.draft")
    draft.write_bytes(b"half")
    said("keyring", "init", "new.keyring")
    assert not draft.exists()
    assert "nothing found" in said("keyring", "verify", "new.keyring")
    draft.write_bytes(b"half")
    assert f"{draft}: was left by a process that was killed; remove it" in failed("keyring", "verify", "new.keyring")


@pytest.mark.usefixtures("folder")
def test_a_file_system_that_copies_on_write_is_warned_of(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vestige.store.file_system._find_kind", lambda *_: "btrfs")
    for arguments in (["init", "new.keyring"], ["verify", "v.keyring"]):
        result = vestige("keyring", *arguments)
        assert result.exit_code == 0
        assert f"{arguments[1]}: lies on Btrfs, which copies on write" in result.stderr
    result = vestige("verify", "v.db", "--keyring", "v.keyring")
    assert result.exit_code == 0
    warned = [line.split(":")[1].split("/")[-1].strip() for line in result.stderr.splitlines() if "Btrfs" in line]
    assert warned == ["v.db", "v.keyring"]


@pytest.mark.usefixtures("folder")
def test_verify_checks_the_keys_and_the_rows() -> None:
    assert "v.keyring: nothing found; 5 keys." in said("keyring", "verify", "v.keyring")
    text = said("keyring", "verify", "v.keyring", "--store", "v.db")
    assert "Each row of v.db opens, and no key is left without a row." in text
    assert facts("keyring", "verify", "v.keyring", "--store", "v.db")["findings"] == []
    Path("v.keyring").chmod(0o644)
    assert "others than its owner may use it (its rights are 644)" in failed("keyring", "verify", "v.keyring")
    Path("v.keyring").chmod(0o600)
    KeyringFile("other.keyring", create=True)
    assert "was sealed with the keyring" in failed("keyring", "verify", "other.keyring", "--store", "v.db")
    slots = list(KeyringFile("v.keyring").read().list_slots().tolist())
    KeyringFile("v.keyring").settle({slots[-1]: 0})
    assert "has no key in" in failed("keyring", "verify", "v.keyring", "--store", "v.db")
    assert "there is no such keyring" in failed("keyring", "verify", "none.keyring")


@pytest.mark.usefixtures("folder")
def test_rotate_makes_a_copied_keyring_useless() -> None:
    before = said("estimate", "v.db", "--keyring", "v.keyring")
    shutil.copy("v.keyring", "copied.keyring")
    text = said("keyring", "rotate", "v.db", "--keyring", "v.keyring")
    assert "v.db: 5 rows sealed with fresh keys of" in text
    assert "the old ones are destroyed" in text
    assert said("estimate", "v.db", "--keyring", "v.keyring") == before
    assert "is newer than" in failed("estimate", "v.db", "--keyring", "copied.keyring")
    found = facts("keyring", "rotate", "v.db", "--keyring", "v.keyring")
    assert found == {"rows": 5, "keyring": KeyringFile("v.keyring").name}


@pytest.mark.usefixtures("folder")
def test_rotate_moves_a_store_to_another_keyring() -> None:
    before = said("estimate", "v.db", "--keyring", "v.keyring")
    rotate = ("keyring", "rotate", "v.db", "--keyring", "v.keyring", "--to", "new.keyring")
    assert "there is no such keyring; give the path of the one that the store has, or" in failed(*rotate)
    said("keyring", "init", "new.keyring")
    assert "0 keys: nothing is sealed with it yet." in said("keyring", "verify", "new.keyring")
    shutil.copy("v.keyring", "old.keyring")
    assert "all keys of" in said(*rotate)
    assert said("estimate", "v.db", "--keyring", "new.keyring") == before
    assert "0 keys: all of them were destroyed." in said("keyring", "verify", "v.keyring")
    text = failed(*rotate[:4], "old.keyring", *rotate[5:])
    assert "v.db: is sealed with new.keyring already; use that one from now on" in text
    assert re.search(r"end it by vestige keyring destroy \S*old\.keyring", text)
    assert "was sealed with the keyring" in failed("keyring", "rotate", "v.db", "--keyring", "old.keyring")
    assert KeyringFile("old.keyring").read().newest, "which may be that of another store"


@pytest.mark.usefixtures("folder")
def test_rotate_needs_a_keyring_and_a_sealed_store() -> None:
    assert "rotate needs the keyring of v.db; give it by --keyring" in failed("keyring", "rotate", "v.db")
    SqliteStore("plain.db").close()
    KeyringFile("p.keyring", create=True)
    assert "is not sealed, so" in failed("keyring", "rotate", "plain.db", "--keyring", "p.keyring")
    assert open_reader("plain.db").verify() == (), "it is still in clear"
    assert "there is no such store" in failed("keyring", "rotate", "none.db", "--keyring", "p.keyring")
    with SqliteStore("v.db", keyring="v.keyring"):
        assert "is open for writing elsewhere" in failed("keyring", "rotate", "v.db", "--keyring", "v.keyring")


def test_destroy_asks_for_the_name(folder: Path) -> None:
    destroy = ("keyring", "destroy", folder / "v.keyring")
    for typed in ("y\n", "\n", "yes\n", "visits.keyring\n"):
        assert vestige(*destroy, stdin=typed).exit_code == 2
    assert vestige(*destroy, stdin="").exit_code == 2
    said("list", "v.db", "--keyring", "v.keyring")
    shutil.copy("v.db", "backup.db")
    result = vestige(*destroy, stdin="v.keyring\n")
    assert result.exit_code == 0
    text = " ".join(result.output.split())
    assert "5 keys destroyed; what they sealed can no longer be opened, in the store and in all copies of it" in text
    for store in ("v.db", "backup.db"):
        assert "all of its keys were destroyed" in failed("list", store, "--keyring", "v.keyring")
    said("keyring", "init", "new.keyring")
    assert "0 keys destroyed" in said("keyring", "destroy", "new.keyring", "--yes")
    assert "there is no such keyring" in failed("keyring", "destroy", "none.keyring", "--yes")


@pytest.mark.usefixtures("folder")
def test_no_command_prints_a_key() -> None:
    keys = KeyringFile("v.keyring").read()
    secrets = [key.secret for slot in keys.list_slots().tolist() for key in keys.find(slot)]
    shown = [said("keyring", "verify", "v.keyring", "--json"), said("keyring", "destroy", "v.keyring", "--yes")]
    assert not any(secret.hex() in text or repr(secret)[2:-1] in text for secret in secrets for text in shown)


# Backups.


@pytest.fixture
def backup(folder: Path) -> Path:
    """A copy from before a person was erased; the keyring of that time is beside it."""
    shutil.copy("v.db", "monday.db")
    shutil.copy("v.keyring", "monday.keyring")
    said("forget", "v.db", "--subject", "u3@example.org", "--keyring", "v.keyring", "--now")
    said("sweep", "v.db", "--keyring", "v.keyring")
    return folder / "monday.db"


@pytest.mark.usefixtures("backup")
def test_a_backup_from_before_an_erasure_shows_nothing_of_it() -> None:
    verify = ("verify", "v.db", "--keyring", "v.keyring", "--against", "monday.db")
    who = open_reader("v.db", keyring="v.keyring").pseudonym("u3@example.org")
    text = said(*verify, "--canary-hex", who, "--canary", "example.org")
    assert text == (
        "v.db: nothing found; limits, pragmas, pages and files are as they should be. "
        f"Canaries were looked for as {FORMS}. "
        "monday.db: 5 sealed rows; 2 of them are in the store now; 3 cannot be opened: their keys were destroyed."
    )
    found = facts(*verify)
    assert found["findings"] == []
    (report,) = found["backups"]
    counts = {"rows": 5, "current": 2, "openable": 0, "destroyed": 3, "newer": 0, "others": 0}
    assert report == {"path": "monday.db", "findings": [], "notes": []} | counts


@pytest.mark.usefixtures("backup")
def test_with_the_keyring_of_that_time_it_shows_the_person() -> None:
    verify = ("verify", "v.db", "--keyring", "monday.keyring", "--against", "monday.db")
    who = open_reader("v.db", keyring="v.keyring").pseudonym("u3@example.org")
    text = failed(*verify, "--canary-hex", who)
    assert "is newer than" in text
    assert "monday.db: 5 sealed rows; 0 of them are in the store now; 5 are not, and can still be opened.\n" in text
    assert "monday.db: canary 1 of 1 is in it, in row 1 of the table buckets, which can be opened.\n" in text
    result = vestige(*verify, "--json")
    assert result.exit_code == 1
    assert json.loads(result.stdout)["backups"][0]["openable"] == 5


def test_several_backups_are_looked_at_each_by_itself(backup: Path) -> None:
    (backup.parent / "plain.sql").write_text("nothing of this store")
    result = vestige(
        "verify", "v.db", "--keyring", "v.keyring", "--against", "monday.db", "--against", "plain.sql", "--progress"
    )
    assert result.exit_code == 1
    assert "monday.db: 5 sealed rows; 2 of them" in result.output
    assert "plain.sql: no sealed row of this keyring.\nplain.sql: nothing was recognised" in result.output


@pytest.mark.usefixtures("folder")
def test_wrong_calls_of_against() -> None:
    assert "--against needs the keyring of v.db" in failed("verify", "v.db", "--against", "v.db")
    verify = ("verify", "v.db", "--keyring", "v.keyring")
    assert "--against none: there is no such file or folder" in failed(*verify, "--against", "none")
    assert "--canary-hex is not hexadecimal" in failed(*verify, "--against", "v.db", "--canary-hex", "xyz")
