"""Adapters for river: statistics and models that hold only a window of records.

Each wraps a stream and has river's interface (`update`, `get`, `learn_one`, `predict_one`). The first example names the
features; features that are missing later count as zero, as in river's linear models, and new ones are ignored. An
adapter remembers the names of features and classes, and nothing else besides the stream.
Guarantee: river's own checks pass; held by tests/test_river.py, which lists and justifies each exemption.
"""

from __future__ import annotations

import math
import operator
from typing import Any, Generic, NamedTuple, cast

import numpy as np

from vestige.errors import DataError, MissingExtraError, NoAnswerError
from vestige.estimate import E
from vestige.policies import (
    Correlation,
    Encoded,
    Extremes,
    LinearEstimate,
    LinearRegression,
    LogisticEstimate,
    LogisticRegression,
    Moments,
    NamedPolicy,
    Quantiles,
)
from vestige.policies import Count as CountPolicy
from vestige.policies import Mean as MeanPolicy
from vestige.policies import Sum as SumPolicy
from vestige.policies.logistic import DEFAULT_L2
from vestige.stream import Stream

try:
    from river import base, stats
except ModuleNotFoundError:
    raise MissingExtraError("vestige.river", "river") from None


_USUAL, _USUAL_TYPES = 1e15, {float, int, bool, np.float64}
"""Numbers of which no stream refuses one, and of which each is a float without loss."""


class _Fit(NamedTuple):
    """What examples are predicted with, in Python's own numbers, which are faster than arrays for one example."""

    means: list[float]
    outputs: list[tuple[float, list[float]]]

    def score(self, row: list[float]) -> list[float]:
        """Give the value of each output, or the score of each class."""
        apart = list(map(operator.sub, row, self.means))
        return [level + sum(map(operator.mul, slopes, apart)) for level, slopes in self.outputs]


def _make_stream(policy: NamedPolicy[E], retention: int | None, seed: int | None) -> Stream[E]:
    """Return a stream of the policy, with its default retention if none is given."""
    return Stream(policy, retention=policy.default_retention if retention is None else retention, seed=seed)


class _Univariate(stats.base.Univariate):
    """A statistic of one number."""

    def __init__(self, retention: int | None = None, half_life: float | None = None, seed: int | None = None) -> None:
        self.retention = retention
        self.half_life = half_life
        self.seed = seed
        self._stream = _make_stream(self._make_policy(), retention, seed)

    def _make_policy(self) -> Encoded[Any]:
        """Return the policy of the statistic."""
        raise NotImplementedError

    def update(self, x: float) -> None:
        """Update the statistic with one number.

        Args:
            x: the number.

        Raises:
            DataError: if the number is not finite or too large.
        """
        self._stream.push(x)


class Mean(_Univariate):
    """Mean of all numbers so far.

    Args:
        retention: number of later updates after which a number is gone; default: the policy's `default_retention`.
        half_life: number of updates after which a number counts half as much; default: all count alike.
        seed: the same seed gives the same run; default: random.

    Example:
        >>> mean = Mean(seed=0)
        >>> for x in range(1, 1_001):
        ...     mean.update(x)
        >>> round(mean.get(), 6)
        500.5
    """

    def _make_policy(self) -> Encoded:
        return MeanPolicy(half_life=self.half_life)

    def get(self) -> float:
        """Return the mean.

        Returns:
            The mean; 0 before the first update.
        """
        return float(self._stream.estimate().value) if self._stream.t else 0.0


class Var(_Univariate):
    """Variance of all numbers so far, divided by n - 1.

    Args:
        retention: number of later updates after which a number is gone; default: the policy's `default_retention`.
        half_life: number of updates after which a number counts half as much; default: all count alike.
        seed: the same seed gives the same run; default: random.

    Example:
        >>> var = Var(seed=0)
        >>> for x in range(1, 1_001):
        ...     var.update(x)
        >>> round(var.get(), 3)
        83416.667
    """

    def _make_policy(self) -> Encoded:
        return Moments(order=2, half_life=self.half_life)

    def get(self) -> float:
        """Return the variance.

        Returns:
            The variance; 0 before the second update.
        """
        t = self._stream.t
        return float(self._stream.estimate().variance) * t / (t - 1) if t > 1 else 0.0


