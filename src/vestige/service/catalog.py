"""The definitions of a store, and the streams that they share: one family for each set of fixed terms.

A definition without `by` is the stream of its name in its family. Streams that `vestige run` has made are found too.
Guarantee: streams go on from what another program of this project has written; held by tests/service/test_app.py.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from vestige.errors import VestigeError
from vestige.ingest.definition import Definition
from vestige.ingest.names import StreamNames, hash_key
from vestige.keyed import KeyedStreams
from vestige.service.bodies import find_columns
from vestige.service.logs import describe
from vestige.service.name_index import NameIndex
from vestige.service.problems import RefusalError
from vestige.sources.columns import Columns
from vestige.store import Store
from vestige.store.service_notes import ServiceNotes
from vestige.stream.limits import Limits
from vestige.stream.rules import make_rules, make_terms

UNNAMED = "main"
"""The name of streams by key that have no prefix."""
_CREATED = "created"
_log = logging.getLogger("vestige.service")


@dataclass(slots=True)
class Served:
    """A definition with its streams.

    Attributes:
        name: its name.
        definition: the definition.
        columns: the columns that it reads.
        streams: its streams, and those of other definitions with the same terms if it has no keys.
        terms: the fixed text of their terms.
        created: a random text that tells it from an earlier definition of its name; empty for streams that no service
            has created.
        index: the names of its streams in order, if it has keys.
    """

    name: str
    definition: Definition
    columns: Columns
    streams: KeyedStreams
    terms: str
    created: str = ""
    index: NameIndex = field(default_factory=NameIndex)

    @property
    def names(self) -> StreamNames:
        """The names of the streams."""
        return self.definition.names

    def find_name(self, key: str, store: Store) -> str | None:
        """Find the stream of a key.

        Args:
            key: the key as rows have it, or as the store does; empty without keys.
            store: the store.

        Returns:
            The name; None if there is no such stream.
        """
        if not self.definition.by:
            return self.name if not key and self.name in self.streams else None
        tried = [hash_key(store.pseudonym, key), key] if self.definition.hash_keys else [key]
        return next((name for name in map(self.names.find_name, tried) if name in self.streams), None)

    def list_names(self) -> list[str]:
        """List the names of the streams, sorted.

        Returns:
            The names.
        """
        if not self.definition.by:
            return [self.name] if self.name in self.streams else []
        return sorted(self.streams)

    def count(self) -> int:
        """Count the streams.

        Returns:
            The number.
        """
        return len(self.streams) if self.definition.by else len(self.list_names())

    def page(self, after: str | None, limit: int) -> list[str]:
        """List the next names.

        Args:
            after: the name before them; None for the first.
            limit: how many.

        Returns:
            The names.
        """
        if self.definition.by:
            return self.index.page(self.streams.names, after, limit)
        return [name for name in self.list_names() if after is None or name > after][:limit]


class Catalog:
    """The definitions of a store.

    Args:
        store: the store.
        notes: the definitions that a service was given, in the store.
    """

    def __init__(self, store: Store, notes: ServiceNotes) -> None:
        self._store, self._notes, self._families = store, notes, dict[str, KeyedStreams]()
        self.served: dict[str, Served] = {}
        for name, data in notes.read_definitions().items():
            with _log_trouble():
                created = str(data.pop(_CREATED, ""))
                self._add(Definition.from_data(data | {"name": name}), created)
        for terms in store.list_terms():
            with _log_trouble():
                self._load(Definition.from_terms(UNNAMED, terms))

    def _load(self, definition: Definition) -> None:
        """Serve the streams of terms that are in the store."""
        if definition.by:
            if (definition.name or UNNAMED) not in self.served:
                self._add(definition)
            return
        streams, _ = self._open(definition)
        for name in streams:
            if name not in self.served:
                self._add(replace(definition, name=name))

    @property
    def families(self) -> tuple[KeyedStreams, ...]:
        """The streams of all definitions, each family once."""
        return tuple(self._families.values())

    def find(self, name: str) -> Served:
        """Find a definition; this may be called without a lock.

        Args:
            name: its name.

        Returns:
            The definition with its streams.

        Raises:
            RefusalError: there is none.
        """
        found = self.served.get(name)
        if found is None:
            raise RefusalError(404, "there is no stream of this name; create it with POST /v1/streams")
        return found

    def create(self, definition: Definition) -> bool:
        """Create a definition.

        Args:
            definition: the definition, checked.

        Returns:
            Whether it is new.

        Raises:
            RefusalError: there is one of this name with other terms.
        """
        name = definition.name
        if not name:
            raise RefusalError(422, "name is missing; give the definition one")
        known = self.served.get(name)
        if known is not None:
            is_same = known.terms == _find_terms(definition)
            if known.definition.policy is None:  # else it is what the terms of a stream say
                is_same = known.definition == definition
            if not is_same:
                raise RefusalError(
                    409, "there is a stream of this name with other terms; use another name, or delete it"
                )
            return False
        if not definition.by and self._store.has(name):
            raise RefusalError(409, "there is a stream of this name that was made otherwise; use another name")
        created = secrets.token_hex(8)
        self._add(definition, created)
        try:
            self._notes.write_definition(name, definition.to_data() | {_CREATED: created})
        except BaseException:
            del self.served[name]
            raise
        return True

    def remove(self, name: str) -> int:
        """Remove a definition and all its streams.

        Args:
            name: its name.

        Returns:
            The number of streams that were removed.
        """
        served = self.find(name)
        names = list(served.list_names())
        is_last = not any(each.terms == served.terms for each in self.served.values() if each is not served)
        with self._store.transaction():
            ledger = self._store.read_ledger()
            if (left := ledger.without_streams({*names})) is not ledger:
                self._store.write_ledger(left)
            served.streams.remove(*names)
            self._notes.erase_definition(name)
            if is_last:
                self._notes.erase_terms(served.streams.terms)
        del self.served[name]
        if is_last:
            self._store._close_family(served.terms)
            del self._families[served.terms]
        return len(names)

    def reload(self) -> None:
        """Read all streams again, since what is in memory was not written.

        Raises:
            StoreError: the store cannot be read.
        """
        open_here = self._store.families
        for terms, streams in self._families.items():
            if any(each is streams for each in open_here):
                streams.reload()
            else:
                self._reopen(terms)

    def _reopen(self, terms: str) -> None:
        """Open the streams of a family once more, which were closed here."""
        served = [each for each in self.served.values() if each.terms == terms]
        if served:
            definition = served[0].definition
            self._families[terms] = definition.make_streams(definition.make_policy(), self._store)
            for each in served:
                each.streams = self._families[terms]

    def _add(self, definition: Definition, created: str = "") -> None:
        streams, terms = self._open(definition)
        name = definition.name or UNNAMED
        columns = find_columns(definition, streams.policy)
        self.served[name] = Served(name, definition, columns, streams, terms, created)

    def _open(self, definition: Definition) -> tuple[KeyedStreams, str]:
        terms = _find_terms(definition)
        if terms not in self._families:
            self._families[terms] = definition.make_streams(definition.make_policy(), self._store)
        return self._families[terms], terms


@contextmanager
def _log_trouble() -> Iterator[None]:
    """Serve the others where one definition cannot be served."""
    try:
        yield
    except VestigeError as problem:
        _log.warning("some streams are not served: %s", describe(problem))  # its text may name one


def _find_terms(definition: Definition) -> str:
    """The fixed text of the terms of a definition's streams."""
    limits = Limits(
        definition.retention, definition.notice, definition.max_age, definition.max_ahead, definition.lateness
    )
    return make_terms(make_rules(definition.make_policy(), limits, definition.seed), definition.about).fixed_text
