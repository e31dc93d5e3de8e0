"""`vestige plan`: what it prints, in words, as a table, for machines and as a picture; how it fails."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

from vestige.cli import command

ROWS = np.random.default_rng(0).exponential(40.0, (2_000, 2))
UNUSUAL = 4711.25


def vestige(*arguments: object) -> Result:
    return CliRunner().invoke(command, [str(a) for a in arguments], prog_name="vestige")


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "flights.csv"
    rows = np.vstack([ROWS, [[UNUSUAL, UNUSUAL]]])
    np.savetxt(path, rows, fmt="%.6g", delimiter=",", header="delay,distance", comments="")
    return path


def test_the_plan_in_words_and_a_table() -> None:
    result = vestige("plan", "--dim", 2, "--error", 0.05)
    assert result.exit_code == 0, result.output
    words = " ".join(result.stdout.split())
    assert "an error of 0.05 standard deviations of a record, after 484 records." in words
    assert "Mean requires a retention of 76 records; a sliding window requires" in words
    assert "The price of epsilon 1 (delta 1e-06, bound" in words
    for policy in ("Mean, auto", "Mean, average", "Mean, bits", "Private, epsilon 1", "window", "lower bound"):
        assert f"│ {policy}" in result.stdout
    assert "coordinate-wise; algorithm 1: As published" in words


def test_only_private_depends_on_the_mean() -> None:
    near, far = (
        json.loads(vestige("plan", "--records", 100_000, "--mean", mean, "--json").stdout) for mean in (0.5, -700.0)
    )
    assert (near["mean"], far["mean"]) == (0.5, -700.0)
    both = {
        row["name"]: (row["retention"], other["retention"])
        for row, other in zip(near["rows"], far["rows"], strict=True)
    }
    assert [name for name, (one, other) in both.items() if one != other] == ["Private, epsilon 1"]


def test_the_plan_for_machines_and_in_the_units_of_the_data(table: Path) -> None:
    arguments = ("plan", table, "--column", "delay", "--column", "distance", "--records", 10_000, "--bound", 1_000)
    said = json.loads(vestige(*arguments, "--json").stdout)
    assert (said["statistic"], said["records"], said["sampled"]) == ("mean", 10_000, 2_001)
    assert said["unit"] == "standard deviations of one record's influence"
    deviations = np.vstack([ROWS, [[UNUSUAL, UNUSUAL]]]).std(axis=0)
    assert said["errors"] == pytest.approx(dict(zip(("delay", "distance"), 0.011 * deviations, strict=True)), rel=1e-4)
    rows = {row["name"]: row for row in said["rows"]}
    assert rows["window"]["retention"] == 8_265
    assert rows["Mean, auto"]["retention"] == 76
    assert rows["Mean, auto"]["seconds"] > 0.0
    assert rows["Mean, auto"]["memory"] == rows["Mean, auto"]["retention"] * (8 * 2 + 33)
    bounds = {"column 1": 1_000.0, "column 2": 1_000.0}
    assert said["private"] == {"epsilon": 1.0, "delta": 1e-6, "bounds": bounds}
    assert [price["retention"] for price in said["prices"]] == [68, 544, 4_352]
    assert "tails are heavy" in said["notes"][0]


@pytest.mark.parametrize(
    ("statistic", "number"),
    [
        pytest.param("moments", "kurtosis", marks=pytest.mark.slow),  # one unusual record makes its words hard to write
        ("covariance", "delay with delay"),
        ("regression", "distance by delay"),
    ],
)
def test_each_statistic_can_be_planned_and_no_record_is_shown(table: Path, statistic: str, number: str) -> None:
    target = ("--target", "distance") if statistic == "regression" else ()
    result = vestige("plan", table, "--column", "delay", *target, "--statistic", statistic, "--error", 0.1)
    assert result.exit_code == 0, result.output
    assert f"{number} " in " ".join(result.stdout.split())
    assert "4711" not in result.output
    assert "it must not be taken from the data" in " ".join(result.stdout.split())


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ([], "give either --error, the target error, or --records"),
        (["--error", 0.1, "--records", 10], "give either --error, the target error, or --records"),
        (["--error", 0], "error=0.0 is out of range; use a number above 0"),
        (["--records", 0], "records=0 is out of range"),
        (["--error", 0.1, "--dim", 0], "--dim 0 is out of range; use a whole number, 1 or more"),
        (["--error", 0.1, "--dim", 2, "--statistic", "moments"], "--dim 2 is too large for --statistic moments"),
        (["--error", 0.1, "--statistic", "logistic"], "cannot be predicted: how fast it learns depends on its loss"),
        (["--error", 0.1, "--column", "a"], "--column a needs a SOURCE"),
        (["--error", 0.1, "--epsilon", -1], "epsilon=-1.0"),
        (["--error", 0.1, "--mean", "nan"], "mean=nan is out of range; use a number of standard deviations"),
        (["--error", 0.1, "--figure", "plan.nothing"], "does not end in a known image format"),
        (["nowhere.csv", "--column", "a", "--error", 0.1], "nowhere.csv: does not exist"),
        (["nowhere.csv", "--error", 0.1], "nowhere.csv: no --column is given"),
        (["nowhere.csv", "--column", "a", "--dim", 2, "--error", 0.1], "--dim 2 differs from the number of columns, 1"),
    ],
)
def test_what_cannot_be_planned_is_refused(arguments: list[object], text: str) -> None:
    result = vestige("plan", *arguments)
    assert result.exit_code != 0
    assert text in result.stderr
    assert "Traceback" not in result.output
