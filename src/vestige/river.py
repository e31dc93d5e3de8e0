"""Vestige as river's statistics and models: `update`, `get`, `learn_one`, `predict_one`, out of a window of records.

Each is a thin shell over a stream. Features are named at the first example; those that are missing later count as zero,
as they do in river's linear models, and new ones are passed over. The names of features and classes are remembered,
nothing else.
Guarantee: river's own checks; held by tests/test_river.py, which lists and justifies each exemption.
"""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from vestige.errors import DataError, MissingExtraError
from vestige.estimate import E
from vestige.policies import Encoded, LinearRegression, LogisticRegression, Moments
from vestige.policies import Mean as MeanPolicy
from vestige.policies.logistic import DEFAULT_L2
from vestige.stream import Stream

try:
    from river import base, stats
except ModuleNotFoundError:
    raise MissingExtraError("vestige.river", "river") from None


def _stream_of(policy: Encoded[E], retention: int | None, seed: int | None) -> Stream[E]:
    return Stream(policy, retention=policy.default_retention if retention is None else retention, seed=seed)


class _Univariate(stats.base.Univariate):
    """A statistic of one number."""

    def __init__(self, retention: int | None = None, half_life: float | None = None, seed: int | None = None) -> None:
        self.retention = retention
        self.half_life = half_life
        self.seed = seed
        self._stream = _stream_of(self._policy(), retention, seed)

    def _policy(self) -> Encoded[Any]:
        raise NotImplementedError

    def update(self, x: float) -> None:
        """Take one number."""
        self._stream.push(float(x))


class Mean(_Univariate):
    """The mean of all numbers ever seen.

    >>> mean = Mean(seed=0)
    >>> for x in range(1, 1_001):
    ...     mean.update(x)
    >>> round(mean.get(), 6)
    500.5
    """

    def _policy(self) -> Encoded:
        return MeanPolicy(half_life=self.half_life)

    def get(self) -> float:
        """The mean; 0 before anything was seen."""
        return float(self._stream.estimate().value) if self._stream.t else 0.0


class Var(_Univariate):
    """The variance of all numbers ever seen, divided by n - 1.

    >>> var = Var(seed=0)
    >>> for x in range(1, 1_001):
    ...     var.update(x)
    >>> round(var.get(), 3)
    83416.667
    """

    def _policy(self) -> Encoded:
        return Moments(order=2, half_life=self.half_life)

    def get(self) -> float:
        """The variance; 0 before two numbers were seen."""
        t = self._stream.t
        return float(self._stream.estimate().variance) * t / (t - 1) if t > 1 else 0.0


class _Model(base.Estimator):
    """What both models share: named features, and a stream that is made with the first example."""

    def __init__(self, retention: int | None = None, half_life: float | None = None, seed: int | None = None) -> None:
        self.retention = retention
        self.half_life = half_life
        self.seed = seed
        self._features: tuple[Any, ...] = ()
        self._stream: Stream[Any] | None = None

    def _row(self, x: dict[Any, float]) -> list[float]:
        return [float(x.get(name, 0.0)) for name in self._features]


class LinearRegressor(_Model, base.Regressor):
    """Least squares over all examples ever seen.

    >>> model = LinearRegressor(seed=0)
    >>> for i in range(1_000):
    ...     model.learn_one({"a": i % 7, "b": i % 5}, 2.0 * (i % 7) - (i % 5) + 3.0)
    >>> round(model.predict_one({"a": 1.0, "b": 1.0}), 6)
    4.0
    """

    def learn_one(self, x: dict[Any, float], y: float) -> None:
        """Take one example."""
        if self._stream is None:
            self._features = tuple(sorted(x, key=str))
            policy = LinearRegression(max(len(x), 1), half_life=self.half_life)
            self._stream = _stream_of(policy, self.retention, self.seed)
        self._stream.push([*(self._row(x) or [0.0]), float(y)])

    def predict_one(self, x: dict[Any, float]) -> float:
        """The fitted value; 0 before anything was seen."""
        if self._stream is None:
            return 0.0
        fit = cast(LinearRegression, self._stream.policy).fit(self._stream.clock, self._stream.retained)
        row = np.array(self._row(x) or [0.0])
        dim = len(row)
        return float(fit.means[dim] + (row - fit.means[:dim]) @ fit.slopes[:, 0])


class LogisticClassifier(_Model, base.Classifier):
    """Logistic regression over all examples ever seen, of two classes or more.

    Args:
        classes: how many there can be.
        retention: an example is gone this many examples after it came; 128 per encoded number unless said.
        half_life: after so many examples, an example counts half as much.
        l2: the penalty on squared coefficients.
        seed: makes the run reproducible.

    >>> model = LogisticClassifier(seed=0)
    >>> for i in range(1_000):
    ...     model.learn_one({"a": i % 7}, i % 7 > 3)
    >>> model.predict_one({"a": 0}), model.predict_one({"a": 6})
    (False, True)
    """

    def __init__(
        self,
        classes: int = 2,
        retention: int | None = None,
        half_life: float | None = None,
        l2: float = DEFAULT_L2,
        seed: int | None = None,
    ) -> None:
        super().__init__(retention, half_life, seed)
        self.classes = classes
        self.l2 = l2
        self._seen: list[Any] = []

    @property
    def _multiclass(self) -> bool:
        return self.classes > 2

    def learn_one(self, x: dict[Any, float], y: Any) -> None:
        """Take one example; its class is numbered when it first comes."""
        if self._stream is None:
            self._features = tuple(sorted(x, key=str))
            policy = LogisticRegression(max(len(x), 1), self.classes, self.l2, self.half_life)
            self._stream = _stream_of(policy, self.retention, self.seed)
        if not self._seen and isinstance(y, bool | np.bool_) and self.classes == 2:
            self._seen = [False, True]
        if y not in self._seen:
            if len(self._seen) == self.classes:
                raise DataError(f"this example is of another class than the {self.classes} before; raise `classes`")
            self._seen.append(y)
        label = self._seen.index(y)
        self._stream.push([*(self._row(x) or [0.0]), float(label)])

    def predict_proba_one(self, x: dict[Any, Any], **kwargs: Any) -> dict[Any, float]:  # noqa: ARG002
        """The probability of each class that was seen; before the first example, of False and True if there are two."""
        if self._stream is None:
            return {False: 0.5, True: 0.5} if self.classes == 2 else {}
        chances = self._stream.estimate().predict_proba([self._row(x) or [0.0]])[0][: len(self._seen)]
        return dict(zip(self._seen, (chances / chances.sum()).tolist(), strict=True))
