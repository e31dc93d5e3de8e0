"""Rows of answers: the same in every format, as the schema in the docs describes them."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import shutil
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result

from troubled import KeepsHalf, fill
from vestige import Bundle, Extremes, LinearRegression, Mean, Moments, SqliteStore, Stream
from vestige.cli import command, rows
from vestige.cli.rows import COLUMNS

SCHEMA = json.loads((Path(__file__).parent.parent / "docs" / "reference" / "answers.schema.json").read_text())
KINDS = {"string": str, "number": (int, float), "integer": int, "boolean": bool, "null": type(None)}


def vestige(*arguments: object) -> Result:
    return CliRunner().invoke(command, [str(a) for a in arguments], prog_name="vestige")


def is_kind(value: object, kind: str) -> bool:
    return isinstance(value, KINDS[kind]) and (kind == "boolean" or not isinstance(value, bool))  # type: ignore[arg-type]


def check_schema(answers: Any) -> None:
    """Check rows against the keywords that the schema uses."""
    described = SCHEMA["items"]
    for row in answers:
        assert set(described["required"]) <= set(row) <= set(described["properties"])
        for name, value in row.items():
            rule = described["properties"][name]
            kinds = [rule["type"]] if isinstance(rule["type"], str) else rule["type"]
            assert any(is_kind(value, kind) for kind in kinds), (name, value)
            assert value is None or value >= rule.get("minimum", value), (name, value)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Streams of many kinds: with errors and without, several numbers, started over, without an answer, unreadable."""
    path, rng = tmp_path_factory.mktemp("rows") / "a.db", np.random.default_rng(0)
    with SqliteStore(path) as opened:
        fit = opened.stream("fit", about={"columns": ["x"], "targets": ["y"]})
        Stream(LinearRegression(), retention=512, seed=0, store=fit).extend(rng.normal(size=(900, 2)))
        bundle = Bundle({"amount": [Mean(), Moments()], "rating": Mean()})
        named = opened.stream("metrics", about={"columns": ["amount", "rating"], "targets": []})
        frame = pd.DataFrame({"rating": np.full(900, np.nan), "amount": np.full(900, 3.0)})
        Stream(bundle, retention=2_048, seed=0, store=named).extend(frame)
        over = Stream(Mean(), retention=96, seed=0, store=opened.stream('over "it", 1'))
        over.extend(rng.normal(size=200))
        over.forget(rounds=range(1, 201), now=True)
        over.extend(rng.normal(size=10))
        empty = Stream(Mean(), retention=96, seed=0, store=opened.stream("silent"))
        empty.push(1.0)
        empty.forget(rounds=[1], now=True)
        fill(opened, "own", KeepsHalf())
    return path


def test_the_schema_has_the_columns_of_a_row() -> None:
    kinds = {str: "string", float: "number", int: "integer", bool: "boolean"}
    described = {name: rule["type"] for name, rule in SCHEMA["items"]["properties"].items()}
    assert list(described) == SCHEMA["items"]["required"] == list(COLUMNS)
    assert described == {name: [kinds[kind], "null"] for name, kind in COLUMNS.items()} | {"stream": "string"}


def test_the_page_describes_each_column() -> None:
    page = (Path(__file__).parent.parent / "docs" / "reference" / "answers.md").read_text()
    types = {str: "string", float: "double", int: "int64", bool: "bool"}
    lines = re.findall(r"^\| (`.*?`) \| (\w+) \|", page, flags=re.M)
    listed = [(name, kind) for names, kind in lines for name in re.findall(r"`(\w+)`", names)]
    assert listed == [(name, types[kind]) for name, kind in COLUMNS.items()]


def test_there_is_a_row_for_each_stream_and_number(store: Path) -> None:
    result = vestige("estimate", store, "--format", "json")
    assert result.exit_code == 2, "one stream cannot be asked"
    assert "stream 'own':" in result.stderr
    answers = json.loads(result.stdout)
    check_schema(answers)
    assert [list(row) for row in answers] == [list(COLUMNS)] * len(answers)
    found = {(row["stream"], row["metric"]): row for row in answers}
    assert len(found) == len(answers)
    assert [metric for stream, metric in found if stream == "fit"] == ["y by (intercept)", "y by x"]
    assert found["fit", "y by x"]["standard_error"] == pytest.approx(1.0 / 30.0, rel=0.1)
    assert found["metrics", "amount:mean"]["value"] == 3.0
    assert found["metrics", "rating:mean"]["value"] is None
    assert [metric for stream, metric in found if stream == "metrics"][1:3] == [
        "amount:moments mean",
        "amount:moments variance",
    ]
    assert found['over "it", 1', "1"]["since"] > 1
    assert found['over "it", 1', "1"]["notes"].startswith("Counts from round ")
    assert found["silent", None]["problem"].startswith("no record is held")
    assert found["silent", None]["t"] == 1
    assert "policy troubled.KeepsHalf" in found["own", None]["problem"]
    assert found["metrics", "rating:mean"]["problem"] == "no record that counts has a value in rating"
    assert all((row["problem"] is None) == (row["value"] is not None) for row in answers)


def parse_cell(name: str, text: str) -> object:
    kind = COLUMNS[name]
    if text == "":
        return None
    return {"true": True, "false": False}[text] if kind is bool else kind(text)


