"""Records: with the public clock the whole state of a stream, as immutable values in canonical order.

Section 2 of Immorlica et al. (2024): a state is a subset of the records that have arrived, each labelled with its
round; nothing else may be remembered.
Guarantee: order says nothing (records are sorted by round) and nothing can be changed in place; held by
tests/test_records.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from operator import methodcaller

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from vestige.errors import ParameterError
from vestige.row_numbers import drop_rows, find_rows
from vestige.times import NO_TIME, find_beyond_calendar, make_missing_times
from vestige.types import Bools, Floats, Ints

_TIME = NO_TIME.dtype
_freeze = methodcaller("setflags", False)  # by name it takes seven times as long
_EXPECTED = {
    "rounds": "a whole number from 1 up",
    "values": "numbers",
    "leaving": "a flag",
    "times": "a time from the year 1 to 9999",
    "subjects": "a text",
    "numbers": "a whole number from 0 up",
}


def _copy_frozen(array: ArrayLike, dtype: object) -> NDArray[np.generic]:
    """Copy an array and make it read-only, so that no other reference can change it."""
    own: NDArray[np.generic] = np.array(array, dtype=dtype)  # type: ignore[call-overload]
    own.flags.writeable = False
    return own


def _read_column(name: str, given: object, dtype: DTypeLike, kinds: str) -> NDArray[np.generic]:
    """Read one entry per record as an array of our own; an error names the column if it is of another kind."""
    own = None
    with suppress(Exception):  # a foreign object may raise anything
        made = np.atleast_1d(np.asarray(given, np.object_ if kinds == "OU" else None))
        if name == "times" and made.dtype.kind in "OU":
            made = np.array([_drop_zone(time) for time in made], _TIME)
        fits = (made.size == 0 or made.dtype.kind in kinds) and (made.ndim == 1 or name == "values")
        if fits and not (made.dtype.kind == "M" and find_beyond_calendar(made).any()):
            own = _copy_frozen(made, dtype)
    if own is None:
        raise ParameterError(f"{name} does not hold {_EXPECTED[name]} for each record; pass one each")
    return own


def _drop_zone(time: object) -> object:
    """Convert a time to UTC without a zone; numpy would drop the zone with only a warning."""
    return time.astimezone(UTC).replace(tzinfo=None) if isinstance(time, datetime) and time.tzinfo else time


@dataclass(frozen=True, slots=True, eq=False, init=False)
class Records:
    """A set of records, sorted by round.

    Policies are shown rounds, values and `leaving` only.

    Args:
        rounds: round in which each record arrived, counted from 1; shape (n,), all different.
        values: one row per record; shape (n, columns).
        leaving: whether the next update may learn from each record but not keep it; shape (n,).
        times: when each record arrived, or its own time, in UTC; not-a-time where unknown; shape (n,).
        subjects: who or what each record is about, or None; shape (n,).
        numbers: source and row of each record (`number_rows`), or 0; shape (n,).

    Raises:
        ParameterError: an argument does not hold one valid entry per record, or rounds repeat.

    Example:
        >>> records = Records([7, 5], [[0.7], [0.5]])
        >>> records.rounds
        array([5, 7])
        >>> len(records), records.columns
        (2, 1)
    """

    rounds: Ints
    values: Floats
    leaving: Bools
    times: NDArray[np.datetime64]
    subjects: NDArray[np.object_]
    numbers: Ints

    def __init__(
        self,
        rounds: ArrayLike,
        values: ArrayLike,
        leaving: ArrayLike | None = None,
        times: ArrayLike | None = None,
        subjects: Sequence[str | None] | NDArray[np.object_] | None = None,
        numbers: ArrayLike | None = None,
    ) -> None:
        n = len(_read_column("rounds", rounds, np.int64, "iu"))
        columns = {
            "rounds": _read_column("rounds", rounds, np.int64, "iu"),
            "values": _read_column("values", values, np.float64, "biufO"),
            "leaving": _read_column("leaving", np.zeros(n) if leaving is None else leaving, np.bool_, "biuf"),
            "times": _read_column("times", make_missing_times(n) if times is None else times, _TIME, "M"),
            "subjects": _read_column("subjects", [None] * n if subjects is None else subjects, np.object_, "OU"),
            "numbers": _read_column("numbers", np.zeros(n, np.int64) if numbers is None else numbers, np.int64, "iu"),
        }
        if columns["values"].ndim != 2:
            raise ParameterError(f"values has shape {columns['values'].shape}; needs (records, columns)")
        for name, column in columns.items():
            if len(column) != n:
                raise ParameterError(f"{name} has {len(column)} entries for {n} rounds; needs one each")
        order = np.argsort(columns["rounds"], kind="stable")
        gaps = np.diff(columns["rounds"][order])
        if n and (columns["rounds"][order[0]] < 1 or not np.all(gaps > 0)):
            raise ParameterError("rounds repeat or lie below 1; each record has a round of its own, from 1 up")
        in_order = bool(np.all(order == np.arange(n)))
        for name, column in columns.items():
            object.__setattr__(self, name, column if in_order else _copy_frozen(column[order], column.dtype))

    @classmethod
    def _wrap(
        cls,
        rounds: Ints,
        values: Floats,
        leaving: Bools,
        times: NDArray[np.datetime64],
        subjects: NDArray[np.object_],
        numbers: Ints,
    ) -> Records:
        """Wrap arrays that are known to be ours, valid and sorted by round."""
        _freeze(rounds)
        _freeze(values)
        _freeze(leaving)
        _freeze(times)
        _freeze(subjects)
        _freeze(numbers)
        records = object.__new__(cls)
        _PUT_ROUNDS(records, rounds)
        _PUT_VALUES(records, values)
        _PUT_LEAVING(records, leaving)
        _PUT_TIMES(records, times)
        _PUT_SUBJECTS(records, subjects)
        _PUT_NUMBERS(records, numbers)
        return records

    @classmethod
    def empty(cls, columns: int) -> Records:
        """Make a set of no records.

        Args:
            columns: number of values in a row.

        Returns:
            The empty set.
        """
        return cls._wrap(
            np.empty(0, np.int64),
            np.empty((0, columns)),
            np.empty(0, np.bool_),
            make_missing_times(0),
            np.empty(0, np.object_),
            np.empty(0, np.int64),
        )

    def __len__(self) -> int:
        return len(self.rounds)

    def __repr__(self) -> str:
        span = f", rounds {self.rounds.min()} to {self.rounds.max()}" if len(self) else ""
        return f"<{len(self)} records of {self.columns} columns{span}>"

    def __iter__(self) -> Iterator[None]:
        raise TypeError("Records are columns, not rows; use .rounds and .values")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Records):
            return NotImplemented
        return all(
            np.array_equal(getattr(self, name), getattr(other, name), equal_nan=name in ("times", "values"))
            for name in self.__slots__
        )

    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self) -> tuple[object, ...]:
        return Records, tuple(getattr(self, name) for name in self.__slots__)

    @property
    def columns(self) -> int:
        """Number of values in a row."""
        return int(self.values.shape[1])

    def where(self, mask: Bools | Ints | slice) -> Records:
        """Select records; they are copied, so that the others can be freed.

        Args:
            mask: a flag per record, indices or a slice.

        Returns:
            The selected records.
        """
        return Records._wrap(
            self.rounds[mask].copy(),
            self.values[mask].copy(),
            self.leaving[mask].copy(),
            self.times[mask].copy(),
            self.subjects[mask].copy(),
            self.numbers[mask].copy(),
        )

    def concat(self, later: Records) -> Records:
        """Join these records and later ones.

        Args:
            later: records whose rounds all come after.

        Returns:
            Both.
        """
        return Records._wrap(*(np.concatenate((getattr(self, name), getattr(later, name))) for name in self.__slots__))

    def with_leaving(self, leaving: Bools) -> Records:
        """Replace the leave marks.

        Args:
            leaving: one flag per record.

        Returns:
            The same records with these marks.
        """
        return Records._wrap(self.rounds, self.values, leaving.copy(), self.times, self.subjects, self.numbers)

    def with_subjects(self, subjects: Sequence[str | None]) -> Records:
        """Replace the subjects.

        Args:
            subjects: one per record, or None.

        Returns:
            The same records with these subjects.
        """
        return Records(self.rounds, self.values, self.leaving, self.times, subjects, self.numbers)

    def with_numbers(self, numbers: Ints) -> Records:
        """Return the same records with other numbers of rows.

        Args:
            numbers: one per record; see `vestige.row_numbers`.

        Returns:
            The records.
        """
        return Records._wrap(self.rounds, self.values, self.leaving, self.times, self.subjects, numbers)

    def from_source(self, slot: int) -> Records:
        """Select the records that came from a source.

        Args:
            slot: slot of the source.

        Returns:
            These records, with their rows in the source as numbers.
        """
        rows = find_rows(self.numbers, slot)
        held = self.where(rows > 0)
        return Records._wrap(held.rounds, held.values, held.leaving, held.times, held.subjects, rows[rows > 0])

    def without_numbers(self, slot: int | None = None) -> Records:
        """Forget which source records came from.

        Args:
            slot: slot of the source; default: all sources.

        Returns:
            The same records without these numbers.
        """
        numbers = np.zeros(len(self), np.int64) if slot is None else drop_rows(self.numbers, slot)
        return Records._wrap(self.rounds, self.values, self.leaving, self.times, self.subjects, numbers)

    def without_labels(self) -> Records:
        """Copy what a policy may see: rounds, values and leave marks; no times, subjects or numbers.

        Returns:
            The same records without labels.
        """
        n = len(self)
        return Records._wrap(
            self.rounds.copy(),
            self.values.copy(),
            self.leaving.copy(),
            make_missing_times(n),
            np.empty(n, np.object_),  # None each
            np.zeros(n, np.int64),
        )


_PUT_ROUNDS, _PUT_VALUES, _PUT_LEAVING, _PUT_TIMES, _PUT_SUBJECTS, _PUT_NUMBERS = (
    Records.__dict__[name].__set__ for name in Records.__slots__
)
"""Setters of the fields of new records; faster than `object.__setattr__`."""
