"""Was this table curated? A test from outside, on snapshots of anybody's table.

Ids or arrival order give positions (`vestige.audit.numbering`), presence gives the borders of batches that fit it best
(`vestige.audit.schedule`), and four tests ask four questions, each with a null hypothesis of its own; their p-values
are corrected together (Holm 1979), so that the chance of any false rejection is at most the level.
Guarantee: held by tests/audit/test_table.py and, for power, by tests/audit/test_table_power.py.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from vestige.audit.declared import DeclaredRecords
from vestige.audit.decoys import Decoys, Spelling, find_words
from vestige.audit.groups import group_p_value
from vestige.audit.numbering import list_numberings
from vestige.audit.permutation import Batch
from vestige.audit.selection import Comparison, selection_p_value
from vestige.audit.steadiness import steadiness_p_value
from vestige.audit.table_data import TableData, TableSnapshot
from vestige.audit.table_result import QUESTIONS, UNKNOWN, TableAudit, TableTest
from vestige.random.generators import make_generator
from vestige.types import Floats
from vestige.validation import check_float, check_int

_SHOWN = 64
"""Number of positions of a batch that a figure shows."""
_LEAST_AVERAGED = 2
"""The average of fewer records is the value of a record, which is not shown."""


def audit_table(
    snapshots: Sequence[TableSnapshot],
    *,
    declared: Sequence[DeclaredRecords] = (),
    level: float = 0.01,
    trials: int = 1_999,
    seed: int = 0,
) -> TableAudit:
    """Test whether the records of a table were chosen to say something.

    Args:
        snapshots: the table at several moments, in order of time.
        declared: records of which the firm declares why they are missing or were changed. They are counted and tested:
            no declaration hides a code, removals must not depend on values, and what is left is tested by itself.
        level: family-wise level: the largest chance that any test rejects although all null hypotheses are true.
        trials: number of permutations, and of decoys.
        seed: seed that makes the result reproducible.

    Returns:
        What was seen, the p-values, and a verdict.

    Raises:
        ParameterError: snapshots do not match, an id occurs twice, or an argument is out of range.

    Example:
        >>> import numpy as np
        >>> from vestige import Mean, Stream
        >>> stream, days = Stream(Mean(), retention=96, seed=0), []
        >>> for day in np.random.default_rng(0).normal(size=(20, 50)):
        ...     _ = stream.extend(day)
        ...     days.append(TableSnapshot(stream.retained.rounds.tolist(), stream.retained.values))
        >>> audit_table(days, trials=499, level=0.05).verdict
        'chosen by value'
    """
    check_int("trials", trials, 99, 10**6)
    check_float("level", level, lambda number: 0.0 < number < 1.0, "between 0 and 1, such as 0.01")
    table = TableData(snapshots, declared)
    rng = make_generator(check_int("seed", seed, 0), "table")
    numberings = list_numberings(table.numbers, table.order, table.rows, table.unseen, table.numbered)
    comparison = table.compare(numberings[0])
    is_ordered = table.has_order and comparison.is_ordered
    if not is_ordered:
        numberings, comparison = numberings[:1], replace(comparison, cohorts=(), outlived=0)
    tried = [(each, fit) for each in numberings for fit in table.find_schedules(each)] if is_ordered else []
    best = [next(each for each in tried if each[0] is numbering) for numbering in numberings] if tried else []
    laid = [table.lay_out(*one) for one in best]
    held = [[each for each in one if each.batch.has_choice] for one in laid]
    listed = table.measure_listed(numberings[0], held[0] if held else [])
    chosen = [[each.batch for each in one] for one in held]
    batches = max(chosen, key=len, default=[])
    p_values: dict[str, float | None] = dict.fromkeys(QUESTIONS)
    spelling = Spelling(None)
    if batches:
        laid_out = [([one.batch for one in table.lay_out(*each)], each[1].origin is not None) for each in tried]
        spelling = find_words(laid_out, Decoys(trials, rng))
        p_values["words"] = spelling.p_value
        later = [[each.later for each in one] for one in held]
        p_values["averages"] = _correct(
            [steadiness_p_value(*each, trials, rng, listed=listed) for each in zip(chosen, later, strict=True)]
        )
        if table.columns > 1:
            p_values["groups"] = _correct([group_p_value(one, trials, rng) for one in chosen])
    compared, removed, whole = [comparison], list[Comparison](), comparison
    if table.declared and is_ordered:
        whole = table.compare(numberings[0], without=())
        removed = [table.compare_removals(numberings[0], without=("correction", "rule"))]
        if any(each.kind == "correction" for each in table.declared):
            compared.append(table.compare(numberings[0], without=("removal", "rule")))
            removed.append(table.compare_removals(numberings[0], without=["rule"]))
    p_values["values"], p_values["removals"] = (_test_values(each, trials, rng) for each in (compared, removed))
    if not any(each.kind == "removal" for each in table.declared):
        p_values.pop("removals")
    facts, excused, missing = table.list_declared(numberings[0], laid[0] if laid else [], is_ordered=is_ordered)
    return TableAudit(
        snapshots=table.list_facts(numberings[0], is_ordered=is_ordered),
        records=len(table.order),
        numbering=numberings[0].name if is_ordered else UNKNOWN,
        step=numberings[0].step,
        batches=len(batches),
        length=len(batches[0].present) if batches else 0,
        declared=facts,
        excused=excused,
        missing=missing,
        listed=listed,
        compared=comparison.weight / whole.weight if whole.weight else 1.0,
        changed=table.count_changed(),
        outlived=comparison.outlived,
        returned=comparison.returned,
        late=comparison.late,
        filled=table.filled,
        tests=tuple(TableTest(name, p) for name, p in p_values.items()),
        level=level,
        trials=trials,
        form=spelling.form,
        spelled=() if spelling.numbers is None else tuple(tuple(map(float, row)) for row in spelling.numbers),
        averages=tuple(_find_averages(batch) for batch in batches),
        standard_errors=tuple(_find_errors(batch) for batch in batches),
        patterns=tuple("".join("01"[int(kept)] for kept in batch.present[-_SHOWN:]) for batch in batches),
    )


def _find_averages(batch: Batch) -> tuple[float, ...]:
    """Averages of the kept records of a batch; nan for one record, whose values they would be."""
    if len(batch.values) < _LEAST_AVERAGED:
        return tuple(math.nan for _ in batch.values[0])
    return tuple(map(float, batch.values.mean(axis=0)))


def _find_errors(batch: Batch) -> tuple[float, ...]:
    """Standard errors of the averages of a batch; nan for one record."""
    count = len(batch.values)
    if count < _LEAST_AVERAGED:
        return tuple(math.nan for _ in batch.values[0])
    errors: Floats = batch.values.std(axis=0, ddof=1) / math.sqrt(count)
    return tuple(map(float, errors))


def _test_values(comparisons: Sequence[Comparison], trials: int, rng: np.random.Generator) -> float | None:
    """The larger p-value without corrected records and with them, since only those that stayed may be corrected."""
    p_values = [selection_p_value(each.cohorts, trials, rng) for each in comparisons]
    possible = [p for p in p_values if p is not None]
    return max(possible) if possible and len(possible) == len(p_values) else None


def _correct(p_values: Sequence[float | None]) -> float | None:
    """Bonferroni's correction for one test in several numberings."""
    possible = [p for p in p_values if p is not None]
    return min(1.0, min(possible) * len(possible)) if possible else None
