"""Streams by key beside one `Stream` object for each key, and beside GROUP BY of DuckDB and Polars on the same file.

`python benchmarks/keyed.py --keys 1e6 --rows 1e8` measures the full size in one run, uniform and Zipf, with memory; the
table of `make bench` takes a hundredth of it. Rows are read from a Parquet file in blocks; only what `extend` takes is
counted for Vestige, and the whole query for the others.
"""

from __future__ import annotations

import argparse
import importlib.util
import resource
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from timing import Row
from vestige import KeyedStreams, Mean, Stream
from vestige.types import Floats, Ints

BLOCK = 1_000_000
RETENTION = 56
OBJECTS = 2_000
"""Number of keys for which one object each is measured; it takes too long for more."""


def rows() -> list[Row]:
    """Measure a hundredth of the full size."""
    with tempfile.TemporaryDirectory() as folder:
        found = []
        for kind in ("uniform", "zipf"):
            path = Path(folder) / f"{kind}.parquet"
            write(path, kind, 10_000, 1_000_000)
            seconds, keyed = take(path)
            ours = f"{1_000_000 / seconds:,.0f} rows/s"
            for name, peer in (("DuckDB", query_duckdb), ("Polars", query_polars)):
                if importlib.util.find_spec(name.lower()) is None:
                    found.append(Row(f"{kind}, 10,000 keys", ours, f"{name}: not installed", None, 0.05))
                    continue
                peer(path)
                started = time.perf_counter()
                peer(path)
                taken = time.perf_counter() - started
                found.append(
                    Row(f"{kind}, 10,000 keys", ours, f"{name}: {1e6 / taken:,.0f} rows/s", taken / seconds, 0.05)
                )
            objects = take_objects(path)
            found.append(
                Row(f"{kind}, 10,000 keys", ours, f"objects: {objects:,.0f} rows/s", 1e6 / seconds / objects, 30.0)
            )
            del keyed
        return found


def draw_keys(kind: str, keys: int, count: int, rng: np.random.Generator) -> Ints:
    """Keys that are all as likely, or whose chances fall with their rank (Zipf's law with exponent 1)."""
    if kind == "uniform":
        return rng.integers(0, keys, count)
    ranks = np.exp(rng.random(count) * np.log(keys + 1.0)).astype(np.int64)  # the density of a rank is 1 / rank
    found: Ints = np.minimum(ranks, keys) - 1
    return found


def write(path: Path, kind: str, keys: int, count: int) -> None:
    """Write keys and values to a file, in blocks."""
    rng = np.random.default_rng(0)
    shuffled = rng.permutation(keys)
    schema = pa.schema([("key", pa.int64()), ("x", pa.float64())])
    with pq.ParquetWriter(path, schema, compression="none", use_dictionary=False) as writer:
        for start in range(0, count, BLOCK):
            n = min(BLOCK, count - start)
            block = {"key": shuffled[draw_keys(kind, keys, n, rng)], "x": rng.normal(100.0, 5.0, n)}
            writer.write_table(pa.table(block, schema))


def read(path: Path) -> Iterator[tuple[Ints, Floats]]:
    """Read the blocks of a file."""
    for batch in pq.ParquetFile(path).iter_batches(BLOCK):
        yield batch["key"].to_numpy(), batch["x"].to_numpy()


def take(path: Path, *, progress: bool = False) -> tuple[float, KeyedStreams]:
    """Take all rows into streams; the seconds that this takes, after kernels are compiled."""
    warm = KeyedStreams(Mean(channel="bits"), retention=RETENTION, seed=0)
    warm.extend(np.arange(1_000) % 3, np.random.default_rng(0).normal(size=1_000))
    keyed, seconds, times = KeyedStreams(Mean(channel="bits"), retention=RETENTION, seed=0), 0.0, []
    for keys, values in read(path):
        started = time.perf_counter()
        keyed.extend(keys, values)
        times.append(time.perf_counter() - started)
        seconds += times[-1]
        if progress and len(times) % 10 == 0:
            print(f"  block {len(times)}: {np.mean(times[-10:]):.3f} s a block", flush=True)
    return seconds, keyed


def take_objects(path: Path) -> float:
    """Rows a second of one `Stream` object for each key, with the rows of each block sorted by key beforehand."""
    streams: dict[int, Stream] = {}
    taken, seconds = 0, 0.0
    for all_keys, all_values in read(path):
        few = all_keys < OBJECTS
        keys, values = all_keys[few], all_values[few]
        order = np.argsort(keys, kind="stable")
        borders = np.flatnonzero(np.diff(keys[order])) + 1
        parts = [(int(keys[part[0]]), values[part]) for part in np.split(order, borders)]
        started = time.perf_counter()
        for key, part in parts:
            if key not in streams:
                streams[key] = Stream(Mean(channel="bits"), retention=RETENTION, seed=0)
            streams[key].extend(part)
        seconds += time.perf_counter() - started
        taken += len(keys)
        if seconds > 10.0:
            break
    return taken / seconds


def query_duckdb(path: Path) -> None:
    """GROUP BY in DuckDB."""
    import duckdb  # noqa: PLC0415

    duckdb.connect().execute(f"SELECT key, avg(x) FROM '{path}' GROUP BY key").fetchnumpy()  # noqa: S608


def query_polars(path: Path) -> None:
    """GROUP BY in Polars."""
    import polars  # noqa: PLC0415

    polars.scan_parquet(path).group_by("key").agg(polars.col("x").mean()).collect()


def main() -> None:
    """Measure the full size."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keys", type=float, default=1e6)
    parser.add_argument("--rows", type=float, default=1e8)
    parser.add_argument("--kinds", nargs="+", default=["uniform", "zipf"])
    parser.add_argument("--folder", default=None)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        for kind in options.kinds:
            path = Path(folder) / f"{kind}.parquet"
            write(path, kind, int(options.keys), int(options.rows))
            before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            seconds, keyed = take(path, progress=True)
            updates = sum(int(shard.columns.updates.sum()) for shard in keyed._shards)
            most = 1.3 * 8 * keyed.held + 64 * len(keyed) + keyed._names.texts.content.nbytes
            grown = 1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
            print(f"{kind}: {options.rows / seconds:,.0f} rows/s; {updates / len(keyed):.2f} updates a key", flush=True)
            print(f"  {keyed.nbytes / most:.2f} of the memory allowed, {grown / most:.2f} with all else at its peak")
            for name, peer in (("DuckDB", query_duckdb), ("Polars", query_polars)):
                if importlib.util.find_spec(name.lower()) is not None:
                    started = time.perf_counter()
                    peer(path)
                    taken = time.perf_counter() - started
                    print(f"  {name}: {taken:.2f} s, {seconds / taken:.1f} times as fast", flush=True)
            objects = take_objects(path)
            print(
                f"  one object a key: {objects:,.0f} rows/s, {options.rows / seconds / objects:.0f} times slower",
                flush=True,
            )
            path.unlink()


if __name__ == "__main__":
    main()
