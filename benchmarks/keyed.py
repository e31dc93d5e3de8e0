"""Streams by key beside one `Stream` object for each key, and beside GROUP BY of DuckDB and Polars on the same file.

`python benchmarks/keyed.py --keys 1e6 --rows 1e8` measures the full size in one run, uniform and Zipf, with memory;
`--store` measures the same with the streams in a store, and `--plot docs/keyed.png` how speed grows with the number of
keys. The table of `make bench` takes a hundredth of the full size. Rows are read from a Parquet file in blocks; only
what `extend` takes is counted for Vestige, and the whole query for the others.
"""

from __future__ import annotations

import argparse
import gc
import importlib.util
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from timing import Row, choose
from vestige import KeyedStreams, Mean, Stream
from vestige.types import Floats, Ints

BLOCK = 1_000_000
RETENTION = 56
OBJECTS = 2_000
"""Number of keys for which one object each is measured; it takes too long for more."""
SECONDS = choose(10.0, 1.0)
"""How long objects are measured at most."""
PER_KEY, PER_NUMBER = 64, 1.3 * 8
"""Bytes that are allowed for each key, beside its name, and for each number that is held."""
GOALS = {
    "rows/s": 2e6,
    "rows/s in a store": 3e5,
    "of the memory allowed": 1.0,
    "as fast as a peer": 1 / 20,
    "times objects": 30.0,
}
Factory = Callable[[], AbstractContextManager[KeyedStreams]]
"""Opens empty streams, in memory or in a store."""


