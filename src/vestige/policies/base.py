"""A statistic written through a channel: the shape of every policy here but the window.

Section 3 of Immorlica et al. (2024), with two changes: the whole batch is learned from and kept from, which makes the
estimate the exact running average up to what the channel rounds off; and channels beside the plain average.
Guarantee: one update at a time and many at once give the same state; held by tests/stream/test_rules.py.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from vestige import channels, statistics
from vestige.channels import Reading, Target
from vestige.channels.layout import find_min_rows, find_precision
from vestige.clock import Clock
from vestige.errors import ParameterError
from vestige.estimate import E_co, Estimate
from vestige.noise import Noise
from vestige.policies.named_policy import NamedPolicy
from vestige.policies.rounding import (
    ALIKE,
    MARGIN,
    bound_rounding,
    combine_bounds,
    combine_rounding,
    note_digits,
    note_rounding,
)
from vestige.policy import count_waiting, make_lost_error, mask_arrivals
from vestige.records import Records
from vestige.types import Bools, Floats, Ints
from vestige.validation import check_float

_OFF = (
    "The encoded answer has missed its target and may be off by more than its standard error: at least once, no choice "
    "of the records that could be kept came near enough."
)
_OUTWEIGHED = (
    "The noise outweighs the variance of the records, so that it is not known: standard errors are those of the noise "
    "alone; use more records, larger batches, a tighter bound or a larger epsilon."
)
_WORD = (1 << 64) - 1
_EXACT = 1e-12
"""A number that is rounded by less than this share of itself counts as exact."""
MAX_COLUMNS = 1_000_000
"""The most values that a record may have."""
MAX_PRODUCT_COLUMNS = 2_000
"""The most where the products of each pair of values are kept: two million numbers."""
MAX_NOISY_NUMBERS = 2_000
"""The most numbers through which the noise of each is followed to the standard errors."""
NOISE_LEFT_OUT = f"Standard errors leave the noise out, since there are more than {MAX_NOISY_NUMBERS:,} numbers."


class Basis(NamedTuple):
    """What an answer was concluded from, so that it can be combined with others.

    Attributes:
        numbers: what the statistic tracks; shape (size,).
        worth: the number of equally weighted records that they rest on.
        rounding: about how far each may be off by rounding, in standard deviations of a record.
        bound: how far each may be off by encoding at most, in standard errors; see `bound_rounding`.
        noise: the standard deviation of the noise in each.
        notes: what is to be said of how they were encoded; if anything is, the answer may have missed.

    Example:
        >>> Basis(np.array([1.5]), 100.0, 1e-9, 0.0).notes
        ()
    """

    numbers: Floats
    worth: float
    rounding: float
    bound: float
    noise: float = 0.0
    notes: tuple[str, ...] = ()


def find_bases(parts: Sequence[Estimate]) -> list[Basis]:
    """Find what answers were concluded from.

    Args:
        parts: the answers.

    Returns:
        what each was concluded from.

    Raises:
        ParameterError: one of them does not say it.

    Example:
        >>> find_bases([Estimate(1.5, basis=Basis(np.array([1.5]), 100.0, 1e-9, 0.0))])[0].worth
        100.0
    """
    bases = [part.basis for part in parts]
    for i, basis in enumerate(bases):
        if not isinstance(basis, Basis):
            raise ParameterError(
                f"estimates[{i}] does not have the basis that it was concluded from; pass what the method `estimate` "
                "of a stream returns, unchanged"
            )
    return bases  # type: ignore[return-value]


def check_half_life(half_life: float | None) -> None:
    """Check that a half-life is None or a positive number.

    Args:
        half_life: the half-life, in records.

    Raises:
        ParameterError: it is neither.

    Example:
        >>> check_half_life(1_000.0)
    """
    if half_life is not None:
        check_float("half_life", half_life, lambda n: 0.0 < n < np.inf, "a number of records above 0, or None")


def find_max_magnitude(power: int) -> float:
    """Find how large values may be, so that a power of the difference of two of them is finite.

    Args:
        power: the power that is taken.

    Returns:
        the largest magnitude.

    Example:
        >>> find_max_magnitude(2)
        1e+150
    """
    return float(10.0 ** (300 // power))


def _drop_subnormal(reading: Reading) -> Reading:
    """What was read, where 0 may have been rounded to a number by which nothing can be divided."""
    numbers = np.where(np.abs(reading.numbers) < np.finfo(np.float64).tiny, 0.0, reading.numbers)
    return reading._replace(numbers=numbers)


class Encoded(NamedPolicy[E_co]):
    """A statistic written through a channel.

    A subclass defines `statistic`, `columns` and `conclude`; `docs/plan.md` and the command draw on `labels`, `report`,
    `influence`, `draw_rows` and `variants`, which have defaults. Make it a frozen dataclass.

    Attributes:
        tolerance: a search for an average stops this near its target, as a share of the standard error of the mean.
        margin: how many times its usual size rounding may have; see `vestige.policies.rounding.bound_rounding`.

    Example:
        >>> from dataclasses import dataclass
        >>> from vestige import Estimate, Stream
        >>> @dataclass(frozen=True)
        ... class Range(Encoded):  # the mean, and how far two standard deviations reach
        ...     statistic = statistics.Moments(order=2)
        ...     def conclude(self, numbers, worth, rounding):
        ...         return Estimate(numbers[0] + np.array([-2.0, 2.0]) * np.sqrt(numbers[1]))
        >>> stream = Stream(Range(), retention=256, seed=0)
        >>> _ = stream.extend(np.random.default_rng(0).normal(size=10_000))
        >>> stream.estimate().value.round(1)
        array([-2.,  2.])
    """

    tolerance: float = 0.0
    margin: ClassVar[float] = MARGIN

    @property
    @abstractmethod
    def statistic(self) -> statistics.Statistic:
        """The numbers that are tracked."""

    @property
    def encoding(self) -> channels.Channel:
        """The channel that the numbers are written through."""
        return channels.find_channel("bits")

    @abstractmethod
    def conclude(self, numbers: Floats, worth: float, rounding: float) -> E_co:
        """Conclude the answer from the encoded numbers.

        Args:
            numbers: what the statistic tracks; shape (size,).
            worth: the number of equally weighted records that it rests on.
            rounding: about how far each number may be off by rounding, in standard deviations of a record.

        Returns:
            the estimate.

        Raises:
            NoAnswerError: the numbers do not determine an answer, such as those of collinear predictors.
        """

    def conclude_freely(self, numbers: Floats, worth: float) -> Floats:
        """Conclude the numbers of the answer beyond limits that cut them off, such as 1 for a correlation.

        A plan differentiates it. By default it is what `conclude` gives.

        Args:
            numbers: see `conclude`.
            worth: see `conclude`.

        Returns:
            the numbers of the answer, one after the other.

        Raises:
            NoAnswerError: see `conclude`.
        """
        return np.ravel(self.conclude(numbers, worth, float(np.finfo(np.float64).eps)).value)

    def conclude_noisy(
        self, averages: Floats, noise: Noise, worth: float, rounding: float, centres: Floats | float = 0.0
    ) -> E_co:
        """Conclude the answer from averages with noise, which standard errors then include.

        By default they do to first order (the delta method), unless there are more than `MAX_NOISY_NUMBERS` averages.

        Args:
            averages: what `statistics.Averages.atoms` are on average; shape (size,).
            noise: the noise in them.
            worth: see `conclude`.
            rounding: see `conclude`.
            centres: what was subtracted from values before, see `statistics.Averages.from_averages`.

        Returns:
            the estimate.

        Raises:
            NoAnswerError: the averages do not determine an answer, or would not with a little other noise.
        """
        statistic: statistics.Averages = self.statistic  # type: ignore[assignment]  # else there is no noise

        def conclude(at: Floats) -> E_co:
            return self.conclude(statistic.from_averages(at, centres), worth, rounding)

        made = conclude(averages)
        made = replace(made, notes=tuple(_OUTWEIGHED if ALIKE in note else note for note in made.notes))
        errors = {error: number for error, number in made.errors.items() if getattr(made, error, None) is not None}
        if errors and len(averages) > MAX_NOISY_NUMBERS:
            return replace(made, notes=(*made.notes, NOISE_LEFT_OUT))
        if not errors:
            return made
        found = noise.propagate(lambda at: _join_numbers(conclude(at), errors.values()), averages)
        included: dict[str, Any] = {}
        for error, number in errors.items():
            here, found = np.split(found, [np.size(getattr(made, number))])
            whole = np.hypot(getattr(made, error), here.reshape(np.shape(getattr(made, error))))
            included[error] = whole if np.ndim(whole) else float(whole)
        return replace(made, **included)

    def influence(self, rows: Floats) -> tuple[Floats, Floats]:
        """Compute what records come to, and how far each of them moves each encoded number.

        Args:
            rows: a sample of records; shape (n, columns).

        Returns:
            the encoded numbers of the sample, shape (size,); and how far each record moves them, times the number of
            records, shape (n, size).

        Raises:
            ParameterError: it is not known beforehand, because it depends on a loss.
        """
        found = self.statistic.influence(rows)
        if found is None:
            raise ParameterError(
                f"policy={self} cannot be predicted: how fast it learns depends on its loss; plan Mean, Moments, "
                "Covariance or LinearRegression, or try it on a sample with vestige run"
            )
        return found

    @property
    def is_identity(self) -> bool:
        """Whether the answer is the encoded numbers themselves."""
        return False

    @property
    def answered_means(self) -> int:
        """The number of means of columns that an answer includes."""
        return self.columns

    def variants(self) -> Mapping[str, Encoded]:
        """List the policies that keep the same statistic without noise, such as a mean by each channel.

        Returns:
            the policies by name.
        """
        return {type(self).__name__: self}

    def for_noise(self) -> Encoded[E_co]:
        """Give the form of this policy that `Private` can add noise to.

        Returns:
            the same statistic, in a word.
        """
        return self

    def batch_noise(self, batch: int) -> float:  # noqa: ARG002
        """Give the standard deviation of the noise that is added to each average of a batch.

        Args:
            batch: the number of records in it.

        Returns:
            the deviation; 0 without noise.
        """
        return 0.0

    @property
    def min_batch(self) -> int:
        """The smallest batch: what the channel needs for all numbers."""
        return self.encoding.find_min_batch(self.statistic.size)

    @property
    def min_early_batch(self) -> int:
        """The number of records that a word needs; averages of a choice among as many come near enough too."""
        return find_min_rows(self.statistic.size)

    @property
    def default_retention(self) -> int:
        """The retention used by default: 64 records of a batch for each number, so that rounding is negligible."""
        return 128 * self.statistic.size

    @property
    def decay(self) -> float:
        """The share of a record's weight that is left after each record that follows."""
        return 1.0 if self.half_life is None else float(2.0 ** (-1.0 / self.half_life))

    def can_encode(self, clock: Clock, rounds: Ints, leaving: Bools) -> bool:
        """Tell whether the records that can be kept hold any numbers, or near ones that are marked as off."""
        can = channels.lay_out(rounds - clock.last - 1, ~leaving, clock.pending)
        return self.encoding.can_encode(can, self.statistic.size)

    def count_bits(self, length: int, can: Bools | None = None) -> int:
        """Count the bits of the word of a batch that can be chosen; see `Policy.count_bits`."""
        return self.encoding.count_bits(length, can, self.statistic.size)

    def update(self, clock: Clock, retained: Records, arrivals: Records, coins: int) -> Bools:
        """Read the estimate, move it by the arrivals, and keep those of them that hold the result."""
        if not self.can_encode(clock, arrivals.rounds, arrivals.leaving):
            return np.zeros(len(retained) + len(arrivals), np.bool_)
        slots, length = arrivals.rounds - clock.last - 1, clock.pending
        keep = self._advance(
            clock,
            retained,
            channels.lay_out(slots, arrivals.values, length),
            channels.lay_out(slots, np.ones(len(slots), np.bool_), length),
            channels.lay_out(slots, ~arrivals.leaving, length),
            self._derive_keys(coins),
        )
        return mask_arrivals(retained, keep[slots])

    def update_many(self, clock: Clock, retained: Records, values: Floats, keys: NDArray[np.uint64]) -> Bools:
        """Give the records of the last batch to keep: those before it have been replaced."""
        everyone = np.empty(len(values), np.bool_)
        everyone.fill(True)  # in less than half of the time of `np.ones`
        return self._advance(clock, retained, values, everyone, everyone, keys)

    def rewrite(self, clock: Clock, retained: Records, coins: int) -> tuple[int, Bools] | None:
        """Write the same numbers, moved by the records that wait, into all that is left and not leaving.

        Whether that can be done is decided by the rounds and marks of what is left, never by values.
        """
        slots, length = retained.rounds - clock.first, clock.t - clock.first + 1
        can = channels.lay_out(slots, ~retained.leaving, length)
        if not clock.encoded or not self.encoding.can_encode(can, self.statistic.size):
            return None
        share = min(1.0, length / (clock.encoded + count_waiting(clock, retained)))
        off = self.encoding.read(retained, clock, self.statistic).off
        (numbers, rest), key = self._compute_both(clock, retained), np.uint64(coins & _WORD)
        target = self._make_target(numbers, off, None, retained.values, share, clock.first, length, rest)
        target = target._replace(near=np.zeros(len(numbers)))  # few are left: the nearest that there is
        values = channels.lay_out(slots, retained.values, length)
        keep = self.encoding.write(values, can, target, self.statistic, clock.first, key)
        return clock.t, keep[slots]

    def answer(self, clock: Clock, retained: Records) -> E_co:
        """Answer with the statistic of all records that count: the encoded ones, moved by those that arrived since."""
        worth, rounding = self._find_worth(clock, retained), self._find_rounding(clock)
        numbers = self._compute_numbers(clock, retained)
        notes = note_rounding(rounding, worth) + note_digits(*self._find_means(numbers, retained), worth)
        if clock.encoded and self.encoding.read(retained, clock, self.statistic).off.any():
            made, notes = self._conclude_off(numbers, worth, rounding, clock, retained), (*notes, _OFF)
        else:
            made = self._conclude_for(numbers, worth, rounding, clock, retained)
        made = replace(made, notes=made.notes + notes, missed=True) if notes else made
        noise = self._find_noise(clock, retained)
        basis = Basis(numbers, worth, rounding, bound_rounding(rounding, worth, self.margin), noise, notes)
        made = replace(made, basis=basis)
        return self.complete(made, clock, retained, clock.encoded + count_waiting(clock, retained))

    def complete(self, made: E_co, clock: Clock, retained: Records, counted: int) -> E_co:  # type: ignore[misc]  # noqa: ARG002
        """Fill in what an answer needs to know of the clock and of the records that are held; by default nothing.

        Args:
            made: the answer, with its notes.
            clock: the public clock.
            retained: the records that are held.
            counted: the number of records that it counts.

        Returns:
            the answer.
        """
        return made

    def combine(self, parts: Sequence[E_co]) -> E_co:
        """Conclude the answer for all records from the merged numbers of the parts; see `Policy.combine`."""
        if self.half_life is not None:
            raise ParameterError(
                f"half_life={self.half_life} counts each record by how many came after it in its own stream, so that "
                "estimates of several streams cannot be combined; use half_life=None, or one stream"
            )
        bases = find_bases(parts)
        worths = np.array([basis.worth for basis in bases])
        merged = Basis(
            self.statistic.merge(np.array([basis.numbers for basis in bases]), worths / worths.sum()),
            float(worths.sum()),
            combine_rounding(worths, np.array([basis.rounding for basis in bases])),
            combine_bounds(np.array([basis.bound for basis in bases])),
            float(np.sqrt(((worths * [basis.noise for basis in bases]) ** 2).sum()) / worths.sum()),
            tuple(dict.fromkeys(note for basis in bases for note in basis.notes)),
        )
        made = replace(self.conclude_merged(merged, parts), basis=merged)
        notes = tuple(f"Of one or more of the combined estimates: {note}" for note in merged.notes)
        means = merged.numbers[self.statistic.locations >= 0]
        notes += note_digits(means, self._find_known_deviations(merged.numbers), merged.worth)
        made = replace(made, notes=made.notes + notes, missed=True) if notes else made
        return self.complete_merged(made, parts)

    def conclude_merged(self, merged: Basis, parts: Sequence[E_co]) -> E_co:  # noqa: ARG002
        """Conclude the answer for all records from merged numbers; by default what `conclude` gives.

        Args:
            merged: the numbers, and how far they may be off.
            parts: the answers for the parts of the records.

        Returns:
            the answer, whose bounds hold if those of the parts do.
        """
        return self.conclude(merged.numbers, merged.worth, merged.rounding)

    def complete_merged(self, made: E_co, parts: Sequence[E_co]) -> E_co:  # type: ignore[misc]  # noqa: ARG002
        """Fill in what `complete` fills in, from the answers for the parts of the records; by default nothing.

        Args:
            made: the answer for all records, with its notes.
            parts: the answers for the parts.

        Returns:
            the answer.
        """
        return made

    def _find_noise(self, clock: Clock, retained: Records) -> float:  # noqa: ARG002
        """The standard deviation of the noise in each number."""
        return 0.0

    def _conclude_for(self, numbers: Floats, worth: float, rounding: float, clock: Clock, retained: Records) -> E_co:  # noqa: ARG002
        """What `conclude` gives; what is known of the clock and the records may be included."""
        return self.conclude(numbers, worth, rounding)

    def _conclude_off(self, numbers: Floats, worth: float, rounding: float, clock: Clock, retained: Records) -> E_co:
        """The same where numbers are marked as off."""
        return self._conclude_for(numbers, worth, rounding, clock, retained)

    def _derive_keys(self, coins: int) -> NDArray[np.uint64]:
        """The coins of one update as `_advance` takes them."""
        return np.array([coins], np.uint64)

    def _advance(
        self, clock: Clock, retained: Records, values: Floats, present: Bools, can: Bools, keys: NDArray[np.uint64]
    ) -> Bools:
        """The records of the last of several batches to keep, one update after the other.

        Args:
            clock: as before the first of them.
            retained: as before the first of them.
            values: the batches one after the other, of equal length; shape (batches * length, columns).
            present: which rounds have a record.
            can: which of the records may be kept.
            keys: the coins of each batch.
        """
        from vestige.statistics.kernels import find_share  # noqa: PLC0415

        length, encoded, keep = len(values) // len(keys), clock.encoded, np.zeros(0, np.bool_)
        before = _drop_subnormal(self._read_encoded(clock, retained)) if clock.encoded else None
        laid_out, there = channels.lay_out_encoded(retained, clock)
        kept = laid_out[there]
        for k, key in enumerate(keys):
            here = slice(k * length, (k + 1) * length)
            count = int(present[here].sum())
            encoded += count
            share = find_share(count, encoded, self.decay)
            first = clock.last + 1 + k * length
            usual = None if before is None else self.statistic.find_deviations(kept, before.numbers)
            target, coin = self._step(before, usual, values[here], present[here], share, first, key)
            keep = self.encoding.write(values[here], can[here], target, self.statistic, first, coin)
            if k + 1 < len(keys):
                before = _drop_subnormal(self.encoding.read_slots(values[here], keep, self.statistic, first))
                kept = values[here][keep]
        return keep

    def _step(
        self,
        before: Reading | None,
        usual: Floats | None,
        values: Floats,
        present: Bools,
        share: float,
        first: int,
        key: Any,
    ) -> tuple[Target, np.uint64]:
        """The numbers after one batch, and the coin to write them with.

        Args:
            before: what was read before it.
            usual: how far the records that held that are from it.
            values: its records by slot; shape (length, columns).
            present: which slots hold a record; shape (length,).
            share: what the batch counts among all records so far.
            first: its first round.
            key: its coins: one word, or several where they must be secret.
        """
        from vestige.statistics.kernels import find_weights  # noqa: PLC0415

        weights = find_weights(present, self.decay)[present]
        off = np.zeros(self.statistic.size, np.bool_) if before is None else before.off
        held = None if before is None else (before.numbers, before.low)
        moved, rest = self.statistic.move(held, values[present], weights, share)
        return self._make_target(moved, off, usual, values[present], share, first, len(present), rest), key

    def _make_target(
        self,
        numbers: Floats,
        off: Bools,
        usual: Floats | None,
        values: Floats,
        share: float,
        first: int,
        length: int,
        rest: Floats | float = 0.0,
    ) -> Target:
        """How near the numbers must be written, and from where on they are marked as off."""
        from vestige.channels.averages import draw_mark  # noqa: PLC0415
        from vestige.statistics.kernels import find_far_limit, find_spread, find_tolerance  # noqa: PLC0415

        deviations, count, low = (
            self.statistic.find_deviations(values, numbers),
            len(values),
            np.zeros(len(numbers)) + rest,
        )
        near, far, sizes = np.empty(len(numbers)), np.empty(len(numbers)), np.where(low == 0.0, numbers, 0.0)
        for i, (size, deviation) in enumerate(zip(sizes, deviations, strict=True)):
            spread = deviation if usual is None else find_spread(usual[i], deviation, share)
            near[i] = find_tolerance(self.tolerance, deviation, count, share, size)
            far[i] = max(find_far_limit(spread, count, share, size, draw_mark(first, length, i)), near[i])
        return Target(numbers, near, np.maximum(far, self.statistic.find_exact_limits(numbers)), off, low)

    def _compute_numbers(self, clock: Clock, retained: Records) -> Floats:
        """The numbers of all records that count."""
        return self._compute_both(clock, retained)[0]

    def _compute_both(self, clock: Clock, retained: Records) -> tuple[Floats, Floats]:
        """The numbers of all records that count, and what is to be added to them."""
        from vestige.statistics.kernels import find_share, find_weights  # noqa: PLC0415

        before = _drop_subnormal(self._read_encoded(clock, retained)) if clock.encoded else None
        numbers = None if before is None else (before.numbers, before.low)
        fresh = retained.rounds > clock.last
        if fresh.any():
            by_round = np.argsort(retained.rounds[fresh], kind="stable")
            n = len(by_round)
            weights, share = (
                find_weights(np.ones(n, np.bool_), self.decay),
                find_share(n, clock.encoded + n, self.decay),
            )
            numbers = self.statistic.move(numbers, retained.values[fresh][by_round], weights, share)
        assert numbers is not None  # noqa: S101  # the runtime asks only where records are held
        return numbers

    def _find_means(self, numbers: Floats, retained: Records) -> tuple[Floats, Floats]:
        """The numbers that move with values, and how far all values are from them, or else those held."""
        places = self.statistic.locations
        moving = places >= 0
        apart = retained.values[:, places[moving]] - numbers[moving]
        largest = np.maximum(np.nanmax(np.abs(apart), axis=0, initial=0.0), np.finfo(np.float64).tiny)
        counts = np.maximum((~np.isnan(apart)).sum(axis=0), 1)
        held = largest * np.sqrt(np.nansum((apart / largest) ** 2, axis=0) / counts)
        known = self._find_known_deviations(numbers)
        return numbers[moving], np.where(known > 0.0, known, held)

    def _find_known_deviations(self, numbers: Floats) -> Floats:
        """How far values are from the numbers that move with them, as these say themselves; zero if they do not."""
        moving, statistic = self.statistic.locations >= 0, self.statistic
        if not isinstance(statistic, statistics.Averages):
            return np.zeros(int(moving.sum()))
        return statistic.find_usual_deviations(numbers)[moving]

    def _read_encoded(self, clock: Clock, retained: Records) -> Reading:
        """What the records of the encoded batch hold, if all that were kept are there.

        An error if they hold no numbers, as where none is left. Without some of them other numbers are read: stores
        find missing records by their seals.
        """
        reading = self.encoding.read(retained, clock, self.statistic)
        if np.isnan(reading.numbers).any():
            raise make_lost_error(clock)
        return reading

    def _find_worth(self, clock: Clock, retained: Records) -> float:
        """The number of equally weighted records that the answer rests on."""
        from vestige.statistics.kernels import find_worth  # noqa: PLC0415

        return float(find_worth(clock.encoded + count_waiting(clock, retained), self.decay))

    def _find_rounding(self, clock: Clock) -> float:
        """About how far a number may be off by all rounding so far, in standard deviations of a record."""
        if not clock.encoded or not self.encoding.has_bits:
            return float(np.finfo(np.float64).eps)
        return find_precision(self._find_fewest_bits(clock), self.statistic.size) * self._count_roundings(clock)

    def _find_fewest_bits(self, clock: Clock) -> int:
        """The fewest bits that a word had."""
        length = clock.last - clock.first + 1
        return min(self.encoding.find_room(length), clock.bits or length)

    def _count_roundings(self, clock: Clock) -> float:
        """How many times as large the sum of all roundings so far is as one of them, usually."""
        left = 1.0 - self.decay ** (2 * (clock.last - clock.first + 1))
        carried = clock.updates / 3.0 if left == 0.0 else min(clock.updates / 3.0, 1.0 / left)
        return float(np.sqrt(1.0 + carried))


def _join_numbers(estimate: Estimate, names: Iterable[str]) -> Floats:
    """Some fields of an estimate, one after the other."""
    return np.concatenate([np.ravel(getattr(estimate, name)) for name in names])
