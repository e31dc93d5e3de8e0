"""Figures in which policies can be told apart, and are the same everywhere."""

from __future__ import annotations

from vestige.audit import default_policies
from vestige.figures import ALIASES, LOOKS, look
from vestige.lab.baselines import MEANS


def test_no_two_policies_look_the_same() -> None:
    assert len(set(LOOKS.values())) == len(LOOKS)
    assert look("window") == look("window", 5) != look("my own", 5)


def test_a_policy_looks_the_same_by_all_its_names() -> None:
    assert {look(name) for name in (*MEANS, *default_policies())} <= set(LOOKS.values())
    assert look("Window()") == look("window")
    assert look("paper.SimpleMean()") == look("algorithm 1")
    assert look("Mean, bits") != look("Mean, average") != look("Mean, auto") == look("Mean()")
    assert set(ALIASES.values()) <= set(LOOKS)
