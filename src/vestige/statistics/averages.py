"""Running averages: after every batch the target is the average of all atoms so far.

Section 3.1 of Immorlica et al. (2024): a gradient step with step size 1/t on |s - theta|^2 / 2 is the running mean.
Taking all of the batch for the step, and its share in all records as the step size, makes it the exact one.
Guarantee: the steps compose to numpy's mean over every prefix; held by tests/test_statistics.py.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from vestige.records import Floats


@dataclass(frozen=True, slots=True)
class RunningAverage(ABC):
    """A statistic that is a function of plain averages of atoms."""

    @property
    @abstractmethod
    def size(self) -> int:
        """How many averages are encoded."""

    @abstractmethod
    def atoms(self, values: Floats) -> Floats:
        """What is averaged, from rows of shape (n, columns) to (n, size)."""

    @abstractmethod
    def answer(self, averages: Floats) -> float | Floats:
        """The statistic, from its averages."""

    def step(self, estimate: Floats, atoms: Floats, weight: float) -> Floats:
        """The averages after these atoms, whose share in all atoms so far is `weight`."""
        from vestige.statistics.kernels import move  # noqa: PLC0415

        target, spread = np.empty(self.size), np.empty(self.size)
        move(estimate, atoms, np.ones(len(atoms), np.bool_), weight, target, spread)
        return target


@dataclass(frozen=True, slots=True)
class Mean(RunningAverage):
    """The mean of rows of `dim` values."""

    dim: int

    @property
    def size(self) -> int:
        """One average per column."""
        return self.dim

    def atoms(self, values: Floats) -> Floats:
        """The values themselves."""
        return values

    def answer(self, averages: Floats) -> float | Floats:
        """A float in one dimension, else an array."""
        return float(averages[0]) if self.dim == 1 else averages
