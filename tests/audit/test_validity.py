"""Whole audits of mechanisms whose trade-off is known: bounds are wrong as seldom as they say, and not far off.

Each audit trains the adversary, chooses the attack and the thresholds on the training trials, and counts others. Over
many audits, the number of wrong bounds is at most binomial with the error probability that is stated; each test allows
what is exceeded with a probability of 1e-4, for 1,000 audits at a confidence of 0.8 that is 248.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import pytest
from scipy import special, stats

from vestige import Window
from vestige.audit import approximate_trade_off, gaussian_trade_off, measure_trade_off
from vestige.audit.checkpoint import Checkpoint, measure_checkpoint
from vestige.audit.game import Game, Observations
from vestige.audit.leakage import Leakage
from vestige.errors import ParameterError
from vestige.noise import gaussian_epsilon
from vestige.types import Floats

CONFIDENCE, BITS = 0.8, 32
RATES = special.ndtr(np.linspace(-5.0, 5.0, 20_001))
"""Rates of false positives at which a curve is compared with definitions."""
Draw = Callable[[np.random.Generator, int, int], Floats]
"""A function that draws what a mechanism says under a hypothesis; shape (n, looks)."""


@dataclass(frozen=True)
class Mechanism:
    """What is said under each hypothesis, and the smallest rate of false negatives at each rate of false positives."""

    draw: Draw
    curve: Callable[[float], float]
    delta: float = 0.0

    @property
    def truth(self) -> dict[str, float]:
        """The largest values that any bound may have, by the definitions."""
        missed = np.array([self.curve(rate) for rate in RATES.tolist()])
        ratios = [((1.0 - self.delta - missed) / RATES), (1.0 - self.delta - RATES) / np.maximum(missed, 1e-300)]
        return {
            "epsilon": max(0.0, *(float(np.log(np.maximum(ratio, 1e-300)).max()) for ratio in ratios)),
            "mu": float((-special.ndtri(missed) - special.ndtri(RATES))[(missed > 1e-6) & (missed < 1.0 - 1e-6)].max()),
            "total_variation": float((1.0 - missed - RATES).max()),
        }


def laplace_curve(rate: float) -> float:
    """Noise of scale 1 around 0 or 1 (Dong, Roth, Su 2022, Proposition A.6)."""
    if rate < math.exp(-1.0) / 2.0:
        return 1.0 - math.e * rate
    return math.exp(-1.0) / (4.0 * rate) if rate <= 0.5 else math.exp(-1.0) * (1.0 - rate)


def draw_subsampled(rng: np.random.Generator, hypothesis: int, n: int) -> Floats:
    """With a chance of 0.3 the record is in the sample, which moves the sum by two deviations."""
    return (rng.normal(size=n) + 2.0 * hypothesis * (rng.random(n) < 0.3))[:, None]


TRUTH = 1.0 / (1.0 + math.exp(-1.0))
MECHANISMS = {
    "gaussian": Mechanism(
        lambda rng, hypothesis, n: rng.normal(hypothesis, 1.0, (n, 1)), lambda rate: gaussian_trade_off(rate, 1.0), 1e-2
    ),
    "laplace": Mechanism(lambda rng, hypothesis, n: rng.laplace(hypothesis, 1.0, (n, 1)), laplace_curve),
    "randomised response": Mechanism(
        lambda rng, hypothesis, n: (hypothesis ^ (rng.random((n, 1)) > TRUTH)).astype(float),
        lambda rate: approximate_trade_off(rate, 1.0, 0.0),
    ),
    "subsampled": Mechanism(
        draw_subsampled, lambda rate: 0.7 * (1.0 - rate) + 0.3 * gaussian_trade_off(rate, 2.0), 1e-2
    ),
    "nothing": Mechanism(lambda rng, _, n: rng.normal(size=(n, 1)), lambda rate: 1.0 - rate),
    "three looks": Mechanism(
        lambda rng, hypothesis, n: rng.normal(0.6 * hypothesis, 1.0, (n, 3)),
        lambda rate: gaussian_trade_off(rate, 0.6 * math.sqrt(3.0)),
        1e-2,
    ),
}


def observe(mechanism: Mechanism, rng: np.random.Generator, hypothesis: int, n: int, *, learned: bool) -> Observations:
    """Trials in which the answers are what the mechanism says, and all else is the same under both hypotheses."""
    answers = mechanism.draw(rng, hypothesis, n)[:, :, None]
    looks = answers.shape[1]
    return Observations(
        answers,
        rng.integers(256, size=(n, looks, BITS // 8), dtype=np.uint8),
        rng.normal(size=(n, looks, 4 if learned else 0)),
        np.empty((n, 0)),
        np.zeros((n, looks), np.bool_),
        np.zeros((n, looks), np.bool_),
        rng.normal(size=(n, 1)),
    )


def audit(
    mechanism: Mechanism, seed: int, trials: int = 200, *, learned: bool = False, cheats: bool = False
) -> Checkpoint:
    """One audit: as many trials train as count; with `cheats`, the same ones."""
    rng = np.random.default_rng([seed, 7])
    drawn = [
        observe(mechanism, rng, hypothesis, trials if cheats else 2 * trials, learned=learned) for hypothesis in (0, 1)
    ]
    null, alternative = (Observations.concatenate([one, one]) for one in drawn) if cheats else drawn
    looks = tuple(range(null.answers.shape[1]))
    game = Game(Window(), 8, 1, looks, None, lambda rng, n: rng.normal(size=(n, 1)), 0)
    rest = null.select(slice(20))
    return measure_checkpoint(game, (null, alternative), rest, looks, trials, CONFIDENCE, mechanism.delta)


def count_wrong(mechanism: Mechanism, found: list[Checkpoint]) -> dict[str, int]:
    """How many of each kind of bound exceed the truth, and how many bands refute the true curve."""
    wrong = {name: sum(getattr(one, name) > limit + 1e-9 for one in found) for name, limit in mechanism.truth.items()}
    return wrong | {"band": sum(one.trade_off.refutes(mechanism.curve) for one in found)}


def limit(audits: int) -> int:
    return int(stats.binom.ppf(1.0 - 1e-4, audits, 1.0 - CONFIDENCE))


def check(name: str, audits: int, *, learned: bool) -> None:
    mechanism = MECHANISMS[name]
    found = [audit(mechanism, seed, learned=learned) for seed in range(audits)]
    wrong = count_wrong(mechanism, found)
    print(f"{name}, learned {learned}: {wrong} of {audits}, at most {limit(audits)}; truth {mechanism.truth}")
    assert max(wrong.values()) <= limit(audits), wrong


@pytest.mark.parametrize("name", MECHANISMS)
def test_bounds_are_wrong_as_seldom_as_they_say(name: str) -> None:
    check(name, 100, learned=False)


@pytest.mark.slow(15)
@pytest.mark.parametrize("learned", [False, True])
@pytest.mark.parametrize("name", MECHANISMS)
def test_bounds_are_wrong_as_seldom_as_they_say_in_many_audits(name: str, learned: bool) -> None:
    check(name, 200 if learned else 1_000, learned=learned)


def test_learned_bounds_are_wrong_as_seldom_as_they_say() -> None:
    check("nothing", 25, learned=True)


def test_a_verdict_on_all_checkpoints_is_wrong_as_seldom_as_it_says() -> None:
    """Nothing is revealed at any of six looks; without the correction, the verdict would be wrong more often."""
    audits, wrong, uncorrected = 100, 0, 0
    for seed in range(audits):
        seen = [audit(MECHANISMS["nothing"], 1_000 * seed + i) for i in range(6)]
        found = Leakage(tuple(seen[:5]), seen[5], 4.0, "knows-all", 200, CONFIDENCE, 0.0, overdue=False)
        wrong += found.reveals
        uncorrected += any(one.epsilon or one.mu for one in seen)
    assert wrong <= limit(audits)
    assert wrong < uncorrected


@pytest.mark.parametrize("learned", [False, True])
def test_bounds_on_the_training_trials_would_be_wrong_more_often(learned: bool) -> None:
    """The tests above can fail."""
    audits = 30 if learned else 60
    found = [audit(MECHANISMS["nothing"], seed, learned=learned, cheats=True) for seed in range(audits)]
    wrong = count_wrong(MECHANISMS["nothing"], found)
    assert min(wrong["mu"], wrong["total_variation"]) > limit(audits), wrong


def test_a_band_at_a_threshold_chosen_afterwards_would_be_wrong_more_often() -> None:
    """Without the union over thresholds: the best of fifteen intervals at the full error probability."""
    wrong = 0
    for seed in range(300):
        null, alternative = np.random.default_rng(seed).normal(size=(2, 200))
        thresholds = np.linspace(-1.5, 1.5, 15)
        best = [measure_trade_off(null, alternative, np.array([one]), confidence=0.2) for one in thresholds]
        wrong += any(one.refutes(lambda rate: 1.0 - rate) for one in best)
    assert wrong > stats.binom.ppf(1.0 - 1e-4, 300, 0.2)


@pytest.mark.parametrize("name", MECHANISMS)
def test_bounds_are_not_far_off(name: str) -> None:
    """With 20,000 trials that count, the distance is within a tenth; mu too, where it is largest at that threshold."""
    mechanism = MECHANISMS[name]
    found, truth = audit(mechanism, 0, 20_000), mechanism.truth
    assert name == "subsampled" or found.mu >= 0.9 * truth["mu"] - 0.01, (found.mu, truth)
    assert found.total_variation >= 0.9 * truth["total_variation"] - 0.01
    weaker = replace(mechanism, curve=lambda rate: min(1.0 - rate, mechanism.curve(rate) + 0.1))
    assert found.trade_off.refutes(weaker.curve) == (name != "nothing")


def test_an_answer_that_is_withheld_says_something_too() -> None:
    """Randomised response that says yes by not answering."""

    def withhold(rng: np.random.Generator, hypothesis: int, n: int) -> Floats:
        return np.where((hypothesis ^ (rng.random((n, 1)) > TRUTH)).astype(bool), np.nan, rng.normal(size=(n, 1)))

    silent = replace(MECHANISMS["randomised response"], draw=withhold)
    found, truth = audit(silent, 0, 20_000), silent.truth
    for name, limit in truth.items():
        assert 0.9 * limit < getattr(found, name) <= limit + 1e-9, name


def test_the_truth_is_that_of_the_closed_forms() -> None:
    gaussian, laplace, response = (MECHANISMS[name].truth for name in ("gaussian", "laplace", "randomised response"))
    assert gaussian["epsilon"] == pytest.approx(gaussian_epsilon(1.0, 1e-2), abs=1e-4)
    assert gaussian["mu"] == pytest.approx(1.0, abs=1e-6)
    assert laplace["epsilon"] == pytest.approx(1.0, abs=1e-6)
    assert laplace["total_variation"] == pytest.approx(1.0 - math.exp(-0.5), abs=1e-4)
    assert response["epsilon"] == pytest.approx(1.0, abs=1e-6)
    assert response["mu"] == pytest.approx(2.0 * special.ndtri(TRUTH), abs=1e-3)


def test_a_score_that_is_not_a_number_is_decided_alike_under_both_hypotheses() -> None:
    unknown = np.full(100, np.nan)
    found = measure_trade_off(unknown, unknown, np.array([0.5]))
    assert [interval.observed for interval in found.points[0]] == [0.0, 1.0]
    assert not found.refutes(lambda rate: 1.0 - rate)


def test_curves_meet_their_definitions() -> None:
    """The trade-off of a Gaussian touches that of each (epsilon, delta) on its own profile, and never goes below."""
    for epsilon in (0.5, 1.0, 3.0):
        delta = stats.norm.cdf(0.5 - epsilon) - math.exp(epsilon) * stats.norm.cdf(-0.5 - epsilon)
        gaps = [gaussian_trade_off(x, 1.0) - approximate_trade_off(x, epsilon, delta) for x in RATES.tolist()]
        assert min(gaps) == pytest.approx(0.0, abs=1e-6)
    assert gaussian_trade_off(0.0, 1.0) == 1.0
    assert gaussian_trade_off(1.0, 1.0) == 0.0
    assert approximate_trade_off(0.0, 1_000.0, 0.0) == 1.0


def test_bad_parameters_are_refused() -> None:
    with pytest.raises(ParameterError, match=r"rate=1\.5 is out of range"):
        gaussian_trade_off(1.5, 1.0)
    with pytest.raises(ParameterError, match=r"mu=-1\.0 is out of range"):
        gaussian_trade_off(0.5, -1.0)
    with pytest.raises(ParameterError, match="lists of at least one number"):
        measure_trade_off(np.empty(0), np.ones(2), np.ones(1))
