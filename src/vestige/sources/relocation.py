"""Files that moved: which file at a new place is one that was read at another, told by rows that are still held.

A file may be one that was read before if it has its header, and its name, its size or its inode. It is that one if the
rows of it that are still held stand at their places, and are not so alike that they would stand there by chance; then
the other files of its folder moved with it. Where that cannot be told, the file is refused. No digest of a record is
stored for it.
Guarantee: after moves, copies, renames, rotations and new exports each row is counted once, or the file is refused;
held by tests/ingest/test_moved_files.py.
"""

from __future__ import annotations

import gzip
import math
import os
import re
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from io import BufferedReader
from itertools import takewhile

from vestige.errors import SourceError
from vestige.sources.comparison import RowComparison, measure_presence
from vestige.sources.file import FileSource
from vestige.sources.held import HeldRows
from vestige.sources.identity import FileIdentity, FileProgress
from vestige.sources.positions import decode_position, encode_position
from vestige.sources.protocol import History
from vestige.sources.resumption import find_progress, recall_dialect

_ORDERS = 100
"""Held rows tell files apart if they have at least so many orders; five rows that all differ have 120."""
_FEW = 5
"""Files of fewer rows may be equal by chance."""
_PART = 1 << 20
_GZIP = b"\x1f\x8b"
_COUNTED = 1_000
"""Number of held rows whose orders are counted."""
_ROTATED = re.compile(r"([.-](\d+))?(\.gz)?$")


@dataclass(frozen=True, slots=True)
class Move:
    """A file that was read before and is at another place now.

    Attributes:
        name: name under which it was known.
        now: what it looks like now.
    """

    name: str
    now: FileIdentity

    def renew(self, position: bytes) -> bytes:
        """Write a position for the file as it is now.

        Args:
            position: position in the file at its old place.

        Returns:
            The same position in the file at its new place.
        """
        rows, encoded = decode_position(position)
        before = FileIdentity.decode(encoded)
        if before is None:
            return position
        whole = before.whole if before.size == self.now.size else 0
        seen = {part: getattr(self.now, part) for part in ("device", "inode", "size", "header")}
        return encode_position(rows, replace(before, **seen, whole=whole).encode())


@dataclass(frozen=True, slots=True)
class _Known:
    """A file that was read before; whether its place is without it now, and whether this run reads that place."""

    name: str
    identity: FileIdentity
    progress: FileProgress
    is_left: bool
    is_listed: bool

    @property
    def is_here(self) -> bool:
        """Whether this run reads the file at the place where it was read before."""
        return self.is_listed and not self.is_left


@dataclass(frozen=True, slots=True)
class _Found:
    """A file of this run that was not read before at its place."""

    source: FileSource
    place: str
    now: FileIdentity


@dataclass(frozen=True, slots=True)
class _Witnesses:
    """Held rows of a file that was read: how many, whether all stand at their places in another, and tell it apart."""

    count: int
    stand: bool
    tell: bool


def find_moves(sources: Sequence[FileSource], history: History) -> dict[str, Move]:
    """Find the files of a run that were read before at other places.

    Args:
        sources: all files of the run.
        history: what a store knows of the streams of this run.

    Returns:
        What moved, by the real path at which it is now.

    Raises:
        SourceError: a file may be one that was read before, and nothing that is held tells.
    """
    found = list(_list_found(sources, history))
    if not found:
        return {}
    search = _Search(list(_list_known(sources, history)), history)
    for each in found:
        search.confirm(each)
    search.follow_others(found)
    for each in found:
        search.judge(each)
    search.judge_packed(found)
    search.report()
    return search.moves


def _list_found(sources: Sequence[FileSource], history: History) -> Iterator[_Found]:
    for source in sources:
        with suppress(OSError, SourceError):  # a file that cannot be read is refused when it is read
            name, progress = find_progress(source, history)
            if progress.identity is None or _is_left(name, progress.identity):
                yield _Found(source, os.path.realpath(source.path), FileIdentity.read(source.path))


def _list_known(sources: Sequence[FileSource], history: History) -> Iterator[_Known]:
    listed = {os.path.realpath(source.path) for source in sources}
    for name in history.sources:
        progress = FileProgress.collect(history.positions(name))
        if progress.identity is not None and progress.furthest:
            yield _Known(name, progress.identity, progress, _is_left(name, progress.identity), name in listed)


def _is_left(name: str, before: FileIdentity) -> bool:
    """Whether a place is without the file that was read there."""
    with suppress(OSError, ValueError):
        now = os.stat(name)
        return (now.st_dev, now.st_ino) != (before.device, before.inode) or now.st_size < before.size
    return True


