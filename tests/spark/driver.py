"""The driver of a query that a test kills: `driver.py MASTER FOLDER`; the answers of a batch replace its own."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from vestige import Mean
from vestige.spark import configure, finish, keyed


def main(master: str, folder: Path) -> None:
    """Run the query until all files are read and nothing is left to be destroyed."""
    settings = {
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.local.dir": str(folder / "local"),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.executor.memory": "600m",
        "spark.cores.max": "2",
        "spark.executor.cores": "1",
        "spark.executorEnv.PYTHONPATH": os.environ.get("PYTHONPATH", ""),
        "spark.executorEnv.NUMBA_CACHE_DIR": os.environ.get("NUMBA_CACHE_DIR", ""),
        "spark.network.timeout": "60s",
        "spark.task.maxFailures": "20",
        "spark.stage.maxConsecutiveAttempts": "20",
        "spark.excludeOnFailure.enabled": "false",
    }
    builder = configure(SparkSession.builder.master(master).appName("victim"))
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    rows = spark.readStream.schema("k long, v double, n long").option("maxFilesPerTrigger", 1)
    keyring = str(folder / "q.keyring")
    made = keyed(
        rows.parquet(str(folder / "in")),
        key="k",
        columns="v",
        policy=Mean(),
        retention=96,
        order_by="n",
        seed=7,
        keyring=keyring,
        shards=4,
    )

    def keep(batch: Any, number: int) -> None:
        draft = folder / "draft"
        batch.toPandas().to_json(draft, orient="records", double_precision=15)
        draft.rename(folder / "out" / f"{number:06}.json")

    query = made.writeStream.outputMode("update").foreachBatch(keep)
    query = query.option("checkpointLocation", str(folder / "checkpoint")).trigger(processingTime="0.2 seconds")
    finish(query.start(), keyring, patience=3_000.0)
    (folder / "done").touch()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
