"""Curvature and centres in a few bits."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vestige.statistics.coarse import (
    Codes,
    choose_centre,
    code_curvature,
    decode_curvature,
    decompose,
    from_bits,
    pack_centre,
    round_by_chance,
    to_bits,
    unpack_centre,
    unpack_codes,
)
from vestige.types import Floats


def draw(rng: np.random.Generator, count: int) -> Floats:
    """A matrix of curvature of columns of any scale that nearly follow from each other."""
    rows = rng.normal(size=(count + 2, 1)) + 10.0 ** rng.uniform(-2.0, 1.0) * rng.normal(size=(count + 2, count))
    rows = rows * 10.0 ** rng.uniform(-6.0, 6.0, count)
    return np.asarray(rows.T @ rows)


def compare(matrix: Floats, other: Floats) -> Floats:
    """What one is of the other, in all directions."""
    root = np.linalg.cholesky(other)
    return np.linalg.eigvalsh(np.linalg.solve(root, np.linalg.solve(root, matrix).T))


@given(seed=st.integers(0, 10_000), count=st.integers(1, 6))
def test_a_matrix_is_put_together_as_it_was(seed: int, count: int) -> None:
    matrix = draw(np.random.default_rng(seed), count)
    curvature = decompose(matrix, 3.0 * matrix)
    assert compare(curvature.compose(), matrix) == pytest.approx(1.0, abs=1e-6)
    assert compare(curvature.compose_squares(), matrix) == pytest.approx(3.0, abs=1e-5)


@given(seed=st.integers(0, 10_000), count=st.integers(2, 6), digits=st.integers(3, 5))
def test_a_rounded_matrix_is_nearly_the_same_in_all_directions(seed: int, count: int, digits: int) -> None:
    rng = np.random.default_rng(seed)
    matrix = draw(rng, count)
    codes = [code.numbers for code in code_curvature(decompose(matrix), digits, True, rng)]
    read = decode_curvature(codes, np.ones(count, np.bool_), digits, False)
    # a logarithm is off by at most a step, and each of the ties of a row by a step of sqrt(2) to a higher power
    step = 2.0**-digits
    most = 2.0 ** (step / 2.0) + count * step * np.sqrt(2.0) * 2.0 ** (step / 2.0)
    found = compare(read.compose(), matrix)
    assert found.max() <= most**2
    again = [code.numbers for code in code_curvature(read, digits, True, rng)]
    assert all((one == other).all() for one, other in zip(codes, again, strict=True)), "what is written rests"


def test_a_direction_of_which_nothing_is_known_is_left_out() -> None:
    matrix = np.diag([2.0, 0.0, 3.0])
    matrix[0, 2] = matrix[2, 0] = 1.0
    curvature = decompose(matrix, matrix)
    assert curvature.said.tolist() == [True, False, True]
    codes = code_curvature(curvature, 5, True, np.random.default_rng(0))
    assert [len(code.numbers) for code in codes] == [2, 2, 1]
    read = decode_curvature([code.numbers for code in codes], curvature.said, 5, True)
    assert read.compose() == pytest.approx(matrix, abs=0.2)


def test_a_predictor_that_follows_from_another_has_the_largest_tie() -> None:
    assert decompose(np.ones((2, 2))).ties == pytest.approx([512.0])


@given(numbers=st.lists(st.integers(-(2**24), 2**24), max_size=20), size=st.integers(0, 8))
def test_whole_numbers_are_read_from_bits_as_many_as_they_need(numbers: list[int], size: int) -> None:
    codes = Codes(np.array(numbers, np.float64), size)
    bits = codes.pack()
    assert len(bits) == codes.count_bits()
    read, end = unpack_codes(bits, 0, len(numbers), size)
    assert (read == codes.numbers).all()
    assert end == len(bits)


def test_bits_that_are_no_numbers_are_read_as_none() -> None:
    assert np.isnan(unpack_codes(np.ones(200, np.bool_), 0, 2, 3)[0]).all()


def test_rounding_by_chance_is_right_on_average_and_rests_where_nothing_changes() -> None:
    rng, places = np.random.default_rng(0), np.full(100_000, 3.2)
    rounded = round_by_chance(places, rng)
    assert set(rounded) == {3.0, 4.0}
    assert abs(rounded.mean() - 3.2) <= 4.0 * 0.4 / np.sqrt(len(places))
    assert (round_by_chance(np.full(1_000, 7.0), rng) == 7.0).all()


def test_whole_numbers_are_read_from_their_bits() -> None:
    codes = np.array([0.0, 1.0, 5.0, 31.0])
    assert (from_bits(to_bits(codes, 5), 0, 4, 5) == codes).all()


@given(
    middle=st.floats(-1e12, 1e12),
    spread=st.floats(1e-3, 1e3),
    seed=st.integers(0, 1_000),
)
def test_a_centre_is_near_and_is_read_from_records_up_to_some_deviations_away(
    middle: float, spread: float, seed: int
) -> None:
    centre = choose_centre(middle, spread)
    assert abs(centre - middle) <= 1.5 * spread
    rng = np.random.default_rng(seed)
    held = middle + spread * rng.uniform(-8.0, 8.0, 1) + spread * rng.normal(size=15)
    bits = pack_centre(centre)
    assert unpack_centre(bits, 0, held) == (centre, len(bits))


def test_records_between_two_centres_do_not_say_which() -> None:
    centre = choose_centre(1e6, 1.0)
    bits = pack_centre(centre)
    assert np.isnan(unpack_centre(bits, 0, np.full(9, centre + 16.0))[0])
    assert unpack_centre(pack_centre(0.0), 0, np.full(9, 1e9))[0] == 0.0
