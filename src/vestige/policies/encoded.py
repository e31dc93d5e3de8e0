"""A statistic written through a channel: the shape of every policy here but the window.

Section 3 of Immorlica et al. (2024), with two changes: the whole batch is learned from and kept from, which makes
the estimate the exact running average up to what the channel rounds off; and channels beside the plain average.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from vestige import channels, statistics
from vestige.policy import Answer, Policy, count_waiting, keep_of_arrivals, lost
from vestige.records import Clock, Records
from vestige.types import Bools, Floats, Ints
from vestige.validation import check_float

_OFF = (
    "What is kept has missed its target and may be off by more than its standard error: at least once no choice of the "
    "records that could be kept came near enough."
)
_WORD = (1 << 64) - 1
MOST_COLUMNS = 1_000_000
"""A record has no more values."""
MOST_PRODUCTS = 2_000
"""Nor where the products of each pair of them are kept: two million numbers."""


def check_half_life(half_life: float | None) -> None:
    """An error unless it is none or positive."""
    if half_life is not None:
        check_float("half_life", half_life, lambda n: 0.0 < n < np.inf, "a number of records above 0, or None")


def largest_for(power: int) -> float:
    """How large values may be, so that the `power`-th power of a difference of two is finite."""
    return float(10.0 ** (300 // power))


class Encoded(Policy):
    """A statistic written through a channel."""

    half_life: float | None = None
    """After so many records, a record counts half as much; None lets all count alike."""

    @property
    @abstractmethod
    def statistic(self) -> statistics.Statistic:
        """What is tracked."""

    @property
    @abstractmethod
    def written(self) -> channels.Channel:
        """How it is written."""

    @abstractmethod
    def conclude(self, estimate: Floats, worth: float, rounding: float) -> float | Floats | Answer:
        """The answer, from the encoded numbers.

        Args:
            estimate: what the statistic tracks; shape (size,).
            worth: how many equally weighed records it rests on.
            rounding: about how far each number may be off by the way it is written, relative to it.
        """

    @property
    def min_batch(self) -> int:
        """The smallest batch: what the channel needs, for each encoded number."""
        return self.written.min_batch * self.statistic.size

    @property
    def min_early_batch(self) -> int:
        """As many as presence bits need: among so many, averages come near enough too."""
        return channels.named("bits").min_batch * self.statistic.size

    @property
    def default_retention(self) -> int:
        """Where nobody says: 64 records of a batch for each encoded number, which keeps about 14 digits."""
        return 128 * self.statistic.size

    @property
    def decay(self) -> float:
        """What is left of a record's weight after each record that follows."""
        return 1.0 if self.half_life is None else float(2.0 ** (-1.0 / self.half_life))

    def can_encode(self, clock: Clock, rounds: Ints, leaving: Bools) -> bool:
        """Whether the records that can be kept say any numbers, or near ones and that they are off."""
        return self._can_write(channels.in_slots(rounds - clock.last - 1, ~leaving, clock.pending))

    @abstractmethod
    def _can_write(self, can: Bools) -> bool:
        """Whether records of a batch of which these can be kept say whatever the statistic comes to."""

    def update(self, clock: Clock, retained: Records, arrivals: Records, coins: int) -> Bools:
        """Read the estimate, move it by the arrivals, and keep those of them that say the result."""
        if not self.can_encode(clock, arrivals.rounds, arrivals.leaving):
            return np.zeros(len(retained) + len(arrivals), np.bool_)
        slots, length = arrivals.rounds - clock.last - 1, clock.pending
        keep = self._advance(
            clock,
            retained,
            channels.in_slots(slots, arrivals.values, length),
            channels.in_slots(slots, np.ones(len(slots), np.bool_), length),
            channels.in_slots(slots, ~arrivals.leaving, length),
            self._keys(coins),
        )
        return keep_of_arrivals(retained, keep[slots])

    def _keys(self, coins: int) -> NDArray[np.uint64]:
        """The coins of one update as `_advance` takes them."""
        return np.array([coins], np.uint64)

    def update_many(self, clock: Clock, retained: Records, values: Floats, keys: NDArray[np.uint64]) -> Bools:
        """The records of the last batch to keep: those before it have been replaced."""
        everyone = np.empty(len(values), np.bool_)
        everyone.fill(True)  # in less than half of the time of `np.ones`
        return self._advance(clock, retained, values, everyone, everyone, keys)

    def answer(self, clock: Clock, retained: Records) -> float | Floats | Answer:
        """The statistic of all records that count: the encoded ones, moved by those that arrived since."""
        tracked = self._tracked(clock, retained)
        return self.conclude(tracked, self._worth(clock, retained), self._rounding(clock, retained))

    def _tracked(self, clock: Clock, retained: Records) -> Floats:
        """What the statistic tracks, over all records that count."""
        from vestige.statistics.kernels import share_of, weights_of  # noqa: PLC0415

        estimate = self._estimate(clock, retained) if clock.encoded else None
        fresh = retained.rounds > clock.last
        if fresh.any():
            by_round = np.argsort(retained.rounds[fresh], kind="stable")
            n = len(by_round)
            weights, share = weights_of(np.ones(n, np.bool_), self.decay), share_of(n, clock.encoded + n, self.decay)
            estimate = self.statistic.step(estimate, retained.values[fresh][by_round], weights, share)
        assert estimate is not None  # noqa: S101  # the runtime asks only where records are held
        return estimate

    @abstractmethod
    def _advance(
        self, clock: Clock, retained: Records, values: Floats, present: Bools, can: Bools, keys: NDArray[np.uint64]
    ) -> Bools:
        """The records of the last of several batches to keep, an update after the other.

        Args:
            clock: as before the first of them.
            retained: as before the first of them.
            values: the batches, one after the other, each as long; shape (batches * length, columns).
            present: which rounds have a record.
            can: which of the records may be kept.
            keys: the coins of each batch.
        """

    @abstractmethod
    def _read(self, clock: Clock, retained: Records) -> Floats:
        """What the kept records of the encoded batch say; nan where that is lost."""

    def _estimate(self, clock: Clock, retained: Records) -> Floats:
        estimate = self._read(clock, retained)
        if np.isnan(estimate).any():
            raise lost(clock)
        return estimate

    def _worth(self, clock: Clock, retained: Records) -> float:
        """How many equally weighed records the answer rests on."""
        from vestige.statistics.kernels import worth_of  # noqa: PLC0415

        return float(worth_of(clock.encoded + count_waiting(clock, retained), self.decay))

    def _rounding(self, clock: Clock, retained: Records) -> float:
        """About how far a number may be off, relative to it, by all the rounding to presence bits so far."""
        from vestige.statistics.kernels import share_of  # noqa: PLC0415

        waiting = count_waiting(clock, retained)
        carried = 1.0 - share_of(waiting, clock.encoded + waiting, self.decay)
        return max(float(np.finfo(np.float64).eps), clock.rounding * carried)


