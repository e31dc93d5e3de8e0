"""The legal limits of a stream, in rounds and in time, and what they mean for its batches.

The m-recency property and footnote 2 of Section 2 of Immorlica et al. (2024); the limit in time is ours.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

import numpy as np

from vestige.errors import ParameterError, whole_number
from vestige.policy import Policy

_CLOSE_PENDING, _CLOSE_ENCODED = 1 / 2, 7 / 8
"""A batch is closed early once its first record has lived so much of `max_age`, or that of the encoded batch so much.

So a record that is kept then has half of its life before it, and whoever looks at a stream every eighth of `max_age`
loses nothing that could be saved.
"""


@dataclass(frozen=True, slots=True)
class Limits:
    """How long records may be held.

    Attributes:
        retention: a record is gone this many rounds after it arrived.
        notice: a record is gone this many rounds after its removal was requested.
        max_age: a record is gone when it is this old.
    """

    retention: int | None = None
    notice: int | None = None
    max_age: timedelta | None = None

    def __post_init__(self) -> None:
        for name in ("retention", "notice"):
            value = getattr(self, name)
            object.__setattr__(self, name, None if value is None else whole_number(name, value, 2))
        if self.max_age is not None and not isinstance(self.max_age, timedelta):
            raise ParameterError(f"max_age={self.max_age!r} is no duration; pass a datetime.timedelta")
        if self.max_age is not None and self.max_age < timedelta(milliseconds=1):
            raise ParameterError(f"max_age={self.max_age} is out of range; use a millisecond or more")

    def in_rounds(self, policy: Policy) -> tuple[str, int]:
        """The tighter of the limits in rounds, by name: it says how large a batch is."""
        given = {k: v for k, v in (("retention", self.retention), ("notice", self.notice)) if v is not None}
        if not given:
            usual = getattr(policy, "usual_retention", 2 * getattr(policy, "minimum", 1))
            besides = " besides max_age" if self.max_age else ""
            raise ParameterError(
                f"a stream needs a limit in rounds{besides}, which says how many records a batch has; pass "
                f"retention=..., notice=... or both; retention={usual} would do"
            )
        return min(given.items(), key=lambda limit: limit[1])

    @property
    def age(self) -> int:
        """`max_age` in microseconds."""
        assert self.max_age is not None  # noqa: S101
        return self.max_age // timedelta(microseconds=1)

    def presses(self, now: int, pending: int, began: int | None) -> bool:
        """Whether a batch has to be closed early, whose first record and that of the batch before it arrived then."""
        return now - pending >= self.age * _CLOSE_PENDING or (
            began is not None and now - began >= self.age * _CLOSE_ENCODED
        )

    def next_event(self, oldest: int | None, pending: int, began: int | None) -> int:
        """The earliest time from which something may be due, in microseconds, given when the records arrived."""
        moments = [pending + int(np.ceil(self.age * _CLOSE_PENDING)), pending + self.age]
        if began is not None:
            moments.append(began + int(np.ceil(self.age * _CLOSE_ENCODED)))
        if oldest is not None:
            moments.append(oldest + self.age)
        return min(moments)
