"""Frames and tables: all columns in their order, names kept, and then columns by their names."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from click.testing import CliRunner

from vestige import (
    Batched,
    Bundle,
    Covariance,
    DataError,
    Mean,
    MissingExtraError,
    Moments,
    SqliteStore,
    Stream,
    open_store,
)
from vestige.cli import command
from vestige.stream import frames, open_stream

COLUMNS: dict[str, Any] = {"delay": [1.0, 2.0, 3.0], "distance": [10, 20, 30]}


class Polars:
    """What polars offers of a frame: names, columns by these, and numpy's protocol."""

    columns = (*COLUMNS,)

    def __getitem__(self, name: str) -> Any:
        return np.array(COLUMNS[name])

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return np.column_stack(list(COLUMNS.values()))


class Query:
    """What a database offers of a result: Arrow's stream, and nothing else."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return pa.table(COLUMNS).__arrow_c_stream__(requested_schema)


FRAMES = {
    "pandas": pd.DataFrame(COLUMNS),
    "pandas with nulls of its own": pd.DataFrame(COLUMNS).convert_dtypes(),
    "Arrow table": pa.table(COLUMNS),
    "Arrow batch": pa.table(COLUMNS).to_batches()[0],
    "polars": Polars(),
}


@pytest.mark.parametrize("kind", FRAMES)
def test_columns_are_taken_in_their_order_with_their_names(kind: str) -> None:
    stream = Stream(Mean(2), retention=256, seed=0)
    assert not stream.column_names
    assert stream.extend(FRAMES[kind]) == 3
    assert stream.column_names == ("delay", "distance")
    assert stream.retained.values.tolist() == [[1.0, 10.0], [2.0, 20.0], [3.0, 30.0]]
    estimate = stream.estimate()
    assert estimate.labels == ("delay", "distance")
    assert [row["metric"] for row in estimate.to_rows()] == ["delay", "distance"]


def test_what_only_has_arrows_stream_is_opened_by_pyarrow(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = Stream(Mean(2), retention=256, seed=0)
    stream.extend(Query())  # type: ignore[arg-type]
    assert stream.retained.values.tolist() == [[1.0, 10.0], [2.0, 20.0], [3.0, 30.0]]
    monkeypatch.setattr(frames, "import_module", lambda name: (_ for _ in ()).throw(ModuleNotFoundError(name)))
    with pytest.raises(MissingExtraError, match="needs the 'cli' extra"):
        stream.extend(Query())  # type: ignore[arg-type]


def test_one_column_of_arrows_stream_is_iterated_over() -> None:
    class Column(list[float]):
        def __arrow_c_stream__(self, requested_schema: object = None) -> object:
            return pa.chunked_array([self]).__arrow_c_stream__(requested_schema)

    stream = Stream(Mean(), retention=96)
    assert stream.extend(Column([1.0, 2.0])) == 2
    assert stream.retained.values.tolist() == [[1.0], [2.0]]


@pytest.mark.parametrize(
    "column", [pd.Series([1, 2, 3], name="delay"), pd.DataFrame({"delay": [1, 2, 3]}), pa.table({"delay": [1, 2, 3]})]
)
def test_one_column_keeps_its_name(column: Any) -> None:
    stream, batched = Stream(Mean(), retention=96), Batched(Mean(), batch=24)
    stream.extend(column)
    assert stream.estimate().labels == ("delay",)
    batched.extend(pd.concat([pd.Series(np.asarray(column).ravel(), name="delay")] * 8))
    assert batched.estimate().labels == ("delay",)


def test_once_names_are_known_columns_are_found_by_them() -> None:
    stream = Stream(Covariance(2), retention=512)
    frame = pd.DataFrame(COLUMNS)
    stream.extend(frame)
    for other in (frame[["distance", "delay"]], frame.assign(carrier="AA"), pa.table(COLUMNS).select([1, 0])):
        assert stream.extend(other) == 3
    stream.extend(frame.to_numpy())
    assert stream.retained.values[:, 0].tolist() == [1.0, 2.0, 3.0] * 5
    with pytest.raises(DataError, match=r"rows has no column 'delay', but 'late', 'distance'; the stream takes"):
        stream.extend(frame.rename(columns={"delay": "late"}))
    assert stream.t == 15
    assert stream.estimate().labels[1] == "delay with distance"


@pytest.mark.parametrize("records", [3, 64])  # some wait for the next update; or the last update was with the last
def test_a_store_keeps_the_names_of_a_frame(tmp_path: Path, records: int) -> None:
    path, frame = tmp_path / "delays.db", pd.DataFrame({"delay": range(records), "distance": 7.0})
    with open_store(path) as store:
        stream = Stream(Mean(2), retention=128, seed=0, store=store.stream("delays"))
        stream.extend(frame)
    for _ in range(2):
        with open_store(path) as store:
            assert open_stream(store, "delays").column_names == ("delay", "distance")
            stream = Stream(Mean(2), retention=128, seed=0, store=store.stream("delays"))
            assert stream.column_names == ("delay", "distance")
            stream.extend(frame[["distance", "delay"]])
            stream.extend(frame.to_numpy())
    said = CliRunner().invoke(command, ["estimate", str(path)]).stdout
    assert "│ delay " in said
    assert "│ distance │    7 │" in said


def test_a_policy_that_names_its_columns_finds_them() -> None:
    policy = Bundle({"distance": Mean(), "delay": [Mean(), Moments(2)]})
    stream = Stream(policy, retention=2_048, seed=0)
    assert stream.column_names == ("distance", "delay")
    frame = pd.DataFrame(COLUMNS | {"carrier": ["AA", "UA", "AA"]})
    frame.loc[1, "delay"] = None
    stream.extend(frame)
    rows = {row["metric"]: (row["value"], row["counted"]) for row in stream.estimate().to_rows()}
    assert rows == {
        "distance:mean": (20.0, 3),
        "delay:mean": (2.0, 2),
        "delay:moments mean": (2.0, 2),
        "delay:moments variance": (1.0, 2),
    }


def test_names_that_are_not_texts_are_not_names() -> None:
    stream = Stream(Mean(2), retention=256)
    stream.extend(pd.DataFrame([[1.0, 2.0]]))
    assert stream.column_names == ()
    with pytest.raises(DataError):
        stream.extend(pd.DataFrame({"delay": [1.0, np.nan], "distance": [1.0, 2.0]}))
    assert stream.column_names == (), "a frame that was not taken has not named anything"


@pytest.mark.parametrize("null", [pd.DataFrame({"a": [1, None]}).convert_dtypes(), pa.table({"a": [1, None]})])
def test_a_null_is_a_missing_value(null: Any) -> None:
    with pytest.raises(DataError, match="row 1 of 2, column 0, is missing"):
        Stream(Mean(), retention=96).extend(null)


@pytest.mark.parametrize("text", [pd.DataFrame({"a": ["secret"]}), pa.table({"a": ["secret"]})])
def test_texts_are_refused_and_not_shown(text: Any) -> None:
    with pytest.raises(DataError, match="column 'a' holds something that is not a number") as refused:
        Stream(Mean(), retention=96).extend(text)
    assert "secret" not in str(refused.value)


def test_times_and_subjects_may_be_columns() -> None:
    at = [datetime(2024, 1, 1, hour) for hour in (1, 2, 3)]
    zoned = pd.Series(at).dt.tz_localize("Europe/Berlin")
    kinds = {
        "pandas": (pd.Series(at), pd.Series(["ada", None, "bob"])),
        "Arrow": (pa.array(at), pa.array(["ada", None, "bob"])),
    }
    for times, subjects in kinds.values():
        stream = Stream(Mean(), retention=96, max_age=timedelta(days=30_000))
        stream.extend([1.0, 2.0, 3.0], times=times, subjects=subjects)
        assert stream.retained.times.tolist() == at
        assert stream.retained.subjects.tolist() == ["ada", None, "bob"]
    stream = Stream(Mean(), retention=96, max_age=timedelta(days=30_000))
    stream.extend([1.0, 2.0, 3.0], times=zoned)
    assert stream.retained.times.tolist() == [moment - timedelta(hours=1) for moment in at]
    with pytest.raises(DataError, match="times is a datetime64"):
        stream.extend([1.0], times=np.datetime64("2024-01-01"))  # type: ignore[arg-type]


def test_a_store_keeps_names_that_it_was_told(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    with SqliteStore(path) as store:
        place = store.stream("flights", about={"columns": ["delay", "distance"]})
        stream = Stream(Mean(2), retention=256, store=place)
        stream.extend(pd.DataFrame(COLUMNS)[["distance", "delay"]])
        assert stream.retained.values[0].tolist() == [1.0, 10.0]
    with SqliteStore(path) as store:
        assert open_stream(store, "flights").estimate().labels == ("delay", "distance")


def test_records_that_a_task_awaits_arrive_in_order(tmp_path: Path) -> None:
    async def fill(stream: Stream) -> None:
        for i in range(100):
            assert await stream.apush(float(i), subject=f"p{i}")
        assert await stream.aextend(pd.Series(np.arange(100.0, 200.0), name="minute")) == 100

    with SqliteStore(tmp_path / "a.db") as store:
        stream = Stream(Mean(), retention=96, seed=0, store=store.stream("a"))
        asyncio.run(fill(stream))
        alone = Stream(Mean(), retention=96, seed=0)
        alone.extend(np.arange(200.0))
        assert stream.estimate().value == pytest.approx(alone.estimate().value)
        assert stream.retained.rounds.tolist()[-4:] == [197, 198, 199, 200]
        assert stream.estimate().labels == (), "those that were pushed had no name"


def test_tasks_beside_each_other_lose_nothing() -> None:
    stream = Stream(Mean(), retention=96, seed=0)

    async def fill() -> None:
        await asyncio.gather(*(stream.apush(float(i)) for i in range(300)))
        with pytest.raises(DataError, match="not a number"):
            await stream.apush("many")

    asyncio.run(fill())
    assert stream.t == 300
    assert stream.estimate().value == pytest.approx(149.5, abs=0.2)


class Lazy:
    """What a LazyFrame of polars offers: the means to collect it."""

    def collect_schema(self) -> None: ...


@pytest.mark.parametrize(
    "values",
    [
        ["ok", "failed"],
        pd.Series(["ok", None]),
        pd.Categorical(["a", "b"]),
        pd.to_datetime(["2024-01-01", "2024-01-02"]),
    ],
)
def test_a_column_that_does_not_hold_numbers_is_named(values: Any) -> None:
    frame = pd.DataFrame({"amount": [1.0, 2.0], "status": values})
    table = pa.Table.from_pandas(frame)
    bundle = Bundle({"status": Mean(), "amount": Mean()})
    for policy, rows in ((Mean(2), frame), (bundle, frame), (Mean(2), table), (Mean(), frame["status"])):
        stream = Stream(policy, retention=400, seed=0)
        with pytest.raises(
            DataError, match=r"column 'status' holds something that is not a number; leave it out"
        ) as told:
            stream.extend(rows)
        assert "failed" not in str(told.value)
        assert stream.t == 0
    stream = Stream(Bundle({"amount": Mean()}), retention=400, seed=0)
    assert stream.extend(frame) == 2


def test_numbers_as_objects_are_still_taken() -> None:
    stream = Stream(Bundle({"amount": Mean()}), retention=400, seed=0)
    assert stream.extend(pd.DataFrame({"amount": pd.Series([1, None, 2.5], dtype=object)})) == 3


def test_a_lazy_frame_is_to_be_collected() -> None:
    with pytest.raises(DataError, match=r"rows is a LazyFrame, which has no rows yet; collect it first"):
        Stream(Mean(), retention=400).extend(Lazy())  # type: ignore[arg-type]
