"""Pages of names are those of the sorted names, whatever comes and goes between them."""

from __future__ import annotations

import numpy as np
import pytest

from vestige.keyed.names import KeyNames, read_keys
from vestige.service import name_index
from vestige.service.name_index import NameIndex, sort_names


def list_all(index: NameIndex, names: KeyNames, limit: int) -> list[str]:
    found: list[str] = []
    while page := index.page(names, found[-1] if found else None, limit):
        found += page
    return found


@pytest.mark.parametrize("few", [0, 3, 1_000])
def test_pages_are_those_of_the_sorted_names(few: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(name_index, "_FEW", few)
    rng, index, names = np.random.default_rng(0), NameIndex(), KeyNames()
    letters = list("abü𝄞é/ ")
    assert list_all(index, names, 3) == []
    for _ in range(60):
        new = ["".join(rng.choice(letters, rng.integers(1, 5))) for _ in range(rng.integers(0, 20))]
        if new:
            names.number(read_keys(new))
        there = sorted(names)
        for name in rng.permutation(there)[: rng.integers(0, 6)] if there else ():
            number = names.find(str(name))
            assert number is not None
            names.remove(number)
        copied = index.copy_unsorted(names) if rng.random() < 0.5 else None
        if copied is not None:
            names.number(read_keys(["while it was sorted"]))
            index.install(copied, sort_names(copied.texts))
        assert list_all(index, names, int(rng.integers(1, 9))) == sorted(names)
    fresh = KeyNames()
    fresh.number(read_keys(["after a reload", "others"]))
    assert list_all(index, fresh, 1) == ["after a reload", "others"]


def test_a_page_after_a_name_that_is_gone_goes_on_behind_it() -> None:
    names, index = KeyNames(), NameIndex()
    names.number(read_keys(["a", "b", "c"]))
    assert index.page(names, None, 2) == ["a", "b"]
    names.remove(1)
    assert index.page(names, "b", 2) == ["c"]
