"""Words that a statistic packs itself are read back, also where records cannot be kept, or say that they are off."""

from __future__ import annotations

import numpy as np
import pytest

from vestige import CustomLoss, LogisticRegression
from vestige.channels import Packed, Target
from vestige.policies import Encoded
from vestige.statistics import Descent
from vestige.types import Floats

RNG = np.random.default_rng


def square(parameters: Floats, rows: Floats) -> tuple[Floats, Floats]:
    gap = parameters - rows
    return (gap**2).sum(axis=1) / 2.0, gap


POLICIES = {
    "two classes": LogisticRegression(2),
    "three classes": LogisticRegression(2, classes=3),
    "eleven predictors": LogisticRegression(11),
    "custom": CustomLoss(square, (0.0, 5.0), columns=2),
}


def rows_for(policy: Encoded, rng: np.random.Generator, n: int, centre: float) -> Floats:
    rows = centre + rng.normal(size=(n, policy.columns))
    if isinstance(policy, LogisticRegression):
        rows[:, -1] = rng.integers(0, policy.classes, n)
    return rows


@pytest.mark.parametrize("wet", [0, 3, 12])
@pytest.mark.parametrize("centre", [0.0, 1e6])
@pytest.mark.parametrize("name", list(POLICIES))
def test_what_is_written_is_read(name: str, centre: float, wet: int) -> None:
    policy = POLICIES[name]
    statistic, channel = policy.statistic, policy.encoding
    assert isinstance(statistic, Descent)
    assert isinstance(channel, Packed)
    for seed in range(5):
        rng = RNG(seed)
        rows = rows_for(policy, rng, policy.default_retention // 2, centre)
        can = np.ones(len(rows), np.bool_)
        can[rng.choice(len(rows), wet, replace=False)] = False
        numbers = statistic.step(None, rows, np.ones(len(rows)), 1.0)
        keep = channel.write(rows, can, Target.exactly(numbers), statistic, 1, np.uint64(seed))
        assert not (keep & ~can).any()
        read = channel.read_slots(rows, keep, statistic, 1)
        assert not read.off.any()
        was, now = statistic.read_state(numbers), statistic.read_state(read.numbers)
        assert (was.centres == now.centres).all()
        assert (was.centres != 0.0).all() == (centre > 0.0) or name == "custom"
        units = np.sqrt(was.bend.diagonal())
        assert np.abs((was.parameters - now.parameters) * units).max() <= 2e-3
        assert np.abs(np.log2(now.bend.diagonal()) - np.log2(was.bend.diagonal())).max() <= 1.0 / 8.0
        assert np.abs(was.tests - now.tests).max() <= 1.0 / 4.0


def test_rounding_is_as_large_as_it_is_said_to_be_and_right_on_average() -> None:
    policy = LogisticRegression(2)
    statistic, channel = policy.statistic, policy.encoding
    rows = rows_for(policy, RNG(0), 144, 0.0)
    can = np.ones(len(rows), np.bool_)
    numbers = statistic.step(None, rows, np.ones(len(rows)), 1.0)
    units = np.sqrt(statistic.read_state(numbers).bend.diagonal())
    read = np.array(
        [
            channel.read_slots(
                rows,
                channel.write(rows, can, Target.exactly(numbers), statistic, 1, np.uint64(key)),
                statistic,
                1,
            ).numbers
            for key in range(400)
        ]
    )
    errors = (read[:, :3] - numbers[:3]) * units
    said = statistic.find_rounding(numbers, len(rows))
    assert 0.2 * said <= np.sqrt((errors**2).mean()) <= 1.5 * said
    assert np.abs(errors.mean(axis=0)).max() <= 4.0 * 1.5 * said / np.sqrt(len(errors))
    apart = read[:, 3:9] - numbers[3:9]
    assert np.abs(apart.mean(axis=0)).max() <= 4.0 * apart.std(axis=0).max() / np.sqrt(len(apart)) + 1e-12


def test_too_few_records_are_refused_and_too_few_bits_are_marked() -> None:
    policy = LogisticRegression(2)
    channel, statistic = policy.encoding, policy.statistic
    least = policy.min_early_batch
    assert not channel.can_encode(np.ones(least - 1, np.bool_), statistic.size)
    assert channel.can_encode(np.ones(least, np.bool_), statistic.size)
    wet = np.ones(200, np.bool_)
    wet[:150] = False
    assert not channel.can_encode(wet, statistic.size)
    rows = rows_for(policy, RNG(1), least, 0.0)
    numbers = statistic.step(None, rows, np.ones(least), 1.0)
    numbers[:3] *= 1e9
    keep = channel.write(rows, np.ones(least, np.bool_), Target.exactly(numbers), statistic, 1, np.uint64(1))
    assert channel.read_slots(rows, keep, statistic, 1).off.all()
    assert np.isnan(channel.read_slots(rows, np.zeros(least, np.bool_), statistic, 1).numbers).all()