def test_all_formats_have_the_same_rows(store: Path, tmp_path: Path) -> None:
    answers = json.loads(vestige("estimate", store, "--format", "json").stdout)
    printed = vestige("estimate", store, "--format", "csv")
    assert printed.exit_code == 2
    rows = [{k: parse_cell(k, v) for k, v in row.items()} for row in csv.DictReader(io.StringIO(printed.stdout))]
    assert rows == answers
    out = tmp_path / "a.parquet"
    assert vestige("estimate", store, "--format", "parquet", "--out", out).exit_code == 2
    table = pq.read_table(out)
    assert table.to_pylist() == answers
    assert [str(field.type) for field in table.schema][:6] == ["string", "string", *["double"] * 4]
    piped = vestige("estimate", store, "--format", "parquet")
    assert pq.read_table(io.BytesIO(piped.stdout_bytes)).equals(table)
    for form in ("json", "csv"):
        assert vestige("estimate", store, "--format", form, "--out", out).stdout == ""
        assert out.read_text() == vestige("estimate", store, "--format", form).stdout


def test_chosen_streams_alone_are_written(store: Path) -> None:
    result = vestige("estimate", store, "--stream", "fit", "--format", "csv", "--strict")
    assert result.exit_code == 0
    assert result.stdout.count("\n") == 3


def test_where_a_format_cannot_go_is_said_first(store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    copy = tmp_path / "a.db"
    shutil.copy(store, copy)
    key = tmp_path / "a.db.key"
    key.write_text("key")
    before = copy.read_bytes()
    for out in (copy, tmp_path / "." / "a.db", key):
        result = vestige("estimate", copy, "--format", "csv", "--out", out)
        assert result.exit_code == 2
        assert "is a file of the store, which would be overwritten" in result.stderr
    assert copy.read_bytes() == before
    result = vestige("estimate", store, "--out", tmp_path / "a.txt")
    assert result.exit_code == 2
    assert "cannot be used with --format table; use json, csv or parquet" in result.stderr
    monkeypatch.setattr(rows, "_is_terminal", lambda: True)
    result = vestige("estimate", store, "--format", "parquet")
    assert result.exit_code == 2
    assert "--format parquet is not for a terminal; give --out FILE" in result.stderr


def test_a_name_cannot_control_a_terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.db"
    with SqliteStore(path) as opened:
        Stream(Mean(), retention=96, store=opened.stream("\x1b[2Jclear")).push(1.0)
    assert "\\x1b[2Jclear" in vestige("estimate", path, "--format", "csv").stdout, "a file is shown later"
    assert json.loads(vestige("estimate", path, "--format", "json").stdout)[0]["stream"] == "\x1b[2Jclear"
    assert "\x1b" not in vestige("estimate", path, "--format", "json").stdout
    monkeypatch.setattr(rows, "_is_terminal", lambda: True)
    shown = vestige("estimate", path, "--format", "csv").stdout
    assert "\\x1b[2Jclear,1,1.0," in shown
    assert "\x1b" not in shown


def test_a_store_without_any_answer_is_an_error_in_every_form(tmp_path: Path) -> None:
    file, store = tmp_path / "m.csv", tmp_path / "m.db"
    file.write_text("\n".join(["x", *map(str, range(300))]) + "\n")
    assert vestige("run", file, "--column", "x", "--retention", 64, "--store", store, "--subject", "x").exit_code == 0
    subjects = tmp_path / "s.txt"
    subjects.write_text("\n".join(map(str, range(150, 300))))
    vestige("forget", store, "--subjects-from", subjects, "--now")
    for form in ("table", "json", "csv"):
        result = vestige("estimate", store, "--format", form)
        assert (result.exit_code, bool(result.stderr)) == (2, True), form


@pytest.mark.parametrize("column", ["spent, net", "x: y", "a:p50, b"])
def test_a_remark_finds_its_metric_whatever_columns_are_called(tmp_path: Path, column: str) -> None:
    policy = Bundle({column: [Mean(), Extremes()], "other": [Mean()]})
    with SqliteStore(tmp_path / "a.db") as opened:
        place = opened.stream("main", about={"columns": [column, "other"], "targets": []})
        Stream(policy, max_age=timedelta(days=1), seed=0, store=place).extend(np.ones((300, 2)))
    listed = json.loads(vestige("estimate", tmp_path / "a.db", "--format", "json").stdout)
    told = [row["metric"] for row in listed if "values of single records" in (row["notes"] or "")]
    assert told == [row["metric"] for row in listed if row["metric"].startswith(f"{column}:extremes")]
    assert told
    assert all(column not in (row["notes"] or "") for row in listed)


def test_no_source_and_no_options_are_overwritten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("a.csv", "b.csv"):
        Path(name).write_text("v\n1\n2\n")
    Path("vestige.toml").write_text('source = "b*.csv"\nstore = "v.db"\ncolumn = "v"\nretention = 96\n')
    assert vestige("run", "a.csv").exit_code == 0
    Path("link.csv").symlink_to("a.csv")
    before = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    for arguments in (("v.db",), ()):
        for name in ("a.csv", "link.csv", "b.csv", "vestige.toml", "v.db", "v.db.key"):
            result = vestige("estimate", *arguments, "--format", "csv", "--out", name)
            assert result.exit_code == 2, name
            assert "would be overwritten" in result.stderr
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == before


def test_a_file_is_replaced_as_a_whole(store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "out.csv"
    out.write_text("before")
    out.chmod(0o640)
    monkeypatch.setattr(os, "fsync", lambda _: (_ for _ in ()).throw(OSError("full")))
    assert vestige("estimate", store, "--stream", "fit", "--format", "csv", "--out", out).exit_code != 0
    assert [file.name for file in tmp_path.iterdir()] == ["out.csv"]
    assert out.read_text() == "before"
    monkeypatch.undo()
    assert vestige("estimate", store, "--stream", "fit", "--format", "csv", "--out", out).exit_code == 0
    assert out.read_text().startswith("stream,metric")
    assert out.stat().st_mode & 0o777 == 0o640
