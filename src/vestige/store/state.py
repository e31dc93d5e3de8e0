"""What a store keeps of a stream, as immutable values: its terms and its state.

Guarantee: a receipt holds times and rounds of the public clock only, so that nothing in it depends on a record's values
or tells whose records they were; held by tests/operations/test_inbox.py.
"""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

from vestige.clock import Clock
from vestige.errors import ParameterError, StoreError
from vestige.records import Records
from vestige.row_numbers import LARGEST_SLOT
from vestige.validation import check_int, show_value

EPOCH, TICK = datetime(1970, 1, 1, tzinfo=UTC), timedelta(microseconds=1)
"""The origin and the unit of times."""
RECEIPTS_KEPT = timedelta(days=30)
"""How long a receipt is kept after the erasure."""


def wall_clock() -> datetime:
    """Return the present time of the machine, in UTC.

    Returns:
        The time.

    Example:
        >>> wall_clock().tzname()
        'UTC'
    """
    return datetime.now(UTC)


def to_utc(moment: datetime) -> datetime:
    """Convert a time to UTC; a time without a zone is taken as UTC.

    Args:
        moment: the time.

    Returns:
        The same moment in UTC.

    Raises:
        ParameterError: it is not a time, or is outside the years 1 to 9999.

    Example:
        >>> to_utc(datetime.fromisoformat("2024-01-01T11:01-07:00")).isoformat()
        '2024-01-01T18:01:00+00:00'
    """
    if not isinstance(moment, datetime):
        raise ParameterError(f"now={show_value(moment)} is not a time; pass a datetime")
    try:
        return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
    except OverflowError:
        raise ParameterError(f"now={moment} is beyond the years 1 to 9999 in UTC; pass a time within them") from None


def to_ticks(moment: datetime) -> int:
    """Convert a time to microseconds since 1970.

    Args:
        moment: the time.

    Returns:
        The number of microseconds.

    Raises:
        ParameterError: it is not a time, or is outside the years 1 to 9999.

    Example:
        >>> to_ticks(datetime(1970, 1, 1, 0, 0, 1))
        1000000
    """
    return (to_utc(moment) - EPOCH) // TICK


def format_duration(duration: timedelta) -> str:
    """Format a duration for people.

    Args:
        duration: the duration.

    Returns:
        A text; whole days are shown without a time.

    Example:
        >>> format_duration(timedelta(days=30)), format_duration(timedelta(hours=36))
        ('30 days', '1 day, 12:00:00')
    """
    return str(duration).removesuffix(", 0:00:00")


def _add_duration(moment: datetime, duration: timedelta) -> datetime:
    """The sum, or the last possible time if the sum is beyond it."""
    last = datetime.max.replace(tzinfo=UTC)
    return moment + duration if duration < last - moment else last


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
        due = None if max_age is None else _add_duration(now, max_age)
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


@dataclass(frozen=True, slots=True)
class Terms:
    """What must stay the same for the whole life of a stream.

    Attributes:
        policy: the policy as plain data, see `vestige.serialization`.
        columns: number of values per record.
        capacity: the largest number of rounds that the held records span.
        retention: the limit in rounds, if there is one.
        notice: the limit in rounds for removal requests, if there is one.
        max_age: the limit in time, if there is one.
        about: anything else that must stay the same, such as the names of the columns.
    """

    policy: Mapping[str, object]
    columns: int
    capacity: int
    retention: int | None = None
    notice: int | None = None
    max_age: timedelta | None = None
    about: Mapping[str, object] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """The terms as JSON; equal terms give equal texts."""
        age = None if self.max_age is None else self.max_age // TICK
        facts = {name: getattr(self, name) for name in self.__slots__} | {"max_age": age}
        return json.dumps({k: dict(v) if isinstance(v, Mapping) else v for k, v in facts.items()}, sort_keys=True)

    @classmethod
    def parse(cls, text: str) -> Terms:
        """Read terms from JSON.

        Args:
            text: the property `text` of terms.

        Returns:
            The terms.

        Raises:
            ValueError: the text is not JSON.
        """
        facts = json.loads(text)
        age = facts.pop("max_age")
        return cls(**facts, max_age=None if age is None else timedelta(microseconds=age))

    def check(self, name: str, now: Terms) -> None:
        """Check that a stream is opened with the terms that it was created with.

        Args:
            name: the name of the stream.
            now: the terms that it is opened with.

        Raises:
            StoreError: they differ; the message shows both.
        """
        if self.text == now.text:
            return
        then, given = json.loads(self.text), json.loads(now.text)
        then["about"], given["about"] = _find_differences(then["about"], given["about"])
        differing = [key for key in then if then[key] != given[key] and key not in ("columns", "capacity")]
        shown = "; ".join(f"{_format_term(key, then[key])}, now {_format_term(key, given[key])}" for key in differing)
        raise StoreError(
            f"stream {name!r} was created with other terms: {shown}; open it with the terms that it was created with, "
            "or give the new stream another name"
        )


