"""Definitions that a service was given, in rows: each lives from its creation on, before the first record arrives.

Guarantee: what was written is read back, and nothing of a definition that was removed is left in the store; held by
tests/store/test_service_notes.py.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace

from vestige.store.layout import DamagedError
from vestige.store.rows import Rows, check_row, pack_row_head
from vestige.store.text import decode_text, encode_text

_TABLE = "definitions"
Definitions = dict[str, dict[str, object]]
"""Definitions as plain data, by name."""


def read_definitions(rows: Rows) -> Definitions:
    """Read all definitions.

    Args:
        rows: the rows of the store.

    Returns:
        The definitions.

    Raises:
        DamagedError: a row is damaged, or has vanished.
    """
    found = _read(rows)
    return {name: data for _, (name, data) in sorted(found.items()) if name}


def write_definition(rows: Rows, name: str, data: Mapping[str, object]) -> None:
    """Write a definition, which replaces the one that is there.

    Args:
        rows: the rows of the store.
        name: its name.
        data: the definition as plain data.
    """
    found = _read(rows)
    free = (
        row for row, (known, _) in sorted(found.items(), key=lambda each: each[1][0] != name) if known in (name, "")
    )
    row = next(free, len(found) + 1)
    _write(rows, row, _pack(name, data))
    rows.about = replace(rows.about, definitions=max(row, len(found)), untidy=True)


def erase_definition(rows: Rows, name: str) -> bool:
    """Erase a definition.

    Args:
        rows: the rows of the store.
        name: its name.

    Returns:
        Whether there was one.
    """
    found = _read(rows)
    gone = [row for row, (known, _) in found.items() if known == name]
    for row in gone:
        _write(rows, row, b"")
        rows.about = replace(rows.about, untidy=True)
    return bool(gone)


def arrange_definitions(rows: Rows) -> None:
    """Bring the definitions into their canonical form: in the order of their names, without empty rows.

    Args:
        rows: the rows of the store.
    """
    found = _read(rows)
    kept = sorted((name, data) for name, data in found.values() if name)
    if kept == [found[row] for row in sorted(found)]:
        return
    rows.cut(_TABLE, 1)
    rows.about = replace(rows.about, definitions=len(kept))
    for row, (name, data) in enumerate(kept, 1):
        _write(rows, row, _pack(name, data))


def _pack(name: str, data: Mapping[str, object]) -> bytes:
    return encode_text(json.dumps([name, data], ensure_ascii=False, sort_keys=True))


def _read(rows: Rows) -> dict[int, tuple[str, dict[str, object]]]:
    """Name and data of each row; no name for one that is empty."""
    found: dict[int, tuple[str, dict[str, object]]] = {}
    for row, stored in rows.iterate(_TABLE):
        _, plain = check_row(_TABLE, row, *stored)
        name, data = json.loads(decode_text(plain)) if plain else ("", {})
        found[row] = name, data
    if list(found) != list(range(1, rows.about.definitions + 1)):
        raise DamagedError(f"the rows of the table {_TABLE} are not those that were written")
    return found


def _write(rows: Rows, row: int, body: bytes) -> None:
    rows.write(_TABLE, row, pack_row_head(_TABLE, row, int(bool(body)), body), body)
