"""What the columns of a file hold: numbers, times, a few categories, or text; from its first rows.

Only names of columns, counts, and texts that many rows have are told, never the value of a record.
Guarantee: the columns that are called numbers, times or categories can be read as such; held by
tests/sources/test_profile.py.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Literal, cast

import numpy as np
import pyarrow as pa
from pyarrow import compute

from vestige.errors import SourceError
from vestige.policies.histogram import OTHER
from vestige.sources.categories import MIN_ROWS
from vestige.sources.columns import BOOLEANS
from vestige.sources.dialect import USUAL, Dialect
from vestige.sources.file import FileSource
from vestige.sources.sample import read_sample
from vestige.sources.timestamps import normalize_text, parse_times
from vestige.types import Floats

Kind = Literal["numbers", "times", "categories", "identifiers", "text", "nothing"]

ROWS = 100_000
"""Number of rows that are looked at."""
_MAX_CATEGORIES = 20
_COVERED = 0.9
"""Share of the rows that categories must have to be called so."""
_FLAGS = {*BOOLEANS, "yes", "no", "y", "n", "t", "f"}
_MIN_IDENTIFIERS = 20
_TIME_NAME = re.compile(
    r"(?:^|[_\W])(?:time|date|datetime|timestamp|ts|at|day|when)(?:$|[_\W])|(?:Time|Date|At)$", re.I
)
_ID_NAME = re.compile(r"(?:^|[_\W])(?:id|uuid|key|nr|no|number|code|zip|postcode|phone)$|Id$", re.IGNORECASE)
_KEY_NAME = re.compile(
    r"country|region|city|market|shop|store|site|branch|channel|tenant|department|carrier|platform", re.IGNORECASE
)
_PERSON_NAME = re.compile(
    r"mail|user|customer|client|person|subject|patient|member|account|owner|visitor|employee|(?:^|first|last|full|given|"
    r"family|sur)[_ ]?name",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class ColumnProfile:
    """What one column holds.

    Attributes:
        name: its name.
        kind: what it holds.
        missing: number of rows without a value.
        different: number of different values.
        categories: texts that many rows have, if it holds categories.
        lateness: how much older than an earlier row a row is at most, if it holds times.
    """

    name: str
    kind: Kind
    missing: int = 0
    different: int = 0
    categories: tuple[str, ...] = ()
    lateness: timedelta = timedelta(0)


@dataclass(frozen=True, slots=True)
class FileProfile:
    """What the first rows of a file hold.

    Attributes:
        rows: number of rows that were looked at.
        whole: whether these are all rows.
        columns: what each column holds.
    """

    rows: int
    whole: bool
    columns: tuple[ColumnProfile, ...]

    def find(self, kind: Kind) -> tuple[ColumnProfile, ...]:
        """Find the columns of a kind.

        Args:
            kind: what they hold.

        Returns:
            The columns, in the order of the file.
        """
        return tuple(column for column in self.columns if column.kind == kind)

    @property
    def keys(self) -> tuple[str, ...]:
        """Columns that may serve as keys: texts of which each has many rows, without answers such as yes and no.

        Those with the name of a place or of a part of a business come first, then those with the fewest texts; those
        with only one come last.
        """
        found = [
            column
            for column in self.columns
            if column.kind in ("categories", "text")
            and not _FLAGS.issuperset(text.lower() for text in column.categories or ("-",))
            and not _PERSON_NAME.search(column.name)
            and self.rows >= MIN_ROWS * column.different
        ]

        def rank(column: ColumnProfile) -> tuple[bool, bool, int]:
            return column.different == 1, _KEY_NAME.search(column.name) is None, column.different

        return tuple(column.name for column in sorted(found, key=rank))

    @property
    def subjects(self) -> tuple[str, ...]:
        """Columns that may say who a record is about: many different texts, first those with the name of a person."""
        found = [
            column.name
            for column in (*self.find("text"), *self.find("identifiers"))
            if _PERSON_NAME.search(column.name) or (column.name not in self.keys and column.different < self.rows)
        ]
        return tuple(sorted(found, key=lambda name: _PERSON_NAME.search(name) is None))


def profile_file(path: str, dialect: Dialect = USUAL) -> FileProfile:
    r"""Look at the first rows of a file.

    Args:
        path: path of a CSV, NDJSON or Parquet file.
        dialect: dialect of CSV.

    Returns:
        What its columns hold.

    Raises:
        SourceError: the file cannot be read, or has no rows.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     file = Path(folder, "visits.csv")
        ...     _ = file.write_text("at,spent,status\n" + "2024-05-31,1.5,ok\n" * 30)
        ...     [(column.name, column.kind) for column in profile_file(str(file)).columns]
        [('at', 'times'), ('spent', 'numbers'), ('status', 'categories')]
    """
    table, whole = read_sample(path, ROWS, dialect)
    if not len(table):
        raise SourceError(f"{path}: has no rows to look at; give a file with rows")
    found = [_profile(name, table.column(name).combine_chunks(), dialect) for name in table.column_names]
    numbers = [column.name for column in found if column.kind == "numbers"]
    unreadable = set(
        _find_unreadable(FileSource(path, table.column_names, keep_missing=True, dialect=dialect), numbers)
    )
    columns = [replace(column, kind="text") if column.name in unreadable else column for column in found]
    return FileProfile(len(table), whole, tuple(columns))


def _profile(name: str, values: pa.Array, dialect: Dialect) -> ColumnProfile:
    text = normalize_text(values)
    given = text.drop_null()
    if not len(given):
        return ColumnProfile(name, "nothing", len(text))
    counts = compute.value_counts(given)
    column = ColumnProfile(name, "text", len(text) - len(given), len(counts))
    if {value.as_py().lower() for value in counts.field("values")[:_MAX_CATEGORIES]} <= set(BOOLEANS):
        return replace(column, kind="categories", categories=BOOLEANS)
    if (numbers := _read_numbers(given, dialect)) is not None:
        return _profile_numbers(column, given, numbers)
    if (late := _find_lateness(given)) is not None:
        return replace(column, kind="times", lateness=late)
    categories = () if _PERSON_NAME.search(name) else _find_categories(counts, len(given))
    return replace(column, kind="categories", categories=categories) if categories else column


def _profile_numbers(column: ColumnProfile, given: pa.Array, numbers: Floats) -> ColumnProfile:
    """What a column holds whose texts are numbers: times only if its name says so."""
    if not np.isfinite(numbers).all():
        return column
    late = _find_lateness(given) if _TIME_NAME.search(column.name) else None
    if late is not None:
        return replace(column, kind="times", lateness=late)
    is_counted = column.different == len(given) >= _MIN_IDENTIFIERS and bool((numbers == np.floor(numbers)).all())
    return replace(column, kind="identifiers" if is_counted or _ID_NAME.search(column.name) else "numbers")


def _read_numbers(given: pa.Array, dialect: Dialect) -> Floats | None:
    if dialect.decimal != ".":  # a point is then not part of a number
        given = compute.replace_substring(compute.replace_substring(given, ".", "?"), dialect.decimal, ".")
    try:
        return cast(Floats, compute.cast(given, pa.float64()).to_numpy(zero_copy_only=False))
    except pa.ArrowInvalid:
        return None


def _find_lateness(given: pa.Array) -> timedelta | None:
    """How much older than an earlier row a row is at most; None if the texts are not times."""
    try:
        times = parse_times(given).astype(np.int64)
    except pa.ArrowInvalid:
        return None
    return timedelta(microseconds=int((np.maximum.accumulate(times) - times).max()))


def _find_categories(counts: pa.StructArray, rows: int) -> tuple[str, ...]:
    """The texts of many rows, if there are few of them and they have nearly all rows."""
    found = {str(entry["values"]): int(entry["counts"]) for entry in counts.to_pylist() if entry["counts"] >= MIN_ROWS}
    is_few = len(found) <= _MAX_CATEGORIES and sum(found.values()) >= _COVERED * rows
    return tuple(sorted(found.keys() - {OTHER})) if is_few else ()


def _find_unreadable(source: FileSource, names: Sequence[str]) -> Iterator[str]:
    """Find the columns that a source would not read as numbers, such as texts of digits in NDJSON."""
    try:
        if names:
            next(replace(source, columns=names).blocks(), None)
    except SourceError:
        if len(names) == 1:
            yield names[0]
            return
        for name in names:
            yield from _find_unreadable(source, [name])
