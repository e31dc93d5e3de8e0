"""CSV: the cells that Python's own csv module reads, at every block size, or a refusal."""

from __future__ import annotations

import csv
import io
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from vestige.errors import SourceError
from vestige.sources import FileSource, boundaries, chunks, delimited
from vestige.sources.boundaries import CsvBoundary, RecordChunks
from vestige.sources.columns import Columns

NAMES = ["one", "two", "three"]
PIECES = [
    '"',
    '""',
    ",",
    "\n",
    "\r",
    "\r\n",
    "\n\n",
    " ",
    "\t",
    "x",
    "7",
    "é",
    "😀",
    "\0",
    "\ufeff",
    "\u2028",
    "NA",
    "'",
    ";",
]
CLEAN = [*PIECES, "text", "", "", "1.5"]
Cells = list[list[str]]


def reference(text: str, n: int) -> Cells | None:
    """The rows that Python reads, the header too; None where one does not fit, or where quotes stay open."""
    rows = list(csv.reader(io.StringIO(text, newline="")))
    if len(list(csv.reader(io.StringIO(text + "\nx", newline="")))) == len(rows):
        return None  # what follows would still be in the last field
    header = next((i for i, row in enumerate(rows) if row), len(rows))
    kept = [row or [""] for row in rows[header:] if row or n == 1]
    return kept if kept and all(len(row) == n for row in kept) else None


def cut(data: bytes, size: int, draw: random.Random) -> Iterator[bytes]:
    """Chunks of a size, now and then one that is empty."""
    for i in range(0, len(data), size):
        yield data[i : i + size]
        if draw.random() < 0.1:
            yield b""


def read(data: bytes, names: list[str], size: int, draw: random.Random) -> Cells | None:
    """The rows that are read here, the header too; None where the file is refused."""
    time, subject, *by = (*names, None)[: max(2, len(names))]
    records = RecordChunks(cut(data, size, draw), CsvBoundary(), size, growing=False)
    rows = [names]
    try:
        for batches in delimited.read_csv(records, Columns((), time, subject, tuple(map(str, by)), None)):
            if batches is not None:
                columns = [batches[1].column(name).to_pylist() for name in names]
                rows += [list(row) for row in zip(*columns, strict=True)]
    except SourceError:
        return None
    return rows


def write_clean(draw: random.Random, names: list[str]) -> str:
    """A file that Python's csv module wrote."""
    file = io.StringIO(newline="")
    end = draw.choice(["\n", "\r\n", "\r"])
    csv.writer(file, quoting=csv.QUOTE_ALL, lineterminator=end).writerow(names)
    writer = csv.writer(file, quoting=draw.choice((csv.QUOTE_MINIMAL, csv.QUOTE_ALL)), lineterminator=end)
    for _ in range(draw.randrange(12)):
        writer.writerow(["".join(draw.choices(CLEAN, k=draw.randrange(4))) for _ in names])
    text = file.getvalue()
    return text.rstrip("\r\n") if draw.random() < 0.3 else text


def write_dirty(draw: random.Random, names: list[str]) -> str:
    """A header, and whatever comes: stray quotes, empty lines, too few fields or too many."""
    cells = draw.choices(PIECES, k=draw.randrange(30))
    if draw.random() < 0.5:  # mostly the right number of fields
        cells = [cell for cell in cells if cell != "," and "\n" not in cell and "\r" not in cell]
        rows = [cells[i : i + len(names)] for i in range(0, len(cells) - len(names) + 1, len(names))]
        return "\n".join(",".join(row) for row in [names, *rows])
    return ",".join(names) + draw.choice(["\n", "\r\n", "\r"]) + "".join(cells)


def compare_files(seed: int, count: int) -> tuple[int, int]:
    """How many files were read alike, and how many refused; each at several block sizes."""
    draw = random.Random(seed)  # noqa: S311
    alike = refused = 0
    for _ in range(count):
        dirty = draw.random() < 0.5
        names = draw.sample(NAMES if dirty else [*NAMES, "with\nbreak", 'with "quotes"', "a,b"], draw.randint(1, 3))
        text = (write_dirty if dirty else write_clean)(draw, names)
        expected = reference(text, len(names))
        for size in (1, draw.randint(2, 9), draw.randint(10, 60), 1 << 20):
            got = read(text.encode(), names, size, draw)
            assert got == expected, (text, size)
        alike, refused = alike + (expected is not None), refused + (expected is None)
    return alike, refused


def test_every_cell_is_the_one_that_python_reads() -> None:
    alike, refused = compare_files(0, 400)
    assert alike > 200
    assert refused > 50


@pytest.mark.slow(18)
def test_every_cell_is_the_one_that_python_reads_in_ten_thousand_files() -> None:
    alike, refused = compare_files(1, 10_000)
    assert alike > 5_000
    assert refused > 1_000


