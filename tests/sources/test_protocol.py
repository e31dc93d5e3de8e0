"""A source from outside the package: one class, with positions of its own, run, stopped and resumed."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from vestige.sources import Block


@given(st.lists(st.integers(0, 4), max_size=30))
def test_each_row_of_a_block_goes_to_its_key_in_order(codes: list[int]) -> None:
    n = len(codes)
    keys = np.array(list("abcde"), np.object_)
    block = Block(
        np.arange(float(n))[:, None], np.arange(1, n + 1), [b""] * n, n, keys=keys, codes=np.array(codes, np.int64)
    )
    rows = {key: indices.tolist() for key, indices in block.by_key()}
    assert rows == ({key: [i for i in range(n) if keys[codes[i]] == key] for key in keys} if n else {})
