"""Files of records: what is read of them, in which order, and what is never said of them."""

from __future__ import annotations

import gzip
import io
import json
import subprocess
import sys
import threading
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta, timezone
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import csv, parquet

import vestige.sources.parquet
from vestige.errors import SourceError
from vestige.sources import Block, FileSource, chunks, delimited, ndjson
from vestige.sources.positions import encode_position
from vestige.sources.protocol import Unit

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

N = 5_000
FORMATS = ["csv", "csv.gz", "ndjson", "ndjson.gz", "parquet"]
ISO = [
    "2024-05-31T12:30:15Z",
    "2024-05-31T12:30:15.5Z",
    "2024-05-31T12:30:15.123456Z",
    "2024-05-31T12:30:15.123456789Z",
    "2024-05-31T12:30:15",
    "2024-05-31 12:30:15",
    "2024-05-31 12:30:15.25",
    "2024-05-31T12:30",
    "2024-05-31T12:30:15+02:00",
    "2024-05-31 12:30:15.000001-0530",
    "2024-05-31T12:30:15+05",
    "2024-01-01T00:30:00+14:00",
    "2024-02-29",
    "1969-12-31T23:59:59.999999Z",
    "0001-01-01",
    "9999-12-31T23:59:59Z",
]
SECONDS = ["631152000", "1717158615", "1717158615.123456", "1e9"]


def reference(text: str) -> datetime:
    """What Python's own reader makes of it, in UTC without saying so."""
    if text in SECONDS:
        return datetime(1970, 1, 1) + timedelta(microseconds=round(float(text) * 1e6))
    made = datetime.fromisoformat(text)
    return made.astimezone(UTC).replace(tzinfo=None) if made.tzinfo else made


def instants(texts: Sequence[str]) -> list[np.datetime64]:
    return [np.datetime64(reference(text), "us") for text in texts]


def table(n: int = N) -> pa.Table:
    """Rows of which some lack a number, a time, a subject or a key."""
    rng = np.random.default_rng(3)
    lacks = rng.random((4, n)) < 0.1
    when = [datetime(2024, 1, 1) + timedelta(seconds=37 * i, microseconds=i) for i in range(n)]
    return pa.table(
        {
            "a": pa.array(rng.normal(size=n), mask=lacks[0]),
            "when": pa.array([t.isoformat() for t in when], mask=lacks[1]),
            "who": pa.array([f"{i:03d}" for i in rng.integers(0, 200, n)], mask=lacks[2]),
            "shop": pa.array([f"shop {i}" for i in rng.integers(0, 7, n)], mask=lacks[3]),
        }
    )


def write(made: pa.Table, path: Path) -> str:
    """The table as a file, in the format of the path."""
    data = io.BytesIO()
    if ".csv" in path.name:
        csv.write_csv(made, data)
    elif ".ndjson" in path.name:
        data.write("".join(json.dumps(row) + "\n" for row in made.to_pylist()).encode())
    else:
        parquet.write_table(made, data, row_group_size=700)
    path.write_bytes(gzip.compress(data.getvalue()) if path.suffix == ".gz" else data.getvalue())
    return str(path)


def gathered(blocks: list[Block]) -> list[tuple[object, ...]]:
    """Each row with all that was said of it."""
    rows: list[tuple[object, ...]] = []
    for block in blocks:
        assert block.times is not None
        assert block.subjects is not None
        assert block.keys is not None
        assert block.codes is not None
        assert block.times.dtype == np.dtype("datetime64[us]")
        assert len(set(block.keys)) == len(block.keys)
        keys = block.keys[block.codes]
        rows += zip(block.numbers.tolist(), block.rows[:, 0], block.times, block.subjects, keys, strict=True)
    return rows


def expected(made: pa.Table) -> list[tuple[object, ...]]:
    return [
        (i, row["a"], np.datetime64(row["when"], "us"), row["who"], row["shop"])
        for i, row in enumerate(made.to_pylist(), 1)
        if None not in (row["a"], row["when"], row["shop"])  # whoever is not named has a record too
    ]


