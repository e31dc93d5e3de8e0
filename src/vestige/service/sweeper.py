"""What is due while nothing arrives: records that are too old are erased, and requests of other processes are met.

Guarantee: limits in time hold without arrivals; held by tests/service/test_serve.py.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from contextlib import suppress

from vestige.errors import StreamsError
from vestige.operations import process_inbox, sweep
from vestige.operations.families import list_families
from vestige.store import Store

_REST = 2.0
"""Pause after a sweep, as a multiple of the time that it took: one that finds nothing takes a millisecond, and after
one that erases, the next records are due soon. With 20, a busy machine held some records for 13 s longer."""
_log = logging.getLogger("vestige.service")


class Sweeper:
    """Maintains a store; the writer calls `run` every second.

    Args:
        store: the store.
        tell: called with the kind of an event and its facts.

    Attributes:
        sweeps: number of sweeps.
        erased: number of records that they have erased.
        troubles: number of streams in trouble at the last one.
        swept_at: when the last one ended, in seconds since 1970; 0 if there was none.
    """

    def __init__(self, store: Store, tell: Callable[[str, dict[str, object]], None]) -> None:
        self._store, self._tell, self._next = store, tell, 0.0
        self._known: set[str] = set()
        self.sweeps = self.erased = self.troubles = 0
        self.swept_at = 0.0

    def run(self) -> None:
        """Carry out requests of other processes, and erase what is due."""
        self._warn(len(process_inbox(self._store).troubles), "requests")
        began = time.monotonic()
        if began < self._next:
            return
        erased = self._sweep_families()
        done = sweep(self._store, tidy=False)  # tidying would write all of the store, and have requests wait
        erased += done.erased
        self._warn(len(done.troubles), "streams")
        self.sweeps, self.erased, self.troubles = self.sweeps + 1, self.erased + erased, len(done.troubles)
        self.swept_at = time.time()
        if erased:
            self._tell("erased", {"records": erased})
        self._next = time.monotonic() + _REST * (time.monotonic() - began)

    def _sweep_families(self) -> int:
        """Erase what is due in the streams that are open here, many at a time: one by one, thousands take seconds."""
        erased = 0
        for family in list_families(self._store):
            erased += family.count_all()[1]
            with suppress(StreamsError):  # the sweep of the store says what is wrong
                family.sweep()
            erased -= family.count_all()[1]
        return erased

    def _warn(self, troubles: int, of_what: str) -> None:
        """Say how many are in trouble, each number once; names may be keys, so that none is logged."""
        text = f"{troubles} {of_what} are in trouble; see vestige verify"
        if troubles and text not in self._known:
            self._known.add(text)
            _log.warning(text)
