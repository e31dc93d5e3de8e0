"""Requests that were taken, by their idempotency key, so that one that is sent again is answered, not counted.

A key is kept as a keyed hash beside a fingerprint of the body, for `KEPT`.
Guarantee: a key that was rolled back is not known; held by tests/service/test_engine.py.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import datetime, timedelta

KEPT = timedelta(days=1)
"""How long a request that is sent again is recognised."""


@dataclass(frozen=True, slots=True)
class Counts:
    """What became of the rows of a request.

    Attributes:
        taken: number of rows that were taken.
        late: number of rows that came later than the definition allows.
        skipped: number of rows with a missing value, time or key.
        failed: number of rows of streams that cannot be written, or whose policy failed.
    """

    taken: int
    late: int
    skipped: int
    failed: int = 0


def compute_fingerprint(content: bytes, kind: str) -> bytes:
    """Compute what tells bodies apart.

    Args:
        content: the body.
        kind: its media type.

    Returns:
        Eight bytes.
    """
    return hashlib.blake2b(
        content, digest_size=8, person=hashlib.blake2b(kind.encode(), digest_size=16).digest()
    ).digest()


class RequestKeys:
    """The requests of late."""

    def __init__(self) -> None:
        self._known: dict[bytes, tuple[bytes, datetime, Counts]] = {}
        self._new: list[bytes] = []

    def find(self, key: bytes) -> tuple[bytes, Counts] | None:
        """Find a request.

        Args:
            key: the keyed hash of its idempotency key.

        Returns:
            The fingerprint of its body and what became of its rows; None if it is not known.
        """
        found = self._known.get(key)
        return None if found is None else (found[0], found[2])

    def note(self, key: bytes, fingerprint: bytes, at: datetime, counts: Counts) -> None:
        """Note a request; see `settle` and `roll_back`.

        Args:
            key: the keyed hash of its idempotency key.
            fingerprint: that of its body.
            at: when it was taken.
            counts: what became of its rows.
        """
        self._known[key] = fingerprint, at, counts
        self._new.append(key)

    def settle(self) -> None:
        """Keep what was noted, which is written."""
        self._new.clear()

    def roll_back(self) -> None:
        """Forget what was noted since it was settled last."""
        for key in self._new:
            self._known.pop(key, None)
        self._new.clear()

    def expire(self, now: datetime) -> None:
        """Forget requests that are older than `KEPT`.

        Args:
            now: the present time.
        """
        for key in [key for key, (_, at, _) in self._known.items() if at < now - KEPT]:
            del self._known[key]