def text_source(tmp_path: Path, text: str, name: str = "rows.csv") -> str:
    (tmp_path / name).write_text(text)
    return str(tmp_path / name)


def times_of(source: str, unit: Unit | None = None) -> list[np.datetime64]:
    made: list[np.datetime64] = []
    for block in FileSource(source, ["a"], time="when", time_unit=unit).blocks():
        assert block.times is not None
        made += list(block.times)
    return made


@pytest.fixture
def _small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunks, "CHUNK", 1 << 13)
    for module, name in ((delimited, "BLOCK"), (delimited, "BLOCK_BY"), (ndjson, "BLOCK")):
        monkeypatch.setattr(module, name, 1 << 13)
    for name in ("ROWS", "ROWS_BY"):
        monkeypatch.setattr(vestige.sources.parquet, name, 300)


@pytest.mark.usefixtures("_small_blocks")
@pytest.mark.parametrize("kind", FORMATS)
def test_every_format_says_the_same_of_each_complete_row(tmp_path: Path, kind: str) -> None:
    made = table()
    source = write(made, tmp_path / f"rows.{kind}")
    blocks = list(FileSource(source, ["a"], time="when", subject="who", by="shop").blocks())
    assert len(blocks) > 5
    assert gathered(blocks) == expected(made)
    assert sum(block.skipped for block in blocks) == N - len(expected(made))
    assert [block.read for block in blocks] == np.cumsum([b.skipped + len(b.rows) for b in blocks]).tolist()


@pytest.mark.usefixtures("_small_blocks")
@pytest.mark.parametrize("after", [0, 1, 299, 300, 301, N - 1, N])
@pytest.mark.parametrize("kind", FORMATS)
def test_reading_on_gives_exactly_the_rest(tmp_path: Path, kind: str, after: int) -> None:
    made = table()
    source = write(made, tmp_path / f"rows.{kind}")
    blocks = list(FileSource(source, ["a"], time="when", subject="who", by="shop").blocks(encode_position(after)))
    rest = [row for row in expected(made) if isinstance(row[0], int) and row[0] > after]
    assert gathered(blocks) == rest
    assert sum(block.skipped for block in blocks) == N - after - len(rest)
    assert all(block.read > after for block in blocks)
    assert blocks[-1].read == N if blocks else after == N


@pytest.mark.usefixtures("_small_blocks")
def test_reading_on_after_each_block_gives_every_row_once(tmp_path: Path) -> None:
    made = table()
    source = write(made, tmp_path / "rows.csv")
    read, rows = 0, []
    while block := next(
        FileSource(source, ["a"], time="when", subject="who", by="shop").blocks(encode_position(read)), None
    ):
        rows += gathered([block])
        read = block.read
    assert (read, rows) == (N, expected(made))


@pytest.mark.parametrize("kind", FORMATS)
def test_a_source_with_too_few_rows_was_replaced(tmp_path: Path, kind: str) -> None:
    source = write(table(1_200), tmp_path / f"rows.{kind}")
    with pytest.raises(SourceError) as error:
        list(FileSource(source, ["a"]).blocks(encode_position(1_201)))
    assert str(error.value) == (
        f"{source}: has 1,200 rows, but 1,201 were read from it before; if it was replaced, "
        "give the new file another name"
    )


def test_rows_read_before_are_not_judged_again(tmp_path: Path) -> None:
    source = text_source(tmp_path, "a,when\ninf,never\n2,2024-05-31\n")
    assert [block.numbers.tolist() for block in FileSource(source, ["a"], time="when").blocks(encode_position(1))] == [
        [2]
    ]


def test_without_labels_there_are_none(tmp_path: Path) -> None:
    (block,) = FileSource(write(table(10), tmp_path / "rows.csv"), ["a"]).blocks()
    assert (block.times, block.subjects, block.keys, block.codes) == (None, None, None, None)
    assert block.numbers.dtype == np.int64


