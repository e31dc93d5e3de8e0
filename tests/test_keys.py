"""Every way in takes a key of 1,024 bytes of UTF-8, and refuses a longer one with its length and its beginning."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from vestige import KeyedStreams, Mean, Stream, open_store
from vestige.cli import command
from vestige.errors import DataError, ParameterError
from vestige.ingest.definition import Definition
from vestige.service.bodies import NDJSON, read_body
from vestige.service.engine import Engine
from vestige.service.problems import RefusalError
from vestige.spark.definition import Definition as ShardDefinition
from vestige.spark.shard import Rows, change_shard
from vestige.store import open_reader
from vestige.store.names import LONGEST_NAME
from vestige.stream.limits import Limits

NAMES = {
    "letters": lambda size: "x" * size,
    "three bytes a character": lambda size: "\u20ac" * (size // 3) + "x" * (size % 3),
    "an escape sequence first": lambda size: "\x1b[2J" + "x" * (size - 4),
}
LENGTHS = [LONGEST_NAME, LONGEST_NAME + 1, 2**16 - 1, 2**16, 2**16 + 5, 2**20]
Outcome = tuple[set[str], str]
"""The names that were taken, and what was said of the others."""


def take_alone(path: Path, keys: list[str]) -> Outcome:
    said = ""
    with open_store(path) as store:
        for key in keys:
            try:
                Stream(Mean(), retention=96, store=store.stream(key)).push(1.0)
            except ParameterError as problem:
                said = str(problem)
    return set(open_reader(path).survey()[0]), said


def extend(path: Path, keys: list[str]) -> Outcome:
    """None of the rows is taken; those before it are in a call of their own."""
    with open_store(path) as store:
        streams = KeyedStreams(Mean(), retention=96, store=store.family())
        streams.extend(keys[:1], [1.0])
        try:
            streams.extend(keys[1:], [1.0] * len(keys[1:]))
        except DataError as problem:
            return set(streams), str(problem)
        return set(streams), ""


def take(path: Path, keys: list[str]) -> Outcome:
    with open_store(path) as store:
        streams = KeyedStreams(Mean(), retention=96, store=store.family())
        streams.take(keys[:1], [1.0])
        try:
            streams.take(np.array(keys[1:], np.object_), [1.0] * len(keys[1:]))
        except DataError as problem:
            return set(streams), str(problem)
        return set(streams), ""


def run(path: Path, keys: list[str]) -> Outcome:
    rows = path.with_suffix(".csv")
    with rows.open("w", newline="") as opened:
        csv.writer(opened).writerows([("shop", "spent"), *((key, 1) for key in keys)])
    arguments = ["run", rows, "--by", "shop", "--column", "spent", "--retention", "96", "--store", path]
    result = CliRunner().invoke(command, [str(argument) for argument in arguments], prog_name="vestige")
    assert (result.exit_code != 0) == ("Trouble" in result.stderr)
    return set(open_reader(path).survey()[0]), result.stderr


def serve(path: Path, keys: list[str]) -> Outcome:
    """A body is taken whole, or not; those before it are in a body of their own."""
    engine, said = Engine(open_store(path)), ""
    engine.start()
    definition = Definition.from_data({"name": "v", "columns": ["spent"], "by": "shop", "retention": 96, "seed": 0})
    engine.submit(lambda: engine.catalog.create(definition)).result()
    columns = engine.catalog.find("v").columns
    for body in (keys[:1], keys[1:]):
        text = "\n".join(json.dumps({"spent": 1, "shop": key}) for key in body)
        block = read_body(text.encode(), NDJSON, columns).block
        try:
            engine.take_rows("v", block, str(len(body)), bytes([len(body)] * 8)).result()
        except RefusalError as refusal:
            said = refusal.detail
    engine.stop()
    return {name.removeprefix("v/") for name in open_reader(path).survey()[0]}, said


def shard(_: Path, keys: list[str]) -> Outcome:
    definition = ShardDefinition(Mean(), Limits(96), 7, "k", ("v",), 1, has_times=False, has_subjects=False)
    change = change_shard(definition, None, Rows(np.array(keys, object), np.ones((len(keys), 1))), secret=bytes(32))
    assert sum(change.refused.values()) == len(keys) - len(change.answers.columns["stream"])
    return set(change.answers.columns["stream"].tolist()), "".join(change.problems.values())


WAYS: list[Callable[[Path, list[str]], Outcome]] = [take_alone, extend, take, run, serve, shard]
TOGETHER = (extend, take, serve)
"""Those in which the rows of a call are taken together or not at all, as documented."""


@pytest.mark.parametrize("kind", NAMES)
@pytest.mark.parametrize("way", WAYS)
def test_every_way_in_refuses_the_same_keys(
    tmp_path: Path, way: Callable[[Path, list[str]], Outcome], kind: str
) -> None:
    for number, length in enumerate(LENGTHS):
        size = length - 2 * (way is serve)  # the name of its stream begins with that of the definition
        key = NAMES[kind](size)
        assert len(key.encode()) == size
        taken, said = way(tmp_path / f"{number}.db", ["first", key, "last"])
        if number == 0:
            assert (taken, "UTF-8" in said) == ({"first", key, "last"}, False)
        else:
            assert taken == ({"first"} if way in TOGETHER else {"first", "last"})
            shown = "".join(said.split()).replace("\\\\", "\\")
            counted = length if size <= LONGEST_NAME else size
            assert f"has{counted:,}bytesofUTF-8,abovethelimitof1,024" in shown
            assert repr(key[:40]) in shown
            assert key[:41] not in shown
            assert "\x1b" not in said


@pytest.mark.parametrize("way", [take_alone, extend, take, shard])  # of the others: tests/ingest, tests/service
def test_every_way_in_refuses_keys_that_begin_with_nul(
    tmp_path: Path, way: Callable[[Path, list[str]], Outcome]
) -> None:
    taken, said = way(tmp_path / "a.db", ["first", "\0x", "last"])
    assert taken == ({"first"} if way in TOGETHER else {"first", "last"})
    assert "begins with NUL; correct it" in said


def test_a_name_counts_as_it_is_stored(tmp_path: Path) -> None:
    """A slash takes three bytes; the prefix and the slash after it count too."""
    taken, said = run(tmp_path / "a.db", ["/" * 341, "/" * 342, "DE"])
    assert taken == {"%2F" * 341, "DE"}
    assert "makes a name that has 1,026 bytes of UTF-8" in "".join(said.split("\n"))
