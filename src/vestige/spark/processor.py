"""What Spark runs for each shard of each batch: it has the state in a value of bytes, sealed, and no other memory.

`transformWithStateInPandas` calls these methods; their names are Spark's. A shard that has had rows is called by a
timer in the next batch, so that the keys of what it replaced are destroyed, and again when something in it is due.
Guarantee: what is held in the state store opens with today's keyring only; held by tests/spark/test_query.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from vestige.errors import StoreError
from vestige.keyed import KeyedEstimates
from vestige.spark.definition import Definition
from vestige.spark.settings import check_task_settings
from vestige.spark.shard import Change, Rows, change_shard
from vestige.spark.shard_keys import ShardKeys, open_worker_keyring
from vestige.whole_numbers import parse_number, stack_columns

if TYPE_CHECKING:
    import pandas as pd

BATCH = "streaming.sql.batchId"
"""The local property of a task that says which batch it is for."""
ANSWERS = (
    "key string, metric string, value double, standard_error double, lower double, upper double, since long, "
    "counted long, held long, t long, as_of long, missed boolean, notes string, problem string, refused long"
)
"""The columns of the answers; see `vestige.KeyedEstimates`."""
KEY, HAS_KEY, TIME, SUBJECT, IS_REQUEST = "key", "has_key", "time", "subject", "is_request"
"""Columns of the rows as workers get them, besides the values and the order. None of them is a whole number that may be
missing: pandas would make floats of these."""
_MILLISECOND = 1_000  # microseconds


def name_value(column: int) -> str:
    """Name a column of values as workers get it.

    Args:
        column: which of them, from 0 on.

    Returns:
        The name.
    """
    return f"value{column}"


def name_whole(column: int) -> str:
    """Name the column of the whole numbers of a column of values that floats do not hold; see `name_value`."""
    return f"whole{column}"


def name_order(column: int) -> str:
    """Name a column of the order as workers get it; see `name_value`."""
    return f"order{column}"


def read_frames(definition: Definition, frames: Iterable[pd.DataFrame]) -> tuple[Rows | None, list[str]]:
    """Read the rows of a shard.

    Args:
        definition: what the streams are.
        frames: the rows as workers get them.

    Returns:
        The rows, None if there are none; and the subjects whose removal is requested.
    """
    parts = [frame for frame in frames if len(frame)]
    if not parts:
        return None, []
    columns = {name: np.concatenate([part[name].to_numpy() for part in parts]) for name in parts[0]}
    asked = list[str]()
    if IS_REQUEST in columns:
        is_request = columns[IS_REQUEST].astype(np.bool_)
        asked = [str(each) for each in columns[SUBJECT][is_request]]
        columns = {name: column[~is_request] for name, column in columns.items()}
    keys = columns[KEY]
    if not len(keys):
        return None, asked
    if HAS_KEY in columns and not columns[HAS_KEY].all():
        keys = keys.astype(str).astype(np.object_)
        keys[~columns[HAS_KEY].astype(np.bool_)] = None
    values = [_read_values(columns, i) for i in range(len(definition.columns))]
    rows = Rows(
        keys,
        stack_columns(values),
        columns[TIME].astype(np.int64) if definition.has_times else None,
        _read_texts(columns[SUBJECT]) if definition.has_subjects else None,
        [_rank(columns[name_order(i)]) for i in range(definition.order)],
    )
    return rows, asked


def _read_values(columns: Mapping[str, NDArray[Any]], place: int) -> NDArray[Any]:
    """A column of values; as objects if some of them are whole numbers beyond 2^53, which come as texts."""
    floats = columns[name_value(place)].astype(np.float64)
    texts = columns.get(name_whole(place))
    if texts is None:
        return floats
    found = [row for row, text in enumerate(texts) if isinstance(text, str)]
    if not found:
        return floats
    values = floats.astype(np.object_)
    for row in found:
        values[row] = parse_number(texts[row])
    return values


def _read_texts(column: NDArray[Any]) -> NDArray[np.object_]:
    return np.array([each if isinstance(each, str) else None for each in column], np.object_)


def _rank(column: NDArray[Any]) -> NDArray[Any]:
    """A column that numpy can sort; a text that is missing comes first."""
    if column.dtype.kind in "iufb":
        return column
    return np.unique(np.array(["" if each is None else str(each) for each in column]), return_inverse=True)[1]


def make_answers(definition: Definition, change: Change) -> pd.DataFrame:
    """Make the answers of a shard, with what was refused.

    Args:
        definition: what the streams are.
        change: what the batch has made of the shard.

    Returns:
        A frame with the columns of `ANSWERS`.
    """
    frame = change.answers.to_pandas().rename(columns={"stream": KEY})
    plain = {str(number): name for number, name in enumerate(definition.columns, 1)}
    if definition.policy.columns == len(plain):
        frame["metric"] = frame["metric"].map(lambda metric: plain.get(metric, metric))
    frame["refused"] = 0
    if change.problems:
        frame = _add_problems(frame, change)
    return frame[[column.split()[0] for column in ANSWERS.split(", ")]]


def _add_problems(frame: pd.DataFrame, change: Change) -> pd.DataFrame:
    """Say of each key what was refused or has failed, also of one that has no answer or whose answer is the same."""
    import pandas as pd  # noqa: PLC0415  # an extra

    frame["refused"] = [change.refused.get(key, 0) for key in frame[KEY]]
    notes = [
        " ".join(part for part in (note, change.problems.get(key)) if isinstance(part, str))
        for key, note in zip(frame[KEY], frame["notes"], strict=True)
    ]
    frame["notes"] = [note or None for note in notes]
    answered = {*frame[KEY]}
    others = [{"stream": key, "problem": change.problems.get(key)} for key in change.problems if key not in answered]
    if not others:
        return frame
    more = KeyedEstimates.from_rows(others).to_pandas().rename(columns={"stream": KEY})
    more["refused"] = [change.refused.get(key, 0) for key in change.problems if key not in answered]
    return pd.concat([frame, more], ignore_index=True) if len(frame) else more


@dataclass
class ShardProcessor:
    """A stateful processor of Spark; all methods are called by it.

    Attributes:
        definition: what the streams are.
        keyring: the address of the keyring, as workers reach it.
        run: the number of the run; see `vestige.spark.shard_keys`.
    """

    definition: Definition
    keyring: str
    run: int

    def init(self, handle: Any) -> None:
        """Begin a task."""
        self._handle, self._called = handle, set[int]()
        self._state = handle.getValueState("streams", "sealed binary")

    def handleInputRows(self, key: Any, rows: Iterator[pd.DataFrame], timerValues: Any) -> Iterator[pd.DataFrame]:  # noqa: N802, N803
        """Let a shard take the rows of a batch."""
        now = timerValues.getCurrentProcessingTimeInMs()
        yield self._change(int(key[0]), now, *read_frames(self.definition, rows))

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[pd.DataFrame]:  # noqa: ARG002, N802, N803
        """Let a shard erase what is due; one that had rows in this batch has done so, and is written only once."""
        shard = int(key[0])
        if shard not in self._called:
            yield self._change(shard, timerValues.getCurrentProcessingTimeInMs(), None, [])

    def close(self) -> None:
        """End a task."""

    def _change(self, shard: int, now: int, rows: Rows | None, subjects: Sequence[str]) -> pd.DataFrame:
        from pyspark import TaskContext  # noqa: PLC0415  # an extra

        self._called.add(shard)
        context = TaskContext.get()
        batch = None if context is None else context.getLocalProperty(BATCH)
        if context is None or batch is None:
            raise StoreError("Spark does not say which batch this is; use PySpark 4.1 or later")
        check_task_settings(context.getLocalProperty)
        keyring = open_worker_keyring(self.keyring)
        keys = ShardKeys(keyring, self.run, int(batch), shard, context.taskAttemptId())
        found = self._state.get()
        packed, secret = keys.open(None if found is None else bytes(found[0]))
        at = now * _MILLISECOND
        change = change_shard(self.definition, packed, rows, subjects=subjects, now=at, secret=secret)
        if change.packed is not None:
            self._state.update((keys.seal(change.packed),))
        self._set_timer(now, change)
        return make_answers(self.definition, change)

    def _set_timer(self, now: int, change: Change) -> None:
        """Have the shard called once it has something to do, and by no other timer."""
        wanted = None if change.due is None else max(-(-change.due // _MILLISECOND), now + 1)
        if change.packed is not None:
            wanted = now + 1
        known = list(self._handle.listTimers())
        for each in known:
            if each not in (wanted, now) and each > now:  # Spark deletes what has expired
                self._handle.deleteTimer(each)
        if wanted is not None and wanted not in known:
            self._handle.registerTimer(wanted)
