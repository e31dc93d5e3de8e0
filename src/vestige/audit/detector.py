"""Whether retained records were chosen honestly, told from snapshots alone.

Two kinds of retention are honest here: a window that keeps every record it may, and a subsample in which chance alone
decides who stays. The first has no choice to hide anything in; under the second, given how many were kept, all subsets
of a batch are equally likely and records are exchangeable. Presence bits and chosen averages (`vestige.channels`) are
neither. The tests are those of `vestige.audit.permutation`.
Guarantee: an honest subsample is called dishonest at most as often as the level says; 20 snapshots of `Mean`, by bits
or by averages, are called so in more than 99% of cases at level 0.01; held by tests/audit/test_detector.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from vestige.audit.permutation import (
    Batch,
    Slots,
    average_p_value,
    reshuffled,
    slot_p_value,
    word_p_value,
)
from vestige.clock import Clock
from vestige.errors import ParameterError
from vestige.random.generators import make_generator
from vestige.records import Records
from vestige.types import Ints
from vestige.validation import check_int, show_value

_SPOKEN = {
    "slots": "the same places of a batch are kept, or dropped, again and again",
    "words": "which rounds are present spells numbers that are likely means of the records",
    "averages": "the kept records' averages move less than chance lets them",
}


@dataclass(frozen=True, slots=True, eq=False)
class Snapshot:
    """What an auditor was shown at one moment.

    Attributes:
        retained: the records that were held; those outside the encoded batch are passed over.
        clock: the public clock; of a system that has none, `Clock(t, first, last)` names the rounds to look at.
    """

    retained: Records
    clock: Clock


@dataclass(frozen=True, slots=True)
class DetectedBatch:
    """What one batch shows.

    Attributes:
        first: its first round, and `last` its last one.
        last: see `first`.
        kept: how many of its records were held.
        window: 1 if no round is missing that need not be, else 0.
        words: how improbable it is in a subsample that its presence spells such a likely mean; None where there is
            nothing to ask: all kept, none kept, or fewer records than a word needs.
        averages: how improbable it is that its average comes so near that of the batch before; likewise.
    """

    first: int
    last: int
    kept: int
    window: float
    words: float | None
    averages: float | None

    @property
    def subsample(self) -> float:
        """How improbable the batch is in an honest subsample, for having asked in two ways."""
        return _any_of(self.words, self.averages)

    @property
    def p(self) -> float:
        """How improbable the batch is if retention is honest, in the way that suits it best."""
        return max(self.window, self.subsample)


@dataclass(frozen=True, slots=True)
class Detection:
    """How improbable the snapshots are if retention is honest. All p-values; None where there was nothing to ask.

    Attributes:
        batches: each on its own, the earliest first; batches that share rounds with an earlier one are passed over.
        slots: whether the same slots are kept again and again.
        words: whether presence spells likely means.
        averages: whether kept averages move too little.
        draws: how many copies the snapshots were ranked among.
    """

    batches: tuple[DetectedBatch, ...]
    slots: float | None
    words: float | None
    averages: float | None
    draws: int

    @property
    def window(self) -> float:
        """1 if no round is missing that need not be, as in a window that keeps all it may; else 0."""
        return min(batch.window for batch in self.batches)

    @property
    def subsample(self) -> float:
        """How improbable all this is in an honest subsample: the least of the three, times how many were asked."""
        return _any_of(self.slots, self.words, self.averages)

    @property
    def p(self) -> float:
        """How improbable all this is if retention is honest, in the way that suits it best."""
        return max(self.window, self.subsample)

    def accuses(self, level: float = 0.01) -> bool:
        """Whether this is too improbable for honest retention.

        Args:
            level: how often an honest subsample may be called dishonest.
        """
        if not 0.0 < level < 1.0:
            raise ParameterError(f"level={level} is out of range; use a number between 0 and 1, such as 0.01")
        return self.p <= level

    def verdict(self, level: float = 0.01) -> str:
        """What this means, in words.

        Args:
            level: how often an honest subsample may be called dishonest.
        """
        accused = self.accuses(level)
        if self.window:
            return "Honest: no round is missing, as in a window that keeps all it may."
        tests = {"slots": self.slots, "words": self.words, "averages": self.averages}
        asked = {name: p for name, p in tests.items() if p is not None}
        if not asked:
            return "Nothing can be told: rounds are missing, but too few records were kept or dropped to ask of chance."
        if not accused:
            return f"Nothing found: rounds are missing, and may well have been dropped by chance (p = {self.p:.2g})."
        told = "; ".join(_SPOKEN[name] for name, p in asked.items() if p * len(asked) <= level)
        return f"Not honest: chance does not drop rounds in this way (p = {self.p:.2g}): {told}."


def detect(
    snapshots: Sequence[Snapshot], *, removed: Iterable[int] = (), draws: int = 1_999, seed: int = 0
) -> Detection:
    """How improbable these snapshots are if records were kept honestly: all of them, or by chance.

    Args:
        snapshots: of one stream, in any order; those before its first update are passed over.
        removed: rounds that had to go whatever the policy wanted, such as those removed on request.
        draws: how many copies to rank the snapshots among; no p-value is below 1 / (1 + draws), but `words` of several
            batches.
        seed: makes the result reproducible.

    Constant columns have averages that tell nothing, and are not asked about them.

    >>> from vestige import Mean, Stream
    >>> stream, snapshots = Stream(Mean(channel="bits"), retention=96, seed=0), []
    >>> for day in np.random.default_rng(0).normal(size=(20, 48)):
    ...     _ = stream.extend(day)
    ...     snapshots.append(Snapshot(stream.retained, stream.clock))
    >>> found = detect(snapshots)
    >>> found.p < 0.01, found.window
    (True, 0.0)
    """
    check_int("draws", draws, 99, 10**7)
    if not isinstance(removed, Iterable):
        raise ParameterError(f"removed={show_value(removed)} does not list rounds; pass whole numbers, or none at all")
    gone = np.array(sorted({check_int("removed", n, 1, 2**62) for n in removed}), np.int64)
    batches = [_batch(snapshot, gone) for snapshot in _apart(_checked(snapshots))]
    rng = make_generator(check_int("seed", seed, 0))
    slots, words = _of_presence(batches, draws, rng)
    chosen = [i for i, batch in enumerate(batches) if batch.chosen]
    averages: float | None = None
    each: list[float | None] = [None] * len(batches)
    if chosen:
        averages, some = average_p_value([batches[i] for i in chosen], draws, rng)
        for i, p in zip(chosen, some, strict=True):
            each[i] = p
    seen = tuple(_detected(*batch) for batch in zip(batches, words, each, strict=True))
    return Detection(seen, slots, _all_of(words), averages, draws)


def _checked(snapshots: Sequence[Snapshot]) -> list[Snapshot]:
    """Those with an encoded batch, if there is any and all are of one stream's kind."""
    if not isinstance(snapshots, Sequence) or not all(isinstance(each, Snapshot) for each in snapshots):
        raise ParameterError("snapshots does not list snapshots; pass Snapshot(retained, clock) objects")
    if not len(snapshots):
        raise ParameterError("snapshots is empty; pass at least one Snapshot(retained, clock)")
    columns = snapshots[0].retained.columns
    for i, snapshot in enumerate(snapshots):
        held = snapshot.retained
        if held.columns != columns:
            raise ParameterError(f"snapshots[{i}] has {held.columns} columns, not {columns}; pass those of one stream")
        if len(held) and held.rounds[-1] > snapshot.clock.t:
            raise ParameterError(f"snapshots[{i}] holds rounds after t={snapshot.clock.t}; pass the clock of then")
        if not np.isfinite(held.values).all():
            raise ParameterError(f"snapshots[{i}] holds values that are not finite; leave out the columns they are in")
    encoded = [snapshot for snapshot in snapshots if snapshot.clock.last >= snapshot.clock.first]
    if not encoded:
        raise ParameterError(
            f"none of the {len(snapshots)} snapshots has an encoded batch; take them after the stream's first update"
        )
    return encoded


