"""Honest policies pass the conformance checks; each way to cheat is caught."""

from __future__ import annotations

import subprocess
import sys
import traceback
from pathlib import Path

import numpy as np
import pytest

import leaky
from vestige import (
    Correlation,
    Count,
    Covariance,
    CustomLoss,
    ExactHistogram,
    Histogram,
    LinearRegression,
    LogisticRegression,
    Mean,
    Moments,
    Policy,
    Ratio,
    Sum,
    Window,
    paper,
)
from vestige.checks import check_policy, subprocess_check
from vestige.errors import CheckError, ParameterError
from vestige.types import Floats


@pytest.mark.parametrize(
    "policy",
    [
        Mean(dim=2, channel="bits"),  # one column alone is the example of check_policy
        LinearRegression(2),
        leaky.Window(),
        pytest.param(CustomLoss(leaky.honest_loss, (0.0,)), id="Gradient", marks=pytest.mark.slow),  # as the classifier
        *(
            pytest.param(policy, marks=pytest.mark.slow)  # each of a kind that is above
            for policy in (
                Window(),
                paper.SimpleMean(2),
                Moments(),
                Mean(dim=3),
                Mean(channel="average"),
                Mean(half_life=50.0),
                Mean(spread=True),
                Covariance(2),
                Count(),
                Ratio(),
                Histogram((-1.0, 0.0, 1.0)),
                ExactHistogram((0.0,), bits=12),
                Sum(),
                Correlation(2),
                LinearRegression(1, intercept=False, outputs=2),
                Window(LinearRegression(1)),
                paper.CoordinateMean(2),
                paper.Regression(2),
            )
        ),
    ],
    ids=str,
)
def test_honest_policies_pass(policy: Policy) -> None:
    check_policy(policy, batch=20 if policy.max_batch else None)


@pytest.mark.slow
def test_an_honest_classifier_passes() -> None:
    def rows(rng: np.random.Generator, n: int) -> Floats:
        x = rng.normal(size=n)
        return np.column_stack([x, x + rng.normal(size=n) > 0.0])

    check_policy(LogisticRegression(1), rows=rows)


@pytest.mark.parametrize(
    ("policy", "text"),
    [
        (leaky.InstanceAttribute, "remembers: .* gave another result"),
        (leaky.ClassVariable, "remembers: .* gave another result"),
        (leaky.ModuleVariable, "remembers: .* gave another result"),
        (leaky.DefaultArgument, "remembers: .* gave another result"),
        (leaky.Closure, "remembers: .* gave another result"),
        (leaky.KeptGenerator, "remembers: .* gave another result"),
        (leaky.GlobalRandom, "remembers: .* gave another result"),
        (leaky.File, "remembers: .* gave another result"),
        (leaky.SilentFile, r"reaches outside its return value \(open\)"),
        (leaky.DiskMemo, r"reaches outside its return value \(open\)"),
        (leaky.OpenLog, r"reaches outside its return value \(open\)"),
        (leaky.FolderName, r"reaches outside its return value \(os.mkdir\)"),
        (leaky.SampleHoarder, "keeps something of the records in its class: other"),
        (leaky.QuietSum, "keeps something of the records in its class: other"),
        (leaky.PackedSamples, "keeps something of the records in its class: other"),
        (leaky.HelperModule, "keeps something of the records in module leaky_helper: other"),
        (leaky.Environment, r"reaches outside its return value \(os.putenv\)"),
        (leaky.Cache, "keeps something of the records in its class: other"),
        (leaky.NoAnswer, "breaks a rule: NoAnswer.answer returned a NoneType"),
        (leaky.WritesIntoRecords, "WritesIntoRecords.update failed at t=.* with ValueError; its message"),
        (leaky.SetsTheClock, "SetsTheClock.update changed the clock at"),
        (leaky.AlwaysEncodes, "AlwaysEncodes.can_encode returns True at t=.* where all records are leaving"),
        (leaky.RewritesBySign, "RewritesBySign.rewrite at t=.* depending on values"),
        (leaky.ManyForAWhile, "keeps something of the records in module leaky: other"),
        (leaky.ManyOnceLate, "update_many keeps other records than update for each batch"),
        (leaky.StorageOrder, "depends on the order in which records are stored: answer"),
        (leaky.StorageOrderOfKept, "depends on the order in which records are stored: update"),
        (leaky.LostInPickle, "depends on more than its parameters"),
        (leaky.NoPickle, "cannot be pickled"),
        (leaky.ThisProcess, "depends on the process it runs in"),
        (leaky.OtherWhenMany, "update_many keeps other records than update for each batch"),
        (leaky.KeepsLeavers, "breaks a rule: .* which is leaving"),
    ],
)
def test_every_cheat_is_caught(policy: type[Policy], text: str) -> None:
    try:
        with pytest.raises(CheckError, match=text):
            check_policy(policy())
    finally:
        leaky.forget_everything()


def test_a_value_in_an_error_is_not_shown() -> None:
    with pytest.raises(CheckError, match=r"Talks.update failed at t=\d+ with ValueError") as caught:
        check_policy(leaky.Talks(), rows=lambda _, n: np.full((n, 1), 1 / 7))
    assert "0.1428" not in "".join(traceback.format_exception(caught.value))


def test_a_value_in_an_error_of_a_fresh_process_is_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    script = "import sys; sys.exit('x\\nValueError: cannot take 123.456789')"
    run = subprocess.run
    monkeypatch.setattr(
        subprocess_check.subprocess,  # type: ignore[attr-defined]
        "run",
        lambda _, **options: run([sys.executable, "-c", script], **options),
    )
    with pytest.raises(CheckError, match=r"could not be run in a fresh process \(ValueError\)") as caught:
        subprocess_check.check_in_subprocess(b"", subprocess_check.Case([], 1, [], 0))
    assert "123.456" not in str(caught.value)


def test_a_parameter_that_equals_a_record_is_no_memory() -> None:
    check_policy(leaky.WholeParameter(), rows=lambda rng, n: rng.integers(0, 3, (n, 1)).astype(float))


def test_batches_below_the_minimum_are_refused() -> None:
    with pytest.raises(ParameterError, match="below the 22"):
        check_policy(Mean(), batch=4)


@pytest.mark.slow
def test_a_plain_script_can_check(tmp_path: Path) -> None:
    """Without a guard for the main module; a policy that is defined there is refused in words."""
    script = tmp_path / "script.py"
    script.write_text("import vestige\nvestige.checks.check_policy(vestige.Window())\nprint('fine')\n")
    done = subprocess.run([sys.executable, script], check=True, capture_output=True, text=True)
    assert done.stdout == "fine\n"
    script.write_text("import vestige\nclass Mine(vestige.Mean): pass\nvestige.checks.check_policy(Mine())\n")
    done = subprocess.run([sys.executable, script], check=False, capture_output=True, text=True)
    assert "Mine is defined in __main__" in done.stderr


def test_what_is_no_policy_is_refused() -> None:
    with pytest.raises(CheckError, match=r"int is not a vestige.Policy"):
        check_policy(3)  # type: ignore[arg-type]
