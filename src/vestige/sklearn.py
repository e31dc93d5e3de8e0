"""Vestige as scikit-learn estimators: `fit`, `partial_fit`, `predict`, `coef_`, out of a window of records.

Each is a thin shell over a stream. Between calls an estimator holds the records that the stream retains, and the
coefficients that they say.
Guarantee: scikit-learn's own checks; held by tests/test_sklearn.py, which lists and justifies each exemption.
"""

from __future__ import annotations

from typing import Any, Self, cast

import numpy as np

from vestige.errors import MissingExtraError
from vestige.estimate import E
from vestige.policies import Encoded
from vestige.policies import LinearRegression as LinearPolicy
from vestige.policies import LogisticRegression as LogisticPolicy
from vestige.policies.logistic import DEFAULT_L2
from vestige.stream import Stream

try:
    from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
    from sklearn.linear_model._base import LinearClassifierMixin
    from sklearn.utils.multiclass import check_classification_targets
    from sklearn.utils.validation import check_is_fitted, validate_data
except ModuleNotFoundError:
    raise MissingExtraError("vestige.sklearn", "sklearn") from None


class _Shell(BaseEstimator):  # type: ignore[misc]
    """What both share: a stream that is made when the number of columns is known."""

    def __init__(
        self, retention: int | None = None, half_life: float | None = None, random_state: int | None = None
    ) -> None:
        self.retention = retention
        self.half_life = half_life
        self.random_state = random_state

    def _stream_of(self, policy: Encoded[E]) -> Stream[E]:
        retention = policy.default_retention if self.retention is None else self.retention
        return Stream(policy, retention=retention, seed=self.random_state)


class LinearRegression(RegressorMixin, _Shell):  # type: ignore[misc]
    """Least squares over all rows ever fitted.

    Args:
        retention: a row is gone this many rows after it came; 128 per encoded number unless said.
        half_life: after so many rows, a row counts half as much.
        random_state: makes the run reproducible.

    >>> x = np.random.default_rng(0).normal(size=(5_000, 2))
    >>> model = LinearRegression(random_state=0)
    >>> for part in np.split(x, 5):
    ...     model = model.partial_fit(part, part @ [1.0, 2.0] + 3.0)
    >>> model.coef_.round(6), round(model.intercept_, 6), len(model.stream_.retained) < 5_000
    (array([1., 2.]), 3.0, True)
    """

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    def fit(self, X: Any, y: Any) -> Self:  # noqa: N803
        """Start anew with these rows.

        Args:
            X: shape (n, features).
            y: shape (n,), or (n, outputs).
        """
        return self._learn(X, y, anew=True)

    def partial_fit(self, X: Any, y: Any) -> Self:  # noqa: N803
        """Go on with these rows.

        Args:
            X: shape (n, features).
            y: shape (n,), or (n, outputs).
        """
        return self._learn(X, y, anew=not hasattr(self, "stream_"))

    def _learn(self, X: Any, y: Any, *, anew: bool) -> Self:  # noqa: N803
        X, y = validate_data(  # noqa: N806
            self, X, y, reset=anew, dtype=np.float64, multi_output=True, y_numeric=True, ensure_min_samples=1
        )
        y = np.asarray(y, np.float64)
        if anew:
            outputs = 1 if y.ndim == 1 else y.shape[1]
            policy = LinearPolicy(X.shape[1], outputs=outputs, half_life=self.half_life)
            self.stream_ = self._stream_of(policy)
        self.stream_.extend(np.column_stack([X, y]))
        fit = cast(LinearPolicy, self.stream_.policy).fit(self.stream_.clock, self.stream_.retained)
        self.coef_ = fit.slopes[:, 0] if y.ndim == 1 else np.ascontiguousarray(fit.slopes.T)
        offset = fit.means[X.shape[1] :] - fit.means[: X.shape[1]] @ fit.slopes
        self.intercept_ = float(offset[0]) if y.ndim == 1 else offset
        return self

    def predict(self, X: Any) -> Any:  # noqa: N803
        """The outputs at each row.

        Args:
            X: shape (n, features).
        """
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, dtype=np.float64)  # noqa: N806
        return X @ self.coef_.T + self.intercept_


class LogisticRegression(LinearClassifierMixin, ClassifierMixin, _Shell):  # type: ignore[misc]
    """Logistic regression over all rows ever fitted.

    Args:
        retention: a row is gone this many rows after it came; 128 per encoded number unless said.
        half_life: after so many rows, a row counts half as much.
        l2: the penalty: `l2 / 2 * |coef_|^2` is added to the average log-loss.
        random_state: makes the run reproducible.

    >>> x = np.random.default_rng(0).normal(size=(5_000, 2))
    >>> model = LogisticRegression(random_state=0).fit(x, np.where(x[:, 0] > x[:, 1], "yes", "no"))
    >>> model.predict([[1.0, 0.0], [0.0, 1.0]])
    array(['yes', 'no'], dtype='<U3')
    """

    def __init__(
        self,
        retention: int | None = None,
        half_life: float | None = None,
        l2: float = DEFAULT_L2,
        random_state: int | None = None,
    ) -> None:
        super().__init__(retention, half_life, random_state)
        self.l2 = l2

    def fit(self, X: Any, y: Any) -> Self:  # noqa: N803
        """Start anew with these rows.

        Args:
            X: shape (n, features).
            y: the class of each; shape (n,).
        """
        return self._learn(X, y, None, anew=True)

    def partial_fit(self, X: Any, y: Any, classes: Any = None) -> Self:  # noqa: N803
        """Go on with these rows.

        Args:
            X: shape (n, features).
            y: the class of each; shape (n,).
            classes: all that will ever come; needed in the first call.
        """
        return self._learn(X, y, classes, anew=not hasattr(self, "stream_"))

    def _learn(self, X: Any, y: Any, classes: Any, *, anew: bool) -> Self:  # noqa: N803
        X, y = validate_data(self, X, y, reset=anew, dtype=np.float64)  # noqa: N806
        check_classification_targets(y)
        if anew:
            self.classes_ = np.unique(y) if classes is None else np.unique(classes)
            if len(self.classes_) < 2:
                raise ValueError(f"y has one class, {len(self.classes_)} of at least 2; needs rows of several classes")
            policy = LogisticPolicy(X.shape[1], len(self.classes_), self.l2, self.half_life)
            self.stream_ = self._stream_of(policy)
        if not np.isin(y, self.classes_).all():
            raise ValueError("y has a class that the first call did not name; pass all of them there as classes=...")
        self.stream_.extend(np.column_stack([X, np.searchsorted(self.classes_, y)]))
        estimate = self.stream_.estimate()
        self.coef_ = np.atleast_2d(estimate.value)
        self.intercept_ = np.atleast_1d(np.asarray(estimate.intercept))
        return self

    def predict_proba(self, X: Any) -> Any:  # noqa: N803
        """The probability of each class at each row; shape (n, classes).

        Args:
            X: shape (n, features).
        """
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, dtype=np.float64)  # noqa: N806
        return self.stream_.estimate().predict_proba(X)
