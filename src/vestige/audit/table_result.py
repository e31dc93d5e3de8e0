"""The result of an audit of a table: what was seen and declared, p-values, one verdict, and what could not be seen.

Guarantee: a finding follows from the corrected p-values alone, and no sentence calls a table honest; held by
tests/audit/test_table.py and tests/audit/test_declared.py.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from types import MappingProxyType
from typing import Any

from vestige.markup import make_table

_DECLARED = {"removal": "as removals", "correction": "as corrections", "rule": "by a rule"}
_MOST_LISTED = 0.25
"""Where more records than this are named by what nobody can check, they could be any choice."""
_NOTED = 0.99
"""If declared records cost less than this of what values are compared by, nothing is said."""
UNKNOWN = "unknown"
"""The numbering of a table whose ids do not tell in which order records arrived."""
CURATED, BY_EXCUSE, BY_VALUE = "curated", "curated by excuse", "chosen by value"
"""The findings."""
BY_RULE, NOT_SHOWN, INCONCLUSIVE = "chosen by a declared rule", "not shown", "inconclusive"
VERDICTS: Mapping[str, str] = MappingProxyType(
    {
        CURATED: "the pattern of kept and missing records spells numbers in a published code",
        BY_EXCUSE: "so it is with declared records counted as missing; or declared removals depend on values",
        BY_VALUE: "values, or something that goes with them, decided which records stayed; no code was found",
        BY_RULE: "declared rules or corrections account for missing records, and no test finds more",
        NOT_SHOWN: "no test finds that the kept records say anything; that is not a proof",
        INCONCLUSIVE: "too little could be tested to say so",
    }
)
"""What each verdict means."""
ENOUGH = 8
"""With fewer batches than this, a table that is not rejected is called inconclusive; see docs/guides/table.md."""
QUESTIONS: Mapping[str, str] = MappingProxyType(
    {
        "words": "Does the pattern of kept and missing records spell numbers?",
        "averages": "Are the averages of the kept records steadier than those of whole batches?",
        "groups": "Are the regression estimates of kept groups too good?",
        "values": "Did records with other values leave than stayed?",
        "removals": "Had records whose removal is declared other values than those that stayed?",
    }
)
"""What each test asks."""
NULLS: Mapping[str, str] = MappingProxyType(
    {
        "words": "records were kept by any rule that does not use the published code of Vestige",
        "averages": "the kept records say no more than their own batch does, of which they may be any kind of sample",
        "groups": "which groups of a batch were kept does not depend on their values",
        "values": "of the records that were seen, those that left and those that stayed do not differ in their values",
        "removals": "of the records that were seen, those whose removal is declared do not differ in their values",
    }
)
"""The null hypothesis of each test."""
_REASONS = {
    "words": "the pattern of kept and missing records spells numbers in a published code",
    "averages": "the averages of the kept records are steadier from batch to batch than those of whole batches",
    "groups": "the regression estimates of the kept groups vary less from batch to batch than chance allows",
    "values": "of records that arrived one after the other, those that left had other values than those that stayed",
    "removals": "the records whose removal is declared had other values than those that stayed",
}
_EXPLAINED = (
    "A mean of all records that is kept in the choice does this. So do errors that are corrected or removed, a filter, "
    "the same amounts in every batch, as those of a payroll, a quota for each size or kind of record, and a rule that "
    "keeps records near a number. Ask for the rule, and repeat the audit with it declared."
)
"""What makes averages steady, with and without memory."""
_BY_VALUE = (
    "They were chosen by value, or by something that goes with it, such as the person, the hour or the kind of a "
    "record; by itself that does not say that a number was written. Ask for the rule, and repeat the audit with it "
    "declared."
)
_REQUESTED = (
    "They were chosen by value, or by something that goes with it, such as the person. Compare the list with the "
    "requests; if a rule removed them, have it declared as a rule."
)
BLIND_SPOTS = (
    "A number that is written under a secret key: it looks like chance to everyone without the key, and no test finds "
    "it. Ask for the code that ran and its random coins, or for a verified store.",
    "The order of rows, digits that do not matter, and columns that were not named. They can carry numbers too, also "
    "where no record is missing.",
    "At the sizes that were tried: the best of up to five random choices; second moments, regression slopes, quantiles "
    "and parities that the kept records have, rather than spell; a single record that is kept or dropped as a signal.",
    "Layouts that are not published, except for their traces in averages, and batches of irregular length.",
    "Averages, where no snapshot holds records that came after its batch, or where values follow a cycle or a trend so "
    "closely that their averages are steady by themselves. The test is then not possible.",
    "Words, where neither ids nor arrivals count records: then only the order of records that were seen is known.",
    "Whether a declared list is true. A condition on a column is checked on each row that was seen; a list of ids is "
    "what the firm says, and so is what the column holds.",
    "What values say that were changed. Those that change without a declared correction are counted.",
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
        missing: number of positions without a record between its oldest and its newest one, without declared records;
            0 if the order of records is unknown.
        excused: number of such positions of declared records.
    """

    label: str
    records: int
    missing: int
    excused: int


