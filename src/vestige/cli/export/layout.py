"""The tables of an export, and what is said about each table and column inside the database itself.

The columns never depend on what a store keeps, so that a dbt project can declare the tables once as sources: streams of
different columns share the table `records`, in which each value has a row of its own.
Guarantee: every table and column has its comment in both kinds of databases; held by tests/test_cli_export.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

Kind = Literal["text", "integer", "real", "flag", "time"]


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table.

    Attributes:
        name: its name, which needs no quotes in SQL.
        kind: what its values are; a time is in UTC.
        comment: what they mean, in one line.
        is_required: whether it is never null.
    """

    name: str
    kind: Kind
    comment: str
    is_required: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    """A table.

    Attributes:
        name: its name.
        comment: what its rows are, in one line.
        columns: its columns.
    """

    name: str
    comment: str
    columns: tuple[Column, ...]


_STREAM = Column("stream", "text", "Name of the stream.", is_required=True)

STREAMS = Table(
    "streams",
    "The streams of the store, one row each: their terms, their public clock, and when this copy must be deleted. Only "
    "the name is known of a stream that cannot be read.",
    (
        _STREAM,
        Column("policy", "text", "Kind of policy, such as vestige.Mean."),
        Column("parameters", "text", "Parameters of the policy, as a JSON object."),
        Column("retention", "integer", "Limit in records: how many more may arrive until one is erased."),
        Column("max_age_seconds", "real", "Limit in time: the age at which a record is erased."),
        Column("t", "integer", "Number of records that have ever arrived in the stream."),
        Column("since", "integer", "First record that the statistic counts; above 1 if it started over."),
        Column("held", "integer", "Number of records that the store held."),
        Column("delete_by", "time", "When the oldest record is due; delete this copy by then (UTC)."),
        Column("delete_by_t", "integer", "Delete this copy before the stream's t reaches this number."),
        Column("exported", "time", "When this copy was made (UTC).", is_required=True),
    ),
)

ESTIMATES = Table(
    "estimates",
    "The answers of the store, one row per stream and number, as vestige estimate --format has them. They are all-time "
    "answers unless since is above 1. Use them instead of aggregates over the table records.",
    (
        _STREAM,
        Column("metric", "text", "Name of the number, such as a column or amount:mean; null without an answer."),
        Column("value", "real", "The number; null if it is not known."),
        Column("standard_error", "real", "Its standard error; null if it is not known."),
        Column("lower", "real", "Lower bound of the number over all records, where a sketch or a total has one."),
        Column("upper", "real", "Upper bound of the number over all records, where a sketch or a total has one."),
        Column("since", "integer", "First record that the number counts; above 1 if it started over."),
        Column("counted", "integer", "Number of records that it counts."),
        Column("held", "integer", "Number of records that the store held of the stream."),
        Column("t", "integer", "Number of records that have ever arrived in the stream."),
        Column("as_of", "integer", "Record up to which it counts: t, but with noise that of the last update."),
        Column("missed", "flag", "Whether it may be further off than its standard error says."),
        Column("notes", "text", "What to know about the answer, in sentences."),
        Column("problem", "text", "Why the stream has no answer; null if it has one."),
    ),
)

RECEIPTS = Table(
    "receipts",
    "The removal requests to the store that are open or whose receipts are kept, one row each, as vestige receipts has "
    "them. A receipt contains no subject, and is the same whether records were held or not.",
    (
        Column("id", "text", "Sixteen random digits.", is_required=True),
        Column("reference", "text", "What the user calls the request, such as the number of a ticket."),
        Column("stream", "text", "Name of the stream; null for a request to the whole store."),
        Column("requested", "time", "Time of the request (UTC).", is_required=True),
        Column("requested_round", "integer", "Round of the request; the sum over several streams.", is_required=True),
        Column("due_round", "integer", "Round by which the records are erased; null for several streams."),
        Column("due", "time", "Time by which the records are erased (UTC)."),
        Column("erased", "time", "Time of the erasure (UTC); null while the request is open."),
        Column("erased_round", "integer", "Round of the erasure; null while the request is open."),
        Column("kept_until", "time", "Time until which the receipt is kept (UTC); null while it is open."),
    ),
)

RECORDS = Table(
    "records",
    "The records that the store held when this copy was made, one row per record and column. The store erases them in "
    "time; nothing erases them here: delete this copy by streams.delete_by. Which records are held was chosen, so "
    "aggregates over them are not statistics of all records. AVG(value) is the all-time mean only for a policy with "
    "the channel 'average' and one column, only right after an update (no record of the stream is waiting), and only "
    "if estimates.missed is false. For answers, use the table estimates.",
    (
        _STREAM,
        Column("round", "integer", "Number of the record in the order of arrival, from 1.", is_required=True),
        Column("time", "time", "Its own time, or that of its arrival (UTC)."),
        Column("subject", "text", "Pseudonym of who or what it is about: a keyed hash."),
        Column("leaving", "flag", "Whether its removal was requested: the next update erases it.", is_required=True),
        Column("waiting", "flag", "Whether it arrived after the last update.", is_required=True),
        Column("column_name", "text", "Column of the value; value_1 and so on if it is not known.", is_required=True),
        Column("value", "real", "The value; null if it was missing, or is a number that is known by a hash alone."),
        Column("exact", "text", "The value as text where it is a whole number beyond 2^53, which value rounds."),
    ),
)

ABOUT = Table(
    "about",
    "What the tables of this database and their columns mean.",
    (
        Column("table_name", "text", "Name of a table.", is_required=True),
        Column("column_name", "text", "Name of one of its columns; null for the table itself."),
        Column("comment", "text", "What it means.", is_required=True),
    ),
)

TABLES = (ABOUT, STREAMS, ESTIMATES, RECEIPTS, RECORDS)
"""All tables of an export."""


def list_comments() -> Iterator[tuple[str, str | None, str]]:
    """List the rows of the table `about`.

    Yields:
        The name of a table, the name of a column or None, and the comment.

    Example:
        >>> next(list_comments())
        ('about', None, 'What the tables of this database and their columns mean.')
    """
    for table in TABLES:
        yield table.name, None, table.comment
        yield from ((table.name, column.name, column.comment) for column in table.columns)
