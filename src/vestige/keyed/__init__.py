"""Streams by key: millions of them in arrays, under the rules of one `vestige.Stream` each."""

from __future__ import annotations

from vestige.keyed.counts import KeyedCounts
from vestige.keyed.estimates import KeyedEstimates
from vestige.keyed.families import read_families
from vestige.keyed.streams import KeyedStreams
from vestige.keyed.taken import StreamTrouble, Taken

__all__ = ["KeyedCounts", "KeyedEstimates", "KeyedStreams", "StreamTrouble", "Taken", "read_families"]