@pytest.mark.parametrize("text", [*ISO, *SECONDS])
@pytest.mark.parametrize("kind", ["csv", "ndjson", "parquet"])
def test_each_notation_alone(tmp_path: Path, kind: str, text: str) -> None:
    source = write(pa.table({"a": [1.0], "when": [text]}), tmp_path / f"rows.{kind}")
    assert times_of(source) == instants([text])


@pytest.mark.parametrize("kind", ["csv", "ndjson", "parquet"])
def test_notations_mixed_in_one_column(tmp_path: Path, kind: str) -> None:
    texts = [*ISO, *SECONDS] * 10
    np.random.default_rng(0).shuffle(texts)
    source = write(pa.table({"a": np.ones(len(texts)), "when": texts}), tmp_path / f"rows.{kind}")
    assert times_of(source) == instants(texts)


def test_another_notation_after_many_rows_of_one(tmp_path: Path) -> None:
    texts = ["2024-05-31T12:30:15Z"] * 500 + ["2024-05-31", "1717158615.123456", "2024-05-31 12:30:15.123456789"]
    source = write(pa.table({"a": np.ones(len(texts)), "when": texts}), tmp_path / "rows.csv")
    assert times_of(source) == instants(texts)


def test_numbers_and_texts_as_times_in_ndjson(tmp_path: Path) -> None:
    rows = [1717158615, 1717158615.25, "2024-05-31T12:30:15+02:00", None]
    source = text_source(tmp_path, "\n".join(json.dumps({"a": 1, "when": row}) for row in rows), "rows.ndjson")
    assert times_of(source) == instants(["2024-05-31T12:30:15", "2024-05-31T12:30:15.25", "2024-05-31T12:30:15+02:00"])


def test_unix_seconds_keep_every_microsecond(tmp_path: Path) -> None:
    micros = np.random.default_rng(1).integers(-(10**15), 4 * 10**15, 2_000)
    texts = [f"{'-' if m < 0 else ''}{abs(m) // 10**6}.{abs(m) % 10**6:06d}" for m in micros.tolist()]
    source = write(pa.table({"a": np.ones(len(texts)), "when": texts}), tmp_path / "rows.csv")
    assert times_of(source, "s") == list(micros.view("datetime64[us]"))


PARIS = timezone(timedelta(hours=2))
PARQUET_TIMES = [
    *(pa.array([datetime(2024, 5, 31, 12, 30)], pa.timestamp(unit)) for unit in ("s", "ms", "us", "ns")),
    *(
        pa.array([datetime(2024, 5, 31, 14, 30, tzinfo=PARIS)], pa.timestamp(unit, "Europe/Paris"))
        for unit in ("ms", "us", "ns")
    ),
    pa.array([1717158600]),
    pa.array([1717158600], pa.int32()),
    pa.array([1717158600], pa.uint64()),
    pa.array([1717158600.0]),
    pa.array([1717158600], pa.decimal128(12, 1)),
    pa.array(["2024-05-31T14:30:00+02:00"], pa.large_string()),
    pa.array(["2024-05-31T14:30:00+02:00"]).dictionary_encode(),
]


@pytest.mark.parametrize("column", PARQUET_TIMES, ids=lambda column: str(column.type))
def test_each_type_of_time_in_parquet(tmp_path: Path, column: pa.Array) -> None:
    source = write(pa.table({"a": [1.0, 2.0], "when": pa.concat_arrays([column, column[:0], column])}), tmp_path / "p")
    assert times_of(source) == [np.datetime64("2024-05-31T12:30", "us")] * 2


