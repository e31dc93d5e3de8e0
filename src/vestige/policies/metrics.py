"""Metrics as text: `amount:mean,moments` is the mean and the moments of the column amount.

A metric is a column, a colon and statistics, separated by commas; what a statistic is told is in brackets after its
name. Several columns are separated by commas, those that are explained last.
Guarantee: held by tests/policies/test_metrics.py.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from vestige.errors import ParameterError
from vestige.policies.bundle import Bundle
from vestige.policies.named_policy import NamedPolicy
from vestige.policies.registry import STATISTICS

METRICS = "metrics"
"""What the command calls the statistic of a stream of several metrics."""
_STATISTIC = re.compile(r"\s*(?P<name>[A-Za-z0-9_.]+)\s*(?:\[(?P<options>[^\]]*)\])?\s*(?:,|$)")
_HELP = "write it as amount:mean or as distance,air_time:regression"


def parse_metrics(texts: Sequence[str], half_life: float | None = None) -> Bundle:
    """Make a bundle from metrics as text.

    Args:
        texts: the metrics, such as `amount:mean,moments` or `rating:histogram[1,2,3,4,5]`.
        half_life: after this number of records, a record counts half as much; None if all count alike.

    Returns:
        the bundle.

    Raises:
        ParameterError: a metric is not written as one, or its statistic does not take its columns.

    Example:
        >>> parse_metrics(["amount:mean,moments", "rating:mean"]).column_names
        ('amount', 'rating')
    """
    groups: dict[str | tuple[str, ...], list[NamedPolicy]] = {}
    for text in texts:
        names, statistics = _split(text)
        groups.setdefault(names, []).extend(_make_policy(text, *statistic, names) for statistic in statistics)
    return Bundle(groups, half_life)


def _split(text: str) -> tuple[tuple[str, ...], list[tuple[str, list[str]]]]:
    """The columns of a metric, and its statistics with what is in their brackets."""
    before, colon, after = text.partition("[")[0].rpartition(":")
    after = text[len(before) + len(colon) :] if colon else ""
    names, found, end = tuple(name.strip() for name in before.split(",")), [], 0
    while end < len(after) and (match := _STATISTIC.match(after, end)):
        options = match.group("options")
        found.append((match.group("name"), [] if options is None else [each.strip() for each in options.split(",")]))
        end = match.end()
    if not colon or not all(names) or not found or end < len(after):
        raise ParameterError(f"--metric {text} is not a column, a colon and statistics; {_HELP}")
    return names, found


def _make_policy(text: str, name: str, options: list[str], names: tuple[str, ...]) -> NamedPolicy:
    kind = STATISTICS.get(name)
    if kind is None:
        raise ParameterError(f"--metric {text}: the statistic {name!r} is unknown; use one of {', '.join(STATISTICS)}")
    targets = kind.min_targets
    columns = len(names) - targets
    if columns < kind.min_columns or (kind.max_columns is not None and columns > kind.max_columns):
        raise ParameterError(f"--metric {text}: {name} does not take {len(names)} columns; {_HELP}")
    try:
        return (
            kind.from_options(options, columns, None) if options else kind.from_columns(columns, targets, "auto", None)
        )
    except ParameterError as problem:
        raise ParameterError(f"--metric {text}: {problem}") from None
