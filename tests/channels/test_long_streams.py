"""Ten million batches of all kinds, followed by the means of all data; a million are read independently too."""

from __future__ import annotations

from collections.abc import Callable

import numba
import numpy as np
import pytest
from numpy.typing import NDArray

from decoder import decode
from vestige.channels.averages import draw_mark
from vestige.channels.kernels import BITS, can_write, make_writer, read_batch, write_batch
from vestige.statistics.kernels import find_deviation, find_far_limit, find_weights, move_averages
from vestige.types import Bools, Floats

EVERY, CHUNK = 10, 20_000
KINDS = (
    "normal",
    "far",
    "tiny",
    "huge",
    "whole",
    "two values",
    "rare",
    "sorted",
    "drifting",
    "alternating",
    "constant",
    "lognormal",
    "cauchy",
)
FORMS = {(22, 1): 400_000, (32, 1): 240_000, (64, 2): 90_000, (90, 4): 40_000}
"""How many batches of each kind, by their records and numbers: 10,010,000 in all."""


def draw(kind: str, rng: np.random.Generator, done: float, share: float, n: int) -> Floats:
    """The next n numbers of a kind; `done` is the share of the stream that is over, of which these are `share`."""
    places = done + share * np.arange(n) / n
    drawn: dict[str, Callable[[], Floats]] = {
        "normal": lambda: rng.normal(size=n),
        "far": lambda: rng.normal(1e6, 1.0, n),
        "tiny": lambda: 1e-280 * rng.normal(2.0, 1.0, n),
        "huge": lambda: 1e280 * rng.normal(2.0, 1.0, n),
        "whole": lambda: np.rint(rng.exponential(10.0, n)),
        "two values": lambda: np.where(rng.random(n) < 0.5, 0.1, 0.3),
        "rare": lambda: np.where(rng.random(n) < 0.001, 1.0, 0.0),
        "sorted": lambda: places + 1e-9 * rng.random(n),
        "drifting": lambda: 10.0 * np.sin(20.0 * places) + rng.normal(size=n),
        "alternating": lambda: np.tile([1.0, -1.0], n)[:n],
        "constant": lambda: np.full(n, 7.3),
        "lognormal": lambda: rng.lognormal(size=n),
        "cauchy": lambda: rng.standard_cauchy(n),
    }
    return drawn[kind]()


@numba.njit(nogil=True)
def follow(
    values: Floats,
    wet: Floats,
    first: int,
    before: int,
    estimate: Floats,
    off: Bools,
    total: Floats,
    rest: Floats,
    keeps: NDArray[np.bool_],
    numbers: Floats,
) -> tuple[int, int]:
    """Follow batches; count those that are read otherwise than written, and those that miss silently.

    `total` and `rest` add all records up, with what each addition rounds off (Knuth's two-sum), so that the means of
    all data are exact to the last digits.
    """
    batches, length, size = values.shape
    target, spread, near, far = np.empty(size), np.empty(size), np.zeros(size), np.empty(size)
    own, low, same = np.zeros(size), np.empty(size), np.empty(size)
    again, marks, keep = np.empty(size), np.empty(size, np.bool_), np.zeros(length, np.bool_)
    everyone, writer = np.ones(length, np.bool_), make_writer(length, size)
    weights = find_weights(everyone, 1.0)
    wrong, silent = 0, 0
    for k in range(batches):
        start, counted = first + k * length, before + (k + 1) * length
        share = length / counted
        move_averages(estimate, own, values[k], everyone, weights, share, target, low, spread)
        for i in range(size):
            about = find_deviation(target[i], values[k, :, i], everyone, weights)
            far[i] = find_far_limit(about, length, share, 0.0, draw_mark(start, length, i))
            for j in range(length):
                new = total[i] + values[k, j, i]
                part = new - total[i]
                rest[i] += (total[i] - (new - part)) + (values[k, j, i] - part)
                total[i] = new
        can = wet[k] >= 0.1 if k % 3 == 0 else everyone
        if not can_write(can, size, BITS):
            can = everyone
        write_batch(
            values[k],
            can,
            target,
            low,
            near,
            far,
            spread,
            start,
            np.uint64(0),
            BITS,
            False,
            writer,
            keep,
            estimate,
            off,
            own,
        )
        read_batch(values[k], keep, start, BITS, again, marks, same)
        for i in range(size):
            wrong += again[i] != estimate[i] or same[i] != own[i] or marks[i] != off[i]
            missed = abs((estimate[i] - target[i]) + (own[i] - low[i])) > far[i]
            silent += missed and not off[i]
        for j in range(length):
            wrong += keep[j] and not can[j]
        if k % EVERY == 0:
            keeps[k // EVERY], numbers[k // EVERY] = keep, estimate
    return wrong, silent


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("form", "batches"), FORMS.items(), ids=[f"{b} for {d}" for b, d in FORMS])
def test_no_batch_is_misread(kind: str, form: tuple[int, int], batches: int) -> None:
    """What is read is what was written, and in the end within a standard error of the mean of all data, or marked."""
    length, size = form
    rng = np.random.default_rng([KINDS.index(kind), size])
    estimate, off = np.zeros(size), np.zeros(size, np.bool_)
    total, rest, squares, done = np.zeros(size), np.zeros(size), np.zeros(size), 0
    while done < batches:
        count = min(CHUNK, batches - done)
        values = np.stack(
            [
                draw(kind, rng, done / batches, count / batches, count * length)
                if i == 0
                else rng.normal(5.0, 2.0, count * length)
                for i in range(size)
            ],
            axis=1,
        ).reshape(count, length, size)
        keeps, numbers = np.empty((-(-count // EVERY), length), np.bool_), np.empty((-(-count // EVERY), size))
        wet = rng.random((count, length))
        wrong, silent = follow(
            values, wet, 1 + done * length, done * length, estimate, off, total, rest, keeps, numbers
        )
        assert wrong == silent == 0
        for k, (keep, read) in enumerate(zip(keeps, numbers, strict=True)):
            first = 1 + (done + k * EVERY) * length
            found = decode(values[k * EVERY].tolist(), np.flatnonzero(keep).tolist(), length, size, first)
            for number, mine, span in zip(read.tolist(), found.numbers, found.spans, strict=True):
                assert number == mine or (not span and abs(number - mine) <= 2.0**-50 * abs(mine))
        done += count
        mean = total / (done * length)
        squares += np.abs(values - mean).sum(axis=(0, 1))
    records = batches * length
    mean = (total + rest) / records
    error = squares / records / np.sqrt(records)
    assert off.any() or np.all(np.abs(estimate - mean) <= error + 1e-13 * np.abs(mean))
