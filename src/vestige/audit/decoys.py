"""Whether presence spells words in the published code, more than in codes that were drawn at random.

The matrix H of `vestige.channels.syndrome` was drawn once, by a public key. Whoever keeps records without using it
keeps them independently of it, whatever their rule is, whether ids have gaps, values are sorted or old records leave
first. Then H is exchangeable with decoys that other keys draw, and so is whatever is computed with it: the search over
borders and formats, too, which every decoy repeats. The rank of H among the decoys is a p-value (Dwass 1957).
Guarantee: exact for every table that was kept without H; held by tests/audit/test_decoys.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from vestige.audit.permutation import Batch, p_value
from vestige.audit.words import Words
from vestige.channels.layout import MAX_ROWS
from vestige.types import Bools, Floats

_LEADING = 48
"""Number of leading bits that are compared from word to word where the clock is unknown."""
_SHORTEST = 16
"""The fewest slots of a batch for a word."""


@dataclass(frozen=True, slots=True, eq=False)
class Spelling:
    """The result of the test.

    Attributes:
        p_value: rank of the published code among the decoys; None if no word fits into any batch.
        schedule: index of the list of batches in which it stands out most.
        form: name of the format of its words; None if only the headers are alike.
        numbers: what the words say, one row for each batch; shape (batches, size).
    """

    p_value: float | None
    schedule: int = 0
    form: str | None = None
    numbers: Floats | None = None


class Decoys:
    """The published code and decoys, and what batches say in them.

    Args:
        count: number of decoys.
        rng: generator to draw them with.
    """

    def __init__(self, count: int, rng: np.random.Generator) -> None:
        from vestige.channels.syndrome import PUBLIC_KEY  # noqa: PLC0415

        self._keys = np.concatenate(([PUBLIC_KEY], rng.integers(0, 2**64, count, np.uint64)))
        self._known: dict[tuple[bytes, int], Bools] = {}

    @property
    def count(self) -> int:
        """Number of codes, with the published one."""
        return len(self._keys)

    def read(self, present: Bools, rows: int) -> Bools:
        """Read what presence says in each code.

        Args:
            present: which slots are kept; shape (slots,).
            rows: number of bits to read, at most 1,024.

        Returns:
            The bits in the published code, then in each decoy; shape (1 + decoys, rows).
        """
        from vestige.audit.kernels import read_keyed_messages  # noqa: PLC0415

        slots = np.flatnonzero(present[::-1])
        key = (slots.tobytes(), rows)
        if key not in self._known:
            self._known[key] = np.empty((len(self._keys), rows), np.bool_)
            read_keyed_messages(slots, self._keys, self._known[key])
        return self._known[key]


def find_words(schedules: Sequence[tuple[Sequence[Batch], bool]], decoys: Decoys) -> Spelling:
    """Test whether batches spell words in the published code.

    Args:
        schedules: for each supposed schedule its batches in order, and whether their rounds are known.
        decoys: codes to compare with.

    Returns:
        The p-value, and what is spelled where the published code stands out most.
    """
    columns: list[Floats] = []
    origins: list[tuple[int, str | None, Floats | None]] = []
    for i, (batches, is_known) in enumerate(schedules):
        usable = [batch for batch in batches if batch.has_choice and len(batch.present) >= _SHORTEST]
        if not usable:
            continue
        for score in _score_headers(usable, decoys):
            columns.append(score)
            origins.append((i, None, None))
        for name, score, numbers in _score_formats(usable, decoys) if is_known else ():
            columns.append(score)
            origins.append((i, name, numbers))
    if not columns:
        return Spelling(None)
    table = np.column_stack(columns)
    spread = table.std(axis=0)
    standing = (table[0] - table.mean(axis=0)) / np.where(spread > 0.0, spread, np.inf)
    return Spelling(p_value(table), *origins[int(np.argmax(standing))])


def _score_headers(batches: Sequence[Batch], decoys: Decoys) -> list[Floats]:
    """Score how alike the words are, bit by bit, without their clock: the first bit, and all leading bits."""
    length = max(len(batch.present) for batch in batches)
    rows = min(_LEADING, length)
    signs = np.zeros((decoys.count, rows))
    for batch in batches:
        usable = min(rows, len(batch.present))
        signs[:, :usable] += 2.0 * decoys.read(batch.present, min(rows, usable)) - 1.0
    return [np.abs(signs[:, 0]), (signs**2).sum(axis=1)]


def _score_formats(batches: Sequence[Batch], decoys: Decoys) -> list[tuple[str, Floats, Floats]]:
    """Score words in all formats; the name of each, its scores, and what the published code says."""
    kept = np.concatenate([batch.values for batch in batches])
    words = Words(kept, max(len(batch.present) for batch in batches), decoys.count - 1, max_rows=MAX_ROWS)
    said: dict[str, list[Floats]] = {}
    for batch in batches:
        rows = words.count_rows(len(batch.present))
        if rows:
            messages = decoys.read(batch.present, rows)
            for name, numbers in words.add_messages(batch, messages):
                said.setdefault(name, []).append(numbers)
    return [(name, total, np.array(said[name])) for name, total in words.list_totals()]
