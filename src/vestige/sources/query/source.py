"""A query of PostgreSQL as a source: rows in the order of a cursor column, each counted once.

The rule. Rows are read in the order of the cursor, which has another value in each row, and never below the position
in the store, which is written in the same transaction as the update. But numbers of a sequence are given before rows
are committed, so that a smaller one may appear after a larger one. Therefore rows wait. First the largest value is
noted. After `settle`, the transactions that write are noted, and when all of them have ended, the rows up to that value
are read: nothing can appear among them any more. That holds for values that are given by the statement that inserts
the row, such as those of a sequence without CACHE. It does not hold for values that a program gets or chooses earlier,
if it writes nothing for longer than `settle` in between.
Guarantee: each row is counted once, wherever the reader is killed and however transactions overlap; held by
tests/sources/test_query.py.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from vestige.errors import MissingExtraError, ParameterError, SourceError
from vestige.sources.block import Block
from vestige.sources.protocol import History, Resumption, Source, count_restart
from vestige.sources.query.positions import QueryPosition, QueryPositions, digest_query
from vestige.store.postgres.address import Address, load_psycopg
from vestige.store.postgres.errors import explain_refusal

if TYPE_CHECKING:
    from vestige.sources.columns import Columns
    from vestige.sources.query.statement import Statement

SETTLE = 1.0
"""Seconds that rows wait by default."""
PATIENCE = 60.0
"""Seconds to wait for transactions that may still add rows, before that is an error or is said."""
AT_ONCE = 10_000
"""Number of rows that are read at once."""
EVERY = 1.0
"""Seconds after which a reader that waits says that it does."""
_POLL = 0.05
_RUNNING = b"""
    SELECT running.transactionid::text, pg_snapshot_xmin(pg_current_snapshot())::text
    FROM (SELECT 1) AS one LEFT JOIN pg_locks AS running ON running.locktype = 'transactionid' AND running.granted
    AND running.mode = 'ExclusiveLock'
