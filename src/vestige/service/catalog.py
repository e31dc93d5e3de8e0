"""The definitions of a store, and the streams that they share: one family for each set of fixed terms.

A definition without `by` is the stream of its name in its family. Streams that `vestige run` has made are found too.
Whoever has a family open is the only one who writes its streams and its definitions; so a definition that is in the
store while its family is open elsewhere is missing here, and is read again once the family is open here.
Guarantee: streams go on from what another program of this project has written; held by tests/service/test_app.py. A
definition that is in the store is served, or refused for a while; it is never unknown, and never created anew; held by
tests/service/test_catalog.py and tests/service/test_schedules.py.
"""

from __future__ import annotations

import logging
import secrets
import time
from dataclasses import dataclass, field, replace

from vestige.errors import StoreBusyError, StoreError
from vestige.ingest.definition import Definition
from vestige.ingest.names import StreamNames, hash_key
from vestige.keyed import KeyedStreams
from vestige.service.bodies import find_columns
from vestige.service.logs import describe
from vestige.service.name_index import NameIndex
from vestige.service.problems import RefusalError
from vestige.sources.columns import Columns
from vestige.store import Store, Terms
from vestige.store.service_notes import ServiceNotes
from vestige.stream.limits import Limits
from vestige.stream.rules import make_rules, make_terms

UNNAMED = "main"
"""The name of streams by key that have no prefix."""
_CREATED = "created"
_HELD = (
    "the stream is open in another process, or cannot be opened; it is taken over as soon as it can be: send the "
    "request again, with the same Idempotency-Key"
)
_UNREAD = "the definitions of the store cannot be read; send the request again, with the same Idempotency-Key"
_OTHER = "there is a stream of this name with other terms; use another name, or delete it"
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


@dataclass(frozen=True, slots=True)
class Stored:
    """A definition as the store has it.

    Attributes:
        definition: the definition; None if it cannot be read.
        terms: see `Served`; empty if the definition cannot be read.
        created: see `Served`.
    """

    definition: Definition | None = None
    terms: str = ""
    created: str = ""


_Known = dict[str, tuple[object, Stored]]