@pytest.mark.parametrize("kind", [pa.date32(), pa.date64()], ids=str)
def test_dates_in_parquet(tmp_path: Path, kind: pa.DataType) -> None:
    column = pa.array([date(2024, 5, 31), None, date(1969, 1, 1)], kind)
    source = write(pa.table({"a": [1.0, 2.0, 3.0], "when": column}), tmp_path / "rows.parquet")
    assert times_of(source) == [np.datetime64("2024-05-31", "us"), np.datetime64("1969-01-01", "us")]


def test_nanoseconds_in_parquet_are_cut_off(tmp_path: Path) -> None:
    column = pa.array([1_717_158_615_123_456_789], pa.timestamp("ns"))
    source = write(pa.table({"a": [1.0], "when": column}), tmp_path / "rows.parquet")
    assert times_of(source) == [np.datetime64("2024-05-31T12:30:15.123456", "us")]


def test_a_column_without_a_single_time_is_all_missing(tmp_path: Path) -> None:
    source = write(pa.table({"a": [1.0, 2.0], "when": pa.nulls(2)}), tmp_path / "rows.parquet")
    assert [(len(block.rows), block.skipped) for block in FileSource(source, ["a"], time="when").blocks()] == [(0, 2)]


@pytest.mark.parametrize("bad", ["4711x", "2024-13-01", "2024-02-30T00:00:00Z", "31.05.2024", "inf", "-inf", "1e13"])
@pytest.mark.parametrize("good", ["2024-05-31", "2024-05-31T12:30:15Z", "1717158615"])
@pytest.mark.parametrize("kind", ["csv", "ndjson", "parquet"])
def test_a_time_that_cannot_be_read_is_named_by_its_row(tmp_path: Path, kind: str, good: str, bad: str) -> None:
    texts = [good] * 1_000
    texts[776] = texts[900] = bad
    source = write(pa.table({"a": np.ones(1_000), "when": texts}), tmp_path / f"rows.{kind}")
    for after in (0, 500, 776):
        with pytest.raises(
            SourceError, match=r"column 'when' has a time that cannot be read in row 777; .*ISO 8601"
        ) as error:
            list(FileSource(source, ["a"], time="when").blocks(encode_position(after)))
        assert bad not in str(error.value)
        assert error.value.__suppress_context__


@pytest.mark.parametrize("row", range(1, 8))
def test_the_first_unreadable_time_is_found_wherever_it_is(tmp_path: Path, row: int) -> None:
    texts = ["2024-05-31"] * (row - 1) + ["4711x"] * (8 - row)
    source = write(pa.table({"a": np.ones(7), "when": texts}), tmp_path / "rows.csv")
    with pytest.raises(SourceError, match=f"has a time that cannot be read in row {row};"):
        times_of(source)


@pytest.mark.parametrize(
    "column",
    [
        pa.array([1e9, np.inf]),
        pa.array([10**9, 2**62]),
        pa.array([0, 2**62], pa.timestamp("ms")),
        pa.array([0, 2**31 - 1], pa.date32()),
    ],
    ids=lambda column: str(column.type),
)
def test_a_time_beyond_all_times_is_named_by_its_row(tmp_path: Path, column: pa.Array) -> None:
    source = write(pa.table({"a": [1.0, 2.0], "when": column}), tmp_path / "rows.parquet")
    with pytest.raises(SourceError, match="has a time that cannot be read in row 2"):
        times_of(source)


@pytest.mark.parametrize("column", [pa.array([True]), pa.array([[1]]), pa.array([4711], pa.duration("s"))], ids=str)
def test_a_column_of_another_type_is_no_time(tmp_path: Path, column: pa.Array) -> None:
    source = write(pa.table({"a": [1.0], "when": column}), tmp_path / "rows.parquet")
    with pytest.raises(SourceError, match="has a time that cannot be read in row 1"):
        times_of(source)


@pytest.mark.parametrize("missing", ["", "NA", "null", " NA "])
def test_a_missing_time_takes_no_round(tmp_path: Path, missing: str) -> None:
    source = text_source(tmp_path, f"a,when\n1,2024-05-31\n2,{missing}\n3,2024-06-01\n")
    (block,) = FileSource(source, ["a"], time="when").blocks()
    assert (block.numbers.tolist(), block.skipped, block.read) == ([1, 3], 1, 3)