class _Search:
    """A search for files that moved.

    Args:
        known: the files that the streams of the run were read from.
        history: what the store knows of these streams.

    Attributes:
        moves: what was found so far, by the place at which it is now.
    """

    def __init__(self, known: Sequence[_Known], history: History) -> None:
        self._known, self._history = {each.name: each for each in known}, history
        self._alike: dict[object, list[_Known]] = {}
        for each in known:
            for mark in _list_marks(each.name, each.identity):
                self._alike.setdefault(mark, []).append(each)
        self._heard: dict[tuple[str, str], _Witnesses] = {}
        self._away: set[str] = set()
        self._refused: list[str] = []
        self.moves: dict[str, Move] = {}

    def confirm(self, found: _Found) -> None:
        """Note a move that held rows confirm."""
        for known in self._list_candidates(found):
            witnesses = self._hear(found, known)
            if witnesses.stand and witnesses.tell and known.name not in self._away and not known.is_here:
                return self._note(found, known)
        return None

    def follow_others(self, found: Sequence[_Found]) -> None:
        """Note the moves of files whose folder moved, or that were rotated, as held rows of another file say."""
        folders = sorted({_drop_common(move.name, place) for place, move in self.moves.items()})
        rotations = {_split_rotated(place)[0] for place, move in self.moves.items() if _is_next(move.name, place)}
        for each in found:
            expected = [old + each.place.removeprefix(new) for old, new in folders if each.place.startswith(new)]
            if _split_rotated(each.place)[0] in rotations:
                expected += [known.name for known in self._list_candidates(each) if _is_next(known.name, each.place)]
            for known in filter(None, map(self._known.get, expected)):
                witnesses = self._hear(each, known)
                if (
                    each.place not in self.moves
                    and not (known.is_here or known.name in self._away)
                    and (known.identity.header, known.identity.size) == (each.now.header, each.now.size)
                    and (not _is_next(known.name, each.place) or _find_inode(known.identity) == _find_inode(each.now))
                    and (witnesses.stand or not witnesses.count)
                ):
                    self._note(each, known)

    def judge(self, found: _Found) -> None:
        """Refuse a file that may be one that was read before, unless the user says what it is."""
        if not self._is_open(found):
            return
        likely = [known for known in self._list_candidates(found) if self._may_be(found, known)]
        if not likely or self._history.if_moved == "new":
            return
        best = likely[0]
        is_copy = best.is_here or best.name in self._away
        is_one = len(likely) == 1 or _count_common(likely[1].name, found.place) < _count_common(best.name, found.place)
        if self._history.if_moved == "same" and is_one and not is_copy:
            self._note(found, best)
        else:
            self._refused.append(self._explain(found, best, is_copy=is_copy))

    def judge_packed(self, found: Sequence[_Found]) -> None:
        """Refuse a new file that is read both plain and packed, unless the user says that both count."""
        new = {each.place: each.source.path for each in found if self._is_open(each)}
        for place in () if self._history.if_moved == "new" else new:
            packed = f"{place}.gz"
            if packed in new and _is_copy(place, packed):
                self._refused.append(
                    f"{new[packed]}: is a copy of {new[place]}, and both are read; leave out one of them, or give "
                    "--if-moved new to count the rows of both"
                )

    def report(self) -> None:
        """Say what moved.

        Raises:
            SourceError: a file was refused.
        """
        if self._refused:
            others = len(self._refused) - 1
            more = f" (and {others:,} more file{'s' if others > 1 else ''} like it)" if others else ""
            raise SourceError(f"{self._refused[0]}{more}: nothing was taken")
        if self.moves:
            place, move = next(iter(self.moves.items()))
            others = len(self.moves) - 1
            more = f", and {others:,} more file{'s' if others > 1 else ''} moved too" if others else ""
            self._history.warn(f"{place}: was read before as {move.name}, and goes on where it was{more}.")

    def _is_open(self, found: _Found) -> bool:
        """Whether it is not settled what a file is: nothing else was read at its place, or that has moved."""
        return found.place not in self.moves and found.place not in self._known.keys() - self._away

    def _may_be(self, found: _Found, known: _Known) -> bool:
        """Whether a file may be one that was read before, although no held rows confirm it."""
        witnesses = self._hear(found, known)
        if known.is_here:  # so are both, and can be compared
            no_chance = _is_packed(known.name, found.place) or (not witnesses.count and known.progress.furthest >= _FEW)
            return (witnesses.stand and witnesses.tell) or (no_chance and _is_copy(known.name, found.place))
        if witnesses.stand:
            return True
        if known.name in self._away:
            new = next(place for place, move in self.moves.items() if move.name == known.name)
            return not witnesses.count and _is_copy(new, found.place)
        is_likely = _is_likely(found, known)
        if not witnesses.count:
            is_only = sum(each.identity.header == known.identity.header for each in self._known.values()) == 1
            return (is_likely or is_only) if known.is_left else is_likely and _is_copy(known.name, found.place)
        return known.is_left and (is_likely or witnesses.tell) and self._is_in_another_order(found, known)

    def _is_in_another_order(self, found: _Found, known: _Known) -> bool:
        """Whether most of the held rows of a file are in another one, at other places."""
        with suppress(SourceError):
            blocks = recall_dialect(found.source, known.identity).blocks()
            return measure_presence(self._find_held(known), blocks) > 0.5
        return False

    def _list_candidates(self, found: _Found) -> list[_Known]:
        """The files that a file may be, those with the most of its path first."""
        alike = {each.name: each for mark in _list_marks(found.place, found.now) for each in self._alike.get(mark, ())}
        candidates = [each for name, each in alike.items() if name != found.place or name in self._away]
        return sorted(candidates, key=lambda known: (-_count_common(known.name, found.place), known.name))

    def _hear(self, found: _Found, known: _Known) -> _Witnesses:
        """Ask the held rows of a file whether another one is that file."""
        asked = found.place, known.name
        if asked not in self._heard:
            held, stand = self._find_held(known), False
            if len(held):
                comparison = RowComparison(held, self._history.pseudonym, known.identity.other_key)
                with suppress(SourceError):
                    blocks = recall_dialect(found.source, known.identity).blocks()
                    stand = comparison.find_difference(blocks, known.progress.furthest) is None
            self._heard[asked] = _Witnesses(len(held), stand, _count_orders(held, found.source) >= _ORDERS)
        return self._heard[asked]

    def _find_held(self, known: _Known) -> HeldRows:
        return self._history.held(known.name).drop_streams(known.progress.outdated)

    def _note(self, found: _Found, known: _Known) -> None:
        self.moves[found.place] = Move(known.name, found.now)
        self._away.add(known.name)

    def _explain(self, found: _Found, known: _Known, *, is_copy: bool) -> str:
        """Say why it cannot be told what a file is, and how to say it."""
        path, read = found.source.path, f"{known.name}, which was read before"
        if is_copy:
            return (
                f"{path}: is a copy of {read} and is read too, or has all its rows; leave out one of them, or give "
                "--if-moved new to count the rows of both"
            )
        witnesses = self._hear(found, known)
        why = "no row of that one is held" if not witnesses.count else "the rows of that one that are held do not tell"
        return (
            f"{path}: may be {read}, and {why}; if it is the same file, --if-moved same continues after row "
            f"{known.progress.furthest:,}; if it is another one, --if-moved new counts it from its first row"
        )


