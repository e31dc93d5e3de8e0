"""Whole numbers beyond 2^53 are exact or refused, in every way in, as Python's own are."""

from __future__ import annotations

import json
import re
import sqlite3
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet

from vestige import (
    Bundle,
    Count,
    DataError,
    Distinct,
    ExactHistogram,
    Extremes,
    Histogram,
    KeyedStreams,
    Mean,
    ParameterError,
    Shares,
    Stream,
    TopK,
    combine,
    open_store,
)
from vestige.cli import command
from vestige.errors import SourceError
from vestige.ingest import Ingest
from vestige.ingest.names import StreamNames
from vestige.policy import Policy, list_values
from vestige.service.answers import show_records
from vestige.service.bodies import ARROW, JSON, NDJSON, read_body
from vestige.sources import FileSource
from vestige.sources.columns import Columns, make_block, number_categories
from vestige.sources.entries import read_entries
from vestige.sources.query.statement import Statement
from vestige.stream import open_stream
from vestige.stream.arrivals import read_table
from vestige.whole_numbers import LARGEST_EXACT, SAFE, decode, read_column

SMALL = [5, -5, 0, SAFE - 1, SAFE, -SAFE]
WIDE = [2**53, 2**53 + 1, 2**53 + 2, 2**60, 2**60 + 1, 2**61 - 2**53, 2**61 - 1, 2**61, 2**61 + 1, LARGEST_EXACT - 1]
HASHED = [LARGEST_EXACT, 2**62, 2**62 + 1, 2**63 - 1, -(2**53), -(2**53) - 1, -(2**60) - 1, -(2**63)]
UNSIGNED = [2**63, 2**63 + 1, 2**64 - 1]
HUGE = [2**64, 2**64 + 1, 10**25, -(10**25)]
SIGNED = SMALL + WIDE + HASHED
EVERY = SIGNED + UNSIGNED + HUGE
COLUMNS = Columns(("id",), None, None, (), None)

Way = Callable[[list[int], Path], Any]


def _pack_arrow(numbers: list[int]) -> pa.Array:
    kind = pa.int64() if numbers == SIGNED else pa.decimal128(38) if max(numbers) >= 2**64 else pa.uint64()
    return pa.array(list(map(Decimal, numbers)) if pa.types.is_decimal(kind) else numbers, kind)


def _read_file(path: Path) -> Any:
    (block,) = FileSource(str(path), ["id"]).blocks()
    return block.select_rows(np.arange(len(block.rows)))


def read_csv(numbers: list[int], folder: Path, form: Callable[[int], str] = str) -> Any:
    (folder / "ids.csv").write_text("id,x\n" + "".join(f"{form(number)},1\n" for number in numbers))
    return _read_file(folder / "ids.csv")


def read_ndjson(numbers: list[int], folder: Path) -> Any:
    (folder / "ids.ndjson").write_text("".join(f'{{"id": {number}}}\n' for number in numbers))
    return _read_file(folder / "ids.ndjson")


def read_parquet(numbers: list[int], folder: Path) -> Any:
    parquet.write_table(pa.table({"id": _pack_arrow(numbers)}), folder / "ids.parquet")
    return _read_file(folder / "ids.parquet")


def _read_body(content: bytes, kind: str) -> Any:
    block = read_body(content, kind, COLUMNS).block
    return block.select_rows(np.arange(len(block.rows)))


def read_arrow_body(numbers: list[int], _: Path) -> Any:
    table, out = pa.table({"id": _pack_arrow(numbers)}), pa.BufferOutputStream()
    with pa.ipc.new_stream(out, table.schema) as writer:
        writer.write_table(table)
    return _read_body(bytes(out.getvalue()), ARROW)


def read_queue(numbers: list[int], _: Path) -> Any:
    block, bad = read_entries([[b"id", str(number).encode()] for number in numbers], COLUMNS, 0)
    assert not bad
    return block.rows


