"""The names of keyed streams in order, so that a page of a million costs no more than a page.

The order is made of a copy, by whoever asks, while the writer goes on; names that came since are few, and sorted apart.
Guarantee: pages are those of the sorted names, whatever was added or removed meanwhile; held by
tests/service/test_name_index.py.
"""

from __future__ import annotations

from bisect import bisect_right
from heapq import merge
from itertools import islice
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from vestige.keyed.names import KeyNames, Texts
from vestige.types import Ints

_FEW = 1_000
"""Number of names that are sorted apart, however few others there are."""


class Unsorted(NamedTuple):
    """A copy of names that have no order yet.

    Attributes:
        names: the names that were copied.
        texts: the copy, in the order of their numbers; that of a name that was removed means nothing.
    """

    names: KeyNames
    texts: Texts


def sort_names(texts: Texts) -> Ints:
    """Sort names; other threads go on meanwhile.

    Args:
        texts: the names.

    Returns:
        Their numbers, in the order of their bytes, which is that of their characters.
    """
    buffers = [None, pa.py_buffer(texts.offsets), pa.py_buffer(texts.content)]
    made = pc.sort_indices(pa.Array.from_buffers(pa.large_binary(), len(texts), buffers))
    order: Ints = made.to_numpy().astype(np.int64)
    return order


class NameIndex:
    """Names in order; whoever calls this holds the lock of the streams.

    Numbers that were given once are never given to other names of the same `KeyNames`, but within one call that takes
    rows, so that an order of them stays right.
    """

    def __init__(self) -> None:
        self._names = KeyNames()
        self._order = np.empty(0, np.int64)
        self._known = self._added = self._removed = 0
        self._newest: list[str] = []

    def copy_unsorted(self, names: KeyNames) -> Unsorted | None:
        """Copy names if many of them have no order yet.

        Args:
            names: the names.

        Returns:
            The copy; None if there are few.
        """
        known = self._known if names is self._names else 0
        if names.count - known <= max(_FEW, known // 4):
            return None
        return Unsorted(names, Texts(names.texts.offsets.copy(), names.texts.content.copy()))

    def install(self, copied: Unsorted, order: Ints) -> None:
        """Use an order that was made.

        Args:
            copied: the names that were sorted.
            order: what `sort_names` returned for them.
        """
        self._names, self._order, self._known = copied.names, order, len(copied.texts)
        self._removed, self._added, self._newest = -1, 0, []

    def page(self, names: KeyNames, after: str | None, limit: int) -> list[str]:
        """List the next names.

        Args:
            names: the names.
            after: the name before them; None for the first.
            limit: how many.

        Returns:
            The names, sorted.
        """
        if names is not self._names:
            self.install(Unsorted(names, KeyNames().texts), np.empty(0, np.int64))
        copied = self.copy_unsorted(names)
        if copied is not None:  # nobody has sorted them before
            self.install(copied, sort_names(copied.texts))
        self._refresh(names)
        start = 0 if after is None else bisect_right(self._order, after, key=lambda number: names[number])
        first = 0 if after is None else bisect_right(self._newest, after)
        ordered = (names[number] for number in self._order[start : start + limit].tolist())
        return list(islice(merge(ordered, self._newest[first : first + limit]), limit))

    def _refresh(self, names: KeyNames) -> None:
        """Drop what was removed, and add what is new."""
        removed = names.count - len(names)
        if removed != self._removed:
            self._order, self._removed = self._order[names.is_there[self._order]], removed
            self._newest = [name for name in self._newest if names.find(name) is not None]
        if names.count > self._known + self._added:
            new = (names[number] for number in range(self._known + self._added, names.count))
            self._newest = sorted([*self._newest, *filter(None, new)])
            self._added = names.count - self._known
