"""How much a retained set reveals about a record that is long erased: the game, played and counted.

Two worlds, the same `t`; the value of one record differs, and it was erased long ago. The auditor sees retained records
only. He who knows all other records is the adversary of differential privacy, he who knows their distribution that of
membership inference.
Guarantee: the bounds are below the truth with the stated confidence, at each look on its own; held by
tests/audit/test_leakage.py.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from vestige.audit.bounds import (
    area_under_curve,
    ceiling,
    epsilon_lower_bound,
    mu_lower_bound,
    total_variation_lower_bound,
    true_positives_at,
)
from vestige.audit.distinguisher import Distinguisher, learned
from vestige.audit.game import Data, Game, Seen
from vestige.audit.workers import play_tasks
from vestige.errors import ParameterError
from vestige.policy import Policy
from vestige.random.generators import make_generator
from vestige.types import Floats
from vestige.validation import check_choice, check_floats, check_int, show_value

ADVERSARIES = ("knows-all", "knows-distribution")
_CHUNK = 250
_TEACHING = 0.25
_MOST, _MOST_WORKERS = 10**9, 10**4  # records or trials, and processes
"""For each trial that counts, so many teach the adversary; as many draw the value at random, to reconstruct it."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """What could be told at one moment.

    Attributes:
        t: how many records had arrived.
        age: for how many rounds the record had been gone at the latest; below 0, it may still have been held.
        held: in what share of the trials it was, so that nothing was seen.
        epsilon: a lower bound, at the stated confidence.
        mu: the same for the Gaussian parameter.
        total_variation: the same for the total variation distance.
        auc: the area under the curve of true against false positives; 0.5 is chance.
        caught: the share of true positives at 1% false positives.
        reconstruction: the error of guessing the record's value, as a share of that without looking; 1 is nothing.
        sight: what told the worlds apart best, the `answer` or the `presence` of rounds.
        merged: the share of pairs, with the same coins, that hold the same rounds in both worlds.
    """

    t: int
    age: int
    held: float
    epsilon: float
    mu: float
    total_variation: float
    auc: float
    caught: float
    reconstruction: float
    sight: str
    merged: float


@dataclass(frozen=True, slots=True)
class Leakage:
    """The result of an audit.

    Attributes:
        looks: what could be told, the earliest look first.
        ceiling: the largest epsilon that so many trials could show.
        adversary: who looked.
        trials: in each world.
        confidence: of each bound.
        delta: at which epsilon is bounded.
        overdue: whether a record was ever seen that should have been gone.
    """

    looks: tuple[Checkpoint, ...]
    ceiling: float
    adversary: str
    trials: int
    confidence: float
    delta: float
    overdue: bool

    @property
    def epsilon(self) -> float:
        """The bound at the last look."""
        return self.looks[-1].epsilon

    @property
    def mu(self) -> float:
        """The bound at the last look."""
        return self.looks[-1].mu

    @property
    def auc(self) -> float:
        """The area under the curve at the last look."""
        return self.looks[-1].auc

    @property
    def total_variation(self) -> float:
        """The bound at the last look."""
        return self.looks[-1].total_variation

    @property
    def reconstruction(self) -> float:
        """The error of guessing the value at the last look, as a share of that without looking."""
        return self.looks[-1].reconstruction

    @property
    def facts(self) -> dict[str, Any]:
        """All of it as plain data."""
        return asdict(self)


def leakage(
    policy: Policy,
    *,
    retention: int,
    t: int,
    erased_at: int | None = None,
    trials: int = 1_000,
    adversary: str = "knows-all",
    data: ArrayLike | Data | None = None,
    values: tuple[ArrayLike, ArrayLike] | None = None,
    confidence: float = 0.95,
    delta: float = 0.0,
    seed: int = 0,
    workers: int | None = None,
    progress: Callable[[float], None] = lambda _: None,
) -> Leakage:
    """Play the game and say what it shows, at several ages of the record past its erasure.

    Args:
        policy: any policy that passes `vestige.checks.check_policy`; only its public functions are used.
        retention: of its stream.
        t: how many records arrive.
        erased_at: the round from which on the record is gone; it arrived `retention` rounds earlier. As early as can be
            unless said.
        trials: that count, in each world; fixed beforehand.
        adversary: `knows-all` other records, or `knows-distribution` they come from.
        data: records to draw from with replacement, or `data(rng, n)`; standard normal unless said.
        values: of the record in the two worlds; the smallest and the largest of each column of 1,000 draws unless said.
        confidence: of each bound.
        delta: at which epsilon is bounded.
        seed: makes the audit reproducible.
        workers: processes to play in (the extra `audit`); by default one for each core, or fewer where trials are few.
        progress: is told the share of the trials that have been played.

    >>> from vestige import Window
    >>> found = leakage(Window(), retention=8, t=40, trials=200, workers=1)
    >>> found.epsilon, found.auc
    (0.0, 0.5)
    """
    if not isinstance(policy, Policy):
        raise ParameterError(f"policy={show_value(policy)} is not a vestige.Policy; pass one, such as vestige.Mean()")
    check_int("retention", retention, 1, _MOST)
    check_int("seed", seed, 0)
    gone = retention + 1 if erased_at is None else check_int("erased_at", erased_at, retention + 1)
    if check_int("t", t, 1, _MOST) < gone:
        raise ParameterError(f"t={t} ends before erased_at={gone}, from which on the record is gone; use t >= {gone}")
    check_choice("adversary", adversary, ADVERSARIES)
    check_int("trials", trials, 20, _MOST)
    if workers is not None:
        check_int("workers", workers, 1, _MOST_WORKERS)
    ceiling(trials, confidence=confidence, delta=delta)  # says at once what is wrong with them
    draw = source_of(data, policy.columns)
    example = draw(make_generator(seed, 0), max(t, 1_000))
    worlds = (
        (example[:1_000].min(axis=0), example[:1_000].max(axis=0))
        if values is None
        else _worlds(values, policy.columns)
    )
    known = example[:t] if adversary == "knows-all" else None
    game = Game(policy, retention, gone - retention, _looks(policy, gone, t, retention), known, draw, seed)
    teaching = max(20, int(_TEACHING * trials))
    at_random = draw(make_generator(seed, 3), teaching)
    first, second, third = (np.asarray(v, np.float64).reshape(-1, policy.columns) for v in (*worlds, at_random))
    seen = _played(
        game, [(first, teaching + trials), (second, teaching + trials), (third, teaching)], workers, progress
    )
    looks = tuple(_looked(game, seen, look, teaching, confidence, delta) for look in range(len(game.looks)))
    highest = ceiling(trials, confidence=confidence, delta=delta)
    overdue = any(bool(one.overdue.any()) for one in seen)
    return Leakage(looks, highest, adversary, trials, confidence, delta, overdue)


@dataclass(frozen=True, slots=True, eq=False)
class _Source:
    """Where records are drawn from; a class, so that it can be sent to other processes."""

    given: Floats | Data | None
    columns: int

    def __call__(self, rng: np.random.Generator, n: int) -> Floats:
        if self.given is None:
            return rng.normal(size=(n, self.columns))
        if callable(self.given):
            drawn = check_floats("data(rng, n)", self.given(rng, n))
            if drawn.size != n * self.columns:
                raise ParameterError(f"data(rng, n) gave {drawn.size:,} numbers; it has to give n * {self.columns}")
            return drawn.reshape(n, self.columns)
        return self.given[rng.integers(0, len(self.given), n)]


def _worlds(values: object, columns: int) -> tuple[Floats, Floats]:
    """The record's values in the two worlds."""
    given = check_floats("values", values)
    if given.ndim == 0 or len(given) != 2 or given.size != 2 * columns:
        raise ParameterError(f"values is not a pair of records of {columns} values; pass one for each world")
    return given[0], given[1]


