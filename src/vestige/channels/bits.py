"""The channel `bits`: presence is a word that holds all numbers of a policy.

See `vestige.channels.word`. Where the numbers are not averages of the values themselves, what the kept records say of
them is computed by the statistic: what they come to, and how far each record moves that.
Guarantee: held by tests/channels/test_word.py; that all processors read the same, by
tests/channels/test_side_information.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from vestige.channels.channel import Reading, Target
from vestige.channels.compiled import Compiled
from vestige.channels.layout import LONG_BITS, LONG_HEADER, find_min_rows
from vestige.statistics import Mean, Statistic
from vestige.types import Bools, Floats, Words

if TYPE_CHECKING:
    from vestige.channels.word import Attempt

Header = tuple[int, int, bool]
Influence = tuple[Floats, Floats]
"""What records come to, and how far each moves it; or the errors of both."""
Side = tuple[Floats, Floats, Floats, bool]
"""Anchors, centres and scales, and whether it is clear which are alike; see `vestige.channels.residues.measure`."""


class Bits(Compiled):
    """Presence is a word that holds all numbers.

    Example:
        >>> Bits().find_min_batch(1), Bits().find_min_batch(4)
        (22, 70)
    """

    name: ClassVar[str] = "bits"
    mode: ClassVar[int] = 1

    def find_min_batch(self, size: int) -> int:
        """Find the smallest batch: that of a word."""
        return find_min_rows(size)

    def read_slots(self, values: Floats, present: Bools, statistic: Statistic, first: int) -> Reading:
        """Read the numbers that presence spells; see `Channel.read_slots`."""
        if isinstance(statistic, Mean):
            return super().read_slots(values, present, statistic, first)
        rows = self.count_rows(len(present), statistic.size)
        return read_word(values, present, statistic, first, rows, _read_header)

    def write(
        self, values: Floats, can: Bools, target: Target, statistic: Statistic, first: int, key: np.uint64
    ) -> Bools:
        """Choose the records that spell the numbers; see `Channel.write`."""
        if isinstance(statistic, Mean):
            return super().write(values, can, target, statistic, first, key)
        from vestige.channels import word  # noqa: PLC0415
        from vestige.channels.syndrome import make_code, prepare, read_words, write_words  # noqa: PLC0415

        size, slots, keep = statistic.size, len(can), np.zeros(len(can), np.bool_)
        rows, dither = self.count_rows(slots, size), np.uint64(word.find_key(first, slots))
        code, attempt = make_code(rows), word.make_attempt(slots, size)._replace(message=word.make_message(rows))
        free = prepare(can, rows, code)
        attempt.anchors[:], attempt.centres[:], attempt.scales[:], clear = find_side_information(statistic, values[can])
        word.start_attempt(attempt, target.numbers, target.low, attempt.scales, bool(target.off.any()), dither)
        while True:
            word.compose(attempt, dither, free, rows)
            write_words(attempt.message, free, code, keep)
            read_words(keep, rows, attempt.message)
            kept = values[keep]
            origin = statistic.find_origin(kept)
            kept -= origin
            said = statistic.influence(kept) if len(kept) else None
            if len(kept):
                side = _measure(said, statistic.find_known_scales(kept), statistic.spread_origin(origin))
                attempt.anchors[:], attempt.centres[:], attempt.scales[:], clear = side
            header, power = word.find_header(word.read_header(attempt.message)[0])
            steady = word.read_numbers(
                attempt.message,
                rows,
                size,
                header,
                power,
                attempt.anchors,
                attempt.centres,
                attempt.scales,
                dither,
                attempt.numbers,
                attempt.rest,
                attempt.exponents,
            )
            if steady and said is not None and power >= 0 and word.is_near(attempt):
                errors = statistic.find_influence_errors(kept, *said)
                steady = _is_known(said, errors, attempt, rows, header, power, dither)
            if word.judge(attempt, clear, steady, target.far, keep, dither):
                return keep


class LongBits(Bits):
    """A longer word, for numbers of which the records of a batch need say nothing: they may lack the values.

    Example:
        >>> Bits().count_rows(1_000, 4), LongBits().count_rows(1_000, 4)
        (202, 262)
    """

    def count_rows(self, slots: int, size: int) -> int:
        """Count the bits, those that floats share among them; see `Channel.count_rows`."""
        return min(slots, LONG_HEADER + LONG_BITS * size)

    def can_encode(self, can: Bools, size: int) -> bool:
        """Tell whether any numbers can be stored in these records; see `Channel.can_encode`."""
        least = find_min_rows(size)
        return len(can) >= least and self.count_bits(len(can), can, size) >= least


LONG = LongBits()


def read_word(
    values: Floats,
    present: Bools,
    statistic: Statistic,
    first: int,
    rows: int,
    read_header: Callable[[Words], Header],
) -> Reading:
    """Read the numbers of a word.

    Args:
        values: by slot; shape (slots, columns).
        present: which slots are kept; shape (slots,).
        statistic: the numbers.
        first: the round of the first slot.
        rows: the number of bits of the word.
        read_header: tells the length of the header, the power of four that it says, and whether numbers are off.

    Returns:
        the numbers, nan if there is no record, and which of them are marked as off.

    Example:
        >>> read_word(np.zeros((22, 1)), np.zeros(22, np.bool_), Mean(1), 1, 22, _read_header).numbers
        array([nan])
    """
    from vestige.channels import word  # noqa: PLC0415
    from vestige.channels.syndrome import read_words  # noqa: PLC0415

    size, slots = statistic.size, len(present)
    numbers, rest = np.full(size, np.nan), np.zeros(size)
    if not present.any():
        return Reading(numbers, np.zeros(size, np.bool_))
    message, key = word.make_message(rows), word.find_key(first, slots)
    read_words(present, rows, message)
    length, power, off = read_header(message)
    anchors, centres, scales, _ = find_side_information(statistic, values[present])
    word.read_numbers(
        message,
        rows,
        size,
        length,
        power,
        anchors,
        centres,
        scales,
        np.uint64(key),
        numbers,
        rest,
        np.empty(size),
    )
    return Reading(numbers, np.full(size, off), rest)


def _read_header(message: Words) -> Header:
    from vestige.channels.word import find_header, read_header  # noqa: PLC0415

    level, off = read_header(message)
    length, power = find_header(level)
    return length, power, off


def _is_known(
    said: Influence, errors: Influence, attempt: Attempt, rows: int, header: int, power: int, key: np.uint64
) -> bool:
    """Whether a word is read alike if what its records say is off by its errors; see `find_influence_errors`.

    A number depends on its centre and on its scale, both ways monotonically, so that the extremes of both suffice.
    """
    from vestige.channels.residues import ALIKE_SHARE, NORMAL  # noqa: PLC0415
    from vestige.channels.word import read_numbers  # noqa: PLC0415

    of_centres, of_scales = errors[0], 2.0 * NORMAL * errors[1].mean(axis=0)
    spread = NORMAL * np.abs(said[1] - said[1].mean(axis=0)).mean(axis=0)
    border = ALIKE_SHARE * np.abs(said[0] + said[1]).max(axis=0)
    if (np.abs(spread - border) < of_scales).any() or not np.isfinite(of_centres).all():
        return False
    size = len(of_centres)
    alike, numbers, rest, exponents = attempt.scales == 0.0, np.empty(size), np.empty(size), np.empty(size)
    for sign in (-1.0, 1.0):
        scales = np.where(alike, 0.0, attempt.scales + sign * of_scales)
        for other in (-1.0, 1.0):
            centres = np.where(alike, attempt.centres, attempt.centres + other * of_centres)
            read_numbers(
                attempt.message,
                rows,
                size,
                header,
                power,
                attempt.anchors,
                centres,
                scales,
                key,
                numbers,
                rest,
                exponents,
            )
            same = np.array_equal(numbers, attempt.numbers) and np.array_equal(rest, attempt.rest)
            if (scales < 0.0).any() or not same:
                return False
    return True


def find_side_information(statistic: Statistic, values: Floats) -> Side:
    """Find what records say of each number, and how sure that is.

    Args:
        statistic: the numbers.
        values: the records; shape (n, columns).

    Returns:
        the anchors, which are the first record where numbers move with the values; what the records come to about
        them, and the standard deviation of what one of them says, zeros if they say nothing, all of shape (size,); and
        whether it is clear which numbers have no deviation, see `measure`.

    Example:
        >>> find_side_information(Mean(1), np.array([[1.0], [3.0]]))[:2]
        (array([1.]), array([1.]))
    """
    origin = statistic.find_origin(values)
    about = values - origin
    return _measure(statistic.influence(about), statistic.find_known_scales(about), statistic.spread_origin(origin))


def _measure(said: Influence | None, known: Floats, anchors: Floats) -> Side:
    """The same from the influence of the records, and the deviations that are known beforehand."""
    from vestige.channels.residues import measure  # noqa: PLC0415

    size = len(known)
    centres, scales, clear = np.zeros(size), np.zeros(size), True
    if said is not None and np.isfinite(said[0]).all() and np.isfinite(said[1]).all():
        numbers, moves = said
        n = len(moves)
        places, unused = np.empty(n, np.int64), np.empty(size)
        clear = measure(numbers + moves, np.ones(n, np.bool_), size, False, places, unused, centres, scales)
        centres[:], scales[:] = numbers, np.where(np.isnan(known), scales, known)
    return anchors, centres, scales, clear
