"""Forty tables of other origin, as an auditor gets them: honest ones of many kinds, and curated ones of every layout.

A table is twenty snapshots, taken at irregular times, of about 500 records where the layout allows that many. Honest
means here: kept without regard to what the kept records say together, whatever else the rule is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np

from vestige import (
    Covariance,
    Distinct,
    LinearRegression,
    LogisticRegression,
    Mean,
    Moments,
    Policy,
    Private,
    Stream,
    channels,
    statistics,
)
from vestige.audit import AuditSeed, DeclaredRecords, TableAudit, TableSnapshot, audit_table
from vestige.paper import CoordinateMean, Regression, SimpleMean
from vestige.types import Bools, Floats, Ints

SNAPSHOTS, SIZE = 20, 500
Values = Callable[[np.random.Generator, Ints, int], Floats]
Ids = Callable[[np.random.Generator, Ints], list[str]]


@dataclass(frozen=True)
class Table:
    """The snapshots of a table, and the ids whose removal is documented."""

    snapshots: list[TableSnapshot]
    removed: list[str] = field(default_factory=list)

    def audit(self, level: float = 0.01, trials: int = 999, seed: int = 0) -> TableAudit:
        declared = [DeclaredRecords("removal", self.removed)] if self.removed else []
        return audit_table(self.snapshots, declared=declared, level=level, trials=trials, seed=seed)


def amounts(rng: np.random.Generator, rounds: Ints, columns: int) -> Floats:
    return rng.lognormal(3.0, 0.6, (len(rounds), columns))


def rising(rng: np.random.Generator, rounds: Ints, columns: int) -> Floats:
    return rounds[:, None] / 100.0 + rng.normal(size=(len(rounds), columns))


def cycling(rng: np.random.Generator, rounds: Ints, columns: int) -> Floats:
    return 5.0 * np.sin(2.0 * np.pi * rounds[:, None] / SIZE) + rng.normal(0.0, 0.1, (len(rounds), columns))


def entries(rng: np.random.Generator, rounds: Ints, columns: int) -> Floats:  # noqa: ARG001
    """Double entries: each amount is booked once on either side."""
    both = rng.lognormal(3.0, 1.0, int(rounds[-1]) // 2 + 2)
    return (both[rounds // 2] * np.where(rounds % 2, 1.0, -1.0))[:, None]


def flips(rng: np.random.Generator, rounds: Ints, columns: int) -> Floats:
    return rng.integers(0, 2, (len(rounds), columns)).astype(float)


def plain(rng: np.random.Generator, rounds: Ints) -> list[str]:  # noqa: ARG001
    return [str(n) for n in rounds]


def tens(rng: np.random.Generator, rounds: Ints) -> list[str]:  # noqa: ARG001
    return [f"INV-{10 * n:07}" for n in rounds]


def from_100001(rng: np.random.Generator, rounds: Ints) -> list[str]:  # noqa: ARG001
    return [str(100_000 + n) for n in rounds]


def thirds(rng: np.random.Generator, rounds: Ints) -> list[str]:  # noqa: ARG001
    return [str(n * 3 // 2) for n in rounds]


def skipping(rng: np.random.Generator, rounds: Ints) -> list[str]:
    """A sequence that other tables share."""
    return [str(n) for n in np.cumsum(rng.geometric(0.7, int(rounds[-1])))[rounds - 1]]


def jumping(rng: np.random.Generator, rounds: Ints) -> list[str]:
    """A sequence with a cache of 32 that is lost now and then."""
    jumps = 32 * (rng.random(int(rounds[-1])) < 0.02)
    return [str(n) for n in np.cumsum(1 + jumps)[rounds - 1]]


def hashes(rng: np.random.Generator, rounds: Ints) -> list[str]:
    names = rng.permutation(10 * int(rounds[-1]))
    return [f"{names[n]:x}-c" for n in rounds]


def list_times(rng: np.random.Generator, apart: int, snapshots: int = SNAPSHOTS) -> Ints:
    return np.cumsum(rng.integers(apart, 3 * apart // 2 + 1, snapshots))


Rule = Callable[[np.random.Generator, Floats, int, int], Bools]
"""Which of all records are held at t, of those before it."""


def keep_window(rng: np.random.Generator, values: Floats, t: int, size: int) -> Bools:  # noqa: ARG001
    rounds = np.arange(1, len(values) + 1)
    return (rounds > t - size) & (rounds <= t)


def make_honest(
    seed: int,
    *,
    values: Values = amounts,
    ids: Ids = plain,
    survives: Callable[[np.random.Generator, Floats], Bools] | None = None,
    later: float = 0.0,
    documented: bool = False,
    batch: int = 0,
    hold: float = 0.0,
    stride: int = 1,
    by_time: bool = False,
    apart: int = SIZE,
) -> Table:
    """A window, of which some records are missing for reasons of their own.

    Args:
        seed: of everything.
        values: of the records.
        ids: of the records.
        survives: which records are ever in the table; default: all.
        later: chance that a record leaves early, at some time after its arrival.
        documented: whether that is documented.
        batch: if above 0, `survives` is applied when a batch of so many records is closed, not on arrival.
        hold: share of records that are held for ever.
        stride: only every so many records are kept.
        by_time: whether the time of arrival is given.
        apart: number of records between snapshots.
    """
    rng = np.random.default_rng([seed, 11])
    times = list_times(rng, apart)
    rounds = np.arange(1, int(times[-1]) + 1)
    table, names = values(rng, rounds, 1), np.array(ids(rng, rounds))
    stays = np.ones(len(rounds), np.bool_) if survives is None else survives(rng, table)
    stays &= rounds % stride == 0
    leaves = np.where(
        rng.random(len(rounds)) < later, rounds + rng.integers(1, SIZE, len(rounds)), np.iinfo(np.int64).max
    )
    held_back = rng.random(len(rounds)) < hold
    snapshots = []
    for t in times:
        border = t if not batch else t // batch * batch
        held = (rounds <= t) & ((rounds > t - SIZE) | held_back) & (leaves > t) & (stays | (rounds > border))
        moments = rounds[held].astype(float) if by_time else None
        snapshots.append(TableSnapshot(names[held].tolist(), table[held], moments))
    return Table(snapshots, names[leaves <= times[-1]].tolist() if documented else [])


def ask_people(rng: np.random.Generator, values: Floats) -> Bools:
    """One person in ten asks for erasure of all their records, which are about as large."""
    people = rng.integers(0, 300, len(values))
    values *= rng.lognormal(0.0, 0.5, 300)[people, None]
    result: Bools = ~(rng.random(300) < 0.1)[people]
    return result


def toss(chance: float) -> Callable[[np.random.Generator, Floats], Bools]:
    return lambda rng, values: rng.random(len(values)) < chance


def drop_large(rng: np.random.Generator, values: Floats) -> Bools:  # noqa: ARG001
    result: Bools = values[:, 0] < np.quantile(values[:, 0], 0.7)
    return result


def drop_small(rng: np.random.Generator, values: Floats) -> Bools:  # noqa: ARG001
    result: Bools = np.abs(values[:, 0]) > np.quantile(np.abs(values[:, 0]), 0.4)
    return result


def make_reservoir(seed: int) -> Table:
    """A random sample of all records so far."""
    rng = np.random.default_rng([seed, 12])
    times = list_times(rng, SIZE)
    values, held, snapshots = amounts(rng, np.arange(times[-1]), 1), np.arange(SIZE), []
    for n in range(SIZE, int(times[-1]) + 1):
        if n in times:
            order = np.sort(held)
            snapshots.append(TableSnapshot((order + 1).tolist(), values[order]))
        if rng.random() < SIZE / (n + 1):
            held[rng.integers(SIZE)] = n
    return Table(snapshots)


def make_curated(
    policy: Policy,
    seed: int,
    *,
    batch: int = SIZE,
    values: Values = amounts,
    ids: Ids = plain,
    apart: float = 1.0,
    by_time: bool = False,
    snapshots: int = SNAPSHOTS,
) -> Table:
    """What a stream of Vestige retains."""
    rng = np.random.default_rng([seed, 13])
    times = list_times(rng, int(apart * batch), snapshots)
    rounds = np.arange(1, int(times[-1]) + 1)
    table, names = values(rng, rounds, policy.columns), np.array(ids(rng, rounds))
    stream = Stream(policy, retention=2 * batch, seed=AuditSeed(seed))
    taken, start = [], 0
    for t in times:
        stream.extend(table[start:t])
        start = int(t)
        held = stream.retained
        moments = held.rounds.astype(float) if by_time else None
        taken.append(TableSnapshot(names[held.rounds - 1].tolist(), held.values, moments))
    return Table(taken)


def make_covert(seed: int) -> Table:
    """A third of the records leave at random, at once; of the others, half is kept, such that they spell the mean."""
    rng = np.random.default_rng([seed, 14])
    times = list_times(rng, SIZE)
    count = int(times[-1])
    values, stays = amounts(rng, np.arange(count), 1), rng.random(count) < 2 / 3
    channel, mean, snapshots = channels.find_channel("bits"), statistics.Mean(1), []
    for t in times:
        last = int(t) // SIZE * SIZE
        here = slice(last - SIZE, last)
        target = channels.Target.exactly(values[:last].mean(axis=0))
        keep = channel.write(values[here], stays[here], target, mean, last - SIZE + 1, np.uint64(seed))
        held = np.concatenate((np.flatnonzero(keep) + last - SIZE, np.flatnonzero(stays[last:t]) + last))
        snapshots.append(TableSnapshot((held + 1).tolist(), values[held]))
    return Table(snapshots)


HONEST: dict[str, Callable[[int], Table]] = {
    "window": make_honest,
    "window, ids in tens": lambda seed: make_honest(seed, ids=tens),
    "window, hashed ids": lambda seed: make_honest(seed, ids=hashes),
    "window, hashed ids with times": lambda seed: make_honest(seed, ids=hashes, by_time=True),
    "window, sorted amounts": lambda seed: make_honest(seed, values=rising),
    "gaps by design: shared sequence": lambda seed: make_honest(seed, ids=skipping),
    "gaps by design: every third": lambda seed: make_honest(seed, ids=thirds),
    "gaps by design: lost caches": lambda seed: make_honest(seed, ids=jumping),
    "gaps by design: shared sequence, cycle": lambda seed: make_honest(seed, ids=skipping, values=cycling),
    "random half on arrival": lambda seed: make_honest(seed, survives=toss(0.5)),
    "random half of each batch": lambda seed: make_honest(seed, survives=toss(0.5), batch=SIZE, apart=SIZE // 2),
    "random half of each batch, cycle": lambda seed: make_honest(seed, survives=toss(0.5), batch=SIZE, values=cycling),
    "random tenth leaves": lambda seed: make_honest(seed, later=0.1, apart=100),
    "people who asked": lambda seed: make_honest(seed, survives=ask_people),
    "people who asked, documented": lambda seed: make_honest(seed, later=0.05, documented=True, apart=200),
    "large amounts deleted": lambda seed: make_honest(seed, survives=drop_large),
    "large amounts deleted later": lambda seed: make_honest(seed, survives=drop_large, batch=SIZE, apart=250),
    "small amounts deleted, cycle": lambda seed: make_honest(seed, survives=drop_small, values=cycling),
    "double entries, half deleted": lambda seed: make_honest(seed, survives=toss(0.5), values=entries),
    "every tenth record": lambda seed: make_honest(seed, stride=10),
    "legal holds": lambda seed: make_honest(seed, hold=0.02, later=0.1),
    "reservoir sample": make_reservoir,
}
"""Tables that were not curated to say anything."""


def _private(policy: Policy | None = None) -> Private:
    return Private(policy or Mean(), bound=100.0, epsilon=1.0, delta=1e-6)  # type: ignore[arg-type]


CURATED: dict[str, Callable[[int], Table]] = {
    "Mean, bits": lambda seed: make_curated(Mean(channel="bits"), seed),
    "Mean, average": lambda seed: make_curated(Mean(channel="average"), seed),
    "Mean, auto": lambda seed: make_curated(Mean(), seed),
    "Mean, two columns": lambda seed: make_curated(Mean(2), seed),
    "Mean, bits, two columns": lambda seed: make_curated(Mean(2, channel="bits"), seed),
    "Mean, spread": lambda seed: make_curated(Mean(spread=True), seed),
    "Moments": lambda seed: make_curated(Moments(4), seed),
    "Covariance": lambda seed: make_curated(Covariance(2), seed),
    "LinearRegression": lambda seed: make_curated(LinearRegression(1), seed),
    "LogisticRegression": lambda seed: make_curated(LogisticRegression(1), seed, values=flips),
    "Private mean": lambda seed: make_curated(_private(), seed),
    "Distinct": lambda seed: make_curated(Distinct(buckets=16), seed, batch=800),
    "Algorithm 1": lambda seed: make_curated(SimpleMean(), seed, batch=52),
    "Algorithm 1 by coordinate": lambda seed: make_curated(CoordinateMean(2), seed, batch=104),
    "Algorithm 2": lambda seed: make_curated(Regression(1), seed),
    "half of the gaps random": make_covert,
    "Mean, bits, ids in tens": lambda seed: make_curated(Mean(channel="bits"), seed, ids=tens),
    "Mean, bits, ids from 100001": lambda seed: make_curated(Mean(channel="bits"), seed, ids=from_100001),
}
"""Tables whose records were chosen, in layouts that are public."""


def count_verdicts(make: Callable[[int], Table], repetitions: int, first: int = 0) -> Iterator[TableAudit]:
    """Audit a kind of table several times, with the seeds from `first` on."""
    return (make(seed).audit(seed=seed) for seed in range(first, first + repetitions))
