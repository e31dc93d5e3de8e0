"""Columns go by their names in every way in: swapped ones are put right, missing and doubled ones refused by name."""

from __future__ import annotations

import asyncio
import json
from collections import namedtuple
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import parquet

from vestige import (
    Batched,
    Bundle,
    Covariance,
    DataError,
    Histogram,
    KeyedStreams,
    LinearRegression,
    LogisticRegression,
    Mean,
    Stream,
    open_store,
)
from vestige.errors import ParameterError, SourceError
from vestige.ingest import Ingest
from vestige.ingest.names import StreamNames
from vestige.planning import plan
from vestige.service.bodies import ARROW, JSON, NDJSON, read_body
from vestige.service.problems import RefusalError
from vestige.sources import FileSource
from vestige.sources.columns import Columns
from vestige.sources.entries import read_entries
from vestige.stream.arrivals import read_sample

Row = namedtuple("Row", ["delay", "distance"])
Swapped = namedtuple("Swapped", ["distance", "delay"])
N = 300
DATA = {"delay": np.arange(N) * 1.0, "distance": 1e6 + np.arange(N)}
RIGHT = pd.DataFrame(DATA)
SWAPPED = RIGHT[["distance", "delay"]]
EXTRA = RIGHT.assign(carrier="AA")[["carrier", "distance", "delay"]]
MEANS = [149.5, 1e6 + 149.5]


def _pack_structure(frame: pd.DataFrame) -> Any:
    made = np.zeros(
        len(frame), [(name, float if pd.api.types.is_numeric_dtype(frame[name]) else object) for name in frame]
    )
    for name in frame:
        made[name] = frame[name]
    return made


def _list_series(frame: pd.DataFrame) -> list[pd.Series]:
    return [row for _, row in frame.iterrows()]


FORMS: dict[str, Callable[[pd.DataFrame], Any]] = {
    "pandas": lambda frame: frame,
    "pandas with nulls of its own": lambda frame: frame.convert_dtypes(),
    "Arrow table": lambda frame: pa.Table.from_pandas(frame, preserve_index=False),
    "Arrow batch": lambda frame: pa.RecordBatch.from_pandas(frame, preserve_index=False),
    "dict of arrays": lambda frame: {name: frame[name].to_numpy() for name in frame},
    "dict of lists": lambda frame: frame.to_dict("list"),
    "structured array": _pack_structure,
    "dicts": lambda frame: frame.to_dict("records"),
    "a generator of dicts": lambda frame: (row for row in frame.to_dict("records")),
    "series": _list_series,
    "named tuples": lambda frame: list(frame.itertuples(index=False)),
}


def extend_stream(form: Callable[[pd.DataFrame], Any], *frames: pd.DataFrame) -> Any:
    stream = Stream(Covariance(2), retention=512, seed=0)
    for frame in frames:
        stream.extend(form(frame))
    return stream.estimate()


def push_rows(form: Callable[[pd.DataFrame], Any], *frames: pd.DataFrame) -> Any:
    stream = Stream(Covariance(2), retention=512, seed=0)
    for frame in frames:
        made = form(frame)
        for row in made if isinstance(made, list) else _list_series(frame):
            stream.push(row)
    return stream.estimate()


def extend_keyed(form: Callable[[pd.DataFrame], Any], *frames: pd.DataFrame) -> Any:
    streams = KeyedStreams(Covariance(2), retention=512, seed=0)
    for frame in frames:
        streams.extend(["a"] * len(frame), form(frame))
    return streams.estimate("a")


def take_keyed(form: Callable[[pd.DataFrame], Any], *frames: pd.DataFrame) -> Any:
    streams = KeyedStreams(Covariance(2), retention=512, seed=0)
    for frame in frames:
        streams.take(["a"] * len(frame), form(frame))
    return streams.estimate("a")


def extend_batched(form: Callable[[pd.DataFrame], Any], *frames: pd.DataFrame) -> Any:
    batched = Batched(Covariance(2), batch=N)
    for frame in frames:
        batched.extend(form(frame))
    return batched.estimate()