def _apart(snapshots: list[Snapshot]) -> list[Snapshot]:
    """One for each batch, the earliest, and no two that share rounds: else one choice would count twice."""
    taken: list[Snapshot] = []
    for snapshot in sorted(snapshots, key=lambda one: (one.clock.first, one.clock.last, one.clock.t)):
        if not taken or snapshot.clock.first > taken[-1].clock.last:
            taken.append(snapshot)
    return taken


def _batch(snapshot: Snapshot, gone: Ints) -> Batch:
    held, clock = snapshot.retained, snapshot.clock
    inside = (clock.first <= held.rounds) & (held.rounds <= clock.last)
    present, free = (np.full(clock.last - clock.first + 1, value) for value in (False, True))
    present[held.rounds[inside] - clock.first] = True
    free[gone[(clock.first <= gone) & (gone <= clock.last)] - clock.first] = False
    inside[inside] = free[held.rounds[inside] - clock.first]
    return Batch(clock.first, present, free, held.rounds[inside] - clock.first, held.values[inside])


def _of_presence(batches: list[Batch], draws: int, rng: np.random.Generator) -> tuple[float | None, list[float | None]]:
    """How improbable the slots are over all batches, and the words of each."""
    kept = np.concatenate([batch.values for batch in batches])
    centre, spread = (kept.mean(axis=0), kept.std(axis=0)) if len(kept) else (kept.sum(axis=0), kept.sum(axis=0))
    tables: dict[int, Slots] = {}
    words: list[float | None] = []
    for batch in batches:
        words.append(None)
        if batch.chosen:
            patterns = reshuffled(batch, draws, rng)
            words[-1] = word_p_value(patterns, centre, spread)
            length = len(batch.present)
            tables.setdefault(length, Slots(draws, length)).add(batch, patterns)
    return slot_p_value(list(tables.values())), words


def _detected(batch: Batch, words: float | None, averages: float | None) -> DetectedBatch:
    last = batch.first + len(batch.present) - 1
    whole = bool((batch.present | ~batch.free).all())
    return DetectedBatch(batch.first, last, int(batch.present.sum()), float(whole), words, averages)


def _any_of(*tests: float | None) -> float:
    """Bonferroni's bound for the least of those that were asked, which was settled by counts alone."""
    asked = [p for p in tests if p is not None]
    return min([1.0, *(p * len(asked) for p in asked)])


def _all_of(each: Sequence[float | None]) -> float | None:
    """Fisher's combination of independent p-values."""
    from scipy.special import gammaincc  # noqa: PLC0415

    asked = np.array([p for p in each if p is not None])
    return float(gammaincc(len(asked), -np.log(asked).sum())) if len(asked) else None
