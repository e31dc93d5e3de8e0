"""Running averages that provably forget: noise hides erased records, permanently.

The construction: what is averaged of each record is clipped to length `bound`, or its values to `bounds`; whole batches
are summed exactly on a fine grid; discrete Gaussian noise is added to every batch's sums, the first included; the
running average that results is written in fixed-point numbers, rounded last. The metrics of a bundle are one vector, in
units in which noise of one deviation hides a whole record (`vestige.statistics.clipped`).

Theorem. Replace the value of one record, and fix all rounds, times, subjects and requests. Then all states in which
that record is no longer held are, jointly, (epsilon, delta)-indistinguishable between the two streams. docs/privacy.md
proves it step by step; the steps are marked here and in `vestige.noise.sums`.
Guarantee: no audit refutes it, and each of the broken copies is refuted; held by tests/policies/test_private.py and
tests/policies/test_private_bundle.py.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
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
from vestige.policies.base import NOISE_LEFT_OUT, Basis, Encoded
from vestige.policies.bundle import Bundle, BundleEstimate
from vestige.policies.correlation import Correlation
from vestige.policies.count import Count
from vestige.policies.covariance import Covariance
from vestige.policies.histogram import Histogram, Shares
from vestige.policies.histogram_quantiles import HistogramQuantiles
from vestige.policies.linear import LinearRegression
from vestige.policies.mean import Mean
from vestige.policies.moments import Moments
from vestige.policies.named_policy import NamedPolicy
from vestige.policies.ratio import Ratio
from vestige.policies.report import Report
from vestige.policies.sum import Sum
from vestige.policy import count_waiting, leave_out_waiting
from vestige.random.keys import SECRET_WORDS
from vestige.records import Records
from vestige.types import Bools, Floats
from vestige.validation import check_float, check_floats, show_value
from vestige.whole_numbers import WholeNumbers

AVERAGED: tuple[type[NamedPolicy], ...] = (
    Mean,
    Sum,
    Histogram,
    HistogramQuantiles,
    Shares,
    Ratio,
    Moments,
    Covariance,
    Correlation,
    LinearRegression,
)
"""The statistics that are made of averages, so that they can have noise."""
Limit = float | tuple[float, float]
"""The largest magnitude of a value, or the least and the largest value."""
_FINEST = 2**28
_LARGEST_DEVIATION = 2**30
_ROOM = 8.0
_VARIED = 3.0
_SEVERAL = "Where a person has one record in each of k of the combined streams, mu is the root of k times as large."
_LARGEST_BATCH = 2**20
"""The most records of a batch by default, whatever the noise is."""
_MAX_BOUND = 1e50
"""The largest bound; the smallest is its inverse."""
_WORDS_EACH = 96
"""Words of coins drawn for a number at first: a sample takes 20 on average; if these are not enough, more follow."""


@dataclass(frozen=True)
class Private(Encoded[E_co]):
    """A policy of running averages that forgets: noise hides what is erased, whoever looks and however long.

    Theorem: replace the value of one record, all rounds, times, subjects and requests fixed. Then all states in which
    that record is no longer held are, jointly, one release of the discrete Gaussian mechanism, and as such
    (epsilon, delta)-differentially private. The page on privacy in the docs proves it.

    An answer is that of the last update: the records that wait for the next one are in none, and there is none before
    the first. So the theorem holds for all answers too, also for records that are held.

    It does not protect records that are still held from who sees the state; several records of one subject as well as
    one (k of them cost k times `mu` in one batch, the square root of k times in a batch each; epsilon grows faster: two
    in one batch cost 2.12 where one costs 1, ten 13.5, at a delta of 1e-6); a record that goes into several streams,
    likewise; a stream that is forked or restored from a backup and goes on twice, or a commit that is tried again,
    since each draws noise of its own and their average has less; and nothing where the times of arrivals or requests
    depend on values. Coins come from the operating system; a stream refuses a seed.

    Args:
        policy: one that is made of averages, without a half-life: `Mean`, `Sum`, `Histogram`, `Shares`, `Ratio`,
            `HistogramQuantiles`, `Moments`, `Covariance`, `Correlation`, `LinearRegression`, or a `Bundle` of these and
            of `Count`.
        bound: what is averaged of a record, as a vector, is shortened to this length if it is longer: the values for a
            mean; which bin they are in for a histogram, whose length is 1; their powers, or the values and products of
            pairs, for the others. Or both ends, such as `(0, 200)`: the least and the largest value of every column, as
            in `bounds`. Not for a bundle. Never take it from the data.
        bounds: in place of `bound`, the largest magnitude of the values of each column, or both ends, such as
            `(0, 200)`; values beyond are cut off. The noise is that of half of the range, so that both ends need half
            of it or less where values have one sign. A mapping of the columns of a bundle, or one entry for each
            column. Histograms, shares and counts need none. Never take them from the data.
        epsilon: the epsilon of the (epsilon, delta) guarantee, for a whole record with all its metrics; smaller is more
            private.
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
        >>> ages = [Private(bound=bound, epsilon=1.0, delta=1e-6) for bound in (100.0, (0, 100))]
        >>> [round(policy.price(4_096, variance=400.0), 2) for policy in ages]
        [1.44, 1.11]
        >>> from vestige import Bundle, Shares
        >>> metrics = Bundle({"amount": Mean(), "status": Shares(("ok", "failed"))})
        >>> policy = Private(metrics, bounds={"amount": 100.0}, epsilon=1.0, delta=1e-6)
        >>> stream = Stream(policy, retention=8_192)
        >>> rng = np.random.default_rng(0)
        >>> _ = stream.extend(np.column_stack([rng.normal(30.0, 9.0, 500_000), rng.integers(0, 2, 500_000)]))
        >>> mean = stream.estimate()["amount:mean"]
        >>> bool(abs(mean.value - 30.0) < 5.0 * mean.standard_error)
        True
    """

    requires_secret_coins: ClassVar[bool] = True
    hides_waiting: ClassVar[bool] = True
    policy: Encoded[E_co] = field(default_factory=Mean)  # type: ignore[arg-type]
    bound: Limit | None = field(default=None, kw_only=True)
    bounds: Mapping[str, Limit] | Sequence[Limit] | None = field(
        default=None, kw_only=True, metadata={"added_later": True}
    )
    epsilon: float = field(kw_only=True)
    delta: float = field(kw_only=True)

    def __post_init__(self) -> None:
        if not isinstance(self.policy, Encoded) or not isinstance(self.policy.statistic, statistics.Averages):
            raise ParameterError(
                f"policy={self.policy!r} is not a running average; use {list_names(kind.__name__ for kind in AVERAGED)}"
            )
        if isinstance(self.policy, Bundle):
            _check_parts(self.policy)
        if self.policy.half_life is not None:
            raise ParameterError(
                f"half_life={self.policy.half_life} is not for Private, in which all records count alike; leave it out"
            )
        if isinstance(self.policy, Mean) and self.policy.channel == "average":
            raise ParameterError("channel='average' shows values, which Private must not; use channel='bits'")
        check_float("epsilon", self.epsilon, lambda n: 0.0 < n < np.inf, "a number above 0, such as 1.0")
        check_float("delta", self.delta, lambda n: 0.0 < n < 1.0, "a number between 0 and 1, such as 1e-6")
        self._check_bounds()
        self.scale  # noqa: B018  # whether epsilon and delta are within reach is said at once

    def unwrap(self) -> Encoded[E_co]:
        """Give the policy without noise."""
        return self.policy

    @property
    def checks_rows(self) -> bool:
        """Whether the policy may refuse a row."""
        return self.policy.checks_rows

    def read_whole_numbers(self, column: int) -> WholeNumbers:
        """Read them as the policy does; see `Policy.read_whole_numbers`."""
        return self.policy.read_whole_numbers(column)

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
    def takes_missing(self) -> bool:
        """Whether a value may be missing: in a bundle."""
        return self.policy.takes_missing

    @cached_property
    def statistic(self) -> statistics.Limited:
        """The averages of clipped atoms."""
        if isinstance(self.bound, float):
            return statistics.Clipped(self._averages, self.bound)
        bounds, centres = zip(*map(_find_reach, self._list_limits()), strict=True)
        return statistics.Bounded(self._averages, bounds, self._steps, centres)

    @cached_property
    def encoding(self) -> channels.FixedPoint:
        """Fixed-point numbers, with room for eight deviations of the noise of the smallest batch."""
        batch = channels.FixedPoint(1.0).find_min_batch(self.statistic.size)
        return channels.FixedPoint(self.statistic.limit + _ROOM * self.batch_noise(batch))

    @property
    def scale(self) -> float:
        """The deviation of the noise, divided by the most that one record can move the sums of a batch (nu)."""
        return noise_scale(self.epsilon, self.delta, size=self._averages.size)

    @property
    def mu(self) -> float:
        """The parameter of Gaussian differential privacy: the most that a record moves, in deviations of the noise."""
        return 1.0 / self.scale

    def price(self, batch: int, variance: float) -> float:
        """Compute how many times as large the mean squared error is as without noise.

        Each batch's sums get noise of deviation `2 scale bound` in each of `size` numbers, so that after many batches
        its share is `4 size scale^2 bound^2 / (batch variance)`; where `bound` has two ends, half of the range takes
        its place. Where there are `bounds`, each number has another variance and another price:
        `vestige.planning.predict` tells them.

        Args:
            batch: records in a batch; half of the retention in a stream.
            variance: the variance of what is averaged, after clipping: the trace of its covariance.

        Returns:
            the factor, 1 or more.

        Raises:
            ParameterError: there is no `bound`.
        """
        if self.bound is None:
            raise ParameterError("price needs bound, one length for a record; use vestige.planning.predict for bounds")
        reach = self.statistic.reach * self.statistic.scales
        return float(1.0 + 4.0 * self.scale**2 * (reach**2).sum() / (batch * variance))

    def noise(self, clock: Clock, waiting: int = 0) -> float:
        """Compute the deviation of the noise in each number: that of all updates, over the records that count.

        With `bound`, the numbers are the averages. With `bounds`, they are in units of their own: the average of a
        number has `statistic.scales` times as much.

        Args:
            clock: the public clock, which counts updates and the records that they learned from.
            waiting: the number of records without noise that an answer counts besides, those that wait.

        Returns:
            the standard deviation.
        """
        if not clock.encoded:
            return 0.0
        added = self._find_deviation(self._steps) * (self.statistic.reach / self._steps)
        return float(added * np.sqrt(clock.updates) / (clock.encoded + waiting))

    def batch_noise(self, batch: int) -> float:
        """Give the standard deviation of the noise in each average of a batch; see `Encoded.batch_noise`."""
        return 2.0 * self.scale * self.statistic.reach / batch

    @property
    def default_retention(self) -> int:
        """The retention used by default: at most twice the squared error for values that vary by a third of bounds."""
        batch = math.ceil((_VARIED * 2.0 * self.scale * self.statistic.reach / self.statistic.least_limit) ** 2)
        return max(super().default_retention, 2 * min(batch, _LARGEST_BATCH))

    @property
    def is_identity(self) -> bool:
        """Whether the answer is the encoded numbers themselves."""
        return isinstance(self.bound, float) and self.policy.is_identity

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

    def name_bounds(self, columns: Sequence[str]) -> dict[str, Limit]:
        """Name the bounds of columns.

        Args:
            columns: the names of the columns of a record, targets last.

        Returns:
            the largest magnitude or both ends by column, of those that have one; empty where `bound` is a length.

        Example:
            >>> Private(Mean(), bounds=[100.0], epsilon=1.0, delta=1e-6).name_bounds(["spent"])
            {'spent': 100.0}
        """
        given = zip(columns, self._list_limits(), strict=True)
        return {column: limit for column, limit in given if limit is not None}

    def draw_rows(self, rng: np.random.Generator, count: int, mean: float) -> Floats:
        """Draw records to plan with; see `Encoded.draw_rows`."""
        return self.policy.draw_rows(rng, count, mean)

    def answer(self, clock: Clock, retained: Records) -> E_co:
        """Answer with what the policy concludes from the averages at the last update, and note their noise.

        The records that have arrived since have met no noise: joined with the averages, each new one could be told from
        two answers. So they are in no answer, and there is none before the first update.

        Args:
            clock: the public clock.
            retained: the records that are held.

        Returns:
            the policy's estimate.

        Raises:
            NoAnswerError: there has been no update, or the averages do not determine an answer.
        """
        if not clock.encoded:
            raise NoAnswerError(
                f"no update has been made since round {clock.since:,}, and only an update adds noise; the answer comes "
                "with the first full batch; a smaller retention has smaller ones, with more noise"
            )
        made = self.answer_with_waiting(*leave_out_waiting(clock, retained))
        return _date_parts(made, clock, retained) if isinstance(made, BundleEstimate) else made

    def answer_with_waiting(self, clock: Clock, retained: Records) -> E_co:
        """Answer with the averages joined with the records that wait, which protects none of these; see `Policy`."""
        try:
            return super().answer(clock, retained)
        except NoAnswerError as problem:
            raise self._explain(problem, self._find_noise(clock, retained)) from None

    def complete(self, made: E_co, clock: Clock, retained: Records, counted: int) -> E_co:  # type: ignore[misc]
        """Note how much noise there is; see `Encoded.complete`."""
        note = self._note_noise(made, self._find_noise(clock, retained))
        return self.policy.complete(replace(made, notes=(*made.notes, note)), clock, retained, counted)

    def complete_merged(self, made: E_co, parts: Sequence[E_co]) -> E_co:  # type: ignore[misc]
        """Note how much noise is left; see `Encoded.complete_merged`."""
        note = self._note_noise(made, made.basis.noise)  # type: ignore[attr-defined]  # see Encoded.combine
        return self.policy.complete_merged(replace(made, notes=(*made.notes, note, _SEVERAL)), parts)

    def conclude_merged(self, merged: Basis, parts: Sequence[E_co]) -> E_co:  # noqa: ARG002
        """Give what the policy concludes from averages with this noise; see `Encoded.conclude_merged`."""
        try:
            return self._conclude_with(merged.numbers, merged.noise, merged.worth, merged.rounding)
        except NoAnswerError as problem:
            raise self._explain(problem, merged.noise) from None

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
        target = self._make_target(reading.numbers, reading.off, None, retained.values, share, clock.first, length)
        values = np.zeros((length, retained.columns))
        keep = self.encoding.write(values, can, target, self.statistic, clock.first, np.uint64(0))
        mask = ~retained.leaving
        mask[kept] &= keep[slots[kept]]
        return clock.last, mask

    def conclude(self, numbers: Floats, worth: float, rounding: float) -> E_co:
        """Give what the policy concludes from the averages; see `Encoded.conclude`."""
        return self.policy.conclude(self._read_averages(numbers), worth, rounding)

    def conclude_freely(self, numbers: Floats, worth: float) -> Floats:
        """Give what the policy concludes from the averages, beyond limits; see `Encoded.conclude_freely`."""
        return self.policy.conclude_freely(self._read_averages(numbers), worth)

    def _read_averages(self, numbers: Floats) -> Floats:
        """The numbers that the policy tracks, from those that are encoded."""
        return self._averages.from_averages(numbers * self.statistic.scales, self._centres)

    def _conclude_for(self, numbers: Floats, worth: float, rounding: float, clock: Clock, retained: Records) -> E_co:
        """What the policy concludes, with the noise that was added."""
        return self._conclude_with(numbers, self._find_noise(clock, retained), worth, rounding)

    def _conclude_with(self, numbers: Floats, noise: float, worth: float, rounding: float) -> E_co:
        """What the policy concludes from numbers with this noise in each."""
        scales = self.statistic.scales
        of_numbers = Noise(noise * scales, 0.0 * scales)
        return self.policy.conclude_noisy(numbers * scales, of_numbers, worth, rounding, self._centres)

    def _find_noise(self, clock: Clock, retained: Records) -> float:
        """The standard deviation of the noise in each number."""
        return self.noise(clock, count_waiting(clock, retained))

    def _note_noise(self, made: Estimate, noise: float) -> str:
        """How much noise there is, and what for, in a sentence."""
        said = self._describe_noise(noise)
        return (
            f"{said[:1].upper()}{said[1:]}, the price of epsilon={self.epsilon:g} and delta={self.delta:g} for one "
            f"record, not for a person with several{_explain_errors(made)}."
        )

    def _explain(self, problem: NoAnswerError, noise: float) -> NoAnswerError:
        """The error where the noise may be why there is no answer."""
        return NoAnswerError(
            f"{problem} ({self._describe_noise(noise)}; use more records, larger batches or a larger epsilon)"
        )

    def _describe_noise(self, noise: float) -> str:
        """How much noise the averages carry, in words."""
        if self.policy.takes_missing:
            return "the averages of all metrics carry noise"
        each = np.unique(noise * self.statistic.scales)
        several = "" if len(each) == 1 else f" to {each[-1]:.3g}"
        return f"each average carries noise with standard deviation {each[0]:.3g}{several}"

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
        sums, at, target = np.empty(statistic.size, np.int64), np.empty(1, np.int64), np.empty(statistic.size)
        count, step = statistic.sum_on_grid(values, present, steps, sums), statistic.reach / steps
        numbers, off = (
            (np.zeros(statistic.size), np.zeros(statistic.size, np.bool_))
            if before is None
            else (before.numbers, before.off)
        )
        each = _WORDS_EACH * statistic.size
        while True:
            words = _expand(key, each)
            if average_with_noise(sums, count, numbers, share, step, self._find_deviation(steps), words, at, target):
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
        rest: Floats | float = 0.0,  # noqa: ARG002
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
    def _averages(self) -> statistics.Averages:
        """The averages of the policy."""
        return self.policy.statistic  # type: ignore[return-value]  # see __post_init__

    def _check_bounds(self) -> None:
        """Check that what a record can move is bounded, by `bound` or by `bounds`."""
        names = self.policy.column_names
        if self.bound is not None:
            if names or self.bounds is not None:
                what = "a Bundle, whose columns need a bound each" if names else "bounds"
                raise ParameterError(f"bound={self.bound} cannot be used with {what}; use bounds alone")
            object.__setattr__(self, "bound", check_bound("bound", self.bound, self.policy, keeps_ends=True))
        if isinstance(self.bound, float):
            if self.bound < 1.0 and list_unbounded(self.policy) == ():
                raise ParameterError(
                    f"bound={self.bound} is below 1, the length of an indicator, and makes all shares smaller; use "
                    "bounds=(), since shares need no bound"
                )
            return
        if self.bound is None:
            object.__setattr__(self, "bounds", _normalize_bounds(self.bounds, self.policy))
        needed, given = list_unbounded(self.policy), [limit is not None for limit in self._list_limits()]
        if needed is None:
            raise ParameterError(
                f"policy={self.policy!r} does not say how far a value moves it; use bound, the length of a record"
            )
        what = "bounds" if self.bound is None else "bound"
        unused = [column for column in np.flatnonzero(given).tolist() if column not in needed]
        if unused:
            of = f" of {names[unused[0]]}" if names else ""
            raise ParameterError(f"{what}{of} is not needed, since its statistics are shares or counts; leave it out")
        missing = [column for column in needed if not given[column]]
        if missing and names:
            raise ParameterError(
                f"bounds has no bound of {', '.join(names[column] for column in missing)}; give the largest magnitude "
                "of the values of each column or both ends, from what you know and not from the data, such as "
                f"bounds={{{names[missing[0]]!r}: 100.0}}"
            )
        if missing:
            raise ParameterError(
                "bound is missing; give the greatest length of a record, from what you know and not from the data, "
                "such as bound=100.0, or bounds with the largest magnitude or both ends of the values of each column"
            )
        fixed: list[int] = self.statistic.find_fixed()  # type: ignore[attr-defined]  # Bounded
        if fixed:
            of = f" of {names[fixed[0]]}" if names else ""
            raise ParameterError(
                f"{what}{of} has two ends, {list(self._list_limits())[fixed[0]]}, but its statistic has no means, so "
                "that nothing can be counted from the middle between them; use the largest magnitude"
            )

    def _list_limits(self) -> Iterator[Limit | None]:
        """The largest magnitude or both ends of each column, None where there is none."""
        names, given = self.policy.column_names, self.bounds or ()
        if names:
            known: dict[str, Limit] = dict(given)  # type: ignore[arg-type]  # pairs; see _normalize_bounds
            return map(known.get, names)
        if isinstance(self.bound, tuple):
            return iter([self.bound] * self.policy.columns)
        return iter(given or [None] * self.policy.columns)  # type: ignore[arg-type, list-item]

    @property
    def _centres(self) -> Floats | float:
        """The middle between both ends of each column, from which its values are counted."""
        return np.array(self.statistic.centres) if isinstance(self.statistic, statistics.Bounded) else 0.0

    @property
    def _steps(self) -> int:
        """The number of steps of the grid in the bound: as many as possible."""
        return int(min(_FINEST, _LARGEST_DEVIATION // (2.0 * self.scale)))

    def _find_deviation(self, steps: int) -> int:
        """The deviation of the noise in steps; two records differ by at most twice the bound."""
        return int(np.ceil(self.scale * 2.0 * steps))


def _date_parts(made: E_co, clock: Clock, retained: Records) -> E_co:  # type: ignore[misc]
    """The same answer, whose parts say what the clock says now."""
    now = {"t": clock.t, "held": len(retained), "oldest_age": clock.t - int(retained.rounds.min())}
    answers = {
        name: None if part is None else replace(part, **now)
        for name, part in made.answers.items()  # type: ignore[attr-defined]  # see `answer`
    }
    return replace(made, answers=answers)  # type: ignore[call-arg]


def _expand(key: NDArray[np.uint64], words: int) -> NDArray[np.uint64]:
    """As many words as are wanted from a key; shape (words,)."""
    return np.frombuffer(shake_256(key.tobytes()).digest(8 * words), np.uint64)


def _explain_errors(answer: Estimate) -> str:
    """Whether what is said of errors includes the noise."""
    if isinstance(answer, BundleEstimate):
        return "; standard errors include it"
    if all(getattr(answer, error, None) is None for error in answer.errors):
        return "; bounds include five times it" if hasattr(answer, "upper") else ""
    return "" if NOISE_LEFT_OUT in answer.notes else "; standard errors include it"


def list_names(names: Iterable[str]) -> str:
    """List names in a sentence, the last one after `or`.

    Args:
        names: the names, at least two.

    Returns:
        the list.

    Example:
        >>> list_names(["Mean", "Sum", "Ratio"])
        'Mean, Sum or Ratio'
    """
    *others, last = names
    return f"{', '.join(others)} or {last}"


def list_unbounded(policy: Encoded) -> tuple[int, ...] | None:
    """List the columns whose values need a bound, so that noise can hide them.

    Args:
        policy: one that is made of averages.

    Returns:
        the columns, counted from 0; None where its statistic does not say how far a value moves it.

    Example:
        >>> from vestige import Bundle, Shares
        >>> list_unbounded(Bundle({"amount": Mean(), "status": Shares(("ok", "failed"))}))
        (0,)
    """
    averages: statistics.Averages = policy.statistic  # type: ignore[assignment]
    found = statistics.Bounded(averages, (np.inf,) * policy.columns, 1).find_unbounded()
    return None if found is None else tuple(found)


def check_bound(name: str, given: object, policy: Encoded, *, keeps_ends: bool = False) -> Limit:
    """Return a bound, or both ends of one, if powers of it are neither too small nor too large for the policy.

    Args:
        name: name of the parameter, for the error.
        given: the bound, or its ends.
        policy: the policy, whose largest value it may not exceed either.
        keeps_ends: whether ends that are as far from zero remain two; else they become one number.

    Returns:
        The bound as a float, or its ends.

    Raises:
        ParameterError: it is out of range.

    Example:
        >>> check_bound("bound", 100, Mean()), check_bound("bound", (0, 200), Mean())
        (100.0, (0.0, 200.0))
    """
    largest = min(_MAX_BOUND, policy.max_magnitude)
    within = f"from {1.0 / largest:g} to {largest:g}, that does not depend on the data"
    if not isinstance(given, tuple | list | np.ndarray):
        remedy = f"the largest magnitude, {within}; or both ends, such as (0, 200)"
        return check_float(name, given, lambda n: 1.0 / largest <= n <= largest, remedy)
    ends = check_floats(name, given)
    low, high = ends.tolist() if ends.shape == (2,) else (0.0, 0.0)
    if not (-largest <= low < high <= largest and _find_reach((low, high))[0] >= 1.0 / largest):
        raise ParameterError(
            f"{name}={show_value(given)} is not a range; give both ends, the least and the largest value, up to "
            f"{largest:g} from zero and {2.0 / largest:g} apart or more, such as (0, 200), not taken from the data"
        )
    return high if low == -high and not keeps_ends else (low, high)


def _find_reach(limit: Limit | None) -> tuple[float, float]:
    """How far values may be from their centre, infinite without a limit; and the centre."""
    if not isinstance(limit, tuple):
        return np.inf if limit is None else limit, 0.0
    low, high = limit
    centre = low / 2.0 + high / 2.0
    return max(high - centre, centre - low), centre


def _check_parts(bundle: Bundle) -> None:
    """Refuse a bundle with a sketch in it."""
    for names, policies in bundle.groups:
        for part in policies:
            averages = isinstance(part, Encoded) and isinstance(part.statistic, statistics.Averages)
            if not averages and not isinstance(part, Count):
                raise ParameterError(
                    f"policy has {part.name or type(part).__name__} of {', '.join(names)}, which is not made of "
                    "averages and cannot have noise; leave it out, or keep it in a stream of its own without Private"
                )


def _normalize_bounds(bounds: object, policy: Encoded) -> tuple[object, ...]:
    """The bounds in the form in which they are kept: pairs for the columns of a bundle, else numbers."""
    names, columns = policy.column_names, policy.columns
    if bounds is None:
        return ()
    if not names:
        if not isinstance(bounds, tuple | list | np.ndarray) or len(bounds) not in (0, columns):
            raise ParameterError(
                f"bounds={show_value(bounds)} is not a list of {columns} entries; give one a column, a number or both "
                "ends, such as bounds=[(0, 200)]"
            )
        return tuple(check_bound("bounds", each, policy) for each in bounds)
    pairs = tuple(bounds.items()) if isinstance(bounds, Mapping) else bounds
    if not isinstance(pairs, tuple) or not all(isinstance(pair, tuple) and len(pair) == 2 for pair in pairs):
        raise ParameterError(
            f"bounds={show_value(bounds)} is not a mapping of columns to numbers or both ends; pass one, such as "
            "{'amount': 100.0, 'age': (0, 120)}"
        )
    known: dict[object, Limit] = {}
    for name, given in pairs:
        if name not in names:
            raise ParameterError(f"bounds has {name!r}, which is not a column; the columns are {', '.join(names)}")
        known[name] = check_bound(f"bounds[{name!r}]", given, policy)
    return tuple((name, known[name]) for name in names if name in known)
