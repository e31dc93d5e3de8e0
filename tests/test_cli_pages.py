"""Commands on a store with many streams: pages, look-ups by name, and indexes in place of reading everything."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pytest
from click.testing import CliRunner, Result

from troubled import damage, fill, lose_name, spread
from vestige import KeyedStreams, Mean, Window
from vestige.cli import command
from vestige.store import SqliteStore
from vestige.store.sqlite.reader import SqliteReader
from vestige.store.stored_streams import StoredStreams

KEYS = [f"key {i:03d}" for i in range(60)]


def vestige(*arguments: object) -> Result:
    return CliRunner().invoke(command, [str(a) for a in arguments], prog_name="vestige")


def said(*arguments: object) -> Any:
    result = vestige(*arguments, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Sixty streams, whose records are of as many people, in as many buckets; and one with a limit in time."""
    rng, path = np.random.default_rng(0), tmp_path / "s.db"
    with SqliteStore(path) as opened:
        streams = KeyedStreams(Window(Mean()), retention=20, store=opened.family())
        keys = rng.integers(0, 60, 3_000)
        streams.extend([KEYS[key] for key in keys], rng.normal(size=3_000), subjects=[f"person {key}" for key in keys])
        fill(opened, "timed")
    spread(path)
    return path


@pytest.fixture
def large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have every store count as a large one."""
    for module in ("operations.entry", "cli.removal", "cli.retention", "cli.receipts", "cli.store_answers"):
        monkeypatch.setattr(f"vestige.{module}.FEW", 0)


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Forbid to read all streams; the names of those that are read."""
    names: list[str] = []
    read = SqliteReader.read_stream

    def refuse(*_: object) -> NoReturn:
        raise AssertionError("all streams were read")

    def watch(self: SqliteReader, name: str) -> Any:
        names.append(name)
        return read(self, name)

    monkeypatch.setattr(StoredStreams, "open", refuse)
    monkeypatch.setattr(SqliteReader, "read_stream", watch)
    return names


def test_pages_have_each_stream_once(store: Path) -> None:
    seen, after = list[str](), None
    while True:
        page = said("list", store, "--limit", 7, *(() if after is None else ("--after", after)))
        assert page["total"] == 61
        assert len(page["streams"]) <= 7
        seen += page["streams"]
        if (after := page["next"]) is None:
            break
        assert after == seen[-1]
    assert seen == [*KEYS, "timed"]


def test_a_page_reads_its_own_streams_alone(store: Path, opened: list[str]) -> None:
    shown = vestige("list", store)
    assert shown.exit_code == 0
    assert opened == KEYS[:50]
    assert "50 of 61 streams; --after 'key 049' shows the next" in shown.stdout
    shown = vestige("list", store, "--after", "key 057")
    assert "3 of 61 streams\n" in shown.stdout
    assert opened[50:] == ["key 058", "key 059", "timed"]
    assert "of 61 streams" not in vestige("list", store, "--limit", 61).stdout
    assert vestige("list", store, "--limit", 0).exit_code == 2


def test_what_is_damaged_is_named_on_each_page(store: Path) -> None:
    row = lose_name(store, "key 040")
    damage(store, "key 003")
    shown = vestige("list", store, "--limit", 5)
    assert shown.exit_code == 2
    assert "stream 'key 003':" in shown.stderr
    assert row in shown.stderr
    shown = vestige("list", store, "--limit", 5, "--after", "key 010", "--json")
    assert shown.exit_code == 2
    page = json.loads(shown.stdout)
    assert [*page["streams"]] == [*KEYS[11:16], row]
    assert page["next"] == "key 015"


def test_one_stream_is_looked_up(store: Path, opened: list[str]) -> None:
    assert "of the 20 records held" in vestige("estimate", store, "--stream", "key 007").stdout
    (row,) = json.loads(vestige("estimate", store, "--stream", "key 007", "--format", "json").stdout)
    assert row["stream"] == "key 007"
    assert vestige("retained", store, "--stream", "key 007").stdout.count("key 007") == row["held"]
    assert opened == ["key 007"] * 3


def test_an_unknown_stream_is_told_from_the_names_of_others(store: Path, opened: list[str]) -> None:
    for words in (("estimate",), ("retained",), ("remove",)):
        shown = vestige(*words, store, "--stream", "key 7")
        assert shown.exit_code == 2
        assert "no stream 'key 7'; there is key 000, key 001, key 002, key 003, key 004, ..." in shown.stderr
    assert opened == []


@pytest.mark.usefixtures("large")
def test_requests_look_at_streams_of_the_index_alone(store: Path, opened: list[str]) -> None:
    shown = said("forget", store, "--subject", "person 7", "--dry-run")
    assert opened == ["key 007"]
    assert set(shown["records"]) == {"key 007"}
    assert said("forget", store, "--subject", "person 7", "--reference", "T-1", "--now")["unknown"] == []
    assert "T-1" in vestige("receipts", store).stdout
    assert said("remove", store, "--stream", "key 008")["removed"] == ["key 008"]
    assert set(opened) == {"key 007"}


@pytest.mark.usefixtures("large")
def test_a_sweep_looks_at_what_is_due_alone(store: Path, opened: list[str]) -> None:
    shown = said("sweep", store, "--dry-run")
    assert opened == ["timed"]
    assert shown["erased"] == said("sweep", store)["erased"]
    assert set(shown["erased"]) == {"timed"}


@pytest.mark.usefixtures("large")
def test_damage_is_named_where_it_is_met(store: Path) -> None:
    row = lose_name(store, "key 040", "UPDATE buckets SET head = x''")
    for words in (("sweep", "--dry-run"), ("forget", "--subject", "person 7", "--dry-run"), ("receipts",)):
        shown = vestige(words[0], store, *words[1:])
        assert (shown.exit_code, row in shown.stderr) == (2, True), words


def test_many_problems_are_counted(store: Path) -> None:
    for key in KEYS[:30]:
        damage(store, key)
    shown = vestige("estimate", store)
    assert shown.exit_code == 2
    assert sum(line.startswith("stream 'key") for line in shown.stderr.splitlines()) == 20
    assert "... and 10 more streams" in shown.stderr


def test_a_sample_of_streams_is_audited(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = said("audit", "store", store)
    assert len(whole) == 61
    some = vestige("audit", "store", store, "--sample", 5)
    assert "Tested: 5 of 61 streams, chosen at random; --sample tests more." in some.stdout
    assert "each of 60 streams" in some.stdout
    facts = json.loads(vestige("audit", "store", store, "--sample", 5, "--json").stdout)
    assert len(facts) == 5
    assert facts.items() <= whole.items()
    monkeypatch.setattr("vestige.cli.audit.store.FEW", 10)
    monkeypatch.setattr("vestige.cli.audit.store.SAMPLE", 3)
    assert len(json.loads(vestige("audit", "store", store, "--json").stdout)) == 3
    assert len(said("audit", "store", store, "--stream", "key 001", "--stream", "timed")) == 2
