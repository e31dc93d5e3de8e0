"""Receipts: removal requests, and what became of them.

Guarantee: besides its reference, a receipt holds times and rounds of the public clock only, so that nothing in it
depends on a record's values, tells whose records they were, or whether there were any; held by
tests/operations/test_receipts.py.
"""

from __future__ import annotations

import re
import secrets
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from vestige.errors import ParameterError
from vestige.times import add_duration
from vestige.validation import show_value

RECEIPTS_KEPT = timedelta(days=30)
"""How long a stream keeps its own receipts after the erasure, by default."""
LONGEST_REFERENCE = 100
"""Number of characters that a reference may have."""


def check_reference(value: object) -> str | None:
    """Check the reference of a request.

    Args:
        value: a text of up to 100 printable characters; None for none.

    Returns:
        The value.

    Raises:
        ParameterError: it is not a reference.

    Example:
        >>> check_reference("T-123")
        'T-123'
    """
    if value is None:
        return None
    if isinstance(value, str) and value.strip() == value != "" and value.isprintable():
        if len(value) <= LONGEST_REFERENCE:
            return value
        raise ParameterError(f"reference has {len(value):,} characters; use up to {LONGEST_REFERENCE}")
    raise ParameterError(
        "reference is not a text of printable characters without blanks around it; pass one such as T-123"
    )


def check_keep(value: object) -> timedelta:
    """Check how long a receipt is to be kept.

    Args:
        value: the time after the erasure.

    Returns:
        The value.

    Raises:
        ParameterError: it is not a duration of 0 or more.

    Example:
        >>> check_keep(timedelta(days=30)).days
        30
    """
    if isinstance(value, timedelta) and value >= timedelta(0):
        return value
    raise ParameterError(
        f"keep_receipts={show_value(value)} is not a duration of 0 or more; pass a timedelta, such as "
        "timedelta(days=30)"
    )


def check_receipt_id(value: object) -> str | None:
    """Check the id for a receipt.

    Args:
        value: sixteen hexadecimal digits; None for random ones.

    Returns:
        The value.

    Raises:
        ParameterError: it is not an id.

    Example:
        >>> check_receipt_id("0123456789abcdef")
        '0123456789abcdef'
    """
    if value is None or (isinstance(value, str) and re.fullmatch("[0-9a-f]{16}", value)):
        return value
    raise ParameterError(f"receipt_id={show_value(value)} is not an id; use sixteen hexadecimal digits")


@dataclass(frozen=True, slots=True)
class Receipt:
    """A removal request, and what became of it.

    Attributes:
        id: sixteen hexadecimal digits, random or a keyed hash of a line of a list of requests.
        requested: the time of the request.
        requested_round: the round of the request.
        due_round: the round by which the records are erased at the latest; None if several streams were asked, since
            each has rounds of its own.
        due: the time by which they are erased at the latest; None if a stream has no limit in time.
        erased: the time at which they were erased; None while the request is open.
        erased_round: the round in which they were erased; None while the request is open.
        reference: what the user calls the request, such as the number of a ticket; None if it has no name.
        keep: how long the receipt is kept after the erasure.
    """

    id: str
    requested: datetime
    requested_round: int
    due_round: int | None
    due: datetime | None = None
    erased: datetime | None = None
    erased_round: int | None = None
    reference: str | None = None
    keep: timedelta = RECEIPTS_KEPT

    @classmethod
    def create(
        cls,
        requested: datetime,
        requested_round: int,
        due_round: int | None,
        max_age: timedelta | None,
        receipt_id: str | None,
        reference: str | None = None,
        keep: timedelta = RECEIPTS_KEPT,
    ) -> Receipt:
        """Create the receipt of a request.

        Args:
            requested: the time of the request.
            requested_round: the round of the request.
            due_round: the round by which the records are erased at the latest.
            max_age: the limit in time of the stream, if it has one.
            receipt_id: sixteen hexadecimal digits; None for random ones.
            reference: what the user calls the request.
            keep: how long the receipt is kept after the erasure.

        Returns:
            The receipt.

        Raises:
            ParameterError: the id is not sixteen hexadecimal digits, or the reference or the duration is not valid.

        Example:
            >>> Receipt.create(datetime(2024, 1, 1), 7, 48, None, "0123456789abcdef").due_round
            48
        """
        check_receipt_id(receipt_id)
        due = None if max_age is None else add_duration(requested, max_age)
        rounds = requested_round, due_round
        made = cls(receipt_id or secrets.token_hex(8), requested, *rounds, due)
        return replace(made, reference=check_reference(reference), keep=check_keep(keep))

    def to_dict(self) -> dict[str, str | int | None]:
        """Return the receipt as plain data.

        Returns:
            Flat and ready for JSON; times are texts in ISO 8601, and `kept_until` is the time at which it expires.

        Example:
            >>> from datetime import UTC
            >>> Receipt("0123456789abcdef", datetime(2024, 1, 1, tzinfo=UTC), 7, 48).to_dict()["requested"]
            '2024-01-01T00:00:00+00:00'
        """
        until = None if self.erased is None else add_duration(self.erased, self.keep)
        due, erased, kept = (None if at is None else at.isoformat() for at in (self.due, self.erased, until))
        return {
            "id": self.id,
            "reference": self.reference,
            "requested": self.requested.isoformat(),
            "requested_round": self.requested_round,
            "due": due,
            "due_round": self.due_round,
            "erased": erased,
            "erased_round": self.erased_round,
            "kept_until": kept,
        }

    def mark_erased(self, t: int, at: datetime) -> Receipt:
        """Return the receipt with the round and the time of the erasure.

        Args:
            t: the round.
            at: the time.

        Returns:
            The receipt; unchanged if it was not open.
        """
        return self if self.erased else replace(self, erased=at, erased_round=t)

    def is_expired(self, now: datetime) -> bool:
        """Tell whether the receipt need not be kept any longer.

        Args:
            now: the present time.

        Returns:
            True once `keep` has passed since the erasure.
        """
        return self.erased is not None and now >= add_duration(self.erased, self.keep)
