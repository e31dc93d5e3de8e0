"""The legal limits of a stream, in rounds and in time, and what they mean for its batches.

The m-recency property and footnote 2 of Section 2 of Immorlica et al. (2024); the limit in time is ours.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta

import numpy as np
from numpy.typing import NDArray

from vestige.errors import ParameterError
from vestige.policy import Policy
from vestige.records import Clock, Records
from vestige.stream.lateness import FAR
from vestige.types import Bools
from vestige.validation import check_int

_CLOSE_PENDING, _CLOSE_ENCODED = 2, 8
"""A batch is closed early once its oldest record has lived half of `max_age`, or an eighth is left to the encoded one.

So a record that is kept then has half of its life before it, and whoever looks at a stream every eighth of `max_age`
loses nothing that could be saved.
"""
_UNKNOWN = -(2**63)
"""A time that is not known, as numpy stores it."""
MOST_RECORDS = 10**9
"""No limit in rounds is longer."""
_AHEAD, _AHEAD_SHARE = timedelta(days=1), 10
"""`max_ahead` is by default this long, or one part in so many of `max_age`, whichever is less."""
_DUE_STEPS = 32
"""`Clock.due` is a multiple of this share of `max_age`."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How long records may be held.

    Attributes:
        retention: a record is gone this many rounds after it arrived.
        notice: a record is gone this many rounds after its removal was requested.
        max_age: a record is gone when it is this old.
        max_ahead: how far a record may be dated ahead of the machine's clock, where there is a `max_age`; default: a
            day or a tenth of `max_age`, whichever is less, so that a wrong date erases little before its time.
        lateness: how late a row may be; None if rows must come in the order of their times.
    """

    retention: int | None = None
    notice: int | None = None
    max_age: timedelta | None = None
    max_ahead: timedelta | None = None
    lateness: timedelta | None = None

    def __post_init__(self) -> None:
        for name in ("retention", "notice"):
            value = getattr(self, name)
            object.__setattr__(self, name, None if value is None else check_int(name, value, 2, MOST_RECORDS))
        for name in ("max_age", "max_ahead", "lateness"):
            value = getattr(self, name)
            if not isinstance(value, timedelta) and value is not None:
                raise ParameterError(f"{name}={value!r} is not a duration; pass a datetime.timedelta")
            if value is not None and value < timedelta(0):
                raise ParameterError(f"{name}={value} is out of range; use a duration that is not negative")
        if self.max_age is not None and self.max_age < timedelta(milliseconds=1):
            raise ParameterError(f"max_age={self.max_age} is out of range; use a millisecond or more")
        if self.max_age is None:
            if self.lateness is not None:
                raise ParameterError(
                    f"lateness={self.lateness} is for a stream with max_age=...: without it rows may come in any "
                    "order; leave it out"
                )
            return
        if self.lateness is not None and self.lateness >= self.max_age:
            raise ParameterError(
                f"lateness={self.lateness} is not below max_age={self.max_age}, so that a row could be too old when it "
                "comes; use a shorter one"
            )
        if self.max_ahead is None:
            object.__setattr__(self, "max_ahead", min(_AHEAD, self.max_age / _AHEAD_SHARE))
        elif self.max_ahead >= self.max_age:
            raise ParameterError(
                f"max_ahead={self.max_ahead} is not below max_age={self.max_age}, so that one wrong date could erase "
                "all that is held as too old; use a shorter one"
            )

    def in_rounds(self, policy: Policy) -> tuple[str, int]:
        """The tighter of the limits in rounds, by name: it says how large a batch is."""
        given = {k: v for k, v in (("retention", self.retention), ("notice", self.notice)) if v is not None}
        if not given:
            usual = getattr(policy, "default_retention", 2 * getattr(policy, "min_batch", 1))
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

    def due(self, times: NDArray[np.datetime64]) -> int | None:
        """By when a batch that arrived at these times must be gone: rounded down to a whole 32nd of `max_age`."""
        oldest, step = earliest(times), self.age // _DUE_STEPS
        return None if oldest is None else (oldest + self.age) // step * step

    @property
    def patience(self) -> int:
        """How long a record may wait before its batch has to be closed, in microseconds."""
        return self.age // _CLOSE_PENDING

    def presses(self, now: int, pending: int, due: int | None) -> bool:
        """Whether a batch has to be closed early.

        Args:
            now: the time, in microseconds since 1970.
            pending: the oldest time of a record of the batch.
            due: by when the encoded batch must be gone.
        """
        return now >= min(pending + self.patience, self.next_event(None, due))

    def next_event(self, oldest: int | None, due: int | None) -> int:
        """When something has to be done for the records that were kept, in microseconds since 1970.

        Args:
            oldest: the oldest time of a record that an update kept.
            due: by when the encoded batch must be gone.
        """
        moments = [] if due is None else [due - self.age // _CLOSE_ENCODED]
        if oldest is not None:
            moments.append(oldest + self.age)
        return min(moments, default=FAR)

    def ahead(self, times: NDArray[np.datetime64], now: int) -> Bools:
        """Which of these times lie too far ahead of `now`."""
        assert self.max_ahead is not None  # noqa: S101  # there is a max_age
        late: Bools = times.view(np.int64) > min(now + self.max_ahead // timedelta(microseconds=1), FAR)
        return late


def expire(clock: Clock, held: Records, late: Bools, now: int, *, all_or_nothing: bool) -> tuple[Clock, Records]:
    """The clock and the records once those that are late are gone.

    A record that waits goes alone and leaves a gap, as after a request: what is known goes on. Where the kept records
    speak only together, all of them go with the first, or when their batch is due; then, and where nothing was encoded
    yet, the statistic counts from the first record that is left.

    Args:
        clock: as before.
        held: all that is held.
        late: which of these records are too old; shape (held,).
        now: the time, in microseconds since 1970.
        all_or_nothing: whether the kept records speak only together.
    """
    waits = held.rounds > clock.last
    passed = clock.due is not None and clock.due <= now
    lost = all_or_nothing and bool(passed or late[~waits].any())
    if lost or (all_or_nothing and not clock.encoded and late.any()):
        left = held.where(~late & waits)
        return start_again(clock, left), left
    return replace(clock, due=None) if passed else clock, held.where(~late)


def start_again(clock: Clock, waiting: Records) -> Clock:
    """The clock of a statistic that counts from the first of these records on, or from the next that comes."""
    start = int(waiting.rounds[0]) if len(waiting) else clock.t + 1
    return Clock(clock.t, first=start, last=start - 1, since=start)


def earliest(times: NDArray[np.datetime64]) -> int | None:
    """The earliest of these times, in microseconds since 1970; None where none of them is known."""
    moments = times.view(np.int64)
    if len(moments) and moments.min() == _UNKNOWN:
        moments = moments[moments != _UNKNOWN]
    return int(moments.min()) if len(moments) else None


def latest(times: NDArray[np.datetime64]) -> int | None:
    """The latest of these times, in microseconds since 1970; None where none of them is known."""
    newest = int(times.view(np.int64).max(initial=_UNKNOWN))
    return None if newest == _UNKNOWN else newest
