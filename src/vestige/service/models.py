"""What requests and answers look like: the models of the OpenAPI document, from which clients can be made.

Guarantee: each answer is of its model, and a body that is not is refused without being repeated; held by
tests/service/test_validation.py and tests/service/test_fuzz.py.
"""

from __future__ import annotations

from typing import Annotated, Literal, get_args

from vestige.channels import CHANNELS
from vestige.errors import MissingExtraError
from vestige.policies import STATISTICS
from vestige.sources.protocol import Unit

try:
    from pydantic import BaseModel, ConfigDict, Field, StringConstraints
except ModuleNotFoundError:
    raise MissingExtraError("vestige serve", "serve") from None

SUBJECTS = 10_000
"""Largest number of subjects in one request."""
_Name = Annotated[str, StringConstraints(min_length=1, max_length=200, pattern=r"^[^\x00-\x1f\x7f]+$")]
_Names = _Name | Annotated[list[_Name], Field(max_length=256)]
_Text = Annotated[str, StringConstraints(min_length=1, max_length=10_000)]
_Duration = Annotated[str, StringConstraints(pattern=r"^[0-9]{1,12}(\.[0-9]{1,6})?[smhdwy]$")]
_Whole = Annotated[int, Field(ge=1, le=1 << 53)]
_Number = Annotated[float, Field(gt=0.0, lt=1e300, allow_inf_nan=False)]
_Subject = Annotated[str, StringConstraints(min_length=1)]  # whoever is in a row can be named
_Reference = Annotated[str, StringConstraints(min_length=1, max_length=100, pattern=r"^[!-~]([ -~]*[!-~])?$")]


class Answer(BaseModel):
    """An answer, which has the members that its model names and no others."""

    model_config = ConfigDict(extra="forbid")


class Problem(BaseModel):
    """Why a request was refused: problem details (RFC 9457)."""

    type: str = Field(description="Always about:blank: the status says what kind of problem it is.")
    title: str = Field(description="The name of the status.")
    status: int = Field(description="The status.")
    detail: str = Field(description="A sentence with the limit and the remedy; never a value that was sent.")


class Health(Answer):
    """Whether the service is ready."""

    status: Literal["ok", "waiting", "failing", "stopping"] = Field(
        description="ok, waiting for streams that are open elsewhere, failing if the store cannot be written, or "
        "stopping."
    )
    streams_unavailable: int = Field(
        0, description="Number of streams that are open in another process, or cannot be opened."
    )
    feeds_failing: int = Field(0, description="Number of queues of --from that cannot be read, or whose rows wait.")
    demo: bool = Field(False, description="Whether the demo is replayed.")


class Definition(BaseModel):
    """What the streams of a name are; the options of vestige run, in plain data."""

    model_config = ConfigDict(extra="forbid", strict=True)

    name: _Name = Field(description="Name of the stream; with by, a prefix of the names of its streams.")
    columns: _Names | None = Field(None, description="Columns of numbers.")
    metrics: _Text | Annotated[list[_Text], Field(max_length=256)] | None = Field(
        None, description="Statistics of columns, such as spent:mean, in place of columns."
    )
    statistic: Literal[tuple(STATISTICS)] | None = Field(None, description="Statistic; default: mean.")  # type: ignore[valid-type]
    targets: _Names | None = Field(None, description="Columns to predict.")
    edges: _Text | None = Field(None, description="Borders of the bins of a histogram, separated by commas.")
    categories: _Text | None = Field(None, description="Categories of shares, separated by commas.")
    half_life: _Number | None = Field(None, description="Records after which a record counts half as much.")
    retention: _Whole | None = Field(None, description="Records after which a record is erased.")
    notice: _Whole | None = Field(None, description="Records after a request by which the record is erased.")
    max_age: _Duration | None = Field(None, description="Age at which a record is erased, such as 30d.")
    time: _Name | None = Field(
        None, description="Column of times, in UTC where one has no zone; default: the time of arrival."
    )
    time_unit: Literal[get_args(Unit)] | None = Field(None, description="Unit of times that are numbers.")  # type: ignore[valid-type]
    max_ahead: _Duration | None = Field(None, description="How far ahead of the clock a time may be.")
    lateness: _Duration | None = Field(None, description="How much older than an earlier row a row may be.")
    by: _Names | None = Field(None, description="Columns of keys: a stream for each key.")
    hash_keys: bool | None = Field(None, description="Whether the store keeps keys as hashes.")
    subject: _Name | None = Field(None, description="Column of subjects, whose records can be asked to leave.")
    channel: Literal[tuple(CHANNELS)] | None = Field(None, description="Channel; default: auto.")  # type: ignore[valid-type]
    standard_error: bool | None = Field(None, description="Whether the variance of a mean is kept too.")
    epsilon: _Number | None = Field(None, description="Epsilon of the guarantee of noise.")
    delta: _Number | None = Field(None, description="Delta of the guarantee.")
    bounds: _Text | Annotated[list[_Text], Field(max_length=256)] | None = Field(
        None, description="Largest magnitudes of values, such as spent=100, or both ends, such as spent=0:200."
    )
    window: bool | None = Field(None, description="Whether to keep a plain window.")
    seed: Annotated[int, Field(ge=0, le=1 << 53)] | None = Field(None, description="Seed of the streams.")


