"""The error that encoding adds, from a simulation of the channel itself.

After batch k of K, a number is off its target by a residual, and k / K of that residual is left in the end. Residuals
have no bias and do not depend on each other, so their variances add up: the sum of (k / K)^2 E[residual_k^2].

A word rounds to a step that the kept records say, so that its residual is the same at all times and in all units: a
third of K residuals is left, in square. `vestige.channels.layout.find_precision` has the law where every word comes out
at once; heavy tails and words that have to be written again add to it, by a factor that only trying can tell.
An average is near its target or, with the channel auto, is replaced by a word. No formula says how often: the channel
is simulated at a few moments of the stream, and the uncertainty of that frequency is part of the result.
Guarantee: held by tests/planning/test_honesty.py, at means of up to 1,000 deviations and in any unit.
"""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

import numpy as np

from vestige import statistics
from vestige.channels import Channel, FixedPoint, Target
from vestige.channels.auto import Auto
from vestige.channels.bits import Bits
from vestige.channels.compiled import Compiled
from vestige.channels.layout import find_precision
from vestige.channels.leading import Leading
from vestige.planning.data_model import DataModel
from vestige.policies import Encoded
from vestige.random.generators import make_generator
from vestige.types import Bools, Floats

_MOMENTS, _TRIALS_PER_MOMENT, _FEW = 5, 200, 8
_WORDS, _MAX_WORDS, _FEWEST_WORDS, _MAX_CELLS = 400, 100_000, 16, 4_000_000
_DEVIATIONS = 3.0  # that the mean of squared residuals may be larger
_STEPS = 60
_MAX_NUMBERS = 8
_MAX_LENGTH = 1_024
_LEVEL = 1e-3
_NORMAL = np.sqrt(np.pi / 2.0)  # a standard deviation over a mean absolute deviation, if normal


TRIALS = _MOMENTS * _TRIALS_PER_MOMENT
"""Number of simulated updates by averages."""


class EncodingVariance(NamedTuple):
    """The variance of each encoded number that encoding adds; shape (size,) each.

    Attributes:
        expected: the best estimate.
        upper: an upper limit of it at a level of one in a thousand: coarse words, and words in place of averages or
            averages in place of words, are taken to be as frequent as the simulation does not rule out.
        missed: the share of streams whose answer says that it has missed its target.
    """

    expected: Floats
    upper: Floats
    missed: float = 0.0