class Averaged(Encoded):
    """Running averages of the values themselves, by any channel: batches go through one kernel."""

    tolerance: float = 0.03
    """How far from its target an average may be, as a share of its standard error."""

    def answer(self, clock: Clock, retained: Records) -> float | Floats | Answer:
        """The statistic of all records that count, and whether what is kept is known to be off."""
        made = super().answer(clock, retained)
        if not clock.encoded or not self.written.read(*_columns(retained), clock.first, clock.last)[1].any():
            return made
        said = made if isinstance(made, Answer) else Answer(made)
        return replace(said, notes=(*said.notes, _OFF), missed=True)

    def rewrite(self, clock: Clock, retained: Records, coins: int) -> tuple[int, Bools] | None:
        """Choose again among all that is left, kept or waiting: the more there are, the nearer is their average.

        Whether that can be done is decided by the rounds and marks of what is left, never by values.
        """
        from vestige.channels.kernels import TELLING, write_batch  # noqa: PLC0415
        from vestige.random.kernels import uniform  # noqa: PLC0415
        from vestige.statistics.kernels import bearable, deviation_about  # noqa: PLC0415
        from vestige.subset.workspace import make_workspace  # noqa: PLC0415

        slots, length = retained.rounds - clock.first, clock.t - clock.first + 1
        can = channels.in_slots(slots, ~retained.leaving, length)
        if not self._can_write(can):
            return None
        target, off = self._tracked(clock, retained), np.zeros(self.statistic.size, np.bool_)
        if clock.encoded:
            off = self.written.read(*_columns(retained), clock.first, clock.last)[1]
        share = min(1.0, length / (clock.encoded + count_waiting(clock, retained)))
        key, everyone = np.uint64(coins & _WORD), np.ones(len(slots))
        far = np.empty(len(target))
        for i, number in enumerate(target):
            about = deviation_about(number, retained.values[:, i], everyone > 0.0, everyone)
            far[i] = bearable(about, length, share, number, uniform(key + np.uint64(i), TELLING))
        keep = np.zeros(length, np.bool_)
        write_batch(
            channels.in_slots(slots, retained.values, length),
            can,
            target,
            np.zeros(len(target)),
            far,
            off,
            key,
            self.written.mode,
            make_workspace(length),
            keep,
        )
        return clock.t, keep[slots]

    def _can_write(self, can: Bools) -> bool:
        return self.written.can_write(can, self.statistic.size)

    def _advance(
        self, clock: Clock, retained: Records, values: Floats, present: Bools, can: Bools, keys: NDArray[np.uint64]
    ) -> Bools:
        from vestige.advance import advance  # noqa: PLC0415

        keep = np.zeros(len(values) // len(keys), np.bool_)
        known = advance(
            values,
            present,
            can,
            retained.rounds,
            retained.values,
            clock.first,
            clock.last,
            clock.encoded,
            self.decay,
            self.tolerance,
            keys,
            self.written.mode,
            keep,
        )
        if not known:
            raise lost(clock)
        return keep

    def _read(self, clock: Clock, retained: Records) -> Floats:
        return self.written.read(*_columns(retained), clock.first, clock.last)[0]


def _columns(records: Records) -> tuple[Ints, Floats]:
    return records.rounds, records.values


class Spelled(Encoded):
    """Numbers of any kind, always in presence bits: no plain average of records could be told from them."""

    def rewrite(self, clock: Clock, retained: Records, coins: int) -> tuple[int, Bools] | None:  # noqa: ARG002
        """Drop what is leaving, if the others still say the same: where a batch is long, each bit has several records.

        Whether they do is read off rounds, never off values.
        """
        left = retained.where(~retained.leaving)
        same = clock.encoded and np.array_equal(self._read(clock, retained), self._read(clock, left))
        return (clock.last, ~retained.leaving) if same else None

    @property
    def words(self) -> int:
        """One for each number."""
        return self.statistic.size

    @property
    def written(self) -> channels.Channel:
        """Presence bits."""
        return channels.named("bits")

    def _advance(
        self, clock: Clock, retained: Records, values: Floats, present: Bools, can: Bools, keys: NDArray[np.uint64]
    ) -> Bools:
        from vestige.channels.kernels import spell_batch  # noqa: PLC0415
        from vestige.statistics.kernels import share_of, weights_of  # noqa: PLC0415

        length, encoded = len(values) // len(keys), clock.encoded
        spelled, keep = np.empty(self.statistic.size), np.empty(length, np.bool_)
        estimate = self._estimate(clock, retained) if clock.encoded else None
        for k, key in enumerate(keys):
            here = slice(k * length, (k + 1) * length)
            there = present[here]
            count = int(there.sum())
            encoded += count
            weights, share = weights_of(there, self.decay)[there], share_of(count, encoded, self.decay)
            target = self.statistic.step(estimate, values[here][there], weights, share)
            spell_batch(can[here], target, key, keep, spelled)
            estimate = spelled
        return keep

    def _can_write(self, can: Bools) -> bool:
        from vestige.channels.kernels import can_spell  # noqa: PLC0415

        return bool(can_spell(can, self.statistic.size))

    def _read(self, clock: Clock, retained: Records) -> Floats:
        from vestige.channels.kernels import read_spelled  # noqa: PLC0415

        return read_spelled(retained.rounds, clock.first, clock.last - clock.first + 1, self.statistic.size)
