"""The policies that users reach for: a statistic written through a channel, and the window as the baseline.

Section 3 of Immorlica et al. (2024), with two changes: the whole batch is learned from and kept from, which makes
the estimate the exact running average up to what the channel rounds off; and channels beside the plain average.
Guarantee: `Mean` within 5% of the all-data error on five distributions; held by tests/test_policies_mean.py.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from vestige import channels, statistics
from vestige.errors import NoRecordsError, whole_number
from vestige.policy import Policy, keep_of_arrivals
from vestige.records import Bools, Clock, Floats, Ints, Records


class Encoded(Policy):
    """A statistic written through a channel: the shape of every policy here but the window."""

    @property
    @abstractmethod
    def statistic(self) -> statistics.RunningAverage:
        """What is tracked."""

    @property
    @abstractmethod
    def written(self) -> channels.Channel:
        """How it is written."""

    @property
    def minimum(self) -> int:
        """The smallest batch: what the channel needs, for each encoded average."""
        return self.written.minimum * self.statistic.size

    def carries(self, clock: Clock, rounds: Ints, leaving: Bools) -> bool:
        """Whether each encoded average finds a record that can be kept."""
        can = channels.in_slots(rounds - clock.last - 1, ~leaving, clock.pending)
        return self.written.writable(can, self.statistic.size)

    def update(self, clock: Clock, retained: Records, arrivals: Records, coins: int) -> Bools:
        """Read the estimate, move it by the arrivals, and keep those of them that say the result."""
        if not self.carries(clock, arrivals.rounds, arrivals.leaving):
            return np.zeros(len(retained) + len(arrivals), np.bool_)
        slots, length = arrivals.rounds - clock.last - 1, clock.pending
        keep = self._advance(
            clock,
            retained,
            channels.in_slots(slots, arrivals.values, length),
            channels.in_slots(slots, np.ones(len(slots), np.bool_), length),
            channels.in_slots(slots, ~arrivals.leaving, length),
            np.array([coins], np.uint64),
        )
        return keep_of_arrivals(retained, keep[slots])

    def update_many(self, clock: Clock, retained: Records, values: Floats, keys: NDArray[np.uint64]) -> Bools:
        """The records of the last of several whole batches to keep, after an update for each.

        Args:
            clock: as before the first of them.
            retained: as before the first of them.
            values: their rows, all of which may be kept; shape (batches * length, columns).
            keys: the coins of each update; shape (batches,).
        """
        everyone = np.ones(len(values), np.bool_)
        return self._advance(clock, retained, values, everyone, everyone, keys)

    def answer(self, clock: Clock, retained: Records) -> float | Floats:
        """The statistic of all records that count: the encoded ones, moved by those that arrived since."""
        averages = self._estimate(clock, retained)
        fresh = retained.rounds > clock.last
        if fresh.any():
            by_round = np.argsort(retained.rounds[fresh], kind="stable")
            atoms = self.statistic.atoms(retained.values[fresh][by_round])
            averages = self.statistic.step(averages, atoms, clock.weight)
        return self.statistic.answer(averages)

    def _advance(
        self,
        clock: Clock,
        retained: Records,
        values: Floats,
        present: Bools,
        can: Bools,
        keys: NDArray[np.uint64],
    ) -> Bools:
        from vestige.advance import advance  # noqa: PLC0415

        atoms, kept = self.statistic.atoms(values), self.statistic.atoms(retained.values)
        first, last, encoded = clock.first, clock.last, clock.encoded
        keep = advance(atoms, present, can, retained.rounds, kept, first, last, encoded, keys, self.written.mode)
        if not len(keep):
            raise _lost(clock)
        return keep

    def _estimate(self, clock: Clock, retained: Records) -> Floats:
        """What the kept records of the encoded batch say; nan while nothing is encoded."""
        statistic = self.statistic
        if not clock.encoded:
            return np.full(statistic.size, np.nan)
        estimate = self.written.read(retained.rounds, statistic.atoms(retained.values), clock.first, clock.last)
        if np.isnan(estimate).any():
            raise _lost(clock)
        return estimate


def _lost(clock: Clock) -> NoRecordsError:
    return NoRecordsError(
        f"records of the batch {clock.first} to {clock.last} are missing, so what it encoded is lost; "
        "restart with all records that the stream retained, or start a new stream"
    )


@dataclass(frozen=True)
class Mean(Encoded):
    """The mean of every record that ever arrived, out of a window of them.

    Args:
        dim: values per record.
        channel: how it is stored. `average`: the kept records' plain average is the mean. `bits`: which rounds are
            present spells it. `auto`: an average where that is near enough, bits where not.

    >>> from vestige import Stream
    >>> stream = Stream(Mean(), retention=96, seed=0)
    >>> stream.extend(range(1, 10_001))
    >>> estimate = stream.estimate()
    >>> round(estimate.value, 6), estimate.t, estimate.oldest_age < 96
    (5000.5, 10000, True)
    """

    dim: int = 1
    channel: str = "auto"

    def __post_init__(self) -> None:
        whole_number("dim", self.dim, 1)
        channels.named(self.channel)

    @property
    def columns(self) -> int:
        """As many as dimensions."""
        return self.dim

    @property
    def statistic(self) -> statistics.Mean:
        """The mean."""
        return statistics.Mean(self.dim)

    @property
    def written(self) -> channels.Channel:
        """The channel by its name."""
        return channels.named(self.channel)


@dataclass(frozen=True)
class Window(Policy):
    """The baseline: keep every record as long as is allowed, and answer from those.

    Args:
        policy: whose statistic to compute; the mean unless said.

    >>> from vestige import Stream
    >>> stream = Stream(Window(), retention=96)
    >>> stream.extend(range(1, 10_001))
    >>> stream.estimate().value
    9952.5
    """

    policy: Encoded = field(default_factory=Mean)

    @property
    def columns(self) -> int:
        """As many as the statistic takes."""
        return self.policy.columns

    def update(self, clock: Clock, retained: Records, arrivals: Records, coins: int) -> Bools:  # noqa: ARG002
        """Keep all that may be kept."""
        return ~np.concatenate((retained.leaving, arrivals.leaving))

    def answer(self, clock: Clock, retained: Records) -> float | Floats:  # noqa: ARG002
        """The statistic of the retained records alone."""
        by_round = np.argsort(retained.rounds, kind="stable")
        atoms = self.policy.statistic.atoms(retained.values[by_round])
        return self.policy.statistic.answer(atoms.mean(axis=0))
