"""The legal limits of a stream, in rounds and in time.

The m-recency property and footnote 2 of Section 2 of Immorlica et al. (2024); the limit in time is ours.
Guarantee: limits that contradict each other are refused; held by tests/stream/test_times.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from vestige.errors import ParameterError
from vestige.policy import Policy
from vestige.records import Records
from vestige.times import format_duration
from vestige.validation import check_int

MAX_RECORDS = 10**9
"""Largest limit in rounds."""
_MAX_AHEAD, _MAX_AHEAD_PARTS = timedelta(days=1), 10
"""Default of `max_ahead`: this long, or `max_age` divided by this, whichever is less."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How long records may be held.

    Attributes:
        retention: number of rounds after its arrival by which a record is erased.
        notice: number of rounds after a removal request by which the record is erased.
        max_age: age at which a record is erased.
        max_ahead: with `max_age`, how far ahead of the machine's clock a record may be dated; default: a day or a tenth
            of `max_age`, whichever is less, so that a wrong date erases little before its time.
        lateness: with `max_age`, how late a row may be; None if rows must come in the order of their times.
    """

    retention: int | None = None
    notice: int | None = None
    max_age: timedelta | None = None
    max_ahead: timedelta | None = None
    lateness: timedelta | None = None

    def __post_init__(self) -> None:
        for name in ("retention", "notice"):
            value = getattr(self, name)
            object.__setattr__(self, name, None if value is None else check_int(name, value, 2, MAX_RECORDS))
        for name in ("max_age", "max_ahead", "lateness"):
            value = getattr(self, name)
            if not isinstance(value, timedelta) and value is not None:
                raise ParameterError(f"{name}={value!r} is not a duration; pass a datetime.timedelta")
            if value is not None and value < timedelta(0):
                raise ParameterError(f"{name}={value} is out of range; use a duration that is not negative")
        if self.max_age is not None and self.max_age < timedelta(milliseconds=1):
            raise ParameterError(f"max_age={format_duration(self.max_age)} is out of range; use a millisecond or more")
        if self.max_age is None:
            if self.lateness is not None:
                raise ParameterError(
                    f"lateness={format_duration(self.lateness)} is for a stream with max_age=...: without it rows "
                    "may arrive in any order; leave it out"
                )
            return
        if self.lateness is not None and self.lateness >= self.max_age:
            raise ParameterError(
                f"lateness={format_duration(self.lateness)} is not below max_age={format_duration(self.max_age)}, "
                "so a row could be too old when it arrives; use a shorter one"
            )
        if self.max_ahead is None:
            object.__setattr__(self, "max_ahead", min(_MAX_AHEAD, self.max_age / _MAX_AHEAD_PARTS))
        elif self.max_ahead >= self.max_age:
            raise ParameterError(
                f"max_ahead={format_duration(self.max_ahead)} is not below max_age={format_duration(self.max_age)}, "
                "so one wrong date could erase everything as too old; use a shorter one"
            )

    def in_rounds(self, policy: Policy) -> tuple[str, int]:
        """Find the tighter limit in rounds, which decides the size of a batch.

        Under a limit in time alone, a batch is what the policy works well with, or what has arrived when it is due.

        Args:
            policy: suggests a retention where there is no limit in rounds.

        Returns:
            The name of the limit, and its value.

        Raises:
            ParameterError: there is no limit, or none in rounds for a policy that keeps all that it may.

        Example:
            >>> from vestige import Mean
            >>> Limits(retention=96, notice=48).in_rounds(Mean())
            ('notice', 48)
        """
        given = {k: v for k, v in (("retention", self.retention), ("notice", self.notice)) if v is not None}
        if not given:
            usual = getattr(policy, "default_retention", 2 * getattr(policy, "min_batch", 1))
            timely = isinstance(policy, Policy) and (policy.all_or_nothing or not policy.needs_records)
            if self.max_age is not None and timely:
                return "default_retention", usual
            of = f" of {type(policy).__name__}" if self.max_age else ""
            raise ParameterError(
                f"a stream{of} needs a limit in rounds, which decides the size of a batch; pass retention=..., "
                f"notice=... or both, for example retention={usual}"
            )
        return min(given.items(), key=lambda limit: limit[1])

    @property
    def age(self) -> int:
        """`max_age` in microseconds."""
        assert self.max_age is not None  # noqa: S101
        return self.max_age // timedelta(microseconds=1)


def drop_expired(held: Records, t: int, retention: int | None) -> Records:
    """Erase what a limit in rounds no longer allows.

    Args:
        held: records, sorted by round.
        t: number of records that have arrived.
        retention: number of rounds after its arrival by which a record is erased.

    Returns:
        The records that are left.
    """
    if retention is None or not len(held) or held.rounds[0] > t - retention:
        return held
    return held.where(held.rounds > t - retention)
