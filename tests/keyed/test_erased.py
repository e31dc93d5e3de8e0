"""Planted canaries in keyed streams: of what is erased, no byte is left in any file of the store."""

from __future__ import annotations

import struct
from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest

from vestige import KeyedStreams, Mean, open_store

START = np.datetime64("2024-01-01", "us")


def read_all(path: Path) -> bytes:
    return b"".join(file.read_bytes() for file in sorted(path.parent.iterdir()) if file.is_file())


@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 8))])
def test_values_names_and_subjects_go_with_their_records(seed: int, tmp_path: Path) -> None:
    rng, path = np.random.default_rng(seed), tmp_path / "a.db"
    planted: dict[bytes, str] = {}
    with open_store(path) as store:
        shops = KeyedStreams(
            Mean(channel="bits"),
            retention=80,
            max_age=timedelta(days=30),
            seed=1,
            store=store.family(),
        )
        now = START
        for _ in range(12):
            n = int(rng.integers(1, 600))
            keys = [f"canary-key-{k:05}" for k in rng.integers(0, 400, n)]
            values = rng.normal(1e6, 10.0, n)
            planted |= {struct.pack("<d", value): key for value, key in zip(values, keys, strict=True)}
            who = [f"person {k}" for k in rng.integers(0, 50, n)]
            now += np.timedelta64(int(rng.integers(0, 40)), "h")
            shops.extend(keys, values, times=np.full(n, now), subjects=who)
            if rng.random() < 0.5:
                shops.forget(subject=f"person {rng.integers(0, 50)}", now=bool(rng.random() < 0.7))
            if rng.random() < 0.3 and len(shops):
                shops.remove(str(rng.choice(list(shops))))
            if rng.random() < 0.3:
                now += np.timedelta64(int(rng.integers(0, 20)), "D")
                shops.sweep(now)
            held = b"".join(shops.retained(key).values.tobytes() for key in shops)
            content = read_all(path)
            assert not [value for value in planted if value in content and value not in held]
            there = {name.encode() for name in shops}
            gone = [f"canary-key-{k:05}".encode() for k in range(400)]
            assert not [name for name in gone if name in content and name not in there]
            pseudonyms = {who: bytes.fromhex(store.pseudonym(who)) for who in (f"person {k}" for k in range(50))}
            subjects = {who for key in shops for who in shops.retained(key).subjects}
            for raw in pseudonyms.values():
                assert (raw in content) == (raw.hex() in subjects)
                assert (raw[:8] in content) == (raw.hex() in subjects)
        assert len(planted) > 1_000
