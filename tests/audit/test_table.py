"""Audits of tables: verdicts, corrections, and forms of the same table that must not matter."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from audited_tables import CURATED, HONEST, Table, hashes, make_curated
from vestige import Mean
from vestige.audit import TableAudit, TableSnapshot, TableTest, audit_table, draw_table
from vestige.errors import ParameterError
from vestige.types import Floats


@pytest.fixture(scope="module")
def curated() -> tuple[Table, TableAudit]:
    table = make_curated(Mean(channel="bits"), 1, batch=60)
    return table, table.audit()


def test_a_curated_table(curated: tuple[Table, TableAudit]) -> None:
    table, found = curated
    assert (found.verdict, found.rejected, found.numbering, found.length) == ("curated", ("words",), "ids", 60)
    assert found.explain().startswith("Curated: the pattern of kept and missing records spells numbers")
    assert found.form in ("Mean", "Mean, auto")
    every = np.concatenate([np.asarray(each.values) for each in table.snapshots])
    assert abs(found.spelled[-1][0] - every.mean()) < 4.0 * every.std() / np.sqrt(60)
    assert len(found.patterns) == found.batches == len(found.averages) == 20
    assert found.records == len({id_ for each in table.snapshots for id_ in each.ids})
    assert "question" in str(found)
    assert "<table>" in found._repr_html_()
    assert draw_table(found).get_axes()


def test_the_value_of_a_record_that_is_kept_alone_is_not_shown() -> None:
    """The average of a batch of which one record is kept would be it."""
    values = np.random.default_rng(0).lognormal(3.0, 0.6, 2_000)
    snapshots = []
    for t in np.cumsum(np.random.default_rng(1).integers(60, 90, 20)):
        held = np.arange(max(0, t - 120), t)
        held = held[(held % 60 == 17) | (held >= t // 60 * 60)]
        snapshots.append(TableSnapshot(held + 1, values[held]))
    found = audit_table(snapshots, trials=99)
    assert found.batches
    assert any(np.isnan(found.averages).ravel())
    assert not set(np.ravel(found.averages)) & set(values)
    facts = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert [None] in facts["averages"]
    assert draw_table(found).get_axes()


def test_neither_storage_order_nor_the_names_of_ids_matter(curated: tuple[Table, TableAudit]) -> None:
    table, found = curated
    rng = np.random.default_rng(0)
    shuffled = []
    for each in table.snapshots:
        order = rng.permutation(len(each.ids))
        ids = [f"C-{7 * int(str(each.ids[i])):06}" for i in order]
        shuffled.append(TableSnapshot(ids, np.asarray(each.values)[order]))
    again = audit_table(shuffled, trials=999)
    assert (again.verdict, again.tests, again.spelled) == (found.verdict, found.tests, found.spelled)
    assert again.step == 7
    assert audit_table(shuffled, trials=999) == again
    assert audit_table(shuffled, trials=999, seed=1) != again


def test_arrivals_stand_in_for_ids_that_do_not_count() -> None:
    table = make_curated(Mean(channel="bits"), 2, batch=60, ids=hashes, by_time=True)
    found = table.audit()
    assert (found.verdict, found.numbering) == ("curated", "arrivals")
    rows = [TableSnapshot(each.ids, each.values) for each in table.snapshots]
    without = audit_table(rows, trials=99)
    assert (without.numbering, without.verdict) == ("unknown", "inconclusive"), "then nothing can be read"


def shuffle_window(name: str) -> list[TableSnapshot]:
    """Snapshots of a whole window with a drift, exported in the order of ids that were not given in order."""
    rng = np.random.default_rng(0)
    numbers, values = rng.permutation(30_000), np.cumsum(rng.normal(size=4_000))
    snapshots = []
    for t in np.cumsum(rng.integers(150, 300, 10)) + 300:
        held = np.arange(t - 300, t)
        order = held[np.argsort(numbers[held])]
        snapshots.append(TableSnapshot([f"{numbers[i]}{name}" for i in order], values[order]))
    return snapshots


@pytest.mark.parametrize("name", ["", "-c"], ids=["numbers", "names"])
def test_nothing_is_tested_where_nothing_tells_the_order(name: str) -> None:
    """A window that deletes by age was called selected by value, with records gone while older ones stayed."""
    found = audit_table(shuffle_window(name), trials=199)
    assert (found.numbering, found.missing, found.outlived, found.verdict) == ("unknown", 0, 0, "inconclusive")
    assert all(test.p_value is None for test in found.tests)
    assert "ids do not tell in which order the records arrived" in found.explain()


def test_snapshots_in_the_wrong_order_are_noticed(curated: tuple[Table, TableAudit]) -> None:
    snapshots = curated[0].snapshots
    found = audit_table([*snapshots[:1], *snapshots[9:], *snapshots[1:9]], trials=99)
    assert (found.numbering, found.verdict) == ("unknown", "inconclusive")
    assert "Name the snapshots in the order in which they were taken" in found.explain()


def test_honest_tables_of_several_kinds() -> None:
    complete = HONEST["window"](0).audit()
    assert complete.verdict == "not shown"
    assert complete.explain().startswith("Not shown: no record is missing")
    untested = "The order of rows, digits that do not matter, values that are changed and other columns can"
    assert untested in complete.explain()
    assert all(test.p_value is None for test in complete.tests)
    hashed = HONEST["window, hashed ids"](0).audit()
    assert hashed.verdict == "inconclusive"
    by_value = HONEST["large amounts deleted later"](0).audit()
    assert (by_value.verdict, by_value.rejected, by_value.is_finding) == ("chosen by value", ("values",), True)
    assert by_value.explain().startswith(
        "Chosen by value: values decided which records stayed: of records that arrived"
    )
    assert "by itself that does not say that a number was written" in by_value.explain()
    nothing = tuple(TableTest(test.name, None) for test in by_value.tests)
    uncounted = replace(by_value, numbering="ranks", tests=nothing)
    assert (uncounted.verdict, uncounted.is_finding) == ("inconclusive", False), "gaps that nobody can see"
    assert uncounted.explain().startswith("Inconclusive: ids do not count records")
    assert "honest" not in (complete.explain() + hashed.explain() + by_value.explain()).lower()


def test_few_snapshots_are_inconclusive() -> None:
    table = HONEST["random half on arrival"](0)
    found = audit_table(table.snapshots[:3], trials=99)
    assert found.verdict == "inconclusive"
    assert "batches that share no records, too few for a test" in found.explain()


def test_the_correction_is_holms(curated: tuple[Table, TableAudit]) -> None:
    tests = tuple(
        TableTest(*each) for each in (("words", 0.02), ("averages", 0.004), ("groups", None), ("values", 0.5))
    )
    found = replace(curated[1], tests=tests, level=0.03)
    assert found.adjusted == pytest.approx({"averages": 0.012, "words": 0.04, "values": 0.5})
    assert (found.rejected, found.verdict) == (("averages",), "chosen by value")
    assert all(text in found.explain() for text in ("a payroll", "a quota", "near a number", "errors"))
    assert replace(found, level=0.01).verdict == "not shown"


def test_missing_values_are_filled_and_counted() -> None:
    table = HONEST["random half on arrival"](1)
    values = [np.array(each.values, np.float64) for each in table.snapshots]
    values[0][:3] = np.nan
    rows = [TableSnapshot(each.ids, value) for each, value in zip(table.snapshots, values, strict=True)]
    assert audit_table(rows, trials=99).filled == 3


@pytest.mark.parametrize(
    ("snapshots", "text"),
    [
        ([], "snapshots is empty"),
        ("no", "snapshots is not a list of snapshots"),
        ([TableSnapshot([1, 1], [1.0, 2.0])], "snapshot 1: ids occur more than once"),
        ([TableSnapshot([1, 2], [1.0, 2.0, 3.0])], "has 2 ids and 3 rows of values"),
        ([TableSnapshot([1], [1.0]), TableSnapshot([1], [[1.0, 2.0]])], "has 2 columns, not 1"),
        ([TableSnapshot([1], [np.inf])], "has infinite values"),
        ([TableSnapshot([1], [np.nan])], "a column has no numbers"),
        ([TableSnapshot([1, 2], [1.0, 2.0], [1.0])], "arrived does not have one time for each row"),
    ],
)
def test_bad_snapshots_are_refused(snapshots: list[TableSnapshot], text: str) -> None:
    with pytest.raises(ParameterError, match=text):
        audit_table(snapshots)


def test_bad_arguments_are_refused(curated: tuple[Table, TableAudit]) -> None:
    shown = curated[0].snapshots
    for options, text in (({"level": 2.0}, "level=2"), ({"trials": 5}, "trials=5"), ({"declared": 7}, "declared=7")):
        with pytest.raises(ParameterError, match=text):
            audit_table(shown, **options)
    with pytest.raises(ParameterError, match="nothing to draw"):
        draw_table(HONEST["window"](0).audit(trials=99))


def test_an_empty_snapshot_is_a_fact_not_an_error() -> None:
    found = audit_table([TableSnapshot([], []), TableSnapshot([1, 2], [1.0, 2.0])], trials=99)
    assert [each.records for each in found.snapshots] == [0, 2]
    assert found.verdict == "not shown"


def test_curated_layouts_are_listed() -> None:
    assert len(HONEST) + len(CURATED) == 40


@pytest.mark.parametrize("column", [np.full(2_000, 1e200), np.arange(1.0, 2_001.0) * 1e-320])
def test_values_that_cannot_be_computed_with_are_no_evidence(column: Floats) -> None:
    table = HONEST["random half on arrival"](0)
    snapshots = []
    for each in table.snapshots:
        first = np.asarray(each.values)[:, 0]
        snapshots.append(TableSnapshot(each.ids, np.column_stack((first, column[: len(first)]))))
    with np.errstate(all="ignore"):
        found = audit_table(snapshots, trials=99)
    assert not found.is_finding
    assert all(test.p_value is None or test.p_value > 0.0 for test in found.tests)
