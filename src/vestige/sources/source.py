"""Where records come from, whatever the format: opened, told apart, and read block by block."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import chain
from os import strerror
from pathlib import Path
from typing import IO, get_args

import pyarrow as pa

from vestige.errors import ParameterError, SourceError
from vestige.sources import delimited, ndjson, parquet
from vestige.sources.block import Batches, Block, Wanted, make_block
from vestige.sources.borders import Lines, Quoted, Records
from vestige.sources.inlet import Unpacked, open_bytes, read_chunks, strip_mark
from vestige.timestamps import Unit
from vestige.validation import check_bool, check_choice, check_float, check_int, show_value

FORMATS = {".csv": "csv", ".ndjson": "ndjson", ".jsonl": "ndjson", ".json": "ndjson", ".parquet": "parquet"}

_KINDS = "CSV, NDJSON or Parquet"


@dataclass(frozen=True, slots=True)
class Source:
    """Where records come from: a path, or `-` for standard input."""

    name: str

    @property
    def pipe(self) -> bool:
        """Whether what is there can be read only once."""
        path = Path(self.name)
        try:
            return self.name == "-" or (path.exists() and not path.is_file() and not path.is_dir())
        except OSError:  # such as a name that is too long
            return False

    @property
    def size(self) -> int | None:
        """How many bytes there are to read; None where that is unknown."""
        return Path(self.name).stat().st_size if Path(self.name).is_file() else None

    def blocks(
        self,
        columns: Sequence[str],
        *,
        time: str | None = None,
        subject: str | None = None,
        by: str | None = None,
        after: int = 0,
        every: float | None = None,
        time_unit: Unit | None = None,
        growing: bool = False,
    ) -> Iterator[Block]:
        """The wanted columns, block by block.

        Args:
            columns: those with the numbers.
            time: the column that says when, if any.
            subject: the column that says about whom, if any.
            by: the column that says which stream, if any.
            after: how many rows were read before; only later ones are yielded.
            every: on a pipe, a block is yielded at least every so many seconds, with the rows that have arrived whole,
                even if there are none. Without it, blocks come as they are full.
            time_unit: of times that are bare numbers: "s", "ms", "us" or "ns". Without it, each number says it by its
                size, and one that is not between 1990 and 2100 in any unit is refused.
            growing: whether the file may still be written to. A last line without its line break is then left for the
                next time, and a last block without rows says that it is `unfinished`. A pipe that was closed, gzip and
                Parquet are whole by nature.

        Raises:
            SourceError: the source cannot be read. The text names file, column and row, never what a row holds.
        """
        if time_unit is not None:
            check_choice("time_unit", time_unit, get_args(Unit))
        if every is not None:
            check_float("every", every, lambda n: 0.0 < n < math.inf, "a number of seconds above 0, or None")
        check_int("after", after, 0)
        check_bool("growing", growing)
        wanted = Wanted(_names(columns), time, subject, by, time_unit)
        for role, name in (("time", time), ("subject", subject), ("by", by)):
            if name is not None and not isinstance(name, str):
                raise ParameterError(f"{role}={show_value(name)} is not the name of a column; pass a text, or None")
        try:
            with open_bytes(self.name) as stream:
                yield from self._blocks(stream, wanted, after, every if self.pipe else None, growing=growing)
        except SourceError as problem:
            raise SourceError(f"{self.name}: {problem}") from None
        except OSError as problem:
            why = strerror(problem.errno) if problem.errno else "an unknown cause"
            raise SourceError(f"{self.name}: cannot be read: {why}; see that it is there and may be read") from None
        except UnicodeError:
            raise SourceError(f"{self.name}: holds text that is not UTF-8; convert the file to UTF-8 first") from None
        except (pa.ArrowException, ValueError, ArithmeticError):  # whose words may quote a record
            raise SourceError(f"{self.name}: holds rows that cannot be read; see that it is a {_KINDS} file") from None

    def _blocks(
        self, stream: IO[bytes], wanted: Wanted, after: int, every: float | None, *, growing: bool
    ) -> Iterator[Block]:
        read = 0
        for batches, unfinished in self._batches(stream, wanted, every, growing=growing):
            begun, read = read, read + len(batches[0])
            if read > max(after, begun) or unfinished or (every is not None and read == begun):
                known = min(max(after - begun, 0), read - begun)
                yield make_block(
                    (batches[0].slice(known), batches[1].slice(known)),
                    wanted,
                    begun=begun + known,
                    position=stream.tell() if stream.seekable() else 0,
                    arrived=datetime.now(UTC),
                    unfinished=unfinished,
                )
        if read < after:
            raise SourceError(
                f"has {read:,} rows, but {after:,} were read from it before; was it replaced? "
                "give the new file another name"
            )

    def _batches(
        self, stream: IO[bytes], wanted: Wanted, every: float | None, *, growing: bool
    ) -> Iterator[tuple[Batches, bool]]:
        """The wanted numbers and texts, whatever the format, and at last whether a line was left out."""
        unpacked = Unpacked(read_chunks(stream, every))
        chunks = strip_mark(iter(unpacked))
        head = b""
        for head in chunks:
            if head:
                break
            yield wanted.nothing, False
        chunks = chain([head], chunks)
        kind = self._format(head)
        if kind == "parquet":
            if self.pipe:
                raise SourceError("Parquet cannot be read from a pipe; give a path, or pipe CSV or NDJSON")
            yield from ((batches, False) for batches in parquet.read_parquet(stream, wanted))
            return
        growing = growing and not unpacked.packed and not self.pipe
        if kind == "csv":
            size = delimited.BLOCK if wanted.by is None else delimited.BLOCK_BY
            records = Records(chunks, Quoted(), size, growing=growing)
            read = delimited.read_csv(records, wanted)
        else:
            records = Records(chunks, Lines(), ndjson.BLOCK, growing=growing)
            read = ndjson.read_ndjson(records, wanted)
        yield from ((wanted.nothing if batches is None else batches, False) for batches in read)
        if records.unfinished:
            yield wanted.nothing, True

    def _format(self, head: bytes) -> str:
        """By the file's ending; by its first bytes where that says nothing."""
        suffix = Path(self.name.removesuffix(".gz")).suffix.lower()
        named = FORMATS.get(suffix) if self.name != "-" else None
        told = "parquet" if head.startswith(parquet.SIGNATURE) else None
        if head and named is not None and "parquet" in (named, told) and named != told:
            raise SourceError(f"ends in {suffix}, but does not hold that; give it the ending of its format")
        return named or told or ("ndjson" if head.lstrip().startswith(b"{") else "csv")


def _names(columns: Sequence[str]) -> tuple[str, ...]:
    """The columns with the numbers, each once."""
    made = () if isinstance(columns, str) or not isinstance(columns, Iterable) else tuple(columns)
    if not made or not all(isinstance(name, str) for name in made) or len(set(made)) < len(made):
        raise ParameterError(f"columns={show_value(columns)} does not name columns; pass at least one, and each once")
    return made
