"""Policies with a planted leak each, which some attacks find and others do not."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from vestige import Policy, Private, statistics
from vestige.channels import Target
from vestige.clock import Clock
from vestige.records import Records
from vestige.types import Bools, Floats


@dataclass(frozen=True)
class LessNoise(Private):
    """85% of the noise that it promises."""

    def _find_deviation(self, steps: int) -> int:
        return int(0.85 * super()._find_deviation(steps))


@dataclass(frozen=True)
class Unclipped(Private):
    """Noise for values within the bound, and values that are cut off at a thousand times the bound."""

    @property
    def statistic(self) -> statistics.Limited:
        assert isinstance(self.bound, float)
        return statistics.Clipped(self._averages, 1_000.0 * self.bound)

    def _find_deviation(self, steps: int) -> int:
        return super()._find_deviation(steps) // 1_000


@dataclass(frozen=True)
class _Bare(Private):
    def _find_deviation(self, steps: int) -> int:  # noqa: ARG002
        return 1


@dataclass(frozen=True)
class NoisyOnce(Private):
    """Noise on the first batch only: each state alone carries it, and the change between two states does not."""

    bare: type[_Bare] = field(default=_Bare, init=False)

    def _advance(self, clock: Any, *rest: Any) -> Bools:
        bare = self.bare(self.policy, bound=self.bound, epsilon=self.epsilon, delta=self.delta)
        return Private._advance(bare if clock.encoded else self, clock, *rest)


@dataclass(frozen=True)
class _Rounded(_Bare):
    def _make_target(self, numbers: Floats, *rest: Any) -> Target:
        return super()._make_target(0.5 * np.rint(2.0 * numbers), *rest)


@dataclass(frozen=True)
class Coarse(NoisyOnce):
    """Hides records behind steps of one half, from a noisy start; only who knows the start can aim at a border."""

    bare: type[_Bare] = field(default=_Rounded, init=False)


@dataclass(frozen=True)
class Masked(Policy):
    """Keeps one round of each batch by a random bit, and another by that bit and the sign of the third record."""

    def update(self, clock: Clock, retained: Records, arrivals: Records, coins: int) -> Bools:
        rounds = np.concatenate((retained.rounds, arrivals.rounds))
        keep = ~np.concatenate((retained.leaving, arrivals.leaving)) & (rounds > clock.last)
        held = set(retained.rounds.tolist())
        values = np.concatenate((retained.values[:, 0], arrivals.values[:, 0]))
        encoded = (clock.first in held) != (clock.first + 1 in held)
        said = encoded if clock.encoded else bool(values[rounds == 3][0] > 0.0)
        mask = bool(np.random.default_rng(coins).integers(2))
        keep[rounds == clock.last + 1] &= mask
        keep[rounds == clock.last + 2] &= mask != said
        return keep

    def answer(self, clock: Clock, retained: Records) -> float:  # noqa: ARG002
        return 0.0
