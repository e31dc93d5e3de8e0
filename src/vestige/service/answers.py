"""Definitions, answers and states of streams as plain data for JSON.

Guarantee: the numbers are those of `KeyedStreams`; held by tests/service/test_app.py.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from vestige.keyed import KeyedStreams
from vestige.policies import NamedPolicy
from vestige.policy import list_values
from vestige.service.catalog import Served
from vestige.service.engine import count_records
from vestige.whole_numbers import to_plain

_NUMBERS = ("value", "standard_error", "lower", "upper")


def show_definition(served: Served) -> dict[str, object]:
    """Show a definition and how many streams and records it has.

    Args:
        served: the definition.

    Returns:
        Plain data.
    """
    t, held = count_records(served)
    return served.definition.to_data() | {"name": served.name, "keys": served.count(), "t": t, "held": held}


def show_estimates(served: Served, names: Sequence[str]) -> list[dict[str, object]]:
    """Show the answers of streams.

    Args:
        served: their definition.
        names: the streams.

    Returns:
        Plain data, one object for each stream.
    """
    if not names:
        return []
    labels = _find_labels(served)
    columns = served.streams.estimates(list(names)).columns
    counts = served.streams.counts(list(names))
    rows: dict[str, list[dict[str, Any]]] = {}
    listed = {
        name: np.asarray(columns[name]).tolist()
        for name in ("stream", "metric", "as_of", "notes", "problem", *_NUMBERS)
    }
    for values in zip(*listed.values(), strict=True):
        row = dict(zip(listed, values, strict=True))
        rows.setdefault(row["stream"], []).append(row)
    shown = zip(
        counts.names.tolist(),
        counts.counted.tolist(),
        counts.since.tolist(),
        counts.t.tolist(),
        counts.held.tolist(),
        strict=True,
    )
    return [
        {
            "key": served.names.find_key(name) if served.definition.by else None,
            "answers": [_show_answer(row, labels) for row in rows[name] if row["problem"] is None],
            "count": counted,
            "since": since,
            "t": t,
            "as_of": rows[name][0]["as_of"] or None,
            "held": held,
            "notes": _list_notes(rows[name]),
        }
        for name, counted, since, t, held in shown
    ]


def _show_answer(row: dict[str, Any], labels: Sequence[str]) -> dict[str, object]:
    metric = row["metric"]
    if labels and metric is not None:
        metric = labels[int(metric) - 1]
    numbers = {name: None if math.isnan(row[name]) else row[name] for name in _NUMBERS}
    return {"quantity": metric, **numbers}


def _list_notes(rows: Iterable[dict[str, Any]]) -> list[str]:
    return list(dict.fromkeys(row[name] for row in rows for name in ("problem", "notes") if row[name]))


def _find_labels(served: Served) -> tuple[str, ...]:
    """The names of columns in place of their numbers, for a mean of columns."""
    named = served.streams.policy.unwrap()
    is_mean = isinstance(named, NamedPolicy) and served.definition.kind == "mean"
    return served.definition.columns if is_mean else ()


def show_records(streams: KeyedStreams, name: str, *, has_values: bool) -> dict[str, object]:
    """Show the whole state of a stream.

    Args:
        streams: the streams.
        name: its name.
        has_values: whether to show values.

    Returns:
        Plain data: its clock, and the rounds and times of its records.
    """
    clock, records = streams.clock(name), streams.retained(name)
    times = [None if np.isnat(time) else f"{np.datetime_as_string(time)}Z" for time in records.times]
    shown: dict[str, object] = {
        "clock": {"t": clock.t, "first": clock.first, "last": clock.last, "since": clock.since},
        "rounds": records.rounds.tolist(),
        "times": times,
        "leaving": records.leaving.tolist(),
    }
    if has_values:
        shown["values"] = [list(map(to_plain, values)) for values in list_values(streams.policy, records)]
    return shown
