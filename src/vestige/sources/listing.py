"""Files of a run: names, patterns and folders as a list of files, in the order of time.

Guarantee: each file is listed once, and the order does not depend on the order in which the files were given; held by
tests/sources/test_listing.py.
"""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from vestige.errors import ParameterError, SourceError
from vestige.sources.file import FileSource

ENDINGS = (".csv", ".ndjson", ".jsonl", ".json", ".parquet")
"""Endings of the files that are read from a folder; `.gz` may follow."""
ADDRESSES = ("redis://", "rediss://", "postgresql://", "postgres://")
"""How addresses of queues and databases begin."""
_NUMBER = re.compile(r"(\d+)")
_END = np.datetime64("9999-12-31T23:59:59.999999", "us")


def is_address(source: str) -> bool:
    """Tell whether a source is a queue or a database.

    Args:
        source: what a run is to read.

    Returns:
        Whether it is; else it is a file.

    Example:
        >>> is_address("redis://localhost/0/visits"), is_address("visits.csv")
        (True, False)
    """
    return source.lower().startswith(ADDRESSES)


def list_files(sources: Sequence[str]) -> tuple[str, ...]:
    """List the files that names, patterns and folders mean, in the natural order of their names.

    Args:
        sources: paths of files; patterns such as `visits-*.csv`, where no file has that name; folders, of which the
            files with the endings in `ENDINGS` are meant; or only `-`, for standard input; or only one address.

    Returns:
        The path of each file once; numbers in names count as numbers.

    Raises:
        ParameterError: standard input or an address is given beside others.
        SourceError: a pattern matches no file, a folder has none, or one of several paths does not exist.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     for name in ("day-10.csv", "day-9.csv", "notes.txt"):
        ...         _ = Path(folder, name).write_text("")
        ...     [Path(path).name for path in list_files([folder])]
        ['day-9.csv', 'day-10.csv']
    """
    if "-" in sources and len(sources) > 1:
        raise ParameterError("standard input (-) is given beside files; read it on its own")
    if any(map(is_address, sources)) and len(sources) > 1:
        raise ParameterError("the address of a queue or a database is given beside other sources; read it on its own")
    if len(sources) == 1 and (is_address(sources[0]) or not _is_many(sources[0])):
        return tuple(sources)
    found: dict[str, str] = {}
    for source in sources:
        if not os.path.exists(source) and not glob.has_magic(source):
            raise SourceError(f"{source}: does not exist; give the path of a file or folder, or a pattern in quotes")
        for path in _expand(source):
            found.setdefault(os.path.realpath(path), path)
    return tuple(sorted(found.values(), key=_split_numbers))


def order_by_time(sources: Iterable[FileSource]) -> tuple[FileSource, ...]:
    """Sort files by the time of their first row; those without rows come last, those of the same time by name.

    Args:
        sources: files with a column of times.

    Returns:
        The files in order.

    Raises:
        SourceError: the first rows of a file cannot be read.
    """
    timed, others = split_by_time(sources)
    return timed + others


def split_by_time(sources: Iterable[FileSource]) -> tuple[tuple[FileSource, ...], tuple[FileSource, ...]]:
    """Sort files by the time of their first row, apart from those without rows.

    Args:
        sources: files with a column of times.

    Returns:
        The files that have a time, in its order, those of the same time by name; and the others, by name.

    Raises:
        SourceError: the first rows of a file cannot be read.
    """
    keyed = [(_find_first_time(source), _split_numbers(source.path), source) for source in sources]
    ordered = sorted(keyed, key=lambda each: each[:2])
    timed = tuple(source for time, _, source in ordered if time != _END)
    return timed, tuple(source for time, _, source in ordered if time == _END)


def _find_first_time(source: FileSource) -> np.datetime64:
    """The time of the first row that has one; the end of time if there is none."""
    assert source.time is not None  # noqa: S101
    column = source.time
    alone = replace(source, columns=(column,), categories={column: (column,)}, by=None, subject=None, hash_key=None)
    for block in alone.blocks():
        if block.times is not None and len(block.times):
            first: np.datetime64 = block.times[0]
            return first
    return _END


def _is_many(source: str) -> bool:
    return source != "-" and (os.path.isdir(source) or (glob.has_magic(source) and not os.path.exists(source)))


def _expand(source: str) -> list[str]:
    """The files of a pattern or of a folder; a path of a file as it is."""
    if not _is_many(source):
        return [source]
    if os.path.isdir(source):
        paths = [
            str(path) for path in Path(source).iterdir() if path.name.removesuffix(".gz").lower().endswith(ENDINGS)
        ]
        found = [path for path in paths if os.path.isfile(path) and not os.path.basename(path).startswith(".")]
        why = f"is a folder without files that end in {', '.join(ENDINGS)}; name a file, or a pattern in quotes"
    else:
        found = [path for path in glob.glob(source, recursive=True) if os.path.isfile(path)]
        why = "matches no file; correct the pattern, or wait until there is a file"
    if not found:
        raise SourceError(f"{source}: {why}")
    return found


def _split_numbers(path: str) -> tuple[tuple[str, int, str], ...]:
    """A key that sorts numbers in a path by their size, and equal ones by how they are written."""
    parts = _NUMBER.split(path)
    return tuple((text, int(number or 0), number) for text, number in zip(parts[::2], [*parts[1::2], ""], strict=True))
