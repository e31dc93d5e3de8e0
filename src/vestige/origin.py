"""What a file is recognised by when it is read again: its place, its header, and the records of it that are still held.

No digest of any record is stored, since one would confirm guesses about records that were erased. The held records
themselves are the witnesses: each knows the row that it came from, and has to be found there again.
Guarantee: a file that was rotated, cut or rewritten is noticed, unless it was rewritten in place with the same header,
is not shorter, and says the same in each row that is still held, whatever other sources the streams were read from;
held by tests/test_origin.py.
"""

from __future__ import annotations

import os
import stat
import struct
import zlib
from codecs import BOM_UTF8
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from hashlib import blake2b

import numpy as np

from vestige.errors import SourceError
from vestige.feed import Feed, Naming
from vestige.records import Records
from vestige.sources import Block, Source
from vestige.sources.inlet import GZIP
from vestige.sources.parquet import SIGNATURE, read_names
from vestige.store import Position, State, Terms
from vestige.types import Bools, Ints

_MARK = struct.Struct("<QQQI16s12sQ")
_PROBE = "vestige: which key is this"
_WORD = 2**64 - 1
_HEAD = 1 << 16


@dataclass(frozen=True, slots=True)
class Mark:
    """What a file looks like from outside.

    Attributes:
        device: of the file system, and `inode` the number of the file in it.
        size: in bytes, when it was looked at.
        generation: how often the user said that another file took its place.
        header: a digest of the names of its columns; never of a record.
        key: a digest of the key that subjects are hashed with now; zeros if there are none.
        other_key: up to this row, subjects were hashed with a key that was lost since then.
    """

    device: int
    inode: int
    size: int
    generation: int
    header: bytes
    key: bytes = bytes(12)
    other_key: int = 0

    @classmethod
    def of(cls, path: str, generation: int = 0) -> Mark:
        """The mark of a file as it is now.

        Raises:
            SourceError: what is there is not a file that can be read.
            OSError: nothing can be found there.
        """
        found = os.stat(path)
        if not stat.S_ISREG(found.st_mode):
            raise SourceError(f"{path}: is not a file any more")
        names = blake2b(_header(path), digest_size=16).digest()
        return cls(found.st_dev & _WORD, found.st_ino & _WORD, found.st_size, generation, names)

    @classmethod
    def unpack(cls, body: bytes) -> Mark | None:
        """The mark that was packed; None if there is none."""
        return cls(*_MARK.unpack(body)) if len(body) == _MARK.size else None

    def pack(self) -> bytes:
        """As bytes."""
        return _MARK.pack(self.device, self.inode, self.size, self.generation, self.header, self.key, self.other_key)

    def explain_change(self, now: Mark) -> str:
        """Why the file that is there now is not the one that had this mark; empty if nothing speaks against it."""
        if (self.device, self.inode) != (now.device, now.inode):
            return "is not the file that was read under this name before"
        if now.size < self.size:
            return f"has {now.size:,} bytes, but had {self.size:,} when it was read before"
        if now.header != self.header:
            return "has another header than when it was read before"
        return ""


def digest_key(pseudonym: Callable[[str], str]) -> bytes:
    """What the key of a store is recognised by.

    Args:
        pseudonym: from a subject to what the store keeps of it.
    """
    return blake2b(pseudonym(_PROBE).encode(), digest_size=12).digest()


def _header(path: str) -> bytes:
    """The line with the names of the columns, or those of a Parquet file; nothing where each row brings its own."""
    try:
        with open(path, "rb", buffering=0) as file:
            head = file.read(_HEAD)
            if head.startswith(GZIP):
                head = zlib.decompressobj(31).decompress(head, _HEAD)
            if head.startswith(SIGNATURE):
                return "\n".join(read_names(file)).encode()
    except (SourceError, zlib.error, OSError):
        raise SourceError(f"{path}: cannot be read; it is cut off or damaged, or permission is denied") from None
    head = head.removeprefix(BOM_UTF8).lstrip()
    return b"" if head.startswith(b"{") else head.splitlines()[0] if head else b""


