"""Commands on a store in which one stream is in trouble: all others are shown and served, and the exit status is 1."""

from __future__ import annotations

import csv
import io
import json
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

from troubled import MAX_AGE, START, KeepsHalf, damage, fill, flip_middle, lose_name, spread
from vestige import CustomLoss, Mean, SqliteStore, Stream, Window
from vestige.cli import command
from vestige.errors import StoreError
from vestige.store import open_reader
from vestige.types import Floats

NOW = (START + timedelta(hours=100)).isoformat()
BEFORE = (START - timedelta(hours=25)).isoformat()
LATER = (START + MAX_AGE + timedelta(hours=90)).isoformat()


def vestige(*arguments: object, stdin: bytes | str | None = None) -> Result:
    return CliRunner().invoke(command, [str(a) for a in arguments], input=stdin)


def loss_gradient(theta: Floats, rows: Floats) -> tuple[Floats, Floats]:
    return theta[None, :] - rows, np.broadcast_to(np.eye(1), (len(rows), 1, 1))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Good streams a and d; b has a policy of its own, c is damaged."""
    path = tmp_path_factory.mktemp("troubled") / "s.db"
    with SqliteStore(path) as store:
        for name, policy in {"a": None, "b": KeepsHalf(), "c": None, "d": None}.items():
            fill(store, name, policy)
    damage(path, "c")
    return path


@pytest.fixture
def store(made: Path, tmp_path: Path) -> Path:
    for file in made.parent.iterdir():
        shutil.copy(file, tmp_path / file.name)
    return tmp_path / "s.db"


def facts(result: Result) -> Any:
    assert result.exit_code == 2
    return json.loads(result.stdout)


def test_looking_goes_on_over_a_bad_stream(store: Path) -> None:
    listed = facts(vestige("list", store, "--json"))["streams"]
    assert set(listed) == set("abcd")
    assert "damaged" in listed["c"]["problem"]
    assert listed["b"]["held"] == listed["b"]["held"]
    shown = vestige("list", store)
    assert shown.exit_code == 2
    assert "cannot be read" in shown.stdout
    assert "stream 'c':" in shown.stderr
    answers = {row["stream"]: row for row in facts(vestige("estimate", store, "--format", "json"))}
    assert answers["a"]["t"] == answers["d"]["t"] == 100
    assert "policy troubled.KeepsHalf" in answers["b"]["problem"]
    assert "damaged" in answers["c"]["problem"]
    shown = vestige("estimate", store)
    assert shown.exit_code == 2
    assert "4 streams" in shown.stdout
    assert vestige("estimate", store, "--stream", "a").exit_code == 0
    assert vestige("estimate", store, "--stream", "b").exit_code == 2
    records = vestige("retained", store)
    assert records.exit_code == 2
    assert {row["stream"] for row in csv.DictReader(io.StringIO(records.stdout))} == set("abd")
    assert facts(vestige("receipts", store, "--format", "json")) == [
        {"stream": "c", "problem": open_reader(store).snapshot().troubles["c"]}
    ]
    assert vestige("receipts", store).exit_code == 2


def test_sweeping_and_forgetting_go_on(store: Path) -> None:
    said = facts(vestige("sweep", store, "--at", LATER, "--dry-run", "--json"))
    assert set(said["troubles"]) == {"b", "c"}
    assert all(said["erased"][name] for name in "abd")
    done = facts(vestige("sweep", store, "--at", LATER, "--json"))
    assert set(done["troubles"]) == {"b", "c"}
    assert "b" in done["restarted"]
    left = open_reader(store).snapshot().streams
    assert all(len(left[name][1].retained) <= 10 for name in "abd")
    shown = vestige("sweep", store, "--at", LATER)
    assert shown.exit_code == 2
    assert "the file could not be tidied, because a stream cannot be read" in " ".join(shown.stdout.split())
    done = facts(vestige("forget", store, "--subject", "person-9", "--now", "--json"))
    assert [receipt["erased"] for receipt in done["receipts"]] == [None], "one stream could not be asked"
    assert set(done["troubles"]) == {"b", "c"}


def test_a_gradient_keeps_no_other_stream_from_its_deadline(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    with SqliteStore(path) as store:
        fill(store, "a")
        mine = Stream(CustomLoss(loss_gradient, (0.0,)), retention=256, max_age=MAX_AGE, store=store.stream("mine"))
        mine.extend(np.ones((40, 1)), times=[START + timedelta(hours=i) for i in range(40)])
    result = vestige("sweep", path)
    assert result.exit_code == 2
    assert "stream 'mine': policy vestige.policies.custom_loss.CustomLoss" in result.stderr
    assert not any(len(state.retained) for _, state in open_reader(path).snapshot().streams.values())


def test_a_damaged_stream_can_be_removed(store: Path) -> None:
    result = vestige("remove", store, "--stream", "c", "--stream", "b")
    assert result.exit_code == 0, result.output
    assert "2 streams removed" in result.stdout
    assert json.loads(vestige("list", store, "--json").stdout)["streams"].keys() == {"a", "d"}
    assert vestige("sweep", store, "--at", NOW).exit_code == 0


def damage_source(path: Path, name: str) -> None:
    """Change a bit in the position of a stream."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        rows = connection.execute("SELECT id, body FROM sources WHERE instr(body, ?)", (name.encode(),)).fetchall()
        ((row, body),) = rows
        connection.execute("UPDATE sources SET body = ? WHERE id = ?", (flip_middle(body), row))


