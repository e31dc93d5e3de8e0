"""Stores that were written in version 3 of the format, read so that they can be written in the present one.

Version 3 had the relative rounding of numbers where the version of the word is today, and all its words are of version
1: whoever reads one knows from its length how coarse it is.
Guarantee: all else comes out as it was, and every answer is the same; held by tests/store/test_version3.py.
"""

from __future__ import annotations

from vestige.clock import Clock
from vestige.records import Records
from vestige.store.sqlite import tables
from vestige.store.sqlite.layout import Heads, unpack_state
from vestige.store.terms import Terms

_WORD = slice(48, 56)
"""Where the header of a state has the version of the word today."""
_FIRST = (1).to_bytes(8, "little")


class Tables(tables.Tables):
    """The tables of a store of version 3."""

    def _unpack(self, body: bytes, terms: Terms) -> tuple[Clock, Records, Heads]:
        return unpack_state(body[: _WORD.start] + _FIRST + body[_WORD.stop :], terms.columns, terms.capacity)