WAYS = {way.__name__: way for way in (extend_stream, push_rows, extend_keyed, take_keyed, extend_batched)}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("way", WAYS)
def test_swapped_columns_are_put_right_and_others_left_out(way: str, form: str) -> None:
    take, pack = WAYS[way], FORMS[form]
    for frame in (RIGHT, SWAPPED, EXTRA):
        made = take(pack, RIGHT, frame)
        assert made.mean.tolist() == pytest.approx(MEANS), "as if all had come in the first order"
        assert made.column_names == ("delay", "distance")


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("way", WAYS)
def test_what_is_missing_is_refused_by_its_name(way: str, form: str) -> None:
    late = RIGHT.rename(columns={"delay": "late"})
    with pytest.raises(DataError, match=r"no (column|value of the name) 'delay'|no value .*'delay'"):
        WAYS[way](FORMS[form], RIGHT, late)
    with pytest.raises(DataError, match="'distance'"):
        WAYS[way](FORMS[form], RIGHT, RIGHT[["delay"]])


@pytest.mark.parametrize("form", ["pandas", "Arrow table", "series"])
@pytest.mark.parametrize("way", WAYS)
def test_two_columns_of_one_name_are_refused(way: str, form: str) -> None:
    doubled = pd.concat([RIGHT, RIGHT[["delay"]]], axis=1)
    pack = (
        FORMS[form]
        if form != "Arrow table"
        else lambda frame: pa.table(
            [pa.array(frame.iloc[:, i]) for i in range(frame.shape[1])], names=list(frame.columns)
        )
    )
    for frames in ([RIGHT, doubled], [doubled[["delay"]]]):
        with pytest.raises(DataError, match=r"several (columns|values) of the name 'delay'"):
            WAYS[way](pack, *frames)
    also = pd.concat([SWAPPED, EXTRA[["carrier", "carrier"]]], axis=1)
    assert WAYS[way](pack, RIGHT, also).mean.tolist() == pytest.approx(MEANS), "one that is not needed may be doubled"


@pytest.mark.parametrize("way", WAYS)
def test_rows_without_names_do_not_take_later_ones_as_their_own(way: str) -> None:
    def pack(frame: pd.DataFrame) -> Any:
        return frame.to_numpy() if frame is RIGHT else frame

    if way == "push_rows":
        stream = Stream(Covariance(2), retention=512)
        stream.push([1.0, 2.0])
        with pytest.raises(DataError, match="the records before came without names"):
            stream.push(SWAPPED.iloc[0])
        assert stream.t == 1
        return
    with pytest.raises(DataError, match="'distance', 'delay', but the records before came without names"):
        WAYS[way](pack, RIGHT, SWAPPED)
    made = WAYS[way](pack, RIGHT, pd.DataFrame(RIGHT.to_numpy()))
    assert made.mean.tolist() == pytest.approx(MEANS)
    assert made.column_names == (), "default labels are no names"


@pytest.mark.parametrize("labels", [[1, 0], [2020, 2021], [("a", 1), ("a", 2)], ["delay", 1]])
def test_labels_that_are_no_texts_are_names_unless_they_only_count(labels: list[Any]) -> None:
    frame = RIGHT.set_axis(pd.Index(labels, tupleize_cols=False), axis=1)
    stream = Stream(Covariance(2), retention=512, seed=0)
    stream.extend(frame)
    assert stream.column_names == tuple(map(str, labels))
    stream.extend(frame[[labels[1], labels[0]]])
    assert stream.estimate().mean.tolist() == pytest.approx(MEANS)


def test_too_many_columns_are_refused_with_their_names() -> None:
    with pytest.raises(DataError, match="rows has 3 columns: 'delay', 'distance', 'at'; the policy takes records of 2"):
        Stream(Covariance(2), retention=512).extend(RIGHT.assign(at=1.0))


def test_a_bundle_knows_its_names_before_the_first_row() -> None:
    policy = Bundle({"distance": Mean(), "delay": Mean()})
    for frame in (RIGHT, SWAPPED, EXTRA):
        streams = KeyedStreams(policy, retention=2_048, seed=0)
        streams.extend(["a"] * N, frame)
        rows = {row["metric"]: row["value"] for row in streams.estimate("a").to_rows()}
        assert rows == pytest.approx({"distance:mean": MEANS[1], "delay:mean": MEANS[0]})
    with pytest.raises(DataError, match="rows has no column 'distance', but 'delay'"):
        KeyedStreams(policy, retention=2_048).extend(["a"] * N, RIGHT[["delay"]])


def test_outputs_of_a_regression_come_last_whatever_their_place() -> None:
    x = np.random.default_rng(0).normal(size=500)
    frame = pd.DataFrame({"x": x, "y": 3.0 * x + 1.0})
    streams = KeyedStreams(LinearRegression(1), retention=512, seed=0)
    streams.extend(["a"] * 500, frame)
    streams.extend(["a"] * 500, frame[["y", "x"]])
    assert streams.estimate("a").value == pytest.approx(3.0)


