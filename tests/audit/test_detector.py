"""The detector: sees what Vestige's channels do, and leaves honest windows and subsamples alone.

Power is counted over seeded repetitions: if 500 of 500 are caught, it is above 0.99 with 99% confidence (Clopper and
Pearson: 0.99^500 is 0.0066); 20 of 20, as in the quick tests, puts it above 0.86 with 95%. False alarms are
counted against the binomial quantile that an exact test at the level exceeds with a chance of 1 in 1,000.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest

from vestige import (
    Covariance,
    LinearRegression,
    LogisticRegression,
    Mean,
    Moments,
    Policy,
    Private,
    Stream,
    Window,
    channels,
    statistics,
)
from vestige.audit import AuditSeed, Detection, Snapshot, detect
from vestige.audit.kernels import read_messages, read_places, score_words
from vestige.audit.permutation import Batch, p_value, permute_presence
from vestige.channels.bits import find_side_information
from vestige.channels.word import find_key
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


def flips(rng: np.random.Generator, n: int) -> Floats:
    return rng.integers(0, 2, n).astype(float)


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
    assert count_rejected(policy, 20) == 20


@pytest.mark.parametrize(
    "policy",
    [BITS, AVERAGE, Mean(), pytest.param(PRIVATE, marks=pytest.mark.slow)],
    ids=["bits", "average", "auto", "private"],
)
def test_twenty_snapshots_far_apart_are_enough(policy: Policy) -> None:
    assert count_rejected(policy, 20, apart=10) == 20


@pytest.mark.slow(30)
@pytest.mark.parametrize("apart", [1, 10])
@pytest.mark.parametrize("policy", [BITS, AVERAGE, Mean(), PRIVATE], ids=["bits", "average", "auto", "private"])
def test_power_is_above_99_percent(policy: Policy, apart: int) -> None:
    """All of 500: a power of 0.99 would do that with a chance below 1%."""
    assert count_rejected(policy, 500, apart=apart) == 500


def collect_p_values(repetitions: int, kept: float | int, data: Data, trials: int) -> dict[str, Floats]:
    """The p-values of honest subsamples, by test, which are exact with any number of trials."""
    found = [detect(make_subsamples(seed, kept, data), trials=trials, seed=seed) for seed in range(repetitions)]
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
    check_p_values(collect_p_values(30, kept, data, trials=99))


@pytest.mark.slow(10)
@pytest.mark.parametrize("kept", [0.1, 0.5, 0.9, 5, 12])
@pytest.mark.parametrize("data", [normal, lognormal, drifting, cycling])
def test_false_alarms_at_the_stated_rate(kept: float | int, data: Data) -> None:
    check_p_values(collect_p_values(200, kept, data, trials=499))


@pytest.mark.slow(6)
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
    assert bits.verdict().endswith(": the presence of rounds encodes numbers, near each other from batch to batch.")
    assert average.verdict().endswith(": the averages of the kept records vary less than chance allows.")
    assert average.verdict(1e-6).startswith("Not rejected")


def find_median(policy: Policy, snapshots: int, batch: int = BATCH) -> float:
    """The median p-value of some snapshots, ten batches apart."""
    return float(
        np.median(
            [detect(watch_stream(policy, s, snapshots=snapshots, apart=10, batch=batch)).p_value for s in range(20)]
        )
    )


def test_one_batch_shows_little_of_one_number_and_more_of_many() -> None:
    """A header, and a bit for each number, are all that one batch gives away."""
    assert find_median(BITS, 1) > 0.05
    assert find_median(Covariance(4), 1, batch=230) < 0.01
    assert detect(watch_stream(AVERAGE, 0, snapshots=1)).p_value > 0.05, "one average alone is as good as any"


def test_five_batches_of_one_number_show_much() -> None:
    assert find_median(BITS, 5) < 0.01


def test_one_long_batch_shows_that_only_its_end_is_kept() -> None:
    """A number takes 55 bits at most, so no record before that is kept."""
    assert detect(watch_stream(BITS, 0, snapshots=1, batch=200)).words == 1.0 / 2_000


@pytest.mark.parametrize(
    ("policy", "batch"),
    [
        pytest.param(Mean(dim=2, channel="bits"), 48, marks=pytest.mark.slow),
        pytest.param(Mean(dim=2, channel="average"), 96, marks=pytest.mark.slow),
        (Mean(dim=2), 96),
        (Mean(spread=True), 48),
        (Moments(order=4), 96),
        pytest.param(Covariance(2), 96, marks=pytest.mark.slow),
        (LinearRegression(2), 160),
        pytest.param(LinearRegression(2, intercept=False), 120, marks=pytest.mark.slow),
        (LogisticRegression(2), 128),
        (Private(Covariance(2), bound=5.0, epsilon=1.0, delta=1e-6), 96),
        (Mean(tolerance=1e-4), 22),
    ],
    ids=str,
)
def test_several_numbers_are_detected_too(policy: Policy, batch: int) -> None:
    """The last one has averages in some batches and words in others."""
    data = flips if isinstance(policy, LogisticRegression) else normal
    assert detect(watch_stream(policy, 3, batch=batch, data=data)).p_value <= LEVEL


def test_the_curvature_of_a_loss_recurs_from_batch_to_batch() -> None:
    """No record says anything of it, so it is in the word, nearly the same each time."""
    found = detect(watch_stream(LogisticRegression(2), 3, batch=128, data=flips))
    words = np.array([batch.words for batch in found.batches], np.float64)
    assert np.median(words) <= LEVEL


def test_drifting_data_take_longer_words_which_are_detected_too() -> None:
    found = detect(watch_stream(BITS, 0, data=lambda rng, n: 100.0 * drifting(rng, n) + rng.normal(size=n)))
    assert found.words is not None
    assert found.words <= 0.001


def write_words(numbers: Floats, rng: np.random.Generator) -> tuple[Floats, Bools]:
    """A batch of 96 records that spells some numbers."""
    values, mean = rng.normal(size=(96, len(numbers))), statistics.Mean(len(numbers))
    target = channels.Target.exactly(numbers)
    return values, channels.find_channel("bits").write(values, np.ones(96, np.bool_), target, mean, 1, np.uint64(1))


def test_words_are_read_as_the_channels_read_them() -> None:
    rng, wanted = np.random.default_rng(0), np.array([0.1, -0.2])
    values, keep = write_words(wanted, rng)
    patterns = np.array([keep, *rng.permuted(np.tile(keep, (20, 1)), axis=1)])
    messages, scores, numbers = np.empty((21, 96), np.bool_), np.empty(21), np.tile(wanted, (21, 1))
    read_messages(patterns, messages)
    side = find_side_information(statistics.Mean(2), values[keep])[:3]
    headers, key = np.zeros(21, np.int64), np.uint64(find_key(1, 96))
    score_words(messages, np.zeros(21, np.bool_), *side, int(keep.sum()), key, numbers, headers, scores)
    assert np.allclose(numbers[0], wanted, atol=1e-9)
    assert headers[0] == 0
    assert scores.argmax() == 0
    placed = channels.lay_out(np.flatnonzero(patterns[7]), values[keep], 96)
    read = channels.find_channel("bits").read_slots(placed, patterns[7], statistics.Mean(2), 1).numbers
    assert np.allclose(numbers[7], read, rtol=1e-9)


def test_fixed_points_are_read_as_their_channel_reads_them() -> None:
    channel, wanted, places = channels.FixedPoint(2.0), np.array([0.5, -1.25]), np.empty(2)
    target, everyone = channels.Target.exactly(wanted), np.ones(96, np.bool_)
    keep = channel.write(np.zeros((96, 2)), everyone, target, statistics.Mean(2), 1, np.uint64(1))
    messages = np.empty((1, 96), np.bool_)
    read_messages(keep[None], messages)
    read_places(messages[0], np.uint64(find_key(1, 96)), places)
    assert np.allclose(4.0 * places - 2.0, wanted, atol=1e-9)


def test_ranks_are_those_of_brute_force() -> None:
    scores = np.random.default_rng(1).integers(0, 5, (30, 3)).astype(float)
    ranks = np.array([[(scores[:, way] >= scores[row, way]).mean() for way in range(3)] for row in range(30)])
    largest = ((scores - scores.mean(axis=0)) / scores.std(axis=0)).max(axis=1).round(9)
    for first in range(30):
        mine = (ranks[first].min(), -largest[first])
        as_good = [(rank.min(), -much) <= mine for rank, much in zip(ranks, largest, strict=True)]
        assert p_value(np.roll(scores, -first, axis=0)) == pytest.approx(np.mean(as_good))


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
    assert found.words == 1.0 / 2_000


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