def _find_differences(one: dict[str, object], other: dict[str, object]) -> tuple[dict[str, object], dict[str, object]]:
    """The entries of both that differ; None where one of them lacks an entry."""
    keys = [key for key in one | other if one.get(key) != other.get(key) or (key in one) != (key in other)]
    return {key: one.get(key) for key in keys}, {key: other.get(key) for key in keys}


def _format_term(key: str, value: object) -> str:
    if key == "policy" and isinstance(value, Mapping):
        inner = ", ".join(f"{k}={_format_term(k, v)}" for k, v in dict(value["parameters"]).items())
        return f"{value['name']}({inner})"
    if key == "max_age" and isinstance(value, int):
        return f"max_age={format_duration(timedelta(microseconds=value))}"
    if key == "about" and isinstance(value, Mapping):
        return ", ".join(f"{k}={_format_value(v)}" for k, v in value.items())
    return _format_value(value) if key not in ("retention", "notice", "max_age") else f"{key}={_format_value(value)}"


def _format_value(value: object) -> str:
    """A value for people.

    >>> _format_value(None), _format_value(["a", "b"]), _format_value([])
    ('none', '"a" and "b"', 'none')
    """
    if isinstance(value, list):
        return " and ".join(map(_format_value, value)) or "none"
    return "none" if value is None else json.dumps(value, ensure_ascii=False)


LONGEST_POSITION = 72
"""Maximum number of bytes of a position."""
_COUNT = 8


def encode_count(rows: int) -> bytes:
    """Encode a number of rows as a position.

    Args:
        rows: number of rows that were read.

    Returns:
        Eight bytes.

    Example:
        >>> decode_count(encode_count(500))
        500
    """
    return rows.to_bytes(_COUNT, "little")


def decode_count(value: bytes) -> int:
    """Decode a number of rows from the beginning of a position.

    Args:
        value: position that begins with a number of rows; empty for none.

    Returns:
        The number of rows.

    Example:
        >>> decode_count(b"")
        0
    """
    return int.from_bytes(value[:_COUNT], "little")


@dataclass(frozen=True, slots=True)
class Position:
    r"""Position up to which a stream has read a source.

    Attributes:
        value: what the source continues from; only the source can read it. Up to 72 bytes that contain nothing of its
            records; empty if the source was not read.
        slot: number by which the stream's records refer to this source, from 1 up and different for each source; 0 if
            they do not.

    Raises:
        ParameterError: the value is not bytes or is too long, or the slot is out of range.

    Example:
        >>> Position(encode_count(500), slot=1).value
        b'\xf4\x01\x00\x00\x00\x00\x00\x00'
    """

    value: bytes = b""
    slot: int = 0

    def __post_init__(self) -> None:
        check_int("slot", self.slot, 0, LARGEST_SLOT)
        if not isinstance(self.value, bytes) or len(self.value) > LONGEST_POSITION:
            raise ParameterError(f"a position is not bytes, or longer than {LONGEST_POSITION}; pass a shorter one")


@dataclass(frozen=True, slots=True)
class State:
    """All that is kept of a stream.

    Attributes:
        clock: the public clock.
        retained: the records that are held.
        positions: position in each source that was read, by its name.
        receipts: those of the removal requests, in the order of the requests.
    """

    clock: Clock
    retained: Records
    positions: Mapping[str, Position] = field(default_factory=dict)
    receipts: tuple[Receipt, ...] = ()

    def records_of(self, source: str) -> Records:
        """Find the retained records that are rows of a source.

        Args:
            source: name of the source.

        Returns:
            The records, with their row numbers as `numbers`.

        Example:
            >>> len(State.empty(1).records_of("visits.csv"))
            0
        """
        return self.retained.from_source(self.positions.get(source, Position()).slot)

    @classmethod
    def empty(cls, columns: int) -> State:
        """Return the state before the first record.

        Args:
            columns: number of values per record.

        Returns:
            The state.
        """
        return cls(Clock(), Records.empty(columns))