@pytest.mark.parametrize("size", [1 << 10, 4_099, 1 << 20])
def test_quoted_line_breaks_at_every_border(tmp_path: Path, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Long texts over many lines that look like rows; wherever a block ends, it ends inside one."""
    monkeypatch.setattr(chunks, "CHUNK", size)
    monkeypatch.setattr(delimited, "BLOCK", size)
    draw = random.Random(size)  # noqa: S311
    texts = ["\n".join(f"999,{draw.random()}" for _ in range(draw.randrange(60))) for _ in range(300)]
    with (tmp_path / "rows.csv").open("w", newline="") as file:
        csv.writer(file).writerows([["a", "text"], *([i, text] for i, text in enumerate(texts))])
    blocks = list(FileSource(str(tmp_path / "rows.csv"), ["a"], subject="text").blocks())
    read = [
        (a, who)
        for block in blocks
        if block.subjects is not None
        for a, who in zip(block.rows[:, 0], block.subjects, strict=True)
    ]
    assert read == [(float(i), text or None) for i, text in enumerate(texts)]
    assert blocks[-1].read == 300


@pytest.mark.parametrize("size", [1, 5, 1 << 20])
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a,b\n1,x\n2\n", "row 2 does not match the header: it has 1 fields, the header has 2; correct"),
        ("a,b\n1,x\n\n2,4711,3\n", "row 2 does not match the header: it has 3 fields"),
        ('a,b\n1,"x\ny"\n4711,2,3\n', "row 2 does not match the header: it has 3 fields"),
        ('a,b\n1,"4711\n', "ends inside a quoted field"),
        ('a,b\n1,"4711""', "ends inside a quoted field"),
        ('a,b\n1,"x\ny"\n4711x,z\n', "row 2 has a value that is not a number in column a"),
        ("a,b\n1,x\n \n", "row 2 does not match the header: it has 1 fields"),
        ('a,"4711\n', "ends inside a quoted field"),
        ("a,b\n1,x\n2,y\ninf,z\n", "row 3 has an infinite value"),
    ],
)
def test_a_wrong_row_is_named_by_its_number(
    tmp_path: Path, text: str, said: str, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chunks, "CHUNK", size)
    monkeypatch.setattr(delimited, "BLOCK", size)
    (tmp_path / "rows.csv").write_text(text)
    with pytest.raises(SourceError, match=said) as error:
        list(FileSource(str(tmp_path / "rows.csv"), ["a"]).blocks())
    assert "4711" not in str(error.value)


@pytest.mark.parametrize("quote", ["", '"'])
def test_a_field_longer_than_a_block_is_read_and_one_without_end_refused(
    tmp_path: Path, quote: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "rows.csv"
    path.write_text(f"a,b\n1,{quote}{'x' * 3_000_000}{quote}\n2,y\n")
    (block,) = FileSource(str(path), ["a"], subject="b").blocks()
    assert block.subjects is not None
    assert list(map(len, block.subjects)) == [3_000_000, 1]
    monkeypatch.setattr(boundaries, "MAX_RECORD", 2_000_000)
    said = ", or quotes that are not closed" if quote else ""
    with pytest.raises(SourceError, match=f"a row of more than 2,000,000 bytes{said}; leave out"):
        list(FileSource(str(path), ["a"]).blocks())


@pytest.mark.parametrize("text", ["a,b", "a,b\n", "\n\na,b\r\n\n"])
def test_a_header_alone_has_no_rows(tmp_path: Path, text: str) -> None:
    (tmp_path / "rows.csv").write_text(text, newline="")
    assert list(FileSource(str(tmp_path / "rows.csv"), ["a"]).blocks()) == []


@pytest.mark.parametrize("text", ["", "\n", " \n"[1:], "\r\n\r\n", "\ufeff\n"])
def test_nothing_at_all_is_empty(tmp_path: Path, text: str) -> None:
    (tmp_path / "rows.csv").write_text(text, newline="")
    with pytest.raises(SourceError, match="is empty; expected a header and rows"):
        list(FileSource(str(tmp_path / "rows.csv"), ["a"]).blocks())


@pytest.mark.parametrize("cell", ["nan(1)", "NAN(abc)", "1\x85", "1\x1f", "(1)"])
@pytest.mark.parametrize("company", ["2", "true", str(2**60)])
def test_what_is_no_number_is_refused_by_its_row(tmp_path: Path, cell: str, company: str) -> None:
    """Whatever stands beside it: plain numbers are read in another way than words and large whole numbers."""
    path = tmp_path / "a.csv"
    path.write_text(f"spent,shop\n1.5,a\n{company},b\n{cell},c\n")
    with pytest.raises(SourceError, match=r"row 3 has a value that is not a number in column spent"):
        list(FileSource(str(path), ["spent"]).blocks())
    path.write_text(f"spent,shop\n1.5,a\n{company},b\n\u00a02\u2009,c\nnan,d\n-nan,e\n")
    assert sum(len(block.rows) for block in FileSource(str(path), ["spent"]).blocks()) == 3
