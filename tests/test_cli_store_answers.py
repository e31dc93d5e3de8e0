"""Streams of large families give the same rows, tables and errors as each of them asked by itself."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

from troubled import KeepsHalf, damage, fill
from vestige import KeyedStreams, Mean, Moments, Policy, Stream
from vestige.cli import command, keyed_answers, store_answers
from vestige.cli.keyed_answers import KeyedAnswers
from vestige.store import SqliteStore, open_reader

POLICIES: dict[str, tuple[Policy, int]] = {
    "mean": (Mean(channel="bits"), 56),
    "two means": (Mean(2, channel="bits"), 120),
    "half-life": (Mean(channel="bits", half_life=30.0), 56),
    "moments": (Moments(), 400),
}


def vestige(*arguments: object) -> Result:
    return CliRunner().invoke(command, [str(a) for a in arguments], prog_name="vestige")


def make(path: Path, policy: Policy, retention: int, about: dict[str, object] | None = None) -> None:
    """Streams that differ in how much they hold; some count anew after a request, some hold nothing any more."""
    rng = np.random.default_rng(0)
    keys = rng.geometric(0.02, 9_000)
    with SqliteStore(path) as store:
        streams = KeyedStreams(policy, retention=retention, seed=0, store=store.family(about=about))
        subjects = [f"person {key}" for key in keys]
        streams.extend([f"key {key}" for key in keys], rng.normal(size=(len(keys), policy.columns)), subjects=subjects)
        for key in (1, 2, 40, 41):
            streams.forget(subject=f"person {key}", now=True)
        streams.extend(["key 1", "key 40"], rng.normal(size=(2, policy.columns)))


@pytest.fixture(params=POLICIES)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    policy, retention = POLICIES[request.param]
    about: dict[str, object] = {"columns": ["spent", "paid"][: policy.columns], "targets": [], "statistic": "mean"}
    make(tmp_path / "s.db", policy, retention, about)
    return tmp_path / "s.db"


def set_few(monkeypatch: pytest.MonkeyPatch, few: int) -> None:
    for module in (keyed_answers, store_answers):
        monkeypatch.setattr(module, "FEW", few)


@pytest.fixture
def together(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Have every family count as a large one; the numbers of streams that were asked together."""
    sizes: list[int] = []
    start = KeyedAnswers.__init__

    def watch(self: KeyedAnswers, *args: object, **options: object) -> None:
        start(self, *args, **options)  # type: ignore[arg-type]
        sizes.append(len(self))

    monkeypatch.setattr(KeyedAnswers, "__init__", watch)
    return sizes


@pytest.mark.parametrize("form", ["json", "csv", "parquet"])
def test_rows_are_the_same(store: Path, form: str, together: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = store.with_name("one"), store.with_name("other")
    first = vestige("estimate", store, "--format", form, "--out", one)
    assert together == []
    set_few(monkeypatch, 0)
    second = vestige("estimate", store, "--format", form, "--out", other)
    assert together == [open_reader(store).count()]
    assert one.read_bytes() == other.read_bytes()
    assert (first.exit_code, first.output) == (second.exit_code, second.output) == (0, "")


def test_tables_are_the_same(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = vestige("estimate", store)
    set_few(monkeypatch, 0)
    after = vestige("estimate", store)
    assert before.exit_code == after.exit_code == 0
    table, shown = (each.stdout.split("prints them all.")[0] for each in (before, after))
    assert table == shown
    if "moments" not in before.stdout:
        assert before.stdout == after.stdout
    else:
        said = "The answers of the other 270 streams were not computed, so their notes are missing here; --format json"
        assert said in " ".join(after.stdout.split())


def test_strict_says_the_same(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = vestige("estimate", store, "--strict")
    set_few(monkeypatch, 0)
    after = vestige("estimate", store, "--strict")
    assert (before.exit_code, before.stderr) == (after.exit_code, after.stderr)
    assert "--strict: of 290 streams" in after.stderr
    assert "2 have no answer" in after.stderr


def test_an_export_is_the_same(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def read(name: str) -> list[list[tuple[object, ...]]]:
        with closing(sqlite3.connect(store.with_name(name))) as connection:
            tables = ("estimates", "records", "receipts")
            return [connection.execute(f"SELECT * FROM {table}").fetchall() for table in tables]  # noqa: S608

    vestige("export", store, "--sqlite", store.with_name("one"))
    set_few(monkeypatch, 0)
    monkeypatch.setattr("vestige.cli.export.contents._STREAMS", 7)
    monkeypatch.setattr("vestige.cli.export.contents._ROWS", 5)
    vestige("export", store, "--sqlite", store.with_name("other"))
    assert read("one") == read("other")
    assert all(read("one")[:2])


@pytest.fixture
def mixed(tmp_path: Path) -> Path:
    """Two families of keys, two streams of their own kinds, and two that cannot be asked."""
    path = tmp_path / "s.db"
    make(path, Mean(channel="bits"), 56)
    with SqliteStore(path) as store:
        place = store.family(about={"of": "others"})
        streams = KeyedStreams(Mean(channel="bits"), retention=80, seed=0, store=place)
        streams.extend([f"other {i % 30}" for i in range(3_000)], np.arange(3_000.0))
        Stream(Moments(), retention=400, seed=0, store=store.stream("moments")).extend(np.arange(5_000.0))
        fill(store, "own", KeepsHalf())
    damage(path, "key 7")
    damage(path, "other 3")
    return path


def test_families_beside_others(mixed: Path, together: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    before = [vestige("estimate", mixed, "--format", form) for form in ("json", "table")]
    set_few(monkeypatch, 20)
    after = [vestige("estimate", mixed, "--format", form) for form in ("json", "table")]
    assert len(together) == 4
    assert [result.exit_code for result in (*before, *after)] == [2] * 4
    assert [result.stderr for result in before] == [result.stderr for result in after]
    assert json.loads(before[0].stdout) == json.loads(after[0].stdout)
    assert before[1].stdout == after[1].stdout
    assert "moments" in after[1].stdout
    assert {"own", "key 7", "other 3"} == {row["stream"] for row in json.loads(after[0].stdout)[-3:]}


def test_a_store_without_any_answer_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with SqliteStore(tmp_path / "s.db") as store:
        streams = KeyedStreams(Mean(channel="bits"), retention=56, store=store.family())
        streams.extend([f"key {i}" for i in range(30)], np.ones(30), subjects=["ada"] * 30)
        streams.forget(subject="ada", now=True)
    before = vestige("estimate", tmp_path / "s.db")
    set_few(monkeypatch, 0)
    after = vestige("estimate", tmp_path / "s.db")
    assert before.exit_code == after.exit_code == 2
    assert before.output == after.output
    assert "no stream has an answer: no record is held after round 1" in after.stderr
