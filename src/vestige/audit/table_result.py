"""The result of an audit of a table: what was seen, four p-values, one verdict, and what could not be seen.

Guarantee: the verdict follows from the corrected p-values alone, and no sentence calls a table honest; held by
tests/audit/test_table.py.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from types import MappingProxyType
from typing import Any

from vestige.markup import make_table

UNKNOWN = "unknown"
"""The numbering of a table whose ids do not tell in which order records arrived."""
CURATED, NOT_SHOWN, INCONCLUSIVE = "curated", "not shown", "inconclusive"
ENOUGH = 8
"""With fewer batches than this, a table that is not rejected is called inconclusive; see docs/guides/table.md."""
QUESTIONS: Mapping[str, str] = MappingProxyType(
    {
        "words": "Does the pattern of kept and missing records spell numbers?",
        "averages": "Are the averages of the kept records steadier than those of whole batches?",
        "groups": "Are the regression estimates of kept groups too good?",
        "values": "Did records with other values leave than stayed?",
    }
)
"""What each test asks."""
NULLS: Mapping[str, str] = MappingProxyType(
    {
        "words": "records were kept by any rule that does not use the published code of Vestige",
        "averages": "the kept records say no more than their own batch does, of which they may be any kind of sample",
        "groups": "which groups of a batch were kept does not depend on their values",
        "values": "of the records that were seen, those that left and those that stayed do not differ in their values",
    }
)
"""The null hypothesis of each test."""
_REASONS = {
    "words": "the pattern of kept and missing records spells numbers in a published code",
    "averages": "the averages of the kept records are steadier from batch to batch than those of whole batches",
    "groups": "the regression estimates of the kept groups vary less from batch to batch than chance allows",
}
_CONFUSED = (
    "Before you conclude, rule out that the same amounts come again in every batch, as those of a payroll do, that a "
    "quota fixes how many records of each size or kind are kept, and that a rule keeps records near a number which "
    "happens to be the average."
)
"""What makes averages steady too, without anybody's memory."""
BLIND_SPOTS = (
    "A number that is written under a secret key: it looks like chance to everyone without the key. Ask for the code "
    "that ran and its random coins, or for a verified store.",
    "Layouts that are not published, except for their traces in averages, and batches of irregular length.",
    "Averages, where no snapshot holds records that came after its batch, or where values follow a cycle or a trend so "
    "closely that their averages are steady by themselves. The test is then not possible.",
    "Words, where neither ids nor arrivals count records: then only the order of records that were seen is known.",
    "What is stored beside the table, and what happened before the first snapshot and between two of them.",
    "Whether ids were given in order, or given anew after a choice. Gaps in ids may be there by design.",
    "Whether the snapshots are the table. Take them yourself, or compare their hashes with those that were filed.",
)
"""What no result of this audit says."""


@dataclass(frozen=True, slots=True)
class SnapshotFacts:
    """Counts of one snapshot.

    Attributes:
        label: its name.
        records: number of its records.
        missing: number of positions without a record between its oldest and its newest one, without documented
            removals; 0 if the order of records is unknown.
    """

    label: str
    records: int
    missing: int


@dataclass(frozen=True, slots=True)
class TableTest:
    """One test.

    Attributes:
        name: "words", "averages", "groups" or "values"; see `QUESTIONS` and `NULLS`.
        p_value: p-value of this test alone; None if it was not possible.
    """

    name: str
    p_value: float | None


