"""Stores that were written in version 5 of the format, read so that they can be written in the present one.

Version 5 did not say how few bits a word has had; see `vestige.Clock.bits`.
Guarantee: all else comes out as it was; held by tests/store/test_version5.py.
"""

from __future__ import annotations

from vestige.clock import Clock
from vestige.records import Records
from vestige.store.sqlite import version6
from vestige.store.sqlite.version6 import Heads
from vestige.store.terms import Terms

_BITS = slice(88, 96)
"""Where the header of a state has the fewest bits of a word today."""


class Tables(version6.Tables):
    """The tables of a store of version 5."""

    def _unpack(self, body: bytes, terms: Terms) -> tuple[Clock, Records, Heads, int]:
        none = bytes(_BITS.stop - _BITS.start)
        return super()._unpack(body[: _BITS.start] + none + body[_BITS.start :], terms)
