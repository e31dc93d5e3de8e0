"""The detector: sees what Vestige's channels do, and leaves honest windows and subsamples alone.

Power is counted over seeded repetitions: if 500 of 500 are caught, it is above 0.99 with 99% confidence (Clopper and
Pearson: 0.99^500 is 0.0066); 60 of 60, as in the quick tests, puts it above 0.95 with 95%. False alarms are
counted against the binomial quantile that an exact test at the level exceeds with a chance of 1 in 1,000.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest

from vestige import Mean, Moments, Policy, Private, Stream, Window
from vestige.audit import AuditSeed, Detection, Snapshot, detect
from vestige.audit.kernels import read_patterns
from vestige.audit.permutation import Batch, p_value, permute_presence
from vestige.channels.kernels import AUTO, read_kept, read_words
from vestige.clock import Clock
from vestige.errors import ParameterError
from vestige.records import Records
from vestige.types import Bools, Floats

BATCH, SNAPSHOTS, LEVEL = 48, 20, 0.01
Data = Callable[[np.random.Generator, int], Floats]
BITS, AVERAGE = Mean(channel="bits"), Mean(channel="average")
PRIVATE = Private(bound=5.0, epsilon=1.0, delta=1e-6)


def normal(rng: np.random.Generator, n: int) -> Floats:
    return rng.normal(size=n)


def lognormal(rng: np.random.Generator, n: int) -> Floats:
    return rng.lognormal(0.0, 1.5, size=n)


def drifting(rng: np.random.Generator, n: int) -> Floats:
    return rng.normal(size=n) + np.arange(n) / (5.0 * BATCH)


def cycling(rng: np.random.Generator, n: int) -> Floats:
    return 3.0 * np.sin(2.0 * np.pi * np.arange(n) / BATCH) + rng.normal(0.0, 0.1, size=n)


def watch_stream(
    policy: Policy, seed: int, *, snapshots: int = SNAPSHOTS, apart: int = 1, batch: int = BATCH, data: Data = normal
) -> list[Snapshot]:
    """Snapshots of a stream, the first after its first batches, each `apart` batches after the one before."""
    values = data(np.random.default_rng([seed, 1]), snapshots * apart * batch * policy.columns)
    stream = Stream(policy, retention=2 * batch, seed=AuditSeed(seed))
    made = []
    for part in np.split(values.reshape(-1, policy.columns), snapshots):
        stream.extend(part)
        made.append(Snapshot(stream.retained, stream.clock))
    return made


def make_subsamples(seed: int, kept: float | int, data: Data = normal, snapshots: int = SNAPSHOTS) -> list[Snapshot]:
    """Snapshots of honest subsamples: by a coin for each record if `kept` is its chance, else that many records."""
    rng = np.random.default_rng([seed, 2])
    made = []
    for i, values in enumerate(np.split(data(rng, snapshots * BATCH), snapshots)):
        ranks = rng.permutation(BATCH)
        keep = ranks < kept if isinstance(kept, int) else rng.random(BATCH) < kept
        rounds = np.arange(i * BATCH + 1, (i + 1) * BATCH + 1)
        clock = Clock(t=(i + 1) * BATCH, first=i * BATCH + 1, last=(i + 1) * BATCH)
        made.append(Snapshot(Records(rounds[keep], values[keep, None]), clock))
    return made


def count_rejected(policy: Policy, trials: int, *, apart: int = 1) -> int:
    found = (detect(watch_stream(policy, seed, apart=apart), trials=499, seed=seed) for seed in range(trials))
    return sum(each.p_value <= LEVEL for each in found)


@pytest.mark.parametrize("policy", [BITS, AVERAGE], ids=["bits", "average"])
def test_twenty_snapshots_are_enough(policy: Policy) -> None:
    """From the first batch on, where averages move the most."""
    assert count_rejected(policy, 60) == 60


@pytest.mark.parametrize("policy", [BITS, AVERAGE, Mean(), PRIVATE], ids=["bits", "average", "auto", "private"])
def test_twenty_snapshots_far_apart_are_enough(policy: Policy) -> None:
    assert count_rejected(policy, 20, apart=10) == 20


@pytest.mark.slow
@pytest.mark.parametrize("apart", [1, 10])
@pytest.mark.parametrize("policy", [BITS, AVERAGE, Mean(), PRIVATE], ids=["bits", "average", "auto", "private"])
def test_power_is_above_99_percent(policy: Policy, apart: int) -> None:
    """All of 500: a power of 0.99 would do that with a chance below 1%."""
    assert count_rejected(policy, 500, apart=apart) == 500


def collect_p_values(repetitions: int, kept: float | int, data: Data) -> dict[str, Floats]:
    """The p-values of honest subsamples, by test."""
    found = [detect(make_subsamples(seed, kept, data), trials=499, seed=seed) for seed in range(repetitions)]
    made = {name: np.array([getattr(each, name) for each in found], np.float64) for name in Detection.__slots__[1:4]}
    made["p"] = np.array([each.p_value for each in found])
    made["batch"] = np.array([each.batches[7].p_value for each in found])
    return made


def check_p_values(found: dict[str, Floats]) -> None:
    from scipy.stats import binom  # noqa: PLC0415

    for name, p in found.items():
        for level in (0.01, 0.05, 0.2):
            assert (p <= level).sum() <= binom.ppf(0.999, len(p), level), (name, level)


HONEST = [(0.5, normal), (0.1, lognormal), (12, drifting), (0.5, cycling)]


@pytest.mark.parametrize(("kept", "data"), HONEST)
def test_honest_subsamples_are_rarely_called_dishonest(kept: float | int, data: Data) -> None:
    check_p_values(collect_p_values(60, kept, data))


@pytest.mark.slow
@pytest.mark.parametrize("kept", [0.1, 0.5, 0.9, 5, 12])
@pytest.mark.parametrize("data", [normal, lognormal, drifting, cycling])
def test_false_alarms_at_the_stated_rate(kept: float | int, data: Data) -> None:
    check_p_values(collect_p_values(1_000, kept, data))


def test_the_slots_of_an_honest_subsample_have_uniform_p_values() -> None:
    """Not only rarely small: as spread out as they should be, so that nothing is given away."""
    from scipy.stats import kstest  # noqa: PLC0415

    p = np.array([detect(make_subsamples(seed, 0.5), trials=99, seed=seed).slots for seed in range(120)], np.float64)
    assert kstest(p - 0.005, "uniform").pvalue > 0.001


@dataclass(frozen=True)
class Coin(Policy):
    """Keeps each arrival that it may with a coin, in a stream."""

    def update(self, clock: Clock, retained: Records, arrivals: Records, coins: int) -> Bools:  # noqa: ARG002
        keep = np.random.default_rng(coins).random(len(arrivals)) < 0.5
        return np.concatenate((np.zeros(len(retained), np.bool_), keep & ~arrivals.leaving))

    def answer(self, clock: Clock, retained: Records) -> float:  # noqa: ARG002
        return float(retained.values.mean())


def test_streams_that_are_honest() -> None:
    window = detect(watch_stream(Window(), 0))
    assert (window.p_value, window.window, window.slots, window.words, window.averages) == (1.0, 1.0, None, None, None)
    assert window.verdict() == "Honest: no round is missing, as in a sliding window."
    assert [batch.p_value for batch in window.batches] == [1.0] * SNAPSHOTS
    coin = detect(watch_stream(Coin(), 0))
    assert coin.window == 0.0
    assert coin.p_value > 0.05
    assert coin.verdict().startswith("Not rejected: rounds are missing, but chance can explain it (p =")


def test_the_verdict_names_the_tests_that_reject() -> None:
    bits, average = detect(watch_stream(BITS, 0)), detect(watch_stream(AVERAGE, 0))
    assert bits.verdict().startswith("Not honest: chance does not explain which rounds are missing (p = ")
    assert "again and again; the presence of rounds encodes numbers" in bits.verdict()
    assert "averages of the kept" not in bits.verdict()
    assert average.verdict().endswith(": the averages of the kept records vary less than chance allows.")
    assert average.verdict(1e-6).startswith("Not rejected")


def test_one_batch_of_presence_bits_can_be_enough() -> None:
    p = np.array([detect(watch_stream(BITS, seed, snapshots=1)).p_value for seed in range(100)])
    assert np.median(p) < 0.02
    assert detect(watch_stream(AVERAGE, 0, snapshots=1)).p_value > 0.05, "one average alone is as good as any"


@pytest.mark.parametrize(
    ("policy", "batch"),
    [(Mean(dim=2, channel="bits"), 96), (Mean(dim=2, channel="average"), 96), (Moments(order=2), 96)],
    ids=["bits", "average", "moments"],
)
def test_several_numbers_are_detected_too(policy: Policy, batch: int) -> None:
    found = detect(watch_stream(policy, 3, batch=batch))
    assert found.p_value <= LEVEL
    assert found.averages is not None
    assert found.words is not None
    assert (found.averages if policy.columns == 2 and policy != Mean(dim=2, channel="bits") else found.words) < 0.001


def test_patterns_are_read_as_the_channels_read_them() -> None:
    rng = np.random.default_rng(0)
    patterns, words = rng.random((50, 96)) < 0.5, np.empty((50, 2))
    patterns[:, 86:] = np.arange(86, 96) >= 92  # of the five controls of each segment the last two: so it is a word
    rounds = [np.flatnonzero(present) + 1 for present in patterns]
    read_patterns(patterns, 2, False, words)
    assert np.array_equal(words, [read_words(kept, 1, 96, 2) for kept in rounds], equal_nan=True)
    read_patterns(patterns, 2, True, words)
    flagged = [read_kept(kept, np.ones((len(kept), 2)), 1, 96, AUTO)[0] for kept in rounds]
    assert np.array_equal(words, flagged, equal_nan=True)


def test_ranks_are_those_of_brute_force() -> None:
    scores = np.random.default_rng(1).integers(0, 5, (30, 3)).astype(float)
    ranks = np.array([[(scores[:, way] >= scores[row, way]).mean() for way in range(3)] for row in range(30)])
    assert p_value(scores) == pytest.approx((ranks.min(axis=1) <= ranks[0].min()).mean())


def test_permutations_keep_as_many_records_and_never_erased_ones() -> None:
    free = np.arange(48) % 7 != 0
    present = free & (np.arange(48) % 2 == 0)
    patterns = permute_presence(Batch(1, present, free, np.arange(0), np.empty((0, 1))), 200, np.random.default_rng(0))
    assert np.array_equal(patterns[0], present)
    assert (patterns.sum(axis=1) == present.sum()).all()
    assert not patterns[:, ~free].any()
    assert (patterns[1:, free].mean(axis=0) > 0.2).all(), "each free slot is as likely as any"


def test_rounds_that_had_to_be_erased_do_not_count_against_a_window() -> None:
    stream = Stream(Window(), retention=96)
    stream.extend(np.arange(20.0))
    stream.forget(rounds=[3, 7])
    stream.extend(np.arange(28.0))
    shown = [Snapshot(stream.retained, stream.clock)]
    assert detect(shown).window == 0.0
    assert detect(shown, removed=[3, 7]).window == 1.0


def test_each_batch_counts_once_and_waiting_records_do_not() -> None:
    shown = watch_stream(BITS, 0)
    stream = Stream(BITS, retention=96, seed=0, retained=shown[0].retained, clock=shown[0].clock)
    stream.extend(np.arange(30.0))
    assert detect([*shown, *shown, Snapshot(stream.retained, stream.clock)]) == detect(shown)
    assert detect(shown[::-1]) == detect(shown)
    assert detect(shown, seed=1) != detect(shown)
    overlapping = Snapshot(shown[1].retained, Clock(t=96, first=40, last=96))
    assert len(detect([shown[0], overlapping]).batches) == 1


def snapshot(values: Floats, rounds: list[int], clock: Clock) -> Snapshot:
    return Snapshot(Records(rounds, values), clock)


def test_too_little_data_is_inconclusive() -> None:
    early = snapshot(np.ones((2, 1)), [1, 2], Clock(t=2))
    clock = Clock(t=48, first=1, last=48)
    single = snapshot(np.ones((1, 1)), [5], clock)
    found = detect([early, single])
    assert (len(found.batches), found.slots, found.averages) == (1, None, None)
    assert found.p_value > 0.05
    none = detect([snapshot(np.empty((0, 1)), [], clock)])
    assert (none.p_value, none.words, none.window) == (1.0, None, 0.0)
    assert none.verdict().startswith("Inconclusive: rounds are missing")
    short = detect([snapshot(np.ones((1, 1)), [2], Clock(t=4, first=1, last=4))])
    assert short.words is None


def test_constant_columns_have_no_averages_to_test() -> None:
    """But a word that spells the constant still does."""
    assert detect(make_subsamples(0, 0.5, lambda _, n: np.full(n, 7.0))).averages is None
    found = detect(watch_stream(BITS, 0, data=lambda _, n: np.full(n, 7.0)))
    assert found.averages is None
    assert found.words is not None
    assert found.words < 1e-6


GOOD = snapshot(np.ones((1, 1)), [5], Clock(t=48, first=1, last=48))


@pytest.mark.parametrize(
    ("snapshots", "text"),
    [
        ([], "snapshots is empty; pass at least one"),
        ([snapshot(np.ones((1, 1)), [1], Clock(t=1))], "none of the 1 snapshots has an encoded batch"),
        ([GOOD, snapshot(np.ones((1, 2)), [5], GOOD.clock)], r"snapshots\[1\] has 2 columns, not 1"),
        ([GOOD, snapshot(np.ones((1, 1)), [60], GOOD.clock)], r"snapshots\[1\] has rounds after t=48"),
        ([snapshot(np.full((1, 1), np.nan), [5], GOOD.clock)], r"snapshots\[0\] has values that are not finite"),
    ],
)
def test_bad_snapshots_are_refused(snapshots: list[Snapshot], text: str) -> None:
    with pytest.raises(ParameterError, match=text):
        detect(snapshots)


def test_bad_parameters_are_refused() -> None:
    with pytest.raises(ParameterError, match="trials=10 is out of range; use a whole number, 99 or more"):
        detect([GOOD], trials=10)
    with pytest.raises(ParameterError, match="removed=0 is out of range"):
        detect([GOOD], removed=[0])
    with pytest.raises(ParameterError, match="level=2 is out of range; use a number between 0 and 1"):
        detect([GOOD]).verdict(2)
