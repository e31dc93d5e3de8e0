"""Streams of a family from a snapshot of their store, all at once in arrays.

Guarantee: the same streams as reading them one by one, and the store is neither locked nor changed; held by
tests/keyed/test_families.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from vestige.errors import VestigeError
from vestige.keyed.streams import KeyedStreams
from vestige.serialization import from_dict
from vestige.store import MemoryStore, State, Terms
from vestige.store.memory_rows import copy_rows
from vestige.store.stored_streams import StoredStreams


def read_families(
    streams: Mapping[str, tuple[Terms, State]], *, more_than: int = 0
) -> Iterator[tuple[Terms, list[str], KeyedStreams]]:
    """Read the large families of a snapshot; those that cannot be made again from their terms are left out.

    Args:
        streams: what `vestige.store.StoreSnapshot.streams` has.
        more_than: families of so many streams and fewer are left out.

    Yields:
        The terms of a family, the names of its streams, sorted, and the streams. They are a copy: what happens to them
        does not reach their store. There may be others among them, which cannot be read.

    Example:
        >>> from vestige import Mean, Stream, open_store
        >>> store = open_store("memory:")
        >>> for name in ("a", "b"):
        ...     Stream(Mean(), retention=96, seed=0, store=store.stream(name)).extend(range(10))
        10
        10
        >>> store.flush()
        >>> [(names, streams.estimate("b").value) for _, names, streams in read_families(store.snapshot().streams)]
        [(['a', 'b'], 4.5)]
    """
    if not isinstance(streams, StoredStreams) or len(streams) <= more_than:
        return
    for terms, names in streams.list_families():
        if len(names) > more_than:
            try:
                made = _read(streams, terms)
                is_whole = bool((made.find_numbers(names) >= 0).all())
            except VestigeError:  # as of a policy that cannot be loaded: who asks one of the streams is told
                continue
            if is_whole:
                yield terms, names, made


def _read(streams: StoredStreams, terms: Terms) -> KeyedStreams:
    place = MemoryStore(copy_rows(streams.rows)).family(about=terms.about)
    return KeyedStreams(
        from_dict(terms.policy), retention=terms.retention, notice=terms.notice, max_age=terms.max_age, store=place
    )