"""
"""Transactions that write, each of which holds a lock on its number, and the oldest one that the server knows of."""
_GONE = (
    "the rows are not those that were read before: {why}. --if-replaced continue goes on after the last row that was "
    "taken, or after the last one that is there if that came before it; --if-replaced restart counts all rows"
)


class _LostError(Exception):
    """The server does not answer; a later attempt may succeed."""


@dataclass(frozen=True, slots=True)
class QuerySource(Source):
    """Rows of a query.

    Attributes:
        address: address of the database, such as `postgresql://USER@HOST:PORT/DATABASE`.
        query: the query, one SELECT.
        cursor: column with a larger value in each later row: a whole number or a time. Rows without one are not read.
        columns: columns to read.
        settle: seconds that rows wait for others with a smaller value, at least.
        follow: whether to wait for more rows at the end.
        hash_key: function from a key to what takes its place in blocks; default: keys stay as they are.
        warn: function that shows a message to the user.
        generation: number of times that the rows were begun anew. `resume` sets it.

    Raises:
        ParameterError: the address names a schema, or there is no query.
    """

    address: Address
    query: str
    cursor: str
    columns: Columns
    settle: float = SETTLE
    follow: bool = False
    hash_key: Callable[[str], str] | None = None
    warn: Callable[[str], None] = field(default=lambda _: None, repr=False)
    generation: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "query", self.query.strip().rstrip(";").rstrip())
        if not self.query:
            raise ParameterError("--query is empty; give a SELECT")

    @property
    def name(self) -> str:
        """The address without user and password, and the cursor."""
        return f"{self.address.where.partition('?')[0]}?cursor={self.cursor}"

    @property
    def waits(self) -> bool:
        """Whether it waits for more rows."""
        return self.follow

    @property
    def remedy(self) -> str:
        """How to get past a row that cannot be taken."""
        return "correct the row in the database, or leave it out with WHERE and --if-replaced continue"

    def order(self, position: bytes) -> tuple[int, bool, int]:
        """Return the value of the cursor before a position, after the generation of the rows.

        Args:
            position: position in this query.

        Returns:
            What positions compare by.
        """
        return QueryPosition.decode(position).order

    def check(self) -> None:
        """Check that the server answers, and that the columns are there.

        Raises:
            SourceError: they are not.
        """
        with self._translate(), self._connect() as connection:
            self._describe(connection)

    def resume(self, history: History) -> Resumption:
        """Find where the rows were left, and whether they are still those of the same query.

        Args:
            history: what a store knows of the streams of this run.

        Returns:
            The position to read from.

        Raises:
            SourceError: the query is another one, or its rows begin anew.
        """
        if self.name not in history.sources:
            return Resumption(self, self.name)
        positions = history.positions(self.name)
        known = [QueryPosition.decode(each) for each in (positions.value, positions.newcomers, *positions.own.values())]
        furthest, start = max(known, key=lambda each: each.order), positions.find_start(self.order)
        with self._translate(), self._connect() as connection:
            statement = self._describe(connection)
            end = self._ask_end(connection, statement, furthest)[0]
        change = self._find_change(furthest, statement, end)
        if change and history.if_replaced == "refuse":
            raise SourceError(f"{self.name}: {_GONE.format(why=change)}: nothing was taken")
        if change and history.if_replaced == "restart":
            source = replace(self, generation=count_restart(self.name, furthest.generation))
            begin = QueryPosition(digest=digest_query(self.query), generation=source.generation).encode()
            return Resumption(source, self.name, begin, is_restarted=True)
        source, renew = replace(self, generation=furthest.generation), None
        if change:
            renew = partial(_set_back, digest_query(self.query), end)
            start = renew(start) if start else start
        return Resumption(source, self.name, start, renew=renew)

    def blocks(self, position: bytes = b"") -> Iterator[Block]:
        """Yield the rows after a position, block by block; a block without rows about every second meanwhile.

        Args:
            position: position after the last row that was read; empty to read from the first one.

        Yields:
            The next rows.

        Raises:
            SourceError: the query cannot be carried out, or two rows have the same value of the cursor.
        """
        at = QueryPosition.decode(position)
        if at.generation != self.generation:
            at = QueryPosition()
        at = replace(at, digest=digest_query(self.query), generation=self.generation)
        pause, is_lost = _POLL, False
        while True:
            try:
                with self._translate(is_final=not self.follow), self._connect(is_final=not is_lost) as connection:
                    if is_lost:
                        self.warn(f"{self.name}: connected again")
                    is_lost, pause = False, _POLL
                    for block, after in self._read(connection, at):
                        at = after
                        yield block.hash_keys(self.hash_key)
                if not self.follow:
                    return
            except _LostError:
                if not is_lost:
                    self.warn(f"{self.name}: the connection to the server was lost; trying again until it answers")
                is_lost = True
                time.sleep(pause)
                pause = min(2 * pause, 5 * EVERY)
                yield self._make_empty(at)

    def _read(self, connection: Any, at: QueryPosition) -> Iterator[tuple[Block, QueryPosition]]:
        """Read what is there, once or again and again."""
        statement = self._describe(connection)
        at = replace(at, kind=statement.kind)
        while True:
            end, running, same = self._ask_end(connection, statement, at)
            if same > 1:
                raise SourceError(f"{self.name}: {self._explain_ties()}")
            if at.value is not None and end is not None and end < at.value:
                raise SourceError(f"{self.name}: {_GONE.format(why=self._find_change(at, statement, end))}")
            if end is None or end == at.value:
                if not self.follow:
                    return
                time.sleep(EVERY)
                yield self._make_empty(at), at
                continue
            for _ in self._wait(connection, int(running)):
                yield self._make_empty(at), at
            for block, after in self._read_rows(connection, statement, at, end):
                at = after
                yield block, at
            at = replace(at, value=end)
            if not self.follow:
                return

    def _wait(self, connection: Any, running: int) -> Iterator[None]:
        """Wait until nothing can appear any more among the rows that were there; yield about every second."""
        began = told = time.monotonic()
        others: set[str] | None = None
        is_said = False
        while True:
            now = time.monotonic()
            if now - began >= self.settle:
                found = connection.execute(_RUNNING).fetchall()
                current, oldest = {each for each, _ in found}, int(found[0][1])
                others = current if others is None else others & current
                if not others - {None} and oldest >= running:
                    return
            if now - began >= self.settle + PATIENCE and not is_said:
                is_said = True
                text = (
                    f"{self.name}: a transaction on the server has run for more than {PATIENCE:.0f} s and may still "
                    "add rows before those that are there, which wait for it; end it"
                )
                if not self.follow:
                    raise SourceError(f"{text}, or run this again later")
                self.warn(text)
            if now - told >= EVERY:
                told = now
                yield
            time.sleep(_POLL)

    def _read_rows(
        self, connection: Any, statement: Statement, at: QueryPosition, end: int
    ) -> Iterator[tuple[Block, QueryPosition]]:
        """Read the rows up to a value, of one moment, some at a time."""
        from vestige.sources.columns import make_block  # noqa: PLC0415  # Arrow takes half a second to import

        with connection.transaction():
            connection.execute(b"SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            with connection.cursor(name="vestige") as cursor:
                cursor.execute(statement.ask_rows(at.value, end))
                while rows := cursor.fetchmany(AT_ONCE):
                    values = np.array([row[0] for row in rows], np.int64)
                    if (np.diff(values) <= 0).any() or values[0] == at.value:
                        raise SourceError(f"{self.name}: {self._explain_ties()}")
                    try:
                        block = make_block(
                            statement.make_batches(rows), self.columns, start=at.count, identity=b"", offset=0
                        )
                    except SourceError as problem:
                        raise SourceError(f"{self.name}: {problem}") from None
                    taken = block.numbers - at.count - 1
                    positions = QueryPositions(values[taken], block.numbers, at)
                    at = replace(at, value=int(values[-1]), count=at.count + len(rows))
                    yield replace(block, positions=positions, end=at.encode()), at

    def _explain_ties(self) -> str:
        return (
            f"two rows have the same value in --cursor {self.cursor}, so that it cannot say which of them were taken; "
            "name a column that is different in each row, such as a primary key"
        )

    def _find_change(self, at: QueryPosition, statement: Statement, end: int | None) -> str:
        """Find why the rows cannot be those that were read up to a position; empty if they can be."""
        if at.value is None:
            return ""
        if at.digest != digest_query(self.query):
            return "the query is another one"
        if at.kind != statement.kind:
            return f"--cursor {self.cursor} has another type"
        return (
            f"the largest value of --cursor {self.cursor} is below what was read"
            if end is not None and end < at.value
            else ""
        )

    def _make_empty(self, at: QueryPosition) -> Block:
        from vestige.sources.columns import make_block  # noqa: PLC0415  # Arrow takes half a second to import

        return replace(
            make_block(self.columns.empty, self.columns, start=at.count, identity=b"", offset=0), positions=()
        )

    def _describe(self, connection: Any) -> Statement:
        try:
            from vestige.sources.query.statement import Statement  # noqa: PLC0415  # Arrow takes half a second to import
        except ModuleNotFoundError as missing:
            raise MissingExtraError(f"reading a query (here: {missing.name})", "cli") from None
        asked = connection.execute(f"SELECT * FROM ({self.query}\n) AS vestige_rows LIMIT 0".encode())  # noqa: S608  # it is the user's own
        try:
            return Statement.describe(
                self.query, self.cursor, self.columns, [(each.name, each.type_code) for each in asked.description]
            )
        except SourceError as problem:
            raise SourceError(f"{self.name}: {problem}") from None

    def _ask_end(self, connection: Any, statement: Statement, at: QueryPosition) -> tuple[int | None, str, int]:
        last = at.value if at.kind == statement.kind else None
        found: tuple[int | None, str, int] = connection.execute(statement.ask_end(last)).fetchone()
        return found

    def _connect(self, *, is_final: bool = True) -> Any:
        psycopg = load_psycopg()
        try:
            connection: Any = psycopg.connect(**self.address.connection, autocommit=True, application_name="vestige")
        except psycopg.OperationalError as problem:
            if not is_final:
                raise _LostError from None
            raise SourceError(f"{self.name}: {explain_refusal(str(problem))}") from None
        connection.execute(b"SET default_transaction_read_only = on")
        return connection

    @contextmanager
    def _translate(self, *, is_final: bool = True) -> Iterator[None]:
        """Say what errors of the server mean; what may quote a row is not repeated."""
        psycopg = load_psycopg()
        try:
            yield
        except (psycopg.OperationalError, psycopg.InterfaceError) as problem:
            if (problem.sqlstate or "").startswith("53"):
                raise SourceError(f"{self.name}: the server has no room for the query ({problem.sqlstate})") from None
            if not is_final:
                raise _LostError from None
            raise SourceError(f"{self.name}: the connection to the server was lost; run this again") from None
        except psycopg.Error as problem:
            code = problem.sqlstate or "no code"
            said = problem.diag.message_primary if code.startswith(("42", "25006", "0A")) else None
            why = f"PostgreSQL says {said} ({code})" if said else f"the server or the client refuses a value ({code})"
            raise SourceError(f"{self.name}: {why}; correct --query") from None


def _set_back(digest: bytes, end: int | None, position: bytes) -> bytes:
    """Move a position to the last row, if that comes before it, under another query."""
    before = QueryPosition.decode(position)
    value = before.value if before.value is None or end is None else min(before.value, end)
    return replace(before, value=value, digest=digest).encode()
