"""Mean estimation as published: Algorithm 1, and its coordinate-wise improvement.

Sections 3.2 and 3.3 of Immorlica et al. (2024, https://doi.org/10.48550/arXiv.2404.10997). Which half of a batch is
learned from is drawn with the coins, since the listing says "arbitrarily".
Guarantee: the same states as a literal transcription of the listing; held by tests/test_paper.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

from vestige import subset
from vestige.clock import Clock
from vestige.paper.order import sort_values
from vestige.policies import register_policy
from vestige.policy import Policy, make_lost_error, mask_arrivals, split_encoded
from vestige.random import keys
from vestige.records import Records
from vestige.types import Bools, Floats, Ints
from vestige.validation import check_int


def _split_halves(rounds: Ints, coins: int, part: int) -> tuple[Ints, Ints]:
    """Return the indices of R_t (learned from) and N_t (kept from); R_t has half of the records, rounded down."""
    order = keys.shuffle_rounds(coins, rounds, part)
    middle = len(rounds) // 2
    return order[:middle], order[middle:]


def _choose_records(
    estimate: Floats, values: Floats, rounds: Ints, leaving: Bools, weight: float, coins: int, part: int = 0
) -> Bools:
    """Return which records one round of Algorithm 1 keeps: those of N_t with the average nearest z_t = s + eta (y - s).

    The listing knows no removal requests; where they leave one half empty, the other half serves for both.

    Args:
        estimate: s, what the kept records encode; shape (dim,).
        values: values of the batch; shape (n, dim).
        rounds: rounds of the batch; shape (n,).
        leaving: which records may be learned from but not kept; shape (n,).
        weight: eta, the step size.
        coins: key of the round.
        part: coordinates of one round draw independent halves.

    Returns:
        A mask over the batch; shape (n,).
    """
    learn_from, keep_from = _split_halves(rounds, coins, part)
    target = estimate + weight * (values[learn_from if len(learn_from) else keep_from].mean(axis=0) - estimate)
    keep_from = keep_from if not leaving[keep_from].all() else learn_from
    keep_from = np.sort(keep_from[~leaving[keep_from]])
    keep_from = keep_from[np.argsort(rounds[keep_from], kind="stable")]
    keep = np.zeros(len(values), np.bool_)
    if len(keep_from):
        keep[keep_from] = subset.nearest_average(values[keep_from], target, method="exhaustive").mask
    return keep


def _include_fresh(clock: Clock, average: Floats, fresh: Floats) -> Floats:
    """Return the average of all records: the encoded ones and the fresh ones, weighted by their numbers."""
    if not len(fresh):
        return average
    since: Floats = fresh.mean(axis=0)
    return average + clock.weight(len(fresh)) * (since - average) if clock.encoded else since


@dataclass(frozen=True)
class _PaperMean(Policy):
    dim: int = 1

    def __post_init__(self) -> None:
        check_int("dim", self.dim, 1)

    @property
    def columns(self) -> int:
        """Number of values per record: one per dimension."""
        return self.dim

    def _to_scalar_or_vector(self, average: Floats) -> float | Floats:
        return float(average[0]) if self.dim == 1 else average


@partial(register_policy, name="vestige.paper.SimpleMean")
@dataclass(frozen=True)
class SimpleMean(_PaperMean):
    """Algorithm 1, "Simple Subsampling for Mean Estimation", in any dimension.

    The first batch is kept whole. Later, half of the batch gives the gradient; from the other half, the policy keeps
    the nonempty subset whose average is nearest the target in l2 (ties: the fewest records). The step size is
    1 / (number of batches). The search tries all subsets, so a batch has at most 52 records, 26 of them to choose from.

    Args:
        dim: dimension of a record.

    Example:
        >>> from vestige import Batched
        >>> stream = Batched(SimpleMean(dim=2), batch=20, seed=0)
        >>> _ = stream.extend(np.random.default_rng(0).normal(5.0, 1.0, (200, 2)))
        >>> stream.estimate().value.round()
        array([5., 5.])
    """

    @property
    def min_batch(self) -> int:
        """Smallest batch: one record to learn from and one to keep."""
        return 2

    @property
    def max_batch(self) -> int:
        """Largest batch: twice the number of records that an exhaustive search accepts."""
        return 2 * subset.EXHAUSTIVE_LIMIT

    def update(self, clock: Clock, retained: Records, arrivals: Records, coins: int) -> Bools:
        """Run one round of the listing."""
        encoded, _ = split_encoded(clock, retained)
        if not len(encoded):
            return mask_arrivals(retained, ~arrivals.leaving)
        weight = clock.weight(len(arrivals))
        keep = _choose_records(_average(encoded), arrivals.values, arrivals.rounds, arrivals.leaving, weight, coins)
        return mask_arrivals(retained, keep)

    def answer(self, clock: Clock, retained: Records) -> float | Floats:
        """Return AVG(S_T), updated with the records that arrived since the last update.

        Args:
            clock: the public clock.
            retained: the records held.

        Returns:
            The mean: a float in one dimension, otherwise shape (dim,).
        """
        encoded, fresh = split_encoded(clock, retained)
        average = _average(encoded) if len(encoded) else np.full(self.dim, np.nan)
        return self._to_scalar_or_vector(_include_fresh(clock, average, sort_values(fresh)))


@partial(register_policy, name="vestige.paper.CoordinateMean")
@dataclass(frozen=True)
class CoordinateMean(_PaperMean):
    """Section 3.3: one instance of Algorithm 1 per coordinate, each with its own segment of the batch.

    Segment i is every dim-th record of the batch, starting with the i-th, in order of rounds. As published, an instance
    learns from one half of its own segment only, and keeps from the other half.

    Args:
        dim: dimension of a record.

    Example:
        >>> from vestige import Batched
        >>> stream = Batched(CoordinateMean(dim=2), batch=40, seed=0)
        >>> _ = stream.extend(np.random.default_rng(0).normal(5.0, 1.0, (400, 2)))
        >>> stream.estimate().value.round()
        array([5., 5.])
    """

    @property
    def min_batch(self) -> int:
        """Smallest batch: two records per coordinate, one to learn from and one to keep."""
        return 2 * self.dim

    @property
    def max_batch(self) -> int:
        """Largest batch: per coordinate, twice the number of records that an exhaustive search accepts."""
        return 2 * subset.EXHAUSTIVE_LIMIT * self.dim

    def can_encode(self, clock: Clock, rounds: Ints, leaving: Bools) -> bool:
        """Return whether each coordinate has a record that can be kept."""
        return len(np.unique((rounds[~leaving] - clock.last - 1) % self.dim)) == self.dim

    def update(self, clock: Clock, retained: Records, arrivals: Records, coins: int) -> Bools:
        """Run one round of Algorithm 1 in every segment."""
        encoded, _ = split_encoded(clock, retained)
        if not self.can_encode(clock, arrivals.rounds, arrivals.leaving):
            return mask_arrivals(retained, np.zeros(len(arrivals), np.bool_))
        if not len(encoded):
            return mask_arrivals(retained, ~arrivals.leaving)
        estimate = self._read_averages(clock, encoded)
        segment = (arrivals.rounds - clock.last - 1) % self.dim
        keep = np.zeros(len(arrivals), np.bool_)
        for i in range(self.dim):
            members = np.flatnonzero(segment == i)
            keep[members] = _choose_records(
                estimate[i : i + 1],
                arrivals.values[members, i : i + 1],
                arrivals.rounds[members],
                arrivals.leaving[members],
                clock.weight(len(arrivals)),
                coins,
                part=i,
            )
        return mask_arrivals(retained, keep)

    def answer(self, clock: Clock, retained: Records) -> float | Floats:
        """Return coordinate i of the average of segment i, updated with the records that arrived since the last update.

        Args:
            clock: the public clock.
            retained: the records held.

        Returns:
            The mean: a float in one dimension, otherwise shape (dim,).

        Raises:
            NoRecordsError: if all kept records of a segment had to be erased.
        """
        encoded, fresh = split_encoded(clock, retained)
        averages = self._read_averages(clock, encoded)
        if clock.encoded and np.isnan(averages).any():  # all records of a segment had to go
            raise make_lost_error(clock)
        return self._to_scalar_or_vector(_include_fresh(clock, averages, sort_values(fresh)))

    def _read_averages(self, clock: Clock, encoded: Records) -> Floats:
        segment = (encoded.rounds - clock.first) % self.dim
        rows = [sort_values(encoded.where(segment == i)) for i in range(self.dim)]
        return np.array([part[:, i].mean() if len(part) else np.nan for i, part in enumerate(rows)])


def _average(records: Records) -> Floats:
    """Return the average of the values; shape (dim,)."""
    average: Floats = sort_values(records).mean(axis=0)
    return average
