"""A statistic for each of millions of keys in Spark: rows in, answers out, as a DataFrame, streaming or static.

Keys are spread over shards by their hash, and one call updates all streams of a shard. A streaming query keeps the
shards, sealed, in Spark's own state store; a static one keeps nothing.
Guarantee: for each key the answer is that of one `vestige.Stream` with the same seed, whatever the batches and shards;
held by tests/spark/test_query.py.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from vestige.errors import MissingExtraError, ParameterError
from vestige.policy import Policy
from vestige.random.keys import AuditSeed
from vestige.spark.definition import Definition
from vestige.spark.processor import (
    ANSWERS,
    HAS_KEY,
    IS_REQUEST,
    KEY,
    SUBJECT,
    TIME,
    ShardProcessor,
    make_answers,
    name_order,
    name_value,
    name_whole,
    read_frames,
)
from vestige.spark.settings import check_settings
from vestige.spark.shard import change_shard
from vestige.spark.shard_keys import claim_run
from vestige.store import open_keyring
from vestige.stream.limits import Limits
from vestige.stream.rules import make_rules
from vestige.validation import check_int, show_value
from vestige.whole_numbers import SAFE

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import Column, DataFrame

_SHARD = "shard"
_MOST_SHARDS = 1 << 20
_UNKNOWN = -(2**63)
"""A time that is missing, in microseconds since 1970."""
_WHOLE = ("tinyint", "smallint", "int", "bigint")
_NUMBERS = (*_WHOLE, "float", "double", "boolean")
_SORTABLE = (*_NUMBERS, "string", "date", "timestamp")


def keyed(
    df: DataFrame,
    *,
    key: str,
    columns: str | Sequence[str],
    policy: Policy[Any],
    retention: int | None = None,
    notice: int | None = None,
    max_age: timedelta | None = None,
    max_ahead: timedelta | None = None,
    lateness: timedelta | None = None,
    time: str | None = None,
    order_by: str | Sequence[str] = (),
    subject: str | None = None,
    forget: DataFrame | None = None,
    seed: int | AuditSeed | None = None,
    keyring: str | None = None,
    shards: int = 64,
) -> DataFrame:
    """Keep a statistic for each key of a DataFrame: the answers of the keys that a batch has changed.

    Rows of one key are taken in the order of `order_by`, or of `time` where there is none of these; without either they
    come as Spark delivers them, which is not the same each time. Between batches the order is that of the source.

    A streaming query needs the settings of `configure`, a keyring of its own, and a trigger: with
    `trigger(processingTime=...)`, which says how soon keys are destroyed. Its definition claims the keyring, so that a
    query that was defined earlier cannot go on.

    Args:
        df: the rows, streaming or static.
        key: the column with the key of each row: a text or a whole number.
        columns: the columns with the values of a record: numbers.
        policy: decides which records of each stream are kept, and answers from them.
        retention: see `vestige.KeyedStreams`.
        notice: see `vestige.KeyedStreams`.
        max_age: age at which a record is erased; see `vestige.Stream`.
        max_ahead: see `vestige.Stream`.
        lateness: see `vestige.Stream`; without it, a row that comes after a later one of its key is refused.
        time: the column with the time of each row, a timestamp; default: none.
        order_by: columns that say the order of the rows of a key within a batch.
        subject: the column with the person or thing that a row is about; default: none.
        forget: subjects whose records are to be removed, in one column, streaming like `df`; a request concerns all
            rows that have come until then, those of its batch included.
        seed: makes the run reproducible; see `vestige.KeyedStreams`.
        keyring: the path or address of a keyring, the same for the driver and all workers; for a streaming query.
        shards: number of shards that keys are spread over: a few for each core of the cluster. It cannot be changed.

    Returns:
        A DataFrame with the columns of `vestige.KeyedEstimates`, where `key` is the stream, and `refused`, the number
        of rows of the key in this batch that could not be taken; `notes` or `problem` say why.

    Raises:
        MissingExtraError: pyspark or pandas is not installed.
        ParameterError: an argument does not fit; or a setting is not what it must be.
        StoreError: the keyring belongs to another query, or cannot be written.

    Example:
        >>> from pyspark.sql import SparkSession
        >>> from vestige import Mean
        >>> from vestige.spark import configure, keyed
        >>> spark = configure(SparkSession.builder.master("local[2]")).getOrCreate()
        >>> visits = spark.createDataFrame([("DE", 1.0), ("FR", 5.0), ("DE", 3.0)], "country string, spent double")
        >>> means = keyed(visits, key="country", columns="spent", policy=Mean(), retention=96, shards=2)
        >>> sorted((row.key, row.metric, row.value, row.counted) for row in means.collect())
        [('DE', 'spent', 2.0, 2), ('FR', 'spent', 5.0, 1)]
    """
    _check_packages()
    named = _order_columns((columns,) if isinstance(columns, str) else tuple(columns), policy)
    order = (order_by,) if isinstance(order_by, str) else tuple(order_by)
    order = order or (() if time is None else (time,))
    limits = Limits(retention, notice, max_age, max_ahead, lateness)
    shards = check_int("shards", shards, 1, _MOST_SHARDS)
    _check_columns(df, key, named, policy, time, order, subject, forget)
    has_subjects = subject is not None or forget is not None
    definition = Definition(policy, limits, seed, key, named, shards, time is not None, has_subjects, len(order))
    make_rules(policy, limits, seed)  # which refuse limits that the policy cannot work with
    rows = _make_rows(df, definition, time, order, subject)
    if forget is not None:
        rows = _add_requests(rows, forget, shards)
    return _run(df, definition, rows, keyring)


def _run(df: DataFrame, definition: Definition, rows: DataFrame, keyring: str | None) -> DataFrame:
    if not df.isStreaming:
        if keyring is not None:
            raise ParameterError("keyring has no use for a static DataFrame, of which nothing is kept; leave it out")

        def answer(frame: pd.DataFrame) -> pd.DataFrame:
            taken, asked = read_frames(definition, [frame])
            return make_answers(definition, change_shard(definition, None, taken, subjects=asked))

        return rows.groupBy(_SHARD).applyInPandas(answer, ANSWERS)
    if keyring is None:
        raise ParameterError(
            "keyring=None: the state of a streaming query lies in files that nobody overwrites, so it is sealed; pass "
            "the keyring of the query, and make it with vestige keyring init"
        )
    check_settings(df.sparkSession)
    opened = open_keyring(keyring)
    run = claim_run(opened, definition.digest, definition.shards)
    processor: Any = ShardProcessor(definition, opened.where, run)  # workers have another current folder
    grouped: Any = _add_ticks(rows).groupBy(_SHARD)
    made: DataFrame = grouped.transformWithStateInPandas(processor, ANSWERS, "Update", "ProcessingTime")
    return made


def _order_columns(columns: tuple[str, ...], policy: Policy[Any]) -> tuple[str, ...]:
    """The columns in the order in which a policy that names its own takes them."""
    names = policy.unwrap().column_names
    doubled = [name for name, count in Counter(columns).items() if count > 1]
    if doubled:
        raise ParameterError(f"columns has {show_value(doubled[0])} more than once; name each column once")
    if names and sorted(names) != sorted(columns):
        raise ParameterError(
            f"columns={show_value(list(columns))} are not those of the policy; name {', '.join(map(repr, names))}"
        )
    return names or columns


def _check_packages() -> None:
    try:
        import pandas  # noqa: F401, PLC0415
        import pyspark  # noqa: F401, PLC0415
    except ModuleNotFoundError:
        raise MissingExtraError("vestige.spark", "spark") from None


def _check_columns(
    df: DataFrame,
    key: str,
    columns: Sequence[str],
    policy: Policy[Any],
    time: str | None,
    order: Sequence[str],
    subject: str | None,
    forget: DataFrame | None,
) -> None:
    """Check that the columns are there, and of kinds that can be taken."""
    kinds = dict(df.dtypes)
    counts = Counter(df.columns)
    wanted = [("key", key), *(("columns", each) for each in columns), *(("order_by", each) for each in order)]
    wanted += [(name, each) for name, each in (("time", time), ("subject", subject)) if each is not None]
    for parameter, name in wanted:
        if name not in kinds:
            raise ParameterError(f"{parameter}={show_value(name)} is not a column; there are {', '.join(kinds)}")
        if counts[name] > 1:
            raise ParameterError(f"{parameter}={show_value(name)} is the name of {counts[name]} columns; rename them")
    if kinds[key] not in (*_WHOLE, "string"):
        raise ParameterError(f"key={key!r} is of the type {kinds[key]}; use texts or whole numbers, or cast it")
    for name in columns:
        if kinds[name] not in _NUMBERS and not kinds[name].startswith("decimal"):
            raise ParameterError(f"columns has {name!r} of the type {kinds[name]}; use numbers, or cast it")
    for name in order:
        if kinds[name] not in _SORTABLE:
            raise ParameterError(f"order_by has {name!r} of the type {kinds[name]}; use {', '.join(_SORTABLE)}")
    if policy.columns != len(columns):
        raise ParameterError(
            f"columns has {len(columns)} names, and the policy takes records of {policy.columns} values; name as many"
        )
    if time is not None and kinds[time] != "timestamp":
        raise ParameterError(f"time={time!r} is of the type {kinds[time]}; use a timestamp, or cast it")
    _refuse_floats("subject", kinds.get(subject or ""))
    if forget is not None:
        _refuse_floats("forget", forget.dtypes[0][1] if forget.dtypes else None)
    if forget is not None and (len(forget.columns) != 1 or subject is None or forget.isStreaming != df.isStreaming):
        raise ParameterError(
            "forget needs one column of subjects, subject=... for the rows, and must be streaming if the rows are"
        )


def _refuse_floats(parameter: str, kind: str | None) -> None:
    """Refuse floats as subjects: two whole numbers may be one of them, and its text has several forms."""
    if kind in ("float", "double"):
        raise ParameterError(f"{parameter} is a column of the type {kind}; use texts or whole numbers, or cast it")


def _make_rows(
    df: DataFrame, definition: Definition, time: str | None, order: Sequence[str], subject: str | None
) -> DataFrame:
    """The rows as workers get them."""
    from pyspark.sql import functions as F  # noqa: N812, PLC0415

    kinds = dict(df.dtypes)
    is_whole = kinds[definition.key] in _WHOLE
    named = _find_column(df, definition.key)
    key = named.cast("bigint") if is_whole else F.try_validate_utf8(named)  # what is no text becomes no key
    shard = F.coalesce(F.pmod(F.xxhash64(key), F.lit(definition.shards)).cast("int"), F.lit(0))
    chosen = [shard.alias(_SHARD), (F.coalesce(key, F.lit(0)) if is_whole else key).alias(KEY)]
    chosen += [key.isNotNull().alias(HAS_KEY)] if is_whole else []
    for i, name in enumerate(definition.columns):
        chosen.append(_find_column(df, name).cast("double").alias(name_value(i)))
        if kinds[name] == "bigint" or kinds[name].startswith("decimal"):  # whole numbers that pandas would make floats
            column = _find_column(df, name)
            is_wide = (column > F.lit(SAFE)) | (column < F.lit(-SAFE))
            chosen.append(F.when(is_wide, column.cast("string")).alias(name_whole(i)))
    if time is not None:
        chosen.append(_make_sortable(df, time).alias(TIME))
    if definition.has_subjects:
        who = F.lit(None).cast("string") if subject is None else _make_text(_find_column(df, subject))
        chosen.append(who.alias(SUBJECT))
    chosen += [_make_sortable(df, name).alias(name_order(i)) for i, name in enumerate(order)]
    return df.select(*chosen)


def _find_column(df: DataFrame, name: str) -> Column:
    """A column by its name, in which a dot or a backtick has no meaning."""
    return df["`" + name.replace("`", "``") + "`"]


def _make_text(column: Column) -> Column:
    """A column as texts that workers can read: Spark takes any bytes for a text, such as those that Kafka delivers."""
    from pyspark.sql import functions as F  # noqa: N812, PLC0415

    return F.make_valid_utf8(column.cast("string"))


def _make_sortable(df: DataFrame, name: str) -> Column:
    """A column of the order: times as numbers, since pandas has no years beyond 2262.

    What is missing comes first; among fractions it comes last, since it is not a number there.
    """
    from pyspark.sql import functions as F  # noqa: N812, PLC0415

    kind, column = dict(df.dtypes)[name], _find_column(df, name)
    if kind == "timestamp":
        return F.coalesce(F.unix_micros(column), F.lit(_UNKNOWN))
    if kind == "date":
        return F.coalesce(F.unix_date(column).cast("bigint"), F.lit(_UNKNOWN))
    if kind == "string":
        return _make_text(column)
    return F.coalesce(column.cast("bigint"), F.lit(_UNKNOWN)) if kind in _WHOLE else column


def _add_ticks(rows: DataFrame) -> DataFrame:
    """The rows, and a source that has something new each second, of which nothing is left.

    Spark runs batches without rows, and with them timers, only after one that was run since the query was started.
    """
    from pyspark.sql import functions as F  # noqa: N812, PLC0415

    ticks = rows.sparkSession.readStream.format("rate").options(rowsPerSecond=1, numPartitions=1).load()
    blank = [F.lit(None).cast(kind).alias(name) for name, kind in rows.dtypes]
    return rows.unionByName(ticks.where(F.lit(False)).select(*blank))


def _add_requests(rows: DataFrame, forget: DataFrame, shards: int) -> DataFrame:
    """The rows, and requests as rows of every shard."""
    from pyspark.sql import functions as F  # noqa: N812, PLC0415

    subject = _make_text(_find_column(forget, forget.columns[0]))
    blanks = {"bigint": F.lit(0), "boolean": F.lit(False)}
    every = F.explode(F.sequence(F.lit(0), F.lit(shards - 1))).alias(_SHARD)
    others = [(name, kind) for name, kind in rows.dtypes if name not in (_SHARD, SUBJECT)]
    blank = [blanks.get(kind, F.lit(None)).cast(kind).alias(name) for name, kind in others]
    asked = forget.where(subject.isNotNull()).select(every, subject.alias(SUBJECT), *blank)
    return rows.withColumn(IS_REQUEST, F.lit(False)).unionByName(asked.withColumn(IS_REQUEST, F.lit(True)))