def test_a_missing_key_takes_no_round_a_missing_subject_does_and_na_is_a_name(tmp_path: Path) -> None:
    source = text_source(tmp_path, 'a,who,shop\n1,x,NA\n2,,NA\n3,x,\n4,null,"7, Main St"\n5,"",""\n')
    (block,) = FileSource(source, ["a"], subject="who", by="shop").blocks()
    assert block.subjects is not None
    assert block.keys is not None
    assert block.codes is not None
    assert block.numbers.tolist() == [1, 2, 4]
    assert block.subjects.tolist() == ["x", None, "null"]
    assert block.keys[block.codes].tolist() == ["NA", "NA", "7, Main St"]
    assert (block.skipped, block.keyless) == (2, 2)
    assert (block.keys.dtype, block.codes.dtype) == (np.dtype(object), np.dtype(np.int64))


def texts_of(source: str) -> list[str]:
    (block,) = FileSource(source, ["a"], subject="who", by="who").blocks()
    assert block.subjects is not None
    assert block.keys is not None
    assert block.codes is not None
    assert block.keys[block.codes].tolist() == block.subjects.tolist()
    assert all(type(subject) is str for subject in block.subjects)
    return list(block.subjects)


def test_text_stays_as_it_is_written(tmp_path: Path) -> None:
    written = ["007", "7", "7.0", "+7", "1e3", "true", " x", "2024-05-31"]
    rows = "".join(f"1,{text}\n" for text in written)
    assert texts_of(text_source(tmp_path, "a,who\n" + rows)) == written
    source = write(pa.table({"a": np.ones(len(written)), "who": written}), tmp_path / "rows.parquet")
    assert texts_of(source) == written


def test_what_is_no_text_is_taken_as_text_in_ndjson(tmp_path: Path) -> None:
    long = "9" * 5_000  # more digits than Python makes a number of
    written = ['"007"', "7", long, "7.50", "true", '""', "null", '"\\u00e9"']
    rows = "".join(f'{{"a": 1, "who": {text}}}\n\n' for text in written)
    source = text_source(tmp_path, rows + '{"a": 2}\n', "rows.ndjson")
    assert texts_of(source) == ["007", "7", long, "7.50", "true", "é"]


@pytest.mark.parametrize(
    ("column", "said"),
    [
        (pa.array([7, None, -(2**62)]), ["7", str(-(2**62))]),
        (pa.array([7, None, 2**64 - 1], pa.uint64()), ["7", str(2**64 - 1)]),
        (pa.array([7.0, np.nan, 8.5]), ["7", "8.5"]),
        (pa.array(["x", None, "y"]).dictionary_encode(), ["x", "y"]),
        (pa.array(["x", "", "y"], pa.large_string()), ["x", "y"]),
        (pa.array([True, None, False]), ["true", "false"]),
        (pa.array([b"x", None, b"y"]), ["x", "y"]),
    ],
    ids=lambda value: str(getattr(value, "type", "")),
)
def test_what_is_no_text_is_taken_as_text_in_parquet(tmp_path: Path, column: pa.Array, said: list[str]) -> None:
    assert texts_of(write(pa.table({"a": [1.0, 2.0, 3.0], "who": column}), tmp_path / "rows.parquet")) == said


@pytest.mark.parametrize("column", [pa.array([[4711]]), pa.array([{"x": 4711}]), pa.array([b"4711\xff"])], ids=str)
def test_what_cannot_be_text_is_refused(tmp_path: Path, column: pa.Array) -> None:
    source = write(pa.table({"a": [1.0], "who": column}), tmp_path / "rows.parquet")
    with pytest.raises(SourceError, match="column 'who' is not text in rows 1 to 1") as error:
        texts_of(source)
    assert "4711" not in str(error.value)


