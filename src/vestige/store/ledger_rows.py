"""The ledger of a store in rows: requests in chunks by their numbers, so that a change writes little.

Guarantee: the ledger is read back as it was written, and a request that has vanished is noticed; held by
tests/store/test_machine.py and tests/store/test_damage.py.
"""

from __future__ import annotations

import struct
from dataclasses import replace

from vestige.store.layout import DamagedError, pack_ledger_entry, unpack_ledger_entry
from vestige.store.ledger import Ledger, LedgerEntry
from vestige.store.rows import Rows, check_row, pack_row_head

CHUNK = 256
"""Number of requests in a row."""
_ENTRY = struct.Struct("<QI")


def read_ledger(rows: Rows) -> Ledger:
    """Read the requests to streams of a store.

    Args:
        rows: the rows of the store.

    Returns:
        The ledger.

    Raises:
        DamagedError: a row is damaged, or has vanished.
    """
    entries: dict[int, LedgerEntry] = {}
    for row, stored in rows.iterate("ledger"):
        entries |= _unpack(row, *stored)
    about = rows.about
    if len(entries) != about.entries or max(entries, default=0) > about.requests:
        raise DamagedError("the rows of the ledger are not those that were written")
    return Ledger(about.requests, entries)


def write_ledger(rows: Rows, ledger: Ledger) -> None:
    """Replace the requests to streams of a store; rows that are as they were are not written.

    Args:
        rows: the rows of the store.
        ledger: the ledger.
    """
    chunks: dict[int, list[bytes]] = {row: [] for row, _ in rows.iterate("ledger", ("head",))}
    for number, entry in sorted(ledger.entries.items()):
        plain = pack_ledger_entry(entry)
        chunks.setdefault(number // CHUNK + 1, []).append(_ENTRY.pack(number, len(plain)) + plain)
    for row, parts in sorted(chunks.items()):
        body = b"".join(parts)
        head, stored = pack_row_head("ledger", row, len(parts), body), rows.read("ledger", row, ("head",))
        if stored != (head,):
            rows.write("ledger", row, head, body)
            rows.mark_untidy()
    if (rows.about.requests, rows.about.entries) != (ledger.newest, len(ledger.entries)):
        rows.about = replace(rows.about, requests=ledger.newest, entries=len(ledger.entries), untidy=True)


def _unpack(row: int, head: object, body: object) -> dict[int, LedgerEntry]:
    count, plain = check_row("ledger", row, head, body)
    entries, at = {}, 0
    for _ in range(count):
        number, length = _ENTRY.unpack_from(plain, at)
        at += _ENTRY.size
        entries[number] = unpack_ledger_entry(plain[at : at + length])
        at += length
    return entries
