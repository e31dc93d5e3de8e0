"""The game: a window shows nothing, a planted leak shows all, and the audit is reproducible."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from vestige import Bundle, Mean, Policy, Window
from vestige.audit import Leakage, measure_leakage
from vestige.clock import Clock
from vestige.errors import ParameterError
from vestige.records import Records
from vestige.types import Bools


def audit(policy: Policy, **options: Any) -> Leakage:
    given: dict[str, Any] = {"retention": 64, "t": 64 + 32 * 8, "trials": 150, "workers": 1} | options
    return measure_leakage(policy, **given)


@pytest.mark.parametrize("adversary", ["knows-all", "knows-distribution"])
def test_a_window_reveals_nothing_at_any_age(adversary: str) -> None:
    found = audit(Window(), adversary=adversary, retention=16, t=16 + 8 * 30)
    for checkpoint in found.checkpoints:
        assert checkpoint.epsilon == checkpoint.mu == checkpoint.total_variation == 0.0
        assert checkpoint.auc == pytest.approx(0.5, abs=1e-12), "the same records under both hypotheses"
        assert checkpoint.same_state == 1.0
        assert checkpoint.reconstruction > 0.9


def test_presence_bits_reach_the_ceiling() -> None:
    found = audit(Mean(channel="bits"), retention=96, t=96 + 48 * 12)
    for checkpoint in found.checkpoints:
        assert checkpoint.epsilon > 0.98 * found.epsilon_ceiling
        assert checkpoint.auc > 0.999
        assert checkpoint.true_positive_rate > 0.99
    assert found.checkpoints[0].reconstruction < 0.85, "it is still retained in half of the trials, which show nothing"
    for checkpoint in found.checkpoints[1:]:
        assert checkpoint.reconstruction < 1e-5, "the erased value, to a hundred-thousandth of its spread"


@pytest.mark.slow(25)
@pytest.mark.parametrize(("retention", "bits"), [(96, 46), (128, 48)])
def test_presence_bits_reveal_as_much_a_thousand_batches_later(retention: int, bits: int) -> None:
    """A word of 48 records keeps 46 bits of a residue, one of 64 keeps 48, at each of a thousand batches.

    Each writing is off by up to half a step, a third of their squares adds up, and a record moves the mean by 1 / t.
    """
    batch = retention // 2
    found = audit(Mean(channel="bits"), retention=retention, t=retention + 1 + 1_000 * batch, trials=50)
    ages = {checkpoint.age // batch: checkpoint for checkpoint in found.checkpoints}
    step = 2.0 * 4.0 * math.sqrt(2.0 / batch) * 2.0**-bits  # at most, as the scale is rounded to a power of two
    for batches in (10, 1_000):
        assert ages[batches].epsilon > 0.98 * found.epsilon_ceiling
        assert ages[batches].reconstruction < step * math.sqrt((batches + 2) / 12.0) * ages[batches].t
    print(
        f"ceiling {found.epsilon_ceiling:.3f}",
        {k: (checkpoint.epsilon, checkpoint.reconstruction) for k, checkpoint in ages.items()},
    )


def test_averages_reveal_it_too_and_less_to_an_adversary_who_knows_less() -> None:
    known = audit(Mean(channel="average"))
    assert known.epsilon == known.epsilon_ceiling
    drawn = audit(Mean(channel="average"), adversary="knows-distribution")
    assert drawn.checkpoints[0].auc > 0.6
    assert drawn.epsilon < 1.0


@dataclass(frozen=True)
class Whisper(Policy):
    """Keeps what an honest window keeps, but drops one round for ever where the third record was above zero."""

    def update(self, clock: Clock, retained: Records, arrivals: Records, coins: int) -> Bools:  # noqa: ARG002
        everything = np.concatenate((retained.rounds, arrivals.rounds))
        leaving = np.concatenate((retained.leaving, arrivals.leaving))
        values = np.concatenate((retained.values[:, 0], arrivals.values[:, 0]))
        before = retained.rounds[(retained.rounds >= clock.first) & (retained.rounds <= clock.last)]
        said = clock.first not in before if clock.encoded else bool(values[everything == 3][0] > 0.0)
        keep = ~leaving & (everything > clock.last)
        keep[everything == clock.last + 1] &= not said
        return keep

    def answer(self, clock: Clock, retained: Records) -> float:  # noqa: ARG002
        return 0.0


def test_a_planted_leak_is_found_by_the_pattern_of_presence() -> None:
    found = audit(Whisper(), retention=16, t=200, erased_at=19, values=(-1.0, 1.0))
    first, *later = found.checkpoints
    assert (first.age, first.retained, first.epsilon) == (-11, 1.0, 0.0), "while it is held, nothing is shown"
    assert {checkpoint.feature for checkpoint in later} == {"presence"}
    assert all(checkpoint.epsilon == found.epsilon_ceiling for checkpoint in later)


@pytest.mark.slow
def test_results_do_not_depend_on_the_number_of_processes() -> None:
    one = audit(Mean(), t=130, trials=60, adversary="knows-distribution")
    two = audit(Mean(), t=130, trials=60, adversary="knows-distribution", workers=2)
    assert one == two
    assert one != audit(Mean(), t=130, trials=60, adversary="knows-distribution", seed=1)


def test_checkpoints_come_at_growing_ages_and_progress_is_reported() -> None:
    told: list[float] = []
    found = audit(Window(), t=64 + 32 * 11, progress=told.append)
    assert [checkpoint.age for checkpoint in found.checkpoints] == [-33, 0, 32, 96, 320, 351]
    assert told[-1] == 1.0
    assert told == sorted(told)
    assert (found.trials, found.confidence, found.delta) == (150, 0.95, 0.0)


def test_custom_data() -> None:
    rows = np.random.default_rng(0).exponential(size=500)
    by_array = audit(Mean(channel="bits"), data=rows, t=200)
    by_function = audit(Mean(channel="bits"), data=lambda rng, n: rng.exponential(size=n), t=200)
    assert by_array.epsilon > 0.98 * by_array.epsilon_ceiling
    assert by_function.epsilon > 0.98 * by_function.epsilon_ceiling


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"t": 60}, "t=60 is before erased_at=65, when the record is erased; use t >= 65"),
        ({"erased_at": 10}, "erased_at=10 is out of range; use a whole number, 65 or more"),
        ({"adversary": "nobody"}, "adversary='nobody' is unknown; use one of knows-all, knows-distribution"),
        ({"trials": 5}, "trials=5 is out of range; use a whole number, 20 or more"),
        ({"data": []}, "data holds no records"),
    ],
)
def test_bad_parameters_are_refused(options: dict[str, Any], text: str) -> None:
    with pytest.raises(ParameterError, match=text):
        audit(Mean(), **options)


def test_missing_values_hide_nothing() -> None:
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(2_000, 2))
    rows[rng.random(rows.shape) < 0.1] = np.nan
    policy = Bundle({"a": Mean(), "b": Mean()})
    found = measure_leakage(
        policy, retention=2 * policy.min_batch, t=4 * policy.min_batch, trials=20, data=rows, workers=1
    )
    assert found.epsilon == found.epsilon_ceiling
    assert found.reconstruction < 0.01


@pytest.mark.parametrize("arguments", [{"values": (1.0, 1.0)}, {"data": np.ones((50, 1))}])
def test_hypotheses_that_are_the_same_record_are_refused(arguments: dict[str, Any]) -> None:
    with pytest.raises(ParameterError, match=r"two .*that differ"):
        measure_leakage(Mean(), retention=96, t=200, trials=20, workers=1, **arguments)