@dataclass(frozen=True, slots=True)
class TableAudit:
    """What an audit of a table found.

    Attributes:
        snapshots: counts of each snapshot.
        records: number of different records, over all snapshots.
        numbering: "ids" or "arrivals" if these count records, so that gaps show; "ranks" if only records that were seen
            can be counted; "unknown" if nothing tells in which order they arrived, so that nothing can be tested.
        step: distance of successive ids.
        batches: number of batches, no two of which share records, in which some records are kept and some are missing.
        length: number of positions of a batch, on the schedule that fits best.
        outlived: number of records that were gone while older ones stayed.
        returned: number of records that were gone, and came back.
        late: number of records that were first seen although newer ones had been seen before.
        filled: number of missing values, which were replaced by the average of their column.
        tests: the tests.
        level: family-wise level.
        trials: number of permutations and decoys.
        form: what says the numbers that are spelled; None if no known layout stands out.
        spelled: these numbers, one row for each batch.
        averages: the averages of the kept records, one row for each batch; nan where one record is kept.
        standard_errors: the standard errors of these averages, if chance had chosen; nan where one record is kept.
        patterns: which of the newest positions of each batch are kept, as text of 0 and 1, the newest last.
    """

    snapshots: tuple[SnapshotFacts, ...]
    records: int
    numbering: str
    step: int
    batches: int
    length: int
    outlived: int
    returned: int
    late: int
    filled: int
    tests: tuple[TableTest, ...]
    level: float
    trials: int
    form: str | None
    spelled: tuple[tuple[float, ...], ...]
    averages: tuple[tuple[float, ...], ...]
    standard_errors: tuple[tuple[float, ...], ...]
    patterns: tuple[str, ...]

    @property
    def adjusted(self) -> dict[str, float]:
        """P-values of the tests that were possible, corrected for their number (Holm)."""
        possible = sorted((test.p_value, test.name) for test in self.tests if test.p_value is not None)
        corrected, largest = {}, 0.0
        for i, (p, name) in enumerate(possible):
            largest = max(largest, min(1.0, p * (len(possible) - i)))
            corrected[name] = largest
        return corrected

    @property
    def rejected(self) -> tuple[str, ...]:
        """Names of the tests that reject their null hypothesis at the family-wise level."""
        adjusted = self.adjusted
        return tuple(test.name for test in self.tests if adjusted.get(test.name, 1.0) <= self.level)

    @property
    def kinds(self) -> tuple[str, ...]:
        """Names of the tests that show that records were chosen to say something: all but "values"."""
        return tuple(name for name in self.rejected if name in _REASONS)

    @property
    def is_selected_by_value(self) -> bool:
        """Whether records that left had other values than those that stayed; a finding of its own."""
        return "values" in self.rejected

    @property
    def missing(self) -> int:
        """Number of positions without a record, added up over the snapshots."""
        return sum(snapshot.missing for snapshot in self.snapshots)

    @property
    def verdict(self) -> str:
        """The verdict: "curated", "not shown" or "inconclusive"; never a proof of honesty."""
        if self.kinds:
            return CURATED
        if self.numbering in ("ranks", UNKNOWN):
            return INCONCLUSIVE
        if not self.missing and not self.outlived:
            return NOT_SHOWN
        return NOT_SHOWN if self.batches >= ENOUGH and self.can_see_averages else INCONCLUSIVE

    @property
    def can_see_averages(self) -> bool:
        """Whether the test of averages was possible, by which many layouts are found."""
        return any(test.name == "averages" and test.p_value is not None for test in self.tests)

    def explain(self) -> str:
        """Explain the verdict in one or two sentences.

        Returns:
            The sentences.
        """
        if self.kinds:
            p = min(self.adjusted[name] for name in self.kinds)
            text = f"Curated: {'; '.join(_REASONS[name] for name in self.kinds)} (corrected p = {p:.2g})."
            text += f" {_CONFUSED}" if self.kinds == ("averages",) else ""
        elif not any(snapshot.records for snapshot in self.snapshots):
            text = "Inconclusive: the snapshots hold no records."
        elif self.numbering == UNKNOWN:
            text = (
                "Inconclusive: ids do not tell in which order the records arrived, so that nothing can be tested. Name "
                "the snapshots in the order in which they were taken, and a column that tells when a row arrived."
            )
        elif self.numbering == "ranks":
            text = (
                "Inconclusive: ids do not count records, so what is missing cannot be seen, and no test finds that the "
                "records that are kept say anything. Name a column that counts them, as the id or as the order of "
                "arrival."
            )
        elif not self.missing and not self.outlived:
            text = "Not shown: no record is missing, so there is no choice that could say anything."
        elif self.batches < ENOUGH:
            shown = {0: "no batch", 1: "one batch"}.get(self.batches, f"{self.batches} batches that share no records")
            text = (
                f"Inconclusive: the snapshots show {shown}, too few for a test that would find most choices. Take "
                f"snapshots of at least {ENOUGH} batches, each at least a batch after the one before."
            )
        elif self.verdict == INCONCLUSIVE:
            text = (
                "Inconclusive: no test finds that the records that are kept say anything, but averages could not be "
                "tested: fewer than about thirty records came after the batch in each snapshot, or values follow a "
                "cycle or a trend. Take snapshots at irregular times, or name another column."
            )
        else:
            least = min((p for name, p in self.adjusted.items() if name in _REASONS), default=1.0)
            text = (
                "Not shown: records are missing, but no test finds that those that are kept say anything (least "
                f"corrected p = {least:.2g})."
            )
        if self.is_selected_by_value:
            text += (
                " Selected by value: of records that arrived one after the other, those that left had other values "
                f"than those that stayed (corrected p = {self.adjusted['values']:.2g}). They were chosen by value, or "
                "by something that goes with it, such as the person, the hour or the kind of a record; by itself that "
                "does not say that a number was written."
            )
        return text

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain data.

        Returns:
            The attributes, with None for nan, the corrected p-values, the verdict and its explanation.
        """
        return asdict(self) | {
            "averages": _list_numbers(self.averages),
            "standard_errors": _list_numbers(self.standard_errors),
            "adjusted": self.adjusted,
            "kinds": list(self.kinds),
            "selected_by_value": self.is_selected_by_value,
            "missing": self.missing,
            "verdict": self.verdict,
            "explanation": self.explain(),
        }

    @property
    def rows(self) -> list[tuple[str, str, str, str]]:
        """One row for each test: question, p-value, corrected p-value, result."""
        adjusted, rows = self.adjusted, []
        for test in self.tests:
            if test.p_value is None:
                rows.append((QUESTIONS[test.name], "-", "-", "not possible"))
            else:
                result = "yes" if test.name in self.rejected else "not shown"
                rows.append((QUESTIONS[test.name], f"{test.p_value:.3g}", f"{adjusted[test.name]:.3g}", result))
        return rows

    def __str__(self) -> str:
        """The verdict, and a line for each test."""
        width = max(len(row[0]) for row in self.rows)
        lines = [f"{a:{width}}  {b:>8}  {c:>9}  {d}" for a, b, c, d in [HEADER, *self.rows]]
        return "\n".join([self.explain(), *lines])

    def _repr_html_(self) -> str:
        return make_table("Audit of a table", HEADER, self.rows, [self.explain()])


HEADER = ("question", "p-value", "corrected", "result")
"""Names of the columns of `TableAudit.rows`."""


def _list_numbers(rows: Iterable[Iterable[float]]) -> list[list[float | None]]:
    """Numbers as JSON has them, which knows no nan."""
    return [[None if math.isnan(number) else number for number in row] for row in rows]
