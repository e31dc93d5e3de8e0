"""A policy: two pure functions that say which records to keep, and what the kept ones say.

Section 2 of Immorlica et al. (2024), "Adaptive Subsampling": A_upd and A_out. `update` returns a mask, so a policy
cannot make records up; both see nothing but the clock and records, so it cannot remember.
Guarantee: `vestige.checks.check_policy` catches one that does.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar, Generic

import numpy as np
from numpy.typing import NDArray

from vestige.clock import Clock
from vestige.errors import NoRecordsError
from vestige.estimate import E_co
from vestige.records import Records
from vestige.types import Bools, Floats, Ints


class Policy(ABC, Generic[E_co]):
    """What to subclass for a policy of your own; make it a frozen dataclass.

    Attributes:
        every_round: whether `update` is called at every round (a streaming policy) or once per batch.
        together: whether kept records speak only together, so that all is lost if one of them goes before the next
            update; the stream then rewrites or starts over where it has to erase one. A window sets it to False.
        secret: whether nobody may be able to guess its coins, as where they make noise; then they have 256 bits, and a
            stream refuses a seed.

    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True)
    ... class KeepNewest(Policy):
    ...     def update(self, clock, retained, arrivals, coins):
    ...         newest = np.concatenate((retained.rounds, arrivals.rounds)) == clock.t
    ...         return newest & ~np.concatenate((retained.leaving, arrivals.leaving))
    ...     def answer(self, clock, retained):
    ...         return float(retained.values.mean())
    """

    every_round: ClassVar[bool] = False
    all_or_nothing: ClassVar[bool] = True
    requires_secret_coins: ClassVar[bool] = False

    @property
    def columns(self) -> int:
        """How many values a record has."""
        return 1

    @property
    def min_batch(self) -> int:
        """The smallest batch that it can work with."""
        return 1

    @property
    def min_early_batch(self) -> int:
        """How many records a batch must have that is closed early, for a deadline or a request."""
        return self.min_batch

    @property
    def max_batch(self) -> int | None:
        """The largest batch that it can work with, if there is one."""
        return None

    @property
    def decay(self) -> float:
        """What is left of a record's weight after each record that follows; 1 if all count alike."""
        return 1.0

    @property
    def words(self) -> int:
        """How many numbers it spells in nothing but presence bits; by them the stream tells `clock.rounding`."""
        return 0

    @property
    def max_magnitude(self) -> float:
        """The largest magnitude of a value that it can take."""
        return 1e300

    def check_rows(self, rows: Floats) -> None:
        """Raise a DataError where a row of shape (n, columns) cannot be taken; say where it is, never what it holds."""

    @abstractmethod
    def update(self, clock: Clock, retained: Records, arrivals: Records, coins: int) -> Bools:
        """Which records to keep: a mask over `retained`, then `arrivals`.

        Args:
            clock: `clock.t` counts the arrivals; `clock.first` .. `clock.last` is still the batch before them.
            retained: what was held; what is due has been erased.
            arrivals: the records since `clock.last`.
            coins: a 64-bit key (256 where `secret`), fresh for this round; the only randomness allowed.

        Records marked `leaving` may be learned from but not be kept.
        """

    def update_many(self, clock: Clock, retained: Records, values: Floats, keys: NDArray[np.uint64]) -> Bools:
        """Which records to keep after an update for each of several whole batches; to be defined where that is faster.

        A stream uses it in place of `update` if it comes from the same class, or from one that is derived from that.

        Args:
            clock: as before the first of them.
            retained: as before the first of them.
            values: their rows, none of which is leaving; shape (batches * length, columns).
            keys: the coins of each update; shape (batches,), or (batches, 4) where `secret`.

        Returns:
            a mask over the newest of `retained` and the rows; what is older than its first entry is not kept. The
            stream erases what is due by the end.
        """
        raise NotImplementedError

    def can_encode(self, clock: Clock, rounds: Ints, leaving: Bools) -> bool:  # noqa: ARG002
        """Whether what is known can be carried on in arrivals of these rounds, of which some are leaving.

        If not, the statistic starts anew and the clock says so; hence this may not depend on values, and is shown none.
        """
        return not leaving.all()

    def rewrite(self, clock: Clock, retained: Records, coins: int) -> tuple[int, Bools] | None:  # noqa: ARG002
        """How to say the same at once without the records that are leaving; None if it cannot be done.

        Returns:
            the last round of the batch that is encoded then, either `clock.last` or `clock.t`, whatever the values are;
            and which of the records to keep, all of those after that round among them that are not leaving.
        """
        return None

    @abstractmethod
    def answer(self, clock: Clock, retained: Records) -> float | Floats | E_co:
        """What the retained records say; those after `clock.last` have arrived since the last update."""


def split(clock: Clock, retained: Records) -> tuple[Records, Records]:
    """The records of the encoded batch, and those that arrived after it."""
    encoded = (clock.first <= retained.rounds) & (retained.rounds <= clock.last)
    return retained.where(encoded), retained.where(retained.rounds > clock.last)


def count_waiting(clock: Clock, retained: Records) -> int:
    """How many records are held that arrived after the encoded batch."""
    return int((retained.rounds > clock.last).sum())


def keep_of_arrivals(retained: Records, keep: Bools) -> Bools:
    """The mask that keeps nothing of `retained` and `keep` of the arrivals."""
    return np.concatenate((np.zeros(len(retained), np.bool_), keep))


def lost(clock: Clock) -> NoRecordsError:
    """The error where the records that carry the answer are not all there."""
    return NoRecordsError(
        f"records of the batch {clock.first} to {clock.last} are missing, so what it encoded is lost; "
        "restart with all records that the stream retained, or start a new stream"
    )
