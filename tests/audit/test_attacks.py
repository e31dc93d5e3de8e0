"""Each attack finds a leak that the others miss, and none of them finds anything where there is nothing."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from planted import Masked
from vestige import Window
from vestige.audit import Leakage, measure_leakage
from vestige.audit.attacks import ATTACKS, list_attacks
from vestige.audit.game import Observations
from vestige.errors import MissingExtraError
from vestige.types import Bools, Floats

LOOKS = (0, 1)


def observe(answers: Floats, present: Bools | None = None) -> Observations:
    """Observations of two looks; what is not given is the same in all trials."""
    n = len(answers)
    bits = np.zeros((n, 2, 8), np.bool_) if present is None else present
    return Observations(
        answers.reshape(n, 2, -1),
        np.packbits(bits, axis=2),
        np.zeros((n, 2, 1)),
        np.empty((n, 0)),
        np.zeros((n, 2), np.bool_),
        np.zeros((n, 2), np.bool_),
        np.zeros((n, 1)),
    )


def draw(kind: str, hypothesis: int, rng: np.random.Generator, n: int = 600) -> Observations:
    """Two looks that differ between the hypotheses in one way only."""
    answers, bits = rng.normal(size=(n, 2)), rng.random((n, 2, 8)) < 0.5
    if kind == "answer":  # a mean
        return observe(answers + hypothesis, bits)
    if kind == "change":  # the difference of two numbers that are far more variable
        answers[:, 1] = answers[:, 0] + rng.normal(0.05 * hypothesis, 0.05, n)
        return observe(answers, bits)
    if kind == "presence":  # a bit
        bits[:, 0, 3] = rng.random(n) < 0.3 + 0.4 * hypothesis
        return observe(answers, bits)
    bits[:, 1, 5] = bits[:, 0, 2] ^ (hypothesis == 1) ^ (rng.random(n) < 0.1)  # the sum of two bits of two looks
    return observe(answers, bits)


def measure_power(attack: str, kind: str) -> float:
    """How often a score trained on some trials ranks two others rightly."""
    rng = np.random.default_rng(0)
    score = ATTACKS[attack](draw(kind, 0, rng), draw(kind, 1, rng), LOOKS)
    null, alternative = (score(draw(kind, hypothesis, rng)) for hypothesis in (0, 1))
    return float((null[:, None] < alternative).mean() + (null[:, None] == alternative).mean() / 2.0)


@pytest.mark.parametrize(
    ("kind", "finders"),
    [
        ("answer", {"answer", "change", "learned"}),
        ("change", {"change"}),
        ("presence", {"presence", "learned"}),
        ("sum", {"learned"}),
    ],
)
def test_each_attack_finds_what_it_is_for(kind: str, finders: set[str]) -> None:
    """600 pairs: chance is within 0.5 +- 0.06 but for one time in 10,000."""
    found = {attack: measure_power(attack, kind) for attack in ("answer", "change", "presence", "learned")}
    assert {attack for attack, power in found.items() if power > 0.66} >= finders, found
    others = {attack for attack, power in found.items() if power > 0.57}
    assert others - finders <= {"learned"}, found


def test_attacks_are_those_that_there_are_observations_for() -> None:
    one = observe(np.zeros((2, 2)))
    assert list(list_attacks(one, LOOKS)) == ["answer", "change", "presence", "learned"]
    assert list(list_attacks(one, (0,))) == ["answer", "presence", "learned"]


def audit_masked(*, learned: bool = False) -> Leakage:
    return measure_leakage(
        Masked(), retention=16, t=28, erased_at=19, trials=120, workers=1, values=(-1.0, 1.0), learned=learned
    )


def test_only_a_classifier_finds_a_bit_behind_a_mask() -> None:
    """Each round alone is kept by a fair coin, and the answer is always 0."""
    linear, learned = audit_masked(), audit_masked(learned=True)
    for one in (*linear.checkpoints, linear.joint):
        assert (one.epsilon, one.mu) == (0.0, 0.0)
    assert learned.epsilon == learned.joint.epsilon == learned.epsilon_ceiling
    assert learned.joint.feature == "learned"


def test_a_classifier_finds_nothing_in_a_window() -> None:
    found = measure_leakage(
        Window(), retention=16, t=40, trials=120, workers=1, learned=True, adversary="knows-distribution"
    )
    assert all(one.epsilon == one.mu == 0.0 for one in (*found.checkpoints, found.joint))
    assert all(one.auc == pytest.approx(0.5, abs=1e-12) for one in found.checkpoints), "the same records"


def test_without_scikit_learn_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sklearn.ensemble", None)
    with pytest.raises(MissingExtraError, match=r"learned=True needs the 'sklearn' extra"):
        audit_masked(learned=True)
