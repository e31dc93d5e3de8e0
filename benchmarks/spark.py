"""Streams by key on Spark: beside one key per call, beside rows that are passed through, and by number of keys.

`python benchmarks/spark.py --rows 1e7 --keys 1e5 1e6 --against` measures in one run, with two cores of this machine, in
the environment of `make test-spark`. Each batch is a file of Parquet with `--batch` rows. Processor time is that of all
processes, the Java machine and the workers; that of the first batch, which starts and compiles, is left out.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

from vestige import Mean
from vestige.spark import configure, inspect_files, keyed
from vestige.store import open_keyring

SCHEMA = "k long, v double, n long"
PATIENCE = 3_600.0
TICK = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Measure:
    """What a query took.

    Attributes:
        rows: rows of each batch.
        seconds: of each batch.
        processor: seconds of processor time after the first batch.
        nbytes: bytes of the checkpoint at the end.
    """

    rows: list[int]
    seconds: list[float]
    processor: float
    nbytes: int

    @property
    def rate(self) -> float:
        """Rows a second after the first batch."""
        return sum(self.rows[1:]) / sum(self.seconds[1:])

    @property
    def cost(self) -> float:
        """Microseconds of processor time a row after the first batch."""
        return 1e6 * self.processor / sum(self.rows[1:])


class OneKey:
    """One key per call, with a sum and a count as its state: less than any stream needs."""

    def init(self, handle: Any) -> None:
        """Begin a task."""
        self._state = handle.getValueState("sum", "sum double, count long")

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:  # noqa: ARG002, N802, N803
        """Take the rows of a group."""
        total, count = self._state.get() or (0.0, 0)
        for frame in rows:
            total, count = total + float(frame["v"].sum()), count + len(frame)
        self._state.update((total, count))
        yield pd.DataFrame({"k": [key[0]], "v": [total / count]})

    def close(self) -> None:
        """End a task."""


class PassThrough:
    """Rows by shard as they come, with a state of one number."""

    def init(self, handle: Any) -> None:
        """Begin a task."""
        self._state = handle.getValueState("count", "count long")

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:  # noqa: ARG002, N802, N803
        """Take the rows of a group."""
        for frame in rows:
            yield frame[["k", "v", "n"]]

    def close(self) -> None:
        """End a task."""


def write_rows(folder: Path, rows: int, keys: int, batch: int) -> None:
    """Write files of rows over keys that are drawn alike."""
    rng = np.random.default_rng(0)
    folder.mkdir()
    for number, start in enumerate(range(0, rows, batch)):
        n = min(batch, rows - start)
        table = {"k": rng.integers(0, keys, n), "v": rng.exponential(size=n), "n": np.arange(start, start + n)}
        pq.write_table(pa.table(table), folder / f"{number:05}.parquet")
        os.utime(folder / f"{number:05}.parquet", (1.7e9 + number, 1.7e9 + number))


def count_processor() -> float:
    """Seconds of processor time of all processes that this one has started."""
    times, parents = dict[int, float](), dict[int, int]()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            parents[int(entry.name)] = int(fields[1])
            times[int(entry.name)] = sum(map(int, fields[11:15])) / TICK

    def is_ours(process: int) -> bool:
        while process > 1 and process != os.getpid():
            process = parents.get(process, 0)
        return process == os.getpid()

    return sum(used for process, used in times.items() if is_ours(process))


def run(made: Any, checkpoint: Path, batches: int) -> Measure:
    """Run a query for so many batches with rows."""
    found: dict[int, tuple[int, float]] = {}
    after_first = 0.0
    query = made.writeStream.outputMode("update").format("noop").option("checkpointLocation", str(checkpoint)).start()
    until = time.monotonic() + PATIENCE
    try:
        while len(found) < batches and time.monotonic() < until:
            for progress in query.recentProgress:
                files = [source for source in progress["sources"] if source["description"].startswith("FileStream")]
                if rows := sum(source["numInputRows"] for source in files):
                    found[progress["batchId"]] = rows, progress["batchDuration"] / 1e3
            if found and not after_first:
                after_first = count_processor()
            if query.exception() is not None:
                raise query.exception()
            time.sleep(0.05)
        processor = count_processor() - after_first
    finally:
        query.stop()
    nbytes = sum(file.stat().st_size for file in checkpoint.rglob("*") if file.is_file())
    counts, seconds = zip(*(found[batch] for batch in sorted(found)), strict=True)
    return Measure(list(counts), list(seconds), processor, nbytes)


def measure_keyed(spark: Any, source: Path, folder: Path, shards: int, batches: int) -> Measure:
    open_keyring(folder / "q.keyring", create=True)
    rows = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(source))
    terms: dict[str, Any] = {"key": "k", "columns": "v", "policy": Mean(), "retention": 56, "order_by": "n", "seed": 0}
    made = run(keyed(rows, keyring=str(folder / "q.keyring"), shards=shards, **terms), folder / "keyed", batches)
    print("  ", inspect_files(folder / "keyed", folder / "q.keyring").text)
    return made


def measure_other(spark: Any, source: Path, folder: Path, processor: Any, group: str, batches: int) -> Measure:
    rows = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(source))
    if group == "shard":
        rows = rows.withColumn("shard", F.pmod(F.xxhash64("k"), F.lit(16)).cast("int"))
    schema = "k long, v double, n long" if group == "shard" else "k long, v double"
    made = rows.groupBy(group).transformWithStateInPandas(processor, schema, "Update", "None")
    return run(made, folder / f"by-{group}", batches)


def report(what: str, made: Measure) -> None:
    total, seconds = sum(made.rows), sum(made.seconds)
    print(
        f"{what}: {total:,} rows in {seconds:.1f} s, the first batch {made.seconds[0]:.1f} s; after it "
        f"{made.rate:,.0f} rows/s, {made.cost:.2f} us of processor time a row; {made.nbytes / 1e6:,.1f} MB on disk "
        f"(load {os.getloadavg()[0]:.1f})",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=float, default=4e6)
    parser.add_argument("--keys", type=float, nargs="+", default=[1e5])
    parser.add_argument("--batch", type=float, default=1e6)
    parser.add_argument("--against", action="store_true", help="measure one key per call and the pass-through too")
    parser.add_argument("--folder", type=Path, default=None)
    options = parser.parse_args()
    os.environ["PYSPARK_PYTHON"] = sys.executable
    base = Path(tempfile.mkdtemp(prefix="vestige-spark-", dir=options.folder))
    builder = configure(SparkSession.builder.master("local[2]").appName("benchmark"))
    for name, value in {
        "spark.driver.memory": "3g",
        "spark.local.dir": str(base / "local"),
        "spark.sql.shuffle.partitions": "4",
        "spark.ui.enabled": "false",
    }.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    try:
        for keys in map(int, options.keys):
            (folder := base / str(keys)).mkdir()
            write_rows(folder / "in", int(options.rows), keys, int(options.batch))
            batches, shards = -(-int(options.rows) // int(options.batch)), max(16, keys // 15_000)
            ours = measure_keyed(spark, folder / "in", folder, shards, batches)
            report(f"{keys:,} keys in {shards} shards", ours)
            if options.against and keys == int(options.keys[0]):
                through = measure_other(spark, folder / "in", folder, PassThrough(), "shard", min(batches, 4))
                report("the same rows passed through", through)
                print(f"  ours takes {ours.cost / through.cost:.2f} times its processor time (goal: at most 2)")
                one = measure_other(spark, folder / "in", folder, OneKey(), "k", 2)
                report("one key per call", one)
                share = keys * (1 - np.exp(-options.batch / keys)) / options.batch  # keys of a batch that have rows
                print(
                    f"  {share * ours.rate:,.0f} against {share * one.rate:,.0f} updates of keys a second: "
                    f"{ours.rate / one.rate:.1f} times; by processor time {one.cost / ours.cost:.1f} times"
                )
            shutil.rmtree(folder)
    finally:
        spark.stop()
        shutil.rmtree(base, ignore_errors=True)


if __name__ == "__main__":
    main()
