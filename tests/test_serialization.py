"""Policies by name: described, made again, and never anything but our own."""

from __future__ import annotations

import json
from dataclasses import dataclass

import pytest

from vestige import (
    Correlation,
    Count,
    Covariance,
    CustomLoss,
    ExactHistogram,
    Histogram,
    LinearRegression,
    LogisticRegression,
    Mean,
    Moments,
    Policy,
    Ratio,
    Shares,
    Sum,
    Window,
    paper,
)
from vestige.errors import StoreError
from vestige.serialization import from_dict, to_dict

OURS: list[Policy] = [
    Mean(),
    Mean(dim=3, channel="bits", half_life=10.5, spread=True),
    Moments(order=2),
    Count(2),
    Ratio(half_life=9.0),
    Histogram((0, 2.5), half_life=9.0),
    ExactHistogram((0, 2.5)),
    Shares(("a", "b")),
    Sum(2),
    Correlation(3, half_life=9.0),
    Covariance(3),
    LinearRegression(2, intercept=False, outputs=2),
    LogisticRegression(2, classes=3),
    Window(Moments()),
    paper.SimpleMean(),
    paper.CoordinateMean(2),
    paper.Regression(2),
]


@pytest.mark.parametrize("policy", OURS, ids=str)
def test_ours_are_made_again_from_json(policy: Policy) -> None:
    assert from_dict(json.loads(json.dumps(to_dict(policy)))) == policy


@dataclass(frozen=True)
class Foreign(Mean):
    """Somebody else's."""


def loss(parameters: object, rows: object) -> None:
    """Stands for a function of the user's."""


@pytest.mark.parametrize("policy", [Foreign(), CustomLoss(loss, (1.0,))], ids=["foreign", "gradient"])  # type: ignore[arg-type]
def test_others_are_described_but_not_made(policy: Policy) -> None:
    description = to_dict(policy)
    assert description == json.loads(json.dumps(description))
    assert "0x" not in json.dumps(description), "the same in every process"
    with pytest.raises(StoreError, match="is not registered, so it cannot be made from its name"):
        from_dict(description)


def test_parameters_that_do_not_fit_are_refused() -> None:
    for parameters in ({"dim": 0}, {"other": 1}):
        with pytest.raises(StoreError, match="cannot be made from its stored parameters"):
            from_dict({"name": "vestige.Mean", "parameters": parameters})
