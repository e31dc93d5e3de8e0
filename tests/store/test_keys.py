"""The key of the subjects: lost, wrong or given up, the statistics go on."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

from reading import read_streams
from vestige import Mean, SqliteStore, Stream, open_reader
from vestige.cli import command
from vestige.errors import StoreError
from vestige.store.inbox import Inbox, Request

ROWS = np.random.default_rng(0).normal(size=300)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A store with records of a subject, whose key is lost."""
    path = tmp_path / "a.db"
    with SqliteStore(path) as store:
        stream_in(store).extend(ROWS[:100], subjects=["ada"] * 100, source="x")
    path.with_name("a.db.key").unlink()
    return path


def stream_in(store: SqliteStore, name: str = "a") -> Stream:
    return Stream(Mean(), retention=96, seed=0, store=store.stream(name))


def test_without_the_key_everything_works_but_naming_subjects(path: Path) -> None:
    plain = Stream(Mean(), retention=96, seed=0)
    plain.extend(ROWS[:140])
    with SqliteStore(path) as store:
        stream = stream_in(store)
        stream.extend(ROWS[100:140], source="x")
        assert stream.estimate().value == plain.estimate().value
        stream.sweep()
        stream.forget(rounds=[140])
        stream_in(store, "b").extend(ROWS)
        store.tidy()
        with pytest.raises(
            StoreError, match=r"is missing, so the subjects .* \(--key\).*vestige rekey or Store\.rekey\(\)"
        ):
            stream.push(1.0, subject="bob")
        assert stream.t == 140, "nothing was taken"
    assert not path.with_name("a.db.key").exists()


def test_a_new_key_lets_subjects_be_named_again(path: Path) -> None:
    with SqliteStore(path) as store:
        store.rekey()
        stream = stream_in(store)
        stream.extend(ROWS[100:110], subjects=["ada"] * 10, source="x")
        now = store.pseudonym("ada")
    subjects = read_streams(path)["a"][1].retained.subjects
    assert set(subjects[-10:]) == {now}
    assert now not in subjects[:-10], "what came before cannot be found any more"
    with SqliteStore(path) as store:
        stream = stream_in(store)
        stream.forget(subject="ada", now=True)
        assert stream.t == 110
        assert now not in stream.retained.subjects
        stream.extend(ROWS[:200])
        assert set(stream.retained.subjects) == {None}


def test_a_new_key_overwrites_no_file(path: Path, tmp_path: Path) -> None:
    key = path.with_name("a.db.key")
    key.write_bytes(bytes(range(32)))
    with SqliteStore(path) as store:
        with pytest.raises(StoreError, match=r"a\.db\.key: exists, and a new key would overwrite it; move it away"):
            store.rekey()
        with pytest.raises(StoreError, match="is not the key of this store"):
            store.pseudonym("ada")
    assert key.read_bytes() == bytes(range(32))
    with SqliteStore(path, key=tmp_path / "other") as store:
        store.rekey()
        stream_in(store).extend(ROWS[100:101], subjects=["ada"])
    with SqliteStore(path) as store, pytest.raises(StoreError, match="is not the key of this store"):
        store.pseudonym("ada")


def test_once_no_subject_is_left_any_key_will_do(path: Path) -> None:
    """Also the one that was made just before a crash, and not noted yet."""
    with SqliteStore(path) as store:
        stream_in(store).extend(ROWS[:200], source="x")
    key = path.with_name("a.db.key")
    key.write_bytes(bytes(range(32)))
    with SqliteStore(path) as store:
        stream_in(store).push(1.0, subject="ada")
        who = store.pseudonym("ada")
    assert key.read_bytes() == bytes(range(32))
    with SqliteStore(path) as store:
        assert store.pseudonym("ada") == who


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"short", r"has 5 bytes, and a key has 32; put the right key there"),
        (bytes(33), r"has 33 bytes, and a key has 32; put the right key there"),
        (None, "cannot be read"),
    ],
)
def test_what_is_not_a_key_is_not_touched(path: Path, content: bytes | None, text: str) -> None:
    key = path.with_name("a.db.key")
    if content is None:
        key.mkdir()
    else:
        key.write_bytes(content)
    with SqliteStore(path) as store, pytest.raises(StoreError, match=text):
        store.pseudonym("ada")
    assert content is None or key.read_bytes() == content


