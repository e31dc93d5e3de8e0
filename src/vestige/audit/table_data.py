"""Snapshots of a table as positions: which records each of them holds, and how a schedule divides them into batches.

Guarantee: the order of rows in a snapshot does not matter; held by tests/audit/test_table.py.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from vestige.audit.declared import DeclaredRecords, Kind
from vestige.audit.detector import Snapshot, make_batch, select_disjoint
from vestige.audit.numbering import NOWHERE, Numbering, find_missing, parse_numbers
from vestige.audit.permutation import Batch
from vestige.audit.schedule import Schedule, find_schedules
from vestige.audit.selection import Comparison, compare_snapshots
from vestige.audit.table_result import DeclaredFacts, SnapshotFacts
from vestige.clock import Clock
from vestige.errors import ParameterError
from vestige.records import Records
from vestige.types import Floats, Ints
from vestige.validation import check_floats, show_value

_KINDS: tuple[Kind, ...] = get_args(Kind)
_SCHEDULES = 24
"""Number of schedules that words are searched in, in each numbering."""
_MOST_KEPT = 0.05
"""A rule is not kept to where more than this of the records of batches that it bars are kept all the same."""


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
        batch: which of its records are kept; declared records that are missing are missing.
        later: values of the records that came after it, in the same snapshot, without those that a rule removes which
            is checked and kept to; shape (n, columns).
        first: position of its first record.
    """

    batch: Batch
    later: Floats
    first: int


