"""Files and standard input as a source: its parameters, where it is resumed, and its blocks.

What parses the formats is imported when a file is first read, since commands that read no file shall start quickly.

Guarantee: the rows are those of Python's own csv and json modules at every block size, or the file is refused; held by
tests/sources/test_file.py and tests/sources/test_delimited.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import get_args

from vestige.errors import MissingExtraError, ParameterError
from vestige.sources.block import Block
from vestige.sources.dialect import Dialect
from vestige.sources.identity import FileIdentity
from vestige.sources.keys import By
from vestige.sources.positions import decode_position, encode_position
from vestige.sources.protocol import History, Resumption, Source, Unit
from vestige.sources.resumption import resume_file
from vestige.validation import check_bool, check_choice, check_float, show_value


@dataclass(frozen=True, slots=True)
class FileSource(Source):
    r"""Rows of a CSV, NDJSON or Parquet file, or of CSV or NDJSON on standard input.

    Attributes:
        path: path of the file, or `-` for standard input.
        columns: columns of the values of a record.
        time: column of time stamps, if any; one without a zone is in UTC.
        subject: column of subjects, if any.
        by: column of keys, if any; or several, whose keys are joined as `vestige.sources.keys` says.
        time_unit: unit of time stamps that are plain numbers: "s", "ms", "us" or "ns". Default: each number is read in
            the unit in which it lies between 1990 and 2100, and is refused if there is none.
        growing: whether the file may still be written to. A last line without a line break is then left for the next
            time, and a last block without rows is marked as `unfinished`. A closed pipe, gzip and Parquet are complete.
        every: number of seconds after which a pipe yields a block, with the rows that have arrived completely, even if
            there are none. Default: blocks are yielded when they are full.
        identity: encoded identity of the file, a part of each position; see `vestige.sources.identity`.
        keep_missing: whether rows with missing numbers are read, with nan in their place. Default: they are skipped.
        hash_key: function from a key to what takes its place in blocks; default: keys stay as they are.
        categories: names of categories by column, for those of `columns` that are text: the value of a record is then
            the number of its category, counted from 0, and the number of categories for any other text. Where there
            are no names, it is a hash of the text.
        dialect: separator, decimal point and encoding of CSV; default: commas, points and UTF-8.
        recalled: parts of the dialect, by their names, for which what a store remembers of the file comes first.

    Raises:
        ParameterError: a value is not one of those above.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = Path(folder, "visits.csv")
        ...     _ = path.write_text("spent,shop\n1.5,a\n,a\n2.5,b\n")
        ...     (block,) = FileSource(str(path), ["spent"]).blocks()
        >>> block.rows.tolist(), block.numbers.tolist(), block.skipped
        ([[1.5], [2.5]], [1, 3], 1)
    """

    path: str
    columns: Sequence[str]
    time: str | None = None
    subject: str | None = None
    by: By = None
    time_unit: Unit | None = None
    growing: bool = False
    every: float | None = None
    identity: bytes = b""
    keep_missing: bool = False
    hash_key: Callable[[str], str] | None = None
    categories: Mapping[str, Sequence[str]] = field(default_factory=dict)
    dialect: Dialect = field(default_factory=Dialect)
    recalled: Sequence[str] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "columns", _check_columns(self.columns))
        if self.time_unit is not None:
            check_choice("time_unit", self.time_unit, get_args(Unit))
        if self.every is not None:
            check_float("every", self.every, lambda n: 0.0 < n < math.inf, "a number of seconds above 0, or None")
        check_bool("growing", self.growing)
        check_bool("keep_missing", self.keep_missing)
        object.__setattr__(self, "categories", _check_categories(self.categories, self.columns))
        if not isinstance(self.dialect, Dialect):
            raise ParameterError(f"dialect={show_value(self.dialect)} is not a dialect; pass Dialect(separator=';')")
        _check_bytes("identity", self.identity, "the encoded identity of a file")
        if self.hash_key is not None and not callable(self.hash_key):
            raise ParameterError(f"hash_key={show_value(self.hash_key)} is not a function; pass one, or None")
        if isinstance(self.by, list | tuple):
            object.__setattr__(self, "by", _check_columns(self.by, "by"))
        single = None if isinstance(self.by, tuple) else self.by
        for role, name in (("time", self.time), ("subject", self.subject), ("by", single)):
            if name is not None and not isinstance(name, str):
                raise ParameterError(f"{role}={show_value(name)} is not the name of a column; pass a text, or None")

    @property
    def name(self) -> str:
        """The path."""
        return self.path

    @property
    def resumable(self) -> bool:
        """Whether the file can be read more than once; a pipe cannot."""
        path = Path(self.path)
        try:
            return self.path != "-" and not (path.exists() and not path.is_file() and not path.is_dir())
        except OSError:  # such as a name that is too long
            return True

    @property
    def size(self) -> int | None:
        """Number of bytes; None if unknown."""
        return Path(self.path).stat().st_size if Path(self.path).is_file() else None

    def order(self, position: bytes) -> int:
        """Return the number of rows before a position.

        Args:
            position: position in this file.

        Returns:
            The number of rows.

        Raises:
            ParameterError: the position is not bytes.

        Example:
            >>> FileSource("visits.csv", ["spent"]).order(b"")
            0
        """
        _check_bytes("position", position, "the position of a block")
        return decode_position(position)[0]

    def mark_whole(self, position: bytes) -> bytes:
        """Note in a position that the file was read to its end; see `Source.mark_whole`.

        Args:
            position: position after the last row.

        Returns:
            The position with the note.
        """
        rows, encoded = decode_position(position)
        identity = FileIdentity.decode(encoded)
        return position if identity is None else encode_position(rows, identity.mark_whole().encode())

    def resume(self, history: History) -> Resumption:
        """Find where the file was left, and whether it is still the same file.

        Args:
            history: what a store knows of the streams of this run.

        Returns:
            The position to read from, and whether the file is another one.

        Raises:
            SourceError: the file was replaced, or cannot be read.
        """
        return resume_file(self, history)

    def blocks(self, position: bytes = b"") -> Iterator[Block]:
        """Yield the rows that come after a position, block by block.

        Args:
            position: position after the last row that was read; empty to read from the first row.

        Yields:
            The next rows.

        Raises:
            ParameterError: the position is not bytes.
            MissingExtraError: Arrow is not installed.
            SourceError: the file cannot be read. The message names file, column and row, never what a row holds.
        """
        after = self.order(position)
        try:
            from vestige.sources.formats import read_blocks  # noqa: PLC0415  # Arrow takes half a second to import
        except ModuleNotFoundError as missing:
            raise MissingExtraError(f"reading a file (here: {missing.name})", "cli") from None
        for block in read_blocks(self, after):
            yield block.hash_keys(self.hash_key)


def _check_columns(columns: Sequence[str], role: str = "columns") -> tuple[str, ...]:
    """Check that columns are named, each once."""
    names: tuple[str, ...] = ()
    if not isinstance(columns, str):
        with suppress(TypeError):  # a number, or an array without dimensions
            names = tuple(columns)
    if not names or not all(isinstance(name, str) for name in names) or len(set(names)) < len(names):
        raise ParameterError(f"{role}={show_value(columns)} does not name columns; pass at least one, and each once")
    return names


def _check_categories(categories: Mapping[str, Sequence[str]], columns: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Check that categories are texts, of columns that are read."""
    for column, names in categories.items() if isinstance(categories, Mapping) else [(None, None)]:
        texts = isinstance(names, tuple | list) and all(isinstance(name, str) and name for name in names)
        if column not in columns or not texts:
            raise ParameterError(
                f"categories={show_value(categories)} does not name categories of columns that are read; pass texts by "
                "column, such as {'status': ('ok', 'failed')}"
            )
    return {column: tuple(names) for column, names in categories.items()}


def _check_bytes(name: str, value: object, what: str) -> None:
    """Check that a value is bytes."""
    if not isinstance(value, bytes):
        raise ParameterError(f"{name}={show_value(value)} is not bytes; pass {what}, or leave it out")
