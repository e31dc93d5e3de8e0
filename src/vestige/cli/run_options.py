"""The options of `vestige run`: what they mean together, and what is made of them.

Guarantee: options that do not fit together are refused before the source is opened; held by tests/test_cli_store.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

from vestige.cli.noise_options import add_standard_error, wrap_policy
from vestige.cli.reports import make_policy
from vestige.cli.store_options import StoreOptions
from vestige.errors import ParameterError
from vestige.ingest.maintenance import EVERY
from vestige.keyed import KeyedStreams
from vestige.policies import STATISTICS, Distinct, NamedPolicy
from vestige.policies.metrics import METRICS, join_options, list_columns, list_uncertain, list_undeclared, parse_metrics
from vestige.policy import Policy
from vestige.sources import FileSource, IfReplaced
from vestige.sources.dialect import SEPARATORS, Dialect
from vestige.sources.keys import By
from vestige.sources.protocol import Unit
from vestige.store import Store
from vestige.store.address import show_address
from vestige.store.terms import DEFAULTS
from vestige.stream import Stream
from vestige.times import format_duration

REMEMBERED = ("time_unit", "max_ahead", "lateness", "separator", "decimal", "encoding")
"""Options that a store remembers for runs that do not give them, although they may change."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """The options of one run, as `vestige run --help` describes them.

    Attributes:
        sources: paths of files, patterns and folders; or - for standard input.
        columns: numeric columns.
        metrics: statistics of columns, as text.
        statistic: name of the statistic.
        targets: columns to predict.
        edges: borders between the bins of a histogram, separated by commas.
        categories: names of the categories of shares, separated by commas.
        half_life: number of records after which a record counts half as much.
        retention: number of records after which a record is erased.
        notice: number of records after a request by which the record is erased.
        max_age: age at which a record is erased.
        time_column: column of times.
        time_unit: unit of times that are numbers.
        max_ahead: how far ahead of the machine's clock a time may be.
        lateness: how much older than an earlier row a row may be.
        separator: what separates the fields of CSV.
        decimal: decimal point of CSV.
        encoding: encoding of CSV and NDJSON.
        by: columns of keys.
        hash_keys: whether the store keeps keys as hashes.
        path: address of the store.
        name: name of the stream; with `by`, a prefix of the keys.
        subject: column of subjects.
        key: file with the key that subjects are hashed with.
        keyring: address of the keyring that the store is sealed with.
        if_replaced: what to do with a source that was replaced.
        channel: name of the channel.
        standard_error: whether the variance of a mean is kept too.
        epsilon: epsilon of the guarantee of noise; None without noise.
        delta: delta of the guarantee; None for the default.
        bounds: largest magnitudes of values, as text.
        window: whether to keep a plain window.
        seed: seed of the streams.
        strict: whether an answer that is not all-time is an error.
        machine: whether to print JSON.
        policy: the policy of the streams in the store, if it was not given by options.
    """

    sources: tuple[str, ...]
    columns: tuple[str, ...]
    metrics: tuple[str, ...]
    statistic: str
    targets: tuple[str, ...]
    edges: str | None
    categories: str | None
    half_life: float | None
    retention: int | None
    notice: int | None
    max_age: timedelta | None
    time_column: str | None
    time_unit: Unit | None
    max_ahead: timedelta | None
    lateness: timedelta | None
    separator: str | None
    decimal: str | None
    encoding: str | None
    by: tuple[str, ...]
    hash_keys: bool
    path: str | None
    name: str | None
    subject: str | None
    key: str | None
    keyring: str | None
    if_replaced: IfReplaced
    channel: str
    standard_error: bool
    epsilon: float | None
    delta: float | None
    bounds: tuple[str, ...]
    window: bool
    seed: int | None
    strict: bool
    machine: bool
    policy: Policy | None = None

    @property
    def numbers(self) -> tuple[str, ...]:
        """All columns that are read as numbers."""
        return list_columns(self.metrics) if self.metrics else self.columns + self.targets

    @property
    def undeclared(self) -> tuple[str, ...]:
        """Columns whose categories are neither in brackets nor given as an option nor those of the store's policy."""
        if self.policy is not None:
            return ()
        if self.metrics:
            return list_undeclared(self.metrics)
        return self.columns[:1] if STATISTICS[self.statistic].takes_categories and self.categories is None else ()

    @property
    def uncertain(self) -> tuple[str, ...]:
        """Columns whose distinct values alone are counted, which may be numbers or texts."""
        if self.policy is not None:
            return ()
        if self.metrics:
            return list_uncertain(self.metrics)
        return self.columns[:1] if self.statistic == Distinct.name else ()

    @property
    def dialect(self) -> Dialect:
        """The dialect of the files."""
        given = {name: getattr(self, name) for name in ("separator", "decimal", "encoding")}
        told = {name: value for name, value in given.items() if value is not None}
        if "separator" in told:
            told["separator"] = SEPARATORS.get(told["separator"], told["separator"])
        return Dialect(**told)

    @property
    def store(self) -> StoreOptions | None:
        """What opens the store; None if there is none."""
        return None if self.path is None else StoreOptions(self.path, self.key, self.keyring)

    @property
    def keys(self) -> By:
        """The column of keys, or several; None if there is none."""
        return self.by if len(self.by) > 1 else next(iter(self.by), None)

    @property
    def kind(self) -> str:
        """The statistic, or that there are several."""
        return METRICS if self.metrics else self.statistic

    @property
    def limit(self) -> str:
        """How long records are held, in words."""
        if self.retention is not None:
            return f"limit {self.retention}"
        return (
            f"limit {self.notice} after a request" if self.max_age is None else f"limit {format_duration(self.max_age)}"
        )

    @property
    def about(self) -> dict[str, object]:
        """What the store says of the streams of this run."""
        about: dict[str, object] = {
            "statistic": self.kind,
            "columns": list(self.numbers if self.metrics else self.columns),
            "targets": list(self.targets),
            "time": self.time_column,
            "subject": self.subject,
            "by": list(self.by) if len(self.by) > 1 else self.keys,
        }
        if self.hash_keys:
            about["hash_keys"] = True
        remembered = {name: getattr(self, name) for name in REMEMBERED if getattr(self, name) is not None}
        if remembered:
            about[DEFAULTS] = {
                name: value.total_seconds() if isinstance(value, timedelta) else value
                for name, value in remembered.items()
            }
        return about if not self.by or self.name is None else about | {"stream": self.name}

    def check(self) -> None:
        """Check that the options fit together.

        Raises:
            ParameterError: they do not.
        """
        if not self.sources:
            raise ParameterError(
                "no source is given; name a file, or - for standard input, or write source = 'FILE' in vestige.toml"
            )
        self.dialect  # noqa: B018  # what is wrong with it is said at once
        self._check_columns()
        self._check_noise()
        if self.retention is None and self.notice is None and self.max_age is None:
            raise ParameterError("no limit is given; give --retention 512, the number of records, or --max-age 30d")
        if self.window and self.retention is None and self.notice is None:
            raise ParameterError(
                "--window needs --retention, the number of records that it holds; give it, such as --retention 512, "
                "with --max-age or without"
            )
        for column in self.numbers:
            if self.numbers.count(column) > 1:
                raise ParameterError(f"column {column!r} is given twice; name each column once")
        if self.time_column is not None and self.max_age is None:
            raise ParameterError(f"--time {self.time_column} needs --max-age; give one, such as --max-age 30d")
        if self.subject is not None and self.path is None:
            raise ParameterError(f"--subject {self.subject} needs --store, from which its records can be removed")
        if self.name is not None and self.path is None:
            raise ParameterError(f"--stream {self.name} needs --store, in which the stream has that name")
        for column in self.by:
            if self.by.count(column) > 1:
                raise ParameterError(f"--by {column} is given twice; name each column of keys once")
        if self.hash_keys and (not self.by or self.path is None):
            raise ParameterError(
                "--hash-keys needs --by, the column of keys, and --store, whose key they are hashed with"
            )
        if not self.hash_keys:
            _check_use("--key", self.key, "--subject", self.subject)
        _check_use("--keyring", None if self.keyring is None else show_address(self.keyring), "--store", self.path)
        _check_use("--time-unit", self.time_unit, "--time", self.time_column)
        _check_use("--max-ahead", self.max_ahead, "--max-age", self.max_age)
        _check_use("--lateness", self.lateness, "--max-age", self.max_age)
        _check_below("--lateness", self.lateness, self.max_age, "a row could be too old when it arrives")
        _check_below("--max-ahead", self.max_ahead, self.max_age, "one wrong date could erase all records as too old")

    def _check_columns(self) -> None:
        """Check that either columns or metrics are given, and nothing that metrics say themselves."""
        if not self.metrics:
            if not self.columns:
                raise ParameterError("no column is given; give --column NAME, or --metric NAME:STATISTIC")
            return
        for option, given in (("--column", self.columns), ("--target", self.targets)):
            if given:
                raise ParameterError(f"{option} {given[0]} cannot be used with --metric; name the column in a --metric")
        if self.statistic != "mean":
            raise ParameterError(f"--statistic {self.statistic} cannot be used with --metric; name it after the column")
        if self.categories is not None:
            raise ParameterError(
                f"--categories {self.categories} cannot be used with --metric; write them in brackets, such as "
                "status:shares[ok,failed]"
            )
        if self.edges is not None:
            raise ParameterError(
                f"--edges {self.edges} cannot be used with --metric; write them in brackets, such as "
                "amount:histogram[0,10,20]"
            )
        if self.channel == "average":
            raise ParameterError("--channel average cannot hold metrics; use --channel bits or auto")

    def _check_noise(self) -> None:
        """Check that nothing that noise depends on is known or taken from the data."""
        if self.epsilon is None:
            return
        if self.seed is not None:
            raise ParameterError(
                f"--seed {self.seed} cannot be used with --epsilon, since whoever knows it can compute the noise; "
                "leave it out"
            )
        if self.undeclared:
            raise ParameterError(
                f"--epsilon {self.epsilon:g} needs the categories of {self.undeclared[0]} to be declared, since those "
                f"found in the data would reveal records; give them, such as {self.undeclared[0]}:shares[ok,failed] or "
                "--categories ok,failed"
            )
        if self.channel == "average":
            raise ParameterError("--channel average cannot be used with --epsilon; leave it out")

    def make_policy(self, categories: Mapping[str, Sequence[str]]) -> Policy:
        """Make the policy of the streams, with the categories of those columns that are not declared."""
        if self.policy is not None:
            return self.policy
        return wrap_policy(
            self._make_kept(categories),
            self.numbers,
            epsilon=self.epsilon,
            delta=self.delta,
            bounds=self.bounds,
            window=self.window,
        )

    def _make_kept(self, categories: Mapping[str, Sequence[str]]) -> NamedPolicy:
        """Make the policy of the statistic."""
        if self.metrics:
            if self.standard_error:
                raise ParameterError("--standard-error is not needed with --metric, which keeps it; leave it out")
            return parse_metrics(self.metrics, self.half_life, categories)
        found = categories.get(self.columns[0])
        kept = make_policy(
            self.statistic,
            self.columns,
            self.targets,
            self.channel,
            self.half_life,
            self.edges,
            join_options(found) if found else self.categories,
        )
        if isinstance(kept, Distinct):
            return replace(kept, has_texts=found is not None)
        return add_standard_error(kept, self.statistic) if self.standard_error else kept

    def make_source(self, path: str, categories: Mapping[str, Sequence[str]] | None = None) -> FileSource:
        """Make the source of a file, which is not opened yet; columns of categories are read as text."""
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
        )

    def make_stream(self, policy: Policy, store: Store | None = None, name: str = "") -> Stream:
        """Make a stream, in the store if there is one."""
        return Stream(
            policy,
            retention=self.retention,
            notice=self.notice,
            max_age=self.max_age,
            max_ahead=self.max_ahead,
            lateness=self.lateness,
            seed=self.seed,
            store=None if store is None else store.stream(name, about=self.about),
        )

    def make_streams(self, policy: Policy, store: Store | None = None) -> KeyedStreams:
        """Make streams by key, in the store if there is one."""
        return KeyedStreams(
            policy,
            retention=self.retention,
            notice=self.notice,
            max_age=self.max_age,
            max_ahead=self.max_ahead,
            lateness=self.lateness,
            seed=self.seed,
            store=None if store is None else store.family(about=self.about),
        )


def _check_use(option: str, value: object, needed: str, other: object) -> None:
    if value is not None and other is None:
        said = format_duration(value) if isinstance(value, timedelta) else value
        raise ParameterError(f"{option} {said} needs {needed}; give both, or leave it out")


def _check_below(option: str, value: timedelta | None, max_age: timedelta | None, why: str) -> None:
    if value is not None and max_age is not None and value >= max_age:
        raise ParameterError(
            f"{option} {format_duration(value)} is not below --max-age {format_duration(max_age)}, so that {why}; use "
            "a shorter one"
        )
