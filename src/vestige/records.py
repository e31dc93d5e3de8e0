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
from vestige.types import Bools, Floats, Ints

LARGEST_ROW, LARGEST_SLOT = 2**48 - 1, 2**15 - 1
"""A record's number holds the slot of its source in 15 bits and its row in 48."""
_ROW_BITS = 48
NO_TIME = np.datetime64("NaT", "us")
_TIME = np.dtype("datetime64[us]")
_freeze = methodcaller("setflags", False)  # by name it takes seven times as long
_FIRST_YEAR, _LAST_YEAR = 1 - 1970, 9999 - 1970
_EXPECTED = {
    "rounds": "a whole number from 1 up",
    "values": "numbers",
    "leaving": "a flag",
    "times": "a time from the year 1 to 9999",
    "subjects": "a text",
    "numbers": "a whole number from 0 up",
}


def number_rows(rows: Ints, slot: int) -> Ints:
    """The numbers of records that are these rows of the source in `slot`; 0 each where that is 0.

    >>> numbers = number_rows(np.array([7, 8]), 2)
    >>> find_rows(numbers, 2), find_rows(numbers, 1)
    (array([7, 8]), array([0, 0]))
    """
    return rows | (slot << _ROW_BITS) if slot else np.zeros_like(rows)


def find_rows(numbers: Ints, slot: int) -> Ints:
    """Of records with these numbers their rows in the source in `slot`; 0 for those of another source."""
    return np.where((numbers >> _ROW_BITS == slot) & (slot > 0), numbers & LARGEST_ROW, 0)


def drop_rows(numbers: Ints, slot: int) -> Ints:
    """The same numbers, 0 for those of rows of the source in `slot`."""
    return np.where(numbers >> _ROW_BITS == slot, 0, numbers)


def no_times(n: int) -> NDArray[np.datetime64]:
    """The times of n records that have none; like `np.full`, in less than half of its time."""
    made = np.empty(n, _TIME)
    made.fill(NO_TIME)
    return made


def _frozen(array: ArrayLike, dtype: object) -> NDArray[np.generic]:
    """A read-only array of our own, so that nobody else's reference can change it."""
    own: NDArray[np.generic] = np.array(array, dtype=dtype)  # type: ignore[call-overload]
    own.flags.writeable = False
    return own


def _column(name: str, given: object, dtype: DTypeLike, kinds: str) -> NDArray[np.generic]:
    """What was given for each record, as an array of our own; an error that names it if it is of another kind."""
    own = None
    with suppress(TypeError, ValueError, OverflowError):
        made = np.atleast_1d(np.asarray(given, np.object_ if kinds == "OU" else None))
        if name == "times" and made.dtype.kind in "OU":
            made = np.array([_without_zone(time) for time in made], _TIME)
        if (made.size == 0 or made.dtype.kind in kinds) and (made.ndim == 1 or name == "values") and _in_years(made):
            own = _frozen(made, dtype)
    if own is None:
        raise ParameterError(f"{name} does not hold {_EXPECTED[name]} for each record; pass one each")
    return own


def _without_zone(time: object) -> object:
    """The same moment in UTC, as numpy has it, which drops a zone with a warning only."""
    return time.astimezone(UTC).replace(tzinfo=None) if isinstance(time, datetime) and time.tzinfo else time


def _in_years(times: NDArray[np.generic]) -> bool:
    """Whether times lie in the years that a calendar has; beyond them numpy overflows without a word."""
    if times.dtype.kind != "M":
        return True
    years = times.astype("datetime64[Y]").view(np.int64)
    return not (~np.isnat(times) & ((years < _FIRST_YEAR) | (years > _LAST_YEAR))).any()


