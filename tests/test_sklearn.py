"""The scikit-learn shells pass scikit-learn's own checks, and say what the streams beneath them say."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_diabetes
from sklearn.linear_model import LinearRegression as Reference
from sklearn.utils.estimator_checks import parametrize_with_checks

from vestige.sklearn import LinearRegression, LogisticRegression

EXEMPT: dict[str, str] = {}
"""Checks that do not apply, with the reason: none."""


@pytest.mark.filterwarnings("ignore")
@parametrize_with_checks(  # type: ignore[untyped-decorator]
    [LinearRegression(random_state=0), LogisticRegression(random_state=0)],
    expected_failed_checks=lambda _: EXEMPT,
)
def test_its_own_checks(estimator: Any, check: Any) -> None:
    check(estimator)


def test_the_fit_is_that_of_all_rows() -> None:
    x, y = load_diabetes(return_X_y=True)
    rows = np.random.default_rng(0).integers(0, len(x), 40_000)
    model = LinearRegression(retention=9_000, random_state=0)
    for part in np.array_split(rows, 7):
        model.partial_fit(x[part], y[part])
    reference = Reference().fit(x[rows], y[rows])
    assert model.predict(x) == pytest.approx(reference.predict(x), abs=0.01)
    assert len(model.stream_.retained) <= 9_000
    assert clone(model).fit(x, y).coef_.shape == (10,)


def test_several_outputs() -> None:
    x = np.random.default_rng(0).normal(size=(3_000, 2))
    y = x @ [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]] + [7.0, 8.0, 9.0]
    model = LinearRegression(random_state=0).fit(x, y)
    assert model.coef_ == pytest.approx(np.array([[1.0, 4.0], [2.0, 5.0], [3.0, 6.0]]), abs=1e-9)
    assert model.predict(x[:2]) == pytest.approx(y[:2], abs=1e-6)


def test_classes_must_be_named_at_first() -> None:
    x = np.random.default_rng(0).normal(size=(400, 2))
    model = LogisticRegression(random_state=0).partial_fit(x, np.zeros(400), classes=[0, 1])
    model.partial_fit(x, x[:, 0] > 0.0)
    with pytest.raises(ValueError, match="y has a class that the first call did not name"):
        model.partial_fit(x, np.full(400, 2))
