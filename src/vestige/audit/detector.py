"""A test of whether retained records were chosen honestly, from snapshots alone.

Two kinds of retention are honest here: a sliding window that keeps every record it may, and a random subsample. The
first has no choice to hide anything in; in the second, given how many records are kept, all subsets of a batch are
equally likely and records are exchangeable. Presence bits and chosen averages (`vestige.channels`) are neither. The
tests are those of `vestige.audit.permutation` and `vestige.audit.words`.
Guarantee: an honest subsample is rejected at most as often as the level says; 20 snapshots of `Mean`, in presence bits
or averages, are rejected in more than 99% of cases at level 0.01; held by tests/audit/test_detector.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from vestige.audit.permutation import (
    Batch,
    SlotCounts,
    average_p_value,
    permute_presence,
    slot_p_value,
)
from vestige.audit.words import Words
from vestige.clock import Clock
from vestige.errors import ParameterError
from vestige.random.generators import make_generator
from vestige.records import Records
from vestige.types import Ints
from vestige.validation import check_int, show_value

_EXPLANATIONS = {
    "slots": "the same slots of a batch are kept, or dropped, again and again",
    "words": "the presence of rounds encodes numbers, near each other from batch to batch",
    "averages": "the averages of the kept records vary less than chance allows",
}


@dataclass(frozen=True, slots=True, eq=False)
class Snapshot:
    """What an auditor was shown at one moment.

    Attributes:
        retained: retained records; those outside the encoded batch are ignored.
        clock: public clock; for a system without one, `Clock(t, first, last)` names the rounds to test.
    """

    retained: Records
    clock: Clock


@dataclass(frozen=True, slots=True)
class DetectedBatch:
    """P-values of one batch.

    Attributes:
        first: first round of the batch.
        last: last round of the batch.
        kept: number of its records that are retained.
        window: 1 if every record that may be retained is, as in a sliding window; else 0.
        words: p-value, in a random subsample, of a presence that encodes such likely numbers, by those of the batch
            before; None where no test is possible: all records kept, none kept, or too few for a word.
        averages: p-value of an average so close to that of the batch before; None where no test is possible.
    """

    first: int
    last: int
    kept: int
    window: float
    words: float | None
    averages: float | None

    @property
    def subsample(self) -> float:
        """P-value of the batch in a random subsample, corrected for two tests."""
        return _combine_any(self.words, self.averages)

    @property
    def p_value(self) -> float:
        """P-value of the batch under the kind of honest retention that suits it best."""
        return max(self.window, self.subsample)


@dataclass(frozen=True, slots=True)
class Detection:
    """P-values of all snapshots under honest retention; None where no test was possible.

    Attributes:
        batches: each batch separately, the earliest first; batches that share rounds with an earlier one are skipped.
        slots: p-value of how often the same slots are kept.
        words: p-value of presence that encodes likely numbers.
        averages: p-value of averages that vary too little.
        trials: number of permutations that the snapshots were ranked among.
    """

    batches: tuple[DetectedBatch, ...]
    slots: float | None
    words: float | None
    averages: float | None
    trials: int

    @property
    def window(self) -> float:
        """1 if every record that may be retained is, as in a sliding window; else 0."""
        return min(batch.window for batch in self.batches)

    @property
    def subsample(self) -> float:
        """P-value in a random subsample: the smallest of the three tests, times the number of tests."""
        return _combine_any(self.slots, self.words, self.averages)

    @property
    def p_value(self) -> float:
        """P-value under the kind of honest retention that suits the snapshots best."""
        return max(self.window, self.subsample)

    def rejects(self, level: float = 0.01) -> bool:
        """Decide whether the snapshots are too improbable for honest retention.

        Args:
            level: significance level: largest share of honest subsamples that may be rejected.

        Returns:
            Whether honest retention is rejected.

        Raises:
            ParameterError: if `level` is not between 0 and 1.

        Example:
            >>> Detection((DetectedBatch(1, 2, 1, 0.0, None, None),), 0.001, None, None, 999).rejects()
            True
        """
        if not 0.0 < level < 1.0:
            raise ParameterError(f"level={level} is out of range; use a number between 0 and 1, such as 0.01")
        return self.p_value <= level

    def verdict(self, level: float = 0.01) -> str:
        """Explain the result in a sentence.

        Args:
            level: significance level: largest share of honest subsamples that may be rejected.

        Returns:
            The sentence.

        Raises:
            ParameterError: if `level` is not between 0 and 1.

        Example:
            >>> Detection((DetectedBatch(1, 2, 2, 1.0, None, None),), None, None, None, 999).verdict()
            'Honest: no round is missing, as in a sliding window.'
        """
        rejected = self.rejects(level)
        if self.window:
            return "Honest: no round is missing, as in a sliding window."
        tests = {"slots": self.slots, "words": self.words, "averages": self.averages}
        p_values = {name: p for name, p in tests.items() if p is not None}
        if not p_values:
            return "Inconclusive: rounds are missing, but too few records were kept or dropped for a test."
        if not rejected:
            return f"Not rejected: rounds are missing, but chance can explain it (p = {self.p_value:.2g})."
        reasons = "; ".join(_EXPLANATIONS[name] for name, p in p_values.items() if p * len(p_values) <= level)
        return f"Not honest: chance does not explain which rounds are missing (p = {self.p_value:.2g}): {reasons}."


def detect(
    snapshots: Sequence[Snapshot], *, removed: Iterable[int] = (), trials: int = 1_999, seed: int = 0
) -> Detection:
    """Test whether records were retained honestly: all of them, or a random subsample.

    Constant columns have averages that reveal nothing, and are skipped in that test.

    Args:
        snapshots: snapshots of one stream, in any order; those before its first update are ignored.
        removed: rounds that had to be erased whatever the policy wanted, such as those removed on request.
        trials: number of permutations to rank the snapshots among; no p-value is below 1 / (1 + trials).
        seed: seed that makes the result reproducible.

    Returns:
        The p-values of each test and of each batch.

    Raises:
        ParameterError: if an argument is out of range, no snapshot has an encoded batch, or snapshots do not match.

    Example:
        >>> from vestige import Mean, Stream
        >>> stream, snapshots = Stream(Mean(channel="bits"), retention=96, seed=0), []
        >>> for day in np.random.default_rng(0).normal(size=(20, 48)):
        ...     _ = stream.extend(day)
        ...     snapshots.append(Snapshot(stream.retained, stream.clock))
        >>> found = detect(snapshots)
        >>> found.p_value < 0.01, found.window
        (True, 0.0)
    """
    check_int("trials", trials, 99, 10**7)
    try:
        rounds = list(removed)
    except TypeError:
        raise ParameterError(
            f"removed={show_value(removed)} is not a list of rounds; pass whole numbers, or nothing"
        ) from None
    erased = np.array(sorted({check_int("removed", n, 1, 2**62) for n in rounds}), np.int64)
    batches = [make_batch(snapshot, erased) for snapshot in select_disjoint(_check_snapshots(snapshots))]
    rng = make_generator(check_int("seed", seed, 0))
    slots, words, spelled = _test_presence(batches, trials, rng)
    chosen = [i for i, batch in enumerate(batches) if batch.has_choice]
    averages: float | None = None
    each: list[float | None] = [None] * len(batches)
    if chosen:
        averages, p_values = average_p_value([batches[i] for i in chosen], trials, rng)
        for i, p in zip(chosen, p_values, strict=True):
            each[i] = p
    detected = tuple(_summarize_batch(*batch) for batch in zip(batches, spelled, each, strict=True))
    return Detection(detected, slots, words, averages, trials)


def _check_snapshots(snapshots: Sequence[Snapshot]) -> list[Snapshot]:
    """Return the snapshots with an encoded batch; there must be one, and all must be of one stream."""
    if not isinstance(snapshots, Sequence) or not all(isinstance(each, Snapshot) for each in snapshots):
        raise ParameterError("snapshots is not a list of snapshots; pass Snapshot(retained, clock) objects")
    if not len(snapshots):
        raise ParameterError("snapshots is empty; pass at least one Snapshot(retained, clock)")
    columns = snapshots[0].retained.columns
    for i, snapshot in enumerate(snapshots):
        records = snapshot.retained
        if records.columns != columns:
            raise ParameterError(
                f"snapshots[{i}] has {records.columns} columns, not {columns}; pass snapshots of one stream"
            )
        if len(records) and records.rounds[-1] > snapshot.clock.t:
            raise ParameterError(
                f"snapshots[{i}] has rounds after t={snapshot.clock.t}; pass the clock of the same moment"
            )
        if not np.isfinite(records.values).all():
            raise ParameterError(f"snapshots[{i}] has values that are not finite; omit the columns they are in")
    encoded = [snapshot for snapshot in snapshots if snapshot.clock.last >= snapshot.clock.first]
    if not encoded:
        raise ParameterError(
            f"none of the {len(snapshots)} snapshots has an encoded batch; take them after the stream's first update"
        )
    return encoded


def select_disjoint(snapshots: list[Snapshot]) -> list[Snapshot]:
    """Select the earliest snapshot of each batch, and no two that share rounds: else one choice would count twice.

    Args:
        snapshots: snapshots of one stream, in any order.

    Returns:
        Those that are selected, the earliest batch first.
    """
    selected: list[Snapshot] = []
    for snapshot in sorted(snapshots, key=lambda one: (one.clock.first, one.clock.last, one.clock.t)):
        if not selected or snapshot.clock.first > selected[-1].clock.last:
            selected.append(snapshot)
    return selected


def make_batch(snapshot: Snapshot, erased: Ints) -> Batch:
    """Lay out the encoded batch of a snapshot.

    Args:
        snapshot: what an auditor was shown.
        erased: rounds that could not be kept.

    Returns:
        The batch.
    """
    records, clock = snapshot.retained, snapshot.clock
    inside = (clock.first <= records.rounds) & (records.rounds <= clock.last)
    present, free = (np.full(clock.last - clock.first + 1, value) for value in (False, True))
    present[records.rounds[inside] - clock.first] = True
    free[erased[(clock.first <= erased) & (erased <= clock.last)] - clock.first] = False
    inside[inside] = free[records.rounds[inside] - clock.first]
    return Batch(clock.first, present, free, records.rounds[inside] - clock.first, records.values[inside])


def _test_presence(
    batches: list[Batch], trials: int, rng: np.random.Generator
) -> tuple[float | None, float | None, list[float | None]]:
    """Return the p-values of slots and words over all batches, and of the words of each batch."""
    words = Words(
        np.concatenate([batch.values for batch in batches]), max(len(batch.present) for batch in batches), trials
    )
    tables: dict[int, SlotCounts] = {}
    each: list[float | None] = []
    for batch in batches:
        each.append(None)
        if batch.has_choice:
            patterns = permute_presence(batch, trials, rng)
            each[-1] = words.add(batch, patterns)
            length = len(batch.present)
            tables.setdefault(length, SlotCounts(trials, length)).add(batch, patterns)
    return slot_p_value(list(tables.values())), words.combine(), each


def _summarize_batch(batch: Batch, words: float | None, averages: float | None) -> DetectedBatch:
    last = batch.first + len(batch.present) - 1
    whole = bool((batch.present | ~batch.free).all())
    return DetectedBatch(batch.first, last, int(batch.present.sum()), float(whole), words, averages)


def _combine_any(*tests: float | None) -> float:
    """Apply Bonferroni's correction to the tests that were possible, which does not depend on their results."""
    p_values = [p for p in tests if p is not None]
    return min([1.0, *(p * len(p_values) for p in p_values)])
