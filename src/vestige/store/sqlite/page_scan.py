"""What a database file still holds: every byte of it is live data, structure or zero, and what is not is a finding.

Read after the SQLite file format, section 1, without SQLite: all trees from the schema on, their overflow chains and
the free list must reach each page once, and on each page whatever no live cell and no header covers must be zero,
but for old numbers of pages and rows that SQLite leaves on inner pages and behind lists of free pages.
Guarantee: any bytes are answered with sentences that name places and never content; held by
tests/store/test_page_scan.py.
"""

from __future__ import annotations

import struct
from itertools import pairwise, takewhile

LOCK_BYTE = 2**30  # the page around it is set aside for locks and never written
INDEX_INTERIOR, TABLE_INTERIOR, INDEX_LEAF, TABLE_LEAF = 2, 5, 10, 13
INTERIOR = (INDEX_INTERIOR, TABLE_INTERIOR)
INDEX, TABLE = (INDEX_INTERIOR, INDEX_LEAF), (TABLE_INTERIOR, TABLE_LEAF)
WIDTHS = (0, 1, 2, 3, 4, 6, 8, 8, 0, 0)  # bytes of a column by its type; from 12 on the type says the length itself

MOST_ROWS = 2**31  # a larger number is not a row of a store

NODE = struct.Struct(">BHHHB")
PAIR = struct.Struct(">HH")
LINKS = struct.Struct(">II")


def find_residue(image: bytes) -> tuple[str, ...]:
    """Find bytes of a database file that are neither live data nor structure nor zero.

    Args:
        image: all bytes of the file, as from `sqlite3.Connection.serialize`.

    Returns:
        One sentence for each finding, in order; empty if there is none.

    Example:
        >>> find_residue(b"not a database")
        ('page 1 is not the first page of a SQLite database (byte 0)',)
    """
    walk = _Walk(image)
    if walk.check_header():
        walk.check_lock_page()
        walk.walk_trees()
        walk.walk_freelist()
        walk.check_all_reached()
    places = sorted((page, at, what) for (page, what), at in walk.found.items())
    return tuple(f"page {page} {what} (byte {at})" for page, at, what in places)


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    """A number written in one to nine bytes, and where it ends."""
    value = 0
    for i in range(at, at + 8):
        byte = data[i]
        value = value << 7 | byte & 127
        if byte < 128:
            return value, i + 1
    return value << 8 | data[at + 8], at + 9