class TableData:
    """All snapshots, with records as indices into those that were ever seen.

    Args:
        snapshots: the table at several moments, in order of time.
        declared: records that are declared to have been removed or corrected.

    Attributes:
        declared: the same.
        labels: name of each snapshot.
        values: values of each snapshot, missing ones filled in.
        filled: number of those.
        columns: number of columns.
        rows: records of each snapshot.
        unseen: numbers of declared records that no snapshot shows, if ids are numbers.
        numbers: ids as numbers, else arrivals as whole numbers; None if neither are.
        numbered: "ids" or "arrivals".
        order: records in order of arrival, as far as it is known.
        has_order: whether ids or arrivals tell this order.
    """

    def __init__(self, snapshots: Sequence[TableSnapshot], declared: Sequence[DeclaredRecords]) -> None:
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
        self.declared = _check_declared(declared)
        self._known = [
            np.array([index[text] for text in map(str, each.ids) if text in index], np.int64) for each in declared
        ]
        known = list(index)
        self.numbers = parse_numbers(known) if known else None
        self.unseen, self._owners = self._parse_unseen(index)
        self.has_order = self.numbers is not None or all(each.arrived is not None for each in snapshots)
        self.order = self._find_order(snapshots)
        self.numbered = "ids"
        if self.numbers is None:
            self.numbers, self.numbered = self._count_arrivals(snapshots), "arrivals"

    def _parse_unseen(self, index: Mapping[str, int]) -> tuple[Ints, Ints]:
        """Numbers of declared records that no snapshot shows, and who declares them; other texts are no ids."""
        found: list[tuple[int, int]] = []
        example = next(iter(index), "")
        for owner, each in enumerate(self.declared if self.numbers is not None else ()):
            pairs = (parse_numbers([example, text]) for text in map(str, each.ids) if text not in index)
            found += [(int(pair[1]), owner) for pair in pairs if pair is not None]
        numbers, owners = np.array(found, np.int64).reshape(-1, 2).T
        return numbers, owners

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

    def place(self, numbering: Numbering) -> tuple[list[Ints], list[Floats]]:
        """Sorted positions of each snapshot, and the values in that order."""
        positions, values = [], []
        for rows, table in zip(self.rows, self.values, strict=True):
            order = np.argsort(numbering.positions[rows], kind="stable")
            positions.append(numbering.positions[rows][order])
            values.append(table[order])
        return positions, values

    def _find_kinds(self, numbering: Numbering, kinds: Collection[Kind]) -> Ints:
        """Positions of the records that are declared to be of some kinds."""
        return self._find(numbering, [i for i, each in enumerate(self.declared) if each.kind in kinds])

    def _find(self, numbering: Numbering, owners: Iterable[int]) -> Ints:
        """Positions of the records of some declarations."""
        return np.unique(np.concatenate((np.zeros(0, np.int64), *(self._excuse(numbering, i) for i in owners))))

    def _excuse(self, numbering: Numbering, owner: int) -> Ints:
        """Positions of the records of one declaration."""
        places = np.concatenate((numbering.positions[self._known[owner]], numbering.unseen[self._owners == owner]))
        found: Ints = np.unique(places[places != NOWHERE])
        return found

    def _list_checked(self, numbering: Numbering, batches: Sequence[tuple[Batch, int]]) -> list[int]:
        """The rules that the snapshots show, and that are kept to: hardly a record that they bar is kept in a batch."""
        kept, absent = _find_fates(batches)
        checked = []
        for i, each in enumerate(self.declared):
            places = self._excuse(numbering, i) if each.is_checked else kept
            stay, gone = np.isin(kept, places).sum(), np.isin(absent, places).sum()
            checked += [i] if each.is_checked and stay <= _MOST_KEPT * (stay + gone) else []
        return checked

    def measure_listed(self, numbering: Numbering, batches: Sequence[HeldBatch]) -> float:
        """Measure how many records rules and corrections name that nobody can check, or that are not kept to.

        Args:
            numbering: what positions are.
            batches: batches of which some records are missing.

        Returns:
            Their share of all records, seen or missing; of those that are kept in batches; or the share of the records
            of batches that they let be missing: the largest of these.
        """
        shown = np.concatenate(self.place(numbering)[0])
        if not len(shown):
            return 0.0
        pairs = [(one.batch, one.first) for one in batches]
        checked = self._list_checked(numbering, pairs)
        lists = [i for i, each in enumerate(self.declared) if each.kind != "removal" and i not in checked]
        named = np.setdiff1d(self._find(numbering, lists), self._find(numbering, checked))
        low, high = int(shown.min()), int(shown.max())
        kept, absent = _find_fates(pairs)
        share = ((low <= named) & (named <= high)).sum() / (high - low + 1)
        stay, gone = np.isin(kept, named).sum(), np.isin(absent, named).sum()
        return float(max(share, stay / max(len(kept), 1), gone / max(len(kept) + len(absent), 1)))

    def find_schedules(self, numbering: Numbering) -> list[Schedule]:
        """Schedules that fit; what is declared does not change them."""
        shown = [each for each in self.place(numbering)[0] if len(each)]
        return find_schedules(shown, numbering.origins, _SCHEDULES) if shown else []

    def lay_out(self, numbering: Numbering, schedule: Schedule) -> list[HeldBatch]:
        """The batches of a schedule, each once."""
        positions, values = self.place(numbering)
        shown = [(place, value) for place, value in zip(positions, values, strict=True) if len(place)]
        oldest = min(int(place[0]) for place, _ in shown)
        origin = oldest - 2 * schedule.length - 1 if schedule.origin is None else schedule.origin
        snapshots = []
        for (place, value), last in zip(shown, schedule.lasts, strict=True):
            first = last - schedule.length + 1
            if first > origin:
                clock = Clock(max(int(place[-1]), last) - origin, first - origin, last - origin)
                snapshots.append(Snapshot(Records(place - origin, value), clock))
        chosen = select_disjoint(snapshots)
        batches = [_lay_out_batch(each, origin) for each in chosen]
        barred = self._find(numbering, self._list_checked(numbering, batches))
        return [
            HeldBatch(batch, _find_later(snapshot, barred, origin), first)
            for (batch, first), snapshot in zip(batches, chosen, strict=True)
        ]

    def compare(self, numbering: Numbering, without: Collection[Kind] = _KINDS) -> Comparison:
        """What changes from snapshot to snapshot, without declared records of some kinds."""
        return compare_snapshots(*self.place(numbering), self._find_kinds(numbering, without))

    def compare_removals(self, numbering: Numbering, without: Collection[Kind]) -> Comparison:
        """How declared removals compare with the records that stayed, without declared records of some kinds."""
        removed = self._find_kinds(numbering, ["removal"])
        return compare_snapshots(*self.place(numbering), self._find_kinds(numbering, without), leavers=removed)

    def count_changed(self) -> int:
        """Count the records whose values are not the same in all snapshots, without declared corrections."""
        last = np.full((len(self.order), self.columns), np.nan)
        changed = np.zeros(len(self.order), np.bool_)
        for rows, values in zip(self.rows, self.values, strict=True):
            before = last[rows]
            changed[rows] |= ((before != values) & ~np.isnan(before)).any(axis=1)
            last[rows] = values
        for known, each in zip(self._known, self.declared, strict=True):
            changed[known if each.kind == "correction" else known[:0]] = False
        return int(changed.sum())

    def list_facts(self, numbering: Numbering, *, is_ordered: bool) -> tuple[SnapshotFacts, ...]:
        """Counts of each snapshot; nothing is known to be missing if the order of records is unknown."""
        excused, facts = self._find_kinds(numbering, _KINDS), []
        for label, place in zip(self.labels, self.place(numbering)[0], strict=True):
            absent = find_missing(place) if len(place) and is_ordered else place[:0]
            count = int(np.isin(absent, excused).sum())
            facts.append(SnapshotFacts(label, len(place), len(absent) - count, count))
        return tuple(facts)

    def list_declared(
        self, numbering: Numbering, batches: Sequence[HeldBatch], *, is_ordered: bool
    ) -> tuple[tuple[DeclaredFacts, ...], int, int]:
        """Counts of each declaration, the first that names a record; and how many gaps are excused, and are left."""
        shown = [each for each in self.place(numbering)[0] if len(each)]
        absent = np.unique(np.concatenate([np.zeros(0, np.int64), *map(find_missing, shown if is_ordered else [])]))
        checked = self._list_checked(numbering, [(one.batch, one.first) for one in batches])
        facts, left = [], absent
        for i, each in enumerate(self.declared):
            places = self._excuse(numbering, i)
            excused = int(np.isin(left, places).sum())
            left = np.setdiff1d(left, places)
            kept = sum(int(np.isin(one.first + one.batch.slots, places).sum()) for one in batches)
            facts.append(
                DeclaredFacts(each.kind, each.name, i in checked, len(each.ids), len(self._known[i]), excused, kept)
            )
        return tuple(facts), len(absent) - len(left), len(left)


