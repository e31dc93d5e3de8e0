"""Several metrics in one pass of the command, with values missing here and there, against numpy."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

from reading import read_rows
from vestige.cli import command

N = 6_000
RNG = np.random.default_rng(0)
AMOUNT, RATING = RNG.gamma(2.0, 10.0, N), RNG.integers(1, 6, N).astype(np.float64)
AMOUNT[RNG.random(N) < 0.05], RATING[RNG.random(N) < 0.6] = np.nan, np.nan
COUNTRY = np.where(np.arange(N) % 3, "DE", "FR")
METRICS = ("--metric", "amount:mean,moments", "--metric", "rating:mean", "--metric", "amount,rating:regression")


def vestige(*arguments: object) -> Result:
    return CliRunner().invoke(command, [str(a) for a in arguments], prog_name="vestige")


def said(*arguments: object) -> Any:
    result = vestige(*arguments, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def write(path: Path, stop: int = N) -> Path:
    cells = (
        ("" if np.isnan(a) else repr(float(a)), "" if np.isnan(r) else str(int(r)))
        for a, r in zip(AMOUNT, RATING, strict=True)
    )
    lines = [f"{country},{amount},{rating}" for country, (amount, rating) in zip(COUNTRY, cells, strict=True)]
    path.write_text("\n".join(["country,amount,rating", *lines[:stop]]) + "\n")
    return path


def test_a_store_of_metrics_grows_and_answers(tmp_path: Path) -> None:
    store, file = tmp_path / "v.db", tmp_path / "v.csv"
    run = ("run", file, *METRICS, "--by", "country", "--retention", 2_048, "--store", store)
    for stop, before in ((4_000, 0), (N, 4_000), (N, N)):
        write(file, stop)
        found = said(*run)
        assert (found["statistic"], found["taken"], found["skipped"]) == ("metrics", stop - before, 0)
    for country in ("DE", "FR"):
        here = country == COUNTRY
        for key, column in (("amount", AMOUNT), ("rating", RATING)):
            values = column[here & ~np.isnan(column)]
            mean = found["streams"][country]["value"][f"{key}:mean"]
            assert mean["counted"] == len(values)
            assert abs(mean["value"][key] - values.mean()) <= 0.01 * values.std() / np.sqrt(len(values))
    rows = read_rows(vestige("estimate", store, "--format", "json"))
    assert {row["stream"]: row["value"] for row in rows if row["metric"] == "amount:mean"} == {
        name: answer["value"]["amount:mean"]["value"]["amount"] for name, answer in found["streams"].items()
    }
    assert "nothing found" in vestige("verify", store).output
    table = vestige("estimate", store).output
    assert "amount:moments variance" in table
    assert "standard error" in table


def test_a_held_row_that_misses_a_value_is_compared_too(tmp_path: Path) -> None:
    store, file = tmp_path / "v.db", write(tmp_path / "v.csv")
    run = ("run", file, "--metric", "rating:mean", "--retention", 400, "--store", store)
    said(*run)
    text = file.read_text().splitlines()
    file.write_text("\n".join([*text[:-60], *(f"{line}4" if line.endswith(",") else line for line in text[-60:])]))
    result = vestige(*run)
    assert result.exit_code == 2
    assert "has changed in row" in result.output


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ([], "no column is given; give --column NAME, or --metric NAME:STATISTIC"),
        (["--metric", "amount:mean", "--column", "amount"], "--column amount cannot be used with --metric"),
        (["--metric", "amount:mean", "--target", "amount"], "--target amount cannot be used with --metric"),
        (["--metric", "a:mean", "--statistic", "moments"], "--statistic moments cannot be used with --metric"),
        (["--metric", "a:mean", "--edges", "0,1"], "--edges 0,1 cannot be used with --metric; write them in brackets"),
        (["--metric", "a:mean", "--channel", "average"], "--channel average cannot hold metrics"),
        (["--metric", "a:median"], "the statistic 'median' is unknown; use p50"),
        (["--metric", "amount:mean,p50"], "that Bundle of amount:mean, amount:p50 needs; use"),
        (["--metric", "nobody:mean"], "nobody"),
    ],
)
def test_options_that_do_not_fit_are_refused(tmp_path: Path, options: list[str], text: str) -> None:
    result = vestige("run", write(tmp_path / "v.csv", 3), "--retention", 2_048, *options)
    assert result.exit_code != 0
    assert text in result.output


def test_what_is_to_know_of_a_metric_is_said_by_key_and_in_every_form(tmp_path: Path) -> None:
    store, told = tmp_path / "v.db", "values of single records, which may have been erased"
    file = write(tmp_path / "v.csv", 400)
    run = ("run", file, "--metric", "amount:mean,p50", "--by", "country", "--max-age", "30d", "--store", store)
    result = vestige(*run)
    assert told in " ".join(result.stdout.split())
    assert not any("…" in line for line in result.stdout.splitlines())
    listed = [note for stream in said(*run)["streams"].values() for note in stream["notes"]]
    assert sum(told in note for note in listed) == 2
    rows = json.loads(vestige("estimate", store, "--format", "json").stdout)
    assert {row["metric"] for row in rows if row["notes"] and told in row["notes"]} == {"amount:p50"}
    for wrong in ("-", store):
        assert vestige("estimate", store, "--format", "csv", "--out", wrong).exit_code == 2


def test_a_ratio_over_a_mean_near_zero_is_doubted_in_every_form(tmp_path: Path) -> None:
    rows = np.random.default_rng(0).normal(size=(300, 2))
    file, told = tmp_path / "v.csv", "within five of its standard errors of zero"
    file.write_text("a,b\n" + "".join(f"{a:.6f},{b:.6f}\n" for a, b in rows))
    run = ("run", file, "--metric", "a,b:ratio", "--metric", "a:mean", "--retention", 2_048)
    assert f"Note: a,b:ratio: The mean of the denominator is {told}" in " ".join(vestige(*run).stdout.split())
    assert [told in note for note in said(*run)["notes"]].count(True) == 1
    vestige(*run, "--store", tmp_path / "v.db")
    listed = read_rows(vestige("estimate", tmp_path / "v.db", "--format", "json"))
    assert [row["metric"] for row in listed if told in (row["notes"] or "")] == ["a,b:ratio"]


def test_a_metric_without_an_answer_says_why_and_is_not_strict(tmp_path: Path) -> None:
    file, store = tmp_path / "n.csv", tmp_path / "n.db"
    file.write_text("a,b,c\n" + "".join(f",{i},0\n" for i in range(300)))
    metrics = ("--metric", "a:mean,sum,count,distinct[64]", "--metric", "b,c:ratio", "--metric", "b:mean")
    run = ("run", file, *metrics, "--retention", 4_000, "--store", store)
    assert said(*run)["problems"].keys() == {"a:mean", "a:sum", "a:distinct", "b,c:ratio"}
    for command_line in ((*run, "--strict"), ("estimate", store, "--strict")):
        result = vestige(*command_line)
        assert result.exit_code == 1
        assert "without an answer: a:mean, a:sum, a:distinct, b,c:ratio" in result.stderr
        text = " ".join(result.stdout.split())
        assert "No answer for a:mean, a:sum, a:distinct: no record that counts has a value in a." in text
    result = vestige("estimate", store, "--format", "json", "--strict")
    assert result.exit_code == 1
    rows = {row["metric"]: row for row in json.loads(result.stdout)}
    assert {name: row["counted"] for name, row in rows.items()} == {
        **dict.fromkeys(("a:mean", "a:sum", "a:count", "a:distinct"), 0),
        **dict.fromkeys(("b,c:ratio", "b:mean"), 300),
    }
    assert rows["b,c:ratio"]["problem"].startswith("the denominator is 0")
    assert [name for name, row in rows.items() if row["problem"] is None] == ["a:count", "b:mean"]
