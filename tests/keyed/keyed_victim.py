"""A process that keeps keyed streams in a store until it is killed; it forks a child for each run."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path

import numpy as np

from vestige import KeyedStreams, Mean, open_store
from vestige.types import Floats

BLOCK, BLOCKS, KEYS = 400, 30, 150


def draw(block: int) -> tuple[list[str], Floats, list[str | None]]:
    """The rows of a block: keys, values and subjects."""
    rng = np.random.default_rng(block)
    keys = [f"key {k}" for k in rng.integers(0, KEYS + 20 * block, BLOCK)]
    values = 1e3 + rng.lognormal(size=BLOCK)
    return keys, values, [None if k % 3 else f"person {k % 20}" for k in range(BLOCK)]


def act(streams: KeyedStreams, block: int) -> None:
    """Take a block, and now and then erase a person or a stream."""
    keys, values, subjects = draw(block)
    streams.extend(keys, values, subjects=subjects)


def run(path: str) -> None:
    """Go on from where the store is."""
    with open_store(path) as store:
        streams = KeyedStreams(Mean(channel="bits"), retention=56, seed=2, store=store.family())
        done = store.count_arrived()[0] // BLOCK
        for block in range(done, BLOCKS):
            act(streams, block)


def main() -> None:
    """Read paths and delays; run and kill."""
    warm = KeyedStreams(Mean(channel="bits"), retention=56, seed=2, store=open_store("memory:").family())
    for block in range(2):
        act(warm, block)
    warm._workers.shutdown()
    for line in sys.stdin:
        path, delay = json.loads(line)
        child = os.fork()
        if not child:
            run(path)
            os._exit(0)
        started = time.monotonic()
        if delay is not None:
            time.sleep(delay)
            os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        print(json.dumps([os.WIFSIGNALED(status), time.monotonic() - started]), flush=True)


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent))
    main()
