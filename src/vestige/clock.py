"""The public clock: all that a policy knows besides records.

Section 2 of Immorlica et al. (2024), where it is the number of rounds; batches that are closed early, for deadlines and
requests, add the rest.
Guarantee: it depends on the number and times of arrivals and on requests, not on values; held by
tests/stream/test_rules.py and tests/stream/test_times.py.
"""

from __future__ import annotations

import operator
from dataclasses import dataclass

from vestige.errors import ParameterError
from vestige.validation import check_int, show_value

_LARGEST = 2**62
"""No round or time lies beyond."""
_WHOLE = ("t", "first", "last", "since", "due", "updates", "gaps", "bits")
"""The whole numbers of a clock."""


@dataclass(frozen=True, slots=True)
class Clock:
    """All that a policy knows besides records: a function of arrivals and requests, not of values.

    The exception is a request that is met immediately, as by `forget(now=True)`: only what is still held can be
    rewritten, so whether the statistic continues or starts over depends on which records were kept, and so on values.

    Attributes:
        t: number of records that have arrived; never restarts.
        first: first round of the batch that is now encoded.
        last: last round of that batch; `first - 1` while none is.
        since: first round that the statistic counts; above 1 if everything once had to be erased.
        due: deadline of the encoded batch, in microseconds since 1970; None without a limit in time. It is rounded down
            to a whole 32nd of that limit, so that it does not keep the time of an erased record.
        updates: number of updates since `since`.
        gaps: number of rounds from `since` to `last` whose record was erased before its update; such records never
            count.
        bits: the fewest bits that a word since `since` had: those of the shortest batch, or of the one of which most
            records were requested; 0 if that is not known, or if nothing is rounded. Stated rounding follows from it.

    Raises:
        ParameterError: the values contradict each other.

    Example:
        >>> clock = Clock(t=100, first=49, last=96, gaps=10)
        >>> clock.encoded, clock.pending, clock.weight(4)
        (86, 4, 0.044444444444444446)
    """

    t: int = 0
    first: int = 1
    last: int = 0
    since: int = 1
    due: int | None = None
    updates: int = 0
    gaps: int = 0
    bits: int = 0

    def __post_init__(self) -> None:
        try:
            for name in _WHOLE:
                value = getattr(self, name)
                if type(value) is not int and not (value is None and name == "due"):
                    whole = check_int(name, value, -_LARGEST, _LARGEST)  # numpy's own would overflow later
                    object.__setattr__(self, name, whole)
            fits = 0 <= self.last <= self.t < _LARGEST and 1 <= self.since <= self.first <= self.last + 1
            fits = fits and self.updates >= 0 and self.bits >= 0
            fits = fits and 0 <= self.gaps <= self.last - self.since + 1
            fits = bool(fits and (self.due is None or -_LARGEST < self.due < _LARGEST))
        except (TypeError, ValueError, ArithmeticError):  # what is not a whole number, or not one at all
            fits = False
        if not fits:
            raise ParameterError(
                f"{show_value(self)} is not a valid clock; needs last <= t, 1 <= since <= first <= last + 1, "
                "updates >= 0, bits >= 0 and no more gaps than rounds: pass the clock of the "
                "stream that you restart, unchanged"
            )

    def copy(self) -> Clock:
        """Copy the clock, to show it to a policy, which could change it by force.

        Returns:
            An equal clock.
        """
        made = object.__new__(Clock)
        for put, value in zip(_PUT_CLOCK, _CLOCK_FIELDS(self), strict=True):
            put(made, value)
        return made

    @property
    def encoded(self) -> int:
        """Number of records that the encoded batch represents: those that updates have learned from since `since`."""
        return self.last - self.since + 1 - self.gaps

    @property
    def pending(self) -> int:
        """Number of records that arrived after the encoded batch; some may have been erased since."""
        return self.t - self.last

    def narrow(self, bits: int) -> int:
        """Find the fewest bits of all words after one more.

        Args:
            bits: the number of bits of the next word; 0 if it rounds nothing.

        Returns:
            What `bits` is after it.

        Example:
            >>> Clock(t=96, first=49, last=96, updates=2, bits=48).narrow(30)
            30
        """
        return min(bits, self.bits) if self.bits and bits else bits or self.bits

    def weight(self, records: int) -> float:
        """Compute the share of new records in all that count: eta_t for a running average.

        Args:
            records: number of records after the encoded batch.

        Returns:
            The share.
        """
        return records / (self.encoded + records)


_CLOCK_FIELDS = operator.attrgetter(*Clock.__slots__)
_PUT_CLOCK = tuple(Clock.__dict__[name].__set__ for name in Clock.__slots__)
