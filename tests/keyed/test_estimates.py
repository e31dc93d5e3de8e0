"""The answers of all streams as columns, against those of each stream."""

from __future__ import annotations

import numpy as np
import pytest

from vestige import KeyedStreams, Mean, Policy, Ratio


@pytest.mark.parametrize("policy", [Mean(2, channel="bits"), Ratio()])
def test_rows_are_those_of_each_stream(policy: Policy) -> None:
    rng = np.random.default_rng(0)
    keyed = KeyedStreams(policy, retention=512, seed=0)
    keyed.extend(rng.integers(0, 5, 900), rng.normal(10.0, 1.0, (900, 2)))
    keyed.extend(["zero"], [[1.0, 0.0]])
    made = keyed.estimates()
    table = made.to_arrow().to_pylist()
    expected = [
        {"stream": key, **row, "problem": None}
        for key in keyed
        if key != "zero"
        for row in keyed.estimate(key).to_rows()
    ]
    assert [row for row in table if row["stream"] != "zero"] == expected
    if isinstance(policy, Ratio):
        (last,) = (row for row in table if row["stream"] == "zero")
        assert "the denominator is 0" in last["problem"]
    assert len(made.to_pandas()) == len(made) == len(table)
    assert "Answers of streams" in made._repr_html_()
