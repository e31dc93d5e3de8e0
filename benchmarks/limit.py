"""How near the word comes to the proved limit: the smallest batch whose answer after 1.1 N records is as good as N.

`python benchmarks/limit.py mean`: a batch is enough if, over seeded streams, the upper 95% limit of the mean of
(answer - mean of all)^2 is at most sigma^2 (1 / N - 1 / (1.1 N)); beside it the same from sums of squared residuals,
which is sharper and would hide a bias.
`python benchmarks/limit.py requests`: the error if some records of every batch cannot be kept, and the predicted one.
`python benchmarks/limit.py statistics PATH_OF_OTHER`: the smallest retention for 1.1 times the error of all data, of
this checkout and of another one. `--help` lists the options.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy import stats

from vestige import theory
from vestige._numba import kernel
from vestige.channels.averages import draw_mark
from vestige.channels.kernels import AUTO, BITS, count_free_rows, make_writer, write_batch
from vestige.channels.layout import MAX_BITS, find_precision, find_width
from vestige.channels.word import LEVEL, TRIES, count_rows
from vestige.random.kernels import draw
from vestige.statistics.kernels import (
    find_deviation,
    find_far_limit,
    find_spread,
    find_tolerance,
    find_weights,
    move_averages,
)
from vestige.types import Bools, Floats

HERE = Path(__file__).resolve().parents[1]
RECORDS, MORE = 1_000_000, 1.1
KINDS = ("normal", "whole", "t3", "lognormal")
MEANS = (0.0, 1.0, 17.0, 1_000.0)
MODES = {"bits": BITS, "auto": AUTO}
TOLERANCE = 0.03
SHARES = (0.0, 0.05, 0.2, 0.4, 0.6)
CONFIDENCE = 0.95
POLICIES = {"Moments(4)": 1, "Covariance(8)": 8, "LinearRegression(10)": 11}
"""Policies of several numbers, with the number of columns."""
PROGRAM = """
import json, sys
import numpy as np
from vestige import Covariance, LinearRegression, Moments, Stream

name, columns, mean, records, streams, lengths = json.loads(sys.argv[1])
policy = {"Moments(4)": Moments(4), "Covariance(8)": Covariance(8), "LinearRegression(10)": LinearRegression(10)}[name]
size, blocks = policy.statistic.size, 100


def compute(rows):
    if name == "Moments(4)":
        away = rows[:, 0] - rows[:, 0].mean()
        variance = (away**2).mean()
        return np.array([rows[:, 0].mean(), variance, (away**3).mean() / variance**1.5, (away**4).mean() / variance**2])
    if name == "Covariance(8)":
        return np.cov(rows.T)[np.triu_indices(columns)]
    away = rows - rows.mean(axis=0)
    return np.linalg.lstsq(away[:, :-1], away[:, -1], rcond=None)[0]


data, exact, variances = [], [], []
for seed in range(streams):
    rows = np.random.default_rng(seed).normal(size=(records, columns))
    if name == "LinearRegression(10)":
        rows[:, -1] += rows[:, :-1].sum(axis=1)
    rows += mean
    data.append(rows)
    exact.append(compute(rows))
    variances.append(np.var([compute(part) for part in np.array_split(rows, blocks)], axis=0, ddof=1) / blocks)


def judge(length):
    ratios = []
    for rows, answer, variance in zip(data, exact, variances):
        stream = Stream(policy, retention=2 * (size * length + 1), seed=0)
        stream.extend(rows)
        value = np.asarray(stream.estimate().value)
        said = value[np.triu_indices(columns)] if name == "Covariance(8)" else value.ravel()
        ratios.append(np.mean((said - answer) ** 2 / variance))
    return float(np.mean(ratios)) / 0.1


