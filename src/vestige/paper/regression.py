"""Linear regression as published: Algorithm 2.

Section 4 of Immorlica et al. (2024, https://doi.org/10.48550/arXiv.2404.10997).
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
from vestige.records import Records
from vestige.types import Bools, Floats, Ints
from vestige.validation import check_float, check_int


@partial(register_policy, name="vestige.paper.Regression")
@dataclass(frozen=True)
class Regression(Policy):
    """Algorithm 2, "Subsampling for Linear Regression", without an intercept.

    Where the listing is ambiguous or has a slip, it is read as follows. The gradient is divided by the number of rows,
    as in the analysis. P is a nonempty subset of the groups 1 .. r. In Decode, the matrices are those of the group L_j.
    The first half of a batch is learned from, the second half is kept from; its segments and groups are runs of
    consecutive rounds, so the round of a record determines its group. In the first batch, all records are in groups.
    Records that are left over when a segment is cut into groups are not kept. A group is kept as a whole or not at all:
    a group with a record that must leave is not chosen.

    For normal predictors and 100 batches, it needs batches of about 640 records at dim 2 and 900 at dim 3 to come
    within two to three times the all-data error; with smaller batches the residual dominates and the error stops
    falling. `vestige.LinearRegression` needs 204 and 340 for 1.00 times.

    Args:
        dim: number of predictors per record. Rows are `(x_1 .. x_dim, y)`.
        group: number of records per group, whose least-squares estimates are averaged; default: `2 * dim + 1`, since
            groups of `dim` records have heavy tails.
        smallest_eigenvalue: smallest eigenvalue of E[x x^T], for the step size
            1 / (smallest_eigenvalue * (batches + offset)); default: estimated from the half that is learned from.
        offset: keeps the first steps from overshooting, which steps of 1 / (eigenvalue * batches) do while the number
            of batches is below the condition number of E[x x^T]; default: that condition number, estimated from the
            half that is learned from.

    Example:
        >>> from vestige import Batched
        >>> x = np.random.default_rng(0).normal(size=(40_000, 2))
        >>> y = x @ [2.0, -1.0] + np.random.default_rng(1).normal(size=40_000)
        >>> stream = Batched(Regression(2), batch=400, seed=0)
        >>> _ = stream.extend(np.column_stack([x, y]))
        >>> stream.estimate().value.round(1)
        array([ 2., -1.])
    """

    dim: int = 1
    group: int | None = None
    smallest_eigenvalue: float | None = None
    offset: float | None = None

    def __post_init__(self) -> None:
        check_int("dim", self.dim, 1)
        if self.group is not None:
            check_int("group", self.group, self.dim)
        if self.smallest_eigenvalue is not None:
            check_float("smallest_eigenvalue", self.smallest_eigenvalue, lambda n: 0.0 < n < np.inf, "one above 0")
        if self.offset is not None:
            check_float("offset", self.offset, lambda n: 0.0 <= n < np.inf, "0 or more")

    @property
    def columns(self) -> int:
        """Number of values per record: the predictors, then the output."""
        return self.dim + 1

    @property
    def max_magnitude(self) -> float:
        """Largest magnitude of a value for which no product overflows."""
        return 1e150

    @property
    def min_batch(self) -> int:
        """Smallest batch: one group per coordinate in the half that is kept from."""
        return 2 * self.dim * self._group

    @property
    def _group(self) -> int:
        return 2 * self.dim + 1 if self.group is None else self.group

    def can_encode(self, clock: Clock, rounds: Ints, leaving: Bools) -> bool:
        """Return whether each coordinate has a group that can be kept as a whole."""
        owners = self._assign_groups(rounds - clock.last - 1, clock.pending, first=not clock.encoded)
        return all(self._find_complete_groups(owners, i, ~leaving).size > 0 for i in range(self.dim))

    def update(self, clock: Clock, retained: Records, arrivals: Records, coins: int) -> Bools:
        """Run one round of the listing."""
        slots = arrivals.rounds - clock.last - 1
        owners = self._assign_groups(slots, clock.pending, first=not clock.encoded)
        keep = np.zeros(len(arrivals), np.bool_)
        if not self.can_encode(clock, arrivals.rounds, arrivals.leaving):
            return mask_arrivals(retained, keep)
        target = None if not clock.encoded else self._compute_target(clock, retained, arrivals, slots)
        for i in range(self.dim):
            groups = self._find_complete_groups(owners, i, ~arrivals.leaving)
            if target is not None:
                atoms = self._estimate_groups(arrivals, owners, groups)[:, i]
                groups = groups[subset.nearest_average(atoms, target[i], seed=coins % 2**32).mask]
            keep |= np.isin(owners, groups)
        return mask_arrivals(retained, keep)

    def answer(self, clock: Clock, retained: Records) -> float | Floats:
        """Return Decode(S_T); before the first update, the least-squares fit of the records that have arrived.

        Args:
            clock: the public clock.
            retained: the records held.

        Returns:
            The coefficients; shape (dim,).

        Raises:
            NoRecordsError: if all kept groups of a coordinate had to be erased.
        """
        encoded, fresh = split_encoded(clock, retained)
        if not clock.encoded:
            return _fit(sort_values(fresh))
        return self._decode(clock, encoded)

    def _assign_groups(self, slots: Ints, length: int, *, first: bool) -> Ints:
        """Return the group of each slot, numbered across coordinates; -1 for slots without a group."""
        start = 0 if first else length // 2
        segment = (length - start) // self.dim
        per_segment = segment // self._group
        place = slots - start
        coordinate, within = place // segment, place % segment // self._group
        inside = (place >= 0) & (coordinate < self.dim) & (within < per_segment)
        owners: Ints = np.where(inside, (coordinate * per_segment + within) * self.dim + coordinate, -1)
        return owners

    def _find_complete_groups(self, owners: Ints, coordinate: int, present: Bools) -> Ints:
        """Return the groups of a coordinate whose records are all present."""
        members = owners[present & (owners >= 0) & (owners % self.dim == coordinate)]
        groups, counts = np.unique(members, return_counts=True)
        complete: Ints = groups[counts == self._group]
        return complete

    def _estimate_groups(self, records: Records, owners: Ints, groups: Ints) -> Floats:
        """Return the least-squares estimate of each group; shape (groups, dim)."""
        return np.array([_fit(sort_values(records.where(owners == group))) for group in groups])

    def _decode(self, clock: Clock, encoded: Records) -> Floats:
        """Return Decode: coordinate i of the average of the estimates of the groups of segment i."""
        length, first = clock.last - clock.first + 1, clock.first == clock.since
        owners = self._assign_groups(encoded.rounds - clock.first, length, first=first)
        decoded = np.empty(self.dim)
        for i in range(self.dim):
            groups = self._find_complete_groups(owners, i, np.ones(len(encoded), np.bool_))
            if not groups.size:
                raise make_lost_error(clock)
            decoded[i] = self._estimate_groups(encoded, owners, groups)[:, i].mean()
        return decoded

    def _compute_target(self, clock: Clock, retained: Records, arrivals: Records, slots: Ints) -> Floats:
        """Return z_t: one gradient step from the decoded estimate, on the half that is learned from."""
        before = self._decode(clock, split_encoded(clock, retained)[0])
        rows = sort_values(arrivals.where(slots < clock.pending // 2))
        if not len(rows):
            return before
        x, y = rows[:, : self.dim], rows[:, self.dim]
        second_moment = x.T @ x / len(x)
        eigenvalues = np.linalg.eigvalsh(second_moment)
        smallest, largest = float(eigenvalues[0]), float(eigenvalues[-1])
        least = self.smallest_eigenvalue or max(smallest, np.finfo(np.float64).eps * largest)
        offset = largest / least if self.offset is None else self.offset
        batches = (clock.encoded + len(arrivals)) / len(arrivals)
        target: Floats = before + (x.T @ y / len(x) - second_moment @ before) / (least * (batches + offset))
        return target


def _fit(rows: Floats) -> Floats:
    """Return the least-squares coefficients of rows (x, y): those of least norm where they are not determined."""
    return np.linalg.lstsq(rows[:, :-1], rows[:, -1], rcond=None)[0].astype(np.float64)
