"""Sources of a store compared with the files that exist now.

Guarantee: a source that changed since it was read is found, whatever else the streams were read from; held by
tests/ingest/test_replaced_files.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol

from vestige.errors import SourceError
from vestige.ingest.by_key import StreamsByKey
from vestige.ingest.names import StreamNames, hash_key, read_by
from vestige.keyed import read_families
from vestige.operations.entry import FEW
from vestige.policies import NamedPolicy
from vestige.policies.metrics import METRICS
from vestige.serialization import from_dict
from vestige.sources import FileSource
from vestige.sources.comparison import RowComparison, explain_difference, explain_uncompared
from vestige.sources.dialect import SEPARATORS, Dialect
from vestige.sources.held import HeldRows
from vestige.sources.identity import FileIdentity, FileProgress, digest_key
from vestige.sources.protocol import SourcePositions
from vestige.store import State, Terms
from vestige.store.terms import DEFAULTS
from vestige.stream.arrivals import read_table
from vestige.stream.frames import find_names, select_columns


class _Group(Protocol):
    """Streams that one run reads a source into."""

    @property
    def terms(self) -> Sequence[Terms]:
        """Their different terms."""

    def find_positions(self, source: str) -> SourcePositions:
        """Find how far a source was read into them."""

    def find_held(self, source: str, progress: FileProgress) -> HeldRows:
        """Find the records of the newest file of a source that are held."""


@dataclass(frozen=True, slots=True)
class _Streams:
    """Streams that were read one by one, by name."""

    members: dict[str, tuple[Terms, State]]

    @property
    def terms(self) -> Sequence[Terms]:
        return list({terms.text: terms for terms, _ in self.members.values()}.values())

    def find_positions(self, source: str) -> SourcePositions:
        return SourcePositions(own={name: state.positions[source].value for name, (_, state) in self.members.items()})

    def find_held(self, source: str, progress: FileProgress) -> HeldRows:
        names = _find_stream_names(self.terms[0])
        parts = ((names.find_key(name), self.members[name][1].find_records(source)) for name in progress.own)
        return HeldRows.collect(parts)


@dataclass(frozen=True, slots=True)
class _Family:
    """Streams of a large family, which were read together."""

    terms: Sequence[Terms]
    streams: StreamsByKey

    def find_positions(self, source: str) -> SourcePositions:
        return self.streams.find_positions(source)

    def find_held(self, source: str, progress: FileProgress) -> HeldRows:
        return self.streams.find_held(source).drop_streams(progress.outdated)


def verify_sources(
    streams: Mapping[str, tuple[Terms, State]], pseudonym: Callable[[str], str] | None = None
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Find the sources of a store that are not as they were when they were read.

    Args:
        streams: terms and state of each stream, as in `vestige.store.StoreSnapshot.streams`.
        pseudonym: function from a subject to its pseudonym in the store; None if the key is missing.

    Returns:
        Findings (a source that changed, or cannot be read) and notes (a source that no longer exists, or whose subjects
        could not be compared), a sentence each.

    Example:
        >>> verify_sources({})
        ((), ())
    """
    findings: list[str] = []
    notes: list[str] = []
    for source, group in sorted(_iterate_groups(streams), key=lambda found: found[0]):
        _verify_source(source, group, pseudonym, findings, notes)
    return tuple(dict.fromkeys(findings)), tuple(dict.fromkeys(notes))


def _verify_source(
    source: str, group: _Group, pseudonym: Callable[[str], str] | None, findings: list[str], notes: list[str]
) -> None:
    progress = FileProgress.collect(group.find_positions(source))
    before = progress.identity
    try:
        change = "" if before is None else before.explain_change(FileIdentity.read(source, before.generation))
        file = None if change or before is None else _find_file(source, group, pseudonym)
        if file is not None and pseudonym is None and _has_hashes(group):
            notes.append(f"source {source}: its rows were not compared, since the key of its hashes is missing")
        elif file is not None:
            if file.subject is not None and pseudonym is None:
                file = replace(file, subject=None)
                notes.append(f"source {source}: its subjects were not compared, since the key is missing")
            change, compared = _compare_dialects(file, group, progress, pseudonym)
            if not change and not compared:
                notes.append(f"source {source}: {explain_uncompared(progress.furthest)}")
    except SourceError as problem:
        findings.append(f"source {problem}")
    except (FileNotFoundError, NotADirectoryError, ValueError):
        notes.append(f"source {source}: does not exist any more, so it could not be checked")
    except OSError as problem:
        findings.append(f"source {source}: cannot be checked: {problem.strerror}")
    else:
        if change:
            findings.append(f"source {source}: {change}; vestige run refuses it: see its option --if-replaced")