low, high, tried = -(-(policy.min_batch - 1) // size) - 1, lengths, {}
while high - low > 1:
    middle = (low + high) // 2
    tried[middle] = judge(middle)
    low, high = (low, middle) if tried[middle] <= 1.0 else (middle, high)
print(json.dumps([size, high, tried]))
"""
"""Finds the records for each number with which the error is at most 1.1 times that of all data."""


@dataclass(frozen=True, slots=True)
class Judged:
    """The squared error of a batch over several streams, as a share of what is allowed.

    Attributes:
        final: by the answers at the end.
        limit: the upper limit of that.
        residuals: by the sums of squared residuals.
        tries: words that were written in vain, for each that was kept.
        longer: the share of words with a longer header than usual.
        words: the share of batches that hold a word, and not averages.
    """

    final: float
    limit: float
    residuals: float
    tries: float
    longer: float
    words: float


def draw_rows(kind: str, mean: float, rows: int, dim: int, seed: int) -> tuple[Floats, float]:
    """Draw a stream with this mean, in standard deviations; return it and its standard deviation."""
    rng = np.random.default_rng((seed, KINDS.index(kind)))
    if kind == "normal":
        values, centre, deviation = rng.normal(size=(rows, dim)), 0.0, 1.0
    elif kind == "whole":
        values = np.rint(rng.exponential(10.0, (rows, dim)))
        ratio = math.exp(-0.1)
        centre = math.exp(-0.05) / (1.0 - ratio)
        deviation = math.sqrt(centre * (1.0 + ratio) / (1.0 - ratio) - centre**2)
    elif kind == "t3":
        values, centre, deviation = rng.standard_t(3.0, (rows, dim)), 0.0, math.sqrt(3.0)
    else:
        values, centre = rng.lognormal(size=(rows, dim)), math.exp(0.5)
        deviation = math.sqrt((math.e - 1.0) * math.e)
    shift = mean * deviation - centre
    return values + (round(shift) if kind == "whole" else shift), deviation


@kernel
def follow(values: Floats, can: Bools, length: int, mode: int, allowed: float, seed: int, counts: Floats) -> Floats:
    """Run the update loop of `vestige.channels.averages` and return the answer, with what happened in `counts`.

    Args:
        values: the stream; shape (batches * length, dim).
        can: which records can be kept; the same shape without dim.
        length: of a batch.
        mode: see `vestige.channels.kernels`.
        allowed: how far from its target an average may be, as a share of its standard error.
        seed: of the coins.
        counts: output: the sum of squared residuals as they count at the end, the same as it is predicted from bits in
            units of one writing, tries in vain, longer headers, words, and squared residuals each by its prediction.
    """
    size, batches = values.shape[1], len(values) // length
    estimate, off, keep = np.zeros(size), np.zeros(size, np.bool_), np.zeros(length, np.bool_)
    target, spread, near, far = np.empty(size), np.empty(size), np.empty(size), np.empty(size)
    rest, low = np.zeros(size), np.zeros(size)
    writer, rows = make_writer(length, size), count_rows(length, size)
    present = np.ones(length, np.bool_)
    weights, usual = find_weights(present, 1.0), np.zeros(size)
    for k in range(batches):
        start, share = k * length, 1.0 / (k + 1)
        here = values[start : start + length]
        move_averages(estimate, rest, here, present, weights, share, target, low, spread)
        for i in range(size):
            near[i] = find_tolerance(allowed, spread[i], length, share, 0.0)
            about = find_spread(usual[i], find_deviation(target[i], here[:, i], present, weights), share)
            far[i] = max(find_far_limit(about, length, share, 0.0, draw_mark(start + 1, length, i)), near[i])
        free = rows
        if not can[start : start + length].all():
            free = count_free_rows(can[start : start + length], size)
        writer.attempt.counters[:] = 0
        writer.attempt.counters[LEVEL] = -1
        write_batch(
            here,
            can[start : start + length],
            target,
            low,
            near,
            far,
            spread,
            start + 1,
            draw(np.uint64(seed), k),
            mode,
            False,
            writer,
            keep,
            estimate,
            off,
            rest,
        )
        weight = ((k + 1) / batches) ** 2
        header = 3 if off.any() else 1
        lost = max(0, min(rows, header + size * MAX_BITS) - free) / size
        counts[1] += weight * size * (2.0 * 4.0**lost - 1.0)
        for i in range(size):
            usual[i] = find_deviation(estimate[i], here[:, i], keep, weights)
            error = (estimate[i] - target[i]) + (rest[i] - low[i])
            counts[0] += weight * error**2
            counts[5] += error**2 / (2.0 * 4.0**lost - 1.0) / size
        if writer.attempt.counters[LEVEL] >= 0:
            counts[2] += writer.attempt.counters[TRIES]
            counts[3] += writer.attempt.counters[LEVEL] > 0
            counts[4] += 1.0
    return estimate


def judge(kind: str, mean: float, dim: int, batch: int, channel: str, streams: Iterable[int], records: int) -> Judged:
    """Measure the squared error after 1.1 N records of several streams, as a share of what is allowed."""
    batches = int(MORE * records) // batch
    length, squares, residuals, counts, total = batches * batch, [], [], np.zeros(6), 0
    for seed in streams:
        values, deviation = draw_rows(kind, mean, int(MORE * records), dim, seed)
        allowed = dim * deviation**2 * (1.0 / records - 1.0 / (MORE * records))
        mine, can = np.zeros(6), np.ones(length, np.bool_)
        answer = follow(values[:length], can, batch, MODES[channel], TOLERANCE, seed, mine)
        shift = values[0]
        squares.append(float(((answer - shift - (values[:length] - shift).mean(axis=0)) ** 2).sum()) / allowed)
        residuals.append(mine[0] / allowed)
        counts, total = counts + mine, total + batches
    freedom = dim * len(squares)
    final = float(np.mean(squares))
    limit = final * freedom / float(stats.chi2.ppf(1.0 - CONFIDENCE, freedom))
    tries, longer = counts[2:4] / max(counts[4], 1.0)
    return Judged(final, limit, float(np.mean(residuals)), tries, longer, counts[4] / total)


def print_means(arguments: argparse.Namespace) -> None:
    """Print, for each kind of data and mean, how batches do, and which is the smallest that is enough."""
    for dim in arguments.dims:
        error, arrived = dim / arguments.records, int(MORE * arguments.records)
        least = theory.least_batch(dim, error, arrived), theory.least_retention(dim, error, arrived)
        print(f"dim {dim}: proved batch {least[0]}, retention {least[1]};", end=" ")
        print(f"heuristic batch {theory.heuristic_batch(dim, error, arrived)}")
        for batch in arguments.batches:
            if batch >= dim * 10:
                print_losses(dim, batch)
        for channel in arguments.channels:
            for kind in arguments.kinds:
                for mean in arguments.means:
                    for batch in arguments.batches:
                        one = judge(kind, mean, dim, batch, channel, range(arguments.streams), arguments.records)
                        print(
                            f"dim {dim} {channel} {kind:9} mean {mean:5g} batch {batch}: final {one.final:.3f} "
                            f"limit {one.limit:.3f} residuals {one.residuals:.3f} "
                            f"{'enough' if one.limit <= 1.0 else 'too small'}; tries {one.tries:.2f} "
                            f"longer {one.longer:.4f} words {one.words:.3f}; of batch {batch / least[0]:.2f}, "
                            f"of retention {2 * batch / least[1]:.2f}",
                            flush=True,
                        )


def print_losses(dim: int, batch: int) -> None:
    """Print the bits of a word that an ideal writing would not need."""
    range_ = find_width(dim, batch) / math.sqrt(2.0 / batch)
    losses = {
        "header": 1.0,
        "parity of scales": float(dim),
        "half of the records kept": dim * 0.5,
        f"range of {range_:g} standard errors": dim * math.log2(range_ / math.sqrt(12.0)),
        "scales in powers of 2": dim * 0.5 * math.log2(1.5 / (2.0 * math.log(2.0))),
    }
    print(f"  batch {batch}, bits lost: " + ", ".join(f"{name} {bits:.2f}" for name, bits in losses.items()))


def print_requests(arguments: argparse.Namespace) -> None:
    """Print measured and predicted errors where some records of each batch cannot be kept."""
    for batch in arguments.batches:
        batches = arguments.records // batch
        for share in arguments.shares:
            wet, squares, total = round(share * batch), [], np.zeros(6)
            for seed in range(arguments.streams):
                values, _ = draw_rows("normal", 0.0, batches * batch, 1, seed)
                rng, counts = np.random.default_rng((seed, wet)), np.zeros(6)
                can = rng.permuted(np.tile(np.arange(batch) >= wet, (batches, 1)), axis=1).ravel()
                answer = follow(values, can, batch, BITS, TOLERANCE, seed, counts)
                squares.append(float((answer[0] - values.mean()) ** 2))
                total += counts
            predicted = math.sqrt(total[1] / arguments.streams) * find_precision(batch, 1)
            measured, residuals = math.sqrt(np.mean(squares)), math.sqrt(total[0] / arguments.streams)
            each = math.sqrt(total[5] / arguments.streams / batches) / find_precision(batch, 1)
            print(
                f"batch {batch}, {share:4.0%} asked for: one word {each:.3f} of its prediction; after all "
                f"{predicted:.3g}, by residuals {residuals / predicted:.3f} of that, by final errors "
                f"{measured / predicted:.3f}",
                flush=True,
            )


def find_length(checkout: Path, name: str, arguments: argparse.Namespace) -> tuple[int, int, dict[str, float]]:
    """Return how many numbers a policy of a checkout writes, the records that each needs, and what was tried."""
    environment = os.environ | {"PYTHONPATH": str(checkout / "src"), "NUMBA_CACHE_DIR": str(checkout / ".cache" / "b")}
    given = [name, POLICIES[name], arguments.mean, arguments.records, arguments.streams, arguments.longest]
    command = [sys.executable, "-c", PROGRAM, json.dumps(given)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    size, length, tried = json.loads(done.stdout)
    return size, length, tried


def print_statistics(arguments: argparse.Namespace) -> None:
    """Print the smallest retention for 1.1 times the error of all data, of both checkouts, by whole bits a number."""
    for name in arguments.policies:
        retentions = []
        for checkout in (HERE, arguments.other.resolve()):
            size, length, tried = find_length(checkout, name, arguments)
            retentions.append(2 * (size * length + 1))
            shares = ", ".join(f"{key}: {share:.3g}" for key, share in sorted(tried.items()))
            print(f"{name} mean {arguments.mean:g}: {size} numbers, {length} records each; tried {shares}", flush=True)
        print(f"{name}: retention {retentions[0]}, other {retentions[1]}, {retentions[0] / retentions[1]:.2f} of it")


def main() -> None:
    """Run one of the three parts."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parts = parser.add_subparsers(required=True)
    mean = parts.add_parser("mean")
    mean.add_argument("--dims", type=int, nargs="+", default=[1])
    mean.add_argument("--batches", type=int, nargs="+", default=[20, 21, 22])
    mean.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    mean.add_argument("--means", type=float, nargs="+", default=list(MEANS))
    mean.add_argument("--channels", nargs="+", choices=list(MODES), default=["bits"])
    mean.set_defaults(act=print_means)
    requests = parts.add_parser("requests")
    requests.add_argument("--batches", type=int, nargs="+", default=[64, 96])
    requests.add_argument("--shares", type=float, nargs="+", default=list(SHARES))
    requests.set_defaults(act=print_requests)
    statistics = parts.add_parser("statistics")
    statistics.add_argument("other", type=Path)
    statistics.add_argument("--policies", nargs="+", choices=list(POLICIES), default=list(POLICIES))
    statistics.add_argument("--mean", type=float, default=17.0)
    statistics.add_argument("--longest", type=int, default=56)
    statistics.set_defaults(act=print_statistics)
    for part in (mean, requests, statistics):
        part.add_argument("--streams", type=int, default=8)
        part.add_argument("--records", type=int, default=RECORDS)
    arguments = parser.parse_args()
    arguments.act(arguments)


if __name__ == "__main__":
    main()
