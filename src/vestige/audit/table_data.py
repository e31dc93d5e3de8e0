"""Snapshots of a table as positions: which records each of them holds, and how a schedule divides them into batches.

Guarantee: the order of rows in a snapshot does not matter; held by tests/audit/test_table.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from vestige.audit.detector import Snapshot, make_batch, select_disjoint
from vestige.audit.numbering import Numbering, find_missing, parse_numbers
from vestige.audit.permutation import Batch
from vestige.audit.schedule import Schedule, find_schedules
from vestige.audit.selection import Comparison, compare_snapshots
from vestige.audit.table_result import SnapshotFacts
from vestige.clock import Clock
from vestige.errors import ParameterError
from vestige.records import Records
from vestige.types import Floats, Ints
from vestige.validation import check_floats, show_value

_SCHEDULES = 24
"""Number of schedules that words are searched in, in each numbering."""


@dataclass(frozen=True, slots=True, eq=False)
class TableSnapshot:
    """A table as it was at one moment.

    Attributes:
        ids: the id of each row; a text or a whole number.
        values: values of the audited columns; shape (n,) or (n, columns). Missing ones are nan.
        arrived: when each row arrived, as anything that can be sorted; None if ids tell.
        label: name for the report.
    """

    ids: Sequence[object]
    values: ArrayLike
    arrived: ArrayLike | None = None
    label: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class HeldBatch:
    """A batch as one snapshot holds it.

    Attributes:
        batch: which of its records are kept.
        later: values of the records that came after it, in the same snapshot; shape (n, columns).
    """

    batch: Batch
    later: Floats


class TableData:
    """All snapshots, with records as indices into those that were ever seen.

    Args:
        snapshots: the table at several moments, in order of time.
        removed: ids whose removal is documented.

    Attributes:
        labels: name of each snapshot.
        values: values of each snapshot, missing ones filled in.
        filled: number of those.
        columns: number of columns.
        rows: records of each snapshot.
        removed: records whose removal is documented.
        unseen: numbers of documented removals that no snapshot shows, if ids are numbers.
        numbers: ids as numbers, else arrivals as whole numbers; None if neither are.
        numbered: "ids" or "arrivals".
        order: records in order of arrival, as far as it is known.
        has_order: whether ids or arrivals tell this order.
    """

    def __init__(self, snapshots: Sequence[TableSnapshot], removed: Iterable[object]) -> None:
        if not isinstance(snapshots, Sequence) or not all(isinstance(each, TableSnapshot) for each in snapshots):
            raise ParameterError("snapshots is not a list of snapshots; pass TableSnapshot(ids, values) objects")
        if not snapshots:
            raise ParameterError("snapshots is empty; pass at least one TableSnapshot(ids, values)")
        texts = [[str(id_) for id_ in each.ids] for each in snapshots]
        self.labels = [each.label or f"snapshot {i + 1}" for i, each in enumerate(snapshots)]
        self.values, self.filled = _check_values(snapshots, texts)
        self.columns = self.values[0].shape[1]
        index: dict[str, int] = {}
        for ids in texts:
            for text in ids:
                index.setdefault(text, len(index))
        self.rows = [np.array([index[text] for text in ids], np.int64) for ids in texts]
        for label, rows in zip(self.labels, self.rows, strict=True):
            if len(np.unique(rows)) < len(rows):
                raise ParameterError(f"{label}: ids occur more than once; name a column that identifies a row")
        self._removed_texts = [str(id_) for id_ in _check_list("removed", removed)]
        self.removed = np.array([index[text] for text in self._removed_texts if text in index], np.int64)
        known = list(index)
        self.numbers = parse_numbers(known) if known else None
        self.unseen = np.zeros(0, np.int64) if self.numbers is None else self._parse_unseen(index)
        self.has_order = self.numbers is not None or all(each.arrived is not None for each in snapshots)
        self.order = self._find_order(snapshots)
        self.numbered = "ids"
        if self.numbers is None:
            self.numbers, self.numbered = self._count_arrivals(snapshots), "arrivals"

    def _parse_unseen(self, index: Mapping[str, int]) -> Ints:
        """Numbers of documented removals that no snapshot shows; a text that is not such an id is none."""
        example = next(iter(index))
        texts = [text for text in dict.fromkeys(self._removed_texts) if text not in index]
        found = (parse_numbers([example, text]) for text in texts)
        return np.array([int(pair[1]) for pair in found if pair is not None], np.int64)

    def _find_order(self, snapshots: Sequence[TableSnapshot]) -> Ints:
        """Records in order of arrival: by time, else by number, else as they were first seen."""
        count = 1 + max((int(rows.max()) for rows in self.rows if len(rows)), default=-1)
        if all(each.arrived is not None for each in snapshots):
            moments = np.concatenate([np.asarray(each.arrived) for each in snapshots])
            rows = np.concatenate(self.rows)
            if len(moments) != len(rows):
                raise ParameterError("arrived does not have one time for each row; pass as many times as ids")
            first = np.unique(rows, return_index=True)[1]
            second = np.arange(count) if self.numbers is None else self.numbers
            return np.lexsort((second, moments[first]))
        if self.numbers is not None:
            return np.argsort(self.numbers, kind="stable")
        return np.arange(count)

    def _count_arrivals(self, snapshots: Sequence[TableSnapshot]) -> Ints | None:
        """Arrivals as numbers, if they are whole and no two records share one."""
        if any(each.arrived is None for each in snapshots):
            return None
        moments = np.concatenate([np.asarray(each.arrived) for each in snapshots])
        first = np.unique(np.concatenate(self.rows), return_index=True)[1]
        if moments.dtype.kind not in "iuf" or not len(first):
            return None
        numbers = moments[first].astype(np.int64)
        is_counted = bool((numbers == moments[first]).all()) and len(np.unique(numbers)) == len(numbers)
        return numbers if is_counted else None

    def place(self, numbering: Numbering) -> tuple[list[Ints], list[Floats], Ints]:
        """Sorted positions of each snapshot, the values in that order, and the positions that are excused."""
        positions, values = [], []
        for rows, table in zip(self.rows, self.values, strict=True):
            order = np.argsort(numbering.positions[rows], kind="stable")
            positions.append(numbering.positions[rows][order])
            values.append(table[order])
        return positions, values, np.unique(np.concatenate((numbering.positions[self.removed], numbering.removed)))

    def find_schedules(self, numbering: Numbering) -> list[Schedule]:
        """Schedules that fit, with those positions filled in whose removal is documented."""
        positions, _, excused = self.place(numbering)
        shown = (each for each in positions if len(each))
        filled = [np.union1d(each, excused[(each[0] <= excused) & (excused <= each[-1])]) for each in shown]
        return find_schedules(filled, numbering.origins, _SCHEDULES) if filled else []

    def lay_out(self, numbering: Numbering, schedule: Schedule) -> list[HeldBatch]:
        """The batches of a schedule, each once."""
        positions, values, excused = self.place(numbering)
        shown = [(place, value) for place, value in zip(positions, values, strict=True) if len(place)]
        oldest = min(int(place[0]) for place, _ in shown)
        origin = oldest - 2 * schedule.length - 1 if schedule.origin is None else schedule.origin
        snapshots = []
        for (place, value), last in zip(shown, schedule.lasts, strict=True):
            first = last - schedule.length + 1
            if first > origin:
                clock = Clock(max(int(place[-1]), last) - origin, first - origin, last - origin)
                snapshots.append(Snapshot(Records(place - origin, value), clock))
        return [_lay_out_batch(each, excused - origin) for each in select_disjoint(snapshots)]

    def compare(self, numbering: Numbering) -> Comparison:
        """What changes from snapshot to snapshot."""
        positions, values, excused = self.place(numbering)
        return compare_snapshots(positions, values, excused)

    def list_facts(self, numbering: Numbering, *, is_ordered: bool) -> tuple[SnapshotFacts, ...]:
        """Counts of each snapshot; nothing is known to be missing if the order of records is unknown."""
        positions, _, excused = self.place(numbering)
        return tuple(
            SnapshotFacts(label, len(place), len(find_missing(place, excused)) if len(place) and is_ordered else 0)
            for label, place in zip(self.labels, positions, strict=True)
        )


def _lay_out_batch(snapshot: Snapshot, excused: Ints) -> HeldBatch:
    """A batch; what is older than its oldest record may have left by age, so that it is not held against anybody."""
    inside = snapshot.retained.rounds[snapshot.retained.rounds >= snapshot.clock.first]
    oldest = min(int(inside[0]) if len(inside) else snapshot.clock.last, snapshot.clock.last)
    batch = make_batch(snapshot, np.union1d(excused, np.arange(snapshot.clock.first, oldest)))
    return HeldBatch(batch, snapshot.retained.values[snapshot.retained.rounds > snapshot.clock.last])


def _check_values(snapshots: Sequence[TableSnapshot], texts: list[list[str]]) -> tuple[list[Floats], int]:
    """The values of each snapshot, and how many missing ones were filled in by the average of their column."""
    tables: list[NDArray[np.float64]] = []
    for i, (snapshot, ids) in enumerate(zip(snapshots, texts, strict=True)):
        table = check_floats(f"snapshots[{i}].values", snapshot.values)
        table = table.reshape(len(ids), -1) if len(ids) and table.size % len(ids) == 0 else table.reshape(-1, 1)
        if len(table) != len(ids):
            raise ParameterError(f"snapshots[{i}] has {len(ids):,} ids and {len(table):,} rows of values; pass as many")
        tables.append(np.array(table, np.float64))
    columns = next((table.shape[1] for table in tables if len(table)), 1)
    tables = [table if len(table) else np.zeros((0, columns)) for table in tables]
    for i, table in enumerate(tables):
        if table.shape[1] != columns:
            raise ParameterError(f"snapshots[{i}] has {table.shape[1]} columns, not {columns}; pass the same columns")
        if np.isinf(table).any():
            raise ParameterError(f"snapshots[{i}] has infinite values; drop or fill such rows first")
    pooled = np.concatenate(tables)
    missing = np.isnan(pooled)
    if len(pooled) and missing.all(axis=0).any():
        raise ParameterError("a column has no numbers; name columns that have numbers")
    centres = np.nanmean(pooled, axis=0) if len(pooled) else np.zeros(columns)
    return [np.where(np.isnan(table), centres, table) for table in tables], int(missing.sum())


def _check_list(name: str, items: Iterable[object]) -> list[object]:
    try:
        if not isinstance(items, str | bytes):
            return list(items)
    except TypeError:
        pass
    raise ParameterError(f"{name}={show_value(items)} is not a list of ids; pass ids, or nothing")
