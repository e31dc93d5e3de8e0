"""Whatever share of a batch asks to leave: the answer is right, or the statistic has started again and says since when.

Every policy that ships, through requests for some of one batch, of several in a row, of the kept records, and of the
records that say how the others are to be read; met by the next update or at once. The truth is computed from all rows
since `clock.since` but those that were erased before they were learned from. An answer may be off by a few standard
errors, and by 2^-11 of a number for every batch in which records had to leave.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest

from vestige import (
    Covariance,
    CustomLoss,
    LinearRegression,
    LogisticRegression,
    Mean,
    Moments,
    Private,
    Stream,
    Window,
)
from vestige.audit import AuditSeed
from vestige.channels.kernels import count_free_rows
from vestige.channels.layout import find_min_rows, find_precision
from vestige.errors import NoAnswerError, NoRecordsError
from vestige.estimate import Estimate
from vestige.policies import LinearEstimate, LogisticEstimate, MeanEstimate, MomentsEstimate
from vestige.policies.base import Encoded
from vestige.types import Floats, Ints

SHARES = (0.0, 0.01, 0.05, 0.2, 0.4, 0.6, 0.8, 0.95, 1.0)
STEP = 2.0**-11
ERRORS = 4.5
OFF = "has missed its target and may be off"
Pair = tuple[Floats, Floats]


def normal(rng: np.random.Generator, n: int, columns: int) -> Floats:
    return rng.normal(size=(n, columns))


def far(rng: np.random.Generator, n: int, columns: int) -> Floats:
    return rng.normal(17.0, 1.0, size=(n, columns))


def whole(rng: np.random.Generator, n: int, columns: int) -> Floats:
    return rng.poisson(3.0, size=(n, columns)).astype(np.float64)


def ordered(rng: np.random.Generator, n: int, columns: int) -> Floats:
    return np.arange(1.0, n + 1.0)[:, None] + rng.normal(size=(n, columns))


Kind = Callable[[np.random.Generator, int, int], Floats]
DATA: tuple[Kind, ...] = (normal, far, whole, ordered)


def means(rows: Floats) -> Pair:
    """The means, and their standard errors."""
    return rows.mean(axis=0), rows.std(axis=0) / np.sqrt(len(rows))


def squares(rows: Floats) -> Pair:
    """The covariances, flat, and their standard errors."""
    apart = rows - rows.mean(axis=0)
    products = apart[:, :, None] * apart[:, None, :]
    return products.mean(axis=0).ravel(), products.std(axis=0).ravel() / np.sqrt(len(rows))


def fits(rows: Floats) -> Pair:
    """The slopes and the height at the means of a plane through the last column, and their standard errors."""
    x, y = rows[:, :-1] - rows[:, :-1].mean(axis=0), rows[:, -1]
    slopes, *_ = np.linalg.lstsq(x, y - y.mean(), rcond=None)
    noise = float(np.mean((y - y.mean() - x @ slopes) ** 2))
    spread = np.sqrt(noise * np.linalg.inv(x.T @ x).diagonal())
    return np.append(slopes, y.mean()), np.append(spread, y.std() / np.sqrt(len(y)))


def odds(rows: Floats) -> Pair:
    """The intercept and slope of a logistic curve, by Newton's method, and their standard errors."""
    design, at = np.column_stack([np.ones(len(rows)), rows[:, 0]]), np.zeros(2)
    for _ in range(50):
        chance = 1.0 / (1.0 + np.exp(-np.clip(design @ at, -30, 30)))
        bend = (design * (chance * (1.0 - chance))[:, None]).T @ design + 1e-9 * np.eye(2)
        at = at + np.linalg.solve(bend, design.T @ (rows[:, 1] - chance))
    return at, np.sqrt(np.linalg.inv(bend).diagonal())


def square_loss(parameters: Floats, rows: Floats) -> tuple[Floats, Floats]:
    gap = parameters[0] - rows[:, 0]
    return gap**2 / 2.0, gap[:, None]


