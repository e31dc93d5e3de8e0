"""Positions of records: by ids that count up, whatever their spacing and prefix, else by rank."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from vestige.audit.numbering import NOWHERE, find_missing, list_numberings, parse_numbers
from vestige.types import Ints

NONE = np.zeros(0, np.int64)


def number(ids: Ints, order: Ints | None = None) -> list[tuple[str, list[int]]]:
    sorted_ids = np.argsort(ids) if order is None else order
    found = list_numberings(ids, sorted_ids, [np.arange(len(ids))], NONE)
    return [(each.name, each.positions.tolist()) for each in found]


@pytest.mark.parametrize(
    ("texts", "numbers"),
    [
        (["7", "12"], [7, 12]),
        (["INV-0007", "INV-0012"], [7, 12]),
        (["0", "00"], [0, 0]),
        (["a7", "b7"], None),
        (["7a", "8b"], None),
        (["7", ""], None),
        (["9" * 19], None),
    ],
)
def test_ids_are_numbers_with_one_prefix_or_none(texts: list[str], numbers: list[int] | None) -> None:
    found = parse_numbers(texts)
    assert (None if found is None else found.tolist()) == numbers


def test_steps_and_residues_that_no_id_has_are_not_gaps() -> None:
    rounds = np.arange(1, 301)
    assert number(10 * rounds) == [("ids", rounds.tolist())]
    assert [name for name, _ in number(rounds * 3 // 2)] == ["ids"]
    assert np.diff(number(rounds * 3 // 2)[0][1]).tolist() == [1] * 299
    assert np.diff(number(2 * rounds + 1)[0][1]).tolist() == [1] * 299


@pytest.mark.parametrize("space", [lambda n: n, lambda n: 10 * n, lambda n: n * 3 // 2, lambda n: 2 * n + 1])
def test_documented_removals_lie_where_their_ids_do(space: Callable[[Ints], Ints]) -> None:
    rounds = np.arange(1, 301)
    gone = np.random.default_rng(0).random(300) < 0.2
    seen, unseen = space(rounds[~gone]), space(rounds[gone])
    others = np.setdiff1d(np.arange(400), space(rounds))
    found = list_numberings(seen, np.argsort(seen), [], np.concatenate((unseen, others)))[0]
    together = np.sort(np.concatenate((found.positions, found.unseen[found.unseen != NOWHERE])))
    assert np.isin(np.diff(together), [1]).all(), "each number once, and none is missing"


def test_gaps_that_may_be_choices_stay_gaps() -> None:
    kept = np.flatnonzero(np.random.default_rng(0).random(300) < 0.5) + 1
    (by_id, positions), (by_rank, ranks) = number(kept)
    assert (by_id, by_rank) == ("ids", "ranks")
    assert positions == kept.tolist()
    assert ranks == list(range(1, len(kept) + 1))


def test_ids_that_do_not_count_records_are_ranked() -> None:
    rng = np.random.default_rng(0)
    assert [name for name, _ in number(np.sort(rng.integers(0, 2**60, 100)))] == ["ranks"], "too sparse"
    ids = np.arange(1, 101)
    assert [name for name, _ in number(ids, order=rng.permutation(100))] == ["ranks"], "not in order of arrival"


def test_what_is_missing() -> None:
    assert find_missing(np.array([3, 4, 7, 9])).tolist() == [5, 6, 8]
