"""A store that was put back from an old backup, told by a note beside its key, which is kept apart from it.

The note counts how often the store was opened and written, and its requests: 16 bytes. A list beside it has the number,
the time and the reference of each request in the ledger, no person and no content, so that those of which the store
knows nothing any more can be named.
Guarantee: a store that is older than the note is noticed until somebody accepts it, and no other one is; held by
tests/store/test_rollback.py.
"""

from __future__ import annotations

import logging
import struct
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from vestige.errors import StoreError
from vestige.store.ledger import Ledger
from vestige.store.paths import append_ending, write_private

_log = logging.getLogger("vestige")
_NOTE = struct.Struct("<QQ")
_NOTICED = 1 << 63
_COUNTER_BITS = 31


@dataclass(frozen=True, slots=True)
class Rollback:
    """What is known of a store that was put back from an old backup.

    Attributes:
        where: the store.
        requests: the number of the newest request that it knew when it was put back.
        missing: references of the requests that it does not know, in the order of the requests; None for one without.
    """

    where: str
    requests: int
    missing: tuple[str | None, ...]

    @property
    def text(self) -> str:
        """What happened and what to do, as a sentence."""
        named = [reference for reference in self.missing if reference is not None]
        unnamed = len(self.missing) - len(named)
        parts = [", ".join(named)] if named else []
        parts += [f"{unnamed:,} without a reference"] if unnamed else []
        again = (
            f"requests that must be filed again: {' and '.join(parts)}; give each person, a tab and the reference on a "
            f"line of a file to vestige forget {self.where} --subjects-from FILE --with-references, and again after "
            "the next vestige run, which may read their rows again; "
            if parts
            else "no request is missing; "
        )
        return (
            f"{self.where}: was put back from an old backup, so that it may hold again what was erased since; {again}"
            f"vestige sweep {self.where} erases what is due, and vestige accept {self.where} accepts the store as it is"
        )


class RollbackNote:
    """The note beside the key of a store, and the list of its requests.

    Args:
        key: the file with the key.
        store: the file of the store.
    """

    def __init__(self, key: Path, store: Path) -> None:
        own = key if key.name.startswith(store.name) else append_ending(key, f".{store.name}")
        self._key, self._store = key, store
        self._note, self._list = append_ending(own, ".count"), append_ending(own, ".requests")
        self._is_told = False

    @property
    def is_kept(self) -> bool:
        """Whether there is a key that a note can be kept beside."""
        return self._key.exists()

    def find(self, counter: int, read_ledger: Callable[[], Ledger]) -> Rollback | None:
        """Find out whether a store was put back.

        Args:
            counter: the counter in its file.
            read_ledger: function that reads its requests.

        Returns:
            What is known of it; None if it was not put back.
        """
        noted = self._read()
        if noted is None:
            return None
        ledger = read_ledger()
        if noted[0] & _NOTICED:
            newest = noted[1]
        elif 0 < (noted[0] - counter) % (1 << _COUNTER_BITS) < 1 << _COUNTER_BITS - 1 or noted[1] > ledger.newest:
            newest = ledger.newest
        else:
            return None
        known = {receipt.reference for receipt in ledger.receipts} - {None}
        missing = [reference for number, _, reference in self._list_requests() if number > newest]
        return Rollback(str(self._store), newest, tuple(each for each in missing if each not in known))

    def mark_noticed(self, rollback: Rollback, counter: int) -> None:
        """Note that the store was put back, so that this is known whatever is written to it.

        Args:
            rollback: what is known.
            counter: the counter in its file.
        """
        self._write(counter | _NOTICED, rollback.requests)

    def write(self, counter: int, ledger: Ledger | None) -> None:
        """Note how far a store has come.

        Args:
            counter: the counter in its file.
            ledger: its requests, if they have changed.
        """
        if ledger is None:
            _, newest = self._read() or (0, 0)
            self._write(counter, newest)
            return
        lines = [
            f"{number}\t{entry.receipt.requested.isoformat()}\t{entry.receipt.reference or ''}\n"
            for number, entry in ledger.entries.items()
        ]
        if lines or self._list.exists():
            self._save(self._list, "".join(lines).encode())
        self._write(counter, ledger.newest)

    def _write(self, counter: int, requests: int) -> None:
        self._save(self._note, _NOTE.pack(counter, requests))

    def _save(self, file: Path, content: bytes) -> None:
        try:
            write_private(file, content)
        except StoreError as problem:
            if not self._is_told:
                _log.warning("%s; until then, a store that is put back from a backup is not noticed", problem)
            self._is_told = True

    def _read(self) -> tuple[int, int] | None:
        with suppress(OSError, struct.error):
            counter, requests = _NOTE.unpack(self._note.read_bytes())
            return counter, requests
        return None

    def _list_requests(self) -> Iterator[tuple[int, str, str | None]]:
        """Number, time and reference of each request."""
        with suppress(OSError, ValueError):
            for line in self._list.read_text("utf-8").splitlines():
                number, requested, reference = line.split("\t")
                yield int(number), requested, reference or None
