"""vestige.toml: a file gives what the same command line gives, and is checked as strictly."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from vestige.cli import command
from vestige.cli.group import load_commands

RUN = load_commands().commands["run"]
OPTIONS = [param for param in RUN.params if param.name not in ("config", "progress")]
SAMPLES = ("some", "30d", "1", "a=1")
"""Texts of which each option that takes a text accepts at least one."""


def vestige(*arguments: object) -> Result:
    return CliRunner().invoke(command, [str(a) for a in arguments], prog_name="vestige")


def said(*arguments: object) -> Any:
    result = vestige(*arguments, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder in which the command is called, with a file of data and one of options in a folder beside it."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    (tmp_path / "data").mkdir()
    rows = "".join(f"u{i % 7},{i % 37},{'ab'[i % 2]}\n" for i in range(600))
    (tmp_path / "data" / "v.csv").write_text("who,spent,shop\n" + rows)
    (tmp_path / "data" / "vestige.toml").write_text(
        'source = "v.csv"\ncolumn = "spent"\nretention = 256\nby = "shop"\nsubject = "who"\nseed = 1\nstore = "v.db"\n'
        'keep-receipts = "2d"\n'
    )
    return tmp_path


def make_sample(param: click.Parameter) -> tuple[Any, list[str]]:
    """A value of an option: as TOML has it, and as words of a command line."""
    name = max(param.opts, key=len)
    if isinstance(param, click.Option) and param.is_flag:
        return True, [name]
    if isinstance(param.type, click.Choice):
        value: Any = param.type.choices[-1]
    elif param.type.name in ("integer", "float"):
        value = 3
    else:
        value = next(text for text in SAMPLES if accepts(param, text))
    words = [str(value)] if isinstance(param, click.Argument) else [name, str(value)]
    return value, words


def accepts(param: click.Parameter, text: str) -> bool:
    try:
        param.type.convert(text, param, None)
    except click.BadParameter:
        return False
    return True


@pytest.mark.parametrize("param", OPTIONS, ids=lambda param: param.name)
def test_every_option_of_run_is_a_key(param: click.Parameter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    value, words = make_sample(param)
    key = "source" if isinstance(param, click.Argument) else max(param.opts, key=len).lstrip("-")
    monkeypatch.chdir(tmp_path)
    given = RUN.make_context("run", list(words)).params
    for written in (value, *([[value]] if param.multiple or param.nargs == -1 else [])):
        Path("vestige.toml").write_text(f"{key} = {json.dumps(written)}\n")
        assert RUN.make_context("run", []).params == given


def test_a_file_gives_what_the_command_line_gives(folder: Path) -> None:
    data = folder / "data"
    options = ("--column", "spent", "--retention", 256, "--by", "shop", "--subject", "who", "--seed", 1)
    wanted = said("run", data / "v.csv", *options, "--store", folder / "other.db")
    found = said("run", "--config", data / "vestige.toml")
    assert found | {"seconds": 0} == wanted | {"seconds": 0}
    assert not list((folder / "here").iterdir()), "paths are relative to the file of options"
    for name in ("v.csv", "vestige.toml"):
        (data / name).rename(name)
    result = vestige("run")
    assert result.exit_code == 0, result.output
    assert "From vestige.toml: source, column, retention, by, subject, seed, store.\n" in result.stderr


@pytest.mark.parametrize("source", [["v.csv", "w.csv"], "*.csv", "."])
def test_several_sources_are_relative_to_the_file_too(source: object, folder: Path) -> None:
    data = (folder / "data").rename(folder / "[data]")  # which is not a pattern
    (data / "w.csv").write_text((data / "v.csv").read_text())
    Path("m.toml").write_text("column = 'spent'\nretention = 256\n")
    (data / "m.toml").write_text(f"source = {json.dumps(source)}\n" + Path("m.toml").read_text())
    assert said("run", "--config", data / "m.toml")["t"] == 1_200


def test_the_command_line_replaces_the_file(folder: Path) -> None:
    config = ("--config", folder / "data" / "vestige.toml")
    found = said("run", *config, "--store", "here.db", "--retention", 300, "--metric", "spent:mean,sum")
    assert (found["retention"], found["statistic"]) == (300, "metrics")
    assert Path("here.db").exists()
    assert not (folder / "data" / "v.db").exists()
    Path("m.toml").write_text('metric = ["spent:sum"]\nretention = 256\n')
    assert said("run", folder / "data" / "v.csv", "--config", "m.toml", "--column", "spent")["statistic"] == "mean"


def test_commands_find_the_store_in_the_file(folder: Path) -> None:
    config, store = ("--config", folder / "data" / "vestige.toml"), folder / "data" / "v.db"
    said("run", *config)
    for call in (("list",), ("estimate",), ("retained",), ("sweep",), ("verify",), ("receipts",)):
        found, wanted = vestige(*call, *config), vestige(*call, store)
        assert (found.exit_code, found.output) == (0, wanted.output), call
    asked = said("forget", *config, "--subject", "u3")["receipts"][0]
    result = json.loads(vestige("receipts", *config, "--format", "json").stdout)
    assert [receipt["id"] for receipt in result] == [asked["id"]]
    done = said("forget", *config, "--subject", "u4", "--now")["receipts"][0]
    assert done["kept_until"][:10] < "2100", "kept for the two days of the file, not for three years"
    assert (int(done["kept_until"][:4]) - int(done["erased"][:4])) <= 1


@pytest.mark.parametrize("name", ["rekey", "remove"])
def test_what_cannot_be_undone_needs_the_name_of_the_store(name: str, folder: Path) -> None:
    said("run", "--config", folder / "data" / "vestige.toml")
    result = vestige(name, *(("--stream", "a") if name == "remove" else ()))
    assert (result.exit_code, "Missing argument 'STORE'" in result.output) == (2, True)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("max_age = '30d'", "v.toml: the key 'max_age' is not an option of vestige run; did you mean 'max-age'?"),
        ("metrics = ['a:mean']", "v.toml: the key 'metrics' is not an option of vestige run; did you mean 'metric'?"),
        ("frobnicate = 1", "v.toml: the key 'frobnicate' is not an option of vestige run; vestige run --help lists"),
        ("config = 'other.toml'", "v.toml: the key 'config' is not an option of vestige run"),
        ("retention = '512'", "v.toml: retention = '512' is not a whole number, such as 512; correct it"),
        ("retention = true", "v.toml: retention = true is not a whole number"),
        ("strict = 1", "v.toml: strict = 1 is not true or false; correct it"),
        ("max-age = 30", "v.toml: max-age = 30 is not a text in quotes"),
        ("max-age = '30'", "v.toml: max-age: '30' is not a duration; write a number and a unit"),
        ("column = [1]", 'v.toml: column = 1 is not a text in quotes, such as "...", or a list of them'),
        ("store = ['a', 'b']", "v.toml: store = ['a', 'b'] is not a text in quotes"),
        ("metric = [2020-01-01]", "v.toml: metric = 2020-01-01 is not a text in quotes"),
        ("metric = [{a = [true, 07:30:00]}]", "v.toml: metric = {a = [true, 07:30:00]} is not a text in quotes"),
        ("store = ''", "v.toml: store is empty; give the path of a file, or leave the key out"),
        ("statistic = 'median'", "v.toml: statistic: 'median' is not one of"),
        ("keep-receipts = 'x'", "v.toml: keep-receipts: 'x' is not a duration"),
        ("keep-receipts = [['a']]", "v.toml: keep-receipts = [['a']] is not a text in quotes"),
        ("[run]\nretention = 5", "v.toml: the key 'run' is not an option"),
        ("retention = ", "v.toml: is not TOML: "),
        ("\xff", "v.toml: is not UTF-8"),
    ],
)
def test_a_wrong_file_is_named_with_its_key(
    text: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("v.toml").write_text(text, encoding="latin-1")
    result = vestige("run", "--config", "v.toml")
    assert result.exit_code == 2, result.output
    assert message in result.stderr


def test_a_missing_name_is_explained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert "no source is given; name a file" in vestige("run", "--column", "a", "--retention", 96).stderr
    assert (
        "--config x.toml does not exist; vestige init writes such a file" in vestige("run", "--config", "x.toml").stderr
    )
    assert "Missing argument 'STORE': there is no vestige.toml here" in vestige("sweep").stderr
    Path("vestige.toml").write_text("retention = 5\n")
    assert "Missing argument 'STORE': vestige.toml does not name one" in vestige("sweep").stderr
    both = vestige("sweep", "a.db", "--config", "vestige.toml")
    assert "STORE and --config are both given; leave out one of them" in both.stderr


def test_a_broken_file_does_not_keep_a_named_store_from_its_deadline(folder: Path) -> None:
    said("run", "--config", folder / "data" / "vestige.toml")
    Path("vestige.toml").write_text("not TOML")
    assert vestige("sweep", folder / "data" / "v.db").exit_code == 0
    assert vestige("sweep").exit_code == 2
    assert vestige("run", "--help").exit_code == 0


@pytest.mark.parametrize(
    ("file", "options", "message"),
    [
        ("metric = 'spent:mean'", ("--statistic", "moments"), "--statistic moments cannot be used with --metric"),
        ("metric = 'spent:mean'", ("--standard-error",), "--standard-error is not needed with --metric"),
        ("metric = 'spent:mean'", ("--edges", "0,1"), "--edges 0,1 cannot be used with --metric"),
    ],
)
def test_a_conflict_says_what_is_from_the_file(folder: Path, file: str, options: tuple[str, ...], message: str) -> None:
    Path("vestige.toml").write_text(f"{file}\nretention = 256\n")
    result = vestige("run", folder / "data" / "v.csv", *options)
    assert result.exit_code == 2
    told = " ".join(result.stderr.split())
    assert message in told
    assert told.endswith("(metric is from vestige.toml)")


def test_metrics_replace_what_they_say_themselves(folder: Path) -> None:
    Path("vestige.toml").write_text(
        "column = 'spent'\nchannel = 'average'\nstandard-error = true\nretention = 256\nseed = 1\n"
    )
    assert said("run", folder / "data" / "v.csv", "--metric", "spent:mean")["statistic"] == "metrics"
    result = vestige(
        "run", folder / "data" / "v.csv", "--config", "/dev/null", "--metric", "spent:mean", "--edges", "0,1"
    )
    assert result.stderr.count("from vestige.toml") == 0, "nothing is from a file"


def test_a_byte_order_mark_is_skipped(folder: Path) -> None:
    text = (folder / "data" / "vestige.toml").read_bytes()
    (folder / "data" / "vestige.toml").write_bytes(b"\xef\xbb\xbf" + text)
    assert said("run", "--config", "../data/vestige.toml")["taken"] == 600


@pytest.mark.usefixtures("folder")
def test_an_empty_path_of_a_store_is_named() -> None:
    for words in (("list", ""), ("run", "../data/v.csv", "--column", "spent", "--store", "")):
        assert "address='' is empty; give the path of a file" in vestige(*words).stderr
