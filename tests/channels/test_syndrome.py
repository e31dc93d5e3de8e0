"""Messages in the presence of records, against elimination by hand."""

from __future__ import annotations

import numpy as np
import pytest

from vestige.channels.layout import MAX_ROWS
from vestige.channels.syndrome import (
    count_blocks,
    fill_column,
    make_code,
    prepare,
    read_message,
    write_message,
)
from vestige.types import Bools

RNG = np.random.default_rng


def make_matrix(rows: int, slots: int) -> list[int]:
    """H of one block, its columns as numbers whose highest bit is row 0."""
    columns, column = [], np.zeros((rows + 63) // 64, np.uint64)
    for slot in range(slots):
        fill_column(slot, rows, column)
        columns.append(sum(int(word) << 64 * (len(column) - 1 - w) for w, word in enumerate(column)))
    return [number >> (64 * len(column) - rows) for number in columns]


def count_independent(columns: list[int]) -> int:
    """The rank of columns of bits."""
    basis: dict[int, int] = {}
    for column in columns:
        rest = column
        while rest and rest.bit_length() in basis:
            rest ^= basis[rest.bit_length()]
        if rest:
            basis[rest.bit_length()] = rest
    return len(basis)


def write(message: Bools, can: Bools) -> tuple[int, Bools, Bools]:
    """How many rows are free, what is kept for a message, and what is read."""
    code, keep, read = make_code(len(message)), np.zeros(len(can), np.bool_), np.zeros(len(message), np.bool_)
    free = prepare(can, len(message), code)
    write_message(message, free, code, keep)
    read_message(keep, read)
    return free, keep, read


@pytest.mark.parametrize(("rows", "slots"), [(1, 1), (20, 20), (22, 40), (64, 64), (65, 300), (130, 131)])
@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.9])
def test_as_many_leading_rows_are_free_as_their_rank_allows(rows: int, slots: int, share: float) -> None:
    rng, columns = RNG(rows), make_matrix(rows, slots)
    for _ in range(10):
        can, message = rng.random(slots) >= share, rng.random(rows) < 0.5
        free, keep, read = write(message, can)
        dry = [column for column, dry in zip(columns, can, strict=True) if dry]
        ranks = [count_independent([column >> (rows - leading) for column in dry]) for leading in range(rows + 1)]
        assert free == max(leading for leading in range(rows + 1) if ranks[leading] == leading)
        assert not (keep & ~can).any()
        assert (read[:free] == message[:free]).all()
        by_hand = 0
        for column, kept in zip(columns, keep, strict=True):
            by_hand ^= column if kept else 0
        assert [bool(by_hand >> (rows - 1 - i) & 1) for i in range(rows)] == read.tolist()


@pytest.mark.parametrize("rows", [MAX_ROWS, MAX_ROWS + 1, 5 * MAX_ROWS + 3])
def test_long_messages_in_blocks(rows: int) -> None:
    rng = RNG(0)
    slots = rows + rows // 4
    can, message = rng.random(slots) >= 0.1, rng.random(rows) < 0.5
    free, keep, read = write(message, can)
    assert free == rows
    assert (read == message).all()
    assert not (keep & ~can).any()


def test_a_wet_record_costs_one_row_wherever_it_lies() -> None:
    for slot in range(40):
        can = np.ones(40, np.bool_)
        can[slot] = False
        free, _, _ = write(np.zeros(40, np.bool_), can)
        assert slot <= free < 40
    losses = []
    for seed in range(400):
        can = np.ones(200, np.bool_)
        can[RNG(seed).choice(200, 20, replace=False)] = False
        losses.append(180 - write(np.zeros(200, np.bool_), can)[0])
    # k rows fewer than dry records are all free but for a chance of 2^-k: the loss is at most 2 on average
    assert min(losses) >= 0
    assert np.mean(losses) < 2.0
    assert np.mean(np.array(losses) > 6) < 0.04


@pytest.mark.parametrize(("rows", "wet"), [(40, 4), (2 * MAX_ROWS, 16)])
def test_rows_that_are_not_free_come_out_at_random(rows: int, wet: int) -> None:
    """In blocks without wet records too: bits that were always zero would bias those who read them."""
    rng, trials = RNG(1), 400
    can = np.ones(rows, np.bool_)
    can[: wet * count_blocks(rows) : count_blocks(rows)] = False  # all in the first block
    ones = np.zeros(rows)
    for _ in range(trials):
        message = rng.random(rows) < 0.5
        free, _, read = write(np.where(np.arange(rows) < rows - 2 * wet * count_blocks(rows), message, False), can)
        ones += read
    assert rows - 2 * wet * count_blocks(rows) < free < rows
    assert np.abs(ones[free:] / trials - 0.5).max() < 5.0 / np.sqrt(4 * trials)