@dataclass(frozen=True, slots=True)
class DeclaredFacts:
    """Counts of the records of one declaration.

    Attributes:
        kind: "removal", "correction" or "rule".
        name: reason or rule.
        is_checked: whether the snapshots show which records these are, and hardly any of them is kept; a list is what
            the firm says.
        records: number of records that it names.
        seen: number of those that some snapshot shows, so that their values are known.
        excused: number of missing positions that it accounts for, without those of declarations before it.
        kept: number of those that are kept, in a batch of which others are missing.
    """

    kind: str
    name: str
    is_checked: bool
    records: int
    seen: int
    excused: int
    kept: int


@dataclass(frozen=True, slots=True)
class TableTest:
    """One test.

    Attributes:
        name: "words", "averages", "groups", "values", or "removals" if there are declared ones; see `QUESTIONS`.
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
        declared: counts of each declaration.
        excused: number of positions that are missing in some snapshot and belong to declared records.
        missing: number of the other positions that are missing in some snapshot.
        listed: share of the records that rules and corrections name which nobody can check, or which are not kept to.
        compared: share that is left of what the test of values compares, without declared records; 1 if none is.
        changed: number of records whose values are not the same in all snapshots, without declared corrections.
        outlived: number of records that were gone while older ones stayed, without declared records.
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
    declared: tuple[DeclaredFacts, ...]
    excused: int
    missing: int
    listed: float
    compared: float
    changed: int
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
    def is_excused(self) -> bool:
        """Whether most of what is missing is declared."""
        return self.excused > 0 and self.excused >= self.missing

    @property
    def is_ruled(self) -> bool:
        """Whether declared rules or corrections account for most of what is declared and missing."""
        return 2 * sum(each.excused for each in self.declared if each.kind != "removal") >= self.excused > 0

    @property
    def is_finding(self) -> bool:
        """Whether a test rejects, so that the verdict is "curated", "curated by excuse" or "chosen by value"."""
        return self.verdict in (CURATED, BY_EXCUSE, BY_VALUE)

    @property
    def verdict(self) -> str:
        """The verdict, one of `VERDICTS`; never a proof of honesty."""
        rejected = set(self.rejected)
        if "words" in rejected and not self.is_excused:
            return CURATED
        if "removals" in rejected or (self.is_excused and rejected - {"values"}):
            return BY_EXCUSE
        if rejected:
            return BY_VALUE
        return self._judge_unrejected()

    def _judge_unrejected(self) -> str:
        """The verdict where no test rejects."""
        if self.numbering in ("ranks", UNKNOWN) or self.listed > _MOST_LISTED:
            return INCONCLUSIVE
        if self.missing:
            is_enough = self.batches >= ENOUGH and self.can_see_averages
        elif self.excused:
            is_enough = self.is_ruled and len(self.snapshots) >= ENOUGH
        else:
            is_enough = True
        if not is_enough:
            return INCONCLUSIVE
        return BY_RULE if self.is_ruled else NOT_SHOWN

    @property
    def can_see_averages(self) -> bool:
        """Whether the test of averages was possible, by which many layouts are found."""
        return any(test.name == "averages" and test.p_value is not None for test in self.tests)

    def explain(self) -> str:
        """Explain the verdict in a few sentences.

        Returns:
            The sentences.
        """
        if self.is_finding:
            text = self._explain_finding()
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
        elif self.listed > _MOST_LISTED:
            text = (
                "Inconclusive: rules and corrections that cannot be checked, or are not kept to, name "
                f"{self.listed:.0%} of the records. No test finds more, but such records could be chosen or changed to "
                "say anything. Ask for the column that the rule looks at, and declare the condition on it."
            )
        elif not self.missing and not self.excused:
            text = (
                "Not shown: no record is missing, so no choice of records says anything. The order of rows, digits "
                "that do not matter, values that are changed and other columns can, and were not tested."
            )
        elif self.verdict == BY_RULE:
            tested = f"no test finds that those that are kept say more (least corrected p = {self._least:.2g})"
            text = (
                f"Chosen by a declared rule: {self._count_excused()}, and {tested}."
                if self.adjusted
                else f"Chosen by a declared rule: {self._count_excused()}, and there is no other choice to test."
            )
        elif not self.missing and not self.is_ruled:
            told = (
                f"Counted as missing, they show nothing (least corrected p = {self._least:.2g}). "
                if self.adjusted
                else ""
            )
            text = (
                f"Inconclusive: {self._count_excused()}, so that nothing is left to test but the declaration itself. "
                f"{told}Compare it with what it rests on, such as the requests of the persons."
            )
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
            text = (
                "Not shown: records are missing, but no test finds that those that are kept say anything (least "
                f"corrected p = {self._least:.2g})."
            )
        return text + self._explain_price(is_counted=self._count_excused()[1:] in text)

    def _explain_finding(self) -> str:
        """Say what was seen, and no more."""
        rejected = self.rejected
        if self.verdict == BY_VALUE:
            advice = _BY_VALUE if "values" in rejected else _EXPLAINED
            return f"Chosen by value: values decided which records stayed: {self._list_reasons(rejected)}. {advice}"
        chosen = [name for name in rejected if name != "values"]
        text = f"{self.verdict.capitalize()}: {self._list_reasons(chosen)}."
        if self.verdict == BY_EXCUSE and set(chosen) - {"removals"}:
            counted = self._count_excused()
            text += f" {counted[0].upper()}{counted[1:]}. This test counts them as missing."
        if "removals" in chosen:
            text += f" {_REQUESTED}"
        elif "words" not in chosen:
            text += f" {_EXPLAINED}"
        return text + (f" Also, {self._list_reasons(['values'])}." if "values" in rejected else "")

    def _list_reasons(self, names: Iterable[str]) -> str:
        """What tests found, each with its p-value."""
        return "; ".join(f"{_REASONS[name]} (corrected p = {self.adjusted[name]:.2g})" for name in names)

    @property
    def _least(self) -> float:
        return min(self.adjusted.values(), default=1.0)

    def _count_excused(self) -> str:
        """How many of the missing records are declared, and as what."""
        total = self.excused + self.missing
        kinds = {kind: sum(each.excused for each in self.declared if each.kind == kind) for kind in _DECLARED}
        listed = ", ".join(f"{count:,} {_DECLARED[kind]}" for kind, count in kinds.items() if count)
        return (
            f"{'all' if not self.missing else f'{self.excused:,} of'} {total:,} missing records are declared ({listed})"
        )

    def _explain_price(self, *, is_counted: bool) -> str:
        """What declared records are, unless it was said, and the power that they cost."""
        if not self.declared:
            return ""
        text = ""
        if not is_counted:
            text = f" Declared: {self._count_excused()}." if self.excused else " Declared: no missing record."
        if not self.compared:
            return text + " Without declared records, no values are left to compare."
        if self.compared < _NOTED:
            text += (
                f" Without declared records, a difference in values must be {self.compared**-0.5:.2f} times as large "
                "to be found."
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
            "rejected": list(self.rejected),
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