def source_of(data: ArrayLike | Data | None, columns: int) -> _Source:
    """Where records are drawn from: an array with replacement, a function, or standard normals."""
    if data is None or callable(data):
        return _Source(data, columns)
    given = check_floats("data", data)
    table = given.reshape(-1, columns) if given.size % columns == 0 else given[:0].reshape(0, columns)
    if not len(table):
        raise ParameterError("data holds no records; pass an array of shape (n, columns), or a function (rng, n)")
    return _Source(table, columns)


def _looks(policy: Policy, gone: int, t: int, retention: int) -> tuple[int, ...]:
    """Rounds to look after: when it may be gone, when it must be, then ever more batches later, and the last one."""
    batch = max(1, retention // 2)
    arrived = gone - retention
    learned_from = arrived if policy.every_round else -(-arrived // batch) * batch
    ages = [0, *(batch * k for k in (1, 3, 10, 30, 100, 300, 1_000, 3_000, 10_000))]
    return tuple(sorted({learned_from} | {gone + age for age in ages if gone + age <= t} | {t}))


def _played(
    game: Game, runs: list[tuple[Floats, int]], workers: int | None, progress: Callable[[float], None]
) -> list[Seen]:
    """All trials of several runs, each of one value or of one for each trial, wherever they are played."""
    tasks = [
        (which, range(start, min(start + _CHUNK, count)), value if len(value) == 1 else value[start : start + _CHUNK])
        for which, (value, count) in enumerate(runs)
        for start in range(0, count, _CHUNK)
    ]
    parts: dict[tuple[int, int], Seen] = {}
    for done, (which, numbers, seen) in enumerate(play_tasks(game, tasks, workers), 1):
        parts[which, numbers.start] = seen
        progress(done / len(tasks))
    made = []
    for which in range(len(runs)):
        mine = [seen for (run, _), seen in sorted(parts.items(), key=lambda item: item[0]) if run == which]
        made.append(Seen.joined(mine))
    return made


def _looked(game: Game, seen: list[Seen], look: int, teaching: int, confidence: float, delta: float) -> Checkpoint:
    """What could be told at one look: the first trials teach, the others count."""
    taught, counted = ([one.where(part) for one in seen[:2]] for part in (slice(teaching), slice(teaching, None)))
    teller = learned(taught[0], taught[1], look, confidence, delta)
    shown, in_the_middle = (_counts(counted, teller, middle=middle) for middle in (False, True))
    scores = [teller.scores(world) for world in counted]
    return Checkpoint(
        t=game.looks[look],
        age=game.looks[look] - game.round - game.retention,
        held=float(np.mean([world.held[:, look].mean() for world in counted])),
        epsilon=epsilon_lower_bound(*shown, confidence=confidence, delta=delta),
        mu=mu_lower_bound(*in_the_middle, confidence=confidence),
        total_variation=total_variation_lower_bound(*in_the_middle, confidence=confidence),
        auc=area_under_curve(*scores),
        caught=true_positives_at(0.01, teller.scores(taught[0]), scores[1]),
        reconstruction=_reconstruction(seen[2], look),
        sight=teller.sight,
        merged=float((counted[0].present[:, look] == counted[1].present[:, look]).all(axis=1).mean()),
    )


def _counts(worlds: list[Seen], teller: Distinguisher, *, middle: bool) -> tuple[int, int, int, int]:
    """True positives, false negatives, false positives, true negatives."""
    fp, tp = (int(teller.calls(world, middle=middle).sum()) for world in worlds)
    return tp, len(worlds[1]) - tp, fp, len(worlds[0]) - fp


def _reconstruction(seen: Seen, look: int) -> float:
    """How far a guess of the value from the answer is off: a line through one half of the trials, tried on the other.

    As a share of how far off the mean is; the best of several columns.
    """
    answers = np.nan_to_num(seen.answers[:, look], nan=0.0)
    centred = answers - answers.mean(axis=0)
    scale = centred.std(axis=0)
    x = np.column_stack(
        (np.ones(len(answers)), np.where(scale > 0.0, centred / np.where(scale > 0.0, scale, 1.0), 0.0))
    )
    train, test = slice(0, None, 2), slice(1, None, 2)
    line = np.linalg.lstsq(x[train], seen.values[train], rcond=None)[0]
    off = np.sqrt(((seen.values[test] - x[test] @ line) ** 2).mean(axis=0))
    without = np.sqrt(((seen.values[test] - seen.values[train].mean(axis=0)) ** 2).mean(axis=0))
    return float(np.min(np.where(without > 0.0, off / np.where(without > 0.0, without, 1.0), 1.0)))
