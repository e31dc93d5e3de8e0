"""What is lost in writing: tried with the channel itself, at a few moments of the stream to come.

After batch k of K, a number is off its target by a residual, and what is off at batch k is off by k / K of that in the
end. So the end has the variance sum_k (k / K)^2 E[residual_k^2]. The residuals are measured: at some k, the number that
is encoded goes through updates with the share 1 / k, each written by the real channel and read back.
Guarantee: held by tests/planning/test_honesty.py.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from vestige.policies import Encoded, Mean
from vestige.records import Floats

if TYPE_CHECKING:
    from vestige.subset.desk import Desk

_MOMENTS = 5
_TRIED = 100
_FEW = 8
_NUMBERS = 16
_LONGEST = 1_024


TRIED = _MOMENTS * _TRIED
"""So many updates are tried of each number."""


def lost_in_writing(
    policy: Encoded, encoded: Floats, moves: Floats, columns: Floats, batch: int, batches: int, noise: float
) -> Floats:
    """The variance of each encoded number, after so many batches, by what was lost in writing; shape (size,).

    Args:
        policy: how they are written.
        encoded: the numbers; shape (size,).
        moves: how far each record moves them; shape (n, size).
        columns: the values that averages are chosen from; shape (n, columns).
        batch: records in a batch.
        batches: how many there will have been.
        noise: standard deviation of noise in the average of each batch.
    """
    size = len(encoded)
    spread = np.sqrt((moves**2).mean(axis=0))
    chosen = np.unique(np.linspace(0, size - 1, min(size, _NUMBERS)).astype(int))
    lost = np.zeros(size)
    for i in chosen:
        segment = _Segment(policy, columns[:, i] if _averaged(policy) else None, -(-(batch - int(i)) // size), batch)
        lost[i] = segment.lost(encoded[i], spread[i], batches, noise)
    if len(chosen) < size:  # the others are taken to be like them, in units of their spread
        unit = np.where(spread > 0.0, spread, 1.0) ** 2
        lost[:] = np.where(np.isin(np.arange(size), chosen), lost, unit * (lost[chosen] / unit[chosen]).mean())
    return lost


def _averaged(policy: Encoded) -> bool:
    """Whether flags tell averages from bits."""
    return isinstance(policy, Mean) and not policy.spread


class _Segment:
    """The records of a batch that say one number."""

    def __init__(self, policy: Encoded, column: Floats | None, length: int, batch: int) -> None:
        length = min(length, _LONGEST)  # among more records nothing is lost any more
        self.policy, self.column, self.length, self.batch = policy, column, length, batch
        self.rng = np.random.default_rng(length)
        self.everyone, self.keep = np.ones(length, np.bool_), np.zeros(length, np.bool_)

    def lost(self, number: float, spread: float, batches: int, noise: float) -> float:
        """The variance in the end: a sum over few batches, an integral by Gauss and Legendre over many."""
        if batches <= _FEW:
            moments = np.arange(1, batches + 1)
            weights = (moments / batches) ** 2
        else:
            places, shares = np.polynomial.legendre.leggauss(_MOMENTS)
            along = (places + 1.0) / 2.0
            moments = np.ceil(along * batches).astype(int)
            weights = batches * along**2 * shares / 2.0
        each = [self.residual(number, spread, int(k), noise) for k in moments]
        lost = float(weights @ np.array(each))
        # residuals that large are not independent any more: no average of records is further off than a record
        return min(lost, spread**2) if self.policy.written.name == "average" else lost

    def residual(self, number: float, spread: float, k: int, noise: float) -> float:
        """The mean square residual at the k-th batch."""
        before = number + spread * self.rng.normal() / np.sqrt(max(k - 1, 1) * self.batch)
        fresh = number + np.hypot(spread / np.sqrt(self.batch), noise) * self.rng.normal(size=_TRIED)
        keys = self.rng.integers(2**63, size=_TRIED, dtype=np.uint64)
        total = 0.0
        for one, key in zip(fresh, keys, strict=True):
            target = before + (one - before) / k
            before = self._spelled(target, key) if self.column is None else self._written(target, k, key)
            total += (before - target) ** 2
        return total / _TRIED

    def _spelled(self, target: float, key: np.uint64) -> float:
        from vestige.channels.kernels import spell_batch  # noqa: PLC0415

        spelled = np.empty(1)
        spell_batch(self.everyone, np.array([target]), key, self.keep, spelled)
        return float(spelled[0])

    def _written(self, target: float, k: int, key: np.uint64) -> float:
        from vestige.channels.kernels import read_segment, write_segment  # noqa: PLC0415
        from vestige.statistics.kernels import tolerance  # noqa: PLC0415

        assert self.column is not None  # noqa: S101  # see `residual`
        assert isinstance(self.policy, Mean)  # noqa: S101  # see `_averaged`
        values = self.column[self.rng.integers(len(self.column), size=self.length)]
        spread = float(np.abs(values - values.mean()).mean())
        near = tolerance(self.policy.tolerance, spread, self.batch, 1.0 / k, target)
        write_segment(values, self.everyone, target, near, key, self.policy.written.mode, self.desk, self.keep)
        return float(read_segment(values, self.keep))

    @cached_property
    def desk(self) -> Desk:
        """Where the search works."""
        from vestige.subset.desk import make_desk  # noqa: PLC0415

        return make_desk(self.length)
