"""Running averages that provably forget: noise hides erased records, permanently.

The construction: what is averaged of each record is clipped to length `bound`; whole batches are summed exactly on a
fine grid; discrete Gaussian noise is added to every batch's sums, the first included; the running average that results
is written in fixed-point numbers, rounded last.

Theorem. Replace the value of one record, and fix all rounds, times, subjects and requests. Then all states in which
that record is no longer held are, jointly, (epsilon, delta)-indistinguishable between the two streams. docs/privacy.md
proves it step by step; the steps are marked here and in `vestige.noise.sums`.
Guarantee: no audit refutes it, and each of three broken copies is refuted; held by tests/policies/test_private.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from hashlib import shake_256
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from vestige import channels, statistics
from vestige.channels import Reading, Target
from vestige.clock import Clock
from vestige.errors import NoAnswerError, ParameterError
from vestige.estimate import E_co, Estimate
from vestige.noise import Noise, noise_scale
from vestige.policies.base import NOISE_LEFT_OUT, Encoded
from vestige.policies.mean import Mean
from vestige.policies.report import Report
from vestige.policy import count_waiting
from vestige.random.keys import SECRET_WORDS
from vestige.records import Records
from vestige.types import Bools, Floats
from vestige.validation import check_float

_FINEST = 2**28
_LARGEST_DEVIATION = 2**30
_ROOM = 8.0
_WORDS_EACH = 96
"""Words of coins drawn for a number at first: a sample takes 20 on average; if these are not enough, more follow."""


@dataclass(frozen=True)
class Private(Encoded[E_co]):
    """A policy of running averages that forgets: noise hides what is erased, whoever looks and however long.

    Theorem: replace the value of one record, all rounds, times, subjects and requests fixed. Then all states in which
    that record is no longer held are, jointly, one release of the discrete Gaussian mechanism, and as such
    (epsilon, delta)-differentially private. The page on privacy in the docs proves it.

    It does not protect records that are still held; several records of one subject as well as one (k of them cost k
    times `mu` in one batch, the square root of k times in a batch each; epsilon grows faster: two in one batch cost
    2.12 where one costs 1, ten 13.5, at a delta of 1e-6); a record that goes into several streams, likewise; a stream
    that is forked or restored from a backup and goes on twice, since each draws noise of its own and their average has
    less; and nothing where the times of arrivals or requests depend on values. Coins come from the operating system; a
    stream refuses a seed.

    Args:
        policy: one that is made of averages, without a half-life: `Mean`, `Sum`, `Histogram`, `Shares`, `Ratio`,
            `Moments`, `Covariance`, `Correlation` or `LinearRegression`.
        bound: what is averaged of a record, as a vector, is shortened to this length if it is longer: the values for a
            mean; which bin they are in for a histogram, whose length is 1; their powers, or the values and products of
            pairs, for the others. Never take it from the data.
        epsilon: the epsilon of the (epsilon, delta) guarantee; smaller is more private.
        delta: the delta of the (epsilon, delta) guarantee.

    Raises:
        ParameterError: an argument is out of range, or the policy cannot be made private.

    Example:
        >>> from vestige import Stream
        >>> stream = Stream(Private(bound=5.0, epsilon=1.0, delta=1e-6), retention=2_048)
        >>> _ = stream.extend(np.random.default_rng(0).normal(2.0, 1.0, 500_000))
        >>> bool(abs(stream.estimate().value - 2.0) < 0.02)
        True
        >>> policy = Private(bound=3.0, epsilon=1.0, delta=1e-6)
        >>> [round(policy.price(batch, variance=0.973), 2) for batch in (64, 512, 4_096)]
        [11.32, 2.29, 1.16]
    """

    requires_secret_coins: ClassVar[bool] = True
    policy: Encoded[E_co] = field(default_factory=Mean)  # type: ignore[arg-type]
    bound: float = field(kw_only=True)
    epsilon: float = field(kw_only=True)
    delta: float = field(kw_only=True)

    def __post_init__(self) -> None:
        if not isinstance(self.policy, Encoded) or not isinstance(self.policy.statistic, statistics.Averages):
            raise ParameterError(
                f"policy={self.policy!r} is not a running average; use Mean, Moments, Covariance or LinearRegression"
            )
        if self.policy.takes_missing:
            raise ParameterError(
                "policy is a Bundle, whose columns have no bound in common; make one of its parts private"
            )
        if self.policy.half_life is not None:
            raise ParameterError(
                f"half_life={self.policy.half_life} is not for Private, in which all records count alike; leave it out"
            )
        if isinstance(self.policy, Mean) and self.policy.channel == "average":
            raise ParameterError("channel='average' shows values, which Private must not; use channel='bits'")
        check_float(
            "bound", self.bound, lambda n: 0.0 < n < np.inf, "a length above 0 that does not depend on the data"
        )
        check_float("epsilon", self.epsilon, lambda n: 0.0 < n < np.inf, "a number above 0, such as 1.0")
        check_float("delta", self.delta, lambda n: 0.0 < n < 1.0, "a number between 0 and 1, such as 1e-6")
        self.scale  # noqa: B018  # whether epsilon and delta are within reach is said at once

    def unwrap(self) -> Encoded[E_co]:
        """Give the policy without noise."""
        return self.policy

    def check_rows(self, rows: Floats) -> None:
        """Refuse the rows that the policy refuses; see `Policy.check_rows`."""
        self.policy.check_rows(rows)

    @property
    def columns(self) -> int:
        """The number of values that the policy takes."""
        return self.policy.columns

    @property
    def max_magnitude(self) -> float:
        """The largest value that the policy takes."""
        return self.policy.max_magnitude

    @property
    def statistic(self) -> statistics.Clipped:
        """The averages of clipped atoms."""
        averages: statistics.Averages = self.policy.statistic  # type: ignore[assignment]  # see __post_init__
        return statistics.Clipped(averages, self.bound)

    @property
    def encoding(self) -> channels.FixedPoint:
        """Fixed-point numbers, with room for eight deviations of the noise of the smallest batch."""
        batch = channels.FixedPoint(1.0).find_min_batch(self.statistic.size)
        return channels.FixedPoint(self.bound + _ROOM * self.batch_noise(batch))

    @property
    def scale(self) -> float:
        """The deviation of the noise, divided by the most that one record can move the sums of a batch (nu)."""
        return noise_scale(self.epsilon, self.delta, size=self.statistic.size)

    @property
    def mu(self) -> float:
        """The parameter of Gaussian differential privacy: the most that a record moves, in deviations of the noise."""
        return 1.0 / self.scale

    def price(self, batch: int, variance: float) -> float:
        """Compute how many times as large the mean squared error is as without noise.

        Each batch's sums get noise of deviation `2 scale bound` in each of `size` numbers, so that after many batches
        its share is `4 size scale^2 bound^2 / (batch variance)`.

        Args:
            batch: records in a batch; half of the retention in a stream.
            variance: the variance of what is averaged, after clipping: the trace of its covariance.

        Returns:
            the factor, 1 or more.
        """
        return 1.0 + 4.0 * self.statistic.size * self.scale**2 * self.bound**2 / (batch * variance)

    def noise(self, clock: Clock, waiting: int | None = None) -> float:
        """Compute the deviation of the noise in each average: that of all updates, over the records that count.

        Args:
            clock: the public clock, which counts updates and the records that they learned from.
            waiting: the number of records held that arrived since the last update; default: all that did.

        Returns:
            the standard deviation.
        """
        if not clock.encoded:
            return 0.0
        added = self._find_deviation(self._steps) * (self.bound / self._steps)
        counted = clock.encoded + (clock.pending if waiting is None else waiting)
        return float(added * np.sqrt(clock.updates) / counted)

    def batch_noise(self, batch: int) -> float:
        """Give the standard deviation of the noise in each average of a batch; see `Encoded.batch_noise`."""
        return 2.0 * self.scale * self.bound / batch

    @property
    def is_identity(self) -> bool:
        """Whether the answer is the encoded numbers themselves."""
        return self.policy.is_identity

    @property
    def answered_means(self) -> int:
        """The number of means that an answer includes."""
        return self.policy.answered_means

    def labels(self, columns: Sequence[str]) -> tuple[str, ...]:
        """Name the numbers of the answer; see `Encoded.labels`."""
        return self.policy.labels(columns)

    def report(self, estimate: E_co, columns: Sequence[str]) -> Report:  # type: ignore[misc]
        """Make a table of an answer; see `Encoded.report`."""
        return self.policy.report(estimate, columns)

    def draw_rows(self, rng: np.random.Generator, count: int, mean: float) -> Floats:
        """Draw records to plan with; see `Encoded.draw_rows`."""
        return self.policy.draw_rows(rng, count, mean)

    def answer(self, clock: Clock, retained: Records) -> E_co:
        """Answer with what the policy concludes from the averages, and note how much noise is in them.

        Args:
            clock: the public clock.
            retained: the records that are held.

        Returns:
            the policy's estimate.

        Raises:
            NoAnswerError: the averages do not determine an answer.
        """
        noise = self.noise(clock, count_waiting(clock, retained))
        try:
            answer = super().answer(clock, retained)
        except NoAnswerError as problem:
            raise NoAnswerError(
                f"{problem} (each average carries noise with standard deviation {noise:.3g}; use more records, larger "
                "batches or a larger epsilon)"
            ) from None
        note = (
            f"Each average carries noise with standard deviation {noise:.3g}, the price of epsilon={self.epsilon:g} "
            f"and delta={self.delta:g}{_explain_errors(answer)}."
        )
        return replace(answer, notes=(*answer.notes, note))

    def rewrite(self, clock: Clock, retained: Records, coins: int) -> tuple[int, Bools] | None:  # noqa: ARG002
        """Write the same numbers into those of the kept records that are not leaving; nothing is learned without noise.

        Whether that can be done is decided by the rounds and marks of what is left.
        """
        slots, length = retained.rounds - clock.first, clock.last - clock.first + 1
        kept, size = retained.rounds <= clock.last, self.statistic.size
        can = channels.lay_out(slots[kept], ~retained.leaving[kept], length)
        if not clock.encoded or not self.encoding.can_encode(can, size):
            return None
        reading, share = self._read_encoded(clock, retained), length / clock.encoded
        target = self._make_target(*reading, None, retained.values, share, clock.first, length)
        values = np.zeros((length, retained.columns))
        keep = self.encoding.write(values, can, target, self.statistic, clock.first, np.uint64(0))
        mask = ~retained.leaving
        mask[kept] &= keep[slots[kept]]
        return clock.last, mask

    def conclude(self, numbers: Floats, worth: float, rounding: float) -> E_co:
        """Give what the policy concludes from the averages; see `Encoded.conclude`."""
        return self.policy.conclude(self.statistic.of.from_averages(numbers), worth, rounding)

    def _conclude_for(self, numbers: Floats, worth: float, rounding: float, clock: Clock, retained: Records) -> E_co:
        """What the policy concludes, with the noise that was added."""
        each = np.full(len(numbers), self.noise(clock, count_waiting(clock, retained)))
        return self.policy.conclude_noisy(numbers, Noise(each, np.zeros(len(numbers))), worth, rounding)

    def _derive_keys(self, coins: int) -> NDArray[np.uint64]:
        return np.frombuffer(coins.to_bytes(8 * SECRET_WORDS, "little"), np.uint64)[None, :]

    def _step(
        self,
        before: Reading | None,
        usual: Floats | None,
        values: Floats,
        present: Bools,
        share: float,
        first: int,
        key: NDArray[np.uint64],
    ) -> tuple[Target, np.uint64]:
        """Steps 1 to 4 of the proof: clip, sum on the grid, add noise, average; see `vestige.noise.sums`."""
        from vestige.noise.sums import average_with_noise  # noqa: PLC0415

        statistic, steps = self.statistic, self._steps
        atoms, target = statistic.of.atoms(values), np.empty(statistic.size)
        numbers, off = (
            Reading(np.zeros(statistic.size), np.zeros(statistic.size, np.bool_)) if before is None else before
        )
        each = _WORDS_EACH * statistic.size
        while True:
            words = _expand(key, each)
            if average_with_noise(
                atoms, present, numbers, share, self.bound, steps, self._find_deviation(steps), words, target
            ):
                return self._make_target(target, off, usual, values[present], share, first, len(present)), words[0]
            each *= 2  # the same coins and more after them, so that what is drawn does not depend on how many

    def _make_target(
        self,
        numbers: Floats,
        off: Bools,
        usual: Floats | None,  # noqa: ARG002
        values: Floats,
        share: float,
        first: int,
        length: int,
    ) -> Target:
        """The numbers, to be marked as off where the steps are coarse beside the noise; nothing is read from values."""
        from vestige.channels.averages import draw_mark  # noqa: PLC0415
        from vestige.statistics.kernels import find_far_limit  # noqa: PLC0415

        count, near = max(len(values), 1), np.zeros(len(numbers))
        noise = self.batch_noise(count) * np.sqrt(count)
        limit = find_far_limit(noise, count, min(share, 1.0), 0.0, draw_mark(first, length, 0))
        return Target(numbers, near, np.full(len(numbers), limit), off)

    def _find_rounding(self, clock: Clock) -> float:  # noqa: ARG002
        """Nothing here: what is coarse beside the noise is marked."""
        return float(np.finfo(np.float64).eps)

    @property
    def _steps(self) -> int:
        """The number of steps of the grid in the bound: as many as possible."""
        return int(min(_FINEST, _LARGEST_DEVIATION // (2.0 * self.scale)))

    def _find_deviation(self, steps: int) -> int:
        """The deviation of the noise in steps; two records differ by at most twice the bound."""
        return int(np.ceil(self.scale * 2.0 * steps))


def _expand(key: NDArray[np.uint64], words: int) -> NDArray[np.uint64]:
    """As many words as are wanted from a key; shape (words,)."""
    return np.frombuffer(shake_256(key.tobytes()).digest(8 * words), np.uint64)


def _explain_errors(answer: Estimate) -> str:
    """Whether what is said of errors includes the noise."""
    if all(getattr(answer, error, None) is None for error in answer.errors):
        return "; bounds include five times it" if hasattr(answer, "upper") else ""
    return "" if NOISE_LEFT_OUT in answer.notes else "; standard errors include it"
