"""Adapters for scikit-learn: estimators that hold only a window of records.

Each wraps a stream and has scikit-learn's interface (`fit`, `partial_fit`, `predict`, `coef_`). Between calls, an
estimator holds the records that the stream retains and the coefficients that they encode.
Guarantee: scikit-learn's own checks pass; held by tests/test_sklearn.py, which lists and justifies each exemption.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, Self, cast

import numpy as np

from vestige.errors import MissingExtraError
from vestige.estimate import E
from vestige.policies import Encoded, Mean
from vestige.policies import LinearRegression as LinearPolicy
from vestige.policies import LogisticRegression as LogisticPolicy
from vestige.policies.logistic import DEFAULT_L2
from vestige.stream import Stream
from vestige.stream.arrivals import read_rows
from vestige.types import Floats
from vestige.whole_numbers import is_wide

try:
    from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
    from sklearn.linear_model._base import LinearClassifierMixin
    from sklearn.utils.multiclass import check_classification_targets
    from sklearn.utils.validation import check_is_fitted, validate_data
except ModuleNotFoundError:
    raise MissingExtraError("vestige.sklearn", "sklearn") from None


class _Adapter(BaseEstimator):  # type: ignore[misc]
    """What both estimators share: a stream that is created when the number of columns is known."""

    def __init__(
        self, retention: int | None = None, half_life: float | None = None, random_state: int | None = None
    ) -> None:
        self.retention = retention
        self.half_life = half_life
        self.random_state = random_state

    def _make_stream(self, policy: Encoded[E]) -> Stream[E]:
        """Return a stream of the policy, with its default retention if none is given."""
        retention = policy.default_retention if self.retention is None else self.retention
        return Stream(policy, retention=retention, seed=self.random_state)


def _check_names(frame: Any, parameter: str) -> tuple[Any, ...]:
    """The names of the columns of a frame, of which no two may be the same."""
    found: Any = getattr(frame, "column_names", None)  # of an Arrow table, whose columns are not names
    names = tuple(getattr(frame, "columns", ()) if found is None else found)
    doubled = [name for name, count in Counter(names).items() if count > 1]
    if doubled:
        raise ValueError(f"{parameter} has several columns of the name {doubled[0]!r}; rename or drop all but one")
    return names


def _refuse_rounded(given: Any, read: Floats) -> None:
    """Refuse whole numbers that no float holds, which scikit-learn makes floats of."""
    if is_wide(read):
        read_rows(given, Mean(1 if read.ndim == 1 else read.shape[1]))


class LinearRegression(RegressorMixin, _Adapter):  # type: ignore[misc]
    """Least squares over all rows fitted so far.

    Args:
        retention: number of later rows after which a row is gone; default: the policy's `default_retention`.
        half_life: number of rows after which a row counts half as much; default: all rows count alike.
        random_state: the same seed gives the same run; default: random.

    Example:
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
        """Start a new stream and learn from these rows.

        Args:
            X: predictors; shape (n, features).
            y: outputs; shape (n,) or (n, outputs).

        Returns:
            The estimator.

        Raises:
            ValueError: if shapes do not fit, or a value is not finite.
        """
        return self._learn(X, y, restart=True)

    def partial_fit(self, X: Any, y: Any) -> Self:  # noqa: N803
        """Continue the stream with these rows.

        Args:
            X: predictors; shape (n, features).
            y: outputs; shape (n,) or (n, outputs).

        Returns:
            The estimator.

        Raises:
            ValueError: if shapes do not fit, or a value is not finite.
        """
        return self._learn(X, y, restart=not hasattr(self, "stream_"))

    def _learn(self, X: Any, y: Any, *, restart: bool) -> Self:  # noqa: N803
        _check_names(X, "X")
        given = X, self._order_outputs(y, restart=restart)
        X, y = validate_data(  # noqa: N806
            self, *given, reset=restart, dtype=np.float64, multi_output=True, y_numeric=True, ensure_min_samples=1
        )
        y = np.asarray(y, np.float64)
        for each, read in zip(given, (X, y), strict=True):
            _refuse_rounded(each, read)
        if restart:
            outputs = 1 if y.ndim == 1 else y.shape[1]
            policy = LinearPolicy(X.shape[1], outputs=outputs, half_life=self.half_life)
            self.stream_ = self._make_stream(policy)
        self.stream_.extend(np.column_stack([X, y]))
        fit = cast(LinearPolicy, self.stream_.policy).fit(self.stream_.clock, self.stream_.retained)
        self.coef_ = fit.slopes[:, 0] if y.ndim == 1 else np.ascontiguousarray(fit.slopes.T)
        offset = fit.means[X.shape[1] :] - fit.means[: X.shape[1]] @ fit.slopes
        self.intercept_ = float(offset[0]) if y.ndim == 1 else offset
        return self

    def _order_outputs(self, y: Any, *, restart: bool) -> Any:
        """The outputs in the order of the first ones, if both have names."""
        names = _check_names(y, "y")
        if restart or not hasattr(self, "output_names_in_"):
            self.output_names_in_ = names
        known = self.output_names_in_
        if names == known or not names or (not known and len(names) == 1):
            return y
        if sorted(map(str, names)) != sorted(map(str, known)):
            raise ValueError(
                f"y has the columns {names}, and the first call had {known or 'no names'}; pass outputs as there"
            )
        return y[list(known)]

    def predict(self, X: Any) -> Any:  # noqa: N803
        """Return the outputs for each row.

        Args:
            X: predictors; shape (n, features).

        Returns:
            The outputs; shape (n,) or (n, outputs).

        Raises:
            sklearn.exceptions.NotFittedError: before the first fit.
        """
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, dtype=np.float64)  # noqa: N806
        return X @ self.coef_.T + self.intercept_


