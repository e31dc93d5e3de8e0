"""A plan as a table: in a console, in a notebook and as a data frame, with the same numbers."""

from __future__ import annotations

import pytest

from vestige import Count, Mean
from vestige.planning import Plan, plan
from vestige.planning.table import HEADER


@pytest.fixture(scope="module")
def planned() -> Plan:
    return plan(Mean(), error=0.1)


def test_it_prints_as_a_table_with_its_notes(planned: Plan) -> None:
    lines = str(planned).splitlines()
    assert lines[0].startswith("Plan for mean, 1 column (assuming normal records")
    assert lines[1].split("  ")[0] == HEADER[0]
    assert [line.split("  ")[0] for line in lines[2 : 2 + len(planned.rows)]] == [row.name for row in planned.rows]
    assert repr(planned) == str(planned)
    text = " ".join(" ".join(lines).split())
    for note in {note for row in planned.rows for note in row.notes}:
        assert text.count(note) == 1
    assert max(map(len, lines[2 + len(planned.rows) :])) <= 100


def test_a_notebook_shows_the_same(planned: Plan) -> None:
    shown = planned._repr_html_()
    assert shown.count("<tr>") == len(planned.rows) + 1
    assert "<caption>Plan for mean" in shown


def test_a_data_frame_has_the_numbers(planned: Plan) -> None:
    frame = planned.to_pandas().set_index("name")
    for row in planned.rows:
        assert frame.loc[row.name, "retention"] == row.retention
        assert frame.loc[row.name, "notes"] == row.notes


def test_a_policy_that_rounds_nothing_has_one_row() -> None:
    exact = plan(Count(), records=1_000)
    assert "nothing is rounded" in str(exact)
    assert len(exact.to_pandas()) == 1