class Catalog:
    """The definitions of a store; whoever calls this holds the lock of the store.

    Args:
        store: the store.
        notes: the definitions that a service was given, in the store.

    Attributes:
        served: the definitions whose streams are open here, by name.
        missing: those whose streams are not, since another process has them open or they cannot be opened.
        asked: when whoever has the lock began to wait for it: what the store had then is known to them.
    """

    def __init__(self, store: Store, notes: ServiceNotes) -> None:
        self._store, self._notes, self._families = store, notes, dict[str, KeyedStreams]()
        self.served, self.missing = dict[str, Served](), dict[str, Stored]()
        self._closed: dict[str, Stored] = {}
        """Streams without keys that `vestige run` has made, of families that are not open here, by their terms."""
        self._known: _Known = {}
        """What was read from the store, and what it says, by the name of a definition or the text of terms."""
        self._looked, self.asked = 0.0, 0.0
        self.take_over()

    @property
    def families(self) -> tuple[KeyedStreams, ...]:
        """The streams of all definitions, each family once."""
        return tuple(self._families.values())

    @property
    def unavailable(self) -> int:
        """How many definitions cannot be served; those of a store that could not be read count as one."""
        return len(self.missing) + len(self._closed) if self._looked else 1

    def find(self, name: str) -> Served:
        """Find a definition.

        Args:
            name: its name.

        Returns:
            The definition with its streams.

        Raises:
            RefusalError: there is none, or its streams are not open here.
        """
        found = self.served.get(name)
        if found is None:
            self.check_served(name)
            try:
                if self._looked < self.asked:  # another process may have created it
                    self.look()
                    return self.find(name)
                is_closed = self._find_closed(name) is not None
            except StoreError:
                raise RefusalError(503, _UNREAD) from None
            if is_closed:
                raise RefusalError(503, _HELD)
            raise RefusalError(404, "there is no stream of this name; create it with POST /v1/streams")
        return found

    def check_served(self, name: str) -> None:
        """Check that a definition is not known to be missing; this may be called without a lock.

        Args:
            name: its name.

        Raises:
            RefusalError: its streams are not open here, or it is not known what there is.
        """
        if not self._looked:
            raise RefusalError(503, _UNREAD)
        if name in self.missing:
            raise RefusalError(503, _HELD)

    def is_open(self, served: Served) -> bool:
        """Tell whether the streams of a definition are still open here.

        Args:
            served: the definition.

        Returns:
            False if another process has taken them over, or they were closed.
        """
        return self._store._families.get(served.terms, (None, None))[1] is served.streams

    def look(self) -> None:
        """Look at what the store has now.

        Raises:
            StoreError: the store cannot be read.
        """
        began, open_here = time.monotonic(), self._store.families
        self._families = {
            terms: streams for terms, streams in self._families.items() if any(each is streams for each in open_here)
        }
        self.served = {name: served for name, served in self.served.items() if self.is_open(served)}
        known, self._known = self._known, {}
        stored = {name: self._parse(name, data, known) for name, data in self._notes.read_definitions().items()}
        singles = dict[str, Stored]()
        for terms in self._store.list_terms():
            if not {"statistic", "columns", "targets"} <= terms.about.keys():
                continue  # a program of its own has made them
            found = self._parse_terms(terms, known)
            if terms.about.get("by") is None:
                singles[terms.fixed_text] = found
            else:
                stored.setdefault(str(terms.about.get("stream") or UNNAMED), found)
        self._closed = {fixed: each for fixed, each in singles.items() if fixed not in self._families}
        for fixed, each in singles.items():
            for name in self._families.get(fixed, ()):
                if each.definition is not None and name not in stored:
                    stored[name] = replace(each, definition=replace(each.definition, name=name))
        served = {name: self._serve(name, each) for name, each in stored.items()}
        self.served = {name: each for name, each in served.items() if each is not None}
        self.missing = {name: each for name, each in stored.items() if name not in self.served}
        self._looked = began

    def _serve(self, name: str, stored: Stored) -> Served | None:
        """The definition with its streams; None if they are not open here."""
        streams, known = self._families.get(stored.terms), self.served.get(name)
        if stored.definition is None or streams is None:
            return None
        if known is not None and known.streams is streams and known.created == stored.created:
            return known
        columns = find_columns(stored.definition, streams.policy)
        return Served(name, stored.definition, columns, streams, stored.terms, stored.created)

    def _parse(self, name: str, data: dict[str, object], known: _Known) -> Stored:
        """What a service has noted of a definition."""
        before = known.get(name, (None, Stored()))
        if before[0] != data:
            rest = {key: value for key, value in data.items() if key != _CREATED}
            try:
                definition = Definition.from_data(rest | {"name": name})
                before = data, Stored(definition, _find_terms(definition), str(data.get(_CREATED, "")))
            except Exception as problem:
                before = data, Stored()
                _warn(problem)
        self._known[name] = before
        return before[1]

    def _parse_terms(self, terms: Terms, known: _Known) -> Stored:
        """What the terms of streams say of their definition."""
        before = known.get(terms.text)
        if before is None:
            try:
                before = None, Stored(Definition.from_terms(UNNAMED, terms), terms.fixed_text)
            except Exception as problem:
                before = None, Stored()
                _warn(problem)
        self._known[terms.text] = before
        return before[1]

    def _find_closed(self, name: str) -> str | None:
        """The terms of a stream without keys that is in the store and not open here; None if there is none."""
        if not self._closed or not self._store.has(name):
            return None
        terms = self._store.terms(name).fixed_text
        return terms if terms in self._closed else None

    def take_over(self) -> None:
        """Open what is not open here and free, and serve it as its last holder has left it; trouble is only logged."""
        try:
            self._take_over()
        except StoreError as problem:  # which keeps nothing that is open from being written, nor from being erased
            self._looked = 0.0
            _log.warning("the definitions of the store cannot be read: %s", describe(problem))

    def _take_over(self) -> None:
        self.look()
        opened = dict[str, KeyedStreams]()
        for each in (*self.missing.values(), *self._closed.values()):
            if each.definition is not None and each.terms not in opened:
                try:
                    opened[each.terms] = self._open(each.definition, each.terms)
                except Exception as problem:  # of one definition, which does not keep others from being served
                    _warn(problem)
        if opened:
            self.look()
            used = {served.terms for served in self.served.values()} | self._list_terms()
            for terms in opened.keys() - used:
                self._close(terms)

    def _list_terms(self) -> set[str]:
        return {terms.fixed_text for terms in self._store.list_terms()}

    def _open(self, definition: Definition, terms: str) -> KeyedStreams:
        if terms not in self._families:
            self._families[terms] = definition.make_streams(definition.make_policy(), self._store)
        return self._families[terms]

    def _close(self, terms: str) -> None:
        """Let others open a family of which nothing has changed here."""
        self._families.pop(terms, None)
        self._store._drop_family(terms)

    def create(self, definition: Definition) -> bool:
        """Create a definition.

        Args:
            definition: the definition, checked.

        Returns:
            Whether it is new.

        Raises:
            RefusalError: there is one of this name with other terms, or it is not open here.
        """
        if not definition.name:
            raise RefusalError(422, "name is missing; give the definition one")
        terms = _find_terms(definition)
        self.look()
        if self._is_there(definition, terms):
            return False
        is_new, created = terms not in self._families, secrets.token_hex(8)
        try:
            streams = self._open(definition, terms)
        except StoreBusyError:
            raise RefusalError(503, "streams with these terms are open in another process; try again") from None
        try:
            with self._store.transaction():
                self.look()  # another process may have created one of this name meanwhile
                if self._is_there(definition, terms):
                    return False
                self._notes.write_definition(definition.name, definition.to_data() | {_CREATED: created})
            columns = find_columns(definition, streams.policy)
            self.served[definition.name] = Served(definition.name, definition, columns, streams, terms, created)
        finally:
            if is_new and all(served.terms != terms for served in self.served.values()):
                self._close(terms)
        return True

    def _is_there(self, definition: Definition, terms: str) -> bool:
        """Whether the store has a definition; refused if it has another of its name, or has it open elsewhere."""
        name = str(definition.name)
        served, missing = self.served.get(name), self.missing.get(name)
        if served is not None:
            known = Stored(served.definition, served.terms)
        elif missing is not None:
            known = missing
        elif (closed := self._find_closed(name)) is not None:
            known = Stored(None, closed)
        else:
            if not definition.by and self._store.has(name):
                raise RefusalError(409, "there is a stream of this name that was made otherwise; use another name")
            return False
        is_same = known.terms in ("", terms)
        if known.definition is not None and known.definition.policy is None:  # else it is what terms of a stream say
            is_same = known.definition == definition
        if not is_same:
            raise RefusalError(409, _OTHER)
        if served is None:
            raise RefusalError(503, _HELD)
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
        for streams in self._families.values():
            if any(each is streams for each in open_here):
                streams.reload()
        self.take_over()


def _warn(problem: Exception) -> None:
    _log.warning("some streams are not served: %s", describe(problem))  # its text may name one


def _find_terms(definition: Definition) -> str:
    """The fixed text of the terms of a definition's streams."""
    limits = Limits(
        definition.retention, definition.notice, definition.max_age, definition.max_ahead, definition.lateness
    )
    return make_terms(make_rules(definition.make_policy(), limits, definition.seed), definition.about).fixed_text
