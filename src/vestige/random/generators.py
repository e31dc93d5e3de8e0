"""Numpy generators are seeded in one place, from a seed and a path that says what the numbers are for.

Generators of different paths are independent, so a trial's numbers do not depend on which other trials run, or where
(O'Neill 2014; numpy's `SeedSequence`).
Guarantee: no other module makes a generator; held by tests/random/test_generators.py.
"""

from __future__ import annotations

import zlib

import numpy as np


def make_generator(seed: int, *path: int | str) -> np.random.Generator:
    """Make a generator for one purpose.

    Args:
        seed: seed of the whole computation, 0 or more.
        path: what the numbers are for, such as the name of an experiment and the number of a trial.

    Returns:
        A generator that depends on the seed and the path alone.

    Example:
        >>> draws = [int(make_generator(0, "noise", trial).integers(1000)) for trial in (1, 1, 2)]
        >>> draws[0] == draws[1], draws[0] == draws[2]
        (True, False)
    """
    return np.random.default_rng(
        [seed, *(zlib.crc32(part.encode()) if isinstance(part, str) else part for part in path)]
    )
