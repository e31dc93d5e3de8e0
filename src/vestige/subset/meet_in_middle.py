"""The subset of up to 48 numbers whose average is nearest zero, exactly, in about 2^(n/2) steps.

Horowitz and Sahni (1974, https://doi.org/10.1145/321812.321823): the sums of each half are built in order by merging,
and two pointers pair them. For the *average*, a pair is weighted by its count: it can beat the best average so far only
if its sum is below `best * n`, so the pointers look no further than that around each crossing. Of equal sums, one with
the most numbers is kept. Where the lists would be too large, a few numbers are left out and each of their subsets is
tried as an offset, which trades time for memory.
Guarantee: the nearest average of all nonempty subsets, or the first within the tolerance; held by
tests/subset/test_subset.py against brute force.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from vestige._numba import kernel
from vestige.subset.bits import count_ones
from vestige.types import Ints

_LARGEST_LIST = 20
_ONE = np.uint64(1)

Masks = NDArray[np.uint32]


@kernel
def _merge(sums: Ints, masks: Masks, size: int, item: int, bit: np.uint32, merged: Ints, merged_masks: Masks) -> None:
    """Merge the sorted `sums` with the same sums plus `item`, from both ends at once.

    Neither end waits for the other. Both candidates are loaded first, so that there is no branch; none could be
    predicted.
    """
    top = np.uint64(2 * size - 1)
    low, low_with_it = np.uint64(0), np.uint64(0)
    high, high_with_it = np.uint64(size - 1), np.uint64(size - 1)
    for step in range(np.uint64(size)):
        without, with_it = sums[low], sums[low_with_it] + item
        mask, mask_with_it = masks[low], masks[low_with_it] | bit
        keep = without <= with_it
        merged[step] = without if keep else with_it
        merged_masks[step] = mask if keep else mask_with_it
        low = low + _ONE if keep else low
        low_with_it = low_with_it if keep else low_with_it + _ONE
        without, with_it = sums[high], sums[high_with_it] + item
        mask, mask_with_it = masks[high], masks[high_with_it] | bit
        keep = without > with_it
        merged[top - step] = without if keep else with_it
        merged_masks[top - step] = mask if keep else mask_with_it
        high = high - _ONE if keep else high
        high_with_it = high_with_it if keep else high_with_it - _ONE


@kernel
def list_sorted_sums(items: Ints) -> tuple[Ints, Masks]:
    """Return all distinct subset sums in increasing order, and for each a largest subset as a bit mask."""
    n = len(items)
    sums, masks = np.empty(1 << n, np.int64), np.empty(1 << n, np.uint32)
    half = max(1, 1 << (n - 1)) if n else 1
    spare_sums, spare_masks = np.empty(half, np.int64), np.empty(half, np.uint32)
    if n % 2:
        spare_sums[0], spare_masks[0] = 0, 0
    else:
        sums[0], masks[0] = 0, 0
    for j in range(n):
        bit = np.uint32(1) << np.uint32(j)
        if (n - j) % 2:
            _merge(spare_sums, spare_masks, 1 << j, items[j], bit, sums, masks)
        else:
            _merge(sums, masks, 1 << j, items[j], bit, spare_sums, spare_masks)
    ties = 0
    for i in range(np.uint64(1), np.uint64(1 << n)):
        ties += sums[i] == sums[i - _ONE]
    if ties == 0:
        return sums, masks
    size = 0
    for i in range(1, 1 << n):
        if sums[i] != sums[size]:
            size += 1
            sums[size], masks[size] = sums[i], masks[i]
        elif count_ones(np.uint64(masks[i])) > count_ones(np.uint64(masks[size])):
            masks[size] = masks[i]
    return sums[: size + 1], masks[: size + 1]


@kernel
def _pair_sums(
    left: Ints,
    left_masks: Masks,
    right: Ints,
    right_masks: Masks,
    offset: int,
    forced_count: int,
    best: float,
    reach: int,
    tolerance: float,
) -> tuple[float, int, int]:
    """Return the nearest average of a pair of sums and its indices; -1 if none is nearer than `best`.

    `reach` is the largest possible count. Both sides of a crossing are scored before it stops within `tolerance`, so
    that neither sign is preferred.
    """
    best_left, best_right = -1, -1
    limit = np.int64(best * reach) + 1
    crossing = len(right)
    for i in range(len(left)):
        if best <= tolerance:
            break
        base = left[i] + offset
        while crossing > 0 and base + right[crossing - 1] >= 0:
            crossing -= 1
        j = crossing
        while j < len(right) and base + right[j] < limit:
            count = forced_count + count_ones(np.uint64(left_masks[i])) + count_ones(np.uint64(right_masks[j]))
            distance = base + right[j]
            if count > 0 and distance < best * count:
                best, best_left, best_right = distance / count, i, j
                limit = np.int64(best * reach) + 1
            j += 1
        j = crossing - 1
        while j >= 0 and -(base + right[j]) < limit:
            count = forced_count + count_ones(np.uint64(left_masks[i])) + count_ones(np.uint64(right_masks[j]))
            distance = -(base + right[j])
            if count > 0 and distance < best * count:
                best, best_left, best_right = distance / count, i, j
                limit = np.int64(best * reach) + 1
            j -= 1
    return best, best_left, best_right


@kernel
def meet_in_middle(offsets: Ints, base: int, forced_count: int, tolerance: float) -> np.uint64:
    """Return the subset of numbers, as a bit mask, whose average is nearest zero.

    Args:
        offsets: the numbers to choose from, in fixed point; shape (n,).
        base: sum of the numbers that must be in the subset.
        forced_count: number of numbers that must be in the subset; if it is 0, the result is nonempty.
        tolerance: residual at which the search stops.

    Returns:
        The bit mask over `offsets`.
    """
    n = len(offsets)
    outside = max(0, n - 2 * _LARGEST_LIST)
    half = (n - outside) // 2
    left, left_masks = list_sorted_sums(offsets[outside : outside + half])
    right, right_masks = list_sorted_sums(offsets[outside + half :])
    best, best_mask = np.inf, np.uint64(0)
    if forced_count > 0:
        best = abs(base) / forced_count
    for i in range(n):
        if abs(base + offsets[i]) < best * (forced_count + 1):
            best, best_mask = abs(base + offsets[i]) / (forced_count + 1), _ONE << np.uint64(i)
    for subset in range(1 << outside):
        if best <= tolerance:
            break
        shift, taken = base, forced_count
        for i in range(outside):
            if (subset >> i) & 1:
                shift += offsets[i]
                taken += 1
        nearer, i, j = _pair_sums(left, left_masks, right, right_masks, shift, taken, best, forced_count + n, tolerance)
        if i >= 0:
            best = nearer
            best_mask = (
                np.uint64(subset)
                | (np.uint64(left_masks[i]) << np.uint64(outside))
                | (np.uint64(right_masks[j]) << np.uint64(outside + half))
            )
    return best_mask
