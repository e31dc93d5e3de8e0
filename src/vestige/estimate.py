"""What a stream answers: the statistic, and how many records it counts.

A policy answers with an estimate, of which `value`, `notes` and `missed` are its own; the stream fills in the rest.
Each statistic has a subclass with fields of its own, such as `standard_error`, which completion and type checkers know.
Every estimate goes into other programs as a dictionary for JSON, as one row for each number, and as a data frame.
Guarantee: `mypy --strict` knows the type of each stream's estimate, and whatever an estimate holds is valid JSON; held
by tests/test_typed.py and tests/test_estimate.py.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from vestige.errors import MissingExtraError, ParameterError
from vestige.markup import make_table
from vestige.types import Floats
from vestige.whole_numbers import to_plain

if TYPE_CHECKING:
    import pandas as pd
    from typing_extensions import TypeVar
else:
    from typing import TypeVar

_ACCURACY = ("standard_error", "lower", "upper")
_UNTOLD = ("policy", "basis")
"""What only `vestige.combine` reads."""
_SHOWN = 20
"""The number of rows of an estimate that a notebook shows."""


@dataclass(frozen=True, eq=False)
class Estimate:
    """What the retained records say, and how many records that counts.

    Attributes:
        value: the statistic; a float in one dimension, otherwise an array.
        notes: what to know about the answer, in sentences.
        missed: whether the answer may be further off than its standard error says: what is kept has missed its target,
            or rounding matters.
        t: the number of records that have arrived.
        as_of: the round up to which the answer counts records: `t`, but with `Private` that of the last update.
        since: the round from which the statistic counts; above 1 where it has started over.
        counted: the number of records that the statistic counts.
        held: the number of records that are retained.
        oldest_age: the number of rounds since the oldest of them arrived.
        column_names: the names of the columns of a record; empty where they are not known.
        labels: the name of each number of `value`; empty where they are not known.
        policy: the policy that answered; None where no stream asked it.
        basis: what the policy needs to combine the estimate with others, such as the numbers that it tracks or the
            state of a sketch; None if it needs nothing. Neither this nor the policy is in `to_dict` or in rows.
        errors: the fields that are standard errors, each with the field that it is the error of.

    Example:
        >>> Estimate(1.5, notes=("Only an example.",)).value
        1.5
    """

    errors: ClassVar[Mapping[str, str]] = {"standard_error": "value"}

    value: float | Floats
    notes: tuple[str, ...] = field(default=(), kw_only=True)
    missed: bool = field(default=False, kw_only=True)
    t: int = field(default=0, kw_only=True)
    as_of: int = field(default=0, kw_only=True)
    since: int = field(default=1, kw_only=True)
    counted: int = field(default=0, kw_only=True)
    held: int = field(default=0, kw_only=True)
    oldest_age: int = field(default=0, kw_only=True)
    column_names: tuple[str, ...] = field(default=(), kw_only=True)
    labels: tuple[str, ...] = field(default=(), kw_only=True)
    policy: object = field(default=None, repr=False, kw_only=True)
    basis: object = field(default=None, repr=False, kw_only=True)

    def to_dict(self) -> dict[str, Any]:
        """Convert the estimate to plain data, as for JSON.

        Returns:
            A dictionary with a key for each attribute but `policy` and `basis`: numbers, texts, flags, None, or lists
            of these. Arrays become lists of their rows, bytes hexadecimal digits, whole numbers beyond 2^53 the text
            of their digits; a number that is not finite becomes None. Only a bundle has dictionaries in it: its answers
            by metric.

        Example:
            >>> Estimate(np.array([1.5, np.nan]), t=2).to_dict()["value"]
            [1.5, None]
        """
        return {each.name: _to_plain(getattr(self, each.name)) for each in fields(self) if each.name not in _UNTOLD}

    def list_numbers(self) -> Iterator[dict[str, Any]]:
        """List the numbers of the answer, by default those of `value`.

        Yields:
            The metric, which is the label of the number, its value, and what is known of standard_error, lower and
            upper. By default these are the fields of that name, if they have the shape of `value`. Numbers without a
            label are counted from 1.

        Example:
            >>> list(Estimate(1.5, labels=("delay",)).list_numbers())
            [{'metric': 'delay', 'value': 1.5}]
        """
        values, shape = np.ravel(self.value).tolist(), np.shape(self.value)
        labels = self.labels if len(self.labels) >= len(values) else tuple(str(i + 1) for i in range(len(values)))
        known = {"metric": labels, "value": values}
        for name in _ACCURACY:
            numbers = getattr(self, name, None)
            if numbers is not None and np.shape(numbers) == shape:
                known[name] = np.ravel(numbers).tolist()
        yield from (dict(zip(known, row, strict=True)) for row in zip(*known.values(), strict=False))

    def to_rows(self) -> list[dict[str, Any]]:
        """Convert the estimate to one flat row for each number, as for a table or a database.

        Returns:
            Rows with the keys metric, value, standard_error, lower, upper, since, counted, held, t,
            as_of, missed and notes.
            A sketch has bounds, `lower` and `upper`, in place of a standard error; a total has both. A number that is
            not known or not finite is None; the notes are one text, or None if there are none.

        Example:
            >>> Estimate(1.5, t=2, labels=("delay",)).to_rows()[0]["metric"]
            'delay'
        """
        shared = {
            "since": self.since,
            "counted": self.counted,
            "held": self.held,
            "t": self.t,
            "as_of": self.as_of,
            "missed": bool(self.missed),
            "notes": " ".join(self.notes) or None,
        }
        blank = dict.fromkeys(("metric", "value", *_ACCURACY))
        return [{**blank, **_to_plain(number), **shared} for number in self.list_numbers()]

    def to_pandas(self) -> pd.DataFrame:
        """Convert the estimate to a data frame with one row for each number.

        Returns:
            A frame with the columns of `to_rows`.

        Raises:
            MissingExtraError: pandas is not installed.

        Example:
            >>> Estimate(1.5, t=2, labels=("delay",)).to_pandas()["value"].tolist()
            [1.5]
        """
        try:
            import pandas as pd  # noqa: PLC0415
        except ModuleNotFoundError:
            raise MissingExtraError("to_pandas", "pandas") from None
        frame = pd.DataFrame(self.to_rows())
        return frame.astype({"metric": str, "value": float, "notes": object} | dict.fromkeys(_ACCURACY, float))

    def _repr_html_(self) -> str:
        rows = self.to_rows()
        numbers = ("value", *(name for name in _ACCURACY if any(row[name] is not None for row in rows)))
        cells = [(row["metric"], *(_format(row[name]) for name in numbers)) for row in rows[:_SHOWN]]
        more = (f"{len(rows) - _SHOWN:,} more numbers.",) if len(rows) > _SHOWN else ()
        start = f" from round {self.since:,}" if self.since > 1 else ""
        caption = f"{type(self).__name__} of {self.counted:,} records{start}; {self.held:,} held"
        header = ("metric", *(name.replace("_", " ") for name in numbers))
        return make_table(caption, header, cells, (*more, *self.notes))


def read_inputs(x: Any, names: tuple[str, ...]) -> Floats:
    """Read what to predict for; the columns of a data frame, or the entries of a series, go by their names.

    Args:
        x: shape (dim,) or (n, dim).
        names: the names of the inputs of the fit; empty where they are not known.

    Returns:
        the same as an array, in the order of the fit.

    Raises:
        ParameterError: an input is missing, or there twice.

    Example:
        >>> import pandas as pd
        >>> read_inputs(pd.DataFrame({"b": [2.0], "a": [1.0]}), ("a", "b"))
        array([[1., 2.]])
    """
    given = next(
        (found for name in ("column_names", "columns", "index") if np.iterable(found := getattr(x, name, None))), ()
    )
    labels = {str(label): label for label in given}
    if not names or not labels or [*labels.values()] == [*range(len(labels))]:
        return np.asarray(x, np.float64)
    wrong = [name for name in names if [*map(str, given)].count(name) != 1]
    if wrong:
        raise ParameterError(
            f"x does not have one column of the name {wrong[0]!r}; the inputs of the fit are {', '.join(names)}"
        )
    return np.stack([np.asarray(x[labels[name]], np.float64) for name in names], axis=-1)


def _to_plain(value: object) -> Any:
    """What JSON has for a field of an estimate."""
    if isinstance(value, np.ndarray | np.generic):
        return _to_plain(value.tolist())
    if isinstance(value, Estimate):
        return value.to_dict()
    if isinstance(value, Mapping):
        return {key: _to_plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_to_plain(each) for each in value]
    if isinstance(value, bytes):
        return value.hex()
    return None if isinstance(value, float) and not math.isfinite(value) else to_plain(value)


def _format(number: float | None) -> str:
    return "-" if number is None else f"{number:.10g}"


E = TypeVar("E", bound=Estimate)
"""A kind of estimate, in functions."""

if TYPE_CHECKING:
    E_co = TypeVar("E_co", bound=Estimate, default=Estimate, covariant=True)
else:
    E_co = TypeVar("E_co", bound=Estimate, covariant=True)  # defaults of type variables came with Python 3.13
"""The kind of estimate of a policy or a stream; default: `Estimate`."""