@pytest.mark.parametrize("kind", ["csv", "ndjson", "parquet"])
def test_one_column_in_every_part(tmp_path: Path, kind: str) -> None:
    source = write(pa.table({"a": [1717158615, None, 20240531]}), tmp_path / f"rows.{kind}")
    (block,) = FileSource(source, ["a"], time="a", subject="a", by="a").blocks()
    assert block.times is not None
    assert block.subjects is not None
    assert block.rows.tolist() == [[1717158615.0], [20240531.0]]
    assert block.times.tolist() == [reference("1717158615"), datetime(2024, 5, 31)]
    assert block.subjects.tolist() == ["1717158615", "20240531"]
    assert (block.numbers.tolist(), block.skipped) == ([1, 3], 1)


def test_a_column_of_numbers_and_keys_has_the_rules_of_both(tmp_path: Path) -> None:
    source = text_source(tmp_path, "b,a\n0, 5 \n1,NA\n2,-inf\n")
    (block,) = FileSource(text_source(tmp_path, "b,a\n0, 5 \n1,NA\n", "two.csv"), ["b", "a"], by="a").blocks()
    assert (block.rows.tolist(), block.skipped) == ([[0.0, 5.0]], 1)
    with pytest.raises(SourceError, match="row 3 has an infinite value"):
        list(FileSource(source, ["b", "a"], by="a").blocks())


@pytest.mark.parametrize("kind", ["csv", "parquet"])
@pytest.mark.parametrize("part", ["time", "subject", "by"])
def test_a_missing_column_is_named(tmp_path: Path, kind: str, part: str) -> None:
    source = write(pa.table({"a": [1.0]}), tmp_path / f"rows.{kind}")
    options = {"time": None, "subject": None, "by": None, part: "c"}
    with pytest.raises(SourceError, match="has no column 'c'; it has a"):
        list(FileSource(source, ["a"], **options).blocks())  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "name", "said"),
    [
        ("a,who\n1,x\n4711x,y\n", "rows.csv", "row 2 has a value that is not a number in column a"),
        ("a,who\n1,x\n4711,4711x,5\n", "rows.csv", "row 2 does not match the header: it has 3 fields"),
        ("who\n1\n4711x\n", "rows.csv", "row 2 has a value that is not a number in column who"),
        ('{"a": "4711x", "who": "x"}\n', "rows.ndjson", "contains rows that cannot be parsed"),
        ('{"a": 1, "who": "4711x}\n', "rows.ndjson", "contains rows that cannot be parsed"),
        ('{"a": 1}{"a": 4711}\n', "rows.ndjson", "contains rows that cannot be parsed"),
        ('{"a": 1,\n"who": 4711}\n', "rows.ndjson", "contains rows that cannot be parsed"),
        ("[4711]\n", "rows.ndjson", "contains rows that cannot be parsed"),
    ],
)
def test_bad_rows_are_not_shown(tmp_path: Path, text: str, name: str, said: str) -> None:
    columns = ["who"] if text.startswith("who") else ["a"]
    with pytest.raises(SourceError, match=said) as error:
        list(FileSource(text_source(tmp_path, text, name), columns, subject="who").blocks())
    assert "4711" not in str(error.value)
    assert error.value.__suppress_context__


@pytest.mark.parametrize("subject", [None, "who"])
@pytest.mark.parametrize("line", ["null", " null", '{"a": 1}null', '{"a": 1} {"a": 2}'])
def test_a_line_of_ndjson_is_one_object(tmp_path: Path, line: str, subject: str | None) -> None:
    """Arrow skips null, and reads two objects."""
    source = text_source(tmp_path, f'{{"a": 1, "who": "x"}}\n{line}\n', "rows.ndjson")
    with pytest.raises(SourceError, match="write one JSON object per line"):
        list(FileSource(source, ["a"], subject=subject).blocks())