class _Alike(stats.base.Univariate):
    """A statistic of one number in which all records count alike."""

    def __init__(self, retention: int | None = None, seed: int | None = None) -> None:
        self.retention = retention
        self.seed = seed
        self._stream = _make_stream(self._make_policy(), retention, seed)

    def _make_policy(self) -> NamedPolicy[Any]:
        """Return the policy of the statistic."""
        raise NotImplementedError

    def update(self, x: float) -> None:
        """Update the statistic with one number.

        Args:
            x: the number.

        Raises:
            DataError: if the number is not finite or too large.
        """
        self._stream.push(x)


class Sum(_Alike):
    """Total of all numbers so far.

    Args:
        retention: number of later updates after which a number is gone; default: the policy's `default_retention`.
        seed: the same seed gives the same run; default: random.

    Example:
        >>> total = Sum(seed=0)
        >>> for x in range(1, 1_001):
        ...     total.update(x)
        >>> round(total.get(), 6)
        500500.0
    """

    def _make_policy(self) -> NamedPolicy:
        return SumPolicy()

    def get(self) -> float:
        """Return the total.

        Returns:
            The total; 0 before the first update.
        """
        return float(self._stream.estimate().value) if self._stream.t else 0.0


class Min(_Alike):
    """Smallest of all numbers so far, exactly; it is kept in the clear after it has been erased.

    Args:
        retention: number of later updates after which a number is gone; default: the policy's `default_retention`.
        seed: the same seed gives the same run; default: random.

    Example:
        >>> smallest = Min(seed=0)
        >>> for x in range(1, 1_001):
        ...     smallest.update(x)
        >>> smallest.get()
        1.0
    """

    def _make_policy(self) -> NamedPolicy:
        return Extremes()

    def get(self) -> float:
        """Return the smallest number.

        Returns:
            The number; infinity before the first update, as in river.
        """
        return float(self._stream.estimate().minimum) if self._stream.t else math.inf


class Max(_Alike):
    """Largest of all numbers so far, exactly; it is kept in the clear after it has been erased.

    Args:
        retention: number of later updates after which a number is gone; default: the policy's `default_retention`.
        seed: the same seed gives the same run; default: random.

    Example:
        >>> largest = Max(seed=0)
        >>> for x in range(1, 1_001):
        ...     largest.update(-x)
        >>> largest.get()
        -1.0
    """

    def _make_policy(self) -> NamedPolicy:
        return Extremes()

    def get(self) -> float:
        """Return the largest number.

        Returns:
            The number; minus infinity before the first update, as in river.
        """
        return float(self._stream.estimate().maximum) if self._stream.t else -math.inf


class Quantile(_Alike):
    """A quantile of all numbers so far; the policy's `size` says how near.

    Args:
        q: the share of the numbers that lie below it, such as 0.5 for the median.
        size: number of entries of the summary, see `vestige.Quantiles`.
        retention: number of later updates after which a number is gone; default: the policy's `default_retention`.
        seed: the same seed gives the same run; default: random.

    Raises:
        ParameterError: if `q` or `size` is out of range.

    Example:
        >>> median = Quantile(0.5, seed=0)
        >>> for x in range(1, 1_001):
        ...     median.update(x)
        >>> abs(median.get() - 500.0) < 10.0
        True
    """

    def __init__(self, q: float = 0.5, size: int = 100, retention: int | None = None, seed: int | None = None) -> None:
        self.q = q
        self.size = size
        super().__init__(retention, seed)

    def _make_policy(self) -> NamedPolicy:
        return Quantiles([self.q], self.size)

    def get(self) -> float | None:
        """Return the quantile.

        Returns:
            The quantile; None before the first update, as in river.
        """
        return float(self._stream.estimate().value[0]) if self._stream.t else None