def test_a_key_that_fits_leaves_nothing_to_do(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As where it was killed between making the key and remembering it, and is run again."""
    with SqliteStore(path) as store:
        with monkeypatch.context() as killed:
            killed.setattr("vestige.store.sqlite.store.fingerprint", lambda _: exec("raise KeyboardInterrupt"))  # noqa: S102
            with pytest.raises(KeyboardInterrupt):
                store.rekey()
        with pytest.raises(StoreError, match="fits this store, so there is nothing to do"):
            store.rekey()
        store.pseudonym("ada")
        with pytest.raises(StoreError, match="fits this store, so there is nothing to do"):
            store.rekey()
    path.with_name("a.db.key").write_bytes(bytes(range(32)))
    with SqliteStore(path) as store, pytest.raises(StoreError, match="a new key would overwrite it"):
        store.rekey()


def test_records_of_an_earlier_key_do_not_ask_for_the_key_after_it(path: Path) -> None:
    with SqliteStore(path) as store:
        store.rekey()
    path.with_name("a.db.key").unlink()
    with SqliteStore(path) as store:
        assert store.pseudonym("ada"), "no record is left that the lost key would find"


def test_requests_that_wait_are_carried_out_before_a_new_key(tmp_path: Path) -> None:
    path, key = tmp_path / "a.db", tmp_path / "a.db.key"
    with SqliteStore(path) as store:
        stream_in(store).extend(ROWS[:50], subjects=["ada", "bob"] * 25)
        Inbox(path).leave(Request("forget", (store.pseudonym("ada"),), now=True))
    key.rename(tmp_path / "old.key")
    with SqliteStore(path) as store, pytest.raises(StoreError, match="1 request in its inbox would be lost"):
        store.rekey()
    assert not key.exists()
    Inbox(path).leave(lost := Request("forget", ("00" * 16,), streams=("gone",)))
    result = CliRunner().invoke(command, ["rekey", str(path)], prog_name="vestige")
    assert result.exit_code == 2
    assert "has a new key" in result.stdout
    assert f"request {lost.id} (forget): there is no stream 'gone'" in result.stderr
    assert [receipt.erased is not None for receipt in open_reader(path).snapshot().ledger.receipts] == [True]
    Inbox(path).leave(Request("forget", ("00" * 16,), streams=("gone",)))
    result = CliRunner().invoke(command, ["rekey", str(path)], prog_name="vestige")
    assert "there is no stream 'gone'" in result.stderr, "although it fails, since a key is there"
    assert "there is nothing to do" in result.stderr


def test_the_command_begins_with_a_new_key(path: Path, tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("x,who\n" + "".join(f"{i},ada\n" for i in range(10)))
    run = ["run", str(tmp_path / "x.csv"), "--column", "x", "--subject", "who", "--retention", "96", "--stream", "c"]
    run += ["--store", str(path)]
    refused = CliRunner().invoke(command, run, prog_name="vestige")
    assert refused.exit_code == 2
    assert "vestige rekey" in refused.output
    made = CliRunner().invoke(command, ["rekey", str(path)], prog_name="vestige")
    assert made.exit_code == 0, made.output
    assert CliRunner().invoke(command, run, prog_name="vestige").exit_code == 0
    assert read_streams(path)["c"][1].clock.t == 10
    again = CliRunner().invoke(command, ["rekey", str(path)], prog_name="vestige")
    assert again.exit_code == 2
    assert "there is nothing to do" in again.output


def vestige(*arguments: object) -> Result:
    return CliRunner().invoke(command, [str(a) for a in arguments], prog_name="vestige")


def test_a_request_says_that_records_of_an_earlier_key_may_be_of_the_subject(path: Path) -> None:
    held = len(read_streams(path)["a"][1].retained)
    assert vestige("rekey", path).exit_code == 0
    for options in (("--dry-run",), ()):
        asked = vestige("forget", path, "--subject", "ada", *options)
        assert asked.exit_code == 2
        assert "No record of this subject was found" in asked.stdout
        assert f"{held} of its records have a subject that was named with an earlier key" in asked.stderr
    with SqliteStore(path) as store:
        stream_in(store).extend(ROWS[:200], subjects=["bob"] * 200, source="x")
    asked = vestige("forget", path, "--subject", "ada")
    assert (asked.exit_code, asked.stderr) == (0, ""), "the limits have erased them"
    assert "No record of this subject is held" in asked.stdout


def test_a_run_goes_on_after_a_lost_key(tmp_path: Path) -> None:
    store, rows = tmp_path / "a.db", tmp_path / "x.csv"
    rows.write_text("x,who\n" + "".join(f"{i},p{i % 5}\n" for i in range(40)))
    run = ["run", rows, "--column", "x", "--retention", 96, "--store", store]
    assert vestige(*run, "--subject", "who").exit_code == 0
    store.with_name("a.db.key").unlink()
    with rows.open("a") as file:
        file.write("40,p0\n41,p1\n")
    for options in ((), ("--subject", "who")):
        refused = vestige(*run, *options)
        assert refused.exit_code == 2
    assert "vestige rekey" in refused.stderr
    assert vestige("rekey", store).exit_code == 0
    done = vestige(*run, "--subject", "who", "--if-replaced", "continue")
    assert done.exit_code == 0, done.output
    assert read_streams(store)["main"][1].clock.t == 42
    gone = vestige("forget", store, "--subject", "p1", "--now")
    assert gone.exit_code == 2, "there are older records too"


def test_remove_says_that_a_source_brings_the_rows_back(path: Path) -> None:
    removed = vestige("remove", path, "--stream", "a")
    assert removed.exit_code == 0
    assert "another run reads them all again" in removed.stdout.replace("\n", " ")
