"""A policy from elsewhere: where it can run, which numbers it sees, and what is said of it if it fails."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from vestige import Mean, Policy, Window
from vestige.clock import Clock
from vestige.errors import CheckError, ParameterError
from vestige.lab import EXPERIMENTS, Results, Submission, Verdict, collect_findings, run
from vestige.lab.experiment import HELD
from vestige.lab.figures import render
from vestige.lab.report import _format_number, render_page, tabulate
from vestige.lab.results import read_rows
from vestige.policy import mask_arrivals
from vestige.records import Records
from vestige.types import Bools, Floats

SECRET = 987654.321


@dataclass(frozen=True)
class Newest(Policy):
    """Keeps the newest record; takes one column only."""

    fault: str = ""

    def update(self, clock: Clock, retained: Records, arrivals: Records, coins: int) -> Bools:  # noqa: ARG002
        if self.fault == "raise":
            raise ValueError(f"the record {SECRET}")
        return mask_arrivals(retained, arrivals.rounds == arrivals.rounds.max())

    def answer(self, clock: Clock, retained: Records) -> Floats:  # noqa: ARG002
        return np.zeros(2) if self.fault == "shape" else retained.values.mean(axis=0)


class Patient(Newest):
    """Works with long batches only."""

    @property
    def min_batch(self) -> int:
        return 160


DRIFT = EXPERIMENTS["drift"]


def test_it_enters_where_its_batches_and_columns_fit() -> None:
    mine = EXPERIMENTS["retention"].submit(Submission.from_policy(Mean(), "mine"))
    places = [int(place["retention"]) for place in EXPERIMENTS["retention"].contest.places]  # type: ignore[union-attr]
    assert [point["retention"] for point in mine.grid] == [m for m in places if m // 2 >= Mean(2).min_batch] != places
    assert all(point["policy"] == "mine" for point in mine.grid)
    assert mine.parts["mine"](2).columns == 2
    with pytest.raises(ParameterError, match=r"Newest takes records of 1 column, not of 2; give its class a field dim"):
        EXPERIMENTS["retention"].submit(Submission.from_policy(Newest()))
    with pytest.raises(ParameterError, match="descent takes no policies from elsewhere"):
        EXPERIMENTS["descent"].submit(Submission.from_policy(Newest()))
    with pytest.raises(ParameterError, match="drift has a policy window of its own"):
        DRIFT.submit(Submission.from_policy(Newest(), "window"))
    with pytest.raises(ParameterError, match=r"works with batches of 160 records or more; these have 32 to 32"):
        DRIFT.submit(Submission.from_policy(Patient()))


def test_it_sees_the_numbers_that_the_others_see() -> None:
    mine = DRIFT.submit(Submission.from_policy(Window(), "mine"))
    for number in range(2):
        theirs = DRIFT.measure({"policy": "window", "data": "trend"}, 5, number)
        assert mine.measure({"policy": "mine", "data": "trend"}, 5, number) == {**theirs, "policy": "mine"}


def test_another_file_and_other_parameters_have_results_of_their_own() -> None:
    first = Submission.from_policy(Newest())
    changed = replace(first, origin=replace(first.origin, digest="0" * 64))
    other = replace(first, policy=Newest("shape"))
    made = [DRIFT.submit(each) for each in (first, changed, other)]
    assert len({each.file_name for each in made} | {DRIFT.file_name}) == 4
    assert len({each.digest for each in made} | {DRIFT.digest}) == 4


def test_a_failure_names_the_file_the_place_and_the_line_and_no_value() -> None:
    for fault, said in (
        ("raise", r"ValueError in line \d+ of test_submission\.py"),
        ("shape", "the answer has 2 numbers"),
    ):
        mine = DRIFT.submit(Submission.from_policy(Newest(fault)))
        with pytest.raises(
            CheckError, match=rf"Newest, from test_submission\.py, failed in drift, data trend, trial 3: {said}"
        ) as failed:
            mine.measure({"policy": "Newest", "data": "trend"}, 0, 3)
        assert str(SECRET) not in str(failed.value)
        assert failed.value.__cause__ is None


def test_it_is_in_the_figure_the_table_and_the_findings(tmp_path: Path) -> None:
    short = replace(DRIFT, grid=tuple(p for p in DRIFT.grid if p["policy"] in ("window", "Mean, auto")))
    mine = Submission.from_policy(Newest())
    entry = short.submit(mine)
    run([short, entry], tmp_path, trials=2)
    rows = read_rows(tmp_path / entry.file_name)
    assert len(rows) == 8
    drawn: list[str] = []

    def draw(results: Results, figure: object) -> None:
        DRIFT.draw_figure(results, figure)  # type: ignore[arg-type]
        drawn.extend(text.get_text() for text in figure.legends[0].get_texts())  # type: ignore[attr-defined]

    known = replace(short, find_verdict=lambda _: EXPERIMENTS["descent"].judge(Results({})))
    (finding,) = collect_findings([known], tmp_path, [mine])
    assert finding.submissions == (mine,)
    render(draw, finding.results, "svg")
    assert drawn == ["all data", "window", "Mean, auto", "Newest"]
    header, table, caption = tabulate(finding)
    assert header == ("policy", "stationary", "seasons", "trend", "sorted")
    assert [row[0] for row in table] == ["window", "Mean, auto", "Newest"]
    assert caption == "Squared error, that of all data, by data, with two standard errors:"
    (alone,) = collect_findings([known], tmp_path)
    assert "Newest" not in alone.results.values("policy")


class Loose(Newest):
    """Has no hash, as a dataclass that is not frozen."""

    __hash__ = None  # type: ignore[assignment]


def test_the_page_counts_the_trials_of_a_policy_without_a_hash(tmp_path: Path) -> None:
    short = replace(DRIFT, grid=tuple(p for p in DRIFT.grid if p["policy"] in ("window", "Mean, auto")))
    mine = Submission.from_policy(Loose())
    known = replace(short, find_verdict=lambda _: Verdict(HELD, "It did."))
    run([known, known.submit(mine)], tmp_path, trials=2)
    (finding,) = collect_findings([known], tmp_path, [mine])
    assert finding.submissions == (mine,)
    assert "2 trials at each point." in render_page([finding], "vestige lab run")


def test_numbers_of_a_table_are_without_exponents() -> None:
    assert [_format_number(number, 1) for number in (0.0234, 0.23, 9.7, 94.6, 12_345.6)] == [
        "0.02",
        "0.2",
        "10",
        "95",
        "12,346",
    ]
    assert [_format_number(number) for number in (1.0234, 97.25, 104.4)] == ["1.02", "97.2", "104"]


def test_a_policy_of_no_file_is_refused() -> None:
    with pytest.raises(ParameterError, match=r"is not a vestige\.Policy"):
        Submission.from_policy(3)  # type: ignore[arg-type]
    made = type("Made", (Newest,), {"__module__": "builtins"})
    with pytest.raises(ParameterError, match="Made is not defined in a file"):
        Submission.from_policy(made())
