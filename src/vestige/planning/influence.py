"""What is known of records before they come: a sample of them, or an assumption that is named.

All that a plan needs follows from how far one record moves each number (its influence, Hampel 1974): averages are
linear in the records, and the answer is as good as linear in the averages once there are enough records (the delta
method). So the error of the answer from n records is the spread of the influence over sqrt(n): in units of that spread,
1 / sqrt(n).
Guarantee: held by tests/planning/test_honesty.py.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from vestige.errors import DataError, NoAnswerError, ParameterError
from vestige.policies import Encoded, LinearRegression, Private
from vestige.policy import Answer
from vestige.random.generators import make_generator
from vestige.statistics import Averages, Clipped, LeastSquares, Mean
from vestige.stream.arrivals import read_rows
from vestige.types import Floats

NEAREST, FARTHEST = 1.0, 1_000.0
"""How far from zero a mean is taken to lie that nobody said, and how far it may lie, in standard deviations."""
_ROWS, _CELLS, _FEWEST = 50_000, 4_000_000, 100
_MOST_NUMBERS = 2_000
_NUDGE = 1e-4
_BLOCKS, _ALIKE = 32, 2.2  # of chi2 with 31 degrees of freedom over 31, one in ten thousand is above 2.2
_UNSURE = 0.15
_DRAWS = 200
_BEYOND = 1e9  # standard deviations from zero; farther, floats have few digits left for the spread
_MANY = 1e9  # records; whatever a policy concludes from its numbers here does not depend on how many


@dataclass(frozen=True, slots=True, eq=False)
class Numbers:
    """What a policy encodes of some records, and what it answers from it.

    Attributes:
        encoded: the numbers; shape (size,).
        moves: how far each record moves each of them, times the number of records; shape (n, size).
        value: what is answered; shape (numbers,).
        through: how far each encoded number moves each answer; shape (numbers, size), None if they are the same.
        concluded: from encoded numbers to the answer.
    """

    encoded: Floats
    moves: Floats
    value: Floats
    through: Floats | None
    concluded: Callable[[Floats], Floats]

    def answered(self, moves: Floats) -> Floats:
        """What moves of the encoded numbers, a row each, do to the answer; shape (n, numbers)."""
        return moves if self.through is None else moves @ self.through.T

    def carried(self, variances: Floats) -> Floats:
        """The variances of the answer, where the encoded numbers are off by independent amounts of these variances."""
        return variances if self.through is None else self.through**2 @ variances


def numbers_of(policy: Encoded, rows: Floats) -> Numbers:
    """The numbers that the policy encodes of these rows, and how each row moves them."""
    from vestige.statistics.kernels import clipped  # noqa: PLC0415

    statistic = policy.statistic
    if isinstance(statistic, Clipped):
        atoms = clipped(statistic.of.atoms(rows), statistic.bound)
        encoded: Floats = atoms.mean(axis=0)
        moves: Floats = atoms - encoded
    elif isinstance(statistic, Averages):
        encoded = statistic.step(None, rows, np.ones(len(rows)), 1.0)
        about_zero = isinstance(statistic, LeastSquares) and not statistic.intercept
        atoms = statistic.atoms(rows if about_zero else rows - rows.mean(axis=0))  # moves do not depend on the offset
        averages: Floats = atoms.mean(axis=0)
        moves = atoms - averages
        if not isinstance(statistic, Mean):
            moves = moves @ _slopes(statistic.from_averages, averages, moves).T
    else:
        raise ParameterError(
            f"policy={policy} cannot be planned: how fast it learns depends on its loss; plan Mean, Moments, "
            "Covariance or LinearRegression, or try it on a sample with vestige run"
        )

    def concluded(numbers: Floats) -> Floats:
        made = policy.conclude(numbers, _MANY, float(np.finfo(np.float64).eps))
        return np.ravel(made.value if isinstance(made, Answer) else made)

    value = concluded(encoded)
    plain = isinstance(statistic, Mean) or (isinstance(statistic, Clipped) and isinstance(statistic.of, Mean))
    return Numbers(encoded, moves, value, None if plain else _slopes(concluded, encoded, moves), concluded)


def _slopes(function: Callable[[Floats], Floats], at: Floats, moves: Floats) -> Floats:
    """How far each entry of `at` moves each entry of the result, by differences; shape (results, entries)."""
    nudges = _NUDGE * np.sqrt((moves**2).mean(axis=0))
    nudges = np.where(nudges > 0.0, nudges, _NUDGE)
    columns = []
    for i, nudge in enumerate(nudges):
        apart = np.zeros(len(at))
        apart[i] = nudge
        columns.append((function(at + apart) - function(at - apart)) / (2.0 * nudge))
    return np.array(columns).T


class Known:
    """What is known of the records that a policy will get.

    Args:
        policy: one of running averages, without noise.
        sample: some records, in their order; shape (n, columns). Without, records are taken to be normal with standard
            deviation 1 in each column, independent; outputs of a regression follow the predictors' sum, with noise of
            deviation 1.
        mean: without a sample, how far from zero each column's mean lies, in its standard deviations. Default: 1, and
            what this leaves open is said.

    Attributes:
        mean: what it was taken to be; None with a sample.
        spread: the standard deviation of what one record says of each number of the answer: the unit of all errors.
        notes: what is doubtful about the sample, in sentences.
    """

    def __init__(self, policy: Encoded, sample: ArrayLike | None = None, mean: float | None = None) -> None:
        _check(policy)
        self.policy = policy
        self.given = sample is not None
        self.mean = _distance(mean, given=self.given)
        self.guessed = not self.given and mean is None
        self.rows = _taken(policy, sample) if sample is not None else _assumed(policy, self.mean or 0.0)
        self._found: dict[Encoded, Numbers] = {}
        self.numbers = self.numbers_for(policy)
        influence = self.numbers.answered(self.numbers.moves)
        self.spread: Floats = np.sqrt((influence**2).mean(axis=0))
        if not (self.spread > 0.0).any():
            raise DataError(
                "all records of the sample say the same; there is nothing to plan: give a sample that varies"
            )
        self.notes = _doubts(influence, self.spread) if self.given else ()

    @cached_property
    def far(self) -> Known | None:
        """The same at the farthest mean that is considered, where nobody said how far from zero the mean lies."""
        return Known(self.policy, mean=FARTHEST) if self.guessed else None

    def numbers_for(self, policy: Encoded) -> Numbers:
        """What a policy of the same statistic encodes of these records."""
        if policy not in self._found:
            self._found[policy] = numbers_of(policy, self.rows)
        return self._found[policy]

    def relative(self, variances: Floats) -> float:
        """The mean of variances of the answer in units of the spread, over the numbers that vary."""
        varies = self.spread > 0.0
        return float((variances[varies] / self.spread[varies] ** 2).mean())

    def usual_bound(self) -> float:
        """The length of the longest of the assumed records; of a sample nothing may be taken."""
        statistic = self.policy.statistic
        assert isinstance(statistic, Averages)  # noqa: S101  # numbers_of refuses others
        return float(np.linalg.norm(statistic.atoms(self.rows), axis=1).max())

    def bends(self, numbers: Numbers, records: float, noise: float) -> tuple[float, float]:
        """How many times as large the error is as if the answer were linear, and how often there is no answer.

        Args:
            numbers: of the policy.
            records: how many the answer is from.
            noise: standard deviation of noise in each encoded number.
        """
        if numbers.through is None:
            return 1.0, 0.0
        rng, size = make_generator(0), len(numbers.encoded)
        unit = np.sqrt((numbers.moves**2).mean(axis=0))
        unit = np.where(unit > 0.0, unit, 1.0)  # columns in different units would drown in one another's rounding
        moves = numbers.moves / unit
        sizes, axes = np.linalg.eigh(moves.T @ moves / len(moves))
        root = unit[:, None] * axes * np.sqrt(np.maximum(sizes, 0.0) / records)
        moved = rng.normal(size=(_DRAWS, size)) @ root.T + noise * rng.normal(size=(_DRAWS, size))
        found = [error for error in (_moved(numbers, one) for one in moved) if error is not None]
        if not found:
            return np.inf, 1.0
        linear = self.relative((numbers.answered(moved) ** 2).mean(axis=0))
        ratio = self.relative((np.array(found) ** 2).mean(axis=0)) / linear
        return float(np.sqrt(ratio)), 1.0 - len(found) / _DRAWS


def _moved(numbers: Numbers, moved: Floats) -> Floats | None:
    """How far off the answer is where the encoded numbers are; None where there is no answer."""
    try:
        error = numbers.concluded(numbers.encoded + moved)
    except NoAnswerError:
        return None
    return error - numbers.value if error.shape == numbers.value.shape and np.isfinite(error).all() else None


def _check(policy: Encoded) -> None:
    """An error where there is no plan for this policy, whatever the records are."""
    if not isinstance(policy, Encoded) or isinstance(policy, Private):
        raise ParameterError(
            f"policy={policy} is none of Mean, Moments, Covariance or LinearRegression; plan one of them"
        )
    if policy.half_life is not None:
        raise ParameterError(
            f"half_life={policy.half_life} cannot be planned: the error then depends on how the stream drifts; leave "
            "it out"
        )
    size = policy.statistic.size
    if size > _MOST_NUMBERS and not isinstance(policy.statistic, Mean):
        raise ParameterError(
            f"{policy} encodes {size:,} numbers, above the {_MOST_NUMBERS:,} that a plan takes; use fewer columns"
        )


def _distance(mean: float | None, *, given: bool) -> float | None:
    """How far from zero the mean is taken to lie; None where a sample tells."""
    if given:
        if mean is not None:
            raise ParameterError(f"mean={mean} is not for a sample, which tells its own mean; leave it out")
        return None
    if mean is None:
        return NEAREST
    number = isinstance(mean, (int, float, np.integer, np.floating)) and not isinstance(mean, bool)
    if not number or not abs(mean) <= _BEYOND:
        raise ParameterError(
            f"mean={mean!r} is out of range; use a number of standard deviations from {-_BEYOND:g} to {_BEYOND:g}"
        )
    return float(mean)


def _assumed(policy: Encoded, mean: float) -> Floats:
    """Records as they are assumed to be where nobody knows any."""
    count = int(np.clip(_CELLS // policy.statistic.size, _FEWEST, _ROWS))
    rows = make_generator(0).normal(mean, 1.0, (count, policy.columns))
    if isinstance(policy, LinearRegression):
        rows[:, policy.dim :] += rows[:, : policy.dim].sum(axis=1, keepdims=True) - mean
    return rows


def _taken(policy: Encoded, sample: ArrayLike) -> Floats:
    """The sample, if the policy can take it and it is large enough to tell a spread."""
    rows = read_rows(sample, policy)
    if len(rows) < _FEWEST:
        raise DataError(
            f"the sample has {len(rows)} records; give at least {_FEWEST}, so that they tell how records vary"
        )
    return rows[: max(_FEWEST, _CELLS // policy.statistic.size)]


def _doubts(influence: Floats, spread: Floats) -> tuple[str, ...]:
    """Why the sample may not tell the error."""
    notes = []
    varies = spread > 0.0
    shares = influence[:, varies] ** 2 / (influence[:, varies] ** 2).sum(axis=0)
    unsure = float(np.sqrt((shares**2).sum(axis=0)).max())
    if unsure > _UNSURE:
        notes.append(
            f"The tails are heavy: a few of {len(influence):,} records make up much of the spread, whose square is "
            f"known to about {unsure:.0%} only, and errors no better; a larger sample tells more."
        )
    length = len(influence) // _BLOCKS
    blocks = influence[: _BLOCKS * length, varies].reshape(_BLOCKS, length, -1).mean(axis=1)
    alike = float((blocks.var(axis=0, ddof=1) * length / spread[varies] ** 2).max())
    if alike > _ALIKE * (1.0 + np.log(varies.sum()) / 4.0):  # the largest of several is larger
        notes.append(
            f"Records that come together are alike: averages of {length:,} vary {alike:.3g} times as much as those of "
            "independent ones, which is what the errors are for. Answers still follow those of all records; but "
            "these are worth fewer independent ones, and a window is worth less still."
        )
    return tuple(notes)
