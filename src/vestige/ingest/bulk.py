"""What a run asks of all streams of a key at once.

Each function here is the form in which `KeyedStreams` is asked. Where it has no method for it yet, streams are asked
one by one, which takes long for many of them.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

import numpy as np

from vestige.errors import StreamsError
from vestige.keyed import KeyedStreams
from vestige.keyed.names import read_keys
from vestige.keyed.positions import KeyedPositions
from vestige.sources.block import Texts
from vestige.sources.held import HeldRows
from vestige.stream import Stream
from vestige.times import to_ticks, wall_clock
from vestige.types import Ints


def get_positions(streams: KeyedStreams) -> KeyedPositions:
    """Return the positions of a family of streams that is in a store."""
    positions = getattr(streams, "positions", None)
    return positions if isinstance(positions, KeyedPositions) else KeyedPositions()


def find_numbers(streams: KeyedStreams, names: Texts) -> Ints:
    """Find the number of the stream of each name; -1 where there is none."""
    bulk: Callable[[Texts], Ints] | None = getattr(streams, "find_numbers", None)
    if bulk is not None:
        return bulk(names)
    return streams._names._look_up(read_keys(names), None)  # fallback


def count_held(streams: KeyedStreams, names: Texts) -> Ints:
    """Count the records that the stream of each name holds; 0 where there is none."""
    held = np.zeros(len(names), np.int64)
    there = np.flatnonzero(find_numbers(streams, names) >= 0)
    counts = getattr(streams, "counts", None)
    if counts is not None and len(there):
        held[there] = counts(names[there]).held
    elif len(there):
        held[there] = [len(streams.retained(name)) for name in names[there]]  # fallback
    return held


def count_overdue(streams: KeyedStreams, at: datetime) -> int:
    """Count the records that are older than they may be at a time."""
    limits, instant = streams._rules.limits, to_ticks(at)
    if limits.max_age is None:
        return 0
    deadline = np.datetime64(instant - limits.age, "us")
    due = streams._shards.find_due(instant)
    return sum(int((streams._shards.read(number)[1].times <= deadline).sum()) for number in due)  # fallback


def find_held(streams: KeyedStreams, slot: int, find_streams: Callable[[Texts], Ints]) -> HeldRows:
    """Find the held records of the source that has a slot."""
    bulk = getattr(streams, "find_records", None)
    if bulk is not None:
        rows, values, times, subjects, numbers = bulk(slot)
        return HeldRows(rows, values, times, subjects, numbers, find_streams)
    names = list(streams)  # fallback
    parts = [(name, streams.retained(name).from_source(slot)) for name in names]
    held = HeldRows.collect(parts)
    kept = np.array([name for name, part in parts if len(part)], np.object_)
    numbers = find_numbers(streams, kept) if len(kept) else np.zeros(0, np.int64)
    return replace(held, streams=numbers[held.streams], find_streams=find_streams)


def sweep_streams(streams: KeyedStreams, exclude: Collection[str]) -> tuple[int, Mapping[str, Exception]]:
    """Erase what is due by the machine's clock, but in some streams; return how many records, and what went wrong."""
    if not exclude or "exclude" in inspect.signature(streams.sweep).parameters:
        options: dict[str, Any] = {"exclude": exclude} if exclude else {}
        try:
            return streams.sweep(**options), {}
        except StreamsError as failed:
            return 1, failed.troubles
    erased, troubles = 0, dict[str, Exception]()  # fallback

    def sweep(stream: Stream) -> None:
        nonlocal erased
        erased += stream.sweep()

    spared = set(find_numbers(streams, np.array([*exclude], np.object_)).tolist())
    for number in streams._shards.find_due(to_ticks(wall_clock())):
        problem = None if number in spared else streams._shards.attempt(number, sweep)
        if problem is not None:
            troubles[streams._names[number]] = problem
    return erased, troubles
