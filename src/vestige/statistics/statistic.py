"""The contract of a statistic: a vector of numbers, and how a batch moves it.

Section 3.1 of Immorlica et al. (2024): a step of size eta_t on a loss whose minimum is what is wanted. For an average
the loss is |s - theta|^2 / 2, and the share of the new records in all as the step size makes it the exact one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

from vestige.types import Floats


@dataclass(frozen=True, slots=True)
class Statistic(ABC):
    """What is tracked: numbers that the records of a batch move."""

    @property
    @abstractmethod
    def size(self) -> int:
        """How many numbers are encoded."""

    @abstractmethod
    def step(self, estimate: Floats | None, values: Floats, weights: Floats, share: float) -> Floats:
        """The numbers after these records.

        Args:
            estimate: the numbers before them, or None where there are none; shape (size,).
            values: the records in the order of their rounds; shape (n, columns).
            weights: what each counts among these; shape (n,).
            share: what all of these count among all records so far; 1 where there are none before them.
        """


@dataclass(frozen=True, slots=True)
class Averages(Statistic):
    """A statistic that follows from as many plain averages: the values, or products and powers of them."""

    @abstractmethod
    def atoms(self, values: Floats) -> Floats:
        """What is averaged of each record; shape (n, size).

        Args:
            values: shape (n, columns).
        """

    @abstractmethod
    def from_averages(self, averages: Floats) -> Floats:
        """The numbers that are tracked, from the averages of the atoms, which may carry noise; shape (size,)."""