def read_query(numbers: list[int], _: Path) -> Any:
    kind = 20 if max(map(abs, numbers)) < 2**63 else 1700
    statement = Statement.describe("SELECT", "at", COLUMNS, [("id", kind), ("at", 20)])
    cells = [(i, number if kind == 20 else str(number)) for i, number in enumerate(numbers)]
    batch, _other = statement.make_batches(cells)
    return make_block((batch, _other), COLUMNS, start=0, identity=b"", offset=0).rows


WAYS: dict[str, Way] = {
    "list": lambda numbers, _: numbers,
    "generator": lambda numbers, _: (number for number in numbers),
    "rows": lambda numbers, _: [[number] for number in numbers],
    "list with a float": lambda numbers, _: [float(n) if abs(n) <= SAFE else n for n in numbers],
    "array of objects": lambda numbers, _: np.array(numbers, object),
    "decimals": lambda numbers, _: [Decimal(number) for number in numbers],
    "fractions": lambda numbers, _: [Fraction(number) for number in numbers],
    "pandas objects": lambda numbers, _: pd.Series(numbers, dtype=object),
    "Arrow column": lambda numbers, _: _pack_arrow(numbers),
    "Arrow table": lambda numbers, _: pa.table({"id": _pack_arrow(numbers)}),
    "dict": lambda numbers, _: {"id": numbers},
    "dicts": lambda numbers, _: [{"id": number} for number in numbers],
    "csv": read_csv,
    "csv with points": lambda numbers, folder: read_csv(numbers, folder, lambda number: f"{number}.00"),
    "csv with zeros": lambda numbers, folder: read_csv(numbers, folder, lambda number: f"{number:+040d}"),
    "ndjson": read_ndjson,
    "parquet": read_parquet,
    "JSON body": lambda numbers, _: _read_body(json.dumps([{"id": n} for n in numbers]).encode(), JSON),
    "NDJSON body": lambda numbers, _: _read_body("\n".join(f'{{"id":{n}.0}}' for n in numbers).encode(), NDJSON),
    "Arrow body": read_arrow_body,
    "queue": read_queue,
    "query": read_query,
}
ARRAYS: dict[str, Way] = {
    "int64": lambda numbers, _: np.array(numbers, np.int64),
    "int64 in rows": lambda numbers, _: np.array(numbers, np.int64)[:, None],
    "masked": lambda numbers, _: np.ma.masked_array(np.array(numbers, np.int64), False),
    "pandas": lambda numbers, _: pd.Series(numbers, dtype="int64"),
    "pandas with nulls of its own": lambda numbers, _: pd.DataFrame({"id": pd.array(numbers, "Int64")}),
    "pandas of Arrow": lambda numbers, _: pd.DataFrame({"id": pd.array(numbers, "int64[pyarrow]")}),
}
GIVEN = (
    [(way, WAYS[way], numbers) for way in WAYS for numbers in (SIGNED, SMALL + WIDE + UNSIGNED, EVERY)]
    + [(way, ARRAYS[way], SIGNED) for way in ARRAYS]
    + [
        ("uint64", lambda numbers, _: np.array(numbers, np.uint64), SMALL[3:5] + WIDE + UNSIGNED),
        ("pandas UInt64", lambda numbers, _: pd.Series(pd.array(numbers, "UInt64")), SMALL[3:5] + WIDE + UNSIGNED),
    ]
)
IDS = [f"{way}-{len(numbers)}" for way, _, numbers in GIVEN]


@pytest.mark.parametrize(("way", "pack", "numbers"), GIVEN, ids=IDS)
def test_numbers_are_told_apart_alike_in_every_way_in(way: str, pack: Way, numbers: list[int], tmp_path: Path) -> None:
    if "Arrow" in way or way == "parquet":
        numbers = numbers if numbers in (SIGNED, EVERY) else [number for number in numbers if number >= 0]
    expected = read_column(np.array(numbers, object), "coded")
    assert len(set(expected.tolist())) == len(set(numbers))
    for policy in (Distinct(), TopK()):
        stream = Stream(policy, retention=50_000)
        assert stream._read_rows(pack(numbers, tmp_path))[:, 0].tolist() == expected.tolist(), way
    stream.extend(pack(numbers, tmp_path))
    assert stream.estimate().counted == len(numbers)


