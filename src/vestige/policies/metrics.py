"""Metrics as text: `amount:mean,moments` is the mean and the moments of the column amount.

A metric is a column, a colon and statistics, separated by commas; what a statistic is told is in brackets after its
name. A quantile has a name of its own, such as p95. Several columns are separated by commas, those that are explained
last. The name of a column or a category that has a comma, a bracket or a quote in it is written in double quotes, as in
CSV.
Guarantee: held by tests/policies/test_metrics.py.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping, Sequence

from vestige.errors import ParameterError
from vestige.policies.bundle import Bundle
from vestige.policies.count import Count
from vestige.policies.distinct import TEXT, Distinct
from vestige.policies.named_policy import NamedPolicy
from vestige.policies.quantiles import Quantiles
from vestige.policies.registry import STATISTICS
from vestige.validation import check_list

METRICS = "metrics"
"""What the command calls the statistic of a stream of several metrics."""
_OPTIONS = r'\[(?P<options>(?:"(?:[^"]|"")*"|[^\]"])*)\]'
_STATISTIC = re.compile(rf"\s*(?P<name>[A-Za-z0-9_.]+)\s*(?:{_OPTIONS})?\s*(?:,|$)")
_SPECIAL = re.compile(r'[,"\]\r\n]')
_QUOTED = r'"(?:[^"]|"")*"'
_QUOTED_COLUMN = re.compile(rf"(?:^|,)\s*{_QUOTED}(?=\s*[,:])")
_COLUMN = re.compile(rf"\s*(?:(?P<quoted>{_QUOTED})|(?P<plain>[^,]*?))\s*(?P<end>,|$)")
_SPECIAL_COLUMN = re.compile(r'[,\[]|^["\s]|\s$')
_QUANTILE = re.compile(r"p[0-9.]+")
_UNCERTAIN = ({Distinct.name}, {Distinct.name, Count.name})
_OTHER_NAMES = {
    **dict.fromkeys(("min", "max", "minimum", "maximum", "range"), "extremes, the minimum and the maximum"),
    "median": "p50",
    **dict.fromkeys(("std", "stdev", "stddev", "sd", "var", "variance"), "moments, which has the standard deviation"),
    **dict.fromkeys(("avg", "average"), "mean"),
    **dict.fromkeys(("unique", "nunique"), "distinct"),
    "total": "sum",
}
"""What statistics are called elsewhere, and what they are called here."""
_HELP = "write it as amount:mean or as distance,air_time:regression"


def parse_metrics(
    texts: Sequence[str], half_life: float | None = None, categories: Mapping[str, Sequence[str]] | None = None
) -> Bundle:
    """Make a bundle from metrics as text.

    Args:
        texts: the metrics, such as `amount:mean,moments` or `rating:histogram[1,2,3,4,5]`.
        half_life: after this number of records, a record counts half as much; None if all count alike.
        categories: the names of the categories of columns whose metric does not declare them, see `list_undeclared`;
            none for columns of texts whose distinct ones are counted, see `list_uncertain`.

    Returns:
        the bundle.

    Raises:
        ParameterError: a metric is not written as one, or its statistic does not take its columns.

    Example:
        >>> parse_metrics(["amount:mean,moments", "rating:mean"]).column_names
        ('amount', 'rating')
    """
    _check_texts(texts)
    if not isinstance(categories, Mapping | None):
        raise ParameterError("categories is not a mapping of columns to names; pass one, such as {'status': ['ok']}")
    for column, listed in (categories or {}).items():
        check_list(f"categories[{column!r}]", listed, str, "names")
    groups: dict[str | tuple[str, ...], list[NamedPolicy]] = {}
    for text in texts:
        names, statistics = _split(text)
        for name, options in statistics:
            known = (categories or {}).get(names[0])
            told = options or list(known or () if _takes_categories(name) else ())
            if name == Distinct.name and known is not None and not known:
                told = [*told, TEXT]
            groups.setdefault(names, []).append(_make_policy(text, name, told, names))
    return Bundle(groups, half_life)


def list_columns(texts: Sequence[str]) -> tuple[str, ...]:
    """List the columns of metrics in the order in which they are named first.

    Args:
        texts: the metrics.

    Returns:
        the columns, each once.

    Raises:
        ParameterError: a metric is not written as one.

    Example:
        >>> list_columns(["amount:mean", "status:shares", "amount,rating:regression"])
        ('amount', 'status', 'rating')
    """
    _check_texts(texts)
    return tuple(dict.fromkeys(name for text in texts for name in _split(text)[0]))


def list_undeclared(texts: Sequence[str]) -> tuple[str, ...]:
    """List the columns of categories that are not declared in brackets.

    Args:
        texts: the metrics.

    Returns:
        the columns, each once.

    Raises:
        ParameterError: a metric is not written as one.

    Example:
        >>> list_undeclared(["status:shares", "channel:shares[web,shop]"])
        ('status',)
    """
    _check_texts(texts)
    metrics = map(_split, texts)
    found = (names[0] for names, each in metrics for name, told in each if _takes_categories(name) and not told)
    return tuple(dict.fromkeys(found))


def list_uncertain(texts: Sequence[str]) -> tuple[str, ...]:
    """List the columns whose distinct values alone are counted, which may be numbers or texts.

    Args:
        texts: the metrics.

    Returns:
        the columns, each once, without those that are said to be text in brackets.

    Raises:
        ParameterError: a metric is not written as one.

    Example:
        >>> list_uncertain(["email:distinct", "amount:distinct,mean", "name:distinct[text]"])
        ('email',)
    """
    told: dict[str, set[str]] = {}
    for names, statistics in map(_split, texts):
        for column in names:
            told.setdefault(column, set()).update(TEXT if TEXT in options else name for name, options in statistics)
    return tuple(column for column, found in told.items() if found in _UNCERTAIN)


def quote_column(name: str) -> str:
    """Write the name of a column as it stands before the colon of a metric.

    Args:
        name: the name.

    Returns:
        the name, in quotes where that is needed.

    Example:
        >>> quote_column("spent"), quote_column("spent, EUR")
        ('spent', '"spent, EUR"')
    """
    return '"{}"'.format(name.replace('"', '""')) if _SPECIAL_COLUMN.search(name) else name


def join_options(names: Sequence[str]) -> str:
    """Write what a statistic is told as it stands in brackets after its name.

    Args:
        names: the texts, such as names of categories.

    Returns:
        the texts, separated by commas, in quotes where that is needed.

    Example:
        >>> join_options(["ok", "on hold, paid"])
        'ok,"on hold, paid"'
    """
    return ",".join('"{}"'.format(name.replace('"', '""')) if _SPECIAL.search(name) else name for name in names)


def split_options(text: str) -> list[str]:
    """Split what a statistic is told into its parts.

    Args:
        text: what `join_options` returned, or what a user wrote in its place.

    Returns:
        the parts, without blanks around them.

    Raises:
        ParameterError: the text is not a list.

    Example:
        >>> split_options('ok, "on hold, paid"')
        ['ok', 'on hold, paid']
    """
    try:
        return [part.strip() for part in next(csv.reader([text], skipinitialspace=True), [""])]
    except csv.Error:
        raise ParameterError(
            f"{text!r} is not a list; write names with commas between them, such as ok,failed"
        ) from None


def _check_texts(texts: object) -> None:
    check_list("texts", texts, str, "metrics such as 'amount:mean'")


def _takes_categories(name: str) -> bool:
    return name in STATISTICS and STATISTICS[name].takes_categories


def _split(text: str) -> tuple[tuple[str, ...], list[tuple[str, list[str]]]]:
    """The columns of a metric, and its statistics with what is in their brackets."""
    unquoted = _QUOTED_COLUMN.sub(lambda match: "_" * len(match.group()), text)
    head, colon, _ = unquoted.partition("[")[0].rpartition(":")
    after = text[len(head) + len(colon) :] if colon else ""
    names, found, end = _split_columns(text[: len(head)]), [], 0
    while end < len(after) and (match := _STATISTIC.match(after, end)):
        options = match.group("options")
        found.append((match.group("name"), [] if options is None else split_options(options)))
        end = match.end()
    if not colon or not all(names) or not found or end < len(after):
        raise ParameterError(f"--metric {text} is not a column, a colon and statistics; {_HELP}")
    return names, found


def _split_columns(text: str) -> tuple[str, ...]:
    """The columns before the colon of a metric."""
    names, end, more = [], 0, True
    while more and (match := _COLUMN.match(text, end)):
        quoted = match.group("quoted")
        names.append(match.group("plain") if quoted is None else quoted[1:-1].replace('""', '"'))
        end, more = match.end(), bool(match.group("end"))
    return tuple(names)


def _make_policy(text: str, name: str, options: list[str], names: tuple[str, ...]) -> NamedPolicy:
    is_quantile = _QUANTILE.fullmatch(name) is not None
    kind, told = (Quantiles, [name, *options]) if is_quantile else (STATISTICS.get(name), options)
    if kind is None:
        known = _OTHER_NAMES.get(name.lower())
        instead = f"use {known}" if known else f"use one of {', '.join(STATISTICS)} or p50"
        raise ParameterError(f"--metric {text}: the statistic {name!r} is unknown; {instead}")
    targets = kind.min_targets
    columns = len(names) - targets
    if columns < kind.min_columns or (kind.max_columns is not None and columns > kind.max_columns):
        raise ParameterError(f"--metric {text}: {name} does not take {len(names)} columns; {_HELP}")
    try:
        return kind.from_options(told, columns, None) if told else kind.from_columns(columns, targets, "auto", None)
    except ParameterError as problem:
        raise ParameterError(f"--metric {text}: {problem}") from None
