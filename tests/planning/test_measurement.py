"""A policy of one's own is planned by what is measured: close to the prediction where there is one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from vestige import Mean, Policy, Window
from vestige.clock import Clock
from vestige.errors import ParameterError
from vestige.planning import draw_plan, plan
from vestige.planning.measurement import find_measured
from vestige.policies.mean import MeanEstimate
from vestige.policy import mask_arrivals
from vestige.records import Records
from vestige.types import Bools, Floats


@dataclass(frozen=True)
class Borrowed(Policy):
    """Does what `Mean` does, and says nothing about it."""

    @property
    def min_batch(self) -> int:
        return Mean().min_batch

    def update(self, clock: Clock, retained: Records, arrivals: Records, coins: int) -> Bools:
        return Mean().update(clock, retained, arrivals, coins)

    def can_encode(self, clock: Clock, rounds: object, leaving: object) -> bool:
        return Mean().can_encode(clock, rounds, leaving)  # type: ignore[arg-type]

    def answer(self, clock: Clock, retained: Records) -> MeanEstimate:
        return Mean().answer(clock, retained)


@dataclass(frozen=True)
class Stuck(Policy):
    """Keeps the newest record, and answers with a constant."""

    size: int = 1

    def update(self, clock: Clock, retained: Records, arrivals: Records, coins: int) -> Bools:  # noqa: ARG002
        return mask_arrivals(retained, arrivals.rounds == arrivals.rounds.max())

    def answer(self, clock: Clock, retained: Records) -> Floats:  # noqa: ARG002
        return np.full(self.size, 3.0)


def test_what_is_measured_is_close_to_what_is_predicted() -> None:
    found = plan(Borrowed(), error=0.05)
    ours, theirs = found.rows[0], found.row("Mean, auto")
    assert ours.retention is not None
    assert theirs.retention is not None
    assert 0.9 * theirs.retention <= ours.retention <= 1.4 * theirs.retention
    assert ours.error is not None
    assert 1.0 / np.sqrt(found.records) <= ours.error <= 0.05
    assert "Measured in 40 simulated streams" in ours.notes[0]
    assert str(found).splitlines()[2].startswith("Borrowed")
    assert [row.name for row in found.rows][-2:] == ["window", "lower bound"]
    labels = {line.get_label() for line in draw_plan(found).axes[0].lines}
    assert f"Borrowed: {ours.retention:,}" in labels


def test_a_policy_that_is_never_good_enough_says_so() -> None:
    found = plan(Stuck(), error=0.3)
    assert found.rows[0].retention is None
    assert "no retention that it can work with is enough" in found.rows[0].notes[0]
    draw_plan(found)


def test_what_cannot_be_measured_is_refused() -> None:
    with pytest.raises(ParameterError, match="Stuck answers with 2 numbers for 1 columns; a plan measures policies"):
        plan(Stuck(2), error=0.3)
    with pytest.raises(ParameterError, match=r"records=1,000,000 is above 200,000"):
        plan(Stuck(), records=1_000_000)
    with pytest.raises(ParameterError, match="cannot be predicted"):
        plan(Window(), error=0.3)


def test_a_policy_that_needs_no_more_than_its_least_batch_gets_it() -> None:
    rows = np.full((10, 1), 3.0)
    found = find_measured(Stuck(), rows, 0.5, 100)
    assert found is not None
    assert found.retention == 2
    assert found.error == pytest.approx(0.1)