@pytest.mark.parametrize(("way", "pack", "numbers"), GIVEN, ids=IDS)
def test_a_statistic_of_floats_takes_what_floats_hold_and_refuses_the_rest(
    way: str, pack: Way, numbers: list[int], tmp_path: Path
) -> None:
    if "Arrow" in way or way == "parquet":
        numbers = numbers if numbers in (SIGNED, EVERY) else [number for number in numbers if number >= 0]
    exact = [number for number in numbers if int(float(number)) == number]
    for policy in (Mean(), Extremes()):
        stream: Any = Stream(policy, retention=4_096)
        given = pack(numbers, tmp_path)
        with pytest.raises(DataError, match="a whole number beyond 2\\^53 that no float holds") as refused:
            stream.extend(given)
        assert not any(str(number) in str(refused.value) for number in numbers if abs(number) > 2**53)
        assert stream.t == 0
    if "Arrow" in way or way == "parquet":  # of which the type depends on the numbers
        return
    for number in exact:
        assert Stream(Mean(), retention=96)._read_rows(pack([number], tmp_path))[0, 0] == number


@given(st.lists(st.integers(-(2**70), 2**70), min_size=1, max_size=50))
def test_codes_are_ones_of_their_own(numbers: list[int]) -> None:
    codes = read_column(np.array(numbers, object), "coded").tolist()
    assert len(set(codes)) == len(set(numbers))
    for number, code in zip(numbers, codes, strict=True):
        if -SAFE <= number < LARGEST_EXACT:
            assert decode(code) == number
        else:
            assert str(decode(code)).startswith("whole number with BLAKE2b ")
        assert abs(number) <= SAFE or 2.0**-1022 <= abs(code) < 2.0**-511, "no code is subnormal, or like a datum"


def test_the_reviewed_ids_are_counted() -> None:
    ids = 2**60 + np.arange(1_000)
    stream = Stream(Distinct(), retention=50_000, seed=0)
    stream.extend(ids)
    estimate = stream.estimate()
    assert estimate.lower <= 1_000 <= estimate.upper
    stream.extend(ids.astype(object).tolist())
    stream.extend(pd.DataFrame({"id": ids}))
    assert stream.estimate().value == estimate.value, "they have been there before"


@pytest.mark.parametrize("kind", [np.int64, np.uint64, object])
def test_the_most_frequent_ids_are_listed_with_their_counts(kind: Any) -> None:
    rng = np.random.default_rng(0)
    ids = (2**60 + rng.geometric(0.2, 20_000)).astype(kind)
    if kind is np.uint64:
        ids = ids + np.uint64(2**63)
    stream = Stream(TopK(5, 100), retention=40_000, seed=0)
    stream.extend(ids)
    estimate = stream.estimate()
    counts = [count for _, count in Counter(ids.tolist()).most_common(5)]
    assert estimate.lower.tolist() == estimate.upper.tolist() == counts
    if kind is not np.uint64:
        assert estimate.value.tolist() == [number for number, _ in Counter(ids.tolist()).most_common(5)]
        assert estimate.to_rows()[0]["metric"] == f"records of {estimate.value[0]}"
    else:
        assert all(str(value).startswith("whole number with BLAKE2b") for value in estimate.value)
    assert combine([estimate, estimate]).lower.tolist() == [2 * count for count in counts]


def test_small_numbers_stay_floats_beside_large_ones() -> None:
    stream = Stream(TopK(3, 10), retention=4_000, seed=0)
    stream.extend([1, 2**60 + 1, 1, 2.5, 2**60 + 1, 1])
    assert stream.estimate().value.tolist() == [1, 2**60 + 1, 2.5]
    stream = Stream(TopK(3, 10), retention=4_000, seed=0)
    stream.extend([1, 2, 1])
    assert stream.estimate().value.dtype == np.float64


