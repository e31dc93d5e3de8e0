"""A file that is still written to: a last line without its line break waits until it has one."""

from __future__ import annotations

import gzip
import io
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from vestige.errors import SourceError
from vestige.sources import Block, FileSource, chunks
from vestige.sources.positions import encode_position

FILES = {
    "csv": ("a,b\n1,x\n", "12,y", "es\n34,z\n", "1234,z\n"),
    "crlf.csv": ("a,b\r\n1,x\r\n", "12,y\r\n34", ",z\r\n", ""),
    "quoted.csv": ("a,b\n1,x\n", '12,"y,', '""z"\n', ""),
    "broken.csv": ("b,a\nx,1\n", '"y\nz",12', "34\n", '"y\rz",12\n'),
    "ndjson": ('{"a": 1}\n', '{"a": 12', '34}\n', ""),
}  # fmt: skip


def read(source: str, after: int = 0, *, growing: bool = True) -> list[Block]:
    return list(FileSource(source, ["a"], growing=growing).blocks(encode_position(after)))


@pytest.mark.parametrize("size", [1, 4, 1 << 20])
def test_a_number_that_is_half_written_is_not_taken(tmp_path: Path, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunks, "CHUNK", size)
    path = tmp_path / "rows.csv"
    path.write_text("a\n1\n12")
    blocks = read(str(path))
    assert [row for block in blocks for row in block.rows[:, 0]] == [1.0]
    assert [block.unfinished for block in blocks] == [False] * (len(blocks) - 1) + [True]
    assert (len(blocks[-1].rows), blocks[-1].read) == (0, 1)
    path.write_text("a\n1\n1234\n")
    (block,) = read(str(path), after=1)
    assert (block.rows.tolist(), block.unfinished, block.read) == ([[1234.0]], False, 2)


def test_it_is_said_even_if_all_else_was_read_before(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("a\n1\n2\n12")
    (block,) = read(str(tmp_path / "rows.csv"), after=2)
    assert (len(block.rows), block.read, block.unfinished) == (0, 2, True)
    with pytest.raises(SourceError, match="has 2 rows, but 3 were read from it before"):
        read(str(tmp_path / "rows.csv"), after=3)


@pytest.mark.parametrize("name", FILES)
def test_every_row_is_taken_once_as_a_file_grows_byte_by_byte(tmp_path: Path, name: str) -> None:
    path = tmp_path / f"rows.{name}"
    whole = "".join(FILES[name]).encode()
    path.write_bytes(whole)
    expected = [row for block in read(str(path), growing=False) for row in block.rows[:, 0]]
    rows: list[float] = []
    for length in range(5, len(whole) + 1):
        path.write_bytes(whole[:length])
        with suppress(SourceError):  # quotes that are open over lines
            rows += [row for block in read(str(path), after=len(rows)) for row in block.rows[:, 0]]
    assert rows == expected


@pytest.mark.parametrize("line", ['"y\nz",12', '"y\r\nz",12', '"y\rz",12', '12,"y\nz"', '{"b":\r"y", "a": 12'])
def test_a_line_break_inside_a_row_does_not_end_it(tmp_path: Path, line: str) -> None:
    path, header = tmp_path / "rows", "a,b\n" if line.startswith("1") else "b,a\n"
    path.write_text(line if line.startswith("{") else header + line, newline="")
    (block,) = read(str(path))
    assert (len(block.rows), block.unfinished) == (0, True)


def test_quotes_that_stay_open_over_lines_are_an_error_and_lose_nothing(tmp_path: Path) -> None:
    """They may be a slip that swallows all that follows, which nobody should take for one line that waits."""
    path = tmp_path / "rows.csv"
    path.write_text('a,b\n1,x\n2,"y\n')
    blocks = FileSource(str(path), ["a"], growing=True).blocks()
    with pytest.raises(SourceError, match="ends inside a quoted field; close its quotes, or wait"):
        list(blocks)
    path.write_text('a,b\n1,x\n2,"y\n"\n')
    assert [row for block in read(str(path)) for row in block.rows[:, 0]] == [1.0, 2.0]


def test_half_a_header_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("a,oth")
    (block,) = FileSource(str(tmp_path / "rows.csv"), ["a"], subject="other", growing=True).blocks()
    assert (block.unfinished, block.read) == (True, 0)


def test_a_file_that_does_not_grow_ends_with_its_last_line(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("a\n1\n12")
    assert [block.rows.tolist() for block in read(str(tmp_path / "rows.csv"), growing=False)] == [[[1.0], [12.0]]]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_any_line_break_ends_a_line(tmp_path: Path, end: str) -> None:
    (tmp_path / "rows.csv").write_text(f"a{end}1{end}12{end}", newline="")
    blocks = read(str(tmp_path / "rows.csv"))
    assert [row for block in blocks for row in block.rows[:, 0]] == [1.0, 12.0]
    assert not any(block.unfinished for block in blocks)


def test_what_is_whole_by_nature_is_taken_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "rows.csv.gz").write_bytes(gzip.compress(b"a\n1\n12"))
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"a\n1\n12")))
    for name in (str(tmp_path / "rows.csv.gz"), "-"):
        blocks = read(name)
        assert [row for block in blocks for row in block.rows[:, 0]] == [1.0, 12.0]
        assert not any(block.unfinished for block in blocks)
