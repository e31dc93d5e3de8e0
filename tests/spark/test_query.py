"""Queries on Spark itself: the same answers as `Stream`, whatever the batches; sealed, erased on time, ended whole."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from vestige import Bundle, Mean, Stream, TopK, Window
from vestige.errors import ParameterError, StoreError
from vestige.spark import finish, inspect_files, keyed
from vestige.spark.shard_keys import find_unsettled
from vestige.store import open_keyring
from vestige.whole_numbers import decode, read_column

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

    def inspect(self, value: float) -> tuple[str, ...]:
        """What is found of a value in all files of the query."""
        local = self.spark.sparkContext.getConf().get("spark.local.dir")
        canaries = [np.array(value, kind).tobytes() for kind in ("<f8", ">f8")]
        return inspect_files([self.checkpoint, local], self.keyring, canaries=canaries).findings

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


def test_quiet_keys_are_erased_and_what_they_held_opens_in_no_file(site: Site) -> None:
    now = datetime.now(UTC).replace(tzinfo=None)
    kept, gone = now - timedelta(hours=1), now - timedelta(days=1) + timedelta(seconds=60)
    site.add(k=["old", "old", "new"], v=[CANARY, 5.0, 7.0], at=[gone, gone, kept])
    rows = site.read("k string, v double, at timestamp_ntz")
    rows = rows.withColumn("at", rows.at.cast("timestamp"))
    limits: dict[str, Any] = {"max_age": timedelta(days=1), "lateness": timedelta(hours=1), "time": "at"}
    query = site.start(keyed(rows, key="k", columns="v", policy=Mean(), keyring=site.keyring, shards=2, **limits))
    wait(lambda: {"old", "new"} <= set(site.answers))
    if time.time() < gone.replace(tzinfo=UTC).timestamp() + 86_395:  # it is held, so it opens: the check can fail
        assert any("which can be opened" in text for text in site.inspect(CANARY))
        assert not any("in clear" in text for text in site.inspect(CANARY))
    wait(lambda: site.answers["old"].held == 0)
    assert time.time() >= gone.replace(tzinfo=UTC).timestamp() + 86_400 - 1
    assert site.answers["old"].problem
    finish(query, site.keyring, patience=PATIENCE)
    assert site.inspect(CANARY) == ()
    assert (site.answers["new"].value, site.answers["new"].held) == (7.0, 1)


def test_batches_and_so_timers_run_without_a_row_since_the_start(site: Site) -> None:
    """Spark would wait for one: after each restart nothing would be erased until then, and `finish` would not end."""
    rows = site.read("k string, v double")
    terms: dict[str, Any] = {"key": "k", "columns": "v", "policy": Mean(), "retention": 96, "shards": 1}
    site.run(keyed(rows, keyring=site.keyring, **terms))
    assert site.answers == {}
    site.add(k=["a"], v=[1.0])
    site.run(keyed(rows, keyring=site.keyring, **terms))
    assert site.answers["a"].t == 1
    site.run(keyed(rows, keyring=site.keyring, **terms))
    assert site.answers["a"].t == 1


def test_people_are_forgotten_in_every_shard(site: Site) -> None:
    """A request reaches all keys; records that come after it are those of somebody who has come back."""
    (asked := site.folder / "asked").mkdir()
    requests = site.spark.readStream.schema("who string").parquet(str(asked))
    rows = site.read("k string, v double, who string")
    terms: dict[str, Any] = {"key": "k", "columns": "v", "policy": Window(), "retention": 96, "subject": "who"}
    query = site.start(keyed(rows, forget=requests, keyring=site.keyring, shards=3, **terms))
    site.add(k=[f"k{i % 5}" for i in range(100)], v=[CANARY, 1.0] * 50, who=["ada", "bob"] * 50)
    wait(lambda: len(site.answers) == 5)
    assert all(row.held == 20 for row in site.answers.values())
    pd.DataFrame({"who": ["ada"]}).to_parquet(asked / "1.parquet")
    site.add(k=[f"k{i % 5}" for i in range(500)], v=[2.0] * 500, who=["bob"] * 500)
    wait(lambda: all(row.t == 120 for row in site.answers.values()))
    finish(query, site.keyring, patience=PATIENCE)
    assert site.inspect(CANARY) == ()


def test_what_does_not_fit_is_refused_before_the_query(site: Site, spark: Any) -> None:
    rows = spark.createDataFrame([("a", 1.0, "x")], "k string, v double, s string")
    terms: dict[str, Any] = {"key": "k", "columns": "v", "policy": Mean(), "retention": 96}
    for change, text in (
        ({"key": "w"}, "not a column"),
        ({"columns": "s"}, "use numbers"),
        ({"columns": ["v", "v"]}, "more than once"),
        ({"columns": ["v", "k"], "policy": Mean(3)}, "as many|use numbers"),
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


def test_bytes_that_are_no_text_stop_no_other_row(spark: Any) -> None:
    """Spark takes any bytes for a text, such as those of Kafka; Python does not."""
    rows = spark.sql(
        "select 'a' k, 1D v, 'x' s union all select 'a', 3D, cast(X'FF41' as string) union all "
        "select cast(X'FF41' as string), 5D, 'y'"
    )
    terms: dict[str, Any] = {"key": "k", "columns": "v", "policy": Window(), "retention": 96, "shards": 2}
    asked = rows.where("v = 3").select("s")
    found = {row.key: row for row in keyed(rows, subject="s", order_by="s", forget=asked, **terms).collect()}
    assert (found["a"].t, found["a"].refused, found[None].refused) == (2, 0, 1)


@pytest.mark.parametrize("name", ["a.b", "we`ird", "sp ace", "shard"])
def test_columns_have_any_name(spark: Any, name: str) -> None:
    rows = spark.createDataFrame([("a", 1.0), ("a", 3.0)], "k string, v double")
    terms: dict[str, Any] = {"policy": Mean(), "retention": 96, "shards": 2}
    (row,) = keyed(rows.toDF("k", name), key="k", columns=name, order_by=name, **terms).collect()
    assert (row.metric, row.value) == (name, 2.0)
    (row,) = keyed(rows.toDF(name, "v"), key=name, columns="v", **terms).collect()
    assert (row.key, row.value) == ("a", 2.0)
    with pytest.raises(ParameterError, match="the name of 2 columns"):
        keyed(rows.toDF(name, name), key=name, columns=name, **terms)


@pytest.mark.parametrize("kind", ["bigint", "decimal(20,0)"])
def test_whole_numbers_beyond_floats_are_exact_or_refused(spark: Any, kind: str) -> None:
    ids = [None, 2**60 + 1, 2**60, 2**60 + 1, 7, -(2**63), -(2**63) + 1]
    cells = ids if kind == "bigint" else [None if each is None else Decimal(each) for each in ids]
    rows = spark.createDataFrame([("a", cell) for cell in cells], f"key string, id {kind}")
    top = keyed(rows, key="key", columns="id", policy=TopK(5, 5), retention=4_000, shards=1).collect()
    assert {row.metric: (row.lower, row.upper) for row in top} == {
        f"records of {name}": (count, count)
        for name, count in [
            (2**60 + 1, 2),
            (2**60, 1),
            (7, 1),
            *[(decode(code), 1) for code in read_column(np.array(ids[5:]), "coded")],
        ]
    }
    assert {row.refused for row in top} == {1}
    (mean,) = keyed(rows, key="key", columns="id", policy=Mean(), retention=96, shards=1).collect()
    assert (mean.refused, mean.counted) == (4, 3), "2^60, 7 and -2^63 are floats"


def test_columns_are_those_that_a_policy_names(spark: Any) -> None:
    rows = spark.createDataFrame([("a", 1.0, 5.0), ("a", 3.0, 7.0)], "key string, delay double, distance double")
    policy = Bundle({"distance": Mean(), "delay": Mean()})
    for columns in (["delay", "distance"], ["distance", "delay"]):
        made = keyed(rows, key="key", columns=columns, policy=policy, retention=2_048, shards=1).collect()
        assert {row.metric: row.value for row in made} == {"distance:mean": 6.0, "delay:mean": 2.0}
    with pytest.raises(ParameterError, match="columns has 'delay' more than once"):
        keyed(rows, key="key", columns=["delay", "delay"], policy=Mean(2), retention=256)


def test_a_row_that_lies_ahead_does_not_take_the_others_of_its_key_with_it(spark: Any) -> None:
    rows = spark.sql("select 'a' k, 5D v, timestamp'9999-12-31' t union all select 'a', 7D, timestamp'2024-01-01'")
    terms: dict[str, Any] = {"key": "k", "columns": "v", "policy": Mean(), "max_age": timedelta(days=1)}
    (row,) = keyed(rows, time="t", shards=2, **terms).collect()
    assert (row.value, row.refused) == (7.0, 1)


def test_a_query_that_does_not_run_or_a_keyring_of_none_cannot_be_finished(site: Site) -> None:
    site.add(k=["a"], v=[1.0])
    terms: dict[str, Any] = {"key": "k", "columns": "v", "policy": Mean(), "retention": 96}
    query = site.start(keyed(site.read("k string, v double"), keyring=site.keyring, shards=1, **terms))
    other = str(site.folder / "other.keyring")
    open_keyring(other, create=True)
    with pytest.raises(StoreError, match="not the keyring of a query"):
        finish(query, other)
    query.stop()
    with pytest.raises(StoreError, match="does not run"):
        finish(query, site.keyring)


def test_a_setting_that_is_changed_before_the_start_is_refused_by_the_tasks(site: Site, spark: Any) -> None:
    site.add(k=["a"], v=[1.0])
    terms: dict[str, Any] = {"key": "k", "columns": "v", "policy": Mean(), "retention": 96}
    made = keyed(site.read("k string, v double"), keyring=site.keyring, shards=1, **terms)
    spark.conf.set("spark.sql.streaming.noDataMicroBatches.enabled", "false")
    query = site.start(made)
    try:
        wait(lambda: query.exception() is not None)
        assert "noDataMicroBatches.enabled=false must be true" in str(query.exception())
    finally:
        query.stop()
        spark.conf.set("spark.sql.streaming.noDataMicroBatches.enabled", "true")