def test_floats_beyond_are_refused_where_identity_matters(tmp_path: Path) -> None:
    for policy in (Distinct(), TopK()):
        stream: Any = Stream(policy, retention=50_000)
        for value in (2.0**53, -(2.0**60), 1e300):
            for rows in ([value], np.array([value]), [1, value]):
                with pytest.raises(DataError, match="pass whole numbers as integers"):
                    stream.extend(rows)
            with pytest.raises(DataError, match="pass whole numbers as integers"):
                stream.push(value)
        with pytest.raises(DataError, match="pass whole numbers as integers"):
            stream.extend(pd.DataFrame({"id": [2**60 + 1, None]}).fillna(0.0))  # which pandas has rounded
        with pytest.raises(DataError, match="pass whole numbers as integers"):
            stream.extend(read_csv([2**60], tmp_path, lambda number: f"{number:.17e}"))
        assert stream.extend([float(SAFE), 0.1]) == 2
    assert Stream(Mean(), retention=96).extend(read_csv([10**23], tmp_path, lambda n: f"{n:.6e}")) == 1


def test_the_bin_of_a_whole_number_is_exact() -> None:
    edges = [2.0**60, 2.0**60 + 256, 2.0**61]
    numbers = [2**60 - 1, 2**60, 2**60 + 1, 2**60 + 255, 2**60 + 256, 2**61 - 1, 2**61, 2**63 - 1, -(2**63)]
    for policy in (ExactHistogram(tuple(edges)), Histogram(tuple(edges))):
        stream: Any = Stream(policy, retention=2_048, seed=0)
        stream.extend(np.array(numbers))
        stream.extend(numbers)
        bins = [sum(number >= int(edge) for edge in edges) for number in numbers]
        assert stream.estimate().counts.tolist() == [2 * bins.count(i) for i in range(4)]
    with pytest.raises(ParameterError, match="a whole number beyond 2\\^53 that no float holds"):
        ExactHistogram((0, 2**60 + 1))
    with pytest.raises(ParameterError, match="a whole number beyond 2\\^53 that no float holds"):
        Histogram.from_options(["0", str(2**60 + 1)], 1, None)


def test_categories_that_are_large_numbers_are_told_apart() -> None:
    names = [str(2**60 + i) for i in range(3)]
    text = pa.array([f"{2**60 + 1}.0", str(2**60 + 3), f"0{2**60}", "1152921504606846976"])
    assert number_categories(text, names).tolist() == [1.0, 3.0, 0.0, 0.0]
    with pytest.raises(DataError, match="not the number of a category"):
        Stream(Shares(("a", "b")), retention=512).extend([2**60])


def test_a_count_takes_any_number() -> None:
    stream = Stream(Count(), retention=96, seed=0)
    stream.extend(EVERY)
    assert stream.estimate().value == len(EVERY)


def test_a_bundle_reads_each_column_as_its_metrics_do() -> None:
    policy = Bundle({"id": [Distinct(), Count()], "spent": Mean(), "both": [Distinct(), Mean()]})
    assert [policy.read_whole_numbers(i) for i in range(3)] == ["coded", "refused", "refused"]
    frame = pd.DataFrame({"id": 2**60 + np.arange(500), "spent": 1e17, "both": 1.0})
    for given_rows in (frame, frame.convert_dtypes(), pa.Table.from_pandas(frame), frame.to_dict("records")):
        streams: Any = KeyedStreams(policy, retention=60_000, seed=0)
        streams.extend(["a"] * 500, given_rows)
        rows = {row["metric"]: row for row in streams.estimate("a").to_rows()}
        found = next(row for name, row in rows.items() if name.startswith("id:") and "distinct" in name)
        assert found["lower"] <= 500 <= found["upper"]
    missing = frame.astype({"id": "Int64"})
    missing.loc[3, "id"] = pd.NA
    stream = Stream(policy, retention=60_000, seed=0)
    for given_rows in (missing, pa.Table.from_pandas(missing)):
        table = stream._read_rows(given_rows)
        assert np.isnan(table[3, 0])
        assert [decode(code) for code in table[[2, 4], 0].tolist()] == [2**60 + 2, 2**60 + 4]
    with pytest.raises(DataError, match="column 1, is a whole number beyond"):
        stream.extend(frame.assign(spent=2**60 + 1))
    with pytest.raises(DataError, match="float beyond 2\\^53 in 'id'"):
        stream.extend(frame.astype({"id": float}))


