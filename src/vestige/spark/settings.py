"""The settings of Spark on which erasure depends: set when a session is built, and asserted in every query and task.

Shuffles and spills hold rows in clear unless they are encrypted; a second attempt beside the first (speculation) would
be waste; the names of state files must tell attempts from each other (format 2), so that one that comes late overwrites
nothing; and quiet keys are erased by batches without rows.
Guarantee: a session with another value is refused with the setting, its value and what it must be; held by
tests/spark/test_settings.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from vestige.errors import ParameterError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PROVIDER = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
FIXED = {
    "spark.io.encryption.enabled": "true",
    "spark.speculation": "false",
    "spark.eventLog.enabled": "false",
}
"""Settings of an application, which cannot change once it runs."""
CHANGING = {
    "spark.sql.streaming.stateStore.providerClass": _PROVIDER,
    "spark.sql.streaming.stateStore.checkpointFormatVersion": "2",
    "spark.sql.streaming.noDataMicroBatches.enabled": "true",
}
"""Settings of a session, which are asserted again in each task."""
ADVISED = {
    "spark.sql.streaming.minBatchesToRetain": "2",
    "spark.sql.streaming.stateStore.maintenanceInterval": "10s",
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    "spark.sql.streaming.ratioExtraSpaceAllowedInCheckpoint": "0",
    "spark.io.encryption.keySizeBits": "256",
}
"""Settings that keep little of what cannot be opened any more, and that only `configure` sets."""


def configure(builder: Any) -> Any:
    """Set what erasure depends on, and what goes well with it, on the builder of a session.

    Args:
        builder: what `SparkSession.builder` is.

    Returns:
        The same builder.

    Example:
        >>> from pyspark.sql import SparkSession
        >>> from vestige.spark import configure
        >>> spark = configure(SparkSession.builder.master("local[2]")).getOrCreate()
        >>> spark.conf.get("spark.sql.streaming.stateStore.checkpointFormatVersion")
        '2'
    """
    for name, value in (FIXED | CHANGING | ADVISED).items():
        builder.config(name, value)
    return builder


def check_settings(session: SparkSession) -> None:
    """Check the settings of a session.

    Args:
        session: the session.

    Raises:
        ParameterError: one of them is not what it must be.
    """
    known = dict(session.sparkContext.getConf().getAll())
    for name, wanted in FIXED.items():
        _check(name, known.get(name, "false"), wanted, "the session that runs has to be stopped first")
    for name, wanted in CHANGING.items():
        _check(name, session.conf.get(name, None), wanted, "or set it with spark.conf.set")


def check_task_settings(read: Callable[[str], str | None]) -> None:
    """Check the settings of a query as its tasks have them.

    Args:
        read: reads a local property of a task.

    Raises:
        ParameterError: one of them is not what it must be.
    """
    for name, wanted in CHANGING.items():
        found = read(name)
        if found is not None:  # what was not set is the default, and was checked with the session
            _check(name, found, wanted, "or set it with spark.conf.set")


def _check(name: str, found: str | None, wanted: str, remedy: str) -> None:
    if found is None or found.lower() != wanted.lower():
        raise ParameterError(
            f"{name}={found} must be {wanted} for records to be erased; build the session with "
            f"vestige.spark.configure(SparkSession.builder); {remedy}"
        )
