"""The audit: trials per second on one core and two, and its estimators and sampler beside those of other libraries."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import TypeVar

import numpy as np

from timing import Row, choose
from vestige import Mean, Private, Stream, Window
from vestige.audit import epsilon_lower_bound, measure_leakage
from vestige.audit.data import make_source
from vestige.policy import Policy
from vestige.random.keys import AuditSeed

T = TypeVar("T")
RETENTION, BATCHES, TRIALS = 96, choose(100, 4), choose(10_000, 400)
PAIRS = choose(100, 2)


def rows() -> Iterator[Row]:
    """Yield all comparisons."""
    yield from measure_speed()
    yield from measure_merging()
    yield from compare_bounds()
    yield from compare_samplers()


def measure_speed() -> Iterator[Row]:
    """Time an audit of 10,000 trials under each hypothesis over 100 batches; on one core a tenth of it."""
    policies: dict[str, Policy] = {
        "Window": Window(),
        "Mean, bits": Mean(channel="bits"),
        "Mean, auto": Mean(),
        "Private": Private(bound=3.0, epsilon=1.0, delta=1e-6),
    }
    for name, policy in policies.items():
        seconds = {}
        for workers, trials in ((1, TRIALS // 10), (2, TRIALS)):
            started = time.perf_counter()
            measure_leakage(policy, retention=RETENTION, t=RETENTION + 1 + 48 * BATCHES, trials=trials, workers=workers)
            seconds[workers] = time.perf_counter() - started
        played = 2.75  # two hypotheses with a quarter more trials for training, and a quarter for reconstruction
        rates = {1: played * TRIALS / 10 / seconds[1], 2: played * TRIALS / seconds[2]}
        yield Row(
            f"{name}, 10,000 trials per hypothesis",
            f"{seconds[2]:.0f} s, {rates[2]:,.0f} trials/s",
            f"a minute on two cores ({rates[1]:,.0f} trials/s on one)",
            60.0 / seconds[2],
            1.0,
        )


def measure_merging() -> Iterator[Row]:
    """Yield the fraction of pairs of streams that hold the same records, by the tolerance of the search."""
    draw = make_source(None, 1)
    checkpoints = [48 * batches for batches in choose((3, 10, 30, 100), (3, 10))]
    for tolerance in (0.0, 0.03, 0.1, 0.3):
        policy, merged = Mean(channel="average", tolerance=tolerance), np.zeros(len(checkpoints))
        for pair in range(PAIRS):
            values = draw(np.random.default_rng([7, pair]), checkpoints[-1])[:, 0]
            streams = [Stream(policy, retention=RETENTION, seed=AuditSeed(pair)) for _ in range(2)]
            other = values.copy()
            other[0] += 1.0
            for i, checkpoint in enumerate(checkpoints):
                for stream, mine in zip(streams, (values, other), strict=True):
                    stream.extend(mine[stream.t : checkpoint])
                merged[i] += np.array_equal(streams[0].retained.rounds, streams[1].retained.rounds)
        shares = ", ".join(f"{share:.0%}" for share in merged / PAIRS)
        yield Row(f"merged, tolerance {tolerance:g}", shares, "after 3, 10, 30 and 100 batches of 48", None, 0.0)


def compare_bounds() -> Iterator[Row]:
    """Compare the lower bound on epsilon with that of jax-privacy, from the same counts."""
    try:
        from jax_privacy.auditing import CanaryScoreAuditor, Explicit  # noqa: PLC0415
    except ImportError:
        yield Row("epsilon from counts", "", "jax-privacy is not installed", None, 0.0)
        return
    for trials, tp, fp in ((500, 500, 0), (1_000, 300, 100)):
        ours = epsilon_lower_bound(tp, trials - tp, fp, trials - fp, confidence=0.99)
        inside = np.concatenate((np.ones(tp), np.zeros(trials - tp)))
        outside = np.concatenate((np.ones(fp), np.zeros(trials - fp)))
        auditor = CanaryScoreAuditor(inside, outside)
        theirs = auditor.epsilon_clopper_pearson(0.01, one_sided=False, threshold_strategy=Explicit(0.5))
        yield Row(f"epsilon: {tp}, {fp} of {trials}", f"{ours:.5f}", f"jax-privacy: {float(theirs):.5f}", None, 0.0)


def compare_samplers() -> Iterator[Row]:
    """Compare the discrete Gaussian with that of OpenDP: the same distribution, and how fast."""
    from vestige.noise.kernels import draw_discrete_gaussians  # noqa: PLC0415

    try:
        import opendp.prelude as dp  # noqa: PLC0415
        from scipy import stats  # noqa: PLC0415
    except ImportError:
        yield Row("discrete Gaussian", "", "opendp is not installed", None, 0.0)
        return
    dp.enable_features("contrib")
    count, s = 100_000, 5
    words, at = np.random.default_rng(0).integers(0, 2**64, 40 * count, np.uint64), np.zeros(1, np.int64)
    draw_discrete_gaussians(1, np.uint64(s), words, at)

    def ours() -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        at[0] = 0
        return draw_discrete_gaussians(count, np.uint64(s), words, at)

    space = dp.vector_domain(dp.atom_domain(T=int), size=count), dp.l2_distance(T=float)
    mechanism = dp.m.make_gaussian(*space, scale=float(s))

    def theirs() -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        return np.array(mechanism([0] * count), np.int64)

    (mine, my_time), (other, other_time) = time_call(ours), time_call(theirs)
    table = np.array([np.bincount(np.clip(drawn + 15, 0, 30), minlength=31) for drawn in (mine, other)])
    same = stats.chi2_contingency(table).pvalue
    yield Row(
        "discrete Gaussian, deviation 5",
        f"{my_time / count * 1e6:.2f} us a draw",
        f"opendp: {other_time / count * 1e6:.2f} us; both alike: p = {same:.2f}",
        other_time / my_time,
        1.0,
    )


def time_call(work: Callable[[], T]) -> tuple[T, float]:
    """Return the result of a call and how long it took."""
    started = time.perf_counter()
    made = work()
    return made, time.perf_counter() - started
