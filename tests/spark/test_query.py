"""Queries on Spark itself: the same answers as `Stream`, whatever the batches; sealed, erased on time, ended whole."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from vestige import Mean, Stream
from vestige.errors import ParameterError, StoreError
from vestige.spark import finish, keyed
from vestige.spark.shard_keys import find_unsettled
from vestige.store import open_keyring

CANARY = 987_654_321.123
"""A value that is looked for in files."""
PATIENCE = 420.0


class Site:
    """A folder of Parquet files that a query reads, with its keyring and its checkpoint."""

    def __init__(self, spark: Any, folder: Path) -> None:
        self.spark, self.folder = spark, folder
        self.keyring, self.checkpoint = str(folder / "q.keyring"), folder / "checkpoint"
        (folder / "in").mkdir()
        open_keyring(self.keyring, create=True)
        self.answers: dict[str | None, Any] = {}
        self.batches: list[int] = []
        self._files = 0

    def add(self, **columns: Any) -> None:
        """Add a file, which is a batch."""
        self._files += 1
        draft = self.folder / "draft"
        pd.DataFrame(columns).to_parquet(draft, coerce_timestamps="us")
        moment = time.time() - 3_600 + self._files  # files are read in the order of their times
        os.utime(draft, (moment, moment))
        draft.rename(self.folder / "in" / f"{self._files:04}.parquet")

    def read(self, schema: str) -> Any:
        stream = self.spark.readStream.schema(schema).option("maxFilesPerTrigger", 1)
        return stream.parquet(str(self.folder / "in"))

    def start(self, made: Any) -> Any:
        def note(batch: Any, number: int) -> None:
            self.batches.append(number)
            self.answers |= {row.key: row for row in batch.collect()}

        writer = made.writeStream.outputMode("update").foreachBatch(note)
        writer = writer.option("checkpointLocation", str(self.checkpoint))
        return writer.trigger(processingTime="0.5 seconds").start()

    def run(self, made: Any) -> None:
        """Run a query until all is read and all keys are destroyed."""
        query = self.start(made)
        try:
            finish(query, self.keyring, patience=PATIENCE)
        finally:
            query.stop()


@pytest.fixture
def site(spark: Any, tmp_path: Path) -> Site:
    return Site(spark, tmp_path)


def wait(is_there: Callable[[], bool]) -> None:
    until = time.monotonic() + PATIENCE
    while not is_there():
        assert time.monotonic() < until
        time.sleep(0.2)


def test_answers_are_those_of_one_stream_for_each_key(site: Site) -> None:
    """With a restart between two batches, and as a static DataFrame, with other shards."""
    rng, n = np.random.default_rng(0), 3_000
    keys, values = rng.integers(-3, 20, n), rng.exponential(size=n)
    parts = np.array_split(np.arange(n), 3)
    terms: dict[str, Any] = {"key": "k", "columns": "v", "policy": Mean(), "retention": 96}
    terms |= {"order_by": "n", "seed": 7, "shards": 5}
    for part in parts[:2]:
        mixed = rng.permutation(part)
        site.add(k=keys[mixed], v=values[mixed], n=mixed)
    rows = site.read("k long, v double, n long")
    site.run(keyed(rows, keyring=site.keyring, **terms))
    site.add(k=keys[parts[2]], v=values[parts[2]], n=parts[2])
    site.run(keyed(rows, keyring=site.keyring, **terms))
    assert {row.metric for row in site.answers.values()} == {"v"}
    static = site.spark.read.parquet(str(site.folder / "in"))
    again = {row.key: row for row in keyed(static, **terms | {"shards": 3}).collect()}
    for key in range(-3, 20):
        alone = Stream(Mean(), retention=96, seed=7)
        alone.extend(values[keys == key])
        for row in (site.answers[str(key)], again[str(key)]):
            assert row.value == alone.estimate().value
            assert (row.t, row.held, row.counted) == (alone.t, len(alone.retained), alone.counted)
    assert not find_unsettled(open_keyring(site.keyring).read())


def test_quiet_keys_are_erased_and_people_are_forgotten(site: Site) -> None:
    """By timers and by requests; each of the records that are gone can be opened in no file."""
    now = datetime.now(UTC).replace(tzinfo=None)
    kept, gone = now - timedelta(hours=1), now - timedelta(days=1) + timedelta(seconds=45)
    site.add(k=["old", "old", "new"], v=[CANARY, 5.0, 7.0], at=[gone, gone, kept], who=["ada", "bob", "ada"])
    rows = site.read("k string, v double, at timestamp_ntz, who string")
    rows = rows.withColumn("at", rows.at.cast("timestamp"))
    made = keyed(
        rows, key="k", columns="v", policy=Mean(), max_age=timedelta(days=1), lateness=timedelta(hours=1),
        time="at", subject="who", keyring=site.keyring, shards=2,
    )  # fmt: skip
    query = site.start(made)
    wait(lambda: {"old", "new"} <= set(site.answers))
    assert site.answers["new"].value == 7.0
    wait(lambda: site.answers["old"].held == 0)
    assert time.time() >= gone.replace(tzinfo=UTC).timestamp() + 86_400
    assert site.answers["old"].problem
    finish(query, site.keyring, patience=PATIENCE)
    assert site.answers["new"].held == 1


def test_what_does_not_fit_is_refused_before_the_query(site: Site, spark: Any) -> None:
    rows = spark.createDataFrame([("a", 1.0, "x")], "k string, v double, s string")
    terms: dict[str, Any] = {"key": "k", "columns": "v", "policy": Mean(), "retention": 96}
    for change, text in (
        ({"key": "w"}, "not a column"),
        ({"columns": "s"}, "use numbers"),
        ({"columns": ["v", "v"]}, "as many"),
        ({"time": "s"}, "timestamp"),
        ({"shards": 0}, "shards"),
        ({"retention": 4}, "retention"),
        ({"keyring": site.keyring}, "static"),
    ):
        with pytest.raises(ParameterError, match=text):
            keyed(rows, **terms | change)
    site.add(k=["a"], v=[1.0])
    stream = site.read("k string, v double")
    with pytest.raises(ParameterError, match="keyring=None"):
        keyed(stream, **terms)
    keyed(stream, keyring=site.keyring, **terms)
    with pytest.raises(StoreError, match="belongs to a query with another"):
        keyed(stream, keyring=site.keyring, **terms | {"shards": 7})
    spark.conf.set("spark.sql.streaming.noDataMicroBatches.enabled", "false")
    with pytest.raises(ParameterError, match=r"noDataMicroBatches\.enabled=false must be true"):
        keyed(stream, keyring=site.keyring, **terms)
    spark.conf.set("spark.sql.streaming.noDataMicroBatches.enabled", "true")
