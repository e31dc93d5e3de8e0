"""Stores that were written in version 2 of the format, read so that they can be written in the present one.

Version 2 did not count the rounds whose record was erased while it waited: there are taken to be none. For the rest it
is as version 3.
Guarantee: all else comes out as it was; held by tests/store/test_version2.py.
"""

from __future__ import annotations

from vestige.clock import Clock
from vestige.records import Records
from vestige.store.sqlite import version3
from vestige.store.sqlite.version6 import Heads
from vestige.store.terms import Terms

_GAPS = slice(56, 64)
"""Where the header of a state has the gaps today."""


class Tables(version3.Tables):
    """The tables of a store of version 2."""

    def _unpack(self, body: bytes, terms: Terms) -> tuple[Clock, Records, Heads, int]:
        none = bytes(_GAPS.stop - _GAPS.start)
        return super()._unpack(body[: _GAPS.start] + none + body[_GAPS.start :], terms)