def test_one_refused_number_affects_its_key_alone() -> None:
    streams = KeyedStreams(Mean(), retention=96)
    taken = streams.take(["a", "b", "a"], np.array([1, 2**60 + 1, 3]))
    assert (taken.taken, list(taken.troubles)) == (2, ["b"])
    assert "a whole number beyond 2^53" in str(taken.troubles["b"].problem)


@pytest.mark.parametrize("by", [None, "key"])
def test_a_run_and_a_store_keep_ids_apart(tmp_path: Path, by: Any) -> None:
    ids = (2**60 + np.random.default_rng(0).integers(0, 20_000, 19_082)).tolist()
    path = tmp_path / "ids.csv"
    path.write_text("id,key\n" + "".join(f"{number},a\n" for number in ids))
    for _ in range(2):  # the second time, held records are compared with their rows
        with open_store(tmp_path / "ids.db") as store:
            made: Any = lambda name: Stream(Distinct(), retention=50_000, seed=0, store=store.stream(name))  # noqa: E731
            if by is not None:
                made = KeyedStreams(Distinct(), retention=50_000, seed=0, store=store.family(about={"by": "key"}))
            ingest = Ingest(FileSource(str(path), ["id"], by=by), made, StreamNames(by), store)
            ingest.run()
            estimate: Any = ingest.stream.estimate() if by is None else made.estimate("a")
    assert ingest.compared > 0
    assert estimate.lower <= len(set(ids)) <= estimate.upper
    with open_store(tmp_path / "ids.db") as store:
        again: Any = open_stream(store, store.names()[0])
        assert again.estimate().value == estimate.value


def test_what_spark_delivers_keeps_ids_apart() -> None:
    processor = pytest.importorskip("vestige.spark.processor")
    from vestige.spark.definition import Definition  # noqa: PLC0415
    from vestige.stream.limits import Limits  # noqa: PLC0415

    for policy in (Distinct(), Mean()):
        definition = Definition(policy, Limits(50_000), 0, "key", ("id",), 1)
        texts = [None if abs(number) <= SAFE else str(number) for number in EVERY]
        frame = pd.DataFrame({"key": ["a"] * len(EVERY), "value0": list(map(float, EVERY)), "whole0": texts})
        rows, _ = processor.read_frames(definition, [frame.iloc[:3], frame.iloc[3:]])
        assert read_table(rows.values, policy).tolist() == read_table(EVERY, policy).tolist()


@pytest.mark.parametrize("policy", [Distinct(), TopK(), Extremes(), Mean(), ExactHistogram((0.0,)), Shares(("a",))])
def test_times_are_no_numbers_but_nanoseconds_are(policy: Policy) -> None:
    stamps = pd.Series(pd.date_range("2024-01-01", periods=3, freq="1ns"))
    for given_rows in (stamps, stamps.to_numpy(), pa.array(stamps)):
        with pytest.raises(DataError, match="not a number"):
            Stream(policy, retention=50_000).extend(given_rows)
    nanoseconds = stamps.astype("int64")
    if isinstance(policy, Distinct | TopK):
        assert Stream(policy, retention=50_000)._read_rows(nanoseconds).ravel().tolist() == pytest.approx(
            read_column(nanoseconds.to_numpy(), "coded").tolist(), rel=0.0
        )
    elif isinstance(policy, Mean | Extremes):
        with pytest.raises(DataError, match="subtract or divide by a constant"):
            Stream(policy, retention=4_096).extend(nanoseconds)


def test_what_is_pushed_is_checked_as_what_is_extended() -> None:
    bundle = Bundle({"status": Shares(("a", "b"))})
    for policy in (Shares(("a", "b")), bundle):
        stream: Any = Stream(policy, retention=2_048)
        assert stream.push(1.0)
        for value in (0.5, 7.0, -1.0):
            with pytest.raises(DataError, match="not the number of a category"):
                stream.push(value)
        assert stream.t == 1
    stream = Stream(Bundle({"id": Distinct()}), retention=60_000)
    with pytest.raises(DataError, match="may be rounded"):
        stream.push(2.0**60)
    assert stream.push(2**60)
    assert [Bundle({"a": Mean()}).checks_rows, bundle.checks_rows, Mean().checks_rows] == [False, True, False]