@dataclass(frozen=True)
class Case:
    """A policy, what its answer says, what it should say, and from how many records on that can be compared."""

    policy: Encoded
    said: Callable[[Estimate], Floats]
    truth: Callable[[Floats], Pair]
    least: int = 2

    def rows(self, data: Kind, seed: int, n: int) -> Floats:
        """Rows of that kind that the policy can take; the last column follows from the others in a regression."""
        rng = np.random.default_rng(seed)
        rows = data(rng, n, self.policy.columns)
        if isinstance(self.policy, LinearRegression):
            rows[:, -1] += rows[:, :-1] @ np.arange(1.0, self.policy.columns)
        elif isinstance(self.policy, LogisticRegression):
            x = rng.normal(size=n)
            rows = np.column_stack([x, rng.random(n) < 1.0 / (1.0 + np.exp(-0.5 - x))])
        return rows


def value(estimate: Estimate) -> Floats:
    return np.ravel(estimate.value)


def mean_and_variance(estimate: Estimate) -> Floats:
    if isinstance(estimate, MomentsEstimate):
        return np.array([estimate.mean, estimate.variance])
    assert isinstance(estimate, MeanEstimate)
    assert estimate.variance is not None
    return np.append(estimate.value, estimate.variance)


def moments_of(rows: Floats) -> Pair:
    found = zip(means(rows), squares(rows), strict=True)
    return tuple(np.concatenate(pair) for pair in found)  # type: ignore[return-value]


def plane(estimate: Estimate) -> Floats:
    assert isinstance(estimate, LinearEstimate | LogisticEstimate)
    return np.append(estimate.value, estimate.intercept)


CASES = {
    "auto": Case(Mean(), value, means),
    "average": Case(Mean(channel="average"), value, means),
    "bits": Case(Mean(channel="bits"), value, means),
    "two": Case(Mean(dim=2), value, means),
    "spread": Case(Mean(spread=True), mean_and_variance, moments_of),
    "moments": Case(Moments(order=2), mean_and_variance, moments_of),
    "covariance": Case(Covariance(2), value, squares),
    "linear": Case(LinearRegression(1), value, lambda rows: tuple(part[:1] for part in fits(rows)), 20),  # type: ignore[arg-type, return-value]
    "logistic": Case(LogisticRegression(1), lambda e: np.roll(plane(e), 1), odds, 256),
    "gradient": Case(CustomLoss(square_loss, (0.0,), columns=1), value, means),
    "private": Case(Private(bound=20_000.0, epsilon=1.0, delta=1e-6), value, means),
}


@dataclass
class Trial:
    """A stream that is told to forget, and all that it was ever shown."""

    case: Case
    data: Kind
    seed: int

    def __post_init__(self) -> None:
        policy = self.case.policy
        seed = AuditSeed(self.seed) if policy.requires_secret_coins else self.seed
        self.stream = Stream(policy, retention=policy.default_retention, seed=seed)
        self.batch = policy.default_retention // 2
        self.rows = self.case.rows(self.data, self.seed, 20 * self.batch)
        self.learned = np.ones(len(self.rows), np.bool_)
        self.wet = 0

    def go(self, n: int) -> None:
        """Take the next n rows, and look at the answer."""
        self.stream.extend(self.rows[self.stream.t : self.stream.t + n])
        self.look()

    def until(self, waiting: int) -> None:
        """Take rows until so many wait for the next update."""
        while len(self.waiting) != waiting:
            step = max(1, waiting - len(self.waiting))
            self.stream.extend(self.rows[self.stream.t : self.stream.t + step])
        self.look()

    def forget(self, rounds: Ints, *, now: bool) -> None:
        """Ask for these rounds, and look at the answer."""
        self.wet += 1
        self.stream.forget(rounds=rounds, now=now)
        if now:
            self.learned[rounds[rounds > self.stream.clock.last] - 1] = False
        self.look()

    def look(self) -> str:
        """What the stream says of itself: an error unless it is right."""
        clock = self.stream.clock
        try:
            estimate = self.stream.estimate()
        except NoRecordsError:
            assert clock.encoded == 0, "something is said to be encoded"
            return "again"
        except NoAnswerError:
            assert self.stream.counted <= 4 * self.case.policy.statistic.size, "there are enough records for an answer"
            return "again"
        if clock.since > 1:
            assert f"Counts from round {clock.since} on" in estimate.notes[0]
        if any(OFF in note for note in estimate.notes):
            return "off"
        counts, last = self.learned & (np.arange(1, len(self.rows) + 1) >= clock.since), estimate.as_of
        rows = self.rows[:last][counts[:last]]
        assert self.stream.counted == len(rows)
        if len(rows) >= self.case.least:
            truth, error = self.case.truth(rows)
            bearable = ERRORS * np.hypot(error, self.noise) + (self.wet + 1) * STEP * np.abs(truth) + 1e-9
            assert np.all(np.abs(self.case.said(estimate) - truth) <= bearable), f"wrong at {clock}"
        return "again" if clock.since > 1 else "right"

    @property
    def noise(self) -> float:
        policy = self.case.policy
        return policy.noise(self.stream.clock) if isinstance(policy, Private) else 0.0

    def some(self, rounds: Ints, share: float) -> Ints:
        """That share of rounds, at random."""
        rng = np.random.default_rng((self.seed, len(rounds)))
        return np.sort(rng.permutation(rounds)[: round(share * len(rounds))])

    @property
    def waiting(self) -> Ints:
        clock = self.stream.clock
        return np.arange(clock.last + 1, clock.t + 1)