def test_a_file_of_null_does_not_end_the_process(tmp_path: Path) -> None:
    """Arrow crashes on it."""
    source = text_source(tmp_path, "null\n", "rows.ndjson")
    program = f"from vestige.sources import FileSource; list(FileSource({source!r}, ['a']).blocks())"
    done = subprocess.run([sys.executable, "-c", program], check=False, capture_output=True, text=True)
    assert "write one JSON object per line" in done.stderr


@pytest.mark.parametrize("data", [b"a,who\n1,J\xfcrgen\n", b'{"a": 1, "who": "J\xfcrgen"}\n'])
def test_text_in_another_encoding_is_refused(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "rows").write_bytes(data)
    with pytest.raises(SourceError, match="text that is not UTF-8"):
        list(FileSource(str(tmp_path / "rows"), ["a"], subject="who").blocks())


@pytest.mark.parametrize("kind", ["csv", "ndjson", "csv.gz"])
def test_standard_input_has_labels_too(tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made = table(100)
    data = Path(write(made, tmp_path / f"rows.{kind}")).read_bytes()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
    blocks = list(FileSource("-", ["a"], time="when", subject="who", by="shop").blocks(encode_position(10)))
    assert gathered(blocks) == [row for row in expected(made) if isinstance(row[0], int) and row[0] > 10]


def test_rows_for_many_streams_come_in_larger_blocks(tmp_path: Path) -> None:
    source = text_source(tmp_path, "a,shop\n" + "1.25,the first\n" * 200_000)
    assert len(list(FileSource(source, ["a"]).blocks())) > 2
    assert len(list(FileSource(source, ["a"], by="shop").blocks())) == 1


@pytest.mark.parametrize("kind", FORMATS)
def test_no_other_thread_reads_the_file(tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread of Arrow's that waits for a Python file while the interpreter ends can keep it from ending."""
    source = write(table(), tmp_path / f"rows.{kind}")
    readers: set[int] = set()

    class Watched(io.FileIO):
        def readinto(self, buffer: WriteableBuffer, /) -> int | None:
            readers.add(threading.get_ident())
            return super().readinto(buffer)

        def read(self, size: int | None = -1, /) -> bytes:
            readers.add(threading.get_ident())
            return super().read(size)

    monkeypatch.setattr(chunks, "FileIO", Watched)
    assert sum(block.read for block in FileSource(source, ["a"]).blocks()) >= N
    assert readers == {threading.get_ident()}


def test_a_header_or_lines_of_any_length_and_ending(tmp_path: Path) -> None:
    names = ",".join(f"column {i}" for i in range(10_000))
    wide = text_source(tmp_path, names + "\n" + ",".join(["1.5"] * 10_000) + "\n")
    assert [block.rows.tolist() for block in FileSource(wide, ["column 9999"]).blocks()] == [[[1.5]]]
    with pytest.raises(SourceError, match=r"no column 'b'; it has column 0, .*, column 19 and 9,980 more$"):
        list(FileSource(wide, ["column 0", "b"]).blocks())
    for end in ("\n", "\r\n", "\r"):
        short = text_source(tmp_path, end.join(["a,b", "1,2", "", "3,4"]))
        assert [block.rows.tolist() for block in FileSource(short, ["b"]).blocks()] == [[[2.0], [4.0]]]


@pytest.mark.parametrize(("name", "row"), [("rows.csv", "1,{}\n"), ("rows.ndjson", '{{"a": 1, "b": "{}"}}\n')])
def test_a_row_that_is_too_long_is_refused(tmp_path: Path, name: str, row: str) -> None:
    (tmp_path / name).write_text(("a,b\n" if ".csv" in name else "") + row.format("x" * 20_000_000) + row.format("y"))
    with pytest.raises(SourceError, match="a row of more than 16,777,216 bytes") as error:
        list(FileSource(str(tmp_path / name), ["a"]).blocks())
    assert "xx" not in str(error.value)