def _count_orders(held: HeldRows, source: FileSource) -> float:
    """Count the orders of held rows that differ: by chance they stand at their places once in so many times."""
    columns = [held.values.tolist()]  # keys may come in turn, in every file alike
    columns += [held.times.tolist()] if source.time is not None else []
    columns += [held.subjects.tolist()] if source.subject is not None else []
    rows = [repr(row) for row in zip(*(column[:_COUNTED] for column in columns), strict=True)]
    orders = math.lgamma(len(rows) + 1) - sum(math.lgamma(count + 1) for count in Counter(rows).values())
    return math.exp(min(orders, 700.0)) * (1 + 1e-9)  # 5! is not quite 120 in logarithms


def _is_likely(found: _Found, known: _Known) -> bool:
    """Whether name and size, inode and size, or the path but for a rotation or a packing are those of another file."""
    same_name = os.path.basename(known.name) == os.path.basename(found.place)
    same_inode = _find_inode(known.identity) == _find_inode(found.now)
    same_size = known.identity.size == found.now.size
    is_packed = _is_packed(known.name, found.place)
    return (same_size and (same_name or same_inode)) or is_packed or _is_next(known.name, found.place)


def _is_packed(one: str, other: str) -> bool:
    """Whether two files have the same path but for a packing."""
    return one.removesuffix(".gz") == other.removesuffix(".gz")


def _is_copy(one: str, other: str) -> bool:
    """Whether two files have the same content, packed or not."""
    with suppress(OSError, EOFError, zlib.error), ExitStack() as stack:
        first, second = (stack.enter_context(_open(path)) for path in (one, other))
        while (part := first.read(_PART)) == second.read(_PART):
            if not part:
                return True
    return False


def _open(path: str) -> gzip.GzipFile | BufferedReader:
    with open(path, "rb") as file:
        is_gzip = file.read(2) == _GZIP
    return gzip.open(path) if is_gzip else open(path, "rb")


def _find_inode(identity: FileIdentity) -> tuple[int, int]:
    return identity.device, identity.inode


def _list_marks(path: str, identity: FileIdentity) -> Iterator[object]:
    """What two files must have in common, beside the header, so that one may be the other."""
    yield identity.header, os.path.basename(_split_rotated(path)[0])
    yield identity.header, identity.size
    yield identity.header, _find_inode(identity)


def _split_rotated(path: str) -> tuple[str, int]:
    """A path without what a rotation adds to it, and the number that it adds."""
    found = _ROTATED.search(path)
    return (path, 0) if found is None else (path[: found.start()], int(found[2] or 0))


def _is_next(one: str, other: str) -> bool:
    """Whether a rotation gives a file the other name."""
    (stem, number), rotated = _split_rotated(one), _split_rotated(other)
    return rotated == (stem, number + 1)


def _count_common(one: str, other: str) -> int:
    """Count the last parts that two paths have in common."""
    pairs = zip(reversed(one.split(os.sep)), reversed(other.split(os.sep)), strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def _drop_common(one: str, other: str) -> tuple[str, str]:
    """Two paths up to the last parts that they have in common."""
    common = os.sep.join(one.split(os.sep)[len(one.split(os.sep)) - _count_common(one, other) :])
    return one.removesuffix(common), other.removesuffix(common)
