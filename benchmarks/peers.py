"""The peers, each with the formulation that suits it best.

The problem: among `values`, find the nonempty subset whose average is nearest `target`. All peers work on the offsets
`o_i = value_i - target`, for which the residual is `|sum(o_i)| / count`, and return their subset as a mask. Each
docstring states the formulation and the scaling that the peer was given. A peer that is not installed returns None.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vestige.types import Bools, Floats, Ints

EPSILON = float(np.finfo(np.float64).eps)
SCALES = tuple(range(8, 61, 4))


def residual(values: Floats, target: float | Floats, mask: Bools) -> float:
    """The l2 distance of the subset's average from the target, the same for all solvers.

    Averages are taken in exact rational arithmetic: in floats, a residual of 1e-16 would be rounding noise.
    """
    table, goal = _to_table(values, target)
    chosen, count = table[mask], int(mask.sum())
    gaps = [
        sum(map(Fraction, column), Fraction(0)) / count - Fraction(aim)
        for column, aim in zip(chosen.T.tolist(), goal, strict=True)
    ]
    return math.hypot(*map(float, gaps))


def _to_table(values: Floats, target: float | Floats) -> tuple[Floats, list[float]]:
    """`values` as (n, dim), and one target for each coordinate."""
    table = np.asarray(values, np.float64).reshape(len(values), -1)
    goal = np.broadcast_to(np.asarray(target, np.float64), table.shape[1:])
    return table, goal.tolist()


def _find_best_single(table: Floats, target: float | Floats) -> Bools:
    """The best single record, the answer of last resort."""
    mask = np.zeros(len(table), np.bool_)
    mask[int(np.linalg.norm(table - target, axis=1).argmin())] = True
    return mask


# numpy ----------------------------------------------------------------------------------------------------------------


def numpy_meet(values: Floats, target: float) -> Bools:
    """Exact, by a vectorised meet in the middle over averages: the strong baseline.

    The 2^(n/2) offset sums of each half are made by doubling and sorted by value alone (numpy's SIMD sort; argsort is
    several times slower). One `searchsorted` finds, for every nonempty left sum, the right sums on both sides of its
    negative. The pair with the least |sum| has an average `r = |sum| / count`, and any subset with a better average
    has |sum| < r * n: the few pairs in that window, widened by the rounding error of the sums, are mapped back to
    subsets by their values and scored in exact arithmetic. Subsets of the right half alone are scored directly. The
    window replaces a search for each pair of counts (`numpy_meet_by_count`): one search instead of about n^2 / 4.
    """
    offsets = np.asarray(values, np.float64) - target
    half = max(1, offsets.size // 2)
    left, right = _list_subset_sums(offsets[:half]), _list_subset_sums(offsets[half:])
    alone, bound = _find_best_alone(left, right, half)
    queries, ordered = np.sort(-left[1:]), np.sort(right)
    place = np.searchsorted(ordered, queries)
    above = ordered[np.minimum(place, ordered.size - 1)] - queries
    below = queries - ordered[np.maximum(place - 1, 0)]
    np.abs(above, out=above)  # negative only where clipped, and then farther than the other side
    np.abs(below, out=below)
    near = np.minimum(above, below)
    first = int(near.argmin())
    pair = _find_codes(
        left, right, -queries[first], _find_nearest(ordered, int(place[first]), float(queries[first])), half
    )
    bound = min(bound, float(near[first]) / min(code.bit_count() for code in pair))
    window = bound * offsets.size + EPSILON * offsets.size * float(np.abs(offsets).sum())
    codes = {alone, *pair}
    for row in np.flatnonzero(near <= window).tolist():
        codes |= _search_window(left, right, ordered, float(queries[row]), window, half)
    masks = [_to_mask(code, offsets.size) for code in sorted(codes)]
    return min(masks, key=lambda mask: residual(values, target, mask))


def _list_subset_sums(offsets: Floats) -> Floats:
    """The sums of all subsets; bit i of the index says whether record i is in."""
    sums = np.zeros(1 << offsets.size)
    for bit, offset in enumerate(offsets):
        size = 1 << bit
        np.add(sums[:size], offset, out=sums[size : 2 * size])
    return sums


def _count_records(bits: int) -> NDArray[np.int8]:
    """The number of records in each subset of `bits` records."""
    counts = np.zeros(1 << bits, np.int8)
    for bit in range(bits):
        np.add(counts[: 1 << bit], 1, out=counts[1 << bit : 2 << bit])
    return counts


def _find_best_alone(left: Floats, right: Floats, half: int) -> tuple[int, float]:
    """The code and the average of the best subset within the right half; of one record, that record."""
    if right.size == 1:
        return 1, abs(float(left[1]))
    averages = np.abs(right[1:]) / _count_records(right.size.bit_length() - 1)[1:]
    best = int(averages.argmin())
    return (best + 1) << half, float(averages[best])


def _find_nearest(ordered: Floats, place: int, query: float) -> float:
    """The element of `ordered` nearest the query."""
    nearby = ordered[max(place - 1, 0) : place + 1]
    return float(nearby[np.abs(nearby - query).argmin()])


def _find_codes(left: Floats, right: Floats, one: float, other: float, half: int) -> set[int]:
    """The nonempty subsets whose halves have exactly these sums."""
    lefts, rights = np.flatnonzero(left == one).tolist(), np.flatnonzero(right == other).tolist()
    return {a | b << half for a in lefts for b in rights} - {0}


def _search_window(left: Floats, right: Floats, ordered: Floats, query: float, width: float, half: int) -> set[int]:
    """The subsets of one left sum and all right sums in its window."""
    low = np.searchsorted(ordered, query - width)
    high = np.searchsorted(ordered, query + width, side="right")
    codes: set[int] = set()
    for other in np.unique(ordered[low:high]).tolist():
        codes |= _find_codes(left, right, -query, other, half)
    return codes


def _to_mask(code: int, size: int) -> Bools:
    """The mask whose element i is bit i of the code."""
    return np.array([code >> i & 1 for i in range(size)], np.bool_)


def numpy_meet_by_count(values: Floats, target: float) -> Bools:
    """Exact, by a search for each pair of counts: the plainer baseline.

    Each half's sums are grouped by count and sorted with their codes; for each pair of counts (a, b) the sum nearest
    zero minimises `|sum| / (a + b)`.
    """
    offsets = np.asarray(values, np.float64) - target
    half = offsets.size // 2
    lefts, rights = _group_by_count(offsets[:half]), _group_by_count(offsets[half:])
    best, answer = math.inf, 1
    for a, (left, left_codes) in enumerate(lefts):
        for b, (right, right_codes) in enumerate(rights):
            if a + b == 0:
                continue
            place = np.searchsorted(right, -left)
            for side in (np.maximum(place - 1, 0), np.minimum(place, right.size - 1)):
                gaps = np.abs(left + right[side])
                row = int(gaps.argmin())
                if gaps[row] < best * (a + b):
                    best = float(gaps[row]) / (a + b)
                    answer = int(left_codes[row]) | int(right_codes[side[row]]) << half
    return _to_mask(answer, offsets.size)


def _group_by_count(offsets: Floats) -> list[tuple[Floats, NDArray[np.intp]]]:
    """For each count, the sorted subset sums and their codes."""
    sums, counts = _list_subset_sums(offsets), _count_records(offsets.size)
    order = np.argsort(sums)
    ranked = counts[order]
    chosen = [order[ranked == count] for count in range(offsets.size + 1)]
    return [(sums[codes], codes) for codes in chosen]


# OR-tools -------------------------------------------------------------------------------------------------------------


def cp_sat(values: Floats, target: float | Floats, seconds: float) -> list[tuple[float, Bools]] | None:
    """OR-tools CP-SAT for `seconds`, one thread: every subset that it saw, and when.

    CP-SAT is linear over 64-bit integers. The offsets, as exact rationals, are multiplied by 2^bits and rounded; `bits`
    is the greatest for which `n * sum|o_i| * 2^bits <= 2^61` (about 50 for n = 40 normal values: the rounding is below
    1e-15, far below what it reaches), as CP-SAT refuses models that might overflow. With booleans x_i and
    `count = sum(x_i) >= 1`:

        minimise average, subject to
        total >= sum(o_ik x_i) and total >= -sum(o_ik x_i) for each coordinate k,
        average * count >= total (one integer product),

    so that `average` is the l-infinity residual, rounded up; in one dimension that is the residual itself. In several,
    l2 would need squares of sums, which leaves 31 bits and a weak relaxation; l-infinity did better than l1, and the
    residual is measured in l2 afterwards for every solution seen, not only the last. Of the variants tried (5 s,
    n = 40: the sum alone, one case for each count, this product; each with and without the linear relaxation, which is
    worthless here) this one with `linearization_level = 0` was the best or equal to it. The best single record stands
    in from the start.
    """
    try:
        from ortools.sat.python import cp_model  # noqa: PLC0415
    except ModuleNotFoundError:
        return None
    started = time.perf_counter()
    table, goal = _to_table(values, target)
    model, chosen = _make_cp_model(cp_model, _scale(table, goal, _choose_bits(table - target)))
    found = [(0.0, _find_best_single(table, target))]

    def keep(callback: Any) -> None:
        mask = np.array([callback.boolean_value(x) for x in chosen], np.bool_)
        found.append((time.perf_counter() - started, mask))

    solver = cp_model.CpSolver()
    solver.parameters.max_time_in_seconds = seconds
    solver.parameters.num_workers = 1
    solver.parameters.random_seed = 0
    solver.parameters.linearization_level = 0
    recorder = type("Recorder", (cp_model.CpSolverSolutionCallback,), {"on_solution_callback": keep})
    if solver.solve(model, recorder()) == cp_model.MODEL_INVALID:
        raise ValueError(model.validate())
    return found


def _choose_bits(offsets: Floats) -> int:
    """The greatest scaling, in bits, that cannot overflow CP-SAT."""
    reach = float(np.abs(offsets).sum(axis=0).max()) * len(offsets)
    return math.floor(61 - math.log2(reach)) if reach > 0.0 else 0


def _scale(table: Floats, goal: list[float], bits: int) -> list[list[int]]:
    """For each coordinate the offsets times 2^bits, as integers rounded once from exact rationals."""
    return [
        [round((Fraction(value) - Fraction(aim)) * 2**bits) for value in column]
        for column, aim in zip(table.T.tolist(), goal, strict=True)
    ]


def _make_cp_model(cp_model: Any, scaled: list[list[int]]) -> tuple[Any, list[Any]]:
    """The model of `cp_sat` and its booleans."""
    size, reach = len(scaled[0]), max(sum(map(abs, row)) for row in scaled)
    model = cp_model.CpModel()
    chosen = [model.new_bool_var(f"x{i}") for i in range(size)]
    count = model.new_int_var(1, size, "count")
    total = model.new_int_var(0, reach, "total")
    average = model.new_int_var(0, reach, "average")
    product = model.new_int_var(0, reach * size, "product")
    model.add(count == sum(chosen))
    for row in scaled:
        summed = cp_model.LinearExpr.weighted_sum(chosen, row)
        model.add(total >= summed)
        model.add(total >= -summed)
    model.add_multiplication_equality(product, [average, count])
    model.add(product >= total)
    model.minimize(average)
    return model, chosen


# fpylll ---------------------------------------------------------------------------------------------------------------


def lattice_reduction(values: Floats, target: float, block: int) -> Bools | None:
    """Lattice reduction with fpylll: LLL, then BKZ of this block size; block 0 stops after LLL.

    The lattice of Coster et al. (1992, https://doi.org/10.1007/BF01201999): for a scaling N = 2^bits the rows are `(2
    e_i, 0, round(N o_i))` and the embedding row `(1, ..., 1, 1, 0)`. The wanted sum of offsets is 0, so a subset x is
    the vector `(2x - 1, -1, N sum)`, short when its sum is. A large N asks for a small sum, but makes vectors with all
    entries +-1 rarer among the short ones, so that no one N is best: 14 of them are tried, from 2^8 to 2^60 (beyond,
    the doubles have no more digits), and its time is that of all. The offsets are scaled from exact rationals. The
    lattice knows sums only, but averages are what counts in the end: of all valid subsets seen the one with the nearest
    average is returned.

    Valid are vectors +-(2x - 1, -1) and +-(2x, 0) with x in {0, 1}; vectors without the embedding row and with both
    signs are differences of subsets, and name no subset. Looked at are all rows after LLL and after BKZ, and all sums
    and differences of two rows. The best single record stands in when no vector is valid. Block 20 needs no pruning
    strategies (the fpylll wheel carries none); BKZ runs with auto-abort, to its own end.
    """
    try:
        import fpylll  # noqa: PLC0415
    except ModuleNotFoundError:
        return None
    points = np.asarray(values, np.float64)
    masks = [_find_best_single(points[:, None], target)]
    for bits in SCALES:
        masks.extend(_reduce(fpylll, _scale(points[:, None], [target], bits)[0], block))
    stack = np.array(masks)
    rough = np.abs(stack @ (points - target)) / stack.sum(axis=1)
    likely = stack[np.argsort(rough)[:32]]  # rough is good to 1e-15 or so
    best: Bools = min(likely, key=lambda mask: residual(points, target, mask))
    return best


def _reduce(fpylll: Any, offsets: list[int], block: int) -> list[Bools]:
    """The valid subsets seen in one reduction."""
    size = len(offsets)
    basis = fpylll.IntegerMatrix.from_matrix(
        [[2 * (i == j) for j in range(size + 1)] + [offsets[i]] for i in range(size)] + [[1] * (size + 1) + [0]]
    )
    fpylll.LLL.reduction(basis)
    masks = _find_valid_masks(_read_rows(basis))
    if block:
        fpylll.BKZ.reduction(basis, fpylll.BKZ.Param(block, flags=fpylll.BKZ.AUTO_ABORT))
        masks += _find_valid_masks(_read_rows(basis))
    return masks


def _read_rows(basis: Any) -> Ints:
    """The basis without its last column, the scaled sums (which may exceed 64 bits)."""
    return np.array([[int(entry) for entry in row][:-1] for row in basis], np.int64)


def _find_valid_masks(rows: Ints) -> list[Bools]:
    """The subsets named by the rows and by their sums and differences."""
    one, other = np.triu_indices(len(rows), 1)
    vectors = np.concatenate((rows, rows[one] + rows[other], rows[one] - rows[other]))
    vectors = vectors[np.abs(vectors).max(axis=1) <= 2]
    entries, sign = vectors[:, :-1], vectors[:, -1:]
    embedded = (np.abs(entries) == 1).all(axis=1) & (np.abs(sign[:, 0]) == 1)
    plain = (sign[:, 0] == 0) & ((entries >= 0).all(axis=1) | (entries <= 0).all(axis=1))
    plain &= (np.abs(entries) != 1).all(axis=1)
    masks = np.concatenate((entries[embedded] == -sign[embedded], entries[plain] != 0))
    return list(masks[masks.any(axis=1)])


# goodpoints -----------------------------------------------------------------------------------------------------------


def kernel_thinning(points: Floats, keep: int) -> Bools | None:
    """Kernel thinning with goodpoints, to at most `keep` points whose mean is near the mean of all.

    KT-SPLIT, then KT-SWAP, by halving `ceil(log2(n / keep))` times, with the kernel 1 + x*y for both steps: its maximum
    mean discrepancy is exactly the distance of the means. The points are centred first, which changes no discrepancy
    but keeps its digits; the kernel matrix is made once (`thin_K`, the fastest entry) and no point is kept twice
    (`unique`). Thinning has no target but the mean of all points.
    """
    try:
        from goodpoints import kt  # noqa: PLC0415
    except ModuleNotFoundError:
        return None
    table, _ = _to_table(points, 0.0)
    centred = table - table.mean(axis=0)
    kernel = 1.0 + centred @ centred.T
    halvings = max(0, math.ceil(math.log2(len(table) / keep)))
    mask = np.zeros(len(table), np.bool_)
    mask[kt.thin_K(kernel, kernel, halvings, seed=0, unique=True)] = True
    return mask


# plain Python ---------------------------------------------------------------------------------------------------------


def bitset_dp(values: Floats, target: float) -> Bools:
    """Exact for whole numbers, by a bitset dynamic programme over (count, sum) in plain Python.

    Values and target are shifted by the least value, so that all steps are nonnegative. Bit s of `reach[c]` says that c
    of the records so far sum to s; a record adds `reach[c] << step` to `reach[c + 1]`, one shift and one "or" of big
    integers for each count. Of each count's sums the two on both sides of `c * target` are compared as exact fractions.
    To name the subset, the table before each record is kept (a list of references to integers that exist anyway, so
    that it costs memory, not time), and the choice is read backwards.
    """
    least = int(values.min())
    steps = [int(value) - least for value in values.tolist()]
    tables = [[1]]
    for step in steps:
        reach = tables[-1]
        grown = [old | before << step for old, before in zip(reach[1:], reach, strict=False)]
        tables.append([1, *grown, reach[-1] << step])
    goal = Fraction(target) - least
    _, count, total = min(_list_near_states(tables[-1], goal))
    return _read_back(tables, steps, count, total)


def _list_near_states(reach: list[int], goal: Fraction) -> Iterator[tuple[Fraction, int, int]]:
    """Distance, count and sum: of each count's sums those on both sides of the goal."""
    for count in range(1, len(reach)):
        for total in _find_neighbours(reach[count], math.floor(count * goal)):
            yield abs(Fraction(total, count) - goal), count, total


def _find_neighbours(sums: int, place: int) -> list[int]:
    """The highest set bit up to `place` and the lowest one above it."""
    split = max(place + 1, 0)
    below = (sums & ((1 << split) - 1)).bit_length() - 1
    above = sums >> split
    found = [below] if below >= 0 else []
    return found + ([split + (above & -above).bit_length() - 1] if above else [])


def _read_back(tables: list[list[int]], steps: list[int], count: int, total: int) -> Bools:
    """A subset of this count and sum, from the last record to the first."""
    mask = np.zeros(len(steps), np.bool_)
    for i in reversed(range(len(steps))):
        before = tables[i]
        if count < len(before) and before[count] >> total & 1:
            continue
        mask[i] = True
        count, total = count - 1, total - steps[i]
    return mask