class Count(stats.base.Univariate):
    """Number of updates so far; no value is kept.

    Example:
        >>> count = Count()
        >>> for x in range(1, 1_001):
        ...     count.update(x)
        >>> count.get()
        1000
    """

    def __init__(self) -> None:
        self._stream = Stream(CountPolicy(), retention=CountPolicy().default_retention)

    def update(self, x: Any = None) -> None:  # noqa: ARG002
        """Count one more.

        Args:
            x: not looked at.
        """
        self._stream.push(0.0)

    def get(self) -> int:
        """Return the count.

        Returns:
            The number of updates.
        """
        return int(self._stream.estimate().value)


class PearsonCorr(stats.base.Bivariate):
    """Correlation of all pairs of numbers so far.

    Args:
        retention: number of later updates after which a pair is gone; default: the policy's `default_retention`.
        half_life: number of updates after which a pair counts half as much; default: all count alike.
        seed: the same seed gives the same run; default: random.

    Example:
        >>> correlation = PearsonCorr(seed=0)
        >>> for i in range(1_000):
        ...     correlation.update(i % 7, i % 7 + i % 5)
        >>> round(correlation.get(), 3)
        0.817
    """

    def __init__(self, retention: int | None = None, half_life: float | None = None, seed: int | None = None) -> None:
        self.retention = retention
        self.half_life = half_life
        self.seed = seed
        self._stream = _make_stream(Correlation(half_life=half_life), retention, seed)

    def update(self, x: float, y: float) -> None:
        """Update the correlation with one pair of numbers.

        Args:
            x: one number.
            y: the other.

        Raises:
            DataError: if a number is not finite or too large.
        """
        self._stream.push([x, y])

    def get(self) -> float:
        """Return the correlation.

        Returns:
            The correlation; 0 as long as one of the two has not varied.
        """
        try:
            return float(self._stream.estimate().value[0, 1]) if self._stream.t else 0.0
        except NoAnswerError:
            return 0.0


class _Model(base.Estimator, Generic[E]):
    """What both models share: named features, and a stream that is created with the first example.

    Examples wait until a fit is asked for or a batch closes, since a stream takes many at once in less time than one by
    one. A fit holds until the examples are a sixteenth more, and goes when a batch closes, with records it rests on.
    """

    def __init__(self, retention: int | None = None, half_life: float | None = None, seed: int | None = None) -> None:
        self.retention = retention
        self.half_life = half_life
        self.seed = seed
        self._features: tuple[Any, ...] = ()
        self._stream: Stream[E] | None = None
        self._waiting: list[list[float]] = []
        self._room, self._last = 1, 0
        self._fit: _Fit | None = None
        self._left = 0

    def _make_row(self, x: dict[Any, float]) -> list[float]:
        """Return the values of the named features."""
        return [x.get(name, 0.0) for name in self._features] or [0.0]

    def _begin(self, x: dict[Any, float], policy: NamedPolicy[E]) -> None:
        """Name the features of the first example, and create the stream."""
        self._features = tuple(sorted(x, key=str))
        self._stream = _make_stream(policy, self.retention, self.seed)

    def _learn(self, row: list[float]) -> None:
        """Have an example wait, or push it now if the stream may refuse it."""
        assert self._stream is not None  # noqa: S101  # begun
        self._left -= 1
        if _USUAL_TYPES.issuperset(map(type, row)) and sum(map(abs, row)) < _USUAL:
            self._waiting.append(row)
            if len(self._waiting) >= self._room:
                self._take_waiting(self._stream)
        else:
            self._take_waiting(self._stream, row)

    def _take_waiting(self, stream: Stream[E], row: list[float] | None = None) -> None:
        """Have the stream take what waits, and then an example that it may refuse."""
        try:
            if self._waiting:
                stream.extend(self._waiting)
                self._waiting = []
            if row is not None:
                stream.push(row)
        finally:
            clock = stream.clock
            self._room = max(1, clock.last + stream.batch - clock.t)
            if clock.last != self._last:
                self._last, self._fit = clock.last, None

    def _find_fit(self) -> _Fit | None:
        """The fit, computed again if it has gone or is due; None before the first example."""
        stream = self._stream
        if stream is not None and (self._fit is None or self._left <= 0):
            self._take_waiting(stream)
            self._fit = self._compute_fit(stream)
            self._left = 1 + int(min(stream.t, self.half_life or math.inf)) // 16
        return self._fit

    def _compute_fit(self, stream: Stream[E]) -> _Fit:
        """Compute a fit to all examples so far."""
        raise NotImplementedError


