"""Requests by their idempotency keys, so that one that is sent again is answered, and not counted.

The store has the keyed hash of the key and a fingerprint of the body (`vestige.store.taken_requests`).
Guarantee: a request that was flushed is answered as before, also by the next process; held by
tests/service/test_engine.py.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import datetime

from vestige.service.problems import RefusalError
from vestige.store import Store
from vestige.store.taken_requests import FINGERPRINT, TakenRequest


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
        kind: its media type, without parameters.

    Returns:
        Eight bytes.
    """
    return hashlib.blake2b(
        content, digest_size=FINGERPRINT, person=hashlib.blake2b(kind.encode(), digest_size=16).digest()
    ).digest()


def hash_request(store: Store, stream: str, created: str, key: str) -> bytes:
    """Hash an idempotency key with the key of the store.

    Args:
        store: the store.
        stream: name of the definition; the same key may be used for another one.
        created: which creation of it; the rows of an earlier one are gone, so that its requests are not answered.
        key: the idempotency key.

    Returns:
        Sixteen bytes.
    """
    return bytes.fromhex(store.pseudonym(f"request\0{stream}\0{created}\0{key}"))


def make_taken(key: bytes, fingerprint: bytes, at: datetime, counts: Counts) -> TakenRequest:
    """Make the note of a request that was taken.

    Args:
        key: what `hash_request` returned.
        fingerprint: that of the body.
        at: when it was taken.
        counts: what became of its rows.

    Returns:
        The note.
    """
    return TakenRequest(key, fingerprint, at, (counts.taken, counts.late, counts.skipped, counts.failed))


def check_known(known: TakenRequest, fingerprint: bytes) -> Counts:
    """Answer a request that was taken before.

    Args:
        known: the note of it.
        fingerprint: that of the body that was sent now.

    Returns:
        What became of its rows.

    Raises:
        RefusalError: it had another body.
    """
    if known.fingerprint != fingerprint:
        raise RefusalError(409, "the Idempotency-Key was used with another body; use a new one for each body")
    return Counts(*known.counts)