@pytest.mark.parametrize("size", ["float64", "float32"])
def test_keys_and_subjects_beside_missing_ones_are_written_as_integers(tmp_path: Path, size: str) -> None:
    ids = [5, -7, 0, 2**24 - 1] if size == "float32" else [5, -7, 10_000_000_001, 2**53 - 1]
    path, large = tmp_path / "ids.parquet", tmp_path / "large.parquet"
    frame = pd.DataFrame({"spent": 1.0, "id": np.array([*ids, np.nan], size)})
    frame.to_parquet(path)
    (keyed,) = FileSource(str(path), ["spent"], by="id").blocks()
    assert keyed.keys is not None
    assert (keyed.keys.tolist(), keyed.keyless) == ([str(number) for number in ids], 1)
    (named,) = FileSource(str(path), ["spent"], subject="id").blocks()
    assert named.subjects is not None
    assert named.subjects.tolist() == [*(str(number) for number in ids), None]
    frame["id"] = np.array([*ids, 2**24 if size == "float32" else 2**53], size)
    frame.to_parquet(large)
    for source in (FileSource(str(large), ["spent"], by="id"), FileSource(str(large), ["spent"], subject="id")):
        with pytest.raises(SourceError, match=r"column 'id' has a float of \d+ or more"):
            list(source.blocks())


def test_keys_that_are_fractions_stay_as_they_are(tmp_path: Path) -> None:
    path = tmp_path / "fractions.parquet"
    pd.DataFrame({"spent": 1.0, "rate": [0.5, 1.0, 1e-7]}).to_parquet(path)
    (block,) = FileSource(str(path), ["spent"], by="rate").blocks()
    assert block.keys is not None
    assert block.keys.tolist() == ["0.5", "1", "1e-7"]


def test_spark_takes_no_floats_as_subjects() -> None:
    from vestige.spark.queries import _check_columns  # noqa: PLC0415

    def check(subject: str, asked: str) -> None:
        kinds = {"shop": "string", "spent": "double", "who": subject}
        rows: Any = SimpleNamespace(dtypes=list(kinds.items()), columns=list(kinds), isStreaming=True)
        requests: Any = SimpleNamespace(dtypes=[("who", asked)], columns=["who"], isStreaming=True)
        _check_columns(rows, "shop", ["spent"], Mean(), None, [], "who", requests)

    check("bigint", "string")
    with pytest.raises(ParameterError, match="subject is a column of the type double"):
        check("double", "string")
    with pytest.raises(ParameterError, match="forget is a column of the type float"):
        check("string", "float")


SMALL_FLOATS = [1e-200, -1e-160, 5e-324, float(np.nextafter(2.0**-511, 0.0))]


@pytest.mark.parametrize("small", SMALL_FLOATS)
@pytest.mark.parametrize("policy", [Distinct(), TopK(), Bundle({"x": TopK()}), Bundle({"x": [TopK(), Mean()]})])
def test_floats_that_would_be_taken_for_codes_are_refused(policy: Any, small: float) -> None:
    stream, rows = Stream(policy, retention=50_000), [[0.0], [-0.0], [2.0**-511], [small]]
    with pytest.raises(DataError, match=r"row 3 of 4.* nearer to zero .*than 2\^-511") as refused:
        stream.extend(rows)
    with pytest.raises(DataError, match=r"nearer to zero .*than 2\^-511"):
        stream.push(small)
    assert str(small) not in str(refused.value)
    keyed = KeyedStreams(policy, retention=50_000)
    taken = keyed.take(["a", "a", "b", "b"], rows)
    assert (taken.taken, list(taken.troubles)) == (2, ["b"])
    assert "nearer to zero" in str(taken.troubles["b"].problem)


def test_what_is_wrong_is_found_beside_codes() -> None:
    keyed = KeyedStreams(Distinct(), retention=50_000)
    taken = keyed.take(["a", "a"], np.array([2**60 + 1, None], object))
    assert "row 1 of 2" in str(taken.troubles["a"].problem)
    assert "is missing" in str(taken.troubles["a"].problem)


