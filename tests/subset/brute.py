"""The nearest average by looking at every subset, in exact arithmetic."""

from __future__ import annotations

from fractions import Fraction


def nearest(values: list[float], target: float, keep: list[bool] | None = None) -> float:
    """The least distance from `target` of the average of a nonempty subset that holds all of `keep`."""
    offsets = [Fraction(value) - Fraction(target) for value in values]
    scale = max(offset.denominator for offset in offsets)  # all denominators are powers of two
    sums: list[list[int]] = [[0]]  # by count
    for i, offset in enumerate(offsets):
        item = int(offset * scale)
        grown = [[], *([total + item for total in group] for group in sums)]
        if keep is None or not keep[i]:
            for group, before in zip(grown, sums, strict=False):
                group.extend(before)
        sums = grown
    least = [Fraction(min(map(abs, group)), count) for count, group in enumerate(sums) if count and group]
    return float(min(least) / scale)
