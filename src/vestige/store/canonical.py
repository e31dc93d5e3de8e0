"""The canonical form of a store's rows: the same streams give the same rows, whatever came before.

Terms are numbered in the order of their texts, positions in the order of their owners and sources, and there are no
more buckets than the streams need. Where that is so already, no row of a stream is written.
Guarantee: stores with the same streams, records, clocks, positions and receipts have the same rows then; held by
tests/store/test_erasure.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from vestige.store.bucket import count_buckets, find_weight, pack_names
from vestige.store.buckets import Bucket
from vestige.store.definition_rows import arrange_definitions
from vestige.store.entry import (
    CHECKSUM,
    RECEIPTS,
    SOURCES,
    is_sound,
    read_header,
    read_sources,
    replace_sources,
    replace_terms,
    sort_receipts,
)
from vestige.store.families import Family, name_family, name_stream, pack_family
from vestige.store.layout import DamagedError
from vestige.store.ledger_rows import read_ledger
from vestige.store.tables import Tables


@dataclass(slots=True)
class _Scan:
    """What all streams refer to.

    Attributes:
        streams: number of streams with each number of terms.
        owners: the streams that have own positions, in order, each with the rows of these.
        sorted: whether the receipts of each stream are in their canonical order.
    """

    streams: dict[int, int] = field(default_factory=dict)
    owners: list[tuple[bytes, tuple[int, ...]]] = field(default_factory=list)
    sorted: bool = True


@dataclass(frozen=True, slots=True)
class _Order:
    """The numbers that rows have in the canonical form.

    Attributes:
        terms: the new number of terms, by the old one.
        sources: the new row of a position, by the old one.
    """

    terms: dict[int, int]
    sources: dict[int, int]


def arrange(tables: Tables) -> None:
    """Bring the rows of a store into their canonical form.

    Args:
        tables: the tables of the store.

    Raises:
        DamagedError: a stream is damaged, or the ledger is.
    """
    scan = _scan(tables)
    families = {number: tables.families.read(number) for number in scan.streams}
    weight = sum(count * find_weight(families[number].terms) for number, count in scan.streams.items())
    tables.about = replace(tables.about, streams=sum(scan.streams.values()), weight=weight)
    if count_buckets(weight) != tables.about.buckets:
        tables.merge()
        scan = _scan(tables)
    numbers = sorted(families, key=lambda number: (families[number].terms.text, number))
    moved = {number: place for place, number in enumerate(numbers, 1)}
    positions = _read_positions(tables, scan, families, numbers)
    order = _Order(moved, {old: new for new, (old, _, _) in enumerate(positions, 1)})
    about = tables.about
    numbered = _is_same(order.terms) and _is_same(order.sources)
    if not (scan.sorted and numbered and (about.terms, about.sources) == (len(numbers), len(positions))):
        _write_positions(tables, positions, moved)
        _write_terms(tables, families, order)
        _renumber_entries(tables, families, order)
        tables.epoch += 1
    _drop_empty_rows(tables)
    arrange_definitions(tables.rows)
    tables.requests.arrange()


def _scan(tables: Tables) -> _Scan:
    """Look through all streams in order; an error if anything of them is damaged."""
    made = _Scan()
    for number in tables.buckets.iterate_ahead(range(tables.about.buckets)):
        for name, entry in tables.buckets.read(number):
            if not is_sound(entry, name):
                raise DamagedError("a stored row is damaged")
            first = entry[CHECKSUM + 1]
            terms = first if first < 128 else read_header(entry).terms
            made.streams[terms] = made.streams.get(terms, 0) + 1
            if entry[CHECKSUM] & SOURCES:
                made.owners.append((name, read_sources(entry, tables.families.terms(terms).columns)))
            if entry[CHECKSUM] & RECEIPTS:
                made.sorted &= sort_receipts(entry, name, tables.families.terms(terms).columns) is entry
    return made


def _read_positions(
    tables: Tables, scan: _Scan, families: dict[int, Family], numbers: Sequence[int]
) -> list[tuple[int, bytes, bytes]]:
    """Row, owner and packed position of each source, in the canonical order."""
    owners = [(name_family(number), families[number].sources) for number in numbers]
    owners += [(name_stream(name), rows) for name, rows in scan.owners]
    found = []
    for owner, rows in owners:
        packed = [(row, owner, tables.families.read_source(row, owner)) for row in rows]
        found += sorted(packed, key=lambda each: tables.families.name_source(each[1], each[2]))
    return found


def _is_same(moved: dict[int, int]) -> bool:
    return all(old == new for old, new in moved.items())


def _write_positions(tables: Tables, positions: list[tuple[int, bytes, bytes]], moved: dict[int, int]) -> None:
    """Write the positions in their new rows, and nothing else."""
    tables.rows.cut("sources", 1)
    renamed = {name_family(old): name_family(new) for old, new in moved.items()}
    for row, (_, owner, plain) in enumerate(positions, 1):
        tables.families.write_source(row, renamed.get(owner, owner), plain)
    tables.about = replace(tables.about, sources=len(positions))


def _write_terms(tables: Tables, families: dict[int, Family], order: _Order) -> None:
    """Write the terms in their new rows, and nothing else."""
    tables.rows.cut("terms", 1)
    for number, place in order.terms.items():
        sources = tuple(sorted(order.sources[row] for row in families[number].sources))
        family = replace(families[number], sources=sources)
        tables.rows.write("terms", place, *pack_family(place, family))
    tables.about = replace(tables.about, terms=len(order.terms))
    tables.families.forget()


def _renumber_entries(tables: Tables, families: dict[int, Family], order: _Order) -> None:
    """Write the new numbers into the entries that have others."""
    for number in range(tables.about.buckets):
        row = tables.buckets.read_row(number)
        bucket, changed = Bucket.parse(row), False
        for at, (name, entry) in enumerate(bucket):
            made = _renumber_entry(name, entry, families, order)
            if made is not entry:
                bucket.entries[at], changed = made, True
        if changed:
            names = pack_names(bucket.names, [len(entry) for entry in bucket.entries])
            entries = b"".join(bucket.entries)
            tables.buckets.write_row(number, replace(row.summary, length=len(entries)), names, entries)


def _renumber_entry(name: bytes, entry: bytes, families: dict[int, Family], order: _Order) -> bytes:
    terms = read_header(entry).terms
    columns = families[terms].terms.columns
    if entry[CHECKSUM] & RECEIPTS:
        entry = sort_receipts(entry, name, columns)
    if entry[CHECKSUM] & SOURCES:
        rows = read_sources(entry, columns)
        moved = tuple(sorted(order.sources[row] for row in rows))
        if moved != rows:
            entry = replace_sources(entry, name, columns, moved)
    return entry if order.terms[terms] == terms else replace_terms(entry, name, order.terms[terms])


def _drop_empty_rows(tables: Tables) -> None:
    """Drop what is left of requests that have expired, and an index without subjects."""
    rows = tables.rows
    read_ledger(rows)  # a damaged one is left as it is
    kept = [(row, parts) for row, parts in rows.iterate("ledger") if any(parts[0][4:8])]
    if len(kept) < sum(1 for _ in rows.iterate("ledger", ("head",))):
        rows.cut("ledger", 1)
        for row, (head, body) in kept:
            rows.write("ledger", row, head, body)
    if rows.find_end("subjects") and not len(tables.index.read_all()[0]):
        rows.cut("subjects", 1)
