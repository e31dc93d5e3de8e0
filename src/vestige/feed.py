"""What a run reads, and which stream each row goes to.

Guarantee: different keys and prefixes never make the same name of a stream. A name that is given without a column of
keys is taken as it is; where it is that of a key already, the stream is refused, since its terms say which column made
it. Held by tests/test_ingest.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from vestige.maintenance import EVERY
from vestige.sources import Block, Source
from vestige.timestamps import Unit
from vestige.types import Ints


@dataclass(frozen=True, slots=True)
class Feed:
    """What to read.

    Attributes:
        source: from where.
        columns: the values of a record.
        time: the column that says when, and `subject` that says about whom, and `by` that says to which stream.
        time_unit: of times that are bare numbers; default: each says it by its size.
        growing: whether a file may still be written to, so that a last line without its line break waits.
    """

    source: Source
    columns: tuple[str, ...]
    time: str | None = None
    subject: str | None = None
    by: str | None = None
    time_unit: Unit | None = None
    growing: bool = False

    def blocks(self, after: int) -> Iterator[Block]:
        """What comes after so many rows."""
        return self.source.blocks(
            self.columns,
            time=self.time,
            subject=self.subject,
            by=self.by,
            after=after,
            every=EVERY,
            time_unit=self.time_unit,
            growing=self.growing,
        )


@dataclass(frozen=True, slots=True)
class Naming:
    """Which stream of a store the rows with a key go to.

    Attributes:
        by: the column of the keys; None if all rows go into one stream.
        prefix: what comes before the keys, or the name of the one stream.

    A slash parts them, so one inside of either is written as %2F, and a percent sign as %25: different prefixes and
    keys never make the same name. The name of the one stream is taken as it is.

    >>> Naming("shop", "a").name("b/c"), Naming("shop", "a/b").name("c"), Naming("shop").name("50%")
    ('a/b%2Fc', 'a%2Fb/c', '50%25')
    """

    by: str | None = None
    prefix: str | None = None

    def name(self, key: str) -> str:
        """The name of the stream."""
        if self.by is None:
            return self.prefix or "main"
        return _quote(key) if self.prefix is None else f"{_quote(self.prefix)}/{_quote(key)}"

    def key(self, name: str) -> str:
        """The key of a stream of this run."""
        return "" if self.by is None else name.rsplit("/", maxsplit=1)[-1].replace("%2F", "/").replace("%25", "%")


def _quote(text: str) -> str:
    return text.replace("%", "%25").replace("/", "%2F")


def group_rows(block: Block) -> Iterator[tuple[str, Ints]]:
    """Each key of a block with the indices of its rows, in order; the empty key where there are none."""
    if not len(block.numbers):
        return
    if block.keys is None or block.codes is None:
        yield "", np.arange(len(block.numbers))
        return
    order = np.argsort(block.codes, kind="stable")
    ends = np.cumsum(np.bincount(block.codes, minlength=len(block.keys)))
    for key, start, end in zip(block.keys, np.concatenate(([0], ends[:-1])), ends, strict=True):
        yield str(key), order[start:end]
