"""The paper's algorithms for the mean, exactly as published.

Immorlica, Lucier, Mobius, Siderius, "Online Algorithms with Limited Data Retention" (FORC 2024): Algorithm 1, and its
coordinate-wise improvement of Section 3.3. Half of a batch is learned from, the other half is kept from; which half is
which is drawn with the coins, since the listing says "arbitrarily".
Guarantee: the same states as a literal transcription of the listings, and Appendix D's example exactly; held by
tests/test_paper.py. For work, use `vestige.Mean`: it learns from all records and keeps from all.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vestige import coins as coin_key
from vestige import subset
from vestige.errors import whole_number
from vestige.policy import Policy, keep_of_arrivals, split
from vestige.records import Bools, Clock, Floats, Ints, Records


def _halves(rounds: Ints, coins: int, part: int) -> tuple[Ints, Ints]:
    """Indices of R_t (learned from) and N_t (kept from), |R_t| = half of the records, rounded down."""
    order = coin_key.order(coins, rounds, part)
    middle = len(rounds) // 2
    return order[:middle], order[middle:]


def _one_step(
    estimate: Floats, values: Floats, rounds: Ints, leaving: Bools, weight: float, coins: int, part: int = 0
) -> Bools:
    """One round of Algorithm 1: the records of N_t whose average is nearest z_t = s + eta (y - s)."""
    learn_from, keep_from = _halves(rounds, coins, part)
    target = estimate + weight * (values[learn_from].mean(axis=0) - estimate)
    keep_from = np.sort(keep_from[~leaving[keep_from]])
    keep_from = keep_from[np.argsort(rounds[keep_from], kind="stable")]
    keep = np.zeros(len(values), np.bool_)
    if len(keep_from):
        keep[keep_from] = subset.nearest_average(values[keep_from], target, method="exhaustive").mask
    return keep


def _with_fresh(clock: Clock, average: Floats, fresh: Floats) -> Floats:
    """The average of the encoded records and of those that arrived since, each weighed by what it speaks for."""
    if not len(fresh):
        return average
    since: Floats = fresh.mean(axis=0)
    return average + clock.weight * (since - average) if clock.encoded else since


@dataclass(frozen=True)
class _PaperMean(Policy):
    dim: int = 1

    def __post_init__(self) -> None:
        whole_number("dim", self.dim, 1)

    @property
    def columns(self) -> int:
        """As many as dimensions."""
        return self.dim

    def _scalar_or_vector(self, average: Floats) -> float | Floats:
        return float(average[0]) if self.dim == 1 else average


@dataclass(frozen=True)
class SimpleMean(_PaperMean):
    """Algorithm 1, "Simple Subsampling for Mean Estimation", in any dimension.

    The first batch is kept whole. Later, half of the batch gives the gradient; of the other half the nonempty subset is
    kept whose average is nearest the target in l2 (ties: the fewest records). The step size is 1 / (batches so far).
    The search looks at all subsets, so a batch has at most 52 records, 26 of them to choose from.

    >>> from vestige import Batched
    >>> stream = Batched(SimpleMean(dim=2), batch=20, seed=0)
    >>> stream.extend(np.random.default_rng(0).normal(5.0, 1.0, (200, 2)))
    >>> stream.estimate().value.round()
    array([5., 5.])
    """

    @property
    def minimum(self) -> int:
        """One record to learn from and one to keep."""
        return 2

    @property
    def maximum(self) -> int:
        """Twice what an exhaustive search takes."""
        return 2 * subset.EXHAUSTIVE_LIMIT

    def update(self, clock: Clock, retained: Records, arrivals: Records, coins: int) -> Bools:
        """One round of the listing."""
        encoded, _ = split(clock, retained)
        if not len(encoded):
            return keep_of_arrivals(retained, ~arrivals.leaving)
        keep = _one_step(_mean(encoded), arrivals.values, arrivals.rounds, arrivals.leaving, clock.weight, coins)
        return keep_of_arrivals(retained, keep)

    def answer(self, clock: Clock, retained: Records) -> float | Floats:
        """AVG(S_T), moved by what arrived since the last update."""
        encoded, fresh = split(clock, retained)
        average = _mean(encoded) if len(encoded) else np.full(self.dim, np.nan)
        return self._scalar_or_vector(_with_fresh(clock, average, _in_order(fresh)))


@dataclass(frozen=True)
class CoordinateMean(_PaperMean):
    """Section 3.3: one instance of Algorithm 1 per coordinate, each with its own segment of the batch.

    Segment i is every dim-th record of the batch, from the i-th on, by its round. As published, an instance learns from
    half of its own segment only, and keeps from the other half.

    >>> from vestige import Batched
    >>> stream = Batched(CoordinateMean(dim=2), batch=40, seed=0)
    >>> stream.extend(np.random.default_rng(0).normal(5.0, 1.0, (400, 2)))
    >>> stream.estimate().value.round()
    array([5., 5.])
    """

    @property
    def minimum(self) -> int:
        """Two records per coordinate: one to learn from and one to keep."""
        return 2 * self.dim

    @property
    def maximum(self) -> int:
        """Twice what an exhaustive search takes, per coordinate."""
        return 2 * subset.EXHAUSTIVE_LIMIT * self.dim

    def update(self, clock: Clock, retained: Records, arrivals: Records, coins: int) -> Bools:
        """One round of Algorithm 1 in every segment."""
        encoded, _ = split(clock, retained)
        if not len(encoded):
            return keep_of_arrivals(retained, ~arrivals.leaving)
        estimate = self._averages(clock, encoded)
        segment = (arrivals.rounds - clock.last - 1) % self.dim
        keep = np.zeros(len(arrivals), np.bool_)
        for i in range(self.dim):
            mine = np.flatnonzero(segment == i)
            keep[mine] = _one_step(
                estimate[i : i + 1],
                arrivals.values[mine, i : i + 1],
                arrivals.rounds[mine],
                arrivals.leaving[mine],
                clock.weight,
                coins,
                part=i,
            )
        return keep_of_arrivals(retained, keep)

    def answer(self, clock: Clock, retained: Records) -> float | Floats:
        """Coordinate i of the average of segment i, moved by what arrived since the last update."""
        encoded, fresh = split(clock, retained)
        return self._scalar_or_vector(_with_fresh(clock, self._averages(clock, encoded), _in_order(fresh)))

    def _averages(self, clock: Clock, encoded: Records) -> Floats:
        segment = (encoded.rounds - clock.first) % self.dim
        rows = [_in_order(encoded.where(segment == i)) for i in range(self.dim)]
        return np.array([mine[:, i].mean() if len(mine) else np.nan for i, mine in enumerate(rows)])


def _in_order(records: Records) -> Floats:
    """Their values by round, so that a sum does not depend on how they are stored."""
    return records.values[np.argsort(records.rounds, kind="stable")]


def _mean(records: Records) -> Floats:
    average: Floats = _in_order(records).mean(axis=0)
    return average
