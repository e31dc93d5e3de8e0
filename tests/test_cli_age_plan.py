"""`vestige plan --max-age`: what it prints, in words and for machines, and how it fails."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

from vestige.cli import command


def vestige(*arguments: object) -> Result:
    return CliRunner().invoke(command, [str(a) for a in arguments], prog_name="vestige")


def test_metrics_of_a_sample_under_a_limit_in_time(tmp_path: Path) -> None:
    path = tmp_path / "visits.csv"
    rng = np.random.default_rng(0)
    rows = rng.normal([40.0, 1.0], [9.0, 1.0], (2_000, 2))
    path.write_text("amount,rating\n" + "".join(f"{a:.3f},{'' if b < 0.0 else round(b, 3)}\n" for a, b in rows))
    arguments = ("plan", path, "--metric", "amount:mean", "--metric", "rating:sum,extremes", "--max-age", "30d")
    result = vestige(*arguments, "--rate", "1/h", "--records", 1_000)
    assert result.exit_code == 0, result.output
    words = " ".join(result.stdout.split())
    assert "Plan for metrics (a sample of 2,000 records): 24 records a day, each held for at most 30 days" in words
    assert "after 1,000 records, 42 days." in words
    assert "Errors in the units of the data: amount:mean 0.28" in words
    assert "Bundle: Batches are closed early, some with 327 of 658 records" in words
    assert "Private: needs a bound: the largest magnitude" in words


def test_the_plan_for_machines() -> None:
    said = json.loads(vestige("plan", "--max-age", "30d", "--rate", "1000/d", "--json").stdout)
    assert (said["statistic"], said["max_age"], said["rate"], said["records"]) == ("mean", 2_592_000, 1_000, 365_000)
    assert [row["name"] for row in said["rows"]] == ["Mean", "Private, epsilon 1", "window", "all records"]
    assert (said["rows"][0]["batch"], said["rows"][0]["every"], said["errors"]) == (64, 0.064 * 86_400, None)


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("--max-age", "30d"), "--max-age 30 days needs --rate, the records that arrive"),
        (("--rate", "48/d"), "--rate 48/d needs --max-age, the limit in time"),
        (
            ("--max-age", "30d", "--rate", "1000"),
            "'1000' is not a rate; write records per unit of time, such as 1000/d",
        ),
        (("--max-age", "30d", "--rate", "-1/d"), "'-1/d' is not a rate"),
        (("--max-age", "30d", "--rate", "1/d", "--error", 0.1, "--records", 9), "both --error and --records are given"),
        (("--max-age", "30d", "--rate", "1/d", "--figure", "a.png"), "--figure a.png draws errors against limits in"),
        (("--metric", "a:mean", "--dim", 2, "--records", 9), "--dim cannot be used with --metric"),
    ],
)
def test_errors_name_the_option_and_the_remedy(arguments: tuple[object, ...], problem: str) -> None:
    result = vestige("plan", *arguments)
    assert result.exit_code != 0
    assert problem in " ".join(result.output.split())
