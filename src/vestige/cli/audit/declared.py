"""What a firm declares, as an auditor has it: lists of ids with a reason, and conditions on a column of the table.

Guarantee: errors name the file and the condition, never an id; held by tests/test_cli_audit_table.py.
"""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from vestige.audit import DeclaredRecords
from vestige.audit.declared import Kind
from vestige.errors import ParameterError, SourceError
from vestige.types import Bools, Floats

_CONDITION = re.compile(
    r"""\s*(?:"(?P<quoted>[^"]+)"|(?P<plain>[^"].*?))\s*(?P<operator>!=|<=|>=|==?|<|>|\snot\s+in\s|\sin\s)\s*(?P<values>.+)"""
)
_JOINED = re.compile(r"\s(and|or)\s.*(!=|[<>=])|&&|\|\|", re.IGNORECASE)
"""Two conditions in one."""
_BOOLEANS = ("false", "true")
_REASON = "reason"
_MOST_REASONS = 10
"""With more reasons than this in a list, they are not named: they may say something of persons."""


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition that the rows meet which may stay, such as `status != cancelled`.

    Attributes:
        text: the condition as it was typed.
        column: column that it looks at.
        operator: "=", "!=", "<", "<=", ">", ">=", "in" or "not in".
        values: what the column is compared with.
    """

    text: str
    column: str
    operator: str
    values: tuple[str, ...]

    @classmethod
    def parse(cls, text: str) -> Condition:
        """Read a condition.

        Args:
            text: the condition.

        Returns:
            The condition.

        Raises:
            ParameterError: it is not one.
        """
        match = _CONDITION.fullmatch(text)
        if match is None:
            raise ParameterError(
                f'--rule {text}: is neither a file nor a condition; write such as "status != cancelled", '
                '"plan in (paid, trial)" or "amount <= 1000"'
            )
        if _JOINED.search(match["values"]):
            raise ParameterError(
                f"--rule {text}: is more than one condition; repeat --rule for what must all be met, or use "
                '"plan in (paid, trial)" for one of several values'
            )
        operator = " ".join(match["operator"].split()).replace("==", "=")
        listed = match["values"].strip()
        parts = listed.strip("()").split(",") if operator.endswith("in") else [listed]
        condition = cls(
            text.strip(),
            (match["quoted"] or match["plain"]).strip(),
            operator,
            tuple(dict.fromkeys(part.strip().strip("'\"") for part in parts)),
        )
        if not all(condition.values) or (condition.is_numeric and condition.limit is None):
            what = "no number" if condition.is_numeric else "nothing"
            raise ParameterError(
                f'--rule {text}: compares with {what}; write such as "amount <= 1000", or "status != cancelled"'
            )
        return condition

    @property
    def is_numeric(self) -> bool:
        """Whether it compares numbers by size."""
        return self.operator[0] in "<>"

    @property
    def limit(self) -> float | None:
        """The number that it compares with."""
        try:
            number = float(self.values[0])
        except ValueError:
            return None
        return number if math.isfinite(number) else None

    @property
    def categories(self) -> tuple[str, ...]:
        """What the column is read as, if not as numbers: the values, or false and true whatever their case is."""
        if self.is_numeric:
            return ()
        lower = {value.lower() for value in self.values}
        return _BOOLEANS if lower <= set(_BOOLEANS) else self.values

    def find_barred(self, cells: Floats) -> Bools:
        """Find the rows that do not meet it; one without a value meets only "!=" and "not in".

        Args:
            cells: the column, as numbers or as numbers of `categories`; shape (n,).

        Returns:
            Which rows do not; shape (n,).
        """
        limit = self.limit or 0.0
        if self.is_numeric:
            met = {"<": cells < limit, "<=": cells <= limit, ">": cells > limit, ">=": cells >= limit}[self.operator]
            return ~met
        known = self.categories
        wanted = [known.index(value.lower() if known is _BOOLEANS else value) for value in self.values]
        is_one: Bools = np.isin(cells, wanted)
        return is_one if self.operator in ("!=", "not in") else ~is_one


def is_list(text: str) -> bool:
    """Whether a rule is given as a file.

    Args:
        text: what was typed.

    Returns:
        Whether there is such a file.
    """
    try:
        return Path(text).is_file()
    except OSError:  # such as a name that is too long
        return False


def declare(
    id_column: str, removed: Sequence[str], corrected: Sequence[str], rules: Sequence[str], barred: Iterable[set[str]]
) -> list[DeclaredRecords]:
    """Collect what is declared.

    Args:
        id_column: column that identifies a row.
        removed: files of removals.
        corrected: files of corrections.
        rules: files and conditions.
        barred: for each condition the ids of rows that do not meet it in some snapshot.

    Returns:
        Conditions first, since they are checked on the rows; then the lists.

    Raises:
        SourceError: a file cannot be read.
    """
    conditions = [rule for rule in rules if not is_list(rule)]
    found = [
        DeclaredRecords("rule", sorted(ids), text, is_checked=True)
        for text, ids in zip(conditions, barred, strict=True)
    ]
    lists: list[tuple[Kind, str]] = [("rule", rule) for rule in rules if is_list(rule)]
    lists += [("correction", path) for path in corrected]
    lists += [("removal", path) for path in removed]
    for kind, path in lists:
        found += _read_list(kind, path, id_column)
    return found


def _read_list(kind: Kind, path: str, id_column: str) -> list[DeclaredRecords]:
    """Read a list of ids: one in each line, or a table with their column, or in the first one; and reasons."""
    try:
        text = Path(path).read_text(encoding="utf-8-sig")
    except OSError as problem:
        raise SourceError(
            f"{path}: cannot be read ({problem.strerror}); give a file with one id in each line"
        ) from None
    except UnicodeError:
        raise SourceError(f"{path}: is not text in UTF-8; save the list as CSV in UTF-8") from None
    lines = io.StringIO(text, newline="")
    first = text[: text.find("\n")]
    separator = max(",;\t", key=first.count)
    try:
        rows = [
            [cell.strip() for cell in row]
            for row in csv.reader(lines, delimiter=separator, strict=True)
            if any(map(str.strip, row))
        ]
    except csv.Error:
        raise SourceError(
            f"{path}: has a quote that is not closed, or within a cell; write one id in each line, or save it as CSV"
        ) from None
    names = [name.lower() for name in rows[0]] if rows else []
    header = rows[0] if {id_column.lower(), _REASON} & set(names) else []
    place = names.index(id_column.lower()) if id_column.lower() in names else 0
    other = names.index(_REASON) if _REASON in names else None
    reasons: dict[str, list[str]] = {}
    for row in rows[1:] if header else rows:
        reason = row[other] if other is not None and other < len(row) else ""
        reasons.setdefault(reason, []).append(row[place] if place < len(row) else "")
    name = Path(path).name
    if len(reasons) > _MOST_REASONS:
        reasons = {f"{len(reasons):,} reasons": [id_ for ids in reasons.values() for id_ in ids]}
    return [
        DeclaredRecords(kind, [id_ for id_ in ids if id_], f"{name}: {reason}" if reason else name)
        for reason, ids in (reasons or {"": []}).items()
    ]
