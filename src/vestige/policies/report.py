"""A table of an answer: what a statistic's policy makes for people to read, and the same facts for machines.

Guarantee: held by tests/test_cli_answers.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from vestige.estimate import Estimate

_LARGEST_WHOLE = 1e21


class Remark(NamedTuple):
    """A sentence about an answer, and the metrics that it is about.

    Attributes:
        text: the sentence.
        metrics: the names of the metrics of a bundle; empty for the whole answer.

    Example:
        >>> str(Remark("Bounds are edges.", ("spent:p50", "spent:p95")))
        'spent:p50, spent:p95: Bounds are edges.'
    """

    text: str
    metrics: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{', '.join(self.metrics)}: {self.text}" if self.metrics else self.text


@dataclass(frozen=True, slots=True)
class Report:
    """An estimate as a table.

    Attributes:
        name: what it is, such as `mean`; the command makes a title of it.
        header: the columns of the table.
        rows: its rows: labels, then numbers.
        facts: the same for machines.
        remarks: what to print below the table.
    """

    name: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    facts: dict[str, object]
    remarks: tuple[Remark, ...] = ()


def make_plain_report(estimate: Estimate, labels: Sequence[str] = ()) -> Report:
    """Make a table of an answer whose columns have no names.

    Args:
        estimate: the answer.
        labels: a label for each number of the answer; default: they are numbered.

    Returns:
        the table, and the same facts for machines.

    Example:
        >>> make_plain_report(Estimate(2.5)).rows
        (('1', '2.5'),)
    """
    values = np.ravel(estimate.value).tolist()
    names = labels or tuple(f"{i + 1}" for i in range(len(values)))
    rows = tuple((name, format_number(value)) for name, value in zip(names, values, strict=False))
    return Report("answer", ("value", "estimate"), rows, {"value": np.asarray(estimate.value).tolist()})


def format_label(value: float | str) -> str:
    """Format a number that identifies something, such as the edge of a bin: different numbers, different texts.

    Args:
        value: the number, or a text in its place.

    Returns:
        the exact digits of a whole number below 1e21, otherwise the fewest digits that stand for no other number.

    Example:
        >>> format_label(1700000000001.0), format_label(0.1)
        ('1700000000001', '0.1')
    """
    if isinstance(value, int | str):
        return str(value)
    number = float(value)
    return str(int(number)) if number.is_integer() and abs(number) < _LARGEST_WHOLE else repr(number)


def format_number(value: float) -> str:
    """Format a number for a table.

    Args:
        value: the number.

    Returns:
        up to ten digits.

    Example:
        >>> format_number(1 / 3)
        '0.3333333333'
    """
    return f"{value:.10g}"
