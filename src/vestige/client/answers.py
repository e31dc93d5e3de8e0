"""What the service answers, as immutable values.

Members that an answer has beside those named here are left out, so that an older client reads a newer service.
Guarantee: an answer that is not one of the service is an error, never a value with gaps; held by
tests/client/test_answers.py.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields, replace
from datetime import datetime
from typing import Any, Self

from vestige.client.calls import Reply
from vestige.errors import ServiceError


class Value:
    """A value that is read from an answer."""

    @classmethod
    def from_data(cls, data: Any) -> Self:
        """Read the value.

        Args:
            data: an object of JSON.

        Returns:
            The value.

        Raises:
            ServiceError: a member is missing.
        """
        try:
            given = {each.name: data[each.name] for each in fields(cls) if each.name in data}  # type: ignore[arg-type]
            needed = [each.name for each in fields(cls) if each.default is MISSING and each.default_factory is MISSING]  # type: ignore[arg-type]
            if all(name in given for name in needed):
                return cls(**{name: cls._convert(name, value) for name, value in given.items()})
        except (TypeError, ValueError, KeyError, AttributeError):
            pass
        raise ServiceError(f"the answer is not of the form {cls.__name__}; use the same Vestige on both sides")

    @classmethod
    def _convert(cls, name: str, value: Any) -> Any:  # noqa: ARG003  # what overrides this needs the name
        return tuple(value) if isinstance(value, list) else value


def read_json(reply: Reply) -> Any:
    """Read the body of an answer.

    Args:
        reply: the answer.

    Returns:
        Plain data.

    Raises:
        ServiceError: it is not JSON.
    """
    try:
        return json.loads(reply.content)
    except ValueError:
        detail = "the answer is not that of a Vestige service; check the address"
        raise ServiceError(detail, status=reply.status, detail=detail) from None


@dataclass(frozen=True, slots=True)
class ServedStream(Value):
    """A stream that the service has, or the streams of its keys.

    Attributes:
        name: its name.
        keys: number of keys; 1 or 0 without keys.
        t: number of records that have arrived.
        held: number of records that are held.
        definition: what it is, as it was created.
    """

    name: str
    keys: int
    t: int
    held: int
    definition: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def from_data(cls, data: Any) -> Self:
        """Read the value; what is not a member of its own belongs to the definition."""
        own = ("keys", "t", "held", "definition")
        rest = {k: v for k, v in data.items() if k not in own} if isinstance(data, Mapping) else {}
        return super(ServedStream, cls).from_data({"definition": rest, **data} if rest else data)


@dataclass(frozen=True, slots=True)
class RowsTaken(Value):
    """What became of rows that were sent; all of them are flushed.

    Attributes:
        taken: number of rows that were taken.
        late: number of rows that came later than the stream allows.
        skipped: number of rows with a missing value, time or key.
        failed: number of rows of keys that cannot be written.
        requests: number of requests that they were sent in.
        replayed: number of requests that the service had taken before, and did not count again.
        absent: columns that no row of a request had, such as a subject whose name is misspelt; its rows were taken.

    Example:
        >>> RowsTaken(3, 0, 1, 0) + RowsTaken(2, 0, 0, 0, absent=("email",))
        RowsTaken(taken=5, late=0, skipped=1, failed=0, requests=2, replayed=0, absent=('email',))
    """

    taken: int
    late: int
    skipped: int
    failed: int
    requests: int = 1
    replayed: int = 0
    absent: tuple[str, ...] = ()

    @classmethod
    def _convert(cls, name: str, value: Any) -> Any:
        return tuple(map(str, value)) if name == "absent" else int(value)

    def __add__(self, other: RowsTaken) -> RowsTaken:
        absent = tuple(dict.fromkeys(self.absent + other.absent))
        numbers = (getattr(self, each.name) + getattr(other, each.name) for each in fields(RowsTaken)[:-1])
        return replace(RowsTaken(*numbers), absent=absent)


@dataclass(frozen=True, slots=True)
class Answer(Value):
    """One number of an estimate.

    Attributes:
        quantity: what it is, such as the name of a column.
        value: the number; None if it is not known.
        standard_error: its standard error, where it is kept.
        lower: lower end of its interval.
        upper: upper end of its interval.
    """

    quantity: str | None
    value: float | None
    standard_error: float | None = None
    lower: float | None = None
    upper: float | None = None


@dataclass(frozen=True, slots=True)
class StreamEstimate(Value):
    """The answers of one key.

    Attributes:
        key: the key; None without keys.
        answers: the numbers.
        count: number of records that they count.
        since: the round since which they count.
        t: number of records that have arrived.
        held: number of records that are held.
        notes: what one should know about them.
        as_of: the round up to which they count records: `t`, but of a private stream that of its last update; None
            without an answer.
    """

    key: str | None
    answers: tuple[Answer, ...]
    count: int
    since: int
    t: int
    held: int
    notes: tuple[str, ...] = ()
    as_of: int | None = None

    @classmethod
    def _convert(cls, name: str, value: Any) -> Any:
        return tuple(map(Answer.from_data, value)) if name == "answers" else Value._convert(name, value)

    @property
    def value(self) -> float | None:
        """The first number."""
        return self.answers[0].value if self.answers else None


@dataclass(frozen=True, slots=True)
class HeldRecords(Value):
    """The whole state of one key.

    Attributes:
        clock: the rounds `t`, `first`, `last` and `since`.
        rounds: the round of each record.
        times: the time of each record, as text; None without times.
        leaving: whether each record is to leave after a removal request.
        values: the values of each record, if they were asked for; whole numbers beyond 2^53 as texts.
    """

    clock: Mapping[str, int]
    rounds: tuple[int, ...]
    times: tuple[str | None, ...]
    leaving: tuple[bool, ...] = ()
    values: tuple[Sequence[float | str | None], ...] | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class RemovalReceipt(Value):
    """A removal request, and what became of it.

    Attributes:
        id: sixteen hexadecimal digits.
        requested: the time of the request.
        due: the time by which the records are erased at the latest; None if a stream has no limit in time.
        erased: the time at which they were erased; None while the request is open.
        reference: what the caller calls the request.
        stream: the stream that was asked; None for all.
        kept_until: the time at which the receipt expires; None while the request is open.
    """

    id: str
    requested: datetime
    due: datetime | None = None
    erased: datetime | None = None
    reference: str | None = None
    stream: str | None = None
    kept_until: datetime | None = None

    @classmethod
    def _convert(cls, name: str, value: Any) -> Any:
        return value if name in ("id", "reference", "stream") or value is None else datetime.fromisoformat(value)


@dataclass(frozen=True, slots=True)
class Removal(Value):
    """What became of a list of removal requests.

    Attributes:
        receipts: one for each subject, in the order of the list.
        restarted: number of streams whose statistic restarts.
        troubles: number of streams that could not be reached.
        unknown: the places, from 0, of the subjects of whom nothing is held; None without the scope audit.
    """

    receipts: tuple[RemovalReceipt, ...]
    restarted: int
    troubles: int
    unknown: tuple[int, ...] | None = None

    @classmethod
    def _convert(cls, name: str, value: Any) -> Any:
        return tuple(map(RemovalReceipt.from_data, value)) if name == "receipts" else Value._convert(name, value)


@dataclass(frozen=True, slots=True)
class Sweep(Value):
    """What a sweep did, or would do.

    Attributes:
        erased: number of records that are erased.
        restarted: number of streams whose statistic restarts.
        troubles: number of streams in trouble.
        tidy: whether the store is in its canonical form.
    """

    erased: int
    restarted: int
    troubles: int
    tidy: bool


@dataclass(frozen=True, slots=True)
class Verification(Value):
    """What a check of the store found.

    Attributes:
        ok: whether all is as it should be.
        findings: what is not, one sentence each.
    """

    ok: bool
    findings: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Event(Value):
    """Something that happened in the service.

    Attributes:
        kind: what happened, such as a commit.
        facts: numbers and names; no values of records.
    """

    kind: str
    facts: Mapping[str, Any] = field(default_factory=dict)
