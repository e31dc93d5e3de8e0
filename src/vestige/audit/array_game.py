"""The audit game in array form: millions of trials of `Mean` and `Private`, on all cores or on a GPU.

Two streams differ in the value of one record; the adversary sees the answer right after an update. The bounds are those
of `measure_leakage`, whose ceiling rises with the number of trials: epsilon 5.6 for a thousand, 14.8 for ten million.
A mean in bits is played with records that are uniform between 0 and 1 and new in each trial (the adversary knows their
distribution); a private mean with records that are known, so that only the noise is new.
Guarantee: each answer is that of a `vestige.Stream`, bit for bit; held by tests/audit/test_array_game.py.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from vestige.audit.bounds import (
    Criterion,
    classify,
    epsilon_ceiling,
    epsilon_lower_bound,
    find_threshold,
    mu_lower_bound,
    total_variation_lower_bound,
)
from vestige.channels.bits import Bits
from vestige.channels.fixed_point import HEADER, count_rows
from vestige.channels.layout import MAX_BITS
from vestige.errors import ParameterError
from vestige.policies import Mean, Private
from vestige.random.keys import AuditSeed, derive_root, draw
from vestige.stream import Stream
from vestige.types import Floats
from vestige.validation import check_bool, check_float, check_floats, check_int, show_value

if TYPE_CHECKING:
    from vestige.audit.array_kernels import Known

_CHUNK = 1 << 22
"""Trials whose answers are in memory at a time."""
_MOST_FITTED = 200_000
"""Trials that thresholds are chosen on; they are not counted."""
_WORDS = 64 * 17
"""Coins of a batch, in whole outputs of SHAKE-256: 20 are used on average, more than these practically never."""


@dataclass(frozen=True, slots=True)
class ArrayLeakage:
    """What many trials show of one answer.

    Attributes:
        trials: number of trials of each hypothesis that were counted.
        true_positives: trials of the alternative that were decided as such, for epsilon and for the other bounds.
        false_positives: trials of the null hypothesis that were decided as the alternative, likewise.
        epsilon: lower bound of epsilon at `delta`.
        epsilon_ceiling: largest epsilon that so many trials can show.
        mu: lower bound of the parameter of Gaussian differential privacy.
        total_variation: lower bound of the total variation distance.
        delta: delta at which epsilon is bounded.
        confidence: confidence level of each bound.
    """

    trials: int
    true_positives: tuple[int, int]
    false_positives: tuple[int, int]
    epsilon: float
    epsilon_ceiling: float
    mu: float
    total_variation: float
    delta: float
    confidence: float


@dataclass(frozen=True, eq=False)
class ArrayGame:
    """What is fixed before the first trial.

    Args:
        policy: `Mean(channel="bits")` in one dimension, or `Private` of a mean in one dimension with a `bound`.
        retention: retention of the stream, in records; even.
        t: the round after which the answer is observed: a whole number of batches, in the last of which the
            record is not.
        null: value of the record under the null hypothesis.
        alternative: its value under the alternative.
        target: round in which it arrives.
        others: all records, which the adversary knows; shape (t,); for `Private`. Default there: zeros.
        seed: seed of the records and coins of all trials.

    Raises:
        ParameterError: an argument is out of range, or the policy has no array form.

    Example:
        >>> game = ArrayGame(Private(bound=1.0, epsilon=1.0, delta=1e-6), retention=128, t=256, null=-1.0)
        >>> answers = game.play(range(4), is_alternative=True)
        >>> stream = game.make_stream(2)
        >>> _ = stream.extend(game.make_records(2, is_alternative=True))
        >>> bool(stream.estimate().value == answers[2])
        True
    """

    policy: Mean | Private
    retention: int
    t: int
    null: float = 0.0
    alternative: float = 1.0
    target: int = 1
    others: Floats | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        self._check_policy()
        check_int("retention", self.retention, 2 * self.policy.min_batch)
        check_int("t", self.t, self.retention, 1 << 20)
        check_int("target", self.target, 1, self.t - self.batch)
        check_int("seed", self.seed, 0)
        if self.retention % 2 or self.t % self.batch:
            raise ParameterError(
                f"retention={self.retention} and t={self.t} do not end with an update; use an even retention, and t a "
                "multiple of half of it"
            )
        for name in ("null", "alternative"):
            check_float(name, getattr(self, name), lambda n: abs(n) <= self.policy.max_magnitude, "a finite number")
        if self.others is not None and isinstance(self.policy, Mean):
            raise ParameterError(
                "others is for Private; the records of a mean are drawn in each trial, or nothing is new"
            )
        if self.others is not None and check_floats("others", self.others).shape != (self.t,):
            raise ParameterError(f"others has shape {np.shape(self.others)}; pass t={self.t} numbers")

    def _check_policy(self) -> None:
        """Refuse what the kernels of an array do not do."""
        policy = self.policy.policy if isinstance(self.policy, Private) else self.policy
        is_plain = isinstance(policy, Mean) and policy.dim == 1 and not policy.spread and policy.half_life is None
        if isinstance(self.policy, Private):
            is_plain = is_plain and isinstance(self.policy.bound, float)
        elif is_plain:
            is_plain = isinstance(policy.encoding, Bits)
        if not is_plain:
            raise ParameterError(
                f"policy={self.policy!r} has no array form; use Mean(channel='bits'), or Private of a mean with a "
                "bound, both in one dimension, or measure_leakage, which takes any policy"
            )

    @property
    def batch(self) -> int:
        """Records in a batch."""
        return self.retention // 2

    def make_stream(self, trial: int) -> Stream[Any]:
        """Make the stream of a trial, to compare with.

        Args:
            trial: number of the trial.

        Returns:
            A stream that has taken nothing yet.
        """
        return Stream(self.policy, retention=self.retention, seed=AuditSeed(self._derive(trial, 1)))

    def make_records(self, trial: int, *, is_alternative: bool) -> Floats:
        """Make the records of a trial.

        Args:
            trial: number of the trial.
            is_alternative: which of the hypotheses is true.

        Returns:
            The records; shape (t,).
        """
        if isinstance(self.policy, Private):
            records = np.zeros(self.t) if self.others is None else np.array(self.others, np.float64)
        else:
            key = self._derive(trial, 2)
            records = np.array([(draw(key, i) >> 11) * 2.0**-53 for i in range(self.t)])
        records[self.target - 1] = self.alternative if is_alternative else self.null
        return records

    def play(self, trials: range, *, is_alternative: bool, accelerator: bool = False) -> Floats:
        """Play trials and observe the answers.

        Args:
            trials: numbers of the trials, one after the other.
            is_alternative: which of the hypotheses is true.
            accelerator: whether to use a GPU of NVIDIA; the answers are the same.

        Returns:
            The answers; shape (trials,).

        Raises:
            ParameterError: `trials` has a step, or there is no GPU.
            MissingExtraError: numba-cuda is not installed.
        """
        check_bool("is_alternative", is_alternative)
        check_bool("accelerator", accelerator)
        if not isinstance(trials, range) or trials.step != 1:
            raise ParameterError(f"trials={show_value(trials)} is not a range of trials with a step of 1")
        answers, play = np.empty(len(trials)), self._find_player(is_alternative, accelerator)
        if accelerator:
            play(trials.start, answers)
        else:
            parts = np.array_split(answers, os.cpu_count() or 1)  # views, which threads fill: kernels hold no lock
            firsts = trials.start + np.cumsum([0, *map(len, parts[:-1])])
            with ThreadPoolExecutor() as threads:
                list(threads.map(play, firsts.tolist(), parts))
        if np.isnan(answers).any():
            raise RuntimeError("the coins of a batch ran out, which has a probability of practically 0")
        return answers

    def bound(
        self, trials: int, *, confidence: float = 0.95, delta: float = 0.0, accelerator: bool = False
    ) -> ArrayLeakage:
        """Bound what the answer reveals from below.

        Thresholds are chosen on a tenth as many trials, at most 200,000, which are not counted.

        Args:
            trials: number of trials of each hypothesis.
            confidence: confidence level of each bound.
            delta: delta at which epsilon is bounded.
            accelerator: see `play`.

        Returns:
            The bounds and the counts that they come from.

        Raises:
            ParameterError: `trials` is not positive, or there is no GPU.
            MissingExtraError: numba-cuda is not installed.

        Example:
            >>> game = ArrayGame(Private(bound=1.0, epsilon=1.0, delta=1e-6), retention=128, t=256, null=-1.0)
            >>> 0.0 <= game.bound(2_000, delta=1e-6).epsilon < 1.0
            True
        """
        check_int("trials", trials, 1, 1 << 40)
        fitted = range(trials, trials + min(_MOST_FITTED, max(trials // 10, 100)))
        null, other = (self.play(fitted, is_alternative=one, accelerator=accelerator) for one in (False, True))
        sign = 1.0 if other.mean() >= null.mean() else -1.0
        criteria: tuple[Criterion, ...] = ("epsilon", "total_variation")
        thresholds = [
            find_threshold(sign * null, sign * other, confidence=confidence, delta=delta, criterion=one)
            for one in criteria
        ]
        counts = np.zeros((2, 2), np.int64)  # hypothesis, criterion
        for start in range(0, trials, _CHUNK):
            chunk = range(start, min(start + _CHUNK, trials))
            for i in (0, 1):
                scores = sign * self.play(chunk, is_alternative=bool(i), accelerator=accelerator)
                counts[i] += [int(classify(scores, threshold).sum()) for threshold in thresholds]
        (fp, far), (tp, near) = counts.tolist()
        distances = near, trials - near, far, trials - far
        return ArrayLeakage(
            trials,
            (tp, near),
            (fp, far),
            epsilon_lower_bound(tp, trials - tp, fp, trials - fp, confidence=confidence, delta=delta),
            epsilon_ceiling(trials, confidence=confidence, delta=delta),
            mu_lower_bound(*distances, confidence=confidence),
            total_variation_lower_bound(*distances, confidence=confidence),
            delta,
            confidence,
        )

    def _derive(self, trial: int, purpose: int) -> int:
        """What a trial draws from; see `vestige.audit.array_kernels.derive_trial`."""
        return draw(draw(derive_root(self.seed), trial), purpose)

    def _find_player(self, is_alternative: bool, accelerator: bool) -> Callable[[int, Floats], None]:
        """The kernel that plays, and what it needs beside the number of the first trial and room for answers."""
        from vestige.audit import array_kernels as kernels  # noqa: PLC0415

        players: Any = kernels
        if accelerator:
            from vestige.audit import cuda  # noqa: PLC0415

            players = cuda
        root, value = np.uint64(derive_root(self.seed)), self.alternative if is_alternative else self.null
        if isinstance(self.policy, Private):
            known = self._sum_batches(is_alternative)
            return lambda first, answers: players.play_private_trials(root, first, _WORDS, known, answers)
        rest = self.t, self.batch, self.target, float(value), self.policy.tolerance
        return lambda first, answers: players.play_mean_trials(root, first, *rest, answers)

    def _sum_batches(self, is_alternative: bool) -> Known:
        """What all trials of a private average share."""
        from vestige.audit.array_kernels import Known  # noqa: PLC0415

        policy, everyone = self.policy, np.ones(self.batch, np.bool_)
        assert isinstance(policy, Private)  # noqa: S101
        steps, sums = policy._steps, np.empty((self.t // self.batch, 1), np.int64)
        batches = self.make_records(0, is_alternative=is_alternative).reshape(-1, self.batch, 1)
        for batch, total in zip(batches, sums, strict=True):
            policy.statistic.sum_on_grid(batch, everyone, steps, total)
        step, limit = policy.statistic.reach / steps, policy.encoding.limit
        bits = min(MAX_BITS, count_rows(self.batch, 1) - HEADER)
        return Known(sums[:, 0].copy(), self.batch, step, policy._find_deviation(steps), limit, bits)