def _read_widths(record: bytes) -> list[int]:
    """How many bytes the header of a record takes, and each of its columns."""
    end, at = _read_varint(record, 0)
    widths = [end]
    while at < end:
        code, at = _read_varint(record, at)
        widths.append(WIDTHS[code] if code < 12 else (code - 12) // 2)
    return widths


class _Walk:
    """One walk over an image, page by page, and what it found: by page and kind, the first byte concerned."""

    def __init__(self, image: bytes) -> None:
        size = int.from_bytes(image[16:18], "big")
        self.image = image
        self.size = 65536 if size == 1 else size
        self.usable = self.size - int.from_bytes(image[20:21], "big")
        self.count = len(image) // max(self.size, 1)
        self.reached = bytearray(self.count + 1)
        self.todo: list[tuple[int, tuple[int, ...], bool]] = []
        self.found: dict[tuple[int, str], int] = {}

    def note(self, page: int, at: int, what: str) -> None:
        """Remember a finding at a byte of a page."""
        self.found.setdefault((page, what), (page - 1) * self.size + at)

    def check_zero(self, page: int, start: int, end: int, where: str) -> None:
        """Check that a stretch of a page is zero."""
        first, last = (page - 1) * self.size + start, (page - 1) * self.size + end
        if not self.image.startswith(bytes(last - first), first):
            kept = len(self.image[first:last].lstrip(b"\0"))
            self.note(page, end - kept, f"is not zero {where}")

    def reach(self, target: int, page: int, at: int) -> bool:
        """Whether a pointer, found at a byte of a page, leads to a page of the file that nothing led to before."""
        if not 1 <= target <= self.count:
            self.note(page, at, "points to a page that the file does not have")
        elif self.reached[target]:
            self.note(page, at, "points to a page that is reached twice")
        else:
            self.reached[target] = 1
            return True
        return False

    def check_header(self) -> bool:
        """Check the first 100 bytes; says whether the pages can be walked."""
        image, whole = self.image, self.size in [2**i for i in range(9, 17)] and self.usable >= 480
        if len(image) < 100 or not whole or image[:16] != b"SQLite format 3\0" or image[21:24] != b"\x40\x20\x20":
            self.note(1, 0, "is not the first page of a SQLite database")
            return False
        if image[18:20] != b"\1\1":
            self.note(1, 18, "tells of write-ahead logging; the journal mode must be DELETE")
        self.check_zero(1, 72, 92, "where the header is reserved")
        if any(image[52:56]) or any(image[64:68]):
            self.note(1, 52, "tells of auto_vacuum, whose pages are not understood; it must be NONE")
        elif len(image) != int.from_bytes(image[28:32], "big") * self.size:
            self.note(1, 28, f"counts other pages than the {len(image)} bytes of the file: it is cut off or too long")
        else:
            return True
        return False

    def check_lock_page(self) -> None:
        """Check the page set aside for locks, in files that are long enough to have it."""
        page = LOCK_BYTE // self.size + 1
        if page <= self.count:
            self.reached[page] = 1
            self.check_zero(page, 0, self.size, "though it is set aside for locks")

    def walk_trees(self) -> None:
        """Walk the tree of the schema, and all trees that it names."""
        if self.reach(1, 1, 0):
            self.todo.append((1, TABLE, True))
        while self.todo:
            page, kinds, schema = self.todo.pop()
            try:
                self.check_node(page, kinds, schema)
            except (struct.error, IndexError, ValueError):
                self.note(page, 0, "is damaged")

    def check_node(self, page: int, kinds: tuple[int, ...], schema: bool) -> None:
        """Check one page of a tree: spans of it are live up to a byte, and zero from there to their end."""
        data = self.image[(page - 1) * self.size : page * self.size]
        head = 100 if page == 1 else 0
        kind, free, cells, content, _ = NODE.unpack_from(data, head)
        top = head + (12 if kind in INTERIOR else 8)
        pointers = struct.unpack_from(f">{cells}H", data, top)
        if kind not in kinds:
            raise ValueError("a page of another kind of tree")
        if kind in INTERIOR:
            self.queue_child(page, head + 8, data, kind, schema)
        spans = [
            (0, top + 2 * cells, content or 65536, "between its cell pointers and its cells"),
            (self.usable, self.usable, self.size, "in the reserved bytes at its end"),
            (self.size, self.size, self.size, ""),
        ]
        while free:
            following, length = PAIR.unpack_from(data, free)
            if length < 4 or 0 < following < free + length:
                raise ValueError("freeblocks ascend")
            spans.append((free, free + 4, free + length, "in a freeblock"))
            free = following
        for at in pointers:
            end = self.walk_cell(page, at, data, kind, schema)
            spans.append((at, end, max(end, at + 4), "behind a cell shorter than four bytes"))
        if kind == TABLE_INTERIOR and self.has_only_numbers(data, top + 2 * cells, content):
            spans[0] = (0, content, content, "")
        self.check_gaps(page, sorted(spans))

    def has_only_numbers(self, data: bytes, start: int, end: int) -> bool:
        """Whether a gap of an interior page holds just old numbers, which SQLite leaves there when it splits one.

        It must fall into zeros, places of cells (two bytes each) and cells (the number of a page, then that of a row),
        of which the first and the last may be cut off.
        """
        within = {start} | {at + 1 for at in range(start, min(start + 4, end)) if data[at] < 128}
        for at in range(start, end):
            if at in within:
                within |= {at + 1} if data[at] == 0 else set()
                within |= (
                    {at + 2} if at + 2 <= end and int.from_bytes(data[at : at + 2], "big") < self.usable else set()
                )
                if int.from_bytes(data[at : at + 4], "big") <= self.count and at + 4 < end:
                    row, past = _read_varint(data, at + 4)
                    within |= {min(past, end)} if row <= MOST_ROWS else set()
        return end in within

    def check_gaps(self, page: int, spans: list[tuple[int, int, int, str]]) -> None:
        """Check that spans do not overlap, and that what they do not cover is zero."""
        for (_, live, end, where), (following, *_) in pairwise(spans):
            if not live <= end <= following:
                self.note(page, min(live, following), "has cells or freeblocks where none can be")
                continue
            if live < end:
                self.check_zero(page, live, end, where)
            if end < following:
                self.check_zero(page, end, following, "in a fragment between its cells")

    def queue_child(self, page: int, at: int, data: bytes, kind: int, schema: bool) -> None:
        """Have the page walked that an interior page points to."""
        target = int.from_bytes(data[at : at + 4], "big")
        if self.reach(target, page, at):
            self.todo.append((target, TABLE if kind in TABLE else INDEX, schema))

    def walk_cell(self, page: int, at: int, data: bytes, kind: int, schema: bool) -> int:
        """Where a cell ends; what it points to is walked, now or later."""
        if kind in INTERIOR:
            self.queue_child(page, at, data, kind, schema)
            at += 4
        length, at = _read_varint(data, at)
        if kind == TABLE_INTERIOR:
            return at
        if kind == TABLE_LEAF:
            _, at = _read_varint(data, at)
        end = at + self.count_local_bytes(length, kind)
        record = data[at:end]
        if end - at < length:
            chain = self.walk_chain(page, end, int.from_bytes(data[end : end + 4], "big"), length - len(record))
            if schema or record[0] > min(len(record), 127):  # the header of the record goes on there
                record += b"".join([self.image[start + 4 : start + self.usable] for start in chain])
        widths = _read_widths(record)
        if sum(widths) != length:
            self.note(page, at, "has a cell of another length than its record")
        if schema and kind == TABLE_LEAF:
            self.queue_root(page, at, record[sum(widths[:4]) : sum(widths[:5])])
        return end + 4 if end - at < length else end

    def queue_root(self, page: int, at: int, column: bytes) -> None:
        """Have the tree walked that a row of the schema names in its fourth column, if it names one."""
        target = int.from_bytes(column, "big", signed=True)
        if target and self.reach(target, page, at):
            self.todo.append((target, TABLE + INDEX, False))

    def count_local_bytes(self, length: int, kind: int) -> int:
        """How many bytes of a payload are in its cell; the others are on overflow pages."""
        most = self.usable - 35 if kind == TABLE_LEAF else (self.usable - 12) * 64 // 255 - 23
        if length <= most:
            return length
        least = (self.usable - 12) * 32 // 255 - 23
        fitting = least + (length - least) % (self.usable - 4)
        return fitting if fitting <= most else least

    def walk_chain(self, page: int, at: int, target: int, left: int) -> list[int]:
        """Where the overflow pages of a payload start, of which so many bytes are left; behind it they must be zero."""
        starts: list[int] = []
        while left > 0:
            if not self.reach(target, page, at):
                return starts
            page, at = target, 0
            start = (page - 1) * self.size
            starts.append(start)
            target = int.from_bytes(self.image[start : start + 4], "big")
            taken = min(left, self.usable - 4)
            left -= taken
            self.check_zero(page, 4 + taken, self.size, "behind the payload that overflows to it")
        if target:
            self.note(page, at, "has an overflow chain that goes on behind its payload")
        return starts

    def walk_freelist(self) -> None:
        """Walk the free pages: lists of numbers, and pages that must be zero."""
        target, total = LINKS.unpack_from(self.image, 32)
        page, at, free = 1, 32, 0
        while target and self.reach(target, page, at):
            page, at = target, 0
            start = (page - 1) * self.size
            target, leaves = LINKS.unpack_from(self.image, start)
            if leaves > self.usable // 4 - 2:
                self.note(page, 4, "is damaged")
                break
            for i, leaf in enumerate(struct.unpack_from(f">{leaves}I", self.image, start + 8)):
                if self.reach(leaf, page, 8 + 4 * i):
                    self.check_zero(leaf, 0, self.size, "though it is free")
            used = self.count_old_numbers(start, leaves)
            self.check_zero(page, 8 + 4 * used, self.size, "behind its list of free pages")
            free += 1 + leaves
        if free != total:
            self.note(1, 36, "counts other free pages than the free list has")

    def count_old_numbers(self, start: int, leaves: int) -> int:
        """How many numbers a list of free pages has, with those behind it of pages that SQLite has taken from it."""
        behind = struct.unpack_from(f">{self.usable // 4 - 2 - leaves}I", self.image, start + 8 + 4 * leaves)
        return leaves + sum(1 for _ in takewhile(lambda number: 0 < number <= self.count, behind))

    def check_all_reached(self) -> None:
        """Check that every page was reached."""
        page = self.reached.find(0, 1)
        while page > 0:
            self.note(page, 0, "is reached by nothing")
            page = self.reached.find(0, page + 1)
