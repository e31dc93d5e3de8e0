"""Shares of text and booleans on the command line: declared, found in the first file, and kept by the store."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner, Result

from vestige.cli import command

N = 3_000
RNG = np.random.default_rng(1)
TABLE = pd.DataFrame(
    {
        "status": RNG.choice(np.array(["ok", "failed", "lost"]), N, p=[0.6, 0.395, 0.005]),
        "paid": RNG.random(N) < 0.3,
        "amount": RNG.gamma(2.0, 10.0, N),
    }
)
TABLE.loc[RNG.random(N) < 0.1, "status"] = np.nan
METRICS = ("--metric", "status:shares,count", "--metric", "paid:shares", "--metric", "amount:mean")


def vestige(*arguments: object) -> Result:
    return CliRunner().invoke(command, [str(a) for a in arguments], prog_name="vestige")


def said(*arguments: object) -> Any:
    result = vestige(*arguments, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    TABLE.to_csv(tmp_path / "v.csv", index=False)
    return tmp_path / "v.csv"


def test_distinct_texts_are_counted_and_the_store_remembers_that_they_are_texts(tmp_path: Path) -> None:
    paths = [tmp_path / name for name in ("1.csv", "2.csv")]
    paths[0].write_text("email,amount\n" + "".join(f"user{i % 300}@example.org,{i}\n" for i in range(900)))
    paths[1].write_text("email,amount\n" + "".join(f"{i},{i}\n" for i in range(100)))
    limits = ("--retention", 40_000, "--store", tmp_path / "v.db")
    for metrics in (("--metric", "email:distinct,count", "--metric", "amount:mean"), ("--metric", "email:distinct")):
        store = (*limits[:-1], tmp_path / f"{len(metrics)}.db")
        for path, number in zip(paths, (300, 400), strict=True):
            value = said("run", path, *metrics, *store)["value"]["email:distinct"]
            assert value["lower"] <= number <= value["upper"]
        assert vestige("verify", store[-1]).exit_code == 0
    value = said("run", *paths, "--statistic", "distinct", "--column", "email", *limits)
    assert value["lower"] <= 400 <= value["upper"]
    lines = paths[0].read_text()
    piped = ("run", "-", "--metric", "email:distinct[text]", "--retention", "40000")
    assert CliRunner().invoke(command, list(piped), input=lines).exit_code == 0
    numbers = ("run", paths[1], "--metric", "email:distinct", *limits[:-1], tmp_path / "numbers.db")
    assert vestige(*numbers).exit_code == 0
    assert "not a number" in vestige(numbers[0], paths[0], *numbers[2:]).stderr


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (["--metric", "status:top"], "'status' holds text, and top needs numbers"),
        (["--statistic", "top", "--column", "status"], "'status' holds text, and top needs numbers"),
        (["--metric", "status:distinct,mean,sum"], "'status' holds text, and mean and sum need numbers"),
        (["--metric", "status:distinct[text],mean"], "distinct[text] reads the column as text; leave one of them out"),
    ],
)
def test_statistics_that_need_numbers_say_so(file: Path, options: list[str], text: str) -> None:
    result = vestige("run", file, "--retention", 40_000, *options)
    assert result.exit_code == 2
    assert text in result.stderr


def test_found_categories_become_terms_and_later_runs_use_them(file: Path) -> None:
    store = file.with_name("v.db")
    run = ("run", file, *METRICS, "--retention", 2_048, "--store", store)
    first = vestige(*run)
    assert first.exit_code == 0, first.output
    assert "Categories of status: failed, ok, found in" in first.stderr
    assert "They stay in the store's terms after the records are erased; declare them as" in first.stderr
    assert "status:shares[failed,ok] to choose." in first.stderr
    later = TABLE.assign(status="new")  # not a category of the store
    later.to_csv(file.with_name("later.csv"), index=False)
    second = vestige("run", file.with_name("later.csv"), *run[2:], "--json")
    assert "Categories" not in second.stderr
    value = json.loads(second.stdout)["value"]
    status = pd.concat([TABLE, later])["status"].dropna()
    shares = status.where(status.isin(["ok", "failed"]), "other").value_counts()
    assert value["status:shares"]["counts"] == {name: shares[name] for name in ("failed", "ok", "other")}
    assert value["status:count"]["value"] == len(status)
    assert value["paid:shares"]["counts"] == {
        "false": 2 * (~TABLE.paid).sum(),
        "true": 2 * TABLE.paid.sum(),
        "other": 0,
    }
    assert abs(value["amount:mean"]["value"]["amount"] - TABLE.amount.mean()) < 1e-6
    assert "nothing found" in vestige("verify", store).output
    changed = file.with_name("later.csv")
    changed.write_text(changed.read_text().replace("new", " ok"))
    assert "has changed in row" in vestige("verify", store).output


def test_keys_share_the_categories_of_their_store(file: Path) -> None:
    TABLE.assign(shop=np.where(np.arange(N) < 100, "a", "b")).to_csv(file, index=False)
    run = (
        "run",
        file,
        "--metric",
        "status:shares",
        "--retention",
        1_024,
        "--by",
        "shop",
        "--store",
        file.with_name("v.db"),
    )
    said(*run)
    with file.open("a") as more:
        more.write("odd,True,1.0,c\n")
    found = said(*run)
    assert found["taken"] == 1
    assert found["streams"]["c"]["value"]["status:shares"]["counts"] == {"failed": 0, "ok": 0, "other": 1}


def test_one_statistic_of_categories(file: Path) -> None:
    run = ("run", file, "--column", "status", "--statistic", "shares", "--retention", 1_024)
    counts = TABLE.status.value_counts()
    found = said(*run, "--categories", "lost, ok")
    assert found["counts"] == {"lost": counts["lost"], "ok": counts["ok"], "other": counts["failed"]}
    assert found["skipped"] == TABLE.status.isna().sum()
    assert list(said(*run)["counts"]) == ["failed", "ok", "other"]
    assert "Declare them as --categories failed,ok to choose." in vestige(*run).stderr


def test_a_boolean_is_a_number(file: Path) -> None:
    found = said("run", file, "--metric", "paid:mean,sum", "--retention", 1_024)["value"]
    assert abs(found["paid:mean"]["value"]["paid"] - TABLE.paid.mean()) < 1e-9
    assert said("run", file, "--column", "paid", "--retention", 1_024, "--seed", 1)["t"] == N


def test_a_plan_and_an_audit_take_categories(file: Path) -> None:
    shares = ("--column", "status", "--statistic", "shares", "--categories", "ok,failed")
    assert said("plan", file, *shares, "--records", 10_000)["statistic"] == "shares"
    assert "needs --categories" in vestige("plan", *shares[2:4], "--records", 10_000).stderr
    assert "needs --categories" in vestige("audit", "policy", file, *shares[:4], "--retention", 256).stderr


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (["--metric", "status:shares,mean"], "metric 'status:mean' is of numbers, but shares reads the column as text"),
        (["--metric", "status:shares", "--categories", "a"], "--categories a cannot be used with --metric"),
        (["--column", "amount", "--categories", "a"], "--categories a cannot be used with --statistic mean"),
        (["--metric", "amount:shares"], "no text in column 'amount' has 20 rows"),
        (["--metric", "nobody:shares"], "has no column 'nobody'"),
    ],
)
def test_options_that_do_not_fit_are_refused(file: Path, options: list[str], text: str) -> None:
    result = vestige("run", file, "--retention", 2_048, *options)
    assert result.exit_code != 0
    assert text in result.output


def test_a_pipe_needs_declared_categories() -> None:
    result = CliRunner().invoke(command, ["run", "-", "--metric", "a:shares", "--retention", "256"], input="a\nx\n")
    assert "cannot be found in rows that can be read only once; declare them" in result.stderr