class LinearRegressor(_Model[LinearEstimate], base.Regressor):
    """Least squares over all examples so far.

    Args:
        retention: number of later examples after which an example is gone; default: the policy's `default_retention`.
        half_life: number of examples after which an example counts half as much; default: all count alike.
        seed: the same seed gives the same run; default: random.

    Example:
        >>> model = LinearRegressor(seed=0)
        >>> for i in range(1_000):
        ...     model.learn_one({"a": i % 7, "b": i % 5}, 2.0 * (i % 7) - (i % 5) + 3.0)
        >>> round(model.predict_one({"a": 1.0, "b": 1.0}), 6)
        4.0
    """

    def learn_one(self, x: dict[Any, float], y: float) -> None:
        """Learn from one example.

        Args:
            x: its features, by name.
            y: its output.

        Raises:
            DataError: if a number is not finite or too large.
        """
        if self._stream is None:
            self._begin(x, LinearRegression(max(len(x), 1), half_life=self.half_life))
        self._learn([*self._make_row(x), y])

    def predict_one(self, x: dict[Any, float]) -> float:
        """Return the fitted value for one example.

        Args:
            x: its features, by name.

        Returns:
            The fitted value; 0 before the first example. The newest examples, up to one of seventeen, may have no part
            in it yet.
        """
        fit = self._find_fit()
        return float(fit.score(self._make_row(x))[0]) if fit is not None else 0.0

    def _compute_fit(self, stream: Stream[LinearEstimate]) -> _Fit:
        """Read the fit off the records."""
        fit = cast(LinearRegression, stream.policy).fit(stream.clock, stream.retained)
        *means, level = fit.means.tolist()
        return _Fit(means, [(level, fit.slopes[:, 0].tolist())])


class LogisticClassifier(_Model[LogisticEstimate], base.Classifier):
    """Logistic regression over all examples so far, with two or more classes.

    Args:
        classes: largest number of classes.
        retention: number of later examples after which an example is gone; default: the policy's `default_retention`.
        half_life: number of examples after which an example counts half as much; default: all count alike.
        l2: penalty on squared coefficients.
        seed: the same seed gives the same run; default: random.

    Example:
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
        """Learn from one example; classes are numbered in the order of their first examples.

        Args:
            x: its features, by name.
            y: its class.

        Raises:
            DataError: if there are more classes than `classes`, or a number is not finite or too large.
        """
        if self._stream is None:
            self._begin(x, LogisticRegression(max(len(x), 1), self.classes, self.l2, self.half_life))
        if not self._seen and isinstance(y, bool | np.bool_) and self.classes == 2:
            self._seen = [False, True]
        if y not in self._seen:
            if len(self._seen) == self.classes:
                raise DataError(f"the example has a class beyond the {self.classes} seen before; use larger `classes`")
            self._seen.append(y)
        label = self._seen.index(y)
        self._learn([*self._make_row(x), float(label)])

    def predict_proba_one(self, x: dict[Any, Any], **kwargs: Any) -> dict[Any, float]:  # noqa: ARG002
        """Return the probability of each class for one example.

        Args:
            x: its features, by name.
            **kwargs: ignored; river passes them.

        Returns:
            The probabilities of the classes seen so far; before the first example, of False and True if there are two.
            The newest examples, up to one of seventeen, may have no part in them yet.
        """
        fit = self._find_fit()
        if fit is None:
            return {False: 0.5, True: 0.5} if self.classes == 2 else {}
        scores = fit.score(self._make_row(x))[: len(self._seen)]
        largest = max(scores)
        chances = [math.exp(score - largest) for score in scores]
        whole = sum(chances)
        return dict(zip(self._seen, [chance / whole for chance in chances], strict=True))

    def _compute_fit(self, stream: Stream[LogisticEstimate]) -> _Fit:
        """Read the score of each class off the records."""
        table = cast(LogisticRegression, stream.policy).fit(stream.clock, stream.retained).tolist()
        return _Fit([0.0] * len(self._features or [0.0]), [(level, slopes) for level, *slopes in table])
