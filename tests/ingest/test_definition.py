"""Definitions: plain data and stored terms give the streams that they came from, and what does not fit is refused."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from vestige import open_store
from vestige.errors import ParameterError
from vestige.ingest.definition import Definition, name_fields

DEFINITIONS = [
    {"name": "a", "columns": ["x"], "retention": 96},
    {"name": "b", "columns": ["x", "y"], "statistic": "covariance", "retention": 512, "by": ["shop"], "seed": 3},
    {"name": "c", "columns": ["x"], "targets": ["y"], "statistic": "regression", "max_age": "30d", "time": "at"},
    {"name": "d", "metrics": ["x:mean,sum", "s:shares[ok,failed]"], "retention": 1024, "by": ["p", "q"]},
    {"name": "e", "columns": ["x"], "epsilon": 1.0, "bounds": ["x=10"], "retention": 1024, "subject": "who"},
    {"name": "f", "columns": ["x"], "window": True, "retention": 96, "max_age": "90s", "lateness": "7.5s"},
]


@pytest.mark.parametrize("data", DEFINITIONS, ids=lambda data: data["name"])
def test_plain_data_are_read_back(data: dict[str, object]) -> None:
    definition = Definition.from_data(data)
    definition.check()
    assert Definition.from_data(definition.to_data()) == definition


@pytest.mark.parametrize("data", DEFINITIONS, ids=lambda data: data["name"])
def test_terms_in_a_store_give_the_streams_that_they_came_from(data: dict[str, object]) -> None:
    definition = Definition.from_data(data)
    policy = definition.make_policy()
    name = definition.names.find_name("DE")
    with open_store("memory:") as store:
        definition.make_stream(policy, store, name)
        store.flush()
        terms = definition.make_stream(policy).terms
        found = Definition.from_terms(name, replace(terms, about=definition.about))
    again = found.make_stream(found.make_policy()).terms
    assert replace(again, about=found.about).text == replace(terms, about=definition.about).text
    assert found.names.find_name("DE") == name


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"colums": ["x"]}, "'colums' is not a part of a definition; did you mean columns?"),
        ({"retention": "96"}, "retention='96' is not a whole number"),
        ({"retention": True}, "retention=True is not a whole number"),
        ({"max_age": 30}, "max_age=30 is not a duration"),
        ({"max_age": "30"}, "max_age: '30' is not a duration"),
        ({"columns": [1]}, "columns is not a text or a list of texts"),
        ({"window": 1}, "window=1 is not true or false"),
        ({"statistic": "avg"}, "statistic='avg' is not known; use one of"),
        ({"epsilon": "1"}, "epsilon='1' is not a number"),
    ],
)
def test_what_is_not_of_its_kind_is_refused(data: dict[str, object], message: str) -> None:
    with pytest.raises(ParameterError) as caught:
        Definition.from_data(data)
    assert message in str(caught.value)


def test_parts_that_do_not_fit_together_are_refused_by_their_names() -> None:
    late = Definition.from_data({"columns": "x", "max_age": "1d", "lateness": "2d"})
    with pytest.raises(ParameterError) as caught:
        late.check()
    assert name_fields(str(caught.value)).startswith("lateness 2 days is not below max_age 1 day")
    assert Definition(columns=("x",), max_age=timedelta(days=1)).to_data() == {"columns": ["x"], "max_age": "86400s"}
