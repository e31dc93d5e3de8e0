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
from vestige.times import add_duration, wall_clock
from vestige.validation import show_value

RECEIPTS_KEPT = timedelta(days=30)
"""How long a receipt is kept after the erasure."""


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
        cls, requested_round: int, due_round: int, max_age: timedelta | None, receipt_id: str | None = None
    ) -> Receipt:
        """Create the receipt of a request that is made now.

        Args:
            requested_round: the present round.
            due_round: the round by which the records are erased at the latest.
            max_age: the limit in time of the stream, if it has one.
            receipt_id: sixteen hexadecimal digits; default: random.

        Returns:
            The receipt.

        Raises:
            ParameterError: the id is not sixteen hexadecimal digits.
        """
        if receipt_id is not None and not (isinstance(receipt_id, str) and re.fullmatch("[0-9a-f]{16}", receipt_id)):
            raise ParameterError(f"receipt_id={show_value(receipt_id)} is not an id; use sixteen hexadecimal digits")
        now = wall_clock()
        due = None if max_age is None else add_duration(now, max_age)
        return cls(receipt_id or secrets.token_hex(8), now, requested_round, due_round, due)

    def mark_erased(self, t: int) -> Receipt:
        """Return the receipt with the present time as that of the erasure.

        Args:
            t: the present round.

        Returns:
            The receipt; unchanged if it was not open.
        """
        return self if self.erased else replace(self, erased=wall_clock(), erased_round=t)

    def is_expired(self, now: datetime) -> bool:
        """Tell whether the receipt need not be kept any longer.

        Args:
            now: the present time.

        Returns:
            True 30 days after the erasure and later.
        """
        return self.erased is not None and now >= self.erased + RECEIPTS_KEPT
