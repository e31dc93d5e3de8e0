"""`vestige audit` as users call it: a verdict in words, figures, JSON, and errors that say what to do."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

from troubled import KeepsHalf
from vestige import Mean, Private, SqliteStore, Stream, Window
from vestige.cli import command
from vestige.paper import SimpleMean


def vestige(*arguments: object) -> Result:
    return CliRunner().invoke(command, [str(argument) for argument in arguments], catch_exceptions=False)


def said(*arguments: object) -> str:
    result = vestige(*arguments)
    assert result.exit_code == 0, result.output
    return " ".join(result.stdout.split())


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("audit") / "data.csv"
    rows = np.random.default_rng(0).normal(size=(2_000, 2))
    path.write_text("a,b\n" + "\n".join(f"{a},{b}" for a, b in rows) + "\n")
    return path


SMALL = ("--retention", 96, "--trials", 100, "--batches", 3)


def test_a_curated_mean_is_not_forgotten(source: Path, tmp_path: Path) -> None:
    figure = tmp_path / "f.png"
    text = said("audit", "policy", source, "--column", "a", *SMALL, "--channel", "bits", "--figure", figure)
    assert (
        "Verdict: erased, but not forgotten. An adversary who knows all other records distinguished the hypotheses"
        in text
    )
    assert "epsilon was at least 3.28 (95% confidence, the most that this many trials can show)" in text
    assert "3 batches after the erasure, it was at least 3.28; from all 7 states together, at least 3.28." in text
    assert "The erased value could then be reconstructed with" in text
    assert figure.stat().st_size > 5_000


def test_a_window_is(source: Path) -> None:
    text = said("audit", "policy", source, "--column", "a", *SMALL, "--window", "--adversary", "knows-distribution")
    assert "Verdict: nothing found. An adversary who knows only the distribution of the records" in text
    assert "That does not prove that nobody can." in text


def test_a_promise_is_tried(source: Path, tmp_path: Path) -> None:
    options = ("--retention", 128, "--trials", 100, "--batches", 3, "--epsilon", 1, "--bound", 3)
    curve = tmp_path / "curve.svg"
    text = said("audit", "policy", source, "--column", "a", "--column", "b", *options, "--curve", curve)
    assert "Verdict: the guarantee of epsilon 1 at delta 1e-06 is not refuted by all" in text
    assert "promised: mu 0.24" in curve.read_text()
    assert "of 0.24 guaranteed" in text


def test_the_adversary_may_choose_what_arrives_and_learn(source: Path) -> None:
    options = ("--retention", 96, "--trials", 20, "--batches", 1, "--learned", "--adversary", "chooses-arrivals")
    text = said("audit", "policy", source, "--column", "a", *options)
    assert "An adversary who chooses what else arrives distinguished the hypotheses" in text
    assert "all states" in text
    assert "all states" in text
    assert "best attack" in text


def test_machines_get_all_of_it(source: Path) -> None:
    facts: dict[str, Any] = json.loads(said("audit", "policy", source, "--column", "a", *SMALL, "--json"))
    assert facts["trials"] == 100
    assert [one["age"] for one in facts["checkpoints"]][1:] == [0, 48, 144]
    assert {"epsilon", "mu", "auc", "true_positive_rate", "reconstruction", "same_state"} < set(facts["checkpoints"][0])


def test_the_papers_examples(tmp_path: Path) -> None:
    text = said("audit", "appendix", "--trials", 100)
    assert "The two hypotheses have no state in common" in text
    assert json.loads(said("audit", "appendix", "--trials", 100, "--json"))["disjoint"] is True
    text = said("audit", "outlier", "--trials", 1, "--figure", tmp_path / "o.png")
    assert "The excess decays as 1/t." in text
    assert json.loads(said("audit", "outlier", "--trials", 1, "--json"))["excess"]["Window()"] == [0.0] * 6


def test_policies_are_compared(tmp_path: Path) -> None:
    arguments = ("audit", "compare", "--trials", 20, "--batches", 2)
    assert "Retention is observed directly" in said(*arguments, "--figure", tmp_path / "c.png")
    assert (tmp_path / "c.png").stat().st_size > 5_000


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (("--epsilon", 1), "--epsilon needs --bound for a, the largest magnitude of its values"),
        (("--epsilon", 1, "--bound", 3, "--window"), "give only one of them"),
        (("--epsilon", 1, "--bound", -3), "bounds=-3.0 is out of range"),
        (("--trials", 3), "trials=3 is out of range; use a whole number, 20 or more"),
        (("--column", "nobody"), "nobody"),
        (("--retention", 4), "retention=4 gives batches of 2, below the 22"),
    ],
)
def test_errors_say_what_to_do(source: Path, options: tuple[object, ...], text: str) -> None:
    usual = [pair for pair in zip(SMALL[::2], SMALL[1::2], strict=True) if pair[0] not in options]
    result = vestige("audit", "policy", source, "--column", "a", *(part for pair in usual for part in pair), *options)
    assert result.exit_code == 2
    assert text in " ".join(result.stderr.split())


def test_a_missing_file_is_named() -> None:
    result = vestige("audit", "policy", "nowhere.csv", "--column", "a", *SMALL)
    assert result.exit_code == 2
    assert "nowhere.csv: does not exist; give a path, or - for standard input" in result.stderr


def test_stores_are_looked_at(tmp_path: Path) -> None:
    path, copies = tmp_path / "rows.csv", []
    values = np.random.default_rng(1).normal(size=2_000)
    for day in range(1, 13):
        path.write_text("a\n" + "\n".join(map(str, values[: 100 * day])) + "\n")
        store = tmp_path / "live.db"
        said("run", path, "--column", "a", "--retention", 96, "--channel", "bits", "--seed", 1, "--store", store)
        copies.append(tmp_path / f"{day}.db")
        copies[-1].write_bytes(store.read_bytes())
    result = vestige("audit", "store", *copies)
    assert result.exit_code == 1, "for scripts"
    text = " ".join(result.stdout.split())
    assert "main: 12 batches" in text
    assert "Not honest: chance does not explain which rounds are missing" in text
    assert text.startswith("By the terms of the store, main declares Mean through the channel bits, which stores")
    assert text.strip().endswith("in 1 of 1 stream (main); the test agrees.")
    assert "added nothing" not in text
    twice = " ".join(vestige("audit", "store", copies[0], copies[0]).stdout.split())
    assert "main: 1 batch," in twice
    assert "main: 1 copy added nothing, since other copies show these rounds; take copies at least a batch" in twice
    assert vestige("audit", "store", *copies, "--json").exit_code == 1
    facts = json.loads(vestige("audit", "store", copies[0], "--json").stdout)["main"]
    assert len(facts["batches"]) == 1
    assert facts["repeated"] == 0
    assert 0.0 < facts["p_value"] <= 1.0
    assert vestige("audit", "store", copies[0], "--stream", "nobody").exit_code == 2
    assert "there is no such store" in vestige("audit", "store", tmp_path / "none.db").stderr


def test_a_store_without_a_batch_shows_nothing(source: Path, tmp_path: Path) -> None:
    store = tmp_path / "new.db"
    said("run", source, "--column", "a", "--retention", 100_000, "--store", store)
    text = said("audit", "store", store)
    assert "by its own terms its records are chosen, whatever a test finds" in text
    assert "1 stream (main): nothing to test yet, since it has not closed its first batch." in text
    with SqliteStore(store) as opened:
        Stream(Mean(), retention=96, store=opened.stream("more")).extend(np.random.default_rng(0).normal(size=500))
    assert "1 stream (main): nothing to test yet" in said("audit", "store", store)
    facts = json.loads(said("audit", "store", store, "--json"))
    assert facts["main"]["verdict"] == "Nothing to test yet: it has not closed its first batch."
    assert facts["main"]["p_value"] is None
    assert facts["more"]["p_value"] is not None


def test_a_store_is_judged_by_its_own_word_first(tmp_path: Path) -> None:
    """Whatever the test finds: a store whose terms say Mean is never just called clean."""
    path = tmp_path / "s.db"
    policies = {
        "mean": (Mean(), True),
        "private": (Private(bound=3.0, epsilon=1.0, delta=1e-6), True),
        "paper": (SimpleMean(dim=1), True),
        "window": (Window(), False),
        "mine": (KeepsHalf(), None),
    }
    with SqliteStore(path) as store:
        for name, (policy, _) in policies.items():
            seed = None if name == "private" else 0
            stream = Stream(policy, retention=48 if name == "paper" else 400, seed=seed, store=store.stream(name))
            stream.extend(np.random.default_rng(0).normal(size=500))
    facts = json.loads(vestige("audit", "store", path, "--json").stdout)
    assert {name: fact["declared"]["chosen"] for name, fact in facts.items()} == {
        name: chosen for name, (_, chosen) in policies.items()
    }
    text = " ".join(vestige("audit", "store", path).stdout.split())
    assert text.index("By the terms of the store") == 0
    assert text.index("whatever a test finds") < text.index("The test, which uses the records alone: mean: 1 batch")
    assert "window declares Window, a sliding window, which keeps every record that it may" in text
    assert "mine declares troubled.KeepsHalf, which is not one of Vestige's policies" in text
    assert text.strip().endswith(
        "Conclusion: by its own terms the store chooses which records to keep by their values, in 3 of 5 streams "
        "(mean, paper, private); the test agrees in 1 of them (private), and does not clear the others."
    )


def test_the_audit_of_a_file_says_first_what_it_does_not_say(source: Path) -> None:
    """An honest firm's table must not read as accused."""
    result = vestige("audit", "policy", source, "--column", "a", *SMALL)
    text = " ".join(result.stdout.split())
    assert text.startswith("This audits Mean, auto, a policy of Vestige, run on the values in ")
    assert text.index("It says nothing about how that file was kept") < text.index("Verdict")
    facts = json.loads(said("audit", "policy", source, "--column", "a", *SMALL, "--json"))
    assert "It says nothing about how that file was kept" in next(iter(facts.values()))
    assert "says nothing about how that file was kept" in said("audit", "--help")
    assert "says nothing about how FILE itself was kept" in said("audit", "policy", "--help")
    assert "No such command" in vestige("audit", source, "--column", "a", *SMALL).stderr
