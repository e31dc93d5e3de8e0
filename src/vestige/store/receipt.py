"""Receipts: removal requests, and what became of them.

Guarantee: a receipt holds times and rounds of the public clock only, so that nothing in it depends on a record's values
or tells whose records they were; held by tests/operations/test_inbox.py.
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
"""How long a receipt is kept after the erasure."""


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
        id: sixteen random hexadecimal digits.
        requested: the time of the request.
        requested_round: the round of the request.
        due_round: the round by which the records are erased at the latest.
        due: the time by which they are erased at the latest; None if the stream has no limit in time.
        erased: the time at which they were erased; None while the request is open.
        erased_round: the round in which they were erased; None while the request is open.
    """

    id: str
    requested: datetime
    requested_round: int
    due_round: int
    due: datetime | None = None
    erased: datetime | None = None
    erased_round: int | None = None

    @classmethod
    def create(
        cls,
        requested: datetime,
        requested_round: int,
        due_round: int,
        max_age: timedelta | None,
        receipt_id: str | None,
    ) -> Receipt:
        """Create the receipt of a request.

        Args:
            requested: the time of the request.
            requested_round: the round of the request.
            due_round: the round by which the records are erased at the latest.
            max_age: the limit in time of the stream, if it has one.
            receipt_id: sixteen hexadecimal digits; None for random ones.

        Returns:
            The receipt.

        Raises:
            ParameterError: the id is not sixteen hexadecimal digits.

        Example:
            >>> Receipt.create(datetime(2024, 1, 1), 7, 48, None, "0123456789abcdef").due_round
            48
        """
        check_receipt_id(receipt_id)
        due = None if max_age is None else add_duration(requested, max_age)
        return cls(receipt_id or secrets.token_hex(8), requested, requested_round, due_round, due)

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
            True 30 days after the erasure and later.
        """
        return self.erased is not None and now >= self.erased + RECEIPTS_KEPT
