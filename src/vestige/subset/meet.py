"""The subset of a few numbers whose average is nearest zero, exactly, in the square root of the obvious time.

Horowitz and Sahni, "Computing partitions with applications to the knapsack problem" (1974): the sums of each half
are built in order by merging, and two pointers pair them. For the *average* the pair is weighed by its count: a pair
can only beat the best average so far if its sum is below `best * n`, so the pointers look around each crossing no
further than that.
Guarantee: the nearest average of all nonempty subsets, or the first that is within the tolerance; held by
tests/subset/test_subset.py against brute force.
"""

from __future__ import annotations

import numpy as np

from vestige.compiling import kernel
from vestige.records import Floats
from vestige.subset.words import ones


@kernel
def sorted_sums(items: Floats) -> tuple[Floats, np.ndarray]:
    """All 2^n subset sums of `items` in increasing order, each with its subset as a bit mask."""
    n = len(items)
    size = 1
    sums, masks = np.empty(1 << n), np.empty(1 << n, np.uint64)
    next_sums, next_masks = np.empty(1 << n), np.empty(1 << n, np.uint64)
    sums[0], masks[0] = 0.0, 0
    for j in range(n):
        item, bit = items[j], np.uint64(1) << np.uint64(j)
        without, with_it = 0, 0
        for out in range(2 * size):
            if with_it == size or (without < size and sums[without] <= sums[with_it] + item):
                next_sums[out], next_masks[out] = sums[without], masks[without]
                without += 1
            else:
                next_sums[out], next_masks[out] = sums[with_it] + item, masks[with_it] | bit
                with_it += 1
        sums, next_sums = next_sums, sums
        masks, next_masks = next_masks, masks
        size *= 2
    return sums, masks


@kernel
def meet(offsets: Floats, tolerance: float) -> np.uint64:
    """The nonempty subset of `offsets`, as a bit mask, whose average is nearest zero.

    Stops at the first average within `tolerance`. Both sides of a crossing are weighed before it stops, so that
    neither sign is preferred.
    """
    n = len(offsets)
    half = n // 2
    left, left_masks = sorted_sums(offsets[:half])
    right, right_masks = sorted_sums(offsets[half:])
    nearest = np.argmin(np.abs(offsets))
    best, best_mask = abs(offsets[nearest]), np.uint64(1) << np.uint64(nearest)
    crossing = len(right)
    for i in range(len(left)):
        if best <= tolerance:
            break
        while crossing > 0 and left[i] + right[crossing - 1] >= 0.0:
            crossing -= 1
        for direction in (1, -1):
            j = crossing if direction == 1 else crossing - 1
            while 0 <= j < len(right):
                distance = abs(left[i] + right[j])
                if distance >= best * n:
                    break
                mask = left_masks[i] | (right_masks[j] << np.uint64(half))
                count = ones(mask)
                if count > 0 and distance < best * count:
                    best, best_mask = distance / count, mask
                j += direction
    return best_mask
