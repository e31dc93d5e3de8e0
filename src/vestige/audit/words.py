"""Whether presence spells words that somebody wrote, in any format of Vestige's channels.

Under pure chance the syndrome of presence is random bits, whatever the kept records are. In a word that was written the
header is nearly always the same, the exponents of scales are those that the kept records say, and the numbers are near
those of the word before: chance spreads them over some standard errors of the kept records' average. The observed
batches are ranked among rows of permutations, each of which has its own words before.
Guarantee: exact for exchangeable records; held by tests/audit/test_detector.py.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from vestige import channels
from vestige.audit.permutation import Batch, p_value
from vestige.channels.layout import find_min_rows
from vestige.policies import Covariance, Encoded, LinearRegression, Mean, Moments
from vestige.policies.base import MAX_PRODUCT_COLUMNS
from vestige.statistics import Statistic
from vestige.types import Bools, Floats, Ints

_BEYOND = 4.0
"""What is subtracted from the score for each kept record that is older than the slots of a word.

A writer keeps one only to make up for others that cannot be kept."""

_LEAST_PACKED, _MOST_PACKED = 48, 128
"""The first bits of a word that a statistic packs itself, as far as they are coarse numbers."""
_RECURRENCE = 0.5
"""The logarithm of how much likelier it is that a bit of these recurs than that it does not, halved."""


class Words:
    """The words of successive batches, in all formats.

    Args:
        kept: the values of all kept records; shape (n, columns).
        longest: number of slots of the longest batch.
        trials: number of permutations.
        max_rows: formats whose longest word has more bits are left out.
    """

    def __init__(self, kept: Floats, longest: int, trials: int, max_rows: int | None = None) -> None:
        formats = _list_formats(kept, longest, trials) if len(kept) else ()
        self._formats = [form for form in formats if max_rows is None or form.count_rows(longest) <= max_rows]

    def count_rows(self, slots: int) -> int:
        """Count the bits of the longest word of a batch of so many slots; 0 if no word fits.

        Args:
            slots: number of slots of the batch.

        Returns:
            The number of bits.
        """
        return max((form.count_rows(slots) for form in self._formats), default=0)

    def add(self, batch: Batch, patterns: Bools) -> float | None:
        """Test the next batch, by the batches before it.

        Args:
            batch: observed batch, with a choice.
            patterns: result of `permute_presence`; shape (1 + trials, length).

        Returns:
            The p-value of the batch, by its best rank in any format; None if it is too short for a word.
        """
        from vestige.audit.kernels import read_messages  # noqa: PLC0415

        messages: dict[int, Bools] = {}
        scores = []
        for form in self._formats:
            rows = form.count_rows(patterns.shape[1])
            if rows and rows not in messages:
                messages[rows] = np.empty((len(patterns), rows), np.bool_)
                read_messages(patterns, messages[rows])
            if rows:
                oldest = patterns[:, : patterns.shape[1] - rows]
                score = form.score(batch, patterns, messages[rows]) - _BEYOND * oldest.sum(axis=1)
                form.total += score
                scores.append(score)
        return p_value(np.column_stack(scores)) if scores else None

    def add_messages(self, batch: Batch, messages: Bools) -> Iterator[tuple[str, Floats]]:
        """Add the next batch, read in several codes.

        Args:
            batch: observed batch.
            messages: what it says in each code, in as many bits as `count_rows` counts; shape (1 + trials, rows).

        Yields:
            The name of each format that fits, and the numbers of the word in the first code; shape (size,).
        """
        patterns = np.broadcast_to(batch.present, (len(messages), len(batch.present)))
        for form in self._formats:
            rows = form.count_rows(len(batch.present))
            if rows:
                form.total += form.score(batch, patterns, np.ascontiguousarray(messages[:, :rows]))
                yield form.name, form.numbers[0].copy()

    def list_totals(self) -> list[tuple[str, Floats]]:
        """List the scores of all batches so far.

        Returns:
            The name of each format, and its scores; shape (1 + trials,).
        """
        return [(form.name, form.total) for form in self._formats if form.total.any()]

    def combine(self) -> float | None:
        """Combine all batches.

        Returns:
            The p-value, by the best rank in any format; None if no batch was long enough.
        """
        totals = [form.total for form in self._formats if form.total.any()]
        return p_value(np.column_stack(totals)) if totals else None


@dataclass
class _Format(ABC):
    """One kind of word.

    Attributes:
        name: what says these numbers, such as "Mean" or "Mean, auto".
        numbers: those of the words before, nan if there is none; shape (1 + trials, size).
        headers: those of the words before; shape (1 + trials,).
        total: the scores of all words so far; shape (1 + trials,).
    """

    name: str
    numbers: Floats
    headers: Ints = field(init=False)
    total: Floats = field(init=False)

    def __post_init__(self) -> None:
        self.headers, self.total = np.zeros(len(self.numbers), np.int64), np.zeros(len(self.numbers))

    @abstractmethod
    def count_rows(self, slots: int) -> int:
        """Count the bits of a word; 0 if there are too few slots."""

    @abstractmethod
    def score(self, batch: Batch, patterns: Bools, messages: Bools) -> Floats:
        """Score the syndromes of patterns, each by the word before it; these are the words before from now on."""


@dataclass
class _Word(_Format):
    """A word with numbers that the kept records locate; see `vestige.channels.word`.

    Attributes:
        statistic: its numbers.
        controls: if none of so many records at the end is kept, there are averages; see `vestige.channels.auto`.
    """

    statistic: Statistic
    controls: int = 0

    def count_rows(self, slots: int) -> int:
        """Count the bits; see `_Format.count_rows`."""
        from vestige.channels.word import count_rows  # noqa: PLC0415

        size = self.statistic.size
        return count_rows(slots, size) if slots >= find_min_rows(size) else 0

    def score(self, batch: Batch, patterns: Bools, messages: Bools) -> Floats:
        """Score words; and averages by how rarely chance keeps none of the last records."""
        from vestige.audit.kernels import score_words  # noqa: PLC0415
        from vestige.channels.bits import find_side_information  # noqa: PLC0415
        from vestige.channels.word import find_key  # noqa: PLC0415

        key, scores = np.uint64(find_key(batch.first, len(batch.present))), np.empty(len(messages))
        last = patterns[:, patterns.shape[1] - self.controls :]
        averages: Bools = np.logical_not(last.any(axis=1)) & (self.controls > 0)
        with np.errstate(all="ignore"):
            anchors, centres, scales, _ = find_side_information(self.statistic, batch.values)
        kept = len(batch.values)
        score_words(messages, averages, anchors, centres, scales, kept, key, self.numbers, self.headers, scores)
        scores[averages] = -self.controls * np.log(batch.drop_rate())
        return scores


@dataclass
class _FixedPoint(_Format):
    """A word of numbers between public limits; see `vestige.channels.fixed_point`."""

    def count_rows(self, slots: int) -> int:
        """Count the bits; see `_Format.count_rows`."""
        from vestige.channels.fixed_point import count_rows  # noqa: PLC0415

        size = self.numbers.shape[1]
        return count_rows(slots, size) if slots >= channels.FixedPoint(1.0).find_min_batch(size) else 0

    def score(self, batch: Batch, patterns: Bools, messages: Bools) -> Floats:  # noqa: ARG002
        """Score words; see `_Format.score`."""
        from vestige.audit.kernels import score_fixed_points  # noqa: PLC0415
        from vestige.channels.word import find_key  # noqa: PLC0415

        key, scores = np.uint64(find_key(batch.first, len(batch.present))), np.empty(len(messages))
        score_fixed_points(messages, key, self.numbers, self.headers, scores)
        return scores


@dataclass
class _Packed(_Format):
    """A word that a statistic packs itself: coarse numbers that hardly change; see `vestige.channels.packed`."""

    def count_rows(self, slots: int) -> int:
        """Count the bits; see `_Format.count_rows`."""
        return min(slots, self.numbers.shape[1]) if slots >= _LEAST_PACKED else 0

    def score(self, batch: Batch, patterns: Bools, messages: Bools) -> Floats:  # noqa: ARG002
        """Score words by the bits that they share with the word before; the first is always one."""
        before, rows = self.numbers[:, : messages.shape[1]].copy(), messages.shape[1]
        self.numbers[:] = np.nan
        self.numbers[:, :rows] = messages
        first = np.where(messages[:, 0], np.log(2.0), -_BEYOND)
        weights = np.where(np.isnan(before), 0.0, np.where(before == messages, 1.0, -1.0))
        scores: Floats = first + _RECURRENCE * weights.sum(axis=1)
        return scores


def _list_formats(kept: Floats, longest: int, trials: int) -> Iterator[_Format]:
    """Yield the formats of all policies for so many columns that the longest batch has room for."""
    from vestige.channels.kernels import CONTROLS  # noqa: PLC0415

    largest, sizes = np.abs(kept).max(), set()
    for name, policy in _list_policies(kept.shape[1]):
        statistic = policy.statistic
        if largest <= policy.max_magnitude and find_min_rows(statistic.size) <= longest:
            sizes.add(statistic.size)
            yield _Word(name, np.full((trials + 1, statistic.size), np.nan), statistic)
            if policy.is_identity:
                yield _Word(f"{name}, auto", np.full((trials + 1, statistic.size), np.nan), statistic, CONTROLS)
    yield _Packed("packed", np.full((trials + 1, _MOST_PACKED), np.nan))
    for size in sorted(sizes):
        yield _FixedPoint(f"Private, {size} numbers", np.full((trials + 1, size), np.nan))


def _list_policies(columns: int) -> Iterator[tuple[str, Encoded]]:
    """Yield the policies whose words differ, by name."""
    yield "Mean", Mean(columns)
    yield "Mean, spread", Mean(columns, spread=True)
    if columns == 1:
        yield "Moments, order 3", Moments(3)
        yield "Moments, order 4", Moments(4)
    elif columns <= MAX_PRODUCT_COLUMNS:
        yield "Covariance", Covariance(columns)
        yield "LinearRegression", LinearRegression(columns - 1)
        yield "LinearRegression, no intercept", LinearRegression(columns - 1, intercept=False)
