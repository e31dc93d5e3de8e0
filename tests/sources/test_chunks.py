"""Pipes read by time, and gzip that is whole or refused."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import sys
import threading
import time
import zipfile
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from limits import join
from vestige.errors import ParameterError, SourceError
from vestige.sources import FileSource, chunks

ROWS = b"a,who\n" + b"".join(b"%d,p%d\n" % (i, i) for i in range(2_000))


@pytest.fixture
def pipe(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """The end to write to of what is standard input."""
    end, start = os.pipe()
    with open(end) as opened:
        monkeypatch.setattr(sys, "stdin", opened)
        yield start


def write_later(pipe: int, *parts: bytes, pause: float = 0.15) -> threading.Thread:
    def write() -> None:
        for part in parts:
            time.sleep(pause)
            os.write(pipe, part)
        os.close(pipe)

    thread = threading.Thread(target=write, daemon=True)
    thread.start()
    return thread


def test_a_quiet_pipe_yields_what_has_arrived_in_whole_lines(pipe: int) -> None:
    os.write(pipe, b"a,w")
    blocks = FileSource("-", ["a"], subject="who", every=0.05).blocks()
    said = [next(blocks)]
    os.write(pipe, b'ho\n1,x\n2,"y')
    said += [next(blocks) for _ in range(2)]
    os.write(pipe, b'\nz"\n')
    said += [next(blocks) for _ in range(2)]
    assert [(len(block.rows), block.read) for block in said[:2]] == [(0, 0), (1, 1)]
    assert [len(block.rows) for block in said[2:]].count(1) == 1
    assert [str(name) for block in said if block.subjects is not None for name in block.subjects] == ["x", "y\nz"]
    os.close(pipe)
    assert not any(len(block.rows) for block in blocks)


def test_each_block_says_when_it_was_read_and_comes_in_time(pipe: int) -> None:
    begun, last = datetime.now(UTC), time.monotonic()
    thread = write_later(pipe, b"a\n", b"1\n", b"2\n")
    arrived = []
    for block in FileSource("-", ["a"], every=0.05).blocks():
        assert time.monotonic() - last < 0.05 + 1.0  # a busy machine may be late, but not by a whole pause of a pipe
        last = time.monotonic()
        assert abs((datetime.now(UTC) - block.arrived).total_seconds()) < 1.0
        arrived += [block.arrived] * len(block.rows)
    join(thread)
    assert len(arrived) == 2
    assert (arrived[0] - begun).total_seconds() > 0.25
    assert (arrived[1] - arrived[0]).total_seconds() > 0.05


def test_rows_are_handed_over_while_a_pipe_goes_on_steadily(pipe: int) -> None:
    """Each row comes within the pause that would be waited for, so that only the time that has passed counts."""
    thread = write_later(pipe, b"a\n", *[b"%d\n" % i for i in range(20)], pause=0.02)
    sizes = [len(block.rows) for block in FileSource("-", ["a"], every=0.1).blocks()]
    join(thread)
    assert sum(sizes) == 20
    assert max(sizes) < 15


def test_without_a_time_a_pipe_comes_in_full_blocks(pipe: int) -> None:
    thread = write_later(pipe, b"a\n1\n", b"2\n", pause=0.02)
    assert [len(block.rows) for block in FileSource("-", ["a"]).blocks()] == [2]
    join(thread)


def test_packed_rows_come_through_a_quiet_pipe(pipe: int) -> None:
    packed = gzip.compress(b"a\n1\n2\n") + gzip.compress(b"3\n") + b"\0" * 10
    thread = write_later(pipe, packed[:1], packed[1:12], packed[12:30], packed[30:], pause=0.06)
    blocks = list(FileSource("-", ["a"], every=0.02).blocks())
    join(thread)
    assert [row for block in blocks for row in block.rows[:, 0]] == [1.0, 2.0, 3.0]
    assert len(blocks) > 3


def test_a_pipe_that_does_not_block_is_waited_for(pipe: int) -> None:
    os.set_blocking(sys.stdin.fileno(), False)
    thread = write_later(pipe, b"a\n1\n", b"2\n")
    assert [len(block.rows) for block in FileSource("-", ["a"]).blocks()] == [2]
    join(thread)


def test_a_named_pipe_is_read_by_time_too(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    begun = threading.Event()

    def write() -> None:
        with (tmp_path / "fifo").open("wb", buffering=0) as opened:
            opened.write(b"a\n1\n")
            begun.wait(10)
            opened.write(b"2\n")

    thread = threading.Thread(target=write, daemon=True)
    thread.start()
    blocks = FileSource(str(tmp_path / "fifo"), ["a"], every=0.05).blocks()
    assert next(block for block in blocks if len(block.rows)).rows.tolist() == [[1.0]]
    begun.set()
    assert sum(len(block.rows) for block in blocks) == 1
    join(thread)


def test_a_file_comes_in_full_blocks_even_with_a_time(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_bytes(ROWS)
    (block,) = FileSource(str(tmp_path / "rows.csv"), ["a"], every=1e-9).blocks()
    assert block.read == 2_000


@pytest.mark.parametrize("end", [b"", b"\0" * 100, gzip.compress(b"7,x\n", mtime=0)], ids=["none", "zeros", "member"])
@pytest.mark.parametrize("size", [1, 7, 1 << 20])
def test_members_and_zeros_of_gzip(tmp_path: Path, size: int, end: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunks, "CHUNK", size)
    (tmp_path / "rows.csv.gz").write_bytes(gzip.compress(ROWS[:300]) + gzip.compress(ROWS[300:]) + end)
    text = gzip.decompress((tmp_path / "rows.csv.gz").read_bytes())
    blocks = list(FileSource(str(tmp_path / "rows.csv.gz"), ["a"]).blocks())
    assert blocks[-1].read == len(text.splitlines()) - 1


@pytest.mark.parametrize("kind", ["bz2", "lzma", "zipfile"])
def test_other_compressions_are_named(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "rows.csv"
    if kind == "zipfile":
        with zipfile.ZipFile(path, "w") as packed:
            packed.writestr("rows.csv", ROWS)
    else:
        path.write_bytes({"bz2": bz2, "lzma": lzma}[kind].compress(ROWS))
    with pytest.raises(SourceError, match=r"is compressed by (bzip2|xz|zip), which is not read; unpack it"):
        next(FileSource(str(path), ["a"]).blocks())
    path.write_bytes(b"BZhours\n1\n")
    assert next(FileSource(str(path), ["BZhours"]).blocks()).rows.tolist() == [[1.0]]


PACKED = gzip.compress(ROWS, mtime=0)


@pytest.mark.parametrize("cut", [2, 3, 9, 100, len(PACKED) // 2, len(PACKED) - 8, len(PACKED) - 1])
def test_gzip_that_is_cut_off_is_refused(tmp_path: Path, cut: int) -> None:
    for name in ("rows.csv.gz", "rows"):
        (tmp_path / name).write_bytes(PACKED[:cut])
        with pytest.raises(SourceError, match=r"is truncated: its gzip data ends too early; copy or create it again$"):
            list(FileSource(str(tmp_path / name), ["a"]).blocks())


@pytest.mark.parametrize("place", range(10, len(PACKED), 397))
def test_gzip_that_is_damaged_is_refused_wherever_that_is(tmp_path: Path, place: int) -> None:
    damaged = bytearray(PACKED)
    damaged[place] ^= 0xFF
    (tmp_path / "rows.csv.gz").write_bytes(damaged)
    with pytest.raises(SourceError, match=r"rows\.csv\.gz: .*; \w+") as error:
        list(FileSource(str(tmp_path / "rows.csv.gz"), ["a"]).blocks())
    assert "zlib" not in str(error.value)


def test_what_follows_gzip_has_to_be_gzip(tmp_path: Path) -> None:
    (tmp_path / "rows.csv.gz").write_bytes(PACKED + b"rubbish")
    with pytest.raises(SourceError, match="is damaged: its gzip data cannot be decompressed"):
        list(FileSource(str(tmp_path / "rows.csv.gz"), ["a"]).blocks())


MARK = b"\xef\xbb\xbf"
MARKED = {
    "csv": MARK + b"a,who\n1,x\n2,y\n",
    "ndjson": MARK + b'{"a": 1, "who": "x"}\n{"a": 2, "who": "y"}\n',
    "quoted": MARK + b'"a","who"\r\n"1","x"\r\n"2","y"\r\n',
}


@pytest.mark.parametrize("size", [1, 2, 3, 4, 1 << 20])
@pytest.mark.parametrize("ending", ["", ".csv", ".gz", ".txt", ".ndjson"])
@pytest.mark.parametrize("kind", MARKED)
def test_a_byte_order_mark_is_no_part_of_the_first_name(
    tmp_path: Path, kind: str, ending: str, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    if (ending, kind) in ((".csv", "ndjson"), (".ndjson", "csv"), (".ndjson", "quoted")):
        pytest.skip("the ending says something else")
    monkeypatch.setattr(chunks, "CHUNK", size)
    data = gzip.compress(MARKED[kind]) if ending == ".gz" else MARKED[kind]
    (tmp_path / f"rows{ending}").write_bytes(data)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
    for name in (str(tmp_path / f"rows{ending}"), "-"):
        blocks = list(FileSource(name, ["a"], subject="who").blocks())
        assert [row for block in blocks for row in block.rows[:, 0]] == [1.0, 2.0]
        assert [str(who) for block in blocks if block.subjects is not None for who in block.subjects] == ["x", "y"]


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_another_encoding_is_named(tmp_path: Path, encoding: str) -> None:
    (tmp_path / "rows.csv").write_bytes("\ufeffa,who\n1,x\n".encode(encoding))
    with pytest.raises(SourceError, match="contains text in UTF-16; give --encoding utf-16"):
        list(FileSource(str(tmp_path / "rows.csv"), ["a"]).blocks())


def test_closed_standard_input_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(SourceError, match="-: standard input is closed"):
        list(FileSource("-", ["a"]).blocks())


@pytest.mark.parametrize("name", ["x" * 5_000, "a\0b", "", "no/such/file"])
def test_a_name_of_no_file_is_refused_in_a_sentence(name: str) -> None:
    with pytest.raises(SourceError, match=r"; "):
        list(FileSource(name, ["a"]).blocks())


def test_a_unit_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match="time_unit='h' is unknown; use one of s, ms, us, ns"):
        list(FileSource(str(tmp_path), ["a"], time_unit="h").blocks())  # type: ignore[arg-type]
