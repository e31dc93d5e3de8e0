"""The options of `vestige run`: what they mean together, and what is made of them.

Guarantee: options that do not fit together are refused before the source is opened; held by tests/test_cli_store.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from vestige.cli.store_options import StoreOptions
from vestige.errors import ParameterError
from vestige.ingest.definition import Definition, check_use
from vestige.ingest.maintenance import EVERY
from vestige.policies.metrics import METRICS
from vestige.sources import FileSource, IfReplaced
from vestige.sources.dialect import SEPARATORS, Dialect
from vestige.store.address import show_address


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
        strict: whether an answer that is not all-time is an error.
        machine: whether to print JSON.
    """

    remembered: ClassVar[tuple[str, ...]] = (*Definition.remembered, "separator", "decimal", "encoding")

    sources: tuple[str, ...]
    separator: str | None
    decimal: str | None
    encoding: str | None
    path: str | None
    key: str | None
    keyring: str | None
    if_replaced: IfReplaced
    strict: bool
    machine: bool

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
