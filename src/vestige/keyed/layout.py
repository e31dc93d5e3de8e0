"""How streams are numbered into shards, and subjects are stored; plain Python, so that nothing has to be compiled.

Guarantee: held by tests/keyed/test_shard.py.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from vestige.store.keys import PSEUDONYM
from vestige.types import Words

STREAMS = 1 << 14
"""Number of streams in a shard: stream n is in shard n // STREAMS."""


def pack_subjects(subjects: NDArray[np.object_]) -> Words:
    """Pack pseudonyms as integers.

    Args:
        subjects: hexadecimal digits, or None; shape (n,).

    Returns:
        Shape (n, 2); zeros where there is none.

    Example:
        >>> pack_subjects(np.array([None, "0" * 31 + "1"], object))[1, 1] > 0
        np.True_
    """
    nobody = "00" * PSEUDONYM
    digits = "".join(nobody if each is None else each for each in subjects)
    return np.frombuffer(bytearray.fromhex(digits), np.uint64).reshape(-1, 2)


def unpack_subjects(words: Words) -> NDArray[np.object_]:
    """Unpack what `pack_subjects` packs.

    Args:
        words: shape (n, 2).

    Returns:
        Pseudonyms, or None; shape (n,).
    """
    names = np.full(len(words), None)
    for i in np.flatnonzero(words.any(axis=1)):
        names[i] = words[i].tobytes().hex()
    return names