def name_source(path: str, known: Iterable[str]) -> str:
    """What a store calls the file at `path`: its real path, or a known one at which the very same file lies.

    Args:
        path: in any spelling, also through links.
        known: the names of the sources that were read before.
    """
    real = os.path.realpath(path)
    known = set(known)
    if real not in known:
        here = os.stat(real)
        for other in sorted(known):
            try:
                if os.path.samestat(os.stat(other), here):
                    return other
            except (OSError, ValueError):
                continue
    return real


class Witnesses:
    """The rows of a source whose records are still held, to be found in it again.

    Args:
        pseudonym: from a subject to what a store keeps of it.
        other_key: up to this row subjects cannot be compared, since they were hashed with another key.
    """

    def __init__(self, pseudonym: Callable[[str], str], other_key: int = 0) -> None:
        self._pseudonym, self._other_key = pseudonym, other_key
        self._parts: list[tuple[str, Records]] = []
        self._read = 0

    def add(self, key: str, held: Records) -> None:
        """Let records of a stream be witnesses, whose numbers are their rows in the source."""
        if len(held):
            self._parts.append((key, held))

    def __len__(self) -> int:
        return sum(len(held) for _, held in self._parts)

    def search(self, blocks: Iterable[Block], furthest: int) -> int | None:
        """The first row of a source, up to the row `furthest`, that is not as it was; None if all are.

        Args:
            blocks: the source from its first row on.
            furthest: how many rows were read before; a source that ends earlier differs after its last row.
        """
        for block in blocks:
            differing = self.find_difference(block)
            if differing is not None or block.read >= furthest:
                return differing
        return self._read + 1 if self._read < furthest else None

    def find_difference(self, block: Block) -> int | None:
        """The first row up to the end of this block, after the last one, that is not as it was; None if all are."""
        wrong = [number for key, held in self._parts for number in self._differing(block, key, held)]
        self._read = block.read
        return min(wrong, default=None)

    def _differing(self, block: Block, key: str, held: Records) -> list[int]:
        due = held.where((held.numbers > self._read) & (held.numbers <= block.read))
        if not len(due):
            return []
        at = np.searchsorted(block.numbers, due.numbers)
        there = np.append(block.numbers, 0)[at] == due.numbers
        same: Bools = there.copy()
        same[there] = self._same(block, key, due.where(there), at[there])
        return [int(number) for number in due.numbers[~same]]

    def _same(self, block: Block, key: str, held: Records, at: Ints) -> Bools:
        """Of records and the rows at which they should be, whether they say the same."""
        same = np.asarray((block.rows[at] == held.values).all(axis=1), np.bool_)
        if block.times is not None:
            same &= block.times[at] == held.times
        if block.subjects is not None:
            told = zip(held.numbers, held.subjects, block.subjects[at], strict=True)
            named = [
                who is None or number <= self._other_key or self._pseudonym(text) == who for number, who, text in told
            ]
            same &= np.array(named, np.bool_)
        if block.keys is not None and block.codes is not None:
            same &= np.asarray(block.keys[block.codes[at]] == key, np.bool_)
        return same


@dataclass(frozen=True, slots=True)
class Known:
    """How far the streams of a run have read a source.

    Attributes:
        rows: of each stream by name, how many of its rows.
        mark: the newest, and the largest in size; None if the source was not read before.
    """

    rows: Mapping[str, int]
    mark: Mark | None

    @classmethod
    def of(cls, positions: Mapping[str, Position]) -> Known:
        """From what each stream remembers; one that has not begun the newest generation has read nothing of it."""
        marks = {name: Mark.unpack(position.mark) for name, position in positions.items()}
        newest = max((mark for mark in marks.values() if mark is not None), key=_age, default=None)
        now = 0 if newest is None else newest.generation
        begun = (name for name, mark in marks.items() if (0 if mark is None else mark.generation) == now)
        return cls({name: positions[name].rows for name in begun}, newest)

    @property
    def furthest(self) -> int:
        """How many rows were read for the stream that came furthest."""
        return max(self.rows.values(), default=0)


def is_generation(position: Position, mark: bytes) -> bool:
    """Whether a position counts rows of the file with this mark, not of one whose place it took."""
    then, now = Mark.unpack(position.mark), Mark.unpack(mark)
    return (0 if then is None else then.generation) == (0 if now is None else now.generation)


def _age(mark: Mark) -> tuple[int, int]:
    return mark.generation, mark.size


_Group = dict[str, tuple[Terms, State]]
"""Streams that one run reads a source into."""


