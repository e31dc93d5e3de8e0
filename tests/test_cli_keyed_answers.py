"""Answers of many streams: the same as of few, and what was not computed is said."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

from vestige.cli import command, keyed_answers


def vestige(*arguments: object) -> Result:
    return CliRunner().invoke(command, [str(a) for a in arguments], prog_name="vestige")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Rows of forty keys, of which some come too seldom for their age, so that their statistics start over."""
    rng = np.random.default_rng(3)
    lines = []
    for i in range(4_000):
        key = f"often{rng.integers(8)}" if i % 10 else f"seldom{rng.integers(32)}"
        lines.append(f"{1_700_000_000 + 600 * i},{key},{rng.normal():.3f}\n")
    path = tmp_path / "a.csv"
    path.write_text("at,k,v\n" + "".join(lines))
    return path


def show(path: Path, *options: object) -> Result:
    what = ("--column", "v", "--by", "k", "--retention", 96, "--max-age", "9d", "--time", "at", "--seed", 1)
    return vestige("run", path, *what, *options)


def test_many_streams_are_shown_as_few_are(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    few = show(path).stdout.splitlines()
    assert any("started over" in line for line in few)
    assert any("Note on" in line for line in few)
    monkeypatch.setattr(keyed_answers, "FEW", 5)
    many = show(path).stdout.splitlines()
    cut = next(i for i, line in enumerate(few) if line.startswith("Note on"))
    assert many[:cut] == few[:cut], "the table, the totals and how many started over"
    assert any(line.startswith("Note on") for line in many)


def test_strict_says_the_same_of_many(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    few = show(path, "--strict").stderr
    assert "started over" in few
    monkeypatch.setattr(keyed_answers, "FEW", 5)
    assert show(path, "--strict").stderr == few


def test_json_has_all_streams(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    few = json.loads(show(path, "--json").stdout)
    monkeypatch.setattr(keyed_answers, "FEW", 5)
    many = json.loads(show(path, "--json").stdout)
    assert len(many["streams"]) == 40
    assert few.pop("seconds") >= 0.0
    assert many.pop("seconds") >= 0.0
    assert many == few


def test_what_was_not_computed_is_said(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Other statistics are asked stream by stream, so only those that are shown are."""
    monkeypatch.setattr(keyed_answers, "FEW", 5)
    result = vestige("run", path, "--metric", "v:mean,count", "--by", "k", "--retention", 512)
    assert result.exit_code == 0, result.output
    said = " ".join(result.stdout.split())
    assert "by k: 40 streams, 4,000 records" in said
    assert "... and 20 more; --json prints them all." in said
    assert "The answers of the other 20 streams were not computed, so their notes are missing here" in said
