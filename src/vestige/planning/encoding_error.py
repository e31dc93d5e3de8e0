"""What is lost in writing: a law for presence bits, and for averages what the channel itself leaves when it is tried.

After batch k of K, a number is off its target by a residual, and what is off at batch k is off by k / K of that in the
end. Residuals have no bias, so that their variances add up: V_k = (1 - 1/k)^2 V_(k-1) + E[residual_k^2].

Bits round to a multiple of the step u of a float with so many bits of mantissa: it is relative to zero, so that u grows
with the number, whatever its spread is. The number before was a multiple of u too, and moves by a share 1 / k of the
way to the new batch, a normal of deviation q u. So f, the part of a step that is left, has E[f (1 - f)] u^2 =
(1/6 - sum_j exp(-2 (pi j q)^2) / (pi j)^2) u^2: a sixth where the move is many steps, far less where it is few.
An average is near its target or, in auto, gives way to bits. How often, nobody knows beforehand: it is tried with the
real channel at a few moments of the stream to come, and how often it may be after so many tries is said too.
Guarantee: held by tests/planning/test_honesty.py, at means of up to 1,000 deviations and in any unit.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from vestige.channels import mantissa_bits
from vestige.policies import Encoded, Mean
from vestige.random.generators import make_generator
from vestige.types import Floats

if TYPE_CHECKING:
    from vestige.subset.workspace import Workspace

_MOMENTS, _TRIED, _FEW = 5, 200, 8
_NUMBERS = 16
_LONGEST = 1_024
_STEPS = 160  # of a stream's length; the variance is known to within a percent from as many
_PLACES = 33  # where a number may lie: steps differ by powers of two
_DOUBT = 1e-3


TRIED = _MOMENTS * _TRIED
"""So many updates are tried of each number."""


class Lost(NamedTuple):
    """The variance of each encoded number by what was lost in writing; shape (size,) each.

    Attributes:
        expected: by all that is known.
        most: if averages give way to bits as often as the tries leave possible, at a level of one in a thousand.
    """

    expected: Floats
    most: Floats


def lost_in_writing(
    policy: Encoded, encoded: Floats, moves: Floats, columns: Floats, batch: int, batches: int, noise: float
) -> Lost:
    """What was lost in writing after so many batches.

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
    chosen = np.unique(np.linspace(0, size - 1, min(size, _NUMBERS)).astype(int)) if _averaged(policy) else range(size)
    lost = np.zeros((2, size))
    for i in chosen:
        segment = _Segment(policy, columns[:, i] if _averaged(policy) else None, -(-(batch - int(i)) // size), batch)
        lost[:, i] = segment.lost(float(encoded[i]), float(spread[i]), batches, noise)
    if len(chosen) < size:  # the others are taken to be like them, in units of their spread
        unit = np.where(spread > 0.0, spread, 1.0) ** 2
        alike = unit * (lost[:, chosen] / unit[chosen]).mean(axis=1, keepdims=True)
        lost = np.where(np.isin(np.arange(size), chosen), lost, alike)
    return Lost(*lost)


def _averaged(policy: Encoded) -> bool:
    """Whether averages are tried before bits are written."""
    return isinstance(policy, Mean) and not policy.spread and policy.written.name != "bits"


class _Tries(NamedTuple):
    """What the channel did at some moments: how often it wrote bits, and how far averages were off; shape (n,) each."""

    moments: Floats
    missed: Floats
    near: Floats


class _Segment:
    """The records of a batch that say one number."""

    def __init__(self, policy: Encoded, column: Floats | None, length: int, batch: int) -> None:
        length = min(length, _LONGEST)  # among more records nothing is lost any more
        self.policy, self.column, self.length, self.batch = policy, column, length, batch
        self.rng = make_generator(length)
        self.everyone, self.keep = np.ones(length, np.bool_), np.zeros(length, np.bool_)

    def lost(self, number: float, spread: float, batches: int, noise: float) -> tuple[float, float]:
        """The variance in the end, as expected and at most."""
        if self.column is None:
            bits = self._grown(number, spread, batches, noise, None, 0.0)
            return bits, bits
        moments, weights = _moments(batches)
        tries = self._tried(number, spread, moments, noise)
        if self.policy.written.name == "average":
            # residuals that large are not independent any more: no average of records is further off than a record
            most = min(float(weights @ tries.near), spread**2)
            return most, most
        doubt = _most(float(tries.missed.mean()), len(moments) * _TRIED) - float(tries.missed.mean())
        expected, most = (self._grown(number, spread, batches, noise, tries, more) for more in (0.0, doubt))
        return expected, most

    def _grown(
        self, number: float, spread: float, batches: int, noise: float, tries: _Tries | None, more: float
    ) -> float:
        """The variance in the end: that of each moment shrinks as the stream goes on, and its residuals come to it."""
        every: Floats = np.concatenate((np.arange(1.0, _FEW), np.geomspace(1.0, batches, _STEPS).round()))
        moments = np.unique(every[every <= batches])
        missed = np.ones(len(moments)) if tries is None else np.interp(moments, tries.moments, tries.missed)
        near = np.zeros(len(moments)) if tries is None else np.interp(moments, tries.moments, tries.near)
        missed, places = np.minimum(missed + more, 1.0), _normals(_PLACES)
        variance, before = 0.0, 0.0
        for k, miss, off in zip(moments, missed, near, strict=True):
            moved = np.sqrt(variance + spread**2 / self.batch + noise**2) / k
            lies = number + places * np.sqrt(variance + (spread**2 / self.batch + noise**2) / k)
            step = _step(lies, self.length)
            again = (_left(moved / step) * step**2).mean()  # where bits were written before, and are again
            each = (1.0 - miss) * off + miss * ((1.0 - miss) * (step**2).mean() / 6.0 + miss * again)
            variance = variance * (before / k) ** 2 + each * _squares(before, k) / k**2
            before = k
        return float(variance)

    def _tried(self, number: float, spread: float, moments: Floats, noise: float) -> _Tries:
        """What the channel does at these moments, where a stream comes by."""
        found = np.array([self._at(number, spread, int(k), noise) for k in moments])
        return _Tries(moments.astype(np.float64), *found.T)

    def _at(self, number: float, spread: float, k: int, noise: float) -> tuple[float, float]:
        """In what share of updates bits are written at the k-th batch; the mean square residual where they are not."""
        before = number + spread * self.rng.normal() / np.sqrt(max(k - 1, 1) * self.batch)
        fresh = number + np.hypot(spread / np.sqrt(self.batch), noise) * self.rng.normal(size=_TRIED)
        keys = self.rng.integers(2**63, size=_TRIED, dtype=np.uint64)
        missed, total = 0, 0.0
        for one, key in zip(fresh, keys, strict=True):
            target = before + (one - before) / k
            before = self._written(target, k, key)
            if self.keep[-2:].any():
                missed, before = missed + 1, target  # what bits lose has a law of its own
            total += (before - target) ** 2
        return missed / _TRIED, total / max(_TRIED - missed, 1)

    def _written(self, target: float, k: int, key: np.uint64) -> float:
        from vestige.channels.kernels import read_segment, write_segment  # noqa: PLC0415
        from vestige.statistics.kernels import tolerance  # noqa: PLC0415

        assert self.column is not None  # noqa: S101  # see `lost`
        assert isinstance(self.policy, Mean)  # noqa: S101  # see `_averaged`
        values = self.column[self.rng.integers(len(self.column), size=self.length)]
        spread = float(np.abs(values - values.mean()).mean())
        near = tolerance(self.policy.tolerance, spread, self.batch, 1.0 / k, target)
        mode = self.policy.written.mode
        write_segment(values, self.everyone, target, near, np.inf, False, key, mode, self.workspace, self.keep)
        return float(read_segment(values, self.keep, mode))

    @cached_property
    def workspace(self) -> Workspace:
        """Where the search works."""
        from vestige.subset.workspace import make_workspace  # noqa: PLC0415

        return make_workspace(self.length)


def _moments(batches: int) -> tuple[Floats, Floats]:
    """When to look, and what each look counts: a sum over few batches, an integral by Gauss and Legendre over many."""
    if batches <= _FEW:
        each = np.arange(1.0, batches + 1.0)
        return each, (each / batches) ** 2
    places, shares = np.polynomial.legendre.leggauss(_MOMENTS)
    along = (places + 1.0) / 2.0
    return np.ceil(along * batches), batches * along**2 * shares / 2.0


def _most(share: float, tries: int) -> float:
    """How often something may happen that happened in such a share of tries: Clopper and Pearson's upper limit."""
    from scipy.special import betaincinv  # noqa: PLC0415

    hits = round(share * tries)
    return 1.0 if hits >= tries else float(betaincinv(hits + 1, tries - hits, 1.0 - _DOUBT))


def _step(numbers: Floats, length: int) -> Floats:
    """The step of the grid of presence bits at each number."""
    _, exponents = np.frexp(numbers)
    made: Floats = np.ldexp(1.0, exponents - 1 - mantissa_bits(length))
    return made


def _left(moves: Floats) -> Floats:
    """E[f (1 - f)], where f is what a normal of these deviations, in steps, has behind the point."""
    few = np.sqrt(2.0 / np.pi) * moves - moves**2
    j = np.arange(1.0, 9.0)[:, None]
    many = 1.0 / 6.0 - (np.exp(-2.0 * (np.pi * j * moves) ** 2) / (np.pi * j) ** 2).sum(axis=0)
    made: Floats = np.where(moves < 0.15, few, many)
    return made


def _normals(count: int) -> Floats:
    """Quantiles of the normal distribution, evenly apart."""
    from scipy.special import ndtri  # noqa: PLC0415

    made: Floats = ndtri((np.arange(count) + 0.5) / count)
    return made


def _squares(before: float, last: float) -> float:
    """The sum of the squares of whole numbers above `before`, up to `last`."""
    return (last * (last + 1) * (2 * last + 1) - before * (before + 1) * (2 * before + 1)) / 6.0