def damage_name(path: Path, name: str) -> None:
    """Change a bit in the name of a stream, which is alone in its bucket."""
    lose_name(path, name, "UPDATE buckets SET names = CAST(substr(names, 1, length(names) - 1) || 'x' AS BLOB)")


@pytest.mark.parametrize("harm", [damage, damage_source, damage_name])
@pytest.mark.parametrize("gone", ["a", "z"])
def test_a_sound_stream_is_removed_beside_a_damaged_one(
    tmp_path: Path, harm: Callable[[Path, str], None], gone: str
) -> None:
    """Its bytes and its name go, and what is damaged stays just as it is, and is named as before."""
    path, value = tmp_path / "s.db", 123.456789
    names = {"a": f"gone-{gone}", "b": "bad", "c": "left", "d": "worse", "z": "z"} | {gone: "planted"}
    with SqliteStore(path) as store:
        for name in names.values():
            stream = Stream(Window(), retention=96, store=store.stream(name))
            stream.extend([value if name == "planted" else 1.0] * 9, source=f"/from/{name}.csv")
            stream.forget(rounds=[3])
    if harm is damage_name:
        spread(path)
    harm(path, "bad")
    copied, found = open_reader(path).snapshot(), open_reader(path).verify()
    assert found
    result = vestige("remove", path, "--stream", "planted")
    assert result.exit_code == 0, result.output
    assert "1 stream removed" in result.stdout
    after = open_reader(path).snapshot()
    assert after.troubles == copied.troubles
    assert after.streams == {name: kept for name, kept in copied.streams.items() if name != "planted"}
    canaries = [b"planted", np.float64(value).tobytes()]
    assert open_reader(path).verify(canaries=canaries) == found
    with SqliteStore(path) as store:
        assert "planted" not in store.survey()[0]
        again = Stream(Window(), retention=96, store=store.stream("planted"))
        again.extend([value] * 9)
    assert len(open_reader(path).snapshot().streams["planted"][1].retained) == 9
    (bad,) = open_reader(path).snapshot().troubles
    assert vestige("remove", path, "--stream", bad).exit_code == 0
    assert open_reader(path).verify(canaries=[b"/from/bad.csv"]) == ()


def test_each_of_two_damaged_streams_is_removed_by_itself(store: Path) -> None:
    damage(store, "d")
    assert vestige("remove", store, "--stream", "c").exit_code == 0
    assert set(open_reader(store).snapshot().troubles) == {"d"}
    assert any("stream 'd'" in text for text in open_reader(store).verify())
    assert vestige("remove", store, "--stream", "d").exit_code == 0
    assert open_reader(store).snapshot().names == ("a", "b")
    assert open_reader(store).verify(at=START) == ()


