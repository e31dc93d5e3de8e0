"""Requests that a service has taken, in pages of rows: each is found by the keyed hash of its idempotency key.

An entry has 44 bytes, and a page of 90 fits one page of a file, sealed or not, so that a commit writes one or two of
them. What is in memory of an entry is eight bytes of its hash and the number of its page, in sorted runs that are
merged as they grow (O'Neil and others 1996, The log-structured merge-tree).
Guarantee: a request is found from its commit until it has expired, and no byte of it is left in the store then; held
by tests/store/test_service_notes.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

import numpy as np
from numpy.typing import NDArray

from vestige.store.keys import PSEUDONYM
from vestige.store.layout import DamagedError
from vestige.store.rows import Rows, check_row, pack_row_head
from vestige.times import EPOCH, to_utc

KEPT = timedelta(days=1)
"""How long a request that is sent again is recognised."""
GRACE = timedelta(minutes=1)
"""How much later than that it is erased at most, while the service runs; `vestige verify` reports what is older."""
PAGE = 90
"""Number of requests in a row."""
FINGERPRINT = 8
"""Bytes that tell bodies apart."""
_ENTRY = np.dtype(
    [("key", f"V{PSEUDONYM}"), ("fingerprint", f"V{FINGERPRINT}"), ("second", "<u4"), ("counts", "<u4", 4)]
)
_Entries = NDArray[np.void]
_Prefixes = NDArray[np.uint64]
_Numbers = NDArray[np.uint32]
_Run = tuple[_Prefixes, _Numbers]
_TABLE = "requests"
_SECOND = timedelta(seconds=1)
_LONGEST_MERGED = 1 << 17
"""Number of entries in a run that is merged with the next."""
_LATER = 2**32
"""Later than any second that is stored."""


@dataclass(frozen=True, slots=True)
class TakenRequest:
    """A request that was taken.

    Attributes:
        key: the keyed hash of its idempotency key, 16 bytes.
        fingerprint: of its body, 8 bytes.
        at: when it was taken; kept to the second.
        counts: what became of its rows: how many were taken, late, skipped, and failed.
    """

    key: bytes
    fingerprint: bytes
    at: datetime
    counts: tuple[int, int, int, int]


@dataclass(slots=True)
class _Page:
    """What is known of a row.

    Attributes:
        checksum: with which its head begins.
        oldest: second of its oldest entry; `_LATER` if there is none.
        count: number of entries.
    """

    checksum: bytes
    oldest: int
    count: int


class TakenRequests:
    """The requests of late; whoever writes holds a transaction.

    Args:
        rows: the rows of the store.
    """

    def __init__(self, rows: Rows) -> None:
        self._rows = rows
        self._pages: dict[int, _Page] = {}
        self._runs: list[_Run] = []
        self._empty: set[int] = set()
        self._oldest = _LATER
        """The second of the oldest entry, or one before it."""
        self._open = 0
        """The page that is written next, while it has room; 0 for none."""
        self._is_current = False

    def forget(self) -> None:
        """Look at the store again when something is needed next; pages that are as they were are not read again."""
        self._is_current = False

    def count(self) -> int:
        """Count the requests.

        Returns:
            The number, of expired ones too that were not erased yet.

        Raises:
            DamagedError: a row is damaged, or has vanished.
        """
        self._load()
        return sum(page.count for page in self._pages.values())

    def find(self, keys: Sequence[bytes]) -> dict[bytes, TakenRequest]:
        """Find requests.

        Args:
            keys: the keyed hashes of their idempotency keys.

        Returns:
            Those that are known, by key.

        Raises:
            DamagedError: a row is damaged, or has vanished.
        """
        self._load()
        pages = self._find_pages(_find_prefixes(b"".join(keys)))
        wanted = set(keys)
        return {
            taken.key: taken
            for row in np.unique(pages).tolist()
            for taken in _unpack(self._read(row))
            if taken.key in wanted
        }

    def note(self, taken: Sequence[TakenRequest]) -> None:
        """Note requests, whose keys are not known yet.

        Args:
            taken: the requests.
        """
        self._load()
        left = _pack(taken)
        while len(left):
            row = self._find_room()
            known = self._read(row) if row == self._open else left[:0]
            room = PAGE - len(known)
            self._open = row if len(left) < room else 0
            self._write(row, np.concatenate([known, left[:room]]))
            self._add(_find_prefixes(left[:room]["key"].tobytes()), row)
            left = left[room:]

    def has_expired(self, at: datetime) -> bool:
        """Tell whether there is something to erase.

        Args:
            at: the present time.

        Returns:
            Whether a request is older than `KEPT`.
        """
        self._load()
        return self._oldest <= _to_second(at - KEPT)

    def expire(self, at: datetime) -> int:
        """Erase the requests that are older than `KEPT`.

        Args:
            at: the present time.

        Returns:
            How many there were.
        """
        self._load()
        last, had = _to_second(at - KEPT), self.count()
        changed = [row for row, page in self._pages.items() if page.oldest <= last]
        self._drop(changed)
        for row in changed:
            known = self._read(row)
            kept = known[known["second"] > last]
            self._write(row, kept)
            self._add(_find_prefixes(kept["key"].tobytes()), row)
        self._find_oldest()
        self._is_current = True
        return had - self.count()

    def clear(self) -> None:
        """Erase all requests, readable or not."""
        for row in range(1, self._rows.about.pages + 1):
            self._write(row, np.empty(0, _ENTRY))
        self._runs = []

    def arrange(self) -> None:
        """Bring the requests into their canonical form: in the order of their times and keys, in full pages."""
        self._load()
        if not self._pages:
            return
        known = np.concatenate([self._read(row) for row in sorted(self._pages)])
        halves = np.frombuffer(known["key"].tobytes(), ">u8").reshape(-1, 2)
        order = np.lexsort((halves[:, 1], halves[:, 0], known["second"]))
        least = {len(self._pages): 1}
        is_dense = all(page.count >= least.get(row, PAGE) for row, page in self._pages.items())
        if is_dense and (order == np.arange(len(known))).all():
            return
        self._rows.cut(_TABLE, 1)
        self._rows.about = replace(self._rows.about, pages=0)
        self._pages = {}
        for start in range(0, len(order), PAGE):
            self._write(start // PAGE + 1, known[order[start : start + PAGE]])
        self._runs, self._pages = [], {}
        self.forget()

    def inspect(self, at: datetime) -> Iterator[str]:
        """Find what is wrong.

        Args:
            at: the time that they are checked against.

        Yields:
            One sentence for each finding.

        Raises:
            DamagedError: a row is damaged, or has vanished.
        """
        self._load()
        entries = [self._read(row) for row in sorted(self._pages)]
        keys = [key.tobytes() for page in entries for key in page["key"]]
        late = sum(int((page["second"] <= _to_second(at - KEPT - GRACE)).sum()) for page in entries)
        if late:
            yield f"Overdue: {late:,} requests of a service are older than {KEPT}; run vestige sweep"
        if len({*keys}) < len(keys):
            yield "the table requests has a key twice"

    # Rows.

    def _load(self) -> None:
        """Read the pages that are not known yet, or were changed elsewhere."""
        if self._is_current:
            return
        heads = self._rows.read_column(_TABLE, "head")
        if [row for row, _ in heads] != list(range(1, self._rows.about.pages + 1)):
            raise DamagedError(f"the rows of the table {_TABLE} are not those that were written")
        changed = [
            row for row, head in heads if row not in self._pages or self._pages[row].checksum != _read_checksum(head)
        ]
        self._drop(changed + [row for row in self._pages if row > len(heads)])
        found, numbers, pages = [np.empty(0, np.uint64)], [np.empty(0, np.uint32)], dict[int, _Page]()
        for row in changed:
            entries = self._read(row)
            pages[row] = _make_page(heads[row - 1][1], entries)
            found.append(_find_prefixes(entries["key"].tobytes()))
            numbers.append(np.full(len(entries), row, np.uint32))
        self._add(np.concatenate(found), np.concatenate(numbers))
        self._pages |= pages  # last of all: a page that is known is not read again
        self._empty = {row for row, page in self._pages.items() if not page.count}
        partial = [row for row, page in self._pages.items() if 0 < page.count < PAGE]
        self._open = max(partial, key=lambda row: self._pages[row].oldest, default=0)
        self._find_oldest()
        self._is_current = True

    def _find_oldest(self) -> None:
        self._oldest = min((page.oldest for page in self._pages.values()), default=_LATER)

    def _read(self, row: int) -> _Entries:
        stored = self._rows.read(_TABLE, row)
        if stored is None:
            raise DamagedError(f"row {row} of the table {_TABLE} has vanished")
        count, plain = check_row(_TABLE, row, *stored)
        if len(plain) != count * _ENTRY.itemsize or count > PAGE:
            raise DamagedError(f"row {row} of the table {_TABLE} is damaged")
        return np.frombuffer(plain, _ENTRY)

    def _write(self, row: int, entries: _Entries) -> None:
        body = entries.tobytes()
        head = pack_row_head(_TABLE, row, len(entries), body)
        self._rows.write(_TABLE, row, head, body)
        self._rows.about = replace(self._rows.about, pages=max(row, self._rows.about.pages), untidy=True)
        self._pages[row] = page = _make_page(head, entries)
        self._oldest = min(self._oldest, page.oldest)
        if len(entries):
            self._empty.discard(row)
        else:
            self._empty.add(row)

    def _find_room(self) -> int:
        """The page that is written next: the one that has room, else an empty one, else a new one at the end."""
        return self._open or min(self._empty, default=len(self._pages) + 1)

    # What is in memory of them.

    def _find_pages(self, prefixes: _Prefixes) -> _Numbers:
        """The pages in which keys with these prefixes are."""
        found = [np.empty(0, np.uint32)]
        for known, pages in self._runs:
            first, last = np.searchsorted(known, prefixes), np.searchsorted(known, prefixes, "right")
            found += [pages[start:end] for start, end in zip(first, last, strict=True) if start < end]
        return np.concatenate(found)

    def _add(self, prefixes: _Prefixes, pages: _Numbers | int) -> None:
        """Add a run, and merge those before it that are not larger, as long as that takes a moment only."""
        run = _sort(prefixes, np.broadcast_to(np.asarray(pages, np.uint32), len(prefixes)))
        while self._runs and len(self._runs[-1][0]) <= min(2 * len(run[0]), _LONGEST_MERGED):
            known = self._runs.pop()
            run = _sort(np.concatenate([known[0], run[0]]), np.concatenate([known[1], run[1]]))
        if len(run[0]):
            self._runs.append(run)

    def _drop(self, rows: Sequence[int]) -> None:
        """Forget some pages, and what is in them; until all are known again, an error has them read again."""
        self._is_current = False
        for row in rows:
            self._pages.pop(row, None)
        gone = np.array(rows, np.uint32)
        for at, (prefixes, pages) in enumerate(self._runs) if len(gone) else ():
            stays = ~np.isin(pages, gone)
            self._runs[at] = prefixes[stays], pages[stays]
        self._runs = [run for run in self._runs if len(run[0])]


def _sort(prefixes: _Prefixes, pages: _Numbers) -> _Run:
    order = np.argsort(prefixes, kind="stable")
    return prefixes[order], pages[order]


def _find_prefixes(keys: bytes) -> _Prefixes:
    """The first eight bytes of each key."""
    return np.frombuffer(keys, "<u8").reshape(-1, PSEUDONYM // 8)[:, 0]


def _make_page(head: bytes, entries: _Entries) -> _Page:
    return _Page(_read_checksum(head), int(entries["second"].min()) if len(entries) else _LATER, len(entries))


def _read_checksum(head: bytes) -> bytes:
    return head[:4]


def _to_second(moment: datetime) -> int:
    return (to_utc(moment) - EPOCH) // _SECOND


def _pack(taken: Sequence[TakenRequest]) -> _Entries:
    """Requests as they are stored."""
    made = np.zeros(len(taken), _ENTRY)
    for at, each in enumerate(taken):
        made[at] = (each.key, each.fingerprint, _to_second(each.at), each.counts)
    return made


def _unpack(entries: _Entries) -> Iterator[TakenRequest]:
    for entry in entries:
        at = EPOCH + int(entry["second"]) * _SECOND
        taken, late, skipped, failed = entry["counts"].tolist()
        yield TakenRequest(entry["key"].tobytes(), entry["fingerprint"].tobytes(), at, (taken, late, skipped, failed))