class Stream(BaseModel):
    """A definition, and how many streams and records it has."""

    model_config = ConfigDict(extra="allow")  # the members of the definition that do not have their defaults

    name: str
    keys: int = Field(description="Number of streams.")
    t: int = Field(description="Number of records that have arrived.")
    held: int = Field(description="Number of records that are held.")


class Streams(Answer):
    """All definitions."""

    streams: list[Stream]


class Removed(Answer):
    """How many streams were removed."""

    removed: int


class Taken(Answer):
    """What became of the rows of a request; they are flushed."""

    taken: int = Field(description="Rows that were taken.")
    late: int = Field(description="Rows that came later than the definition allows.")
    skipped: int = Field(description="Rows with a missing value, time or key.")
    failed: int = Field(description="Rows of streams that cannot be written, or whose policy failed.")
    replayed: bool = Field(description="Whether an earlier request with the same Idempotency-Key was answered again.")
    absent: list[str] = Field(
        description="Columns that none of the rows had, such as a subject whose name is misspelt; the rows were taken."
    )


class Number(Answer):
    """One number of an answer."""

    quantity: str | None = Field(description="What it is; None if there is nothing to tell apart.")
    value: float | None
    standard_error: float | None
    lower: float | None
    upper: float | None


class Estimate(Answer):
    """The answer of one stream."""

    key: str | None = Field(description="Its key; null without keys.")
    answers: list[Number]
    count: int = Field(description="Number of records that it counts.")
    since: int = Field(description="Round since which it counts.")
    t: int = Field(description="Number of records that have arrived.")
    as_of: int | None = Field(
        description="Round up to which it counts records: t, but of a private stream that of its last update; null "
        "without an answer."
    )
    held: int = Field(description="Number of records that are held.")
    notes: list[str]


class Estimates(Answer):
    """A page of answers."""

    estimates: list[Estimate]
    total: int = Field(description="Number of streams.")
    next: str | None = Field(description="What to give as after for the next page; null for the last.")


class Clock(Answer):
    """The public clock of a stream."""

    t: int
    first: int
    last: int
    since: int


class Records(BaseModel):
    """The whole state of a stream."""

    model_config = ConfigDict(extra="forbid")

    clock: Clock
    rounds: list[int]
    times: list[str | None]
    leaving: list[bool]
    values: list[list[float | str | None]] | None = Field(
        None, description="Only if they were asked for; whole numbers beyond 2^53 are texts."
    )


class RemovalRequest(BaseModel):
    """Whose records are to leave, in all streams."""

    model_config = ConfigDict(extra="forbid", strict=True)

    subjects: list[_Subject] = Field(
        min_length=1, max_length=SUBJECTS, description="The people whose records are to be erased."
    )
    now: bool = Field(False, description="Erase immediately instead of with the next update; may reduce accuracy.")
    reference: _Reference | None = Field(
        None, description="What you call the request, such as the number of a ticket, for all its receipts."
    )
    references: list[_Reference | None] | None = Field(
        None, description="In place of reference, one for each subject.", max_length=SUBJECTS
    )


class Receipt(Answer):
    """A receipt: no subject, and the same whether records were held or not."""

    id: str
    reference: str | None
    stream: str | None = Field(description="The stream that has given it; null for one of the whole store.")
    requested: str
    requested_round: int
    due: str | None = Field(description="When it is met at the latest; null if the next update decides.")
    due_round: int | None
    erased: str | None = Field(description="When it was met; null while it is open.")
    erased_round: int | None
    kept_until: str | None


class Removals(Answer):
    """What became of a removal request."""

    receipts: list[Receipt] = Field(description="One for each subject, in the order of the request.")
    restarted: int = Field(description="Number of streams whose statistic restarts.")
    troubles: int = Field(description="Number of streams that could not be reached; POST /v1/verify names them.")
    unknown: list[int] | None = Field(
        description="Places of the subjects of whom nothing is held, from 0; null for a token without audit."
    )


class Receipts(Answer):
    """A page of receipts, in the order of the requests."""

    receipts: list[Receipt]
    total: int
    next: str | None = Field(description="What to give as after for the next page; null for the last.")


class Sweep(Answer):
    """What a sweep did, or would do."""

    dry_run: bool
    erased: int = Field(description="Number of records.")
    undecided: int = Field(description="In a dry run, records to choose from in batches that would be closed early.")
    restarted: int = Field(description="Number of streams whose statistic restarts.")
    closed: int = Field(description="Number of streams whose batch is closed early.")
    troubles: int = Field(description="Number of streams in trouble; POST /v1/verify names them.")
    tidy: bool = Field(description="Whether the store is in its canonical form.")


class Verification(Answer):
    """What is wrong with the store."""

    ok: bool
    findings: list[str] = Field(description="One sentence each; they may name streams.")