@pytest.mark.parametrize(
    "how",
    [
        "UPDATE buckets SET head = CAST('x' || head AS BLOB)",
        "UPDATE buckets SET names = CAST('x' || names AS BLOB)",
        "UPDATE buckets SET names = x''",
        "UPDATE buckets SET head = x''",
        "DELETE FROM buckets",
    ],
)
@pytest.mark.parametrize("alone", [True, False])
def test_a_stream_whose_name_cannot_be_read_is_removed_by_what_list_says(
    tmp_path: Path, how: str, *, alone: bool
) -> None:
    path, value = tmp_path / "s.db", 123.456789
    with SqliteStore(path) as store:
        for name in ("k0", "k1", "k2", "k3"):
            stream = Stream(Window(), retention=96, store=store.stream(name))
            stream.extend([value if name == "k0" else 1.0] * 9, source=f"/from/{name}.csv")
            stream.forget(rounds=[3])
    spread(path)
    lost = lose_name(path, "k0", how)
    other = "" if alone else lose_name(path, "k2")
    assert lost in facts(vestige("list", path, "--json"))["streams"]
    refused = vestige("remove", path, "--stream", "k0")
    assert refused.exit_code == 2
    assert f"'{lost}'" in refused.stderr
    done = vestige("remove", path, "--stream", lost, "--json")
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout) == {"removed": [lost], "troubles": {}}
    copy = open_reader(path).snapshot()
    assert set(copy.streams) == ({"k1", "k2", "k3"} if alone else {"k1", "k3"})
    assert set(copy.troubles) == {other} - {""}
    assert np.float64(value).tobytes() not in path.read_bytes()
    if not alone:
        assert not [text for text in open_reader(path).verify() if lost in text]
        assert vestige("remove", path, "--stream", "k1").exit_code == 0
        assert vestige("remove", path, "--stream", other).exit_code == 0
        assert set(open_reader(path).snapshot().streams) == {"k3"}
    assert open_reader(path).verify(canaries=[b"/from/k0.csv"]) == ()
    with SqliteStore(path) as store:
        Stream(Window(), retention=96, store=store.stream("k0")).extend([1.0])


def test_streams_that_are_damaged_in_all_ways_are_removed_together(store: Path) -> None:
    spread(store)
    damage(store, "a")
    lost = lose_name(store, "b")
    assert vestige("remove", store, "--stream", "a", "--stream", lost, "--stream", "c").exit_code == 0
    assert open_reader(store).snapshot().names == ("d",)
    assert open_reader(store).verify(at=START) == ()


def test_of_several_subjects_too_nothing_is_claimed_that_was_not_read(store: Path) -> None:
    said = vestige("forget", store, "--subject", "zz", "--subject", "yy")
    assert said.exit_code == 2
    assert "2 subjects; of 2 no record was found in" in " ".join(said.stdout.split())