class LogisticRegression(LinearClassifierMixin, ClassifierMixin, _Adapter):  # type: ignore[misc]
    """Logistic regression over all rows fitted so far.

    Args:
        retention: number of later rows after which a row is gone; default: the policy's `default_retention`.
        half_life: number of rows after which a row counts half as much; default: all rows count alike.
        l2: penalty: `l2 / 2 * |coef_|^2` is added to the average log-loss.
        random_state: the same seed gives the same run; default: random.

    Example:
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
        """Start a new stream and learn from these rows.

        Args:
            X: predictors; shape (n, features).
            y: class of each row; shape (n,).

        Returns:
            The estimator.

        Raises:
            ValueError: if there are fewer than two classes, shapes do not fit, or a value is not finite.
        """
        return self._learn(X, y, None, restart=True)

    def partial_fit(self, X: Any, y: Any, classes: Any = None) -> Self:  # noqa: N803
        """Continue the stream with these rows.

        Args:
            X: predictors; shape (n, features).
            y: class of each row; shape (n,).
            classes: all classes that will ever occur; required in the first call.

        Returns:
            The estimator.

        Raises:
            ValueError: if a class was not named in the first call, shapes do not fit, or a value is not finite.
        """
        return self._learn(X, y, classes, restart=not hasattr(self, "stream_"))

    def _learn(self, X: Any, y: Any, classes: Any, *, restart: bool) -> Self:  # noqa: N803
        _check_names(X, "X")
        given = X
        X, y = validate_data(self, X, y, reset=restart, dtype=np.float64)  # noqa: N806
        _refuse_rounded(given, X)
        check_classification_targets(y)
        if restart:
            self.classes_ = np.unique(y) if classes is None else np.unique(classes)
            if len(self.classes_) < 2:
                raise ValueError("y has one class, and at least 2 are needed; pass rows of several classes")
            policy = LogisticPolicy(X.shape[1], len(self.classes_), self.l2, self.half_life)
            self.stream_ = self._make_stream(policy)
        if not np.isin(y, self.classes_).all():
            raise ValueError("y has a class that the first call did not name; pass all classes there as classes=...")
        self.stream_.extend(np.column_stack([X, np.searchsorted(self.classes_, y)]))
        estimate = self.stream_.estimate()
        self.coef_ = np.atleast_2d(estimate.value)
        self.intercept_ = np.atleast_1d(np.asarray(estimate.intercept))
        return self

    def predict_proba(self, X: Any) -> Any:  # noqa: N803
        """Return the probability of each class for each row.

        Args:
            X: predictors; shape (n, features).

        Returns:
            The probabilities; shape (n, classes).

        Raises:
            sklearn.exceptions.NotFittedError: before the first fit.
        """
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, dtype=np.float64)  # noqa: N806
        return self.stream_.estimate().predict_proba(X)
