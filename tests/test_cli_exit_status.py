"""The exit status of commands: 0, 1 for a finding, 2 for an error, which wins; and outputs that cannot be written."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import click
import numpy as np
import pytest
from click.testing import CliRunner, Result

from troubled import damage, fill
from vestige import Mean, SqliteStore, Stream
from vestige.cli import command, verify
from vestige.cli.exit_status import Finding, end, find_status
from vestige.errors import StoreError
from vestige.store import open_reader

CLI = Path(verify.__file__).parent


def call(*words: object) -> Result:
    return CliRunner().invoke(command, [str(word) for word in words], prog_name="vestige")


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Two streams whose names are not plain text."""
    with SqliteStore(tmp_path / "s.db") as opened:
        for name in ("=1+1", "a\x1b[2Jb"):
            stream = Stream(Mean(), retention=96, seed=0, store=opened.stream(name))
            stream.extend(np.arange(50.0))
    return tmp_path / "s.db"


def test_an_error_wins() -> None:
    assert [find_status(has_error=error, has_finding=found) for error in (False, True) for found in (False, True)] == [
        0,
        1,
        2,
        2,
    ]
    end()
    with pytest.raises(SystemExit, match="2"):
        end(has_error=True, has_finding=True)


def test_the_table_has_each_status() -> None:
    page = (CLI.parents[2] / "docs" / "reference" / "commands.md").read_text()
    assert re.findall(r"^\| (\S+)(?: \+ n)? \| ", page, flags=re.M) == ["status", "0", "1", "2", "128"]


def test_no_command_decides_for_itself() -> None:
    """Besides the module that decides, commands only end by a signal, with 128 and its number."""
    for file in CLI.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Call) and ast.unparse(node.func) in ("sys.exit", "ctx.exit", "SystemExit"):
                said = ast.unparse(node)
                assert re.search(r"\b(128|130|status|signal)\b", said), (file, said)


@pytest.mark.parametrize(
    ("problem", "status"),
    [
        (StoreError("it is broken"), 2),
        (OSError(28, "No space left on device"), 2),
        (click.UsageError("what?"), 2),
        (Finding("it is curated"), 1),
        (click.Abort(), 2),
    ],
)
def test_what_a_command_raises_is_its_status(
    store: Path, monkeypatch: pytest.MonkeyPatch, problem: Exception, status: int
) -> None:
    def refuse(_: object) -> None:
        raise problem

    monkeypatch.setattr(verify.verify_store, "invoke", refuse)
    result = call("verify", store)
    assert (result.exit_code, result.stdout) == (status, "")
    assert len(result.stderr.splitlines()) in (1, 4)


def test_findings_and_errors_of_commands(tmp_path: Path) -> None:
    with SqliteStore(tmp_path / "t.db") as opened:
        for name in ("a", "b"):
            fill(opened, name)
    assert call("verify", tmp_path / "t.db").exit_code == 1, "records are overdue"
    assert call("sweep", tmp_path / "t.db").exit_code == 0
    assert call("verify", tmp_path / "t.db", "--canary", "vestige").exit_code in (0, 1)
    assert call("verify", tmp_path / "nothing.db").exit_code == 2
    assert call("verify", tmp_path / "t.db", "--wrong").exit_code == 2
    with SqliteStore(tmp_path / "u.db") as opened:
        for name in ("a", "b"):
            Stream(Mean(), retention=96, seed=0, store=opened.stream(name)).extend(np.arange(50.0))
        opened.live("b").forget(rounds=range(1, 51), now=True)  # type: ignore[union-attr]
        opened.live("b").extend(np.arange(50.0))  # type: ignore[union-attr]
    assert call("estimate", tmp_path / "u.db").exit_code == 0
    assert call("estimate", tmp_path / "u.db", "--strict").exit_code == 1
    damage(tmp_path / "u.db", "a")
    assert call("estimate", tmp_path / "u.db", "--strict").exit_code == 2, "the error wins"
    for name in ("list", "retained", "sweep"):
        assert call(name, tmp_path / "u.db").exit_code == 2


def run(*words: object, ending: str = "") -> subprocess.CompletedProcess[str]:
    line = " ".join([sys.executable, "-m", "vestige", *(f"'{word}'" for word in words), ending])
    return subprocess.run(["bash", "-c", f"set -o pipefail; {line}"], check=False, capture_output=True, text=True)


@pytest.mark.parametrize(
    ("words", "ending", "said"),
    [
        (("--help",), ">/dev/full", "Error: input/output: No space left on device\n"),
        (("estimate", "STORE", "--format", "csv"), ">/dev/full", "Error: input/output: No space left on device\n"),
        (("list", "STORE"), ">&-", "Error: input/output: Bad file descriptor\n"),
        (("--help",), "2>&- >&-", ""),
    ],
)
def test_output_that_cannot_be_written_is_an_error_in_a_line(
    store: Path, words: tuple[str, ...], ending: str, said: str
) -> None:
    done = run(*(store if word == "STORE" else word for word in words), ending=ending)
    assert (done.returncode, done.stderr) == (2, said)


@pytest.mark.parametrize("words", [("--help",), ("retained", "STORE")])
def test_a_reader_that_has_left_needs_no_sentence(store: Path, words: tuple[str, ...]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    line = [sys.executable, "-m", "vestige", *(str(store) if word == "STORE" else word for word in words)]
    done = subprocess.run(line, check=False, stdout=writing, stderr=subprocess.PIPE, text=True)
    os.close(writing)
    assert (done.returncode, done.stderr) == (2, "")


def test_what_cannot_be_said_stops_nothing(store: Path) -> None:
    before = open_reader(store).count()
    asked = ("forget", store, "--stream", "=1+1", "--round", 1, "--now", "--progress")
    assert run(*asked, ending="2>/dev/full").returncode == 0
    assert run("sweep", store, ending="2>&-").returncode == 0
    assert open_reader(store).count() == before


def test_a_closed_output_is_not_taken_for_the_store(tmp_path: Path) -> None:
    """A store that is opened first would have the number of standard output."""
    (tmp_path / "x.csv").write_text("x\n" + "1\n" * 50)
    words = ("run", tmp_path / "x.csv", "--column", "x", "--retention", 96, "--store", tmp_path / "x.db")
    assert run(*words, ending=">&- 2>&- <&-").returncode == 2
    assert call("verify", tmp_path / "x.db").exit_code == 0


def test_a_mistake_of_ours_is_an_error() -> None:
    program = "import vestige.cli, vestige.__main__ as m; vestige.cli.command = lambda **_: {}[0]; m.main()"
    done = subprocess.run([sys.executable, "-c", program], check=False, capture_output=True, text=True)
    assert (done.returncode, "KeyError" in done.stderr) == (2, True)


def test_names_in_csv_are_no_orders(store: Path) -> None:
    for words in (("estimate", store, "--format", "csv"), ("retained", store)):
        shown = call(*words).stdout
        assert "\x1b" not in shown
        assert "\n'=1+1," in shown
        assert "\na\\x1b[2Jb," in shown
    assert "\x1b" not in call("list", store).stdout
    call("forget", store, "--stream", "=1+1", "--round", 1, "--reference", "@SUM(1)")
    assert ",'@SUM(1)," in call("receipts", store, "--format", "csv").stdout
