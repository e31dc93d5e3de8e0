"""Curvature and centres in a few bits."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vestige.statistics.coarse import (
    choose_centre,
    compose,
    decompose,
    from_bits,
    pack_centre,
    round_by_chance,
    to_bits,
    unpack_centre,
)


@given(seed=st.integers(0, 10_000), count=st.integers(1, 6))
def test_a_matrix_is_put_together_as_it_was(seed: int, count: int) -> None:
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(count, count + 2)) * 10.0 ** rng.uniform(-6.0, 6.0, (count, 1))
    matrix = root @ root.T
    scale = np.sqrt(matrix.diagonal())
    again = compose(*decompose(matrix))
    assert again / np.outer(scale, scale) == pytest.approx(matrix / np.outer(scale, scale), abs=1e-9)


@given(seed=st.integers(0, 10_000), count=st.integers(2, 6))
def test_whatever_partial_correlations_are_rounded_to_the_matrix_is_positive(seed: int, count: int) -> None:
    rng = np.random.default_rng(seed)
    partials = rng.uniform(-4.0, 4.0, count * (count - 1) // 2)
    made = compose(np.zeros(count), partials)
    assert np.linalg.eigvalsh(made).min() > 0.0
    assert made.diagonal() == pytest.approx(1.0)
    assert decompose(made)[1] == pytest.approx(partials, abs=1e-4)


def test_rounding_by_chance_is_right_on_average_and_rests_where_nothing_changes() -> None:
    rng, places = np.random.default_rng(0), np.full(100_000, 3.2)
    rounded = round_by_chance(places, 4, rng)
    assert set(rounded) == {3.0, 4.0}
    assert abs(rounded.mean() - 3.2) <= 4.0 * 0.4 / np.sqrt(len(places))
    assert (round_by_chance(np.full(1_000, 7.0), 4, rng) == 7.0).all()


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
