"""Kinds of data on which fits that see each record once go wrong, and fits of all data to compare with.

`python tests/losses.py` measures them all and prints the table of docs/policies.md; `python tests/losses.py plain` one.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from vestige import CustomLoss, LogisticRegression, Stream
from vestige.policies.logistic import DEFAULT_L2
from vestige.types import Floats

RECORDS, STREAMS = 40_000, 30
SEVERAL = [0.3, 1.0, -0.7, 0.4, 0.9, -0.3, 0.1]
"""Intercept, a normal column, and five of six levels."""
Data = tuple[Floats, Floats]
"""Rows with the outcome last; and the true parameters, for rows less the centre."""


@dataclass(frozen=True)
class Kind:
    """A kind of data.

    Attributes:
        columns: draws the predictors.
        truth: the parameters.
        order: what to sort the rows by, of predictors and outcome; None if they come at random.
        centre: where zero lies for the true parameters.
        noted: the share of streams whose answers may carry a note.
        change: the parameters of the second half, if they change.
        is_exact: whether the outcome follows from the predictors.
    """

    columns: Callable[[np.random.Generator, int], Floats]
    truth: Sequence[float] = (0.3, 1.0, -0.7)
    order: Callable[[Floats, Floats], Floats] | None = None
    centre: float = 0.0
    noted: float = 0.05
    change: Sequence[float] | None = None
    is_exact: bool = False


def normal(rng: np.random.Generator, n: int) -> Floats:
    return rng.normal(size=(n, 2))


def dummy(share: float) -> Callable[[np.random.Generator, int], Floats]:
    return lambda rng, n: np.column_stack([rng.normal(size=n), rng.random(n) < share])


def levels(rng: np.random.Generator, n: int) -> Floats:
    return np.column_stack([rng.normal(size=n), np.eye(6)[rng.integers(0, 6, n)][:, 1:]])


def heavy(rng: np.random.Generator, n: int) -> Floats:
    return np.column_stack([rng.normal(size=n), rng.standard_t(2, n)])


def outlier(rng: np.random.Generator, n: int) -> Floats:
    x = rng.normal(size=(n, 2))
    x[rng.integers(n), 1] = rng.choice([-100.0, 100.0])
    return x


def scales(rng: np.random.Generator, n: int) -> Floats:
    return rng.normal(size=(n, 2)) * [1e4, 1e-4]


CLASSES = {
    "plain": Kind(normal),
    "dummy column, 5%": Kind(dummy(0.05)),
    "dummy column, 2%": Kind(dummy(0.02)),
    "dummy column, 0.5%": Kind(dummy(0.005), noted=0.2),
    "one-hot, six levels": Kind(levels, SEVERAL),
    "class of 3%": Kind(normal, (-4.2, 1.0, -0.7)),
    "class of 0.3%": Kind(normal, (-6.6, 1.0, -0.7), noted=0.2),
    "sorted by a column": Kind(normal, order=lambda x, _: x[:, 0], noted=0.2),
    "class of 3%, sorted by a column": Kind(normal, (-4.2, 1.0, -0.7), order=lambda x, _: x[:, 0], noted=0.2),
    "sorted by class": Kind(normal, order=lambda _, y: y, noted=1.0),
    "heavy tail": Kind(heavy),
    "outlier at 100 sd": Kind(outlier),
    "scales of 1e4 and 1e-4": Kind(scales, (0.3, 1e-4, -7e3)),
    "far from zero, 1e6": Kind(lambda rng, n: 1e6 + rng.normal(size=(n, 2)), centre=1e6),
    "separable": Kind(normal, noted=1.0, is_exact=True),
    "regime change": Kind(normal, noted=1.0, change=(-0.5, -1.0, 1.2)),
}
"""For a classifier."""
_GENTLE = [0.3, 0.5, -0.4]
LOSSES = {
    "plain": Kind(normal, _GENTLE),
    "dummy column, 5%": Kind(dummy(0.05), _GENTLE),
    "dummy column, 2%": Kind(dummy(0.02), _GENTLE),
    "dummy column, 0.5%": Kind(dummy(0.005), _GENTLE, noted=0.2),
    "one-hot, six levels": Kind(levels, [0.3, 0.5, *SEVERAL[2:]]),
    "sorted by a column": Kind(normal, _GENTLE, order=lambda x, _: x[:, 0], noted=0.2),
    "scales of 1e4 and 1e-4": Kind(scales, (0.3, 0.5e-4, -4e3)),
    "far from zero, 1e6": Kind(lambda rng, n: 1e6 + rng.normal(size=(n, 2)), _GENTLE, centre=1e6, noted=1.0),
    "regime change": Kind(normal, _GENTLE, noted=1.0, change=(-0.5, -0.3, 0.7)),
}
"""For losses of one's own; such a loss is not told what its columns are, so that it cannot be taken about a centre."""
KINDS = {
    "logistic": CLASSES,
    "huber": LOSSES | {"heavy tail": Kind(heavy, _GENTLE), "outlier at 100 sd": Kind(outlier, _GENTLE)},
    "poisson": LOSSES
    | {
        "mean count of 3%": Kind(normal, (-3.7, 0.5, -0.4)),
        "mean count of 0.3%": Kind(normal, (-6.0, 0.5, -0.4), noted=0.2),
    },
}
"""Which kinds make sense for which loss: exponentials of a heavy tail or an outlier do not."""


