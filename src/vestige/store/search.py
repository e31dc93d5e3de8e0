"""Which streams of a store have something to do: found by the heads of buckets and by the index of subjects.

Guarantee: finds what reading every stream would find; held by tests/store/test_tables.py.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

from vestige.store.bucket import Heads, Summary
from vestige.store.entry import CHECKSUM, NO_TIME, RECEIPTS, is_sound
from vestige.store.event import NEVER
from vestige.store.keys import EARLIER, PSEUDONYM
from vestige.store.layout import DamagedError
from vestige.store.subject_index import find_prefix
from vestige.store.tables import Tables
from vestige.store.text import decode_text, encode_text

_PSEUDONYM = re.compile(f"[0-9a-f]{{{2 * PSEUDONYM}}}")
Found = tuple[tuple[str, ...], tuple[str, ...]]
"""The names of streams, sorted; and what is wrong with buckets, one sentence each."""


def find_due(tables: Tables, at: int) -> Found:
    """Find the streams in which a sweep at a time has something to do or to say.

    Args:
        tables: the tables of the store.
        at: microseconds since 1970.

    Returns:
        The streams in which something is due by then, those that know a later time, and those that are known to be
        damaged.
    """
    return _find(tables, lambda found: (found.due <= at) | (found.newest > at))


def find_waiting(tables: Tables, number: int, limit: int | None = None) -> Found:
    """Find the streams that a request may still wait for.

    Args:
        tables: the tables of the store.
        number: the number of the request.
        limit: number of streams at which the search may stop; default: all are found.

    Returns:
        The streams that hold a record and have not met the request, those with an open request of their own, and those
        that are known to be damaged.
    """
    return _find(tables, lambda found: (found.settled < number) | (found.open > 0), limit)


def find_damaged(tables: Tables) -> Found:
    """Find the streams that are known to be damaged: those that were found so when their bucket was last written.

    Args:
        tables: the tables of the store.

    Returns:
        These streams; and those with a request that is due, which no time says.
    """
    return _find(tables, lambda found: found.due == NO_TIME)


def count_arrived(tables: Tables) -> tuple[int, tuple[str, ...]]:
    """Count the records that have arrived in all streams in buckets whose heads can be read.

    Args:
        tables: the tables of the store.

    Returns:
        The number, and what is wrong with the other buckets.
    """
    heads, wrong = tables.buckets.read_heads()
    return sum(heads.arrived.tolist()), tuple(wrong)


def find_subjects(tables: Tables, pseudonyms: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Find the streams with records of subjects; where the index is damaged, all streams are read for them.

    Args:
        tables: the tables of the store.
        pseudonyms: the pseudonyms of the subjects.

    Returns:
        The names of the streams, sorted, by pseudonym. What the index names and cannot be read is among them: a damaged
        stream, and a bucket by what is wrong with it.
    """
    asked = list(pseudonyms)
    wanted = {bytes.fromhex(pseudonym): pseudonym for pseudonym in asked if _PSEUDONYM.fullmatch(pseudonym)}
    try:
        buckets = {b for pseudonym in wanted.values() for b in tables.index.find_buckets(find_prefix(pseudonym))}
    except DamagedError:
        buckets = set(range(tables.about.buckets))
    found: dict[str, list[bytes]] = {pseudonym: [] for pseudonym in asked}
    for bucket in sorted(buckets):
        try:
            streams = tables.buckets.read(bucket)
        except DamagedError:
            for names in found.values():
                names.append(encode_text(tables.buckets.describe(bucket)))
            continue
        for name, entry in streams:
            if not is_sound(entry, name):
                for names in found.values():
                    names.append(name)
            raw = tables.read_subjects(name, entry).tobytes()
            for who in {raw[at : at + PSEUDONYM] for at in range(0, len(raw), PSEUDONYM)} & wanted.keys():
                found[wanted[who]].append(name)
    return {pseudonym: tuple(map(decode_text, sorted(names))) for pseudonym, names in found.items()}


def list_named(tables: Tables) -> tuple[str, ...]:
    """List the streams with a record that has a subject.

    Args:
        tables: the tables of the store.

    Returns:
        Their names, sorted.
    """
    streams = (stream for bucket in tables.buckets.iterate() for stream in bucket)
    return tuple(sorted(decode_text(name) for name, entry in streams if len(tables.read_subjects(name, entry))))


def has_pseudonyms(tables: Tables) -> bool:
    """Tell whether a record, a stream or a request has a name that the key of the store would find, or may have.

    Args:
        tables: the tables of the store.

    Returns:
        True also where something is damaged.
    """
    try:
        prefixes, _ = tables.index.read_all()
        has_requests = tables.requests.count() > 0
    except DamagedError:
        return True
    if has_requests or (prefixes != find_prefix(EARLIER)).any() or tables.survey()[1]:
        return True
    if any(terms.about.get("hash_keys") for terms in tables.families.list_terms().values()):
        return True
    return any(not is_sound(entry, name) for bucket in tables.buckets.iterate() for name, entry in bucket)


def find_receipts(tables: Tables) -> Found:
    """Find the streams that have receipts of their own, or may have.

    Args:
        tables: the tables of the store.

    Returns:
        These streams, and damaged ones; a bucket in which nothing is open or ever due has no receipts.
    """
    names = list[bytes]()
    buckets, wrong = _choose(tables, lambda found: (found.due < NEVER) | (found.open > 0))
    for bucket in buckets:
        try:
            streams = tables.buckets.read(bucket)
        except DamagedError:  # its names, or in a sealed store all that is not the head
            wrong.append(tables.buckets.describe(bucket))
            continue
        names += [name for name, entry in streams if not is_sound(entry, name) or entry[CHECKSUM] & RECEIPTS]
    return tuple(map(decode_text, sorted(names))), tuple(wrong)


def _find(tables: Tables, fits: Callable[[Summary | Heads], Any], limit: int | None = None) -> Found:
    """The streams whose summary fits; only buckets whose head fits are read."""
    names = list[bytes]()
    buckets, wrong = _choose(tables, fits)
    for bucket in buckets:
        if limit is not None and len(names) >= limit:
            break
        try:
            names += [name for name, summary in tables.buckets.iterate_summaries(bucket) if fits(summary)]
        except DamagedError:  # its names, or in a sealed store all that is not the head
            wrong.append(tables.buckets.describe(bucket))
    return tuple(map(decode_text, sorted(names))), tuple(wrong)


def _choose(tables: Tables, fits: Callable[[Summary | Heads], Any]) -> tuple[list[int], list[str]]:
    """The buckets whose head fits, and what is wrong with others."""
    heads, wrong = tables.buckets.read_heads()
    return heads.buckets[fits(heads)].tolist(), wrong