def _lay_out_batch(snapshot: Snapshot, origin: int) -> tuple[Batch, int]:
    """A batch, and its first position; what is older than its oldest record may have left by age, and is not free."""
    rounds, last = snapshot.retained.rounds, snapshot.clock.last
    inside = rounds[rounds >= snapshot.clock.first]
    oldest = min(int(inside[0]) if len(inside) else last, last)
    batch = make_batch(snapshot, np.arange(snapshot.clock.first, oldest))
    return batch, batch.first + origin


def _find_later(snapshot: Snapshot, barred: Ints, origin: int) -> Floats:
    """Values of the records that came after the batch, without those that a rule bars."""
    rounds: Ints = snapshot.retained.rounds
    return snapshot.retained.values[(rounds > snapshot.clock.last) & ~np.isin(rounds + origin, barred)]


def _find_fates(batches: Sequence[tuple[Batch, int]]) -> tuple[Ints, Ints]:
    """Positions of the records of batches that are kept, and of those that are not."""
    nothing = np.zeros(0, np.int64)
    kept = [first + np.flatnonzero(batch.free & batch.present) for batch, first in batches]
    absent = [first + np.flatnonzero(batch.free & ~batch.present) for batch, first in batches]
    return np.concatenate((nothing, *kept)), np.concatenate((nothing, *absent))


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


def _check_declared(declared: Sequence[DeclaredRecords]) -> tuple[DeclaredRecords, ...]:
    if isinstance(declared, Sequence) and all(isinstance(each, DeclaredRecords) for each in declared):
        return tuple(declared)
    raise ParameterError(
        f"declared={show_value(declared)} is not a list of DeclaredRecords; pass such as "
        '[DeclaredRecords("removal", ids)], or nothing'
    )
