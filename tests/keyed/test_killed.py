"""Keyed streams whose process is killed: each call is in the store as a whole or not at all, and nothing is left."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import keyed_victim as victim
import numpy as np
import pytest

from vestige import KeyedStreams, Mean, open_reader, open_store


def check(path: Path) -> int:
    """The streams are those after a whole number of blocks; how many blocks those are."""
    with open_store(path) as store:
        streams = KeyedStreams(Mean(channel="bits"), retention=56, seed=2, store=store.family())
        blocks, rest = divmod(store.count_arrived()[0], victim.BLOCK)
        assert rest == 0
        expected: KeyedStreams = KeyedStreams(Mean(channel="bits"), retention=56, seed=2)
        expected._hash_subject = store.pseudonym  # type: ignore[method-assign]
        for block in range(blocks):
            victim.act(expected, block)
        assert set(streams) == set(expected) == set(store.names())
        for key in expected:
            assert streams.clock(key) == expected.clock(key)
            assert streams.retained(key) == expected.retained(key)
    assert open_reader(path).verify() == ()
    return blocks


@pytest.mark.parametrize("kills", [12, pytest.param(100, marks=pytest.mark.slow(15))])
def test_each_call_is_whole_or_not_there(kills: int, tmp_path: Path) -> None:
    rng, command = np.random.default_rng(kills), [sys.executable, str(Path(victim.__file__))]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None

        def run(path: Path, delay: float | None) -> tuple[bool, float]:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(json.dumps([str(path), delay]) + "\n")
            process.stdin.flush()
            killed, took = json.loads(process.stdout.readline())
            return killed, took

        _, whole = run(tmp_path / "whole.db", None)
        assert check(tmp_path / "whole.db") == victim.BLOCKS
        number, blocks = 0, set()
        for kill in range(kills):
            path = tmp_path / f"{number}.db"
            killed, _ = run(path, float(rng.uniform(0.0, whole)))
            if path.exists() and kill % 3 == 0:
                blocks.add(check(path))
            if not killed:
                number += 1
        assert len(blocks) > kills // 12
        process.stdin.close()