def one_batch(trial: Trial, share: float, now: bool) -> None:
    trial.until(trial.batch - 1)
    trial.forget(trial.some(trial.waiting, share), now=now)
    trial.until(0)


def several_batches(trial: Trial, share: float, now: bool) -> None:
    for sixths in (1, 2, 3, 5):
        trial.until(trial.batch * sixths // 6)
        trial.forget(trial.some(trial.waiting, share), now=now)
        trial.until(0)


def kept_records(trial: Trial, share: float, now: bool) -> None:
    for sixths in (0, 1, 3):
        trial.until(trial.batch * sixths // 6)
        held = trial.stream.retained.rounds
        trial.forget(trial.some(held[held <= trial.stream.clock.last], share), now=now)


def control_records(trial: Trial, share: float, now: bool) -> None:
    """The last records of each number, which say how the others are to be read: first the flags alone, then all."""
    size = trial.case.policy.statistic.size
    for each in (1, 2, 5):
        trial.until(trial.batch - 1)
        last = np.arange(trial.batch - each * size, trial.batch - 1) - (trial.batch - 1)
        trial.forget(trial.some(trial.waiting[last], share), now=now)
        trial.until(0)


SCENES = (one_batch, several_batches, kept_records, control_records)


Scene = Callable[[Trial, float, bool], None]


def play(case: Case, scene: Scene, share: float, now: bool, data: int, seed: int) -> str:
    """Five batches, the scene, and four batches more: how it ended."""
    trial = Trial(case, DATA[data % len(DATA)], seed)
    trial.go(5 * trial.batch)
    scene(trial, share, now)
    for _ in range(4):
        trial.go(trial.batch)
    return trial.look()


@pytest.mark.parametrize("now", [False, True], ids=["in time", "at once"])
@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.__name__)
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_an_answer_is_right_or_says_since_when(case: Case, scene: Scene, now: bool) -> None:
    """Over the shares, scenes and ways to ask, each kind of data comes up with each of them.

    Whoever asks at once closes batches early, even for nobody: then the few bits of data in order may miss.
    """
    kinds = SCENES.index(scene) + 2 * now
    for i, share in enumerate(SHARES):
        ended = play(case, scene, share, now, i + kinds, 100 * kinds + i)
        few = case.policy.encoding.name == "average" or (now and DATA[(i + kinds) % len(DATA)] is ordered)
        assert ended == "right" or share > 0.0 or (few and ended == "off")


@pytest.mark.slow(2)
@pytest.mark.parametrize("share", SHARES)
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_of_a_hundred_streams_none_is_wrong_without_a_word(case: Case, share: float) -> None:
    ended = Counter(play(case, one_batch, share, False, seed, seed) for seed in range(100))
    several = Counter(play(case, several_batches, share, seed % 2 == 0, seed // 2, seed) for seed in range(20))
    print(dict(ended), dict(several))
    if share == 0.0:
        assert ended["again"] == several["again"] == 0


@pytest.mark.parametrize("retention", [56, 64, 96, 128, 144])
def test_private_goes_on_after_requests_that_are_met_at_once(retention: int) -> None:
    for seed in range(10):
        rng = np.random.default_rng(seed)
        stream = Stream(Private(bound=3.0, epsilon=1.0, delta=1e-6), retention=retention, seed=AuditSeed(seed))
        for _ in range(6):
            stream.extend(rng.normal(size=int(rng.integers(1, retention))))
            held = rng.permutation(stream.retained.rounds)
            stream.forget(rounds=held[: 1 + len(held) // 10], now=True)
            assert len(stream.retained) or not stream.clock.encoded
        stream.extend(rng.normal(size=3 * retention))
        assert np.isfinite(stream.estimate().value)


def test_an_average_that_cannot_follow_says_so_until_it_starts_again() -> None:
    rows = np.arange(1.0, 20_001.0)
    stream = Stream(Mean(channel="average"), retention=96, seed=0)
    stream.extend(rows)
    assert abs(stream.estimate().value - rows.mean()) > rows.std()
    assert OFF in stream.estimate().notes[0]
    stream.extend(np.random.default_rng(0).normal(size=4_800) + 20_000.0)
    assert OFF in stream.estimate().notes[0], "what was off once stays off"
    stream.forget(rounds=stream.retained.rounds, now=True)
    stream.extend(np.random.default_rng(0).normal(size=480))
    since, waited = stream.estimate().notes
    assert since.startswith("Counts from round")
    assert "not counted" in waited, "records waited when all were erased"


@pytest.mark.parametrize("channel", ["auto", "average", "bits"])
@pytest.mark.parametrize("data", [normal, far, whole], ids=lambda data: data.__name__)
def test_no_false_alarm(channel: str, data: Kind) -> None:
    """Where each average met its target; and with bits, which are exact enough for all data, sorted ones included."""
    rows = data(np.random.default_rng(0), 9_600, 1)[:, 0]
    for shown in (rows, np.sort(rows)):
        stream = Stream(Mean(channel=channel), retention=96, seed=0)
        stream.extend(shown)
        if channel != "average" or (shown is rows and data is not whole):
            assert stream.estimate().notes == ()
            assert abs(stream.estimate().value - rows.mean()) <= rows.std() / np.sqrt(len(rows))


def test_a_window_answers_from_what_is_left() -> None:
    rng = np.random.default_rng(0)
    stream = Stream(Window(), retention=96)
    stream.extend(rng.normal(size=300))
    for share in SHARES[:-1]:
        for now in (False, True):
            held = stream.retained.rounds
            stream.forget(rounds=held[rng.random(len(held)) < share], now=now)
            assert stream.estimate().value == pytest.approx(stream.retained.values.mean())
            stream.extend(rng.normal(size=60))
    stream.forget(rounds=stream.retained.rounds, now=True)
    with pytest.raises(NoRecordsError, match="no record is held"):
        stream.estimate()
    stream.push(2.5)
    assert stream.estimate().value == 2.5


@pytest.mark.parametrize("waiting", [0, 16])
def test_what_is_written_again_is_off_by_what_the_bits_that_are_left_predict(waiting: int) -> None:
    """Half of a batch is left right after an update, and what waits: so many bits are written, or it starts over.

    The mean of n squares is known to 1.2 / sqrt(n) of itself; up to one word in twenty may take the next wider range,
    which is four times as coarse.
    """
    squares, again = [], 0
    for seed in range(160):
        rng = np.random.default_rng(seed)
        stream = Stream(Mean(channel="bits"), retention=128, seed=seed)
        stream.extend(rng.normal(17.0, 1.0, 6 * 64 + waiting))
        before, clock, held = stream.estimate().value, stream.clock, stream.retained.rounds
        gone = rng.choice(held[held <= clock.last])
        can = np.zeros(clock.t - clock.first + 1, np.bool_)
        can[held[held != gone] - clock.first] = True
        free = count_free_rows(can, 1)
        stream.forget(rounds=[gone], now=True)
        if stream.clock.since > 1:
            again += 1
            assert free < find_min_rows(1)
            continue
        assert free >= find_min_rows(1)
        assert ("rewritten into the records that were left" in "".join(stream.estimate().notes)) == (waiting > 0)
        squares.append((float(stream.estimate().value - before) / find_precision(free, 1)) ** 2 / 2.0)
    assert (again > 0) == (waiting == 0)
    assert (
        1.0 - 5.0 / np.sqrt(len(squares))
        <= np.mean(squares)
        <= (1.0 + 0.05 * 15.0) * (1.0 + 5.0 / np.sqrt(len(squares)))
    )
