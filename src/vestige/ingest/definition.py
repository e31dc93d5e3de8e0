"""Definitions: what the streams of a name are, whoever feeds them.

A definition says which statistic is kept of which columns, by which keys, and for how long; a command, a service and a
store hold the same one. Messages name the options of `vestige run`; `from_data` has the names of plain data.
Guarantee: a definition that was read from plain data or from stored terms makes streams that continue those that it
came from; held by tests/ingest/test_definition.py.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import timedelta
from difflib import get_close_matches
from typing import Any, ClassVar, Self, get_args

from vestige.channels import CHANNELS
from vestige.errors import ParameterError
from vestige.ingest.names import StreamNames, read_by
from vestige.ingest.policy_options import add_standard_error, make_policy, wrap_policy
from vestige.keyed import KeyedStreams
from vestige.policies import STATISTICS, Distinct, NamedPolicy
from vestige.policies.metrics import METRICS, join_options, list_columns, list_uncertain, list_undeclared, parse_metrics
from vestige.policy import Policy
from vestige.serialization import from_dict
from vestige.sources.keys import By
from vestige.sources.protocol import Unit
from vestige.store import Store, Terms
from vestige.store.terms import DEFAULTS
from vestige.stream import Stream
from vestige.times import format_duration, parse_duration
from vestige.validation import show_value

_TEXTS = ("name", "statistic", "edges", "categories", "time_column", "time_unit", "subject", "channel")
_LISTS = ("columns", "metrics", "targets", "by", "bounds")
_INTEGERS = ("retention", "notice", "seed")
_NUMBERS = ("half_life", "epsilon", "delta")
_DURATIONS = ("max_age", "max_ahead", "lateness")
_FLAGS = ("hash_keys", "standard_error", "window")
_OTHER_NAMES = {"time_column": "time"}
"""Names in plain data where they differ from those of the fields."""
_OPTIONS = {"column": "columns", "metric": "metrics", "target": "targets", "bound": "bounds", "stream": "name"}
"""Names in plain data of options of `vestige run` that are called otherwise there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Definition:
    """What the streams of a name are.

    Attributes:
        name: name of the stream; with `by`, a prefix of the keys.
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
        by: columns of keys.
        hash_keys: whether the store keeps keys as hashes.
        subject: column of subjects.
        channel: name of the channel.
        standard_error: whether the variance of a mean is kept too.
        epsilon: epsilon of the guarantee of noise; None without noise.
        delta: delta of the guarantee; None for the default.
        bounds: largest magnitudes of values or both ends, as text.
        window: whether to keep a plain window.
        seed: seed of the streams.
        policy: the policy of the streams in the store, if it was not given by options.
        remembered: options that a store remembers for those who do not give them, although they may change.

    Example:
        >>> visits = Definition(name="visits", columns=("spent",), by=("country",), retention=96)
        >>> visits.check()
        >>> visits.make_policy().columns, visits.names.find_name("DE")
        (1, 'visits/DE')
    """

    remembered: ClassVar[tuple[str, ...]] = ("time_unit", "max_ahead", "lateness")

    name: str | None = None
    columns: tuple[str, ...] = ()
    metrics: tuple[str, ...] = ()
    statistic: str = "mean"
    targets: tuple[str, ...] = ()
    edges: str | None = None
    categories: str | None = None
    half_life: float | None = None
    retention: int | None = None
    notice: int | None = None
    max_age: timedelta | None = None
    time_column: str | None = None
    time_unit: Unit | None = None
    max_ahead: timedelta | None = None
    lateness: timedelta | None = None
    by: tuple[str, ...] = ()
    hash_keys: bool = False
    subject: str | None = None
    channel: str = "auto"
    standard_error: bool = False
    epsilon: float | None = None
    delta: float | None = None
    bounds: tuple[str, ...] = ()
    window: bool = False
    seed: int | None = None
    policy: Policy | None = None

    @classmethod
    def from_data(cls, data: Mapping[str, object]) -> Self:
        """Read a definition from plain data, such as JSON; `check` then says whether its parts fit together.

        Args:
            data: attributes by name, but for `policy`; the column of times is called `time`, durations are texts such
                as 30d, and a list of one text may be that text. Missing ones and None have their defaults.

        Returns:
            The definition.

        Raises:
            ParameterError: a name is not known, or a value is not of its kind.

        Example:
            >>> Definition.from_data({"name": "visits", "columns": "spent", "max_age": "30d"}).max_age.days
            30
        """
        names = {_OTHER_NAMES.get(name, name): name for name in _TEXTS + _LISTS + _INTEGERS + _NUMBERS + _DURATIONS}
        names |= {name: name for name in _FLAGS}
        given: dict[str, object] = {}
        for key, value in data.items():
            if key not in names:
                close = get_close_matches(str(key), names, n=1)
                remedy = f"did you mean {close[0]}?" if close else f"use {', '.join(sorted(names))}"
                raise ParameterError(f"{show_value(key)} is not a part of a definition; {remedy}")
            if value is not None:
                given[names[key]] = _read_value(key, names[key], value)
        made = cls(**given)  # type: ignore[arg-type]  # each value was read as its field's kind
        for key, value, known in (
            ("statistic", made.statistic, STATISTICS),
            ("channel", made.channel, CHANNELS),
            ("time_unit", made.time_unit, get_args(Unit)),
        ):
            if value is not None and value not in known:
                raise ParameterError(f"{key}={show_value(value)} is not known; use one of {', '.join(sorted(known))}")
        return made

    @classmethod
    def from_terms(cls, name: str, terms: Terms) -> Self:
        """Read a definition from the terms of a stream in a store.

        Args:
            name: name of the stream.
            terms: its terms.

        Returns:
            The definition, with the policy of the terms.

        Raises:
            ParameterError: the stream was made by a program of its own, so that its columns are not known.

        Example:
            >>> visits = Definition(name="visits", columns=("spent",), retention=96)
            >>> terms = visits.make_stream(visits.make_policy()).terms
            >>> Definition.from_terms("visits", replace(terms, about=visits.about)).columns
            ('spent',)
        """
        about, policy = terms.about, from_dict(terms.policy)
        columns, targets, by = about.get("columns"), about.get("targets"), read_by(about)
        if (
            not isinstance(policy.unwrap(), NamedPolicy)
            or not isinstance(columns, list)
            or not isinstance(targets, list)
        ):
            raise ParameterError(
                f"stream {name!r} was not made by vestige run or vestige serve, so that its columns are not known"
            )
        told = about.get(DEFAULTS)
        defaults: dict[str, Any] = {
            option: timedelta(seconds=value) if isinstance(value, float) else value
            for option, value in (told.items() if isinstance(told, Mapping) else ())
            if option in cls.remembered
        }
        is_keyed = by is not None
        return cls(
            name=about.get("stream") if is_keyed else name,  # type: ignore[arg-type]  # the store has plain data
            columns=tuple(columns),
            statistic=str(about["statistic"]),
            targets=tuple(targets),
            retention=terms.retention,
            notice=terms.notice,
            max_age=terms.max_age,
            time_column=about.get("time"),  # type: ignore[arg-type]
            subject=about.get("subject"),  # type: ignore[arg-type]
            by=() if by is None else (by,) if isinstance(by, str) else by,
            hash_keys=bool(about.get("hash_keys")),
            policy=policy,
            **defaults,
        )

    def to_data(self) -> dict[str, object]:
        """Return the definition as plain data, without what has its default.

        Returns:
            What `from_data` reads; the policy is not part of it.

        Example:
            >>> Definition(name="visits", columns=("spent",), max_age=timedelta(days=30)).to_data()
            {'name': 'visits', 'columns': ['spent'], 'max_age': '2592000s'}
        """
        data: dict[str, object] = {}
        for field in fields(Definition):
            value = getattr(self, field.name)
            if field.name == "policy" or value == field.default:
                continue
            key = _OTHER_NAMES.get(field.name, field.name)
            if isinstance(value, timedelta):
                data[key] = f"{value.total_seconds():.6f}".rstrip("0").rstrip(".") + "s"
            else:
                data[key] = list(value) if isinstance(value, tuple) else value
        return data

    @property
    def names(self) -> StreamNames:
        """The names of the streams in a store."""
        return StreamNames(self.keys, self.name)

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
        """What the store says of the streams."""
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
        remembered = {name: getattr(self, name) for name in self.remembered if getattr(self, name) is not None}
        if remembered:
            about[DEFAULTS] = {
                name: value.total_seconds() if isinstance(value, timedelta) else value
                for name, value in remembered.items()
            }
        return about if not self.by or self.name is None else about | {"stream": self.name}

    def check(self) -> None:
        """Check that the parts fit together.

        Raises:
            ParameterError: they do not.
        """
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
        for column in self.by:
            if self.by.count(column) > 1:
                raise ParameterError(f"--by {column} is given twice; name each column of keys once")
        check_use("--time-unit", self.time_unit, "--time", self.time_column)
        check_use("--max-ahead", self.max_ahead, "--max-age", self.max_age)
        check_use("--lateness", self.lateness, "--max-age", self.max_age)
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

    def make_policy(self, categories: Mapping[str, Sequence[str]] | None = None) -> Policy:
        """Make the policy of the streams.

        Args:
            categories: the categories of those columns that are not declared.

        Returns:
            The policy.

        Raises:
            ParameterError: the statistic does not fit the columns, or cannot have noise.
        """
        if self.policy is not None:
            return self.policy
        return wrap_policy(
            self._make_kept(categories or {}),
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

    def make_stream(self, policy: Policy, store: Store | None = None, name: str = "") -> Stream:
        """Make a stream.

        Args:
            policy: the policy that `make_policy` returned.
            store: where the stream is kept; default: nowhere.
            name: name of the stream in the store.

        Returns:
            The stream.
        """
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
        """Make streams by key.

        Args:
            policy: the policy that `make_policy` returned.
            store: where the streams are kept; default: nowhere.

        Returns:
            The streams.
        """
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


def name_fields(text: str) -> str:
    """Replace the options of `vestige run` in a message by the names that plain data has for them.

    Args:
        text: the message.

    Returns:
        The message for those who wrote plain data.

    Example:
        >>> name_fields("--max-ahead 2 days is not below --max-age 1 day; give --column NAME")
        'max_ahead 2 days is not below max_age 1 day; give columns NAME'
    """

    def rename(match: re.Match[str]) -> str:
        name = match[1].replace("-", "_")
        return _OPTIONS.get(name, name)

    return re.sub(r"--([a-z][a-z-]*)", rename, text)


def _read_value(key: str, field: str, value: object) -> object:
    """Read a value of plain data as the kind that its field has."""
    if field in _LISTS:
        texts = (value,) if isinstance(value, str) else value
        if isinstance(texts, list | tuple) and all(isinstance(text, str) for text in texts):
            return tuple(texts)
        raise ParameterError(f'{key} is not a text or a list of texts; pass one, such as ["spent"]')
    if field in _DURATIONS:
        if not isinstance(value, str):
            raise ParameterError(f'{key}={show_value(value)} is not a duration; pass a text such as "30d"')
        try:
            return parse_duration(value)
        except ParameterError as problem:
            raise ParameterError(f"{key}: {problem}") from None
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    for kind, known, is_kind in (
        ("text", _TEXTS, isinstance(value, str)),
        ("whole number", _INTEGERS, is_number and isinstance(value, int)),
        ("number", _NUMBERS, is_number),
    ):
        if field in known:
            if not is_kind:
                raise ParameterError(f"{key}={show_value(value)} is not a {kind}; pass one")
            return float(value) if kind == "number" else value  # type: ignore[arg-type]
    if not isinstance(value, bool):
        raise ParameterError(f"{key}={show_value(value)} is not true or false; pass one of them")
    return value


def check_use(option: str, value: object, needed: str, other: object) -> None:
    """Check that an option is not given without one that it needs.

    Args:
        option: the option.
        value: its value; None if it is not given.
        needed: the option that it needs.
        other: the value of that one; None if it is not given.

    Raises:
        ParameterError: the other one is missing.

    Example:
        >>> check_use("--lateness", None, "--max-age", None)
    """
    if value is not None and other is None:
        said = format_duration(value) if isinstance(value, timedelta) else value
        raise ParameterError(f"{option} {said} needs {needed}; give both, or leave it out")


def _check_below(option: str, value: timedelta | None, max_age: timedelta | None, why: str) -> None:
    if value is not None and max_age is not None and value >= max_age:
        raise ParameterError(
            f"{option} {format_duration(value)} is not below --max-age {format_duration(max_age)}, so that {why}; use "
            "a shorter one"
        )
