"""The error that encoding adds: a law for presence bits, and a simulation of the channel itself for averages.

After batch k of K, a number is off its target by a residual, and k / K of that residual is left in the end. Residuals
have no bias, so their variances add up: V_k = (1 - 1/k)^2 V_(k-1) + E[residual_k^2].

Bits round to a multiple of the step u of a float with a given number of mantissa bits. The step is relative to zero, so
u grows with the number, whatever its spread is. The number before was a multiple of u too, and moves by a share 1 / k
of the way to the new batch, a normal of deviation q u. So f, the fraction of a step that is left, has E[f (1 - f)] u^2
= (1/6 - sum_j exp(-2 (pi j q)^2) / (pi j)^2) u^2: a sixth where the move is many steps, far less where it is few.
An average is near its target or, with the channel auto, is replaced by bits. No formula says how often: the channel is
simulated at a few moments of the stream, and the uncertainty of that frequency is part of the result.
Guarantee: held by tests/planning/test_honesty.py, at means of up to 1,000 deviations and in any unit.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from vestige.channels import Target
from vestige.policies import Encoded
from vestige.random.generators import make_generator
from vestige.types import Floats

_MOMENTS, _TRIALS_PER_MOMENT, _FEW = 5, 200, 8
_MAX_NUMBERS = 16
_MAX_LENGTH = 1_024
_STEPS = 160  # of a stream's length; the variance is known to within a percent from that many
_QUANTILES = 33  # positions that a number may have: steps differ by powers of two
_LEVEL = 1e-3


TRIALS = _MOMENTS * _TRIALS_PER_MOMENT
"""Number of simulated updates of each number."""


class EncodingVariance(NamedTuple):
    """The variance of each encoded number that encoding adds; shape (size,) each.

    Attributes:
        expected: the best estimate.
        upper: the variance if averages are replaced by bits as often as the simulation leaves possible, at a level of
            one in a thousand.
    """

    expected: Floats
    upper: Floats


def find_encoding_variance(
    policy: Encoded, encoded: Floats, influence: Floats, columns: Floats, batch: int, batches: int, noise: float
) -> EncodingVariance:
    """Find the variance that encoding has added after a number of batches.

    Args:
        policy: policy that encodes the numbers.
        encoded: the numbers; shape (size,).
        influence: influence of each record on them; shape (n, size).
        columns: the values that averages are chosen from; shape (n, columns).
        batch: number of records in a batch.
        batches: number of batches.
        noise: standard deviation of noise in the average of each batch.

    Returns:
        The variance of each number, as expected and at most.

    Example:
        >>> from vestige import Mean
        >>> rows = np.random.default_rng(0).normal(size=(1_000, 1))
        >>> short, long = (
        ...     find_encoding_variance(Mean(channel="bits"), np.ones(1), rows, rows, batch, 100, 0.0).expected[0]
        ...     for batch in (28, 56)
        ... )
        >>> bool(short > 1e6 * long)
        True
    """
    size = len(encoded)
    spread = np.sqrt((influence**2).mean(axis=0))
    averaged = _is_averaged(policy)
    simulated = np.unique(np.linspace(0, size - 1, min(size, _MAX_NUMBERS)).astype(int)) if averaged else range(size)
    variance = np.zeros((2, size))
    for i in simulated:
        segment = _Segment(policy, columns[:, i] if averaged else None, -(-(batch - int(i)) // size), batch)
        variance[:, i] = segment.find_variance(float(encoded[i]), float(spread[i]), batches, noise)
    if len(simulated) < size:  # the others are taken to be like them, in units of their spread
        unit = np.where(spread > 0.0, spread, 1.0) ** 2
        typical = unit * (variance[:, simulated] / unit[simulated]).mean(axis=1, keepdims=True)
        variance = np.where(np.isin(np.arange(size), simulated), variance, typical)
    return EncodingVariance(*variance)


def _is_averaged(policy: Encoded) -> bool:
    """Whether averages are tried before bits are written."""
    return policy.is_identity and policy.encoding.is_searched


class _Simulation(NamedTuple):
    """What the channel did at some moments; shape (n,) each.

    Attributes:
        moments: number of batches at each moment.
        bit_shares: share of updates in which it wrote bits.
        residuals: mean squared residual of averages.
    """

    moments: Floats
    bit_shares: Floats
    residuals: Floats


class _Segment:
    """The records of a batch that encode one number."""

    def __init__(self, policy: Encoded, column: Floats | None, length: int, batch: int) -> None:
        length = min(length, _MAX_LENGTH)  # among more records nothing is lost any more
        self.policy, self.column, self.length, self.batch = policy, column, length, batch
        self.rng = make_generator(length)
        self.can_keep, self.keep = np.ones(length, np.bool_), np.zeros(length, np.bool_)

    def find_variance(self, number: float, spread: float, batches: int, noise: float) -> tuple[float, float]:
        """The final variance, as expected and at most."""
        if self.column is None:
            bits = self._accumulate(number, spread, batches, noise, None, 0.0)
            return bits, bits
        moments, weights = _choose_moments(batches)
        simulation = self._simulate(number, spread, moments, noise)
        if not self.policy.encoding.has_bits:
            # residuals that large are not independent any more: no average of records is further off than a record
            most = min(float(weights @ simulation.residuals), spread**2)
            return most, most
        share = float(simulation.bit_shares.mean())
        doubt = _upper_limit(share, len(moments) * _TRIALS_PER_MOMENT) - share
        expected, upper = (self._accumulate(number, spread, batches, noise, simulation, more) for more in (0.0, doubt))
        return expected, upper

    def _accumulate(
        self, number: float, spread: float, batches: int, noise: float, simulation: _Simulation | None, more: float
    ) -> float:
        """The final variance: that of each moment shrinks as the stream goes on, and new residuals add to it."""
        every: Floats = np.concatenate((np.arange(1.0, _FEW), np.geomspace(1.0, batches, _STEPS).round()))
        moments = np.unique(every[every <= batches])
        shares, residuals = np.ones(len(moments)), np.zeros(len(moments))
        if simulation is not None:
            shares = np.interp(moments, simulation.moments, simulation.bit_shares)
            residuals = np.interp(moments, simulation.moments, simulation.residuals)
        shares, quantiles = np.minimum(shares + more, 1.0), _normal_quantiles(_QUANTILES)
        variance, before = 0.0, 0.0
        for k, share, residual in zip(moments, shares, residuals, strict=True):
            moved = np.sqrt(variance + spread**2 / self.batch + noise**2) / k
            positions = number + quantiles * np.sqrt(variance + (spread**2 / self.batch + noise**2) / k)
            step = _grid_step(positions, self.length)
            repeated = (_fraction_variance(moved / step) * step**2).mean()  # bits now, and bits in the batch before
            each = (1.0 - share) * residual + share * ((1.0 - share) * (step**2).mean() / 6.0 + share * repeated)
            variance = variance * (before / k) ** 2 + each * _sum_of_squares(before, k) / k**2
            before = k
        return float(variance)

    def _simulate(self, number: float, spread: float, moments: Floats, noise: float) -> _Simulation:
        """Run the channel at these moments."""
        rows = np.array([self._simulate_moment(number, spread, int(k), noise) for k in moments])
        return _Simulation(moments.astype(np.float64), *rows.T)

    def _simulate_moment(self, number: float, spread: float, k: int, noise: float) -> tuple[float, float]:
        """The share of updates that write bits at the k-th batch, and the mean squared residual of the others."""
        trials = _TRIALS_PER_MOMENT
        before = number + spread * self.rng.normal() / np.sqrt(max(k - 1, 1) * self.batch)
        fresh = number + np.hypot(spread / np.sqrt(self.batch), noise) * self.rng.normal(size=trials)
        keys = self.rng.integers(2**63, size=trials, dtype=np.uint64)
        missed, total = 0, 0.0
        for one, key in zip(fresh, keys, strict=True):
            target = before + (one - before) / k
            before = self._write(target, k, key)
            if self.policy.encoding.uses_bits(self.keep, 1)[0]:
                missed, before = missed + 1, target  # the error of bits has a law of its own
            total += (before - target) ** 2
        return missed / trials, total / max(trials - missed, 1)

    def _write(self, target: float, k: int, key: np.uint64) -> float:
        """Write a target through the channel, and read it back."""
        from vestige.statistics.kernels import find_tolerance  # noqa: PLC0415

        assert self.column is not None  # noqa: S101  # see `find_variance`
        values = self.column[self.rng.integers(len(self.column), size=self.length)]
        spread = float(np.abs(values - values.mean()).mean())
        near = find_tolerance(self.policy.tolerance, spread, self.batch, 1.0 / k, target)
        channel, numbers = self.policy.encoding, np.array([target])
        wanted = Target.exactly(numbers)._replace(near=np.array([near]))
        self.keep = channel.write(values[:, None], self.can_keep, wanted, key)
        return float(channel.read_slots(values[:, None], self.keep, 1).numbers[0])


def _choose_moments(batches: int) -> tuple[Floats, Floats]:
    """Moments to simulate, and their weights: a sum over few batches, a Gauss-Legendre quadrature over many."""
    if batches <= _FEW:
        each = np.arange(1.0, batches + 1.0)
        return each, (each / batches) ** 2
    nodes, weights = np.polynomial.legendre.leggauss(_MOMENTS)
    along = (nodes + 1.0) / 2.0
    return np.ceil(along * batches), batches * along**2 * weights / 2.0


def _upper_limit(share: float, trials: int) -> float:
    """Clopper and Pearson's upper limit of a chance, from the share of trials in which something happened."""
    from scipy.special import betaincinv  # noqa: PLC0415

    hits = round(share * trials)
    return 1.0 if hits >= trials else float(betaincinv(hits + 1, trials - hits, 1.0 - _LEVEL))