@pytest.mark.parametrize("policy", [Mean(), Count(), Bundle({"x": [Mean(), Count()]}), Histogram((0.0,))])
def test_small_floats_are_ordinary_where_there_are_no_codes(policy: Any) -> None:
    stream = Stream(policy, retention=1_024, seed=0)
    stream.extend(SMALL_FLOATS)
    assert stream.push(1e-200)
    assert list_values(stream.policy, stream.retained)[-1] == [1e-200]


def test_records_are_shown_with_the_numbers_that_came(tmp_path: Path) -> None:
    numbers, shown = [7, 2**60 + 1, 2**64 - 1], ["7.0", "1152921504606846977", "whole number with BLAKE2b "]
    policy = Bundle({"id": TopK(), "p": Mean()})
    with open_store(tmp_path / "ids.db") as store:
        stream = Stream(policy, retention=50_000, store=store.stream("main"))
        stream.extend([[number, 1e-200] for number in numbers])
        stream.flush()
    run = CliRunner().invoke
    lines = run(command, ["retained", str(tmp_path / "ids.db")]).output.splitlines()[1:]
    assert [line.split(",")[5][: len(text)] for line, text in zip(lines, shown, strict=True)] == shown
    assert {line.split(",")[6] for line in lines} == {"1e-200"}
    plain = [
        json.loads(line) for line in run(command, ["retained", str(tmp_path / "ids.db"), "--json"]).output.splitlines()
    ]
    assert [row["id"] for row in plain[:2]] == [7.0, shown[1]]
    copy = tmp_path / "copy.sqlite"
    assert run(command, ["export", str(tmp_path / "ids.db"), "--sqlite", str(copy)]).exit_code == 0
    with closing(sqlite3.connect(copy)) as opened:
        rows = opened.execute("SELECT value, exact FROM records WHERE column_name = 'id' ORDER BY round").fetchall()
    assert rows[:2] == [(7.0, None), (2.0**60, shown[1])]
    assert rows[2][0] is None
    assert rows[2][1].startswith(shown[2])
    streams = KeyedStreams(policy, retention=50_000)
    streams.extend(["a"] * 3, [[number, 1e-200] for number in numbers])
    assert show_records(streams, "a", has_values=True)["values"][1] == [shown[1], 1e-200]  # type: ignore[index]


def test_json_has_large_numbers_as_texts() -> None:
    policy = TopK()
    stream = Stream(policy, retention=50_000)
    stream.extend([2**60 + 1, 2**60 + 1, 5])
    estimate = stream.estimate()
    assert estimate.value.tolist() == [2**60 + 1, 5]
    assert estimate.to_dict()["value"] == ["1152921504606846977", 5]
    listed: Any = policy.report(estimate, ["id"]).facts["value"]
    assert [each["value"] for each in listed] == ["1152921504606846977", 5]


def test_adapters_refuse_what_no_float_holds() -> None:
    river, sklearn = pytest.importorskip("vestige.river"), pytest.importorskip("vestige.sklearn")
    wide, whole = 2**53 + 1, "a whole number beyond 2^53 that no float holds"
    for statistic in (river.Max(), river.Mean()):
        with pytest.raises(DataError, match=re.escape(whole)):
            statistic.update(wide)
    with pytest.raises(DataError, match=re.escape(whole)):
        river.LinearRegressor().learn_one({"a": wide}, 1.0)
    x, y = np.arange(40).reshape(20, 2), np.arange(20) % 2
    for frame in (np.vstack([x[1:], [[wide, 1]]]), pd.DataFrame({"a": x[:, 0] * 0.5, "b": x[:, 0] + wide})):
        for model in (sklearn.LinearRegression(), sklearn.LogisticRegression()):
            with pytest.raises(ValueError, match=re.escape(whole)):
                model.fit(frame, y)
    with pytest.raises(ValueError, match=re.escape(whole)):
        sklearn.LinearRegression().fit(x, y + wide)