@dataclass(frozen=True, slots=True, eq=False, init=False)
class Records:
    """A set of records, sorted by round.

    Args:
        rounds: the round in which each arrived, counted from 1; shape (n,), all different.
        values: one row each; shape (n, columns).
        leaving: whether each may still be learned from but not be kept by the next update; shape (n,).
        times: when each arrived or says it did, in UTC, not-a-time where unknown; shape (n,).
        subjects: whom each is about, or None; shape (n,).
        numbers: which source each came from, and which of its rows it is (`number_rows`), or 0; shape (n,).

    Policies are shown rounds, values and `leaving` only.

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
        n = len(_column("rounds", rounds, np.int64, "iu"))
        columns = {
            "rounds": _column("rounds", rounds, np.int64, "iu"),
            "values": _column("values", values, np.float64, "biufO"),
            "leaving": _column("leaving", np.zeros(n) if leaving is None else leaving, np.bool_, "biuf"),
            "times": _column("times", no_times(n) if times is None else times, _TIME, "M"),
            "subjects": _column("subjects", [None] * n if subjects is None else subjects, np.object_, "OU"),
            "numbers": _column("numbers", np.zeros(n, np.int64) if numbers is None else numbers, np.int64, "iu"),
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
            object.__setattr__(self, name, column if in_order else _frozen(column[order], column.dtype))

    @classmethod
    def _trusted(
        cls,
        rounds: Ints,
        values: Floats,
        leaving: Bools,
        times: NDArray[np.datetime64],
        subjects: NDArray[np.object_],
        numbers: Ints,
    ) -> Records:
        """Wrap arrays that are known to be ours, checked and in the order wanted."""
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
    def none(cls, columns: int) -> Records:
        """No records, of rows with `columns` values."""
        return cls._trusted(
            np.empty(0, np.int64),
            np.empty((0, columns)),
            np.empty(0, np.bool_),
            no_times(0),
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
            np.array_equal(getattr(self, name), getattr(other, name), equal_nan=name == "times")
            for name in self.__slots__
        )

    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self) -> tuple[object, ...]:
        return Records, tuple(getattr(self, name) for name in self.__slots__)

    @property
    def columns(self) -> int:
        """How many values a row has."""
        return int(self.values.shape[1])

    def where(self, mask: Bools | Ints | slice) -> Records:
        """The records that `mask` selects, copied, so that the others can be freed."""
        return Records._trusted(
            self.rounds[mask].copy(),
            self.values[mask].copy(),
            self.leaving[mask].copy(),
            self.times[mask].copy(),
            self.subjects[mask].copy(),
            self.numbers[mask].copy(),
        )

    def followed_by(self, later: Records) -> Records:
        """These records and `later` ones, whose rounds all come after."""
        return Records._trusted(
            *(np.concatenate((getattr(self, name), getattr(later, name))) for name in self.__slots__)
        )

    def with_leaving(self, leaving: Bools) -> Records:
        """The same records with other leave marks."""
        return Records._trusted(self.rounds, self.values, leaving.copy(), self.times, self.subjects, self.numbers)

    def with_subjects(self, subjects: Sequence[str | None]) -> Records:
        """The same records about others."""
        return Records(self.rounds, self.values, self.leaving, self.times, subjects, self.numbers)

    def of_source(self, slot: int) -> Records:
        """Those that are rows of the source in `slot`, with their rows as numbers."""
        rows = find_rows(self.numbers, slot)
        held = self.where(rows > 0)
        return Records._trusted(held.rounds, held.values, held.leaving, held.times, held.subjects, rows[rows > 0])

    def without_numbers(self, slot: int | None = None) -> Records:
        """The same records as those of no source; only those of the source in `slot`, if it is given."""
        numbers = np.zeros(len(self), np.int64) if slot is None else drop_rows(self.numbers, slot)
        return Records._trusted(self.rounds, self.values, self.leaving, self.times, self.subjects, numbers)

    def shown(self) -> Records:
        """A copy of what a policy may see: rounds, values and leave marks; no times, subjects or numbers."""
        n = len(self)
        return Records._trusted(
            self.rounds.copy(),
            self.values.copy(),
            self.leaving.copy(),
            no_times(n),
            np.empty(n, np.object_),  # None each
            np.zeros(n, np.int64),
        )


_PUT_ROUNDS, _PUT_VALUES, _PUT_LEAVING, _PUT_TIMES, _PUT_SUBJECTS, _PUT_NUMBERS = (
    Records.__dict__[name].__set__ for name in Records.__slots__
)
"""What fills the fields of new records, and is faster than `object.__setattr__`."""