def design(rows: Floats) -> Floats:
    return np.column_stack([np.ones(len(rows)), rows[:, :-1]])


def huber(parameters: Floats, rows: Floats) -> tuple[Floats, Floats]:
    """The pseudo-Huber loss of a linear model."""
    x = design(rows)
    gap = rows[:, -1] - x @ parameters
    root = np.sqrt(1.0 + gap**2)
    return root - 1.0, -(gap / root)[:, None] * x


def poisson(parameters: Floats, rows: Floats) -> tuple[Floats, Floats]:
    """Minus the log-likelihood of counts."""
    x = design(rows)
    score = x @ parameters
    mean = np.exp(score)
    return mean - rows[:, -1] * score, (mean - rows[:, -1])[:, None] * x


def logistic(parameters: Floats, rows: Floats) -> tuple[Floats, Floats]:
    """Minus the log-likelihood of two classes."""
    x = design(rows)
    score = x @ parameters
    chance = np.exp(-np.logaddexp(0.0, -score))
    return np.logaddexp(0.0, score) - rows[:, -1] * score, (chance - rows[:, -1])[:, None] * x


def weigh(name: str, parameters: Floats, rows: Floats) -> Floats:
    """The second derivative of each row's loss by its score."""
    score = design(rows) @ parameters
    if name == "poisson":
        return np.asarray(np.exp(score))
    if name == "huber":
        return np.asarray((1.0 + (rows[:, -1] - score) ** 2) ** -1.5)
    return np.asarray(np.exp(-np.logaddexp(0.0, score) - np.logaddexp(0.0, -score)))


FUNCTIONS = {"logistic": logistic, "huber": huber, "poisson": poisson}


