"""Stores that were written in version 4 of the format, read so that they can be written in the present one.

Version 4 had no ledger, so that no state said which of its requests had been met there, and receipts had neither a
reference nor a time of their own for which they are kept.
Guarantee: all else comes out as it was; held by tests/store/test_version4.py.
"""

from __future__ import annotations

import struct

from vestige.clock import Clock
from vestige.records import Records
from vestige.store.keys import PSEUDONYM
from vestige.store.layout import unseal
from vestige.store.sqlite import version5
from vestige.store.sqlite.version6 import About, Heads
from vestige.store.terms import Terms

_ABOUT = struct.Struct(f"<QQQ?7x{PSEUDONYM}s")
_SETTLED = slice(80, 88)
"""Where the header of a state has the newest request that has been met today."""


class Tables(version5.Tables):
    """The tables of a store of version 4."""

    def _read_about(self) -> About:
        return About(*_ABOUT.unpack(unseal(self.read("about", 1), "about", 1)))

    def _unpack(self, body: bytes, terms: Terms) -> tuple[Clock, Records, Heads, int]:
        none = bytes(_SETTLED.stop - _SETTLED.start)
        return super()._unpack(body[: _SETTLED.start] + none + body[_SETTLED.start :], terms)
