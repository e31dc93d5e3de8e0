"""Pending records: those since the last update wait in arrays that are reused, and wiped when the batch is closed.

The second half of Proposition 2.1 of Immorlica et al. (2024): between updates records are appended.
Guarantee: nothing of a record that was not taken stays in memory; held by tests/stream/test_failures.py.
"""

from __future__ import annotations

import numpy as np

from vestige.records import Records
from vestige.stream.arrivals import Arrivals
from vestige.times import NO_TIME
from vestige.types import Bools


class Pending:
    """The records since the last update, in arrays that are reused and wiped.

    Args:
        size: number of records that fit.
        columns: number of values in each.
        quick: whether single values are written to it one by one.

    Attributes:
        size: number of rounds since the last update.
        values: one row per round; shape (capacity, columns).
        single: the first column as a buffer, where rows have one value and `quick` is set; fast to write to.
        leaving: whether each record was requested to be removed; shape (capacity,).
        gone: whether each record was erased while it waited; shape (capacity,).
        times: not-a-time where unknown; shape (capacity,).
        subjects: None where unknown; shape (capacity,).
        numbers: source and row of each record, or 0; shape (capacity,).
    """

    def __init__(self, size: int, columns: int, *, quick: bool) -> None:
        self.size = 0
        self._quick = quick and columns == 1
        self._has_labels = self._has_leaving = self._has_gaps = False
        self.values = np.zeros((size, columns))
        self.single = self.values[:, 0].data if self._quick else None  # written to twice as fast as an array
        self.leaving = np.zeros(size, np.bool_)
        self.gone = np.zeros(size, np.bool_)
        self.times = np.full(size, NO_TIME)
        self.subjects = np.full(size, None)
        self.numbers = np.zeros(size, np.int64)

    def __getstate__(self) -> dict[str, object]:
        return {name: value for name, value in vars(self).items() if name != "single"}

    def __setstate__(self, state: dict[str, object]) -> None:
        vars(self).update(state)
        self.single = self.values[:, 0].data if self._quick else None

    def append(self, new: Arrivals) -> None:
        """Add records.

        Args:
            new: no more than fit.
        """
        here = slice(self.size, self.size + len(new))
        self.size = here.stop  # first, so that undoing this wipes whatever was written
        self._has_labels |= not (new.times is None and new.subjects is None and new.numbers is None)
        self.values[here] = new.rows
        if new.times is not None:
            self.times[here] = new.times
        if new.subjects is not None:
            self.subjects[here] = new.subjects
        if new.numbers is not None:
            self.numbers[here] = new.numbers

    def to_arrivals(self) -> Arrivals:
        """View the records as rows.

        Returns:
            Views of the arrays, not a copy.
        """
        here = slice(0, self.size)
        if not self._has_labels:
            return Arrivals(self.values[here])
        return Arrivals(self.values[here], self.times[here], self.subjects[here], self.numbers[here])

    def label_next(self, time: np.datetime64, subject: str | None) -> None:
        """Label the next record.

        Args:
            time: when it arrived.
            subject: who or what it is about.
        """
        self._has_labels = True
        self.times[self.size], self.subjects[self.size] = time, subject

    def to_records(self, after: int) -> Records:
        """Copy the records that are left.

        Args:
            after: the round of the last update.

        Returns:
            Records of the rounds after it.
        """
        here = slice(0, self.size)
        rounds = np.arange(after + 1, after + 1 + self.size)
        records = Records._wrap(
            rounds,
            self.values[here].copy(),
            self.leaving[here].copy(),
            self.times[here].copy(),
            self.subjects[here].copy(),
            self.numbers[here].copy(),
        )
        return records.where(~self.gone[here]) if self._has_gaps else records

    def replace(self, records: Records, after: int, size: int) -> None:
        """Put other records in place of all that wait.

        Args:
            records: of rounds after the last update.
            after: the round of the last update.
            size: number of rounds since; those without a record are gaps.
        """
        self.clear()
        here = records.rounds - after - 1
        self.values[here], self.leaving[here] = records.values, records.leaving
        self.times[here], self.subjects[here], self.numbers[here] = records.times, records.subjects, records.numbers
        self.gone[:size] = True
        self.gone[here] = False
        self.size, self._has_labels = size, size > 0
        self._has_leaving, self._has_gaps = bool(records.leaving.any()), len(records) < size

    @property
    def is_whole(self) -> bool:
        """Whether no record is leaving or gone."""
        return not (self._has_leaving or self._has_gaps)

    def mark(self, leaving: Bools) -> None:
        """Mark records as leaving, besides those that are already.

        Args:
            leaving: one flag per round since the last update.
        """
        self.leaving[: self.size] |= leaving & ~self.gone[: self.size]
        self._has_leaving = bool(self.leaving[: self.size].any())

    def cut(self, size: int) -> None:
        """Forget and overwrite the newest records.

        Args:
            size: number of records that stay.
        """
        self._wipe(slice(size, self.size))
        self.size = size

    def wipe_next(self) -> None:
        """Overwrite whatever was written of a record that was not taken in the end."""
        self._wipe(slice(self.size, self.size + 1))

    def clear(self) -> None:
        """Forget and overwrite all records."""
        self._wipe(slice(0, self.size))
        self.size = 0
        self._has_labels = self._has_leaving = self._has_gaps = False

    def _wipe(self, here: slice) -> None:
        self.values[here] = 0.0
        if self._has_leaving:
            self.leaving[here] = False
        if self._has_gaps:
            self.gone[here] = False
        if self._has_labels:
            self.times[here] = NO_TIME
            self.subjects[here] = None
            self.numbers[here] = 0