def _grid_step(numbers: Floats, length: int) -> Floats:
    """The step of the grid of presence bits at each number."""
    _, exponents = np.frexp(numbers)
    steps: Floats = np.ldexp(1.0, exponents - 1 - mantissa_bits(length))
    return steps


def _fraction_variance(moves: Floats) -> Floats:
    """E[f (1 - f)], where f is the fractional part of a normal of these deviations, in steps."""
    few = np.sqrt(2.0 / np.pi) * moves - moves**2
    j = np.arange(1.0, 9.0)[:, None]
    many = 1.0 / 6.0 - (np.exp(-2.0 * (np.pi * j * moves) ** 2) / (np.pi * j) ** 2).sum(axis=0)
    variance: Floats = np.where(moves < 0.15, few, many)
    return variance


def _normal_quantiles(count: int) -> Floats:
    """Evenly spaced quantiles of the normal distribution."""
    from scipy.special import ndtri  # noqa: PLC0415

    quantiles: Floats = ndtri((np.arange(count) + 0.5) / count)
    return quantiles


def _sum_of_squares(before: float, last: float) -> float:
    """The sum of the squares of whole numbers above `before`, up to `last`."""
    return (last * (last + 1) * (2 * last + 1) - before * (before + 1) * (2 * before + 1)) / 6.0