def test_a_removal_that_does_nothing_says_so(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise StoreError("it stays")

    monkeypatch.setattr(SqliteStore, "remove", refuse)
    said = vestige("remove", store, "--stream", "a")
    assert said.exit_code == 2
    assert " ".join(said.stdout.split()) == f"No stream was removed from {store}."
    assert "stream 'a': it stays" in said.stderr


def test_a_new_key_is_made_beside_a_damaged_stream(store: Path) -> None:
    store.with_name("s.db.key").unlink()
    asked = vestige("forget", store, "--subject", "person-9")
    assert asked.exit_code == 2
    assert "is missing, so the subjects" in asked.stderr
    result = vestige("rekey", store)
    assert result.exit_code == 2
    assert "has a new key" in result.stdout
    assert "stream 'c':" in result.stderr
    done = facts(vestige("forget", store, "--subject", "person-9", "--json"))
    assert set(done["troubles"]) == set("abcd")
    assert "an earlier key" in done["troubles"]["a"]


def test_a_run_goes_on_beside_a_damaged_stream(tmp_path: Path) -> None:
    path, file = tmp_path / "s.db", tmp_path / "x.csv"
    what = ("run", file, "--column", "x", "--by", "k", "--retention", 96, "--store", path, "--json")
    file.write_text("x,k\n" + "1,a\n2,b\n" * 30)
    assert vestige(*what).exit_code == 0
    damage(path, "b")
    with file.open("a") as more:
        more.write("3,a\n4,b\n" * 5)
    said = facts(vestige(*what))
    assert said["taken"] == 5
    assert set(said["troubles"]) == {"b"}
    assert said["streams"]["a"]["t"] == 35


def test_what_is_to_be_removed_must_be_there(store: Path) -> None:
    result = vestige("remove", store, "--stream", "a", "--stream", "x")
    assert result.exit_code == 2
    assert "there is no stream 'x'; there is a, b, c, d" in result.stderr
    assert open_reader(store).snapshot().names == ("a", "b", "c", "d")
    assert vestige("remove", store).exit_code == 2
    assert "there is no such store" in vestige("remove", "no.db", "--stream", "a").stderr


def test_a_dry_run_tells_what_becomes_of_history_that_was_filled_in(tmp_path: Path) -> None:
    """All of it is overdue by the clock of the machine."""
    path = tmp_path / "s.db"
    with SqliteStore(path) as store:
        total = sum(len(fill(store, name).retained) for name in ("a", "b"))
    before = path.read_bytes()
    shown = vestige("sweep", path, "--dry-run")
    text = " ".join(shown.stdout.split())
    assert shown.exit_code == 0
    assert f"{total} records would be erased from 2 of 2 streams. Nothing was changed." in text
    assert "Statistics that would restart: 2 (a, b)" in text
    assert path.read_bytes() == before
    assert "history that was loaded later may be overdue as a whole" in " ".join(
        vestige("sweep", "--help").stdout.split()
    )
    assert f"{total} records erased from 2 of 2 streams; the file is tidy." in vestige("sweep", path).stdout


def test_a_dry_run_says_how_many_records_are_left_to_choose_from(tmp_path: Path) -> None:
    """In a batch that would be closed early: which of them stay is not known before."""
    path, now = tmp_path / "s.db", (START + 0.6 * MAX_AGE).isoformat()
    with SqliteStore(path) as store:
        for name, n in (("a", 60), ("b", 5)):
            stream = Stream(Mean(), retention=128, max_age=MAX_AGE, seed=0, store=store.stream(name))
            stream.extend(np.arange(float(n)), times=[START] * n)
    said = json.loads(vestige("sweep", path, "--at", now, "--dry-run", "--json").stdout)
    assert (said["erased"], said["closed"], said["undecided"]) == ({"a": 0, "b": 0}, ["a"], {"a": 60})
    text = " ".join(vestige("sweep", path, "--at", now, "--dry-run").stdout.split())
    assert (
        "At least 0 records would be erased from 0 of 2 streams, and about half or more of the 60 records of 1 stream "
        "whose batch would be closed early. Nothing was changed." in text
    )
    done = json.loads(vestige("sweep", path, "--at", now, "--json").stdout)
    assert 30 < done["erased"]["a"] <= 60
    assert "undecided" not in done


def test_a_sweep_counts_the_streams_that_lose_something(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    with SqliteStore(path) as store:
        fill(store, "a")
        for name in ("b", "c"):
            Stream(Mean(), retention=128, store=store.stream(name)).push(1.0)
    for options, text in (("--dry-run",), "would be erased from 1 of 3 streams."), ((), "erased from 1 of 3 streams;"):
        assert text in vestige("sweep", path, *options).stdout
    assert "0 records erased from 0 of 3 streams;" in vestige("sweep", path).stdout


def test_one_record_is_not_many(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    with SqliteStore(path) as store:
        Stream(Mean(), retention=128, max_age=MAX_AGE, store=store.stream("a")).push(1.0, time=START)
        Stream(KeepsHalf(), retention=128, max_age=MAX_AGE, store=store.stream("b")).push(1.0, time=START)
    shown = vestige("verify", path, "--at", LATER)
    assert shown.stdout.count("1 record is overdue") == 2
    assert (
        "1 record is dated more than 1 day, 0:00:00 after the present time, in round 1,"
        in vestige("sweep", path, "--at", BEFORE).stderr
    )
    assert (
        "without it what is due would be erased, 1 record" in vestige("sweep", path, "--at", LATER, "--dry-run").stderr
    )
    assert "without it what is due was erased, 1 record" in vestige("sweep", path, "--at", LATER).stderr
