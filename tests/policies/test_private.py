"""The policy that forgets: exact sums, the price that was named, and a promise that audits cannot refute.

Broken copies, with half of the noise, without noise on the first batch, or with noise that the adversary knows, must be
refuted by the same audits.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from vestige import (
    Batched,
    Covariance,
    CustomLoss,
    LinearRegression,
    LogisticRegression,
    Mean,
    MemoryStore,
    Moments,
    Private,
    Stream,
)
from vestige.audit import AuditSeed, Leakage, measure_leakage
from vestige.checks import check_policy
from vestige.errors import NoAnswerError, ParameterError, StoreError
from vestige.estimate import E
from vestige.noise import gaussian_epsilon
from vestige.noise.sums import sum_on_grid
from vestige.random.kernels import derive_secret_keys
from vestige.random.keys import derive_root
from vestige.store import State, Terms
from vestige.store.place import Place
from vestige.types import Bools, Floats

PROMISE: dict[str, Any] = {"bound": 3.0, "epsilon": 1.0, "delta": 1e-6}
LOOSE: dict[str, Any] = {"epsilon": 600.0, "delta": 0.1}


NUMBERS = st.floats(-1e6, 1e6) | st.sampled_from([0.0, 3.0, -3.0, 1e-300, 1e250])


def ran(policy: Private[E], rows: Floats, batch: int, seed: int = 0) -> Stream[E]:
    stream = Stream(policy, retention=2 * batch, seed=AuditSeed(seed))
    stream.extend(rows)
    return stream


@given(
    st.integers(1, 4).flatmap(
        lambda size: st.lists(
            st.lists(NUMBERS, min_size=size, max_size=size),
            min_size=1,
            max_size=6,
        )
    ),
    st.sampled_from([1, 7, 2**20, 2**28]),
)
def test_sums_are_exact_and_no_record_weighs_more_than_the_bound(rows: list[list[float]], steps: int) -> None:
    atoms, bound = np.array(rows), 3.0
    each = np.empty((len(atoms), atoms.shape[1]), np.int64)
    for atom, row in zip(atoms, each, strict=True):
        assert sum_on_grid(atom[None], np.ones(1, np.bool_), bound, steps, row) == 1
        assert sum(int(number) ** 2 for number in row) <= steps**2, "in whole numbers, so that no rounding helps"
        length = math.hypot(*atom)
        wanted = atom * min(1.0, bound / length if length else 1.0) * steps / bound
        assert np.abs(row - wanted).max() <= 0.5 + 1e-6 * steps / 2**20 + atoms.shape[1]
    total = np.empty(atoms.shape[1], np.int64)
    present = np.arange(len(atoms)) % 3 != 1
    assert sum_on_grid(atoms, present, bound, steps, total) == present.sum()
    assert total.tolist() == each[present].sum(axis=0).tolist()


@pytest.mark.parametrize(
    ("batch", "batches", "dim", "runs"), [(64, 20, 1, 400), (512, 10, 1, 400), (4096, 5, 1, 200), (512, 6, 4, 150)]
)
def test_the_price_is_the_one_that_was_named(batch: int, batches: int, dim: int, runs: int) -> None:
    policy = Private(Mean(dim), **PROMISE)
    rng = np.random.default_rng([batch, dim])

    def clipped(n: int) -> Floats:
        rows = rng.normal(size=(n, dim))
        made: Floats = rows * np.minimum(1.0, policy.statistic.reach / np.linalg.norm(rows, axis=1, keepdims=True))
        return made

    variance = float(clipped(1_000_000).var(axis=0).sum())
    ends = np.array([ran(policy, clipped(batch * batches), batch, seed).estimate().value for seed in range(runs)])
    measured = np.square(ends).sum() / runs * batch * batches / variance
    # a sum of runs * dim squares of normals; 1e-3 on either side, and 1% for the variance that was measured
    low, high = stats.chi2.ppf([0.001, 0.999], runs * dim) / (runs * dim)
    assert 0.99 * low < measured / policy.price(batch, variance) < 1.01 * high


def test_the_prices_in_the_design() -> None:
    policy = Private(**PROMISE)
    assert [round(policy.price(batch, 1.0), 2) for batch in (64, 512, 4096)] == [11.04, 2.25, 1.16]
    assert policy.scale == pytest.approx(4.22, abs=0.005)


def test_with_little_noise_it_is_the_policy_itself() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(1.0, 1.0, size=(60_000, 2))
    y = x @ [2.0, -1.0] + 3.0 + rng.normal(size=60_000)
    rows = np.column_stack([x, y])
    fit = ran(Private(LinearRegression(2), bound=300.0, **LOOSE), rows, 20_000).estimate()
    expected = np.linalg.lstsq(np.column_stack([x, np.ones(60_000)]), y, rcond=None)[0]
    assert np.append(fit.value, fit.intercept) == pytest.approx(expected, abs=0.02)
    matrix = ran(Private(Covariance(2), bound=60.0, **LOOSE), x, 20_000).estimate().value
    assert matrix == pytest.approx(np.cov(x.T, bias=True), abs=0.01)
    moments = np.asarray(ran(Private(Moments(3), bound=400.0, **LOOSE), x[:, 0], 20_000).estimate().value)
    assert moments[:2] == pytest.approx([x[:, 0].mean(), x[:, 0].var()], abs=0.01)
    spread = ran(Private(Mean(spread=True), bound=60.0, **LOOSE), x[:, 0], 20_000).estimate()
    assert spread.variance == pytest.approx(x[:, 0].var(), abs=0.01)


def test_long_records_are_clipped() -> None:
    rows = np.full(40_000, 50.0)
    value = ran(Private(**{**PROMISE, **LOOSE}), rows, 2_000).estimate().value
    assert value == pytest.approx(3.0, abs=0.001)
    waiting = ran(Private(**PROMISE), rows[:10], 2_000).estimate(waiting=True)
    assert waiting.value == 3.0, "what waits is clipped too, and is no noise in yet"


def test_it_says_how_much_noise_there_is() -> None:
    policy = Private(**PROMISE)
    stream = ran(policy, np.zeros(64 * 100), 64)
    note, as_of = stream.estimate().notes
    assert as_of.startswith("As of round 6,400, the last update")
    assert f"noise with standard deviation {2 * policy.scale * 3.0 / 640:.3g}" in note
    assert "epsilon=1 and delta=1e-06" in note
    with pytest.raises(NoAnswerError, match="carries noise with standard deviation"):
        ran(Private(LinearRegression(1), **PROMISE), np.zeros((400, 2)), 200).estimate()


def closed_early(lengths: list[int], seed: int) -> Stream:
    """Zeros in batches of these lengths: those below 128 are closed by a request that is met at once."""
    stream = Stream(Private(**PROMISE), retention=256, seed=AuditSeed(seed))
    for length in lengths:
        stream.extend(np.zeros(length))
        if length < 128:
            stream.forget(rounds=stream.t, now=True)
    assert stream.clock.updates == len(lengths)
    assert stream.clock.pending == 0
    return stream


@pytest.mark.parametrize(
    ("lengths", "waiting"),
    [([32] * 10 + [128], 0), ([128] * 20 + [32], 0), ([128, 32, 128], 20)],
    ids=["many early closings", "one at the end", "and some wait"],
)
def test_the_noise_that_it_says_is_what_was_added(lengths: list[int], waiting: int) -> None:
    """Measured over runs; the bounds are those of a chi-squared variable in all but one of a million."""
    runs, found = 100, []
    for seed in range(runs):
        stream = closed_early(lengths, seed)
        stream.extend(np.zeros(waiting))
        found.append(float(stream.estimate().value))
    policy, clock = Private(**PROMISE), stream.clock
    low, high = np.sqrt(stats.chi2.ppf([5e-7, 1 - 5e-7], runs) / runs)
    assert low < np.sqrt(np.mean(np.square(found))) / policy.noise(clock) < high
    assert policy.noise(clock) == pytest.approx(2 * policy.scale * 3.0 * np.sqrt(len(lengths)) / stream.counted)


@pytest.mark.parametrize(("batches", "whole"), [(1, 0), (3, 2), (10, 1)], ids=["first", "last", "most"])
def test_the_noise_is_over_the_records_that_were_learned_from(batches: int, whole: int) -> None:
    """In all batches but the first `whole` ones, 81 of 128 records are erased while they wait."""
    policy, runs, found = Private(**PROMISE), 100, []
    for seed in range(runs):
        stream = closed_early([128] * whole, seed)
        for _ in range(batches - whole):
            for _ in range(3):
                stream.extend(np.zeros(27))
                stream.forget(rounds=np.arange(stream.t - 26, stream.t + 1), now=True)
            stream.extend(np.zeros(128 - 81))
        assert (stream.clock.updates, stream.clock.last) == (batches, 128 * batches)
        found.append(float(stream.estimate().value))
    low, high = np.sqrt(stats.chi2.ppf([5e-7, 1 - 5e-7], runs) / runs)
    learned = 128 * whole + 47 * (batches - whole)
    assert stream.counted == learned
    assert policy.noise(stream.clock) == pytest.approx(2 * policy.scale * 3.0 * np.sqrt(batches) / learned)
    assert low < np.sqrt(np.mean(np.square(found))) / policy.noise(stream.clock) < high


def test_one_by_one_is_the_same_as_at_once() -> None:
    rows = np.random.default_rng(0).normal(size=(700, 2))
    policy = Private(Mean(2), **PROMISE)
    at_once, slowly = ran(policy, rows, 64), Stream(policy, retention=128, seed=AuditSeed(0))
    for row in rows:
        slowly.push(row)
    assert at_once.retained == slowly.retained
    batched = Batched(policy, batch=64, seed=AuditSeed(0))
    batched.extend(rows[:640])
    whole = ran(policy, rows[:640], 64)
    assert batched.retained.rounds.tolist() == whole.retained.rounds.tolist()


def test_coins_come_from_the_operating_system() -> None:
    policy, rows = Private(**PROMISE), np.random.default_rng(0).normal(size=640)
    with pytest.raises(ParameterError, match=r"seed=3 is not allowed for Private: .*leave it out.*AuditSeed"):
        Stream(policy, retention=128, seed=3)
    with pytest.raises(ParameterError, match="seed=3 is not allowed for Private"):
        Batched(policy, batch=64, seed=3)
    answers = set()
    for _ in range(2):
        stream = Stream(policy, retention=128)
        stream.extend(rows)
        answers.add(stream.estimate().value)
    assert len(answers) == 2
    assert ran(policy, rows, 64).estimate().value == ran(policy, rows, 64).estimate().value


@pytest.mark.parametrize("policy", [Mean(), pytest.param(Covariance(2), marks=pytest.mark.slow)], ids=str)
def test_it_remembers_nothing(policy: Mean | Covariance) -> None:
    check_policy(Private(policy, **PROMISE))


def test_records_that_must_leave_at_once_are_spelled_around() -> None:
    policy = Private(bound=3.0, **LOOSE)
    rows = np.random.default_rng(0).normal(1.0, 0.1, size=512 * 4 + 5)
    stream = ran(policy, rows, 512)
    before, kept, going = stream.estimate().value, stream.retained.rounds, int(stream.retained.rounds[3])
    can = np.isin(np.arange(stream.clock.first, stream.clock.last + 1), kept[kept != going])
    step = policy.encoding.find_step(can, 1)
    assert step < 2.0**-17, "about half of the 51 records of a word are kept, and can be chosen again"
    stream.forget(rounds=going, now=True)
    assert stream.estimate().value == pytest.approx(before, abs=step)
    assert stream.clock.last == 512 * 4, "what waits is not learned from twice"


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (
            {"policy": LogisticRegression(1)},
            "is not a running average; use Mean, Sum, Histogram, .* Correlation or LinearRegression",
        ),
        ({"policy": CustomLoss(lambda _, rows: (rows[:, 0], rows), (1.0,))}, "is not a running average"),
        ({"policy": Mean(half_life=10.0)}, "half_life=10.0 is not for Private"),
        ({"policy": Mean(channel="average")}, "channel='average' shows values"),
        ({"bound": 0.0}, "bound=0.0 is out of range"),
        ({"bound": math.inf}, "bound=inf is out of range"),
        ({"epsilon": -1.0}, "epsilon=-1.0 is out of range"),
        ({"delta": 0.0}, "delta=0.0 is out of range"),
    ],
)
def test_what_cannot_be_kept_private_is_refused(options: dict[str, Any], text: str) -> None:
    with pytest.raises(ParameterError, match=text):
        Private(**{**PROMISE, **options})


@dataclass(frozen=True)
class Halved(Private):
    """Half of the noise."""

    def _find_deviation(self, steps: int) -> int:
        return super()._find_deviation(steps) // 2


@dataclass(frozen=True)
class Quartered(Private):
    """A quarter of the noise."""

    def _find_deviation(self, steps: int) -> int:
        return super()._find_deviation(steps) // 4


@dataclass(frozen=True)
class _Bare(Private):
    def _find_deviation(self, steps: int) -> int:  # noqa: ARG002
        return 1


@dataclass(frozen=True)
class FirstBare(Private):
    """No noise on the first batch."""

    def _advance(self, clock: Any, *rest: Any) -> Bools:
        bare = _Bare(self.policy, bound=self.bound, epsilon=self.epsilon, delta=self.delta)
        return Private._advance(self if clock.encoded else bare, clock, *rest)


@dataclass(frozen=True)
class Known(Private):
    """Noise from a seed that the adversary knows: it is the same in all trials."""

    def _advance(self, clock: Any, retained: Any, values: Any, present: Any, can: Any, keys: Any) -> Bools:
        first = clock.last + len(values) // len(keys)
        known = derive_secret_keys(np.uint64(derive_root(0)), first, 1, len(keys))
        return Private._advance(self, clock, retained, values, present, can, known)


def audited(policy: Private, batches: int, **options: Any) -> Leakage:
    """The worst record there is, seen as soon as may be: the first of the first batch is never kept."""
    given = {"retention": 128, "t": 192 + 64 * batches, "erased_at": 129, "values": (-3.0, 3.0), "delta": policy.delta}
    return measure_leakage(policy, **{**given, **options})


def stands(policy: Private, found: Leakage) -> bool:
    """Whether the audit leaves the promise standing, at every look."""
    return all(look.epsilon <= policy.epsilon and look.mu <= policy.mu for look in found.checkpoints)


@pytest.mark.parametrize("adversary", ["knows-all", pytest.param("knows-distribution", marks=pytest.mark.slow)])
def test_no_audit_refutes_it(adversary: str) -> None:
    policy = Private(**PROMISE)
    found = audited(policy, 1, trials=400, adversary=adversary, workers=1)
    assert stands(policy, found)
    assert found.checkpoints[0].retained == 0.0
    # and the audit is not blind: a record moves the sum of its batch by mu deviations of the noise, that of the others
    # added where they are not known; the area has a deviation of about 1 / sqrt(6 trials)
    noise = 2.0 * policy.scale * policy.statistic.reach
    spread = noise if adversary == "knows-all" else math.hypot(noise, math.sqrt(63 * 0.973))
    expected = stats.norm.cdf(2.0 * policy.statistic.reach / spread / math.sqrt(2.0))
    assert found.checkpoints[0].auc == pytest.approx(expected, abs=4.0 / math.sqrt(6 * found.trials))


@pytest.mark.parametrize(
    ("broken", "trials"),
    [
        pytest.param(Halved, 2_500, marks=pytest.mark.slow(8)),
        pytest.param(Quartered, 500, marks=pytest.mark.slow(8)),
        (FirstBare, 150),
        (Known, 150),
    ],
)
def test_broken_copies_are_refuted(broken: type[Private], trials: int) -> None:
    policy = broken(**PROMISE)
    found = audited(policy, 1, trials=trials, workers=1)
    assert not stands(policy, found)
    assert found.checkpoints[0].mu > policy.mu
    if broken not in (Halved, Quartered):
        assert found.checkpoints[0].epsilon > policy.epsilon


def apart(shifts: list[float], epsilon: float) -> float:
    """The delta at epsilon of independent normals whose means differ by these: densities, added up on a fine grid."""
    length = math.hypot(*shifts)
    x = np.linspace(-12.0, 12.0 + length, 400_001)
    p, q = np.exp(-(x**2) / 2.0), np.exp(-((x - length) ** 2) / 2.0 + epsilon)
    return float(np.maximum(p - q, 0.0).sum() * (x[1] - x[0]) / math.sqrt(2.0 * math.pi))


@pytest.mark.parametrize(
    ("records", "epsilon", "each"), [(1, 1.0, 1.0), (2, 2.12, 1.45), (10, 13.5, 3.52), (50, 125.0, 8.89)]
)
def test_several_records_cost_in_mu(records: int, epsilon: float, each: float) -> None:
    """Records of one batch move its sum together; records of a batch each move a sum each."""
    policy, steps, sums = Private(**PROMISE), 2**20, np.empty((2, 1), np.int64)
    for value, total in zip((-3.0, 3.0), sums, strict=True):
        rows = np.concatenate((np.full(records, value), np.zeros(64 - records)))
        sum_on_grid(rows[:, None], np.ones(64, np.bool_), policy.statistic.reach, steps, total)
    moved = float(sums[1, 0] - sums[0, 0]) / policy._find_deviation(steps)
    assert moved == pytest.approx(records * policy.mu, rel=1e-5)
    together, separate = (gaussian_epsilon(n * policy.mu, policy.delta) for n in (records, records**0.5))
    assert (float(f"{together:.3g}"), float(f"{separate:.3g}")) == (epsilon, each)
    assert apart([moved], together) == pytest.approx(policy.delta, rel=1e-3)
    assert apart([policy.mu] * records, separate) == pytest.approx(policy.delta, rel=1e-3)
    assert records == 1 or together > records * policy.epsilon


def test_forks_average_the_noise_away() -> None:
    """What the theorem does not protect: 2,000 runs go on from one state, and 25 becomes 0.56."""
    policy, forks = Private(**PROMISE), 2_000
    stream = Stream(policy, retention=128, seed=AuditSeed(0))
    stream.extend(np.zeros(63))
    noise = np.empty(forks)
    for k in range(forks):
        fork = Stream(policy, retention=128, seed=AuditSeed(k), retained=stream.retained, clock=stream.clock)
        fork.push(0.0)
        noise[k] = 64.0 * float(fork.estimate().value)
    once = 2.0 * policy.scale * policy.statistic.reach
    low, high = np.sqrt(stats.chi2.ppf([0.001, 0.999], forks) / forks) * once
    assert low < np.sqrt(np.mean(noise**2)) < high, "each fork alone keeps the promise"
    assert once == pytest.approx(25.3, abs=0.1)
    assert abs(noise.mean()) < 3.3 * once / math.sqrt(forks) < 3.3 * 0.57, "and all together do not"


@pytest.mark.slow(30)
@pytest.mark.parametrize(
    ("adversary", "erased_at"),
    [("knows-all", 129), ("knows-all", 192), ("knows-all", 328), ("knows-distribution", 129)],
)
def test_no_large_audit_refutes_it(adversary: str, erased_at: int) -> None:
    """With as many trials as refute half of the noise, above, and many batches later too."""
    policy = Private(**PROMISE)
    found = audited(policy, 10, trials=2_500, adversary=adversary, erased_at=erased_at, workers=1)
    for look in found.checkpoints:
        print(f"{adversary}, age {look.age}: epsilon >= {look.epsilon:.3f}, mu >= {look.mu:.3f}, auc {look.auc:.3f}")
    assert stands(policy, found)


def test_a_commit_that_is_tried_again_draws_noise_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """What docs/privacy.md says of attempts: as many draws as attempts, whose average has the root less of noise."""
    policy, tries, rows = Private(**PROMISE), 300, np.random.default_rng(0).uniform(-3.0, 3.0, 64)
    drawn: list[float] = []

    def refuse(self: Place, terms: Terms, state: State) -> None:  # noqa: ARG001
        drawn.append(float(policy.answer(state.clock, state.retained).value))
        raise StoreError("the disk is full")

    stream = Stream(policy, retention=128, store=MemoryStore().stream("a"))
    stream.extend(rows[:-1])
    with monkeypatch.context() as broken:
        broken.setattr(Place, "commit", refuse)
        for _ in range(tries):
            with pytest.raises(StoreError, match="the disk is full"):
                stream.push(rows[-1])
            with pytest.raises(NoAnswerError, match="no update has been made"):
                stream.estimate()
    stream.push(rows[-1])
    assert len(set(drawn)) == tries
    noise = policy.batch_noise(64)
    low, high = np.sqrt(stats.chi2.ppf([5e-7, 1 - 5e-7], tries) / tries)
    assert low < np.sqrt(np.mean((np.array(drawn) - rows.mean()) ** 2)) / noise < high
    assert abs(np.mean(drawn) - rows.mean()) < 5.0 * noise / math.sqrt(tries)
    assert gaussian_epsilon(math.sqrt(tries) * policy.mu, 1e-6) == pytest.approx(27.2, abs=0.05)
