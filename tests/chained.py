"""Algorithms with a small state for tests/policies/test_memory.py, in a module that every process finds."""

from __future__ import annotations

import hashlib
import sys

import numpy as np

from vestige import Memory, Stream, open_store
from vestige.types import Floats

MEMORY: list[float] = []


def chain(state: bytes, rows: Floats) -> bytes:
    """A fingerprint of every record that ever arrived, in their order: a bit that is lost changes all others."""
    for row in rows:
        state = hashlib.sha256(state + row.tobytes()).digest()
    return state


def chain_short(state: bytes, rows: Floats) -> bytes:
    """The same in 64 bits."""
    for row in rows:
        state = hashlib.sha256(state + row.tobytes()).digest()[:8]
    return state


def get_byte(state: bytes) -> int:
    return state[0]


def hoard(state: bytes, rows: Floats) -> bytes:
    """Returns what it should, and keeps a record outside."""
    MEMORY.append(float(rows[0, 0]))
    return chain(state, rows)


def count_calls(state: bytes, rows: Floats) -> bytes:
    """Returns something else each time."""
    MEMORY.append(0.0)
    return chain(state + bytes(len(MEMORY)), rows)


def take_last(state: bytes, rows: Floats) -> bytes:
    """The last row of each call: another state where batches end elsewhere."""
    return chain_short(state, rows[-1:])


POLICY = Memory(256, chain, get_byte)
RETENTION = 2 * POLICY.min_batch + 14


def draw_rows(n: int) -> Floats:
    return np.random.default_rng(0).normal(size=(n, 1))


def follow(path: str) -> None:
    """Push records into a store for ever, until killed."""
    rows = draw_rows(100_000)
    with open_store(path) as store:
        stream = Stream(POLICY, retention=RETENTION, seed=0, store=store.stream("chain"))
        while True:
            stream.extend(rows[stream.t : stream.t + 7])
            sys.stdout.write(f"{stream.t}\n")
            sys.stdout.flush()
