"""Noise, windows and standard errors on the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from vestige import Bundle, Mean, Private, Window
from vestige.cli import command
from vestige.cli.warm import make_smallest
from vestige.policies import STATISTICS, Encoded
from vestige.policies.private import AVERAGED
from vestige.statistics import Averages
from vestige.store import open_store
from vestige.stream.open import open_stream

METRICS = ("--metric", "spent:mean,count", "--metric", "status:shares[ok,failed]")
PRIVATE = ("--epsilon", "1", "--bound", "spent=100", "--retention", "2000")


@pytest.fixture(scope="module")
def visits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rng, path = np.random.default_rng(0), tmp_path_factory.mktemp("private") / "visits.csv"
    spent = [f"{value:.2f}" for value in rng.gamma(2.0, 15.0, 6_000)]
    spent[::10] = [""] * 600
    status = rng.choice(["ok", "failed"], 6_000, p=[0.9, 0.1])
    country = rng.choice(["DE", "FR"], 6_000)
    lines = [",".join(row) for row in zip(country, spent, status, strict=True)]
    path.write_text("country,spent,status\n" + "\n".join(lines) + "\n")
    return path


def say(*words: object) -> str:
    result = CliRunner().invoke(command, ["run", *map(str, words)])
    assert result.exit_code == 0, result.output
    return " ".join(result.stdout.split())


def refuse(*words: object) -> str:
    result = CliRunner().invoke(command, ["run", *map(str, words)])
    assert result.exit_code == 2, result.output
    return result.stderr


def test_metrics_with_noise(visits: Path, tmp_path: Path) -> None:
    text = say(visits, *METRICS, *PRIVATE, "--by", "country", "--store", tmp_path / "a.db")
    assert "Private: epsilon 1 at delta 1e-06 for each record with all its metrics, once it is erased." in text
    assert "Not covered: a person with several records or keys" in text
    assert "Each stream draws secret noise of its own." in text
    assert "standard errors include it" in text
    with open_store(tmp_path / "a.db") as store:
        policy = open_stream(store, "DE").policy
    assert isinstance(policy, Private)
    assert isinstance(policy.policy, Bundle)
    assert policy.name_bounds(policy.policy.column_names) == {"spent": 100.0}


def test_the_answers_are_within_their_errors(visits: Path) -> None:
    facts = json.loads(say(visits, *METRICS, *PRIVATE, "--delta", "1e-5", "--json"))
    assert facts["private"]["delta"] == 1e-5
    assert facts["private"]["bounds"] == {"spent": 100.0}
    assert "Not covered" in facts["private"]["note"]
    mean = facts["value"]["spent:mean"]
    assert abs(mean["value"]["spent"] - 30.0) <= 5.0 * mean["standard_error"]["spent"]
    assert mean["standard_error"]["spent"] > 0.5


def test_the_terms_of_a_store_include_the_noise(visits: Path, tmp_path: Path) -> None:
    say(visits, *METRICS, *PRIVATE, "--store", tmp_path / "a.db")
    again = say(visits, "--store", tmp_path / "a.db")
    assert "Private: epsilon 1 at delta 1e-06" in again
    assert "needs --column or --metric" in refuse(visits, "--epsilon", "2", "--store", tmp_path / "a.db")
    other = refuse(visits, *METRICS, *PRIVATE[2:], "--epsilon", "2", "--store", tmp_path / "a.db")
    assert "epsilon" in other


def test_a_standard_error(visits: Path) -> None:
    plain = say(visits, "--column", "spent", "--retention", "256", "--standard-error")
    assert "standard error" in plain
    facts = json.loads(say(visits, "--column", "spent", "--standard-error", "--json", *PRIVATE))
    policy = Private(Mean(spread=True), bounds=[100.0], epsilon=1.0, delta=1e-6)
    spent = np.array([float(line.split(",")[1]) for line in visits.read_text().split()[1:] if line.split(",")[1]])
    n = len(spent) // 1_000 * 1_000  # up to the last update
    cut = np.minimum(spent[:n], 100.0)
    mean, square = (2.0 * policy.scale * scale * np.sqrt(n // 1_000) / n for scale in policy.statistic.scales)
    spread = np.hypot(square, 2.0 * cut.mean() * mean)  # standard deviation of the noisy variance
    assert (facts["t"], facts["as_of"], facts["counted"]) == (len(spent), n, n)
    assert facts["standard_error"]["spent"] ** 2 == pytest.approx(mean**2 + cut.var() / n, abs=5.0 * spread / n)


def test_a_window_says_that_it_is_one(visits: Path, tmp_path: Path) -> None:
    text = say(visits, "--column", "spent", "--retention", "256", "--window")
    assert "Mean of the 256 records held" in text
    assert "All-time" not in text
    assert json.loads(say(visits, "--metric", "spent:mean", "--retention", "256", "--window", "--json"))["window"]
    say(visits, "--metric", "spent:mean", "--retention", "256", "--window", "--store", tmp_path / "a.db")
    assert "Statistics of the" in say(visits, "--store", tmp_path / "a.db")
    options = ["run", str(visits), "--column", "spent", "--max-age", "60d", "--window"]
    told = CliRunner().invoke(command, options).stderr
    assert "--window needs --retention, the number of records that it holds" in told
    with open_store(tmp_path / "a.db") as store:
        assert isinstance(open_stream(store, "main").policy, Window)


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (
            ("--epsilon", 1),
            "--epsilon needs --bound for spent, the largest magnitude of its values or both ends; choose it from",
        ),
        (("--epsilon", 1, "--bound", 2, "--seed", 3), "--seed 3 cannot be used with --epsilon, since whoever knows it"),
        (
            ("--epsilon", 1, "--bound", "x"),
            "--bound x is not a number or both ends of a range, with or without a column and an equals sign before",
        ),
        (("--epsilon", 1, "--bound", "a=1"), "--bound a=1 is for a column that is not read; use one of spent"),
        (("--epsilon", 1, "--bound", 1, "--bound", "spent=2"), "--bound spent=2 is the second one for spent"),
        (("--epsilon", 1, "--bound", -1), "bounds=-1.0 is out of range"),
        (("--epsilon", 0, "--bound", 1), "epsilon=0.0 is out of range"),
        (("--epsilon", 1, "--bound", 1, "--window"), "--window and --epsilon select different policies"),
        (("--epsilon", 1, "--bound", 1, "--half-life", 9), "half_life=9.0 is not for Private"),
        (("--epsilon", 1, "--bound", 1, "--channel", "average"), "--channel average cannot be used with --epsilon"),
        (("--bound", 1), "--bound 1 needs --epsilon; give both, or leave it out"),
        (("--delta", 0.1), "--delta 0.1 needs --epsilon; give both, or leave it out"),
        (("--epsilon", 1, "--statistic", "extremes"), "cannot be used with extremes, which is not made of averages"),
        (("--window", "--statistic", "extremes"), "--window cannot be used with extremes"),
        (("--standard-error", "--statistic", "sum"), "--standard-error is for --statistic mean; sum has"),
        (("--standard-error", "--channel", "average"), "channel='average' cannot hold a variance"),
        (
            ("--epsilon", 1, "--statistic", "histogram", "--edges", "1,2", "--bound", "spent=1"),
            "--bound spent=1 is for a column whose statistics need none; leave it out",
        ),
    ],
)
def test_options_that_do_not_fit_are_refused(visits: Path, words: Any, text: str) -> None:
    assert text in refuse(visits, "--column", "spent", "--retention", "2000", *words)


def test_metrics_that_do_not_fit_are_refused(visits: Path) -> None:
    found = refuse(visits, "--metric", "status:shares", "--epsilon", "1", "--retention", "2000")
    assert "needs the categories of status to be declared, since those found in the data would reveal records" in found
    assert "policy has extremes of spent" in refuse(visits, "--metric", "spent:extremes", *PRIVATE[:2], *PRIVATE[4:])
    kept = refuse(visits, "--metric", "spent:mean", "--standard-error", "--retention", "2000")
    assert "--standard-error is not needed with --metric" in kept


def test_what_an_error_offers_is_all_that_can_have_noise() -> None:
    made = {kind: make_smallest(kind) for kind in STATISTICS.values()}
    averaged = [kind for kind, policy in made.items() if isinstance(policy, Encoded)]
    assert {kind for kind in averaged if isinstance(made[kind].statistic, Averages)} == {*AVERAGED}  # type: ignore[attr-defined]
