"""Messages in the choice of records: what can be written is written, wherever the records that cannot be kept lie."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from decoder import find_column, read_syndrome
from vestige.channels.layout import MAX_ROWS
from vestige.channels.syndrome import (
    Code,
    count_blocks,
    fill_column,
    make_code,
    prepare,
    read_message,
    write_message,
)
from vestige.types import Bools, Ints


def write(message: Bools, can: Bools, code: Code | None = None) -> tuple[int, Bools]:
    """How many rows are free, and the records that are kept."""
    code = make_code(len(message)) if code is None else code
    free, keep = prepare(can, len(message), code), np.ones(len(can), np.bool_)
    write_message(message, free, code, keep)
    assert not (keep & ~can).any(), "a wet record is never kept"
    return free, keep


def read(keep: Bools, rows: int) -> Bools:
    message = np.empty(rows, np.bool_)
    read_message(keep, message)
    assert message.tolist() == read_syndrome(np.flatnonzero(keep).tolist(), len(keep), rows)
    return message


def count_free_rows(can: Bools, rows: int) -> int:
    """The leading rows in which the columns of the dry records say everything, by listing all that they say."""
    said = {0}
    for slot in np.flatnonzero(can).tolist():
        said |= {each ^ find_column(len(can) - 1 - slot, rows) for each in said}
    free = 0
    while free < rows and len({each % 2 ** (free + 1) for each in said}) == 2 ** (free + 1):
        free += 1
    return free


@pytest.mark.parametrize("slots", [1, 2, 5, 8, 10])
def test_every_free_row_and_no_other_can_be_written_whatever_the_message_is(slots: int) -> None:
    """All sets of wet records, for all numbers of rows, against a list of all that dry records can say."""
    for rows in range(1, min(slots, 8) + 1):
        for dry in product([False, True], repeat=slots):
            can = np.array(dry)
            assert prepare(can, rows, make_code(rows)) == count_free_rows(can, rows)


@pytest.mark.parametrize("slots", [6, 9])
def test_every_message_is_read_as_it_was_written(slots: int) -> None:
    for dry in product([False, True], repeat=slots):
        can = np.array(dry)
        for bits in product([False, True], repeat=6):
            free, keep = write(np.array(bits), can)
            assert read(keep, 6)[:free].tolist() == list(bits[:free])


@settings(max_examples=30)
@given(st.integers(1, 2_600), st.integers(0, 300), st.floats(0.0, 0.9), st.integers(0, 2**32))
def test_long_messages_in_blocks_are_read_as_they_were_written(rows: int, more: int, share: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    can, message = rng.random(rows + more) >= share, rng.random(rows) < 0.5
    free, keep = write(message, can)
    assert np.array_equal(read(keep, rows)[:free], message[:free])
    assert free == rows or not can.all()


@given(st.integers(1, 200), st.integers(0, 2**32))
def test_without_wet_records_all_rows_are_free_and_one_choice_says_the_message(rows: int, seed: int) -> None:
    """The choice is unique: the syndrome of any presence is written by that presence."""
    keep = np.random.default_rng(seed).random(rows) < 0.5
    free, again = write(read(keep, rows), np.ones(rows, np.bool_))
    assert free == rows
    assert np.array_equal(again, keep)


def test_what_was_prepared_before_has_no_part_in_it() -> None:
    rng, code = np.random.default_rng(0), make_code(100)
    for share in (0.5, 0.0, 0.2, 0.9, 0.0, 0.4):
        can, message = rng.random(120) >= share, rng.random(100) < 0.5
        free, keep = write(message, can, code)
        fresh, kept = write(message, can)
        assert free == fresh
        assert np.array_equal(keep, kept)


def test_columns_are_those_of_the_definition() -> None:
    for rows in (1, 63, 64, 65, 200, MAX_ROWS):
        column = np.empty(-(-rows // 64), np.uint64)
        for slot in (*range(0, 300, 7), 63, 64, 65, 1_023, 1_024, 2_000):
            fill_column(slot, rows, column)
            bits = "".join(f"{word:064b}" for word in column.tolist())
            assert int(bits[:rows][::-1], 2) == find_column(slot, rows)
            assert "1" not in bits[rows:]


WET: dict[str, Callable[[np.random.Generator, int, int], Ints]] = {
    "anywhere": lambda rng, n, k: rng.choice(n, k, replace=False),
    "at the beginning": lambda _, n, k: np.arange(n)[:k],
    "at the end": lambda _, n, k: np.arange(n - k, n),
    "every other": lambda rng, n, k: np.arange(0, 2 * k, 2) + rng.integers(n - 2 * k + 1),
    "a run": lambda rng, n, k: np.arange(k) + rng.integers(n - k + 1),
}


@pytest.mark.parametrize("where", WET)
@pytest.mark.parametrize("wet", [1, 4, 30])
def test_each_wet_record_costs_a_row_and_all_together_one_or_two(where: str, wet: int) -> None:
    """As if H were random: 1.61 on average, with a deviation of 1.6. H is fixed, so each set counts once."""
    rng, slots = np.random.default_rng(wet), 100
    lost: dict[bytes, int] = {}
    code = make_code(slots)
    for _ in range(2_000):
        can = np.ones(slots, np.bool_)
        can[WET[where](rng, slots, wet)] = False
        lost[can.tobytes()] = slots - wet - prepare(can, slots, code)
    assert min(lost.values()) >= 0
    assert np.mean(list(lost.values())) <= 1.61 + 4.0 * 1.6 / np.sqrt(len(lost))


def test_the_loss_is_that_of_a_random_matrix() -> None:
    """Rows of which there are d fewer than columns have full rank with probability prod_{i>d} (1 - 2^-i)."""
    rng, slots, wet = np.random.default_rng(1), 120, 40
    code, lost = make_code(slots), []
    for _ in range(4_000):
        can = np.ones(slots, np.bool_)
        can[rng.choice(slots, wet, replace=False)] = False
        lost.append(slots - wet - prepare(can, slots, code))
    within = [float(np.prod(1.0 - 0.5 ** np.arange(d + 1.0, 60.0))) for d in range(8)]
    for d, chance in enumerate(within):
        found = np.mean(np.array(lost) <= d)
        assert abs(found - chance) <= 4.5 * np.sqrt(chance * (1.0 - chance) / len(lost)) + 0.01, d
    assert np.mean(lost) == pytest.approx(sum(1.0 - chance for chance in within), abs=0.15)


def test_more_records_than_rows_pay_for_wet_ones() -> None:
    rng = np.random.default_rng(2)
    for _ in range(200):
        can = np.ones(160, np.bool_)
        can[rng.choice(160, 40, replace=False)] = False
        free, keep = write(rng.random(100) < 0.5, can)
        assert free == 100
        assert keep.any()


def test_time_and_memory_are_linear_in_the_length() -> None:
    """40,000 rows, a fifth of the records wet."""
    rng, rows = np.random.default_rng(3), 40_000
    code, message = make_code(rows), rng.random(rows) < 0.5
    half = make_code(rows // 2)
    assert sum(part.nbytes for part in code) <= 2.1 * sum(part.nbytes for part in half)
    free, keep = write(message, rng.random(rows) >= 0.2, code)
    assert 0.75 * rows < free < 0.8 * rows
    assert np.array_equal(read(keep, rows)[:free], message[:free])


@pytest.mark.parametrize(("rows", "wet"), [(40, 4), (2 * MAX_ROWS, 16)])
def test_rows_that_are_not_free_come_out_at_random(rows: int, wet: int) -> None:
    """In blocks without wet records too: bits that were always zero would bias those who read them."""
    rng, trials = np.random.default_rng(1), 400
    can = np.ones(rows, np.bool_)
    can[::-1][: wet * count_blocks(rows) : count_blocks(rows)] = False  # all in the first block
    ones = np.zeros(rows)
    for _ in range(trials):
        message = rng.random(rows) < 0.5
        free, keep = write(np.where(np.arange(rows) < rows - 2 * wet * count_blocks(rows), message, False), can)
        ones += read(keep, rows)
    assert rows - 2 * wet * count_blocks(rows) < free < rows
    assert np.abs(ones[free:] / trials - 0.5).max() < 5.0 / np.sqrt(4 * trials)
