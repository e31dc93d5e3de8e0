"""Honest policies pass the conformance checks; each way to cheat is caught."""

from __future__ import annotations

import pytest

import leaky
from vestige import Mean, Policy, Window, paper
from vestige.checks import check_policy
from vestige.errors import CheckError


@pytest.mark.parametrize(
    "policy",
    [
        Mean(),
        Mean(dim=3),
        Mean(channel="average"),
        Mean(dim=2, channel="bits"),
        Window(),
        Window(Mean(dim=2)),
        paper.SimpleMean(2),
        paper.CoordinateMean(2),
        leaky.Window(),
    ],
    ids=str,
)
def test_honest_policies_pass(policy: Policy) -> None:
    check_policy(policy, batch=20 if policy.maximum else None)


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
        (leaky.SilentFile, r"writes outside its return value \(open\)"),
        (leaky.SampleHoarder, "still holds the value of an erased record"),
        (leaky.Cache, "still holds the value of an erased record"),
        (leaky.StorageOrder, "depends on the order in which records are stored: answer"),
        (leaky.StorageOrderOfKept, "depends on the order in which records are stored: update"),
        (leaky.LostInPickle, "depends on more than its parameters"),
        (leaky.NoPickle, "cannot be pickled"),
        (leaky.ThisProcess, "depends on the process it runs in"),
        (leaky.KeepsLeavers, "breaks a rule: .* which is leaving"),
    ],
)
def test_every_cheat_is_caught(policy: type[Policy], text: str) -> None:
    try:
        with pytest.raises(CheckError, match=text):
            check_policy(policy())
    finally:
        leaky.forget_everything()


def test_records_cannot_be_changed_by_a_policy() -> None:
    with pytest.raises(ValueError, match="read-only"):
        check_policy(leaky.WritesIntoRecords())


def test_what_is_no_policy_is_refused() -> None:
    with pytest.raises(CheckError, match=r"int is no vestige.Policy"):
        check_policy(3)  # type: ignore[arg-type]
