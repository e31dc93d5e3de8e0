"""Stores that were written in version 3 of the format, read so that they can be written in the present one.

Version 3 had the relative rounding of numbers, with all digits, where the version of the word and the first digits of
that rounding are today. All its words are of version 1. For the rest it is as version 4.
Guarantee: all else comes out as it was, and every answer is the same; held by tests/store/test_version3.py.
"""

from __future__ import annotations

import struct

from vestige.clock import Clock
from vestige.records import Records
from vestige.store.sqlite import version4
from vestige.store.sqlite.version6 import Heads
from vestige.store.terms import Terms

_WORD = slice(48, 56)
"""Where the header of a state has the version of the word and the rounding today."""


class Tables(version4.Tables):
    """The tables of a store of version 3."""

    def _unpack(self, body: bytes, terms: Terms) -> tuple[Clock, Records, Heads, int]:
        (rounding,) = struct.unpack("<d", body[_WORD])
        word = struct.pack("<if", 1, rounding)
        return super()._unpack(body[: _WORD.start] + word + body[_WORD.stop :], terms)
