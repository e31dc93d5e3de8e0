"""Parts of the tests that take equally long, so that each check runs another one of them."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

_SECONDS = 1.0
"""What a test takes that does not say it."""


def divide(seconds: Mapping[str, float], parts: int) -> list[set[str]]:
    """Deal tests to parts, the longest first, each to the part that has least to do so far."""
    dealt, loads = [set[str]() for _ in range(parts)], [0.0] * parts
    for name in sorted(seconds, key=lambda name: (-seconds[name], name)):
        least = loads.index(min(loads))
        dealt[least].add(name)
        loads[least] += seconds[name]
    return dealt


def find_seconds(item: pytest.Item) -> float:
    """How long a test takes on a quiet core, as its mark `slow(seconds)` says."""
    mark = item.get_closest_marker("slow")
    return float(mark.args[0]) if mark is not None and mark.args else _SECONDS