def check(
    copied: Mapping[str, tuple[Terms, State]], pseudonym: Callable[[str], str] | None = None
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Which sources of a store are not as they were when they were read; sentences.

    Args:
        copied: the streams, as in `vestige.store.StoreSnapshot.streams`.
        pseudonym: from a subject to what the store keeps of it; None if the key is not there.

    Returns:
        what was found (a source that changed, or cannot be read), and what is only worth knowing: one that is gone, or
        whose subjects cannot be compared.
    """
    found, notes = [], []
    for source, group in _grouped(copied):
        known = Known.of({name: state.positions[source] for name, (_, state) in group.items()})
        try:
            change = "" if known.mark is None else known.mark.explain_change(Mark.of(source, known.mark.generation))
        except SourceError as problem:
            found.append(f"source {problem}")
        except (FileNotFoundError, NotADirectoryError, ValueError):
            notes.append(f"source {source}: is not there any more, so nothing can be said of it")
        except OSError as problem:
            found.append(f"source {source}: cannot be looked at: {problem.strerror}")
        else:
            feed = _feed_of(source, group)
            if not change and known.mark is not None and feed is not None:
                if feed.subject is not None and pseudonym is None:
                    feed = replace(feed, subject=None)
                    notes.append(f"source {source}: its subjects were not compared, since the key is not there")
                try:
                    change, compared = _compare_rows(feed, group, known, pseudonym)
                    if not change and not compared:
                        notes.append(f"source {source}: {explain_no_witness(known.furthest)}")
                except SourceError as problem:
                    found.append(f"source {problem}")
            if change:
                found.append(f"source {source}: {change}; vestige run refuses it: see its option --if-replaced")
    return tuple(dict.fromkeys(found)), tuple(dict.fromkeys(notes))


def _grouped(copied: Mapping[str, tuple[Terms, State]]) -> list[tuple[str, _Group]]:
    """Each source with the streams that one run reads it into: one stream, or those that a column of keys makes."""
    groups: dict[tuple[str, str], _Group] = {}
    for name, (terms, state) in copied.items():
        run = f"stream {name}" if terms.about.get("by") is None else f"run {terms.about}"
        for source in state.positions:
            groups.setdefault((source, run), {})[name] = terms, state
    return [(source, group) for (source, _), group in sorted(groups.items(), key=lambda item: item[0])]


def _feed_of(source: str, group: _Group) -> Feed | None:
    """How a run read a source, but for the times, whose unit is not stored; None if it was not vestige run."""
    about = next(iter(group.values()))[0].about
    columns, targets, subject, by = (about.get(key) for key in ("columns", "targets", "subject", "by"))
    if not isinstance(columns, list) or not isinstance(targets, list):
        return None
    who, key = (None if value is None else str(value) for value in (subject, by))
    return Feed(Source(source), tuple(map(str, columns + targets)), subject=who, by=key, growing=True)


def _compare_rows(feed: Feed, group: _Group, known: Known, pseudonym: Callable[[str], str] | None) -> tuple[str, int]:
    """Why the rows of a source are not those that were read, empty if they are; how many could be compared."""
    mark = known.mark
    assert mark is not None  # noqa: S101
    same_key = pseudonym is not None and digest_key(pseudonym) == mark.key
    witnesses = Witnesses(pseudonym or str, mark.other_key if same_key else known.furthest)
    naming = Naming(feed.by)
    for name in known.rows:
        state = group[name][1]
        witnesses.add(naming.key(name), state.retained.of_source(state.positions[feed.source.name].slot))
    differing = witnesses.search(feed.blocks(0), known.furthest)
    return "" if differing is None else explain_difference(differing), len(witnesses)


def explain_no_witness(rows: int) -> str:
    """What is said of a source of which so many rows were read, and no record is held.

    >>> explain_no_witness(500)
    'rows 1 to 500 were read before, and none of them is held, so whether the file was replaced could not be checked'
    """
    were = (
        "row 1 was read before, and it is not held"
        if rows == 1
        else (f"rows 1 to {rows:,} were read before, and none of them is held")
    )
    return f"{were}, so whether the file was replaced could not be checked"


def explain_difference(row: int) -> str:
    """What is said of a source of which this row is the first that is not as it was."""
    return f"does not say in row {row:,} what it said when it was read"