def find_encoding_variance(
    model: DataModel, policy: Encoded, batch: int, batches: int, noise: float
) -> EncodingVariance:
    """Find the variance that encoding has added after a number of batches.

    Args:
        model: the records.
        policy: policy that encodes numbers of them.
        batch: number of records in a batch.
        batches: number of batches.
        noise: standard deviation of noise in the average of each batch.

    Returns:
        The variance of each number, as expected and at most.

    Example:
        >>> from vestige import Mean
        >>> policy = Mean(channel="bits")
        >>> model = DataModel(policy)
        >>> short, long = (
        ...     find_encoding_variance(model, policy, batch, 100, 0.0).expected[0] for batch in (22, 32)
        ... )
        >>> bool(short > 1e5 * long)
        True
    """
    linearization, rows = model.linearize(policy), model.rows
    encoded, influence = linearization.encoded, linearization.influence
    channel, spread, size = policy.encoding, np.sqrt((influence**2).mean(axis=0)), len(encoded)
    moments, weights = _choose_moments(batches)
    if isinstance(channel, FixedPoint):
        step = channel.find_step(np.ones(batch, np.bool_), size)
        variance = np.full(size, weights.sum() * step**2 / 12.0)
        return EncodingVariance(variance, variance)
    shares, doubts, residuals = np.ones(len(moments)), (0.0, 0.0), np.zeros((len(moments), size))
    if policy.is_identity and channel.is_searched:
        some = np.unique(np.linspace(0, size - 1, min(size, _MAX_NUMBERS)).astype(int))
        simulation = _Averages(policy, encoded[some], spread[some], rows[:, some], batch, batch * len(some) // size)
        shares, residuals = simulation.run(moments, noise)
        shares = 1.0 - (1.0 - shares) ** (size / len(some))
        if len(some) < size:  # the others are taken to be like them, in units of their spread
            unit = np.where(spread > 0.0, spread, 1.0) ** 2
            residuals = unit * (residuals / unit[some]).mean(axis=1, keepdims=True)
        if not isinstance(channel, Auto):
            # residuals that large are not independent any more: no average of records is further off than a record
            variance = np.minimum(weights @ residuals, spread**2)
            return EncodingVariance(variance, variance)
        share = float(shares.mean())
        tried = len(moments) * _TRIALS_PER_MOMENT
        doubts = _upper_limit(share, tried) - share, (1.0 - share) - _upper_limit(1.0 - share, tried)
    length = channel.count_rows(channel.find_room(batch), size)  # more records are not used
    key = ("words", policy.statistic if _is_compiled(policy.statistic, channel) else policy, length)
    words = model.remember(key, lambda: _Words(policy, encoded, influence, rows, length))
    expected, more_words, fewer_words = (
        weights @ words.find_variances(batch, moments, np.clip(shares + more, 0.0, 1.0), residuals, deviations)
        for more, deviations in ((0.0, 0.0), *((doubt, _DEVIATIONS) for doubt in doubts))
    )
    return EncodingVariance(
        expected, np.maximum(more_words, fewer_words), words.find_missed(batch, batches, moments, shares)
    )


class _Words:
    """Words by trial, or by the law if that takes too long.

    Args:
        policy: policy that encodes the numbers.
        encoded: the numbers; shape (size,).
        influence: influence of each record on them; shape (n, size).
        rows: the records; shape (n, columns).
        length: number of records that words are written into.
    """

    def __init__(self, policy: Encoded, encoded: Floats, influence: Floats, rows: Floats, length: int) -> None:
        size, self.length = len(encoded), length
        self.statistic, self.encoded, self.rows = policy.statistic, encoded, rows
        self.channel = policy.encoding.channel if isinstance(policy.encoding, Leading) else policy.encoding
        self.spread = np.sqrt((influence**2).mean(axis=0))
        self.is_compiled = _is_compiled(self.statistic, self.channel)
        self.trials = min(_MAX_WORDS if self.is_compiled else _WORDS, _MAX_CELLS // (self.length * size))
        if self.trials < _FEWEST_WORDS:
            known, told = self.statistic.find_known_scales(rows), _NORMAL * np.abs(influence).mean(axis=0)
            usual = find_precision(self.length, size) * np.where(np.isnan(known), told, known)
            self.squares, self.misses = usual[None] ** 2, np.zeros(1)
            return
        self.squares, self.misses = self._write(self.trials, off=False)

    def find_variances(
        self, batch: int, moments: Floats, shares: Floats, residuals: Floats, deviations: float
    ) -> Floats:
        """The variance that one update adds at each moment, where words are written in these shares of updates.

        Args:
            batch: number of records in a batch.
            moments: numbers of batches; shape (moments,).
            shares: shape (moments,).
            residuals: mean squared residuals of the other updates; shape (moments, size).
            deviations: by how many standard errors the variance of words may be larger than was found.

        Returns:
            The variances; shape (moments, size).
        """
        share, word = shares[:, None], np.array([self._find_variance(batch, k, deviations) for k in moments])
        marked = self._find_marked(batch, moments, moments, shares)[:, None]
        coarse = self.marked_variance if marked.any() else word
        variances: Floats = (1.0 - marked) * ((1.0 - share) * residuals + share * word) + marked * coarse
        return variances

    def find_missed(self, batch: int, batches: int, moments: Floats, shares: Floats) -> float:
        """The share of streams whose numbers are marked as off after so many batches; see `find_variances`."""
        return float(self._find_marked(batch, np.array([float(batches)]), moments, shares)[0])

    def _find_variance(self, batch: int, moment: float, deviations: float) -> Floats:
        """The variance of a word that is not marked at a moment: those that are count as missed, not as coarse."""
        squares = self.squares * (1.0 - self._find_chances(batch, moment))[:, None]
        uncertainty = squares.std(axis=0) / np.sqrt(len(squares))
        variance: Floats = squares.mean(axis=0) + deviations * uncertainty
        return variance

    def _find_chances(self, batch: int, moment: float) -> Floats:
        """How likely each word is marked at a moment; see `find_far_limit`."""
        large, limit = self.misses**2, 0.25 / (batch * moment)  # half of a standard error by then, squared
        chances: Floats = np.minimum(large / limit, 1.0) * (large * moment > limit)
        return chances

    @cached_property
    def marked_variance(self) -> Floats:
        """The variance that one writing adds to numbers that are marked as off, which takes bits; shape (size,)."""
        variance: Floats = self._write(max(self.trials // 4, _FEWEST_WORDS), off=True)[0].mean(axis=0)
        return variance

    def _find_marked(self, batch: int, ends: Floats, moments: Floats, shares: Floats) -> Floats:
        """The share of streams whose numbers are marked as off by each of some ends; see `find_far_limit`."""
        every: Floats = np.unique(np.concatenate((np.geomspace(1.0, ends[-1], _STEPS), ends)))
        chances = np.array([self._find_chances(batch, k).mean() for k in every])
        rates = chances * np.interp(every, moments, shares)
        marks = np.concatenate(([0.0], np.cumsum(np.diff(every) * (rates[1:] + rates[:-1]) / 2.0)))
        marked: Floats = -np.expm1(-np.interp(ends, every, marks))
        return marked

    def _write(self, trials: int, *, off: bool) -> tuple[Floats, Floats]:
        """Squares of what is missed, shape (trials, size), and the most of each batch in its own deviations."""
        rng = make_generator(self.length)
        numbers = self.encoded + self.spread * rng.uniform(-0.5, 0.5, (trials, len(self.encoded))) / self.length
        channel = Bits() if self.is_compiled else self.channel
        residuals, misses, _ = _write_batches(
            channel, self.statistic, self.rows, self.encoded, numbers, 1.0, self.length, 0.0, off=off, rng=rng
        )
        return np.where(self.spread > 0.0, residuals, 0.0) ** 2, misses


class _Averages:
    """A channel that searches for averages, and some of the numbers that it writes.

    Args:
        policy: policy that encodes the numbers.
        encoded: the numbers; shape (size,).
        spread: deviation of a record from each; shape (size,).
        columns: the values that averages are chosen from; shape (n, size).
        batch: number of records that a batch has for all numbers.
        length: number of records that it has for these.
    """

    def __init__(
        self, policy: Encoded, encoded: Floats, spread: Floats, columns: Floats, batch: int, length: int
    ) -> None:
        self.policy, self.encoded, self.spread, self.columns, self.batch = policy, encoded, spread, columns, batch
        self.length = max(min(length, _MAX_LENGTH * len(encoded)), policy.encoding.find_min_batch(len(encoded)))
        self.rng = make_generator(self.length)

    def run(self, moments: Floats, noise: float) -> tuple[Floats, Floats]:
        """The share of updates that write words at each moment, and the mean squared residuals of the others.

        Shapes (moments,) and (moments, size).
        """
        found = [self._simulate_moment(int(k), noise) for k in moments]
        return np.array([share for share, _ in found]), np.array([residuals for _, residuals in found])

    def _simulate_moment(self, k: int, noise: float) -> tuple[float, Floats]:
        """The same at the k-th batch."""
        trials, size, share = _TRIALS_PER_MOMENT, len(self.encoded), 1.0 / k
        before = self.encoded + self.spread * self.rng.normal(size=size) / np.sqrt(max(k - 1, 1) * self.batch)
        moved = np.hypot(self.spread / np.sqrt(self.batch), noise)
        residuals, _, words = _write_batches(
            self.policy.encoding,
            statistics.Mean(size),
            self.columns,
            before,
            self.encoded + moved * self.rng.normal(size=(trials, size)),
            share,
            self.length,
            self.policy.tolerance * share / np.sqrt(self.batch),
            off=False,
            rng=self.rng,
        )
        count = len(words) - int(words.sum())
        squares: Floats = (residuals[~words] ** 2).sum(axis=0) / max(count, 1)  # that of words is known better
        return 1.0 - count / len(words), squares


def _is_compiled(statistic: statistics.Statistic, channel: Channel) -> bool:
    """Whether kernels write the numbers."""
    return isinstance(channel, Compiled) and isinstance(statistic, statistics.Mean)


def _write_batches(
    channel: Channel,
    statistic: statistics.Statistic,
    rows: Floats,
    before: Floats,
    averages: Floats,
    share: float,
    length: int,
    near_share: float,
    *,
    off: bool,
    rng: np.random.Generator,
) -> tuple[Floats, Floats, Bools]:
    """The same as `vestige.planning.kernels.write_batches`, for any statistic and any channel."""
    if isinstance(channel, Compiled) and _is_compiled(statistic, channel):
        from vestige.planning.kernels import write_batches  # noqa: PLC0415

        key = rng.integers(2**63, dtype=np.uint64)
        return write_batches(rows, before, averages, share, length, channel.mode, near_share, off, key)
    residuals, misses, everyone = np.empty(averages.shape), np.zeros(len(averages)), np.ones(length, np.bool_)
    usual = np.full(averages.shape[1], np.inf)
    for first, average in enumerate(averages):
        target = average if share == 1.0 else before + share * (average - before)
        values = rows[rng.integers(len(rows), size=length)]
        near = near_share * np.abs(values - values.mean(axis=0)).mean(axis=0) if near_share else np.zeros(len(target))
        wanted = Target.exactly(target, np.full(len(target), off))._replace(near=near)
        keep = channel.write(values, everyone, wanted, statistic, first, np.uint64(first))
        kept = values[keep]
        values[~keep] = 0.0
        before = channel.read_slots(values, keep, statistic, first).numbers
        residuals[first] = abs(before - target)
        misses[first] = (residuals[first] / usual).max()
        deviations = statistic.find_deviations(kept, before)
        usual = np.where(deviations > 0.0, deviations, np.inf)
    return residuals, misses, np.zeros(len(averages), np.bool_)


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
