"""Progress goes to a terminal, or where it is asked for; else a job that runs at night would mail it."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import NoReturn

import pytest
from click.testing import CliRunner, Result

from vestige.cli import command, output
from vestige.errors import ParameterError
from vestige.stream.log import LOG


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output, "PATIENCE", 0.0)


def vestige(*arguments: str) -> Result:
    return CliRunner().invoke(command, list(arguments), catch_exceptions=False)


def commands(folder: Path) -> dict[str, tuple[list[str], str]]:
    """Some of each kind, and what they say on the way."""
    table, store = folder / "table.csv", str(folder / "store.db")
    table.write_text("a\n" + "".join(f"{i % 7}\n" for i in range(300)))
    run = ["run", str(table), "--column", "a", "--retention", "96", "--channel", "average"]
    return {
        "run": ([*run, "--store", store], "300 records, 100%"),
        "list": (["list", store], "Reading"),
        "plan": (["plan", "--error", "0.05"], "Planning: 50%"),
        "lab": (["lab", "run", "oracle", "--quick", "--trials", "2", "--out", str(folder)], "trials, 0:00 left"),
        "audit": (["audit", "appendix", "--trials", "20"], "Running trials"),
    }


@pytest.mark.slow
def test_nothing_is_said_without_a_terminal_unless_it_is_asked_for(tmp_path: Path) -> None:
    for name, (arguments, told) in commands(tmp_path).items():
        done = vestige(*arguments)
        assert (done.exit_code, done.stderr) == (0, ""), name
        if name == "run":
            (tmp_path / "store.db").unlink()
        done = vestige(*arguments, "--progress", *(["--fresh"] if name == "lab" else []))
        assert done.exit_code == 0, name
        assert told in done.stderr, name


@pytest.mark.parametrize(("options", "shown"), [([], ""), (["--progress"], "compiling\n")])
def test_the_log_is_shown_with_the_progress(options: list[str], shown: str, monkeypatch: pytest.MonkeyPatch) -> None:
    log = logging.getLogger("vestige")

    def refuse(*_: object) -> NoReturn:
        log.info("compiling")
        LOG.warning("a stream started over, of perhaps a million")
        raise ParameterError("enough")

    monkeypatch.setattr("vestige.cli.plan._make_policy", refuse)
    assert vestige("plan", *options).stderr == f"{shown}Error: enough\n"
    assert not log.handlers
    assert log.level == logging.NOTSET
