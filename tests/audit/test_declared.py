"""Declared exceptions: honest firms with rules are not accused, and an excuse clears nobody who chose.

The honest firms hold batches of 120 amounts, archive half of each at random, and correct or remove some by a rule.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import cast, get_args

import numpy as np
import pytest
from scipy.stats import binom

from audited_tables import HONEST, Ids, Table, make_curated, plain, tens, thirds
from vestige import Mean
from vestige.audit import DeclaredRecords, TableAudit, TableSnapshot, audit_table
from vestige.audit.declared import Kind
from vestige.audit.numbering import find_missing
from vestige.errors import ParameterError
from vestige.types import Bools, Floats, Ints

SIZE = 120


@dataclass(frozen=True)
class Firm:
    """What a firm does with each record.

    Attributes:
        arrived: values on arrival.
        archived: values once the batch is archived.
        leaves: which records the rule removes then.
    """

    arrived: Floats
    archived: Floats
    leaves: Bools


def correct_errors(rng: np.random.Generator, count: int) -> Firm:
    """One amount in a hundred is typed a hundred times too large, and put right at archiving."""
    amounts = rng.lognormal(3.0, 0.6, count)
    return Firm(np.where(rng.random(count) < 0.01, 100.0, 1.0) * amounts, amounts, np.zeros(count, np.bool_))


def delete_errors(rng: np.random.Generator, count: int) -> Firm:
    firm = correct_errors(rng, count)
    return Firm(firm.arrived, firm.arrived, firm.arrived != firm.archived)


def cancel_trades(rng: np.random.Generator, count: int) -> Firm:
    """One in twenty, mostly large ones."""
    leaves = rng.random(count) < 0.05
    amounts = np.where(leaves, rng.lognormal(5.0, 1.0, count), rng.lognormal(3.0, 0.6, count))
    return Firm(amounts, amounts, leaves)


def keep_subscribers(rng: np.random.Generator, count: int) -> Firm:
    """Two in five, who spend less and more evenly."""
    leaves = rng.random(count) < 0.6
    amounts = np.where(leaves, rng.lognormal(3.5, 1.0, count), rng.lognormal(3.0, 0.3, count))
    return Firm(amounts, amounts, leaves)


def move_extremes(rng: np.random.Generator, count: int) -> Firm:
    """Rows far from the usual amount go to another table."""
    normal = rng.normal(size=count)
    amounts = np.exp(3.0 + 0.6 * normal)
    return Firm(amounts, amounts, np.abs(normal) > 1.2)


Make = Callable[[np.random.Generator, int], Firm]
FIRMS: dict[str, tuple[Make, Kind, bool]] = {
    "errors corrected": (correct_errors, "correction", False),
    "errors deleted": (delete_errors, "rule", False),
    "cancelled trades": (cancel_trades, "rule", False),
    "subscribers only": (keep_subscribers, "rule", True),
    "extremes moved": (move_extremes, "rule", True),
}
"""Firm, kind of its declaration, and whether a column of the table shows the rule."""


def play(make: Make, seed: int, kind: Kind, *, is_checked: bool) -> tuple[list[TableSnapshot], list[DeclaredRecords]]:
    """Twenty snapshots, and what the firm declares: lists have no record of the batch that is still open."""
    rng = np.random.default_rng([seed, 21])
    times = np.cumsum(rng.integers(SIZE, 3 * SIZE // 2 + 1, 20))
    count = int(times[-1])
    firm, rounds, stays = make(rng, count), np.arange(1, count + 1), rng.random(count) < 0.5
    snapshots, named = [], set[int]()
    for t in times:
        border = t // SIZE * SIZE
        is_open = rounds > border
        held = (rounds > border - SIZE) & (rounds <= t) & (is_open | (stays & ~firm.leaves))
        snapshots.append(TableSnapshot(rounds[held].tolist(), np.where(is_open, firm.arrived, firm.archived)[held]))
        named |= set(rounds[held & firm.leaves].tolist()) if is_checked else set()
    if not is_checked:
        changed = stays & (firm.arrived != firm.archived)
        named = set(rounds[(firm.leaves | changed) & (rounds <= border)].tolist())
    return snapshots, [DeclaredRecords(kind, sorted(named), "declared", is_checked=is_checked)]


def audit_firm(name: str, seed: int, trials: int = 999) -> TableAudit:
    make, kind, is_checked = FIRMS[name]
    snapshots, declared = play(make, seed, kind, is_checked=is_checked)
    return audit_table(snapshots, declared=declared, trials=trials, seed=seed)


def list_gaps(table: Table) -> Ints:
    return np.unique(np.concatenate([find_missing(np.sort(np.array(each.ids, np.int64))) for each in table.snapshots]))


@pytest.mark.parametrize("name", list(FIRMS))
def test_an_honest_firm_that_declares_is_not_accused(name: str) -> None:
    found = audit_firm(name, 0)
    verdict = "not shown" if name == "errors corrected" else "chosen by a declared rule"
    assert (found.verdict, found.is_finding) == (verdict, False)
    assert [each.name for each in found.declared] == ["declared"]
    assert found.declared[0].excused == found.excused
    assert bool(found.excused) == (name != "errors corrected"), "corrected rows stay"


@pytest.mark.slow(20)
@pytest.mark.parametrize("name", list(FIRMS))
def test_honest_firms_that_declare_are_seldom_accused(name: str) -> None:
    """At least 97 of 100 are promised; a count below 15 of 16 has a probability under 0.1% at a rate of 97%."""
    good = [not audit_firm(name, seed).is_finding for seed in range(100, 116)]
    assert sum(good) >= binom.ppf(0.001, len(good), 0.97)


def test_a_firm_that_does_not_declare_is_told_what_was_seen_and_no_more() -> None:
    snapshots, declared = play(delete_errors, 0, "rule", is_checked=False)
    found = audit_table(snapshots, trials=999)
    assert (found.verdict, found.is_finding) == ("chosen by value", True)
    assert found.explain().startswith("Chosen by value: values decided which records stayed")
    assert "errors that are corrected or removed" in found.explain()
    assert "urated" not in found.explain()
    assert not audit_table(snapshots, declared=declared, trials=999).is_finding


@pytest.fixture(scope="module")
def written() -> Table:
    return make_curated(Mean(channel="bits"), 1, batch=60)


@pytest.mark.parametrize("kind", ["removal", "correction", "rule"])
def test_an_excuse_for_every_gap_does_not_clear_a_code(written: Table, kind: str) -> None:
    gaps = list_gaps(written)
    declared = [DeclaredRecords(cast(Kind, kind), gaps.tolist(), "asked")]
    found = audit_table(written.snapshots, declared=declared)
    assert (found.verdict, found.is_finding, found.excused, found.missing) == ("curated by excuse", True, len(gaps), 0)
    assert f"All {len(gaps)} missing records are declared" in found.explain()
    assert "words" in found.rejected


def test_an_excuse_for_few_gaps_leaves_the_verdict_as_it_was(written: Table) -> None:
    gaps = list_gaps(written)
    declared = [DeclaredRecords("removal", gaps[: len(gaps) // 5].tolist())]
    found = audit_table(written.snapshots, declared=declared)
    assert found.verdict == "curated"
    assert f"Declared: {len(gaps) // 5} of {len(gaps)} missing records" in found.explain()


def test_an_excuse_does_not_clear_averages() -> None:
    """Requests do not look at values; a list of a rule may, but one of every gap could be any choice."""
    table = make_curated(Mean(channel="average"), 1, batch=SIZE)
    gaps = list_gaps(table).tolist()
    requested, ruled = (
        audit_table(table.snapshots, declared=[DeclaredRecords(kind, gaps)]) for kind in get_args(Kind)[::2]
    )
    assert (requested.verdict, "averages" in requested.rejected) == ("curated by excuse", True)
    assert ruled.verdict in ("curated by excuse", "inconclusive")


def list_kept(table: Table) -> list[int]:
    """The records of closed batches that some snapshot holds."""
    rounds = (np.array(each.ids, np.int64) for each in table.snapshots)
    return sorted({int(n) for held in rounds for n in held[held <= held.max() // SIZE * SIZE]})


def test_corrections_of_all_that_is_kept_do_not_clear_averages() -> None:
    """Later records far from the kept ones are left out for their sake, which made every average unlike the rest."""
    table = make_curated(Mean(channel="average"), 1, batch=SIZE)
    found = audit_table(table.snapshots, declared=[DeclaredRecords("correction", list_kept(table))], trials=999)
    assert (found.verdict, found.rejected, found.listed) == ("chosen by value", ("averages",), 1.0)


def test_a_short_list_does_not_hide_averages_of_skewed_amounts() -> None:
    table = make_curated(Mean(channel="average"), 1, batch=SIZE)
    gaps = list_gaps(table)
    amounts = {n: v for each in table.snapshots for n, v in zip(each.ids, np.ravel(each.values), strict=True)}
    usual = sorted((n for n in map(int, gaps) if str(n) in amounts), key=lambda n: abs(amounts[str(n)] - 24.0))
    declared = [DeclaredRecords("rule", usual[: len(usual) // 3])]
    found = audit_table(table.snapshots, declared=declared, trials=1_999)
    assert found.listed < 0.25
    assert "averages" in found.rejected


def test_a_rule_that_is_not_kept_to_is_no_better_than_a_list() -> None:
    """It bars nearly all records, of which half are kept, so that hardly a later one would be left to compare."""
    table = make_curated(Mean(channel="average"), 1, batch=SIZE)
    rows = [pair for each in table.snapshots for pair in zip(each.ids, np.ravel(each.values), strict=True)]
    declared = [DeclaredRecords("rule", [n for n, v in rows if v < 60.0], "amount >= 60", is_checked=True)]
    found = audit_table(table.snapshots, declared=declared, trials=999)
    assert (found.verdict, found.rejected, found.listed > 0.25) == ("chosen by value", ("averages",), True)
    assert not found.declared[0].is_checked
    assert found.declared[0].kept > 100


def test_corrections_of_most_records_could_say_anything_where_none_is_missing() -> None:
    rows = np.random.default_rng(0).normal(size=(10, 60))
    days = [TableSnapshot(list(range(60 * i, 60 * i + 60)), values) for i, values in enumerate(rows)]
    found = audit_table(days, declared=[DeclaredRecords("correction", list(range(300)))], trials=99)
    assert (found.verdict, found.listed) == ("inconclusive", 0.5)
    assert "not kept to, name 50% of the records" in found.explain()
    assert audit_table(days, trials=99).verdict == "not shown"


def test_removals_that_depend_on_values_are_no_requests() -> None:
    snapshots, declared = play(move_extremes, 0, "removal", is_checked=False)
    found = audit_table(snapshots, declared=declared, trials=999)
    assert (found.verdict, found.rejected) == ("curated by excuse", ("removals",))
    assert "if a rule removed them, have it declared as a rule" in found.explain()


def test_removals_that_do_not_are_counted_and_cost_power() -> None:
    rng = np.random.default_rng(3)
    table = HONEST["random tenth leaves"](0)
    gone = list_gaps(table)
    declared = [DeclaredRecords("removal", gone[rng.random(len(gone)) < 0.5].tolist(), "asked")]
    found = audit_table(table.snapshots, declared=declared, trials=999)
    assert not found.is_finding
    assert {test.name: test.p_value for test in found.tests}["removals"] is not None
    assert 0.3 < found.compared < 0.8
    assert "a difference in values must be" in found.explain()
    assert sum(each.excused for each in found.snapshots) >= found.excused > 0


def test_only_errors_that_stayed_are_corrected_and_those_that_left_accuse_nobody() -> None:
    """Left out, they made the others larger: of one amount in eight that is wrong, a list of corrections has half."""

    def correct_many(rng: np.random.Generator, count: int) -> Firm:
        firm = correct_errors(rng, count)
        return replace(firm, arrived=np.where(rng.random(count) < 0.12, 100.0, 1.0) * firm.archived)

    snapshots, corrected = play(correct_many, 0, "correction", is_checked=False)
    rounds = sorted({int(str(id_)) for each in snapshots for id_ in each.ids})
    asked = DeclaredRecords("removal", [n for n in rounds if str(n) not in corrected[0].ids and n % 3 == 0], "asked")
    for declared in (corrected, [*corrected, asked]):
        found = audit_table(snapshots, declared=declared, trials=499)
        assert (found.rejected, found.verdict) == ((), "not shown")


def test_more_errors_may_come_later_than_are_listed() -> None:
    """Seven errors are corrected, and nineteen are among later records; with one left, no average could be tested."""
    assert audit_firm("errors corrected", 216, trials=199).can_see_averages


def test_nothing_is_cleared_if_everything_is_excused() -> None:
    found = HONEST["people who asked, documented"](3).audit()
    assert (found.missing, found.outlived, found.verdict) == (0, 0, "inconclusive")
    assert "nothing is left to test but the declaration itself" in found.explain()
    assert "no values are left to compare" in found.explain()


def test_lists_that_take_most_records_could_be_any_choice() -> None:
    snapshots, declared = play(keep_subscribers, 0, "rule", is_checked=False)
    found = audit_table(snapshots, declared=declared, trials=999)
    assert (found.verdict, found.listed > 0.25) == ("inconclusive", True)
    assert "Ask for the column that the rule looks at" in found.explain()


def test_corrections_and_changes_without_one_are_counted() -> None:
    snapshots, declared = play(correct_errors, 0, "correction", is_checked=False)
    assert audit_table(snapshots, declared=declared, trials=99).changed == 0
    assert audit_table(snapshots, trials=99).changed > 3


@pytest.mark.parametrize("ids", [plain, tens, thirds])
def test_declared_records_count_wherever_ids_have_gaps_by_design(ids: Ids) -> None:
    """Half of the records leave on arrival, so that no snapshot ever shows them; the list has a header."""
    table = HONEST["random half on arrival"](0)
    rounds = np.arange(1, 20_000)
    names = np.array(ids(np.random.default_rng(0), rounds))
    snapshots = [TableSnapshot(names[np.array(each.ids, int) - 1].tolist(), each.values) for each in table.snapshots]
    shown = np.unique([id_ for each in snapshots for id_ in each.ids])
    declared = [DeclaredRecords("removal", ["customer_no", *np.setdiff1d(names, shown)])]
    found = audit_table(snapshots, declared=declared, trials=99)
    assert (found.missing, found.verdict, found.declared[0].seen) == (0, "inconclusive", 0)


def test_the_first_declaration_that_names_a_record_counts() -> None:
    table = HONEST["random tenth leaves"](0)
    gaps = list_gaps(table)
    declared = [DeclaredRecords("rule", gaps[:50].tolist()), DeclaredRecords("removal", gaps[:80].tolist())]
    found = audit_table(table.snapshots, declared=declared, trials=99)
    assert [each.excused for each in found.declared] == [50, 30]
    assert (found.excused, found.missing) == (80, len(gaps) - 80)


def test_verdicts_follow_from_what_rejects(written: Table) -> None:
    found = audit_table(written.snapshots, declared=[DeclaredRecords("rule", [1])], trials=99)
    whole = replace(found, tests=(), missing=0, excused=9, declared=(replace(found.declared[0], excused=9),))
    assert whole.verdict == "chosen by a declared rule"
    assert "there is no other choice to test" in whole.explain()
    few = replace(whole, snapshots=whole.snapshots[:7])
    assert few.verdict == "inconclusive", "too few snapshots"


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"kind": "excuse", "ids": []}, "kind='excuse'"),
        ({"kind": "rule", "ids": "17"}, "ids='17' is not a list of ids"),
    ],
)
def test_bad_declarations_are_refused(options: dict[str, object], text: str) -> None:
    with pytest.raises(ParameterError, match=text):
        DeclaredRecords(**options)  # type: ignore[arg-type]
