"""Metrics as text are what they say, or an error says how to write them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from vestige import Bundle, Count, Distinct, Histogram, LinearRegression, Mean, Moments, ParameterError, Ratio, Shares
from vestige.policies.metrics import (
    join_options,
    list_columns,
    list_uncertain,
    list_undeclared,
    parse_metrics,
    quote_column,
)


def test_metrics_are_what_they_say() -> None:
    found = parse_metrics(["amount:mean,moments", "rating : mean", "amount,rating:regression", "amount:covariance"])
    assert [(names, [policy.name for policy in policies]) for names, policies in found.groups] == [
        (("amount",), ["mean", "moments", "covariance"]),
        (("rating",), ["mean"]),
        (("amount", "rating"), ["regression"]),
    ]
    assert parse_metrics(["at 9:00:histogram[1, 2.5,4],mean"]) == Bundle(
        {"at 9:00": [Histogram((1.0, 2.5, 4.0)), Mean()]}
    )
    assert parse_metrics(["a:mean"], 9.0) == Bundle({"a": Mean()}, 9.0)
    assert parse_metrics(["a,b,c:regression", "at 9:00:moments"]) == Bundle(
        {("a", "b", "c"): LinearRegression(2), "at 9:00": Moments()}
    )


def test_categories_are_declared_or_given() -> None:
    odd = ("ok", 'he said "no"', "a, b", "c]")
    text = f"status:shares[{join_options(odd)}],count"
    assert parse_metrics([text]) == Bundle({"status": [Shares(odd), Count()]})
    assert parse_metrics(["b:shares[ x, y ]"]) == Bundle({"b": Shares(("x", "y"))})
    assert list_undeclared([text, "b:mean", "c:mean,shares"]) == ("c",)
    assert list_columns([text, "b,c:regression", "b:mean"]) == ("status", "b", "c")
    found = parse_metrics(["a:mean", "c:shares"], None, {"c": odd})
    assert found == Bundle({"a": Mean(), "c": Shares(odd)})
    assert found.name_categories() == {"c": odd}
    rows = found.draw_rows(np.random.default_rng(0), 50, 0.0)
    found.check_rows(rows)
    with pytest.raises(ParameterError, match="'c:mean' is of numbers"):
        Bundle({"c": [Mean(), Shares(odd)]}).name_categories()


def test_distinct_values_may_be_texts() -> None:
    texts = ["email:distinct,count", "amount:distinct,mean", "name:distinct[text,256]", "shop,name:covariance"]
    assert list_uncertain(texts[:3]) == ("email",)
    assert list_uncertain(texts) == ("email",)
    found = parse_metrics(texts[:3], None, {"email": ()})
    assert found.name_categories() == {"email": (), "name": ()}
    assert found.policies["name:distinct"] == Distinct(256, has_texts=True)
    assert not found.policies["amount:distinct"].name_categories(("amount",))
    for others, problem in (
        ([Mean()], r"'c:mean' is of numbers, but distinct\[text\] reads the column as text; leave one of them out$"),
        ([Shares(("a",))], "'c:distinct' reads the column as text in another way|'c:shares' reads"),
    ):
        with pytest.raises(ParameterError, match=problem):
            Bundle({"c": [Distinct(has_texts=True), *others]}).name_categories()


@pytest.mark.parametrize("name", ["a,b", "a[0]", 'say "a"', "a:b", " a", "a, b:mean,[x]", '"', "5' pipe"])
def test_the_name_of_a_column_may_be_in_quotes(name: str) -> None:
    written = quote_column(name)
    assert parse_metrics([f"{written}:mean", f"{written} , c:ratio", f"c,{written}:ratio"]) == Bundle(
        {name: Mean(), (name, "c"): Ratio(), ("c", name): Ratio()}
    )
    assert list_columns([f'{written}:shares["x, y",z[]']) == (name,)


def test_a_quote_inside_a_name_is_part_of_it() -> None:
    assert list_columns(['5" pipe:mean', '"a:mean', 'a,b" c:ratio']) == ('5" pipe', '"a', "a", 'b" c')


@pytest.mark.parametrize("wrong", [None, 1, "a:mean", [1], [None], {"a": "mean"}])
def test_what_is_not_a_list_of_texts_is_refused(wrong: Any) -> None:
    for call in (parse_metrics, list_columns, list_undeclared):
        with pytest.raises(ParameterError, match="texts is not a list of metrics"):
            call(wrong)
    with pytest.raises(ParameterError, match="categories"):
        parse_metrics(["a:shares"], None, wrong or {"a": 1})


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("amount", "is not a column, a colon and statistics; write it as amount:mean"),
        ("amount:", "is not a column, a colon"),
        (":mean", "is not a column, a colon"),
        ("a,:mean", "is not a column, a colon"),
        ("amount:mean moments", "is not a column, a colon"),
        ("amount:mean[3", "is not a column, a colon"),
        ("amount:mean[3]", "--statistic mean does not take options such as '3'"),
        ("amount:histogram", r"histogram needs the edges of its bins; write it as histogram\[0,10,20\]"),
        ("amount:mode", "the statistic 'mode' is unknown; use one of mean, "),
        ("amount:median", "the statistic 'median' is unknown; use p50$"),
        ("amount:MIN", "the statistic 'MIN' is unknown; use extremes"),
        ("amount:mean,max", "the statistic 'max' is unknown; use extremes"),
        ("amount:std", "the statistic 'std' is unknown; use moments"),
        ("amount:var", "the statistic 'var' is unknown; use moments"),
        ("amount:variance", "the statistic 'variance' is unknown; use moments"),
        ("amount:avg", "the statistic 'avg' is unknown; use mean$"),
        ("amount:average", "the statistic 'average' is unknown; use mean$"),
        ("amount:unique", "the statistic 'unique' is unknown; use distinct$"),
        ("amount:nunique", "the statistic 'nunique' is unknown; use distinct$"),
        ("a,b:moments", "moments does not take 2 columns"),
        ("a:regression", "regression does not take 1 columns"),
        ("a:logistic", "logistic does not take 1 columns"),
        ("a,b:logistic", "is neither made of averages nor a sketch"),
        ("a:mean,mean", "'a:mean' is given twice"),
    ],
)
def test_what_is_not_a_metric_is_refused(text: str, problem: str) -> None:
    with pytest.raises(ParameterError, match=problem):
        parse_metrics([text])
