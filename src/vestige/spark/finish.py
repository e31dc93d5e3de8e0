"""The end of a query: nothing is new, and no key is left but that of the state that each shard has.

A query whose shards are called by timers runs on without rows, so that `availableNow` never ends; this ends it.
Guarantee: when it returns, what was replaced or was due can be opened no more; held by tests/spark/test_query.py.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from vestige.errors import StoreError
from vestige.spark.shard_keys import find_unsettled
from vestige.store import open_keyring
from vestige.store.opener import OWNER
from vestige.validation import check_float

if TYPE_CHECKING:
    from pyspark.sql.streaming import StreamingQuery

_TICKS = "RateStream"
"""How Spark describes the source that always has something new; see `vestige.spark.queries`."""
_PAUSE = 0.2
"""Seconds between two looks at the keyring."""


def finish(query: StreamingQuery, keyring: str, *, patience: float = 600.0) -> None:
    """Stop a query once it has read all that its sources have, and has destroyed the keys of what it has replaced.

    Args:
        query: the query, which runs.
        keyring: the address of its keyring.
        patience: seconds to wait.

    Raises:
        StoreError: there was more to do when the time was over, and the query runs on; or it does not run; or the
            keyring is not that of a query.

    Example:
        >>> finish(None, "visits.keyring", patience=-1.0)
        Traceback (most recent call last):
        vestige.errors.ParameterError: patience=-1.0 is out of range; use a number of seconds from 0 up
    """
    check_float("patience", patience, lambda n: n >= 0.0, "a number of seconds from 0 up")
    opened, until, known = open_keyring(keyring), time.monotonic() + patience, None
    if not opened.read().find(OWNER):
        raise StoreError(f"{opened.where}: is not the keyring of a query; give the one that the query was defined with")
    while known is None or not _has_read_all(query, known) or find_unsettled(opened.read()):
        known = _find_batch(query) if known is None else known
        if (problem := query.exception()) is not None:
            raise problem
        if not query.isActive:
            raise StoreError(
                f"{opened.where}: the query does not run, so nothing destroys the keys of what it has replaced; start "
                "it again, then call this"
            )
        if time.monotonic() > until:
            raise StoreError(
                f"{opened.where}: {patience:g} seconds were not enough for the query to read all rows and to destroy "
                f"the keys of all states that were replaced ({len(find_unsettled(opened.read())):,} are left); it runs "
                "on: call this again, or look at its log"
            )
        time.sleep(_PAUSE)
    query.stop()


def _find_batch(query: StreamingQuery) -> int | None:
    """The batch that has ended last since the query was started; None if none has."""
    progress = query.lastProgress
    return None if progress is None else int(progress["batchId"])


def _has_read_all(query: StreamingQuery, known: int) -> bool:
    """Whether a batch that was planned after the one that followed a known one has found nothing new.

    `processAllAvailable` does not return for a query that has batches without rows all the time.
    """
    progress = query.lastProgress
    if progress is None or int(progress["batchId"]) < known + 2:
        return False
    sources = [source for source in progress["sources"] if not source["description"].startswith(_TICKS)]
    return all(source["startOffset"] == source["endOffset"] for source in sources)