def _iterate_groups(streams: Mapping[str, tuple[Terms, State]]) -> Iterator[tuple[str, _Group]]:
    """Each source with the streams that one run reads it into: those of a large family, or `_group_streams`."""
    together = set[str]()
    for terms, names, family in read_families(streams, more_than=FEW):
        if not family.positions.shared and not family.positions.own:
            together.update(names)
        elif terms.about.get("by") is not None:
            members = StreamsByKey(family, _find_stream_names(terms), None, terms.max_age, lambda _: None)
            yield from ((source, _Family([terms], members)) for source in members.list_sources())
            together.update(names)
    others = (name for name in streams if name not in together)
    yield from _group_streams((name, *streams[name]) for name in others)


def _group_streams(streams: Iterable[tuple[str, Terms, State]]) -> Iterator[tuple[str, _Group]]:
    """Each source with the streams that one run reads it into: one stream, or those of a column of keys."""
    groups: dict[tuple[str, str], dict[str, tuple[Terms, State]]] = {}
    for name, terms, state in streams:
        run = f"stream {name}" if terms.about.get("by") is None else f"run {terms.fixed}"
        for source in state.positions:
            groups.setdefault((source, run), {})[name] = terms, state
    for (source, _), members in sorted(groups.items(), key=lambda item: item[0]):
        yield source, _Streams(members)


def _find_stream_names(terms: Terms) -> StreamNames:
    prefix = terms.about.get("stream")
    return StreamNames(read_by(terms.about), None if prefix is None else str(prefix))


def _has_hashes(group: _Group) -> bool:
    return any(terms.about.get("hash_keys") for terms in group.terms)


def _find_file(source: str, group: _Group, pseudonym: Callable[[str], str] | None) -> FileSource | None:
    """Return the source as a run reads it, without times, whose unit is not stored; None if no run has read it."""
    about = group.terms[0].about
    columns, targets, subject = (about.get(key) for key in ("columns", "targets", "subject"))
    if not isinstance(columns, list) or not isinstance(targets, list):
        return None
    subject = None if subject is None else str(subject)
    missing = about.get("statistic") == METRICS
    names = tuple(map(str, columns + targets))
    hashed = partial(hash_key, pseudonym) if pseudonym is not None and _has_hashes(group) else None
    policy = from_dict(group.terms[0].policy).unwrap()
    categories = policy.name_categories(names) if isinstance(policy, NamedPolicy) else {}
    return FileSource(
        source,
        names,
        subject=subject,
        by=read_by(about),
        growing=True,
        keep_missing=missing,
        hash_key=hashed,
        categories=categories,
    )


def _list_dialects(path: str, group: _Group, known: Dialect | None) -> list[Dialect]:
    """The dialect in which a file was read; or, where a store does not say it, those that it may have been."""
    if known is not None:
        return [known]
    from vestige.sources.detection import detect_dialect  # noqa: PLC0415  # Arrow takes half a second to import

    found = []
    for terms in group.terms:
        defaults = terms.about.get(DEFAULTS)
        told = defaults if isinstance(defaults, Mapping) else {}
        separator, decimal, encoding = (str(told.get(name, "")) for name in ("separator", "decimal", "encoding"))
        found.append(Dialect(SEPARATORS.get(separator, separator) or ",", decimal or ".", encoding or "utf-8"))
    return list(dict.fromkeys([*found, Dialect(), detect_dialect(path)]))


def _compare_dialects(
    file: FileSource, group: _Group, progress: FileProgress, pseudonym: Callable[[str], str] | None
) -> tuple[str, int]:
    """Compare the rows in each dialect that the file may have, until they are the same; see `_compare_rows`."""
    different: tuple[str, int] | None = None
    problems: list[SourceError] = []
    for dialect in _list_dialects(file.path, group, None if progress.identity is None else progress.identity.dialect):
        try:
            found = _compare_rows(replace(file, dialect=dialect), group, progress, pseudonym)
            if not found[0]:
                return found
            different = different or found
        except SourceError as problem:
            problems.append(problem)
    if different is None:
        raise problems[0]
    return different


def _compare_rows(
    file: FileSource, group: _Group, progress: FileProgress, pseudonym: Callable[[str], str] | None
) -> tuple[str, int]:
    """Say why the rows of a file are not those that were read, if so; and how many were compared."""
    before = progress.identity
    assert before is not None  # noqa: S101
    same_key = pseudonym is not None and digest_key(pseudonym) == before.key
    policy = from_dict(group.terms[0].policy)
    names = find_names(policy, group.terms[0].about)
    held = replace(
        group.find_held(file.path, progress),
        read=lambda rows: read_table(select_columns(rows, names, policy)[0], policy),
    )
    comparison = RowComparison(held, pseudonym or str, before.other_key if same_key else progress.furthest)
    different = comparison.find_difference(file.blocks(), progress.furthest)
    return "" if different is None else explain_difference(different), len(held)
