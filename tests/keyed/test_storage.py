"""Keyed streams in a store against the same streams in memory, closed and opened again at any time."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from vestige import Bundle, KeyedStreams, Mean, Moments, Policy, Stream, StoreError, Window, open_reader, open_store
from vestige.store import MemoryStore, Store
from vestige.store.entry import pack_entry
from vestige.stream import open_stream

START = np.datetime64("2024-01-01", "us")
HOUR = np.timedelta64(1, "h")
CASES: dict[str, dict[str, Any]] = {
    "bits": {"policy": Mean(channel="bits"), "retention": 56},
    "three columns": {"policy": Mean(3, channel="bits"), "retention": 130},
    "times": {"policy": Mean(), "retention": 96, "max_age": timedelta(days=2), "lateness": timedelta(hours=3)},
    "order": {"policy": Mean(channel="bits"), "retention": 96, "max_age": timedelta(days=1)},
    "notice": {"policy": Mean(channel="bits"), "retention": 120, "notice": 80},
    "moments": {"policy": Moments(2), "retention": 128},
    "bundle": {"policy": Bundle({"a": Mean(), "b": Mean()}), "retention": 260},
    "window": {"policy": Window(Mean()), "retention": 40},
}


class Twins:
    """The same streams in a store and in memory, under pseudonyms of the same key."""

    def __init__(self, path: Path, case: str) -> None:
        self.path, self.terms = path, dict(CASES[case])
        self.policy: Policy = self.terms.pop("policy")
        self.store = open_store(path)
        self.kept = self.open()
        self.memory: KeyedStreams = KeyedStreams(self.policy, **self.terms, seed=5)
        self.memory._hash_subject = lambda subject: self.store.pseudonym(subject)  # type: ignore[method-assign]

    def open(self) -> KeyedStreams:
        return KeyedStreams(self.policy, **self.terms, seed=5, store=self.store.family())  # type: ignore[attr-defined]

    def reopen(self) -> None:
        self.store.close()
        self.store = open_store(self.path)
        self.kept = self.open()

    def do(self, action: Any) -> None:
        one, other = action(self.kept), action(self.memory)
        assert one == other

    def check(self) -> None:
        assert set(self.kept) == set(self.memory) == set(self.store.names())
        for key in self.memory:
            assert self.kept.clock(key) == self.memory.clock(key), key
            assert self.kept.retained(key) == self.memory.retained(key), key
            _, state = self.store.read_stream(key)  # type: ignore[misc]
            assert (state.clock, state.retained) == (self.memory.clock(key), self.memory.retained(key))
        assert self.store.verify(at=_at(self.now)) == ()


def _at(now: np.datetime64) -> Any:
    return now.astype("datetime64[us]").item()