@dataclass(frozen=True)
class Intake:
    """What it took to take the rows of a file.

    Attributes:
        rows: number of rows.
        seconds: of each block.
        keys: number of streams at the end.
        updates: number of updates of all streams.
        nbytes: bytes of all arrays at the end.
        allowed: bytes that are allowed.
        grown: bytes by which the process has grown.
    """

    rows: int
    seconds: tuple[float, ...]
    keys: int
    updates: int
    nbytes: int
    allowed: float
    grown: int

    @property
    def speed(self) -> float:
        """Rows a second."""
        return self.rows / sum(self.seconds)

    @property
    def steady_speed(self) -> float:
        """Rows a second in the second half of the blocks, once streams are updated."""
        later = self.seconds[len(self.seconds) // 2 :]
        return self.rows * len(later) / len(self.seconds) / sum(later)

    @property
    def slowdown(self) -> float:
        """The time of the last blocks, over that of those around the tenth."""
        return float(np.median(self.seconds[-3:]) / np.median(self.seconds[8:11] or self.seconds))

    @property
    def drift(self) -> float:
        """The same over those in the middle, when streams are updated as often as at the end."""
        middle = len(self.seconds) // 2
        return float(np.median(self.seconds[-3:]) / np.median(self.seconds[max(middle - 1, 0) : middle + 2]))


def rows() -> list[Row]:
    """Measure a hundredth of the full size."""
    with tempfile.TemporaryDirectory() as folder:
        found, count = [], choose(1_000_000, 50_000)
        for kind in ("uniform", "zipf"):
            path = Path(folder) / f"{kind}.parquet"
            write(path, kind, 10_000, count)
            intake = take(path, open_memory)
            what, ours = f"{kind}, 10,000 keys", f"{intake.speed:,.0f} rows/s"
            for name, seconds in query_peers(path).items():
                peer = f"{name}: not installed" if seconds is None else f"{name}: {count / seconds:,.0f} rows/s"
                found.append(Row(what, ours, peer, seconds and seconds * intake.speed / count, 0.05))
            objects = take_objects(path)
            found.append(Row(what, ours, f"objects: {objects:,.0f} rows/s", intake.speed / objects, 30.0))
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


@contextmanager
def open_memory() -> Iterator[KeyedStreams]:
    """Streams in memory."""
    yield KeyedStreams(Mean(channel="bits"), retention=RETENTION, seed=0)


@contextmanager
def open_stored(folder: Path) -> Iterator[KeyedStreams]:
    """Streams in a new store in a folder."""
    from vestige import open_store  # noqa: PLC0415

    with tempfile.TemporaryDirectory(dir=folder) as place, open_store(str(Path(place) / "streams.db")) as store:
        family = store.family()
        yield KeyedStreams(Mean(channel="bits"), retention=RETENTION, seed=0, store=family)


def take(path: Path, factory: Factory, *, progress: bool = False) -> Intake:
    """Take all rows of a file into streams, after kernels are compiled."""
    with factory() as warm:
        warm.extend(np.arange(1_000) % 3, np.random.default_rng(0).normal(size=1_000))
    gc.collect()
    before, taken, seconds = measure_resident(), 0, list[float]()
    with factory() as keyed:
        for keys, values in read(path):
            started = time.perf_counter()
            keyed.extend(keys, values)
            seconds.append(time.perf_counter() - started)
            taken += len(keys)
            if progress and len(seconds) % 10 == 0:
                print(f"  block {len(seconds)}: {np.mean(seconds[-10:]):.3f} s a block", flush=True)
        updates = sum(int(shard.columns.updates[: shard.count].sum()) for shard in keyed._shards)
        allowed = PER_NUMBER * keyed.held + PER_KEY * len(keyed) + keyed._names.texts.content.nbytes
        grown = measure_resident() - before
        return Intake(taken, tuple(seconds), len(keyed), updates, keyed.nbytes, allowed, grown)


def measure_resident() -> int:
    """Bytes of memory that the process has at present; 0 where the system does not say."""
    status = Path("/proc/self/statm")
    return int(status.read_text().split()[1]) * 4096 if status.exists() else 0


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
        if seconds > SECONDS:
            break
    return taken / seconds


def query_peers(path: Path) -> dict[str, float | None]:
    """Seconds of each query: the second of two runs; None if a peer is not installed."""
    found: dict[str, float | None] = {}
    for name, peer in (("DuckDB", query_duckdb), ("Polars", query_polars)):
        found[name] = None
        if importlib.util.find_spec(name.lower()) is not None:
            peer(path)
            started = time.perf_counter()
            peer(path)
            found[name] = time.perf_counter() - started
    return found


def query_duckdb(path: Path) -> None:
    """GROUP BY in DuckDB."""
    import duckdb  # noqa: PLC0415

    duckdb.connect().execute(f"SELECT key, avg(x) FROM '{path}' GROUP BY key").fetchnumpy()  # noqa: S608


def query_polars(path: Path) -> None:
    """GROUP BY in Polars."""
    import polars  # noqa: PLC0415

    polars.scan_parquet(path).group_by("key").agg(polars.col("x").mean()).collect()


def judge(figure: float, goal: str, *, at_most: bool = False) -> str:
    """Say whether a figure reaches its goal, which is that of streams in memory."""
    limit = GOALS[goal]
    return "" if (figure <= limit if at_most else figure >= limit) else f"  MISSED: {limit:g}"


def report(kind: str, path: Path, factories: dict[str, Factory]) -> None:
    """Print all comparisons for one file."""
    peers, objects = query_peers(path), take_objects(path)
    for where, factory in factories.items():
        made = take(path, factory, progress=True)
        share = made.nbytes / made.allowed
        goal = "rows/s in a store" if "store" in where else "rows/s"
        print(f"{kind}, {where}: {made.speed:,.0f} rows/s{judge(made.speed, goal)}, {made.steady_speed:,.0f} later")
        print(f"  {made.keys:,} keys, {made.updates / made.keys:.2f} updates a key")
        print(f"  {share:.2f} of the memory allowed{judge(share, 'of the memory allowed', at_most=True)}", end="")
        print(f"; the process grew by {made.grown / made.allowed:.2f} of it")
        print(f"  last blocks {made.slowdown:.2f} times the tenth, {made.drift:.2f} times those in the middle")
        if "store" in where:
            continue  # the goals below are for streams in memory
        for name, seconds in peers.items():
            if seconds is None:
                print(f"  {name}: not installed")
                continue
            ratio = made.speed * seconds / made.rows
            print(f"  {name}: {seconds:.2f} s; ours is {ratio:.3f} as fast{judge(ratio, 'as fast as a peer')}")
        ratio = made.speed / objects
        print(f"  one object a key: {objects:,.0f} rows/s; ours is {ratio:.0f}", end="")
        print(f" times as fast{judge(ratio, 'times objects')}", flush=True)


def measure_growth(folder: Path, sizes: list[int], per_key: int, factories: dict[str, Factory]) -> dict[str, Floats]:
    """Rows a second of all contestants by the number of keys; nan for peers that are not installed."""
    found: dict[str, list[float]] = {}
    for keys in sizes:
        path = folder / "growth.parquet"
        count = max(2 * BLOCK, per_key * keys)
        write(path, "uniform", keys, count)
        for where, factory in factories.items():
            found.setdefault(f"Vestige, {where}", []).append(take(path, factory).steady_speed)
        found.setdefault("one Stream object a key", []).append(take_objects(path))
        for name, seconds in query_peers(path).items():
            found.setdefault(f"{name}, GROUP BY", []).append(np.nan if seconds is None else count / seconds)
        path.unlink()
        print(f"{keys:,} keys: " + ", ".join(f"{name} {speeds[-1]:,.0f}" for name, speeds in found.items()), flush=True)
    return {name: np.array(speeds) for name, speeds in found.items()}


def plot(sizes: list[int], speeds: dict[str, Floats], path: str) -> None:
    """Draw rows a second by the number of keys."""
    from vestige.figures import COLOURS, make_figure, save_figure, use_style  # noqa: PLC0415

    with use_style():
        figure = make_figure()
        axes = figure.subplots()
        for (name, speed), colour, marker in zip(speeds.items(), COLOURS, "osD^v", strict=False):
            if np.isfinite(speed).any():
                axes.plot(sizes, speed, marker=marker, color=colour, label=name)
        axes.set(xscale="log", yscale="log", xlabel="number of keys", title="rows a second, on all cores")
        axes.legend()
        save_figure(figure, path)


def main() -> None:
    """Measure the full size."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keys", type=float, default=1e6)
    parser.add_argument("--rows", type=float, default=1e8)
    parser.add_argument("--kinds", nargs="*", default=["uniform", "zipf"])
    parser.add_argument("--folder", default=None, help="where files are written for the time being")
    parser.add_argument("--store", action="store_true", help="measure streams in a store too")
    parser.add_argument("--plot", default=None, help="measure growth with the number of keys, and draw it to this file")
    parser.add_argument("--sizes", nargs="+", type=float, default=[1e3, 1e4, 1e5, 1e6], help="numbers of keys for it")
    parser.add_argument("--per-key", type=int, default=56, help="number of rows of each key for it, on average")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        folder = Path(name)
        factories: dict[str, Factory] = {"in memory": open_memory}
        if options.store:
            factories["in a store"] = partial(open_stored, folder)
        for kind in options.kinds:
            path = folder / f"{kind}.parquet"
            write(path, kind, int(options.keys), int(options.rows))
            report(kind, path, factories)
            path.unlink()
        if options.plot is not None:
            sizes = [int(size) for size in options.sizes]
            plot(sizes, measure_growth(folder, sizes, options.per_key, factories), options.plot)


if __name__ == "__main__":
    main()