def draw(name: str, kind: Kind, seed: int, n: int = RECORDS) -> Floats:
    """Rows of a kind for a loss, the outcome last."""
    rng = np.random.default_rng([seed, len(name)])
    x = kind.columns(rng, n)
    at = np.column_stack([np.ones(n), x - kind.centre])
    score = at @ np.array(kind.truth)
    if kind.change is not None:
        score[n // 2 :] = at[n // 2 :] @ np.array(kind.change)
    if name == "poisson":
        y = rng.poisson(np.exp(score)).astype(np.float64)
    elif name == "huber":
        y = score + rng.normal(size=n)
    else:
        y = (score > 0.0 if kind.is_exact else rng.random(n) < 1.0 / (1.0 + np.exp(-score))).astype(np.float64)
    if kind.order is not None:
        ordered = np.argsort(kind.order(x, y), kind="stable")
        x, y = x[ordered], y[ordered]
    return np.column_stack([x, y])


def fit(name: str, rows: Floats) -> tuple[Floats, Floats]:
    """The minimum over all rows by Newton's method, and its covariance; columns are to be about zero."""
    spread = np.append(1.0, rows[:, :-1].std(axis=0))
    scaled = np.column_stack([rows[:, :-1] / spread[1:], rows[:, -1]])
    x, n, function = design(scaled), len(rows), FUNCTIONS[name]
    penalty = (
        np.append(0.0, np.full(len(spread) - 1, DEFAULT_L2)) / spread**2
        if name == "logistic"
        else np.zeros(len(spread))
    )
    at = np.zeros(len(spread))

    def lose(at: Floats) -> float:
        return float(function(at, scaled)[0].mean() + 0.5 * penalty @ at**2)

    for _ in range(200):
        gradient = function(at, scaled)[1].mean(axis=0) + penalty * at
        bend = (x * weigh(name, at, scaled)[:, None]).T @ x / n + np.diag(penalty + 1e-13)
        step, before = np.linalg.solve(bend, gradient), lose(at)
        while np.abs(step).max() > 1e-12 and lose(at - step) > before:
            step = step / 2.0
        at = at - step
        if np.abs(step).max() < 1e-9:
            break
    inverse, gradients = np.linalg.inv(bend), function(at, scaled)[1]
    middle = bend if name == "logistic" else gradients.T @ gradients / n
    return at / spread, (inverse @ middle @ inverse / n) / np.outer(spread, spread)


@dataclass
class Result:
    """What came of the streams of one kind.

    Attributes:
        ours: errors about the truth in standard errors of the fit of all data, of the streams without a note.
        theirs: those of the fit.
        apart: the largest distance from the fit in each of these streams.
        within: how many standard errors, as stated, each parameter is from the truth; far from zero without the
            intercept.
        noted: the number of streams with a note.
        streams: the number of streams.
    """

    ours: list[Floats] = field(default_factory=list)
    theirs: list[Floats] = field(default_factory=list)
    apart: list[float] = field(default_factory=list)
    within: list[Floats] = field(default_factory=list)
    noted: int = 0
    streams: int = 0

    @property
    def ratio(self) -> float:
        """The root of the mean squared error over that of the fit of all data."""
        if not self.ours:
            return np.nan
        return float(np.sqrt((np.array(self.ours) ** 2).sum() / (np.array(self.theirs) ** 2).sum()))

    @property
    def worst(self) -> float:
        """The largest distance from the fit of all data without a note, in its standard errors."""
        return max(self.apart, default=np.nan)

    def covers(self, limit: float) -> float:
        """The share of parameters that are within so many stated standard errors of the truth."""
        return float((np.abs(np.concatenate(self.within)) <= limit).mean()) if self.within else np.nan


def make_policy(name: str, columns: int) -> Any:
    if name == "logistic":
        return LogisticRegression(columns - 1)
    return CustomLoss(FUNCTIONS[name], (0.0,) * columns, columns=columns)


def measure(name: str, kind: Kind, share: float = 1.0, streams: int = STREAMS, n: int = RECORDS) -> Result:
    """Run streams of a kind at a share of the default retention."""
    result = Result()
    for seed in range(streams):
        rows = draw(name, kind, seed, n)
        policy = make_policy(name, rows.shape[1])
        stream = Stream(policy, retention=int(policy.default_retention * share), seed=seed)
        stream.extend(rows)
        made = stream.estimate()
        result.streams += 1
        if made.notes:
            result.noted += 1
            continue
        if name == "logistic":
            found, errors = np.append(made.intercept, made.value), np.append(made.intercept_error, made.standard_errors)
        else:
            found, errors = np.array(made.value), made.standard_error
        found[0] += kind.centre * found[1:].sum()
        centred = np.column_stack([rows[:, :-1] - kind.centre, rows[:, -1]])
        best, covariance = fit(name, centred)
        sizes = np.sqrt(covariance.diagonal())
        result.ours.append((found - kind.truth) / sizes)
        result.theirs.append((best - kind.truth) / sizes)
        result.apart.append(float(np.abs((found - best) / sizes).max()))
        result.within.append(((found - kind.truth) / errors)[1 if kind.centre else 0 :])
    return result


def main(names: Sequence[str]) -> None:
    """Print a row for each loss, kind of data and share of the default retention, or those that are named."""
    print(
        "| loss | data | retention | error over that of all data | farthest off | noted | within 1 s.e. | 1.96 s.e. |"
    )
    print("|---|---|---|---|---|---|---|---|")
    for name, kinds in KINDS.items():
        for title, kind in kinds.items():
            for share in (1.0, 0.5):
                if not set(names) <= {name, title, str(share)}:
                    continue
                found = measure(name, kind, share)
                usual = make_policy(name, len(kind.truth)).default_retention
                numbers, covered = "- | -", "- | -"
                if found.ours:
                    numbers = f"{found.ratio:.2f} | {found.worst:.1f} s.e."
                    covered = f"{100 * found.covers(1.0):.0f}% | {100 * found.covers(1.959964):.0f}%"
                numbers += f" | {found.noted} of {found.streams}"
                print(f"| {name} | {title} | {int(usual * share)} | {numbers} | {covered} |", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
