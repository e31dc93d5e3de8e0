"""Sealed stores beside plain ones: what a keyring adds to a commit.

The stores alternate commit by commit, so that a slow disk is slow for both.
"""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from timing import Row, choose, time_alternately
from vestige import Mean, SqliteStore, Stream
from vestige.policies import MeanEstimate
from vestige.store import Store
from vestige.store.keyring import KeyringFile

STREAMS, RETENTION, TOGETHER = choose(1_000, 100), 56, 100
FOLDER = "out"


def rows() -> Iterator[Row]:
    """Compare on the disk that holds the project; a memory file system has nothing to flush."""
    Path(FOLDER).mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=FOLDER) as folder:
        keyring = KeyringFile(f"{folder}/keyring", create=True)
        sealed, plain = SqliteStore(f"{folder}/sealed.db", keyring=keyring), SqliteStore(f"{folder}/plain.db")
        with sealed, plain:
            one, other = make_task(sealed), make_task(plain)
            for count, repeats in ((1, 400), (TOGETHER, 30)):
                ours, theirs, ratio = time_alternately(partial(one, count), partial(other, count), repeats)
                what = f"sealed commit, {count} stream{'s'[: count != 1]}"
                peer = f"in clear: {theirs * 1e3:.2f} ms"
                yield Row(what, f"{ours * 1e3:.2f} ms", peer, ratio, 1 / 1.3)


def make_task(store: Store) -> Callable[[int], None]:
    """Fill a store, and return what updates some of its streams in one transaction."""
    streams = fill(store)
    rng = random.Random(0)  # noqa: S311

    def update(count: int) -> None:
        with store.transaction():
            for stream in rng.sample(streams, count):
                stream.extend([1.0, 2.0, 3.0])
                stream.flush()

    return update


def fill(store: Store) -> list[Stream[MeanEstimate]]:
    """Open streams that have taken some records."""
    streams = [Stream(Mean(), retention=RETENTION, seed=0, store=store.stream(f"shop {i}")) for i in range(STREAMS)]
    with store.transaction():
        for stream in streams:
            stream.extend(range(40))
            stream.flush()
    return streams
