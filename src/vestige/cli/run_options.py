"""The options of `vestige run`: what they mean together, and what is made of them.

Guarantee: options that do not fit together are refused before the source is opened; held by tests/test_cli_store.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import ClassVar

from vestige.cli.output import warn
from vestige.cli.store_options import StoreOptions
from vestige.errors import MissingExtraError, ParameterError
from vestige.ingest.definition import Definition, check_use
from vestige.ingest.maintenance import EVERY
from vestige.policies.metrics import METRICS
from vestige.sources import FileSource, IfReplaced
from vestige.sources.dialect import SEPARATORS, Dialect
from vestige.sources.listing import is_address
from vestige.sources.protocol import IfMoved
from vestige.sources.query import QuerySource
from vestige.sources.query.source import SETTLE
from vestige.sources.redis import RedisSource
from vestige.sources.redis.address import RedisAddress
from vestige.store.address import show_address
from vestige.store.postgres.address import Address

DIALECT = ("separator", "decimal", "encoding")
"""The options of the dialect."""
AnySource = FileSource | RedisSource | QuerySource
"""What a run reads."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions(Definition):
    """The options of one run, as `vestige run --help` describes them: what to read, into which streams.

    Attributes:
        sources: paths of files, patterns and folders; or - for standard input.
        separator: what separates the fields of CSV.
        decimal: decimal point of CSV.
        encoding: encoding of CSV and NDJSON.
        path: address of the store.
        key: file with the key that subjects are hashed with.
        keyring: address of the keyring that the store is sealed with.
        if_replaced: what to do with a source that was replaced.
        if_moved: what to do with a source that may be one that was read before at another place.
        query: query whose rows to read.
        cursor: column that orders the rows of the query.
        settle: how long rows of a query wait for others that come before them.
        follow: whether to wait for more rows at the end; None for the default of the source.
        trim: whether to remove entries of a queue that are committed.
        strict: whether an answer that is not all-time is an error.
        machine: whether to print JSON.
        recalled: options of the dialect that are not on the command line, where what the store remembers comes first.
    """

    remembered: ClassVar[tuple[str, ...]] = (*Definition.remembered, *DIALECT)

    sources: tuple[str, ...]
    separator: str | None
    decimal: str | None
    encoding: str | None
    path: str | None
    key: str | None
    keyring: str | None
    if_replaced: IfReplaced
    if_moved: IfMoved
    query: str | None
    cursor: str | None
    settle: timedelta | None
    follow: bool | None
    trim: bool
    strict: bool
    machine: bool
    recalled: tuple[str, ...] = ()

    @property
    def dialect(self) -> Dialect:
        """The dialect of the files."""
        given = {name: getattr(self, name) for name in DIALECT}
        told = {name: value for name, value in given.items() if value is not None}
        if "separator" in told:
            told["separator"] = SEPARATORS.get(told["separator"], told["separator"])
        return Dialect(**told)

    @property
    def store(self) -> StoreOptions | None:
        """What opens the store; None if there is none."""
        return None if self.path is None else StoreOptions(self.path, self.key, self.keyring)

    def check(self) -> None:
        """Check that the options fit together.

        Raises:
            ParameterError: they do not.
        """
        if not self.sources:
            raise ParameterError(
                "no source is given; name a file, or - for standard input, or write source = 'FILE' in vestige.toml"
            )
        self._check_source()
        self.dialect  # noqa: B018  # what is wrong with it is said at once
        Definition.check(self)
        if self.subject is not None and self.path is None:
            raise ParameterError(f"--subject {self.subject} needs --store, from which its records can be removed")
        if self.name is not None and self.path is None:
            raise ParameterError(f"--stream {self.name} needs --store, in which the stream has that name")
        if self.hash_keys and (not self.by or self.path is None):
            raise ParameterError(
                "--hash-keys needs --by, the column of keys, and --store, whose key they are hashed with"
            )
        if not self.hash_keys:
            check_use("--key", self.key, "--subject", self.subject)
        check_use("--keyring", None if self.keyring is None else show_address(self.keyring), "--store", self.path)

    def _check_source(self) -> None:
        """Check that options of queues and queries are given with these, and what they need."""
        is_queue = any(source.startswith(("redis://", "rediss://")) for source in self.sources)
        is_query = not is_queue and any(map(is_address, self.sources))
        if is_query and (self.query is None or self.cursor is None):
            raise ParameterError(
                'a database needs --query and --cursor, such as --query "SELECT id, spent FROM visits" --cursor id'
            )
        for option, value in (("--query", self.query), ("--cursor", self.cursor), ("--settle", self.settle)):
            if value is not None and not is_query:
                raise ParameterError(
                    f"{option} needs the address of a database as SOURCE, such as postgresql://HOST/NAME"
                )
        if self.trim and (not is_queue or self.path is None):
            raise ParameterError(
                "--trim needs a queue as SOURCE, such as redis://HOST:PORT/DATABASE/STREAM, and --store, in which its "
                "entries are committed"
            )
        if self.follow is not None and not is_queue and not is_query:
            raise ParameterError("--follow and --no-follow need a queue or a database as SOURCE; leave it out")

    def make_source(self, path: str, categories: Mapping[str, Sequence[str]] | None = None) -> AnySource:
        """Make the source of a file or an address, which is not opened yet; columns of categories are read as text."""
        if is_address(path):
            return self._make_remote(path, categories or {})
        return FileSource(
            path,
            self.numbers,
            self.time_column,
            self.subject,
            self.keys,
            self.time_unit,
            growing=self.path is not None,
            every=EVERY,
            keep_missing=self.kind == METRICS,
            categories=categories or {},
            dialect=self.dialect,
            recalled=self.recalled,
        )

    def _make_remote(self, address: str, categories: Mapping[str, Sequence[str]]) -> AnySource:
        """Make the source of a queue or a query."""
        try:
            from vestige.sources.columns import Columns  # noqa: PLC0415  # Arrow takes half a second to import
        except ModuleNotFoundError as missing:
            raise MissingExtraError(f"reading a queue or a query (here: {missing.name})", "cli") from None
        columns = Columns(
            self.numbers,
            self.time_column,
            self.subject,
            self.by,
            self.time_unit,
            self.kind == METRICS,
            {name: tuple(names) for name, names in categories.items()},
        )
        if address.lower().startswith("redis"):
            return RedisSource(
                RedisAddress.parse(address),
                columns,
                self.name or "main",
                follow=self.follow is not False,
                trim=self.trim,
                dialect=self.dialect,
                warn=warn,
            )
        if "schema=" in address:
            raise ParameterError("schema in the address is for stores; name the schema in --query, such as shop.visits")
        settle = SETTLE if self.settle is None else self.settle.total_seconds()
        return QuerySource(
            Address.parse(address),
            self.query or "",
            self.cursor or "",
            columns,
            settle,
            follow=bool(self.follow),
            warn=warn,
        )