@pytest.mark.parametrize("kind", ["stream", "keys"])
def test_a_store_keeps_the_names(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "delays.db"

    def take(frame: Any) -> Any:
        with open_store(path) as store:
            if kind == "keys":
                streams = KeyedStreams(Covariance(2), retention=512, seed=0, store=store.family())
                streams.extend(["a"] * len(frame), frame)
                return streams.column_names, streams.estimate("a").mean.tolist()
            stream = Stream(Covariance(2), retention=512, seed=0, store=store.stream("a"))
            stream.extend(frame)
            return stream.column_names, stream.estimate().mean.tolist()

    for frame in (RIGHT, SWAPPED, RIGHT.to_numpy(), EXTRA):
        names, means = take(frame)
        assert names == ("delay", "distance")
        assert means == pytest.approx(MEANS)
    with pytest.raises(DataError, match="no column 'delay'"):
        take(RIGHT.rename(columns={"delay": "late"}))


def test_what_was_not_taken_has_not_named_anything() -> None:
    streams = KeyedStreams[Any](Covariance(2), retention=512)
    bad = RIGHT.assign(delay=np.nan)
    with pytest.raises(DataError):
        streams.extend(["a"] * N, bad)
    assert streams.take(["a"] * N, bad).taken == 0
    assert not streams.column_names
    assert streams.extend(["a"] * N, RIGHT) == N
    assert streams.column_names == ("delay", "distance")


def test_tasks_push_rows_by_their_names() -> None:
    stream = Stream(Covariance(2), retention=512, seed=0)

    async def push() -> None:
        for row in [*RIGHT.itertuples(index=False), *SWAPPED.itertuples(index=False)]:
            await stream.apush(row)
        await stream.aextend(SWAPPED)

    asyncio.run(push())
    assert stream.estimate().mean.tolist() == pytest.approx(MEANS)


def test_labels_given_beside_are_not_values() -> None:
    frame = SWAPPED.assign(at=pd.date_range("2024-01-01", periods=N), who="ada")
    stream = Stream(Covariance(2), retention=512, seed=0)
    stream.extend(RIGHT)
    stream.extend(frame, times=frame["at"], subjects=frame["who"])
    assert stream.estimate().mean.tolist() == pytest.approx(MEANS)
    assert stream.retained.subjects[-1] == "ada"


# Sources, the service and queues read columns by the names that they were given.


def write_csv(path: Path, frame: pd.DataFrame) -> Path:
    frame.to_csv(path / "rows.csv", index=False)
    return path / "rows.csv"


def write_ndjson(path: Path, frame: pd.DataFrame) -> Path:
    (path / "rows.ndjson").write_text("".join(json.dumps(row) + "\n" for row in frame.to_dict("records")))
    return path / "rows.ndjson"


def write_parquet(path: Path, frame: pd.DataFrame) -> Path:
    table = pa.table([pa.array(frame.iloc[:, i]) for i in range(frame.shape[1])], names=list(frame.columns))
    parquet.write_table(table, path / "rows.parquet")
    return path / "rows.parquet"


WRITERS = {"csv": write_csv, "ndjson": write_ndjson, "parquet": write_parquet}


@pytest.mark.parametrize("by", [None, "key"])
@pytest.mark.parametrize("kind", WRITERS)
def test_a_run_puts_the_columns_of_a_source_in_the_order_of_the_stream(tmp_path: Path, kind: str, by: Any) -> None:
    path = WRITERS[kind](tmp_path, EXTRA.assign(key="a"))
    policy = Bundle({"distance": Mean(), "delay": Mean()})
    with open_store(tmp_path / "a.db") as store:
        if by is None:
            made: Any = lambda name: Stream(policy, retention=2_048, seed=0, store=store.stream(name))  # noqa: E731
        else:
            made = KeyedStreams(policy, retention=2_048, seed=0, store=store.family(about={"by": "key"}))
        for _ in range(2):  # the second time, held records are compared with their rows
            ingest = Ingest(FileSource(str(path), ["delay", "distance"], by=by), made, StreamNames(by), store)
            ingest.run()
        estimate = ingest.stream.estimate() if by is None else made.estimate("a")
        rows = {row["metric"]: row["value"] for row in estimate.to_rows()}
    assert rows == pytest.approx({"distance:mean": MEANS[1], "delay:mean": MEANS[0]})
    assert ingest.compared > 0


def test_a_run_says_which_column_its_source_lacks(tmp_path: Path) -> None:
    stream = Stream(Covariance(2), retention=512, seed=0)
    stream.extend(RIGHT)
    path = write_csv(tmp_path, RIGHT.rename(columns={"delay": "late"}))
    with pytest.raises(SourceError, match="rows has no column 'delay', but 'late', 'distance'"):
        Ingest(FileSource(str(path), ["late", "distance"]), lambda _: stream).run()


@pytest.mark.parametrize("kind", WRITERS)
def test_a_file_with_two_columns_of_one_name_is_refused(tmp_path: Path, kind: str) -> None:
    if kind == "ndjson":
        path = tmp_path / "rows.ndjson"
        path.write_text('{"delay": 1, "distance": 2, "delay": 3}\n')
    else:
        path = WRITERS[kind](tmp_path, pd.concat([RIGHT, RIGHT[["delay"]]], axis=1))
    with pytest.raises(SourceError, match=r"column 'delay' (more than once|has two values in one row)"):
        list(FileSource(str(path), ["delay", "distance"]).blocks())


@pytest.mark.parametrize("texts", [(), ("key",)])
@pytest.mark.parametrize("kind", [JSON, NDJSON, ARROW])
def test_a_body_is_read_by_names(kind: str, texts: tuple[str, ...]) -> None:
    columns = Columns(("delay", "distance"), None, None, texts, None)

    def pack(frame: pd.DataFrame) -> bytes:
        frame = frame.assign(key="a") if texts else frame
        if kind == ARROW:
            table = pa.table([pa.array(frame.iloc[:, i]) for i in range(frame.shape[1])], names=list(frame.columns))
            out = pa.BufferOutputStream()
            with pa.ipc.new_stream(out, table.schema) as writer:
                writer.write_table(table)
            return bytes(out.getvalue())
        objects = [
            "{" + ", ".join(f'"{name}": {json.dumps(value)}' for name, value in zip(frame, row, strict=True)) + "}"
            for row in frame.itertuples(index=False)
        ]
        return ("\n".join(objects) if kind == NDJSON else f"[{','.join(objects)}]").encode()

    for frame in (RIGHT, SWAPPED, EXTRA):
        assert read_body(pack(frame), kind, columns).block.rows.mean(axis=0).tolist() == pytest.approx(MEANS)
    for frame in (RIGHT[["delay"]], RIGHT.rename(columns={"distance": "far"})):
        with pytest.raises(RefusalError, match="'distance'"):
            read_body(pack(frame), kind, columns)
    with pytest.raises(RefusalError, match=r"column 'delay' (is not there, or is there twice|has two values)"):
        read_body(pack(pd.concat([RIGHT, RIGHT[["delay"]]], axis=1)), kind, columns)


def test_an_entry_of_a_queue_with_a_field_twice_is_skipped() -> None:
    columns = Columns(("delay",), None, None, (), None)
    entries = [[b"delay", b"1", b"delay", b"2"], [b"delay", b"3", b"x", b"1", b"x", b"2"]]
    block, bad = read_entries(entries, columns, 0)
    assert (block.rows.tolist(), block.skipped, bad) == ([[3.0]], 1, ("delay",))


def test_spark_takes_columns_in_the_order_of_a_policy_that_names_them() -> None:
    queries = pytest.importorskip("vestige.spark.queries")
    policy = Bundle({"distance": Mean(), "delay": Mean()})
    assert queries._order_columns(("delay", "distance"), policy) == ("distance", "delay")
    assert queries._order_columns(("delay", "distance"), Covariance(2)) == ("delay", "distance")
    for columns in (("delay", "far"), ("delay",), ("delay", "distance", "far")):
        with pytest.raises(ParameterError, match="are not those of the policy; name 'distance', 'delay'"):
            queries._order_columns(columns, policy)
    with pytest.raises(ParameterError, match="columns has 'delay' more than once"):
        queries._order_columns(("delay", "delay"), Covariance(2))


def test_scikit_learn_keeps_the_order_of_outputs() -> None:
    sklearn = pytest.importorskip("vestige.sklearn")
    x = RIGHT[["delay"]]
    outputs = pd.DataFrame({"a": 2.0 * x["delay"], "b": -x["delay"]})
    model = sklearn.LinearRegression(random_state=0).partial_fit(x, outputs)
    model.partial_fit(x, outputs[["b", "a"]])
    assert model.coef_.ravel().tolist() == pytest.approx([2.0, -1.0])
    with pytest.raises(ValueError, match="pass outputs as there"):
        model.partial_fit(x, outputs.rename(columns={"a": "c"}))
    with pytest.raises(ValueError, match="several columns of the name 'a'"):
        model.partial_fit(x, outputs.rename(columns={"b": "a"}))
    unnamed = sklearn.LinearRegression(random_state=0).partial_fit(x, outputs.to_numpy())
    with pytest.raises(ValueError, match="no names"):
        unnamed.partial_fit(x, outputs)
    swapped = pd.DataFrame({"a": x["delay"], "b": 1.0})
    two = sklearn.LogisticRegression(random_state=0).partial_fit(swapped, np.arange(N) % 2, classes=[0, 1])
    with pytest.raises(ValueError, match=r"[Ff]eature names"):
        two.partial_fit(swapped[["b", "a"]], np.arange(N) % 2)


def test_river_takes_features_by_their_names() -> None:
    river = pytest.importorskip("vestige.river")
    model = river.LinearRegressor(seed=0)
    for i in range(1_000):
        x = {"a": float(i % 7), "b": float(i % 5)}
        model.learn_one(x if i % 2 else dict(reversed(x.items())), 2.0 * x["a"] - x["b"])
    assert model.predict_one({"b": 1.0, "a": 1.0}) == pytest.approx(1.0)


@pytest.mark.parametrize("name", ["k/y", "käy", "key", 'k"y'])
@pytest.mark.parametrize("kind", [JSON, NDJSON])
def test_a_name_is_found_twice_however_it_is_written(kind: str, name: str) -> None:
    columns = Columns(("x",), None, None, (name,), None)
    spelled = [json.dumps(name), json.dumps(name, ensure_ascii=False), json.dumps(name).replace("/", r"\/")]
    spelled += ['"' + "".join(f"\\u{ord(letter):04X}" for letter in name) + '"', '"\\u006b' + json.dumps(name)[2:]]
    for one in spelled:
        for other in spelled:
            row = f'{{{one}: "a", "x": 1, {other}: "b"}}'
            with pytest.raises(RefusalError, match="has two values in one row"):
                read_body(f"[{row}]".encode() if kind == JSON else row.encode(), kind, columns)
        row = f'{{{one}: "a", "x": 1, "z": {json.dumps(name)}}}'
        block = read_body(f"[{row}]".encode() if kind == JSON else row.encode(), kind, columns).block
        assert block.keys is not None
        assert block.keys.tolist() == ["a"]


@pytest.mark.parametrize("form", FORMS)
def test_a_single_column_with_a_name_is_taken_in_every_form(form: str) -> None:
    stream = Stream(Mean(), retention=512, seed=0)
    assert stream.extend(FORMS[form](RIGHT[["delay"]])) == N
    with pytest.raises(DataError, match="'delay'"):
        stream.extend(FORMS[form](RIGHT[["distance"]]))


def test_the_columns_of_a_sample_go_by_the_names_of_a_bundle() -> None:
    bundle = Bundle({"delay": Mean(), "distance": Histogram((1e6,))})
    plans = [plan(bundle, records=10_000, sample=frame) for frame in (RIGHT, SWAPPED, EXTRA)]
    assert len({each.rows[0].retention for each in plans}) == 1
    assert read_sample(SWAPPED, bundle).tolist() == RIGHT.to_numpy().tolist()
    with pytest.raises(DataError, match="no column 'distance'"):
        plan(bundle, records=10_000, sample=RIGHT[["delay"]])


@pytest.mark.parametrize("policy", [LinearRegression(2), LogisticRegression(2)])
def test_predictions_go_by_the_names_of_the_stream(policy: Any) -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.normal(size=2_000), "b": rng.normal(size=2_000)})
    frame["y"] = (frame["a"] > 0.0) * 1.0
    stream = Stream(policy, retention=2_048, seed=0)
    stream.extend(frame)
    estimate = stream.estimate()
    ask = getattr(estimate, "predict_proba", estimate.predict)
    expected = ask(frame[["a", "b"]].to_numpy()).tolist()
    swapped = frame[["y", "b", "a"]]
    for x in (swapped, pa.Table.from_pandas(swapped), frame[["a", "b"]], frame[["a", "b"]].set_axis([0, 1], axis=1)):
        assert ask(x).tolist() == expected
    with pytest.raises(ParameterError, match="'b'"):
        ask(frame[["a"]])
    with pytest.raises(ParameterError, match="'b'"):
        ask(pd.concat([swapped, frame[["b"]]], axis=1))
    if isinstance(policy, LinearRegression):
        assert ask(pd.Series({"b": 1.0, "a": 2.0})).tolist() == ask([2.0, 1.0]).tolist()
