"""What a channel is: a way to store a few numbers in the choice of which records of a batch are kept.

Sections 3.1 and 3.3 of Immorlica et al. (2024) store numbers as averages of the kept records; words are ours.
A channel is the only place that knows a layout. A record's slot follows from its round and the clock, never from its
position among the records that are left.
Guarantee: what is written is read back within the tolerance, or within one step of the word, or is marked as
off; held by tests/channels/test_channels.py and, for channels from outside the package, tests/test_additions.py.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from vestige.channels.layout import LONG_HEADER, MAX_BITS
from vestige.clock import Clock
from vestige.records import Records
from vestige.statistics import Statistic
from vestige.types import Bools, Floats, Ints

T = TypeVar("T", bound=np.generic)


class Reading(NamedTuple):
    """The numbers that a batch holds.

    Attributes:
        numbers: the numbers; nan where a number is lost; shape (size,).
        off: which of them are marked as farther from their target than the answer can bear; shape (size,).
        rest: what is to be added to the numbers, which a float64 cannot hold beside them; shape (size,), None if
            nothing.

    Example:
        >>> Reading(np.array([2.5]), np.array([False])).numbers
        array([2.5])
    """

    numbers: Floats
    off: Bools
    rest: Floats | None = None

    @property
    def low(self) -> Floats:
        """A copy of what is to be added to the numbers; shape (size,)."""
        return np.zeros(len(self.numbers)) if self.rest is None else self.rest.copy()


class Target(NamedTuple):
    """The numbers to write into a batch, and how near is near enough.

    Attributes:
        numbers: the numbers; shape (size,).
        near: an average within this distance of its number is near enough; shape (size,).
        far: a number that is written farther away than this must be marked as off; shape (size,).
        off: which numbers were marked as off before, and stay so; shape (size,).
        rest: what is to be added to the numbers, which a float64 cannot hold beside them; shape (size,), None if
            nothing.

    Example:
        >>> Target.exactly(np.array([2.5])).far
        array([inf])
    """

    numbers: Floats
    near: Floats
    far: Floats
    off: Bools
    rest: Floats | None = None

    @property
    def low(self) -> Floats:
        """A copy of what is to be added to the numbers; shape (size,)."""
        return np.zeros(len(self.numbers)) if self.rest is None else self.rest.copy()

    @classmethod
    def exactly(cls, numbers: Floats, off: Bools | None = None) -> Target:
        """Numbers to be written as near as the channel can.

        Args:
            numbers: shape (size,).
            off: which of them are marked as off already; default: none.

        Returns:
            a target without tolerance, for which no distance must be marked.

        Example:
            >>> Target.exactly(np.array([1.5])).near
            array([0.])
        """
        size = len(numbers)
        marked = np.zeros(size, np.bool_) if off is None else off
        return cls(numbers, np.zeros(size), np.full(size, np.inf), marked)


class Channel(ABC):
    """One way to store numbers in the choice of records; subclass it to add one.

    A batch of `length` rounds is handed over in slots: row i of `values` is the record of the i-th round, or zeros
    where there is none. A subclass defines `name`, `find_min_batch`, `read_slots`, `write` and `can_encode`; it may
    keep nothing between calls. Pass an instance to a policy, as in `Mean(channel=MyChannel())`; make it a frozen
    dataclass, so that a store can compare it.

    Attributes:
        name: its name, as in `Mean(channel="auto")` and `--channel auto`.
        is_searched: whether numbers are stored as averages that have to be searched for; how near they come is then
            known by trial only.
        has_bits: whether numbers may be stored in a word.

    Example:
        >>> from vestige import channels
        >>> from vestige.statistics import Mean
        >>> channel = channels.find_channel("bits")
        >>> values, everyone = np.zeros((64, 1)), np.ones(64, np.bool_)
        >>> target, mean = Target.exactly(np.array([2.5])), Mean(1)
        >>> keep = channel.write(values, everyone, target, mean, 1, np.uint64(1))
        >>> channel.read_slots(values, keep, mean, 1).numbers.round(9)
        array([2.5])
    """

    name: ClassVar[str]
    is_searched: ClassVar[bool] = False
    has_bits: ClassVar[bool] = True

    @abstractmethod
    def find_min_batch(self, size: int) -> int:
        """Find the smallest batch that stores so many numbers.

        Args:
            size: the number of numbers.

        Returns:
            the number of records.
        """

    def find_room(self, length: int) -> int:
        """Find how many slots of a batch store the numbers: all of them, unless something else is stored beside them.

        Args:
            length: the number of slots of the batch.

        Returns:
            the number of slots, which are its first ones.
        """
        return length

    def count_rows(self, slots: int, size: int) -> int:
        """Count the bits of a word, where numbers may be stored in one.

        Args:
            slots: the number of slots that store the numbers.
            size: the number of numbers.

        Returns:
            one for each slot, as far as they can be used.
        """
        return min(slots, LONG_HEADER + MAX_BITS * size)

    def count_bits(self, length: int, can: Bools | None, size: int) -> int:
        """Count the bits of the word of a batch that can be chosen, where numbers may be stored in one.

        Args:
            length: the number of slots of the batch.
            can: which of them hold a record that may be kept; None if all do.
            size: the number of numbers.

        Returns:
            the number of bits; 0 if numbers are never stored in a word.
        """
        if not self.has_bits:
            return 0
        rows = self.count_rows(self.find_room(length), size)
        if can is None or can.all():
            return rows
        from vestige.channels.syndrome import make_code, prepare  # noqa: PLC0415

        return int(prepare(can[: self.find_room(length)], rows, make_code(rows)))

    def read(self, retained: Records, clock: Clock, statistic: Statistic) -> Reading:
        """Read the numbers of the encoded batch, `clock.first` to `clock.last`.

        Args:
            retained: the records that are held; those of other rounds are ignored.
            clock: the public clock.
            statistic: the numbers, and what records say of them.

        Returns:
            the numbers, nan where one is lost, and which of them are marked as off.

        Example:
            >>> from vestige import Clock, Records, channels
            >>> from vestige.statistics import Mean
            >>> held = Records([1, 3], [[2.0], [4.0]])
            >>> channels.find_channel("average").read(held, Clock(8, first=1, last=8), Mean(1)).numbers
            array([3.])
        """
        values, present = lay_out_encoded(retained, clock)
        return self.read_slots(values, present, statistic, clock.first)

    @abstractmethod
    def read_slots(self, values: Floats, present: Bools, statistic: Statistic, first: int) -> Reading:
        """Read the numbers of a batch that is laid out in slots.

        Args:
            values: the values of its records; shape (length, columns).
            present: which slots hold a record; shape (length,).
            statistic: the numbers, and what records say of them.
            first: the first round of the batch.

        Returns:
            the numbers, nan where one is lost, and which of them are marked as off.
        """

    @abstractmethod
    def write(
        self, values: Floats, can: Bools, target: Target, statistic: Statistic, first: int, key: np.uint64
    ) -> Bools:
        """Choose the records of a batch that store the numbers.

        Args:
            values: the values of its records; shape (length, columns).
            can: which slots hold a record that may be kept; shape (length,).
            target: the numbers, and how near is near enough.
            statistic: what records say of the numbers.
            first: the first round of the batch.
            key: the coins of this batch.

        Returns:
            which slots to keep, all of them among `can`; shape (length,).
        """

    @abstractmethod
    def can_encode(self, can: Bools, size: int) -> bool:
        """Tell whether any numbers can be stored, or near ones that are marked as off; it is shown no values.

        Args:
            can: which slots hold a record that may be kept; shape (length,).
            size: the number of numbers.

        Returns:
            whether `write` can be relied on.
        """

    def advance(
        self,
        before: Reading | None,  # noqa: ARG002
        usual: Floats,  # noqa: ARG002
        values: Floats,  # noqa: ARG002
        present: Bools,  # noqa: ARG002
        can: Bools,  # noqa: ARG002
        first: int,  # noqa: ARG002
        encoded: int,  # noqa: ARG002
        decay: float,  # noqa: ARG002
        tolerance: float,  # noqa: ARG002
        keys: NDArray[np.uint64],  # noqa: ARG002
    ) -> Bools | None:
        """Update running averages of the values by several batches in one compiled call, where the channel has one.

        The result must be the same as that of `write` and `read_slots` in turn; a channel need not define it.

        Args:
            before: what was read before the first batch; None where nothing is encoded yet.
            usual: the root mean square distance of the records that hold it from it; shape (size,).
            values: the batches one after the other, of equal length; shape (batches * length, size).
            present: which rounds have a record; shape (batches * length,).
            can: which of the records may be kept; shape (batches * length,).
            first: the first round of the first batch.
            encoded: the number of records that `before` counts.
            decay: the share of a record's weight that is left after each record that follows.
            tolerance: how far from its target an average may be, as a share of its standard error.
            keys: the coins of each batch; shape (batches,).

        Returns:
            which slots of the last batch to keep; None where the channel has no compiled loop.
        """
        return None


def lay_out_encoded(retained: Records, clock: Clock) -> tuple[Floats, Bools]:
    """Lay out what is held of the encoded batch, `clock.first` to `clock.last`.

    Args:
        retained: the records that are held; those of other rounds are ignored.
        clock: the public clock.

    Returns:
        the values by slot, and which slots are present; shapes (length, columns) and (length,).

    Example:
        >>> from vestige import Clock, Records
        >>> lay_out_encoded(Records([1, 3], [[2.0], [4.0]]), Clock(4, first=1, last=4))[1]
        array([ True, False,  True, False])
    """
    slots, length = retained.rounds - clock.first, clock.last - clock.first + 1
    inside = (slots >= 0) & (slots < length)
    values = lay_out(slots[inside], retained.values[inside], length)
    return values, lay_out(slots[inside], np.ones(int(inside.sum()), np.bool_), length)


def lay_out(slots: Ints, rows: NDArray[T], length: int) -> NDArray[T]:
    """Lay rows out by slot, zeros where there is none, so that a missing record shifts nothing.

    Args:
        slots: the slot of each row; shape (n,).
        rows: shape (n, ...).
        length: the number of slots.

    Returns:
        the rows by slot; shape (length, ...).

    Example:
        >>> lay_out(np.array([0, 2]), np.array([5.0, 7.0]), 4)
        array([5., 0., 7., 0.])
    """
    laid_out = np.zeros((length, *rows.shape[1:]), rows.dtype)
    laid_out[slots] = rows
    return laid_out
