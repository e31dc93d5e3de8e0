"""The dialect of a CSV file, guessed from its first lines.

A guess is shown to the user and written down, never used without a word.
Guarantee: files that Python's csv module writes in usual dialects are recognised; held by
tests/sources/test_detection.py.
"""

from __future__ import annotations

import codecs
import csv
import re
from collections.abc import Iterator
from contextlib import suppress

from vestige.sources.chunks import PARQUET, Decompressed, open_bytes, read_chunks
from vestige.sources.dialect import Dialect
from vestige.sources.formats import find_format, translate_errors

_HEAD = 1 << 18
"""Number of bytes that are looked at."""
_LINES = 200
_SEPARATORS = ",;\t|"
_ENCODINGS = ("utf-8", "cp1252", "iso8859-1")
_BOMS = {codecs.BOM_UTF32_LE: "utf-32", codecs.BOM_UTF32_BE: "utf-32"}
_BOMS |= {codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}
_COMMA_NUMBER, _NUMBER = re.compile(r"[+-]?\d*,\d+"), re.compile(r"[+-]?\d+")
_MISSING = ("", "NA", "NaN", "null", "NULL")


def detect_dialect(path: str) -> Dialect:
    r"""Guess the dialect of a file.

    Args:
        path: path of a CSV, NDJSON or Parquet file.

    Returns:
        The dialect; the usual one if nothing speaks for another.

    Raises:
        SourceError: the file cannot be read.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     file = Path(folder, "visits.csv")
        ...     _ = file.write_text("shop;spent\nK\u00f6ln;1,50\n", encoding="latin-1")
        ...     detect_dialect(str(file))
        Dialect(separator=';', decimal=',', encoding='cp1252')
    """
    with translate_errors(path):
        with open_bytes(path) as stream:
            head = b"".join(_take(iter(Decompressed(read_chunks(stream, None)))))
        if head.startswith(PARQUET):
            return Dialect()
        encoding, text = _detect_encoding(head)
        if find_format(path, text.encode()) != "csv":
            return Dialect(encoding=encoding)
    separator, rows = _detect_separator(text)
    return Dialect(separator, _detect_decimal(rows), encoding)


def _take(chunks: Iterator[bytes]) -> Iterator[bytes]:
    taken = 0
    for chunk in chunks:
        yield chunk[: _HEAD - taken]
        taken += len(chunk)
        if taken >= _HEAD:
            return


def _detect_encoding(head: bytes) -> tuple[str, str]:
    """The first encoding in which the bytes are text, and that text; a character may be cut off at the end."""
    marked = next((encoding for mark, encoding in _BOMS.items() if head.startswith(mark)), None)
    for encoding in (marked,) if marked else _ENCODINGS:
        with suppress(UnicodeDecodeError):
            text = codecs.getincrementaldecoder(encoding)().decode(head, final=False)
            return encoding, text.removeprefix("\ufeff")
    return "utf-8", ""


def _detect_separator(text: str) -> tuple[str, list[list[str]]]:
    """The separator that gives the first lines the same number of fields, the more the better; and their fields."""
    lines = text.splitlines(keepends=True)[: _LINES + 1]
    whole = lines if len(lines) <= _LINES and text.endswith(("\n", "\r")) else lines[:-1] or lines
    found = [(separator, _split(whole, separator)) for separator in _SEPARATORS]
    even = [(sign, rows) for sign, rows in found if len({len(row) for row in rows}) == 1 and len(rows[0]) > 1]
    return max(even, key=lambda each: len(each[1][0]), default=(",", []))


def _split(lines: list[str], separator: str) -> list[list[str]]:
    with suppress(csv.Error):
        return [row for row in csv.reader(lines, delimiter=separator) if row]
    return []


def _detect_decimal(rows: list[list[str]]) -> str:
    """A comma, if a column has nothing but numbers and some of them have a decimal comma."""
    for cells in zip(*rows[1:], strict=False):
        given = [cell.strip() for cell in cells if cell.strip() not in _MISSING]
        commas = sum(_COMMA_NUMBER.fullmatch(cell) is not None for cell in given)
        if commas and all(_COMMA_NUMBER.fullmatch(cell) or _NUMBER.fullmatch(cell) for cell in given):
            return ","
    return "."
